from __future__ import annotations

from collections.abc import Sequence

import pytest

from gdbext.model import DERIVED, EXCLUSIVE, INFERRED, RECORDED, Holder, Lock, PyFrame, Report, Wait
from gdbext.model.reasons import because
from gdbext.narrate.reasons import explain
from gdbext.snapshot import Snapshot
from tests.support.fake_memory import NoiseMemory
from tests.support.fake_python import VERSIONS, Exit, FakePython
from tests.support.fake_target import WAIT_BITSET_REALTIME, WAIT_BITSET_SHARED, FakeTarget, FakeThread
from tests.support.reasons import said

THREADING = "/usr/lib/python3/threading.py"
INSIDE = because("in-with-block")


class Program:
    """A process with a Python of some version."""

    def __init__(self, version: str) -> None:
        self.target = FakeTarget()
        self.python = FakePython(self.target.ram, version)
        self.target.loaded.append(self.python.runtime())
        self.interpreter = self.python.interpreter()
        self.globals = self.python.namespace(__name__=self.python.string("bank"))

    def thread(self, frame: int = 0) -> FakeThread:
        """A thread that runs a Python frame."""
        made = self.target.thread()
        tstate = self.python.thread(self.interpreter, made.pthread)
        if frame:
            self.python.innermost(tstate, frame)
        return made

    def frame(self, taken: Sequence[int] = (), waiting: int = 0, **more: object) -> int:
        """A frame in `with` blocks of locks, that perhaps waits at one for another."""
        more.setdefault("namespace", self.globals)
        exits = [self.python.exit_of(lock) for lock in taken]
        wanted: Exit | None = self.python.exit_of(waiting) if waiting else None
        return self.python.in_with(exits, wanted, **more)  # type: ignore[arg-type]

    def sleeps(self, thread: FakeThread, lock: int, timeout: int = 0) -> FakeThread:
        """Let a thread sleep in a `_thread.lock`, as its version does."""
        word = self.python.lock_word(lock)
        if "lock" in self.python.layouts["lockobject"]:
            word = self.python.park(thread.stack + 0x400, word, handed_off=0)
        return self.target.waits(thread, word, 0, WAIT_BITSET_REALTIME, timeout)

    def waiter(self, lock: int, taken: Sequence[int] = (), timeout: int = 0, **more: object) -> FakeThread:
        """A thread that waits at a `with` statement for a lock."""
        return self.sleeps(self.thread(self.frame(taken, lock, **more)), lock, timeout)

    def look(self) -> Report:
        """What gdbext says."""
        return Snapshot(self.target).report(lambda thread: False)


@pytest.fixture(params=VERSIONS)
def program(request: pytest.FixtureRequest) -> Program:
    return Program(str(request.param))


def lock_of(report: Report, address: int) -> Lock:
    lock, = (lock for lock in report.locks if lock.address == address)
    return lock


def edges(report: Report) -> list[set[tuple[int, str, int | None]]]:
    return [{(edge.waiter, edge.lock, edge.holder) for edge in deadlock.edges} for deadlock in report.deadlocks]


def taken_at(line: int) -> PyFrame:
    return PyFrame("work", "work", "/app/job.py", line)


def test_two_locks_in_opposite_order(program: Program) -> None:
    a, b = program.python.lock(), program.python.lock()
    program.waiter(b, [a])
    program.waiter(a, [b])
    report = program.look()
    assert edges(report) == [{(1, f"py-lock:{b:#x}", 2), (2, f"py-lock:{a:#x}", 1)}]
    assert (report.deadlocks[0].evidence, report.deadlocks[0].why) == (DERIVED, INSIDE)
    lock = lock_of(report, a)
    assert (lock.kind, lock.state, lock.wait_for) == ("py-lock", "locked", "all")
    assert lock.holders == (Holder(1, EXCLUSIVE, DERIVED, INSIDE, taken_at(101)),)
    first = report.thread(1)
    assert first is not None
    assert first.waits == Wait(f"py-lock:{b:#x}", EXCLUSIVE, False)
    assert [(hold.lock, hold.taken_at) for hold in first.holds] == [(f"py-lock:{a:#x}", taken_at(101))]
    assert not [problem for problem in report.problems if problem.what == "unreadable"]


def test_timed_wait_is_no_deadlock(program: Program) -> None:
    a, b = program.python.lock(), program.python.lock()
    program.waiter(b, [a])
    program.waiter(a, [b], timeout=0x1000)
    report = program.look()
    assert report.deadlocks == ()
    assert lock_of(report, b).holders == (Holder(2, EXCLUSIVE, DERIVED, INSIDE, taken_at(101)),)
    waits = [thread.waits.timed for thread in report.threads if thread.waits is not None]
    assert waits == [False, True]


def test_lock_that_a_thread_waits_for_inside_of_its_own_block(program: Program) -> None:
    lock = program.python.lock()
    program.waiter(lock, [lock])
    assert edges(program.look()) == [{(1, f"py-lock:{lock:#x}", 1)}]


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


@pytest.mark.parametrize(("has_with", "why"), [(False, "not have survived fork"), (True, "no other thread")])
def test_only_thread_at_a_with_statement(program: Program, has_with: bool, why: str) -> None:
    lock = program.python.lock()
    program.waiter(lock, [lock] if has_with else [], names=("release",))
    deadlock, = program.look().deadlocks
    assert (deadlock.evidence, deadlock.standstill) == (INFERRED, True)
    assert [(edge.waiter, edge.lock, edge.holder) for edge in deadlock.edges] == [(1, f"py-lock:{lock:#x}", None)]
    assert deadlock.why is not None
    assert why in explain(deadlock.why)


def test_only_thread_in_acquire(program: Program) -> None:
    """It may wait for a signal, whose handler calls ``release``."""
    lock = program.python.lock()
    program.sleeps(program.thread(program.frame(variables=[("lock", lock)])), lock)
    assert program.look().deadlocks == ()


def test_release_elsewhere_says_nothing_of_a_lock_that_others_wait_for(program: Program) -> None:
    a, b = program.python.lock(), program.python.lock()
    program.waiter(b, [a])
    program.waiter(a, [b])
    program.thread(program.frame(variables=[("signal", a)], names=("release",)))
    assert len(program.look().deadlocks) == 1


def test_two_takers_contradict_each_other(program: Program) -> None:
    lock = program.python.lock()
    program.thread(program.frame([lock]))
    program.thread(program.frame([lock]))
    program.waiter(lock)
    found = lock_of(program.look(), lock)
    assert (found.holders, found.candidates) == ((), (1, 2))
    assert said(found.why) == "several threads are inside `with` blocks of it"


def test_candidates_know_the_lock(program: Program) -> None:
    """As a variable, as an attribute of the object whose it is, as a global that their code uses."""
    python = program.python
    lock = python.lock()
    pool = python.instance("Pool", _lock=lock)
    program.globals = python.namespace(__name__=python.string("bank"), till=lock)
    program.waiter(lock, variables=[("self", pool)])
    program.thread(program.frame(variables=[("lock", lock)]))
    program.thread(program.frame(variables=[("self", pool)]))
    program.thread(program.frame(names=("till", "acquire")))
    program.thread(program.frame(variables=[("self", python.instance("Pool", _lock=python.lock()))]))
    program.thread(program.frame(namespace=python.namespace(till=python.lock()), names=("till",)))
    program.thread()
    found = lock_of(program.look(), lock)
    assert (found.holders, found.candidates, found.name) == ((), (2, 3, 4), "self._lock of Pool")
    assert said(found.why) == "a lock of this kind records no owner"


# -- code compiled from Python --------------------------------------------------------------------------------

def compiled_waiter(program: Program, lock: int, timeout: int = 0) -> FakeThread:
    """A thread whose Python frames have nothing to do with the lock that compiled code waits for."""
    thread = program.sleeps(program.thread(program.frame()), lock, timeout)
    program.target.remember(thread, lock)
    return thread


def test_compiled_code_waits_for_a_lock_that_records_no_owner(program: Program) -> None:
    a, b = program.python.lock(), program.python.lock()
    compiled_waiter(program, a)
    compiled_waiter(program, b)
    program.target.thread()
    report = program.look()
    assert [thread.waits and thread.waits.lock for thread in report.threads] == [
        f"py-lock:{a:#x}", f"py-lock:{b:#x}", None]
    assert report.deadlocks == ()
    assert report.no_verdict is not None
    assert "compiled Python code is not decoded: in it, threads 1, 2 wait" in explain(report.no_verdict)


def test_compiled_code_waits_for_what_a_python_frame_holds(program: Program) -> None:
    a, b = program.python.lock(), program.python.lock()
    compiled_waiter(program, a)
    program.sleeps(program.thread(program.frame([a], b)), b, 0x1000)
    report = program.look()
    assert [holder.thread for holder in lock_of(report, a).holders] == [2]
    assert (report.deadlocks, report.no_verdict) == ((), None)


@pytest.mark.parametrize("case", ["timed", "free", "called from Python"])
def test_wait_that_leaves_no_doubt(program: Program, case: str) -> None:
    lock = program.python.lock(locked=case != "free")
    if case == "called from Python":
        program.waiter(lock)
    else:
        compiled_waiter(program, lock, 0x1000 if case == "timed" else 0)
    program.target.thread()
    report = program.look()
    assert lock_of(report, lock).holders == ()
    assert (report.deadlocks, report.no_verdict) == ((), None)


def test_lock_that_is_free_again(program: Program) -> None:
    lock = program.python.lock(locked=False)
    program.thread(program.frame([lock]))
    program.waiter(lock)
    found = lock_of(program.look(), lock)
    assert (found.holders, found.candidates, found.state) == ((), (), "free")


def rlock_waiter(program: Program, owner: int) -> int:
    """A thread that waits for a recursive lock."""
    python = program.python
    lock = python.rlock(owner)
    thread = program.thread(program.frame(waiting=lock))
    known = python.layouts["rlockobject"]
    if "mutex" in known:
        word = python.park(thread.stack + 0x400, lock + known.offset("mutex"))
    else:
        word = int.from_bytes(python.memory.read(lock + known.offset("rlock_lock"), 8), "little")
    program.target.waits(thread, word, 0, WAIT_BITSET_REALTIME)
    return lock


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
        assert said(found.why) == "no thread of this process has it; another process may"


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


def test_event_has_no_holder(program: Program) -> None:
    python = program.python
    private, condition = python.lock(), python.condition(python.lock())
    event = python.instance("Event", _cond=condition, _flag=python.integer(0))
    job = program.frame(variables=[("ready", event)])
    outer = program.frame(variables=[("self", event)], previous=job, function="wait", file=THREADING)
    inner = program.frame(variables=[("self", condition), ("waiter", private)], previous=outer, function="wait",
                          file=THREADING)
    program.sleeps(program.thread(inner), private)
    program.thread(program.frame(variables=[("ready", event)]))
    report = program.look()
    # neither its Condition nor the lock that the waiter has for itself are told
    lock, = (lock for lock in report.locks if lock.kind != "gil")
    assert lock == Lock(f"py-event:{event:#x}", "py-event", event, "ready", "not set", waiters=lock.waiters,
                        wait_for="any", why=because("event-has-no-owner"))
    assert [waiter.thread for waiter in lock.waiters] == [1]


def test_waiters_of_one_lock_call_it_differently(program: Program) -> None:
    """The first of them that knows a name for it tells it."""
    python = program.python
    lock = python.lock()
    for variables in ((), (("mine", lock),), (("yours", lock),)):
        program.waiter(lock, variables=variables)
    found = lock_of(program.look(), lock)
    assert (found.name, [waiter.thread for waiter in found.waiters]) == ("mine", [1, 2, 3])


@pytest.mark.parametrize("program", ["3.14.10", "3.15.2"], indirect=True)
def test_lock_that_was_handed_over(program: Program) -> None:
    python = program.python
    lock = python.lock()
    thread = program.thread(program.frame(waiting=lock))
    word = python.park(thread.stack + 0x400, python.lock_word(lock), handed_off=1)
    program.target.waits(thread, word, 0, WAIT_BITSET_REALTIME)
    assert not [found for found in program.look().locks if found.address == lock]


def test_semaphore_of_native_code(program: Program) -> None:
    thread = program.thread(program.frame([program.python.lock()]))
    word = program.target.build.alloc(32)
    program.target.ram.u64(word, 1 << 32)
    program.target.waits(thread, word, 0, WAIT_BITSET_REALTIME)
    waits = [found.waits for found in program.look().threads]
    assert [wait.lock for wait in waits if wait is not None] == [f"semaphore:{word:#x}"]


def test_mutex_of_native_code_is_not_looked_for(program: Program) -> None:
    lock = program.python.lock()
    thread = program.thread(program.frame(waiting=lock))
    program.target.waits_for_mutex(thread, program.target.mutex(100))
    assert not [found for found in program.look().locks if found.kind.startswith("py-")]


def test_lock_that_nobody_waits_for(program: Program) -> None:
    lock = program.python.lock()
    program.thread(program.frame([lock]))
    program.waiter(program.python.lock(), variables=[("lock", lock)])
    snapshot = Snapshot(program.target)
    found, note = snapshot.lock_at(lock)
    assert found is not None
    assert (found.id, found.holders, note) == (f"py-lock:{lock:#x}", (Holder(1, EXCLUSIVE, DERIVED, INSIDE,
                                                                             taken_at(101)),), None)


def test_damaged_frames(program: Program) -> None:
    """What cannot be read costs what it would have told, and nothing else."""
    python = program.python
    a, b = python.lock(), python.lock()
    program.waiter(b, [a])
    program.waiter(a, [b])
    broken = program.frame([python.lock()])
    member = "f_back" if python.version_tuple < (3, 11) else "previous"
    python.build.put("PyFrameObject" if python.version_tuple < (3, 11) else "_PyInterpreterFrame", broken,
                     **{member: 0xDEAD_0000})
    program.thread(broken)
    assert len(program.look().deadlocks) == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_noise_where_a_lock_should_be(version: str) -> None:
    program = Program(version)
    noise = program.python.build.alloc(4096)
    program.target.ram.write(noise, NoiseMemory(3).read(0x10000, 4096))
    for i in range(8):
        program.waiter(noise + 64 * i if i % 2 else program.python.lock(), variables=[("lock", noise + 64 * i)])
    assert program.look().deadlocks == ()
