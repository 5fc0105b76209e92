"""The command line of a command: its options by argparse, what it takes besides, and completion."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from gdbext.errors import UsageError
from gdbext.record import record

#: Digits of more than Unicode's, or than GDB itself counts with, make no thread number.
_NUMBER = re.compile(r"[0-9]{1,9}")
_SECONDS = re.compile(r"[0-9]{1,5}(?:\.[0-9]{1,3})?")


@record
class Option:
    """What `argparse.ArgumentParser.add_argument` gets; the last of the `flags` is offered for completion."""

    flags: tuple[str, ...]
    settings: Mapping[str, Any]


def option(*flags: str, **settings: Any) -> Option:
    """An option, described as for `argparse.ArgumentParser.add_argument`."""
    return Option(flags, settings)


JSON = option("--json", action="store_true", help="print one JSON document, schema gdbext/1, and nothing else")


class _Parser(argparse.ArgumentParser):

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, f"see `help {self.prog}`")


def parse(command: str, words: Sequence[str], options: Sequence[Option]) -> argparse.Namespace:
    """Options by their names, and what is left besides them in `rest`.

    A word that begins with ``--`` must be an option, unless it stands after ``--``.

    :raises UsageError: an option is unknown, lacks its value or has a wrong one.
    """
    parser = _Parser(command, add_help=False, allow_abbrev=False)
    for each in options:
        parser.add_argument(*each.flags, **each.settings)
    end = words.index("--") if "--" in words else len(words)
    found, rest = parser.parse_known_args(words[:end])
    for word in rest:
        if word.startswith("--"):
            raise UsageError(f"unknown option {word}",
                             "the options are " + ", ".join(each.flags[-1] for each in options))
    found.rest = (*rest, *words[end + 1:])
    return found


def file_name(text: str) -> str:
    """The value of an option that names a file."""
    if not text:
        raise argparse.ArgumentTypeError("needs the name of a file")
    return text


def seconds(text: str) -> float:
    """The value of an option that is a number of seconds."""
    if not _SECONDS.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number of seconds")
    return float(text)


def complete(word: str, options: Sequence[Option]) -> list[str]:
    """What may follow: options, each with every value that it may have."""
    words = [text for each in options for text in
             [f"{each.flags[-1]}={choice}" for choice in each.settings.get("choices", ())] or [each.flags[-1]]]
    return [candidate for candidate in words if candidate.startswith(word)]


def thread_numbers(text: str, existing: Sequence[int]) -> list[int]:
    """A thread list as GDB users write it: ``1 3-5``, ``all`` or nothing.

    :raises UsageError: it is no list, or names a thread that does not exist.
    """
    if text.strip() in ("", "all"):
        return list(existing)
    chosen: set[int] = set()
    for word in text.replace(",", " ").split():
        first, dash, last = word.partition("-")
        if not _NUMBER.fullmatch(first) or (dash and not _NUMBER.fullmatch(last)):
            raise UsageError(f"{word[:40]!r} is no thread number", "give numbers as `info threads` shows them: 1 3-5")
        wanted = range(int(first), int(last if dash else first) + 1)
        if len(wanted) > 1_000_000:
            raise UsageError(f"{word!r} is too wide", "give numbers as `info threads` shows them")
        found = {number for number in existing if number in wanted}
        if not found:
            raise UsageError(f"there is no thread {word}", "`info threads` lists them")
        chosen |= found
    return [number for number in existing if number in chosen]
