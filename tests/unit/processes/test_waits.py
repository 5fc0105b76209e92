"""What threads of a /proc of files wait for of other processes."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gdbext.model import EXCLUSIVE, RECORDED, Deadlock, Holder, Lock, PyFrame
from gdbext.model.kinds import LockKind
from gdbext.model.reasons import because
from gdbext.narrate.reasons import explain
from gdbext.processes.graph import Node, Wait, find_deadlocks
from gdbext.processes.waits import watch
from tests.support.fake_host import NUMBERS, Host


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.fixture
def pair(host: Host) -> Host:
    """Each of two reads a pipe that only the other writes to."""
    host.process(100, "read", [3])
    host.process(200, "read", [5], parent=100)
    host.pipe(11, (100, 3), (200, 4))
    host.pipe(12, (200, 5), (100, 6))
    return host


def test_readers_of_two_pipes_deadlock(pair: Host) -> None:
    scene = pair.scene()
    assert scene.waits[Node(100, 1)] == Wait(
        "pipe", because("reads-descriptor", link="pipe:[11]", fd=3), frozenset({Node(200, 1)}), False, "inferred",
        (because("only-processes-with-end", pids=(200,)),), empty=True)
    assert explain(scene.waits[Node(100, 1)].awaited) == "to read pipe:[11], fd 3"
    assert pair.deadlocked() == [(100, 200)]


def test_writers_of_two_pipes_deadlock(host: Host) -> None:
    host.process(100, "write", [6])
    host.process(200, "write", [4])
    host.pipe(11, (100, 3), (200, 4))
    host.pipe(12, (200, 5), (100, 6))
    assert host.deadlocked() == [(100, 200)]


def test_writer_that_runs_is_not_a_deadlock(pair: Host) -> None:
    pair.process(200, None, tid=201)
    assert pair.deadlocked() == []


def test_thread_without_a_report_can_run(pair: Host) -> None:
    pair.at(200, None, tid=203)
    assert pair.scene().waits[Node(100, 1)].holders == {Node(200, 1), Node(200, -203)}
    assert pair.deadlocked() == []


def test_unreadable_process_can_run(pair: Host) -> None:
    pair.reports[200] = None
    assert pair.deadlocked() == []


def test_writer_outside_is_not_a_deadlock(pair: Host) -> None:
    pair.fake.process(300, "other")
    pair.fake.open(9, "pipe:[11]", os.O_WRONLY, pid=300)
    assert pair.deadlocked() == []


def test_reader_outside_does_not_prevent_a_deadlock(pair: Host) -> None:
    pair.fake.process(300, "other")
    pair.fake.open(9, "pipe:[11]", os.O_RDONLY, pid=300)
    assert pair.deadlocked() == [(100, 200)]


def test_pipe_without_another_end_is_not_a_wait(pair: Host) -> None:
    (pair.root / "200" / "fd" / "4").unlink()
    assert Node(100, 1) not in pair.scene().waits


def test_own_end_counts_if_a_handler_may_write(pair: Host) -> None:
    pair.fake.open(8, "pipe:[11]", os.O_WRONLY)
    assert pair.deadlocked() == [(100, 200)]
    # whose handler may write to it
    pair.process(100, "pause", tid=101, caught=1 << 14)
    (pair.root / "100" / "status").write_text(f"SigCgt:\t{1 << 14:016x}\n")
    assert Node(100, 1) not in pair.scene().waits


def test_unreadable_descriptors_are_reported(pair: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = os.listdir

    def refuse(path: str) -> list[str]:
        if str(path).endswith("/200/fd"):
            raise PermissionError
        return listed(path)

    monkeypatch.setattr(os, "listdir", refuse)
    scene = pair.scene()
    assert scene.waits == {}
    assert scene.blind == because("descriptors-refused", pid=200)


def test_unreadable_system_calls_are_reported(pair: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.open

    def refuse(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == "200/syscall":
            raise PermissionError
        return opened(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", refuse)
    scene = pair.scene()
    assert scene.blind == because("threads-refused", pid=200)
    assert scene.waits == {}


def test_timed_wait_is_not_a_deadlock(host: Host) -> None:
    host.process(100, "read", [3], timed=True)
    host.process(200, "read", [5])
    host.pipe(11, (100, 3), (200, 4))
    host.pipe(12, (200, 5), (100, 6))
    assert host.deadlocked() == []


def test_descriptor_that_differs_from_the_report_is_not_a_wait(pair: Host) -> None:
    pair.at(100, "read", [7])
    assert Node(100, 1) not in pair.scene().waits


def test_call_that_differs_from_the_report_is_not_a_wait(pair: Host) -> None:
    pair.at(100, "write", [3])
    assert Node(100, 1) not in pair.scene().waits


def test_restarted_call_counts(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.polling([(3, 1)])
    monkeypatch.setitem(NUMBERS, "poll", 219)
    host.at(100, "poll", [0x1000, 1, 0xFFFFFFFF])
    host.process(200, "read", [5])
    host.pipe(11, (100, 3), (200, 4))
    host.pipe(12, (200, 5), (100, 6))
    assert host.deadlocked() == [(100, 200)]


def test_thread_that_has_run_does_not_count(pair: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: pair.at(200, "read", [5], ran=6))
    scene = pair.scene()
    assert set(scene.waits) == {Node(100, 1)}
    assert scene.moved == 1


def test_moved_threads_are_watched_again(pair: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[float] = []

    def sleep(seconds: float) -> None:
        times.append(seconds)
        pair.at(200, "read", [5], ran=6)

    monkeypatch.setattr(time, "sleep", sleep)
    scene = watch(pair.reports, str(pair.root))
    assert len(times) == 2
    assert len(find_deadlocks(scene.waits)) == 1


# -- children ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("call", "arguments"), [("wait4", [200]), ("wait4", [0xFFFFFFFF]), ("waitid", [1, 200]),
                                                 ("waitid", [0, 0])])
def test_child_that_waits_for_its_parent_deadlocks(host: Host, call: str, arguments: list[int]) -> None:
    host.process(100, call, arguments)
    host.process(200, "read", [5], parent=100)
    host.pipe(12, (200, 5), (100, 6))
    wait = host.scene().waits[Node(100, 1)]
    assert wait.kind == "child"
    assert wait.evidence == ("recorded" if 200 in arguments else "derived")
    assert host.deadlocked() == [(100, 200)]


def test_child_without_a_snapshot_is_not_a_wait(host: Host) -> None:
    host.process(100, "wait4", [0xFFFFFFFF])
    host.process(200, "read", [5], parent=100)
    host.pipe(12, (200, 5), (100, 6))
    host.fake.process(300, "other", 100)
    assert host.deadlocked() == []


def test_running_child_is_not_a_deadlock(host: Host) -> None:
    host.process(100, "wait4", [200])
    host.process(200, None, parent=100)
    assert host.deadlocked() == []


# -- shared memory -------------------------------------------------------------------------------------------

SHARED = "00010000-00011000 rw-s 00000000 00:01 77   /dev/zero (deleted)\n"


def shared_lock(kind: LockKind, address: int, foreign_owner: int | None = None, holders: Sequence[int] = ()) -> Lock:
    return Lock(f"{kind}:{address:#x}", kind, address, None, "locked",
                tuple(Holder(each, EXCLUSIVE, RECORDED) for each in holders), foreign_owner=foreign_owner)


def test_process_shared_mutexes_deadlock(host: Host) -> None:
    for pid, wanted, other in ((100, 0x10000, 200), (200, 0x10028, 100)):
        host.process(pid, "futex", [wanted, 0], lock=shared_lock("mutex", wanted, other))
        host.maps(pid, SHARED)
        host.memory(pid, wanted + 8, other.to_bytes(4, "little"))
    wait = host.scene().waits[Node(100, 1)]
    assert (wait.kind, wait.evidence, set(wait.holders)) == ("mutex", "recorded", {Node(200, 1)})
    assert explain(wait.awaited) == "for pthread mutex in shared memory (without a file, 0x0)"
    assert host.deadlocked() == [(100, 200)]
    # another one has it now
    host.memory(100, 0x10008, (300).to_bytes(4, "little"))
    assert host.deadlocked() == []


SEM = "00010000-00011000 rw-s 00000000 00:1b 78   /dev/shm/sem.x (deleted)\n"
ELSEWHERE = "00030000-00031000 rw-s 00000000 00:1b 78   /dev/shm/sem.x (deleted)\n"
HEAP = "00040000-00042000 rw-p 00000000 00:00 0\n"


def sem_lock(host: Host, pid: int, semaphore: int, count: int) -> None:
    """What CPython has in memory of a lock of `multiprocessing`."""
    host.memory(pid, 0x40ff8, semaphore.to_bytes(8, "little") + (0x7F01).to_bytes(8, "little")
                + count.to_bytes(4, "little") + (1).to_bytes(4, "little") * 2 + bytes(0x1000))


def test_multiprocessing_lock_has_the_process_that_counts_it(host: Host) -> None:
    lock = shared_lock("py-lock", 0x7F20)
    host.process(100, "futex", [0x10000, 0x109], lock=lock)
    host.maps(100, SEM + HEAP)
    host.memory(100, 0x10000, bytes(0x1000))
    sem_lock(host, 100, 0x10000, 0)
    host.process(200, "wait4", [300])
    host.maps(200, ELSEWHERE + HEAP)
    sem_lock(host, 200, 0x30000, 1)
    host.process(300, None, parent=200)
    wait = host.scene().waits[Node(100, 1)]
    assert (wait.kind, wait.evidence, set(wait.holders)) == ("semaphore", "derived", {Node(200, 1)})
    assert wait.why == (because("semaphore-counted-by", pid=200),)
    assert explain(wait.awaited) == "for multiprocessing.Lock"
    assert host.deadlocked() == []


@pytest.mark.parametrize(("frame", "kind"), [
    (None, "py-lock"), (PyFrame("_bootstrap", "Thread._bootstrap", "/lib/threading.py", 1), "py-lock"),
    (PyFrame("_bootstrap", "BaseProcess._bootstrap", "/lib/multiprocessing/process.py", 1), "semaphore")])
def test_copy_of_fork_has_taken_a_lock_only_if_multiprocessing_has_reset_its_counts(frame: PyFrame | None, kind: str,
                                                                                    host: Host) -> None:
    """The process that held the lock was killed; the one that it had forked has its memory."""
    host.process(100, "futex", [0x10000, 0x109], lock=shared_lock("py-lock", 0x7F20))
    host.maps(100, SEM + HEAP)
    host.memory(100, 0x10000, bytes(0x1000))
    sem_lock(host, 100, 0x10000, 0)
    host.process(200, "wait4", [300])
    host.maps(200, ELSEWHERE + HEAP)
    sem_lock(host, 200, 0x30000, 1)
    host.process(300, None, parent=200)
    stat = host.root / "200" / "stat"
    stat.write_text(stat.read_text().replace("4194304", str(4194304 | 0x40)))  # PF_FORKNOEXEC
    report = host.reports[200]
    assert report is not None
    host.reports[200] = replace(report, threads=tuple(
        replace(thread, stack=(frame,) if frame is not None else ()) for thread in report.threads))
    wait = host.scene().waits[Node(100, 1)]
    assert (wait.kind, wait.may_release) == (kind, kind == "py-lock")


def test_uncounted_semaphore_has_all_that_map_it(host: Host) -> None:
    for pid in (100, 200):
        host.process(pid, "futex", [0x10000, 0])
        host.maps(pid, SEM)
        host.memory(pid, 0x10000, bytes(16))
    wait = host.scene().waits[Node(100, 1)]
    (why,) = wait.why
    assert (wait.evidence, explain(why)) == ("inferred", "only processes 100 and 200 have that memory")
    assert wait.may_release, "neither process is known to have taken it"
    assert host.deadlocked() == [(100, 200)]


def test_named_semaphore_is_not_a_wait(host: Host) -> None:
    for pid in (100, 200):
        host.process(pid, "futex", [0x10000, 0])
        host.maps(pid, SEM.replace(" (deleted)", ""))
        host.memory(pid, 0x10000, bytes(16))
    assert host.scene().waits == {}


def test_memory_mapped_outside_is_not_a_wait(host: Host) -> None:
    for pid in (100, 200):
        host.process(pid, "futex", [0x10000, 0])
        host.maps(pid, SHARED)
        host.memory(pid, 0x10000, bytes(16))
    host.fake.process(300, "other")
    host.maps(300, SHARED)
    assert host.scene().waits == {}


# -- inside of a process -------------------------------------------------------------------------------------


def test_join_of_a_waiting_thread_leads_across_processes(pair: Host) -> None:
    pair.process(100, "futex", [0x5000, 128], lock=shared_lock("thread-exit", 0x5000, holders=[1]), tid=101)
    assert pair.deadlocked() == [(100, 200)]


def test_thread_that_waits_for_work_does_not_prevent_a_deadlock(pair: Host) -> None:
    lock = replace(shared_lock("py-condition", 0x5000), state="queue is empty")
    pair.process(100, "futex", [0x5000, 128], lock=lock, tid=101)
    assert pair.deadlocked() == [(100, 200)]


def test_first_thread_that_may_wait_for_a_signal_can_run(host: Host) -> None:
    lock = replace(shared_lock("py-event", 0x5000), state="not set")
    host.process(100, "futex", [0x5000, 128], lock=lock)
    host.process(100, "read", [3], tid=101)
    host.process(200, "read", [5])
    host.pipe(11, (100, 3), (200, 4))
    host.pipe(12, (200, 5), (100, 6))
    assert host.deadlocked() == []


def test_sleeping_thread_can_run(pair: Host) -> None:
    pair.process(100, "pause", tid=101)
    assert pair.deadlocked() == []


def test_deadlock_inside_a_process_comes_from_its_report(pair: Host) -> None:
    pair.process(200, "futex", [0x5000, 128], lock=shared_lock("mutex", 0x5000, holders=[2]), tid=201)
    report = pair.reports[200]
    assert report is not None
    pair.reports[200] = replace(report, deadlocks=(Deadlock((2,), RECORDED, ()),))
    scene = pair.scene()
    assert scene.dead == {Node(200, 2)}
    assert [found.processes for found in find_deadlocks(scene.waits, scene.dead)] == [(100, 200)]


# -- locks on files -------------------------------------------------------------------------------------------


@pytest.fixture
def lockers(host: Host) -> Host:
    """Each of two processes waits for a lock that the other has, on files 55 and 56."""
    host.process(100, "flock", [6, 2])
    host.process(200, "flock", [5, 2], parent=100)
    for pid, inode, held, wanted in ((100, 55, 5, 6), (200, 56, 6, 5)):
        line = host.fake.lock("FLOCK", "WRITE", pid, inode)
        host.fake.open(held, f"/tmp/{inode}", os.O_RDWR | os.O_CLOEXEC, pid=pid, inode=inode, more=line)
        host.fake.open(wanted, f"/tmp/{111 - inode}", os.O_RDWR, pid=pid, inode=111 - inode)
    mounts = (host.root / "100" / "mountinfo").read_text()
    host.fake.write("200/mountinfo", mounts)
    return host


def test_lockers_of_two_files_deadlock(lockers: Host) -> None:
    wait = lockers.scene().waits[Node(100, 1)]
    assert (wait.kind, wait.holders, wait.evidence) == ("file-lock", frozenset({Node(200, 1)}), "derived")
    assert explain(wait.awaited) == "for the lock of /tmp/56, fd 6"
    assert explain(wait.why[0]) == "only process 200 has the open file that holds the lock"
    assert lockers.deadlocked() == [(100, 200)]


def test_locker_that_shares_its_open_file_is_not_a_deadlock(lockers: Host) -> None:
    lockers.fake.process(300, "outside")
    lockers.fake.open(6, "/tmp/56", os.O_RDWR, pid=300, inode=56,
                      more="lock:\t1: FLOCK ADVISORY WRITE 200 fe:00:56 0 EOF")
    assert lockers.deadlocked() == []


def test_locker_with_a_handler_of_alarms_is_not_a_deadlock(lockers: Host) -> None:
    lockers.process(200, "flock", [5, 2], tid=200, caught=1 << 13)
    status = lockers.root / "200" / "status"
    status.write_text(status.read_text().replace(f"SigCgt:\t{0:016x}\n", ""))
    assert lockers.deadlocked() == []


def test_lock_that_was_released_is_not_a_deadlock(lockers: Host) -> None:
    fdinfo = lockers.root / "200" / "fdinfo" / "6"
    fdinfo.write_text(fdinfo.read_text().partition("lock:")[0])
    lockers.fake.write("locks", "")
    assert lockers.deadlocked() == []


def test_process_that_cannot_be_read_may_have_the_open_file(lockers: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    lockers.fake.process(300, "secret")
    listdir = os.listdir

    def refuse(path: str) -> list[str]:
        if str(path).endswith("/300/fd"):
            raise PermissionError
        return listdir(path)

    monkeypatch.setattr(os, "listdir", refuse)
    assert lockers.deadlocked() == []
