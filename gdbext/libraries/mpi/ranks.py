"""The call of MPI that a rank is in, by the functions of the standard, which every library of MPI exports.

MPI records no operations that could be read without symbols, so neither the communicator nor the other rank is known.

Source: MPI 4.1, A.2 C bindings.
"""

from __future__ import annotations

import re
from typing import Final

from gdbext.libraries.mpi import LIBRARY
from gdbext.locks.library_parts import LibraryRanks
from gdbext.model import MixedStack, NativeFrame, Operation
from gdbext.model.ranks import Group

#: A call of the standard, also by the name that profilers wrap.
_CALL: Final = re.compile(r"P?(MPI_[A-Z]\w*)")
#: Calls that end when one other rank sends or receives, and when all ranks of a communicator have called them.
_PAIR: Final = re.compile(r"MPI_(?:[BSR]?send|M?recv|Sendrecv|M?probe|Wait)", re.IGNORECASE)
_ALL: Final = re.compile(
    r"MPI_(?:Barrier|Bcast|(?:All)?reduce|(?:All)?gather|Scatter|Alltoall|(?:Ex)?scan|Init|Finalize|File_|"
    r"Comm_(?:split|dup|create|spawn|accept|connect|disconnect|free|idup)|Win_(?:create|allocate|fence|free))",
    re.IGNORECASE)


class MpiRanks(LibraryRanks):
    """The calls of a process."""

    def groups(self) -> tuple[Group, ...]:
        """None: MPI does not record them."""
        return ()

    def operation(self, stack: MixedStack) -> Operation | None:
        """The call that the program has made, if it may wait for other ranks: the outermost one of the standard."""
        for frame in reversed(stack.frames):
            if not isinstance(frame, NativeFrame) or not LIBRARY.has(frame.module or ""):
                continue
            match = _CALL.fullmatch(frame.function or "")
            if match is not None:
                if _PAIR.match(match[1]):
                    return Operation(match[1], None, is_pair=True)
                return Operation(match[1], None) if _ALL.match(match[1]) else None
        return None


RANKS = MpiRanks
