from __future__ import annotations

import random
import time
from collections.abc import Sequence

import pytest

from gdbext.errors import CorruptStructure, GdbextError, MemoryUnreadable, ThreadUnavailable
from gdbext.inferior.protocol import Module, Section
from gdbext.model import (
    DERIVED,
    EXCLUSIVE,
    INFERRED,
    RECORDED,
    SHARED,
    Deadlock,
    Edge,
    Frame,
    Hold,
    Holder,
    Lock,
    NativeFrame,
    Part,
    Problem,
    PyFrame,
    Report,
    Thread,
    Wait,
    Waiter,
)
from gdbext.snapshot import Snapshot
from gdbext.stacks import mixed
from tests.support.fake_elf import fake_elf
from tests.support.fake_memory import NoiseMemory
from tests.support.fake_python import VERSIONS, FakePython
from tests.support.fake_python_target import PythonTarget
from tests.support.fake_target import (
    APP_DATA,
    APP_TEXT,
    DRIVER_TEXT,
    ERESTART_RESTARTBLOCK,
    LIBC_TEXT,
    LOCK_PI,
    POLL,
    READ,
    RESTART_SYSCALL,
    WAIT_BITSET_REALTIME,
    WAIT_BITSET_SHARED,
    FakeTarget,
    FakeThread,
)

WORD = (1 << 64) - 1


def report_of(target: FakeTarget) -> Report:
    return Snapshot(target).report(lambda thread: False)


def lock_of(report: Report, address: int) -> Lock:
    lock, = (lock for lock in report.locks if lock.address == address)
    return lock


def thread_of(report: Report, fake: FakeThread) -> Thread:
    thread = report.thread(fake.ref.number)
    assert thread is not None
    return thread


def edges(report: Report) -> list[set[tuple[int, str, int | None]]]:
    return [{(edge.waiter, edge.lock, edge.holder) for edge in deadlock.edges} for deadlock in report.deadlocks]


# -- native locks ---------------------------------------------------------------------------------------------

def abba(target: FakeTarget) -> tuple[FakeThread, FakeThread, int, int]:
    """Two threads that hold one mutex each and wait for the other's."""
    one, two = target.thread(), target.thread()
    a, b = target.mutex(one.ref.lwp), target.mutex(two.ref.lwp)
    target.waits_for_mutex(one, b)
    target.waits_for_mutex(two, a)
    return one, two, a, b


@pytest.mark.parametrize("glibc", ["2.31", "2.36", "2.41", "2.43"])
@pytest.mark.parametrize("kind", ["live", "core"])
def test_two_mutexes_without_python(kind: str, glibc: str) -> None:
    target = FakeTarget(kind, glibc)
    one, two, a, b = abba(target)
    target.thread()
    report = report_of(target)
    mutex_a, mutex_b = f"mutex:{a:#x}", f"mutex:{b:#x}"
    assert report.deadlocks == (Deadlock((1, 2), RECORDED, (Edge(1, mutex_b, 2), Edge(2, mutex_a, 1))),)
    assert lock_of(report, a) == Lock(mutex_a, "mutex", a, "in libdrv.so", "locked", (Holder(1, EXCLUSIVE, RECORDED),),
                                      (Waiter(2, EXCLUSIVE),))
    first = thread_of(report, one)
    assert (first.status, first.syscall, first.tid, first.lwp) == ("blocked", "futex", 100, 100)
    assert (first.holds, first.waits) == ((Hold(mutex_a, EXCLUSIVE, RECORDED),), Wait(mutex_b, EXCLUSIVE, False))
    assert report.threads[2].status == "running"
    assert (report.runtimes, report.problems) == ((), ())
    assert (report.target.kind, report.target.pid, report.target.libc) == (kind, 100, f"glibc {glibc}")


def test_self_deadlock() -> None:
    target = FakeTarget()
    one = target.thread()
    mutex = target.mutex(100)
    target.waits_for_mutex(one, mutex)
    assert edges(report_of(target)) == [{(1, f"mutex:{mutex:#x}", 1)}]


def test_three_in_a_ring_and_others_behind() -> None:
    target = FakeTarget()
    ring = [target.thread() for _ in range(3)]
    locks = [target.mutex(thread.ref.lwp) for thread in ring]
    for i, thread in enumerate(ring):
        target.waits_for_mutex(thread, locks[(i + 1) % 3])
    behind = [target.waits_for_mutex(target.thread(), locks[0]) for _ in range(4)]
    report = report_of(target)
    assert [(deadlock.threads, deadlock.stuck_behind) for deadlock in report.deadlocks] == [
        ((1, 2, 3), tuple(thread.ref.number for thread in behind))]


def test_two_separate_deadlocks() -> None:
    target = FakeTarget()
    abba(target)
    abba(target)
    assert [deadlock.threads for deadlock in report_of(target).deadlocks] == [(1, 2), (3, 4)]


def test_owner_is_a_tid_of_the_targets_own_namespace() -> None:
    target = FakeTarget()
    # in its container the process has the numbers 1, 7, 8; outside 100, 101, 102
    threads = [target.thread(tid=tid) for tid in (1, 7, 8)]
    a, b = target.mutex(7), target.mutex(8)
    target.waits_for_mutex(threads[2], a)
    target.waits_for_mutex(threads[1], b)
    report = report_of(target)
    assert [deadlock.threads for deadlock in report.deadlocks] == [(2, 3)]
    assert [thread.tid for thread in report.threads] == [1, 7, 8]


def test_namespace_number_that_is_another_threads_number_outside() -> None:
    target = FakeTarget()
    first, second = target.thread(tid=101), target.thread(tid=7)
    mutex = target.mutex(101)
    target.waits_for_mutex(second, mutex)
    assert lock_of(report_of(target), mutex).holders == (Holder(first.ref.number, EXCLUSIVE, RECORDED),)


@pytest.mark.parametrize(("members", "op", "expected"), [
    ({"__lock": 0x80000064, "__owner": 100, "__nusers": 1, "__kind": 0x20}, LOCK_PI, 0),
    ({"__lock": 0x80000064, "__owner": 100, "__nusers": 1, "__kind": 0x90}, 0, 0x80000064),
])
def test_locks_that_the_kernel_checks(members: dict[str, int], op: int, expected: int) -> None:
    target = FakeTarget()
    target.thread()
    mutex = target.mutex(100, **members)
    target.waits(target.thread(), mutex, expected, op)
    assert lock_of(report_of(target), mutex).holders == (Holder(1, EXCLUSIVE, RECORDED),)


def test_thread_joined_by_one_that_it_waits_for() -> None:
    target = FakeTarget()
    joins, joined = target.thread(), target.thread()
    mutex = target.mutex(joins.ref.lwp)
    target.waits_for_mutex(joined, mutex)
    target.waits(joins, joined.pthread + 720, joined.ref.lwp, WAIT_BITSET_SHARED)
    exit_of = f"thread-exit:{joined.pthread:#x}"
    assert edges(report_of(target)) == [{(1, exit_of, 2), (2, f"mutex:{mutex:#x}", 1)}]


# -- read-write locks -----------------------------------------------------------------------------------------

def test_rwlock_held_by_a_writer() -> None:
    target = FakeTarget()
    writer, reader, other = target.thread(), target.thread(), target.thread()
    lock = target.rwlock(__readers=0xB, __wrphase_futex=3, __writers_futex=3, __cur_writer=writer.ref.lwp)
    mutex = target.mutex(reader.ref.lwp)
    target.waits(reader, lock + 8, 3, WAIT_BITSET_REALTIME)
    target.waits(other, lock + 12, 3, WAIT_BITSET_REALTIME)
    target.waits_for_mutex(writer, mutex)
    report = report_of(target)
    rwlock = lock_of(report, lock)
    assert (rwlock.state, rwlock.holders) == ("write-locked", (Holder(1, EXCLUSIVE, RECORDED),))
    assert rwlock.waiters == (Waiter(2, SHARED), Waiter(3, EXCLUSIVE))
    assert [(deadlock.threads, deadlock.stuck_behind) for deadlock in report.deadlocks] == [((1, 2), (3,))]


def read_locked(readers: int = 1) -> tuple[FakeTarget, FakeThread, FakeThread, int]:
    """A writer that waits for readers, one of which waits for what the writer holds."""
    target = FakeTarget()
    writer, reader = target.thread(), target.thread()
    lock = target.rwlock(__readers=readers << 3 | 2, __wrphase_futex=2, __writers_futex=1)
    target.waits(writer, lock + 8, 2, WAIT_BITSET_REALTIME)
    target.waits_for_mutex(reader, target.mutex(writer.ref.lwp))
    target.remember(reader, lock)
    return target, writer, reader, lock


def test_only_thread_with_the_address_of_a_read_lock_is_a_candidate() -> None:
    target, _, _, lock = read_locked()
    target.thread()
    report = report_of(target)
    rwlock = lock_of(report, lock)
    assert (rwlock.state, rwlock.holders, rwlock.candidates) == ("read-locked", (), (2,))
    assert rwlock.why == "1 reader counted, none recorded; 1 thread has the lock's address on the stack"
    assert report.deadlocks == ()


def test_thread_with_the_address_of_a_read_lock_in_a_register_is_a_candidate() -> None:
    target, _, reader, lock = read_locked()
    target.ram.u64(reader.stack + 0x200, 0)
    reader.registers["r12"] = lock
    assert lock_of(report_of(target), lock).candidates == (2,)


@pytest.mark.parametrize("where", ["below the stack", "unaligned", "above the frames", "another thread too", "nowhere",
                                   "a thread without registers"])
def test_readers_that_cannot_be_told_are_candidates_at_most(where: str) -> None:
    target, _, reader, lock = read_locked()
    expected: tuple[int, ...] = ()
    if where != "another thread too":
        target.ram.u64(reader.stack + 0x200, 0)
    if where == "below the stack":
        reader.registers["rsp"] = reader.stack + 0x100
        target.remember(reader, lock, 0x80)
    elif where == "unaligned":
        target.remember(reader, lock, 0x204)
    elif where == "above the frames":
        target.remember(reader, lock, 0x1800)
    elif where == "another thread too":
        target.remember(target.thread(), lock)
        expected = (2, 3)
    elif where == "a thread without registers":
        target.remember(reader, lock)
        target.thread().available = False
        expected = (2,)
    report = report_of(target)
    rwlock = lock_of(report, lock)
    assert (rwlock.holders, rwlock.candidates) == ((), expected)
    assert rwlock.why is not None
    assert "none recorded" in rwlock.why
    assert report.deadlocks == ()


def test_as_many_threads_with_the_address_as_readers_are_candidates() -> None:
    target, _, _, lock = read_locked(readers=2)
    target.remember(target.thread(), lock)
    report = report_of(target)
    assert lock_of(report, lock).candidates == (2, 3)
    assert report.deadlocks == ()


def test_waiters_are_not_candidates_though_their_stacks_name_the_lock() -> None:
    target, writer, _, lock = read_locked()
    target.remember(writer, lock)
    second = target.waits(target.thread(), lock + 12, 3, WAIT_BITSET_REALTIME)
    target.build.put("pthread_rwlock_t", lock, __writers_futex=3)
    target.remember(second, lock)
    rwlock = lock_of(report_of(target), lock)
    assert rwlock.candidates == (2,)
    assert {waiter.thread for waiter in rwlock.waiters} == {1, 3}


# -- owners that are gone -------------------------------------------------------------------------------------

def stat(number: int, start: int) -> bytes:
    """``/proc/PID/stat`` of a task that started at a time."""
    return f"{number} (a ) b) S {' '.join(['0'] * 18)} {start} 0".encode()


OWNER = 4242


@pytest.mark.parametrize(("kind", "files", "orphan", "why"), [
    ("live", {"loadavg": b"0.1 0.1 0.1 1/99 5000\n"}, "thread exited", "no thread has it any more"),
    ("live", {}, "thread exited", "no thread has it any more"),
    ("live", {"4242/status": b"Tgid:\t77\n", "4242/stat": stat(OWNER, 900), "100/stat": stat(100, 500)},
     "thread exited", "another process has got"),
    ("core", {}, "not a living thread", "not a thread of this process"),
    ("core", {"4242/status": b"Tgid:\t77\n"}, "not a living thread", "not a thread of this process"),
    # what contradicts that the owner was ever a thread of the process
    ("live", {"loadavg": b"0.1 0.1 0.1 1/99 4000\n"}, None, "no thread has got such a TID yet"),
    ("live", {"4242/status": b"\nTgid:\t77\n", "4242/stat": stat(OWNER, 400), "100/stat": stat(100, 500)}, None,
     "a thread of another process"),
    ("live", {"4242/status": b"\nTgid:\t100\n"}, None, "the debugger does not list"),
])
def test_owner_that_is_not_a_thread(kind: str, files: dict[str, bytes], orphan: str | None, why: str) -> None:
    target = FakeTarget(kind)
    target.files.update((f"/proc/{name}", data) for name, data in files.items())
    mutex = target.mutex(OWNER)
    target.name(LIBC_TEXT + 0x100, "pthread_mutex_lock")
    target.waits_for_mutex(target.thread(), mutex)
    report = report_of(target)
    lock = lock_of(report, mutex)
    assert (lock.holders, lock.orphan) == ((), orphan)
    assert lock.why is not None
    assert str(OWNER) in lock.why
    assert why in lock.why
    assert edges(report) == ([{(1, lock.id, None)}] if orphan else [])
    assert [deadlock.evidence for deadlock in report.deadlocks] == ([INFERRED] if orphan else [])


@pytest.mark.parametrize("owner", [1 << 23, 0x7FFF_FFF0])
def test_owner_field_that_cannot_be_a_tid_is_not_an_orphan(owner: int) -> None:
    target = FakeTarget("core")
    lock = target.rwlock(__readers=3, __wrphase_futex=1, __writers_futex=3, __cur_writer=owner)
    target.waits(target.thread(), lock + 12, 3, WAIT_BITSET_REALTIME)
    report = report_of(target)
    assert (lock_of(report, lock).orphan, report.deadlocks) == (None, ())


def test_owner_in_another_process_is_no_orphan() -> None:
    target = FakeTarget()
    mutex = target.mutex(4242, __kind=0x80)
    target.waits(target.thread(), mutex, 2, 0)
    report = report_of(target)
    assert (lock_of(report, mutex).orphan, report.deadlocks) == (None, ())


def test_no_orphans_while_some_thread_does_not_tell_its_tid() -> None:
    target = FakeTarget()
    mutex = target.mutex(4242)
    target.waits_for_mutex(target.thread(tid=7), mutex)
    silent = target.thread(tid=8)
    target.build.put("struct pthread", silent.pthread, self=0)
    report = report_of(target)
    assert (lock_of(report, mutex).orphan, report.deadlocks) == (None, ())
    problem, = report.problems
    assert (problem.where, problem.what) == ("threads", "unreadable")


# -- healthy processes ----------------------------------------------------------------------------------------

def test_convoy_behind_a_thread_that_runs() -> None:
    target = FakeTarget()
    target.thread()
    mutex = target.mutex(100)
    for _ in range(10):
        target.waits_for_mutex(target.thread(), mutex)
    report = report_of(target)
    assert report.deadlocks == ()
    assert len(lock_of(report, mutex).waiters) == 10


@pytest.mark.parametrize("call", [READ, POLL])
def test_holder_in_another_system_call(call: int) -> None:
    target = FakeTarget()
    one = target.blocked(target.thread(), call, 3)
    target.waits_for_mutex(target.thread(), target.mutex(100))
    report = report_of(target)
    assert report.deadlocks == ()
    assert (thread_of(report, one).status, thread_of(report, one).syscall) == (
        "blocked", {READ: "read", POLL: "poll"}[call])


def test_timed_wait_in_a_cycle() -> None:
    target = FakeTarget()
    one, _, _, b = abba(target)
    target.waits_for_mutex(one, b, timeout=one.stack + 0x400)
    report = report_of(target)
    assert report.deadlocks == ()
    waits = thread_of(report, one).waits
    assert waits is not None
    assert waits.timed


def test_timed_wait_that_a_stop_has_restarted() -> None:
    target = FakeTarget()
    one, _, _, b = abba(target)
    target.blocked(one, RESTART_SYSCALL, b, WAIT_BITSET_REALTIME, 2, one.stack + 0x400, rax=ERESTART_RESTARTBLOCK)
    report = report_of(target)
    assert report.deadlocks == ()
    first = thread_of(report, one)
    assert first.waits == Wait(f"mutex:{b:#x}", EXCLUSIVE, True)
    assert first.syscall == "futex"


def test_wait_that_has_just_ended() -> None:
    target = FakeTarget()
    one, _, _, _ = abba(target)
    one.registers["rax"] = 0
    report = report_of(target)
    assert report.deadlocks == ()
    assert (thread_of(report, one).status, thread_of(report, one).waits) == ("running", None)


def test_semaphore_that_some_thread_may_post() -> None:
    target = FakeTarget()
    one, two = target.thread(), target.thread()
    semaphore = target.build.new("sem_t", data=1 << 32)
    target.waits(one, semaphore, 0, WAIT_BITSET_REALTIME)
    target.waits_for_mutex(two, target.mutex(one.ref.lwp))
    report = report_of(target)
    lock = lock_of(report, semaphore)
    assert (lock.kind, lock.holders, lock.wait_for) == ("semaphore", (), "any")
    assert report.deadlocks == ()


def test_workers_that_wait_for_work() -> None:
    target = FakeTarget()
    condition = target.build.new("pthread_cond_t", __wrefs=4 << 3, __wseq=4 << 1)
    for _ in range(4):
        target.waits(target.thread(), condition + 40, 0, WAIT_BITSET_REALTIME)
    target.thread()
    report = report_of(target)
    assert report.deadlocks == ()
    assert (lock_of(report, condition).kind, len(lock_of(report, condition).waiters)) == ("condvar", 4)


# -- Python ---------------------------------------------------------------------------------------------------


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def gil_and_rwlock(version: str, kind: str = "live") -> tuple[PythonTarget, FakeThread, FakeThread, int]:
    """The main thread has the GIL and wants the lock; a worker has the lock and wants the GIL."""
    target = PythonTarget(version, kind)
    (main, main_state), (worker, worker_state) = target.python_thread(), target.python_thread()
    target.python.take_gil(target.interpreter, main_state)
    lock = target.rwlock(__readers=3, __wrphase_futex=1, __writers_futex=3, __cur_writer=worker.ref.lwp)
    target.waits(main, lock + 12, 3, WAIT_BITSET_REALTIME)
    target.waits_for_gil(worker)
    target.runs_python(main, main_state, ("update", 41), ("main", 90))
    target.runs_python(worker, worker_state, ("work", 17))
    return target, main, worker, lock


@pytest.mark.parametrize("kind", ["live", "core"])
def test_gil_and_rwlock(version: str, kind: str) -> None:
    target, main, worker, lock = gil_and_rwlock(version, kind)
    report = report_of(target)
    rwlock = f"rwlock:{lock:#x}"
    assert report.deadlocks == (Deadlock((1, 2), RECORDED, (Edge(1, rwlock, 2), Edge(2, "gil:0", 1))),)
    first, second = thread_of(report, main), thread_of(report, worker)
    assert first.holds == (Hold("gil:0", EXCLUSIVE, RECORDED),)
    assert second.holds == (Hold(rwlock, EXCLUSIVE, RECORDED),)
    assert second.waits == Wait("gil:0", EXCLUSIVE, False)
    assert first.tstate is not None
    runtime, = report.runtimes
    assert (runtime.version, runtime.build) == (version, "default")
    interpreter, = runtime.interpreters
    assert (interpreter.gil.state, interpreter.gil.holder, interpreter.gil.waiters) == ("held", 1, (2,))
    assert report.problems == () or target.python.version_tuple < (3, 11)


def test_stacks_of_both_languages_are_one(version: str) -> None:
    target, main, _, _ = gil_and_rwlock(version)
    target.name(LIBC_TEXT + 0x100, "__GI___pthread_rwlock_wrlock")
    target.name(DRIVER_TEXT + 0x40, "update_table")
    first = thread_of(report_of(target), main)
    python = (PyFrame("update", "update", "/app/job.py", 41), PyFrame("main", "main", "/app/job.py", 90))
    libc = NativeFrame("pthread_rwlock_wrlock", "libc.so.6", LIBC_TEXT + 0x100)
    driver = NativeFrame("update_table", "libdrv.so", DRIVER_TEXT + 0x40)
    program = NativeFrame(None, "server", APP_TEXT + 0x80)
    if target.python.version_tuple >= (3, 11):
        assert (first.stack, first.unmerged) == ((libc, driver, *python, program), None)
    else:  # the library exports no symbols, so nothing tells which frames are the eval loop's
        assert first.stack == (*python, libc, driver, program)
        assert first.unmerged is not None


def test_only_chosen_stacks_are_in_the_report() -> None:
    target, _, _, _ = gil_and_rwlock("3.12.1")
    target.thread()
    snapshot = Snapshot(target)
    assert [bool(thread.stack) for thread in snapshot.report(lambda thread: False).threads] == [True, True, False]
    assert all(thread.stack for thread in snapshot.report(lambda thread: True).threads)


def test_boundaries_are_looked_for_once_in_stacks_that_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    target, main, worker, _ = gil_and_rwlock("3.12.1")
    others = [target.thread() for _ in range(20)]
    looks: list[Sequence[Frame]] = []

    def present(frames: Sequence[Frame], facts: object) -> list[Part]:
        looks.append(frames)
        return [Part(tuple(frames), "folded")]

    monkeypatch.setattr(mixed, "present", present)
    report = Snapshot(target).report(lambda thread: True)
    assert len(looks) == 3
    for thread in report.threads:
        assert thread.parts == (Part(thread.stack, "folded"),)
    assert len({id(thread_of(report, fake).parts) for fake in others}) == 1
    assert thread_of(report, main).stack != thread_of(report, worker).stack
    # threads whose stacks are not shown have none
    looks.clear()
    report = Snapshot(target).report(lambda thread: False)
    assert len(looks) == 2
    assert not any(thread_of(report, fake).parts for fake in others)


def test_each_frame_is_in_one_part(version: str) -> None:
    target, _, _, _ = gil_and_rwlock(version)
    for thread in Snapshot(target).report(lambda thread: True).threads:
        assert tuple(frame for part in thread.parts for frame in part.frames) == thread.stack
        assert thread.stack


def test_names_of_python_threads(version: str) -> None:
    target, main, worker, _ = gil_and_rwlock(version)
    python = target.python
    entries = [(python.integer(fake.pthread), python.instance("Thread", _name=python.string(name)))
               for fake, name in ((main, "MainThread"), (worker, "loader"))]
    threading = python.module_object(_active=python.dictionary(entries, unicode_keys=False))
    python.build.put("PyInterpreterState", target.interpreter, modules=python.namespace(threading=threading))
    assert [thread.python_name for thread in report_of(target).threads] == ["MainThread", "loader"]


def test_names_that_cannot_be_read_cost_a_line() -> None:
    target, _, _, _ = gil_and_rwlock("3.12.1")
    target.python.build.put("PyInterpreterState", target.interpreter, modules=0xDEAD_0000)
    report = report_of(target)
    assert len(report.deadlocks) == 1
    problem, = report.problems
    assert problem.where == "interpreter 0"


def test_gil_wait_that_a_stop_has_restarted(version: str) -> None:
    target, _, worker, _ = gil_and_rwlock(version)
    target.waits_for_gil(worker, number=RESTART_SYSCALL)
    assert [deadlock.threads for deadlock in report_of(target).deadlocks] == [(1, 2)]


def test_gil_waiter_caught_between_two_turns(version: str) -> None:
    # every 5 ms its timed wait ends; the kernel has just let it go
    target, _, worker, _ = gil_and_rwlock(version)
    worker.registers["rax"] = -110 & WORD
    report = report_of(target)
    assert [deadlock.threads for deadlock in report.deadlocks] == [(1, 2)]
    assert thread_of(report, worker).status == "blocked"


def caught_awake(version: str, asked: int) -> tuple[PythonTarget, FakeThread]:
    """A waiter that runs, without any symbol to tell where."""
    target, _, worker, _ = gil_and_rwlock(version)
    worker.registers["orig_rax"] = WORD
    worker.frames = [(LIBC_TEXT + 0x100, worker.stack), (APP_TEXT + 0x80, worker.stack + 0x800)]
    if target.python.layouts.has("PyInterpreterState", "gil_drop_request"):
        target.python.build.put("PyInterpreterState", target.interpreter, gil_drop_request=asked)
    else:  # the thread that holds it is asked
        place = target.python.build.member("_gil_runtime_state", target.python.gil_of(target.interpreter),
                                           "last_holder")
        holder = int.from_bytes(target.ram.read(place, 8), "little")
        target.python.build.put("PyThreadState", holder, eval_breaker=asked)
    return target, worker


@pytest.mark.parametrize("version", ["3.9.18", "3.10.13", "3.11.7", "3.12.1", "3.13.0", "3.14.10"])
def test_gil_waiter_caught_awake_is_the_only_one_who_can_have_asked(version: str) -> None:
    target, worker = caught_awake(version, 1)
    report = report_of(target)
    assert [(deadlock.threads, deadlock.evidence) for deadlock in report.deadlocks] == [((1, 2), DERIVED)]
    wait = thread_of(report, worker).waits
    assert wait is not None
    assert "asked" in str(wait.why)


@pytest.mark.parametrize("version", ["3.9.18", "3.12.1", "3.13.0", "3.14.10"])
def test_thread_that_runs_while_nobody_asked_for_the_gil(version: str) -> None:
    target, worker = caught_awake(version, 0)
    report = report_of(target)
    assert report.deadlocks == ()
    assert thread_of(report, worker).waits is None


@pytest.mark.parametrize("version", ["3.9.18", "3.12.1", "3.13.0", "3.14.10"])
def test_two_threads_that_run_and_either_may_have_asked(version: str) -> None:
    target, _ = caught_awake(version, 1)
    target.python_thread()
    assert report_of(target).deadlocks == ()


def test_gil_waiter_caught_awake() -> None:
    target, _, worker, _ = gil_and_rwlock("3.12.1")
    worker.registers["orig_rax"] = WORD
    worker.frames = [(target.eval + 0x50, worker.stack), (APP_TEXT + 0x80, worker.stack + 0x800)]
    worker.registers["rip"] = target.eval + 0x50
    assert report_of(target).deadlocks == ()
    target.name(target.eval + 0x50, "take_gil.lto_priv.0")
    deadlock, = report_of(target).deadlocks
    assert (deadlock.threads, deadlock.evidence) == ((1, 2), DERIVED)


@pytest.mark.parametrize("place", ["register", "stack", "elsewhere", "further out"])
@pytest.mark.parametrize("function", ["__pthread_cond_timedwait", "pthread_cond_signal"])
def test_waiter_caught_awake_within_its_wait(version: str, function: str, place: str) -> None:
    """Before the system call or after it: what tells is the GIL's condition variable in the function that waits."""
    target, _, worker, _ = gil_and_rwlock(version, "live")
    cond = target.python.build.member("_gil_runtime_state", target.python.gil_of(target.interpreter), "cond")
    worker.frames = [(LIBC_TEXT + 0x10, worker.stack), (target.eval + 0x50, worker.stack + 0x100),
                     (APP_TEXT + 0x80, worker.stack + 0x800)]
    worker.registers.update(rip=LIBC_TEXT + 0x10, orig_rax=2**64 - 1, rdi=cond if place == "register" else 0)
    at = {"stack": 0x40, "further out": 0x180}.get(place)
    if at is not None:
        target.ram.u64(worker.stack + at, cond)
    target.name(LIBC_TEXT + 0x10, function)
    found = function != "pthread_cond_signal" and place in ("register", "stack")
    assert [deadlock.evidence for deadlock in report_of(target).deadlocks] == [RECORDED] * found


@pytest.mark.parametrize("member", ["mutex", "cond", "switch_cond", "switch_mutex"])
def test_words_of_the_gil(member: str) -> None:
    target, _, worker, _ = gil_and_rwlock("3.11.7")
    gil = target.python.gil_of(target.interpreter)
    word = target.python.build.member("_gil_runtime_state", gil, member)
    target.waits(worker, word, 2)
    assert [deadlock.threads for deadlock in report_of(target).deadlocks] == [(1, 2)]


def test_many_threads_behind_a_gil_holder_that_runs(version: str) -> None:
    target = PythonTarget(version)
    holder, state = target.python_thread()
    target.python.take_gil(target.interpreter, state)
    for _ in range(5):
        target.waits_for_gil(target.python_thread()[0])
    report = report_of(target)
    assert report.deadlocks == ()
    assert lock_of(report, target.python.gil_of(target.interpreter)).holders == (
        Holder(holder.ref.number, EXCLUSIVE, RECORDED),)
    assert [thread.waits is not None for thread in report.threads] == [False, *[True] * 5]


def test_free_gil(version: str) -> None:
    target = PythonTarget(version)
    target.blocked(target.python_thread()[0], READ, 0)
    report = report_of(target)
    gil = report.runtimes[0].interpreters[0].gil
    assert (gil.state, gil.holder, gil.waiters) == ("free", None, ())


def test_gil_held_by_a_thread_that_is_gone(version: str) -> None:
    target = PythonTarget(version)
    descriptor = 0x7FFF_0000_0000
    target.build.put("struct pthread", descriptor, self=descriptor, cancelhandling=0x10)
    dead = target.python.thread(target.interpreter, descriptor)
    target.python.take_gil(target.interpreter, dead)
    target.waits_for_gil(target.python_thread()[0])
    report = report_of(target)
    gil = report.runtimes[0].interpreters[0].gil
    assert (gil.state, gil.holder, gil.orphan) == ("held", None, "thread exited")
    assert edges(report) == [{(1, "gil:0", None)}]


def test_gil_whose_holder_names_no_thread_is_not_said_to_be_held_by_one_that_is_gone(version: str) -> None:
    target = PythonTarget(version)
    dead = target.python.thread(target.interpreter, 0x7FFF_0000_0010)
    target.python.take_gil(target.interpreter, dead)
    target.waits_for_gil(target.python_thread()[0])
    report = report_of(target)
    gil = report.runtimes[0].interpreters[0].gil
    assert (gil.state, gil.holder, gil.orphan, report.deadlocks) == ("held", None, None, ())
    assert any("is not a thread descriptor" in problem.why for problem in report.problems)
    assert report.no_verdict is not None


def test_gil_held_by_a_thread_that_runs_and_cannot_be_read(version: str) -> None:
    # as in GDB's non-stop mode: its registers are not to be had, so its thread state is linked to no thread
    target = PythonTarget(version)
    holder, tstate = target.python_thread()
    holder.available = False
    target.python.take_gil(target.interpreter, tstate)
    target.waits_for_gil(target.python_thread()[0])
    report = report_of(target)
    gil = report.runtimes[0].interpreters[0].gil
    assert (gil.state, gil.holder, gil.orphan) == ("held", None, None)
    assert report.deadlocks == ()
    assert report.no_verdict is not None
    assert any(problem.where == "gil:0" for problem in report.problems)


def test_gil_held_by_a_thread_state_in_no_list(version: str) -> None:
    target = PythonTarget(version)
    target.python.take_gil(target.interpreter, 0x1234_5670)
    target.waits_for_gil(target.python_thread()[0])
    report = report_of(target)
    assert report.deadlocks == ()
    why = "the thread state 0x12345670 that holds it is in no list"
    assert Problem("gil:0", "not recorded", why) in report.problems


def test_interpreters_with_a_gil_of_their_own() -> None:
    target = PythonTarget("3.12.1")
    second = target.python.interpreter(1, following=target.interpreter)
    one, two = target.thread(), target.thread()
    target.python.take_gil(target.interpreter, target.python.thread(target.interpreter, one.pthread))
    target.python.take_gil(second, target.python.thread(second, two.pthread))
    target.waits_for_gil(one, second)
    target.waits_for_gil(two, target.interpreter)
    report = report_of(target)
    locks = [interpreter.gil.lock for interpreter in report.runtimes[0].interpreters]
    assert len(set(locks)) == 2
    assert edges(report) == [{(1, locks[1], 2), (2, locks[0], 1)}]


def test_interpreters_that_share_a_gil_have_one_lock() -> None:
    target = PythonTarget("3.12.1")
    second = target.python.interpreter(1, following=target.interpreter)
    target.python.build.put("PyInterpreterState", second, gil=target.python.gil_of(target.interpreter), own_gil=0)
    target.thread()
    report = report_of(target)
    assert [interpreter.gil.lock for interpreter in report.runtimes[0].interpreters] == ["gil:0", "gil:0"]
    assert [lock.id for lock in report.locks] == ["gil:0"]


def test_stop_the_world_waits_for_attached_threads() -> None:
    target = PythonTarget("3.13.0")
    (_, requester), (busy, state), (_, _) = [target.python_thread() for _ in range(3)]
    target.python.build.put("PyThreadState", state, state=1, eval_breaker=1 << 5)
    at = target.python.build.member("PyInterpreterState", target.interpreter, "stoptheworld")
    target.python.build.put("_stoptheworld_state", at, requested=1, requester=requester)
    stop = report_of(target).runtimes[0].interpreters[0].stop_the_world
    assert (stop.requested, stop.requester, stop.waiting_for) == (True, 1, (busy.ref.number,))


def test_runtime_that_has_no_interpreter_yet(version: str) -> None:
    target = FakeTarget()
    target.loaded.append(FakePython(target.ram, version).runtime())
    abba(target)
    report = report_of(target)
    assert [deadlock.threads for deadlock in report.deadlocks] == [(1, 2)]
    assert [problem.where for problem in report.problems] == [f"Python {version}"]


# -- what cannot be read --------------------------------------------------------------------------------------

@pytest.mark.parametrize("broken", ["registers", "thread pointer", "descriptor", "native stack", "no stack pointer",
                                    "no program counter"])
def test_a_bad_thread_costs_a_line_and_not_the_report(broken: str) -> None:
    target = FakeTarget()
    abba(target)
    bad = target.waits_for_mutex(target.thread(), target.mutex(100))
    if broken == "registers":
        bad.available = False
    elif broken == "thread pointer":
        bad.registers["fs_base"] = 0xDEAD_0000
    elif broken == "descriptor":
        target.build.put("struct pthread", bad.pthread, self=5)
    elif broken == "native stack":
        bad.unwind_error = CorruptStructure(0, "the stack is damaged")
    elif broken == "no stack pointer":
        del bad.registers["rsp"]
    else:
        del bad.registers["rip"]
    report = Snapshot(target).report(lambda thread: True)
    assert [deadlock.threads for deadlock in report.deadlocks] == [(1, 2)]
    assert len(report.threads) == 3
    assert len(report.problems) <= 1
    if broken in ("registers", "native stack", "no stack pointer", "no program counter"):
        assert [(problem.where, problem.what) for problem in report.problems] == [("thread 3", "unreadable")]


def test_ghosts_are_listed_and_nothing_is_claimed_of_them() -> None:
    target = FakeTarget()
    target.thread()
    ghost = target.thread()
    ghost.available = False
    mutex = target.mutex(ghost.ref.lwp)
    target.waits_for_mutex(target.fakes[0], mutex)
    report = report_of(target)
    assert (thread_of(report, ghost).status, thread_of(report, ghost).waits) == ("unknown", None)
    assert thread_of(report, ghost).stack == ()
    assert report.deadlocks == ()


def test_no_verdict_of_no_deadlock_in_a_truncated_core() -> None:
    target = FakeTarget()
    target.thread()
    assert report_of(target).no_verdict is None
    target.kept = (1_000, 124_456)
    assert report_of(target).no_verdict == "the core is truncated: 1,000 of 124,456 bytes are there"


def test_no_verdict_of_no_deadlock_while_a_thread_cannot_be_read() -> None:
    target = FakeTarget()
    target.thread()
    assert report_of(target).problems == ()
    target.thread().available = False
    assert len(report_of(target).problems) == 1


def test_no_verdict_of_no_deadlock_in_a_python_that_is_not_decoded() -> None:
    target = FakeTarget()
    target.thread()
    assert report_of(target).no_verdict is None
    _, library = fake_elf(0x7F88_0000_0000, {"pypy_main_startup": (0x1000, 8)}, "/lib/libpypy3.9-c.so",
                          memory=target.ram)
    target.loaded.append(library)
    assert report_of(target).no_verdict == "PyPy in libpypy3.9-c.so is not decoded"


def test_no_verdict_of_no_deadlock_while_thread_states_cannot_be_read() -> None:
    target = PythonTarget("3.11.7")
    _, first = target.python_thread()
    _, second = target.python_thread()
    assert report_of(target).no_verdict is None
    target.python.build.put("PyThreadState", second, next=second)
    target.python.build.put("PyThreadState", first, next=second)
    assert report_of(target).no_verdict == "interpreter 0: the list of thread states has a loop"


def test_all_threads_run() -> None:
    target = FakeTarget()
    for _ in range(3):
        target.thread().available = False
    with pytest.raises(ThreadUnavailable):
        Snapshot(target)


def test_architecture_that_is_not_decoded() -> None:
    target = FakeTarget()
    target.architecture = "aarch64"
    with pytest.raises(GdbextError, match="aarch64"):
        Snapshot(target)


def test_c_library_that_is_not_known() -> None:
    target = FakeTarget()
    one, _, _, b = abba(target)
    target.loaded = [module for module in target.loaded if "libc" not in module.name]
    report = report_of(target)
    assert report.deadlocks == ()
    assert thread_of(report, one).waits == Wait(f"futex:{b:#x}", EXCLUSIVE, False)
    assert "C library" in [problem.where for problem in report.problems]


def test_what_the_debugger_could_not_tell_is_passed_on() -> None:
    target = FakeTarget()
    target.thread()
    target.told.append(("core", "unreadable", "it is cut short"))
    assert report_of(target).problems == (Problem("core", "unreadable", "it is cut short"),)


def test_damaged_python_stack_costs_a_line() -> None:
    target, main, _, _ = gil_and_rwlock("3.13.0")
    state = thread_of(report_of(target), main).tstate
    assert state is not None
    target.python.build.put("PyThreadState", state, current_frame=0xDEAD_0000)
    report = report_of(target)
    assert [deadlock.threads for deadlock in report.deadlocks] == [(1, 2)]
    assert [problem.where for problem in report.problems] == ["thread 1"]


# -- names and questions --------------------------------------------------------------------------------------

def test_lock_in_a_module_has_its_name() -> None:
    target = FakeTarget()
    target.thread()
    mutex = APP_DATA + 0x40
    target.build.put("pthread_mutex_t", mutex, __lock=2, __owner=100, __nusers=1)
    target.waits_for_mutex(target.thread(), mutex)
    assert lock_of(report_of(target), mutex).name == "in server"
    target.name(mutex, "accounts")
    assert lock_of(report_of(target), mutex).name == "accounts in server"


def test_lock_at_an_address() -> None:
    target, _, _, lock = gil_and_rwlock("3.12.1")
    snapshot = Snapshot(target)
    for offset in (0, 4, 8, 12, 24, 48):
        found, note = snapshot.lock_at(lock + offset)
        assert found is not None
        assert (found.kind, found.address, [holder.thread for holder in found.holders]) == ("rwlock", lock, [2])
        assert (note is None) == (offset == 0)
    gil, _ = snapshot.lock_at(target.python.gil_of(target.interpreter) + 32)
    assert gil is not None
    assert gil.id == "gil:0"


def test_lock_at_an_address_where_nobody_waits() -> None:
    target = FakeTarget()
    holder = target.thread()
    mutex = target.mutex(holder.ref.lwp, __lock=1)
    found, note = Snapshot(target).lock_at(mutex)
    assert found is not None
    assert (found.kind, found.holders, found.waiters, note) == ("mutex", (Holder(1, EXCLUSIVE, RECORDED),), (), None)


def test_lock_at_an_address_that_is_none() -> None:
    target = FakeTarget()
    target.thread()
    target.ram.map(0x5000, b"\xff" * 0x100)
    assert Snapshot(target).lock_at(0x5080) == (None, None)
    with pytest.raises(MemoryUnreadable):
        Snapshot(target).lock_at(0xDEAD_0000)


# -- noise ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("seed", range(25))
def test_noise(seed: int) -> None:
    """Whatever lies in memory and registers, a look ends soon and in nothing but errors of ours."""
    chooser = random.Random(seed)
    target = FakeTarget()
    for _ in range(8):
        fake = target.thread()
        at = chooser.randrange(0x10000, 0x20000) & ~3
        choice = chooser.randrange(3)
        if choice == 0:
            expected, op = chooser.choice([0, 2, 3, 0xE, 0x80000064]), chooser.choice([0x80, 0x189, 0x86, 0x109])
            target.waits(fake, at, expected, op)
        elif choice == 1:
            target.blocked(fake, RESTART_SYSCALL, at, 0x189, 0, at, rax=ERESTART_RESTARTBLOCK)
        fake.registers["rsp"] = at & ~7
        fake.registers["fs_base"] = chooser.randrange(0x10000, 0x20000) & ~15
    header = Section(".eh_frame_hdr", 0x10000, 0x18000)
    target.loaded[1] = Module("/app/libdrv.so", (Section(".text", DRIVER_TEXT, DRIVER_TEXT + 0x1000), header))
    if seed % 2:
        target.loaded.append(Module("/usr/lib/libpython3.11.so.1.0", (Section(".PyRuntime", 0x10000, 0x20000),
                                                                      Section(".text", 0x7C00_0000, 0x7C01_0000))))
    noise = NoiseMemory(seed)

    class Mixed:
        def read(self, address: int, size: int) -> bytes:
            # the C library's version is readable, so its locks are looked for everywhere
            libc = target.loaded[2].sections[1]
            memory = target.ram if libc.start <= address < libc.end else noise
            return memory.read(address, size)

    target.memory = Mixed()
    start = time.monotonic()
    try:
        snapshot = Snapshot(target)
        report = snapshot.report(lambda thread: True)
        assert len(report.threads) == 8
        for address in range(0x10000, 0x10400, 4):
            snapshot.lock_at(address)
    except GdbextError:
        pass
    assert time.monotonic() - start < 20
