"""Parsing and completion of a command's arguments, with argparse."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from gdbext.errors import UsageError

#: ASCII digits only, and no more of them than GDB's thread numbers have.
_NUMBER = re.compile(r"[0-9]{1,9}")
_SECONDS = re.compile(r"[0-9]{1,5}(?:\.[0-9]{1,3})?")


class Option:
    """The arguments of `argparse.ArgumentParser.add_argument`. Completion offers the last of the flags."""

    def __init__(self, *flags: str, **settings: Any) -> None:
        self.flags = flags
        self.settings = settings


JSON = Option("--json", action="store_true")
#: The report decides about success: `debugger.command` implements it.
FAIL = Option("--fail", action="store_true")


class _Parser(argparse.ArgumentParser):

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, f"see `help {self.prog}`")


def parse(command: str, words: Sequence[str], options: Sequence[Option]) -> argparse.Namespace:
    """Parse a command's options by name; the other words become `rest`.

    A word that begins with ``--`` must be an option, unless it follows ``--``.

    :raises UsageError: an option is unknown, lacks its value or has an invalid one.
    """
    parser = _Parser(command, add_help=False, allow_abbrev=False)
    for option in options:
        parser.add_argument(*option.flags, **option.settings)
    end = words.index("--") if "--" in words else len(words)
    found, rest = parser.parse_known_args(words[:end])
    for word in rest:
        if word.startswith("--"):
            raise UsageError(f"unknown option {word}",
                             "the options are " + ", ".join(option.flags[-1] for option in options))
    found.rest = (*rest, *words[end + 1:])
    return found


def file_name(text: str) -> str:
    """Convert the value of an option that names a file."""
    if not text:
        raise argparse.ArgumentTypeError("needs the name of a file")
    return text


def seconds(text: str) -> float:
    """Convert the value of an option that is a number of seconds."""
    if not _SECONDS.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number of seconds")
    return float(text)


def complete(word: str, options: Sequence[Option]) -> list[str]:
    """List the options that begin with `word`; an option with choices is listed once with each of them."""
    words = [text for option in options for text in
             [f"{option.flags[-1]}={choice}" for choice in option.settings.get("choices", ())] or [option.flags[-1]]]
    return [candidate for candidate in words if candidate.startswith(word)]


def thread_numbers(text: str, existing: Sequence[int]) -> list[int]:
    """Parse a thread list in GDB's syntax: ``1 3-5``, ``all``, or empty for all threads.

    :raises UsageError: it is not a list of thread numbers, or names a thread that does not exist.
    """
    if text.strip() in ("", "all"):
        return list(existing)
    chosen: set[int] = set()
    for word in text.replace(",", " ").split():
        first, dash, last = word.partition("-")
        if not _NUMBER.fullmatch(first) or (dash and not _NUMBER.fullmatch(last)):
            raise UsageError(f"{word[:40]!r} is not a thread number",
                             "give numbers as `info threads` shows them: 1 3-5")
        numbers = range(int(first), int(last if dash else first) + 1)
        if len(numbers) > 1_000_000:
            raise UsageError(f"the range {word!r} is too large", "give numbers as `info threads` shows them")
        found = {number for number in existing if number in numbers}
        if not found:
            raise UsageError(f"there is no thread {word}", "`info threads` lists them")
        chosen |= found
    return [number for number in existing if number in chosen]
