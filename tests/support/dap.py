"""A small client of the Debug Adapter Protocol, by which editors control ``gdb -i=dap``.

A message is JSON after a header with its length; see https://microsoft.github.io/debug-adapter-protocol.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.support import gdb_session

_SEPARATOR = b"\r\n\r\n"


class DapSession:
    """GDB as used by an editor, with gdbext loaded.

    :param gdb: the GDB to run; it must be version 14 or later.
    :param home: a directory that is GDB's home and gets its standard error.
    :param load: when false, gdbext is not loaded.
    :param variables: further environment variables of GDB.
    :param options: further options of GDB.
    :param init: whether GDB reads the init file in its home.
    """

    def __init__(self, gdb: Path, home: Path, *, load: bool = True, variables: Sequence[tuple[str, str]] = (),
                 options: Sequence[str] = (), init: bool = False) -> None:
        argv = [str(gdb), *([] if init else ["-nx"]), "-q", "-i=dap", *gdb_session.settings(symbols=True)]
        if load:
            argv += ["-iex", gdb_session.LOAD]
        argv += options
        self._errors = home / "dap-errors"
        with open(self._errors, "wb") as errors:
            self._process = subprocess.Popen(
                argv, cwd=home, env={**gdb_session.environment(home), **dict(variables)}, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=errors, start_new_session=True)
        self._unread = b""
        self._number = 0
        #: All messages except the awaited responses, in order of arrival.
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> DapSession:
        """Enter the session, which ends with the block."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        """End GDB; SIGTERM lets it detach first."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()

    def attach(self, pid: int | None = None, **arguments: Any) -> None:
        """Begin the session and attach to a process, or to what the arguments of the request name."""
        self.request("initialize", adapterID="gdbext-tests", supportsVariableType=True, supportsMemoryReferences=True)
        self.start("attach", **(arguments if pid is None else {"pid": pid, **arguments}))

    def start(self, command: str, **arguments: Any) -> None:
        """Send a request that GDB answers only after `configurationDone`: ``attach`` or ``launch``."""
        number = self.send(command, arguments)
        self.request("configurationDone")
        self.answer(number, command)

    def wait_for(self, event: str, count: int = 1) -> dict[str, Any]:
        """Wait until an event has arrived `count` times in all; return its last body."""
        deadline = time.monotonic() + gdb_session.TIMEOUT
        while True:
            found = [each for each in self.events if each.get("event") == event]
            if len(found) >= count:
                body: dict[str, Any] = found[-1].get("body", {})
                return body
            self.events.append(self._receive(deadline))

    def console(self, count: int) -> list[str]:
        """Wait for lines in the debug console, except those of commands that were typed there; return them."""
        deadline = time.monotonic() + gdb_session.TIMEOUT
        while len(self._lines()) < count:
            self.events.append(self._receive(deadline))
        # GDB does what it has put off before it answers a second request
        self.request("threads")
        self.request("threads")
        return self._lines()

    def _lines(self) -> list[str]:
        return [each["body"]["output"] for each in self.events
                if each.get("event") == "output" and each["body"]["category"] == "console"]

    def request(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Send a request and return the body of the response.

        :raises AssertionError: the request fails, or there is no response in time.
        """
        return self.answer(self.send(command, arguments), command)

    def disconnect(self) -> None:
        """Detach from the process and wait for GDB to end."""
        self.request("disconnect", terminateDebuggee=False)
        self._process.wait(gdb_session.TIMEOUT)

    def send(self, command: str, arguments: dict[str, Any]) -> int:
        """Send a request and return its number, for `answer`."""
        self._number += 1
        message = {"seq": self._number, "type": "request", "command": command, "arguments": arguments}
        body = json.dumps(message).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d%s%s" % (len(body), _SEPARATOR, body))
        self._process.stdin.flush()
        return self._number

    def answer(self, number: int, command: str) -> dict[str, Any]:
        """Wait for the response to a request and return its body."""
        deadline = time.monotonic() + gdb_session.TIMEOUT
        while True:
            message = self._receive(deadline)
            if message["type"] == "response" and message["request_seq"] == number:
                assert message["success"], f"{command}: {message.get('message')}\n{self._errors.read_text()}"
                body: dict[str, Any] = message.get("body", {})
                return body
            self.events.append(message)

    def _receive(self, deadline: float) -> dict[str, Any]:
        while _SEPARATOR not in self._unread:
            self._read(deadline)
        header, _, self._unread = self._unread.partition(_SEPARATOR)
        name, _, length = header.partition(b": ")
        assert name == b"Content-Length", header
        while len(self._unread) < int(length):
            self._read(deadline)
        body, self._unread = self._unread[:int(length)], self._unread[int(length):]
        message: dict[str, Any] = json.loads(body)
        return message

    def _read(self, deadline: float) -> None:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], max(deadline - time.monotonic(), 0))
        data = os.read(self._process.stdout.fileno(), 1 << 16) if ready else b""
        if not data:
            status, errors = self._process.poll(), self._errors.read_text()
            raise AssertionError(f"GDB sent nothing; status {status}, errors:\n{errors}")
        self._unread += data
