"""What is known where a function returns, and of locks that some path has acquired."""

from __future__ import annotations

from typing import cast

import pytest

from gdbext.inferior.protocol import Target
from gdbext.proofs.analysis import LockAnalysis
from gdbext.proofs.flow.state import CONSTANT, Value, entry
from gdbext.threads.code import Code
from tests.support.flow_program import ARGUMENT, EFFECTS, KEEP, LOCK, Program


@pytest.mark.parametrize(("before", "freed"), [
    ("call other", frozenset()),
    (f"mov ${LOCK:#x},%edi\ncall release", {Value(CONSTANT, LOCK)}),
    ("mov %rbx,%rdi\ncall release", ARGUMENT),  # perhaps the lock of the caller
    ("call releasing_helper", None),
    ("mov %rbx,%rdi\ncall acquire\nmov %rbx,%rdi\ncall release", frozenset()),  # its own acquisition
    ("test %esi,%esi\nje skip\nmov %rbx,%rdi\ncall release\nskip: nop", ARGUMENT),
    ("again: call other\nmov (%rax),%rdi\ncall release\njmp again", None),  # another one in each round
])
def test_freed_are_locks_that_a_caller_may_have_held(before: str, freed: object) -> None:
    program = Program(f=f"{KEEP}\n{before}\nhere: call other\nmov %rbx,%rdi\ncall acquire\nret",
                      releasing_helper="mov (%rdi),%rdi\ncall release\nret")
    state = program.state()
    assert state is not None
    assert state.freed == freed


def taken(body: str, **functions: str) -> list[tuple[bool, bool]]:
    """(always, kept) of each lock that the function may have acquired."""
    program = Program(f=body, **functions)
    program.notes_taken = True
    state = program.state()
    assert state is not None
    return sorted((each.always, each.kept) for each in state.taken.values())


@pytest.mark.parametrize(("body", "expected"), [
    (f"{KEEP}\ncall acquire\nhere: call other\nret", [(True, True)]),
    (f"{KEEP}\ntest %rsi,%rsi\nje here\ncall acquire\nhere: call other\nret", [(False, True)]),
    (f"{KEEP}\ncall acquire\nmov %rbx,%rdi\ncall release\nhere: call other\nret", [(True, False)]),
    (f"{KEEP}\ncall acquire\ntest %r12,%r12\nje here\nmov %rbx,%rdi\ncall release\nhere: call other\nret",
     [(True, False)]),
    (f"{KEEP}\ncall try\ntest %eax,%eax\njne here\nret\nhere: call other\nret", []),
    (f"{KEEP}\ntest %rsi,%rsi\nje second\ncall acquire\njmp here\nsecond: call acquire\nhere: call other\nret",
     [(True, True), (True, True)]),
], ids=["acquired", "on one path", "released", "released on one path", "failed", "by two calls"])
def test_lock_that_may_be_taken(body: str, expected: list[tuple[bool, bool]]) -> None:
    assert taken(body) == expected


def test_lock_that_a_helper_may_take_is_one_of_its_caller() -> None:
    helper = "test %rsi,%rsi\nje end\ncall acquire\nend: ret"
    assert taken(f"{KEEP}\ncall helper\nhere: call other\nret", helper=helper) == [(False, True)]


@pytest.mark.parametrize(("end", "gives_back"), [
    ("mov %rbx,%rdi\ncall release", True),
    ("mov %rbx,%rdi\ncall helper", True),
    ("mov %r12,%rdi\ncall release", False),  # it may be another one
    ("lea 0x38(%rbx),%rdi\ncall release", False),
    ("call other", False),
])
def test_function_that_releases_the_lock_that_it_has_acquired(end: str, gives_back: bool) -> None:
    program = Program(f=f"{KEEP}\ncall acquire\nhere: call other\n{end}\nret", helper="call release\nret")
    flow = LockAnalysis(cast(Target, program), cast(Code, program), EFFECTS)
    pc = program.labels["f", "here"]
    state = flow.held_at(pc)
    assert state is not None
    assert [flow.gives_back(pc, lock) for lock in state.held] == [gives_back]


@pytest.mark.parametrize(("end", "keeps"), [
    ("", True),
    ("mov %rbx,%rdi\ncall release", False),
    ("test %eax,%eax\nje done\nmov %rbx,%rdi\ncall release\ndone: nop", False),
    ("mov %rbx,%rdi\ncall helper", False),
    ("mov %r12,%rdi\ncall release", False),  # it may be another one
])
def test_function_that_returns_with_the_lock_that_a_call_acquires(end: str, keeps: bool) -> None:
    before = "test %esi,%esi\nje slow\nmov %rbx,%rdi\ncall release\njmp end\nslow: mov %rbx,%rdi"
    program = Program(f=f"{KEEP}\n{before}\nhere: call acquire\nend: nop\n{end}\nret", helper="call release\nret")
    flow = LockAnalysis(cast(Target, program), cast(Code, program), EFFECTS, notes_taken=True)
    assert flow.keeps(program.starts["f"], program.labels["f", "here"], entry("rdi")) is keeps
    assert not flow.keeps(program.starts["f"], program.labels["f", "here"], entry("rsi"))
