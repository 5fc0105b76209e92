"""Fake memory of threads that wait for locks of Abseil."""

from __future__ import annotations

import struct

from tests.support.fake_memory import FakeMemory

_SYNCHS, _PARAMS, _HOWS, _LOCKS = 0x7F10_0000_0000, 0x7F20_0000_0000, 0x40_0000, 0x41_0000
#: The ways to wait: ``const MuHowS *`` for writers and for readers.
HOW_WRITE, HOW_READ = _HOWS + 0x40, _HOWS + 0x80


class FakeAbsl:
    """Lists of threads. `lock` is the address of a word in writable memory."""

    lock = _LOCKS + 0x100

    def __init__(self) -> None:
        self.memory = FakeMemory({at: bytes(0x2000) for at in (_SYNCHS, _PARAMS, _HOWS, _LOCKS)})
        self.memory.u64(HOW_WRITE, 25, 8, 0)
        self.memory.u64(HOW_READ, 28, 1, 0x100)
        self._count = 0

    def queue(self, count: int) -> list[int]:
        """A circular list of ``PerThreadSynch *`` with so many threads."""
        synchs = [_SYNCHS + 0x200 * (self._count + i) for i in range(count)]
        self._count += count
        for at, following in zip(synchs, [*synchs[1:], synchs[0]]):
            self.memory.write(at, struct.pack("<QQ12xI", following, 0, 1))
        return synchs

    @staticmethod
    def params(synch: int) -> int:
        """The ``SynchWaitParams *`` of a thread."""
        return _PARAMS + (synch - _SYNCHS) // 2

    def wait(self, synch: int, how: int, condition: int = 0, mutex: int = 0) -> int:
        """Let a thread wait; returns its futex word."""
        self.memory.u64(synch + 32, self.params(synch))
        self.memory.u64(self.params(synch), how, condition, 0, mutex, synch)
        return synch + 64
