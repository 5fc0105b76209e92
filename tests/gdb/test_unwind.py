"""The native unwinder compared with GDB's, frame by frame, on every thread of real programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import combinations, cores, gdb_session, interpreters, samples

# prints, for each thread, both stacks as (program counter, stack pointer), and how often gdbext's unwinder gave up
COMPARE = """
import json
from gdbext.debugger.target import session
from gdbext.arch.x86_64.unwind import Unwinder
from gdbext.arch.frame_rules import CannotUnwind
rows = []
with session() as target:
    unwinder = Unwinder(target.memory, target.modules())
    for thread in target.threads():
        registers = target.registers(thread)
        try:
            ours = unwinder.unwind({"rip": registers["rip"], "rsp": registers["rsp"], "rbp": registers["rbp"]}, 1000)
        except CannotUnwind as error:
            ours = str(error)
        rows.append([thread.lwp, ours, target.unwind(thread, 1000)])
print(json.dumps(rows))
"""


def compare(where: list[str | Path], script: Path, *, symbols: bool) -> list[tuple[int, object, object]]:
    script.write_text(COMPARE)
    session = gdb_session.batch(where, ["set backtrace past-main on", f"source {script}"], symbols=symbols)
    assert session.status == 0, session.stderr
    rows: Any = session.document(1)
    return [(lwp, ours, theirs) for lwp, ours, theirs in rows]


@pytest.mark.parametrize(("name", "variant", "target"),
                         combinations.cases(interpreters.NAMES, ("readers",), ("live", "core")))
def test_unwinder_matches_gdb_in_python(name: str, variant: str, target: str, tmp_path: Path) -> None:
    python, symbols = interpreters.use(name)
    with samples.rapids(python, variant, tmp_path, interpreters.with_gil(name)) as sample:
        where: list[str | Path] = ["-p", str(sample.pid)]
        if target == "core":
            where = [python, cores.kernel_core(sample)]
        rows = compare(where, tmp_path / "compare.py", symbols=symbols)
        assert {lwp for lwp, _, _ in rows} == {thread.tid for thread in sample.truth.threads.values()}
    for lwp, ours, theirs in rows:
        assert ours == theirs, lwp


@pytest.mark.parametrize("stripped", [False, True])
def test_unwinder_matches_gdb_in_native_programs(stripped: bool, tmp_path: Path) -> None:
    with samples.abba("mutex", tmp_path, stripped=stripped) as sample:
        rows = compare(["-p", str(sample.pid)], tmp_path / "compare.py", symbols=not stripped)
    assert len(rows) == 3
    for lwp, ours, theirs in rows:
        assert ours == theirs, lwp


# prints, for each thread, the registers that differ between GDB and the core's notes
REGISTERS = """
import json
import gdb
from gdbext.debugger.target import session
from gdbext.arch import x86_64
from gdbext.elf.core_file import read_core_file
core, rows = read_core_file({core!r}), []
for thread in gdb.selected_inferior().threads():
    thread.switch()
    saved = x86_64.core_registers(core.by_lwp[thread.ptid[1]].state)
    theirs = {{name: int(gdb.newest_frame().read_register(name)) & (1 << 64) - 1 for name in saved}}
    rows.append([len(saved), {{name: (saved[name], theirs[name]) for name in saved if saved[name] != theirs[name]}}])
with session() as target:
    # GDB is not asked
    target._switch = None
    assert all(len(target.registers(thread)) > 10 for thread in target.threads())
print(json.dumps(rows))
"""


@pytest.mark.parametrize("how", [cores.kernel_core, cores.gdb_core])
def test_registers_match_gdb_in_cores(how: Callable[[samples.Sample], Path], tmp_path: Path) -> None:
    with samples.abba("mutex", tmp_path) as sample:
        core = how(sample)
    script = tmp_path / "registers.py"
    script.write_text(REGISTERS.format(core=str(core)))
    session = gdb_session.batch([sample.executable, core], [f"source {script}"])
    rows: Any = session.document(0)
    assert rows == [[27, {}]] * 3
    core.unlink()
