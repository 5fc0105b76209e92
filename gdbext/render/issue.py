"""A report as one fenced block for an issue, of at most 60 lines and 6,000 bytes."""

from __future__ import annotations

from collections.abc import Sequence

from gdbext.model import Report
from gdbext.narrate import issue
from gdbext.narrate.brief import since
from gdbext.narrate.names import seconds_asleep
from gdbext.narrate.verdict import notes
from gdbext.narrate.words import Words
from gdbext.render.escape import Safe, as_text, printable
from gdbext.render.source_excerpts import Source
from gdbext.render.style import PLAIN
from gdbext.render.text import TextRenderer

_FENCE = "```"
#: How long the block may be: in lines, in bytes, and in characters of a line.
_LINES, _BYTES, _WIDTH = 60, 6_000, 300
#: How many of the other threads, and of the lines about what is not known, are shown in attempts to make it fit.
_ATTEMPTS = (("full", 20, 8), ("full", 8, 4), ("none", 8, 4), ("none", 3, 2), ("none", 0, 1))


def issue_block(report: Report, about: Sequence[Words], class_line: str, source: Source,
                processes: Sequence[str] = ()) -> Safe:
    """The block.

    :param about: lines about what runs the program.
    :param class_line: the class of the report.
    :param source: gives source lines.
    :param processes: lines about it and other processes, if they are the answer.
    """
    renderer = TextRenderer(report, PLAIN, source, native="verdict")
    head = [*(renderer.say(words) for words in about if words), class_line, ""]
    for stacks, others, unknown in _ATTEMPTS:
        made = _block([*head, *_body(renderer, stacks, others, processes)], _not_known(renderer, unknown))
        if len(made) <= _LINES and len(as_text(made).encode()) <= _BYTES:
            return as_text(made)
    body, end = [*head, *_body(renderer, "none", 0, processes)], _not_known(renderer, 1)
    while body:
        made = _block([*body, issue.CUT], end)
        if len(made) <= _LINES and len(as_text(made).encode()) <= _BYTES:
            break
        body.pop()
    return as_text(made)


def _block(body: Sequence[str], end: Sequence[str]) -> list[str]:
    # a fence in the text would end the block
    lines = [printable(line, _WIDTH).replace(_FENCE, "'''") for line in body]
    return [f"{_FENCE}text", *lines, *(["", *(printable(line, 2 * _WIDTH).replace(_FENCE, "'''") for line in end)]
                                       if end else []), _FENCE]


def _body(renderer: TextRenderer, stacks: str, most: int, processes: Sequence[str]) -> list[str]:
    """The verdict and the other threads; or the lines about several processes."""
    if processes:
        return list(processes)
    facts = renderer.facts
    # the first line, with the name of the program, and the empty one after it are for terminals
    lines = renderer.verdict(stacks).rstrip("\n").split("\n")[2:]
    asleep = since(facts, seconds_asleep(facts.known(facts.verdict.threads)))
    lines += ["", asleep] if asleep else []
    shown = {number for deadlock in facts.report.deadlocks for number in deadlock.involved} | {
        *facts.verdict.threads, *facts.verdict.behind}
    groups = [renderer.say(words) for words in issue.others(facts, shown)]
    return [*lines, *(["", issue.OTHERS] if groups else []), *(f"  {group}" for group in groups[:most]),
            *([f"  {issue.more(len(groups) - most)}"] if len(groups) > most else [])]


def _not_known(renderer: TextRenderer, most: int) -> list[str]:
    """What is not known, of which the last line is always shown: it says what was taken out."""
    lines = [renderer.say(words) for words in notes(renderer.facts.report)]
    return [*lines[:-1][:most - 1], *lines[-1:]]
