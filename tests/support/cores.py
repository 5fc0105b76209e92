"""Cores of running samples, written by GDB or by the kernel."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import combinations, gdb_session
from tests.support.samples import PATIENCE, Sample

_PATTERN = Path("/proc/sys/kernel/core_pattern")


@contextlib.contextmanager
def place(sample: Sample, executable: Path, target: str) -> Iterator[list[str | Path]]:
    """GDB's arguments for a sample or for a core of it, which is removed afterwards.

    :param target: ``live``, ``gcore``, or any other name for the kernel's core.
    """
    if target == "live":
        yield ["-p", str(sample.pid)]
        return
    core = gdb_core(sample) if target == "gcore" else kernel_core(sample)
    try:
        yield [executable, core]
    finally:
        core.unlink()


def places(sample: Sample, *, symbols: bool) -> Iterator[tuple[str, list[str | Path]]]:
    """GDB's arguments for a sample and for cores of it, each with a name; the kernel's core ends it.

    A core does not depend on symbols. So only a long run has both cores; otherwise GDB writes that of a program with
    symbols, and the kernel that of a stripped one.
    """
    short = ("live", "gcore" if symbols else "kernel core")
    for name in ("live", "gcore", "kernel core") if combinations.LONG else short:
        with place(sample, sample.executable, name) as where:
            yield name, where


def gdb_core(sample: Sample) -> Path:
    """Write a core with GDB's gcore; the sample continues."""
    path = sample.directory / "gcore"
    # the same core as with symbols, in half of the time
    result = gdb_session.batch(["-p", str(sample.pid)], [f"generate-core-file {path}"], load=False, symbols=False)
    assert path.exists(), f"no core was made\n{result}"
    return path


def kernel_core(sample: Sample) -> Path:
    """Have the kernel write a core, which ends the sample.

    Skips the test if the kernel passes cores to a program or writes them elsewhere.
    """
    start = prefix()
    # not QUIT or INT, which are ignored in background processes of a non-interactive shell
    os.kill(sample.pid, signal.SIGABRT)
    return _core_of(sample, signal.SIGABRT, start)


def core_of_crash(sample: Sample) -> Path:
    """The kernel's core of a sample that is about to die of SIGSEGV by itself; see `kernel_core`."""
    return _core_of(sample, signal.SIGSEGV, prefix())


def prefix() -> str:
    """How the names of the kernel's cores begin in the working directory; skips the test if it writes none there."""
    pattern = _PATTERN.read_text().strip()
    if pattern.startswith("|"):
        pytest.skip(f"the kernel pipes cores to a program (core_pattern is {pattern})")
    if "/" in pattern:
        pytest.skip(f"the kernel does not write cores to the working directory (core_pattern is {pattern})")
    return pattern.partition("%")[0]


def _core_of(sample: Sample, number: signal.Signals, start: str) -> Path:
    status = sample.process.wait(timeout=PATIENCE)
    assert status == -number, f"the sample ended otherwise: {status}"
    found = sorted(sample.directory.glob(f"{start}*"))
    if not found:
        pytest.skip("the kernel wrote no core: the hard limit on the size of cores may be too low")
    assert len(found) == 1, f"which is the core? {found}"
    return found[0]
