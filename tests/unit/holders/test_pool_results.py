from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gdbext.inferior.proc.process import Proc
from gdbext.inferior.proc.shared_memory import Word
from gdbext.inferior.proc.sleeper import Sleeper
from gdbext.model import DERIVED, INFERRED, Lock, Report
from gdbext.model.reasons import because, parts
from gdbext.verdict.judge import judge
from tests.support import process_pools, thread_pools
from tests.support.fake_proc import FakeProc
from tests.support.fake_python import VERSIONS
from tests.support.lock_program import Program

FILE, THREADING = process_pools.FILE, "/usr/lib/python3/threading.py"
JOB = 7


class Pool:
    """A program with a pool of `multiprocessing`, whose first thread waits for a result in a `with` block."""

    def __init__(self, version: str, result: str = "ApplyResult", index: int = 0, taker: bool = True) -> None:
        self.program = Program(version)
        self.python = python = self.program.python
        self.cache, self.results, self.lock = python.namespace(), thread_pools.queue(python, []), python.lock()
        self.calls = thread_pools.queue(python, [])
        guard = python.condition(python.lock(locked=False))
        is_iterator = "Iterator" in result
        event = python.instance("Event", _cond=guard, _flag=process_pools.none(python))
        handler = thread_pools.thread(python, 0x7777, taker)
        self.result = process_pools.result(python, result, JOB, self.cache, guard if is_iterator else event,
                                           python.instance("Pool", _result_handler=handler), _index=index)
        # MainThread: get -> wait -> Event.wait -> Condition.wait
        taken = self.program.frame([self.lock])
        at = process_pools.frame(python, "next" if is_iterator else "wait", taken, self=self.result)
        if not is_iterator:
            at = process_pools.frame(python, "wait", at, THREADING, self=event)
        waiter = python.lock()
        at = process_pools.frame(python, "wait", at, THREADING, self=guard, waiter=waiter)
        self.program.sleeps(self.program.thread(at), waiter)

    def sends(self, task: int = 0, unsent: Sequence[int] = (), size: int = 0, blocked: bool = True) -> None:
        """The thread that sends calls; if it is blocked, then in the pickling of one, which takes the lock."""
        python = self.python
        at = process_pools.frame(
            python, "_handle_tasks", cache=self.cache, outqueue=self.results, task=task,
            taskqueue=thread_pools.queue(python, process_pools.unsent(python, *unsent)),
            pool=python.list_object(*[python.integer(number) for number in range(size)]))
        if blocked:
            self.program.sleeps(self.program.thread(self.program.frame([], self.lock, previous=at)), self.lock)
        else:
            self.program.thread(at)

    def takes(self, blocked: bool) -> None:
        """The thread that takes results; if it is blocked, then in a callback, which takes the lock."""
        at = process_pools.frame(self.python, "_handle_results", cache=self.cache, outqueue=self.results)
        if blocked:
            self.program.sleeps(self.program.thread(self.program.frame([], self.lock, previous=at)), self.lock)
        else:
            self.program.thread(at)

    def works(self, job: int, index: int = 0, blocked: bool = True) -> None:
        """A worker thread with a call, which takes the lock if it is blocked."""
        python = self.python
        at = process_pools.frame(
            python, "worker", inqueue=self.calls, outqueue=self.results, job=python.integer(job),
            i=python.integer(index), func=python.function("child"), args=python.tuple_object())
        if blocked:
            self.program.sleeps(self.program.thread(self.program.frame([], self.lock, previous=at)), self.lock)
        else:
            self.program.thread(at)

    def look(self) -> tuple[Report, Lock]:
        report = self.program.look()
        lock, = (lock for lock in report.locks if lock.address == self.result)
        assert lock.state == "result is pending"
        return report, lock


def of(lock: Lock) -> list[tuple[object, ...]]:
    return [(holder.thread, holder.evidence, holder.why.code if holder.why else None) for holder in lock.holders]


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize(("job", "unsent"), [(JOB, ()), (3, (4, JOB))])
def test_result_whose_call_is_not_sent_yet(version: str, job: int, unsent: Sequence[int]) -> None:
    pool = Pool(version)
    pool.sends(process_pools.task(pool.python, job, 0, pool.python.function("child")), unsent)
    pool.takes(blocked=False)
    report, lock = pool.look()
    assert of(lock) == [(2, DERIVED, "pool-sends-call")]
    deadlock, = report.deadlocks
    assert (deadlock.threads, deadlock.evidence, deadlock.of_pool) == ((1, 2), DERIVED, False)


def test_result_whose_call_is_sent(version: str) -> None:
    pool = Pool(version)
    pool.sends(process_pools.task(pool.python, 3, 0, pool.python.function("child")), [4])
    pool.takes(blocked=False)
    report, lock = pool.look()
    assert (lock.holders, report.deadlocks) == ((), ())


@pytest.mark.parametrize(("needed", "sent"), [(1, False), (0, True)])
def test_item_of_an_iterator_may_be_sent_before_another(version: str, needed: int, sent: bool) -> None:
    pool = Pool(version, "IMapIterator", needed)
    pool.sends(process_pools.task(pool.python, JOB, 1, pool.python.function("child")))
    _, lock = pool.look()
    assert of(lock) == ([] if sent else [(2, DERIVED, "pool-sends-call")])


def test_thread_that_takes_results_has_to_act_for_each_of_them(version: str) -> None:
    pool = Pool(version)
    pool.sends(blocked=False)
    pool.takes(blocked=True)
    report, lock = pool.look()
    assert of(lock) == [(3, DERIVED, "pool-takes-results")]
    assert [deadlock.threads for deadlock in report.deadlocks] == [(1, 3)]


@pytest.mark.parametrize("ended", [True, False])
def test_result_of_a_pool_whose_thread_for_results_has_ended(version: str, ended: bool) -> None:
    """As after a result that could not be unpickled."""
    pool = Pool(version, taker=not ended)
    pool.sends(blocked=False)
    report, lock = pool.look()
    assert [each.no_result for each in report.deadlocks] == ([True] if ended else [])
    assert (lock.orphan is not None) is ended
    other = Pool(version, taker=not ended)
    other.takes(blocked=False)
    assert other.look()[1].orphan is None


def test_all_workers_with_a_part_have_to_finish_it(version: str) -> None:
    pool = Pool(version)
    pool.sends(blocked=False, size=3)
    pool.takes(blocked=False)
    pool.works(JOB, 0, blocked=False)
    pool.works(JOB, 1)
    pool.works(JOB + 1, 0)
    report, lock = pool.look()
    assert (of(lock), lock.wait_for) == ([(4, DERIVED, "runs-call"), (5, DERIVED, "runs-call")], "all")
    # the other part may be finished, but not this one
    assert [deadlock.threads for deadlock in report.deadlocks] == [(1, 5)]


def test_item_of_an_iterator_needs_one_worker(version: str) -> None:
    pool = Pool(version, "IMapIterator", 1)
    pool.sends(blocked=False, size=2)
    pool.takes(blocked=False)
    pool.works(JOB, 0)
    pool.works(JOB, 1, blocked=False)
    report, lock = pool.look()
    assert (of(lock), report.deadlocks) == ([(5, DERIVED, "runs-call")], ())


@pytest.mark.parametrize(("others_stuck", "queued"), [(True, False), (False, False), (True, True)])
def test_first_item_to_come_needs_any_worker(version: str, others_stuck: bool, queued: bool) -> None:
    """As of ``imap_unordered``: each of its calls may give the item, also one that another worker may take."""
    pool = Pool(version, "IMapUnorderedIterator")
    kind, base = (pool.python.type_object(name) for name in ("IMapUnorderedIterator", "IMapIterator"))
    pool.python.build.put("PyTypeObject", kind, tp_base=base)
    if queued:
        pool.calls = thread_pools.queue(pool.python, [
            process_pools.task(pool.python, JOB, 2, pool.python.function("queued"))])
    pool.sends(blocked=False, size=3)
    pool.takes(blocked=False)
    pool.works(JOB, 0)
    pool.works(JOB, 1, blocked=others_stuck)
    report, lock = pool.look()
    runs = [(4, DERIVED, "runs-call"), (5, DERIVED, "runs-call")]
    assert (of(lock), lock.wait_for if not queued else "any") == ([] if queued else runs, "any")
    assert bool(report.deadlocks) is (others_stuck and not queued)


@pytest.mark.parametrize("workers", [2, 3])
def test_call_behind_all_workers(version: str, workers: int) -> None:
    pool = Pool(version)
    pool.calls = thread_pools.queue(pool.python, [
        process_pools.task(pool.python, JOB, 0, pool.python.function("queued"))])
    pool.sends(blocked=False, size=workers)
    pool.takes(blocked=False)
    pool.works(1)
    pool.works(2)
    report, lock = pool.look()
    if workers == 2:
        assert of(lock) == [(4, INFERRED, "call-is-queued"), (5, INFERRED, "call-is-queued")]
        assert len(report.deadlocks) == 1
    else:  # a worker is about to start
        assert (lock.holders, report.deadlocks) == ((), ())


def test_result_of_another_pool(version: str) -> None:
    pool = Pool(version)
    pool.cache = pool.python.namespace()
    pool.sends(process_pools.task(pool.python, JOB, 0, pool.python.function("child")))
    pool.takes(blocked=True)
    pool.works(JOB)
    report, lock = pool.look()
    assert (lock.holders, report.deadlocks) == ((), ())


# -- a pool of processes that has lost a call ---------------------------------------------------------------------

PIPE, WORD = "pipe:[7]", Word("00:1a", 77, 0x2000)
READS = Sleeper(101, 0, 5.0, PIPE, None)
QUEUES = Sleeper(102, 202, 5.0, None, WORD)


class ChildrenOnly(Proc):
    """A process with workers that sleep."""

    def __init__(self, root: Path, workers: Mapping[int, Sleeper | None], ages: Sequence[float | None]) -> None:
        made = FakeProc(root)
        made.open(6, PIPE)
        super().__init__(100, str(root))
        self._workers = workers
        self._ages = ages

    def age(self, pid: int) -> float | None:
        return self._ages[pid - 101]

    def sleeper(self, pid: int) -> Sleeper | None:
        return self._workers[pid]

    def shared_word(self, address: int) -> Word | None:
        return WORD


def lost(version: str, root: Path, *workers: Sleeper | None, idle: bool = True, slept: float = 5.0,
         names: Sequence[str] = ("ForkPoolWorker-1", "ForkPoolWorker-3"),
         ages: Sequence[float | None] = (60.0, 60.0)) -> tuple[Report, Lock]:
    pool = Pool(version)
    python = pool.python
    task = 0 if idle else process_pools.task(python, 1, 0, python.function("child"))
    pool.sends(task, blocked=not idle)
    handler = process_pools.frame(python, "_handle_results", cache=pool.cache, outqueue=pool.results)
    pool.program.thread(process_pools.frame(python, "_recv", handler, "/usr/lib/python3/multiprocessing/connection.py"))
    semaphore = python.builtin("_multiprocessing.SemLock", "SemLockObject", handle=python.build.alloc(32), maxvalue=1,
                               kind=1)
    queue = python.instance("SimpleQueue", _reader=python.instance("Connection", _handle=python.integer(6)),
                            _rlock=python.instance("SemLock", _semlock=semaphore))
    processes = [python.instance("ForkProcess", _popen=python.instance("Popen", pid=python.integer(101 + number)),
                                 _name=python.string(name)) for number, name in enumerate(names[:len(workers)])]
    pool.program.thread(process_pools.frame(
        python, "_handle_workers", cache=pool.cache, inqueue=queue, pool=python.list_object(*processes),
        maxtasksperchild=process_pools.none(python)))
    pool.program.target.proc = ChildrenOnly(root, {101 + number: worker for number, worker in enumerate(workers)}, ages)
    pool.program.target.since = dict.fromkeys(range(1, 5), slept)
    return pool.look()


def test_call_is_lost_if_all_of_its_pool_is_at_rest(version: str, tmp_path: Path) -> None:
    report, lock = lost(version, tmp_path, READS, QUEUES)
    assert (lock.orphan, lock.orphan_evidence) == (because("no-maker"), INFERRED)
    assert parts(lock.why) == (
        because("call-lost", workers=2, gone=("ForkPoolWorker-2",)), because("pool-is-idle"))
    deadlock, = report.deadlocks
    assert (deadlock.threads, deadlock.no_result) == ((1,), True)
    assert judge(report).kind == "no-result"


@pytest.mark.parametrize("names", [("ForkPoolWorker-1", "ForkPoolWorker-2"), ("ForkPoolWorker-1", "named"),
                                   ("ForkPoolWorker-1", "SpawnPoolWorker-3")])
def test_worker_that_has_ended_is_named_only_if_its_number_is_missing(version: str, tmp_path: Path,
                                                                      names: Sequence[str]) -> None:
    _, lock = lost(version, tmp_path, READS, QUEUES, names=names)
    assert parts(lock.why)[0] == because("call-lost", workers=2, gone=())


@pytest.mark.parametrize("workers", [
    (READS, None),  # it runs
    (READS, replace(QUEUES, word=None)),  # it waits for something else, in the middle of a call
    (READS, replace(QUEUES, word=Word("00:1a", 78, 0x2000))),  # to send a result
    (READS, replace(QUEUES, seconds=0.1)),  # it has just begun to wait
    (READS, replace(READS, link="pipe:[8]")),
    (READS, replace(READS, call=7)),
    (QUEUES, QUEUES),  # nobody reads, so the pipe may not be empty
    (),
])
def test_call_may_still_be_on_its_way(version: str, tmp_path: Path, workers: Sequence[Sleeper | None]) -> None:
    report, lock = lost(version, tmp_path, *workers)
    assert (lock.orphan, report.deadlocks) == (None, ())


def test_call_is_not_lost_while_another_is_sent(version: str, tmp_path: Path) -> None:
    assert lost(version, tmp_path, READS, idle=False)[1].orphan is None


def test_call_is_not_lost_if_the_pool_has_just_run(version: str, tmp_path: Path) -> None:
    assert lost(version, tmp_path, READS, slept=0.1)[1].orphan is None


@pytest.mark.parametrize(("ages", "replaced"), [
    ((1.0, None), True), ((None, None), True), ((1.0, 60.0), False), ((4.5, 1.0), False)])
def test_workers_that_end_and_are_replaced(version: str, tmp_path: Path, ages: Sequence[float | None],
                                           replaced: bool) -> None:
    """As where the initialiser of the pool fails: none is older than the wait of five seconds."""
    report, lock = lost(version, tmp_path, READS, None, ages=ages)
    assert (lock.orphan, lock.holders, report.deadlocks) == (None, (), ())
    why = because("workers-replaced", names=("ForkPoolWorker-1", "ForkPoolWorker-3"))
    assert (lock.why == why) is replaced
