"""Summaries of functions that call each other, within bounds."""

from __future__ import annotations

from collections import Counter
from typing import cast

import pytest

from gdbext.inferior.protocol import Target
from gdbext.proofs import callees
from gdbext.proofs.analysis import LockAnalysis
from gdbext.proofs.flow.atomics import Inlined
from gdbext.proofs.flow.function import Function, analyse
from gdbext.proofs.flow.state import entry
from gdbext.proofs.flow.summaries import Callees, Summary
from gdbext.proofs.machine_code import MachineCode
from gdbext.threads.code import Code
from tests.support.flow_program import ARGUMENT, EFFECTS, KEEP, MODULE, AtomicProgram, Program


def test_code_of_a_function_that_acquires_is_not_analysed() -> None:
    """Its calls are deeper than the bound, which would make it an unknown one."""
    deep = {f"deep{i}": f"call deep{i + 1}\nret" for i in range(8)}
    program = AtomicProgram(lock="call deep0\nret", deep8="xchg %eax,(%rdi)\nret", **deep)
    lock = program.starts["lock"]
    effect = Summary(acquires={entry("rdi"): frozenset()})
    flow = LockAnalysis(cast(Target, program), cast(Code, program), {lock: effect}, inlined=program.inlined)
    for depth in (4, 0):
        assert not flow.callees.escapes(lock, depth).unknown
        assert flow.callees.summary(lock, depth) is effect


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
    flow = LockAnalysis(cast(Target, program), cast(Code, program), {}, inlined=program.inlined,
                    waiting=[program.starts["wait"]] if is_waiting else [])
    state = flow.held_at(program.labels["f", "here"])
    assert state is not None
    assert {*state.held} == (ARGUMENT if is_held else set())


@pytest.mark.parametrize("is_calling_back", [True, False])
def test_file_that_calls_back(is_calling_back: bool) -> None:
    """Its functions may release any lock, and those of another file only copy memory."""
    program = AtomicProgram(f="ret")
    flow = LockAnalysis(cast(Target, program), cast(Code, program), {}, [] if is_calling_back else [MODULE],
                    program.inlined, [MODULE] if is_calling_back else [])
    assert flow.graph.calls_back(program.starts["f"]) is is_calling_back
    assert flow.callees.escapes(program.starts["f"], 0).unknown is is_calling_back
    assert flow.callees.summary(program.starts["f"], 0).releases_unknown is is_calling_back


def test_recursion_ends() -> None:
    program = Program(f=f"{KEEP}\ncall g\nmov %rbx,%rdi\ncall acquire\nhere: call other\nret",
                      g="call f\ncall release\nret")
    assert program.held() == ARGUMENT


def test_function_is_analysed_again_only_if_more_of_its_callees_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    analysed: list[int] = []

    def count(code: MachineCode, summaries: Callees, inlined: Inlined | None, found: tuple[int, int],
              depth: int) -> Function | None:
        analysed.append(found[0])
        return analyse(code, summaries, inlined, found, depth)

    monkeypatch.setattr(callees, "analyse", count)
    chain = {f"f{i}": f"sub $0x8,%rsp\ncall f{i + 1}\nadd $0x8,%rsp\nret" for i in range(11)}
    program = Program(**chain, f11="call release\nret")
    flow = LockAnalysis(cast(Target, program), cast(Code, program), EFFECTS)
    first, last = program.starts["f0"], program.starts["f10"]
    assert flow.summary_of_call(first).releases_unknown  # too deep
    count_of_first = len(analysed)
    assert flow.summary_of_call(last).releases == (entry("rdi"),)
    for start in (first, last, first, last):
        flow.summary_of_call(start)
    assert len(analysed) == count_of_first + 2
    for start in program.starts.values():
        flow.summary_of_call(start)
    assert max(Counter(analysed).values()) <= 7  # the bound of the depth
