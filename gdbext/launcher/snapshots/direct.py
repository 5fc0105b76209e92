"""Snapshots without GDB: one process of `direct.server` for all of them, which forks for each process and core.

It is started for the first snapshot and ends with the launcher. It has a session of its own, where Ctrl-C at the
terminal does not reach it.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from gdbext.errors import GdbextError
from gdbext.launcher.snapshots.finding import HOME, environment
from gdbext.launcher.snapshots.said import last_line, memory_hint
from gdbext.launcher.status import Unreadable

#: How long after its time limit a snapshot may take to end, in seconds.
_PATIENCE = 5.0
#: How much of an answer is read at once, and of the server's error messages, in bytes.
_PIECE, _SAID = 1 << 20, 1 << 14
#: How many addresses are remembered.
_MOST_LINES = 2000
# the package's folder must not come before Python's own folders
_START = ("import sys; sys.path.insert(0, {home!r}); import gdbext; sys.path.append(sys.path.pop(0)); "
          "from gdbext.direct.server import main; main({descriptor})")


class TooSlow(Unreadable):
    """A snapshot took longer than its time limit."""


class _Server:
    """A running server."""

    def __init__(self) -> None:
        if not sys.executable:
            raise GdbextError("this program does not know its Python, so it cannot start another", "use GDB: --gdb gdb")
        atexit.register(end_direct)
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._said = os.fdopen(os.memfd_create("gdbext-errors"), "w+b", buffering=0)
        with theirs:
            # -I: without the folders and settings of the environment
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", _START.format(home=str(HOME), descriptor=theirs.fileno())],
                env=environment(), cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._said,
                start_new_session=True, pass_fds=(theirs.fileno(),))

    def send(self, request: Mapping[str, Any], core: int | None) -> int:
        """Send a request and return the descriptor of the pipe with its answer.

        :param core: the descriptor of the core; None for a process.
        :raises OSError: the server has ended.
        """
        ours, theirs = os.pipe()
        try:
            with os.fdopen(os.memfd_create("gdbext-request"), "w+b", buffering=0) as file:
                file.write(json.dumps(request).encode())
                file.seek(0)
                socket.send_fds(self._socket, [b"\0"], [file.fileno(), file.fileno() if core is None else core, theirs])
        except OSError:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        return ours

    def said(self) -> str:
        """The last line of its error messages."""
        return last_line(os.pread(self._said.fileno(), _SAID, 0).decode("utf-8", "replace"))

    def end(self) -> None:
        """End the server, and with it its snapshots."""
        self._socket.close()
        self._process.kill()
        self._process.wait()


_server: _Server | None = None
#: The source lines of addresses in files that cores have in common; reading debug information takes most of the time.
_lines: list[Any] = []
_lock = threading.Lock()


def end_direct() -> None:
    """End the snapshots of other threads; they then fail."""
    global _server
    with _lock:
        if _server is not None:
            _server.end()
            _server = None


def read_without_gdb(name: str, request: Mapping[str, Any], core: int | None, timeout: float) -> Mapping[str, Any]:
    """Take a snapshot of a process or a core.

    :param name: the target in messages.
    :param request: the members of `direct.one_snapshot.Request`.
    :param core: the descriptor of the core, not compressed; None for a process.
    :param timeout: in seconds.
    :return: the answer of `direct.one_snapshot.answer_request`.
    :raises Unreadable: there is no answer, or it is a problem, except that the process may not be read.
    """
    global _server
    began = time.monotonic()
    with _lock:
        _server = server = _server or _Server()
        try:
            known = {} if core is None else {"known_lines": _lines}
            answer = server.send({**request, **known, "timeout": timeout}, core)
        except OSError:
            _server = None
            server.end()
            raise Unreadable(f"gdbext cannot start a process that reads {name}: {server.said()}",
                             "use GDB: --gdb gdb") from None
    try:
        text = _read(answer, began + timeout + _PATIENCE)
    finally:
        os.close(answer)
    with contextlib.suppress(ValueError):
        made: dict[str, Any] = json.loads(text)
        with _lock:
            _lines.extend(made.pop("lines", ())[:_MOST_LINES - len(_lines)])
        if "problem" in made and "denied" not in made:
            raise Unreadable(made["problem"], made["hint"])
        return made
    if time.monotonic() >= began + timeout:
        raise TooSlow(f"{name} was not read within {timeout:g} s", "give more time: --timeout SECONDS")
    said = server.said()
    raise Unreadable(f"{name}: the process that reads it ended without an answer{': ' if said else ''}{said}",
                     memory_hint() or "please report it; GDB may read it: --gdb gdb")


def _read(pipe: int, deadline: float) -> bytes:
    """Read a pipe to its end, or until the deadline."""
    pieces: list[bytes] = []
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    while poll.poll(max(deadline - time.monotonic(), 0) * 1000):
        piece = os.read(pipe, _PIECE)
        if not piece:
            break
        pieces.append(piece)
    return b"".join(pieces)
