"""Every table in the package is used once by the decoders that it was made for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import gdbext.layout
from gdbext.cpython.frames import FrameReader
from gdbext.cpython.objects import Objects
from gdbext.cpython.runtime import find_runtimes, iter_interpreters, thread_names
from gdbext.glibc.barrier import find_barrier
from gdbext.glibc.condvar import find_condvar
from gdbext.glibc.linker import find_linker_locks
from gdbext.glibc.mutex import decode_mutex
from gdbext.glibc.pthread import pthread_of_join, read_tid
from gdbext.glibc.robust import iter_robust_mutexes
from gdbext.glibc.rwlock import find_rwlock
from gdbext.glibc.semaphore import decode_semaphore
from gdbext.glibc.stdio import decode_file_lock
from gdbext.layout.table import parse_table
from gdbext.model import PyFrame
from tests.support import versions
from tests.support.fake_elf import fake_elf
from tests.support.fake_memory import Builder, FakeMemory
from tests.support.fake_python import Call, FakePython
from tests.support.fake_tasks import FakeTasks

TABLES = Path(gdbext.layout.__file__).parent / "tables"
GLIBC = sorted(path.name for path in TABLES.glob("glibc-*.json"))
# before 3.7 there is no _PyRuntime to start from
CPYTHON = sorted(path.name for path in TABLES.glob("cpython-3.*-x86_64.json") if "-3.6." not in path.name)
PTHREAD, STACK = 0x7F00_1234_5700, 0x7F00_0000_0000


def test_there_are_tables() -> None:
    assert len(GLIBC) >= 15
    assert len(CPYTHON) >= 7


@pytest.mark.parametrize("name", CPYTHON)
@pytest.mark.parametrize("inline", [True, False])
def test_cpython(name: str, inline: bool) -> None:
    found = re.fullmatch(r"cpython-([\d.]+)-(default|free-threaded)-x86_64\.json", name)
    assert found is not None
    version, build = found.groups()
    python = FakePython(FakeMemory({STACK: bytes(0x1000)}), version, build=build)
    module = python.runtime()
    interpreter = python.interpreter()
    tstate = python.thread(interpreter, PTHREAD)
    python.take_gil(interpreter, tstate)
    python.stack(tstate, [Call((("inner", 3), ("outer", 5)), STACK + 0x100), Call((("main", 7),), STACK + 0x800)])
    entries = [(python.integer(PTHREAD), python.instance("Thread", inline, _name=python.string("Größe")))]
    threading = python.module_object(_active=python.dictionary(entries, unicode_keys=False))
    python.build.put("PyInterpreterState", interpreter, modules=python.namespace(threading=threading))

    (runtime,), problems = find_runtimes(python.memory, [module], "x86_64")
    assert (runtime.version, runtime.build, runtime.note, problems) == (version, build, None, [])
    seen, = iter_interpreters(python.memory, runtime)
    assert seen.problem is None
    assert [(thread.address, thread.thread_id) for thread in seen.threads] == [(tstate, PTHREAD)]
    assert seen.gil is not None
    # a free-threaded build has its GIL switched off
    assert (seen.gil.state, seen.gil.holder) == (("held", tstate) if build == "default" else ("disabled", None))
    objects = Objects(python.memory, runtime.layouts)
    assert thread_names(objects, interpreter) == {PTHREAD: "Größe"}
    stack = FrameReader(python.memory, runtime.layouts, objects).stack(tstate)
    assert stack.problem is None
    assert stack.frames == tuple(PyFrame(function, function, "/app/job.py", line)
                                 for function, line in (("inner", 3), ("outer", 5), ("main", 7)))


@pytest.mark.parametrize("version", versions.EVERY)
def test_coroutines(version: str) -> None:
    fake = FakeTasks(version)
    inner = fake.coroutine("inner")
    task = fake.task("job", fake.coroutine("outer", awaits=inner))
    fake.publish()
    reader = fake.reader()
    assert reader.tasks((fake.tstate,)) == ([task], [])
    chain = reader.generators.await_chain(reader.task(task).coroutine)
    assert ([raw.frame.function for raw in chain.frames], chain.problem) == (["outer", "inner"], None)
    assert all(map(reader.generators.is_suspended, chain.generators))
    assert not any(map(reader.generators.is_executing, chain.generators))


def rwlock_with_a_writer(build: Builder) -> tuple[int, str]:
    """A rwlock that a thread with TID 9 has, and the word that the next writer sleeps on."""
    if "__nr_readers" in build.layouts["pthread_rwlock_t"]:
        return build.new("pthread_rwlock_t", __writer=9, __nr_writers_queued=1, __writer_wakeup=3), "__writer_wakeup"
    return build.new("pthread_rwlock_t", __readers=3, __wrphase_futex=1, __writers_futex=3, __cur_writer=9), \
        "__writers_futex"


def condvar_of_two(build: Builder) -> tuple[int, str]:
    """A condition variable on which two threads wait, and the word that they sleep on."""
    if "__futex" in build.layouts["pthread_cond_t"]:
        return build.new("pthread_cond_t", __total_seq=2, __futex=2, __nwaiters=4), "__futex"
    return build.new("pthread_cond_t", __wseq=4, __wrefs=0x10), "__g_signals"


def semaphore_of_three(build: Builder) -> int:
    """A semaphore that three threads wait for."""
    if "data" in build.layouts["sem_t"]:
        return build.new("sem_t", data=3 << 32)
    return build.new("sem_t", nwaiters=3)


def barrier_with_two_of_three(build: Builder) -> tuple[int, str]:
    """A barrier at which one thread is missing, and the word that the others sleep on."""
    if "left" in build.layouts["pthread_barrier_t"]:
        return build.new("pthread_barrier_t", init_count=3, left=1), "curr_event"
    return build.new("pthread_barrier_t", **{"in": 2}, count=3), "current_round"


@pytest.mark.parametrize("name", GLIBC)
def test_glibc(name: str) -> None:
    layouts = parse_table((TABLES / name).read_text(encoding="utf-8"))
    memory = FakeMemory()
    build = Builder(memory, layouts)
    mutex = build.new("pthread_mutex_t", __lock=2, __owner=7, __nusers=1)
    assert decode_mutex(memory, layouts, mutex).owner == 7
    rwlock, word = rwlock_with_a_writer(build)
    found = find_rwlock(memory, layouts, build.member("pthread_rwlock_t", rwlock, word), 3)
    assert found is not None
    assert (found[0].address, found[0].writer, found[1]) == (rwlock, 9, "exclusive")
    condition, word = condvar_of_two(build)
    state = find_condvar(memory, layouts, build.member("pthread_cond_t", condition, word), 2)
    assert state is not None
    assert (state.address, state.waiters) == (condition, 2)
    assert decode_semaphore(memory, layouts, semaphore_of_three(build)).waiters == 3
    at, word = barrier_with_two_of_three(build)
    barrier = find_barrier(memory, layouts, build.member("pthread_barrier_t", at, word), 0, 2)
    assert barrier is not None
    assert (barrier.address, barrier.missing) == (at, 1)
    lock = build.new("_IO_lock_t", lock=2, owner=0x7000)
    file = build.new("struct _IO_FILE", _lock=lock, _fileno=5)
    assert decode_file_lock(memory, layouts, lock).owner == 0x7000
    assert layouts["struct _IO_FILE"].reader("_fileno")(memory, file) == (5,)
    pthread = build.alloc(layouts["struct pthread"].size)
    if layouts.machine == "x86_64":  # elsewhere the descriptor does not point to itself
        build.put("struct pthread", pthread, self=pthread, tid=11)
        assert read_tid(memory, layouts, pthread) == 11
    member = "joinstate" if "joinstate" in layouts["struct pthread"] else "tid"
    assert pthread_of_join(layouts, build.member("struct pthread", pthread, member), {pthread}) == pthread
    head = build.member("struct pthread", pthread, "robust_head")
    link = build.member("pthread_mutex_t", mutex, "__list") + 8
    build.put("struct robust_list_head", head, list=link, futex_offset=mutex - link)
    memory.u64(link, head)
    assert list(iter_robust_mutexes(memory, layouts, pthread)) == [mutex]


@pytest.mark.parametrize("name", GLIBC)
def test_dynamic_linker_of_glibc(name: str) -> None:
    layouts = parse_table((TABLES / name).read_text(encoding="utf-8"))
    known = layouts["struct rtld_global"]
    memory, module = fake_elf(STACK, {"_rtld_global": (0x4000, known.size)}, "/lib64/ld-linux-x86-64.so.2")
    build = Builder(memory, layouts)
    memory.ensure(STACK + 0x4000, known.size)
    expected = {}
    for member, field in known.fields.items():
        build.put("pthread_mutex_t", STACK + 0x4000 + field.offset, __kind=1)
        expected[STACK + 0x4000 + field.offset] = member
    assert find_linker_locks(memory, layouts, [module]) == expected
    assert len(expected) == (3 if layouts.version_tuple >= (2, 35) else 2)
