"""Threads that CPython itself has parked: locks of objects, mutexes, a world that is to stop or to go on."""

from __future__ import annotations

import pytest

from gdbext.model import DERIVED, EXCLUSIVE, RECORDED, CriticalSection, Holder, Lock, Report, Wait
from gdbext.model.reasons import because
from gdbext.snapshot import take_snapshot
from tests.support.fake_python import FREE_THREADED, FakePython
from tests.support.fake_target import WAIT_BITSET_REALTIME, FakeTarget, FakeThread
from tests.support.reasons import said

DETACHED, ATTACHED, SUSPENDED = 0, 1, 2
PLEASE_STOP = 1 << 5


class Program:
    """A process with a free-threaded Python."""

    def __init__(self, version: str) -> None:
        self.target = FakeTarget()
        self.python = FakePython(self.target.ram, version, build="free-threaded")
        self.target.loaded.append(self.python.runtime())
        self.interpreter = self.python.interpreter()
        self.tstates: dict[int, int] = {}

    def thread(self, state: int = DETACHED, **members: int) -> FakeThread:
        """A thread of Python in some state."""
        made = self.target.thread()
        tstate = self.python.thread(self.interpreter, made.pthread, state=state, **members)
        self.tstates[made.pthread] = tstate
        return made

    def parks(self, thread: FakeThread, address: int, *, mutex: bool = True, handed_off: int = 0,
              timeout: int = 0) -> FakeThread:
        """Park a thread at an address."""
        word = self.python.park(thread.stack + 0x400, address, handed_off if mutex else None)
        return self.target.waits(thread, word, 0, WAIT_BITSET_REALTIME, timeout)

    def enters(self, thread: FakeThread, *mutexes: int, active: bool = True) -> None:
        """Let a thread be in a critical section."""
        newest = self.python.section(thread.stack + 0x300, *mutexes, active=active)
        self.python.build.put("PyThreadState", self.tstates[thread.pthread], critical_section=newest)

    def stop_the_world(self, requester: FakeThread, countdown: int, structure: str = "PyInterpreterState",
                       stopped: int = 0) -> tuple[int, int]:
        """Let a thread ask all others to stop. Returns the addresses of the state and of its event."""
        base = self.interpreter if structure == "PyInterpreterState" else self.python.runtime_address
        at = self.python.build.member(structure, base, "stoptheworld")
        self.python.build.put("_stoptheworld_state", at, requested=1, world_stopped=stopped,
                              thread_countdown=countdown, requester=self.tstates[requester.pthread])
        return at, self.python.build.member("_stoptheworld_state", at, "stop_event")

    def own_state(self, thread: FakeThread) -> int:
        """Where a thread parks that is to go on after a stop."""
        return self.python.build.member("PyThreadState", self.tstates[thread.pthread], "state")

    def look(self) -> Report:
        """What gdbext says."""
        return take_snapshot(self.target).report(lambda thread: False)


@pytest.fixture(params=FREE_THREADED)
def program(request: pytest.FixtureRequest) -> Program:
    return Program(str(request.param))


def lock_of(report: Report, address: int) -> Lock:
    lock, = (lock for lock in report.locks if lock.address == address)
    return lock


def wait_of(report: Report, number: int) -> Wait | None:
    thread = report.thread(number)
    assert thread is not None
    return thread.waits


def edges(report: Report) -> list[set[tuple[int, str, int | None]]]:
    return [{(edge.waiter, edge.lock, edge.holder) for edge in deadlock.edges} for deadlock in report.deadlocks]


# -- critical sections ----------------------------------------------------------------------------------------

def test_critical_section_against_a_mutex(program: Program) -> None:
    shared = program.python.list_object()
    lock = program.python.mutex_of(shared)
    inside, outside = program.thread(ATTACHED), program.thread()
    mutex = program.target.mutex(outside.ref.lwp)
    program.enters(inside, lock)
    program.target.waits_for_mutex(inside, mutex)
    program.parks(outside, lock)
    report = program.look()
    found = lock_of(report, lock)
    assert (found.kind, found.state, found.name) == ("py-critical-section", "locked", f"list object at {shared:#x}")
    assert found.holders == (Holder(1, EXCLUSIVE, DERIVED, because("in-critical-section")),)
    assert edges(report) == [{(1, f"mutex:{mutex:#x}", 2), (2, f"py-critical-section:{lock:#x}", 1)}]
    assert report.deadlocks[0].evidence == DERIVED
    first = report.thread(1)
    assert first is not None
    assert first.critical_sections == (CriticalSection(lock, shared, "list", True),)
    assert [hold.lock for hold in first.holds] == [f"py-critical-section:{lock:#x}"]


def test_both_objects_of_a_section_are_held(program: Program) -> None:
    one, two = (program.python.mutex_of(program.python.list_object()) for _ in range(2))
    holder, waiter = program.thread(ATTACHED), program.thread()
    program.enters(holder, one, two)
    program.parks(waiter, two)
    report = program.look()
    assert {lock.address for lock in report.locks if lock.holders} == {one, two}
    assert wait_of(report, 2) == Wait(f"py-critical-section:{two:#x}", EXCLUSIVE, False)
    assert report.deadlocks == ()


@pytest.mark.parametrize("why", ["detached", "suspended", "free"])
def test_section_that_holds_nothing(program: Program, why: str) -> None:
    lock = program.python.mutex_of(program.python.list_object(), locked=why != "free")
    inside, outside = program.thread(DETACHED if why == "detached" else ATTACHED), program.thread()
    program.enters(inside, lock, active=why != "suspended")
    program.parks(outside, lock)
    report = program.look()
    assert lock_of(report, lock).holders == ()
    first = report.thread(1)
    assert first is not None
    assert first.holds == ()
    assert first.critical_sections is not None
    assert [section.active for section in first.critical_sections] == [why != "suspended"]


def test_two_threads_inside_are_candidates(program: Program) -> None:
    lock = program.python.mutex_of(program.python.list_object())
    for _ in range(2):
        program.enters(program.thread(ATTACHED), lock)
    program.parks(program.thread(), lock)
    found = lock_of(program.look(), lock)
    assert (found.holders, found.candidates) == ((), (1, 2))


def test_section_that_cannot_be_read(program: Program) -> None:
    program.thread(ATTACHED, critical_section=0xDEAD_0000)
    report = program.look()
    assert [(problem.where, problem.what) for problem in report.problems] == [("thread 1", "unreadable")]
    assert report.deadlocks == ()


# -- mutexes --------------------------------------------------------------------------------------------------

def test_mutex_of_an_extension_records_no_owner(program: Program) -> None:
    mutex = program.python.build.alloc(64) + 5
    program.target.ram.write(mutex, b"\3")
    holder = program.thread(ATTACHED)
    program.target.remember(holder, mutex)
    program.parks(program.thread(), mutex)
    found = lock_of(program.look(), mutex)
    assert (found.kind, found.state, found.holders) == ("py-mutex", "locked", ())
    assert said(found.why) == "a PyMutex records no owner"


def test_mutex_that_was_passed_on(program: Program) -> None:
    """The thread that it was given to has only not run since; it waits for nothing."""
    lock = program.python.mutex_of(program.python.list_object())
    program.parks(program.thread(), lock, handed_off=1)
    program.parks(program.thread(), lock)
    report = program.look()
    assert wait_of(report, 1) is None
    assert lock_of(report, lock).holders == (Holder(1, EXCLUSIVE, RECORDED),)
    assert report.deadlocks == ()


def test_lock_of_python_that_was_passed_on(program: Program) -> None:
    lock = program.python.lock()
    program.parks(program.thread(), program.python.lock_word(lock), handed_off=1)
    waiter = program.thread()
    tstate = program.tstates[waiter.pthread]
    program.python.innermost(tstate, program.python.in_with([], program.python.exit_of(lock)))
    program.parks(waiter, program.python.lock_word(lock))
    report = program.look()
    assert wait_of(report, 1) is None
    assert lock_of(report, lock).holders == (Holder(1, EXCLUSIVE, RECORDED),)


@pytest.mark.parametrize(("member", "kind", "name"), [
    ("types_mutex", "py-mutex", "PyInterpreterState.types_mutex"),
    ("weakref_locks", "py-mutex", "PyInterpreterState.weakref_locks")])
def test_mutex_of_the_interpreter_is_named(program: Program, member: str, kind: str, name: str) -> None:
    at = program.python.build.member("PyInterpreterState", program.interpreter, member)
    program.parks(program.thread(), at)
    found = lock_of(program.look(), at)
    assert (found.kind, found.name) == (kind, name)


def test_recursive_mutex_records_its_owner(program: Program) -> None:
    at = program.python.build.member("PyInterpreterState", program.interpreter, "imports_lock")
    owner = program.thread(ATTACHED)
    program.python.build.put("_PyRecursiveMutex", at, thread=owner.pthread)
    program.parks(program.thread(), at)
    assert lock_of(program.look(), at).holders == (Holder(1, EXCLUSIVE, RECORDED),)


@pytest.mark.parametrize(("bits", "state"), [(1, "write-locked"), (3, "write-locked"), (2 << 2 | 2, "read-locked by 2"),
                                             (2, "free")])
def test_lock_of_readers_and_writers(program: Program, bits: int, state: str) -> None:
    at = program.python.build.member("_PyRuntimeState", program.python.runtime_address, "stoptheworld_mutex")
    program.target.ram.u64(at, bits)
    program.parks(program.thread(), at, mutex=False)
    found = lock_of(program.look(), at)
    assert (found.kind, found.state, found.holders) == ("py-mutex", state, ())


def test_event_has_no_owner(program: Program) -> None:
    at = program.python.build.alloc(64) + 8
    program.parks(program.thread(), at, mutex=False)
    found = lock_of(program.look(), at)
    assert (found.kind, found.holders, found.wait_for) == ("py-event", (), "any")


# -- stopping the world ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("structure", ["PyInterpreterState", "_PyRuntimeState"])
def test_world_that_waits_for_a_thread_which_waits_for_a_suspended_one(program: Program, structure: str) -> None:
    suspended = program.thread(SUSPENDED)
    attached = program.thread(ATTACHED, eval_breaker=PLEASE_STOP)
    requester = program.thread(DETACHED)
    state, event = program.stop_the_world(requester, 1, structure)
    mutex = program.target.mutex(suspended.ref.lwp)
    program.target.waits_for_mutex(attached, mutex)
    program.parks(suspended, program.own_state(suspended), mutex=False)
    program.parks(requester, event, mutex=False, timeout=0x1000)
    report = program.look()
    assert edges(report) == [{(1, f"stop-the-world:{state:#x}", 3), (3, f"stop-the-world:{event:#x}", 2),
                              (2, f"mutex:{mutex:#x}", 1)}]
    assert report.deadlocks[0].evidence == DERIVED
    assert lock_of(report, state).holders == (Holder(3, EXCLUSIVE, RECORDED),)
    assert lock_of(report, event).state == "1 not stopped"
    stop = report.runtimes[0].interpreters[0].stop_the_world
    assert (stop.requested, stop.requester, stop.waiting_for) == (True, 3, (2,))


def test_thread_that_stops_the_world_may_be_awake(program: Program) -> None:
    program.thread(ATTACHED, eval_breaker=PLEASE_STOP)
    _, event = program.stop_the_world(program.thread(DETACHED), 1)
    report = program.look()
    assert wait_of(report, 2) == Wait(f"stop-the-world:{event:#x}", EXCLUSIVE, False)
    assert lock_of(report, event).holders == (Holder(1, EXCLUSIVE, DERIVED, because("asked-to-stop")),)
    assert report.deadlocks == ()


@pytest.mark.parametrize("result", [-512, -110], ids=["asleep", "just awake"])
def test_thread_without_a_state_stops_the_world(program: Program, result: int) -> None:
    """One that is about to get its first thread state: nobody is noted as who asked for it."""
    attached = program.thread(ATTACHED, eval_breaker=PLEASE_STOP)
    native = program.target.thread()
    _, event = program.stop_the_world(attached, 1, "_PyRuntimeState")
    state = program.python.build.member("_PyRuntimeState", program.python.runtime_address, "stoptheworld")
    program.python.build.put("_stoptheworld_state", state, requester=0)
    program.parks(native, event, mutex=False, timeout=0x1000)
    native.registers["rax"] = result % 2**64  # ERESTARTSYS, ETIMEDOUT
    program.target.waits_for_mutex(attached, program.target.mutex(native.ref.lwp))
    deadlock, = program.look().deadlocks
    assert deadlock.threads == (1, 2)


def test_count_that_does_not_fit(program: Program) -> None:
    """Another thread is about to stop or is new, so the threads that the requester waits for are uncertain."""
    program.thread(ATTACHED, eval_breaker=PLEASE_STOP)
    _, event = program.stop_the_world(program.thread(DETACHED), 2)
    found = lock_of(program.look(), event)
    assert (found.holders, found.candidates) == ((), (1,))


def test_world_that_has_stopped(program: Program) -> None:
    suspended, requester = program.thread(SUSPENDED), program.thread(ATTACHED)
    state, _ = program.stop_the_world(requester, 0, stopped=1)
    program.parks(suspended, program.own_state(suspended), mutex=False)
    report = program.look()
    assert wait_of(report, 2) is None
    found = lock_of(report, state)
    assert (found.state, found.holders) == ("stopped", (Holder(2, EXCLUSIVE, RECORDED),))
    assert report.deadlocks == ()
