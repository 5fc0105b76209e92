from __future__ import annotations

import pytest

from tests.support.fake_python import VERSIONS
from tests.support.lock_program import Program, lock_of


@pytest.mark.parametrize("version", VERSIONS)
def test_frames_that_refer_to_a_lock_are_found_by_variable_attribute_and_global(version: str) -> None:
    program = Program(version)
    python = program.python
    lock = python.lock()
    pool = python.instance("Pool", _lock=lock)
    program.globals = python.namespace(__name__=python.string("bank"), till=lock)
    program.waiter(lock, variables=[("self", pool)])
    program.thread(program.frame(variables=[("lock", lock)]))
    program.thread(program.frame(variables=[("self", pool)]))
    program.thread(program.frame(names=("till",)))
    program.thread(program.frame(variables=[("lock", python.lock())]))
    assert lock_of(program.look(), lock).candidates == (2, 3, 4)
