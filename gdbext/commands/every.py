"""The list of all commands. Each module describes one; `debugger.command` makes GDB commands of them."""

from __future__ import annotations

from gdbext.commands import gil_holder, lock_owner, py_crash, py_deadlocks, py_mixed_bt, py_threads_locks
from gdbext.commands.base import Command

COMMANDS: tuple[Command, ...] = (
    py_deadlocks.COMMAND,
    py_threads_locks.COMMAND,
    py_mixed_bt.COMMAND,
    py_crash.COMMAND,
    gil_holder.COMMAND,
    lock_owner.RWLOCK_OWNER,
    lock_owner.LOCK_OWNER,
)
