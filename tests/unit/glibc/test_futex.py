from __future__ import annotations

import pytest

from gdbext.arch.protocol import Syscall
from gdbext.arch.x86_64.system_calls import system_call
from gdbext.glibc.futex import FutexWait, decode_futex_wait

WORD = 0x55D2_C8F0
MASK = (1 << 64) - 1


def registers(number: int, *arguments: int, rax: int = -512) -> dict[str, int]:
    names = ("rdi", "rsi", "rdx", "r10", "r8", "r9")
    return {"orig_rax": number & MASK, "rax": rax & MASK, **dict(zip(names, arguments))}


def futex_wait(number: int, *arguments: int, rax: int = -512) -> FutexWait | None:
    return decode_futex_wait(system_call(registers(number, *arguments, rax=rax)))


@pytest.mark.parametrize("rax", [-512, -513, -514, -516, -4])
def test_call_when_not_returned_is_blocked(rax: int) -> None:
    call = system_call(registers(0, 3, 0x7FFF_0000, 512, rax=rax))
    assert call is not None
    assert call == Syscall(0, "read", call.arguments, True)
    assert call.arguments[:3] == (3, 0x7FFF_0000, 512)


@pytest.mark.parametrize("rax", [0, 1, -11, -110, 202])
def test_call_when_returned_is_not_blocked(rax: int) -> None:
    call = system_call(registers(202, WORD, 0x80, 2, rax=rax))
    assert call is not None
    assert (call.name, call.blocked) == ("futex", False)
    assert decode_futex_wait(call) is None


def test_call_outside_system_calls_is_none() -> None:
    assert system_call(registers(-1)) is None
    assert system_call({}) is None
    assert decode_futex_wait(None) is None


def test_call_with_unknown_number_has_no_name() -> None:
    call = system_call(registers(99_999))
    assert call is not None
    assert (call.number, call.name, call.blocked) == (99_999, None, True)


@pytest.mark.parametrize(("op", "command"), [(0x00, 0), (0x80, 0), (0x89, 9), (0x189, 9), (0x109, 9), (0x86, 6),
                                             (0x06, 6), (0x8B, 11), (0x8D, 13)])
def test_decode_of_waiting_operations(op: int, command: int) -> None:
    wait = futex_wait(202, WORD, op, 2)
    assert wait == FutexWait(WORD, op, 2, False)
    assert wait is not None
    assert wait.command == command


@pytest.mark.parametrize("op", [0x81, 0x85, 0x01, 0x03, 0x8A, 0x1000, 0x280])
def test_decode_of_other_operations_is_none(op: int) -> None:
    assert futex_wait(202, WORD, op, 2) is None


@pytest.mark.parametrize("address", [0, WORD + 1, WORD + 2])
def test_decode_when_address_is_impossible_is_none(address: int) -> None:
    assert futex_wait(202, address, 0x80, 2) is None


def test_decode_ignores_upper_halves_of_int_registers() -> None:
    assert futex_wait(202, WORD, 0xDEAD_0000_0080, 0x1234_8000_0010) == FutexWait(WORD, 0x80, 0x80000010, False)


def test_decode_of_timed_wait() -> None:
    wait = futex_wait(202, WORD, 0x189, 0, 0x7FFF_1000, rax=-516)
    assert wait == FutexWait(WORD, 0x189, 0, True)


def test_decode_of_restarted_timed_wait() -> None:
    # the call's number is lost, the arguments remain
    call = system_call(registers(219, WORD, 0x189, 0, 0x7FFF_1000, 0, MASK, rax=-516))
    assert call is not None
    assert (call.name, call.blocked) == (None, True)
    assert decode_futex_wait(call) == FutexWait(WORD, 0x189, 0, True)


def test_decode_of_other_restarted_calls_is_none() -> None:
    # poll(fds, 3, -1): not a futex operation; clock_nanosleep(CLOCK_REALTIME, ...): no address
    assert futex_wait(219, 0x7FFF_2000, 3, MASK, 0, rax=-516) is None
    assert futex_wait(219, 0, 0, 0x7FFF_2000, 0x7FFF_2000, rax=-516) is None
    # poll(fds, 9, -1) and poll(fds, 0x189, -1) with a stale r10; nanosleep(request, NULL) likewise
    assert futex_wait(219, 0x7FFF_2000, 9, MASK, 0x7FFF_1000, 0, MASK, rax=-516) is None
    assert futex_wait(219, 0x7FFF_2000, 0x189, MASK, 0x7FFF_1000, rax=-516) is None
    assert futex_wait(219, 0x7FFF_2000, 0, 0, 0x7FFF_1000, rax=-516) is None
    # a futex wait without a timeout restarts with its number
    assert futex_wait(219, WORD, 0x189, 0, 0, rax=-516) is None


def test_decode_of_other_calls_is_none() -> None:
    assert futex_wait(0, WORD, 0x80, 2) is None
