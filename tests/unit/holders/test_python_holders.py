from __future__ import annotations

from pathlib import Path

import pytest

from gdbext.layout.opcodes import opcodes_of
from gdbext.model import DERIVED, EXCLUSIVE, INFERRED, RECORDED, Holder, PyFrame
from gdbext.model.reasons import because
from gdbext.narrate.reasons import explain
from tests.support.fake_proc import FakeProc
from tests.support.fake_python import VERSIONS
from tests.support.fake_target import WAIT_BITSET_SHARED
from tests.support.lock_program import Program, lock_of, rlock_waiter, taken_at
from tests.support.reasons import said

THREADING = "/usr/lib/python3/threading.py"
INSIDE = because("in-with-block")


@pytest.fixture(params=VERSIONS)
def program(request: pytest.FixtureRequest) -> Program:
    return Program(str(request.param))


@pytest.fixture(params=[version for version in VERSIONS if opcodes_of(*map(int, version.split(".")[:2]))])
def acquiring(request: pytest.FixtureRequest) -> Program:
    """A program of a version whose bytecode is known."""
    return Program(str(request.param))


@pytest.mark.parametrize("by", ["itself", "another"])
def test_lock_that_may_be_released_meanwhile(program: Program, by: str) -> None:
    lock = program.python.lock()
    names = ("release",) if by == "itself" else ()
    program.waiter(lock, [lock], names=names)
    program.thread(program.frame(variables=[("signal", lock)], names=("release",)) if by == "another"
                   else program.frame())
    report = program.look()
    assert report.deadlocks == ()
    found = lock_of(report, lock)
    assert (found.holders, found.candidates) == ((), (1,))
    assert said(found.why) == "inside a `with` block of the lock, but may have released it since"


def test_two_takers_contradict_each_other(program: Program) -> None:
    lock = program.python.lock()
    program.thread(program.frame([lock]))
    program.thread(program.frame([lock]))
    program.waiter(lock)
    found = lock_of(program.look(), lock)
    assert (found.holders, found.candidates) == ((), (1, 2))
    assert said(found.why) == "several threads are inside `with` blocks of it"


def test_thread_between_acquire_and_release_holds_the_lock(acquiring: Program) -> None:
    python = acquiring.python
    a, b = python.lock(), python.lock()
    for one, other in ((a, b), (b, a)):
        acquiring.sleeps(acquiring.thread(python.between_acquire_and_release(one, waits_for=other)), other)
    report = acquiring.look()
    (deadlock,) = report.deadlocks
    assert (deadlock.threads, deadlock.evidence) == ((1, 2), DERIVED)
    (holder,) = lock_of(report, a).holders
    assert (holder.thread, holder.taken_at, holder.why) == (
        1, taken_at(100), because("acquired-by-call", expression="lock"))


def test_thread_that_does_not_release_what_it_acquires_is_a_candidate(acquiring: Program) -> None:
    lock = acquiring.python.lock()
    acquiring.thread(acquiring.python.between_acquire_and_release(lock, releases=False))
    acquiring.waiter(lock)
    found = lock_of(acquiring.look(), lock)
    assert (found.holders, found.candidates, found.why) == ((), (1,), because("acquired-not-released"))


def test_with_block_and_acquire_contradict_each_other(acquiring: Program) -> None:
    lock = acquiring.python.lock()
    acquiring.thread(acquiring.frame([lock]))
    acquiring.thread(acquiring.python.between_acquire_and_release(lock))
    acquiring.waiter(lock)
    found = lock_of(acquiring.look(), lock)
    assert (found.holders, found.candidates, found.why) == ((), (1, 2), because("acquired-by-several"))


def test_thread_that_waits_for_what_it_has_acquired_does_not_hold_it(acquiring: Program) -> None:
    python = acquiring.python
    lock = python.lock()
    # by another variable
    acquiring.sleeps(acquiring.thread(python.between_acquire_and_release(lock, waits_for=lock)), lock)
    report = acquiring.look()
    found = lock_of(report, lock)
    assert (found.holders, found.candidates, report.deadlocks) == ((), (1,), ())
    assert found.why == because("acquired-and-waits")


def test_acquired_lock_that_is_free_has_no_holder(acquiring: Program) -> None:
    lock = acquiring.python.lock(locked=False)
    acquiring.thread(acquiring.python.between_acquire_and_release(lock))
    acquiring.waiter(lock)
    found = lock_of(acquiring.look(), lock)
    assert (found.holders, found.candidates) == ((), ())


def test_lock_that_is_free_again(program: Program) -> None:
    lock = program.python.lock(locked=False)
    program.thread(program.frame([lock]))
    program.waiter(lock)
    found = lock_of(program.look(), lock)
    assert (found.holders, found.candidates, found.state) == ((), (), "free")


def test_recorded_owner(program: Program) -> None:
    python = program.python
    owner = program.target.thread()
    lock = rlock_waiter(program, owner.pthread)
    tstate = python.thread(program.interpreter, owner.pthread)
    python.innermost(tstate, program.frame(variables=[("lock", lock)]))
    assert lock_of(program.look(), lock).holders == (Holder(1, EXCLUSIVE, RECORDED),)


def test_thread_with_the_ident_of_the_owner_is_a_candidate_if_none_of_its_frames_refers_to_the_lock(
        program: Program) -> None:
    """The owner has exited, and the C library has given its descriptor to a new thread."""
    owner = program.thread(program.frame())
    lock = rlock_waiter(program, owner.pthread)
    report = program.look()
    found = lock_of(report, lock)
    assert (found.holders, found.candidates, report.deadlocks) == ((), (1,), ())
    assert found.why is not None
    assert "no frame of that thread refers to the lock" in explain(found.why)


@pytest.mark.parametrize("count", [0, 1])
def test_lock_between_processes(program: Program, count: int) -> None:
    python = program.python
    handle, lock = python.build.alloc(32), python.build.alloc(64)
    owner, thread = program.thread(program.frame(variables=[("lock", lock)])), program.target.thread()
    python.build.put("PyObject", lock, ob_type=python.type_object("_multiprocessing.SemLock"))
    python.build.put("SemLockObject", lock, handle=handle, maxvalue=1, kind=1, count=count, last_tid=owner.pthread)
    tstate = python.thread(program.interpreter, thread.pthread)
    python.innermost(tstate, program.frame(variables=[("lock", lock)]))
    program.target.waits(thread, handle, 0, WAIT_BITSET_SHARED)
    found = lock_of(program.look(), lock)
    assert found.shared
    if count:
        assert found.holders == (Holder(1, EXCLUSIVE, RECORDED),)
    else:
        assert (found.holders, found.candidates) == ((), ())
        assert said(found.why) == "no thread of this process holds it; another process may"


@pytest.mark.parametrize(("others", "why"), [
    ("", "no thread of this process has it, and no other process has it mapped any more"),
    ("200", "no thread of this process holds it; another process may")])
def test_lock_between_processes_whose_holder_has_ended(program: Program, tmp_path: Path, others: str,
                                                       why: str) -> None:
    python = program.python
    handle, lock = python.build.alloc(32), python.build.alloc(64)
    thread = program.target.thread()
    python.build.put("PyObject", lock, ob_type=python.type_object("_multiprocessing.SemLock"))
    python.build.put("SemLockObject", lock, handle=handle, maxvalue=1, kind=1, count=0, last_tid=5)
    python.innermost(python.thread(program.interpreter, thread.pthread), program.frame(variables=[("lock", lock)]))
    program.target.waits(thread, handle, 0, WAIT_BITSET_SHARED)
    fake = FakeProc(tmp_path)
    mapping = f"{handle & -4096:x}-{(handle & -4096) + 4096:x} rw-s 00000000 00:1b 78   /dev/shm/sem.x (deleted)\n"
    for pid in ("100", others) if others else ("100",):
        if pid != "100":
            fake.process(int(pid), "worker")
        fake.write(f"{pid}/maps", mapping)
    program.target.proc = fake.proc()
    found = lock_of(program.look(), lock)
    assert (found.orphan is not None, said(found.why)) == (not others, why)


def test_thread_with_the_ident_of_the_owner_and_without_python_frames_is_inferred(program: Program) -> None:
    owner = program.target.thread()
    lock = rlock_waiter(program, owner.pthread)
    program.python.thread(program.interpreter, owner.pthread)
    (holder,) = lock_of(program.look(), lock).holders
    assert (holder.thread, holder.evidence) == (1, INFERRED)
    assert holder.why is not None
    assert "compiled" in explain(holder.why)


def test_where_a_recursive_lock_was_taken_first(program: Program) -> None:
    python = program.python
    owner = program.target.thread()
    lock = rlock_waiter(program, owner.pthread)
    tstate = python.thread(program.interpreter, owner.pthread)
    python.innermost(tstate, program.frame([lock], previous=program.frame([python.lock(), lock], function="outer")))
    holder, = lock_of(program.look(), lock).holders
    assert holder == Holder(1, EXCLUSIVE, RECORDED, taken_at=PyFrame("outer", "outer", "/app/job.py", 102))


@pytest.mark.parametrize("others", [0, 1])
def test_owner_whose_memory_is_gone_is_not_a_living_thread(program: Program, others: int) -> None:
    lock = rlock_waiter(program, 0x7F00_0DEA_D000)
    for _ in range(others):
        program.target.thread()
    report = program.look()
    found = lock_of(report, lock)
    assert (found.holders, said(found.orphan)) == ((), "not a living thread")
    (deadlock,) = report.deadlocks
    assert (deadlock.threads, deadlock.edges[0].holder, deadlock.evidence) == ((1,), None, INFERRED)


@pytest.mark.parametrize("owner", [0x7F00_0DEA_D008, 0x1240, 0x8000_7F00_0DEA_D000])
def test_owner_field_that_cannot_name_a_thread_is_not_an_orphan(program: Program, owner: int) -> None:
    lock = rlock_waiter(program, owner)
    program.target.thread()
    report = program.look()
    assert (lock_of(report, lock).orphan, report.deadlocks) == (None, ())


@pytest.mark.parametrize(("state", "orphan"), [(0, "left behind by fork"), (0x10, "thread exited")])
def test_owner_in_a_child_of_fork_that_has_started_threads(program: Program, state: int, orphan: str) -> None:
    """The descriptor of a thread that fork did not take along is as it was when the thread ran."""
    descriptor = 0x7F00_0DEA_D000
    program.target.build.put("struct pthread", descriptor, self=descriptor, cancelhandling=state)
    lock = rlock_waiter(program, descriptor)
    program.target.thread()
    assert said(lock_of(program.look(), lock).orphan) == orphan


def test_owner_that_may_be_a_thread_that_cannot_be_read(program: Program) -> None:
    lock = rlock_waiter(program, 0x7F00_0DEA_D000)
    program.target.thread().available = False
    report = program.look()
    assert lock_of(report, lock).orphan is None
    assert report.deadlocks == ()
