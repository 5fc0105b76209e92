"""Registers of a thread's frames count only if they are those of the frame that gdbext has found."""

from __future__ import annotations

import pytest

from gdbext.holders.frames import ThreadStack
from gdbext.threads.code import read_code
from gdbext.threads.findings import Findings
from gdbext.threads.threads import read_threads
from tests.support.reader_program import FUNCTION, WORK, Reader


@pytest.mark.parametrize(("moved", "is_known"), [(0, True), (8, False)])
def test_registers_are_known_if_the_debugger_finds_the_same_frame(moved: int, is_known: bool) -> None:
    reader = Reader()
    thread = reader.thread
    thread.frames = [(WORK, thread.stack), (FUNCTION + 8, thread.stack + 0x100)]
    thread.registers.update(rip=WORK, rsp=thread.stack)
    reader.target.older_registers[1, 1] = {"rip": FUNCTION + 8, "rsp": thread.stack + 0x100 + moved, "rbx": 7}
    findings = Findings()
    code = read_code(reader.target, findings)
    stack = ThreadStack(reader.target, code, read_threads(reader.target, None, findings)[1])
    assert stack.registers(0)["rip"] == WORK
    assert stack.registers(1).get("rbx") == (7 if is_known else None)
