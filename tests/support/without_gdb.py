"""The hangs that are reported by GDB and without it, and what both reports must agree on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from gdbext.launcher.snapshots import by_gdb
from gdbext.targets import symbols
from tests.support import debian_packages, embedding, interpreters, locks, openmp, packages, samples
from tests.support.samples import SOURCES, Sample

Json = Any
_CXX = ("-O2", "-g", "-std=gnu++20", "-Wno-missing-field-initializers", "-fPIC", "-pthread")
Start = Callable[[Path], AbstractContextManager[Sample]]


def python(name: str) -> Path:
    return interpreters.use(name)[0]


def of_locks(name: str, stripped: bool = True) -> Start:
    process = locks.PROCESSES[name]
    return lambda folder: samples.locks(process.program, process.scenes, folder, stripped=stripped)


def inlined(*flags: str) -> Start:
    """A program with debug information whose functions are inlined into each other."""
    options = ("-O2", "-g", "-fopenmp", "-pthread", *flags)
    return lambda folder: samples.running(
        [samples.compiled("inlined", "inlined.cc", options, ["-lstdc++"], strip=False)], folder)


def of_package(name: str, package: str, source: str, *arguments: str) -> Start:
    """A Python program that needs a package."""
    def start(folder: Path) -> AbstractContextManager[Sample]:
        path = packages.use_locks(package, name)
        return samples.running([python(name), "-W", "ignore", SOURCES / source, *arguments], folder,
                               variables={"PYTHONPATH": str(path)})
    return start


def of_library(name: str, source: str, *scenes: str) -> Start:
    """A C++ program that uses a library of Debian."""
    def start(folder: Path) -> AbstractContextManager[Sample]:
        library = debian_packages.library(name)
        program = samples.compiled(source.partition(".")[0], source, (*_CXX, *library.flags),
                                   (*library.options, "-lstdc++", "-ldl"), strip=False)
        return samples.running([program, *scenes], folder, variables=library.variables)
    return start


#: Hangs in which nothing moves, so that two snapshots are equal.
CASES: dict[str, Start] = {
    "abba-stripped": lambda folder: samples.abba("rwlock", folder, stripped=True),
    "inlined": inlined(),
    "inlined-dwarf-4-compressed": inlined("-gdwarf-4", "-gz", "-fdebug-types-section"),
    "openmp": lambda folder: openmp.start(openmp.SCENES, folder, stripped=True),
    **{f"rapids-{name}": lambda folder, name=name: samples.rapids(python(name), "rwlock", folder)  # type: ignore[misc]
       for name in ("3.9-stripped", "3.13", "debian")},
    "pylocks": lambda folder: samples.running([python("3.13"), SOURCES / "pylocks.py", "deadlocks"], folder),
    "tasks": lambda folder: samples.running([python("3.13"), SOURCES / "tasks.py", "gather"], folder),
    "openmp-with-lines": lambda folder: openmp.start(openmp.SCENES, folder, stripped=False),
    **{f"python-{source}": lambda folder, source=source: samples.running(  # type: ignore[misc]
        [python("3.13"), "-W", "ignore", SOURCES / source], folder) for source in ("accounts.py", "values.py")},
    "embed": lambda folder: embedding.embed("3.11", folder),
    "subinterpreters": lambda folder: embedding.subinterpreters("3.12", "own", folder),
    "compiled": lambda folder: embedding.compiled("3.11", "rlock", folder),
    "greenlets": of_package("3.13", "greenlet-3.5.6", "greenlets.py", "locks"),
    "gevent": of_package("3.11", "gevent-24.2.1", "gevent_waits.py", "cycles"),
    "eventlet": of_package("3.13", "eventlet-0.41.3", "eventlet_waits.py", "waits"),
    "free-threaded": lambda folder: samples.free_threaded(python("3.13t"), "section-mutex", folder, stripped=True),
}
#: Further ones: the tests that start these compare the reports, by `tests.support.differential`.
COMPARED_WHERE_THEY_START: dict[str, Start] = {
    **{f"locks-{name}": of_locks(name) for name in locks.PROCESSES},
    **{f"locks-{name}-with-lines": of_locks(name, stripped=False) for name in locks.PROCESSES},
    "fast-rlocks": of_package("3.11", "FastRLock", "fast_rlocks.py"),
    "boost": of_library("boost", "boost_locks.cc", "written", "shared", "upgraded"),
    "qt": of_library("qt5", "qt_locks.cc", "mutex", "recursive", "semaphore", "written", "read", "queued", "end"),
}


@contextlib.contextmanager
def without_debug_files() -> Iterator[None]:
    """Without separate debug files, in which GDB finds other names of the same functions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(by_gdb, "SETTINGS", (*by_gdb.SETTINGS, "set debug-file-directory /nonexistent"))
        patch.setattr(symbols, "DEBUG_FOLDER", "/nonexistent")
        yield


def holders(document: Json) -> dict[str, set[int]]:
    """The threads that hold each lock, by the lock's address."""
    return {lock["address"]: {holder["thread"] for holder in lock["holders"]} for lock in document["locks"]}


def added(by_gdb: Json, direct: Json) -> list[str]:
    """Holders and deadlocks that only the report without GDB has: it may prove less, but nothing else."""
    known = holders(by_gdb)
    deadlocks = [{*deadlock["threads"]} for deadlock in by_gdb["deadlocks"]]
    return [*(f"threads {sorted(found)} hold {address}" for address, found in holders(direct).items()
              if not found <= known.get(address, set())),
            *(f"the deadlock of {deadlock['threads']}" for deadlock in direct["deadlocks"]
              if {*deadlock["threads"]} not in deadlocks)]


def assert_nothing_added(by_gdb: Json, direct: Json) -> None:
    """Without machine code some holders cannot be proven; no other thread takes their place."""
    assert added(by_gdb, direct) == []


def stacks(document: Json, running: bool = True) -> list[list[tuple[object, ...]]]:
    """Program counters, and Python frames with their lines.

    :param running: whether the threads that run are included.
    """
    threads = [thread for thread in document["threads"] if running or thread["status"] != "running"]
    return [[(frame.get("pc"), frame.get("qualified_name"), frame["line"] if "pc" not in frame else None)
             for frame in thread["stack"]] for thread in threads]


def python_states(document: Json) -> list[object]:
    """The state of each thread in Python."""
    return [thread["python_state"] for thread in document["threads"]]
