"""What explanations ask of a report: which threads wait for which, which continue, and which wait outside."""

from __future__ import annotations

import pytest

from gdbext.model import EXCLUSIVE, RECORDED, Holder, Lock, PyFrame, Report, TargetInfo, Thread, Wait
from gdbext.model.kinds import LockKind
from gdbext.verdict.scene import Scene, continues, takes_work

INFO = TargetInfo("live", 885, None, "x86_64", None)
POOL, JOB = "/usr/lib/python3.13/multiprocessing/pool.py", "/app/job.py"


def lock(kind: LockKind, address: int, *holders: int) -> Lock:
    return Lock(f"{kind}:{address:#x}", kind, address, None, "locked",
                tuple(Holder(holder, EXCLUSIVE, RECORDED) for holder in holders))


def scene(waits: dict[int, Lock | None], timed: int = 0) -> Scene:
    """Threads by number with the locks that they wait for; one without a lock runs."""
    threads = [Thread(number, number, number, None, status="running" if wanted is None else "blocked",
                      waits=Wait(wanted.id, EXCLUSIVE, number == timed) if wanted is not None else None)
               for number, wanted in waits.items()]
    return Scene(Report(INFO, threads=tuple(threads), locks=tuple(filter(None, waits.values()))))


def test_threads_behind_a_thread_wait_for_it_or_behind_others() -> None:
    made = scene({1: None, 2: lock("mutex", 1, 1), 3: lock("mutex", 2, 2), 4: lock("mutex", 3, 1)})
    assert (made.behind(1), made.behind(2), made.behind(3)) == ([2, 3, 4], [3], [])
    assert made.continuing == {1, 2, 3, 4}


def test_wait_with_a_timeout_is_behind_nothing() -> None:
    made = scene({1: lock("mutex", 1, 2), 2: lock("mutex", 2, 1)}, timed=1)
    assert (made.behind(1), made.behind(2)) == ([2], [])
    assert continues(made.threads[1])


def test_threads_that_wait_for_the_end_of_a_thread_do_not_want_its_locks() -> None:
    made = scene({1: None, 2: lock("thread-exit", 1, 1), 3: lock("mutex", 2, 1)})
    assert (made.waiting, made.wanting) == ({1: [2, 3]}, {1: [3]})


@pytest.mark.parametrize(("files", "expected"), [
    ([("get", "/usr/lib/python3.13/multiprocessing/queues.py"), ("worker", POOL)], True),
    ([("child", JOB), ("worker", POOL)], False), ([("worker", JOB)], False)])
def test_worker_of_a_pool_takes_work_unless_it_is_in_a_call(files: list[tuple[str, str]], expected: bool) -> None:
    stack = tuple(PyFrame(function, function, file, 1) for function, file in files)
    assert takes_work(Thread(1, 1, 1, None, status="blocked", stack=stack)) is expected
