from __future__ import annotations

import pytest

from gdbext.model import DERIVED, EXCLUSIVE, INFERRED, Holder, Lock, Report
from gdbext.model.reasons import because, parts
from gdbext.verdict.judge import judge
from tests.support import thread_pools
from tests.support.fake_python import VERSIONS
from tests.support.fake_target import POLL, FakeThread
from tests.support.lock_program import Program

THREADING, BASE = "/usr/lib/python3/threading.py", "/usr/lib/python3/concurrent/futures/_base.py"


class Pool:
    """A program with a pool of threads, whose workers run calls or wait for them."""

    def __init__(self, version: str, workers: int, most: int | None = None) -> None:
        self.program = Program(version)
        self.python = self.program.python
        # a worker's frame refers to the pool, which refers to the threads
        self.workers = [self.program.target.thread() for _ in range(workers)]
        self.executor = thread_pools.executor(self.python, most or workers, [
            thread_pools.thread(self.python, worker.pthread) for worker in self.workers])
        self.queue = 0

    def submit(self, *futures: int) -> None:
        """Fill the queue; before any worker runs."""
        function = self.python.function("child")
        self.queue = thread_pools.queue(self.python, [thread_pools.item(self.python, future, function)
                                                      for future in futures])

    def runs(self, worker: int, future: int, waits_for: int = 0) -> None:
        """Let a worker run a call, in which it waits for a result, or is not blocked."""
        item = thread_pools.item(self.python, future, self.python.function("parent"))
        frame = thread_pools.run_frame(self.python, item,
                                       thread_pools.worker_frame(self.python, self.executor, self.queue))
        self._goes_on(self.workers[worker], frame, waits_for)

    def main(self, waits_for: int, timeout: int = 0) -> None:
        self._goes_on(self.program.target.thread(), 0, waits_for, timeout)

    def waits_for_event(self, frame: int, event: int, condition: int) -> None:
        """Let a further thread wait for an event in a function that has this frame."""
        python, waiter = self.python, self.python.lock()
        inside = python.fill(python.frame(python.code("wait", 600, variables=["self"], file=THREADING), frame), [event])
        inside = python.fill(python.frame(python.code("wait", 320, variables=["self", "waiter"], file=THREADING),
                                          inside), [condition, waiter])
        thread = self.program.target.thread()
        self.program.sleeps(thread, waiter)
        python.innermost(python.thread(self.program.interpreter, thread.pthread), inside)

    def manages(self, processes: int, *futures: int, blocked: bool = True) -> None:
        """The thread that manages worker processes, blocked in `poll`."""
        items = [thread_pools.item(self.python, future, self.python.function("child")) for future in futures]
        thread = self.program.thread(thread_pools.manager_frame(self.python, processes, items))
        if blocked:
            self.program.target.blocked(thread, POLL, self.python.build.alloc(64), 0, (1 << 64) - 1)

    def _goes_on(self, thread: FakeThread, frame: int, waits_for: int, timeout: int = 0) -> None:
        python = self.python
        if waits_for:
            waiter = python.lock()
            condition = self.condition[waits_for]
            result = python.fill(python.frame(python.code("result", 440, variables=["self"], file=BASE), frame),
                                 [waits_for])
            frame = python.fill(python.frame(python.code("wait", 320, variables=["self", "waiter"], file=THREADING),
                                             result), [condition, waiter])
            self.program.sleeps(thread, waiter, timeout)
        tstate = python.thread(self.program.interpreter, thread.pthread)
        python.innermost(tstate, frame)

    condition: dict[int, int]

    def future(self, state: str = "PENDING") -> int:
        condition = self.python.condition(self.python.lock(locked=False))
        future = thread_pools.future(self.python, state, condition)
        self.condition = {**getattr(self, "condition", {}), future: condition}
        return future


def result(report: Report, future: int) -> Lock:
    lock, = (lock for lock in report.locks if lock.address == future)
    assert lock.state == "result is pending"
    return lock


def of(lock: Lock) -> list[tuple[object, ...]]:
    return [(holder.thread, holder.evidence, holder.why.code if holder.why else None) for holder in lock.holders]


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_thread_that_runs_a_call_makes_its_result(version: str) -> None:
    pool = Pool(version, 1)
    running = pool.future("RUNNING")
    pool.submit()
    pool.runs(0, running)
    pool.main(running)
    report = pool.program.look()
    assert result(report, running).holders == (
        Holder(1, EXCLUSIVE, DERIVED, because("runs-call", function="parent")),)
    assert [hold.lock for hold in report.threads[0].holds] == [result(report, running).id]
    assert judge(report).kind == "computing"


@pytest.mark.parametrize(("waiter", "known", "needed"), [
    ("_AllCompletedWaiter", 2, {1, 2}), ("_AllCompletedWaiter", 1, {1}),
    ("_FirstCompletedWaiter", 2, {1, 2}), ("_FirstCompletedWaiter", 1, set())])
def test_results_that_are_awaited_together(version: str, waiter: str, known: int, needed: set[int]) -> None:
    """Any of several results may come from the one of which it is not known who makes it."""
    pool = Pool(version, 2)
    futures = [pool.future("RUNNING") for _ in range(2)]
    pool.submit()
    for number in range(known):
        pool.runs(number, futures[number])
    python = pool.python
    condition = python.condition(python.lock(locked=False))
    event = python.instance("Event", _cond=condition, _flag=python.integer(0))
    pool.waits_for_event(thread_pools.waiting_frame(python, event, futures, waiter=waiter), event, condition)
    found, = (lock for lock in pool.program.look().locks if lock.address == event)
    assert found.state == "result is pending"
    assert found.wait_for == ("all" if waiter == "_AllCompletedWaiter" else "any")
    assert {holder.thread for holder in found.holders} == needed


def test_result_is_made_already_while_callbacks_run(version: str) -> None:
    pool = Pool(version, 1)
    made = pool.future("FINISHED")
    pool.submit()
    pool.runs(0, made)
    pool.main(made)
    assert result(pool.program.look(), made).holders == ()


@pytest.mark.parametrize("timeout", [0, 0x1000])
def test_workers_that_wait_for_calls_behind_them_exhaust_the_pool(version: str, timeout: int) -> None:
    pool = Pool(version, 2)
    running, queued = [pool.future("RUNNING") for _ in range(2)], [pool.future() for _ in range(2)]
    pool.submit(*queued)
    for worker in range(2):
        pool.runs(worker, running[worker], queued[worker])
    pool.main(running[0], timeout)
    report = pool.program.look()
    assert of(result(report, queued[1])) == [(1, INFERRED, "call-is-queued"), (2, INFERRED, "call-is-queued")]
    why, = parts(result(report, queued[1]).why)
    assert why == because("call-is-queued", function="child", workers=2, queued=2, functions=("child",))
    # a worker has no part of a call that it has not taken
    assert [[hold.lock for hold in thread.holds] for thread in report.threads] == [
        [result(report, running[0]).id], [], []]
    deadlock, = report.deadlocks
    assert (deadlock.threads, deadlock.of_pool, deadlock.evidence) == ((1, 2), True, INFERRED)
    verdict = judge(report)
    assert (verdict.kind, verdict.outcome, verdict.threads, verdict.behind) == (
        "pool", "stuck", (1, 2), () if timeout else (3,))


def test_pool_that_may_start_another_worker_is_not_exhausted(version: str) -> None:
    pool = Pool(version, 1, most=2)
    running, queued = pool.future("RUNNING"), pool.future()
    pool.submit(queued)
    pool.runs(0, running, queued)
    report = pool.program.look()
    lock = result(report, queued)
    assert (lock.holders, [why.code for why in parts(lock.why)]) == ((), ["call-is-queued", "condition-has-no-owner"])
    assert not any(deadlock.of_pool for deadlock in report.deadlocks)


def test_pool_with_a_worker_that_runs_is_not_exhausted(version: str) -> None:
    pool = Pool(version, 2)
    running, queued = [pool.future("RUNNING") for _ in range(2)], pool.future()
    pool.submit(queued)
    pool.runs(0, running[0], queued)
    pool.runs(1, running[1])
    report = pool.program.look()
    assert (result(report, queued).holders, report.deadlocks) == ((), ())
    assert judge(report).outcome == "fine"


def test_calls_that_wait_for_each_other_are_a_deadlock(version: str) -> None:
    pool = Pool(version, 2)
    a, b = pool.future("RUNNING"), pool.future("RUNNING")
    pool.submit()
    pool.runs(0, a, b)
    pool.runs(1, b, a)
    deadlock, = pool.program.look().deadlocks
    assert (deadlock.threads, deadlock.evidence, deadlock.of_pool) == ((1, 2), DERIVED, False)


def test_pool_without_worker_processes_makes_no_result(version: str) -> None:
    pool = Pool(version, 0)
    future = pool.future("RUNNING")
    pool.manages(0, future, pool.future())
    pool.main(future)
    report = pool.program.look()
    lock = result(report, future)
    assert (lock.orphan, lock.orphan_evidence) == (because("no-maker"), INFERRED)
    assert parts(lock.why) == (because("pool-without-workers", pending=2), because("only-submit-starts-workers"))
    deadlock, = report.deadlocks
    assert (deadlock.threads, deadlock.no_result, judge(report).kind) == ((2,), True, "no-result")


@pytest.mark.parametrize("case", ["worker", "another thread", "manager runs"])
def test_pool_of_processes_may_still_make_a_result(version: str, case: str) -> None:
    pool = Pool(version, 0)
    future = pool.future("RUNNING")
    pool.manages(int(case == "worker"), future, blocked=case != "manager runs")
    pool.main(future)
    if case == "another thread":  # may submit a call, and the pool starts a worker then
        pool.program.thread(pool.program.frame())
    report = pool.program.look()
    assert (result(report, future).orphan, report.deadlocks) == (None, ())


def test_future_of_no_pool_has_no_holder(version: str) -> None:
    pool = Pool(version, 1)
    other = pool.future()
    pool.submit(pool.future())
    pool.runs(0, pool.future("RUNNING"))
    pool.main(other)
    lock = result(pool.program.look(), other)
    assert (lock.holders, lock.why) == ((), because("condition-has-no-owner"))
