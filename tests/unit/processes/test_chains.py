"""Chains of processes, drawn by hand."""

from __future__ import annotations

from dataclasses import replace

from gdbext.model import Ender, Report
from gdbext.model.verdict import Verdict, VerdictKind
from gdbext.processes.chains import Chains, find_chains
from tests.support.fake_report import healthy


def process(kind: VerdictKind = "idle", *needs: int, takes_next: bool = False, outside: bool = False,
            since: float | None = 20.0) -> Report:
    """A process with a verdict on its only thread, whose wait other processes may end."""
    enders = (*(Ender("process", process=pid) for pid in needs), *([Ender("outside")] if outside else []))
    thread = replace(healthy().threads[2], number=1, ended_by=enders, takes_next=takes_next, since=since)
    return replace(healthy(), threads=(thread,), verdict=Verdict(kind, (1,) if needs else ()))


def ends(chains: Chains, *among: int) -> list[tuple[int, ...]]:
    return chains.ends(among)


def test_end_of_a_chain() -> None:
    chains = find_chains({1: process("blocked-behind", 2), 2: process("blocked-behind", 3), 3: process("deadlock"),
                          4: process("blocked-behind", 2, takes_next=True)})
    assert ends(chains, 1, 2, 3, 4) == [(3,)]
    assert chains.behind((3,), (1, 2, 3, 4)) == [1, 2, 4]
    assert [chains.steps(pid, [3]) for pid in (1, 2, 3, 4)] == [2, 1, 0, 2]
    assert chains.steps(3, [1]) == 0
    assert not chains.at_rest
    assert not chains.going_on


def test_circle_at_the_end() -> None:
    chains = find_chains({1: process("blocked-behind", 2), 2: process("blocked-behind", 3),
                          3: process("blocked-behind", 2, takes_next=True)})
    assert ends(chains, 1, 2, 3) == [(2, 3)]
    assert chains.behind((2, 3), (1, 2, 3)) == [1]
    # a deadlock between processes is one, whatever their own reports say
    known = find_chains({1: process("blocked-behind", 2), 2: process("unknown"), 3: process("unknown")}, [(2, 3)])
    assert ends(known, 1, 2, 3) == [(2, 3)]


def test_workers_of_a_process_at_rest_are_at_rest() -> None:
    """A scheduler takes requests of a front, which waits for clients; a worker takes those of the scheduler."""
    chains = find_chains({1: process(), 2: process("blocked-behind", 1, takes_next=True),
                          3: process("blocked-behind", 2, takes_next=True)})
    assert chains.at_rest == {1, 2, 3}
    assert ends(chains) == []


def test_client_of_a_process_at_rest_is_not_at_rest() -> None:
    chains = find_chains({1: process(), 2: process("blocked-behind", 1),
                          3: process("blocked-behind", 2, takes_next=True)})
    assert chains.at_rest == {1}
    assert ends(chains, 1, 2, 3) == [(1,)]


def test_workers_that_only_wait_for_each_other_are_not_at_rest() -> None:
    waiting = {1: process("blocked-behind", 2, takes_next=True), 2: process("blocked-behind", 1, takes_next=True)}
    assert not find_chains(waiting).at_rest
    # unless somebody outside may give them work
    waiting[2] = process("blocked-behind", 1, takes_next=True, outside=True)
    assert find_chains(waiting).at_rest == {1, 2}


def test_chain_to_a_process_that_computes_goes_on() -> None:
    chains = find_chains({1: process("blocked-behind", 2), 2: process("blocked-behind", 3), 3: process("computing"),
                          4: process("blocked-behind", 5), 5: None})
    assert chains.going_on == {1, 2, 3}


def test_process_that_has_run_a_moment_ago_goes_on() -> None:
    chains = find_chains({1: process("blocked-behind", 2), 2: process("blocked-behind", 3, since=0.1), 3: process()})
    assert chains.going_on == {1, 2}
    assert not find_chains({1: process("polling", 2, since=0.1), 2: process()}).going_on
    # it was held for the report, which lets it run
    held = process("blocked-behind", 2, since=0.1)
    held = replace(held, target=replace(held.target, paused=0.5))
    assert not find_chains({1: held, 2: process()}).going_on
    # what it waits for does not go on
    for end in ({2: process("deadlock")}, {2: process("blocked-behind", 3), 3: process("deadlock")}):
        assert not find_chains({1: process("blocked-behind", 2, since=0.1), **end}).going_on
    assert not find_chains({1: process("blocked-behind", 2, since=None), 2: process()}).going_on
