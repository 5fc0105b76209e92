from __future__ import annotations

import struct

import pytest

from gdbext.arch.x86_64.calls import (
    behind_stub,
    called,
    iter_calls,
    iter_loads,
    may_exchange,
    may_return,
    unresolved_slot,
)
from gdbext.errors import MemoryUnreadable
from tests.support.fake_memory import FakeMemory

CODE, STUB, SLOT, FUNCTION = 0x40_1000, 0x40_0100, 0x40_4010, 0x7F00_0001_2340
NOP = b"\x90"


def rel(after: int, target: int) -> bytes:
    return struct.pack("<i", target - after)


def memory_with(code: bytes, stub: bytes = b"") -> FakeMemory:
    memory = FakeMemory({CODE - 0x40: NOP * 0x40 + code + NOP * 0x40, STUB: stub + NOP * 16, SLOT: bytes(8)})
    memory.u64(SLOT, FUNCTION)
    memory.map(FUNCTION, b"\xf3\x0f\x1e\xfa\x55" + NOP * 16)
    return memory


def call(target: int) -> bytes:
    return b"\xe8" + rel(CODE + 5, target)


@pytest.mark.parametrize("prefix", [b"", b"\xf3\x0f\x1e\xfa", b"\xf3\x0f\x1e\xfa\xf2", b"\xf2"],
                         ids=["plain", "endbr64", "endbr64-bnd", "bnd"])
def test_called_through_a_stub_returns_its_target(prefix: bytes) -> None:
    stub = prefix + b"\xff\x25" + rel(STUB + len(prefix) + 6, SLOT)
    assert called(memory_with(call(STUB), stub), CODE + 5) == FUNCTION


def test_called_directly_returns_the_function() -> None:
    memory = memory_with(call(CODE + 0x20))
    assert called(memory, CODE + 5) == CODE + 0x20


def test_called_through_a_slot_returns_its_value() -> None:
    assert called(memory_with(b"\xff\x15" + rel(CODE + 6, SLOT)), CODE + 6) == FUNCTION


@pytest.mark.parametrize("code", [b"\xff\xd0", b"\x41\xff\xd4", b"\x48\x89\xc7"], ids=["rax", "r12", "no call"])
def test_called_after_other_code_returns_none(code: bytes) -> None:
    assert called(memory_with(code), CODE + len(code)) is None


def test_called_when_unreadable_returns_none() -> None:
    assert called(FakeMemory(), CODE) is None
    assert called(memory_with(b"\xff\x15" + rel(CODE + 6, 0x10)), CODE + 6) is None
    with pytest.raises(MemoryUnreadable):
        behind_stub(FakeMemory(), STUB)


def test_iter_calls_finds_direct_calls() -> None:
    code = NOP + b"\xe8" + rel(CODE + 6, STUB) + b"\xff\x15" + rel(CODE + 12, SLOT) + b"\xc3"
    memory = memory_with(code)
    assert list(iter_calls(memory, CODE, CODE + len(code))) == [(CODE + 6, STUB), (CODE + 12, FUNCTION)]
    assert list(iter_calls(memory, CODE, CODE + 5)) == [], "the call is cut off"
    with pytest.raises(MemoryUnreadable):
        list(iter_calls(FakeMemory(), CODE, CODE + 5))


def test_iter_loads_finds_slots_that_registers_are_loaded_from() -> None:
    code = b"\x48\x8b\x2d" + rel(CODE + 7, SLOT) + b"\x4c\x8b\x25" + rel(CODE + 14, SLOT + 8)
    assert list(iter_loads(code, CODE)) == [SLOT, SLOT + 8]
    assert list(iter_loads(b"\x48\x8d\x2d" + rel(CODE + 7, SLOT), CODE)) == [], "lea loads nothing"


@pytest.mark.parametrize(("code", "index"), [
    (b"\x68\x05\0\0\0\xe9\0\0\0\0", 5), (b"\xf3\x0f\x1e\xfa\x68\x07\0\0\0\xf2\xe9\0\0\0\0", 7),
    (b"\x68\x05\0\0\0\xc3\0\0\0\0", None), (b"\xff\x25\0\0\0\0", None), (b"\x55\x48\x89\xe5", None)])
def test_unresolved_slot(code: bytes, index: int | None) -> None:
    assert unresolved_slot(FakeMemory({0x1000: code + bytes(16)}), 0x1000) == index


@pytest.mark.parametrize(("code", "may"), [
    (b"\x87\x07", True), (b"\x86\x0b", True), (b"\x48\x87\x45\xf8", True), (b"\xf0\x0f\xb1\x0f", True),
    (b"\xf0\x0f\xb0\x0f", True), (b"\x87\xc3", False), (NOP + b"\x48\x89\xc7", False)])
def test_may_exchange(code: bytes, may: bool) -> None:
    assert may_exchange(code, computes=False) == may


@pytest.mark.parametrize("code", [
    b"\xf0\x0f\xc1\x0f", b"\xf0\xff\x0f", b"\xf0\x48\xff\x0f", b"\xf0\x83\x2f\x01", b"\xf0\x01\x37",
    b"\xf0\x66\x09\x37", b"\xf0\x0f\xba\x2f\x1f"])
def test_instruction_that_computes_the_new_value_may_exchange(code: bytes) -> None:
    assert may_exchange(code, computes=True)
    assert not may_exchange(code, computes=False)
    assert not may_exchange(code[1:], computes=True)


@pytest.mark.parametrize(("code", "may"), [(b"\xc3", True), (NOP + b"\xc2\x08\0", True), (b"\x0f\x0b", False)])
def test_may_return(code: bytes, may: bool) -> None:
    assert may_return(code) == may
