"""The verdict in an editor: one line in its debug console when it attaches to a process or loads a core.

GDB's adapter has no function for extensions that write to the console. Its module `gdb.dap.server` sends events, and
output that is just printed becomes output of the program (GDB 16.3 and 18.1 gdb/python/lib/gdb/dap/server.py).
"""

from __future__ import annotations

import sys

import gdb

from gdbext.debugger.settings import settings
from gdbext.debugger.target import session
from gdbext.errors import GdbextError
from gdbext.model import Report
from gdbext.narrate.editors import no_verdict_line, verdict_line
from gdbext.render.plain_text import one_line
from gdbext.snapshot import take_snapshot

_SERVER = "gdb.dap.server"


def is_in_editor() -> bool:
    """Whether an editor controls this GDB by the Debug Adapter Protocol."""
    return _SERVER in sys.modules


class InEditor:
    """Shows the verdict once for each process that GDB attaches to, and for each core."""

    def __init__(self) -> None:
        self._shown: dict[int, int | None] = {}
        gdb.events.stop.connect(self._stopped)
        core_event = getattr(gdb.events, "corefile_changed", None)  # GDB 18
        if core_event is not None:
            core_event.connect(self._stopped)

    def _stopped(self, event: object) -> None:
        inferior = gdb.selected_inferior()
        connection = inferior.connection
        # a connection ends with the process or core; the number of the next one is another
        if connection is None or self._shown.get(inferior.num) == connection.num:
            return
        self._shown[inferior.num] = connection.num
        if connection.type == "core" or connection.type == "native" and inferior.was_attached:
            gdb.post_event(lambda: self._show(inferior, connection.num))  # after the editor has its answer

    def _show(self, inferior: gdb.Inferior, number: int) -> None:
        try:
            thread: gdb.InferiorThread | None = gdb.selected_thread()
            if (not settings().verdict_in_editors or gdb.selected_inferior() != inferior
                    or inferior.connection_num != number or thread is None or not thread.is_stopped()):
                return
            words = verdict_line(_report())
        except GdbextError as error:
            words = no_verdict_line(str(error))
        except Exception as error:  # GDB would print a traceback in the editor
            words = no_verdict_line(f"{type(error).__name__}: {error}")
        except KeyboardInterrupt:  # the editor cancels a request
            return
        sys.modules[_SERVER].send_event("output", {"category": "console", "output": f"{one_line(words)}\n"})


def _report() -> Report:
    with session() as target:
        snapshot = take_snapshot(target, budget=target.budget, known_code=target.known_code)
        report = snapshot.judged_report(lambda thread: False)
        return snapshot.with_crash(report) if target.kind == "core" else report
