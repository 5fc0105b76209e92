"""Runs the programs of tests/samples that crash, and prepares each of them for GDB as a process or a core.

A program prints one JSON line, its truth, right before it dies:

    {"sample": "crash", "story": "handle", "pid": 1, "dies": ROLE, "rule": "GetHandle() is called before ...",
     "signals": ["SIGSEGV"], "code": "SEGV_MAPERR", "address": "0x18", "access": "read",
     "objects": {"handle": "0x..", "store": "0x.."},
     "threads": {ROLE: {"tid": 1, "python_name": "MainThread", "python_state": "attached",
                        "functions": ["crash::Data::GetHandle", "crash::Handle::GetHandle"], "doing": "dies",
                        "stack": [[FUNCTION, FILE, LINE], ...]}}}

Threads are identified by roles. `stack` has the Python frames, innermost first. `functions` has the active functions
of the sample's native code, innermost first; others may be between them. `python_state` is null for a thread
without a thread state. There are several `signals` if the result depends on the interpreter's compiler.

Optional: `address`, if the kernel reports one, `value`, the invalid pointer, and `access`; the `message` with
the reason, the class of a C++ `exception`, the `source` file and line of its origin; the `first` signal, which
the program survived; the `sender` of a signal; the truncated `file`; the frame of a `recursion`. The frames of a
recursion are not in the `stack` of the thread that dies.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import resource
import shlex
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support import cores, embedding, gdb_session, interpreters, packages, samples

#: The targets for a crash: a process that GDB started and that stopped at the signal, GDB's core of it, the kernel's
#: core, and the kernel's core without the mapped files.
TARGETS = ("live", "gcore", "kernel-core", "no-files")
#: The numbers of the signal codes in the truth, on Linux.
CODES = {
    "SI_USER": 0,
    "SI_TKILL": -6,
    "SI_KERNEL": 128,
    "SEGV_MAPERR": 1,
    "SEGV_ACCERR": 2,
    "BUS_ADRERR": 2,
    "FPE_INTDIV": 1,
    "ILL_ILLOPN": 2,
}
#: The numbers of the signals in the truth, by name.
NUMBERS = {name: int(signal.Signals[name]) for name in ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT")}
# one for each shape of thread states and each behaviour of Python without one
_API_PYTHONS = ("3.9", "3.11", "3.13", "3.13t")
_PYTHON = ("3.11",)
# GDB's core would contain all of the sanitizer's shadow memory
_TSAN_TARGETS = ("live", "kernel-core", "no-files")

_FLAGS = ("-O2", "-Wall", "-Wextra", "-pthread", "-g", "-fno-optimize-sibling-calls")
_LIBRARY_FLAGS = (*_FLAGS, "-shared", "-fPIC", "-fvisibility=hidden")
_CXX = ("-std=gnu++20", "-Wno-missing-field-initializers")
_RUST_FLAGS = ("--edition", "2021", "-O", "-g", "--crate-type", "cdylib")
# the interpreter whose pybind11 headers are used for all others
_PYBIND11_OF = "3.11"
# the sanitizer leaves signals to the kernel and aborts after a finding; by default it prevents a core
_TSAN_OPTIONS = "halt_on_error=1:abort_on_error=1:handle_segv=0:disable_coredump=0"


@dataclass(frozen=True)
class Story:
    """A way to crash: its requirements, and the interpreters that it is tested with.

    `needs` names its compiled part: ``library``, ``extension``, ``handles``, ``rust``, ``embed``, or ``tsan``, which
    has no Python. The program survives `survived` signals before the one that it dies of. `targets` are the ways in
    which it can be inspected.
    """

    needs: str
    pythons: tuple[str, ...] = _PYTHON
    variables: dict[str, str] = field(default_factory=dict)
    survived: int = 0
    targets: tuple[str, ...] = TARGETS


STORIES = {
    "null-read": Story("library"),
    "null-call": Story("library"),
    "data-call": Story("library"),
    "wild": Story("library"),
    "misaligned": Story("library"),
    "truncated": Story("library"),
    "divide": Story("library"),
    "trap": Story("library"),
    "faulthandler": Story("library", survived=1),
    "abort": Story("library"),
    "assert": Story("library"),
    "heap": Story("library"),
    "fatal": Story("extension"),
    "rust-panic": Story("rust"),
    "terminate": Story("extension"),
    "terminate-own": Story("extension"),
    "terminate-boundary": Story("extension"),
    "use-after-free": Story("extension", _API_PYTHONS),
    "use-after-free-debug": Story("extension", _API_PYTHONS, {"PYTHONMALLOC": "debug"}),
    "underflow": Story("extension", _API_PYTHONS),
    "overflow": Story("extension", _API_PYTHONS),
    "overflow-main": Story("extension", _API_PYTHONS),
    "overflow-c": Story("extension"),
    "no-gil": Story("extension", _API_PYTHONS),
    "no-gil-error": Story("extension", _API_PYTHONS),
    "released": Story("extension", _API_PYTHONS),
    "handle": Story("handles", _API_PYTHONS),
    "handle-native": Story("handles"),
    "race": Story("extension", ("3.13t",)),
    "killed": Story("library"),
    "killed-segv": Story("library"),
    "finalised": Story("embed", ("3.9", "3.11", "3.13")),
    "tsan": Story("tsan", variables={"TSAN_OPTIONS": _TSAN_OPTIONS}, targets=_TSAN_TARGETS),
    "tsan-null": Story("tsan", variables={"TSAN_OPTIONS": _TSAN_OPTIONS}, targets=_TSAN_TARGETS),
}

#: Each story is tested from the kernel's core in all its interpreters; other targets only where they may differ
LIVE = ("null-read", "handle", "faulthandler", "killed", "no-gil", "overflow-main", "terminate", "trap")
GCORE = ("handle", "race", "use-after-free", "overflow", "misaligned", "assert", "released", "faulthandler")
STRIPPED = ("handle", "race", "underflow", "no-gil", "fatal", "terminate", "overflow", "released", "wild")
CASES = [
    *((story, name, "kernel-core") for story, plan in STORIES.items() for name in plan.pythons),
    *((story, STORIES[story].pythons[-1], "gcore") for story in GCORE),
    *((story, "3.11", "live") for story in LIVE),
    *((story, f"{STORIES[story].pythons[-1]}-stripped", "kernel-core") for story in STRIPPED),
]
#: The class of each story's fault; one of several if it depends on the interpreter's build.
KINDS = {
    "null-read": "null-member",
    "null-call": "null-call",
    "data-call": "execute-data",
    "wild": "non-canonical",
    "misaligned": "misaligned",
    "truncated": "truncated-file",
    "divide": "division",
    "trap": "trap",
    "faulthandler": "null-member",
    "abort": "abort",
    "assert": "assertion",
    "heap": "heap-corruption",
    "fatal": "fatal-python-error",
    "rust-panic": "rust-panic",
    "terminate": "uncaught-exception",
    "terminate-own": "uncaught-exception",
    "terminate-boundary": "uncaught-exception",
    "use-after-free": "pattern",
    "use-after-free-debug": "pattern",
    "underflow": "pattern",
    "overflow": "stack-overflow",
    "overflow-main": "stack-overflow",
    "overflow-c": "stack-overflow",
    "no-gil": "null-member|null-pointer",
    "no-gil-error": "null-member|null-pointer",
    "released": "null-member|null-pointer",
    "finalised": "null-member|null-pointer|unmapped",
    "handle": "null-member",
    "handle-native": "null-member",
    "race": "no-permission",
    "killed": "sent",
    "killed-segv": "sent",
    "tsan": "sanitizer",
    "tsan-null": "null-member",
}


@dataclass(frozen=True)
class ThreadTruth:
    """One thread of a program that dies, as described by the program."""

    tid: int
    python_name: str | None
    python_state: str | None
    functions: tuple[str, ...]
    doing: str
    stack: tuple[tuple[str, str, int], ...]


@dataclass(frozen=True)
class Truth:
    """A program's description of its crash."""

    story: str
    pid: int
    dies: str
    rule: str | None
    signals: tuple[str, ...]
    code: str
    address: int | None
    value: int | None
    access: str | None
    objects: dict[str, int]
    threads: dict[str, ThreadTruth]
    #: the optional members, which only few stories have, unchanged
    more: dict[str, Any]

    @property
    def victim(self) -> ThreadTruth:
        """The thread that dies."""
        return self.threads[self.dies]

    @property
    def message(self) -> str | None:
        """A part of the text on standard error."""
        message: str | None = self.more.get("message")
        return message

    @classmethod
    def parse(cls, line: str) -> Truth:
        """Parse a truth line."""
        data: dict[str, Any] = json.loads(line)
        assert data.pop("sample") == "crash"
        return cls(
            story=data.pop("story"),
            pid=data.pop("pid"),
            dies=data.pop("dies"),
            rule=data.pop("rule"),
            signals=tuple(data.pop("signals")),
            code=data.pop("code"),
            address=_number(data.pop("address", None)),
            value=_number(data.pop("value", None)),
            access=data.pop("access", None),
            objects={name: int(address, 16) for name, address in data.pop("objects", {}).items()},
            threads={
                role: ThreadTruth(
                    thread["tid"],
                    thread["python_name"],
                    thread["python_state"],
                    tuple(thread["functions"]),
                    thread["doing"],
                    tuple((function, file, line) for function, file, line in thread["stack"]),
                )
                for role, thread in data.pop("threads").items()
            },
            more=data,
        )


def _number(text: str | None) -> int | None:
    return None if text is None else int(text, 16)


@dataclass(frozen=True)
class Crash:
    """A crash that GDB can inspect.

    `gdb_args` are for `gdb_session.batch` and other GDBs. The program of a live target runs in GDB, and again in
    every further session, so its truth exists only after a session. `symbols` says whether GDB may use the
    interpreter's symbols.
    """

    story: str
    target: str
    gdb_args: list[str | Path]
    symbols: bool
    executable: Path
    directory: Path

    @property
    def truth(self) -> Truth:
        """The truth of the program's last run."""
        lines = (self.directory / "truth").read_text()
        assert lines, f"{self.story} printed no truth; errors:\n{self.errors}"
        return Truth.parse(lines.splitlines()[0])

    @property
    def errors(self) -> str:
        """The program's standard error."""
        return (self.directory / "errors").read_text()


@dataclass(frozen=True)
class _Program:
    story: Story
    argv: list[str]
    directory: Path

    @property
    def executable(self) -> Path:
        return Path(self.argv[0])

    @property
    def variables(self) -> dict[str, str]:
        # GDB up to 13 writes every reserved heap arena into a core: 64 MiB for each thread
        return {"MALLOC_ARENA_MAX": "1", **self.story.variables}


@contextlib.contextmanager
def crash(story: str, name: str, target: str, directory: Path, *, stripped: bool | None = None) -> Iterator[Crash]:
    """Prepare a crash for GDB; its files are removed and its processes are ended afterwards.

    :param story: a key of `STORIES`.
    :param name: the name of an interpreter under test; `tsan` stories have none.
    :param target: one of `TARGETS`.
    :param directory: a new directory, in which the program runs.
    :param stripped: whether the sample is stripped; by default if the interpreter is.
    """
    _, symbols = interpreters.use(name)
    program = _program(story, name, directory, strip=not symbols if stripped is None else stripped)
    directory.mkdir(parents=True, exist_ok=True)
    crash_of = functools.partial(
        Crash, story, target, symbols=symbols, executable=program.executable, directory=directory
    )
    if target == "live":
        # GDB kills the program when it ends, or when it is killed
        yield crash_of(_live(program))
        return
    core = _gdb_core(program) if target == "gcore" else _kernel_core(program, crash_of([]))
    try:
        yield crash_of(_without_files(core) if target == "no-files" else [program.executable, core])
    finally:
        core.unlink()


def _live(program: _Program) -> list[str | Path]:
    commands = [f"file {program.executable}", f"set cwd {program.directory}"]
    commands += [f"set environment {name} {value}" for name, value in program.variables.items()]
    commands += [f"set args {shlex.join(program.argv[1:])} > truth 2> errors < /dev/null", "run"]
    commands += ["continue"] * program.story.survived
    return [part for command in commands for part in ("-ex", command)]


def _gdb_core(program: _Program) -> Path:
    core = program.directory / "gcore"
    try:
        result = gdb_session.batch(_live(program), [f"generate-core-file {core}", "kill"], load=False)
    except BaseException:
        core.unlink(missing_ok=True)
        raise
    assert core.exists(), f"no core was made\n{result}"
    return core


def _without_files(core: Path) -> list[str | Path]:
    return ["-iex", "set sysroot /nonexistent", "-iex", "set auto-solib-add off", "-c", core]


def _kernel_core(program: _Program, look: Crash) -> Path:
    """Have the kernel write a core; skips the test if it does not write cores here."""
    prefix = cores.prefix()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment.update(program.variables)
    _, limit = resource.getrlimit(resource.RLIMIT_CORE)
    argv = program.argv
    if program.story.needs == "tsan":
        # the addresses of its shadow memory are fixed and must be free; GDB also disables randomisation
        argv = ["setarch", "-R", *argv]
    with open(program.directory / "truth", "w") as truth, open(program.directory / "errors", "w") as errors:
        process = subprocess.Popen(
            argv,
            cwd=program.directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=truth,
            stderr=errors,
            preexec_fn=functools.partial(resource.setrlimit, resource.RLIMIT_CORE, (limit, limit)),
        )
    try:
        status = process.wait(timeout=samples.PATIENCE)
    finally:
        process.kill()
        process.wait()
    expected = [-NUMBERS[name] for name in look.truth.signals]
    assert status in expected, f"{look.story} ended otherwise: {status}, errors:\n{look.errors}"
    found = sorted(program.directory.glob(f"{prefix}*"))
    if not found:
        pytest.skip("the kernel wrote no core: the hard limit on the size of cores may be too low")
    assert len(found) == 1, f"which is the core? {found}"
    return found[0]


def _program(story: str, name: str, directory: Path, *, strip: bool) -> _Program:
    needs = STORIES[story].needs
    argv: Sequence[str | Path]
    if needs == "tsan":
        flags = [*_FLAGS, *_CXX, "-fsanitize=thread"]
        argv = [samples.compiled("crash_tsan", "crash_tsan.cc", flags, ("-lstdc++",), strip=strip), story]
    elif needs == "embed":
        program, embedded = embedding.build(name, "crash_embed.c", strip=strip)
        argv = [program, embedded.home]
    else:
        python, _ = interpreters.use(name)
        argv = [python, samples.SOURCES / "crash.py", story, f"--{needs}", _native_part(needs, python, strip=strip)]
    return _Program(STORIES[story], [str(part) for part in argv], directory)


def _native_part(needs: str, python: Path, *, strip: bool) -> Path:
    if needs == "library":
        return samples.compiled("libcrash.so", "crash.c", (*_LIBRARY_FLAGS, "-std=gnu11"), strip=strip)
    if needs == "rust":
        return samples.compiled("libcrash_rs.so", "crash.rs", _RUST_FLAGS, strip=strip)
    flags = [*_LIBRARY_FLAGS, *_CXX, *samples.extension_flags(python)]
    if needs == "extension":
        return samples.compiled("_crash.so", "crash.cc", flags, ("-lstdc++",), strip=strip)
    flags += ["-isystem", str(packages.use(_PYBIND11_OF) / "pybind11" / "include")]
    return samples.compiled("crash_handles.so", "crash_handles.cpp", flags, ("-lstdc++",), strip=strip)
