"""Variables of real frames as text: what Python itself writes of them, told without running any of its code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import cores, gdb_session, interpreters, roots, samples
from tests.support.samples import Sample

NAMES = ("3.6", "3.8", "3.9", "3.11", "3.12", "3.13", "3.12-stripped", "3.13t", "3.13t-stripped", "sid-3.14",
         "sid-3.15")
#: A core is looked at for one interpreter: there, too, values are read from memory.
CORE_OF = "3.12-stripped"
CASES = [*((name, "live") for name in NAMES), (CORE_OF, "core")]
FUNCTIONS = ("plain", "containers", "objects")

# what GDB runs: the variables of every frame, and how long they took, go into a file
LOOK = '''
import json, time
from gdbext.snapshot import take_snapshot
from gdbext.cpython.values import Limits, ValueReader, locals_of
from gdbext.debugger.target import session

with session() as target:
    (python,) = take_snapshot(target)._python.pythons
    reader = ValueReader(target.memory, python.runtime.layouts, python.objects)
    (interpreter,) = python.interpreters
    tstate = interpreter.threads[-1].address
    frames = [raw for raw in python.frames.raw(tstate) if raw.frame.file.endswith("values.py")]
    start = time.monotonic()
    told = {raw.frame.function: locals_of(python.frames, reader, raw) for raw in frames}
    seconds = time.monotonic() - start
    (module,) = {python.frames.globals(raw) for raw in frames}
    wide = reader.text(module, Limits(depth=6, items=1000, characters=100_000))
with open(PATH, "w") as file:
    json.dump({"told": told, "seconds": seconds, "wide": wide}, file)
'''


@dataclass(frozen=True)
class Look:
    """What the sample said of its variables, what was read of them, and the session."""

    expected: dict[str, list[list[str]]]
    found: dict[str, Any]
    session: gdb_session.Result


@pytest.fixture(scope="module", params=CASES, ids=["-".join(case) for case in CASES])
def look(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Look]:
    name, kind = request.param
    directory = tmp_path_factory.mktemp("values")
    running: AbstractContextManager[Sample]
    if name in interpreters.ROOT_PYTHONS:
        root = roots.use_python(name)
        python, symbols, gdb = root.python, False, root.gdb
        running = samples.values(python, directory, place=root.place, variables=dict(root.variables))
    else:
        python, symbols = interpreters.use(name)
        gdb = ()
        running = samples.values(python, directory)
    script, result = directory / "look.py", directory / "found.json"
    script.write_text(f"PATH = {str(result)!r}\n{LOOK}")
    with running as sample:
        where: list[str | Path] = ["-p", str(sample.pid)]
        if kind == "core":
            where = [python, cores.kernel_core(sample)]
        session = gdb_session.batch(where, [f"source {script}"], symbols=symbols, gdb=gdb)
        assert result.exists(), session
        yield Look(json.loads((directory / "values.json").read_text()), json.loads(result.read_text()), session)
    if kind == "core":
        Path(where[1]).unlink()


def test_every_variable_is_told_as_python_tells_it(look: Look) -> None:
    assert set(look.found["told"]) == {"<module>", "hang", *FUNCTIONS}
    for function, rows in look.expected.items():
        found = {name: told for name, *told in look.found["told"][function]}
        assert set(found) == {name for name, *_ in rows}
        assert {name: (told, found[name]) for name, *told in rows if told != found[name]} == {}
    assert sum(map(len, look.expected.values())) > 100


def test_nothing_goes_wrong(look: Look) -> None:
    assert look.session.status == 0
    assert "Traceback" not in look.session.stderr
    assert look.found["seconds"] < 5


def test_more_is_told_where_more_is_asked_for(look: Look) -> None:
    wide = look.found["wide"]
    assert wide.startswith("{'__name__': '__main__', ")
    assert "'Colour': <class '__main__.Colour'>" in wide
    assert "<function countdown at 0x" in wide
    assert 2_000 < len(wide) < 110_000
    assert "<unreadable>" not in wide


def test_the_cases_are_one_for_each_shape() -> None:
    assert {name.partition("-")[0] for name in NAMES} >= {*interpreters.MAIN_VERSIONS, "3.6", "3.8", "3.13t"}
