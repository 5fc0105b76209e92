"""Runs the programs, takes snapshots with GDB, and scores the answers of `py-deadlocks`.

A program is a Python script, or a C++ or Rust source, in `programs/deadlocked` or `programs/healthy`. The text at its
top names the public report that it is written after, and ends with its truth, a JSON object:

    Truth: {"expect": "deadlock", "edges": [["main", "mutex", "worker"], ["worker", "gil", "main"]]}

expect     ``deadlock``; ``healthy``: it runs until it is asked to end; ``hang``: it is blocked, and not because its
           own threads deadlock
edges      the waiting thread, the kind of lock (several, separated by ``|``, if each is true), the holder; null if no
           living thread can release it
greenlets  the edges of cycles of greenlets, each named by its outermost function that is not eventlet's: the waiting
           greenlet, the class of the lock (``end`` if it waits for the end of the other), and the holder
behind     further threads that can never run again because of these
waits      the waits of these, in the format of edges: a standstill lists them too
standstill true if no thread of the process can ever run again; not needed if all threads are listed above
silent     the targets in which nothing is known to be found: ``live``, ``core``, or ``core-3.11`` for one interpreter
core       false to write no core: GDB up to 13 includes all memory reserved for heaps, 64 MiB for each thread; all
           other programs run with one heap
packages   the Python packages that it needs, by import name
extension  the C++ source of an extension module, or the Rust source of a library, that it needs, in `programs`; for a
           C++ program the source of a library that it is linked with
pythons    its interpreters, if not the usual ones
flags      compiler flags
builds     of a C++ or Rust program: further compiler flags, separated by spaces, of each of its builds; if the first
           word is ``clang``, it is compiled by clang and not by gcc
long       further builds, for a long run
crates     of a Rust program: the crates that it needs, as cargo has them
library    a library that it is linked with, by its name in tests/support/debian_packages.py

It prints one JSON line, `{"pid": 1, "threads": {ROLE: NUMBER}}`, when its threads are started; a process that is to be
inspected may be a child of the one that was started. A healthy one ends, with status 0, when the file `stop` in its
directory is no longer a zero byte, or, if the line has `"listens": true`, when it gets SIGTERM.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import random
import re
import resource
import select
import signal
import subprocess
import tempfile
import time
import zlib
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gdbext.commands.base import Result
from gdbext.commands.py_deadlocks import COMMAND
from gdbext.schema.write import document
from tests.support import clang, combinations, crates, debian_packages, differential, gdb_session, interpreters, samples
from tests.support.samples import PATIENCE, wait_until

Json = dict[str, Any]

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
#: The usual interpreters.
PYTHONS = ("3.11", "3.13", "3.13t")
#: The variable with the interpreters to run programs with, separated by commas, or ``all``; by default one each.
CHOICE = "GDBEXT_PRECISION_PYTHONS"
#: The name of C++ programs among the interpreters.
NATIVE = "native"
#: The number of snapshots of a healthy program, and the number in a long run.
LOOKS, LONG_LOOKS = 1, 50
#: The same without GDB.
LOOKS_WITHOUT_GDB, LONG_LOOKS_WITHOUT_GDB = 3, 200
#: The time after which there are no more of these, in seconds, and the least number of them. Not in a long run.
LOOKING, LEAST_LOOKS = 3.0, 2
#: Stops a program for a snapshot; GDB keeps it to itself, and no program uses it.
STOP = signal.SIGUSR2
#: The name of the core that `looks_at` makes of a process that goes on.
GCORE = "gcore"
#: The time without a change after which a program counts as stuck, in seconds.
STILL = 0.5
#: The longest time for which a program runs between two snapshots, in seconds.
PAUSE = 0.01

_KEYS = {"expect", "edges", "greenlets", "behind", "waits", "standstill", "silent", "core", "packages", "pythons",
         "flags", "extension", "library", "crates", "builds", "long"}
#: The first word of a build by clang.
_CLANG = "clang"
_CXX_FLAGS = ("-x", "c++", "-O1", "-g", "-std=c++20", "-Wall", "-Wextra", "-pthread")


@dataclass(frozen=True)
class Program:
    """A program and its truth."""

    path: Path
    expect: str
    edges: tuple[tuple[str, frozenset[str], str | None], ...]
    greenlets: tuple[tuple[str, frozenset[str], str | None], ...]
    behind: frozenset[str]
    waits: tuple[tuple[str, frozenset[str], str | None], ...]
    standstill: bool
    silent: tuple[str, ...]
    core: bool
    packages: tuple[str, ...]
    pythons: tuple[str, ...]
    flags: tuple[str, ...]
    extension: str | None
    library: str | None
    crates: tuple[str, ...]

    @property
    def name(self) -> str:
        """The program's name in the score."""
        return self.path.stem

    @property
    def chosen(self) -> tuple[str, ...]:
        """The interpreters to run the program with in this run."""
        if self.pythons[0].startswith(NATIVE):
            # every second build of a program with several, always the same ones
            return tuple(combinations.part(self.pythons, zlib.crc32(self.name.encode()))) or self.pythons
        choice = os.environ.get(CHOICE, "")
        if choice == "all":
            return self.pythons
        if choice:
            return tuple(python for python in self.pythons if python in (NATIVE, *choice.split(",")))
        # always the same one for a program, and different ones among the programs
        return (self.pythons[zlib.crc32(self.name.encode()) % len(self.pythons)],)

    @property
    def is_seen_by_gdb(self) -> bool:
        """Whether GDB reads it in this run, too: a third of the programs, always the same, and all in a long run."""
        return combinations.LONG or zlib.crc32(self.name.encode()) // 7 % 3 == 0

    @classmethod
    def read(cls, path: Path) -> Program:
        """Read the header of a program."""
        text = path.read_text().split('"""' if path.suffix == ".py" else "*/")[path.suffix == ".py"]
        report, _, truth = text.partition("Truth: ")
        data: Json = json.loads(truth)
        unknown = data.keys() - _KEYS
        assert not unknown, f"{path}: {unknown} is not understood"
        assert data["expect"] in ("deadlock", "healthy", "hang"), path
        assert ("edges" in data) == (data["expect"] == "deadlock"), path
        assert len(report.split()) > 10, f"{path} does not say which public report it is written after"
        return cls(
            path,
            data["expect"],
            _edges(data.get("edges", ())),
            _edges(data.get("greenlets", ())),
            frozenset(data.get("behind", ())),
            _edges(data.get("waits", ())),
            data.get("standstill", False),
            tuple(data.get("silent", ())),
            data.get("core", True),
            tuple(data.get("packages", ())),
            tuple(data.get("pythons", PYTHONS if path.suffix == ".py" else [
                f"{NATIVE} {build}".strip()
                for build in [*data.get("builds", [""]), *(data.get("long", ()) if combinations.LONG else ())]])),
            tuple(data.get("flags", ())),
            data.get("extension"),
            data.get("library"),
            tuple(data.get("crates", ())),
        )


def _edges(listed: Iterable[tuple[str, str, str | None]]) -> tuple[tuple[str, frozenset[str], str | None], ...]:
    return tuple((waiter, frozenset(kinds.split("|")), holder) for waiter, kinds, holder in listed)


def programs() -> list[Program]:
    """All programs, the deadlocked ones first."""
    folders = (PROGRAMS / "deadlocked", PROGRAMS / "healthy")
    paths = [path for folder in folders for path in sorted(folder.iterdir()) if path.suffix in (".py", ".cpp", ".rs")]
    return [Program.read(path) for path in paths if path.name != "__init__.py"]


@dataclass(frozen=True)
class Running:
    """A running program.

    `pid` is the process to inspect, `threads` are its threads' numbers by role; `listens` says whether SIGTERM makes
    it exit normally.
    """

    program: Program
    process: subprocess.Popen[str]
    directory: Path
    pid: int
    threads: Mapping[str, int]
    listens: bool
    symbols: bool
    executable: str

    def role(self, lwp: int) -> str:
        """The role of a thread, or a text with its number if the program has not named it."""
        return next((role for role, tid in self.threads.items() if tid == lwp), f"thread {lwp}")

    def wait_until_stuck(self, still: float = STILL) -> None:
        """Wait until nothing has changed for some seconds: every thread with a role sleeps in the same system call."""
        since = time.monotonic()
        before: dict[str, str] = {}

        def is_still() -> bool:
            nonlocal since
            for role, tid in self.threads.items():
                now = _where(self.pid, tid)
                # a thread waiting for the GIL wakes up every 5 ms and sleeps again
                if now != "running" and now != before.get(role):
                    before[role] = now
                    since = time.monotonic()
            return len(before) == len(self.threads) and time.monotonic() > since + still

        wait_until(is_still, f"{self.program.name} to be stuck")

    def end(self) -> None:
        """Ask a healthy program to end, which shows that it was healthy."""
        if self.listens:
            # and do nothing else: a program that ends by itself removes its handler before the end
            _terminate(self.pid)
        else:
            # the file must never become shorter, because the program has mapped it
            with open(self.directory / "stop", "r+b") as file:
                file.write(b"!")
        try:
            status = self.process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            place = gdb_session.batch(["-p", str(self.pid)], ["py-threads-locks"], symbols=self.symbols)
            raise AssertionError(f"{self.program.name} does not end; {self._errors()}\n{place.outputs[0]}") from None
        assert status == 0, f"{self.program.name} ended with status {status}; {self._errors()}"

    def _errors(self) -> str:
        return "its errors:\n" + (self.directory / "stderr").read_text()


def _terminate(pid: int) -> None:
    """Send SIGTERM to a process's main thread, or, if that blocks the signal, to the thread that waits for it.

    A signal to the process could be taken by a thread that is just starting another one, and then Python's main
    thread would not wake up.
    """
    blocked = re.search(r"^SigBlk:\s*(\w+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert blocked is not None
    if int(blocked[1], 16) >> signal.SIGTERM - 1 & 1:
        os.kill(pid, signal.SIGTERM)
    else:
        assert ctypes.CDLL(None).tgkill(pid, pid, int(signal.SIGTERM)) == 0


def _where(pid: int, tid: int) -> str:
    """The system call that a thread sleeps in, with the first argument; ``running``, or ``ended``."""
    try:
        words = Path(f"/proc/{pid}/task/{tid}/syscall").read_text().split()
    except FileNotFoundError:
        return "ended"
    # after a stop a wait with a timeout is another system call; a condition variable has two futex words
    return words[0] if words[0] == "running" or len(words) < 3 else f"{words[0]} {int(words[1], 16) >> 6:#x}"


@contextlib.contextmanager
def running(program: Program, python: str, directory: Path) -> Iterator[Running]:
    """Run a program in a directory of its own until it has named its threads; kill it in the end.

    :param python: the name of the interpreter, or `NATIVE`.
    """
    argv, environment, symbols = _command(program, python)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "stop").write_bytes(b"\0")
    with open(directory / "stderr", "w") as errors:
        process = subprocess.Popen(
            argv, cwd=directory, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
            text=True, start_new_session=True,
        )
    try:
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], 60)
        line = process.stdout.readline() if ready else ""
        assert line, f"{argv} said nothing; status {process.poll()}\n{(directory / 'stderr').read_text()}"
        answer = json.loads(line)
        _, hard_limit = resource.prlimit(answer["pid"], resource.RLIMIT_CORE)
        resource.prlimit(answer["pid"], resource.RLIMIT_CORE, (hard_limit, hard_limit))
        yield Running(program, process, directory, answer["pid"], answer["threads"], answer.get("listens", False),
                      symbols, os.readlink(f"/proc/{answer['pid']}/exe"))
    finally:
        # its children too
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream:
                stream.close()


def _command(program: Program, python: str) -> tuple[list[str], dict[str, str], bool]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment = {**kept, "MALLOC_ARENA_MAX": "1"} if program.core else kept
    if python.startswith(NATIVE):
        build = python[len(NATIVE):].split()
        if program.path.suffix == ".rs":
            binary = _compile_rust(program.name, program.path, (*program.flags, *build), program.crates)
            return [str(binary)], environment, "-Cstrip=symbols" not in build
        compiler = clang.command() if build[:1] == [_CLANG] else ()
        build = build[1:] if compiler else build
        linked = debian_packages.library(program.library) if program.library else None
        if linked is None:
            options: tuple[str, ...] = ()
            if program.extension:
                own = compile_cpp(f"lib{program.name}.so", PROGRAMS / program.extension, ("-O2", "-shared", "-fPIC"))
                options = (f"-Wl,{own}",)  # else it would be compiled as C++
            binary = compile_cpp(program.name, program.path, (*program.flags, *build), options, compiler)
        else:
            environment |= linked.variables
            binary = compile_cpp(program.name, program.path, (*program.flags, *build, *linked.flags), linked.options,
                                 compiler)
        return [str(binary)], environment, "-s" not in build
    path, symbols = interpreters.use(python)
    if program.packages:
        path = _with_packages(program, python, path)
    if program.extension and program.extension.endswith(".rs"):
        built = ("--crate-type=cdylib", "-Copt-level=3", "-Cstrip=symbols")
        environment["PRECISION_EXTENSION"] = str(_compile_rust("librust.so", PROGRAMS / program.extension, built))
    elif program.extension:
        asked = "import sysconfig; print(sysconfig.get_path('include'))"
        if "pybind11" in program.packages:
            asked += "; import pybind11; print(pybind11.get_include())"
        headers = samples.HERE.run([path, "-c", asked]).split()
        flags = (*(f"-isystem{header}" for header in headers), "-shared", "-fPIC", "-fvisibility=hidden",
                 *program.flags)
        extension = compile_cpp(f"{program.name}.so", PROGRAMS / program.extension, flags)
        environment["PRECISION_EXTENSION"] = str(extension)
    library = compile_cpp("native.so", PROGRAMS / "native.cpp", ("-shared", "-fPIC", "-fopenmp"))
    environment["PRECISION_NATIVE"] = str(library)
    environment["PYTHONPATH"] = str(interpreters.CHECKOUT)
    return [str(path), str(program.path)], environment, symbols


def compile_cpp(name: str, source: Path, flags: tuple[str, ...], options: tuple[str, ...] = (),
                compiler: tuple[str, ...] = ()) -> Path:
    """Compile a program or library of the suites, once for each set of flags."""
    # a program is recompiled if a header changes
    headers = zlib.crc32(b"".join(path.read_bytes() for path in sorted(PROGRAMS.glob("*.hpp"))))
    return samples.compiled(name, os.path.relpath(source, samples.SOURCES),
                            (*_CXX_FLAGS, f"-DHEADERS={headers}", *flags), (*options, "-lstdc++"), strip=False,
                            compiler=compiler)


def _compile_rust(name: str, source: Path, flags: tuple[str, ...], needed: tuple[str, ...] = ()) -> Path:
    # as for C++
    scene = zlib.crc32(b"".join(path.read_bytes() for path in sorted(PROGRAMS.glob("*.rs"))))
    flags = f"--cfg=scene_{scene}", *flags
    from_samples = os.path.relpath(source, samples.SOURCES)
    if needed:
        return crates.build(from_samples, needed, stripped="-Cstrip=symbols" in flags, flags=flags)
    return samples.compiled(name, from_samples, ("--edition=2021", *flags), strip=False)


def _with_packages(program: Program, python: str, base: Path) -> Path:
    """The interpreter of the virtual environment that scripts/precision creates."""
    path = samples.cache_directory().parent / "precision" / python / "bin" / "python"
    wanted = " ".join(program.packages)
    if not path.exists():
        interpreters.do_without("precision-packages", f"no {path}; scripts/precision makes it, with {wanted}")
    imported = subprocess.run([str(path), "-c", f"import {', '.join(program.packages)}"], capture_output=True,
                              text=True, check=False)
    if imported.returncode:
        interpreters.do_without("precision-packages", f"scripts/precision has not installed {wanted}")
    assert path.resolve() == base.resolve(), f"{path} is not made with {base}"
    return path


# -- snapshots -----------------------------------------------------------------------------------------------------

def look_live(target: Running) -> Json:
    """One snapshot of a process."""
    return _one_look(["-p", str(target.pid)], target.symbols)


def look_at_core(target: Running) -> tuple[Json, Json, set[str]]:
    """Snapshots of a core of a process that may end: by GDB, and as `look_without_gdb`."""
    path = _core(target)
    without = _look_at_core_without_gdb(target, path)
    return (_look_at_file(target, path), *without)


def look_at_core_without_gdb(target: Running) -> tuple[Json, set[str]]:
    """One snapshot of a core of a process that may end, and what it leaves out, as `look_without_gdb`."""
    path = _core(target)
    made = _look_at_core_without_gdb(target, path)
    path.unlink()
    return made


def _core(target: Running) -> Path:
    """Make a core of a process, which may end: the kernel does if it leaves cores in its directory, otherwise GDB."""
    path = target.directory / "core"
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    if "/" in pattern or pattern.startswith("|"):
        core_by_gdb(target.pid, path)
    else:
        os.kill(target.pid, signal.SIGABRT)
        wait_until(lambda: _is_gone(target), f"{target.program.name} to die")
        found = sorted(target.directory.glob(f"{pattern.partition('%')[0]}*"))
        assert len(found) == 1, f"which is the core? {found}"
        path = found[0]
    return path


def core_by_gdb(pid: int, path: Path) -> None:
    """Make a core of a process, which goes on, with GDB."""
    made = gdb_session.batch(["-p", str(pid)], [f"generate-core-file {path}"], load=False)
    assert path.exists(), f"no core was made\n{made}"


def look_at_gcore(target: Running) -> Json:
    """One snapshot of the core that `looks_at` made."""
    path = target.directory / GCORE
    assert path.exists(), f"no core was made\n{_tail(target.directory / 'gdb')}"
    return _look_at_file(target, path)


def _look_at_file(target: Running, core: Path) -> Json:
    document = _one_look([target.executable, core], target.symbols)
    core.unlink()
    return document


def _is_gone(target: Running) -> bool:
    if target.pid == target.process.pid:
        return target.process.poll() is not None
    try:
        return samples.thread_state(target.pid) == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def _one_look(gdb_args: list[str | Path], symbols: bool) -> Json:
    session = gdb_session.batch(gdb_args, ["py-deadlocks --json"], symbols=symbols)
    assert session.status == 0, f"the snapshot failed\n{session}"
    return session.document(0)


def look_without_gdb(target: Running) -> tuple[Json, set[str]]:
    """One snapshot of a process without GDB, and what it leaves out."""
    report, left_out = differential.of_process(target.pid, target.symbols)
    assert COMMAND.confirmed is not None
    return _document(COMMAND.confirmed(report)), left_out


def looks_without_gdb(target: Running) -> Iterator[tuple[Json, set[str]]]:
    """Snapshots of a process without GDB: several of a healthy program, one of another, which does not change."""
    is_healthy = target.program.expect == "healthy"
    number = (LONG_LOOKS_WITHOUT_GDB if combinations.LONG else LOOKS_WITHOUT_GDB) if is_healthy else 1
    end = math.inf if combinations.LONG else time.monotonic() + LOOKING
    for look in range(number):
        if look >= LEAST_LOOKS and time.monotonic() >= end:
            break
        yield look_without_gdb(target)


def _look_at_core_without_gdb(target: Running, core: Path) -> tuple[Json, set[str]]:
    made, left_out = differential.of_core(core, Path(target.executable), target.symbols,
                                          lambda snapshot: COMMAND.run(snapshot, Namespace(), ()))
    return _document(made), left_out


def _document(made: Result) -> Json:
    answer: Json = json.loads(json.dumps(document(made.report, made.parts)))
    return answer


def looks_at(target: Running, number: int) -> Iterator[Json]:
    """Take snapshots of a process, which runs for a random time between them, and make a core at the end.

    One GDB stays attached for all snapshots, because it takes half a second to read the symbols; the harness stops
    the process, which takes a few milliseconds.
    """
    chance = random.Random(f"{target.program.name} {number}")
    reading, writing = os.pipe()
    argv = [gdb_session.executable(), "-nx", "-batch", *gdb_session.settings(symbols=target.symbols),
            *gdb_session.INDEX, "-iex", "set print thread-events off",
            "-iex", "set print inferior-events off", "-iex", gdb_session.LOAD,
            "-p", str(target.pid), "-x", str(HERE / "looks.py")]
    with tempfile.TemporaryDirectory(prefix="gdbext-home-") as home, open(reading) as pipe:
        with open(writing, "w") as other_end, open(target.directory / "gdb", "w") as output:
            variables = {"PRECISION_LOOKS": str(number), "PRECISION_SIGNAL": STOP.name, "PRECISION_PIPE": str(writing)}
            if target.program.core:
                variables["PRECISION_CORE"] = str(target.directory / GCORE)
            session = subprocess.Popen(
                argv, env={**gdb_session.environment(Path(home)), **variables}, stdin=subprocess.DEVNULL,
                stdout=output, stderr=output, pass_fds=[other_end.fileno()], start_new_session=True,
            )
        try:
            failed: list[str] = []
            for look in range(number):
                ready, _, _ = select.select([pipe], [], [], gdb_session.TIMEOUT)
                line = pipe.readline() if ready else ""
                if not line:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        session.wait(timeout=10)  # it may be printing why it ends
                    raise AssertionError(f"GDB ended or hung after {look} snapshots\n"
                                         + _tail(target.directory / "gdb"))
                answer = json.loads(line)
                # once in thousands of snapshots GDB selects a thread that ends during the stop, and can read nothing
                if "document" in answer:
                    yield answer["document"]
                else:
                    failed.append(f"snapshot {look + 1} failed: {answer['failed']}")
                assert len(failed) <= 1, "\n".join([*failed, _tail(target.directory / "gdb")])
                time.sleep(chance.uniform(0, PAUSE))
                os.kill(target.pid, STOP)
            session.wait(timeout=gdb_session.TIMEOUT)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(session.pid, signal.SIGKILL)
            session.wait()


def _tail(path: Path) -> str:
    return "\n".join(path.read_text().splitlines()[-30:])


# -- the score -----------------------------------------------------------------------------------------------------

RIGHT, SILENT, FALSE = "right", "silent", "false"
#: The reasons of a lock for which the machine code of one thread too many seems to prove that it holds the lock.
_CONTRADICTIONS = ("several-proven", "too-many-readers")
#: The maximum number of reasons in the score of one program.
_MAX_WHY = 3


@dataclass
class Score:
    """The result of one program under one interpreter: the worst snapshot counts, and the worst of each kind."""

    program: str
    python: str
    expect: str
    looks: int = 0
    verdict: str = RIGHT
    #: by target: ``live`` or ``core``
    verdicts: dict[str, str] = field(default_factory=dict)
    #: what was wrong, or what was missing
    why: list[str] = field(default_factory=list)

    def add(self, target: str, verdict: str, why: str | None) -> None:
        """Add one snapshot.

        :param target: ``live`` or ``core``.
        """
        self.looks += 1
        self.verdict = _worse(self.verdict, verdict)
        self.verdicts[target] = _worse(self.verdicts.get(target, RIGHT), verdict)
        reason = f"{target}: {why}"
        if why and reason not in self.why and len(self.why) < _MAX_WHY:
            self.why.append(reason)


def unexpected(program: Program, score: Score) -> list[str]:
    """The targets in which a score is worse than expected for the program."""
    return [target for target, verdict in score.verdicts.items() if verdict == FALSE
            or verdict == SILENT and not {target, f"{target}-{score.python}"} & {*program.silent}]


def _worse(one: str, other: str) -> str:
    return max(one, other, key=[RIGHT, SILENT, FALSE].index)


def judge(program: Program, threads: Mapping[int, str], document: Json) -> tuple[str, str | None]:
    """Compare a document of `py-deadlocks` with the truth.

    :param threads: roles by TID.
    :return: the verdict, and what is wrong or missing.
    """
    roles = {row["number"]: threads.get(row["lwp"], f"thread {row['lwp']}") for row in document["threads"]}
    kinds = {row["id"]: row["kind"] for row in document["locks"]}
    orphans = {row["id"] for row in document["locks"] if row["orphan"]}
    reported = [[(roles[edge["waiter"]], kinds[edge["lock"]],
                  None if edge["holder"] is None else roles[edge["holder"]]) for edge in deadlock["edges"]]
                for deadlock in document["deadlocks"]]
    if "known" in document:
        return FALSE, f"taken for {document['known']}"
    verdict = document["verdict"]
    # cycles of tasks and greenlets are not deadlocks of threads, and a core is that of a program that was killed
    says_stuck = verdict["ends_by_itself"] is False and verdict["kind"] not in ("task-cycle", "greenlet-cycle", "crash")
    if says_stuck != bool(reported):
        return FALSE, f"the verdict is {verdict['kind']}, and reported are {reported}"
    contradictory = [row["id"] for row in document["locks"]
                     if (row.get("why_code") or {}).get("code") in _CONTRADICTIONS]
    if contradictory:
        return FALSE, f"more threads seem to hold {contradictory} than can"
    of_greenlets = _judge_greenlets(program, document)
    if of_greenlets is not None:
        return of_greenlets
    if program.expect != "deadlock":
        return (FALSE, f"reported {reported}") if reported else (RIGHT, None)
    members = {waiter for waiter, _, _ in program.edges}
    stuck = members | program.behind
    # threads without a role are those of libraries: they are blocked like the rest, and not part of a cycle
    standstill = program.standstill or stuck == {*threads.values()} == {*threads.values(), *roles.values()}
    found: set[str] = set()
    for deadlock, edges in zip(document["deadlocks"], reported):
        named = {roles[number] for number in deadlock["threads"]}
        if not standstill and not named <= members:
            return FALSE, f"{sorted(named - members)} is in no deadlock: {reported}"
        behind = {roles[number] for number in deadlock["stuck_behind"]}
        if not standstill and not behind <= stuck:
            return FALSE, f"{sorted(behind - stuck)} is not stuck: {reported}"
        for edge, lock in zip(edges, [edge["lock"] for edge in deadlock["edges"]]):
            # every thread of a standstill has no other thread that could end its wait
            if not _is_told(program, edge) and not (standstill and edge[2] is None and lock not in orphans):
                return FALSE, f"{edge} is not true: {reported}"
        found |= named
    if not members <= found:
        return SILENT, f"nothing is said of {sorted(members - found)}" + (f": {reported}" if reported else "")
    return RIGHT, None


def _judge_greenlets(program: Program, document: Json) -> tuple[str, str] | None:
    """What is wrong or missing about cycles of greenlets; None if nothing is."""
    rows = {row["id"]: row for row in document.get("greenlets", ())}
    name = {address: next((each["function"] for each in reversed(row["stack"])
                           if "/eventlet/" not in each.get("file", "")), address) for address, row in rows.items()}
    found = {(name[address], rows[address]["waits"]["kind"] or "end", name[other])
             for cycle in document.get("greenlet_cycles", ()) for address in cycle
             for other in (*rows[address]["waits"]["holders"], *rows[address]["waits"]["greenlets"])}
    for waiter, kind, holder in sorted(found):
        if not any(waiter == own and kind in kinds and holder == other for own, kinds, other in program.greenlets):
            return FALSE, f"{(waiter, kind, holder)} is not true"
    missing = {waiter for waiter, _, _ in program.greenlets} - {waiter for waiter, _, _ in found}
    return (SILENT, f"nothing is said of greenlets {sorted(missing)}") if missing else None


def _is_told(program: Program, edge: tuple[str, str, str | None]) -> bool:
    waiter, kind, holder = edge
    return any(waiter == own and kind in kinds and holder == other
               for own, kinds, other in (*program.edges, *program.waits))
