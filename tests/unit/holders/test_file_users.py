from __future__ import annotations

import os
from pathlib import Path

import pytest

from gdbext.model import Lock
from tests.support.fake_proc import FakeProc
from tests.support.fake_python import VERSIONS
from tests.support.fake_target import READ
from tests.support.lock_program import Program, lock_of

FLOCK, LOCK_EX = 73, 2


class Files(Program):
    """A program that has a file open twice, as descriptors 4 and 5; 4 has the file locked, and a thread wants 5."""

    def __init__(self, version: str, directory: Path) -> None:
        super().__init__(version)
        proc = FakeProc(directory)
        proc.process(1, "init", 0)
        proc.open(5, "/tmp/x", os.O_RDWR, inode=55)
        proc.open(4, "/tmp/x", os.O_RDWR, inode=55, more=proc.lock("FLOCK", "WRITE", 100, 55))
        self.target.proc = proc.proc()
        self.target.blocked(self.thread(self.frame()), FLOCK, 5, LOCK_EX)

    def file(self, descriptor: int = 4) -> int:
        """A ``_io.FileIO``."""
        header = self.python.layouts["PyObject"].size
        at = self.python.build.alloc(header + 64)
        self.python.build.put("PyObject", at, ob_type=self.python.type_object("_io.FileIO"))
        self.python.memory.u32(at + header, descriptor)
        return at

    def lock(self) -> Lock:
        return lock_of(self.look(), 5)


@pytest.fixture(params=VERSIONS)
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    return Files(str(request.param), tmp_path)


def test_thread_inside_a_block_of_the_file_is_a_candidate(program: Files) -> None:
    program.thread(program.frame([program.file()]))
    program.thread(program.frame([program.file(7)]))
    lock = program.lock()
    assert (lock.holders, lock.candidates) == ((), (2,))


def test_thread_with_the_descriptor_in_a_variable(program: Files) -> None:
    number = program.python.integer(4)
    program.thread(program.frame(variables=[("fd", number)], names=["fcntl", "flock"]))
    program.thread(program.frame(variables=[("i", number)], names=["range"]))
    program.thread(program.frame(variables=[("file", program.file())]))
    assert program.lock().candidates == (2, 4)


def test_thread_with_a_block_of_an_object_that_has_the_file(program: Files) -> None:
    guard = program.python.instance("app.Guard", file=program.file())
    program.thread(program.frame([guard]))
    assert program.lock().candidates == (2,)


def test_thread_in_a_call_on_the_descriptor(program: Files) -> None:
    program.target.blocked(program.target.thread(), READ, 4, 0, 0)
    program.target.blocked(program.target.thread(), READ, 3, 0, 0)
    assert program.lock().candidates == (2,)


def test_without_such_threads_there_are_no_candidates(program: Files) -> None:
    program.thread(program.frame())
    assert program.lock().candidates == ()
