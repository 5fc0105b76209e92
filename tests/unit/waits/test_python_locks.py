from __future__ import annotations

import pytest

from gdbext.model import DERIVED, EXCLUSIVE, INFERRED, Holder, Lock, NamedObject, Wait
from gdbext.model.reasons import because
from gdbext.narrate.reasons import explain
from gdbext.snapshot import take_snapshot
from tests.support import versions
from tests.support.fake_memory import NoiseMemory
from tests.support.fake_python import VERSIONS
from tests.support.fake_target import WAIT_BITSET_REALTIME
from tests.support.lock_program import Program, compiled_waiter, edges, lock_of, taken_at

THREADING = "/usr/lib/python3/threading.py"
INSIDE = because("in-with-block")


@pytest.fixture(params=VERSIONS)
def program(request: pytest.FixtureRequest) -> Program:
    return Program(str(request.param))


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


def test_timed_wait_is_not_a_deadlock(program: Program) -> None:
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


@pytest.mark.parametrize(("has_with", "flags", "is_orphan"), [
    (False, 0x400040, True), (True, 0x400040, False), (False, 0x400000, False), (False, 0, False)])
def test_only_thread_at_a_with_statement(program: Program, has_with: bool, flags: int, is_orphan: bool) -> None:
    """Only a child of fork (PF_FORKNOEXEC is 0x40) may lack the thread that holds the lock."""
    program.target.files["/proc/100/stat"] = f"100 (python) S 1 1 1 0 -1 {flags} 0".encode()
    lock = program.python.lock()
    program.waiter(lock, [lock] if has_with else [], names=("release",))
    deadlock, = program.look().deadlocks
    assert (deadlock.evidence, deadlock.standstill) == (INFERRED, True)
    assert [(edge.waiter, edge.lock, edge.holder) for edge in deadlock.edges] == [(1, f"py-lock:{lock:#x}", None)]
    assert deadlock.why is not None
    assert "no other thread" in explain(deadlock.why)
    assert ("not have survived fork" in explain(deadlock.why)) == is_orphan


def test_only_thread_in_acquire(program: Program) -> None:
    """It may wait for a signal, whose handler calls ``release``."""
    lock = program.python.lock()
    program.sleeps(program.thread(program.frame(variables=[("lock", lock)])), lock)
    assert program.look().deadlocks == ()


# -- code compiled from Python --------------------------------------------------------------------------------

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
    assert "compiled Python code is not decoded; in such code threads 1, 2 wait" in explain(report.no_verdict)


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
    # neither its Condition nor the private lock of the waiter is shown
    lock, = (lock for lock in report.locks if lock.kind != "gil")
    assert lock == Lock(f"py-event:{event:#x}", "py-event", event, "ready", "not set", waiters=lock.waiters,
                        wait_for="any", why=because("event-has-no-owner"))
    assert [waiter.thread for waiter in lock.waiters] == [1]


def test_waiters_of_one_lock_call_it_differently(program: Program) -> None:
    """The name is that of the first thread with one."""
    python = program.python
    lock = python.lock()
    for variables in ((), (("mine", lock),), (("yours", lock),)):
        program.waiter(lock, variables=variables)
    found = lock_of(program.look(), lock)
    assert (found.name, [waiter.thread for waiter in found.waiters]) == ("mine", [1, 2, 3])


@pytest.mark.parametrize("program", versions.from_minor(14), indirect=True)
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


def test_mutex_of_native_code_is_not_a_python_lock(program: Program) -> None:
    lock = program.python.lock()
    thread = program.thread(program.frame(waiting=lock))
    program.target.waits_for_mutex(thread, program.target.mutex(100))
    assert not [found for found in program.look().locks if found.kind.startswith("py-")]


def test_lock_without_waiters(program: Program) -> None:
    lock = program.python.lock()
    program.thread(program.frame([lock]))
    program.waiter(program.python.lock(), variables=[("lock", lock)])
    snapshot = take_snapshot(program.target)
    found, note = snapshot.lock_at(lock)
    assert found is not None
    assert (found.id, found.holders, note) == (f"py-lock:{lock:#x}", (Holder(1, EXCLUSIVE, DERIVED, INSIDE,
                                                                             taken_at(101)),), None)


def test_damaged_frames(program: Program) -> None:
    """Unreadable memory costs only what it would have shown."""
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


# -- the objects that have the locks --------------------------------------------------------------------------

def transfer(program: Program) -> tuple[int, int]:
    """Two threads that wait for the locks of each other's accounts, both as ``dst.lock``; the locks."""
    python = program.python
    locks = [python.lock(), python.lock()]
    accounts = [python.instance("Account", lock=lock, name=python.string(name))
                for lock, name in zip(locks, ("alice", "bob"))]
    for src, dst in ((0, 1), (1, 0)):
        program.waiter(locks[dst], [locks[src]], variables=[("src", accounts[src]), ("dst", accounts[dst])])
    return locks[0], locks[1]


def test_locks_of_two_objects_with_names(program: Program) -> None:
    alice, bob = transfer(program)
    report = program.look()
    assert len(report.deadlocks) == 1
    found = {lock.address: (lock.name, lock.of_object) for lock in report.locks if lock.kind == "py-lock"}
    assert found == {alice: ("dst.lock", NamedObject("Account", "name", "'alice'")),
                     bob: ("dst.lock", NamedObject("Account", "name", "'bob'"))}


def test_objects_are_not_named_if_that_is_not_wanted(program: Program) -> None:
    alice, _ = transfer(program)
    report = take_snapshot(program.target, object_names=False).report(lambda thread: False)
    assert (lock_of(report, alice).name, lock_of(report, alice).of_object) == ("dst.lock", None)
    assert {lock.of_object for lock in report.locks} == {None}


def test_lock_of_a_class_is_of_no_object(program: Program) -> None:
    python = program.python
    lock = python.lock()
    account = python.instance("Account", name=python.string("alice"))
    python.build.put("PyTypeObject", python.type_object("Account"), tp_dict=python.namespace(lock=lock))
    program.waiter(lock, variables=[("self", account)])
    assert (lock_of(program.look(), lock).name, lock_of(program.look(), lock).of_object) == (
        "self.lock of Account", None)


@pytest.mark.parametrize("attributes", [{}, {"name": 0xDEAD_0000}], ids=["no name", "damaged name"])
def test_object_without_a_telling_value(program: Program, attributes: dict[str, int]) -> None:
    lock = program.python.lock()
    program.waiter(lock, variables=[("self", program.python.instance("Account", True, lock=lock, **attributes))])
    assert (lock_of(program.look(), lock).name, lock_of(program.look(), lock).of_object) == (
        "self.lock of Account", None)


# -- queues ---------------------------------------------------------------------------------------------------

def test_numbers_of_a_queue_that_a_thread_waits_for(program: Program) -> None:
    python = program.python
    done, private = python.condition(python.lock()), python.lock()
    jobs = python.instance("Queue", all_tasks_done=done, unfinished_tasks=python.integer(2), maxsize=python.integer(0),
                           queue=python.builtin("collections.deque", "PyVarObject", ob_size=1))
    frame = program.frame(variables=[("jobs", jobs)])
    for function, file, variables in (("join", "/usr/lib/python3/queue.py", [("self", jobs)]),
                                      ("wait", THREADING, [("self", done), ("waiter", private)])):
        code = python.code(function, 1, variables=[name for name, _ in variables], file=file)
        frame = python.fill(python.frame(code, frame), [value for _, value in variables], (), program.globals)
    program.sleeps(program.thread(frame), private)
    lock = lock_of(program.look(), done)
    assert (lock.kind, lock.name, lock.state) == ("py-condition", "jobs", "not all tasks are done")
    assert lock.why is not None
    assert explain(lock.why) == "2 unfinished tasks, 1 queued; a condition has no owner: any thread may notify it"
