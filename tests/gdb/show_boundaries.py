"""Shows each Python thread's stack with its boundaries named, as a JSON document; GDB runs this with ``-x``."""

import json
from typing import Optional, Union

from gdbext.analysis.boundaries import Facts, present, read_imports, split
from gdbext.analysis.code import Code, InterpreterCode
from gdbext.analysis.findings import Findings
from gdbext.analysis.python_side import Python, combined_stack, read_pythons
from gdbext.analysis.stacks import merge
from gdbext.cpython.runtime import ThreadState
from gdbext.debugger.target import GdbTarget, Session
from gdbext.model import Part, PyFrame
from gdbext.target.protocol import ThreadRef

Row = dict[str, Union[str, int, None]]


def row(part: Part) -> Row:
    frame = part.frames[0]
    if part.text is not None:
        return {"text": part.text, "frames": len(part.frames)}
    place = frame.file if isinstance(frame, PyFrame) else frame.module
    shown = part.name or frame.function
    return {"function": shown, "place": place.rpartition("/")[2] if place else None, "note": part.note}


class Look:
    """What is read once for all threads."""

    def __init__(self, target: GdbTarget) -> None:
        self.target = target
        self.code = Code(target, Findings())
        pythons = read_pythons(target, self.code, (), Findings())
        self.interpreter_code = InterpreterCode(self.code, [python.runtime.module for python in pythons])
        self.tstates = {tstate.thread_id: (python, tstate) for python in pythons
                        for interpreter in python.interpreters for tstate in interpreter.threads}

    def rows(self, thread: ThreadRef) -> Optional[list[Row]]:
        """The stack of a thread, None if it runs no Python."""
        registers = self.target.registers(thread)
        pair = self.tstates.get(registers["fs_base"])
        return self._present(thread, registers, *pair) if pair else None

    def _present(self, thread: ThreadRef, registers: dict[str, int], python: Python, tstate: ThreadState) -> list[Row]:
        native = self.code.unwind(thread, registers)
        python_stack = combined_stack([(python, tstate)], tstate)
        items, unmerged = merge(native, python_stack, lambda pc: python.is_eval(self.code, pc), lambda pc: False)
        assert unmerged is None, unmerged
        kept, left_out = split(items, native, self.interpreter_code.__getitem__)
        stack = [self.code.frame(native[item][0], item) if isinstance(item, int) else item for item in kept]
        facts = Facts(left_out, lambda pc: self.code.frame(pc, 1).function,
                      lambda: read_imports(python.frames, python.objects, python.frames.raw(tstate.address)))
        parts = present(stack, facts)
        assert [frame for part in parts for frame in part.frames] == stack
        return [row(part) for part in parts]


with Session() as selected:
    look = Look(selected)
    found = {str(thread.lwp): look.rows(thread) for thread in selected.threads()}
print(json.dumps(found))
