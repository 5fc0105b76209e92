"""musl's thread descriptor, `struct pthread`: its place, the thread's TID, and the word that a join waits on.

Source: musl 1.2.3 src/internal/pthread_impl.h, arch/x86_64/pthread_arch.h, arch/aarch64/pthread_arch.h; musl 1.1.24.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Mapping

from gdbext.arch.protocol import Architecture
from gdbext.errors import if_unreadable
from gdbext.inferior.address_space import AddressSpace
from gdbext.inferior.cache import read_available, read_u32, read_u64
from gdbext.inferior.protocol import Memory, Module

#: Where `tid` may be: up to 1.2.1 behind two canaries; behind one; and on processors with thread-local storage above
#: the thread pointer, where the canary and the vector of that storage are at the end.
_BELOW, _ABOVE = (48, 56), (32, 56)
#: `detach_state` is behind `tid` and `errno_val`.
_STATE = 8
_EXITING, _JOINABLE = 1, 2
#: The sizes of ``struct pthread`` that are tried where the thread pointer is its end.
_SIZES = range(128, 320, 8)
_MAX_PID = 1 << 22
#: Where the end of a stack's mapping is searched, which has thread-local memory and the descriptor; and the most data.
_TAIL, _MAX_DATA = 1 << 16, 1 << 20


class Descriptors:
    """The descriptors of the threads of a target.

    :param module: musl, or the program that it is linked into; its data has the first thread's descriptor.
    """

    def __init__(self, memory: Memory, cpu: Architecture, module: Module, space: AddressSpace) -> None:
        self._memory, self._cpu, self._module, self._space = memory, cpu, module, space
        # `prev` and `next` are behind the pointer to itself, and on some processors behind another pointer
        self._links = (8, 16) if cpu.DESCRIPTOR_IS_BELOW else (16, 24)

    def pthread_self(self, registers: Mapping[str, int]) -> int:
        """The descriptor of a thread, by its thread pointer or the end of its stack's mapping; 0 if not found."""
        pointer = registers.get(self._cpu.THREAD_POINTER, 0)
        if pointer:
            places = [pointer - size for size in _SIZES] if self._cpu.DESCRIPTOR_IS_BELOW else [pointer]
            return next(filter(self._is_descriptor, places), 0)
        region = self._space.find(registers[self._cpu.STACK_POINTER])
        if region is None:
            return 0
        if region.path == "[stack]":
            return next((at for section in self._module.sections if section.name in (".data", ".bss")
                         for at in self._search(section.start, section.end)), 0)
        return next(self._search(max(region.end - _TAIL, registers[self._cpu.STACK_POINTER]), region.end), 0)

    def _search(self, start: int, end: int) -> Iterator[int]:
        """The descriptors in a piece of memory, those at its end first."""
        start = (start + 7) & ~7
        data = read_available(self._memory, start, min(end - start, _MAX_DATA))
        for index in reversed(range(len(data) // 8)):
            at = start + 8 * index
            if int.from_bytes(data[8 * index:8 * index + 8], "little") == at and self._is_descriptor(at):
                yield at

    @if_unreadable(False)
    def _is_descriptor(self, at: int) -> bool:
        """Whether a pointer to itself is in the list of all threads (before musl 1.1.23 there is none)."""
        previous, following = self._links
        return (read_u64(self._memory, at) == at
                and read_u64(self._memory, read_u64(self._memory, at + following) + previous) == at
                and read_u64(self._memory, read_u64(self._memory, at + previous) + following) == at)

    @if_unreadable(None)
    def read_tid(self, pthread: int, lwp: int) -> int | None:
        """The TID in a descriptor, which owner fields contain; None if it is not found.

        :param pthread: ``struct pthread *``.
        :param lwp: the thread's number for the debugger: the TID, unless the process has a namespace of its own.
        """
        places = _ABOVE if self._cpu.DESCRIPTOR_IS_BELOW else _BELOW
        found = [struct.unpack("<i", self._memory.read(pthread + place, 4))[0] for place in places]
        if lwp in found:
            return lwp
        return next((tid for tid in found if 0 < tid < _MAX_PID), None)


@if_unreadable(None)
def pthread_of_join(memory: Memory, cpu: Architecture, word: int, expected: int,
                    descriptors: Collection[int]) -> int | None:
    """The descriptor of the thread that a join waits for, by the futex word: ``detach_state``.

    :param expected: the value that the word had.
    """
    if expected not in (_EXITING, _JOINABLE) or read_u32(memory, word) not in (0, _EXITING, _JOINABLE):
        return None
    places = _ABOVE if cpu.DESCRIPTOR_IS_BELOW else _BELOW
    return next((word - place - _STATE for place in places if word - place - _STATE in descriptors), None)
