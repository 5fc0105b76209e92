"""Reading symbols before a process is stopped: the report is the same, and GDB runs no text of the process."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gdbext.debugger.preview import Preview
from gdbext.launcher.snapshots.snapshot import Options, Snapshot, Target, take_snapshot
from tests.support import gdb_session, interpreters, packages, samples
from tests.support.gdb_session import timeless, without_times
from tests.support.interpreters import CHECKOUT
from tests.support.samples import Sample

#: Python code that GDB runs first: it records GDB's commands, and the symbol files before attaching and at the end.
_WATCH = r"""
import glob, json, os, re, sys, time, gdb
sys.path.append({checkout!r})
from gdbext.debugger import prefetch

pid, seen = {pid}, {{"commands": [], "lines": [], "tracers": [], "states": []}}
prefetch._SECONDS = 1000  # read as many symbols on a loaded machine as on others

def files():
    return [file.filename for file in gdb.objfiles()]

def opened(real=gdb.execute):
    # "2          0x55623f975660     /usr/bin/sleep                           "
    text = real("maintenance info bfds", to_string=True)
    return [match[1].strip() for match in re.finditer(r"^\d+ +0x[0-9a-f]+ +(.+)$", text, re.M)]

def note_threads():
    for name in glob.glob(f"/proc/{{pid}}/task/*/status"):
        with open(name) as file:
            status = dict(line.split(":", 1) for line in file)
        seen["tracers"].append(status["TracerPid"].strip())
        seen["states"].append(status["State"].split()[0])

def move():
    '''Make the process act after symbols were read and before it is stopped.'''

{what}

def execute(command, *rest, real=gdb.execute, **options):
    seen["commands"].append(command)
    if command.startswith("attach"):
        seen["before"] = files()
        move()
    elif command == "detach":
        seen.update(after=files(), opened=opened())
        with open({answer!r}, "w") as file:
            json.dump(seen, file)
    try:
        return real(command, *rest, **options)
    finally:
        if command.startswith("add-symbol-file"):
            note_threads()

def find_pc_line(address, real=gdb.find_pc_line):
    found = real(address)
    if "before" not in seen and found.symtab is not None:
        seen["lines"].append(os.path.basename(found.symtab.filename))
    return found

gdb.execute, gdb.find_pc_line = execute, find_pc_line
"""
_WITHOUT = "prefetch.Prefetch.read = lambda self: None"
#: The program of tests/samples/moved_library.c unloads the library when it reads a byte, then waits for another.
_MOVE = """
def move():
    with open(f"/proc/{pid}/fd/0", "w") as file:
        file.write("x")
    end = time.monotonic() + 600
    while time.monotonic() < end:
        with open(f"/proc/{pid}/syscall") as file:
            if os.path.exists(f"/proc/{pid}/cwd/moved") and file.read().startswith("0 0x0 "):
                return
        time.sleep(0.005)
"""
_FLAGS = ("-O2", "-std=gnu11", "-Wall", "-Wextra", "-g")
#: Characters with a meaning for GDB, for argument parsers or in regular expressions, except a line feed.
ODD = " -o 0x10 two  spaces 'single' \"double \\back\\slash $0 `x` #; | & [a]*(b)+? {c} ^~.so "


@dataclass(frozen=True)
class Watched:
    """A snapshot, and GDB's commands meanwhile.

    `before` and `after` are the files whose symbols GDB had before it attached and before it detached; `opened` are the
    files it had open at the end. `lines` are the sources whose line tables it had before it attached, `tracers`
    and `states` those of the threads after each file that was read before.
    """

    snapshot: Snapshot
    commands: list[str]
    lines: list[str]
    tracers: list[str]
    states: list[str]
    before: list[str]
    after: list[str]
    opened: list[str]

    @property
    def document(self) -> dict[str, Any]:
        assert self.snapshot.document is not None, self.snapshot.problem
        return self.snapshot.document

    def functions(self, thread: int = 0) -> list[str]:
        return [frame["function"] for frame in self.document["threads"][thread]["stack"]]


def watch(sample: Sample, directory: Path, what: str = "", *, symbols: bool = True) -> Watched:
    """Take a snapshot of a sample as `gdbext report --each` does.

    :param what: Python code to add to the script that GDB runs first.
    """
    answer, program, gdb = directory / "answer", directory / "watch.py", directory / "watching-gdb"
    program.write_text(_WATCH.format(checkout=str(CHECKOUT), pid=sample.pid, what=what, answer=str(answer)))
    options = "" if symbols else '-iex "set debug-file-directory /nonexistent" '
    gdb.write_text(f'#!/bin/sh\nexec {shutil.which(gdb_session.executable())} {options}-iex "source {program}" "$@"\n')
    gdb.chmod(0o755)
    seen = take_snapshot(Target(pid=sample.pid), Options(gdb=str(gdb), timeout=gdb_session.TIMEOUT, each=True))
    assert seen.problem is None, seen.problem
    found = json.loads(answer.read_text())
    answer.unlink()
    for tid in sample.tids():
        assert sample.status(tid, "TracerPid") == "0"
    return Watched(seen, **found)


def check(sample: Sample, directory: Path, *libraries: str, symbols: bool = True) -> Watched:
    """Compare the reports with and without symbols that were read before.

    :param libraries: names of files whose symbols GDB must have had before it attached.
    """
    watched, without = (watch(sample, directory, what, symbols=symbols) for what in ("", _WITHOUT))
    # both runs did what they are for
    assert {*libraries} <= {os.path.basename(name) for name in watched.before}
    assert [os.path.realpath(name) for name in without.before] == [os.path.realpath(f"/proc/{sample.pid}/exe")]
    assert timeless(watched.document) == timeless(without.document)
    assert without_times(watched.snapshot.text) == without_times(without.snapshot.text)
    assert watched.snapshot.dot == without.snapshot.dot
    assert watched.snapshot.status == without.snapshot.status
    assert any(frame["language"] == "native" for row in watched.document["threads"] for frame in row["stack"])
    check_read_once(watched)
    # the process kept running
    assert {*watched.tracers} == {"0"}
    assert not {*watched.states} & {*"tTZX"}
    return watched


def check_read_once(watched: Watched) -> None:
    """Check that GDB has each file open once, by one name, including those that were read before."""
    assert len(watched.opened) == len({*watched.opened})
    assert {name.strip() for name in watched.before} <= {*watched.opened}
    by_file: dict[str, set[str]] = {}
    for name in (*watched.opened, *watched.after):
        if name.startswith("/"):
            by_file.setdefault(os.path.realpath(name.strip()), set()).add(name.strip())
    assert [names for names in by_file.values() if len(names) > 1] == []


# -- reports ------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", ["3.9", "3.11", "3.11-stripped", "3.13t"])
def test_python_program(name: str, tmp_path: Path) -> None:
    python, symbols = interpreters.use(name)
    with samples.rapids(python, "rwlock", tmp_path / "run", interpreters.with_gil(name)) as sample:
        watched = check(sample, tmp_path, "libc.so.6", "libdrv.so", *shared_library(sample), symbols=symbols)
    assert len(watched.document["deadlocks"]) == 1


def shared_library(sample: Sample) -> list[str]:
    """The library that contains the interpreter; empty if the executable contains it."""
    return [*dict.fromkeys(re.findall(r"/(libpython[^/\n]+)$", Path(f"/proc/{sample.pid}/maps").read_text(), re.M))]


def test_free_threaded(tmp_path: Path) -> None:
    python, _ = interpreters.use("3.13t")
    with samples.free_threaded(python, "guard-world", tmp_path / "run") as sample:
        watched = check(sample, tmp_path, "libc.so.6", "_freethreaded.so")
    assert len(watched.document["deadlocks"]) == 1


def test_symbols_are_read_in_the_stop_without_time_before(tmp_path: Path) -> None:
    """All symbols are then read while the process is paused."""
    with samples.abba("mutex", tmp_path / "run") as sample:
        watched = watch(sample, tmp_path, "prefetch._SECONDS = 0")
    assert [os.path.basename(name) for name in watched.before] == ["abba"]
    assert len(watched.document["deadlocks"]) == 1


@pytest.mark.parametrize("stripped", [False, True], ids=["with lines", "stripped"])
def test_native_program(stripped: bool, tmp_path: Path) -> None:
    with samples.abba("rwlock", tmp_path / "run", stripped=stripped) as sample:
        watched = check(sample, tmp_path, "libc.so.6", symbols=not stripped)
    assert len(watched.document["deadlocks"]) == 1
    assert ("abba.c" in watched.lines) == (not stripped)


def test_numpy(tmp_path: Path) -> None:
    python, _ = interpreters.use("3.11")
    scenes = ["numpy_ufunc", "ctypes_callback"]
    with samples.boundaries(python, scenes, tmp_path / "run", packages.use("3.11")) as sample:
        watched = check(sample, tmp_path, "libc.so.6", "libboundaries.so",
                        "_multiarray_umath.cpython-311-x86_64-linux-gnu.so")
        preview = Preview(sample.pid)
        pointed_to = {preview.path_at(address) for address in preview.code_addresses()}
        linked = {os.path.basename(file.name): preview.path_at(file.dynamic) for file in preview.linked_files()}
    # nothing else was read, except files that a word on a stack points to, even a stale one
    before = {os.path.basename(name) for name in watched.before} & {*linked}
    assert {linked[name] for name in before - {"libc.so.6", "libpthread.so.0"}} <= pointed_to
    assert {*linked} - before


# -- libraries that move ------------------------------------------------------------------------------------------

def library(name: str) -> Path:
    """A library of tests/samples/moved_library.c, by the name of its function."""
    flags = (*_FLAGS, "-shared", "-fPIC", f"-DFUNCTION={name}_library")
    return samples.compiled(f"lib{name}.so", "moved_library.c", flags, strip=False)


@contextlib.contextmanager
def moved(first: Path, to: str, directory: Path) -> Iterator[Sample]:
    program = samples.compiled("moved_library", "moved_library.c", _FLAGS, ("-ldl",), strip=False)
    with samples.running([program, first, library("other"), to], directory) as sample:
        yield sample


@pytest.mark.parametrize("to", ["elsewhere", "away"])
def test_library_moved_before_the_stop(to: str, tmp_path: Path) -> None:
    """Another library is loaded at its address; it is listed under the name of a link, not under its own."""
    link = tmp_path / ODD
    link.symlink_to(library("first"))
    with moved(link, to, tmp_path / "run") as sample:
        watched = watch(sample, tmp_path, _MOVE)
        first, other, again = map(int, (tmp_path / "run" / "moved").read_text().split())
        without = watch(sample, tmp_path, _WITHOUT)
    assert first == other != again, "the kernel puts a file where there is room for it"
    assert (again != 0) == (to == "elsewhere")
    assert str(link) in watched.before
    # only the files that GDB read by itself remain
    assert watched.after.count(str(link)) == (to == "elsewhere")
    inside = ["call_first_again", "other_library"]
    wanted = ["wait_for_byte", *(["first_library", *inside] if again else inside[1:]), "main"]
    functions = watched.functions()
    assert functions[functions.index("wait_for_byte"):][:len(wanted)] == wanted
    assert timeless(watched.document) == timeless(without.document)
    assert without_times(watched.snapshot.text) == without_times(without.snapshot.text)


def test_library_listed_twice(tmp_path: Path) -> None:
    """A program can create such a list, and one of the two entries could not be removed."""
    twice = ("def linked_files(self, real=prefetch.Preview.linked_files):\n    return real(self) * 2\n"
             "prefetch.Preview.linked_files = linked_files")
    link = tmp_path / "a link.so"
    link.symlink_to(library("first"))
    with moved(link, "away", tmp_path / "run") as sample:
        watched = watch(sample, tmp_path, twice + _MOVE)
    assert watched.before.count(str(link)) == 1
    assert watched.after.count(str(link)) == 0


# -- other mount namespaces and root directories ------------------------------------------------------------------

#: Two threads that wait for each other's locks.
_ABBA = """\
import json, os, threading

locks, barrier = [threading.Lock(), threading.Lock()], threading.Barrier(3)
threads = {}


def cross(first, second):
    with locks[first]:
        threads[threading.current_thread().name] = threading.get_native_id()
        barrier.wait()
        barrier.wait()
        with locks[second]:
            pass


for pair in (0, 1), (1, 0):
    threading.Thread(target=cross, args=pair, name=f"cross-{pair[0]}").start()
barrier.wait()
truth = {name: {"tid": tid, "python_name": name, "blocked": True, "syscall": "futex", "stack": []}
        for name, tid in threads.items()}
print(json.dumps({"sample": "abba in Python", "variant": "", "pid": os.getpid(), "threads": truth,
                  "locks": {}, "deadlock": [], "stuck_behind": []}), flush=True)
barrier.wait()
"""


def in_mount_namespace() -> list[str]:
    """The command prefix for a new mount namespace; skips the test where that is not allowed."""
    command = ["unshare", "--mount"]
    try:
        tried = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
    except OSError as error:
        pytest.skip(f"no unshare: {error}")
    if tried.returncode:
        pytest.skip(f"no mount namespace can be made here: {tried.stderr.strip()}")
    return command


@pytest.mark.parametrize("name", ["3.12", "3.12-stripped", "3.9"])
def test_python_in_another_mount_namespace(name: str, tmp_path: Path) -> None:
    """GDB must know each library once; two copies of libpython would double its frames and its runtime."""
    enter = in_mount_namespace()
    python, symbols = interpreters.use(name)
    program = tmp_path / "abba.py"
    program.write_text(_ABBA)
    with samples.running([*enter, python, program], tmp_path / "run") as sample:
        watched = check(sample, tmp_path, "libc.so.6", *shared_library(sample), symbols=symbols)
    document = watched.document
    assert len(document["runtimes"]) == 1
    assert len(document["deadlocks"]) == 1
    assert "Python frames first" not in watched.snapshot.text
    stacks = [[frame["function"] for frame in thread["stack"] if frame["language"] == "python"]
              for thread in document["threads"]]
    assert sorted(stack.count("cross") for stack in stacks) == [0, 1, 1]


def test_absolute_link_in_another_mount_namespace(tmp_path: Path) -> None:
    """Through /proc/PID/root the link refers to a file of this namespace, so GDB must open it in the other one."""
    enter = in_mount_namespace()
    program = samples.compiled("moved_library", "moved_library.c", _FLAGS, ("-ldl",), strip=False)
    made = (f"mount -t tmpfs none /mnt && cp {library('first')} /mnt/real.so && ln -s /mnt/real.so /mnt/link.so && "
            f"exec {program} /mnt/link.so {library('other')} away")
    with samples.running([*enter, "sh", "-c", made], tmp_path / "run") as sample:
        watched, without = watch(sample, tmp_path), watch(sample, tmp_path, _WITHOUT)
    functions = watched.functions()
    assert functions[functions.index("wait_for_byte"):][:3] == ["wait_for_byte", "first_library", "main"]
    assert timeless(watched.document) == timeless(without.document)
    check_read_once(watched)


@pytest.mark.parametrize("namespace", [False, True], ids=["chroot", "mount namespace"])
def test_another_root_directory(namespace: bool, tmp_path: Path) -> None:
    """Outside that directory the library's name refers to a different file."""
    enter = in_mount_namespace() if namespace else []
    if os.geteuid() != 0:
        pytest.skip("only root may change the root directory")
    program = samples.compiled("moved_library", "moved_library.c", _FLAGS, ("-ldl",), strip=False)
    root, plugin, inside = tmp_path / "root", tmp_path / "plugin.so", Path("/moved_library")
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    for name in (*re.findall(r"(?<=\s)/\S+", listed), str(plugin), str(inside)):
        (root / name[1:]).parent.mkdir(parents=True, exist_ok=True)
        source = {str(plugin): library("first"), str(inside): program}.get(name, Path(name))
        shutil.copy(source, root / name[1:])
    shutil.copy(library("other"), plugin)
    with samples.running([*enter, "chroot", root, inside, plugin, plugin, "away"], tmp_path / "run") as sample:
        watched = check(sample, tmp_path, "libc.so.6", plugin.name)
    functions = watched.functions()
    assert functions[functions.index("wait_for_byte"):][:3] == ["wait_for_byte", "first_library", "main"]
    assert watched.document["target"]["executable"].endswith(str(inside))


# -- names --------------------------------------------------------------------------------------------------------

def test_library_with_an_odd_name(tmp_path: Path) -> None:
    odd = tmp_path / ODD
    shutil.copy(library("first"), odd)
    with moved(odd, "away", tmp_path / "run") as sample:
        watched = check(sample, tmp_path, "libc.so.6", ODD)
    functions = watched.functions()
    assert functions[functions.index("wait_for_byte"):][:3] == ["wait_for_byte", "first_library", "main"]


def report(sample: Sample) -> dict[str, Any] | None:
    """The document of `gdbext report`; None if it printed only one line with the reason why there is none."""
    command = [sys.executable, "-m", "gdbext", "report", "--json", "--gdb", gdb_session.executable(), str(sample.pid)]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(CHECKOUT)}, cwd="/", stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=gdb_session.TIMEOUT, check=False)
    for tid in sample.tids():
        assert sample.status(tid, "TracerPid") == "0"
    assert "Traceback" not in done.stderr
    assert "internal error" not in done.stderr
    if not done.stdout:
        assert done.returncode == 3
        assert re.fullmatch(r"gdbext report: .+; .+\n", done.stderr), done.stderr
        return None
    document: dict[str, Any] = json.loads(done.stdout)
    assert gdb_session.violations(document) == []
    assert done.returncode == (1 if document["deadlocks"] else 0)
    return document


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[list[Path]]:
    """File names that would make GDB create other files, which must not exist at the end."""
    made = [tmp_path / "by-shell", tmp_path / "by-python"]
    names = [tmp_path / f"x\nshell touch {made[0]}\n.so", tmp_path / f"x\npython open({str(made[1])!r}, 'w')\n.so"]
    # they would be created if the name were part of a command
    gdb_session.batch([], [f"python gdb.execute('echo ' + {str(name)!r})" for name in names], load=False)
    for path in made:
        path.unlink()
    for name in names:
        name.parent.mkdir(parents=True)
    # a command with the first line of the name succeeds, so GDB would run the next lines
    shutil.copy(library("first"), tmp_path / "x")
    yield names
    assert not any(path.exists() for path in made)


def debug_files(watched: Watched) -> list[str]:
    return [os.path.basename(name) for name in watched.before if name.endswith(".debug")]


def test_library_with_line_feeds_in_its_name(hostile: list[Path], tmp_path: Path) -> None:
    """It is not read before the stop, and no part of its name is executed."""
    for index, name in enumerate(hostile):
        shutil.copy(library("first"), name)
        with moved(name, "away", tmp_path / f"run-{index}") as sample:
            watched = watch(sample, tmp_path)
            document = report(sample)
        # a stale word on the stack may point into the dynamic linker
        read = {os.path.basename(path) for path in watched.before} - {*debug_files(watched), "ld-linux-x86-64.so.2"}
        assert read == {"moved_library", "libc.so.6"}
        assert not any("\n" in command for command in [*watched.before, *watched.commands])
        assert document is not None
        assert watched.functions()[-1] == "_start"
        assert "wait_for_byte" in watched.functions()


@pytest.mark.parametrize("kind", ["odd", "hostile", "no text"])
def test_executable_with_line_feeds_in_its_name(kind: str, hostile: list[Path], tmp_path: Path) -> None:
    names = {"odd": [tmp_path / ODD], "hostile": hostile, "no text": [tmp_path / os.fsdecode(b"a\xff") / "abba"]}
    for index, name in enumerate(names[kind]):
        name.parent.mkdir(exist_ok=True)
        shutil.copy(samples.build("abba"), name)
        with samples.running([name, "rwlock"], tmp_path / f"run-{index}") as sample:
            document = report(sample)
        if document is not None:
            assert len(document["deadlocks"]) == 1
        if kind == "odd":
            assert document is not None
            assert document["target"]["executable"] == str(name)
