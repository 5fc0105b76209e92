"""Convenience functions for GDB's expressions, such as ``print $_gil_holder()``.

GDB's `thread` command takes numbers and variables, but no calls: ``eval "thread %d", $_gil_holder()`` it is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import gdb

from gdbext.debugger.target import Session
from gdbext.errors import GdbextError
from gdbext.model import Lock
from gdbext.render.escape import printable
from gdbext.snapshot import Snapshot, take_snapshot

GIL_HOLDER_HELP = """Number of the thread that holds the GIL, 0 if none does.

Usage: $_gil_holder ()

Of several GILs it is the first that is held.

Example:
  (gdb) eval "thread %d", $_gil_holder()"""

LOCK_OWNER_HELP = """Number of the thread that holds the lock at an address, 0 if none does or it is not known.

Usage: $_lock_owner (ADDRESS)

Of several holders (readers of a rwlock) it is the one with the lowest number.

Example:
  (gdb) eval "thread %d", $_lock_owner(&table_lock)"""


@contextlib.contextmanager
def _look(name: str) -> Iterator[Snapshot]:
    """A snapshot; an error ends the evaluation of the expression, in one line."""
    try:
        with Session(may_load=False) as target:  # GDB is in the middle of an expression
            yield take_snapshot(target)
    except GdbextError as error:
        raise gdb.GdbError(f"{name}: {printable(str(error))}" + (f"; {error.hint}" if error.hint else "")) from None


def _first_holder(lock: Lock | None) -> int:
    return min((holder.thread for holder in lock.holders), default=0) if lock is not None else 0


class GilHolder(gdb.Function):
    """``$_gil_holder()``."""

    __doc__ = GIL_HOLDER_HELP

    def __init__(self) -> None:
        super().__init__("_gil_holder")

    def invoke(self) -> int:  # type: ignore[override]
        """Find the holder; GDB calls this."""
        with _look("$_gil_holder") as snapshot:
            return next((number for number in map(_first_holder, snapshot.gils()) if number), 0)


class LockOwner(gdb.Function):
    """``$_lock_owner(ADDRESS)``."""

    __doc__ = LOCK_OWNER_HELP

    def __init__(self) -> None:
        super().__init__("_lock_owner")

    def invoke(self, address: gdb.Value) -> int:  # type: ignore[override]
        """Find the owner; GDB calls this."""
        with _look("$_lock_owner") as snapshot:
            lock, _ = snapshot.lock_at(int(address) & 0xFFFFFFFFFFFFFFFF)
            return _first_holder(lock)
