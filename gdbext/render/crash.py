"""The report of a crash as text: what happened, the instruction, the stack, rules broken, suspects."""

from __future__ import annotations

from collections.abc import Iterator

from gdbext.model import Crash, Fault
from gdbext.narrate.crash import (
    SUSPECTS,
    broken_rule,
    circumstances,
    likely_suspects,
    own_findings,
    suspect_title,
    suspicions,
    title,
    what_happened,
)
from gdbext.narrate.frames import inlined_calls, numbered
from gdbext.narrate.names import thread_name
from gdbext.narrate.reasons import explain
from gdbext.narrate.threads import unmerged
from gdbext.render.escape import Safe, as_text, concatenated, printable
from gdbext.render.text import TextRenderer

#: How many entries of the stack, from the guilty frame outwards, are shown with their variables.
_WITH_VARIABLES = 3
#: How many entries of the stack are shown.
_MAX_ENTRIES = 60


def crash_page(text: TextRenderer, crash: Crash) -> Safe:
    """Render one crash, and the notes and problems of its report.

    :param text: renders threads, frames and problems.
    """
    return concatenated([crash_text(text, crash), as_text(text.problems())])


def crash_text(text: TextRenderer, crash: Crash) -> Safe:
    """Render one crash without notes and problems.

    :param text: renders threads and frames.
    """
    facts = text.facts
    own = own_findings(crash)
    others = [finding for finding in crash.findings if finding not in own]
    lines = [text.say(title(facts, crash)), f"  {text.say(what_happened(crash))}",
             *(f"  {text.say(broken_rule(facts, each))}" for each in own),
             *(f"  {printable(line)}" for line in circumstances(crash)),
             *(f"  {text.say(words)}" for words in [likely_suspects(facts, crash)] if words), "",
             *_instruction(crash.fault), *_stack(text, crash)]
    if others:
        lines += ["Rules broken:", *(f"  {text.say(broken_rule(facts, each))}" for each in others), ""]
    if crash.suspects:
        lines.append(SUSPECTS)
        for suspect in crash.suspects:
            lines.append(f"  {text.say(suspect_title(facts, suspect))}")
            lines += [f"    {printable(line)}" for line in suspicions(suspect)]
        lines.append("")
    lines += [f"Missing: {printable(explain(missing))}" for missing in crash.missing]
    return as_text(lines)


def _instruction(fault: Fault) -> Iterator[str]:
    if fault.instruction is None:
        return
    yield f"Instruction: {printable(fault.instruction, 200)}"
    for operand in fault.operands:
        what = f": {explain(operand.what)}" if operand.what is not None else ""
        yield f"  {printable(f'{operand.text} = {operand.value:#x}{what}')}"
        for step in operand.came_from:
            yield f"      {printable(explain(step))}"
    yield ""


def _stack(text: TextRenderer, crash: Crash) -> Iterator[str]:
    stack, mark = crash.stack, text.style.mark
    yield f"Stack of {text.say(thread_name(text.facts, crash.thread))}:"
    if stack.unmerged is not None:
        yield f"  {text.say(unmerged(stack.unmerged))}"
    with_variables = 0
    for count, (index, part) in enumerate(numbered(stack.parts)):
        if count >= _MAX_ENTRIES:
            yield f"  ... {len(stack.frames) - index} frames more"
            break
        variables = None
        is_near = crash.guilty is not None and index >= crash.guilty and with_variables < _WITH_VARIABLES
        if is_near and part.text is None and stack.variables.get(index):
            with_variables, variables = with_variables + 1, stack.variables
        lines = text.entry(part, index, "  ", variables)
        if index == crash.guilty and lines:
            at = len(inlined_calls(part.frames[0])) if part.text is None else 0
            lines[at] = mark("->", "bad") + lines[at][2:]
        yield from lines
    yield ""
