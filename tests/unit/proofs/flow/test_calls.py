"""Calls: what they do to memory, locks and registers."""

from __future__ import annotations

import pytest

from gdbext.proofs.flow.state import entry
from tests.support.flow_program import ARGUMENT, KEEP, Program

GUARDED = """
    sub $0x18,%rsp
    lea 0x8(%rsp),%rdi
    call take
    here: call other
    {between}
    there: call other
    add $0x18,%rsp
    ret
"""

TAKE = "mov %rsi,(%rdi)\nmov %rsi,%rdi\njmp acquire"


@pytest.mark.parametrize(("between", "is_held"), [
    ("nop", True), ("lea 0x8(%rsp),%rdi\ncall release_guard", False),
    ("lea 0x8(%rsp),%rdi\ncall other", True), ("lea 0x8(%rsp),%rdi\ncall *%rax", True),
])
def test_guard_on_the_stack(between: str, is_held: bool) -> None:
    program = Program(f=GUARDED.format(between=between), take=TAKE,
                      release_guard="mov (%rdi),%rdi\njmp release")
    state = program.state()
    assert state is not None
    assert entry("rsi") in state.held
    assert bool(program.held(label="there")) == is_held


def test_guard_whose_address_is_passed_on_may_have_changed() -> None:
    program = Program(f=GUARDED.format(between="lea 0x8(%rsp),%rdi\ncall other"), take=TAKE)
    state = program.state(label="there")
    assert state is not None
    assert entry("rsp").plus(-0x10) not in state.values


@pytest.mark.parametrize(("called", "is_known"), [("acquire", True), ("wait", False), ("other", False)])
def test_memory_is_unknown_after_a_wait_in_which_other_threads_change_it(called: str, is_known: bool) -> None:
    state = Program(f=f"{KEEP}\ncall acquire\nmovq $0x0,0x8(%rbx)\ncall {called}\nhere: call other\nret").state()
    assert state is not None
    assert entry("rdi") in state.held, "it is held again"
    assert (entry("rdi").plus(8) in state.values) == is_known


def test_attempt_is_void_after_a_release() -> None:
    program = Program(f=f"""
        {KEEP}
        call try
        mov %eax,%ebp
        mov %rbx,%rdi
        call release
        test %ebp,%ebp
        jne skip
        here: call other
        skip: pop %rbx
        ret
    """)
    assert program.held() == set()


def test_result_that_is_an_argument_is_followed() -> None:
    program = Program(f="push %rbx\ncall take\nmov %rax,%rbx\nhere: call other\nret",
                      take="push %rbp\nmov %rdi,%rbp\ncall acquire\nmov %rbp,%rax\npop %rbp\nret")
    state = program.state()
    assert state is not None
    assert set(state.held) == ARGUMENT
    assert state.values["rbx"] == entry("rdi")


@pytest.mark.parametrize(("before", "after", "is_held"), [
    ("mov $0x1,%esi", "nop", True),
    ("xor %esi,%esi", "nop", False),
    ("mov %rax,%rsi", "nop", False),
    ("nop", "nop", False),
    ("xor %esi,%esi", "test %eax,%eax\nje out", True),
    ("mov $0x1,%esi", "mov %rbx,%rdi\ncall release", False),
])
def test_attempt_that_waits_by_an_argument_does_not_fail(before: str, after: str, is_held: bool) -> None:
    program = Program(f=f"{KEEP}\n{before}\ncall ask\n{after}\nhere: call other\nout: ret")
    assert program.held() == (ARGUMENT if is_held else set())
