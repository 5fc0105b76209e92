"""Compiles and runs the programs of tests/samples, and reads the truth that they print about themselves.

A sample prints one JSON line when it is about to reach its final state:

    {"sample": "rapids", "variant": "rwlock", "pid": 1,
     "threads": {ROLE: {"tid": 1, "python_name": "MainThread", "blocked": true, "syscall": "futex",
                        "stack": [[FUNCTION, FILE, LINE], ...], "qualified_names": [NAME, ...]}},
     "locks": {NAME: {"kind": "rwlock", "address": "0x..", "state": "write-locked", "mode": "exclusive",
                      "holders": [ROLE], "really": [ROLE], "waiters": [ROLE], "candidates": [ROLE],
                      "evidence": "recorded", "orphan": null, "shared": [ROLE], "timed": [ROLE]}},
     "deadlock": [[WAITER, NAME, HOLDER], ...], "stuck_behind": [ROLE], "left_out": [SCENE]}

Threads are identified by roles, locks by names. `stack` has the Python frames, innermost first, at their final
lines; a sample may add their `qualified_names`. `holders` are the holders that a debugger can name, `really` the
actual ones; `candidates` are those that a debugger cannot choose between. A GIL may have an `interpreter`, its id.
`syscall` is the thread's final system call, null if it does not stay in one.

Optional: the reason why the recorded owner is not a living thread (`orphan`; the HOLDER of the edge is null then),
the waiters that request the lock `shared`, those that wait for a limited time (`timed`), and the requested scenes
that this system cannot show (`left_out`).
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import platform
import resource
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import pytest

from tests.support.patience import patience

SOURCES = Path(__file__).resolve().parent.parent / "samples"
RAPIDS_VARIANTS = ("rwlock", "mutex", "readers", "readers-bystander")
ABBA_VARIANTS = ("mutex", "rwlock")
#: The time that tests wait for a state, in seconds. An idle machine reaches it in moments, a loaded one does not.
PATIENCE = patience(120)
#: The time that a GIL waiter sleeps before it retries, in seconds, for samples in which it should stay asleep.
STILL = 1000.0

_COMMON = ("-O2", "-std=gnu11", "-Wall", "-Wextra", "-pthread")
# members of a lock's truth that are missing are false or empty
_COMMON_CXX = ("-O2", "-std=gnu++20", "-Wall", "-Wextra", "-Wno-missing-field-initializers", "-pthread")
_BUILDS = {
    "libboundaries.so": ("boundaries.c", (*_COMMON, "-shared", "-fPIC", "-fvisibility=hidden"), False),
    "libdrv.so": ("drv.c", (*_COMMON, "-shared", "-fPIC", "-fvisibility=hidden"), True),
    "abba": ("abba.c", (*_COMMON, "-g"), False),
    "abba-stripped": ("abba.c", _COMMON, True),
    "busy": ("busy.c", (*_COMMON, "-g"), False),
    "ended_calls": ("ended_calls.c", (*_COMMON, "-g", "-O0", "-fno-omit-frame-pointer"), False),
    "gather": ("gather.c", (*_COMMON, "-g"), False),
    "gather-stripped": ("gather.c", _COMMON, True),
    "impostor": ("impostor.c", (*_COMMON, "-rdynamic"), True),
    "locks": ("locks.c", (*_COMMON, "-g", "-rdynamic"), False),
    "locks-stripped": ("locks.c", (*_COMMON, "-rdynamic"), True),
    "locks-plugin.so": ("locks.c", (*_COMMON, "-DPLUGIN", "-shared", "-fPIC"), True),
    "locks-cc": ("locks.cc", (*_COMMON_CXX, "-g"), False),
    "locks-cc-stripped": ("locks.cc", _COMMON_CXX, True),
    "locks-rs": ("locks.rs", ("--edition", "2021", "-O", "-g"), False),
    "locks-rs-stripped": ("locks.rs", ("--edition", "2021", "-O"), True),
    "libtorch_cpu.so": ("ranks.cc", (*_COMMON_CXX, "-Wno-invalid-offsetof", "-shared", "-fPIC"), False),
    "healthy-native": ("healthy.c", (*_COMMON, "-g"), False),
    "healthy-native-stripped": ("healthy.c", _COMMON, True),
    "owners": ("owners.c", (*_COMMON, "-g"), False),
    "owners-stripped": ("owners.c", _COMMON, True),
}
# linker options after a source; libdl is a separate library before glibc 2.34
_LIBRARIES = {"healthy.c": ("-ldl",), "locks.c": ("-ldl",), "locks.cc": ("-lstdc++",), "ranks.cc": ("-lstdc++",)}
_SYSCALL_NUMBERS = {
    "x86_64": {"epoll_wait": 232, "flock": 73, "futex": 202, "pause": 34, "read": 0, "restart": 219},
    "aarch64": {"epoll_wait": 22, "flock": 32, "futex": 98, "read": 63, "restart": 128},
}
_ASK_HEADERS = """
import os.path, sys, sysconfig
headers = sysconfig.get_config_var("INCLUDEPY")
print(headers, sys.hexversion, os.path.exists(os.path.join(headers, "Python.h")), sep="\\n")
"""
_WRITE_CFFI = """
import sys
sys.path.insert(0, sys.argv[1])
import cffi
builder = cffi.FFI()
builder.cdef('int apply(int (*callback)(int), int value); extern "Python" int called_back(int);')
builder.set_source("boundaries_cffi", open(sys.argv[2]).read())
builder.emit_c_code(sys.argv[3])
"""
_RUN_CYTHON = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from Cython.Compiler.Main import main
main(command_line=1)
"""
# in the tree and not mounted there, because a GDB outside with the tree as its sysroot also needs the files
_SAMPLES_IN_TREE = Path("/opt/gdbext-samples")
# the number of consecutive observations after which a thread counts as blocked in a system call
_STEADY = 3
#: The code of a Python program whose only thread sleeps; it prints a line before.
IDLE = "import time; print(flush=True); time.sleep(1000)"

T = TypeVar("T")


@dataclass(frozen=True)
class Place:
    """Where a sample is compiled and run: on this machine, or in a tree that becomes its root directory."""

    tree: Path = Path("/")
    # the command prefix that runs a command there
    enter: tuple[str, ...] = ()

    def outside(self, path: Path) -> Path:
        """The path on this machine of a file in that place."""
        return self.tree / path.relative_to("/")

    @property
    def samples(self) -> Path:
        """The folder in which compiled samples are kept between runs."""
        return _SAMPLES_IN_TREE if self.enter else cache_directory()

    def run(self, argv: Sequence[str | Path]) -> str:
        """Run a command there, which must succeed, and return its output."""
        command = [*self.enter, *map(str, argv)]
        ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, f"{command}: status {ran.returncode}\n{ran.stderr}"
        return ran.stdout


HERE = Place()


@dataclass(frozen=True)
class ThreadTruth:
    """One thread of a sample, as described by the sample."""

    tid: int
    python_name: str | None
    blocked: bool
    syscall: str | None
    stack: tuple[tuple[str, str, int | None], ...]
    qualified_names: tuple[str, ...] = ()


@dataclass(frozen=True)
class LockTruth:
    """One lock of a sample; threads are given by role. A GIL belongs to `interpreter`."""

    kind: str
    address: int | None
    state: str
    mode: str
    holders: tuple[str, ...]
    really: tuple[str, ...]
    waiters: tuple[str, ...]
    candidates: tuple[str, ...]
    evidence: str | None
    interpreter: int = 0
    orphan: str | None = None
    shared: tuple[str, ...] = ()
    timed: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The lock's id in gdbext's JSON; a GIL is identified by its interpreter, not its address."""
        return f"gil:{self.interpreter}" if self.address is None else f"{self.kind}:{self.address:#x}"


@dataclass(frozen=True)
class Truth:
    """A sample's description of itself."""

    sample: str
    variant: str
    pid: int
    threads: dict[str, ThreadTruth]
    locks: dict[str, LockTruth]
    deadlock: tuple[tuple[str, str, str | None], ...]
    stuck_behind: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    #: rows with the members id, kind, state, thread (a role) and stack (functions)
    greenlets: tuple[dict[str, Any], ...] = ()

    def role_of(self, tid: int) -> str:
        """The role of the thread with this TID."""
        for role, thread in self.threads.items():
            if thread.tid == tid:
                return role
        raise AssertionError(f"thread {tid} is not in {self.threads}")

    @classmethod
    def parse(cls, line: str) -> Truth:
        """Parse a truth line."""
        data: dict[str, Any] = json.loads(line)
        return cls(
            sample=data["sample"],
            variant=data["variant"],
            pid=data["pid"],
            threads={
                role: ThreadTruth(
                    thread["tid"],
                    thread["python_name"],
                    thread["blocked"],
                    thread["syscall"],
                    tuple((function, file, line) for function, file, line in thread["stack"]),
                    tuple(thread.get("qualified_names", ())),
                )
                for role, thread in data["threads"].items()
            },
            locks={
                name: LockTruth(
                    lock["kind"],
                    int(lock["address"], 16) if lock["address"] else None,
                    lock["state"],
                    lock["mode"],
                    tuple(lock["holders"]),
                    tuple(lock["really"]),
                    tuple(lock["waiters"]),
                    tuple(lock["candidates"]),
                    lock["evidence"],
                    lock.get("interpreter", 0),
                    lock.get("orphan"),
                    tuple(lock.get("shared", ())),
                    tuple(lock.get("timed", ())),
                )
                for name, lock in data["locks"].items()
            },
            deadlock=tuple((waiter, lock, holder) for waiter, lock, holder in data["deadlock"]),
            stuck_behind=tuple(data["stuck_behind"]),
            left_out=tuple(data.get("left_out", ())),
            greenlets=tuple(data.get("greenlets", ())),
        )


class Sample:
    """A running sample."""

    def __init__(self, process: subprocess.Popen[str], executable: Path, directory: Path) -> None:
        self.process = process
        self.executable = executable
        self.directory = directory
        self.truth = Truth.parse(self.read_line())

    @property
    def pid(self) -> int:
        """The process id."""
        return self.process.pid

    def read_line(self, seconds: float = PATIENCE) -> str:
        """Read the next line of the sample's output.

        :raises AssertionError: no line arrived in time, or the sample ended.
        """
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        line = self.process.stdout.readline() if ready else ""
        assert line, f"{self.process.args!r} said nothing; {self.fate()}"
        return line

    def fate(self) -> str:
        """What became of the process and what it wrote about errors, for the message of a failure."""
        return f"status {self.process.poll()}, errors:\n{(self.directory / 'stderr').read_text()}"

    def send(self, text: str) -> None:
        """Write to the sample's standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def tids(self) -> set[int]:
        """The TIDs of the living threads."""
        return {int(name) for name in os.listdir(f"/proc/{self.pid}/task")}

    def status(self, tid: int, field: str) -> str:
        """A field of the thread's status file, such as State or TracerPid."""
        for line in Path(f"/proc/{self.pid}/task/{tid}/status").read_text(errors="surrogateescape").splitlines():
            name, _, value = line.partition(":")
            if name == field:
                return value.strip()
        raise AssertionError(f"no {field} in the status of thread {tid}")

    def system_call(self, tid: int) -> str:
        """The thread's system call in the kernel's format: number and arguments, or ``running``."""
        return Path(f"/proc/{self.pid}/task/{tid}/syscall").read_text().strip()

    def system_calls(self) -> dict[int, str]:
        """The system call of each thread, for the message of a failure."""
        return {tid: self.system_call(tid) for tid in self.tids()}

    def in_system_call(self, tid: int, name: str) -> bool:
        """Whether the thread is blocked in that system call.

        A stop turns a futex wait with a timeout into another system call, ``restart_syscall``.
        """
        numbers = _SYSCALL_NUMBERS[platform.machine()]
        names = (name, "restart") if name == "futex" else (name,)
        return self.system_call(tid).split()[0] in {str(numbers[each]) for each in names}

    def read_memory(self, address: int, size: int) -> bytes:
        """Read the sample's memory without stopping it."""
        with open(f"/proc/{self.pid}/mem", "rb", buffering=0) as memory:
            memory.seek(address)
            return memory.read(size)

    def writable_memory(self) -> dict[str, bytes]:
        """The digest of each writable mapping, by its line in the table of mappings."""
        digests = {}
        for line in Path(f"/proc/{self.pid}/maps").read_text(errors="surrogateescape").splitlines():
            span, flags = line.split()[:2]
            if not flags.startswith("rw"):
                continue
            start, end = (int(part, 16) for part in span.split("-"))
            digests[line] = hashlib.sha256(self.read_memory(start, end - start)).digest()
        return digests

    def wait_until_final(self) -> None:
        """Wait until every thread is in its final system call according to the truth."""
        steady = 0

        def settled() -> bool:
            nonlocal steady
            expected = [(t.tid, t.syscall) for t in self.truth.threads.values() if t.syscall]
            assert not expected or self.process.poll() is None, f"{self.process.args!r} ended; {self.fate()}"
            try:
                steady = steady + 1 if all(self.in_system_call(tid, name) for tid, name in expected) else 0
            except (FileNotFoundError, ProcessLookupError) as error:
                raise AssertionError(f"a thread of {self.truth.threads} ended: {error}; {self.fate()}") from error
            return steady >= _STEADY

        wait_until(settled, f"{self.truth.sample} {self.truth.variant} to hang as it said: {self.truth.threads}",
                   seen=self.system_calls)

    def is_stopped(self) -> bool:
        """Whether a thread is stopped or still traced by a debugger."""
        return any(self.status(tid, "State")[0] in "tT" or self.status(tid, "TracerPid") != "0" for tid in self.tids())


def wait_until(
    predicate: Callable[[], T], what: str, seconds: float = PATIENCE, *, seen: Callable[[], object] | None = None
) -> T:
    """Poll until the predicate is true; only here do tests wait by the clock.

    :param seen: returns the state to show in a failure; by default the predicate's last result.
    :return: the predicate's true result.
    :raises AssertionError: the predicate was not true in time.
    """
    deadline = time.monotonic() + seconds
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:g} s for {what}; last seen: {seen() if seen else value!r}")
        time.sleep(0.005)


def accept_interrupts() -> None:
    """Stop ignoring SIGINT in a child, which inherits that from a shell that runs the tests in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def cache_directory() -> Path:
    """The folder in which compiled samples are kept between runs."""
    root = os.environ.get("GDBEXT_CACHE")
    return (Path(root) if root else Path.home() / ".cache" / "gdbext") / "samples"


def build(name: str, place: Place = HERE) -> Path:
    """Compile a sample, unless it was compiled before with the same source, flags and compiler.

    :param name: a key of `_BUILDS`, such as ``libdrv.so``.
    :return: its path in that place.
    """
    source, flags, strip = _BUILDS[name]
    return compiled(name, source, flags, _LIBRARIES.get(source, ()), strip=strip, place=place)


def compiled(
    name: str, source: str, flags: Sequence[str], libraries: Sequence[str] = (), *, strip: bool, place: Place = HERE,
    compiler: Sequence[str] = ()
) -> Path:
    """Compile a source of tests/samples, unless it was compiled before; see `build`. Skips the test without rustc.

    :param libraries: linker options after the source.
    :param compiler: a compiler with its first options, whose path changes with its release; by default gcc or rustc.
    """
    command, identity = (compiler, " ".join(compiler).encode()) if compiler else _compiler(place, Path(source).suffix)
    inputs = [SOURCES / source, *sorted(SOURCES.glob("stage.rs" if source.endswith(".rs") else "*.h"))]
    parts = [*(file.read_bytes() for file in inputs), " ".join([*flags, *libraries, str(strip)]).encode(), identity]
    digest = hashlib.sha256(b"\0".join(parts))
    target = place.samples / digest.hexdigest()[:16] / name
    outside = place.outside(target)
    outside.parent.mkdir(parents=True, exist_ok=True)
    # one process compiles, the others wait
    with open(outside.with_name(f"{name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not outside.exists():
            unfinished = target.with_name(f"{name}.unfinished")
            place.run([*command, *flags, "-o", unfinished, SOURCES / source, *libraries])
            if strip:
                place.run(["strip", "--strip-all", unfinished])
            place.outside(unfinished).rename(outside)
    return target


@functools.cache
def _compiler(place: Place, suffix: str) -> tuple[Sequence[str], bytes]:
    if suffix == ".rs":
        if shutil.which("rustc") is None:
            pytest.skip("rustc is not installed")
        return ("rustc",), place.run(["rustc", "--version"]).encode()
    compiler = "gcc" if place.enter else shutil.which("gcc") or shutil.which("cc")
    assert compiler, "the samples need a C compiler: gcc"
    return (compiler,), place.run([compiler, "-dumpfullversion", "-dumpmachine"]).encode()


@contextlib.contextmanager
def running(
    argv: Sequence[str | Path],
    directory: Path,
    *,
    rseq: bool = True,
    place: Place = HERE,
    variables: Mapping[str, str] | None = None,
    kind: type[Sample] = Sample,
) -> Iterator[Sample]:
    """Run a sample in its own directory until it is in its final state, and kill it afterwards.

    :param rseq: when false, the kernel does not write the number of their CPU to the threads' memory.
    :param variables: further environment variables; the tests' own variables for Python are removed.
    :param kind: the class that identifies the process.
    """
    directory.mkdir(parents=True, exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment.update(variables or {})
    # GDB up to 13 writes every reserved heap arena into a core: 64 MiB for each thread
    environment["MALLOC_ARENA_MAX"] = "1"
    if not rseq:
        environment["GLIBC_TUNABLES"] = "glibc.pthread.rseq=0"
    with open(directory / "stderr", "w") as errors:
        process = subprocess.Popen(
            [*place.enter, *map(str, argv)],
            cwd=directory,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            bufsize=1,
        )
    try:
        _, hard_limit = resource.prlimit(process.pid, resource.RLIMIT_CORE)
        resource.prlimit(process.pid, resource.RLIMIT_CORE, (hard_limit, hard_limit))
        sample = kind(process, Path(argv[0]), directory)
        sample.wait_until_final()
        yield sample
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


def rapids(
    python: Path,
    variant: str,
    directory: Path,
    options: Sequence[str] = (),
    *,
    place: Place = HERE,
    variables: Mapping[str, str] | None = None,
    still: bool = True,
) -> contextlib.AbstractContextManager[Sample]:
    """Run a program deadlocked over the GIL and a driver's lock, in one of RAPIDS_VARIANTS.

    :param options: options of the interpreter.
    :param still: whether threads waiting for the GIL stay asleep. Otherwise they wake every 5 ms, and one snapshot in
        some hundreds catches them awake, which cannot be recognised in some interpreters.
    """
    driver = build("libdrv.so", place)
    argv: list[str | Path] = [python, *options, SOURCES / "rapids.py", "--lock", variant, "--driver", driver]
    if still:
        argv += ["--switch-interval", str(STILL)]
    return running(argv, directory, place=place, variables=variables)


def hot(
    python: Path, directory: Path, *, place: Place = HERE, variables: Mapping[str, str] | None = None
) -> contextlib.AbstractContextManager[Sample]:
    """Run a program deadlocked over the GIL and a driver's lock, in a loop compiled by Python's JIT."""
    return running(
        [python, SOURCES / "hot.py", build("libdrv.so", place)], directory, place=place, variables=variables
    )


def finalising(
    python: Path, directory: Path, *, place: Place = HERE
) -> contextlib.AbstractContextManager[Sample]:
    """Run a Python that is finalising while a daemon thread requests the GIL."""
    return running([python, SOURCES / "finalising.py", build("libdrv.so", place)], directory, place=place)


@contextlib.contextmanager
def idle(python: Path) -> Iterator[int]:
    """A Python program whose only thread sleeps, by its PID: a report never depends on the moment."""
    with subprocess.Popen([python, "-c", IDLE], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            wait_until(lambda: thread_state(process.pid) == "S", "it to sleep")
            yield process.pid
        finally:
            process.kill()


def thread_state(tid: int) -> str:
    """The letter for a thread's state, as in proc(5)."""
    return Path(f"/proc/{tid}/stat").read_text().rpartition(")")[2].split()[0]


def healthy(python: Path, directory: Path) -> contextlib.AbstractContextManager[Sample]:
    """Run a program without a deadlock."""
    return running([python, SOURCES / "healthy.py", "--driver", build("libdrv.so")], directory)


def lines(
    python: Path,
    directory: Path,
    options: Sequence[str] = (),
    *,
    place: Place = HERE,
    variables: Mapping[str, str] | None = None,
) -> contextlib.AbstractContextManager[Sample]:
    """Run a program whose threads hang on known lines, each in another construct of the language.

    :param options: options of the interpreter.
    """
    argv: list[str | Path] = [python, *options, SOURCES / "lines.py"]
    # with other locales CPython 3.6 would not compile code for all file names of the sample
    return running(argv, directory, place=place, variables={"LC_ALL": "C.UTF-8", **(variables or {})})


def boundaries(
    python: Path, scenes: Sequence[str], directory: Path, packages: Path | None = None, *, place: Place = HERE
) -> contextlib.AbstractContextManager[Sample]:
    """Run threads that hang in Python code called by native code; the main thread hangs in a signal handler.

    :param packages: the folder with the PyPI packages that the scenes need, including pybind11.
    """
    argv: list[str | Path] = [python, SOURCES / "boundaries.py", "--library", build("libboundaries.so", place)]
    variables = {}
    if packages is not None:
        # OpenBLAS would start its own threads; Python must not write .pyc files now
        variables = {"PYTHONPATH": str(packages), "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        for name in ("cffi", "cython", "pybind11", "nanobind"):
            argv += [f"--{name}", _boundaries_extension(name, python, packages, place)]
    return running([*argv, *scenes], directory, place=place, variables=variables)


def extension_flags(python: Path, place: Place = HERE) -> list[str]:
    """The options to compile an extension module for an interpreter; skips the test without its headers."""
    headers, version, found = place.run([python, "-S", "-E", "-c", _ASK_HEADERS]).splitlines()
    if found != "True":
        skip_without_headers(Path(headers))
    return [f"-DBUILT_FOR={version}", "-isystem", headers]


def skip_without_headers(folder: Path) -> NoReturn:
    """Skip a test that needs an interpreter's headers; GDBEXT_REQUIRE only requires the interpreter itself."""
    pytest.skip(f"no Python.h in {folder}; Debian has it in libpython3-dev")


def _boundaries_extension(name: str, python: Path, packages: Path, place: Place) -> Path:
    flags = ["-shared", "-fPIC", "-g", *extension_flags(python, place)]
    if name in ("cffi", "cython"):
        with tempfile.TemporaryDirectory(prefix=f"gdbext-{name}-") as folder:
            source = Path(folder) / f"boundaries_{name}.c"
            if name == "cffi":
                place.run([python, "-c", _WRITE_CFFI, packages, SOURCES / "boundaries.c", source])
            else:
                place.run([python, "-c", _RUN_CYTHON, packages, SOURCES / "boundaries_cython.pyx", "-o", source])
                # helpers would be inlined into their callers
                flags += ["-O1", "-fno-inline", "-Wno-unused-function"]
            return compiled(f"boundaries_{name}.so", str(source), [*_COMMON, *flags], strip=False, place=place)
    inside = packages / name
    for part in ("include", "src", "ext/robin_map/include"):
        flags += ["-isystem", str(inside / part)]
    # -O2 would inline the whole library between the function and Python
    return compiled(f"boundaries_{name}.so", f"boundaries_{name}.cpp",
                    [*_COMMON_CXX, "-O1", "-fvisibility=hidden", *flags], ("-lstdc++",), strip=False, place=place)


def values(
    python: Path, directory: Path, *, place: Place = HERE, variables: Mapping[str, str] | None = None
) -> contextlib.AbstractContextManager[Sample]:
    """Run a program that hangs with values of many kinds in its variables, which it lists in values.json."""
    argv: list[str | Path] = [python, SOURCES / "values.py"]
    return running(argv, directory, place=place, variables={"LC_ALL": "C.UTF-8", **(variables or {})})


def free_threaded(
    python: Path, scene: str, directory: Path, *, stripped: bool = False, place: Place = HERE
) -> contextlib.AbstractContextManager[Sample]:
    """Run a scene of tests/samples/freethreaded.py; compiling its extension needs the interpreter's headers.

    :param stripped: whether the extension is stripped.
    """
    flags = (*_COMMON_CXX, "-g", "-shared", "-fPIC", *extension_flags(python, place))
    extension = compiled("_freethreaded.so", "freethreaded.cc", flags, ("-lstdc++",), strip=stripped, place=place)
    return running([python, SOURCES / "freethreaded.py", extension, scene], directory, place=place)


def abba(
    variant: str, directory: Path, *, stripped: bool = False, rseq: bool = True, place: Place = HERE
) -> contextlib.AbstractContextManager[Sample]:
    """Run a native program deadlocked over two locks taken in opposite order, in one of ABBA_VARIANTS."""
    program = build("abba-stripped" if stripped else "abba", place)
    return running([program, variant], directory, rseq=rseq, place=place)


def gather(directory: Path, *, stripped: bool = False) -> contextlib.AbstractContextManager[Sample]:
    """Run a native program in which a thread missing at a barrier waits for a mutex."""
    return running([build("gather-stripped" if stripped else "gather")], directory)


def impostor(variant: str, directory: Path) -> contextlib.AbstractContextManager[Sample]:
    """Run a program with an invalid `_PyRuntime`: ``future``, ``random``, ``zero`` or ``loop``."""
    return running([build("impostor"), variant], directory)


def locks(
    program: str, scenes: Sequence[str], directory: Path, *, stripped: bool = False, place: Place = HERE
) -> contextlib.AbstractContextManager[Sample]:
    """Run threads that hang on locks of many kinds, all in one process.

    :param program: ``locks`` for locks of the C library, ``locks-cc`` for those of the C++ library.
    """
    argv: list[str | Path] = [build(f"{program}-stripped" if stripped else program, place)]
    if "dlopen" in scenes:
        argv.append(build("locks-plugin.so", place))
    return running([*argv, *scenes], directory, place=place)


def locks_rust(directory: Path, *, stripped: bool = False) -> contextlib.AbstractContextManager[Sample]:
    """Run threads that hang on locks of Rust's standard library; requires rustc."""
    return running([build("locks-rs-stripped"), "stripped"] if stripped else [build("locks-rs")], directory)


def healthy_native(directory: Path, *, stripped: bool = False) -> contextlib.AbstractContextManager[Sample]:
    """Run a native program without a deadlock."""
    return running([build("healthy-native-stripped" if stripped else "healthy-native")], directory)


class Descendant(Sample):
    """A sample whose truth is about a descendant of the started process, possibly in its own PID namespace.

    The truth has the numbers in that namespace; `pid` and `tids` are those outside.
    """

    def __init__(self, process: subprocess.Popen[str], executable: Path, directory: Path) -> None:
        super().__init__(process, executable, directory)
        self._pid = next(pid for pid in _descendants(process.pid) if self._inside(pid, pid) == self.truth.pid)
        self.executable = Path(os.readlink(f"/proc/{self._pid}/exe"))

    @property
    def pid(self) -> int:
        """The process id, outside of the namespace, of the process that the truth is about."""
        return self._pid

    def in_system_call(self, tid: int, name: str) -> bool:
        """Whether the thread with that number in the namespace is blocked in that system call."""
        (outside,) = [other for other in self.tids() if self._inside(self.pid, other) == tid]
        return super().in_system_call(outside, name)

    @staticmethod
    def _inside(pid: int, tid: int) -> int:
        for line in Path(f"/proc/{pid}/task/{tid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return int(line.split()[-1])
        return tid


def _descendants(pid: int) -> Iterator[int]:
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            yield from _descendants(int(child))


def owners(
    argv: Sequence[str | Path], directory: Path, *, stripped: bool = False, namespace: bool = False
) -> contextlib.AbstractContextManager[Sample]:
    """Run a program with locks whose recorded owner does not exist.

    :param argv: the program's arguments, such as ``["fork", "left-mutex"]``.
    :param namespace: run it in its own PID namespace, which requires root.
    """
    program = build("owners-stripped" if stripped else "owners")
    return running([program, *(("namespace",) if namespace else ()), *argv], directory, kind=Descendant)
