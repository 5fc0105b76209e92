"""Finds the functions that arm64 code calls, from its instructions and the tables of the dynamic linker.

Source: Arm ARM (DDI 0487) C6.2, AAELF64 2023Q3 (procedure linkage table).
"""

from __future__ import annotations

from collections.abc import Iterator

from gdbext.arch.aarch64.words import LANDING, Constants, branch, is_call, is_jump_to_register, is_return, words_of
from gdbext.errors import GdbextError, MemoryUnreadable
from gdbext.inferior.cache import read_u64
from gdbext.inferior.protocol import Memory

_SIZE = 4
#: Most bytes of one function that are searched for calls.
_MAX_FUNCTION = 1 << 16
#: How far before a call the code loads its arguments, in bytes.
_MAX_CODE = 1 << 14
#: Most instructions of a stub, without a landing pad.
_STUB = 5
_ARGUMENTS = 6


def called(memory: Memory, return_address: int) -> int | None:
    """The function that the call before a return address calls, also through the linkage table.

    :return: its address; None for a call through a register, and if the code is not a call or not readable.
    """
    try:
        at = return_address - _SIZE
        word = int.from_bytes(memory.read(at, _SIZE), "little")
        found = branch(word, at)
        return behind_stub(memory, found[0]) if found is not None and found[1] else None
    except MemoryUnreadable:
        return None


def is_after_call(memory: Memory, address: int) -> bool:
    """Whether the instruction before an address is a call."""
    try:
        return is_call(int.from_bytes(memory.read(address - _SIZE, _SIZE), "little"))
    except MemoryUnreadable:
        return False


def behind_stub(memory: Memory, address: int) -> int:
    """The target of a stub of the procedure linkage table; any other address is returned unchanged.

    A stub: adrp x16; ldr x17, [x16, #offset]; add x16, x16, #offset; br x17. An instruction that authenticates x17 may
    be before the branch, and a landing pad before the first.

    :raises MemoryUnreadable: the code at the address, or the slot that it jumps through, is not readable.
    """
    known = Constants(memory)
    slot = None
    start = 0
    for index, word in enumerate(words_of(memory.read(address, 4 * (_STUB + 1)))):
        if index == 0 and word in LANDING:
            start = 1
            continue
        if is_jump_to_register(word):
            return read_u64(memory, slot) if slot is not None and word >> 5 & 31 == 17 else address
        if index == start and (word & 0x9F00001F) != 0x90000010:
            return address
        found = known.step(word, address + _SIZE * index)
        slot = found if found is not None and word & 31 == 17 else slot
    return address


def unresolved_slot(memory: Memory, address: int) -> int | None:
    """The index of the relocation that will fill a stub's slot: unknown, all stubs lead to the same code first."""
    return None


def iter_branches(code: bytes, start: int) -> Iterator[tuple[int, int, bool, bool]]:
    """(next address, address, whether that is a slot with the target, whether it is a call) of each call and jump.

    :param start: the address of the code.
    """
    for index, word in enumerate(words_of(code)):
        at = start + _SIZE * index
        found = branch(word, at)
        if found is not None:
            yield at + _SIZE, found[0], False, found[1]


def iter_loads(code: bytes, start: int) -> Iterator[int]:
    """The constant addresses from which code loads whole registers, such as slots of the linkage table.

    :param start: the address of the code.
    """
    known = Constants(_NoMemory())
    for index, word in enumerate(words_of(code)):
        slot = known.step(word, start + _SIZE * index)
        if slot is not None:
            yield slot


class _NoMemory:
    """No memory is readable."""

    def read(self, address: int, size: int) -> bytes:
        raise MemoryUnreadable(address, size)


def may_exchange(code: bytes, computes: bool) -> bool:
    """Whether code may change memory atomically: always, since helpers that it calls may do it for it."""
    return True


def may_return(code: bytes) -> bool:
    """Whether code has an instruction that returns."""
    return any(is_return(word) for word in words_of(code))


def iter_calls(memory: Memory, start: int, end: int) -> Iterator[tuple[int, int]]:
    """(return address, address called) of each direct call in a range of code, stubs not followed.

    :raises MemoryUnreadable: the code is not readable.
    """
    for after, target, _, is_a_call in iter_branches(memory.read(start, min(end - start, _MAX_FUNCTION)), start):
        if is_a_call:
            yield after, target


def constant_arguments(memory: Memory, start: int, call: int) -> frozenset[int]:
    """The constants that may be the first argument of a call.

    :param start: the start of the function that makes the call.
    :param call: the call's return address.
    :return: empty if none is found. Jumps are not followed.
    :raises MemoryUnreadable: the code is not readable.
    """
    begin = max(start, call - _MAX_CODE)
    known = Constants(memory)
    for index, word in enumerate(words_of(memory.read(begin, call - _SIZE - begin))):
        known.step(word, begin + _SIZE * index)
    try:
        found = known.value(0)
    except GdbextError:
        return frozenset()
    return frozenset((found,)) if found is not None else frozenset()


def loaded_arguments(memory: Memory, start: int, end: int) -> list[tuple[int, int]]:
    """(index of the argument, address) of each constant that code loads into a register of arguments, in order.

    :raises MemoryUnreadable: the code is not readable.
    """
    known, found = Constants(memory), []
    for index, word in enumerate(words_of(memory.read(start, end - start))):
        known.step(word, start + _SIZE * index)
        register = word & 31
        if register < _ARGUMENTS and register in known.values and register not in known.slots:
            found.append((register, known.values[register]))
    return found
