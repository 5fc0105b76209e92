from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import pytest

from gdbext.model import (
    DERIVED,
    INFERRED,
    Crash,
    Fault,
    Finding,
    Local,
    MixedStack,
    NativeFrame,
    Operand,
    Part,
    PyFrame,
    Recursion,
    Report,
    Suspect,
)
from gdbext.model.reasons import because
from gdbext.render.crash import crash_page
from gdbext.render.style import Style
from gdbext.render.text import TextRenderer
from gdbext.schema.write import document
from tests.support.fake_report import HOSTILE, gil_deadlock, hostile
from tests.support.reasons import text as said

SGR = re.compile(r"\x1b\[[0-9;]*m")

FRAMES = (NativeFrame("PyObject_GetAttr", "libpython3.11.so.1.0", 0x7E10),
          NativeFrame("mesh::Cache::find", "libdrv.so", 0x7F10, "/src/cache.cc", 12),
          PyFrame("update", "Table.update", "/app/job.py", 41), PyFrame("main", "main", "/app/job.py", 90),
          NativeFrame(None, "server", 0x401000))
PARTS = (*(Part((frame,)) for frame in FRAMES[:4]), Part(FRAMES[4:], "1 frame"))
FAULT = Fault("SIGSEGV", "SEGV_MAPERR", "null-member",
              said("read 8 bytes at 0x18: the member at offset 0x18 of a null pointer (%rdi)"), address=0x18,
              access="read", size=8, pc=0x7F10, instruction="mov 0x18(%rdi),%rax",
              operands=(Operand("0x18(%rdi)", 0x18, because("small-number", value=24)),
                        Operand("%rdi", 0, because("null"), (
                            because("argument", register="rdi", number=1, function="f", is_this=0),
                            because("in-caller", function="g", origin=because(
                                "constant", register="rdi", instruction="xor %edi,%edi"))))),
              registers={"rdi": 0, "rip": 0x7F10})
CRASH = Crash(1, FAULT, MixedStack(FRAMES, PARTS, None, {1: (Local("self", "mesh::Cache *", "0x0"),),
                                                         2: (Local("row", "int", "7"),)}), 1)


def report_of(crash: Crash) -> Report:
    return dataclasses.replace(gil_deadlock(), crash=crash)


def page(crash: Crash, colour: bool = False, report: Report | None = None) -> str:
    report = report or report_of(crash)
    return crash_page(TextRenderer(report, Style(colour), lambda file, line: None), crash)


def with_fault(**changes: Any) -> Crash:
    return dataclasses.replace(CRASH, fault=dataclasses.replace(FAULT, **changes))


def test_page_of_a_crash() -> None:
    assert page(CRASH) == """\
SIGSEGV (SEGV_MAPERR) in thread 1 "MainThread"
  read 8 bytes at 0x18: the member at offset 0x18 of a null pointer (%rdi)
  in mesh::Cache::find() at /src/cache.cc:12, called by update at /app/job.py:41

Instruction: mov 0x18(%rdi),%rax
  0x18(%rdi) = 0x18: not an address: 24 is too small
  %rdi = 0x0: null
      %rdi is argument 1 of f
      in g: %rdi was set by `xor %edi,%edi`

Stack of thread 1 "MainThread":
  #0   PyObject_GetAttr () in libpython3.11.so.1.0
->#1   mesh::Cache::find () in libdrv.so at /src/cache.cc:12
           self: mesh::Cache * = 0x0
  #2   update at /app/job.py:41
           row: int = 7
  #3   main at /app/job.py:90
       ... 1 frame


Note: no layout table for CPython 3.11.7; the table for 3.11.2 fits and is used
Not known: thread 5: unreadable: it runs
"""


def test_evidence_of_the_fault() -> None:
    assert "(inferred" not in page(CRASH)
    assert "null pointer (%rdi) (derived: by the code)\n" in page(with_fault(evidence=DERIVED, why=said("by the code")))
    assert "null pointer (%rdi) (inferred)\n" in page(with_fault(evidence=INFERRED))


def test_signals_that_were_sent() -> None:
    text = page(with_fault(signal="SIGABRT", code="SI_USER", kind="sent", text=said("was sent"), sender=(4242, 1000)))
    assert text.startswith('SIGABRT in thread 1 "MainThread"\n  was sent\n  sent by process 4242 of user 1000\n')
    # abort() sends the signal by tgkill()
    assert page(with_fault(signal="SIGABRT", code="SI_TKILL")).startswith('SIGABRT in thread 1 "MainThread"\n')
    assert "sent by" not in page(CRASH)
    assert page(with_fault(code=None)).startswith('SIGSEGV in thread 1 "MainThread"\n')


def test_fault_in_a_signal_handler() -> None:
    assert page(with_fault(in_handler=True)).startswith(
        'SIGSEGV (SEGV_MAPERR) in thread 1 "MainThread", while a signal handler was running\n')


def test_without_an_instruction() -> None:
    assert "Instruction" not in page(with_fault(instruction=None, operands=()))


def test_place_of_the_fault() -> None:
    def place(index: int | None, stack: MixedStack = CRASH.stack) -> str:
        text = page(dataclasses.replace(CRASH, guilty=index, stack=stack))
        return next((line for line in text.splitlines() if line.startswith("  in ")), "")

    assert place(None) == ""
    assert place(3) == "  in main at /app/job.py:90"
    assert place(0) == "  in PyObject_GetAttr() in libpython3.11.so.1.0, called by update at /app/job.py:41"
    assert place(4) == "  in 0x401000 in server"
    named = dataclasses.replace(CRASH.stack, parts=(PARTS[0], Part((FRAMES[1],), name="cholesky.solve"), *PARTS[2:]))
    assert place(1, named).startswith("  in cholesky.solve() at /src/cache.cc:12")


def test_variables_are_shown_from_the_guilty_frame() -> None:
    variables = {index: (Local(f"v{index}", "int", "1"),) for index in range(5)}
    text = page(dataclasses.replace(CRASH, stack=dataclasses.replace(CRASH.stack, variables=variables)))
    assert [f"v{index}:" in text for index in range(5)] == [False, True, True, True, False]
    text = page(dataclasses.replace(CRASH, guilty=None))
    assert "self:" not in text
    assert "->" not in text


def test_unmerged_stack_shows_the_reason() -> None:
    crash = dataclasses.replace(CRASH, stack=dataclasses.replace(CRASH.stack, unmerged=said("no frame fits")))
    assert "\n  Python frames first, then native ones: no frame fits\n" in page(crash)


def test_long_stacks_are_cut() -> None:
    frames = tuple(NativeFrame(f"f{i}", "server", 0x401000 + i) for i in range(500))
    crash = dataclasses.replace(CRASH, stack=MixedStack(frames, tuple(Part((frame,)) for frame in frames)), guilty=0)
    text = page(crash)
    assert "f59 ()" in text
    assert "f60 ()" not in text
    assert "\n  ... 440 frames more\n" in text


def test_recursion() -> None:
    recursion = Recursion((1, 2), 9_000, 20_000, False, 8 << 20)
    text = page(dataclasses.replace(CRASH, recursion=recursion))
    assert ("\n  recursion: at least 20,000 native frames; at least 9,000 times mesh::Cache::find() <- update (Python)"
            "\n  8,192 KiB of the stack are in use\n") in text
    text = page(dataclasses.replace(CRASH, recursion=Recursion((1,), 900, 950, True)))
    assert "\n  recursion: 950 native frames; 900 times mesh::Cache::find()\n" in text
    assert "KiB" not in text
    assert "recursion" not in page(CRASH)


def test_recursion_names_a_few_functions() -> None:
    frames = tuple(NativeFrame(f"f{i}", "server", 0x401000 + i) for i in range(64))
    stack = MixedStack(frames, tuple(Part((frame,)) for frame in frames))
    text = page(dataclasses.replace(CRASH, stack=stack, recursion=Recursion(tuple(range(64)), 10, 640, True)))
    assert "10 times f0() <- f1() <- f2() <- f3() <- f4() <- f5() and 58 more\n" in text


@pytest.mark.parametrize(("rule", "title"), [
    ("no-thread-state", "Without a thread state"), ("without-gil", "Without the GIL"),
    ("after-finalisation", "After finalisation"), ("impossible-object", "Dead object"),
    ("blocks-with-gil", "Blocks with the GIL")])
def test_rules(rule: str, title: str) -> None:
    findings = (Finding(rule, 2, said("does what it may not")),
                Finding(rule, None, said("is so"), DERIVED, said("of this")), Finding(rule, 1, said("is so"), INFERRED))
    text = page(dataclasses.replace(CRASH, findings=findings))
    own = f'  {title}: thread 1 "MainThread" is so (inferred)\n'
    # what the thread that died did is above its place
    is_first = rule != "blocks-with-gil"
    assert f"""
Rules broken:
  {title}: thread 2 "loader" does what it may not
  {title}: is so (derived: of this)
{"" if is_first else own}""" in text
    assert (text.index(own) < text.index("\n  in ")) == is_first
    assert "Rules broken" not in page(CRASH)


def test_threads_of_a_crash_are_cut() -> None:
    """They are rarely the answer; --each lists all."""
    base = report_of(CRASH)
    others = tuple(dataclasses.replace(
        base.threads[-1], number=number, lwp=number, waits=None, holds=(), parts=(),
        stack=(PyFrame("f", "f", "/app/job.py", number),) * 3) for number in range(10, 400))
    report = dataclasses.replace(base, threads=(*base.threads, *others))
    text, whole = (TextRenderer(report, Style(), lambda file, line: None).threads(None, each, "full")
                   for each in (False, True))
    assert len(text.splitlines()) < 260
    assert re.search(r"^\.\.\. 3\d\d more threads: --each lists all$", text, re.MULTILINE)
    assert "Thread 399 " in whole
    assert "--each" not in whole


def test_suspects() -> None:
    suspects = (Suspect(2, (because("same-function", function="intern()"), said("has 0x10 in %rbx")),
                        (because("no-common-lock"),)),
                Suspect(9, (said("is in clear()"),), (because("both-hold", locks=("gil:0",)),), ("gil:0",)))
    text = page(dataclasses.replace(CRASH, suspects=suspects))
    assert """
Suspects of a data race, the likeliest first, with what each was doing:
  Thread 2 "loader" waits for the GIL, held by thread 1 "MainThread"
    is in intern() too
    has 0x10 in %rbx
    no lock in common
  Thread 9
    is in clear()
    both hold the GIL
""" in text
    assert "Suspects" not in page(CRASH)


def test_likely_suspects_are_above_the_stack() -> None:
    """One that is alone has its reason there; of several, any may be innocent."""
    strong, weak = because("same-function", function="intern()"), because("same-library", function="f()", library="x")
    covered = (because("no-common-lock"),)
    alone = page(dataclasses.replace(CRASH, suspects=(Suspect(2, (strong,), covered),)))
    assert '  may have raced with thread 2 "loader", which is in intern() too\n' in alone.partition("Stack of")[0]
    several = page(dataclasses.replace(CRASH, suspects=(Suspect(2, (strong,), covered), Suspect(1, (weak,), covered))))
    assert ('  may have raced with one of these: thread 2 "loader", thread 1 "MainThread"\n'
            in several.partition("Stack of")[0])
    assert "raced" not in page(dataclasses.replace(CRASH, suspects=(Suspect(2, (weak,), covered),)))


def test_missing_files() -> None:
    text = page(dataclasses.replace(CRASH, missing=(said("libx.so is not there"), said("the core is truncated"))))
    assert "\nMissing: libx.so is not there\nMissing: the core is truncated\n" in text
    assert "Missing" not in page(CRASH)


FULL = dataclasses.replace(
    CRASH, fault=dataclasses.replace(FAULT, why=said("by the code"), evidence=INFERRED, message="said", sender=(1, 2)),
    recursion=Recursion((1, 2), 900, 2000, False, 8 << 20), missing=(said("libx.so"),),
    findings=(Finding("without-gil", 2, said("is so"), INFERRED, said("of this")),),
    suspects=(Suspect(2, (said("has it too"),), (because("no-common-lock"),), ("gil:0",)),))


def test_colour_adds_nothing_but_colour() -> None:
    coloured = page(FULL, colour=True)
    assert SGR.search(coloured)
    assert SGR.sub("", coloured) == page(FULL)
    assert "\x1b" not in page(FULL)


def hostile_crash() -> Crash:
    """`FULL` with hostile text in every string that may come from the target."""
    crash = hostile(FULL)
    stack = dataclasses.replace(hostile(FULL.stack), variables={
        index: tuple(hostile(each) for each in values) for index, values in FULL.stack.variables.items()})
    fault = dataclasses.replace(crash.fault, signal="SIGSEGV", code="SEGV_MAPERR")
    findings = tuple(dataclasses.replace(finding, rule="without-gil") for finding in crash.findings)
    return dataclasses.replace(crash, stack=stack, fault=fault, findings=findings)


@pytest.mark.parametrize("colour", [False, True])
def test_text_from_the_target_is_escaped(colour: bool) -> None:
    crash = hostile_crash()
    report = hostile(gil_deadlock())
    text = SGR.sub("", page(crash, colour, dataclasses.replace(report, crash=crash)))
    assert HOSTILE[0] in text
    for char in HOSTILE:
        if not char.isprintable() and char != "\n":
            assert char not in text, hex(ord(char))
    # hostile text never starts a line
    assert not any(line.startswith(("b", "\\nb")) for line in text.splitlines())


def test_length_of_lines_is_limited() -> None:
    long = "x" * 100_000
    fault = dataclasses.replace(FAULT, text=said(long), why=said(long), evidence=INFERRED, instruction=long, operands=(
        Operand(long, 1, said(long), (said(long),)),))
    frames = (NativeFrame(long, long, 1, long, 2), PyFrame(long, long, long, 3))
    stack = MixedStack(frames, tuple(Part((frame,), None, long, long) for frame in frames), said(long), {
        0: (Local(long, long, long),)})
    findings = (Finding("without-gil", 1, said(long), INFERRED, said(long)),)
    suspects = (Suspect(2, (said(long),), (said(long),)),)
    crash = Crash(1, fault, stack, 0, Recursion((0, 1), 10, 10, True), findings, suspects, (said(long),))
    assert max(map(len, page(crash).splitlines())) < 2000


@pytest.mark.parametrize("colour", [False, True])
def test_lines_fit_a_terminal(colour: bool) -> None:
    style = Style(colour, 60)
    text = crash_page(TextRenderer(report_of(FULL), style, lambda file, line: None), FULL)
    lines = SGR.sub("", style.wrap(text)).splitlines()
    assert max(map(len, lines)) <= 60
    assert re.sub(r"\s+", "", "".join(lines)) == re.sub(r"\s+", "", page(FULL))


def test_json() -> None:
    made = document(report_of(FULL), ("crash",))
    crash = made["crash"]
    assert crash["thread"] == 1
    assert crash["guilty_frame"] == 1
    assert crash["fault"]["address"] == "0x18"
    assert crash["fault"]["operands"][0] == {
        "text": "0x18(%rdi)", "value": "0x18", "what": "not an address: 24 is too small",
        "what_code": {"code": "small-number", "arguments": {"value": 24}}, "came_from": None, "came_from_codes": []}
    assert crash["fault"]["operands"][1]["came_from"] == (
        "%rdi is argument 1 of f; in g: %rdi was set by `xor %edi,%edi`")
    assert crash["fault"]["registers"] == {"rdi": "0x0", "rip": "0x7f10"}
    assert crash["fault"]["sender"] == {"pid": 1, "uid": 2}
    assert [frame["language"] for frame in crash["stack"]] == ["native", "native", "python", "python", "native"]
    assert crash["stack"][1]["locals"] == [{"name": "self", "type": "mesh::Cache *", "value": "0x0"}]
    assert "locals" not in crash["stack"][0]
    assert crash["recursion"] == {
        "round": [1, 2], "rounds": 900, "frames": 2000, "whole": False, "stack_used": 8 << 20}
    assert crash["findings"] == [{"rule": "without-gil", "thread": 2, "text": "is so", "evidence": "inferred",
                                  "text_code": {"code": "text", "arguments": {"text": "is so"}},
                                  "why": "of this",
                                  "why_code": {"code": "text", "arguments": {"text": "of this"}}}]
    assert crash["suspects"] == [{"thread": 2, "reasons": ["has it too"], "covered": "no lock in common",
                                  "reasons_codes": [{"code": "text", "arguments": {"text": "has it too"}}],
                                  "covered_codes": [{"code": "no-common-lock", "arguments": {}}],
                                  "common_locks": ["gil:0"]}]
    assert (crash["missing"], crash["frames_left_out"]) == (["libx.so"], 0)
    plain = document(report_of(CRASH), ("crash",))["crash"]
    assert (plain["recursion"], plain["fault"]["sender"], plain["findings"]) == (None, None, [])


def test_json_of_a_deep_stack() -> None:
    frames = tuple(NativeFrame("f", "server", 0x401000) for _ in range(20_000))
    crash = dataclasses.replace(CRASH, stack=MixedStack(frames, (Part(frames, "20000 frames"),)))
    made = document(report_of(crash), ("crash",))["crash"]
    assert (len(made["stack"]), made["frames_left_out"]) == (500, 19_500)


def test_json_of_hostile_text() -> None:
    made = document(report_of(hostile_crash()), ("crash",))
    text = json.dumps(made)
    assert text.isascii()
    assert json.loads(text) == made
    assert made["crash"]["fault"]["text"] == HOSTILE


def test_no_crash_no_member() -> None:
    assert "crash" not in document(gil_deadlock(), ("crash",))
    assert "crash" not in document(report_of(CRASH))
