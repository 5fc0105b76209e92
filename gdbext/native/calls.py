"""Which function a piece of x86-64 code calls, from its bytes and the tables of the dynamic linker.

A stripped library does not name its own functions, but whoever calls into it does so by an exported name: through a
slot of the global offset table, which a call that was made has filled in.

Source: Intel SDM volume 2 (CALL, JMP, LEA), x86-64 psABI 1.0 (procedure linkage table).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gdbext.errors import MemoryUnreadable
from gdbext.target.cache import read_u64
from gdbext.target.protocol import Memory

_ENDBR64 = b"\xf3\x0f\x1e\xfa"
#: Most bytes of one function that are searched for calls.
_MAX_FUNCTION = 1 << 16
#: How far before a call its arguments are looked for, in bytes.
_ARGUMENTS = 48
# call rel32; call [rip + disp32]
_CALL = re.compile(rb"\xe8|\xff\x15", re.DOTALL)
# lea rdi, [rip + disp32]; mov edi, imm32 (programs that are not position-independent)
_FIRST_ARGUMENT = re.compile(rb"(\x48\x8d\x3d|\xbf)(?=(.{4}))", re.DOTALL)


def called(memory: Memory, return_address: int) -> int | None:
    """The function that the call before a return address calls, through the linkage table if need be.

    :return: its address; None for a call through a register, and where no call can be read.
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
    """Where a stub of the procedure linkage table leads; any other address is returned as it is.

    :raises MemoryUnreadable: the code at the address, or the slot that it jumps through, is not readable.
    """
    code = memory.read(address, 16)
    at = 4 if code.startswith(_ENDBR64) else 0
    if code[at:at + 1] == b"\xf2":  # bnd
        at += 1
    if code[at:at + 2] != b"\xff\x25":  # jmp [rip + disp32]
        return address
    return read_u64(memory, address + at + 6 + int.from_bytes(code[at + 2:at + 6], "little", signed=True))


def iter_calls(memory: Memory, start: int, end: int) -> Iterator[tuple[int, int]]:
    """(return address, address called) of each direct call in a range of code, stubs not followed.

    Instructions are not decoded one by one: bytes that only look like a call come too, so a caller must know which
    addresses it looks for.

    :raises MemoryUnreadable: the code is not readable.
    """
    code = memory.read(start, min(end - start, _MAX_FUNCTION))
    for match in _CALL.finditer(code):
        after = match.end() + 4
        if after > len(code):
            return
        displacement = int.from_bytes(code[match.end():after], "little", signed=True)
        if code[match.start()] == 0xE8:
            yield start + after, start + after + displacement
        else:
            try:
                yield start + after, read_u64(memory, start + after + displacement)
            except MemoryUnreadable:
                continue


def first_arguments(memory: Memory, return_address: int) -> frozenset[int]:
    """Constants that the code just before a call puts into the register of the first argument.

    :return: empty where none is seen; more than one where the bytes allow several readings.
    """
    start = return_address - _ARGUMENTS
    try:
        code = memory.read(start, _ARGUMENTS)
    except MemoryUnreadable:
        return frozenset()
    found = set()
    for match in _FIRST_ARGUMENT.finditer(code):
        value = int.from_bytes(match[2], "little", signed=match[1] != b"\xbf")
        found.add(value if match[1] == b"\xbf" else start + match.end(1) + 4 + value)
    return frozenset(found)
