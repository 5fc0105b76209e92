"""A rank of MPI polls, so what it waits for is not a lock: `gdbext.libraries.mpi.ranks` reads it from its stack."""

from __future__ import annotations

from gdbext.locks.library_parts import LibraryWaits

WAITS = LibraryWaits
