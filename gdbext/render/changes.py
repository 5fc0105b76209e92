"""What has changed between two reports, as text, or as JSON of schema ``gdbext-diff/1``."""

from __future__ import annotations

from collections.abc import Sequence

from gdbext.model import Lock, Report
from gdbext.narrate import changes as words
from gdbext.narrate.changes import Changes
from gdbext.narrate.names import MANY, Facts, number_list
from gdbext.narrate.words import Words, listed, plain
from gdbext.render.escape import Safe, as_text, json_line, printable
from gdbext.render.style import PLAIN, Style
from gdbext.render.text import TextRenderer

SCHEMA = "gdbext-diff/1"
#: The colour of the title.
_MARKS = {"proven": "bad", "fine": "good", "other": "name"}
#: How many characters of a text JSON has.
_LONGEST = 400


def changes_text(changes: Changes, style: Style = PLAIN) -> Safe:
    """Whether the second report proves the hang, and what has moved."""
    say = TextRenderer(changes.after, style, lambda path, line: None).say
    title = style.mark(words.TITLES[changes.proof], _MARKS.get(changes.proof, "lock"))
    lines = [say(words.introduction(changes)), "", f"{title}: {say(words.answer(changes))}.", ""]
    for heading, entries in ((words.LASTED, list(words.lasted(changes))), (words.MOVED, list(words.moved(changes))),
                             (words.HANDED, list(words.handed(changes)))):
        lines += _listed(heading, [say(entry) for entry in entries])
    for heading, report, threads in ((words.NEW, changes.after, changes.new),
                                     (words.GONE, changes.before, changes.gone)):
        if threads:
            lines += [f"{heading} {say(listed(words.names(Facts(report), threads)))}", ""]
    same = words.in_place(changes)
    lines += [f"{words.IDLE} {number_list(same)}", ""] if same else []
    return as_text(lines[:-1])


def _listed(heading: str, entries: Sequence[str]) -> list[str]:
    if not entries:
        return []
    more = [f"  and {len(entries) - MANY:,} more"] if len(entries) > MANY else []
    return [heading, *(f"  {entry}" for entry in entries[:MANY]), *more, ""]


def changes_json(changes: Changes) -> Safe:
    """The same on one line of JSON; threads have the numbers of the second report, ended ones those of the first."""
    def text(entry: Words) -> str:
        return printable(plain(entry), _LONGEST)

    def lwps(report: Report, lock: Lock) -> list[int]:
        return [thread.lwp for thread in Facts(report).known(holder.thread for holder in lock.holders)]

    return json_line({
        "schema": SCHEMA, "pid": changes.after.target.pid,
        "seconds": round(changes.seconds, 3) if changes.seconds is not None else None,
        "proof": changes.proof, "sentence": text(words.answer(changes)),
        "verdicts": [Facts(changes.before).verdict.kind, Facts(changes.after).verdict.kind],
        "ran": [pair.after.number for pair in changes.pairs if pair.ran],
        "not_run": [pair.after.number for pair in changes.pairs if pair.ran is False],
        "moved": [text(entry) for entry in words.moved(changes)],
        "lasted": [{"thread": pair.after.number, "lock": pair.after.waits.lock if pair.after.waits else None}
                   for pair in changes.lasted],
        # by LWP: numbers of threads may have changed
        "handed": [{"lock": after.id, "before": lwps(changes.before, before), "after": lwps(changes.after, after)}
                   for before, after in changes.handed],
        "new": [thread.number for thread in changes.new], "gone": [thread.number for thread in changes.gone],
    })
