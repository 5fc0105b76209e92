"""Which rank of a job owes the answer: jobs drawn by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gdbext.jobs.job import PATIENCE, Job, Member, judge
from gdbext.model import Group, Identity, Operation

NOW = 1_000_000.0


def operation(number: int | None, name: str = "all_reduce", ago: float = 60.0, ended: bool = False,
              shape: tuple[int, ...] = (1000,)) -> Operation:
    return Operation(name, number, shape=shape, of="float32", begun=NOW - ago, finished=ended)


def member(rank: int, pending: Operation | None = None, last: int = 5, name: str = "0",
           description: str | None = "default_pg", members: tuple[int, ...] | None = None) -> Member:
    group = Group(name, description, members, (pending,) if pending is not None else (), operation(last, ended=True))
    return Member(Identity(rank, 4), 100 + rank, "host", (group,), outcome="outside" if pending else "fine",
                  awaited=pending)


def job_of(*members: Member, size: int = 4) -> Job:
    return judge({each.rank: each for each in members}, size, NOW)


def test_a_rank_that_is_deadlocked_has_not_called_the_operation() -> None:
    job = job_of(*(member(rank, operation(6)) for rank in range(3)), replace(member(3), outcome="stuck"))
    assert (job.kind, job.causes) == ("hung", (3,))
    unfinished, = job.unfinished
    assert unfinished.waiting == (0, 1, 2)
    assert [(each.rank, each.debt) for each in unfinished.owing] == [(3, "not-called")]
    assert unfinished.owing[0].last == operation(5, ended=True)
    assert unfinished.seconds == 60.0


@pytest.mark.parametrize(("ago", "outcome", "kind"), [
    (0.5, "fine", "working"), (0.5, "outside", "working"), (PATIENCE - 1, "fine", "working"),
    (PATIENCE - 1, "doubt", "working"), (PATIENCE + 1, "doubt", "waits"),
    (PATIENCE - 1, "outside", "waits"), (PATIENCE + 1, "fine", "waits"), (PATIENCE + 1, "outside", "waits")])
def test_a_rank_that_may_still_call_it(ago: float, outcome: str, kind: str) -> None:
    """It computes, or waits for something outside, or could not be judged; nothing shows that it never calls it."""
    late = replace(member(3), outcome=outcome)  # type: ignore[arg-type]  # one of the outcomes
    assert job_of(*(member(rank, operation(6, ago=ago)) for rank in range(3)), late).kind == kind


def test_ranks_that_called_another_operation() -> None:
    job = job_of(*(member(rank, operation(6)) for rank in range(3)), member(3, operation(6, "broadcast")))
    assert job.kind == "hung"
    assert [(each.rank, each.debt) for each in job.unfinished[0].owing] == [(3, "other-operation")]
    assert job.unfinished[0].waiting == (0, 1, 2)


def test_ranks_with_another_size() -> None:
    other = member(3, operation(6, shape=(500,)))
    job = job_of(*(member(rank, operation(6)) for rank in range(3)), other)
    assert job.kind == "hung"
    assert [(each.rank, each.debt) for each in job.unfinished[0].owing] == [(3, "other-size")]


def test_tensors_of_one_size_and_two_shapes_agree() -> None:
    other = member(3, operation(6, shape=(10, 100), ago=1))
    job = job_of(*(member(rank, operation(6, ago=1)) for rank in range(3)), other)
    assert job.kind == "working"
    assert job.unfinished[0].owing == ()


def test_each_rank_may_gather_another_size() -> None:
    job = job_of(*(member(rank, operation(6, "all_gather", ago=1, shape=(rank,))) for rank in range(4)))
    assert job.unfinished[0].owing == ()


def test_two_groups_in_opposite_order() -> None:
    first = member(0, operation(1), last=0, name="1", description="undefined", members=(0, 1))
    first = replace(first, groups=(*first.groups, Group("0", "default_pg", None, (), operation(5, ended=True))))
    job = job_of(first, member(1, operation(6)), size=2)
    assert (job.kind, job.circle) == ("hung", (0, 1))


def test_an_operation_beside_other_work_holds_nobody_up() -> None:
    """Rank 0 has an operation without an end and does not wait for it: no circle."""
    first = member(0, operation(1), last=0, name="1", description="undefined", members=(0, 1))
    first = replace(first, awaited=None, outcome="fine",
                    groups=(*first.groups, Group("0", "default_pg", None, (), operation(5, ended=True))))
    job = job_of(first, member(1, operation(6)), size=2)
    assert (job.kind, job.circle, job.causes) == ("waits", (), (0,))


def test_members_of_a_group_that_nothing_lists() -> None:
    """No rank is said to owe the operation, and nobody says that all take part."""
    first = member(0, operation(1), last=0, name="1", description="undefined")
    job = job_of(first, size=2)
    assert job.kind == "waits"
    assert not job.unfinished[0].complete
    assert job.unfinished[0].owing == ()


def on_one_machine(each: Member, local_size: int = 4) -> Member:
    identity = replace(each.identity, local_size=local_size, local_rank=each.rank % local_size, launcher="torchrun")
    return replace(each, identity=identity)


def test_a_rank_without_a_process() -> None:
    waiting = [on_one_machine(member(rank, operation(6, ago=1))) for rank in range(3)]
    zombie = Member(Identity(3, 4), 103, "host", state="ended", signal="SIGKILL")
    for job, debt in ((job_of(*waiting), "missing"), (job_of(*waiting, zombie), "ended")):
        assert job.kind == "hung"
        assert [(each.rank, each.debt) for each in job.unfinished[0].owing] == [(3, debt)]


@pytest.mark.parametrize(("ago", "kind"), [(1, "working"), (60, "waits")])
def test_ranks_of_another_machine(ago: float, kind: str) -> None:
    """They were not read, so nothing is known of them, whatever this machine's ranks wait for."""
    for waiting in ([on_one_machine(member(rank, operation(6, ago=ago)), 2) for rank in range(2)],
                    [member(rank, operation(6, ago=ago)) for rank in range(2)]):
        job = job_of(*waiting)
        assert job.kind == kind
        assert [(each.rank, each.debt) for each in job.unfinished[0].owing] == [(2, "elsewhere"), (3, "elsewhere")]


def test_a_rank_of_this_machine_is_missing_beside_those_of_another() -> None:
    job = job_of(on_one_machine(member(0, operation(6)), 2))
    assert job.kind == "hung"
    assert [(each.rank, each.debt) for each in job.unfinished[0].owing] == [
        (1, "missing"), (2, "elsewhere"), (3, "elsewhere")]


def test_a_rank_that_was_stopped_in_the_operation() -> None:
    stopped = replace(member(3, operation(6)), state="stopped")
    job = job_of(*(member(rank, operation(6)) for rank in range(3)), stopped)
    assert job.kind == "waits"
    assert [(each.rank, each.debt) for each in job.unfinished[0].owing] == [(3, "stopped")]


def test_a_rank_that_is_ahead_owes_nothing() -> None:
    """It was read later: it has finished the operation that others were seen in."""
    job = job_of(member(0, operation(6, ago=0.1)), member(1, operation(9, ago=0.1), last=8), size=2)
    assert job.kind == "working"
    assert job.unfinished[0].waiting == (0,)
    assert job.unfinished[0].owing == ()


def pair(rank: int, peer: int | None, ago: float) -> Member:
    awaited = Operation("recv", None, is_pair=True, begun=NOW - ago, peer=peer)
    return Member(Identity(rank, 2), 100 + rank, "host", (), outcome="outside", awaited=awaited)


@pytest.mark.parametrize(("ago", "kind"), [(0.5, "waits"), (5, "waits"), (60, "hung")])
def test_each_waits_for_a_message_of_the_other(ago: float, kind: str) -> None:
    """For a moment, a message may be on its way."""
    job = job_of(pair(0, 1, ago), pair(1, 0, ago), size=2)
    assert (job.kind, job.circle) == (kind, (0, 1))


def test_a_message_of_a_rank_that_computes() -> None:
    job = job_of(pair(0, 1, 60), Member(Identity(1, 2), 101, "host", (), outcome="fine", works=True), size=2)
    assert (job.kind, job.causes) == ("waits", (1,))


def test_messages_of_unknown_ranks() -> None:
    """All ranks of MPI are in sends: they wait for each other, but nothing proves that it lasts."""
    job = job_of(*(pair(rank, None, 60) for rank in range(2)), size=2)
    assert job.kind == "waits"
    assert job.unfinished[0].waiting == (0, 1)
    assert job.unfinished[0].owing == ()


def test_ranks_whose_stacks_show_different_operations() -> None:
    """Without numbers they may be of different groups, so nothing is certain."""
    members = [Member(Identity(rank, 2), 100 + rank, "host", (
        Group("", None, (0, 1), (operation(None, name, ago=2),), None, "inferred"),), outcome="fine",
        awaited=operation(None, name, ago=2), works=True) for rank, name in enumerate(("MPI_Bcast", "MPI_Barrier"))]
    assert job_of(*members, size=2).kind == "waits"


def test_no_operation_at_all() -> None:
    assert job_of(member(0), member(1), size=2).kind == "working"
    assert job_of(Member(Identity(0, 1), 100, "host"), size=1).kind == "unknown"
