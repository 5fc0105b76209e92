"""The cores that `fuzzing` damages: made of samples by script, and kept in a folder."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from gdbext.launcher.snapshots.cores import prepare_core
from gdbext.launcher.snapshots.limit import Limit
from tests.support import cores, crashes, interpreters, packages, samples, without_gdb
from tests.support.fuzz_decoders import DecoderSeed
from tests.support.fuzz_gdb import GdbSeed, end_gdb
from tests.support.fuzzing import SHARES, FileSeed, Fuzzed, Seed
from tests.support.samples import SOURCES, Sample

#: Where cores are kept if no other folder is named.
KEPT = Path(os.environ.get("GDBEXT_CACHE") or Path.home() / ".cache" / "gdbext") / "fuzz"


def _greenlets(folder: Path) -> AbstractContextManager[Sample]:
    path = packages.use_locks("greenlet-3.5.6", "3.13")
    return samples.running([without_gdb.python("3.13"), "-W", "ignore", SOURCES / "greenlets.py", "states"], folder,
                           variables={"PYTHONPATH": str(path)})


#: Programs that hang.
HANGS: dict[str, without_gdb.Start] = {
    **without_gdb.CASES,
    **without_gdb.COMPARED_WHERE_THEY_START,
    "abba": lambda folder: samples.abba("mutex", folder),
    "gather-stripped": lambda folder: samples.gather(folder, stripped=True),
    "healthy": lambda folder: samples.healthy(without_gdb.python(interpreters.ANY), folder),
    "lines": lambda folder: samples.lines(without_gdb.python(interpreters.ANY), folder),
    "rust": lambda folder: samples.locks_rust(folder, stripped=True),
    "greenlets": _greenlets,
}
#: Programs that crash, with the Python of each.
CRASHES = {"wild": "3.11", "handle": "3.11", "underflow": "3.11", "overflow": "3.9", "race": "3.13t", "fatal": "3.11",
           "terminate": "3.11"}
NAMES = (*HANGS, *(f"crash-{story}" for story in CRASHES))
#: What can be damaged; see `seeds`.
LAYERS = tuple(SHARES)
#: Cores that GDB reads quickly.
_FOR_GDB = ("abba-stripped", "locks-exit", "gather-stripped", "inlined", "rapids-3.9-stripped", "crash-fatal")
#: A few that reach most decoders, for a short run.
FEW = ("rapids-3.13", "locks-signals", "pylocks", "tasks", "free-threaded", "crash-handle")


def make_core(name: str, folder: Path) -> Path | None:
    """Make a core in a folder, or use the one that is there; None if this machine cannot."""
    core = folder / f"{name}.core"
    if core.exists():
        return core
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix="gdbext-fuzz-") as place, _made(name, Path(place)) as made:
            # gcore writes zeros that need no room
            subprocess.run(["cp", "--sparse=always", made, core], check=True)
    except pytest.skip.Exception as skipped:
        print(f"no {name}: {skipped}")
        return None
    return core


@contextlib.contextmanager
def _made(name: str, place: Path) -> Iterator[Path]:
    if name in HANGS:
        with HANGS[name](place) as sample:
            yield cores.gdb_core(sample)
    else:
        story = name.partition("-")[2]
        with crashes.crash(story, CRASHES[story], "kernel-core", place / "crash") as crash:
            yield Path(crash.gdb_args[1])


@contextlib.contextmanager
def seeds(names: Sequence[str], folder: Path, layers: Sequence[str] = ("memory",),
          say: Callable[[str], None] = print) -> Iterator[list[Fuzzed]]:
    """The seeds of some cores.

    :param layers: ``memory``: words in the memory of cores; ``decoders``: words that one call of a decoder reads;
        ``files``: cores, executables and libraries; ``gdb``: cores that GDB reads.
    """
    found: list[Fuzzed] = []
    with contextlib.ExitStack() as opened:
        opened.callback(end_gdb)
        copies = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="gdbext-fuzz-")))
        for name in names:
            core = make_core(name, folder)
            if core is None:
                continue
            prepared = opened.enter_context(prepare_core(core, None, None, (), Limit(60)))
            assert prepared.core is not None
            gdb = "gdb" in layers and name in _FOR_GDB
            if "memory" in layers or "decoders" in layers or gdb:
                seed = Seed(name, Path(prepared.core), prepared.executable, prepared.places)
                found += [seed] if "memory" in layers else []
                found += [DecoderSeed(seed)] if "decoders" in layers else []
                if gdb and prepared.executable is not None:
                    found.append(GdbSeed(seed, Path(prepared.core), prepared.executable, prepared.places, copies))
            if "files" in layers:
                libraries = [place for path, place in prepared.places.items() if "/libc.so" in path or "python" in path]
                for damaged in (None, prepared.executable, *libraries[:2]):
                    label = f"{name}:{'core' if damaged is None else Path(damaged).name}"
                    # a large core takes long to copy
                    if damaged is not None or core.stat().st_blocks < 1 << 16:
                        found.append(FileSeed(label, Path(prepared.core), prepared.executable, prepared.places,
                                              damaged, copies))
        say(f"{len(found)} seeds")
        yield found
