"""Symbols for GDB's own stack commands with `set auto-solib-add off`, read before each prompt."""

from __future__ import annotations

import gdb

from gdbext.debugger.lazy import is_lazy
from gdbext.debugger.settings import settings
from gdbext.debugger.target import session
from gdbext.errors import GdbextError
from gdbext.inferior.protocol import ThreadRef


class AtPrompt:
    """Has GDB read the symbols for the selected thread's stack, once per stop and thread."""

    def __init__(self) -> None:
        self._done: set[tuple[tuple[int, int, int], int]] = set()
        gdb.events.before_prompt.connect(self._load)
        for event in (gdb.events.cont, gdb.events.exited, gdb.events.register_changed, gdb.events.clear_objfiles):
            event.connect(self._forget)

    def _forget(self, event: object) -> None:
        self._done.clear()

    def _load(self, event: object = None) -> None:
        thread: gdb.InferiorThread | None = gdb.selected_thread()
        if thread is None or not is_lazy() or settings().load_all:
            return
        try:
            # the number of files changes when GDB detaches, for which it has no event
            if (thread.ptid, len(gdb.objfiles())) not in self._done and thread.is_stopped():
                with session() as target:
                    target.threads()
                    target.load_stack(ThreadRef(thread.num, 0, None))
                self._done.add((thread.ptid, len(gdb.objfiles())))
        except (GdbextError, gdb.error, KeyboardInterrupt):  # GDB shows stacks without these symbols
            return
