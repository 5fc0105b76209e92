from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

import pytest

from gdbext.arch import x86_64
from gdbext.cpython.locking.locks import PyLock
from gdbext.errors import ThreadUnavailable
from gdbext.holders import proven as proven_module
from gdbext.holders.inferred import HolderFinder
from gdbext.holders.proven import Proof
from gdbext.inferior.protocol import Module, Section, Symbol, Target, ThreadRef
from gdbext.locks.seen import (
    ALLOCATES,
    ARRIVING,
    INITIALISES,
    MENTIONS,
    READERS,
    RUNS_ONCE,
    UNKNOWN,
    NotRecorded,
    SeenLock,
    may_be_held_by,
)
from gdbext.model import DERIVED
from gdbext.model.kinds import LockKind
from gdbext.model.reasons import Reason, because, parts
from gdbext.narrate.reasons import explain
from gdbext.proofs.known_code import KnownCode
from gdbext.proofs.rules import Sought
from gdbext.threads.code import Code
from gdbext.threads.site import Sites
from gdbext.threads.threads import SeenThread, Threads
from tests.support.fake_memory import FakeMemory
from tests.support.reasons import said, text

LOCK = 0x40_4100
APP, LIBC, LIBCXX = 0x40_1000, 0x7E00_0001_0000, 0x7E00_0010_0000
EXTENSION = 0x7E00_0030_0000
IN_EXTENSION = EXTENSION + 0x110
STACK, STEP = 0x7F00_0000_0000, 0x1_0000
MODULES = tuple(Module(path, (Section(".text", start, start + 0x8000),), is_main)
                for path, start, is_main in (("/app/server", APP, True), ("/lib/libc.so.6", LIBC, False),
                                             ("/lib/libstdc++.so.6", LIBCXX, False),
                                             ("/app/lua54.cpython-311-x86_64-linux-gnu.so", EXTENSION, False)))
# functions of 0x100 bytes each; those that have a name
NAMES = {LIBC: "pthread_once_slow", LIBC + 0x100: "syscall", LIBC + 0x200: "malloc", LIBCXX: "__cxa_guard_acquire"}
TRAMPOLINE = LIBC + 0x300


class Found(NamedTuple):
    """What was found out: numbers of threads, and how or why not."""

    holders: tuple[int, ...]
    candidates: tuple[int, ...]
    why: Reason | None


class Process:
    """Threads with frames and words on their stacks; the parts of `Target`, `Code` and `Threads` that holders use."""

    cpu = x86_64

    def __init__(self) -> None:
        self.memory = FakeMemory({APP: b"\x90" * 0x8000, LIBC: b"\x90" * 0x8000, LIBCXX: b"\x90" * 0x8000})
        self.memory.write(TRAMPOLINE, b"\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05")
        self.seen: list[SeenThread] = []
        self.frames: dict[int, list[tuple[int, int]]] = {}
        self.kept: dict[int, dict[str, int]] = {}
        self.waits: dict[int, SeenLock] = {}
        self.modules: list[Module] = []

    def thread(self, pcs: Sequence[int], words: Mapping[int, int] | None = None, **kept: int) -> int:
        """A thread with a frame of 64 bytes for each program counter, and words by their offset on its stack."""
        number = len(self.seen) + 1
        low = STACK + number * STEP
        self.memory.map(low, bytes(0x1000))
        for offset, word in (words or {}).items():
            self.memory.u64(low + offset, word)
        self.seen.append(SeenThread(ThreadRef(number, 100 + number, None), x86_64, {"rip": pcs[0], "rsp": low}))
        self.frames[number] = [(pc, low + 64 * i) for i, pc in enumerate(pcs)]
        self.kept[number] = kept
        return number

    # what a Target, a Code and Threads offer

    def registers(self, thread: ThreadRef, names: Sequence[str] = ()) -> Mapping[str, int]:
        if self.kept[thread.number].get("gone"):
            raise ThreadUnavailable("gone")
        return self.kept[thread.number]

    def unwind(self, thread: ThreadRef, registers: Mapping[str, int]) -> list[tuple[int, int]]:
        return self.frames[thread.number]

    def module(self, address: int) -> Module | None:
        return next((module for module in MODULES if module.contains(address)), None)

    def function_range(self, pc: int) -> tuple[int, int] | None:
        return (pc & ~0xFF, (pc & ~0xFF) + 0x100) if self.module(pc) else None

    def symbol(self, address: int, index: int = 0) -> Symbol:
        return Symbol(NAMES.get(address & ~0xFF))

    @property
    def all_available(self) -> bool:
        return all(seen.unavailable is None for seen in self.seen)

    def __iter__(self) -> Iterator[SeenThread]:
        return iter(self.seen)

    def __getitem__(self, number: int) -> SeenThread:
        return self.seen[number - 1]

    def finder(self, *locks: SeenLock) -> HolderFinder:
        code, threads, target = cast(Code, self), cast(Threads, self), cast(Target, self)
        return HolderFinder(target, code, threads, Sites(self.memory, code, MODULES[1:2]), MODULES[1:2], locks,
                            self.waits, KnownCode())

    def find(self, how: str, waiters: Sequence[int], count: int = 1, lock: int = LOCK) -> Found:
        view = SeenLock("mutex", lock, "any", held=NotRecorded(how, count))
        found = self.finder(view).find(view, waiters)
        assert found is not None
        return Found(tuple(holder.thread for holder in found.holders), found.candidates, found.why)


@pytest.fixture
def process() -> Process:
    return Process()


WORK, OTHER_WORK, MAIN = APP + 0x10, APP + 0x210, APP + 0x410


def test_mentions(process: Process) -> None:
    waiter = process.thread([WORK], {8: LOCK})
    on_stack = process.thread([WORK, MAIN], {0x40: LOCK})
    in_register = process.thread([WORK], {}, r12=LOCK)
    process.thread([WORK], {0x44: LOCK, 0x80: LOCK + 1})  # not aligned; not it
    process.thread([WORK], {}, gone=1)
    found = process.find(MENTIONS, [waiter])
    assert (found.holders, found.candidates) == ((), (on_stack, in_register))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_readers_with_the_address_on_the_stack_are_candidates(process: Process, count: int) -> None:
    waiter = process.thread([WORK], {8: LOCK})
    readers = tuple(process.thread([WORK], {8: LOCK}) for _ in range(2))
    found = process.find(READERS, [waiter], count)
    assert (found.holders, found.candidates) == ((), readers)
    assert found.why is not None
    assert f"{count} reader" in explain(found.why)


def test_barrier(process: Process) -> None:
    waiters = [process.thread([LIBC + 0x410, WORK]) for _ in range(2)]
    late = process.thread([OTHER_WORK, WORK + 8])
    assert process.find(ARRIVING, waiters, 1).holders == (late,)
    found = process.find(ARRIVING, waiters, 2)
    assert (found.holders, found.candidates) == ((), ())
    stranger = process.thread([OTHER_WORK, WORK + 8], {0x48: LOCK})
    found = process.find(ARRIVING, waiters, 1)
    assert (found.holders, found.candidates) == ((), (stranger,)), "one of two is missing, and it may be either"


def test_barrier_whose_maker_waits_for_a_thread_to_end(process: Process) -> None:
    waiter = process.thread([LIBC + 0x410, WORK])
    process.seen[waiter - 1] = replace(process[waiter], pthread=0x7F00)
    late = process.thread([OTHER_WORK, WORK + 8])
    maker = process.thread([LIBC + 0x510, MAIN], {0x48: LOCK})
    process.waits[maker] = SeenLock("thread-exit", 0x7F00, "running")
    assert process.find(ARRIVING, [waiter], 1).holders == (late,)
    process.waits[maker] = SeenLock("thread-exit", 0x7F08, "running")
    assert process.find(ARRIVING, [waiter], 1).candidates == (maker,)


def test_nothing_is_inferred_while_a_thread_cannot_be_read(process: Process) -> None:
    waiter = process.thread([LIBC + 0x410, WORK], {8: LOCK})
    late = process.thread([OTHER_WORK, WORK], {8: LOCK})
    process.seen.append(SeenThread(ThreadRef(3, 103, None), x86_64, unavailable=text("it runs")))
    for how in (READERS, ARRIVING):
        found = process.find(how, [waiter], 1)
        assert (found.holders, found.candidates) == ((), (late,))


ONCE_INSIDE = LIBC + 0x40


def test_once(process: Process) -> None:
    waiter = process.thread([LIBC + 0x10, WORK], {8: LOCK})
    process.thread([LIBC + 0x10, WORK], {8: LOCK + 0x40})  # waits for another
    process.thread([OTHER_WORK, ONCE_INSIDE, WORK], {8: LOCK + 0x40})  # runs another
    runner = process.thread([LIBC + 0x510, OTHER_WORK, ONCE_INSIDE, WORK], {0x90: LOCK})
    assert process.find(RUNS_ONCE, [waiter]).holders == (runner,)


def test_once_called_again_by_its_own_initialiser(process: Process) -> None:
    waiter = process.thread([LIBC + 0x10, OTHER_WORK, ONCE_INSIDE, WORK], {8: LOCK})
    assert process.find(RUNS_ONCE, [waiter]).holders == (waiter,)


def test_once_called_again_by_a_jump(process: Process) -> None:
    """The initialiser ends with the call, which is compiled to a jump, so it has no frame of its own."""
    waiter = process.thread([LIBC + 0x10, ONCE_INSIDE, WORK], {8: LOCK})
    assert process.find(RUNS_ONCE, [waiter]).holders == (waiter,)


def test_once_whose_initialiser_is_not_seen(process: Process) -> None:
    waiter = process.thread([LIBC + 0x10, WORK], {8: LOCK})
    process.thread([OTHER_WORK, WORK], {8: LOCK})
    found = process.find(RUNS_ONCE, [waiter])
    assert (found.holders, found.candidates) == ((), ())
    assert found.why


def call(process: Process, at: int, target: int) -> int:
    """Write a call there; returns its return address."""
    process.memory.write(at, b"\xe8" + struct.pack("<i", target - (at + 5)))
    return at + 5


class Guarded:
    """A function with two static variables: each is acquired, initialised by a call, and released."""

    def __init__(self, process: Process) -> None:
        # no direct call reaches a library: 5 bytes with a 32-bit displacement; here they are near enough
        process.memory.write(LIBCXX + 0x200, b"\x90")
        near = APP + 0x1000
        self.acquire_stub, self.release_stub = near, near + 0x40
        for stub, slot, function in ((self.acquire_stub, near + 0x80, LIBCXX), (self.release_stub, near + 0x88, 0)):
            process.memory.write(stub, b"\xff\x25" + struct.pack("<i", slot - (stub + 6)))
            process.memory.u64(slot, function)
        start = APP + 0x2000
        process.memory.write(start + 0x10, b"\x48\x8d\x3d" + struct.pack("<i", LOCK - (start + 0x17)))
        self.acquired = call(process, start + 0x17, self.acquire_stub)
        self.inside = start + 0x30
        process.memory.write(start + 0x90, b"\x48\x8d\x3d" + struct.pack("<i", LOCK + 8 - (start + 0x97)))
        self.other_acquired = call(process, start + 0x97, self.acquire_stub)
        self.other_inside = start + 0xB0

    def waiter(self, process: Process, *outer: int) -> int:
        return process.thread([LIBC + 0x110, LIBCXX + 0x20, self.acquired, *outer, MAIN])


def test_static_guard(process: Process) -> None:
    guarded = Guarded(process)
    waiter = guarded.waiter(process)
    process.thread([WORK, MAIN])
    inside = process.thread([LIBC + 0x410, OTHER_WORK, guarded.inside, MAIN])
    found = process.find(INITIALISES, [waiter])
    assert found.holders == (inside,)
    assert said(found.why) == "the only thread inside the initialiser of the static variable"


def test_static_guard_entered_again_by_its_own_initialiser(process: Process) -> None:
    guarded = Guarded(process)
    waiter = guarded.waiter(process, guarded.inside)
    assert process.find(INITIALISES, [waiter]).holders == (waiter,)


def test_static_guard_and_a_thread_before_its_acquisition(process: Process) -> None:
    guarded = Guarded(process)
    waiter = guarded.waiter(process)
    process.thread([OTHER_WORK, guarded.acquired - 0x10, MAIN])
    found = process.find(INITIALISES, [waiter])
    assert (found.holders, found.candidates) == ((), ())


def test_static_guard_and_threads_further_on_in_the_function(process: Process) -> None:
    """Without a known release, all code after the acquisition may be inside, so no holder is found."""
    guarded = Guarded(process)
    waiter = guarded.waiter(process)
    process.thread([OTHER_WORK, guarded.inside, MAIN])
    process.thread([OTHER_WORK, guarded.other_inside, MAIN])
    found = process.find(INITIALISES, [waiter])
    assert (found.holders, found.candidates) == ((), (2, 3))


MALLOC = LIBC + 0x210


def test_arena(process: Process) -> None:
    waiter = process.thread([LIBC + 0x510, MALLOC, WORK], {8: LOCK})
    process.thread([LIBC + 0x510, WORK], {8: LOCK})  # not in the allocator
    process.thread([LIBC + 0x510, MALLOC, WORK])  # with another arena
    inside = process.thread([LIBC + 0x510, MALLOC, WORK], {8: LOCK})
    assert process.find(ALLOCATES, [waiter]).holders == (inside,)


@pytest.mark.parametrize(("offset", "holds"), [(0x110, True), (8, False)], ids=["before the signal", "after"])
def test_arena_of_a_thread_that_a_signal_interrupted(process: Process, offset: int, holds: bool) -> None:
    """It holds the arena if it was in the allocator with it when the signal came."""
    waiter = process.thread([LIBC + 0x510, MALLOC, OTHER_WORK, TRAMPOLINE, MALLOC + 8, WORK], {offset: LOCK})
    assert process.find(ALLOCATES, [waiter]).holders == ((waiter,) if holds else ())


@pytest.mark.parametrize(("pcs", "words", "inside"), [
    ([LIBC + 0x110, IN_EXTENSION, WORK], {0x20: LOCK}, True),
    ([LIBC + 0x110, IN_EXTENSION, WORK], {}, False),  # does not know the lock
    ([LIBC + 0x110, WORK, MAIN], {0x20: LOCK}, False)])  # in other code
def test_thread_in_the_code_of_a_fast_rlock(process: Process, pcs: list[int], words: dict[int, int],
                                            inside: bool) -> None:
    number = process.thread(pcs, words)
    lock = PyLock("py-fast-rlock", LOCK, "lupa.lua54.FastRLock", "locked")
    assert process.finder().is_in_code_of(number, lock) is inside
    assert not process.finder().is_in_code_of(number, replace(lock, type_name="h5py._objects.FastRLock"))
    assert not process.finder().is_in_code_of(number, replace(lock, kind="py-rlock"))


class Proofs:
    """Proofs by machine code, for some threads."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = numbers
        self.namespaces: set[str | None] = set()
        # by thread, as the guards of each prove a lock of readers, or of a writer, or nothing
        self.is_shared: dict[int, bool | None] = {}

    def find(self, seen: SeenThread, kind: str, lock: Sought, namespace: str | None = None,
             hidden: frozenset[int] = frozenset()) -> Proof | None:
        self.namespaces.add(namespace)
        self.is_shared[seen.number] = lock.is_shared
        return Proof("work", "app", "pthread_spin_lock") if seen.number in self.numbers else None

    def hidden_functions(self, kind: str, namespace: str | None, *_: object) -> frozenset[int]:
        return frozenset()

    def only_lock(self, kind: str, return_address: int) -> str | None:
        return None

    def namespace_of(self, kind: str, native: Sequence[tuple[int, int]]) -> str | None:
        return "lts_1" if native[0][0] == APP else None


@pytest.mark.parametrize(("proven", "holders", "candidates"), [
    ((2,), (2,), ()),
    ((1,), (1,), ()),  # it waits for itself
    ((2, 3), (), (2, 3)),  # only one can hold it, so a proof is wrong
])
def test_thread_whose_code_proves_it_is_the_holder(
        monkeypatch: pytest.MonkeyPatch, proven: tuple[int, ...], holders: tuple[int, ...],
        candidates: tuple[int, ...]) -> None:
    process = Process()
    for _ in range(3):
        process.thread([APP])
    monkeypatch.setattr(proven_module, "ProvenHolders", lambda *_: Proofs(*proven))
    view = SeenLock("spin-lock", LOCK, "locked", held=may_be_held_by((3,)))
    finder = process.finder(view)
    found = finder.prove(view, [1])
    assert found is not None
    assert tuple(holder.thread for holder in found.holders) == holders
    assert {holder.evidence for holder in found.holders} <= {DERIVED}
    assert found.candidates == candidates


def test_functions_are_those_of_the_namespace_in_which_a_thread_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process()
    for pc in (LIBC, APP, LIBC):
        process.thread([pc])
    proofs = Proofs()
    monkeypatch.setattr(proven_module, "ProvenHolders", lambda *_: proofs)
    view = SeenLock("absl-mutex", LOCK, "write-locked", held=NotRecorded(MENTIONS))
    finder = process.finder(view)
    finder.prove(view, [1, 2])
    assert proofs.namespaces == {"lts_1"}
    proofs.namespaces.clear()
    finder.prove(view, [1])
    assert proofs.namespaces == {None}


@pytest.mark.parametrize("proven", [(2,), (1, 2)])
def test_threads_that_have_taken_a_semaphore_are_candidates(
        monkeypatch: pytest.MonkeyPatch, proven: tuple[int, ...]) -> None:
    process = Process()
    for _ in range(3):
        process.thread([APP])
    monkeypatch.setattr(proven_module, "ProvenHolders", lambda *_: Proofs(*proven))
    view = SeenLock("semaphore", LOCK, "zero", why=because("semaphore-has-no-owner"))
    finder = process.finder(view)
    found = finder.prove(view, [1])
    assert found is not None
    assert (found.holders, found.candidates) == ((), proven)
    assert [reason.code for reason in parts(found.why)] == ["semaphore-has-no-owner", "called-not-released"]


def test_lock_that_no_code_acquires_is_left_to_the_other_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process()
    process.thread([APP])
    monkeypatch.setattr(proven_module, "ProvenHolders", lambda *_: Proofs())
    view = SeenLock("spin-lock", LOCK, "locked", held=NotRecorded(MENTIONS))
    finder = process.finder(view)
    assert finder.prove(view, [1]) is None


@pytest.mark.parametrize("is_shared", [False, True])
def test_guards_prove_nothing_while_a_thread_may_have_given_a_lock_back(
        monkeypatch: pytest.MonkeyPatch, is_shared: bool) -> None:
    process, proofs = Process(), Proofs()
    for _ in range(7):
        process.thread([APP])
    monkeypatch.setattr(proven_module, "ProvenHolders", lambda *_: proofs)
    view = SeenLock("rust-rwlock", LOCK, "locked", held=NotRecorded(READERS, 2) if is_shared else UNKNOWN)
    kinds: tuple[LockKind, ...] = ("gil", "rust-condvar", "parking-lot-condvar", "pool-job", "futex")
    process.waits = {1: view, **{i: SeenLock(kind, LOCK + 8 * i, "locked") for i, kind in enumerate(kinds, 2)}}
    finder = process.finder(view)
    (finder.find if is_shared else finder.prove)(view, [1])
    # the last thread does not wait for anything that is known: it may run
    assert proofs.is_shared == {1: None, 2: is_shared, **dict.fromkeys(range(3, 8))}
