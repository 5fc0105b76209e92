"""Words of the page as plain text: numbers, ranges, names of frames, and how long what comes from the target may be.

Nothing here is markup; `html_markup` escapes what it is given.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from gdbext.render.escape import printable

#: A document of schema ``gdbext/1``, or a part of one.
Json = Mapping[str, Any]

#: How many characters of names, of functions, of paths and of sentences are shown.
NAME, FUNCTION, PATH, SENTENCE = 80, 240, 300, 1000
#: How many threads, or ranges of their numbers, a list shows before it says how many more there are.
MANY = 20
#: How many threads are told together, and how many numbers in a row as a range.
RANGE = 3
_DIGITS = re.compile(r"[0-9]+")


def cut(text: Any, limit: int) -> str:
    """Text of the target that is no longer than that."""
    return printable(str(text), limit)


def plural(count: int, noun: str) -> str:
    """A number and a noun that takes an s."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def ranges(numbers: Collection[int]) -> str:
    """Numbers of threads, many in a row as a range."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    texts = [f"{run[0]}-{run[-1]}" if len(run) >= RANGE else ", ".join(map(str, run)) for run in runs]
    left = sum(map(len, runs[MANY:]))
    return ", ".join(texts[:MANY]) + (f" and {left:,} more" if left else "")


def threads_of(numbers: Collection[int]) -> str:
    """Threads by their numbers; how many there are where one would have to count them."""
    return f"thread {ranges(numbers)}" if len(numbers) == 1 else (
        f"{len(numbers):,} threads ({ranges(numbers)})" if len(numbers) > RANGE else f"threads {ranges(numbers)}")


def name_range(names: Iterable[str | None]) -> str:
    """Names, of those that differ in a number only the first and the last."""
    alike: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        if name:
            alike.setdefault(_DIGITS.sub("0", name), []).append(cut(name, 40))
    texts = [f"{group[0]} ... {group[-1]}" if len(group) >= RANGE else ", ".join(group)
             for group in itertools.islice(alike.values(), 3)]
    left = sum(map(len, itertools.islice(alike.values(), 3, None)))
    return ", ".join(texts) + (f" and {plural(left, 'more name')}" if left else "")


def frame_name(frame: Json) -> str:
    """The function of a frame; where there is none its program counter."""
    if frame["language"] == "python":
        return cut(frame.get("qualified_name") or frame["function"], FUNCTION)
    return f"{cut(frame['function'], FUNCTION)}()" if frame["function"] else str(frame["pc"])


def frame_place(frame: Json) -> str:
    """File and line of a frame, of a native one the module too; what is known of them."""
    if frame["language"] == "python":
        return f"{cut(frame['file'], PATH)}:{frame['line'] if frame['line'] is not None else '?'}"
    place = f"{cut(frame['file'], PATH)}:{frame['line']}" if frame["file"] and frame["line"] else ""
    return " ".join(part for part in (cut(frame["module"] or "", 100), place) if part)


def short_place(stack: Sequence[Json]) -> str | None:
    """Where a thread is in a few words: its innermost Python frame, else its innermost function; None without any."""
    for frame in stack:
        if frame["language"] == "python":
            return f"{cut(frame['function'], 60)} {cut(frame['file'].rpartition('/')[2], 60)}:{frame['line']}"
    return next((frame_name(frame) for frame in stack if frame["function"]), None)
