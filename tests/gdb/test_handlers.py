"""Cores of hung programs that handled the signal which ended them: a thread in its handler sends the signal again.

The interrupted work is below the handler's frames, and must be reported as if the handler had not run.
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
from tests.support import cores, differential, gdb_session, interpreters, roots, samples
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
# like rapids.py, but the main thread holds the driver's lock and waits for the GIL
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
# a program with one thread, which announces what it does next
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
#: The final system call of each scene, which depends on the release.
CALLS = {
    "sleep": ("clock_nanosleep", "select"),
    "read": ("read",),
    "poll": ("poll",),
    "lock": ("futex",),
}


@dataclass(frozen=True)
class Died(Hang):
    """The hang and the crash report of a program that died."""

    errors: str

    @property
    def verdict(self) -> Report:
        """`py-deadlocks --json`."""
        return self.part(1)

    @property
    def crash(self) -> Any:
        """The crash in `py-crash --json`."""
        return self.session.document(2)["crash"]

    def check_sent(self, code: str | None = None, in_handler: bool = True) -> None:
        """Check that the report names the signal's origin, and the place where it interrupted the thread.

        :param in_handler: whether it died in the handler, not after the handler returned.
        """
        fault = self.crash["fault"]
        assert (fault["signal"], fault["kind"], fault["code"]) == ("SIGABRT", "sent", code)
        assert fault["in_handler"] == in_handler
        assert "abort()" not in self.session.outputs[4]
        row = next(row for row in self.everything.document["threads"] if row["lwp"] == self.truth.pid)
        assert self.crash["thread"] == row["number"]
        if row["status"] == "running":
            return  # it is in the interpreter's own frames, which are not shown
        # the handler's frames are in the thread's stack, not in the crash
        places = [frame["pc"] for frame in row["stack"] if frame["language"] == "native"]
        assert (places.index(fault["pc"]) > 0) == in_handler
        assert self.crash["stack"][0]["pc"] == fault["pc"]

    def check_hang(self) -> None:
        """Compare the report with the sample's truth."""
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
        # the crash report says the same about the threads that it lists
        rows = self.session.document(2)["threads"]
        assert self.crash["thread"] in [row["number"] for row in rows]
        for row in rows:
            other = report.thread(report.roles[row["number"]])
            for key in ("status", "syscall", "python_state", "holds", "waits"):
                assert row[key] == other[key], key
        self.check_note()

    def check_note(self) -> None:
        """Check that the note occurs once in each document and each text."""
        for index in (0, 1, 2):
            (note,) = self.session.document(index)["notes"]
            assert "SIGABRT" in note
            assert "handler" in note
        for index in (3, 4):
            assert self.session.outputs[index].count(note) == 1


def inspect_core(sample: Sample, executable: Path, symbols: bool = True, sysroot: Sequence[str] = ()) -> Died:
    """Run the commands on the core that the sample leaves when a signal ends it."""
    with cores.place(sample, executable, "kernel-core") as where:
        if sysroot:
            session = gdb_session.batch([*sysroot, *where], COMMANDS, symbols=symbols, directory=sample.directory)
        else:
            session = differential.batch(sample, where, COMMANDS, symbols=symbols, directory=sample.directory)
    errors = (sample.directory / "stderr").read_text()
    return Died(sample.truth.variant, sample.truth, session, errors)


def surroundings(suite: str) -> tuple[Place, Sequence[str], Path, Path]:
    """The place where programs run (this machine or a Debian tree), GDB's sysroot options, a Python, and its file."""
    if suite == "here":
        python, _ = interpreters.use(interpreters.ANY)
        return HERE, (), python, python
    root = roots.use(suite)
    return root.place, root.sysroot, root.python, root.outside(root.python)


def handling(words: str, place: Place = HERE) -> dict[str, str]:
    """The environment that loads a handler of handlers.c into a program."""
    flags = ("-O2", "-std=gnu11", "-Wall", "-Wextra", "-shared", "-fPIC")
    library = samples.compiled("libhandlers.so", "handlers.c", flags, strip=True, place=place)
    return {"LD_PRELOAD": str(library), "HANDLER": words}


def script(text: str, arguments: Sequence[str | Path], python: Path, directory: Path,
           options: Sequence[str] = FAULTHANDLER, place: Place = HERE) -> AbstractContextManager[Sample]:
    """Run a program of this file."""
    (directory / "program.py").write_text(text)
    return samples.running([python, *options, "program.py", *arguments], directory, place=place)


@pytest.mark.parametrize(("name", "variant"), RAPIDS, ids=["-".join(case) for case in RAPIDS])
def test_handler_in_the_main_thread_of_a_deadlock(name: str, variant: str, tmp_path: Path) -> None:
    python, symbols = interpreters.use(name)
    with samples.rapids(python, variant, tmp_path, [*interpreters.with_gil(name), *FAULTHANDLER]) as sample:
        died = inspect_core(sample, python, symbols)
    died.check_hang()
    died.check_sent()


@pytest.mark.parametrize("name", ["3.9", "3.12", "3.13t"])
def test_handler_in_a_thread_waiting_for_the_gil(name: str, tmp_path: Path) -> None:
    python, symbols = interpreters.use(name)
    options = [*interpreters.with_gil(name), *FAULTHANDLER]
    with script(SWAPPED, [samples.SOURCES, samples.build("libdrv.so")], python, tmp_path, options) as sample:
        died = inspect_core(sample, python, symbols)
    assert died.truth.threads["worker"].tid == died.truth.pid
    died.check_hang()
    died.check_sent()


@pytest.mark.parametrize("words", HANDLERS)
def test_handlers(words: str, tmp_path: Path) -> None:
    python, symbols = interpreters.use(interpreters.ANY)
    with samples.rapids(python, "mutex", tmp_path, variables=handling(words)) as sample:
        died = inspect_core(sample, python, symbols)
    died.check_hang()
    if "info" in words.split():
        died.check_sent("SI_USER")
        assert died.crash["fault"]["sender"] == {"pid": os.getpid(), "uid": os.getuid()}
    elif words == "abort":
        # a handler of any signal may do so, and the signal that arrived is not recorded
        assert died.crash["fault"]["text"] == "the program called abort()"
    else:
        died.check_sent(in_handler="blocked" not in words.split())
        assert died.crash["fault"]["sender"] is None


@pytest.mark.parametrize(("suite", "words"), [
    ("here", "plain"), ("here", "blocked restart"), ("bullseye", "plain"), ("bullseye", "restart"), ("trixie", "plain"),
    ("trixie", "blocked restart"), ("sid", "plain"), ("sid", "restart")])
def test_handler_in_a_thread_outside_the_deadlock(suite: str, words: str, tmp_path: Path) -> None:
    """It joins another thread; each glibc has different code around its system calls."""
    place: Place = HERE
    sysroot: tuple[str, ...] = ()
    if suite != "here":
        root = roots.use(suite)
        place, sysroot = root.place, root.sysroot
    program = samples.build("abba-stripped", place)
    with samples.running([program, "mutex"], tmp_path, place=place, variables=handling(words, place)) as sample:
        died = inspect_core(sample, place.outside(program), sysroot=sysroot)
    if (suite, words) == ("bullseye", "plain"):
        # the number is in a register that is loaded before the loop in which the thread waits
        assert died.everything.thread("main")["status"] == "running"
        assert died.everything.edges() == set(died.truth.deadlock)
        died.check_note()
        return
    died.check_hang()


@pytest.mark.parametrize("scenario", ["rapids", "swapped"])
@pytest.mark.parametrize("suite", interpreters.SUITES)
def test_handlers_in_another_debian(suite: str, scenario: str, tmp_path: Path) -> None:
    root = roots.use(suite)
    if scenario == "rapids":
        started = samples.rapids(root.python, "rwlock", tmp_path, FAULTHANDLER, place=root.place)
    else:
        arguments = [samples.SOURCES, samples.build("libdrv.so", root.place)]
        started = script(SWAPPED, arguments, root.python, tmp_path, place=root.place)
    with started as sample:
        died = inspect_core(sample, root.outside(root.python), sysroot=root.sysroot)
    died.check_hang()
    died.check_sent()


@pytest.mark.parametrize(("suite", "scene"), [
    *(("here", scene) for scene in (*CALLS, "compute")), ("trixie", "lock"), ("trixie", "poll"), ("sid", "lock"),
    ("sid", "sleep"), ("bullseye", "poll")])
def test_handler_in_a_single_threaded_program(suite: str, scene: str, tmp_path: Path) -> None:
    place, sysroot, python, executable = surroundings(suite)
    with script(SINGLE, [scene], python, tmp_path, place=place) as sample:
        call = wait_for_call(sample, CALLS.get(scene, (None,)))
        died = inspect_core(sample, executable, sysroot=sysroot)
    row = died.everything.thread("main")
    assert row["syscall"] == call
    assert row["status"] == ("blocked" if call else "running")
    assert died.everything.python_stack("main")[0][:2] == ("<module>", str(tmp_path / "program.py"))
    waits = row["waits"]["lock"].partition(":")[0] if row["waits"] else None
    assert waits == {"read": "descriptor", "poll": "descriptor", "lock": "py-lock"}.get(scene)
    died.check_note()
    died.check_sent()


def wait_for_call(sample: Sample, calls: Sequence[str | None]) -> str | None:
    """Wait until the program's only thread stays in one of these system calls (None: it computes), and return it."""
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
    """A program that aborts itself and handles the signal."""
    suite, scene = request.param
    place, sysroot, python, executable = surroundings(suite)
    with script(SINGLE, [scene], python, tmp_path, place=place) as sample:
        # it exists until its status is read, and a signal sent before that has no effect
        os.waitid(os.P_PID, sample.pid, os.WEXITED | os.WNOWAIT)
        yield inspect_core(sample, executable, sysroot=sysroot)


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


def test_signal_sent_by_another_thread(tmp_path: Path) -> None:
    """A watchdog thread sends it, and the program has no handler."""
    python, _ = interpreters.use(interpreters.ANY)
    with script(SINGLE, ["thread"], python, tmp_path, options=()) as sample:
        os.waitid(os.P_PID, sample.pid, os.WEXITED | os.WNOWAIT)
        died = inspect_core(sample, python)
    fault = died.crash["fault"]
    assert (fault["kind"], fault["code"], fault["in_handler"]) == ("sent", "SI_TKILL", False)
    assert fault["text"] == "SIGABRT was sent by another thread of the program: the code that ran is not at fault"
    # the other thread may have ended before, and the sample does not report it
    document = died.session.document(0)
    main = next(row for row in document["threads"] if row["lwp"] == died.truth.pid)
    assert main["waits"]["lock"].startswith("py-lock")
    assert "notes" not in document
