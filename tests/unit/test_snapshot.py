from __future__ import annotations

import random
import time
from dataclasses import replace

import pytest

from gdbext.errors import GdbextError
from gdbext.inferior.budget import Budget
from gdbext.inferior.cache import PAGE, CachedMemory
from gdbext.inferior.protocol import Module, Section
from gdbext.model import (
    EXCLUSIVE,
    RECORDED,
    SHARED,
    Deadlock,
    Edge,
    Hold,
    Holder,
    Lock,
    Problem,
    TargetKind,
    Wait,
    Waiter,
)
from gdbext.model.reasons import because
from gdbext.narrate.reasons import explain
from gdbext.snapshot import take_snapshot
from tests.support import combinations
from tests.support.fake_memory import NoiseMemory
from tests.support.fake_python import VERSIONS, FakePython
from tests.support.fake_python_target import PythonTarget
from tests.support.fake_target import (
    DRIVER_TEXT,
    ERESTART_RESTARTBLOCK,
    POLL,
    READ,
    RESTART_SYSCALL,
    WAIT_BITSET_REALTIME,
    WAIT_BITSET_SHARED,
    FakeTarget,
    FakeThread,
)
from tests.support.reasons import said, text
from tests.support.snapshots import abba, edges, gil_and_rwlock, lock_of, report_of, thread_of

# -- native locks ---------------------------------------------------------------------------------------------

@pytest.mark.parametrize("glibc", ["2.31", "2.36", "2.41", "2.43"])
@pytest.mark.parametrize("kind", ["live", "core"])
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_two_mutexes_without_python(machine: str, kind: TargetKind, glibc: str) -> None:
    target = FakeTarget(kind, glibc, machine)
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


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_joined_thread_and_written_rwlock(machine: str) -> None:
    target = FakeTarget(machine=machine)
    one, two = target.thread(), target.thread()
    lock = target.rwlock(__readers=3, __wrphase_futex=1, __writers_futex=3, __cur_writer=100)
    target.waits(one, two.pthread + target.build.layouts["struct pthread"].offset("tid"), 101, WAIT_BITSET_SHARED)
    target.waits(two, lock + target.build.layouts["pthread_rwlock_t"].offset("__writers_futex"), 3)
    assert edges(report_of(target)) == [{(1, f"thread-exit:{two.pthread:#x}", 2), (2, f"rwlock:{lock:#x}", 1)}]


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
    """A writer that waits for readers. One reader waits for a mutex of the writer."""
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
    assert said(rwlock.why) == "1 reader counted, none recorded; 1 thread has the lock's address on the stack"
    assert report.deadlocks == ()


def test_thread_with_the_address_of_a_read_lock_in_a_register_is_a_candidate() -> None:
    target, _, reader, lock = read_locked()
    target.ram.u64(reader.stack + 0x200, 0)
    reader.registers["r12"] = lock
    assert lock_of(report_of(target), lock).candidates == (2,)


@pytest.mark.parametrize("where", ["below the stack", "unaligned", "above the frames", "another thread too", "nowhere",
                                   "a thread without registers"])
def test_readers_that_are_not_singled_out_are_candidates_at_most(where: str) -> None:
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
    assert "none recorded" in explain(rwlock.why)
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


@pytest.mark.parametrize("kind", ["live", "core"])
def test_gil_and_rwlock(version: str, kind: TargetKind) -> None:
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


def test_only_chosen_stacks_are_in_the_report() -> None:
    target, _, _, _ = gil_and_rwlock("3.12.1")
    target.thread()
    snapshot = take_snapshot(target)
    assert [bool(thread.stack) for thread in snapshot.report(lambda thread: False).threads] == [True, True, False]
    assert all(thread.stack for thread in snapshot.report(lambda thread: True).threads)


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


def test_queries_do_not_change_the_report(version: str) -> None:
    target, main, _, lock = gil_and_rwlock(version)
    main.frames = []
    free = target.mutex(main.ref.lwp)
    snapshot = take_snapshot(target)
    first = snapshot.report(lambda thread: True)
    found, _ = snapshot.lock_at(free)
    assert found is not None
    assert snapshot.lock_at(lock)[0] == lock_of(first, lock)
    snapshot.mixed(1, snapshot.limits)
    assert snapshot.report(lambda thread: True) == first
    assert found in snapshot.report(lambda thread: True, found).locks


# -- what cannot be read --------------------------------------------------------------------------------------

def test_architecture_that_is_not_decoded() -> None:
    target = FakeTarget()
    target.architecture = "riscv64"
    with pytest.raises(GdbextError, match="riscv64"):
        take_snapshot(target)


def test_c_library_that_is_not_known() -> None:
    target = FakeTarget()
    one, _, _, b = abba(target)
    target.loaded = [module for module in target.loaded if "libc" not in module.name]
    report = report_of(target)
    assert report.deadlocks == ()
    assert thread_of(report, one).waits == Wait(f"futex:{b:#x}", EXCLUSIVE, False)
    assert "C library" in [problem.where for problem in report.problems]


def test_problems_of_the_target_are_in_the_report() -> None:
    target = FakeTarget()
    target.thread()
    target.told.append(("core", "unreadable", "it is cut short"))
    assert report_of(target).problems == (Problem("core", "unreadable", text("it is cut short")),)


# -- noise ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("seed", combinations.seeds(25))
def test_noise(seed: int) -> None:
    """With random memory and registers, a snapshot ends soon and raises only `GdbextError`."""
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
    start = time.process_time()
    try:
        snapshot = take_snapshot(target)
        report = snapshot.report(lambda thread: True)
        assert len(report.threads) == 8
        for address in range(0x10000, 0x10400, 4):
            snapshot.lock_at(address)
    except GdbextError:
        pass
    assert time.process_time() - start < 20


# -- the budget ---------------------------------------------------------------------------------------------------

def test_spent_budget_leaves_what_was_known_and_no_verdict_that_nothing_is_wrong() -> None:
    target = FakeTarget()
    abba(target)
    whole = take_snapshot(target).judged_report(lambda thread: True)
    ends = set()
    for pages in range(40):
        target.memory = CachedMemory(target.ram)
        budget = Budget(None, pages * PAGE)
        try:
            snapshot = take_snapshot(target, budget=budget)
            report = snapshot.judged_report(lambda thread: True)
        except GdbextError:
            continue
        assert set(report.deadlocks) <= set(whole.deadlocks)
        ends.add((budget.spent is not None, report.no_verdict is not None, bool(report.deadlocks)))
        if budget.spent is not None:
            assert report.no_verdict == budget.spent
            assert "cut short after" in explain(budget.spent)
            assert Problem("target", "unreadable", budget.spent) in report.problems
            assert "--max-pause" in (snapshot.incomplete or GdbextError("")).hint
    assert (True, True, False) in ends
    assert (False, False, True) in ends


def test_spent_budget_leaves_only_deadlocks_that_memory_proves(monkeypatch: pytest.MonkeyPatch) -> None:
    target = FakeTarget()
    abba(target)
    target.memory = CachedMemory(target.ram)
    budget = Budget(None)
    snapshot = take_snapshot(target, budget=budget)
    (proven,) = snapshot.report(lambda thread: False).deadlocks
    others = (replace(proven, evidence="inferred"), replace(proven, standstill=True),
              replace(proven, edges=(Edge(1, proven.edges[0].lock, None),)))
    monkeypatch.setitem(snapshot.__dict__, "_deadlocks", (proven, *others))
    assert snapshot.report(lambda thread: False).deadlocks == (proven, *others)
    budget.spent = because("budget-of-time", seconds="1")
    assert snapshot.report(lambda thread: False).deadlocks == (proven,)


def test_report_has_the_stacks_of_deadlocked_threads_if_it_cannot_have_all() -> None:
    target = FakeTarget("live", "2.36")
    for _ in range(3):
        target.thread()
    abba(target)
    whole = take_snapshot(target).report(lambda thread: True)
    counts = [len(thread.stack) for thread in whole.threads]
    assert all(counts)
    most = counts[3] + counts[4]
    report = take_snapshot(target, budget=Budget(frames=most)).report(lambda thread: True)
    assert [len(thread.stack) for thread in report.threads] == [0, 0, 0, *counts[3:]]
    assert report.deadlocks == whole.deadlocks
    (problem,) = set(report.problems) - set(whole.problems)
    assert problem == Problem("target", "unreadable", because("budget-of-frames", count=3, most=most))
