"""The layout of graphs: threads in one column, locks in another, and curves between. `graph.html.j2` draws it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gdbext.narrate.graph import LEGEND
from gdbext.render.escape import printable
from gdbext.render.style import columns, excerpt

#: The maximum number of nodes that are drawn.
_NODES = 90
#: How many pixels a drawing may be wide: a window of 1,100 less margins and a scroll bar.
_PAGE = 1_000
#: Sizes in pixels: the width of a character and the height of a line of 12-pixel monospace text, padding inside nodes,
#: gaps between nodes, the least gap between the columns and what it has beside the text of an arrow, and the width of a
#: character of that text.
_CHAR, _LINE, _PAD, _GAP, _BETWEEN, _BESIDE, _SMALL = 7.3, 16, 9, 22, 110, 24, 6.7
#: The maximum width of a node's text in columns, and of how many lines one line becomes.
_TEXT, _LINES = 30, 3
#: Characters after which a long name may be broken.
_BREAKS = " /._:,(-"


@dataclass
class Node:
    """A box for a thread or process (`kind` is ``thread``), or for the awaited lock (``lock``).

    `anchor` is the id of an element of the page; `cut` is the whole text if it does not fit. `x` and `y` are the upper
    left corner, which the layout sets.
    """

    key: str
    kind: str
    lines: Sequence[str]
    anchor: str | None = None
    bad: bool = False
    x: float = 0
    y: float = 0
    cut: str | None = None

    def __post_init__(self) -> None:
        whole = [printable(line) for line in self.lines]
        self.lines = [piece for line in whole for piece in _broken(line)]
        if any(columns(line) > _TEXT * _LINES // 2 for line in whole):
            self.cut = "\n".join(whole)

    @property
    def width(self) -> float:
        """In pixels."""
        return max([columns(line) for line in self.lines] or [1]) * _CHAR + 2 * _PAD + 4

    @property
    def height(self) -> float:
        """In pixels."""
        return len(self.lines) * _LINE + 2 * _PAD - 4

    @property
    def middle(self) -> float:
        """The vertical position of the middle, in pixels."""
        return self.y + self.height / 2

    @property
    def radius(self) -> float:
        """The radius of the corners, in pixels."""
        if self.kind != "lock":
            return 3
        return self.height / 2 if len(self.lines) == 1 else 14

    @property
    def text_lines(self) -> list[tuple[float, str]]:
        """The lines, each with its vertical position."""
        return [(self.y + _PAD + 10 + _LINE * index, line) for index, line in enumerate(self.lines)]


class Curve(NamedTuple):
    """The drawing of an arrow: its path, and its text with the position."""

    classes: str
    bad: bool
    path: str
    text: str
    x: float
    y: float


class Drawing(NamedTuple):
    """The drawing of a graph: the curves and boxes of each connected part. `left` nodes are not drawn."""

    width: float
    height: float
    parts: list[tuple[list[Curve], list[Node]]]
    legend: Mapping[str, str]
    left: int


@dataclass
class _Arrow:
    start: str
    end: str
    text: str
    bad: bool
    kind: str


def _broken(line: str) -> list[str]:
    """A line in several that fit, broken behind words and parts of names; the last one may be cut."""
    made: list[str] = []
    while columns(line) > _TEXT and len(made) < _LINES - 1:
        fitting = excerpt(line, _TEXT + 3).text[:-3]
        end = max(fitting.rfind(char) for char in _BREAKS) + 1
        piece = fitting if end < len(fitting) // 2 else fitting[:end]
        made.append(piece.rstrip())
        line = line[len(piece):].lstrip()
    return [*made, excerpt(line, _TEXT).text]


class Graph:
    """A graph of threads and locks, which alternate on every path: so each arrow is between the two columns."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._arrows: dict[tuple[str, str], _Arrow] = {}

    def add(self, node: Node) -> None:
        """Add a node. If it exists already, it may only become bad."""
        there = self._nodes.setdefault(node.key, node)
        there.bad = there.bad or node.bad

    def connect(self, start: str, end: str, text: str, bad: bool, kind: str = "recorded") -> None:
        """Add an arrow between nodes, which may be added later."""
        arrow = self._arrows.setdefault((start, end), _Arrow(start, end, text, bad, kind))
        arrow.bad = arrow.bad or bad

    def draw(self) -> Drawing:
        """Lay out at most `_NODES` nodes."""
        beside: dict[str, list[str]] = {key: [] for key in self._nodes}
        for start, end in self._arrows:
            beside[start].append(end)
            beside[end].append(start)
        parts: list[tuple[list[Curve], list[Node]]] = []
        seen, drawn = set[str](), 0
        width = height = left = top = 0.0
        # deadlocked nodes first
        for key in sorted(self._nodes, key=lambda key: not self._nodes[key].bad):
            if key in seen or drawn >= _NODES:
                continue
            component = _reached(key, beside, _NODES - drawn)
            seen.update(component)
            drawn += len(component)
            inside = [arrow for arrow in self._arrows.values() if arrow.start in component and arrow.end in component]
            nodes = [self._nodes[each] for each in component]
            size = _place(nodes, inside, {each: [self._nodes[other] for other in beside[each] if other in component]
                                          for each in component})
            if left + size[0] > _PAGE:  # the next row
                left, top = 0.0, height + _GAP
            for node in nodes:
                node.x, node.y = node.x + left + 1, node.y + top + 1
            parts.append((list(_curves(self._nodes, inside)), nodes))
            width, height = max(width, left + size[0] + 2), max(height, top + size[1] + 2)
            left += size[0] + 2 * _GAP
        kinds = {arrow.kind for arrow in self._arrows.values()} | {"bad" for node in self._nodes.values() if node.bad}
        legend = {kind: text for kind, text in LEGEND.items() if kind in kinds}
        return Drawing(width, height, parts, legend, len(self._nodes) - drawn)


def _reached(start: str, beside: Mapping[str, Sequence[str]], limit: int) -> list[str]:
    """The connected nodes, nearest first, at most `limit`. A cycle is followed in both directions: it is folded."""
    found = {start: None}
    waiting = [start]
    for key in waiting:
        for other in beside[key]:
            if other not in found and len(found) < limit:
                found[other] = None
                waiting.append(other)
    return list(found)


def _place(nodes: Sequence[Node], arrows: Sequence[_Arrow],
           beside: Mapping[str, Sequence[Node]]) -> tuple[float, float]:
    """Place connected nodes in two columns, and return the width and height of both.

    The nodes of the higher column are one below the other, those of the other one near what they are connected to.
    """
    columns_of_nodes = [[node for node in nodes if (node.kind == "lock") == is_lock] for is_lock in (False, True)]
    between = max([_BETWEEN, *(columns(arrow.text) * _SMALL + _BESIDE for arrow in arrows)])
    width = 0.0
    for column in filter(None, columns_of_nodes):
        most = max(node.width for node in column)
        for node in column:
            node.x = width + (most - node.width) / 2
        width += most + between
    low, high = sorted(columns_of_nodes, key=lambda column: sum(node.height + _GAP for node in column))
    end = 0.0
    for node in high:
        node.y, end = end, end + node.height + _GAP

    def aim(node: Node) -> float:
        near = [other.middle for other in beside[node.key]]
        return sum(near) / len(near) - node.height / 2 if near else 0.0

    below = 0.0
    for node in sorted(low, key=aim):
        node.y = max(aim(node), below)
        below = node.y + node.height + _GAP
    return width - between, max(end, below) - _GAP


def _curves(nodes: Mapping[str, Node], arrows: Sequence[_Arrow]) -> Iterator[Curve]:
    """The curves of arrows, spread along the side of a node where several end."""
    ports: dict[str, list[tuple[float, int]]] = {}
    for index, arrow in enumerate(arrows):
        for one, other in ((arrow.start, arrow.end), (arrow.end, arrow.start)):
            ports.setdefault(one, []).append((nodes[other].middle, index))
    for found in ports.values():
        found.sort()
    # bad arrows are drawn last, above others
    for index in sorted(range(len(arrows)), key=lambda index: arrows[index].bad):
        arrow = arrows[index]
        ends = []
        for key in (arrow.start, arrow.end):
            node, found = nodes[key], ports[key]
            rank = next(place for place, (_, which) in enumerate(found) if which == index)
            ends.append((node.x if node.kind == "lock" else node.x + node.width,
                         node.y + node.height * (rank + 1) / (len(found) + 1)))
        (x, y), (to_x, to_y) = ends
        half = (x + to_x) / 2
        path = f"M{x:.1f} {y:.1f}C{half:.1f} {y:.1f} {half:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"
        # the text is before the middle, where it cannot cover that of an arrow back
        yield Curve(f"line {arrow.kind}", arrow.bad, path, arrow.text, x + (to_x - x) * 0.39, y + (to_y - y) * 0.29 + 4)
