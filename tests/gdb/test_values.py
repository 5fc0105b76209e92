"""Variables of real frames as text: the same as `repr` in Python, without running code of the target."""

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
#: A core is tested with one interpreter, because values are read from memory there too.
CORE_OF = "3.12-stripped"
CASES = [*((name, "live") for name in NAMES), (CORE_OF, "core")]
FUNCTIONS = ("plain", "containers", "objects")

# GDB writes the variables of every frame, and the time it took, to a file
SCRIPT = '''
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
    rows = {raw.frame.function: locals_of(python.frames, reader, raw) for raw in frames}
    seconds = time.monotonic() - start
    (module,) = {python.frames.globals(raw) for raw in frames}
    wide = reader.text(module, Limits(depth=6, items=1000, characters=100_000))
with open(PATH, "w") as file:
    json.dump({"rows": rows, "seconds": seconds, "wide": wide}, file)
'''


@dataclass(frozen=True)
class Snapshot:
    """The sample's own text of its variables, the text that was read, and the session."""

    expected: dict[str, list[list[str]]]
    found: dict[str, Any]
    session: gdb_session.Result


@pytest.fixture(scope="module", params=CASES, ids=["-".join(case) for case in CASES])
def snapshot(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Snapshot]:
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
    script, result = directory / "values.gdb.py", directory / "found.json"
    script.write_text(f"PATH = {str(result)!r}\n{SCRIPT}")
    with running as sample:
        where: list[str | Path] = ["-p", str(sample.pid)]
        if kind == "core":
            where = [python, cores.kernel_core(sample)]
        session = gdb_session.batch(where, [f"source {script}"], symbols=symbols, gdb=gdb)
        assert result.exists(), session
        yield Snapshot(json.loads((directory / "values.json").read_text()), json.loads(result.read_text()), session)
    if kind == "core":
        Path(where[1]).unlink()


def test_values_match_repr(snapshot: Snapshot) -> None:
    assert set(snapshot.found["rows"]) == {"<module>", "hang", *FUNCTIONS}
    for function, rows in snapshot.expected.items():
        found = {name: text for name, *text in snapshot.found["rows"][function]}
        assert set(found) == {name for name, *_ in rows}
        assert {name: (text, found[name]) for name, *text in rows if text != found[name]} == {}
    assert sum(map(len, snapshot.expected.values())) > 100


def test_values_are_read_quickly_without_errors(snapshot: Snapshot) -> None:
    assert snapshot.session.status == 0
    assert "Traceback" not in snapshot.session.stderr
    assert snapshot.found["seconds"] < 5


def test_larger_limits_give_longer_values(snapshot: Snapshot) -> None:
    wide = snapshot.found["wide"]
    assert wide.startswith("{'__name__': '__main__', ")
    assert "'Colour': <class '__main__.Colour'>" in wide
    assert "<function countdown at 0x" in wide
    assert 2_000 < len(wide) < 110_000
    assert "<unreadable>" not in wide


def test_cases_have_one_version_for_each_shape() -> None:
    assert {name.partition("-")[0] for name in NAMES} >= {*interpreters.MAIN_VERSIONS, "3.6", "3.8", "3.13t"}
