"""Functions that call each other: wrappers, helpers, parts that are placed apart."""

from __future__ import annotations

from collections import Counter
from typing import cast

import pytest

from gdbext.holders import lock_flow
from gdbext.holders.function_flow import Function, analyse
from gdbext.holders.lock_flow import LockFlow
from gdbext.holders.lock_state import CONSTANT, Effect, Value, entry
from gdbext.inferior.protocol import Target
from gdbext.threads.code import Code
from tests.support.flow_program import (
    ARGUMENT,
    EFFECTS,
    FUNCTION,
    HOLDING,
    KEEP,
    LINKS,
    LOCK,
    MODULE,
    RELEASE,
    STEP,
    TEXT,
    AtomicProgram,
    Program,
)


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


def test_helper_that_is_too_large_to_analyse_may_release_any_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_flow, "_MAX_FUNCTION", 8 * STEP)
    large = "nop\n" * 10
    for end, expected in (("mov (%rdi),%rdi\ncall release\nret", set()), ("call other\nret", ARGUMENT)):
        program = Program(f=f"{KEEP}\ncall acquire\ncall large\nhere: call other\nret", large=large + end)
        assert program.held() == expected


def test_release_of_a_constant_leaves_a_condition() -> None:
    state = Program(f=f"{KEEP}\ncall acquire\nmov ${LOCK:#x},%edi\ncall release\nhere: call other\nret").state()
    assert state is not None
    assert state.held == {entry("rdi"): frozenset({LOCK})}


def test_code_of_a_function_that_acquires_is_not_analysed() -> None:
    """Its calls are deeper than the bound, which would make it an unknown one."""
    deep = {f"deep{i}": f"call deep{i + 1}\nret" for i in range(8)}
    program = AtomicProgram(lock="call deep0\nret", deep8="xchg %eax,(%rdi)\nret", **deep)
    lock = program.starts["lock"]
    effect = Effect(acquires={entry("rdi"): frozenset()})
    flow = LockFlow(cast(Target, program), cast(Code, program), {lock: effect}, inlined=program.inlined)
    for depth in (4, 0):
        assert not flow.reach(lock, depth).unknown
        assert flow.effect(lock, depth) is effect


@pytest.mark.parametrize(("argument", "is_waiting", "is_held"), [
    ("mov %rbx,%rdi", True, True), ("mov %rbx,%rdi", False, False), ("xor %edi,%edi", False, True)])
def test_function_that_only_waits_for_a_lock(argument: str, is_waiting: bool, is_held: bool) -> None:
    code = f"""
        {KEEP}
        mov $0x1,%ecx
        xor %eax,%eax
        lock cmpxchg %ecx,(%rdi)
        jne out
        {argument}
        call wait
        here: call other
        out: ret
    """
    program = AtomicProgram(f=code, wait="mov (%rdi),%rsi\ncall *%rdx\nret")
    flow = LockFlow(cast(Target, program), cast(Code, program), {}, inlined=program.inlined,
                    waiting=[program.starts["wait"]] if is_waiting else [])
    state = flow.held_at(program.labels["f", "here"])
    assert state is not None
    assert {*state.held} == (ARGUMENT if is_held else set())


@pytest.mark.parametrize("is_calling_back", [True, False])
def test_file_that_calls_back(is_calling_back: bool) -> None:
    """Its functions may release any lock, and those of another file only copy memory."""
    program = AtomicProgram(f="ret")
    flow = LockFlow(cast(Target, program), cast(Code, program), {}, [] if is_calling_back else [MODULE],
                    program.inlined, [MODULE] if is_calling_back else [])
    assert flow.calls_back(program.starts["f"]) is is_calling_back
    assert flow.reach(program.starts["f"], 0).unknown is is_calling_back
    assert flow.effect(program.starts["f"], 0).releases_unknown is is_calling_back


@pytest.mark.parametrize("wrapper", [
    "call acquire\nret", "jmp acquire",
    "push %rbp\nmov %rdi,%rbp\ncall acquire\npop %rbp\nret",
], ids=["calls", "jumps", "keeps"])
def test_wrapper_acquires(wrapper: str) -> None:
    program = Program(f=f"{KEEP}\ncall wrapper\nhere: call other\nret", wrapper=wrapper)
    assert program.held() == ARGUMENT


def test_wrapper_that_acquires_on_one_way_does_not() -> None:
    program = Program(f=f"{KEEP}\ncall wrapper\nhere: call other\nret",
                      wrapper="test %esi,%esi\nje out\njmp acquire\nout: ret")
    assert program.held() == set()


@pytest.mark.parametrize("code", ["nop\nhere: call other\nret", "mov (%rdi),%rdi\nhere: jmp *%rax"])
def test_function_that_calls_nothing_of_interest_is_not_analysed(code: str) -> None:
    assert Program(f=code).state() is None


def test_recursion_ends() -> None:
    program = Program(f=f"{KEEP}\ncall g\nmov %rbx,%rdi\ncall acquire\nhere: call other\nret",
                      g="call f\ncall release\nret")
    assert program.held() == ARGUMENT


def test_attempt_of_a_helper_counts() -> None:
    program = Program(f=f"{KEEP}\ncall helper\ntest %eax,%eax\njne skip\nhere: call other\nskip: pop %rbx\nret",
                      helper="lea 0x8(%rdi),%rdi\njmp try")
    assert program.held() == {entry("rdi").plus(8)}


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


def test_function_that_returns_a_constant_decides_a_branch() -> None:
    lines = ("{0}\ncall active\ntest %eax,%eax\nsetne %al\ntest %al,%al\nje skip\nmov %rbx,%rdi\ncall acquire\n"
             "skip: nop\n")
    program = Program(f=lines.format(KEEP) + "here: call other\nret", active="mov $0x1,%eax\nret")
    assert program.held() == ARGUMENT
    program = Program(f=lines.format(KEEP) + "here: call other\nret", active="mov %esi,%eax\nret")
    assert program.held() == set()


def test_function_that_releases_through_a_register_only_is_examined() -> None:
    program = Program(f=f"{KEEP}\ncall acquire\ncall helper\nhere: call other\nret",
                      helper=f"mov {LINKS - TEXT - FUNCTION - STEP:#x}(%rip),%rbp\ncall *%rbp\nret")
    program.memory.u64(LINKS, RELEASE)
    at = program.starts["helper"]
    program.memory.write(at, b"\x48\x8b\x2d" + (LINKS - at - 7).to_bytes(4, "little"))
    assert program.held() == set()


def test_function_that_has_jumped_elsewhere_is_not_the_one_of_the_code() -> None:
    program = Program(f="test %esi,%esi\nje g\njmp acquire", g=HOLDING)
    assert program.state("g", entered="f") is not None
    assert set(program.state("g", entered="f").held) == ARGUMENT  # type: ignore[union-attr]


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


def taken(body: str, **functions: str) -> list[tuple[bool, bool]]:
    """(always, kept) of each lock that the function may have acquired."""
    state = Program(f=body, **functions).state()
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


@pytest.mark.parametrize(("end", "gives_back"), [
    ("mov %rbx,%rdi\ncall release", True),
    ("mov %rbx,%rdi\ncall helper", True),
    ("mov %r12,%rdi\ncall release", False),  # it may be another one
    ("lea 0x38(%rbx),%rdi\ncall release", False),
    ("call other", False),
])
def test_function_that_releases_the_lock_that_it_has_acquired(end: str, gives_back: bool) -> None:
    program = Program(f=f"{KEEP}\ncall acquire\nhere: call other\n{end}\nret", helper="call release\nret")
    flow = LockFlow(cast(Target, program), cast(Code, program), EFFECTS)
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
    flow = LockFlow(cast(Target, program), cast(Code, program), EFFECTS)
    assert flow.keeps(program.starts["f"], program.labels["f", "here"], entry("rdi")) is keeps
    assert not flow.keeps(program.starts["f"], program.labels["f", "here"], entry("rsi"))


def test_function_is_analysed_again_only_if_more_of_its_callees_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    analysed: list[int] = []

    def count(flow: LockFlow, found: tuple[int, int], depth: int) -> Function | None:
        analysed.append(found[0])
        return analyse(flow, found, depth)

    monkeypatch.setattr(lock_flow, "analyse", count)
    chain = {f"f{i}": f"sub $0x8,%rsp\ncall f{i + 1}\nadd $0x8,%rsp\nret" for i in range(11)}
    program = Program(**chain, f11="call release\nret")
    flow = LockFlow(cast(Target, program), cast(Code, program), EFFECTS)
    first, last = program.starts["f0"], program.starts["f10"]
    assert flow.effect_of_call(first).releases_unknown  # too deep
    count_of_first = len(analysed)
    assert flow.effect_of_call(last).releases == (entry("rdi"),)
    for start in (first, last, first, last):
        flow.effect_of_call(start)
    assert len(analysed) == count_of_first + 2
    for start in program.starts.values():
        flow.effect_of_call(start)
    assert max(Counter(analysed).values()) <= 7  # the bound of the depth


@pytest.mark.parametrize(("call", "opcode"), [("call *{0:#x}(%rip)", b"\xff\x15"),
                                              ("mov {0:#x}(%rip),%rbp", b"\x48\x8b\x2d")])
@pytest.mark.parametrize("is_releasing", [True, False])
def test_helper_that_has_a_function_of_another_file_release(call: str, opcode: bytes, is_releasing: bool) -> None:
    """It calls the function through a slot, so that its own code names no function that releases."""
    later = "call *%rbp\n" if "mov" in call else ""
    program = Program(f=f"{KEEP}\ncall acquire\nmov %rbx,%rdi\ncall helper\nhere: call other\nret",
                      helper=f"{call.format(0)}\n{later}nop\nnop\nnop\nnop\nret",
                      elsewhere="call release\nret" if is_releasing else "call other\nret")
    at, size = program.starts["helper"], len(opcode) + 4
    program.lines[at] = call.format(LINKS - at - STEP)
    program.memory.write(at, opcode + (LINKS - at - size & 0xFFFFFFFF).to_bytes(4, "little"))
    program.memory.u64(LINKS, program.starts["elsewhere"])
    assert program.held() == (set() if is_releasing else ARGUMENT)
