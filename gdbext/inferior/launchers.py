"""Which rank of a job a process is, by the variables that its launcher has set in the environment.

Source: PyTorch 2.13 torch/distributed/elastic/agent/server/local_elastic_agent.py (torchrun); Open MPI 5
docs/tuning-apps/environment-var.rst; MPICH 4.2 src/pmi; Slurm 23.11 doc/man/man1/srun.1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from gdbext.model.ranks import Identity


class _Launcher(NamedTuple):
    """The variables of a launcher; `sign` is one that no other launcher sets."""

    name: str
    sign: str
    rank: str
    size: str
    local_rank: str
    local_size: str
    run: str | None = None


#: A program below several launchers has the variables of each; the first is the one that its library asks.
_LAUNCHERS: Final = (
    _Launcher("torchrun", "TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
              "TORCHELASTIC_RUN_ID"),
    _Launcher("torch.distributed", "MASTER_ADDR", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    _Launcher("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
              "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE"),
    _Launcher("MPI", "PMI_RANK", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    _Launcher("Slurm", "SLURM_PROCID", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE",
              "SLURM_JOB_ID"),
)
_ROLE: Final = "ROLE_NAME"
#: All variables that are read.
VARIABLES: Final = frozenset(
    [name for launcher in _LAUNCHERS for name in launcher[1:] if name is not None] + [_ROLE])
#: Names that engines give their processes, such as ``VLLM::Worker_TP0`` and ``ray::Actor``.
_ENGINE: Final = re.compile(r"(VLLM|sglang|ray)::(\S.*)")
_NUMBER: Final = re.compile(r"\d{1,9}")
#: A run that torchrun has not been given a name for, and a role.
_UNNAMED: Final = ("none", "default", "")


def identity_of(environment: Mapping[str, str], title: str | None = None) -> Identity | None:
    """Which rank a process is; None if nothing says that it is one.

    Child processes of a rank have its variables, too.

    :param environment: the variables, of which those in `VARIABLES` are asked for.
    :param title: its command line.
    """
    engine = _ENGINE.match(title or "")
    role = engine[0] if engine else environment.get(_ROLE)
    role = role if role not in _UNNAMED else None
    for launcher in _LAUNCHERS:
        rank = _number(environment, launcher.rank)
        if launcher.sign in environment and rank is not None:
            run = environment.get(launcher.run) if launcher.run is not None else None
            return Identity(rank, _number(environment, launcher.size), _number(environment, launcher.local_rank),
                            launcher.name, run if run not in _UNNAMED else None, role,
                            _number(environment, launcher.local_size))
    return Identity(role=role) if engine else None


def _number(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "")
    return int(text) if _NUMBER.fullmatch(text) else None
