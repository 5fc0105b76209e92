"""Markup: what comes from the target is escaped here, in one place, by taking every string for text.

`Markup` alone is left as it is. Elements are made with `tag`; nothing else should write a ``<`` that holds something of
the target's.
"""

from __future__ import annotations

import html
import itertools
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from gdbext.render.escape import printable
from gdbext.render.html_text import NAME, SENTENCE, cut


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


#: What an element may contain: text, which is escaped, or `Markup`.
Content = str
NOTHING = Markup("")


def join(parts: Iterable[Content]) -> Markup:
    """Parts one after another; those that are not markup are escaped."""
    return Markup("".join([part if isinstance(part, Markup) else html.escape(printable(part, SENTENCE))
                           for part in parts]))


def tag(element: str, *content: Content, void: bool = False, **attributes: str | int | bool | None) -> Markup:
    """An element. Attributes that are None or false are left out; ``class_`` is class, ``aria_label`` aria-label."""
    text = "".join([f" {key.rstrip('_').replace('_', '-')}" if value is True else
                    f' {key.rstrip("_").replace("_", "-")}="{html.escape(printable(str(value), SENTENCE))}"'
                    for key, value in attributes.items() if value is not None and value is not False])
    return Markup(f"<{element}{text}>" if void else f"<{element}{text}>{join(content)}</{element}>")


def named(text: Any, limit: int = NAME) -> Markup:
    """A name of the target's: what is written from right to left in it must not turn round what is beside it."""
    return tag("bdi", cut(text, limit))


def listed(parts: Sequence[Content], separator: str = ", ") -> Markup:
    """Parts with a separator between them."""
    return join(list(itertools.chain.from_iterable((separator, part) for part in parts))[1:])


def table(titles: Sequence[str], rows: Sequence[Markup], numbers: Collection[str] = ()) -> Markup:
    """A table that can be scrolled where it is too wide.

    :param rows: ``tr`` elements.
    :param numbers: those titles whose columns hold numbers.
    """
    head = [tag("th", title, scope="col", class_="number" if title in numbers else None) for title in titles]
    return tag("div", tag("table", tag("thead", tag("tr", *head)), tag("tbody", *rows)), class_="wide")
