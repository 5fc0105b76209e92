"""The report of a target made without GDB, compared field by field with GDB's in the same test."""

from __future__ import annotations

import contextlib
import gc
import json
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from gdbext.direct.unmoved import read_unmoved
from gdbext.inferior.budget import Budget
from gdbext.launcher.snapshots.cores import prepare_core
from gdbext.launcher.snapshots.limit import Limit
from gdbext.layout import select
from gdbext.model import Report
from gdbext.schema.shapes import PARTS_OF_REPORT
from gdbext.schema.write import document
from gdbext.snapshot import Snapshot, take_snapshot
from gdbext.targets import source_lines
from gdbext.targets import symbols as symbol_files
from gdbext.targets.core import CoreTarget
from tests.support import gdb_session
from tests.support.documents import unexplained
from tests.support.samples import Sample
from tests.support.without_gdb import Json, added

#: The command whose document is compared.
COMMAND = "py-threads-locks --json"
#: How many open files are closed.
_MANY_FILES = 200
#: How long either may read a process, or debug information: the tests beside this one take the processor from it.
_SECONDS = 120
#: How often the two reports on a process are compared until they agree.
_LOOKS = 5

_Made = TypeVar("_Made")


def batch(sample: Sample, where: Sequence[str | Path], commands: Sequence[str], *, symbols: bool = True,
          directory: Path | None = None) -> gdb_session.Result:
    """Run commands in GDB, one of which is `COMMAND`, and compare its document with the one made without GDB.

    The test fails if they differ and nothing explains it.

    :param where: GDB's arguments for a process or a core of the sample, as of `tests.support.cores.place`.
    :param symbols: whether detached symbols are found.
    """
    # the two reports on a process are of different moments: its threads wake up, and other processes come and go
    for _ in range(_LOOKS if where[0] == "-p" else 1):
        session, differing = _compared(sample, where, commands, symbols, directory)
        if not differing:
            break
    else:
        pytest.fail("\n".join(["the report without GDB (on the right) is another one", *differing]), pytrace=False)
    return session


def _compared(sample: Sample, where: Sequence[str | Path], commands: Sequence[str], symbols: bool,
              directory: Path | None) -> tuple[gdb_session.Result, list[str]]:
    """The session, and the differences that nothing explains."""
    if where[0] == "-p":
        # before GDB, which stops the threads: that ends some system calls
        report, left_out = of_process(int(str(where[1])), symbols)
        sample.wait_until_final()
    else:
        executable, core = map(Path, where)
        report, left_out = of_core(core, executable, symbols, lambda snapshot: snapshot.judged_report(lambda _: True))
    session = gdb_session.batch(where, commands, symbols=symbols, directory=directory, max_pause=_SECONDS)
    by_gdb = session.document(commands.index(COMMAND))
    return session, differing_lines(sample.truth.sample, by_gdb, report, left_out)


def differing_lines(program: str, by_gdb: Json, report: Report, left_out: Collection[str]) -> list[str]:
    """The differences of a report from GDB's document of the same program that nothing explains."""
    made = json.loads(json.dumps(document(report, PARTS_OF_REPORT.keys())))
    direct = {member: made[member] for member in by_gdb}
    return [*added(by_gdb, direct), *unexplained(program, by_gdb, direct, left_out)]


def of_process(pid: int, symbols: bool) -> tuple[Report, set[str]]:
    """The report on a process, and what it leaves out."""
    _close_files()
    with _symbols_as_gdb(symbols):
        process, report, _ = read_unmoved(pid, seconds=_SECONDS)
        return report, process.left_out()


def of_core(core: Path, executable: Path, symbols: bool,
            make: Callable[[Snapshot], _Made]) -> tuple[_Made, set[str]]:
    """What is made of a snapshot of a core, and what it leaves out."""
    _close_files()
    with _symbols_as_gdb(symbols), prepare_core(
            core, executable, None, (), Limit(60)) as prepared, Budget(60) as budget:
        assert prepared.core is not None
        target = CoreTarget(prepared.core, prepared.executable, prepared.places)
        return make(take_snapshot(target, True, budget)), target.left_out()


def _close_files() -> None:
    """Close the files of earlier targets, which only the collector of cycles frees: select() takes 1,024 descriptors.

    The launcher reads each target in a process of its own.
    """
    if len(os.listdir("/proc/self/fd")) > _MANY_FILES:
        gc.collect()


@contextlib.contextmanager
def _symbols_as_gdb(symbols: bool) -> Iterator[None]:
    """Without separate debug files where GDB does without them, and with as much time to read debug information.

    GDB reads the package's own tables, without those that `tests.support.versions` adds.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_lines, "SECONDS", _SECONDS)
        patch.setattr(select, "_TABLES", os.path.join(select._HOME, "tables"))
        select._tables.cache_clear()
        if not symbols:
            patch.setattr(symbol_files, "DEBUG_FOLDER", "/nonexistent")
        yield
    select._tables.cache_clear()
