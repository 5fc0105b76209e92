"""MPI: Open MPI, MPICH and their relatives. A rank polls in the call in which it waits for others."""

from __future__ import annotations

from typing import Final

from gdbext.library import Library

LIBRARY: Final = Library(
    "mpi",
    files=r"lib(?:mpi|mpich|mpi_abi|pmpi|mpi_mt|mpi_cray)[\w-]*\.so\b",
    kinds={},
    has_ranks=True,
)
