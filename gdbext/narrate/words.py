"""The parts of sentences: fixed words, marked words, and text from the target, which only render/ escapes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple, Union

from gdbext.model import RECORDED
from gdbext.model.reasons import Reason
from gdbext.narrate.reasons import explain

#: The role of marked words. A renderer may colour them or turn them into links.
Role = Literal["thread", "lock", "name", "bad", "good", "why"]


class Foreign(NamedTuple):
    """Text from the target. A renderer escapes it and shows at most `limit` characters."""

    text: str
    limit: int = 80


class Marked(NamedTuple):
    """Words with a role. `key` is the number of the thread or the id of the lock that they name."""

    role: Role
    words: Words
    key: int | str | None = None


Word = Union[str, Foreign, Marked]
Words = tuple[Word, ...]


def plain(words: Words) -> str:
    """The words as one string, without roles, neither escaped nor cut."""
    return "".join([word if isinstance(word, str) else word.text if isinstance(word, Foreign) else plain(word.words)
                    for word in words])


def unmarked(words: Words) -> Words:
    """The words without roles; text from the target stays `Foreign`."""
    made: list[Word] = []
    for word in words:
        made += unmarked(word.words) if isinstance(word, Marked) else [word]
    return tuple(made)


def capitalised(words: Words) -> Words:
    """The words with a capital first letter, unless they begin with a name of code (``threading.Lock``)."""
    first = words[0]
    if isinstance(first, Marked):
        return (first._replace(words=capitalised(first.words)), *words[1:])
    if isinstance(first, str) and not first.split(" ", 1)[0].rstrip(",;:").isalpha():
        return words
    return (first[:1].upper() + first[1:], *words[1:]) if isinstance(first, str) else words


def listed(parts: Iterable[Words], separator: str = ", ") -> Words:
    """Join parts with a separator."""
    made: list[Word] = []
    for part in parts:
        made += [separator, *part] if made else part
    return tuple(made)


def plural(count: int, noun: str) -> str:
    """A number and a noun, with a plural s or "es" if needed."""
    return f"{count:,} {noun}{'' if count == 1 else 'es' if noun.endswith('s') else 's'}"


def problem_of(target: str, problem: str) -> str:
    """A problem that begins with the name of its target, once."""
    return problem if problem.startswith((f"{target} ", f"{target}: ")) else f"{target}: {problem}"


def reason(why: Reason | str, limit: int = 1000) -> Foreign:
    """The sentence of a reason; it may contain names from the target."""
    return Foreign(explain(why) if isinstance(why, Reason) else why, limit)


def in_parentheses(why: Reason | str | None) -> Words:
    """A reason in parentheses; empty without a reason."""
    return (Marked("why", (" (", reason(why), ")")),) if why else ()


def known_by(evidence: str, why: Reason | str | None) -> Words:
    """The evidence of a statement in parentheses; empty if it is recorded."""
    if evidence == RECORDED:
        return ()
    return (Marked("why", (f" ({evidence}: ", reason(why, 800), ")") if why else (f" ({evidence})",)),)
