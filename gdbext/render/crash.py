"""The report of a crash as a page of text: what happened, the instruction, the stack, rules broken, suspects."""

from __future__ import annotations

from collections.abc import Iterator

from gdbext.model import RECORDED, Crash, Fault, Finding, NativeFrame, PyFrame, Suspect
from gdbext.narrate.reasons import explain
from gdbext.render.escape import printable
from gdbext.render.text import TextRenderer

#: How many entries of the stack have their variables shown, from the one to look at first on.
_WITH_VARIABLES = 3
#: How many entries of the stack are shown.
_MAX_ENTRIES = 60
RULES = {
    "no-thread-state": "Without a thread state", "without-gil": "Without the GIL",
    "after-finalisation": "After finalisation", "impossible-object": "No object any more",
    "blocks-with-gil": "Blocks with the GIL",
}


class CrashPage:
    """Renders one crash.

    :param text: renders what is no crash's own: threads, frames, problems.
    """

    def __init__(self, text: TextRenderer, crash: Crash) -> None:
        self._text = text
        self._crash = crash

    def page(self) -> str:
        """All of it."""
        lines = [*self._headline(), "", *self._instruction(), *self._stack(), *self._rules(), *self._suspects(),
                 *self._missing()]
        return "\n".join([*lines, *self._text.problems()]) + "\n"

    def _headline(self) -> Iterator[str]:
        crash, fault, style = self._crash, self._crash.fault, self._text.style
        code = f" ({fault.code})" if fault.code and fault.sender is None and fault.code != "SI_TKILL" else ""
        yield f"{style.mark(fault.signal, 'bad')}{code} in {self._text.thread_name(crash.thread)}" + (
            ", whose handler of the signal was running" if fault.in_handler else "")
        yield f"  {style.mark(printable(fault.text, 1000), 'bad')}{_evidence(fault)}"
        if fault.sender is not None:
            yield f"  sent by process {fault.sender[0]} of user {fault.sender[1]}"
        place = self._place()
        if place is not None:
            yield f"  in {place}"
        if crash.recursion is not None:
            yield from self._recursion()

    def _place(self) -> str | None:
        """The innermost native frame of the program's own code, and the innermost Python one."""
        crash = self._crash
        if crash.guilty is None:
            return None
        frame = crash.stack.frames[crash.guilty]
        python = next((other for other in crash.stack.frames[crash.guilty:] if isinstance(other, PyFrame)), None)
        parts = []
        if isinstance(frame, NativeFrame):
            name = printable(self._name(crash.guilty), 200)
            where = f" at {printable(frame.file, 300)}:{frame.line}" if frame.file and frame.line else (
                f" in {printable(frame.module, 100)}" if frame.module else "")
            parts.append(name + where)
        if python is not None:
            parts.append(f"{printable(python.function, 120)} at {printable(python.file, 300)}:{python.line}")
        return ", called by ".join(parts)

    def _name(self, index: int) -> str:
        """A frame's function as its own language has it."""
        frame = self._crash.stack.frames[index]
        if isinstance(frame, PyFrame):
            return f"{frame.function} (Python)"
        at = 0
        for part in self._crash.stack.parts:
            if at == index and part.name is not None:
                return f"{part.name}()"
            at += len(part.frames)
        return f"{frame.function}()" if frame.function else f"{frame.pc:#x}"

    def _recursion(self) -> Iterator[str]:
        recursion = self._crash.recursion
        assert recursion is not None
        least = "" if recursion.whole else "at least "
        names = list(dict.fromkeys(self._name(index) for index in recursion.round))
        more = f" and {len(names) - 6} more" if len(names) > 6 else ""
        yield (f"  recursion: {least}{recursion.frames:,} native frames; {least}{recursion.rounds:,} times "
               + " <- ".join(printable(name, 80) for name in names[:6]) + more)
        if recursion.used is not None:
            yield f"  {recursion.used >> 10:,} KiB of the stack are in use"

    def _instruction(self) -> Iterator[str]:
        fault = self._crash.fault
        if fault.instruction is None:
            return
        yield f"Instruction: {printable(fault.instruction, 200)}"
        for operand in fault.operands:
            what = f": {printable(operand.what, 300)}" if operand.what else ""
            yield f"  {printable(operand.text, 80)} = {operand.value:#x}{what}"
            for origin in (operand.came_from or "").split("; "):
                if origin:
                    yield f"      {printable(origin, 400)}"
        yield ""

    def _stack(self) -> Iterator[str]:
        crash = self._crash
        stack = crash.stack
        yield f"Stack of {self._text.thread_name(crash.thread)}:"
        if stack.unmerged:
            yield f"  Python frames first, then native ones: {printable(explain(stack.unmerged))}"
        at, shown, told = 0, 0, 0
        for part in stack.parts:
            if shown >= _MAX_ENTRIES:
                yield f"  ... {len(stack.frames) - at} frames more"
                break
            first, at, shown = at, at + len(part.frames), shown + 1
            variables = None
            near = crash.guilty is not None and first >= crash.guilty and told < _WITH_VARIABLES
            if near and part.text is None and stack.variables.get(first):
                told, variables = told + 1, stack.variables
            lines = self._text.entry(part, first, "  ", variables)
            if first == crash.guilty and lines:
                lines[0] = "->" + self._text.style.mark(lines[0][2:], "bad") if not self._text.style.colour else (
                    self._text.style.mark("->", "bad") + lines[0][2:])
            yield from lines
        yield ""

    def _rules(self) -> Iterator[str]:
        if not self._crash.findings:
            return
        yield "Rules broken:"
        for finding in self._crash.findings:
            yield f"  {self._finding(finding)}"
        yield ""

    def _finding(self, finding: Finding) -> str:
        rule = self._text.style.mark(RULES.get(finding.rule, finding.rule), "bad")
        who = f"{self._text.thread_name(finding.thread)} " if finding.thread is not None else ""
        why = f" ({finding.evidence}: {printable(finding.why, 300)})" if finding.why else (
            f" ({finding.evidence})" if finding.evidence != RECORDED else "")
        return f"{rule}: {who}{printable(finding.text, 600)}{why}"

    def _suspects(self) -> Iterator[str]:
        if not self._crash.suspects:
            return
        yield "Suspects of a race, the likeliest first (what they were doing at that moment):"
        for suspect in self._crash.suspects:
            yield from self._suspect(suspect)
        yield ""

    def _suspect(self, suspect: Suspect) -> Iterator[str]:
        thread = self._text.thread(suspect.thread)
        doing = f" {self._text.doing(thread)}" if thread is not None else ""
        name = self._text.thread_name(suspect.thread)
        yield f"  {self._text.style.mark(name[0].upper() + name[1:], 'name')}{doing}"
        for reason in suspect.reasons:
            yield f"    {printable(reason, 400)}"
        yield f"    {printable(suspect.covered, 400)}"

    def _missing(self) -> Iterator[str]:
        for line in self._crash.missing:
            yield f"Missing: {printable(line, 500)}"


def _evidence(fault: Fault) -> str:
    if fault.evidence == RECORDED:
        return ""
    return f" ({fault.evidence}: {printable(fault.why, 300)})" if fault.why else f" ({fault.evidence})"
