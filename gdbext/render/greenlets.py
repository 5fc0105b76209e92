"""Greenlets as text: a section for each thread, greenlets with the same stack together."""

from __future__ import annotations

from gdbext.model import Report
from gdbext.narrate import greenlets
from gdbext.render.escape import Safe, as_text
from gdbext.render.text import TextRenderer

_LIMITS = {"full": None, "top": 3, "none": 0}


def greenlet_list(report: Report, text: TextRenderer, stacks: str) -> Safe:
    """All greenlets of a report; empty if there are none.

    :param stacks: ``full``, ``top`` (the first frames only) or ``none``.
    """
    lines: list[str] = []
    limit = _LIMITS[stacks]
    for thread, members in greenlets.by_thread(report):
        lines.append(text.say(greenlets.heading(text.facts, thread, members)))
        for group in greenlets.grouped(members):
            first = group[0]
            which = "Greenlet " if len(group) == 1 else f"{len(group):,} greenlets "
            each = " " if len(group) == 1 else ": each "
            doing = greenlets.doing(text.facts, first, group)
            lines.append("  " + text.say((which, *greenlets.names(group), each, *doing)))
            lines += ["    " + line for line in (text.stack(first.stack, limit) if limit != 0 else [])]
        lines.append("")
    others = greenlets.others(report)
    if others:
        lines.append(text.say(others))
    return as_text(lines)
