"""One instruction: what it does to the values of registers and memory."""

from __future__ import annotations

import pytest

from gdbext.proofs.flow.state import Value, entry
from tests.support.flow_program import ARGUMENT, HOLDING, KEEP, LINKS, LOCK, RELEASE, STEP, TEXT, Program


def test_state_has_the_places_that_keep_the_lock() -> None:
    state = Program(f=HOLDING).state()
    assert state is not None
    assert state.values["rbx"] == entry("rdi")
    assert "rdi" not in state.values, "a call may change it"
    assert state.values["rsp"] == entry("rsp").plus(-8)
    assert state.values[entry("rsp").plus(-8)] == entry("rbx")


@pytest.mark.parametrize(("argument", "value"), [
    ("lea 0x28(%rdi),%rdi", entry("rdi").plus(0x28)),
    ("add $0x28,%rdi", entry("rdi").plus(0x28)),
    ("sub $0x8,%rdi", entry("rdi").plus(-8)),
    (f"mov ${LOCK:#x},%edi", Value(("constant",), LOCK)),
    (f"lea {LOCK - TEXT - 8:#x}(%rip),%rdi", Value(("constant",), LOCK)),
    (f"mov {LINKS - TEXT - 8:#x}(%rip),%rdi", Value(("constant",), LOCK)),
    ("mov %rsi,%rdi", entry("rsi")),
])
def test_argument_is_recomputed(argument: str, value: Value) -> None:
    program = Program(f=f"{argument}\ncall acquire\nhere: call other\nret")
    program.memory.u64(LINKS, LOCK)
    assert program.held() == {value}


def test_value_that_is_loaded_is_the_same_only_until_it_is_loaded_again() -> None:
    program = Program(f=f"""
        mov {LOCK - TEXT - 8:#x}(%rip),%rbx
        mov %rbx,%rdi
        call acquire
        here: call other
        ret
    """)
    (lock,) = program.held()
    state = program.state()
    assert state is not None
    assert state.values["rbx"] == lock
    looped = Program(f=f"""
        again: mov {LOCK - TEXT - 8:#x}(%rip),%rbx
        here: mov %rbx,%rdi
        call acquire
        jmp again
    """)
    assert looped.held() == set(), "the register has another value in each round"


def test_slot_that_is_written_over_is_forgotten() -> None:
    state = Program(f="""
        sub $0x18,%rsp
        mov %rdi,0x8(%rsp)
        call acquire
        movl $0x0,0xc(%rsp)
        here: call other
        ret
    """).state()
    assert state is not None
    assert entry("rdi") in state.held
    assert entry("rdi") not in state.values.values()


@pytest.mark.parametrize(("between", "is_held"), [
    ("sete %al\ntest %al,%al\nje skip", True),
    ("setne %al\ntest %al,%al\njne skip", True),
    ("setne %al\ntest %al,%al\nje skip", False),
    ("xor $0x1,%eax\ntest %al,%al\nje skip", False),  # not followed
    ("cmp $0x5,%ebp\nje skip", False),  # another comparison
    ("call other\ntest %eax,%eax\njne skip", False),  # the result of another call
])
def test_stored_result_of_an_attempt(between: str, is_held: bool) -> None:
    program = Program(f=f"{KEEP}\ncall try\ntest %eax,%eax\n{between}\nhere: call other\nskip: pop %rbx\nret")
    assert program.held() == (ARGUMENT if is_held else set())


def test_function_in_a_register_is_known_if_it_is_a_constant() -> None:
    program = Program(f=f"""
        {KEEP}
        mov {LINKS - TEXT - 3 * STEP:#x}(%rip),%rbp
        call acquire
        here: call other
        mov %rbx,%rdi
        call *%rbp
        there: call other
        ret
    """)
    program.memory.u64(LINKS, RELEASE)
    assert program.held() == ARGUMENT
    assert program.held(label="there") == set()
