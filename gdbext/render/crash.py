"""The report of a crash as a page of text: what happened, the instruction, the stack, rules broken, suspects."""

from __future__ import annotations

from collections.abc import Iterator

from gdbext.model import Crash, Finding, Suspect
from gdbext.narrate.crash import (
    IN_HANDLER,
    RULES,
    SUSPECTS,
    circumstances,
    covered,
    finding_text,
    known_by,
    operand_value,
    signal_code,
)
from gdbext.narrate.reasons import explain
from gdbext.narrate.threads import unmerged
from gdbext.render.escape import printable
from gdbext.render.text import TextRenderer

#: How many entries of the stack have their variables shown, from the one to look at first on.
_WITH_VARIABLES = 3
#: How many entries of the stack are shown.
_MAX_ENTRIES = 60


class CrashPage:
    """Renders one crash.

    :param text: renders threads, frames and problems.
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
        yield (style.mark(fault.signal, "bad") + signal_code(fault) + f" in {self._text.thread_name(crash.thread)}"
               + (IN_HANDLER if fault.in_handler else ""))
        text = style.mark(printable(explain(fault.text)), "bad")
        yield f"  {text}{printable(known_by(fault.evidence, fault.why), 300)}"
        for line in circumstances(crash):
            yield f"  {printable(line)}"

    def _instruction(self) -> Iterator[str]:
        fault = self._crash.fault
        if fault.instruction is None:
            return
        yield f"Instruction: {printable(fault.instruction, 200)}"
        for operand in fault.operands:
            yield f"  {printable(operand_value(operand))}"
            for step in operand.came_from:
                yield f"      {printable(explain(step))}"
        yield ""

    def _stack(self) -> Iterator[str]:
        crash = self._crash
        stack = crash.stack
        yield f"Stack of {self._text.thread_name(crash.thread)}:"
        if stack.unmerged is not None:
            yield f"  {self._text.say(unmerged(stack.unmerged))}"
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
        thread = f"{self._text.thread_name(finding.thread)} " if finding.thread is not None else ""
        return f"{rule}: {thread}{printable(finding_text(finding))}"

    def _suspects(self) -> Iterator[str]:
        if not self._crash.suspects:
            return
        yield SUSPECTS
        for suspect in self._crash.suspects:
            yield from self._suspect(suspect)
        yield ""

    def _suspect(self, suspect: Suspect) -> Iterator[str]:
        thread = self._text.thread(suspect.thread)
        doing = f" {self._text.doing(thread)}" if thread is not None else ""
        name = self._text.thread_name(suspect.thread)
        yield f"  {self._text.style.mark(name[0].upper() + name[1:], 'name')}{doing}"
        for line in (*map(explain, suspect.reasons), covered(suspect)):
            yield f"    {printable(line)}"

    def _missing(self) -> Iterator[str]:
        for missing in self._crash.missing:
            yield f"Missing: {printable(explain(missing))}"
