"""The layout of drawings: nodes in layers, curves between them. What they are drawn as is in graph.html.j2."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gdbext.narrate.graph import LEGEND
from gdbext.render.escape import printable
from gdbext.render.style import columns

#: How many nodes are drawn at most, and how many layers stand side by side; more stand one below the other.
_NODES, _BESIDE = 90, 4
#: Sizes in pixels: of a character and a line of 12 pixels' monospace, inside and between nodes, between layers.
_CHAR, _LINE, _PAD, _GAP, _BETWEEN = 7.3, 16, 9, 22, 118
#: How many columns of text a node has.
_TEXT = 32


@dataclass
class Node:
    """A thread or a process (`kind` is ``thread``), or what it waits for (``lock``): its lines, and where it leads to.

    `anchor` is the id of an element of the page. Layer and place are found when it is drawn.
    """

    key: str
    kind: str
    lines: Sequence[str]
    anchor: str | None = None
    bad: bool = False
    layer: int = 0
    #: along its layer and across; the left upper corner once it is drawn
    place: float = 0
    x: float = 0
    y: float = 0

    def __post_init__(self) -> None:
        self.lines = [_shortened(line) for line in self.lines]

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
        """Of its corners, in pixels."""
        if self.kind != "lock":
            return 3
        return self.height / 2 if len(self.lines) == 1 else 14

    @property
    def text_lines(self) -> list[tuple[float, str]]:
        """Its lines, with how far each is from the top."""
        return [(self.y + _PAD + 10 + _LINE * index, line) for index, line in enumerate(self.lines)]


class Curve(NamedTuple):
    """An arrow as it is drawn: the path, and its text with the place of that."""

    classes: str
    bad: bool
    path: str
    text: str
    x: float
    y: float


class Drawing(NamedTuple):
    """A graph as it is drawn, one list of curves and one of boxes for each connected part; `left` are not drawn."""

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
    #: nodes without text in the layers between, that make way for it
    through: list[Node] = field(default_factory=list)


def _shortened(line: str) -> str:
    safe = printable(line)
    if columns(safe) <= _TEXT:
        return safe
    while columns(safe) > _TEXT - 3:
        safe = safe[:-1 - max(0, (len(safe) - _TEXT) // 2)]
    return safe + "..."


class Graph:
    """A drawing in layers of arrows between nodes of two kinds, threads and locks, that alternate on every path.

    So nodes are never connected with others of their own layer if layers are numbered along the arrows. A cycle is
    folded: its layers are numbered by their distance from its first node, which makes two rows of it, next to each
    other, that meet at its end.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._arrows: dict[tuple[str, str], _Arrow] = {}

    def add(self, node: Node) -> None:
        """Add a node; one that is there already may become bad."""
        there = self._nodes.setdefault(node.key, node)
        there.bad = there.bad or node.bad

    def connect(self, start: str, end: str, text: str, bad: bool, kind: str = "recorded") -> None:
        """Add an arrow between nodes that were added, or will be."""
        arrow = self._arrows.setdefault((start, end), _Arrow(start, end, text, bad, kind))
        arrow.bad = arrow.bad or bad

    def draw(self) -> Drawing:
        """The layout of as many nodes as a reader can follow."""
        after: dict[str, list[str]] = {key: [] for key in self._nodes}
        before: dict[str, list[str]] = {key: [] for key in self._nodes}
        for start, end in self._arrows:
            after[start].append(end)
            before[end].append(start)
        parts: list[tuple[list[Curve], list[Node]]] = []
        seen, drawn = set[str](), 0
        width = height = 0.0
        # those of a deadlock first
        for key in sorted(self._nodes, key=lambda key: not self._nodes[key].bad):
            if key in seen or drawn >= _NODES:
                continue
            component = _reached([key], lambda node: after[node] + before[node], _NODES - drawn)
            seen.update(component)
            drawn += len(component)
            layers = self._layers(component, after, before)
            inside = [arrow for arrow in self._arrows.values() if arrow.start in component and arrow.end in component]
            curves, part_width, part_height = self._component(layers, inside, height)
            parts.append((curves, [node for layer in layers for node in layer if node.lines]))
            width, height = max(width, part_width), height + part_height + _GAP
        kinds = {arrow.kind for arrow in self._arrows.values()} | {"bad" for node in self._nodes.values() if node.bad}
        legend = {kind: text for kind, text in LEGEND.items() if kind in kinds}
        return Drawing(width, height - _GAP, parts, legend, len(self._nodes) - drawn)

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
            """Place a node, with the cycle that it is in; what was placed, in order."""
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

    def _component(self, layers: list[list[Node]], arrows: Sequence[_Arrow],
                   top: float) -> tuple[list[Curve], float, float]:
        """One connected part below `top`; its curves, width and height."""
        beside: dict[int, list[Node]] = {id(node): [] for layer in layers for node in layer}
        for arrow in arrows:
            start, end = self._nodes[arrow.start], self._nodes[arrow.end]
            step = 1 if end.layer > start.layer else -1
            way = [start]
            for number in range(start.layer + step, end.layer, step):
                bend = Node("", "bend", [], layer=number)
                beside[id(bend)] = []
                layers[number].append(bend)
                way.append(bend)
            arrow.through = way[1:]
            for one, other in zip(way, [*way[1:], end]):
                beside[id(one)].append(other)
                beside[id(other)].append(one)
        across = len(layers) > _BESIDE  # layers one below the other

        def size(node: Node) -> float:
            return 8 if node.kind == "bend" else node.width if across else node.height

        _arrange(layers, beside, size)
        depth = 0.0
        for layer in layers:
            thick = max(node.height if across else node.width for node in layer)
            for node in layer:
                extent = 0.0 if node.kind == "bend" else node.height if across else node.width
                place = depth + (thick - extent) / 2
                node.x, node.y = (node.place + 1, place + 1 + top) if across else (place + 1, node.place + 1 + top)
            depth += thick + (_BETWEEN / 2 if across else _BETWEEN)
        depth -= _BETWEEN / 2 if across else _BETWEEN
        breadth = max(node.place + size(node) for layer in layers for node in layer)
        width, height = (breadth, depth) if across else (depth, breadth)
        return list(self._lines(arrows, across)), width + 2, height + 2

    def _lines(self, arrows: Sequence[_Arrow], across: bool) -> Iterator[Curve]:
        """Arrows, those that end at the same side of a node one beside another."""
        ports: dict[tuple[int, bool], list[tuple[float, int]]] = {}
        ways = [[self._nodes[arrow.start], *arrow.through, self._nodes[arrow.end]] for arrow in arrows]
        for index, way in enumerate(ways):
            for one, other in ((way[0], way[1]), (way[-1], way[-2])):
                ports.setdefault((id(one), other.layer > one.layer), []).append((_middle(other, across), index))
        for found in ports.values():
            found.sort()
        # a bad one is drawn above others
        for index in sorted(range(len(arrows)), key=lambda index: arrows[index].bad):
            way, arrow = ways[index], arrows[index]
            points = []
            for one, other in ((way[0], way[1]), (way[-1], way[-2])):
                right = other.layer > one.layer
                found = ports[id(one), right]
                rank = next(place for place, (_, which) in enumerate(found) if which == index)
                share = (rank + 1) / (len(found) + 1)
                if across:
                    points.append((one.x + one.width * share, one.y + (one.height if right else 0)))
                else:
                    points.append((one.x + (one.width if right else 0), one.y + one.height * share))
            inner = [(node.x, node.y) for node in arrow.through]
            yield _curve([points[0], *inner, points[1]], across, arrow)


def _reached(start: Sequence[str], following: Callable[[str], Iterable[str]], limit: int | None = None) -> list[str]:
    """All nodes that can be reached, nearest first, `limit` of them at most."""
    found = dict.fromkeys(start)
    waiting = list(start)
    for key in waiting:
        for other in following(key):
            if other not in found and (limit is None or len(found) < limit):
                found[other] = None
                waiting.append(other)
    return list(found)


def _middle(node: Node, across: bool) -> float:
    if node.kind == "bend":
        return node.x if across else node.y
    return node.x + node.width / 2 if across else node.y + node.height / 2


def _arrange(layers: Sequence[list[Node]], beside: Mapping[int, Sequence[Node]],
             size: Callable[[Node], float]) -> None:
    """Order the nodes of each layer so that few lines cross, and place them near those that they are connected with."""
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


def _curve(points: Sequence[tuple[float, float]], across: bool, arrow: _Arrow) -> Curve:
    """A line through the points that leaves and arrives along the direction of the layers, with its text."""
    text = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x, y), (to_x, to_y) in zip(points, points[1:]):
        if across:
            half = (y + to_y) / 2
            text += f"C{x:.1f} {half:.1f} {to_x:.1f} {half:.1f} {to_x:.1f} {to_y:.1f}"
        else:
            half = (x + to_x) / 2
            text += f"C{half:.1f} {y:.1f} {half:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"
    # the text is on its first piece, a little before the middle, where that of an arrow back is not
    (x, y), (to_x, to_y) = points[0], points[1]
    along, aside = 0.39, 0.29
    share_x, share_y = (aside, along) if across else (along, aside)
    return Curve(f"line {arrow.kind}", arrow.bad, text, arrow.text, x + (to_x - x) * share_x,
                 y + (to_y - y) * share_y + 4)
