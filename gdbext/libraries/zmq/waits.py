"""Threads that wait for a message of a ZeroMQ socket, and the processes at the other ends of its connections.

Such a thread polls the eventfd of the socket's mailbox, which another thread of the library writes to. That thread
watches the connections: for each descriptor the kernel keeps what the library has stored with it, a
``zmq::epoll_t::poll_entry_t``, which leads to an object for the connection or the listening socket, and to the socket.
What each object is, and the type of the socket, are known by the names of their classes in memory. So neither symbols
nor offsets of members are needed, except in ``poll_entry_t``.

Source: libzmq 4.3.5 src/epoll.hpp (poll_entry_t), src/stream_engine_base.hpp, src/stream_listener_base.hpp,
src/socket_base.hpp (_mailbox), src/mailbox.hpp, src/signaler.hpp (_w, _r).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final, NamedTuple

from gdbext.errors import if_unreadable
from gdbext.inferior.awaited import c_int, read_polled
from gdbext.inferior.cache import read_available
from gdbext.inferior.proc.descriptors import Descriptor
from gdbext.inferior.proc.ends import INODE
from gdbext.libraries.zmq import LIBRARY
from gdbext.locks.library_parts import LibraryWaits
from gdbext.locks.seen import SeenLock, SeenWait
from gdbext.model.kinds import DESCRIPTOR
from gdbext.model.reasons import Reason, because, joined
from gdbext.runtimes.libstdcxx import class_of
from gdbext.threads.threads import SeenThread

_EPOLLS: Final = ("epoll_wait", "epoll_pwait", "epoll_pwait2")
#: struct poll_entry_t: the descriptor; the object's address follows the ``struct epoll_event``, which is packed on x86.
_FD: Final = struct.Struct("<i")
_WORD: Final = struct.Struct("<Q")
_EVENTS: Final = (16, 24)
#: The classes of sockets, mangled, and those of connections and of what listens.
_SOCKET: Final = re.compile(
    r"N3zmq\d+(req|rep|dealer|router|x?pub|x?sub|push|pull|pair|stream|client|server|channel|peer)_tE")
_ENGINE: Final = re.compile(r"N3zmq\d+\w*(engine|listener)\w*E")
_MAILBOX: Final = re.compile(r"N3zmq\d+mailbox(?:_safe)?_tE")
#: How much of an object is searched for a pointer, and of a mailbox for its descriptor, in bytes.
_OBJECT, _MAILBOX_SIZE = 2560, 256
#: Most descriptors that are followed, the largest number of one, and most frames between the call and the library.
_MOST, _MOST_FD, _MOST_FRAMES = 256, 1 << 20, 4


class _Socket(NamedTuple):
    """A socket: the descriptors of its mailbox and connections, what it is called, and whether it listens."""

    mailbox: int | None
    kind: str
    connections: Sequence[int]
    listens: bool


class Messages(LibraryWaits):
    """The threads that wait for messages."""

    def find_wait(self, seen: SeenThread) -> SeenWait | None:
        """The sockets that a thread waits for, with the other ends of their connections."""
        call = seen.call
        if (call is None or not call.blocked or call.name not in ("poll", "ppoll") or self._target.proc is None
                or not self._in_library(seen)):
            return None
        polled = [fd for fd, _ in read_polled(call.arguments, self._memory.read) or ()]
        found = [(fd, socket) for fd in polled for socket in self._sockets if socket.mailbox == fd]
        if not found or [fd for fd, _ in found] != polled:
            return None
        ends = [end for _, socket in found for fd in socket.connections for end in self._ends(fd)]
        kinds = " or ".join(dict.fromkeys(socket.kind for _, socket in found))
        parts = [because("zmq-socket", kinds=kinds, alone=int(not ends))]
        if ends:
            parts.append(because("other-end", ends=tuple(ends)))
        if not ends or any(socket.listens for _, socket in found):
            parts.append(because("accepts-more"))
        timed = call.arguments[2] != 0 if call.name == "ppoll" else c_int(call.arguments[2]) >= 0
        name = ", ".join(f"fd {fd}, eventfd" for fd in polled)
        address = polled[0] if len(polled) == 1 else call.arguments[0]
        return SeenWait(because("descriptor", name=name),
                        SeenLock(DESCRIPTOR, address, "waiting for events", name=name, why=joined(parts)), timed)

    def _in_library(self, seen: SeenThread) -> bool:
        module = self._sites.calling_module(seen.native(self._code)[:_MOST_FRAMES])
        return module is not None and LIBRARY.has(module.name)

    @cached_property
    def _sockets(self) -> Sequence[_Socket]:
        """The sockets with a connection or a listening descriptor."""
        found: dict[int, tuple[list[int], list[int]]] = {}
        for fd, entry in self._watched():
            item = self._socket_of(fd, entry)
            if item is not None:
                socket, listens = item
                found.setdefault(socket, ([], []))[listens].append(fd)
        kinds = {socket: _SOCKET.fullmatch(self._class(socket) or "") for socket in found}
        return [_Socket(self._mailbox(socket), kind[1].upper(), connections, bool(listening))
                for socket, (connections, listening) in found.items() if (kind := kinds[socket]) is not None]

    def _watched(self) -> Iterator[tuple[int, int]]:
        """The descriptors that threads of the process watch, each with the value that the program stored with it."""
        proc, count = self._target.proc, 0
        epolls = dict.fromkeys(c_int(seen.call.arguments[0]) for seen in self._threads
                               if seen.call is not None and seen.call.name in _EPOLLS)
        for epoll in epolls:
            info = proc.descriptors.info(Descriptor(proc.pid, epoll)) if proc is not None else None
            for fd, data in info.stored if info is not None else ():
                count += 1
                if count > _MOST:
                    return
                yield fd, data

    @if_unreadable(None)
    def _socket_of(self, fd: int, entry: int) -> tuple[int, bool] | None:
        """The socket (``zmq::socket_base_t *``) of a connection, or of what listens; None if it is neither.

        :param entry: ``zmq::epoll_t::poll_entry_t *``.
        """
        if self._memory.read(entry, 4) != _FD.pack(fd):
            return None
        for offset in _EVENTS:
            events, = _WORD.unpack(self._memory.read(entry + offset, 8))
            match = _ENGINE.fullmatch(self._class(events) or "")
            if match is not None:
                socket = next(self._pointers(events, _SOCKET), None)
                return (socket, match[1] == "listener") if socket is not None else None
        return None

    def _mailbox(self, socket: int) -> int | None:
        """The eventfd of a socket's mailbox; both ends of its signaler have that number."""
        mailbox = next(self._pointers(socket, _MAILBOX), None)
        data = read_available(self._memory, mailbox, _MAILBOX_SIZE) if mailbox is not None else b""
        numbers = [number for number, in _FD.iter_unpack(data[:len(data) & -4])]
        return next((one for one, other in zip(numbers, numbers[1:]) if one == other and 0 < one < _MOST_FD), None)

    def _pointers(self, address: int, wanted: re.Pattern[str]) -> Iterator[int]:
        """The pointers in an object to objects of some classes."""
        data = read_available(self._memory, address, _OBJECT)
        for word, in _WORD.iter_unpack(data[:len(data) & -8]):
            if word >> 12 and wanted.fullmatch(self._class(word) or ""):
                yield word

    @if_unreadable(None)
    def _class(self, address: int) -> str | None:
        return class_of(self._memory, lambda at: self._code.module(at) is not None, address)

    def _ends(self, fd: int) -> list[Reason]:
        """The descriptors of other processes at the other end of a connection."""
        proc = self._target.proc
        match = INODE.match(proc.descriptors.link(fd) or "") if proc is not None else None
        other = proc.sockets.other_end(int(match[2])) if proc is not None and match is not None else None
        having = proc.descriptors.having(f"socket:[{other}]") if proc is not None and other else ()
        return [because("descriptor-of", fd=end.fd, process=proc.describe(end.pid))
                for end in having if proc is not None]


WAITS = Messages
