"""Frames of stacks, with their variables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gdbext.render.html_markup import NOTHING, Markup, join, named, tag
from gdbext.render.html_text import FUNCTION, Json, cut, frame_name, frame_place, plural
from gdbext.render.html_told import Budget, telling_frames

#: Of how many frames of a crash the variables are shown at once, if they are few, and how many are few.
_WITH_VARIABLES, _FEW = 3, 8


class Stacks:
    """Makes the stacks of a page, which may not become too large."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    def whole(self, stack: Sequence[Json], guilty: int | None = None) -> Markup:
        """A whole stack, or, where the page would become too large, its inner end.

        :param guilty: which frame to look at first.
        """
        count = self._budget.frames(len(stack))
        if count == len(stack):
            made = _frames(enumerate(stack), guilty)
        else:
            made = join([_frames(enumerate(stack[:count])), tag(
                "p", f"{len(stack) - count:,} further frames are left out to keep the page small; the text and JSON "
                     "have them.", class_="why")])
        self._budget.spend(len(made))
        return made


def telling(stack: Sequence[Json]) -> Markup:
    """The frames of a stack that tell what its thread is doing."""
    chosen = telling_frames(stack)
    return _frames((index, stack[index]) for index in chosen) if chosen else NOTHING


def frame_words(frame: Json) -> Markup:
    """A frame in a sentence."""
    place = frame_place(frame)
    between = " in " if frame["language"] == "native" and not frame["file"] else " at "
    return join([tag("code", named(frame_name(frame), FUNCTION)), between if place else "", named(place, 420)])


def _frames(frames: Iterable[tuple[int, Json]], guilty: int | None = None) -> Markup:
    """Frames with their numbers; a gap in these is one that is shown."""
    items, expected = [], 0
    for index, frame in frames:
        python = frame["language"] == "python"
        kind = f" [{frame['kind']}]" if python and frame["kind"] else ""
        # those of the frame to look at first, and of who called it, are to be seen at once
        near = guilty is not None and guilty <= index < guilty + _WITH_VARIABLES
        values = _locals(frame.get("locals", ()), near)
        class_ = ("p" if python else "n") + (" guilty" if index == guilty else "")
        # numbers and end tags only where a browser needs them: there may be many
        items.append(f'<li class="{class_}"{f" value={index}" if index != expected else ""}>'
                     f"{tag('b', frame_name(frame))}{kind and join([kind])} {tag('i', frame_place(frame))}{values}\n")
        expected = index + 1
    return Markup(f'<ol class="stack" start="0">{"".join(items)}</ol>')


def _locals(variables: Sequence[Json], near: bool) -> Markup:
    if not variables:
        return NOTHING
    items = [tag("li", tag("b", named(each["name"], 60)), f": {cut(each['type'], 80)} = ", named(each["value"], 400))
             for each in variables]
    return tag("details", tag("summary", plural(len(items), "variable")), tag("ul", *items), class_="locals",
               open=near and len(items) <= _FEW)
