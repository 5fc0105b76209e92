from __future__ import annotations

import pytest

from gdbext.inferior.protocol import Module, Section
from gdbext.model import DERIVED, EXCLUSIVE, Holder
from gdbext.model.reasons import because
from tests.support.fake_python import VERSIONS
from tests.support.fake_target import FakeThread
from tests.support.lock_program import Program, lock_of, taken_at

CORE = 0x7D00_0000_0000
INSIDE = because("in-locker-block")


class QtProgram(Program):
    """A program with PyQt5, some of whose threads wait for a `QMutex`."""

    def __init__(self, version: str) -> None:
        super().__init__(version)
        self.target.loaded.append(Module("/lib/libQt5Core.so.5", (Section(".text", CORE, CORE + 0x1000),)))
        self.mutex = self.python.build.alloc(16)
        self.python.memory.u64(self.mutex, 3)

    def locker(self, locked: bool = True, name: str = "PyQt5.QtCore.QMutexLocker") -> int:
        header = self.python.layouts["PyObject"].size
        at, inner = self.python.build.alloc(header + 64), self.python.build.alloc(64)
        self.python.build.put("PyObject", at, ob_type=self.python.type_object(name))
        self.python.memory.u64(at + header, inner)
        self.python.memory.u64(inner, self.mutex | int(locked))
        return at

    def qt_waiter(self, taken: tuple[int, ...] = ()) -> FakeThread:
        thread = self.target.waits(self.thread(self.frame(taken)), self.mutex, 3)
        (pc, sp), *rest = thread.frames
        thread.frames = [(pc, sp), (CORE + 0x10, sp + 0x40), *rest]
        return thread


@pytest.fixture(params=VERSIONS)
def program(request: pytest.FixtureRequest) -> QtProgram:
    return QtProgram(str(request.param))


def test_thread_inside_the_block_of_a_locker(program: QtProgram) -> None:
    program.qt_waiter()
    program.thread(program.frame([program.locker()]))
    lock = lock_of(program.look(), program.mutex)
    assert lock.kind == "qt-mutex"
    assert lock.holders == (Holder(2, EXCLUSIVE, DERIVED, INSIDE, taken_at(101)),)


def test_thread_that_waits_for_itself(program: QtProgram) -> None:
    program.qt_waiter((program.locker(),))
    assert [holder.thread for holder in lock_of(program.look(), program.mutex).holders] == [1]


@pytest.mark.parametrize("name", ["PyQt5.QtCore.QMutexLocker", "app.Locker"])
def test_locker_that_has_unlocked_it_or_is_none(program: QtProgram, name: str) -> None:
    program.qt_waiter()
    program.thread(program.frame([program.locker(locked="app" in name, name=name)]))
    assert lock_of(program.look(), program.mutex).holders == ()


def test_two_threads_inside_such_blocks_contradict_each_other(program: QtProgram) -> None:
    program.qt_waiter()
    for _ in range(2):
        program.thread(program.frame([program.locker()]))
    assert lock_of(program.look(), program.mutex).holders == ()


def test_free_mutex_has_no_holder(program: QtProgram) -> None:
    program.qt_waiter()
    program.thread(program.frame([program.locker()]))
    program.python.memory.u64(program.mutex, 0)
    lock = lock_of(program.look(), program.mutex)
    assert (lock.state, lock.holders) == ("free", ())
