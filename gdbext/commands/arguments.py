"""The command line of a command: its options, what it takes besides, and completion."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field

from gdbext.errors import UsageError
from gdbext.record import record

#: Digits of more than Unicode's, or than GDB itself counts with, make no thread number.
_NUMBER = re.compile(r"[0-9]{1,9}")
_AMOUNT = re.compile(r"[0-9]{1,5}(?:\.[0-9]{1,3})?")


@record
class Option:
    """``--name``, ``--name=VALUE`` with one of `choices`, or ``--name VALUE`` when `value` names it.

    With a `default` the value may be left out: ``--name``, ``--name 2``, ``--name=2``; it must be a number then. One
    that is `short` may be written ``-name`` too, as GDB's own commands have it.
    """

    name: str
    help: str
    choices: tuple[str, ...] = ()
    value: str | None = None
    default: str | None = None
    short: bool = False


@record
class Arguments:
    """A parsed command line; `rest` is what is left besides the options."""

    options: dict[str, str] = field(default_factory=dict)
    rest: tuple[str, ...] = ()

    def __contains__(self, name: str) -> bool:
        return name in self.options

    def get(self, name: str, default: str) -> str:
        """An option's value, or the default."""
        return self.options.get(name, default)


JSON = Option("json", "print one JSON document, schema gdbext/1, and nothing else")


def parse(words: Sequence[str], options: Sequence[Option]) -> Arguments:
    """Options and the rest of a command line; a word that begins with ``--`` must be an option.

    :raises UsageError: an option is unknown, lacks its value or has a wrong one.
    """
    known = {option.name: option for option in options}
    found: dict[str, str] = {}
    rest: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if word == "--":
            rest += left
            break
        if not word.startswith("--"):
            option = known.get(word[1:]) if word.startswith("-") else None
            if option is None or not option.short:
                rest.append(word)
                continue
            word = f"-{word}"
        name, equals, value = word[2:].partition("=")
        option = known.get(name)
        if option is None:
            raise UsageError(f"unknown option {word}", "the options are " + ", ".join(f"--{name}" for name in known))
        if option.default is not None:
            if not equals:
                value = left.pop(0) if left and _AMOUNT.fullmatch(left[0]) else option.default
            if not _AMOUNT.fullmatch(value):
                raise UsageError(f"--{name} cannot be {value!r}", f"write --{name} or --{name} {option.value}")
        elif option.value and not value:
            if equals or not left:
                raise UsageError(f"--{name} needs a {option.value}", f"write --{name} {option.value}")
            value = left.pop(0)
        elif option.choices and value not in option.choices:
            raise UsageError(f"--{name} cannot be {value!r}" if equals else f"--{name} needs a value",
                             "choose from " + ", ".join(f"--{name}={choice}" for choice in option.choices))
        elif equals and not option.value and not option.choices:
            raise UsageError(f"--{name} takes no value", f"write --{name}")
        found[name] = value
    return Arguments(found, tuple(rest))


def complete(word: str, options: Sequence[Option]) -> list[str]:
    """What may follow: option names, and the values of an option whose name is complete."""
    words = []
    for option in options:
        if option.choices:
            words += [f"--{option.name}={choice}" for choice in option.choices]
        else:
            words.append(f"{'-' if option.short else '--'}{option.name}")
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
