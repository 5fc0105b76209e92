from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from gdbext.cpython.locking.locks import LockReader, PyLock
from gdbext.cpython.objects import Objects
from gdbext.errors import GdbextError
from gdbext.model.kinds import LockKind
from gdbext.model.reasons import Reason, because
from tests.support import combinations, versions
from tests.support.fake_memory import FakeMemory, NoiseMemory
from tests.support.fake_python import VERSIONS, FakePython, cpython_layouts

ME = 0x7F00_1234_5700


@pytest.fixture(params=VERSIONS)
def python(request: pytest.FixtureRequest) -> FakePython:
    return FakePython(FakeMemory(), str(request.param))


def reader(python: FakePython) -> LockReader:
    return LockReader(python.memory, python.layouts, Objects(python.memory, python.layouts))


def decode(python: FakePython, address: int) -> PyLock | None:
    return reader(python).decode(address)


def decoded(python: FakePython, address: int) -> PyLock:
    lock = decode(python, address)
    assert lock is not None
    return lock


# -- written in C ---------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("locked", "state"), [(True, "locked"), (False, "free")])
def test_lock(python: FakePython, locked: bool, state: str) -> None:
    at = python.lock(locked)
    assert decode(python, at) == PyLock("py-lock", at, "_thread.lock", state, (python.lock_word(at),), locked)


def test_lock_with_waiters(python: FakePython) -> None:
    at = python.lock()
    if "lock" in python.layouts["lockobject"]:
        python.build.put("lockobject", at, lock=3)  # held, and threads are parked
    else:
        python.memory.u64(python.lock_word(at), 5 << 32)  # five sleep
    assert decoded(python, at).locked


def test_lock_before_and_after_3_13_1() -> None:
    old, new = (FakePython(FakeMemory(), version) for version in ("3.13.0", "3.13.5"))
    lock = old.lock()
    assert decoded(old, lock).words == (old.lock_word(lock),)
    assert old.lock_word(lock) != lock + 16
    lock = new.lock()
    assert decoded(new, lock).words == (lock + 16,)


def test_lock_of_3_13_1_by_the_table_of_3_13_0() -> None:
    python = FakePython(FakeMemory(), "3.13.0")
    at = python.lock()
    python.build.put("PyTypeObject", python.type_object("_thread.lock"), tp_basicsize=24)
    python.memory.u64(at + 16, 3)
    assert decode(python, at) == PyLock("py-lock", at, "_thread.lock", "locked", (at + 16,), True)
    assert reader(python).object_at(at + 16) == decode(python, at)


def test_rlock(python: FakePython) -> None:
    at = python.rlock(ME)
    lock = decoded(python, at)
    assert (lock.kind, lock.state, lock.locked, lock.owner, len(lock.words)) == ("py-rlock", "locked", True, ME, 1)
    free = decoded(python, python.rlock(None))
    # the last owner may still be recorded
    assert (free.state, free.locked, free.owner) == ("free", False, None)


def test_rlock_of_3_6_has_a_signed_owner() -> None:
    python = FakePython(FakeMemory(), "3.6.15")
    owner = 0xFFFF_8000_0000_1000
    assert decoded(python, python.rlock(owner)).owner == owner


def test_subclass(python: FakePython) -> None:
    at = python.rlock(ME)
    own = python.type_object("TracedLock", tp_base=python.type_object("_thread.RLock"))
    python.build.put("PyObject", at, ob_type=own)
    assert (decoded(python, at).kind, decoded(python, at).type_name) == ("py-rlock", "TracedLock")


@pytest.mark.parametrize("type_name", ["_io.BufferedReader", "_io.BufferedWriter", "_io.BufferedRandom"])
@pytest.mark.parametrize("owner", [ME, 0])
def test_buffered_file(python: FakePython, type_name: str, owner: int) -> None:
    at = python.build.alloc(256)
    inner = python.inner_lock(owner != 0)
    python.build.put("PyObject", at, ob_type=python.type_object(type_name))
    python.build.put("buffered", at, lock=inner, owner=owner)
    assert decode(python, at) == PyLock("py-buffered-io", at, type_name, "locked" if owner else "free", (inner,),
                                        owner != 0, owner or None)
    closed = python.build.alloc(256)
    python.build.put("PyObject", closed, ob_type=python.type_object(type_name))
    assert decode(python, closed) is None


def test_file_below_a_text_file(python: FakePython) -> None:
    assert reader(python).buffer_of(python.build.new("textio", buffer=0x1234)) == 0x1234


def sem_lock(python: FakePython, value: int, **members: int) -> int:
    handle = python.build.alloc(32)
    python.memory.u64(handle, value)
    at = python.build.alloc(64)
    python.build.put("PyObject", at, ob_type=python.type_object("_multiprocessing.SemLock"))
    return python.build.put("SemLockObject", at, handle=handle, **members)


@pytest.mark.parametrize(("value", "members", "expected"), [
    (0, {"kind": 1, "maxvalue": 1, "count": 1, "last_tid": ME}, ("py-lock", "locked", ME)),
    # another process holds the lock
    (0, {"kind": 1, "maxvalue": 1, "count": 0, "last_tid": ME}, ("py-lock", "locked", None)),
    (1, {"kind": 1, "maxvalue": 1, "count": 0, "last_tid": ME}, ("py-lock", "free", None)),
    (0, {"kind": 0, "maxvalue": 1, "count": 3, "last_tid": ME}, ("py-rlock", "locked", ME)),
    (0, {"kind": 1, "maxvalue": 5, "count": 2, "last_tid": ME}, ("py-semaphore", "zero", None)),
    (2, {"kind": 1, "maxvalue": 5, "count": 2, "last_tid": ME}, ("py-semaphore", "not zero", None)),
])
def test_lock_between_processes(python: FakePython, value: int, members: dict[str, int],
                                expected: tuple[str, str, int | None]) -> None:
    at = sem_lock(python, value, **members)
    lock = decoded(python, at)
    assert (lock.kind, lock.state, lock.owner) == expected
    assert lock.shared
    # its wrapper is the same lock
    assert decode(python, python.instance("SemLock", _semlock=at)) == lock


@pytest.mark.parametrize("most", [1, 2])
def test_semaphore_of_multiprocessing_has_no_owner(most: int, python: FakePython) -> None:
    """The SemLock inside a ``BoundedSemaphore(1)`` is the same as a Lock's."""
    at = sem_lock(python, 0, kind=1, maxvalue=most, count=1, last_tid=ME)
    wrapper = python.instance("Semaphore", _semlock=at)
    python.build.put("PyTypeObject", python.type_object("Semaphore"), tp_base=python.type_object("SemLock"))
    found, inner = decoded(python, wrapper), decoded(python, at)
    assert (found.kind, found.state, found.owner, found.address, found.words) == (
        "py-semaphore", "zero", None, at, inner.words)
    assert inner.owner == (ME if most == 1 else None)


def shared_condition(python: FakePython) -> tuple[int, int, int]:
    """A condition of `multiprocessing`, its lock and its semaphore."""
    lock = sem_lock(python, 1, kind=0, maxvalue=1)
    semaphore = sem_lock(python, 0, kind=1, maxvalue=1 << 30)
    return python.instance("Condition", _lock=python.instance("SemLock", _semlock=lock),
                           _wait_semaphore=python.instance("SemLock", _semlock=semaphore)), lock, semaphore


def test_condition_of_multiprocessing(python: FakePython) -> None:
    condition, lock, semaphore = shared_condition(python)
    found = decoded(python, condition)
    assert (found.kind, found.guard, found.words, found.shared) == (
        "py-condition", lock, decoded(python, semaphore).words, True)


@pytest.mark.parametrize("shared", [True, False])
def test_event_is_shared_if_its_condition_is(shared: bool, python: FakePython) -> None:
    condition = shared_condition(python)[0] if shared else python.condition(python.lock())
    event = decoded(python, python.instance("Event", _cond=condition, _flag=python.integer(0)))
    assert (event.kind, event.guard, event.shared) == ("py-event", condition, shared)


@pytest.mark.parametrize(("count", "buffer", "state"), [
    (1, "mmap.mmap", "1 of 3 arrived"), (4, "mmap.mmap", None), (1, "bytearray", None)])
def test_barrier_of_multiprocessing_counts_in_shared_memory(count: int, buffer: str, state: str | None,
                                                            python: FakePython) -> None:
    condition, _, _ = shared_condition(python)
    data, at = python.build.alloc(64), python.build.alloc(64)
    python.memory.u64(data + 8, count << 32)
    python.build.put("PyObject", at, ob_type=python.type_object(buffer))
    python.memory.u64(at + python.layouts["PyObject"].size, data)
    block = python.tuple_object(python.instance("Arena", buffer=at), python.integer(8), python.integer(16))
    wrapper = python.instance("BufferWrapper", _state=python.tuple_object(block, python.integer(8)))
    barrier = python.instance("Barrier", _cond=condition, _parties=python.integer(3), _wrapper=wrapper)
    found = decode(python, barrier)
    assert found == (PyLock("barrier", barrier, "Barrier", state, guard=condition, shared=True) if state else None)


@pytest.mark.parametrize("python", versions.before(13, VERSIONS), indirect=True)
def test_simple_queue_with_a_lock(python: FakePython) -> None:
    inner, at = python.inner_lock(), python.build.alloc(128)
    python.build.put("PyObject", at, ob_type=python.type_object("_queue.SimpleQueue"))
    python.build.put("simplequeueobject", at, lock=inner)
    assert decode(python, at) == PyLock("py-condition", at, "_queue.SimpleQueue", "queue is empty", (inner,))


@pytest.mark.parametrize("python", versions.from_minor(13), indirect=True)
def test_simple_queue_that_threads_park_at(python: FakePython) -> None:
    at = python.build.alloc(128)
    python.build.put("PyObject", at, ob_type=python.type_object("_queue.SimpleQueue"))
    word = python.build.member("simplequeueobject", at, "has_threads_waiting")
    assert decoded(python, at).words == (word,)


def handle_of(python: FakePython, **members: int) -> tuple[int, int, int]:
    """A thread's handle, the object for it, and the thread."""
    handle = python.build.new("ThreadHandle", **{"ident": ME, "state": 3, "thread_is_exiting": 2, **members})
    node = python.build.member("ThreadHandle", handle, "node")
    python.build.put("llist_node", node, next=node, prev=node)
    at = python.build.alloc(64)
    python.build.put("PyObject", at, ob_type=python.type_object("_thread._ThreadHandle"))
    python.build.put("PyThreadHandleObject", at, handle=handle)
    return handle, at, python.instance("Thread", _handle=at)


@pytest.mark.parametrize("python", versions.from_minor(13), indirect=True)
def test_thread(python: FakePython) -> None:
    handle, at, thread = handle_of(python)
    word = python.build.member("ThreadHandle", handle, "thread_is_exiting")
    assert decode(python, at) == PyLock("thread-exit", at, "_thread._ThreadHandle", "running", (word,), owner=ME)
    lock = decoded(python, thread)
    assert (lock.address, lock.words, lock.guard) == (thread, (word,), at)
    found = reader(python).handle_at(word)
    assert found is not None
    assert found.owner == ME


@pytest.mark.parametrize("python", versions.from_minor(13), indirect=True)
@pytest.mark.parametrize("members", [{"state": 1}, {"state": 4}, {"thread_is_exiting": 1}],
                         ids=["not started", "done", "ending"])
def test_thread_that_is_not_running(python: FakePython, members: dict[str, int]) -> None:
    handle, at, thread = handle_of(python, **members)
    assert decode(python, at) is None
    assert decode(python, thread) is None


@pytest.mark.parametrize("python", versions.from_minor(13), indirect=True)
def test_no_handle_at_an_address(python: FakePython) -> None:
    handle, _, _ = handle_of(python)
    python.build.put("llist_node", python.build.member("ThreadHandle", handle, "node"), next=python.build.alloc(64))
    assert reader(python).handle_at(python.build.member("ThreadHandle", handle, "thread_is_exiting")) is None


@pytest.mark.parametrize("python", versions.before(13, VERSIONS), indirect=True)
def test_thread_with_a_lock(python: FakePython) -> None:
    lock = python.lock()
    thread = python.instance("Thread", _tstate_lock=lock, _ident=python.integer(ME))
    assert decode(python, thread) == PyLock("thread-exit", thread, "Thread", "running", (python.lock_word(lock),),
                                            True, ME, lock)
    none = python.type_object("NoneType")
    ended = python.build.alloc(16)
    python.build.put("PyObject", ended, ob_type=none)
    assert decode(python, python.instance("Thread", _tstate_lock=ended, _ident=python.integer(ME))) is None


@pytest.mark.parametrize("python", versions.from_minor(13), indirect=True)
def test_lock_that_contains_a_parking_place(python: FakePython) -> None:
    lock = python.lock()
    found = reader(python).object_at(python.lock_word(lock))
    assert found is not None
    assert found.address == lock
    with pytest.raises(GdbextError):
        reader(python).object_at(0xDEAD_0000)
    assert reader(python).object_at(python.integer(1) + 16) is None


# -- written in Python ----------------------------------------------------------------------------------------

@pytest.mark.parametrize("inline", [True, False])
def test_condition(python: FakePython, inline: bool) -> None:
    lock = python.lock()
    at = python.instance("Condition", inline, _lock=lock, _waiters=python.list_object())
    assert decode(python, at) == PyLock("py-condition", at, "Condition", "waiting for a notification", guard=lock)


@pytest.mark.parametrize(("name", "attributes", "kind", "state"), [
    ("Event", ("_cond", "_flag"), "py-event", "not set"),
    ("Semaphore", ("_cond", "_value"), "py-semaphore", "zero"),
    ("Future", ("_condition", "_state"), "py-condition", "result is pending"),
    ("ApplyResult", ("_event", "_job"), "py-event", "result is pending"),
    ("IMapIterator", ("_cond", "_items"), "py-condition", "result is pending"),
])
def test_object_that_contains_a_condition(python: FakePython, name: str, attributes: tuple[str, str], kind: LockKind,
                                       state: str) -> None:
    condition = python.condition(python.lock())
    at = python.instance(name, True, **{attributes[0]: condition, attributes[1]: python.integer(0)})
    lock = PyLock(kind, at, name, state, guard=condition)
    assert decode(python, at) == lock
    assert reader(python).waited_through(at, condition) == lock
    assert reader(python).waited_through(at, python.condition(python.lock())) is None
    # another class of the same name
    assert decode(python, python.instance(f"{name}", loop=python.integer(1))) is None


def test_a_condition_is_not_a_part_of_itself(python: FakePython) -> None:
    at = python.condition(python.lock())
    assert reader(python).waited_through(at, at) is None


@pytest.mark.parametrize(("count", "state"), [(0, "0 of 3 arrived"), (2, "2 of 3 arrived"), (4, None), (-1, None)])
def test_barrier(python: FakePython, count: int, state: str | None) -> None:
    condition = python.condition(python.lock())
    lock = decode(python, python.instance("Barrier", _cond=condition, _parties=python.integer(3),
                                          _count=python.integer(count)))
    assert (lock.state if lock is not None else None) == state


def test_queue(python: FakePython) -> None:
    mutex = python.lock()
    conditions = [python.condition(mutex) for _ in range(3)]
    empty, full, done = conditions
    at = python.instance("Queue", mutex=mutex, not_empty=empty, not_full=full, all_tasks_done=done)
    assert decode(python, at) is None
    for condition, state in zip(conditions, ("queue is empty", "queue is full", "not all tasks are done")):
        lock = reader(python).waited_through(at, condition)
        assert lock == PyLock("py-condition", condition, "Queue", state, guard=condition)
    assert reader(python).waited_through(at, python.condition(mutex)) is None


def queue_counts(python: FakePython, waits: str, **attributes: int) -> Reason | None:
    """The numbers of a queue for a thread that waits in one of its methods."""
    condition = python.condition(python.lock())
    member = {"get": "not_empty", "put": "not_full", "join": "all_tasks_done"}[waits]
    lock = reader(python).waited_through(python.instance("Queue", True, **{member: condition}, **attributes), condition)
    assert lock is not None
    return lock.why


@pytest.mark.parametrize("kind", ["deque", "list"])
@pytest.mark.parametrize("waits", ["get", "put", "join"])
def test_counts_of_a_queue(python: FakePython, waits: str, kind: str) -> None:
    items = (python.builtin("collections.deque", "PyVarObject", ob_size=3) if kind == "deque" else
             python.list_object(*[python.integer(1)] * 3))
    why = queue_counts(python, waits, unfinished_tasks=python.integer(5), maxsize=python.integer(-1), queue=items)
    assert why == because("queue-counts", waits=waits, unfinished=5, maxsize=-1, queued=3)


@pytest.mark.parametrize("change", ["no queue", "set", "negative size", "negative count", "float", "damaged"])
def test_counts_of_a_queue_that_are_not_certain(python: FakePython, change: str) -> None:
    attributes = {"unfinished_tasks": python.integer(5), "maxsize": python.integer(0), "queue": python.list_object()}
    if change == "no queue":
        del attributes["queue"]
    attributes.update({
        "set": {"queue": python.set_object()},
        "negative size": {"queue": python.builtin("collections.deque", "PyVarObject", ob_size=-1)},
        "negative count": {"unfinished_tasks": python.integer(-1)},
        "float": {"maxsize": python.builtin("float", "PyFloatObject", ob_fval=1)},
        "damaged": {"unfinished_tasks": 0xDEAD_0000},
    }.get(change, {}))
    assert queue_counts(python, "join", **attributes) is None


def test_rlock_in_python(python: FakePython) -> None:
    block = python.lock()
    at = python.instance("_RLock", _block=block, _owner=python.integer(ME), _count=python.integer(2))
    assert decode(python, at) == PyLock("py-rlock", at, "_RLock", "locked", (python.lock_word(block),), True, ME,
                                        block)
    free = python.instance("_RLock", _block=block, _owner=python.integer(ME), _count=python.integer(0))
    assert decoded(python, free).owner is None


def test_lock_of_a_module(python: FakePython) -> None:
    wakeup = python.lock()
    at = python.instance("_ModuleLock", wakeup=wakeup, owner=python.integer(ME), name=python.string("app.jobs"))
    lock = PyLock("py-import", at, "_ModuleLock", "locked", (python.lock_word(wakeup),), True, ME, wakeup,
                  "module app.jobs")
    assert decode(python, at) == lock
    assert decode(python, python.instance("_ModuleLockManager", _lock=at)) == lock
    nobody = python.instance("_ModuleLock", wakeup=wakeup, owner=python.string("?"), name=python.string("app.jobs"))
    assert (decoded(python, nobody).locked, decoded(python, nobody).owner) == (False, None)


def test_locks_that_contain_one_another(python: FakePython, monkeypatch: pytest.MonkeyPatch) -> None:
    first = python.instance("SemLock", _semlock=python.integer(0))
    second = python.instance("_ModuleLockManager", _lock=first)
    objects = Objects(python.memory, python.layouts)
    inside = {first: second, second: first}
    monkeypatch.setattr(objects, "attribute", lambda address, name: inside[address])
    assert LockReader(python.memory, python.layouts, objects).decode(first) is None


@pytest.mark.parametrize("name", ["Lock", "Event", "int"])
def test_object_that_is_not_a_lock(python: FakePython, name: str) -> None:
    assert decode(python, python.instance(name, x=python.integer(1))) is None
    assert decode(python, python.integer(1)) is None


@pytest.mark.parametrize("version", ["3.6.15", *VERSIONS])
@pytest.mark.parametrize("seed", combinations.seeds(5))
def test_noise(version: str, seed: int) -> None:
    layouts, memory = cpython_layouts(version), NoiseMemory(seed)
    locks = LockReader(memory, layouts, Objects(memory, layouts))
    ways: list[Callable[[int], object]] = [locks.decode, locks.object_at, lambda at: locks.waited_through(at, at)]
    for decoder in locks._decoders.values():
        ways.append(lambda at, decoder=decoder: decoder(at, "?"))  # type: ignore[misc]
    start = time.process_time()
    for i in range(40):
        for way in ways:
            try:
                way(0x10000 + 8 * 97 * i)
            except GdbextError:
                continue
    assert time.process_time() - start < 20
