from __future__ import annotations

import pytest

from gdbext.layout.opcodes import opcodes_of
from gdbext.model.reasons import because
from tests.support.fake_python import VERSIONS
from tests.support.lock_program import Program, lock_of
from tests.support.reasons import said


@pytest.fixture(params=VERSIONS)
def program(request: pytest.FixtureRequest) -> Program:
    return Program(str(request.param))


@pytest.fixture(params=[version for version in VERSIONS if opcodes_of(*map(int, version.split(".")[:2]))])
def acquiring(request: pytest.FixtureRequest) -> Program:
    """A program of a version whose bytecode is known."""
    return Program(str(request.param))


def test_candidates_know_the_lock(program: Program) -> None:
    """As a variable, as an attribute of the object whose it is, as a global that their code uses."""
    python = program.python
    lock = python.lock()
    pool = python.instance("Pool", _lock=lock)
    program.globals = python.namespace(__name__=python.string("bank"), till=lock)
    program.waiter(lock, variables=[("self", pool)])
    program.thread(program.frame(variables=[("lock", lock)]))
    program.thread(program.frame(variables=[("self", pool)]))
    program.thread(program.frame(names=("till", "acquire")))
    program.thread(program.frame(variables=[("self", python.instance("Pool", _lock=python.lock()))]))
    program.thread(program.frame(namespace=python.namespace(till=python.lock()), names=("till",)))
    program.thread()
    found = lock_of(program.look(), lock)
    assert (found.holders, found.candidates, found.name) == ((), (2, 3, 4), "self._lock of Pool")
    assert said(found.why) == "a lock of this kind records no owner"


def test_lock_that_another_thread_may_release_without_acquiring_it(acquiring: Program) -> None:
    lock = acquiring.python.lock()
    acquiring.thread(acquiring.python.between_acquire_and_release(lock))
    acquiring.thread(acquiring.frame(variables=[("signal", lock)], names=("release",)))
    acquiring.waiter(lock)
    found = lock_of(acquiring.look(), lock)
    assert (found.holders, found.candidates, found.why) == ((), (1,), because("maybe-released-since"))


def test_release_elsewhere_says_nothing_of_a_lock_that_others_wait_for(program: Program) -> None:
    a, b = program.python.lock(), program.python.lock()
    program.waiter(b, [a])
    program.waiter(a, [b])
    program.thread(program.frame(variables=[("signal", a)], names=("release",)))
    assert len(program.look().deadlocks) == 1
