from __future__ import annotations

import time

import pytest

from gdbext.errors import GdbextError
from gdbext.glibc.futex import FutexWait
from gdbext.layout.select import glibc_layouts
from gdbext.locks.seen import (
    ALLOCATES,
    ARRIVING,
    INITIALISES,
    MENTIONS,
    READERS,
    RUNS_ONCE,
    UNKNOWN,
    NotRecorded,
    RecordedTid,
    SeenLock,
    held_by,
)
from gdbext.narrate.reasons import explain
from gdbext.threads.site import NOWHERE, Site
from gdbext.waits.lock_kinds import KINDS, Context, recognise, recognise_address
from tests.support.fake_memory import Builder, FakeMemory, NoiseMemory
from tests.support.reasons import said

AT = 0x7F00_0000_1000
TID = 898
LAYOUTS = glibc_layouts("2.36", "x86_64")


def laid_out(struct_name: str, **members: int) -> FakeMemory:
    memory = FakeMemory({AT - 0x100: bytes(0x400)})
    Builder(memory, LAYOUTS).put(struct_name, AT, **members)
    return memory


def seen(memory: FakeMemory, wait: FutexWait, *functions: str, sleepers: int = 1,
         descriptors: dict[int, int] | None = None, tids: tuple[int, ...] = (TID,)) -> SeenLock:
    context = Context(memory, LAYOUTS, {wait.address: sleepers}, descriptors or {}, (), tids)
    return recognise(context, wait, Site(functions, None))


HELD = {"__lock": 2, "__owner": TID, "__nusers": 1}
WRITTEN = {"__readers": 0xB, "__wrphase_futex": 3, "__writers_futex": 3, "__cur_writer": TID}
READ = {"__readers": 0xA, "__wrphase_futex": 2, "__writers_futex": 1}


def test_mutex_that_elides_records_no_owner() -> None:
    members = laid_out("pthread_mutex_t", __lock=2, __kind=0x100)
    view = seen(members, FutexWait(AT, 0x80, 2, False), "pthread_mutex_lock")
    assert (view.kind, view.held) == ("mutex", UNKNOWN)
    assert view.why is not None
    assert "lock elision" in explain(view.why)
    assert seen(members, FutexWait(AT, 0x80, 2, False)).kind == "futex", "any word may look like that"


@pytest.mark.parametrize("functions", [(), ("pthread_mutex_lock",), ("unrelated",)])
@pytest.mark.parametrize(("members", "op", "expected"), [
    (HELD, 0x80, 2), (HELD, 0x189, 2), ({**HELD, "__kind": 0x80}, 0x00, 2),
    ({**HELD, "__kind": 0x40, "__lock": 0x80002}, 0x80, 0x80002),
    ({"__lock": 0x80000000 | TID, "__nusers": 1, "__owner": TID, "__kind": 0x90}, 0x00, 0x80000000 | TID),
    ({"__lock": 0x80000000 | TID, "__nusers": 1, "__owner": TID, "__kind": 0x20}, 0x86, 0),
    ({"__lock": 0x80000000 | TID, "__nusers": 1, "__owner": TID, "__kind": 0xB0}, 0x06, 0),
], ids=["plain", "timed", "shared", "ceiling", "robust", "PI", "robust PI"])
def test_mutexes(members: dict[str, int], op: int, expected: int, functions: tuple[str, ...]) -> None:
    view = seen(laid_out("pthread_mutex_t", **members), FutexWait(AT, op, expected, False), *functions)
    assert (view.kind, view.address, view.held, view.mode, view.as_lock(()).wait_for) == (
        "mutex", AT, RecordedTid(TID), "exclusive", "all")


def test_shared_mutex_may_be_held_elsewhere() -> None:
    view = seen(laid_out("pthread_mutex_t", **{**HELD, "__kind": 0x80}), FutexWait(AT, 0, 2, False))
    assert view.shared


def test_owner_that_is_not_a_thread_needs_the_name_of_a_function() -> None:
    memory, wait = laid_out("pthread_mutex_t", **HELD), FutexWait(AT, 0x80, 2, False)
    assert seen(memory, wait, tids=()).kind == "futex", "any bytes may look like it"
    assert seen(memory, wait, "pthread_mutex_lock", tids=()).kind == "mutex"


def test_low_level_lock_is_not_a_mutex() -> None:
    # glibc's own locks are a bare word of value 2, with no owner behind it
    view = seen(laid_out("pthread_mutex_t", __lock=2), FutexWait(AT, 0x80, 2, False))
    assert (view.kind, view.held) == ("futex", NotRecorded(MENTIONS))
    assert view.why


@pytest.mark.parametrize(("members", "offset", "expected", "mode", "readers"), [
    (WRITTEN, 8, 3, "shared", 0), (WRITTEN, 12, 3, "exclusive", 0), (READ, 8, 2, "exclusive", 1),
    ({**READ, "__writers_futex": 3}, 12, 3, "exclusive", 1),
    ({**READ, "__readers": 0xE, "__flags": 2}, 0, 0xE, "shared", 1),
])
@pytest.mark.parametrize("functions", [(), ("pthread_rwlock_wrlock",), ("pthread_rwlock_clockrdlock",)])
def test_rwlocks(members: dict[str, int], offset: int, expected: int, mode: str, readers: int,
                 functions: tuple[str, ...]) -> None:
    view = seen(laid_out("pthread_rwlock_t", **members), FutexWait(AT + offset, 0x189, expected, False), *functions)
    assert (view.kind, view.address, view.mode) == ("rwlock", AT, mode)
    assert view.held == (NotRecorded(READERS, readers) if readers else RecordedTid(TID))


def test_semaphore() -> None:
    view = seen(laid_out("sem_t", data=2 << 32), FutexWait(AT, 0x189, 0, False), sleepers=2)
    assert (view.kind, view.address, view.as_lock(()).wait_for, view.held) == ("semaphore", AT, "any", UNKNOWN)


def test_semaphore_that_counts_fewer_than_sleep_is_none() -> None:
    assert seen(laid_out("sem_t", data=1 << 32), FutexWait(AT, 0x189, 0, False), sleepers=2).kind != "semaphore"


def test_condition_variable() -> None:
    view = seen(laid_out("pthread_cond_t", __wrefs=0x10, __wseq=4), FutexWait(AT + 40, 0x189, 0, False), sleepers=2)
    assert (view.kind, view.address, view.as_lock(()).wait_for) == ("condvar", AT, "any")


def test_mutex_that_a_waiter_of_a_condition_variable_takes_again() -> None:
    view = seen(laid_out("pthread_mutex_t", **HELD), FutexWait(AT, 0x80, 2, False), "pthread_cond_wait")
    assert view.kind == "mutex"


@pytest.mark.parametrize(("op", "functions"), [(0x109, ()), (0x109, ("pthread_clockjoin_np",)),
                                               (0x00, ("pthread_join",))])
def test_join(op: int, functions: tuple[str, ...]) -> None:
    memory = laid_out("struct pthread", tid=TID)
    view = seen(memory, FutexWait(AT + 720, op, TID, False), *functions, descriptors={AT: 7, AT + 0x8000: 8})
    assert (view.kind, view.address, view.held) == ("thread-exit", AT, held_by((7,)))


def test_join_of_a_thread_that_has_just_ended() -> None:
    memory = laid_out("struct pthread", self=AT, cancelhandling=0x10)
    view = seen(memory, FutexWait(AT + 720, 0x109, TID, False), "pthread_join", descriptors={AT + 0x8000: 8})
    assert (view.kind, view.address, view.state, view.holders) == ("thread-exit", AT, "free", ())


def test_names_on_the_stack_rule_kinds_out() -> None:
    memory = laid_out("sem_t", data=1 << 32)
    assert seen(memory, FutexWait(AT, 0x189, 0, False), "sem_wait").kind == "semaphore"
    assert seen(memory, FutexWait(AT, 0x189, 0, False), "pthread_rwlock_rdlock").kind == "futex"


@pytest.mark.parametrize("wait", [FutexWait(AT, 0x80, 77, False), FutexWait(AT, 0x189, 0, True),
                                  FutexWait(0xDEAD_0000, 0x80, 2, False)], ids=["odd value", "zeros", "unreadable"])
def test_word_of_unknown_meaning(wait: FutexWait) -> None:
    view = seen(laid_out("sem_t"), wait)
    assert (view.kind, view.address) == ("futex", wait.address)
    assert view.held == NotRecorded(MENTIONS)
    assert view.why


@pytest.mark.parametrize("functions", [(), ("pthread_barrier_wait",)])
def test_barrier(functions: tuple[str, ...]) -> None:
    memory = laid_out("pthread_barrier_t", **{"in": 2, "count": 5})
    view = seen(memory, FutexWait(AT + 4, 0x80, 0, False), *functions, sleepers=2)
    assert (view.kind, view.address, view.state) == ("barrier", AT, "2 of 5 arrived")
    assert view.held == NotRecorded(ARRIVING, 3)


def word(value: int) -> FakeMemory:
    memory = laid_out("pthread_mutex_t")
    memory.u32(AT, value)
    return memory


def test_guard_of_a_static_variable() -> None:
    view = seen(word(0x10100), FutexWait(AT, 0, 0x10100, False), "syscall")
    assert (view.kind, view.address, view.state) == ("static-guard", AT, "in progress")
    assert view.held == NotRecorded(INITIALISES)
    assert seen(word(1), FutexWait(AT, 0, 0x10100, False)).kind == "futex", "it is initialised by now"


@pytest.mark.parametrize("expected", [1, 5, 0x401])
def test_once(expected: int) -> None:
    view = seen(word(expected), FutexWait(AT, 0x80, expected, False), "pthread_once")
    assert (view.kind, view.address, view.state) == ("once", AT, "in progress")
    assert view.held == NotRecorded(RUNS_ONCE)
    assert seen(word(expected), FutexWait(AT, 0x80, expected, False)).kind == "futex", "any small number looks like it"
    assert seen(word(expected + 1), FutexWait(AT, 0x80, expected, False), "pthread_once").kind == "futex"


def test_malloc_arena() -> None:
    view = seen(word(2), FutexWait(AT, 0x80, 2, False), "__lll_lock_wait_private", "malloc", "fopen")
    assert (view.kind, view.address, view.held) == ("malloc-arena", AT, NotRecorded(ALLOCATES))


@pytest.mark.parametrize(("functions", "kind"), [(("fputs",), "stdio"), (("exit",), "mutex"), ((), "mutex")])
def test_lock_that_a_descriptor_owns(functions: tuple[str, ...], kind: str) -> None:
    memory = laid_out("_IO_lock_t", lock=2, owner=0x7EEE0700)
    view = seen(memory, FutexWait(AT, 0x80, 2, False), *functions, descriptors={0x7EEE0700: 7})
    assert (view.kind, view.address, view.held, view.state) == (kind, AT, held_by((7,)), "locked")


@pytest.mark.parametrize(("wait", "words"), [
    (FutexWait(AT, 0x89, 2, False), "unknown"), (FutexWait(AT, 0, 0x80000000, False), "std::future"),
    (FutexWait(AT, 0x89, 2, True), "unknown"), (FutexWait(AT, 0x80, 0x80000000, False), "unknown")])
def test_words_of_other_runtimes(wait: FutexWait, words: str) -> None:
    view = seen(word(0x77), wait)
    assert (view.kind, view.held) == ("futex", NotRecorded(MENTIONS))
    assert view.why is not None
    assert words in explain(view.why)


def test_each_kind_has_functions_that_block_on_it() -> None:
    assert [row.kind for row in KINDS if not row.functions] == []
    assert len({row.kind for row in KINDS}) == len(KINDS)
    assert {row.kind for row in KINDS if row.needs_name} == {"once", "malloc-arena"}


# -- an address that a user gave -------------------------------------------------------------------------------

def given(memory: FakeMemory, address: int) -> tuple[SeenLock | None, str | None]:
    view, note = recognise_address(Context(memory, LAYOUTS, {}, {}, ()), address)
    return view, said(note)


def test_given_a_mutex() -> None:
    view, note = given(laid_out("pthread_mutex_t", **HELD), AT)
    assert view is not None
    assert (view.kind, view.held, note) == ("mutex", RecordedTid(TID), None)


@pytest.mark.parametrize(("members", "state"), [(WRITTEN, "write-locked"), (READ, "read-locked")])
def test_given_a_rwlock(members: dict[str, int], state: str) -> None:
    view, note = given(laid_out("pthread_rwlock_t", **members), AT)
    assert view is not None
    assert (view.kind, view.address, view.state, note) == ("rwlock", AT, state, None)


def test_given_the_word_that_a_waiter_sleeps_on() -> None:
    view, note = given(laid_out("pthread_rwlock_t", **WRITTEN), AT + 12)
    assert view is not None
    assert (view.kind, view.address) == ("rwlock", AT)
    assert note is not None
    assert "__writers_futex" in note


def test_given_other_memory() -> None:
    memory = FakeMemory({AT: b"\xff" * 256})
    assert given(memory, AT + 64) == (None, None)


@pytest.mark.parametrize("seed", range(25))
def test_noise(seed: int) -> None:
    memory = NoiseMemory(seed)
    start = time.process_time()
    for i in range(300):
        address = 0x10000 + 4 * 37 * i
        wait = FutexWait(address, (0x80, 0x189, 0x86, 0x109)[i % 4], (2, 3, 0, 0xE)[i % 3], False)
        context = Context(memory, LAYOUTS, {address: 1}, {address - 720: 1} if i % 7 == 0 else {},
                          ())
        assert isinstance(recognise(context, wait, NOWHERE), SeenLock)
        try:
            recognise_address(context, address)
        except GdbextError:
            continue
    assert time.process_time() - start < 10
