"""The wait-for graph: which waits can never end, and the cycles among them. Pure.

A node is a thread, by whatever names it: a number where there is one process, (process, number) where there are many.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

#: Nodes can be hashed and sorted.
N = TypeVar("N", bound=Any)


class Need(NamedTuple):
    """The nodes that can end a wait: it ends when `all_of` them act, or any one of them."""

    holders: frozenset[Any]
    all_of: bool


def find_stuck(needs: Mapping[N, Need], dead: Collection[N] = ()) -> set[N]:
    """The nodes that can never go on whatever the others do: the greatest set whose waits only its members could end.

    :param needs: a node that is not in it can go on, and so can one that waits for nobody.
    :param dead: nodes that are known never to go on.
    """
    stuck = {node for node, need in needs.items() if need.holders} | set(dead)
    waiters = _invert({node: need.holders for node, need in needs.items()})
    work = sorted(stuck.difference(dead))
    while work:
        node = work.pop()
        if node not in stuck or node in dead:
            continue
        need = needs[node]
        if need.holders.isdisjoint(stuck) if need.all_of else not need.holders <= stuck:
            stuck.discard(node)
            work += waiters.get(node, ())
    return stuck


def find_cycles(graph: Mapping[N, Iterable[N]]) -> list[list[N]]:
    """The strongly connected components that are cycles (R. Tarjan 1972), each sorted, in the order of their first."""
    index: dict[N, int] = {}
    low: dict[N, int] = {}
    stack: list[N] = []
    on_stack: set[N] = set()
    found: list[list[N]] = []
    for root in sorted(graph):
        # without recursion: an entry for each node from the root to the one that is visited
        work = [] if root in index else [(root, iter(graph[root]))]
        while work:
            node, successors = work[-1]
            if node not in index:
                index[node] = low[node] = len(index)
                stack.append(node)
                on_stack.add(node)
            successor = next((each for each in successors if each not in index or each in on_stack), None)
            if successor is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component: list[N] = []
                    while not component or component[-1] != node:
                        component.append(stack.pop())
                    on_stack.difference_update(component)
                    if len(component) > 1 or node in graph.get(node, ()):
                        found.append(sorted(component))
            elif successor in on_stack:
                low[node] = min(low[node], index[successor])
            else:
                work.append((successor, iter(graph.get(successor, ()))))
    return sorted(found)


def find_circles(needs: Mapping[N, Collection[N]]) -> tuple[tuple[N, ...], ...]:
    """Circles of nodes each of which waits for the next, and the last for the first. Each begins with its lowest node.

    :param needs: any one of these nodes can end the wait of a node. A node that is not in it can go on.
    """
    stuck = find_stuck({node: Need(frozenset(wanted), False) for node, wanted in needs.items()})
    found: list[tuple[N, ...]] = []
    done: set[N] = set()
    for start in [node for node in needs if node in stuck]:
        path: list[N] = []
        at = start
        # each of them waits for one that is stuck too, so following any of them ends in a circle
        while at not in done:
            done.add(at)
            path.append(at)
            at = min(needs[at])
        if at in path:
            circle = path[path.index(at):]
            first = circle.index(min(circle))
            found.append((*circle[first:], *circle[:first]))
    return tuple(found)


def find_behind(members: Iterable[N], graph: Mapping[N, Iterable[N]]) -> tuple[N, ...]:
    """The nodes outside of `members` that wait for one of them, however indirectly; sorted."""
    waiters = _invert(graph)
    start = set(members)
    seen, work = set(start), list(start)
    while work:
        new = [node for node in waiters.get(work.pop(), ()) if node not in seen]
        seen.update(new)
        work += new
    return tuple(sorted(seen - start))


def _invert(graph: Mapping[N, Iterable[N]]) -> dict[N, list[N]]:
    found: dict[N, list[N]] = {}
    for node, others in graph.items():
        for other in others:
            found.setdefault(other, []).append(node)
    return found
