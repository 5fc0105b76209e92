"""Convenience functions for GDB's expressions, such as ``print $_gil_holder()``.

GDB's `thread` command takes numbers and variables, but no calls; use ``eval "thread %d", $_gil_holder()``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import gdb

from gdbext.debugger.output import failure
from gdbext.debugger.target import session
from gdbext.errors import GdbextError
from gdbext.model import Lock
from gdbext.snapshot import Snapshot, take_snapshot


@contextlib.contextmanager
def _snapshot(name: str) -> Iterator[Snapshot]:
    """Take a snapshot; an error ends the evaluation of the expression, in one line."""
    try:
        with session(may_load=False) as target:  # GDB is evaluating an expression
            yield take_snapshot(target, budget=target.budget, known_code=target.known_code)
    except GdbextError as error:
        raise failure(f"{name}: {error}" + (f"; {error.hint}" if error.hint else "")) from None


def _first_holder(lock: Lock | None) -> int:
    return min((holder.thread for holder in lock.holders), default=0) if lock is not None else 0


class _GilHolder(gdb.Function):
    __doc__ = """Return the number of the thread that holds the GIL, 0 if no thread does.

Usage: $_gil_holder ()

If the process has several GILs, the function returns the holder of the first one that
is held.

Example:
  (gdb) eval "thread %d", $_gil_holder()"""

    def invoke(self) -> int:  # type: ignore[override]
        with _snapshot("$_gil_holder") as snapshot:
            return next((number for number in map(_first_holder, snapshot.gils()) if number), 0)


class _LockOwner(gdb.Function):
    __doc__ = """Return the number of the thread that holds a lock, 0 if no thread does or it is not known.

Usage: $_lock_owner (ADDRESS)

ADDRESS is the address of the lock. If the lock has several holders (readers of a
rwlock), the function returns the lowest number.

Example:
  (gdb) eval "thread %d", $_lock_owner(&table_lock)"""

    def invoke(self, address: gdb.Value) -> int:  # type: ignore[override]
        with _snapshot("$_lock_owner") as snapshot:
            lock, _ = snapshot.lock_at(int(address) & 0xFFFFFFFFFFFFFFFF)
            return _first_holder(lock)


def register() -> None:
    """Make the functions known to GDB."""
    _GilHolder("_gil_holder")
    _LockOwner("_lock_owner")
