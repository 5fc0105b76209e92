"""Paths through graphs: what they lead to, and the states where they meet.

The analyses of machine code (`proofs/`) and of bytecode (`cpython/code/acquired.py`) follow the paths of a function
with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

_Node = TypeVar("_Node")
_State = TypeVar("_State")


def walk(start: Iterable[_Node], following: Callable[[_Node], Iterable[_Node]]) -> Iterator[_Node]:
    """Each node that a path from one of some nodes leads to, once; these nodes too."""
    seen: set[_Node] = set()
    left = list(start)
    while left:
        node = left.pop()
        if node not in seen:
            seen.add(node)
            yield node
            left.extend(following(node))


class Fixpoint(Generic[_Node, _State]):
    """The state before each node that a path leads to.

    :param following: the nodes that a node may lead to. It decides only in which order nodes are followed.
    :param meet: the state of a node, if a state arrives there, from the known one or None; the known one itself if the
        new one adds nothing.
    """

    def __init__(self, following: Callable[[_Node], Iterable[_Node]],
                 meet: Callable[[_Node, _State | None, _State], _State]) -> None:
        self.states: dict[_Node, _State] = {}
        self._following = following
        self._meet = meet
        #: The nodes whose states have changed, and the place of each node in the order in which they are followed.
        self._work: set[_Node] = set()
        self._order: dict[_Node, int] = {}

    def arrive(self, node: _Node, state: _State) -> None:
        """Have a path lead to a node with a state."""
        known = self.states.get(node)
        met = self._meet(node, known, state)
        if met is not known:
            self.states[node] = met
            self._put(node)

    def settle(self, follow: Callable[[_Node], None]) -> None:
        """Follow nodes until no state changes; `follow` calls `arrive` for each node that comes next."""
        while self._work:
            node = min(self._work, key=self._order.__getitem__)
            self._work.remove(node)
            follow(node)

    def _put(self, node: _Node) -> None:
        """Have a node followed, after those that lead to it without a loop: its state is then known sooner."""
        if node not in self._order:
            self._sort(node)
        self._work.add(node)

    def _sort(self, first: _Node) -> None:
        """Give a node, and all that it leads to, places in the order; those that have one keep it."""
        after: list[_Node] = []
        seen = {first}
        path = [(first, iter(self._following(first)))]
        while path:
            node, left = path[-1]
            following = next((each for each in left if each not in seen and each not in self._order), None)
            if following is None:
                after.append(node)
                path.pop()
            else:
                seen.add(following)
                path.append((following, iter(self._following(following))))
        place = len(self._order)
        self._order.update((node, place + i) for i, node in enumerate(reversed(after)))
