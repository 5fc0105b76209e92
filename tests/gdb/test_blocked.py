"""Waits for other things than locks: descriptors and the owners of their other ends, file locks, time, signals.

The sample prints the system call of each of its threads; see the top of tests/samples/blocked.c.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import cores, differential, gdb_session, interpreters, roots, samples
from tests.support.mounts import needs_mounted_root
from tests.support.report import Report
from tests.support.samples import HERE, Place, Sample, wait_until

Json = dict[str, Any]

FLAGS = ("-O2", "-std=gnu11", "-Wall", "-Wextra", "-pthread")
RESTART_SYSCALL = 219
# C libraries differ in which of two system calls they use
OTHER_CALLS = {"pselect6": (23, "select"), "semtimedop": (65, "semop"), "epoll_wait": (281, "epoll_pwait"),
               "openat": (2, "open")}
COMMANDS = ("py-threads-locks --json", "py-threads-locks --stacks=none --each", "py-deadlocks")


@dataclass(frozen=True)
class Blocked:
    """The running sample and its second line."""

    sample: Sample
    keeper: int
    connects_to: str
    roles: dict[str, Json]

    def settled(self) -> bool:
        """Whether each thread is in its system call."""
        for truth in self.roles.values():
            text = Path(f"/proc/{self.sample.pid}/task/{truth['tid']}/syscall").read_text()
            other, _ = OTHER_CALLS.get(truth["syscall"], (None, None))
            if text.split()[0] not in {str(number) for number in (truth["number"], other, RESTART_SYSCALL)}:
                return False
        return True

    def wait_until_settled(self) -> None:
        """Wait until each thread is in its system call."""
        wait_until(self.settled, "all threads to be blocked", seen=self.sample.system_calls)


@contextlib.contextmanager
def running(directory: Path, place: Place = HERE) -> Iterator[Blocked]:
    """Run the sample until all of its threads are blocked."""
    program = samples.compiled("blocked", "blocked.c", FLAGS, strip=True, place=place)
    with samples.running([program], directory, place=place) as sample:
        line = json.loads(sample.read_line())
        blocked = Blocked(sample, line["keeper"], line["connects_to"], line["roles"])
        # only the test writes to its standard input
        assert sample.process.stdin is not None
        blocked.roles["main"]["ends"] = [[os.getpid(), sample.process.stdin.fileno()]]
        blocked.wait_until_settled()
        yield blocked


class Expected:
    """The expected report, computed from the sample's truth.

    :param live: whether the target is a live process, not a core.
    :param again: whether a debugger was attached before, so that timed calls were restarted.
    """

    def __init__(self, blocked: Blocked, *, live: bool, again: bool) -> None:
        self.blocked = blocked
        self.live = live
        self.again = again
        self.by_lock: dict[str, list[str]] = {}
        for role in blocked.roles:
            lock = self.lock(role)
            if lock is not None:
                self.by_lock.setdefault(lock, []).append(role)

    def is_lost(self, role: str) -> bool:
        """Whether the original system call can no longer be determined."""
        return self.again and role == "nanosleep"

    def lock(self, role: str) -> str | None:
        truth = self.blocked.roles[role]
        if truth["state"] is None:
            return None
        if truth["state"] == "waited for":
            return f"futex:{truth['at']}"
        if truth["state"] == "file-lock":
            return f"file-lock:{truth['at'] or hex(truth['fds'][0][0])}"
        return f"descriptor:{truth['at'] or hex(truth['fds'][0][0])}"

    def words(self, role: str) -> str | None:
        """The description of a wait for something other than a descriptor."""
        truth = self.blocked.roles[role]
        words: str | None = truth["words" if self.live else "core"]
        return "is in a timed wait" if self.is_lost(role) else words

    def names(self, role: str) -> list[str]:
        return [f"fd {fd}, {what}" if self.live else f"fd {fd}" for fd, what in self.blocked.roles[role]["fds"]]

    def name(self, role: str) -> str:
        """The name of the thread's lock."""
        names = self.names(role)
        if self.blocked.roles[role]["state"] == "file-lock":
            file = names[0].partition(", ")[2] or names[0]
            return file + (", bytes 100 to 109" if role == "lock" else "")
        return names[0] if role == "splice" else "; ".join(names)

    def end(self, pid: int, fd: int) -> str:
        if pid == self.blocked.sample.pid:
            return f"fd {fd} of this process"
        name = Path(f"/proc/{pid}/comm").read_text().rstrip("\n")
        return f'fd {fd} of process {pid} "{name}"'

    def keeper_of(self, role: str) -> str:
        """The descriptor and process that hold a file lock."""
        keeper = self.blocked.keeper
        path = Path(self.blocked.roles[role]["fds"][0][1])
        (fd,) = [each.name for each in Path(f"/proc/{keeper}/fd").iterdir() if each.readlink() == path
                 and "\nlock:" in Path(f"/proc/{keeper}/fdinfo/{each.name}").read_text()]
        command = Path(f"/proc/{keeper}/cmdline").read_text().rstrip("\0").replace("\0", " ")[:120]
        return f'fd {fd} of process {keeper} "keeper" ({command})'

    def other_end(self, role: str) -> str | None:
        ends = self.blocked.roles[role]["ends"]
        if not ends:
            return None
        (pid, fd), = ends
        if role.endswith("-queued"):
            return f"no process has accepted the connection yet; it is in the queue of {self.end(pid, fd)}"
        if pid == self.blocked.sample.pid:
            return f"only this process has the other end: fd {fd}"
        return f"the other end is {self.end(pid, fd)}"

    def why(self, role: str) -> list[str]:
        """The parts of the description of a descriptor; the report must contain no others."""
        truth = self.blocked.roles[role]
        copies = [f"it copies to {self.names(role)[1]}"] if role == "splice" else []
        request = [f"request {truth['request']}"] if role == "ioctl" else []
        if not self.live:
            connects = [f"to {self.blocked.connects_to}"] if role == "unix-connect" else []
            return ["a core does not record what it referred to", *copies, *request, *connects]
        if role == "unix-connect":
            return [f"to {self.blocked.connects_to}, where {self.end(*truth['ends'][0])} listens"]
        if role == "poll-two":
            return [f"of fd {truth['fds'][0][0]}, {self.other_end(role)}",
                    f"of fd {truth['fds'][1][0]}, {self.other_end('tcp')}"]
        if truth["syscall"] in ("epoll_wait", "epoll_pwait2"):
            watched = [*self.names("pipe-self"), *self.names("tcp")]
            # the kernel lists them in any order
            return [f"it watches {' and '.join(order)}" for order in itertools.permutations(watched)]
        if truth["state"] == "file-lock":
            if truth["locked_by"] is None:
                fd = truth["ends"][0][1]
                return [f"locked by fd {fd} of this process",
                        f"only this process has the open file that holds the lock: fd {fd}"]
            return [f"locked by {self.keeper_of(role)}"]
        return [part for part in (self.other_end(role), *copies, *request) if part is not None]

    def check(self, document: Json) -> None:
        """Compare a document with the truth."""
        report = Report(document, self.blocked.sample.truth)
        assert report.document["deadlocks"] == []
        assert report.document["problems"] == []
        assert set(report.roles.values()) == set(self.blocked.roles)
        for role in self.blocked.roles:
            self._check_thread(role, report.thread(role))
        locks = {row["id"]: row for row in report.document["locks"]}
        assert set(locks) == set(self.by_lock)
        for lock_id, roles in self.by_lock.items():
            row = locks[lock_id]
            assert {report.role(waiter["thread"]) for waiter in row["waiters"]} == set(roles), lock_id
            assert (row["holders"], row["candidates"], row["orphan"]) == ([], [], None)
            if row["kind"] != "futex":
                self._check_descriptor(row, roles)

    def _check_thread(self, role: str, row: Json) -> None:
        truth = self.blocked.roles[role]
        assert row["status"] == "blocked", role
        _, other = OTHER_CALLS.get(truth["syscall"], (None, None))
        assert row["syscall"] in ((None,) if self.is_lost(role) else (truth["syscall"], other)), role
        lock = self.lock(role)
        if lock is None:
            assert row["waits"] is None, role
            words = self.words(role)
            assert words is not None
            if words == "sleeps for 9999":  # the remaining time
                assert row["blocked_on"].startswith(words)
                assert row["blocked_on"].endswith(" s more")
            else:
                assert row["blocked_on"] == words, role
            return
        mode = "shared" if role == "open-lock" else "exclusive"
        assert row["waits"] == {"lock": lock, "mode": mode, "timed": truth["timed"], "evidence": "recorded",
                                "why": None, "why_code": None}, role
        name = self.names(role)[0] if lock.startswith("file") else self.name(role)
        named = None if lock.startswith("futex") else name
        assert row["blocked_on"] == named, role

    def _check_descriptor(self, row: Json, roles: Sequence[str]) -> None:
        first = roles[0]
        truth = self.blocked.roles[first]
        assert row["kind"] == ("file-lock" if truth["state"] == "file-lock" else "descriptor")
        assert int(row["address"], 16) == (int(truth["at"], 16) if truth["at"] else truth["fds"][0][0])
        assert row["name"] == self.name(first), first
        states = {self.blocked.roles[role]["state"] for role in roles}
        if truth["state"] == "file-lock":
            states = {"locked" if self.live else "waited for"}
        assert set(row["state"].split(" or ")) == states, first
        expected = self.why(first)
        if self.live and truth["syscall"] == "epoll_wait":
            assert row["why"] in [f"{each}; only this process has the other ends" for each in expected]
        else:
            assert row["why"] == ("; ".join(expected) or None), first


def session_on(where: Sequence[str | Path], blocked: Blocked, gdb: Sequence[str | Path] = ()) -> gdb_session.Result:
    session = gdb_session.batch(where, COMMANDS, symbols=False, directory=blocked.sample.directory, gdb=gdb)
    return checked(session)


def compared_session(where: Sequence[str | Path], blocked: Blocked) -> gdb_session.Result:
    """The same, compared with the report without GDB; a process must have been stopped before, which loses one call."""
    return checked(differential.batch(blocked.sample, where, COMMANDS, symbols=False,
                                      directory=blocked.sample.directory))


def checked(session: gdb_session.Result) -> gdb_session.Result:
    assert session.status == 0
    assert "Traceback" not in session.stderr
    return session


def check_unharmed(blocked: Blocked) -> None:
    """Check that each thread is still in its system call and none has returned."""
    assert not blocked.sample.is_stopped()
    blocked.wait_until_settled()
    blocked.sample.send("x")
    assert json.loads(blocked.sample.read_line()) == {"returned": []}
    assert blocked.sample.process.wait(timeout=samples.PATIENCE) == 0


@needs_mounted_root
def test_process_attached_twice(tmp_path: Path) -> None:
    with running(tmp_path) as blocked:
        where = ["-p", str(blocked.sample.pid)]
        Expected(blocked, live=True, again=False).check(session_on(where, blocked).document())
        blocked.wait_until_settled()
        session = compared_session(where, blocked)
        Expected(blocked, live=True, again=True).check(session.document())
        check_text(blocked, session)
        check_unharmed(blocked)


def check_text(blocked: Blocked, session: gdb_session.Result) -> None:
    lines = {role: next(line for line in session.outputs[1].splitlines() if f"(LWP {truth['tid']})" in line)
             for role, truth in blocked.roles.items()}
    expected = Expected(blocked, live=True, again=True)

    def says(role: str, doing: str) -> None:
        # the sentence of the verdict is not repeated where its thread is listed
        heading = re.sub(r"^ *T(hread [0-9]+) \(.*\)", r": t\1", lines[role])
        assert lines[role].endswith(doing) or f"{heading}{doing}; " in session.outputs[1], role

    (pipe,), (timer,), (pair,) = map(expected.names, ("pipe-child", "timerfd", "pair-full"))
    says("pipe-child", f" waits to read from {pipe}; {expected.other_end('pipe-child')}")
    says("timerfd", f" waits to read from {timer}")
    says("pair-full", f" waits to write to {pair}; {expected.other_end('pair-full')}")
    says("flock", f" waits for the file lock of {expected.name('flock')}; locked by {expected.keeper_of('flock')}")
    why = "; ".join(expected.why("open-lock"))
    says("open-lock", f" waits for file lock {expected.name('open-lock')} to read, locked ({why})")
    # other threads read from the same descriptor, so it does not identify what this one does
    says("poll-one", f" is in poll on {expected.names('pipe-self')[0]}; {expected.other_end('pipe-self')}")
    says("sleep", " sleeps for 1000000.5 s")
    says("wait4", f' waits for child process {blocked.keeper} "keeper"')
    # the process itself holds one of the locks on files
    locks = sum(lock.startswith("futex") for lock in expected.by_lock) + 1
    assert session.document()["verdict"]["kind"] == "unknown"
    assert (f"\n{len(blocked.roles)} threads: {locks} wait for a lock or event, "
            f"{len(blocked.roles) - locks} are in other system calls, 0 run.") in session.outputs[2]


def test_gdb_core(tmp_path: Path) -> None:
    with running(tmp_path) as blocked:
        core = cores.gdb_core(blocked.sample)
        session = compared_session([blocked.sample.executable, core], blocked)
        Expected(blocked, live=False, again=False).check(session.document())
        core.unlink()
        check_unharmed(blocked)


@pytest.mark.parametrize("again", [False, True], ids=["at once", "after a visit"])
def test_kernel_core(again: bool, tmp_path: Path) -> None:
    with running(tmp_path) as blocked:
        if again:
            gdb_session.batch(["-p", str(blocked.sample.pid)], [], load=False)
            blocked.wait_until_settled()
        core = cores.kernel_core(blocked.sample)
        session = compared_session([blocked.sample.executable, core], blocked)
        expected = Expected(blocked, live=False, again=again)
        expected.check(session.document())
        core.unlink()


@pytest.mark.parametrize("suite", [*interpreters.SUITES, *interpreters.OLD_SUITES])
def test_other_release(suite: str, tmp_path: Path) -> None:
    """The release's own GDB reads the process if it has one, then this machine's GDB; then both read a core."""
    root = roots.use(suite)
    with running(tmp_path, root.place) as blocked:
        where = ["-p", str(blocked.sample.pid)]
        Expected(blocked, live=True, again=False).check(session_on(where, blocked, root.gdb).document())
        blocked.wait_until_settled()
        Expected(blocked, live=True, again=True).check(session_on(where, blocked).document())
        blocked.wait_until_settled()
        core = cores.kernel_core(blocked.sample)
        outside: list[str | Path] = [*root.sysroot, root.outside(blocked.sample.executable), core]
        Expected(blocked, live=False, again=True).check(session_on(outside, blocked).document())
        core.unlink()
