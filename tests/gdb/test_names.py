"""Names that are not UTF-8, of a library, a function, a source file and the executable: the report is complete."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support import cores, gdb_session, interpreters, roots, samples
from tests.support.interpreters import CHECKOUT
from tests.support.samples import Sample

#: Its thread locks a mutex of the library twice, the second time inside the library.
_PROGRAM = rb"""
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
#line 7 "/source/odd-\xff.c"
int enter_twice(const char *path) {
    void *library = dlopen(path, RTLD_NOW);
    void (*enter)(void) = library ? (void (*)(void))dlsym(library, "enter") : 0;
    if (!enter)
        return 1;
    enter();
    int pid = getpid();
    printf("{\"sample\": \"names\", \"variant\": \"\", \"pid\": %d, \"threads\": {\"main\": {\"tid\": %d, "
           "\"python_name\": null, \"blocked\": true, \"syscall\": \"futex\", \"stack\": []}}, \"locks\": {}, "
           "\"deadlock\": [], \"stuck_behind\": []}\n", pid, pid);
    fflush(stdout);
    enter();
    return 0;
}

int main(int count, char **words) {
    return count == 2 ? enter_twice(words[1]) : 1;
}
"""
_LIBRARY = rb"""
#include <pthread.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
int inner(void) __asm__("lock_\xff\xe9");
__attribute__((noinline)) int inner(void) { return pthread_mutex_lock(&mutex) + 1; }
int enter(void) { return inner() + 1; }
"""
COMMANDS = ("py-deadlocks", "py-threads-locks --each", "py-threads-locks --json", "lock-owner", "py-mixed-bt", "bt",
            "bt -full")
#: GDB reads the symbols of a library only when an address is in it.
LATE = ["-iex", "set auto-solib-add off"]


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The program and its library, in folders with names that are not UTF-8."""
    folder = tmp_path_factory.mktemp("names") / os.fsdecode(b"folder-\xff")
    folder.mkdir()
    program, library = folder / os.fsdecode(b"program-\xfe"), folder / os.fsdecode(b"lib\xfd.so")
    common = ["gcc", "-O1", "-fno-optimize-sibling-calls", "-x", "c", "-"]
    subprocess.run([*common, "-g", "-o", program, "-ldl", "-pthread"], input=_PROGRAM, check=True)
    subprocess.run([*common, "-shared", "-fPIC", "-o", library], input=_LIBRARY, check=True)
    return program, library


@pytest.fixture(scope="module")
def sample(odd: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sample]:
    """The deadlocked program."""
    with samples.running([*odd], tmp_path_factory.mktemp("run")) as running:
        yield running


def check(session: gdb_session.Result) -> None:
    """Check that the report has the waiting thread, the function and library it is in, and the calling line."""
    assert session.status == 0, session
    assert "Traceback" not in session.stderr
    assert "internal error" not in session.stderr
    for command in COMMANDS:
        assert session.error_lines(command.split()[0]) == []
    assert gdb_session.violations(session.document(2)) == []
    document = session.document(2)
    (thread,) = document["threads"]
    frames = [(frame["function"], frame["module"]) for frame in thread["stack"] if frame["language"] == "native"]
    functions = [function for function, _ in frames]
    # programs get the bytes back, people see escapes
    at = functions.index(os.fsdecode(b"lock_\xff\xe9"))
    assert functions[at + 1:at + 4] == ["enter", "enter_twice", "main"]
    assert frames[at][1] == os.fsdecode(b"lib\xfd.so")
    assert os.fsdecode(b"odd-\xff.c") in {os.path.basename(frame["file"] or "") for frame in thread["stack"]}
    assert document["deadlocks"][0]["threads"] == [1]
    for index in (0, 1, 3):
        assert "in lib\\xfd.so" in session.outputs[index]
        assert session.outputs[index].isascii()
    for index in (1, 4):
        assert "lock_\\xff\\xe9 () in lib\\xfd.so" in session.outputs[index]
        assert "odd-\\xff.c:18" in session.outputs[index]
    for index in (5, 6):
        lines = [line.split(" in ", 1)[-1] for line in session.outputs[index].splitlines()]
        assert [line for line in lines if re.fullmatch(r"lock_\\xff\\xe9 \(\) (at|from) .*/lib\\xfd\.so", line)]
        assert [line for line in lines if re.fullmatch(r"enter_twice \(path=.*\) at /source/odd-\\xff\.c:18", line)]
    assert re.search(r"^ +pid = .+$", session.outputs[6], re.MULTILINE)


@pytest.mark.parametrize("first", [[], LATE], ids=["whole", "late"])
@pytest.mark.parametrize("name", ["", *interpreters.GDBS], ids=["default", *interpreters.GDBS])
def test_process_with_odd_names(name: str, first: Sequence[str], sample: Sample) -> None:
    gdb = [roots.use_gdb(name)] if name else []
    check(gdb_session.batch([*first, "-p", str(sample.pid)], COMMANDS, gdb=gdb))
    assert not sample.is_stopped()


@pytest.mark.parametrize("first", [[], LATE], ids=["whole", "late"])
def test_core_with_odd_names(first: Sequence[str], sample: Sample, odd: tuple[Path, Path], tmp_path: Path) -> None:
    core = cores.gdb_core(sample)
    # GDB's own commands do not accept such a name either
    link = tmp_path / "program"
    link.symlink_to(odd[0])
    try:
        check(gdb_session.batch([*first, link, core], COMMANDS))
    finally:
        core.unlink()


def report(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return launch("report", *words)


def launch(verb: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gdbext", verb, "--gdb", gdb_session.executable(), *words]
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": str(CHECKOUT)}, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=gdb_session.TIMEOUT, check=False)


def test_launcher_on_a_process(sample: Sample, tmp_path: Path) -> None:
    page, graph = tmp_path / "page.html", tmp_path / "graph.dot"
    done = report("--html", page, "--dot", graph, str(sample.pid))
    assert done.returncode == 1, done.stderr
    assert "lock_\\xff\\xe9 () in lib\\xfd.so" in done.stdout
    assert "\nDEADLOCK: " in done.stdout
    assert "lib\\xfd.so" in page.read_text()
    assert r"lib\\xfd.so" in graph.read_text()
    assert sample.status(sample.pid, "TracerPid") == "0"
    document = json.loads(report("--json", str(sample.pid)).stdout)
    assert gdb_session.violations(document) == []
    assert os.path.basename(document["target"]["executable"]) == os.fsdecode(b"program-\xfe")


def test_launcher_on_a_core(sample: Sample) -> None:
    """GDB commands cannot contain the executable's name, so the launcher gives it another one."""
    core = cores.gdb_core(sample)
    try:
        check_core(core)
    finally:
        core.unlink()


def test_sysroot_with_an_odd_name_is_refused(sample: Sample, tmp_path: Path) -> None:
    root = tmp_path / os.fsdecode(b"root-\xff")
    root.symlink_to("/")
    core = cores.gdb_core(sample)
    try:
        check_core(core, "--sysroot", root)
    finally:
        core.unlink()
    done = report("--sysroot", root, str(sample.pid))
    assert done.returncode == 3
    assert re.fullmatch(r"gdbext report: .*/root-\\xff; make a link to it .*\n", done.stderr)


@pytest.fixture(scope="module")
def kernel_core(odd: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A core that begins with names that are not UTF-8: the executable and the command line."""
    folder = tmp_path_factory.mktemp("dies")
    # a short name, because the kernel keeps only 80 bytes of the command line
    program = folder / os.fsdecode(b"\xff\xfe")
    shutil.copy(odd[0], program)
    with samples.running([Path(program.name), odd[1]], folder, variables={"PATH": str(folder)}) as dying:
        return cores.kernel_core(dying)


def test_report_of_a_core_with_a_command_line_not_in_utf8(kernel_core: Path) -> None:
    check_core(kernel_core)


def test_triage_of_a_core_with_a_command_line_not_in_utf8(kernel_core: Path) -> None:
    done = launch("triage", "--json", kernel_core)
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert (found["count"], found["failures"]) == (1, [])
    assert found["classes"][0]["kind"] == "deadlock"


def check_core(core: Path, *options: str | Path) -> None:
    done = report(*options, core)
    assert done.returncode == 1, done.stderr
    assert done.stderr == ""
    assert "lock_\\xff\\xe9 () in lib\\xfd.so" in done.stdout
    assert "\nDEADLOCK: " in done.stdout
