"""Every path through a function counts."""

from __future__ import annotations

import random

import pytest

from tests.support.flow_program import ARGUMENT, KEEP, LINKS, STEP, TEXT, Program


@pytest.mark.parametrize(("code", "is_held"), [
    ("test %esi,%esi\nje skip\ncall acquire\nskip: nop\nhere: call other\nret", False),
    ("test %esi,%esi\nje skip\ncall acquire\njmp on\nskip: mov %rbx,%rdi\ncall acquire\non: nop\nhere: call other\nret",
     True),
    ("again: mov %rbx,%rdi\ncall acquire\ncmp $0xb,%eax\nje again\nhere: call other\nret", True),
    ("again: mov %rbx,%rdi\ncall acquire\nmov %rbx,%rdi\ncall release\nhere: call other\njne again\nret", False),
    ("call acquire\ntest %esi,%esi\nje here\nmov %rbx,%rdi\ncall release\nhere: call other\nret", False),
    # what handles an exception is reached by no jump, and comes back behind the release
    ("call acquire\ntry: call other\nback: nop\nhere: call other\nret\nmov %rbx,%rdi\ncall release\njmp back", False),
], ids=["one way", "both ways", "retried", "released in a loop", "released on one way", "exception"])
def test_every_way_counts(code: str, is_held: bool) -> None:
    assert Program(f=f"{KEEP}\n{code}").held() == (ARGUMENT if is_held else set())


def taken(body: str, **functions: str) -> list[tuple[bool, bool]]:
    """(always, kept) of each lock that the function may have acquired."""
    state = Program(f=body, **functions).state()
    assert state is not None
    return sorted((each.always, each.kept) for each in state.taken.values())


@pytest.mark.parametrize(("link", "is_held"), [(0, False), (TEXT, True)], ids=["never taken", "always taken"])
def test_way_that_a_constant_rules_out_does_not_count(link: int, is_held: bool) -> None:
    """libstdc++ before glibc 2.34 takes locks only if the program is linked with libpthread."""
    program = Program(f=f"""
        mov %rdi,%rbx
        mov {LINKS - TEXT - 2 * STEP:#x}(%rip),%rax
        test %rax,%rax
        je without
        call acquire
        without: nop
        here: call other
        ret
    """)
    program.memory.u64(LINKS, link)
    assert program.held() == (ARGUMENT if is_held else set())


@pytest.mark.parametrize("seed", range(40))
def test_random_code_ends(seed: int) -> None:
    chooser = random.Random(seed)
    count = 60
    choices = ("mov %rbx,%rdi", "mov %rdi,%rbx", "call acquire", "call release", "call other", "push %rbx", "pop %rbx",
               "lea 0x8(%rsp),%rdi", "mov %rdi,0x8(%rsp)", "mov 0x8(%rsp),%rbx", "add $0x8,%rbx", "test %rax,%rax",
               "je L{}", "jmp L{}", "(bad)", "mov (%rbx,%rax,8),%rdi", "cmpxchg %rax,(%rbx)", "ret", "leave")
    lines = [chooser.choice(choices).format(chooser.randrange(count)) for _ in range(count + 1)]
    text = "\n".join(f"L{i}: {line}" for i, line in enumerate(lines))
    program = Program(f=text)
    state = program.state(label=f"L{count}")
    assert state is None or len(state.held) <= count


@pytest.mark.parametrize(("call", "jump", "is_held"), [
    ("try", "jne", True),  # skips if the result is not zero, so that the lock is held
    ("try", "je", False),
    ("test", "je", True),
    ("test", "jne", False),
    ("try", "js", False),  # the way taken is not determined
])
@pytest.mark.parametrize("compare", ["test %eax,%eax", "cmp $0x0,%eax", "test %rax,%rax", "test %al,%al"])
def test_attempt_counts_on_the_path_of_success(call: str, jump: str, compare: str, is_held: bool) -> None:
    program = Program(f=f"""
        {KEEP}
        call {call}
        {compare}
        {jump} failed
        here: call other
        mov %rbx,%rdi
        call release
        pop %rbx
        ret
        failed: mov $0x1,%eax
        there: call other
        pop %rbx
        ret
    """)
    assert program.held() == (ARGUMENT if is_held else set())
    taken = {("try", "je"), ("test", "jne")}
    assert program.held(label="there") == (ARGUMENT if (call, jump) in taken else set())


@pytest.mark.parametrize(("fail", "is_held"), [
    ("call other", True), ("call other\nud2", True), ("again: call other\njmp again", True),
    ("call other\nret", False), ("call other\njmp other", False), ("call other\njmp *%rax", False),
])
def test_code_after_a_call_that_never_returns_is_not_reached_from_it(fail: str, is_held: bool) -> None:
    program = Program(f="push %rbx\nmov %rdi,%rbx\ncall acquire\ntest %esi,%esi\nje on\nmov %rbx,%rdi\ncall release\n"
                        "call fail\non: nop\nhere: call other\nret", fail=fail)
    assert program.held() == (ARGUMENT if is_held else set())


def test_release_on_a_path_that_does_not_return_has_no_effect() -> None:
    program = Program(f=f"{KEEP}\ncall acquire\nmov %rbx,%rdi\ncall helper\nhere: call other\nret",
                      helper="test %esi,%esi\nje out\ncall release\nud2\nout: ret")
    assert program.held() == ARGUMENT
