"""Finds variables and members of known libraries in the code of short functions that use them.

Source: Intel SDM volume 2 (MOV, LEA, JMP).
"""

from __future__ import annotations

import re

from gdbext.inferior.cache import read_u64
from gdbext.inferior.protocol import Memory

# [endbr64;] lea rax, [rip + disp32] (an address), or mov rax, [rip + disp32]; ret (a variable); jmp rel32
_RETURNED = re.compile(rb"(?:\xf3\x0f\x1e\xfa)?\x48(?:\x8d\x05(.{4})|\x8b\x05(.{4})\xc3)", re.DOTALL)
_JUMP = re.compile(rb"(?:\xf3\x0f\x1e\xfa)?\xe9(.{4})", re.DOTALL)
# mov r, [rdi + disp8] and lea r, [rdi + disp8]
_DISPLACEMENT = re.compile(rb"[\x8b\x8d][\x47\x4f\x57\x5f\x67\x6f\x77\x7f](.)", re.DOTALL)
# [endbr64;] mov r, [rip + disp32]; mov r', fs:[r + disp], where the first load gets the distance of the variable from
# the thread pointer. The registers are those without a REX prefix.
_THREAD_LOCAL = re.compile(rb"(?:\xf3\x0f\x1e\xfa)?\x48\x8b([\x05\x0d\x15\x1d\x35\x3d])(.{4})\x64(\x48?)\x8b(.)(.{4})",
                           re.DOTALL)
#: How much of a function's code is searched, in bytes.
_FIRST_CODE = 32


def returned_address(memory: Memory, function: int) -> int | None:
    """The constant address that a function returns, or that of the variable that it returns; None if it does more."""
    match = _RETURNED.match(memory.read(function, 16))
    if match is None:
        return None
    group = 1 if match[1] else 2
    return function + match.end(group) + int.from_bytes(match[group], "little", signed=True)


def members_behind_jump(memory: Memory, function: int) -> frozenset[int] | None:
    """Offsets in its first argument that the function uses to which this one only jumps; None if it does more."""
    match = _JUMP.match(memory.read(function, 9))
    if match is None:
        return None
    target = function + match.end() + int.from_bytes(match[1], "little", signed=True)
    return frozenset(found[0] for found in _DISPLACEMENT.findall(memory.read(target, _FIRST_CODE)))


def loaded_thread_local(memory: Memory, function: int) -> tuple[int, int, int] | None:
    """Find the thread-local variable that a function loads first.

    :return: (distance from the thread pointer, offset in the variable, size in bytes); None if unknown.
    :raises MemoryUnreadable: the code, or the word with the distance, is not readable.
    """
    match = _THREAD_LOCAL.match(memory.read(function, 24))
    if match is None:
        return None
    base, operand = match[1][0] >> 3, match[4][0]
    if operand & 7 != base or operand >> 6 not in (0, 1, 2):
        return None
    inside = int.from_bytes(match[5][:(0, 1, 4)[operand >> 6]], "little", signed=True)
    slot = function + match.end(2) + int.from_bytes(match[2], "little", signed=True)
    return read_u64(memory, slot) - (1 << 64), inside, 8 if match[3] else 4
