"""Fingerprints of known bugs: the files in ``bugs/``; docs/known-bugs.md describes their members."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gdbext.record import record

#: The package of bugs in the interpreter and its standard library.
CPYTHON = "CPython"
_FOLDER = Path(__file__).resolve().parent / "bugs"
#: A release, and what makes it come before that release (an alpha, beta or candidate) or belong to it (``.post1``).
_VERSION = re.compile(r"(\d+(?:\.\d+){0,5})(a|b|rc|\.dev)?")
_FINAL = 1


@record
class ThreadPrint:
    """What must be true of one thread.

    `waits_for` and `holds` are kinds of locks, any of which will do. `frames` are Python functions, innermost first, as
    (function, end of the file's path); others may be between them.
    """

    waits_for: tuple[str, ...] = ()
    holds: tuple[str, ...] = ()
    frames: tuple[tuple[str, str], ...] = ()


@record
class TaskPrint:
    """What must be true of one task of asyncio or trio.

    `waits_for` are kinds of locks and other objects, any of which will do, `frames` as in `ThreadPrint`. If `unheld`,
    no task holds the lock.
    """

    waits_for: tuple[str, ...] = ()
    frames: tuple[tuple[str, str], ...] = ()
    unheld: bool = False


@record
class Fingerprint:
    """A known bug and the facts of a report that show it.

    `hangs` are the versions in which its program was seen to hang, `ends` those in which it ended. The first of
    `threads` is one that the verdict is about.
    """

    id: str
    title: str
    url: str
    package: str
    since: str
    hangs: tuple[str, ...]
    ends: tuple[str, ...]
    confirmed: str
    verdicts: tuple[str, ...]
    threads: tuple[ThreadPrint, ...] = ()
    tasks: tuple[TaskPrint, ...] = ()
    reasons: tuple[str, ...] = ()
    workaround: str | None = None

    def is_affected(self, version: str) -> bool | None:
        """Whether a version has the bug; None if it was not tried and is between versions that were."""
        here = _parsed(version)
        if here is None:
            return None
        hangs, ends = _all_parsed(self.hangs), _all_parsed(self.ends)
        fixed_here = [end for end in ends if _branch(end) == _branch(here)]
        if any(here >= end for end in fixed_here) or not fixed_here and here >= max(ends):
            return False
        since = _parsed(self.since)
        if since is not None and here < since:
            return False
        tried = [hang for hang in hangs if here <= hang and (_branch(hang) == _branch(here) or not fixed_here)]
        return True if tried else None

    def fixed_in(self, version: str | None) -> str:
        """The first version in which the bug did not occur: of the same branch as `version`, or else of any."""
        here = _parsed(version or "")
        ends = sorted(self.ends, key=lambda end: _parsed(end) or ())
        same = [end for end in ends if here is not None and _branch(_parsed(end) or ()) == _branch(here)]
        return (same or ends)[0]


def _parsed(version: str) -> tuple[int, ...] | None:
    """A version as numbers that compare; None if it is not one. A candidate comes before its release."""
    found = _VERSION.match(version)
    if found is None:
        return None
    numbers = tuple(map(int, found[1].split(".")))
    return (*numbers, *(0,) * (6 - len(numbers)), 0 if found[2] else _FINAL)


def _all_parsed(versions: Sequence[str]) -> list[tuple[int, ...]]:
    return [parsed for parsed in map(_parsed, versions) if parsed is not None]


def _branch(version: tuple[int, ...]) -> tuple[int, ...]:
    """The first two numbers, within which fixes are ported back."""
    return version[:2]


def parse(data: dict[str, Any]) -> Fingerprint:
    """Make a fingerprint of the members of its file.

    :raises KeyError: a member is missing.
    :raises TypeError: there is a member that is not known.
    """
    facts, confirmed = data["facts"], data["confirmed"]
    return Fingerprint(
        data["id"], data["title"], data["url"], data["package"], data["since"], tuple(confirmed["hangs"]),
        tuple(confirmed["ends"]), confirmed["date"], tuple(facts["verdict"]),
        tuple([ThreadPrint(tuple(each.get("waits_for", ())), tuple(each.get("holds", ())),
                           _frames(each.get("frames", ()))) for each in facts.get("threads", ())]),
        tuple([TaskPrint(tuple(each.get("waits_for", ())), _frames(each.get("frames", ())), each.get("unheld", False))
               for each in facts.get("tasks", ())]), tuple(facts.get("reasons", ())),
        data.get("workaround"))


def _frames(frames: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Frames of a file, each a function and the end of a path with a space between."""
    return tuple([(function, path) for function, _, path in (frame.partition(" ") for frame in frames)])


@functools.lru_cache(maxsize=1)
def _files() -> tuple[dict[str, Any], ...]:
    """The files of all known bugs, by name."""
    return tuple([json.loads(path.read_text(encoding="utf-8")) for path in sorted(_FOLDER.glob("*.json"))])


@functools.lru_cache(maxsize=1)
def fingerprints() -> tuple[Fingerprint, ...]:
    """All known bugs, by name of their file."""
    return tuple(map(parse, _files()))


def read_file(bug: Fingerprint) -> dict[str, Any]:
    """The members of the file of a bug."""
    return next(data for data in _files() if data["id"] == bug.id)
