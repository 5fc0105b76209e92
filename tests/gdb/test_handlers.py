"""Programs that hang and are ended by a signal that they handle: in their cores a thread sends that signal again.

What it did is outside of the handler's frames, and must be told as if there were none.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gdbext.arch.x86_64.system_calls import system_call_names
from tests.support import cores, gdb_session, interpreters, roots, samples
from tests.support.hang import Hang
from tests.support.report import Report
from tests.support.samples import HERE, Place, Sample

FAULTHANDLER = ("-X", "faulthandler")
COMMANDS = ("py-threads-locks --json", "py-deadlocks --json", "py-crash --json", "py-deadlocks", "py-crash")
RAPIDS = [
    *((name, "rwlock") for name in ("3.9", "3.11", "3.11-stripped", "3.12", "3.13", "3.13t")),
    *((name, "mutex") for name in ("3.11", "3.13")),
    ("3.12", "readers"),
]
#: Words for handlers.c.
HANDLERS = ("plain", "restart", "info", "stack", "info stack restart", "abort", "abort info", "blocked",
            "blocked restart")
# as rapids.py, but with the Python program's first thread as the one that holds the driver's lock and wants the GIL
SWAPPED = """
import sys
sys.path.insert(0, sys.argv[1])
import rapids

def pipeline():
    witness.enrol("main")
    driver.free.drv_await_holders(1)
    rapids.run_pipeline(witness, 3)

driver = rapids.Driver(sys.argv[2])
driver.free.drv_open(rapids.RWLOCK)
witness = rapids.Witness(driver, "rwlock")
rapids.start("pipeline", pipeline)
rapids.worker_loop(witness, "worker", False)
"""
# a program of one thread: what it says before it does it
SINGLE = """
import ctypes, json, os, select, signal, sys, threading, time

scene = sys.argv[1]
main = {"tid": os.getpid(), "python_name": "MainThread", "blocked": scene != "compute", "syscall": None, "stack": []}
print(json.dumps({"sample": "single", "variant": scene, "pid": os.getpid(), "threads": {"main": main}, "locks": {},
                  "deadlock": [], "stuck_behind": []}), flush=True)
reading_end, _ = os.pipe()
if scene == "sleep":
    time.sleep(1000)
elif scene == "read":
    os.read(reading_end, 1)
elif scene == "poll":
    poll = select.poll()
    poll.register(reading_end, select.POLLIN)
    poll.poll()
elif scene == "lock":
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
elif scene == "thread":
    main_thread = threading.get_ident()

    def looks():
        # how often it has gone to sleep, and in which system call it is
        main = f"/proc/self/task/{os.getpid()}"
        with open(f"{main}/status") as status, open(f"{main}/syscall") as call:
            return [*(line for line in status if "ctxt_switches" in line), call.read()]

    def watch():
        before = None
        while before != (before := looks()) or before[-1].startswith("running"):
            time.sleep(0.1)
        signal.pthread_kill(main_thread, signal.SIGABRT)

    threading.Thread(target=watch).start()
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
elif scene == "abort":
    os.abort()
elif scene == "assert":
    ctypes.CDLL(None).__assert_fail(b"count > 0", b"drv.c", 7, b"drv_share")
while True:
    pass
"""
#: In which system call each ends up; which one it is depends on the release.
CALLS = {
    "sleep": ("clock_nanosleep", "select"),
    "read": ("read",),
    "poll": ("poll",),
    "lock": ("futex",),
}


@dataclass(frozen=True)
class Died(Hang):
    """What each of its commands is."""

    errors: str

    @property
    def verdict(self) -> Report:
        """`py-deadlocks --json`."""
        return self.part(1)

    @property
    def crash(self) -> Any:
        """What `py-crash --json` says of the crash."""
        return self.session.document(2)["crash"]

    def check_sent(self, code: str | None = None, in_handler: bool = True) -> None:
        """It is told that the signal came from elsewhere, and where it met the thread.

        :param in_handler: whether it died in the handler, not when that had returned.
        """
        fault = self.crash["fault"]
        assert (fault["signal"], fault["kind"], fault["code"]) == ("SIGABRT", "sent", code)
        assert fault["in_handler"] == in_handler
        assert "abort()" not in self.session.outputs[4]
        row = next(row for row in self.everything.document["threads"] if row["lwp"] == self.truth.pid)
        assert self.crash["thread"] == row["number"]
        if row["status"] == "running":
            return  # it is in the interpreter's own frames, which are not shown
        # the handler's frames are told with the thread's stack, and not with the crash
        places = [frame["pc"] for frame in row["stack"] if frame["language"] == "native"]
        assert (places.index(fault["pc"]) > 0) == in_handler
        assert self.crash["stack"][0]["pc"] == fault["pc"]

    def check_hang(self) -> None:
        """What is told is what the sample said of itself."""
        assert self.session.status == 0, self.session
        assert "Traceback" not in self.session.stderr
        assert re.search("^(handled|Fatal Python error: Aborted)$", self.errors, re.MULTILINE)
        report = self.everything
        assert report.document["problems"] == []
        assert len(report.roles) == len(self.truth.threads)
        for role, expected in self.truth.threads.items():
            row = report.thread(role)
            assert row["status"] == "blocked"
            between = role in self.truth.locks["gil"].waiters if "gil" in self.truth.locks else False
            assert row["syscall"] == expected.syscall or between and row["syscall"] is None
            assert report.python_stack(role) == expected.stack, role
        for name, lock in self.truth.locks.items():
            if lock.kind != "gil":
                report.check_lock(name)
                continue
            gil = report.gil()
            assert (gil["state"], report.role(gil["holder"])) == ("held", *lock.holders)
            assert {report.role(number) for number in gil["waiters"]} == set(lock.waiters)
        for each in (report, self.verdict):
            assert each.edges() == set(self.truth.deadlock)
            (deadlock,) = each.document["deadlocks"]
            assert {report.role(number) for number in deadlock["stuck_behind"]} == set(self.truth.stuck_behind)
        # the report of the crash tells the same of those that it lists
        rows = self.session.document(2)["threads"]
        assert self.crash["thread"] in [row["number"] for row in rows]
        for row in rows:
            other = report.thread(report.roles[row["number"]])
            for key in ("status", "syscall", "python_state", "holds", "waits"):
                assert row[key] == other[key], key
        self.check_note()

    def check_note(self) -> None:
        """Once in each document and each text."""
        for index in (0, 1, 2):
            (note,) = self.session.document(index)["notes"]
            assert "SIGABRT" in note
            assert "handler" in note
        for index in (3, 4):
            assert self.session.outputs[index].count(note) == 1


def look(sample: Sample, executable: Path, symbols: bool = True, sysroot: Sequence[str] = ()) -> Died:
    """What is told of the core that the sample leaves when somebody ends it."""
    with cores.place(sample, executable, "kernel-core") as where:
        session = gdb_session.batch([*sysroot, *where], COMMANDS, symbols=symbols, directory=sample.directory)
    errors = (sample.directory / "stderr").read_text()
    return Died(sample.truth.variant, sample.truth, session, errors)


def surroundings(suite: str) -> tuple[Place, Sequence[str], Path, Path]:
    """Where programs run (here, or in a Debian tree), how GDB finds files of there, a Python there, and its file."""
    if suite == "here":
        python, _ = interpreters.use(interpreters.ANY)
        return HERE, (), python, python
    root = roots.use(suite)
    return root.place, root.sysroot, root.python, root.outside(root.python)


def handling(words: str, place: Place = HERE) -> dict[str, str]:
    """The environment of a program with a handler of handlers.c."""
    flags = ("-O2", "-std=gnu11", "-Wall", "-Wextra", "-shared", "-fPIC")
    library = samples.compiled("libhandlers.so", "handlers.c", flags, strip=True, place=place)
    return {"LD_PRELOAD": str(library), "HANDLER": words}


def script(text: str, arguments: Sequence[str | Path], python: Path, directory: Path,
           options: Sequence[str] = FAULTHANDLER, place: Place = HERE) -> AbstractContextManager[Sample]:
    """Run a program of this file."""
    (directory / "program.py").write_text(text)
    return samples.running([python, *options, "program.py", *arguments], directory, place=place)


@pytest.mark.parametrize(("name", "variant"), RAPIDS, ids=["-".join(case) for case in RAPIDS])
def test_thread_that_holds_and_waits(name: str, variant: str, tmp_path: Path) -> None:
    python, symbols = interpreters.use(name)
    with samples.rapids(python, variant, tmp_path, [*interpreters.with_gil(name), *FAULTHANDLER]) as sample:
        died = look(sample, python, symbols)
    died.check_hang()
    died.check_sent()


@pytest.mark.parametrize("name", ["3.9", "3.12", "3.13t"])
def test_thread_that_waits_for_the_gil(name: str, tmp_path: Path) -> None:
    python, symbols = interpreters.use(name)
    options = [*interpreters.with_gil(name), *FAULTHANDLER]
    with script(SWAPPED, [samples.SOURCES, samples.build("libdrv.so")], python, tmp_path, options) as sample:
        died = look(sample, python, symbols)
    assert died.truth.threads["worker"].tid == died.truth.pid
    died.check_hang()
    died.check_sent()


@pytest.mark.parametrize("words", HANDLERS)
def test_handlers(words: str, tmp_path: Path) -> None:
    python, symbols = interpreters.use(interpreters.ANY)
    with samples.rapids(python, "mutex", tmp_path, variables=handling(words)) as sample:
        died = look(sample, python, symbols)
    died.check_hang()
    if "info" in words.split():
        died.check_sent("SI_USER")
        assert died.crash["fault"]["sender"] == {"pid": os.getpid(), "uid": os.getuid()}
    elif words == "abort":
        # a handler of any signal may do so, and which signal it was that came is not recorded
        assert died.crash["fault"]["text"] == "the program called abort()"
    else:
        died.check_sent(in_handler="blocked" not in words.split())
        assert died.crash["fault"]["sender"] is None


@pytest.mark.parametrize(("suite", "words"), [
    ("here", "plain"), ("here", "blocked restart"), ("bullseye", "plain"), ("bullseye", "restart"), ("trixie", "plain"),
    ("trixie", "blocked restart"), ("sid", "plain"), ("sid", "restart")])
def test_thread_that_has_no_part_in_it(suite: str, words: str, tmp_path: Path) -> None:
    """It waits for another thread's end; the system calls of each glibc are another code."""
    place: Place = HERE
    sysroot: tuple[str, ...] = ()
    if suite != "here":
        root = roots.use(suite)
        place, sysroot = root.place, root.sysroot
    program = samples.build("abba-stripped", place)
    with samples.running([program, "mutex"], tmp_path, place=place, variables=handling(words, place)) as sample:
        died = look(sample, place.outside(program), sysroot=sysroot)
    if (suite, words) == ("bullseye", "plain"):
        # the number is in a register that is loaded outside of the loop in which the thread waits
        assert died.everything.thread("main")["status"] == "running"
        assert died.everything.edges() == set(died.truth.deadlock)
        died.check_note()
        return
    died.check_hang()


@pytest.mark.parametrize("scenario", ["rapids", "swapped"])
@pytest.mark.parametrize("suite", interpreters.SUITES)
def test_other_debian(suite: str, scenario: str, tmp_path: Path) -> None:
    root = roots.use(suite)
    if scenario == "rapids":
        started = samples.rapids(root.python, "rwlock", tmp_path, FAULTHANDLER, place=root.place)
    else:
        arguments = [samples.SOURCES, samples.build("libdrv.so", root.place)]
        started = script(SWAPPED, arguments, root.python, tmp_path, place=root.place)
    with started as sample:
        died = look(sample, root.outside(root.python), sysroot=root.sysroot)
    died.check_hang()
    died.check_sent()


@pytest.mark.parametrize(("suite", "scene"), [
    *(("here", scene) for scene in (*CALLS, "compute")), ("trixie", "lock"), ("trixie", "poll"), ("sid", "lock"),
    ("sid", "sleep"), ("bullseye", "poll")])
def test_thread_that_is_alone(suite: str, scene: str, tmp_path: Path) -> None:
    place, sysroot, python, executable = surroundings(suite)
    with script(SINGLE, [scene], python, tmp_path, place=place) as sample:
        call = wait_for_call(sample, CALLS.get(scene, (None,)))
        died = look(sample, executable, sysroot=sysroot)
    row = died.everything.thread("main")
    assert row["syscall"] == call
    assert row["status"] == ("blocked" if call else "running")
    assert died.everything.python_stack("main")[0][:2] == ("<module>", str(tmp_path / "program.py"))
    waits = row["waits"]["lock"].partition(":")[0] if row["waits"] else None
    assert waits == {"read": "descriptor", "poll": "descriptor", "lock": "py-lock"}.get(scene)
    died.check_note()
    died.check_sent()


def wait_for_call(sample: Sample, calls: Sequence[str | None]) -> str | None:
    """In which of these system calls the program's only thread stays; None stands for one that computes."""
    names = system_call_names()
    seen: list[str | None] = []

    def settled() -> bool:
        word = Path(f"/proc/{sample.pid}/syscall").read_text().split()[0]
        seen.append(None if word == "running" else names[int(word)])
        return len(seen) > 3 and seen[-1] in calls and set(seen[-3:]) == {seen[-1]}

    samples.wait_until(settled, f"one of {calls}", seen=lambda: seen[-3:])
    return seen[-1]


@pytest.fixture(params=[("here", "abort"), ("here", "assert"), ("bullseye", "abort"), ("sid", "assert")], ids="-".join)
def aborted(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Died]:
    """A program that ends itself, and handles that as well."""
    suite, scene = request.param
    place, sysroot, python, executable = surroundings(suite)
    with script(SINGLE, [scene], python, tmp_path, place=place) as sample:
        # it is there until somebody asks for its status, and the signal that is sent then does nothing to it
        os.waitid(os.P_PID, sample.pid, os.WEXITED | os.WNOWAIT)
        yield look(sample, executable, sysroot=sysroot)


def test_program_that_aborts_itself(aborted: Died) -> None:
    fault = aborted.crash["fault"]
    assert "Fatal Python error: Aborted" in aborted.errors
    assert aborted.everything.document["deadlocks"] == []
    assert aborted.verdict.document["deadlocks"] == []
    row = aborted.everything.thread("main")
    assert (row["status"], row["waits"]) == ("running", None)
    assert fault["in_handler"]
    functions = [frame["function"] for frame in aborted.crash["stack"]]
    assert "<module>" in functions
    if aborted.variant == "abort":
        assert (fault["kind"], fault["text"]) == ("abort", "the program called abort()")
        return
    assert fault["kind"] == "assertion"
    assert "count > 0" in fault["message"]


def test_another_thread_of_the_program_sends_it(tmp_path: Path) -> None:
    """As a watchdog does; nothing handles it."""
    python, _ = interpreters.use(interpreters.ANY)
    with script(SINGLE, ["thread"], python, tmp_path, options=()) as sample:
        os.waitid(os.P_PID, sample.pid, os.WEXITED | os.WNOWAIT)
        died = look(sample, python)
    fault = died.crash["fault"]
    assert (fault["kind"], fault["code"], fault["in_handler"]) == ("sent", "SI_TKILL", False)
    assert fault["text"] == "SIGABRT was sent by another thread of the program: the code that ran is not at fault"
    # the other one may have ended before or not, and the sample does not tell of it
    document = died.session.document(0)
    main = next(row for row in document["threads"] if row["lwp"] == died.truth.pid)
    assert main["waits"]["lock"].startswith("py-lock")
    assert "notes" not in document
