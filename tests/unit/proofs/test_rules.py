"""The rules by which a frame proves that its thread holds a lock."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gdbext.threads.code import Code
from tests.support.reader_program import (
    FUNCTION,
    HOLDING,
    KEEP,
    LINKS,
    LOCK,
    LOCK_ABSL,
    LOCK_BOOST,
    READING,
    RELEASED,
    STEP,
    VARIABLE,
    WAIT_ABSL,
    Reader,
)


@pytest.mark.parametrize(("index", "is_held"), [(2, False), (HOLDING, True), (RELEASED, False)])
def test_lock_is_held_between_acquisition_and_release(index: int, is_held: bool) -> None:
    assert Reader().holds(index) == is_held


def test_lock_at_another_address_is_not_held() -> None:
    assert not Reader().holds(HOLDING, LOCK + 0x40)
    assert not Reader().holds(HOLDING, rbx=LOCK + 0x40)


def test_address_on_the_stack_proves_it_too() -> None:
    lines = ("sub $0x20,%rsp", "mov %rdi,0x8(%rsp)", "call pthread_rwlock_rdlock", "call work", "ret")
    reader = Reader(*lines)
    reader.target.ram.u64(reader.thread.stack + 0x108, LOCK)
    assert reader.holds(HOLDING, rbx=0)
    reader.target.ram.u64(reader.thread.stack + 0x108, LOCK + 8)
    assert not reader.holds(HOLDING, rbx=0)


def test_address_that_nothing_keeps_proves_nothing() -> None:
    assert not Reader("push %rbx", "nop", "call pthread_rwlock_rdlock", "call work", "ret").holds(HOLDING)


def test_file_without_a_link_to_read_locks_is_not_examined() -> None:
    assert not Reader(is_linked=False).holds(HOLDING)


def test_lock_that_is_being_released_is_not_held() -> None:
    assert READING[5] == "call pthread_rwlock_unlock"
    assert not Reader().holds(5)


RELEASING = ("push %rbx", "mov %rdi,%rbx", "call pthread_rwlock_unlock", "nop", "call pthread_rwlock_rdlock", "ret")


@pytest.mark.parametrize(("inside", "is_held"), [(1, True), (3, False), (5, False)])
def test_lock_that_the_called_function_releases_is_not_held(inside: int, is_held: bool) -> None:
    """As a wait for a condition does, which takes the lock again later."""
    assert Reader(work=RELEASING).holds(HOLDING, inside=inside) == is_held


def test_lock_that_the_called_function_takes_once_more_is_held() -> None:
    work = (*KEEP, "call pthread_rwlock_rdlock", "mov %rbx,%rdi", "call pthread_rwlock_unlock", "nop")
    assert Reader(work=work).holds(HOLDING, inside=5)


#: Acquires a mutex of Rust, and calls with its address in a register.
LOCKING = ("push %rbx", "mov %rdi,%rbx", "xor %eax,%eax", "mov $0x1,%ecx", "lock cmpxchg %ecx,(%rdi)",
           f"jne {FUNCTION + 8 * STEP:#x}")


@pytest.mark.parametrize(("argument", "work", "inside", "is_held"), [
    ("xor %edi,%edi", ("call *%rdx", "nop", "ret"), 1, True),  # the function does not get the address
    ("nop", ("nop", "nop", "ret"), 1, True),
    ("nop", ("call *%rdx", "nop", "ret"), 1, False),  # it may have passed it on
    ("nop", ("nop", "call *%rdx", "ret"), 1, True),  # it has not returned yet
])
def test_lock_that_a_callee_may_have_passed_on_is_not_held(
        argument: str, work: tuple[str, ...], inside: int, is_held: bool) -> None:
    reader = Reader(*LOCKING, argument, "call work", "ret", work=work)
    assert reader.holds(7, inside=inside, kind="rust-mutex") == is_held


@pytest.mark.parametrize(("rbx", "is_held"), [(LOCK, False), (LOCK + 0x40, True), (None, False)])
def test_callee_may_have_released_another_lock(rbx: int | None, is_held: bool) -> None:
    work = ("push %rbx", "mov %rsi,%rbx", "xor %eax,%eax", "xchg %eax,(%rbx)", "nop", "ret")
    reader = Reader(*LOCKING, "xor %edi,%edi", "call work", "ret", work=work)
    if rbx is not None:
        reader.thread.registers["rbx"] = rbx
    else:
        reader.thread.registers.pop("rbx", None)
    assert reader.holds(7, inside=4, kind="rust-mutex") == is_held


def test_lock_that_was_passed_to_a_function_that_is_not_known_is_not_held() -> None:
    """The function may have released it, and then jumped to the one in which the thread is."""
    assert not Reader(*LOCKING, "nop", "call *%rdx", "ret", work=("nop", "ret")).holds(7, kind="rust-mutex")


#: Acquires a mutex of Qt 6, and calls with its address in a register.
LOCKING_QT = ("push %rbx", "mov %rdi,%rbx", "xor %eax,%eax", "mov $0x1,%ecx", "lock cmpxchg %rcx,(%rdi)",
              f"jne {FUNCTION + 10 * STEP:#x}")


@pytest.mark.parametrize(("lines", "is_held"), [
    (("nop", "xor %edi,%edi"), True),
    (("xor %edi,%edi", "xchg %rdi,(%rbx)"), False),  # as Qt 6.8 and later release it
    (("mov $0x1,%eax", "lock cmpxchg %rdi,(%rbx)"), False),  # as earlier ones do
])
def test_mutex_of_qt_is_held_until_an_exchange_releases_it(lines: tuple[str, str], is_held: bool) -> None:
    reader = Reader(*LOCKING_QT, *lines, "call work", "ret", "ret", work=("nop", "nop", "ret"))
    assert reader.holds(8, inside=1, kind="qt-mutex") == is_held


@pytest.mark.parametrize("is_linked", [True, False])
def test_lock_of_another_file_is_held_only_by_code_of_files_that_are_linked_to_it(
        is_linked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code has the address of the lock, as a constant that is in neither a register nor the stack."""
    def frame_registers(code: Code, registers: Mapping[str, int], index: int) -> Mapping[str, int]:
        pc, sp = reader.thread.frames[index]
        return {"rip": pc, "rsp": sp, **dict.fromkeys(code.cpu.CALLEE_SAVED, 0)}

    monkeypatch.setattr(Code, "frame_registers", frame_registers)
    lines = ("push %rbx", f"mov ${VARIABLE:#x},%edi", *LOCKING_QT[2:])
    reader = Reader(*lines, "nop", "nop", "call work", "ret", "ret", work=("nop", "nop", "ret"))
    reader.target.ram.u64(LINKS, 16, VARIABLE + 8 if is_linked else 0)
    assert reader.holds(8, VARIABLE, inside=1, kind="qt-mutex", rbx=0) == is_linked


LOCKING_PY = tuple(line.replace("%rcx", "%cl") for line in LOCKING_QT)


@pytest.mark.parametrize(("lines", "is_held"), [
    (("nop", "nop"), True),
    (("nop", "lock cmpxchg %dl,(%rbx)"), False),  # of 1 for 0, as `PyMutex_Unlock` does
    (("nop", "lock andb $0xfe,(%rbx)"), False),
    (("nop", "lock cmpxchg %edx,(%rbx)"), True),  # of another size
    (("mov %rbx,%rdi", "call release"), False),
])
def test_mutex_of_python_is_held_until_its_byte_is_exchanged(lines: tuple[str, str], is_held: bool) -> None:
    reader = Reader(*LOCKING_PY, *lines, "call work", "ret", "ret", work=("nop", "nop", "ret"))
    assert reader.holds(8, inside=1, kind="py-mutex") == is_held


def test_mutex_of_qt_that_was_not_free_is_not_held() -> None:
    """The path on which the exchange has failed goes on as the other one does."""
    lines = (*LOCKING_QT[:-1], f"jne {FUNCTION + 6 * STEP:#x}")
    reader = Reader(*lines, "nop", "xor %edi,%edi", "call work", "ret", work=("nop", "nop", "ret"))
    assert not reader.holds(8, inside=1, kind="qt-mutex")


@pytest.mark.parametrize(("waiting", "index", "is_held"), [
    (f"call {WAIT_ABSL}", 6, True),  # it has acquired the mutex again
    (f"call {WAIT_ABSL}", 5, False),  # the thread waits in it
    ("lock cmpxchg %rcx,(%rbx)", 6, False),  # a release that the compiler has inlined
])
def test_mutex_of_absl_is_held_after_a_wait(waiting: str, index: int, is_held: bool) -> None:
    lines = (*KEEP, f"call {LOCK_ABSL}", "mov %rbx,%rsi", "xor %edi,%edi", waiting, "call work", "ret")
    reader = Reader(*lines, work=("nop", "nop", "ret"))
    assert reader.holds(index, inside=1, kind="absl-mutex", namespace="debian3") == is_held


@pytest.mark.parametrize(("argument", "is_held"), [
    ("lea 0x8(%rbx),%rdi", False),  # a release that the compiler has inlined unlocks the mutex inside
    ("lea 0x138(%rbx),%rdi", True),  # a mutex in the same object
    (f"mov ${VARIABLE:#x},%edi", True),
    (f"mov ${LOCK + 8:#x},%edi", False),
    ("mov %rsi,%rdi", False),
])
def test_shared_mutex_of_boost_is_held_until_its_inner_mutex_is_unlocked(argument: str, is_held: bool) -> None:
    lines = (*KEEP, "mov %rdx,%rsi", f"call {LOCK_BOOST}", argument, "call pthread_mutex_unlock", "call work", "ret")
    reader = Reader(*lines, work=("nop", "nop", "ret"))
    assert reader.holds(6, inside=1, kind="boost-shared-mutex") == is_held
