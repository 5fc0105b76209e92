"""Blocks, jump tables, and parts of a function that are placed apart."""

from __future__ import annotations

import pytest

from tests.support.flow_program import ARGUMENT, KEEP, STEP, TABLE, TEXT, Program


def test_switch_leads_to_the_entries_of_its_table() -> None:
    program = Program(f=f"""
        mov %rdi,%rbx
        cmp $0x1,%esi
        ja out
        lea {TABLE - TEXT - 4 * STEP:#x}(%rip),%rdx
        movslq (%rdx,%rsi,4),%rax
        add %rdx,%rax
        jmp *%rax
        one: call acquire
        here: call other
        ret
        two: call other
        there: call other
        out: ret
    """)
    program.memory.u32(TABLE, program.labels["f", "one"] - TABLE, program.labels["f", "two"] - TABLE)
    assert program.held() == ARGUMENT
    assert program.held(label="there") == set()
    program.memory.u32(TABLE, program.labels["f", "one"] - TABLE, program.labels["f", "here"] - TABLE)
    assert program.held() == set(), "an entry of the table leads behind the acquisition"
    program.memory.u32(TABLE, program.labels["f", "one"] - TABLE, 0x10)
    assert program.state() is None, "an entry leads out of the function"


COLD = "mov %rbx,%rdi\ncall acquire\nhere: call other\nmov %rbx,%rdi\ncall release"


def test_part_of_a_function_is_analysed_with_it() -> None:
    f = f"{KEEP}\n{{}}\ntest %esi,%esi\nje part\nback: pop %rbx\nret"
    for end, entered in (("back", None), ("release", "f")):
        part = f"{COLD}\njmp {end}"
        state = Program(f=f.format("nop"), part=part).state("part", entered=entered)
        assert state is not None
        assert set(state.held) == ARGUMENT
        assert state.freed == frozenset()
        state = Program(f=f.format("call release"), part=part).state("part", entered=entered)
        assert state is not None
        assert state.freed == frozenset(ARGUMENT), "the function may have released a lock of its caller"
    program = Program(f=f.format("nop"), part=f"{COLD}\njmp release")
    assert program.state("part") is None, "what the function did before the jump is not known"


@pytest.mark.parametrize(("inside", "is_held"), [("release", False), ("other", True)])
def test_jump_with_an_empty_frame_to_code_that_jumps_back(inside: str, is_held: bool) -> None:
    program = Program(f="""
        call acquire
        test %esi,%esi
        je outside
        back: nop
        here: call other
        ret
    """, outside=f"push %rbx\nmov %rbp,%rdi\ncall {inside}\npop %rbx\njmp back")
    assert program.held() == (ARGUMENT if is_held else set())
