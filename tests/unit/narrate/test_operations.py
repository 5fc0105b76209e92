"""Operations of process groups, and the verdict on a job, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gdbext.jobs.job import Job, Owing, Unfinished
from gdbext.model import Identity, Operation, Rank, Report
from gdbext.model.verdict import Verdict
from gdbext.narrate.names import Facts
from gdbext.narrate.operations import operation_name, tensor
from gdbext.narrate.ranks import rank_list, verdict_sentence, verdict_title
from gdbext.narrate.sentences import sentence
from gdbext.narrate.sentences import verdict_title as title_of_report
from gdbext.narrate.verdict import next_step
from gdbext.narrate.words import plain
from tests.support.fake_report import asyncio as rich
from tests.support.fake_report import healthy

REDUCE = Operation("all_reduce", 6, shape=(8, 2), of="float32", begun=940.0)


@pytest.mark.parametrize(("operation", "name", "works_on"), [
    (REDUCE, "all_reduce #6 of pair", "float32 (8, 2)"), (Operation("MPI_Barrier", None), "MPI_Barrier of pair", ""),
    (Operation("recv", None, is_pair=True, peer=1), "recv from rank 1", ""),
    (Operation("send", None, is_pair=True, peer=0), "send to rank 0", "")])
def test_operations(operation: Operation, name: str, works_on: str) -> None:
    assert operation_name(operation, "pair") == name
    assert tensor(operation) == works_on


@pytest.mark.parametrize(("ranks", "words"), [
    ((3,), "rank 3"), ((0, 1), "ranks 0, 1"), ((0, 1, 2, 4, 5, 6, 9), "ranks 0-2, 4-6, 9"),
    (tuple(range(0, 24, 2)), "ranks 0, 2, 4, 6, 8, 10, 12, 14 and 4 more")])
def test_lists_of_ranks(ranks: tuple[int, ...], words: str) -> None:
    assert rank_list(ranks) == words


def unfinished(*owing: Owing, seconds: float | None = 60.0, waiting: tuple[int, ...] = (0, 1, 2)) -> Unfinished:
    return Unfinished("default_pg", REDUCE, waiting, owing, seconds)


@pytest.mark.parametrize(("owing", "words"), [
    (Owing(3, "not-called"), "rank 3 has not called it"), (Owing(3, "ended"), "rank 3 has ended"),
    (Owing(3, "missing"), "rank 3 has no process any more"), (Owing(3, "stopped"), "rank 3 has been stopped"),
    (Owing(3, "other-operation", None, Operation("broadcast", 6)), "rank 3 called broadcast #6 in its place"),
    (Owing(3, "other-size", None, replace(REDUCE, shape=(4,))),
     "rank 3 called it with float32 (4), not float32 (8, 2)")])
def test_what_a_rank_owes(owing: Owing, words: str) -> None:
    job = Job("hung", 4, (unfinished(owing),))
    assert verdict_title(job) == "HUNG JOB"
    assert verdict_sentence(job, 4) == f"3 of 4 ranks wait in all_reduce #6 of default_pg for 60 s; {words}"


def test_other_sentences() -> None:
    everyone = unfinished(seconds=None, waiting=(0, 1, 2, 3))
    assert verdict_sentence(Job("waits", 4, (everyone,)), 4) == "all its ranks take part in all_reduce #6 of default_pg"
    unknown = replace(everyone, complete=False, waiting=(0,))
    assert verdict_sentence(Job("waits", 4, (unknown, everyone)), 4) == (
        "1 of 4 ranks waits in all_reduce #6 of default_pg, whose members are not known; and 1 more operation")
    assert verdict_sentence(Job("hung", 2, (everyone,), circle=(0, 1)), 2) == (
        "ranks 0, 1 wait for each other: each is in an operation that needs another one of them")
    assert verdict_sentence(Job("working", 4), 4) == "no operation of 4 ranks is without an end"
    assert verdict_sentence(Job("unknown", 4), 4).startswith("no operation of 4 ranks is known")


def test_verdict_on_one_rank() -> None:
    group = next(group for group in made_rank().groups)
    report: Report = replace(healthy(), rank=replace(made_rank(), groups=(replace(group, pending=(REDUCE,)),)),
                             verdict=Verdict("job", (1,)))
    facts = Facts(replace(report, target=replace(report.target, time=1000.0)))
    assert title_of_report(facts.verdict) == "WAITS FOR OTHER RANKS"
    assert plain(sentence(facts)) == (
        "all_reduce #6 of default_pg was called 60 s ago and has not ended: it ends when the other ranks of the group "
        "take part")
    assert next_step(facts) == f"gdbext ranks {report.target.pid}"


def made_rank() -> Rank:
    found = rich().rank
    assert found is not None
    assert isinstance(found.identity, Identity)
    return found
