"""The help of `gdbext`: all commands, functions and settings inside GDB."""

from __future__ import annotations

from collections.abc import Iterable

from gdbext.commands.base import Command

_HELP = """Explain hangs, deadlocks and crashes of programs that mix Python and native code.

Usage: gdbext

These commands work on the process or core that GDB has loaded. They only read it.

{commands}
  bt
      Print the stack of the selected thread with GDB's own command, which shows Python
      frames in place of the interpreter's own.

$_gil_holder() and $_lock_owner(ADDRESS) are the number of the thread that holds the GIL
or a lock, 0 if there is none. `show gdbext` lists the settings.

`help COMMAND` shows the options of a command and an example."""


def overview(commands: Iterable[Command]) -> str:
    """The help text, with the first line of each command's help."""
    rows = [f"  {command.name}\n      {command.help.partition(chr(10))[0]}" for command in commands]
    return _HELP.format(commands="\n".join(rows))
