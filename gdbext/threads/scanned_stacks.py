"""Stacks of functions without frame descriptions, as musl's: the callers are found by their return addresses.

A word on the stack counts as a return address only if the call before it calls that library, and if the stack goes on
from there, by frame descriptions, to another call from the library: that of a thread's function, of `main`, or of a
function that the library calls back. Each call on the way must call the function of the frame inside.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from gdbext.arch.protocol import Architecture, Unwinder
from gdbext.inferior.cache import read_available
from gdbext.inferior.protocol import Memory, Module
from gdbext.record import record

#: How much of a stack is searched: the frames of the library's functions that block, in bytes.
_MAX_FRAMES = 2048
_WORD = 8


@record
class ScannedStacks:
    """Continues stacks that end in a module without frame descriptions."""

    memory: Memory
    cpu: Architecture
    unwinder: Unwinder
    module: Module

    def continued(self, frames: Sequence[tuple[int, int]], limit: int) -> list[tuple[int, int]]:
        """The frames with those that were found by return addresses; the same if none was found."""
        found = list(frames)
        while len(found) < limit and self._is_untabled(found[-1][0], len(found) > 1):
            more = self._search(found[-1][1], limit - len(found))
            if not more:
                break
            found += more
        return found

    def _search(self, sp: int, limit: int) -> list[tuple[int, int]]:
        """The frames from the first return address on that is certain."""
        data = read_available(self.memory, sp, _MAX_FRAMES)
        for index, (word,) in enumerate(struct.iter_unpack("<Q", data[:len(data) & -_WORD])):
            called = self.cpu.called(self.memory, word) if self._is_described(word) else None
            if called is None or not self._is_untabled(called, False):
                continue
            frames, _ = self.unwinder.walk({self.cpu.PROGRAM_COUNTER: word, self.cpu.STACK_POINTER:
                                            sp + _WORD * (index + 1)}, limit)
            if self._is_whole(frames):
                return frames
        return []

    def _is_whole(self, frames: Sequence[tuple[int, int]]) -> bool:
        """Whether frames lead from a call of the library back to it, and each call is that of the next function."""
        if not self._is_untabled(frames[-1][0], True):
            return False
        for (pc, _), (after, _) in zip(frames, frames[1:]):
            called, function = self.cpu.called(self.memory, after), self.unwinder.function_range(pc - 1)
            if called is not None and (function is None or function[0] != called):
                return False
        return True

    def _is_described(self, pc: int) -> bool:
        return self.unwinder.function_range(pc - 1) is not None

    def _is_untabled(self, pc: int, is_caller: bool) -> bool:
        """Whether a program counter is in the module, in code without a frame description."""
        inside = any(section.start <= pc < section.end for section in self.module.sections)
        return inside and self.unwinder.function_range(pc - is_caller) is None
