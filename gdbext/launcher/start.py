"""The start of the console script `gdbext`.

The process that reads targets without GDB takes as long to start as the launcher takes to load its modules, so both
happen at the same time.
"""

from __future__ import annotations

import contextlib
import signal
import sys

#: Verbs that read one target, and options with which GDB does.
_VERBS, _BY_GDB = ("report", "dump", "issue"), ("--gdb", "--debuginfod")


def main() -> int:
    """Run the verb that the command line names; return the exit status, as `launcher.cli.main` does."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # while modules are loaded Ctrl-C ends the process at once; `launcher.cli` then has a line for it
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    verb, *options = sys.argv[1:] or ("",)
    # a closed standard stream is for `launcher.cli` to replace, before anything else is opened
    if ((verb in _VERBS or verb.isdecimal()) and not any(option.startswith(_BY_GDB) for option in options)
            and None not in (sys.stdin, sys.stdout, sys.stderr)):
        from gdbext.errors import GdbextError
        from gdbext.launcher.snapshots.server import start_server

        with contextlib.suppress(GdbextError, OSError):  # the snapshot says why, if it needs the process
            start_server()
    from gdbext.launcher.cli import main as run

    return run()
