from __future__ import annotations

import time

import pytest

from gdbext.analysis.lock_kinds import KINDS, Context, View, recognise, recognise_address
from gdbext.errors import GdbextError
from gdbext.glibc.futex import FutexWait
from gdbext.layout.select import glibc_layouts
from tests.support.fake_memory import Builder, FakeMemory, NoiseMemory

AT = 0x7F00_0000_1000
TID = 898
LAYOUTS = glibc_layouts("2.36", "x86_64")


def laid_out(struct_name: str, **members: int) -> FakeMemory:
    memory = FakeMemory({AT - 0x100: bytes(0x400)})
    Builder(memory, LAYOUTS).put(struct_name, AT, **members)
    return memory


def seen(memory: FakeMemory, wait: FutexWait, *functions: str, sleepers: int = 1,
         descriptors: dict[int, int] | None = None) -> View:
    return recognise(Context(memory, LAYOUTS, {wait.address: sleepers}, descriptors or {}), wait, functions)


HELD = {"__lock": 2, "__owner": TID, "__nusers": 1}
WRITTEN = {"__readers": 0xB, "__wrphase_futex": 3, "__writers_futex": 3, "__cur_writer": TID}
READ = {"__readers": 0xA, "__wrphase_futex": 2, "__writers_futex": 1}


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
    assert (view.kind, view.address, view.owner, view.mode, view.wait_for) == ("mutex", AT, TID, "exclusive", "all")


def test_shared_mutex_may_be_held_elsewhere() -> None:
    view = seen(laid_out("pthread_mutex_t", **{**HELD, "__kind": 0x80}), FutexWait(AT, 0, 2, False))
    assert view.elsewhere


def test_low_level_lock_is_no_mutex() -> None:
    # glibc's own locks are a bare word of value 2, with no owner behind it
    view = seen(laid_out("pthread_mutex_t", __lock=2), FutexWait(AT, 0x80, 2, False))
    assert (view.kind, view.owner) == ("futex", None)
    assert view.why


@pytest.mark.parametrize(("members", "offset", "expected", "mode", "owner", "readers"), [
    (WRITTEN, 8, 3, "shared", TID, 0), (WRITTEN, 12, 3, "exclusive", TID, 0), (READ, 8, 2, "exclusive", None, 1),
    ({**READ, "__writers_futex": 3}, 12, 3, "exclusive", None, 1),
    ({**READ, "__readers": 0xE, "__flags": 2}, 0, 0xE, "shared", None, 1),
])
@pytest.mark.parametrize("functions", [(), ("pthread_rwlock_wrlock",), ("pthread_rwlock_clockrdlock",)])
def test_rwlocks(members: dict[str, int], offset: int, expected: int, mode: str, owner: int | None, readers: int,
                 functions: tuple[str, ...]) -> None:
    view = seen(laid_out("pthread_rwlock_t", **members), FutexWait(AT + offset, 0x189, expected, False), *functions)
    assert (view.kind, view.address, view.mode, view.owner, view.readers) == ("rwlock", AT, mode, owner, readers)


def test_semaphore() -> None:
    view = seen(laid_out("sem_t", data=2 << 32), FutexWait(AT, 0x189, 0, False), sleepers=2)
    assert (view.kind, view.address, view.wait_for, view.owner) == ("semaphore", AT, "any", None)


def test_semaphore_that_counts_fewer_than_sleep_is_none() -> None:
    assert seen(laid_out("sem_t", data=1 << 32), FutexWait(AT, 0x189, 0, False), sleepers=2).kind != "semaphore"


def test_condition_variable() -> None:
    view = seen(laid_out("pthread_cond_t", __wrefs=0x10), FutexWait(AT + 40, 0x189, 0, False), sleepers=2)
    assert (view.kind, view.address, view.wait_for) == ("condvar", AT, "any")


def test_mutex_that_a_waiter_of_a_condition_variable_takes_again() -> None:
    view = seen(laid_out("pthread_mutex_t", **HELD), FutexWait(AT, 0x80, 2, False), "pthread_cond_wait")
    assert view.kind == "mutex"


@pytest.mark.parametrize(("op", "functions"), [(0x109, ()), (0x109, ("pthread_clockjoin_np",)),
                                               (0x00, ("pthread_join",))])
def test_join(op: int, functions: tuple[str, ...]) -> None:
    memory = laid_out("struct pthread", tid=TID)
    view = seen(memory, FutexWait(AT + 720, op, TID, False), *functions, descriptors={AT: 7, AT + 0x8000: 8})
    assert (view.kind, view.address, view.owner_thread) == ("thread-exit", AT, 7)


def test_names_on_the_stack_rule_kinds_out() -> None:
    memory = laid_out("sem_t", data=1 << 32)
    assert seen(memory, FutexWait(AT, 0x189, 0, False), "sem_wait").kind == "semaphore"
    assert seen(memory, FutexWait(AT, 0x189, 0, False), "pthread_rwlock_rdlock").kind == "futex"


@pytest.mark.parametrize("wait", [FutexWait(AT, 0x80, 77, False), FutexWait(AT, 0x189, 0, True),
                                  FutexWait(0xDEAD_0000, 0x80, 2, False)], ids=["odd value", "zeros", "unreadable"])
def test_word_of_unknown_meaning(wait: FutexWait) -> None:
    view = seen(laid_out("sem_t"), wait)
    assert (view.kind, view.address) == ("futex", wait.address)
    assert (view.owner, view.owner_thread, view.readers) == (None, None, 0)
    assert view.why


def test_each_kind_has_functions_that_block_on_it() -> None:
    assert [row.kind for row in KINDS if not row.functions] == []
    assert len({row.kind for row in KINDS}) == len(KINDS)


# -- an address that a user gave -------------------------------------------------------------------------------

def given(memory: FakeMemory, address: int) -> tuple[View | None, str | None]:
    return recognise_address(Context(memory, LAYOUTS, {}, {}), address)


def test_given_a_mutex() -> None:
    view, note = given(laid_out("pthread_mutex_t", **HELD), AT)
    assert view is not None
    assert (view.kind, view.owner, note) == ("mutex", TID, None)


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
    start = time.monotonic()
    for i in range(300):
        address = 0x10000 + 4 * 37 * i
        wait = FutexWait(address, (0x80, 0x189, 0x86, 0x109)[i % 4], (2, 3, 0, 0xE)[i % 3], False)
        context = Context(memory, LAYOUTS, {address: 1}, {address - 720: 1} if i % 7 == 0 else {})
        assert isinstance(recognise(context, wait, ()), View)
        try:
            recognise_address(context, address)
        except GdbextError:
            continue
    assert time.monotonic() - start < 10
