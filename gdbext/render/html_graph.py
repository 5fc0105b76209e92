"""The layout of graphs: nodes in layers, and curves between them. `graph.html.j2` draws it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gdbext.narrate.graph import LEGEND
from gdbext.render.escape import printable
from gdbext.render.style import columns, excerpt

#: The maximum number of nodes that are drawn.
_NODES = 90
#: How many pixels a drawing may be wide: a window of 1,100 less margins and a scroll bar. Layers are drawn side by side
#: if they fit, else one below the other.
_PAGE = 1_000
#: Sizes in pixels: the width of a character and the height of a line of 12-pixel monospace text, padding inside nodes,
#: gaps between nodes and between stacked layers, the least gap between layers side by side and what it has beside the
#: text of an arrow, and the width of a character of that text.
_CHAR, _LINE, _PAD, _GAP, _BELOW, _BETWEEN, _BESIDE, _SMALL = 7.3, 16, 9, 22, 59, 70, 24, 6.7
#: The maximum width of a node's text in columns, and of how many lines one line becomes.
_TEXT, _LINES = 30, 3
#: Characters after which a long name may be broken.
_BREAKS = " /._:,(-"

#: along the layers and inside a layer, or x and y
_Point = tuple[float, float]


@dataclass
class Node:
    """A box for a thread or process (`kind` is ``thread``), or for the awaited lock (``lock``).

    `anchor` is the id of an element of the page; `cut` is the whole text if it does not fit. The other fields are set
    by the layout.
    """

    key: str
    kind: str
    lines: Sequence[str]
    anchor: str | None = None
    bad: bool = False
    layer: int = 0
    #: the position along the layers, and inside the layer
    depth: float = 0
    place: float = 0
    #: the upper left corner
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
    """A layered graph of threads and locks, which alternate on every path.

    Nodes of one layer are never connected, since layers are numbered along the arrows. A cycle is folded: its layers
    are numbered by the distance from its first node. So it becomes two rows side by side that meet at the end.
    """

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
        after: dict[str, list[str]] = {key: [] for key in self._nodes}
        before: dict[str, list[str]] = {key: [] for key in self._nodes}
        for start, end in self._arrows:
            after[start].append(end)
            before[end].append(start)
        parts: list[tuple[list[Curve], list[Node]]] = []
        seen, drawn = set[str](), 0
        width = height = left = top = 0.0
        # deadlocked nodes first
        for key in sorted(self._nodes, key=lambda key: not self._nodes[key].bad):
            if key in seen or drawn >= _NODES:
                continue
            component = _reached([key], lambda node: after[node] + before[node], _NODES - drawn)
            seen.update(component)
            drawn += len(component)
            layers = self._layers(component, after, before)
            inside = [arrow for arrow in self._arrows.values() if arrow.start in component and arrow.end in component]
            size, place = self._component(layers, inside)
            if left + size[0] > _PAGE:  # the next row
                left, top = 0.0, height + _GAP
            parts.append((place(left, top), [node for layer in layers for node in layer if node.lines]))
            width, height = max(width, left + size[0]), max(height, top + size[1])
            left += size[0] + 2 * _GAP
        kinds = {arrow.kind for arrow in self._arrows.values()} | {"bad" for node in self._nodes.values() if node.bad}
        legend = {kind: text for kind, text in LEGEND.items() if kind in kinds}
        return Drawing(width, height, parts, legend, len(self._nodes) - drawn)

    def _layers(self, component: Sequence[str], after: Mapping[str, Sequence[str]],
                before: Mapping[str, Sequence[str]]) -> list[list[Node]]:
        members = set(component)
        cycles: dict[str, set[str]] = {}
        for key in component:
            forward = set(_reached([key], lambda node: [each for each in after[node] if each in members]))
            back = set(_reached([key], lambda node: [each for each in before[node] if each in members]))
            if len(forward & back) > 1:
                cycles[key] = forward & back
        placed: dict[str, int] = {}

        def put(key: str, layer: int) -> list[str]:
            """Place a node and its cycle, and return the placed nodes in order."""
            cycle = cycles.get(key, {key})
            made = _reached([key], lambda node: [each for each in (*after[node], *before[node]) if each in cycle])
            placed[key] = layer
            for node in made[1:]:
                beside = [each for each in (*after[node], *before[node]) if each in cycle and each in placed]
                placed[node] = min(placed[each] for each in beside) + 1
            return made

        waiting = put(next((key for key in component if key in cycles), component[0]), 0)
        while waiting:
            key = waiting.pop(0)
            for step, others in ((1, after[key]), (-1, before[key])):
                for other in others:
                    if other in members and other not in placed:
                        waiting += put(other, placed[key] + step)
        least = min(placed.values())
        layers: list[list[Node]] = [[] for _ in range(max(placed.values()) - least + 1)]
        for key, layer in placed.items():
            self._nodes[key].layer = layer - least
            layers[layer - least].append(self._nodes[key])
        return layers

    def _component(self, layers: list[list[Node]],
                   arrows: Sequence[_Arrow]) -> tuple[_Point, Callable[[float, float], list[Curve]]]:
        """Lay out one connected part; return its size, and what puts it at a place and makes its curves."""
        between = max(_BETWEEN, *(columns(arrow.text) * _SMALL + _BESIDE for arrow in arrows)) if arrows else _BETWEEN
        thick = [max(node.width for node in layer) for layer in layers]
        stacked = sum(thick) + between * (len(layers) - 1) > _PAGE  # layers one below the other

        def size(node: Node) -> tuple[float, float]:
            """The extent along the layers, and inside the layer."""
            if node.kind == "bend":
                return 0, 8
            return (node.height, node.width) if stacked else (node.width, node.height)

        beside: dict[int, list[Node]] = {id(node): [] for layer in layers for node in layer}
        ways: list[list[Node]] = []
        for arrow in arrows:
            start, end = self._nodes[arrow.start], self._nodes[arrow.end]
            step = 1 if end.layer > start.layer else -1
            # nodes without text in the layers between make room for the arrow
            bends = [Node("", "bend", [], layer=number) for number in range(start.layer + step, end.layer, step)]
            for bend in bends:
                beside[id(bend)] = []
                layers[bend.layer].append(bend)
            ways.append([start, *bends, end])
            for one, other in zip(ways[-1], ways[-1][1:]):
                beside[id(one)].append(other)
                beside[id(other)].append(one)
        _arrange(layers, beside, lambda node: size(node)[1])
        depth = 0.0
        for layer in layers:
            most = max(size(node)[0] for node in layer)
            for node in layer:
                node.depth = depth + (most - size(node)[0]) / 2
            depth += most + (_BELOW if stacked else between)
        depth -= _BELOW if stacked else between
        breadth = max(node.place + size(node)[1] for layer in layers for node in layer)
        width, height = (breadth, depth) if stacked else (depth, breadth)

        def put(left: float, top: float) -> list[Curve]:
            def position(depth: float, place: float) -> _Point:
                x, y = (place, depth) if stacked else (depth, place)
                return x + 1 + left, y + 1 + top

            for layer in layers:
                for node in layer:
                    node.x, node.y = position(node.depth, node.place)
            return list(_curves(arrows, ways, size, position))

        return (width + 2, height + 2), put


def _curves(arrows: Sequence[_Arrow], ways: Sequence[Sequence[Node]], size: Callable[[Node], _Point],
            position: Callable[[float, float], _Point]) -> Iterator[Curve]:
    """The curves of arrows, spread along the side of a node where several end."""
    def middle(node: Node) -> float:
        return node.place if node.kind == "bend" else node.place + size(node)[1] / 2

    ports: dict[tuple[int, bool], list[tuple[float, int]]] = {}
    for index, way in enumerate(ways):
        for one, other in ((way[0], way[1]), (way[-1], way[-2])):
            ports.setdefault((id(one), other.layer > one.layer), []).append((middle(other), index))
    for found in ports.values():
        found.sort()
    # bad arrows are drawn last, above others
    for index in sorted(range(len(arrows)), key=lambda index: arrows[index].bad):
        way, arrow = ways[index], arrows[index]
        ends = []
        for one, other in ((way[0], way[1]), (way[-1], way[-2])):
            after = other.layer > one.layer
            found = ports[id(one), after]
            rank = next(place for place, (_, which) in enumerate(found) if which == index)
            thick, broad = size(one)
            ends.append((one.depth + (thick if after else 0), one.place + broad * (rank + 1) / (len(found) + 1)))
        points = [ends[0], *((node.depth, node.place) for node in way[1:-1]), ends[1]]
        path = "M{:.1f} {:.1f}".format(*position(*ends[0]))
        # the curve leaves and arrives along the direction of the layers
        for (depth, place), (to_depth, to_place) in zip(points, points[1:]):
            half = (depth + to_depth) / 2
            path += "C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}".format(
                *position(half, place), *position(half, to_place), *position(to_depth, to_place))
        # the text is on the first piece, before its middle, where it cannot cover that of an arrow back
        (depth, place), (to_depth, to_place) = points[:2]
        x, y = position(depth + (to_depth - depth) * 0.39, place + (to_place - place) * 0.29)
        yield Curve(f"line {arrow.kind}", arrow.bad, path, arrow.text, x, y + 4)


def _reached(start: Sequence[str], following: Callable[[str], Iterable[str]], limit: int | None = None) -> list[str]:
    """The reachable nodes, nearest first, at most `limit`."""
    found = dict.fromkeys(start)
    waiting = list(start)
    for key in waiting:
        for other in following(key):
            if other not in found and (limit is None or len(found) < limit):
                found[other] = None
                waiting.append(other)
    return list(found)


def _arrange(layers: Sequence[list[Node]], beside: Mapping[int, Sequence[Node]],
             size: Callable[[Node], float]) -> None:
    """Order the nodes of each layer so that few lines cross, and place them near their neighbours."""
    order = {id(node): float(index) for layer in layers for index, node in enumerate(layer)}
    for sweep in range(6):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            wanted = {}
            for node in layer:
                near = [order[id(other)] for other in beside[id(node)]]
                wanted[id(node)] = sum(near) / len(near) if near else order[id(node)]
            layer.sort(key=lambda node: wanted[id(node)])
            for index, node in enumerate(layer):
                order[id(node)] = index - (len(layer) - 1) / 2
    for layer in layers:
        at = 0.0
        for node in layer:
            node.place = at
            at += size(node) + _GAP
    for sweep in range(8):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            aims = []
            for node in layer:
                near = [other.place + size(other) / 2 for other in beside[id(node)]]
                aims.append(sum(near) / len(near) - size(node) / 2 if near else node.place)
            end, moved = float("-inf"), []
            for node, aim in zip(layer, aims):
                moved.append(max(aim, end))
                end = moved[-1] + size(node) + _GAP
            shift = sum(place - aim for place, aim in zip(moved, aims)) / len(layer)
            for node, place in zip(layer, moved):
                node.place = place - shift
    least = min(node.place for layer in layers for node in layer)
    for layer in layers:
        for node in layer:
            node.place -= least
