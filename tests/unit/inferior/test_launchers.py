"""Which rank of a job a process is, by its environment."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from gdbext.inferior.environment import environment_before, parse_environment
from gdbext.inferior.launchers import identity_of
from gdbext.inferior.proc.process import read_environment
from gdbext.model import Identity

TORCHRUN = {"TORCHELASTIC_RUN_ID": "none", "RANK": "3", "WORLD_SIZE": "16", "LOCAL_RANK": "1", "MASTER_ADDR": "a",
            "ROLE_NAME": "default"}


@pytest.mark.parametrize(("environment", "identity"), [
    (TORCHRUN, Identity(3, 16, 1, "torchrun")),
    ({**TORCHRUN, "TORCHELASTIC_RUN_ID": "nightly", "ROLE_NAME": "trainer"},
     Identity(3, 16, 1, "torchrun", "nightly", "trainer")),
    ({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "a"}, Identity(0, 2, None, "torch.distributed")),
    ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1",
      "PMIX_NAMESPACE": "prterun-a-1@1"}, Identity(1, 4, 1, "Open MPI", "prterun-a-1@1")),
    ({"PMI_RANK": "1", "PMI_SIZE": "4"}, Identity(1, 4, None, "MPI")),
    ({"PMI_RANK": "1", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"},
     Identity(1, 4, 1, "MPI", local_size=2)),
    ({"SLURM_PROCID": "7", "SLURM_NTASKS": "8", "SLURM_LOCALID": "3", "SLURM_JOB_ID": "12"},
     Identity(7, 8, 3, "Slurm", "12")),
    # torchrun below Slurm: PyTorch asks its own variables
    ({**TORCHRUN, "SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, Identity(3, 16, 1, "torchrun")),
])
def test_ranks(environment: dict[str, str], identity: Identity) -> None:
    assert identity_of(environment) == identity


@pytest.mark.parametrize("environment", [
    {}, {"RANK": "1"}, {"RANK": "first", "MASTER_ADDR": "a"}, {"RANK": "-1", "MASTER_ADDR": "a"},
    {"PMI_RANK": "1" * 20}, {"SLURM_JOB_ID": "12"}])
def test_processes_that_are_none(environment: dict[str, str]) -> None:
    assert identity_of(environment) is None


@pytest.mark.parametrize("title", ["VLLM::Worker_TP0", "sglang::scheduler_TP1", "ray::Actor.run"])
def test_titles_of_engines(title: str) -> None:
    assert identity_of({}, title) == Identity(role=title)
    assert identity_of(TORCHRUN, title) == Identity(3, 16, 1, "torchrun", None, title)


def test_only_wanted_variables_are_kept() -> None:
    data = b"HOME=/root\0RANK=3\0SECRET=abc\0MASTER_ADDR=a=b\0WORLD_SIZE\0PMI_RANK=" + b"1" * 5000 + b"\0"
    found = parse_environment(data)
    assert {name: found[name] for name in ("RANK", "MASTER_ADDR")} == {"RANK": "3", "MASTER_ADDR": "a=b"}
    assert set(found) == {"RANK", "MASTER_ADDR", "PMI_RANK"}
    assert len(found["PMI_RANK"]) == 1024


@pytest.mark.parametrize("more", [0, 10_000])
def test_variables_in_the_memory_of_a_core(more: int) -> None:
    """They are before the path of the program, and after its arguments."""
    memory = bytes(6000) + b"x86_64\0job\0--all\0RANK=3\0" + b"A=" + b"y" * more + b"\0MASTER_ADDR=a\0"
    end = len(memory)
    memory += b"/usr/bin/job\0" + bytes(8)

    def read(address: int, size: int) -> bytes:
        return memory[address:address + size] if address >= 0 else b""

    assert environment_before(read, end) == {"RANK": "3", "MASTER_ADDR": "a"}


def test_a_real_process() -> None:
    with subprocess.Popen([sys.executable, "-c", "input('ready')"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          env={**os.environ, **TORCHRUN}) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.read(5) == b"ready"
            assert identity_of(read_environment(process.pid)) == Identity(3, 16, 1, "torchrun")
        finally:
            process.kill()
    assert read_environment(1 << 30) == {}


@pytest.mark.parametrize(("identity", "ranks"), [
    (Identity(5, 16, 1, "torchrun", local_size=4), range(4, 8)),
    (Identity(5, 8, 5, "MPI", local_size=8), range(8)),
    # other launchers may deal the ranks out to the machines in turn
    (Identity(5, 16, 1, "Open MPI", local_size=4), range(5, 6)), (Identity(5, 16), range(5, 6)),
    (Identity(), range(0))])
def test_ranks_of_one_machine(identity: Identity, ranks: range) -> None:
    assert identity.neighbours == ranks
