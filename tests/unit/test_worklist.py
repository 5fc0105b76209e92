"""Paths through graphs that are drawn by hand."""

from __future__ import annotations

from gdbext.worklist import Fixpoint, walk

GRAPH = {"a": "bc", "b": "d", "c": "d", "d": "be", "e": "", "x": "a"}


def test_walk_gives_each_node_that_a_path_leads_to_once() -> None:
    found = list(walk("b", GRAPH.__getitem__))
    assert sorted(found) == ["b", "d", "e"]
    assert set(walk("ax", GRAPH.__getitem__)) == GRAPH.keys()


def settled(generated: dict[str, str]) -> tuple[dict[str, frozenset[str]], list[str]]:
    """What all paths from `a` to each node have passed, and the nodes in the order in which they are followed."""
    followed: list[str] = []

    def meet(_node: str, known: frozenset[str] | None, other: frozenset[str]) -> frozenset[str]:
        return other if known is None else known if known <= other else known & other

    paths: Fixpoint[str, frozenset[str]] = Fixpoint(GRAPH.__getitem__, meet)

    def follow(node: str) -> None:
        followed.append(node)
        for following in GRAPH[node]:
            paths.arrive(following, paths.states[node] | {*generated.get(node, "")})

    paths.arrive("a", frozenset())
    paths.settle(follow)
    return paths.states, followed


def test_states_are_what_all_paths_have_in_common() -> None:
    states, _ = settled({"a": "1", "b": "2", "c": "23", "d": "4"})
    assert states == {"a": frozenset(), "b": {"1"}, "c": {"1"}, "d": {"1", "2"}, "e": {"1", "2", "4"}}


def test_node_is_followed_after_those_that_lead_to_it() -> None:
    _, followed = settled({})
    assert len(followed) == len(set(followed)) == 5
    assert followed.index("d") > max(followed.index("b"), followed.index("c"))
