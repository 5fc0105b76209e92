"""Compares reports of one target that were made in different ways."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Json = Any

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
    if kept.get("status") == "running" and kept.get("stack"):  # at another instruction each time
        kept["stack"][0].pop("pc", None)
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
