"""ZeroMQ: threads that wait for messages of a socket, which the library's own threads exchange with other processes."""

from __future__ import annotations

from typing import Final

from gdbext.library import Library


def _socket(kinds: str, alone: int = 0) -> str:
    return f"a {kinds} socket of ZeroMQ" + (", to which nobody has connected" if alone else "")


LIBRARY: Final = Library(
    "zmq",
    files=r"(?:libzmq|_zmq)\b",
    kinds={},
    words={"zmq-socket": _socket},
)
