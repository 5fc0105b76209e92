"""Finds variables and members of known libraries in the code of short functions that use them.

Source: Arm ARM (DDI 0487) C6.2 (ADRP, ADD, LDR, MRS, B).
"""

from __future__ import annotations

from gdbext.arch.aarch64.words import LANDING, Constants, addition, branch, copy, is_return, load, words_of
from gdbext.inferior.cache import read_u64
from gdbext.inferior.protocol import Memory

_SIZE = 4
#: How much of a function's code is searched, in bytes.
_FIRST_CODE = 32
#: mrs x0, tpidr_el0
_THREAD_POINTER = 0xD53BD040


def returned_address(memory: Memory, function: int) -> int | None:
    """The constant address that a function returns, or that of the variable that it returns; None if it does more."""
    known = Constants(memory)
    for index, word in enumerate(words_of(memory.read(function, 5 * _SIZE))):
        if is_return(word):
            return known.slots.get(0, known.values.get(0))
        if word not in LANDING:
            known.step(word, function + _SIZE * index)
    return None


def members_behind_jump(memory: Memory, function: int) -> frozenset[int] | None:
    """Offsets in its first argument that the function uses to which this one only jumps; None if it does more."""
    words = [*words_of(memory.read(function, 2 * _SIZE))]
    at = function + _SIZE if words[0] in LANDING else function
    jump = branch(words[at != function], at)
    if jump is None or jump[1] or words[at != function] & 0xFC000000 != 0x14000000:
        return None
    same, offsets = {0}, set()
    for word in words_of(memory.read(jump[0], _FIRST_CODE)):
        copied, added, loaded = copy(word), addition(word), load(word)
        if copied is not None and copied[1] in same:
            same.add(copied[0])
            continue
        if added is not None and added[1] in same:
            offsets.add(added[2])
        elif loaded is not None and loaded[1] in same:
            offsets.add(loaded[2])
        same.discard(word & 31)
    return frozenset(offsets)


def loaded_thread_local(memory: Memory, function: int) -> tuple[int, int, int] | None:
    """Find the thread-local variable that a function loads first.

    :return: (distance from the thread pointer, offset in the variable, size in bytes); None if unknown.
    :raises MemoryUnreadable: the code, or the word with the distance, is not readable.
    """
    known = Constants(memory)
    pointers: set[int] = set()
    places: dict[int, int] = {}
    for index, word in enumerate(words_of(memory.read(function, _FIRST_CODE))):
        loaded, target = load(word), word & 31
        if loaded is not None and loaded[1] in places:
            distance = read_u64(memory, places[loaded[1]])
            return distance - (1 << 64) if distance >> 63 else distance, loaded[2], loaded[3]
        place = None
        if word & 0xFFE0FC00 == 0x8B000000:  # add of two registers
            first, second = word >> 5 & 31, word >> 16 & 31
            place = (known.slots.get(second) if first in pointers
                     else known.slots.get(first) if second in pointers else None)
        known.step(word, function + _SIZE * index)
        pointers.discard(target)
        places.pop(target, None)
        if word & ~31 == _THREAD_POINTER:
            pointers.add(target)
        elif place is not None:
            places[target] = place
    return None
