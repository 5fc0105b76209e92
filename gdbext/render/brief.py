"""A report in brief: text of at most 15 lines, or JSON of at most 4,000 characters, schema ``gdbext-brief/1``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gdbext.model import Report
from gdbext.narrate import verdict
from gdbext.narrate.brief import brief, evidence, left_out, since
from gdbext.narrate.names import Facts, heading
from gdbext.narrate.sentences import sentence, verdict_title
from gdbext.narrate.words import Words, plain, reason
from gdbext.render.escape import Safe, as_text, json_line, printable
from gdbext.render.style import Style
from gdbext.render.text import TextRenderer

SCHEMA = "gdbext-brief/1"
#: How many lines the text has, and how many of them are for threads, as many for links, and for remarks.
_LINES, _GROUPS, _REMARKS = 15, 4, 2
#: The maximum length of the JSON, in characters.
_MOST = 4_000


def brief_text(report: Report, style: Style, processes: Sequence[str] = ()) -> Safe:
    """The verdict, its threads, the edges between them, since when, and the next step, on at most 15 lines.

    :param processes: lines about it and other processes, if they are the answer.
    """
    renderer = TextRenderer(report, style, lambda path, line: None)
    if processes:
        return as_text([renderer.say(verdict.header(report)), *list(filter(None, processes))[:_LINES - 2],
                        f"Next: {' '.join(_children(report))}"])
    facts, found = renderer.facts, brief(renderer.facts, _GROUPS)
    say, step = renderer.say, verdict.next_step(facts)
    lines = [say(verdict.header(report)), renderer.verdict_line()]
    lines += [say(words) for words in found.remarks[:_REMARKS]]
    lines += [f"  {say(heading(members))}{': ' if words else ''}{say(words)}" for members, words in found.groups]
    lines += [f"  {say(link.words)}{say(evidence(link))}" for link in found.links]
    ends = since(facts, found.since), f"Next: {step}" if step else "", say(left_out(found.left_out, report))
    return as_text([*lines, *filter(None, ends)])


def _children(report: Report) -> list[str]:
    return ["gdbext", "report", "--children", str(report.target.pid)]


def brief_json(report: Report, processes: Sequence[str] = ()) -> Safe:
    """The same as `brief_text` on one line of JSON."""
    facts = Facts(report)
    for limit in (400, 200, 100, 30):
        for most in (12, 8, 4, 2, 0):
            made = json_line(_document(facts, most, limit, processes))
            if len(made) <= _MOST:
                return made
    raise AssertionError("a document without lists is short")


def _document(facts: Facts, most: int, limit: int, processes: Sequence[str]) -> dict[str, Any]:
    """The document; its lists have at most `most` elements, and its texts about `limit` characters."""
    report, found = facts.report, brief(facts, most)

    def text(words: Words) -> str:
        return printable(plain(words), limit)

    def short(name: str | None) -> str | None:
        return printable(name, min(limit, 100)) if name is not None else None

    judged, target = facts.verdict, report.target
    step = _children(report) if processes else verdict.next_arguments(facts)
    return {
        "schema": SCHEMA,
        "target": {"kind": target.kind, "pid": target.pid, "program": short(target.command_line or target.executable)},
        "verdict": {"kind": judged.kind, "title": printable(verdict_title(judged), 60),
                    "sentence": text(sentence(facts)), "evidence": judged.evidence,
                    "ends_by_itself": found.ends_by_itself},
        "remarks": [text(words) for words in found.remarks[:most]],
        "threads": [{"numbers": [thread.number for thread in members[:most]], "count": len(members),
                     "lwp": members[0].lwp, "name": short(members[0].python_name or members[0].name),
                     "does": text(words)} for members, words in found.groups],
        "edges": [{"waiters": list(link.of.waiters[:most]), "lock": short(link.of.lock),
                   "holders": list(link.of.holders[:most]), "text": text(link.words), "evidence": link.evidence,
                   "why": text((reason(link.why),)) if link.why is not None else None}
                  for link in found.links],
        "behind": list(judged.behind[:most]), "since": round(found.since, 3) if found.since is not None else None,
        "next": step if step is None or sum(map(len, step)) <= limit else None,
        "left_out": {f"{noun}s": count for noun, count in found.left_out.items()},
        **({"private": [text(words) for words in verdict.taken_out(report)]} if verdict.taken_out(report) else {}),
        **({"processes": [printable(line.strip(), limit) for line in filter(None, processes)][:most]}
           if processes else {}),
    }
