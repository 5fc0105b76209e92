"""Finds the frames that have an address near that of a lock, in a register or in their part of the stack."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from gdbext.inferior.cache import read_available
from gdbext.inferior.protocol import Memory
from gdbext.proofs.stack import MAX_STACK_SCAN, OUTERMOST

#: Two addresses are near each other if they differ by less than this. A power of 256.
_DISTANCE = 1 << 16


def frames_near(memory: Memory, native: Sequence[tuple[int, int]],
                registers_of: Callable[[int], Mapping[str, int] | None], is_code: Callable[[int], bool],
                address: int) -> Collection[int]:
    """The indices of the frames that have an address near that of a lock.

    Code that uses a lock outside of the program's files has the lock's address, or that of an object around it. The
    start of an object of more than 64 KiB may be too far away.

    :param native: (program counter, stack pointer) of each frame, innermost first.
    :param registers_of: the registers of the frame with an index, as its call preserves them; None if some are unknown.
    :param is_code: whether an address is one of code, such as that to which a call returns.
    :param address: of the lock.
    """
    pointers = [sp for _, sp in native]
    if not pointers:
        return ()
    if any(outer < inner for inner, outer in zip(pointers, pointers[1:])):
        return range(len(native))  # they are on several stacks
    low = pointers[0] & ~7
    high = min(pointers[-1] + OUTERMOST, low + MAX_STACK_SCAN)
    # the end of the outermost frame is not known
    found = {index for index in range(len(native)) if pointers[index] + OUTERMOST >= high}
    first = len(native)  # the innermost frame whose registers may have been saved in such a word
    for place, word in _words_near(read_available(memory, low, high - low), address):
        if is_code(word):
            continue
        # a frame's arguments are above it, in its caller's part
        found.update(range(max(bisect_right(pointers, low + place - OUTERMOST) - 1, 0),
                           bisect_right(pointers, low + place)))
        first = min(first, bisect_right(pointers, low + place))
    is_open = True  # whether a register may have such an address that no word of the stack shows
    for index in range(len(native)):
        if is_open or index >= first:
            registers = registers_of(index)
            if registers is None or any(abs(value - address) < _DISTANCE and not is_code(value)
                                        for value in registers.values()):
                found.add(index)
            else:
                is_open = False
    return found


def _words_near(data: bytes, address: int) -> Iterator[tuple[int, int]]:
    """The words that are near an address, each with its offset."""
    skipped = (_DISTANCE.bit_length() - 1) // 8  # bytes
    around = address // _DISTANCE
    for high in range(max(around - 1, 0), around + 2):
        pattern = high.to_bytes(9 - skipped, "little")[:8 - skipped]
        at = data.find(pattern)
        while at >= 0:
            if at % 8 == skipped:
                yield at - skipped, int.from_bytes(data[at - skipped:at - skipped + 8], "little")
            at = data.find(pattern, at + 1)
