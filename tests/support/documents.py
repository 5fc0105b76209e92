"""Documents of reports: as JSON, and compared with that of the same target that was made in another way."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

from gdbext.model import Report
from gdbext.render.escape import json_line
from gdbext.schema.write import PARTS, document

Json = Any

#: Differences that remain, as (program, pattern of the whole line of `differences`, reason). Each line needs a row.
EXPLAINED = (
    # the debug information has no return types and spells templates otherwise than the demangler
    ("pybind11_static", r".*(why|why_code\.arguments\.function): "
     r"'(.* )?pybind11::detail::function_ref<.*\| '(.* )?pybind11::object pybind11::detail::function_ref<",
     "GDB makes the name of an instance of a template from the debug information, we from the symbol"),
    ("blocked", r"\.threads\[\d+\]\.blocked_on(: 'sleeps for [\d.]+ s more' \| 'sleeps for [\d.]+ s more'"
     r"|_code\.arguments\.seconds: '[\d.]+' \| '[\d.]+')$",
     "the rest of the time is shorter in the later report"),
    ("qt-locks", r".*(why|why_code\.arguments\.function): '_FUN\b.* \| '.*::\{lambda\(void\*\)#1\}::_FUN",
     "GDB takes the name of a lambda from the debug information, which does not say where it is, we from the symbol"),
)


def as_json(report: Report, parts: Collection[str] = PARTS) -> str:
    """The document as commands write it."""
    return json_line(document(report, parts))[:-1]


#: What is left out if a whole stack is missing, or what code proves.
_NEEDS_GDB = frozenset(("frames", "instructions"))
#: Members of native frames that only GDB knows.
_ONLY_GDB = ("locals",)


def comparable(value: Json) -> Json:
    """A document without what only GDB knows, the line about that, and where exactly threads run."""
    if isinstance(value, list):
        return [comparable(each) for each in value]
    if not isinstance(value, dict):
        return value
    kept = {name: comparable(each) for name, each in value.items()
            if value.get("language") != "native" or name not in _ONLY_GDB}
    # time passes from one report to the next, and GDB has run each thread when it stopped it
    kept.pop("since", None)
    if kept.get("what") == "time" or "frame" in kept:
        kept.pop("seconds", None)
    if kept.get("status") == "running" and kept.get("stack"):  # at another instruction each time
        for name in ("pc", "line"):
            kept["stack"][0].pop(name, None)
    if "problems" in kept:
        kept["problems"] = [each for each in kept["problems"]
                            if (each.get("why_code") or {}).get("code") != "made-without-gdb"]
    return kept


def differences(by_gdb: Json, direct: Json, path: str = "") -> Iterator[str]:
    """The places in which two documents differ."""
    if isinstance(by_gdb, dict) and isinstance(direct, dict):
        for name in sorted(by_gdb.keys() | direct.keys()):
            yield from differences(by_gdb.get(name), direct.get(name), f"{path}.{name}")
    elif isinstance(by_gdb, list) and isinstance(direct, list) and len(by_gdb) == len(direct):
        for index, (one, other) in enumerate(zip(by_gdb, direct)):
            yield from differences(one, other, f"{path}[{index}]")
    elif by_gdb != direct:
        yield f"{path}: {by_gdb!r:.200} | {direct!r:.200}"


def left_out(document: Json) -> set[str]:
    """What a report without GDB leaves out, by the line that says so."""
    codes = [each.get("why_code") or {} for each in document["problems"]]
    return {what for code in codes if code.get("code") == "made-without-gdb" for what in code["arguments"]["lacks"]}


def unexplained(program: str, by_gdb: Json, direct: Json, left_out: Collection[str]) -> list[str]:
    """The differences of two documents of one program that no row of `EXPLAINED` explains.

    :param left_out: what the second one leaves out; if that matters to holders or stacks, nothing is compared.
    """
    if not _NEEDS_GDB.isdisjoint(left_out):
        return []
    return [line for line in differences(comparable(by_gdb), comparable(direct))
            if not line.startswith((".target.paused", ".target.time"))  # taken one after the other
            and not any(name == program and re.match(pattern, line, re.DOTALL) for name, pattern, _ in EXPLAINED)]
