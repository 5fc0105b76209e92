"""Functions of frames: the locks at a place, and which function the place is in."""

from __future__ import annotations

import pytest

from gdbext.proofs.flow.state import entry
from tests.support.flow_program import ARGUMENT, HOLDING, KEEP, LOCK, Program


def test_lock_is_held_from_acquisition_to_release() -> None:
    program = Program(f=HOLDING)
    assert program.held() == ARGUMENT
    assert program.held(label="after") == set()


@pytest.mark.parametrize(("between", "is_held"), [
    ("mov %rbx,%rdi\ncall release", False),
    ("mov %r12,%rdi\ncall release", False),  # it may be the same lock
    ("lea 0x38(%rbx),%rdi\ncall release", True),  # another member of the same structure
    ("call helper_that_releases", False),
    ("call helper_of_helper", False),
    ("call balanced_helper", True),
    ("call other", True),
    ("call *%rax", True),
])
def test_release_between(between: str, is_held: bool) -> None:
    program = Program(f=f"{KEEP}\ncall acquire\n{between}\nhere: call other\nret",
                      helper_that_releases="mov (%rdi),%rdi\ncall release\nret",
                      helper_of_helper="sub $0x8,%rsp\ncall helper_that_releases\nadd $0x8,%rsp\nret",
                      balanced_helper="push %rbp\nmov %rdi,%rbp\ncall acquire\nmov %rbp,%rdi\ncall release\npop %rbp\n"
                                      "ret")
    assert program.held() == (ARGUMENT if is_held else set())


def test_release_of_a_constant_leaves_a_condition() -> None:
    state = Program(f=f"{KEEP}\ncall acquire\nmov ${LOCK:#x},%edi\ncall release\nhere: call other\nret").state()
    assert state is not None
    assert state.held == {entry("rdi"): frozenset({LOCK})}


def test_function_that_has_jumped_elsewhere_is_not_the_one_of_the_code() -> None:
    program = Program(f="test %esi,%esi\nje g\njmp acquire", g=HOLDING)
    assert program.state("g", entered="f") is not None
    assert set(program.state("g", entered="f").held) == ARGUMENT  # type: ignore[union-attr]
