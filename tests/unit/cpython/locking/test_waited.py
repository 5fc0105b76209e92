from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest

from gdbext.cpython.frames import FrameReader
from gdbext.cpython.locking.locks import LockReader, PyLock
from gdbext.cpython.locking.waited import WaitedLocks
from gdbext.cpython.objects import Objects
from gdbext.cpython.runtime import InterpreterState, ThreadState
from tests.support import versions
from tests.support.fake_memory import FakeMemory
from tests.support.fake_python import VERSIONS, FakePython

ME = 0x7F00_1234_5700
THREADING, QUEUE = "/usr/lib/python3/threading.py", "/usr/lib/python3/queue.py"


@pytest.fixture(params=VERSIONS)
def python(request: pytest.FixtureRequest) -> FakePython:
    return FakePython(FakeMemory(), str(request.param))


def frame(python: FakePython, variables: Sequence[tuple[str, int]] = (), stack: Sequence[int] = (), previous: int = 0,
          function: str = "work", file: str = "/app/job.py") -> int:
    code = python.code(function, 1, variables=[name for name, _ in variables], file=file)
    return python.fill(python.frame(code, previous), [value for _, value in variables], stack)


def find(python: FakePython, word: int, innermost: int, interpreters: Sequence[InterpreterState] = (),
         pthreads: Collection[int] = (), native: Sequence[int] = (),
         kept: Sequence[int] = ()) -> tuple[PyLock, int, list[int]] | None:
    objects = Objects(python.memory, python.layouts)
    frames = FrameReader(python.memory, python.layouts, objects)
    waited = WaitedLocks(python.memory, python.layouts, objects, frames,
                         LockReader(python.memory, python.layouts, objects), interpreters, pthreads)
    tstate = python.build.new("PyThreadState")
    python.innermost(tstate, innermost)
    stack = frames.raw(tstate)
    answer = waited.find(word, stack, lambda: native, lambda: kept)
    assert not native or not waited.is_called_from_python(word, stack)
    return answer


def found(python: FakePython, word: int, innermost: int) -> tuple[str, int, int, list[int]]:
    """Kind and address of the lock, the index of the program's own frame, and the objects that led to the lock."""
    answer = find(python, word, innermost)
    assert answer is not None
    lock, index, path = answer
    return lock.kind, lock.address, index, path


# -- the lock itself ------------------------------------------------------------------------------------------

@pytest.mark.parametrize("where", ["value stack", "method", "variable", "attribute", "frame of the caller"])
def test_lock(python: FakePython, where: str) -> None:
    lock, other = python.lock(), python.lock()
    pool = python.instance("Pool", one=other, two=lock)
    at = {
        "value stack": frame(python, [("x", other)], [other, lock]),
        "method": frame(python, [("x", other)], [python.builtin_method("acquire", lock)]),
        "variable": frame(python, [("x", other), ("lock", lock)]),
        "attribute": frame(python, [("self", pool)]),
        "frame of the caller": frame(python, [("x", other)], (), frame(python, [("lock", lock)])),
    }[where]
    index = 1 if where == "frame of the caller" else 0
    assert found(python, python.lock_word(lock), at) == ("py-lock", lock, index, [lock])


def test_garbage_on_the_value_stack(python: FakePython) -> None:
    lock = python.lock()
    at = frame(python, [("lock", lock)], [0xDEAD_0000, 8, python.integer(1), python.string("x"), 0])
    assert found(python, python.lock_word(lock), at) == ("py-lock", lock, 0, [lock])


def test_freed_lock_on_the_value_stack_with_a_reused_word(python: FakePython) -> None:
    if python.version_tuple >= (3, 13):
        pytest.skip("the futex word of this lock is inside the lock itself")
    lock, freed = python.lock(), python.lock()
    python.build.put("lockobject", freed, lock_lock=python.lock_word(lock))
    at = frame(python, [("waiter", lock)], [freed])
    assert found(python, python.lock_word(lock), at) == ("py-lock", lock, 0, [lock])


@pytest.mark.parametrize("inside", [True, False])
def test_lock_to_which_compiled_code_keeps_a_pointer(python: FakePython, inside: bool) -> None:
    lock, other = python.fast_rlock(ME), python.fast_rlock(ME)
    header = python.layouts["PyObject"].size
    kept = [at + header if inside else at for at in (other, lock)] + [0x18, 0xDEAD_0000]
    answer = find(python, python.fast_rlock_word(lock), frame(python), kept=kept)
    assert answer is not None
    assert (answer[0].kind, answer[0].address, answer[0].owner) == ("py-fast-rlock", lock, ME)


def test_pointer_to_memory_that_is_no_lock(python: FakePython) -> None:
    text = python.string("x" * 64)
    python.memory.u64(text + python.layouts["PyObject"].size, 0x1234)
    assert find(python, 0x1234, frame(python), kept=[text, text + python.layouts["PyObject"].size]) is None


def test_word_of_no_python_lock(python: FakePython) -> None:
    assert find(python, 0x1234, frame(python, [("lock", python.lock())])) is None


@pytest.mark.parametrize("kind", ["py-lock", "py-rlock"])
def test_lock_on_the_native_stack_only(python: FakePython, kind: str) -> None:
    lock, other = (python.lock(), python.lock()) if kind == "py-lock" else (python.rlock(ME), python.rlock(ME))
    answer = find(python, python.lock_word(lock) if kind == "py-lock" else python.rlock_word(lock),
                  frame(python, [("x", other)]), native=[8, 0xDEAD_0000, other, lock])
    assert answer is not None
    assert (answer[0].kind, answer[0].address, answer[1:]) == (kind, lock, (0, [lock]))


def test_native_stack_with_other_locks_only(python: FakePython) -> None:
    python_lock = python.lock()
    assert find(python, 0x1234, frame(python), native=[python_lock, 0x1234, python.string("x")]) is None


def test_lock_unknown_to_near_frames(python: FakePython) -> None:
    lock = python.lock()
    at = frame(python, [("lock", lock)])
    for _ in range(2):
        at = frame(python, previous=at)
    answer = find(python, python.lock_word(lock), at)
    # since 3.13.1 the address of a mutex identifies its lock
    assert (answer is not None) == (python.version_tuple > (3, 13, 0))


def test_text_file(python: FakePython) -> None:
    inner, buffer, text = python.inner_lock(), python.build.alloc(256), python.build.alloc(256)
    python.build.put("PyObject", buffer, ob_type=python.type_object("_io.BufferedReader"))
    python.build.put("buffered", buffer, lock=inner, owner=ME)
    python.build.put("PyObject", text, ob_type=python.type_object("_io.TextIOWrapper"))
    python.build.put("textio", text, buffer=buffer)
    assert found(python, inner, frame(python, [("file", text)])) == ("py-buffered-io", buffer, 0, [buffer])


def test_standard_file(python: FakePython) -> None:
    inner, buffer = python.inner_lock(), python.build.alloc(256)
    python.build.put("PyObject", buffer, ob_type=python.type_object("_io.BufferedWriter"))
    python.build.put("buffered", buffer, lock=inner, owner=ME)
    interpreter = python.build.new("PyInterpreterState", sysdict=python.namespace(stdout=buffer))
    answer = find(python, inner, frame(python), [InterpreterState(interpreter, 0, None, (), None, None)])
    assert answer is not None
    assert (answer[0].address, answer[0].name) == (buffer, "sys.stdout")


# -- what it is a part of -------------------------------------------------------------------------------------

def waiting(python: FakePython, condition: int, previous: int = 0) -> tuple[int, int]:
    """A frame of `Condition.wait`, and the word that its thread sleeps on."""
    private = python.lock()
    at = frame(python, [("self", condition), ("waiter", private)], (), previous, "wait", THREADING)
    return at, python.lock_word(private)


def test_condition(python: FakePython) -> None:
    condition = python.condition(python.lock())
    at, word = waiting(python, condition, frame(python))
    kind, address, index, path = found(python, word, at)
    assert (kind, address, index, path[0]) == ("py-condition", condition, 1, condition)


def test_lock_of_a_condition(python: FakePython) -> None:
    lock = python.lock()
    condition = python.condition(lock)
    at = frame(python, [("self", condition)], [python.builtin_method("__enter__", lock)], frame(python), "__enter__",
               THREADING)
    assert found(python, python.lock_word(lock), at) == ("py-lock", lock, 1, [condition, lock])


def test_other_lock_inside_a_condition(python: FakePython) -> None:
    lock = python.lock()
    at = frame(python, [("self", python.condition(python.lock())), ("waiter", lock)], (), 0, "notify", THREADING)
    assert found(python, python.lock_word(lock), at)[:2] == ("py-lock", lock)


@pytest.mark.parametrize(("name", "attributes", "kind"), [
    ("Event", ("_cond", "_flag"), "py-event"), ("Semaphore", ("_cond", "_value"), "py-semaphore"),
    ("Future", ("_condition", "_state"), "py-condition")])
def test_objects_with_a_condition(python: FakePython, name: str, attributes: tuple[str, str], kind: str) -> None:
    condition = python.condition(python.lock())
    event = python.instance(name, True, **{attributes[0]: condition, attributes[1]: python.integer(0)})
    caller = frame(python, [("self", event)], (), frame(python), "wait", THREADING)
    at, word = waiting(python, condition, caller)
    assert found(python, word, at)[:3] == (kind, event, 2)
    # similar code of other modules proves nothing
    caller = frame(python, [("self", event)], (), frame(python), "wait", "/app/job.py")
    at, word = waiting(python, condition, caller)
    assert found(python, word, at)[:3] == ("py-condition", condition, 1)


def test_barrier(python: FakePython) -> None:
    condition = python.condition(python.lock())
    barrier = python.instance("Barrier", _cond=condition, _parties=python.integer(3), _count=python.integer(1))
    outer = frame(python, [("self", barrier)], (), frame(python), "wait", THREADING)
    middle = frame(python, [("self", barrier)], (), outer, "_wait", THREADING)
    inner = frame(python, [("self", condition)], (), middle, "wait_for", THREADING)
    at, word = waiting(python, condition, inner)
    assert found(python, word, at)[:3] == ("barrier", barrier, 4)


def test_queue(python: FakePython) -> None:
    condition = python.condition(python.lock())
    queue = python.instance("Queue", mutex=python.lock(), not_empty=condition)
    at, word = waiting(python, condition, frame(python, [("self", queue)], (), frame(python), "get", QUEUE))
    kind, address, index, path = found(python, word, at)
    assert (kind, address, index, path[0]) == ("py-condition", condition, 2, queue)


SYNCHRONIZE, QUEUES = "/lib/multiprocessing/synchronize.py", "/lib/multiprocessing/queues.py"


def sem_lock(python: FakePython) -> tuple[int, int]:
    """A semaphore of `multiprocessing`, and the word that threads sleep on."""
    handle, at = python.build.alloc(32), python.build.alloc(64)
    python.build.put("PyObject", at, ob_type=python.type_object("_multiprocessing.SemLock"))
    python.build.put("SemLockObject", at, handle=handle, maxvalue=9, kind=1)
    return python.instance("SemLock", _semlock=at), handle


@pytest.mark.parametrize(("name", "attributes", "file", "kind", "state"), [
    ("Event", ("_cond", "_flag"), SYNCHRONIZE, "py-event", "not set"),
    ("Barrier", ("_cond", "_parties", "_count"), THREADING, "barrier", "1 of 3 arrived"),
    ("Queue", ("_cond",), QUEUES, "py-condition", "not all tasks are done"),
])
def test_objects_of_multiprocessing(name: str, attributes: Sequence[str], file: str, kind: str, state: str,
                                    python: FakePython) -> None:
    semaphore, word = sem_lock(python)
    condition = python.instance("Condition", _lock=sem_lock(python)[0], _wait_semaphore=semaphore)
    members = {"_cond": condition, "_parties": python.integer(3), "_count": python.integer(1)}
    whole = python.instance(name, True, **{each: members.get(each, semaphore) for each in attributes})
    outer = frame(python, [("self", whole)], (), frame(python), "wait", file)
    at = frame(python, [("self", condition)], (), outer, "wait", SYNCHRONIZE)
    answer = find(python, word, at)
    assert answer is not None
    lock, index, path = answer
    assert (lock.kind, lock.state, lock.shared, index, path[:2]) == (kind, state, True, 2, [whole, condition])
    assert lock.address == (condition if name == "Queue" else whole)


def test_event_of_another_object(python: FakePython) -> None:
    """`Thread.start` waits for an event of the thread, so the event is reported."""
    condition = python.condition(python.lock())
    event = python.instance("Event", _cond=condition, _flag=python.integer(0))
    thread = python.instance("Thread", _started=event)
    outer = frame(python, [("self", thread)], (), frame(python), "start", THREADING)
    at, word = waiting(python, condition, frame(python, [("self", event)], (), outer, "wait", THREADING))
    kind, address, index, path = found(python, word, at)
    assert (kind, address, index) == ("py-event", event, 2)
    assert thread not in path


def test_rlock_in_python(python: FakePython) -> None:
    block = python.lock()
    lock = python.instance("_RLock", _block=block, _owner=python.integer(ME), _count=python.integer(1))
    at = frame(python, [("self", lock)], [block], frame(python), "acquire", THREADING)
    assert found(python, python.lock_word(block), at) == ("py-rlock", lock, 1, [lock, block])


def test_import(python: FakePython) -> None:
    wakeup = python.lock()
    lock = python.instance("_ModuleLock", wakeup=wakeup, owner=python.integer(ME), name=python.string("app"))
    at = frame(python, [("self", lock)], [wakeup], frame(python), "acquire", "<frozen importlib._bootstrap>")
    assert found(python, python.lock_word(wakeup), at)[:3] == ("py-import", lock, 1)


# -- threads that end -----------------------------------------------------------------------------------------

@pytest.mark.parametrize("python", versions.before(13, VERSIONS), indirect=True)
def test_end_of_a_thread_that_releases_a_lock(python: FakePython) -> None:
    lock = python.lock()
    reference = python.build.new("PyWeakReference", wr_object=lock)
    tstate = python.build.new("PyThreadState", on_delete_data=reference)
    interpreter = InterpreterState(0, 0, None, (ThreadState(tstate, 0, ME, None, None),), None, None)
    word = python.lock_word(lock)
    thread = python.instance("Thread", _tstate_lock=lock, _ident=python.integer(ME))
    joining = frame(python, [("self", thread), ("lock", lock)], (), frame(python), "_wait_for_tstate_lock", THREADING)
    # when the interpreter ends it waits for a list of such locks
    ending = frame(python, [("lock", lock)], (), 0, "_shutdown", THREADING)
    for at, address in ((joining, thread), (ending, lock), (frame(python), lock)):
        answer = find(python, word, at, [interpreter])
        assert answer is not None
        assert (answer[0].kind, answer[0].address, answer[0].owner) == ("thread-exit", address, ME)


def handle_of(python: FakePython) -> tuple[int, int]:
    """The object of a thread's handle, and the parking place of threads that wait for its end."""
    handle = python.build.new("ThreadHandle", ident=ME, state=3, thread_is_exiting=2)
    node = python.build.member("ThreadHandle", handle, "node")
    python.build.put("llist_node", node, next=node, prev=node)
    at = python.build.alloc(64)
    python.build.put("PyObject", at, ob_type=python.type_object("_thread._ThreadHandle"))
    python.build.put("PyThreadHandleObject", at, handle=handle)
    return at, python.build.member("ThreadHandle", handle, "thread_is_exiting")


@pytest.mark.parametrize("name", ["_handle", "_os_thread_handle"])
@pytest.mark.parametrize("python", versions.from_minor(13), indirect=True)
def test_end_of_a_thread_with_a_handle(python: FakePython, name: str) -> None:
    handle, word = handle_of(python)
    thread = (python.instance("Thread", _handle=handle) if name == "_handle"
              else python.instance("Thread", _os_thread_handle=handle))
    joining = frame(python, [("self", thread)], [handle], frame(python), "join", THREADING)
    assert found(python, word, joining)[:3] == ("thread-exit", thread, 1)
    answer = find(python, word, frame(python), (), {ME})
    assert answer is not None
    assert answer[0].owner == ME
    # memory may look like a handle by chance
    assert find(python, word, frame(python), (), {ME + 16}) is None
