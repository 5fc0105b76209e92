"""Finds the functions that x86-64 code calls, from its bytes and the tables of the dynamic linker.

A stripped library does not name its own functions, but its callers use exported names: they call through a slot of
the global offset table, which the first call fills in.

Source: Intel SDM volume 2 (CALL, CMPXCHG, JMP, LEA, XCHG), x86-64 psABI 1.0 (procedure linkage table).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from gdbext.errors import GdbextError, MemoryUnreadable
from gdbext.inferior.cache import read_u64
from gdbext.inferior.protocol import Memory

_ENDBR64 = b"\xf3\x0f\x1e\xfa"
#: Most bytes of one function that are searched for calls.
_MAX_FUNCTION = 1 << 16
# call rel32, jmp rel32, jcc rel32; call and jmp through a slot at an address relative to rip. An assertion, so that a
# match that begins inside another one is found too.
_BRANCH = re.compile(rb"(?=([\xe8\xe9]|\x0f[\x80-\x8f]|\xff[\x15\x25])(.{4}))", re.DOTALL)
# lea r, [rip + disp32] (an address) or mov r, [rip + disp32] (a slot that holds it); mov r, imm32
_LOAD_CONSTANT = re.compile(rb"(?=([\x48\x4c])([\x8d\x8b][\x05\x0d\x15\x1d\x25\x2d\x35\x3d])(.{4})"
                            rb"|(?<![\x41\x48\x49])(\x41?)([\xb8-\xbf])(.{4}))", re.DOTALL)
# xchg r, [r + ...]; cmpxchg [r + ...], r
_EXCHANGE = re.compile(rb"[\x86\x87][^\xc0-\xff]|\x0f[\xb0\xb1]", re.DOTALL)
# lock; operand size, REX; xadd [r + ...], r, or arithmetic with r or a constant
_COMPUTE = re.compile(rb"\xf0\x66?[\x40-\x4f]?(?:\x0f[\xab\xb3\xba\xbb\xc0\xc1]"
                      rb"|[\x00-\x31\x80-\x83\xf6\xf7\xfe\xff])", re.DOTALL)
# ret; ret imm16. Nothing else returns to a caller
_RETURN = re.compile(rb"[\xc2\xc3]")
# mov rdi, r
_MOVE_TO_RDI = re.compile(rb"([\x48\x4c])\x89([\xc7\xcf\xd7\xdf\xe7\xef\xf7])", re.DOTALL)
# numbers of the registers of arguments
_ARGUMENTS = (7, 6, 2, 1, 8, 9)
_RDI = _ARGUMENTS[0]
#: How far before a call the code sets its argument, and loads a constant for several calls, in bytes.
_NEAR_CALL, _MAX_CODE = 48, 1 << 14


def called(memory: Memory, return_address: int) -> int | None:
    """The function that the call before a return address calls, also through the linkage table.

    :return: its address; None for a call through a register, and if the code is not a call or not readable.
    """
    try:
        code = memory.read(return_address - 6, 6)
        if code[:2] == b"\xff\x15":
            return read_u64(memory, return_address + int.from_bytes(code[2:], "little", signed=True))
        if code[1] == 0xE8:
            return behind_stub(memory, return_address + int.from_bytes(code[2:], "little", signed=True))
    except MemoryUnreadable:
        pass
    return None


def behind_stub(memory: Memory, address: int) -> int:
    """The target of a stub of the procedure linkage table; any other address is returned unchanged.

    :raises MemoryUnreadable: the code at the address, or the slot that it jumps through, is not readable.
    """
    code = memory.read(address, 16)
    at = 4 if code.startswith(_ENDBR64) else 0
    if code[at:at + 1] == b"\xf2":  # bnd
        at += 1
    if code[at:at + 2] != b"\xff\x25":  # jmp [rip + disp32]
        return address
    return read_u64(memory, address + at + 6 + int.from_bytes(code[at + 2:at + 6], "little", signed=True))


def unresolved_slot(memory: Memory, address: int) -> int | None:
    """The index of the relocation that will fill the slot of a stub, whose function was never called; else None.

    :param address: to which the stub jumps until then: code that pushes the index for the dynamic linker.
    :raises MemoryUnreadable: the code is not readable.
    """
    code = memory.read(address, 16)
    at = 4 if code.startswith(_ENDBR64) else 0
    is_push = code[at] == 0x68 and code[at + 5:at + 6] in (b"\xe9", b"\xf2")  # push imm32; (bnd) jmp rel32
    return int.from_bytes(code[at + 1:at + 5], "little") if is_push else None


def iter_branches(code: bytes, start: int) -> Iterator[tuple[int, int, bool, bool]]:
    """(next address, address, whether that is a slot with the target, whether it is a call) of each call and jump.

    :param start: the address of the code.
    """
    for match in _BRANCH.finditer(code):
        after = start + match.end(2)
        opcode = match[1]
        yield (after, after + int.from_bytes(match[2], "little", signed=True), opcode[0] == 0xFF,
               opcode in (b"\xe8", b"\xff\x15"))


def iter_loads(code: bytes, start: int) -> Iterator[int]:
    """The addresses relative to rip from which code loads whole registers, such as slots of the linkage table.

    :param start: the address of the code.
    """
    for match in _LOAD_CONSTANT.finditer(code):
        if match[2] is not None and match[2][0] == 0x8B:
            yield start + match.end(3) + int.from_bytes(match[3], "little", signed=True)


def may_exchange(code: bytes, computes: bool) -> bool:
    """Whether code may have an instruction that exchanges memory, as its bytes that are not decoded say.

    :param computes: also one that computes the new value from the old one.
    """
    return _EXCHANGE.search(code) is not None or computes and _COMPUTE.search(code) is not None


def may_return(code: bytes) -> bool:
    """Whether code may have an instruction that returns, as its bytes that are not decoded say."""
    return _RETURN.search(code) is not None


def iter_calls(memory: Memory, start: int, end: int) -> Iterator[tuple[int, int]]:
    """(return address, address called) of each direct call in a range of code, stubs not followed.

    Instructions are not decoded: bytes that only look like a call are included, so a caller must know the addresses
    that it searches for.

    :raises MemoryUnreadable: the code is not readable.
    """
    for after, target, is_slot, is_call in iter_branches(memory.read(start, min(end - start, _MAX_FUNCTION)), start):
        if is_call:
            try:
                yield after, read_u64(memory, target) if is_slot else target
            except MemoryUnreadable:
                continue


class _Load(NamedTuple):
    """An instruction that loads a constant into a register, with its offsets in a piece of code.

    With `is_slot` the constant is stored at address `value`.
    """

    start: int
    end: int
    register: int
    value: int
    is_slot: bool


def constant_arguments(memory: Memory, start: int, call: int) -> frozenset[int]:
    """The constants that may be the first argument of a call.

    A compiler loads an address that it needs for several calls into another register once and moves it from there.

    :param start: the start of the function that makes the call.
    :param call: the call's return address.
    :return: empty if no constant is found; several if the bytes are ambiguous, since instructions are not decoded.
    :raises MemoryUnreadable: the code is not readable.
    """
    begin = max(start, call - _MAX_CODE)
    code = memory.read(begin, call - begin)
    near = len(code) - _NEAR_CALL
    loads = [_load(begin, match) for match in _LOAD_CONSTANT.finditer(code)]
    chosen = [load for load in loads if load.register == _RDI and load.start >= near]
    moves = list(_MOVE_TO_RDI.finditer(code, max(near, 0)))
    if moves and (not chosen or chosen[-1].start < moves[-1].start()):
        register = moves[-1][1][0] << 1 & 8 | moves[-1][2][0] >> 3 & 7
        chosen = [load for load in loads if load.register == register and load.end <= moves[-1].start()]
    found = set()
    for load in chosen:
        if load.end > chosen[-1].start:  # the last one, and those that would overlap it
            try:
                found.add(read_u64(memory, load.value) if load.is_slot else load.value)
            except GdbextError:
                continue
    return frozenset(found)


def loaded_arguments(memory: Memory, start: int, end: int) -> list[tuple[int, int]]:
    """(index of the argument, address) of each constant that code loads into a register of arguments, in order.

    :raises MemoryUnreadable: the code is not readable.
    """
    code = memory.read(start, end - start)
    loads = [_load(start, match) for match in _LOAD_CONSTANT.finditer(code)]
    return [(_ARGUMENTS.index(load.register), load.value) for load in loads
            if not load.is_slot and load.register in _ARGUMENTS]


def _load(begin: int, match: re.Match[bytes]) -> _Load:
    if match[5] is not None:
        return _Load(match.start(), match.end(6), match[5][0] & 7 | (8 if match[4] else 0),
                     int.from_bytes(match[6], "little"), False)
    value = begin + match.end(3) + int.from_bytes(match[3], "little", signed=True)
    return _Load(match.start(), match.end(3), match[1][0] << 1 & 8 | match[2][1] >> 3, value, match[2][0] == 0x8B)
