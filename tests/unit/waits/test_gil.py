from __future__ import annotations

import pytest

from gdbext.model import DERIVED, EXCLUSIVE, RECORDED, Holder
from tests.support import versions
from tests.support.fake_python import VERSIONS
from tests.support.fake_python_target import PythonTarget
from tests.support.fake_target import APP_TEXT, LIBC_TEXT, RESTART_SYSCALL, FakeThread
from tests.support.snapshots import gil_and_rwlock, lock_of, report_of, thread_of

WORD = (1 << 64) - 1


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_gil_wait_that_a_stop_has_restarted(version: str) -> None:
    target, _, worker, _ = gil_and_rwlock(version)
    target.waits_for_gil(worker, number=RESTART_SYSCALL)
    assert [deadlock.threads for deadlock in report_of(target).deadlocks] == [(1, 2)]


def test_gil_waiter_caught_between_two_turns(version: str) -> None:
    # every 5 ms its timed wait ends; it has just returned from the kernel
    target, _, worker, _ = gil_and_rwlock(version)
    worker.registers["rax"] = -110 & WORD
    report = report_of(target)
    assert [deadlock.threads for deadlock in report.deadlocks] == [(1, 2)]
    assert thread_of(report, worker).status == "blocked"


def caught_awake(version: str, asked: int) -> tuple[PythonTarget, FakeThread]:
    """A waiter that runs, without a symbol that shows where."""
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


@pytest.mark.parametrize("version", versions.from_minor(9))
def test_gil_waiter_awake_is_the_only_thread_that_can_have_asked(version: str) -> None:
    target, worker = caught_awake(version, 1)
    report = report_of(target)
    assert [(deadlock.threads, deadlock.evidence) for deadlock in report.deadlocks] == [((1, 2), DERIVED)]
    wait = thread_of(report, worker).waits
    assert wait is not None
    assert "asked" in str(wait.why)


@pytest.mark.parametrize("version", versions.from_minor(9))
def test_running_thread_without_a_gil_request_does_not_wait(version: str) -> None:
    target, worker = caught_awake(version, 0)
    report = report_of(target)
    assert report.deadlocks == ()
    assert thread_of(report, worker).waits is None


@pytest.mark.parametrize("version", versions.from_minor(9))
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
    """Before or after the system call, the GIL's condition variable in the waiting function identifies the wait."""
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
