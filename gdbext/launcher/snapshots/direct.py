"""Snapshots without GDB: requests to the process of `direct.server`, and its answers."""

from __future__ import annotations

import json
import os
import select
import threading
import time
from collections.abc import Mapping
from typing import Any

from gdbext.launcher.snapshots.answers import parse_answer
from gdbext.launcher.snapshots.limit import Limit
from gdbext.launcher.snapshots.said import last_line, memory_hint
from gdbext.launcher.snapshots.server import Server, end_server, start_server
from gdbext.launcher.status import Unreadable

#: How long after its time limit a snapshot may take to end, in seconds.
_PATIENCE = 5.0
#: The time limit of a snapshot that has no time left; 0 means without a limit.
_SHORT = 0.001
#: How much of an answer is read at once, in bytes.
_PIECE = 1 << 20
#: How many addresses are remembered.
_MOST_LINES = 2000


#: The source lines of addresses in files that cores have in common; reading debug information takes most of the time.
_lines: list[Any] = []
_lock = threading.Lock()


def read_without_gdb(name: str, request: Mapping[str, Any], core: int | None, limit: Limit) -> Mapping[str, Any]:
    """Take a snapshot of a process or a core.

    :param name: the target in messages.
    :param request: the members of `direct.one_snapshot.Request`.
    :param core: the descriptor of the core, not compressed; None for a process.
    :return: the answer of `direct.one_snapshot.answer_request`.
    :raises Unreadable: there is no answer, or it is a problem, except that the process may not be read.
    """
    server = start_server()
    with _lock:
        known = {} if core is None else {"known_lines": _lines}
        message = json.dumps({**request, **known, "timeout": limit.left or _SHORT}).encode()
    try:
        answer = server.send(message, core)
    except OSError:
        end_server(server)
        raise Unreadable(f"gdbext cannot start a process that reads {name}: {_said(server)}",
                         "use GDB: --gdb gdb") from None
    try:
        data = _read(answer, time.monotonic() + limit.left + _PATIENCE)
    finally:
        os.close(answer)
    made = parse_answer(data)
    if "problem" in made and "denied" not in made:
        raise Unreadable(made["problem"], made["hint"])
    if "problem" in made or "outcome" in made:  # otherwise it was cut off
        with _lock:
            _lines.extend(made.pop("lines", ())[:_MOST_LINES - len(_lines)])
        return made
    limit.check(f"{name} was not read")
    said = _said(server)
    raise Unreadable(f"{name}: the process that reads it ended without an answer{': ' if said else ''}{said}",
                     memory_hint() or "please report it; GDB may read it: --gdb gdb")


def _said(server: Server) -> str:
    """The last line of its error messages."""
    return last_line(server.said().decode("utf-8", "replace"))


def _read(pipe: int, deadline: float) -> bytearray:
    """Read a pipe to its end, or until the deadline."""
    data = bytearray()
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    while poll.poll(max(deadline - time.monotonic(), 0) * 1000):
        piece = os.read(pipe, _PIECE)
        if not piece:
            break
        data += piece
    return data
