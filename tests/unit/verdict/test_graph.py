"""Which waits can never end, in graphs drawn by hand."""

from __future__ import annotations

import itertools
import random
import time

from gdbext.verdict.graph import Need, find_behind, find_cycles, find_stuck

#: Nodes of several processes.
A, B, C, D = (1, 1), (2, 1), (3, 1), (1, 2)


def all_of(*holders: object) -> Need:
    return Need(frozenset(holders), True)


def any_of(*holders: object) -> Need:
    return Need(frozenset(holders), False)


def test_one_of_several_that_can_go_on_ends_a_wait_for_any() -> None:
    assert find_stuck({A: any_of(B, (2, 2)), B: any_of(A)}) == set()


def test_one_of_several_that_is_stuck_prevents_the_end_of_a_wait_for_all() -> None:
    assert find_stuck({A: all_of(B, (2, 2)), B: any_of(A)}) == {A, B}


def test_node_that_waits_for_nobody_can_go_on() -> None:
    assert find_stuck({A: all_of()}) == set()


def test_dead_node_needs_no_wait() -> None:
    assert find_stuck({B: any_of(A)}, {A}) == {A, B}
    assert find_stuck({A: any_of(D), D: any_of(A), B: any_of(A)}, {A, D}) == {A, B, D}


def test_cycles_are_sorted_and_those_behind_are_not_in_them() -> None:
    graph = {5: [4], 4: [3], 3: [4, 9], 2: [1], 1: [2], 6: [6], 7: [5, 1]}
    assert find_cycles(graph) == [[1, 2], [3, 4], [6]]
    assert find_behind([3, 4], graph) == (5, 7)
    assert find_behind([6], graph) == ()


def test_cycles_are_those_that_reachability_has() -> None:
    for seed in range(200):
        chooser = random.Random(seed)
        count = chooser.randrange(1, 9)
        graph = {node: chooser.sample(range(count), chooser.randrange(min(count, 3) + 1)) for node in range(count)}
        reached = {node: set(others) for node, others in graph.items()}
        for middle, node in itertools.product(graph, graph):
            if middle in reached[node]:
                reached[node] |= reached[middle]
        expected = {tuple(other for other in graph if other in reached[node] and node in reached[other])
                    for node in graph if node in reached[node]}
        assert find_cycles(graph) == [list(members) for members in sorted(expected)]


def test_long_chain_and_long_ring_are_quick() -> None:
    count = 20_000
    begin = time.process_time()
    chain = {node: any_of(node + 1) for node in range(count)}
    assert find_stuck(chain) == set()
    ring = {node: [(node + 1) % count] for node in range(count)}
    assert find_cycles(ring) == [list(range(count))]
    assert len(find_behind([0], ring)) == count - 1
    assert time.process_time() - begin < 5
