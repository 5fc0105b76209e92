from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from gdbext.arch import x86_64
from gdbext.glibc.futex import FutexWait
from gdbext.inferior.protocol import ThreadRef
from gdbext.libraries.absl.waits import Absl
from gdbext.locks.seen import MENTIONS, READERS, UNKNOWN, Held, NotRecorded, SeenLock
from gdbext.threads.threads import SeenThread
from tests.support.fake_absl import HOW_READ, HOW_WRITE, FakeAbsl
from tests.support.scenes import scene_of

STACK = 0x7F00_0000_0000
WAIT, WAIT_UNTIL = 0x80, 0x189


class Process(FakeAbsl):
    """A thread that sleeps, with addresses on its stack and in a register; the parts of `Target` that `Absl` uses."""

    def __init__(self) -> None:
        super().__init__()
        self.memory.map(STACK, bytes(0x1000))
        self.register = 0

    def registers(self, thread: ThreadRef, names: Sequence[str] = ()) -> Mapping[str, int]:
        return {"rbx": self.register}

    def find(self, word: int, op: int = WAIT, expected: int = 0) -> SeenLock | None:
        seen = SeenThread(ThreadRef(1, 101, None), x86_64, {"rip": 0x40_0000, "rsp": STACK + 0x104}, 0)
        return Absl(scene_of(self, ())).find_lock(seen, FutexWait(word, op, expected, False))


@pytest.mark.parametrize("op", [WAIT, WAIT_UNTIL])
@pytest.mark.parametrize(("how", "flags", "expected"), [
    (HOW_WRITE, 12, ("write-locked", "exclusive", NotRecorded(MENTIONS))),
    (HOW_READ, 12, ("write-locked", "shared", NotRecorded(MENTIONS))),
    (HOW_WRITE, 5, ("read-locked", "exclusive", NotRecorded(READERS, 3))),
    (HOW_WRITE, 4, ("free", "exclusive", UNKNOWN)),
])
def test_mutex(how: int, flags: int, expected: tuple[str, str, Held], op: int) -> None:
    process = Process()
    (synch,) = process.queue(1)
    word = process.wait(synch, how)
    process.memory.u64(synch + 40, 0x300)
    process.memory.u64(process.lock, synch | flags)
    assert process.find(word, op) is None
    process.memory.u64(STACK + 0x200, process.lock)
    lock = process.find(word, op)
    assert lock is not None
    assert (lock.kind, lock.address) == ("absl-mutex", process.lock)
    assert (lock.state, lock.mode, lock.held) == expected


def test_condvar_in_a_register() -> None:
    process = Process()
    (synch,) = process.queue(1)
    word = process.wait(synch, HOW_WRITE, mutex=process.lock + 8)
    process.memory.u64(process.lock, synch)
    process.register = process.lock
    lock = process.find(word)
    assert lock is not None
    assert (lock.kind, lock.address, lock.state) == ("absl-condvar", process.lock, "waiting for a signal")


def test_condition_of_a_mutex() -> None:
    process = Process()
    (synch,) = process.queue(1)
    word = process.wait(synch, HOW_WRITE, condition=0x7000)
    process.memory.u64(process.lock, synch | 4)
    process.memory.u64(STACK + 0x108, process.lock)
    lock = process.find(word)
    assert lock is not None
    assert (lock.kind, lock.address, lock.state) == ("absl-condvar", process.lock, "waiting for a condition")


def test_other_waits() -> None:
    process = Process()
    (synch,) = process.queue(1)
    word = process.wait(synch, HOW_WRITE)
    process.memory.u64(process.lock, synch | 12)
    process.memory.u64(STACK + 0x200, process.lock)
    assert process.find(word) is not None
    assert process.find(word, expected=1) is None
    assert process.find(word, op=0) is None
    assert process.find(word + 4) is None
    assert process.find(0x1040) is None
