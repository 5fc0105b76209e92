"""The exception table of a function: the landing pad to which an exception out of a call goes.

A landing pad runs the destructors of the objects that exist during the call (a cleanup), and then the handlers of the
function.

Source: GCC 12 gcc/except.cc (output_one_function_exception_table), libgcc/unwind-c.c and
libstdc++-v3/libsupc++/eh_personality.cc; LLVM and rustc write the same format.
"""

from __future__ import annotations

from collections.abc import Iterator

from gdbext.elf.dwarf_cursor import OMITTED, DwarfCursor
from gdbext.errors import CorruptStructure, MemoryUnreadable
from gdbext.inferior.cache import PAGE
from gdbext.inferior.protocol import Memory
from gdbext.record import record

#: The largest part before the table, and the largest table, in bytes; the most actions of one call.
_HEAD, _MAX_TABLE, _MAX_ACTIONS = 32, 1 << 16, 64
#: The largest action: two LEB128 numbers.
_ACTION = 20


@record
class LandingPad:
    """The code to which an exception out of a call goes; `cleans_up`: it has more to do than to handle exceptions.

    All calls between `start` and `end` that may throw have this landing pad. There may be others between them.
    """

    address: int
    start: int
    end: int
    cleans_up: bool


def find_landing_pad(memory: Memory, table: int, function: int, pc: int) -> LandingPad | None:
    """The landing pad of a call; None if an exception out of it ends the program, or leaves the function at once.

    :param table: address of the function's table in ``.gcc_except_table``.
    :param function: where the frame description says that the function starts.
    :param pc: the address of any byte of the call.
    :raises MemoryUnreadable: the table is not mapped, or not in the core.
    :raises CorruptStructure: it is damaged.
    """
    return next((pad for pad in iter_landing_pads(memory, table, function) if pad.start <= pc < pad.end), None)


def may_leave(memory: Memory, table: int, function: int, pc: int) -> bool:
    """Whether an exception out of a call may leave the function, or is handled there; see `find_landing_pad`.

    A call that the table does not have is in a part of the function that is ``noexcept``: the program ends there.
    """
    return any(start <= pc < end for start, end, _, _, _ in _iter_calls(memory, table, function))


def iter_landing_pads(memory: Memory, table: int, function: int) -> Iterator[LandingPad]:
    """The landing pads of a function, in the order of the calls; see `find_landing_pad`."""
    for start, end, pad, actions, action in _iter_calls(memory, table, function):
        if pad:
            yield LandingPad(pad, start, end, _cleans_up(memory, actions, action))


def _iter_calls(memory: Memory, table: int, function: int) -> Iterator[tuple[int, int, int, int, int]]:
    """The calls of a table: start, end, landing pad (0: none), the address of the actions, and the first action."""
    head = DwarfCursor(_read_up_to(memory, table, _HEAD), table)
    encoding = head.unsigned(1)
    base = function if encoding == OMITTED else head.encoded(encoding, 0)
    if head.unsigned(1) != OMITTED:
        head.uleb()  # to the table of types
    encoding = head.unsigned(1)
    size = head.uleb()
    if size > _MAX_TABLE:
        raise CorruptStructure(table, "an exception table is too large")
    start = table + head.at
    calls = DwarfCursor(memory.read(start, size), start)
    while calls.at < size:
        first, length, pad = (calls.encoded(encoding, 0) for _ in range(3))
        action = calls.uleb()
        yield (function + first, function + first + length, base + pad & 0xFFFFFFFFFFFFFFFF if pad else 0, start + size,
               action)


def _cleans_up(memory: Memory, actions: int, action: int) -> bool:
    """Whether the actions of a call include a cleanup, whose filter is 0; a call without actions has one."""
    if not action:
        return True
    at = actions + action - 1
    for _ in range(_MAX_ACTIONS):
        cursor = DwarfCursor(_read_up_to(memory, at, _ACTION), at)
        if cursor.sleb() == 0:
            return True
        here = at + cursor.at
        distance = cursor.sleb()
        if not distance:
            return False
        at = here + distance
    raise CorruptStructure(actions, "the actions of a call do not end")


def _read_up_to(memory: Memory, address: int, size: int) -> bytes:
    """Some bytes, or those up to the end of the page if the next one is not readable."""
    try:
        return memory.read(address, size)
    except MemoryUnreadable:
        return memory.read(address, min(size, PAGE - address % PAGE))
