"""The process of `direct.server`, which reads processes and cores without GDB: one for all snapshots.

It is started for the first snapshot, or before by `launcher.start`, and ends with the launcher. It has a session of its
own, where Ctrl-C at the terminal does not reach it.
"""

from __future__ import annotations

import atexit
import os
import socket
import subprocess
import sys
import threading

from gdbext.errors import GdbextError
from gdbext.launcher.snapshots.programs import HOME, environment

#: How much of the process's error messages is read, in bytes.
_SAID = 1 << 14
# the package's folder must not come before Python's own folders
_START = ("import sys; sys.path.insert(0, {home!r}); import gdbext; sys.path.append(sys.path.pop(0)); "
          "from gdbext.direct.server import main; main({descriptor})")


class Server:
    """A running process."""

    def __init__(self) -> None:
        if not sys.executable:
            raise GdbextError("this program does not know its Python, so it cannot start another", "use GDB: --gdb gdb")
        atexit.register(end_server)
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._said = os.fdopen(os.memfd_create("gdbext-errors"), "w+b", buffering=0)
        with theirs:
            # -I: without the folders and settings of the environment
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", _START.format(home=HOME, descriptor=theirs.fileno())],
                env=environment(), cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._said,
                start_new_session=True, pass_fds=(theirs.fileno(),))

    def send(self, request: bytes, core: int | None) -> int:
        """Send a request and return the descriptor of the pipe with its answer.

        :param request: a JSON object.
        :param core: the descriptor of the core; None for a process.
        :raises OSError: the process has ended.
        """
        ours, theirs = os.pipe()
        try:
            with os.fdopen(os.memfd_create("gdbext-request"), "w+b", buffering=0) as file:
                file.write(request)
                file.seek(0)
                socket.send_fds(self._socket, [b"\0"], [file.fileno(), file.fileno() if core is None else core, theirs])
        except OSError:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        return ours

    def said(self) -> bytes:
        """Its error messages."""
        return os.pread(self._said.fileno(), _SAID, 0)

    def end(self) -> None:
        """End the process, and with it its snapshots."""
        self._socket.close()
        self._process.kill()
        self._process.wait()


_server: Server | None = None
_lock = threading.Lock()


def start_server() -> Server:
    """The running process; one is started if there is none.

    :raises GdbextError: none can be started.
    """
    global _server
    with _lock:
        _server = _server or Server()
        return _server


def end_server(failed: Server | None = None) -> None:
    """End the snapshots of other threads; they then fail.

    :param failed: end this process only; meanwhile another thread may have started a new one.
    """
    global _server
    with _lock:
        if _server is not None and failed in (None, _server):
            _server.end()
            _server = None
