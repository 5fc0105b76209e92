"""Finds threads that provably hold a lock without a recorded owner, by the machine code of their frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gdbext.elf.dynamic import find_dynamic_symbol
from gdbext.errors import GdbextError
from gdbext.holders.lock_flow import CONSTANT, LockFlow, State, Value
from gdbext.inferior.cache import read_u64
from gdbext.inferior.protocol import Module, Target
from gdbext.threads.code import Code
from gdbext.threads.threads import SeenThread

#: Functions that acquire the lock that their first argument points to, and functions that release it. Code may call
#: these for locks of several kinds. The lock in question is a rwlock, which no other function releases.
ACQUIRING = ("pthread_rwlock_rdlock", "pthread_rwlock_wrlock", "pthread_mutex_lock")
RELEASING = ("pthread_rwlock_unlock",)
#: Functions that a file must call to have read locks.
_READING = ("pthread_rwlock_rdlock",)
#: Most frames of one thread that are examined, and the largest table of a module's links, in bytes.
_MAX_FRAMES, _MAX_LINKS = 256, 1 << 20


class ProvenReaders:
    """Finds threads that provably hold a read lock.

    A frame proves it if on every path to its call the code acquires the lock and does not release it afterwards, and
    the address of the lock can be recomputed: from constants, or from registers and stack slots that still contain it.
    """

    def __init__(self, target: Target, code: Code, library: Sequence[Module]) -> None:
        self._target = target
        self._code = code
        self._library = library
        self._flow: LockFlow | None = None
        self._links: dict[str, bool] = {}
        self._reading: frozenset[int] = frozenset()

    def holds(self, seen: SeenThread, address: int) -> bool:
        """Whether a frame of a thread proves that the thread holds the lock at an address."""
        native = seen.native(self._code)
        return any(self._frame_holds(seen, index, native[index], address)
                   for index in range(min(len(native), _MAX_FRAMES)))

    def _frame_holds(self, seen: SeenThread, index: int, frame: tuple[int, int], address: int) -> bool:
        module = self._code.module(frame[0])
        if module is None or not self._may_read(module):
            return False
        flow = self._flow
        assert flow is not None
        state = flow.held_at(frame[0] - 1 if index else frame[0])
        if state is None or not state.held:
            return False
        registers = self._registers(seen, index, frame)
        return any(address not in released and self._recompute(lock, state, registers) == address
                   for lock, released in state.held.items())

    def _may_read(self, module: Module) -> bool:
        """Whether the functions of a file can acquire read locks: the file is linked with a function that does."""
        if self._flow is None:
            found = {name: self._addresses(name) for name in (*ACQUIRING, *RELEASING)}
            self._flow = LockFlow(self._target, self._code, [each for name in ACQUIRING for each in found[name]],
                                  [each for name in RELEASING for each in found[name]])
            self._reading = frozenset(each for name in _READING for each in found[name])
        known = self._links.get(module.path)
        if known is None:
            known = self._links[module.path] = (not any(module is part for part in self._library)
                                                and not self._reading.isdisjoint(self._linked(module)))
        return known

    def _addresses(self, name: str) -> list[int]:
        found = [find_dynamic_symbol(self._target.memory, module, name) for module in self._library]
        return [symbol.address for symbol in found if symbol is not None]

    def _linked(self, module: Module) -> Iterable[int]:
        for section in module.sections:
            if section.name in (".got", ".got.plt") and section.end - section.start <= _MAX_LINKS:
                try:
                    data = self._target.memory.read(section.start, (section.end - section.start) & ~7)
                except GdbextError:
                    continue
                yield from memoryview(data).cast("Q")

    def _registers(self, seen: SeenThread, index: int, frame: tuple[int, int]) -> Mapping[str, int]:
        """The known registers of a frame; none if the debugger unwinds the stack differently."""
        try:
            if index == 0:
                return self._target.registers(seen.ref, seen.cpu.FRAME)
            registers = self._target.frame_registers(seen.ref, index + len(seen.handler))
        except GdbextError:
            return {}
        pc, sp = registers.get(seen.cpu.PROGRAM_COUNTER), registers.get(seen.cpu.STACK_POINTER)
        return registers if (pc, sp) == frame else {}

    def _recompute(self, lock: Value, state: State, registers: Mapping[str, int]) -> int | None:
        """The address that a value of the analysis stands for; None if no register or stack slot contains it."""
        if lock.base == CONSTANT:
            return lock.offset
        found: set[int] = set()
        name = self._code.cpu.STACK_POINTER
        top, sp = state.values.get(name), registers.get(name)
        for place, value in state.values.items():
            if value.base != lock.base:
                continue
            word: int | None = None
            if isinstance(place, str):
                word = registers.get(place)
            elif top is not None and sp is not None and place.base == top.base:
                try:
                    word = read_u64(self._target.memory, sp + place.offset - top.offset)
                except GdbextError:
                    continue
            if word is not None:
                found.add(word - value.offset + lock.offset & (1 << 64) - 1)
        return found.pop() if len(found) == 1 else None
