"""Objects of Qt in made-up memory."""

from __future__ import annotations

from tests.support.fake_memory import FakeMemory


class FakeQt:
    """Builds objects of a major version of Qt at an address that grows."""

    def __init__(self, memory: FakeMemory, major: int, at: int = 0x5555_0000_0000) -> None:
        self.memory = memory
        self.major = major
        self._next = at

    def alloc(self, size: int) -> int:
        at = self._next
        self._next += (size + 0x3FF) & ~0x3FF
        self.memory.map(at, bytes((size + 0x3FF) & ~0x3FF))
        return at

    def object(self, at: int | None = None) -> int:
        """A `QObject` and its private data."""
        public, private = at if at is not None else self.alloc(64), self.alloc(0x400)
        self.memory.u64(public + 8, private)
        self.memory.u64(private + 8, public)
        return public

    def private(self, public: int) -> int:
        return int.from_bytes(self.memory.read(public + 8, 8), "little")

    def thread(self, pthread: int, events: tuple[int, ...] = ()) -> int:
        """The ``QThreadData`` of a thread with a queue of events; returns the address of its ``thread``."""
        queue = self.alloc(24 + 24 * len(events))
        for index, event in enumerate(events):
            self.memory.u64(queue + 24 + 24 * index, 0x1234, event)
        at = self.alloc(0x200) + 0x60
        if self.major == 5:
            self.memory.u32(queue, 1, len(events))
            self.memory.u64(queue + 16, 24)
            self.memory.u64(at - 32, queue)
        else:
            self.memory.u64(at - 56, queue, queue + 24, len(events))
        self.memory.u64(at, self.object(), pthread)
        return at

    def lives_in(self, public: int, thread: int) -> int:
        """Let an object live in a thread, given as by `thread`."""
        self.memory.u64(self.private(public) + 0x58, thread - 0x60)
        return public

    def event(self, latch: int, kind: int = 0) -> int:
        """A ``QMetaCallEvent`` that releases a latch; `kind` is its table of virtual functions."""
        at = self.alloc(128)
        self.memory.u64(at, kind)
        self.memory.u64(at + 0x28, latch)
        return at

    def waits_for_end(self, at: int) -> int:
        """Let ``thread_done`` of the `QThread` of a thread be a condition; returns its ``pthread_cond_t *``."""
        thread = int.from_bytes(self.memory.read(at, 8), "little")
        inner = self.alloc(128)
        self.memory.u64(self.private(thread) + 0xA0, inner, at - 0x60)
        return inner + 40

    def rwlock(self, *, older: bool = True, readers: int = 0, writers: int = 0, waiting: tuple[int, int] = (0, 0),
               writer: int = 0, reading: tuple[int, ...] = (), recursive: bool = False) -> tuple[int, int, int, int]:
        """A `QReadWriteLock` with private data.

        :param older: whether it is one of Qt up to 6.5.
        :param waiting: how many threads wait to read, and to write.
        :param writer: the recorded writer, and `reading` the recorded readers; ``pthread_self()``.
        :return: the lock, its private data, and the ``pthread_cond_t *`` for writers and for readers.
        """
        lock, private = self.alloc(64), self.alloc(0x200)
        self.memory.u64(lock, private)
        if self.major == 5:
            conditions = [self.alloc(128) + 40 for _ in range(2)]
            self.memory.u64(private + 8, *[at - 40 for at in conditions])
        else:
            conditions = [private + at for at in ((40, 88) if older else (0, 48))]
        counts = private + (24 if self.major == 5 else 136 if older else 168)
        self.memory.u32(counts, readers, writers, *waiting, int(recursive))
        self.memory.u64(counts + 24, writer)
        owners = self.alloc(0x200)
        if self.major == 5:
            self._hash(owners, reading)
            self.memory.u64(counts + 32, owners)
        else:
            for index, thread in enumerate(reading):
                self.memory.u64(owners + 16 * index, thread, 1)
            self.memory.u64(counts + 32, 16, len(reading), owners)
        return lock, private, conditions[0], conditions[1]

    def _hash(self, at: int, keys: tuple[int, ...]) -> None:
        """``QHashData`` with two buckets, of which the second has all keys."""
        buckets = self.alloc(16)
        self.memory.u64(at + 8, buckets)
        self.memory.u32(at + 16, 1, len(keys), 32, 0, 2)
        following = at
        for key in keys:
            node = self.alloc(32)
            self.memory.u64(node, following, 7, key)
            following = node
        self.memory.u64(buckets, at, following)
