"""The call of MPI that a rank is in."""

from __future__ import annotations

import pytest

from gdbext.libraries.mpi.ranks import MpiRanks
from gdbext.model import MixedStack, NativeFrame, Operation, PyFrame
from tests.support.fake_memory import FakeMemory

RANKS = MpiRanks(FakeMemory(), lambda name: ())


def stack(*functions: str, module: str = "libmpi.so.40") -> MixedStack:
    frames = [NativeFrame("sched_yield", "libc.so.6", 1), NativeFrame("opal_progress", "libopen-pal.so.80", 2)]
    frames += [NativeFrame(function, module, 3) for function in functions]
    return MixedStack((*frames, PyFrame("step", "step", "/app/job.py", 7)))


@pytest.mark.parametrize("function", [
    "PMPI_Send", "MPI_Recv", "MPI_Ssend", "MPI_Sendrecv", "MPI_Waitall", "MPI_Probe", "MPI_Mrecv", "PMPI_Send_c"])
def test_calls_that_need_one_other_rank(function: str) -> None:
    assert RANKS.operation(stack("mca_pml_ob1_send", function)) == Operation(
        function.removeprefix("P") if function.startswith("PMPI") else function, None, is_pair=True)


@pytest.mark.parametrize("function", [
    "MPI_Barrier", "PMPI_Allreduce", "MPI_Bcast", "MPI_Allgatherv", "MPI_Alltoall", "MPI_Scan",
    "MPI_Exscan", "MPI_Reduce_scatter", "MPI_Comm_split", "MPI_Finalize"])
def test_calls_that_need_all_ranks(function: str) -> None:
    found = RANKS.operation(stack(function))
    assert found is not None
    assert (found.name, found.is_pair) == (function.removeprefix("P") if function[0] == "P" else function, False)


def test_the_outermost_call_counts() -> None:
    """A collective operation may send messages."""
    assert RANKS.operation(stack("MPI_Send", "MPI_Bcast")) == Operation("MPI_Bcast", None)


@pytest.mark.parametrize("where", [
    stack("MPI_Comm_rank"), stack("MPI_Isend"), stack("MPI_Test"), stack("MPI_Barrier", module="libother.so"),
    stack("ompi_sync_wait"), MixedStack(())])
def test_calls_that_wait_for_nobody(where: MixedStack) -> None:
    assert RANKS.operation(where) is None
