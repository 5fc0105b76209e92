"""Descriptors of a process: what each is, and which processes have the other end.

This is known of a live process on this machine only. A core has only the numbers.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

from gdbext.inferior.proc.descriptors import FUSE, Descriptor, is_path
from gdbext.inferior.proc.process import Proc
from gdbext.inferior.protocol import Target
from gdbext.model.reasons import UNANSWERED, Reason, because, ends_here, find_reasons, joined
from gdbext.remembered import remembered

#: Most time to search for other ends, in seconds: the process is paused meanwhile.
SECONDS = 0.3
#: Most descriptors, processes or signals that are listed; of more only the number is reported.
MANY = 4
#: Most open descriptors that are examined to find the other end of one.
_MAX_ENDS = 64
_SOCKET = re.compile(r"^socket:\[(\d+)\]$")
_ANONYMOUS = re.compile(r"^anon_inode:\[?(.+?)\]?$")
_INODE = re.compile(r":\[(\d+)\]$")
#: What is known of the only descriptor that another one watches.
_ONE_END = frozenset(("in-accept-queue", "other-end", UNANSWERED, "watches-pipes-only"))


class Descriptors:
    """The descriptors of a target's process; each is read once."""

    def __init__(self, target: Target) -> None:
        self.proc = target.proc
        self._kind = target.kind
        self._spent = 0.0

    @remembered
    def name(self, fd: int) -> str:
        """The number of a descriptor and its file: ``fd 5, pipe:[1234]``."""
        link = self.proc.descriptors.link(fd) if self.proc is not None else None
        return f"fd {fd}" if self.proc is None or link is None else f"fd {fd}, {_what(self.proc, link)}"

    def unknown(self, fd: int) -> Reason | None:
        """Why a descriptor is unknown; None if it is known."""
        if self.proc is None:
            return because("descriptor-not-in-core" if self._kind == "core" else "descriptor-not-visible")
        return because("descriptor-unreadable") if self.proc.descriptors.link(fd) is None else None

    @remembered
    def end(self, fd: int) -> Reason | None:
        """The processes that have the other end of a descriptor, or what it watches; None if it has neither."""
        link = self.proc.descriptors.link(fd) if self.proc is not None else None
        if self.proc is None or link is None:
            return self.unknown(fd)
        if self._spent > SECONDS:
            return because("other-end-not-searched")
        begin = time.monotonic()
        end = self._end(self.proc, fd, link)
        self._spent += time.monotonic() - begin
        return end

    @remembered
    def unanswered(self, fd: int) -> Reason | None:
        """How long ago a connection to another process has sent data, if it has received none since; else None."""
        link = self.proc.descriptors.link(fd) if self.proc is not None else None
        match = _SOCKET.match(link or "")
        exchange = self.proc.sockets.exchange(int(match[1])) if self.proc is not None and match else None
        seconds = exchange.unanswered if exchange is not None else None
        end = self.end(fd)
        if end is not None and ends_here(end):
            return None
        return because("unanswered", seconds=int(seconds)) if seconds is not None and seconds >= 1 else None

    def is_named_pipe(self, fd: int) -> bool:
        """Whether a descriptor is known to be one of a named pipe."""
        return self.proc is not None and self.proc.descriptors.is_named_pipe(fd)

    def process(self, pid: int) -> Reason:
        """A process by its id on this machine; see `Proc.describe`."""
        return self.proc.describe(pid) if self.proc is not None else because("this-process")

    def listeners(self, protocol: str, place: str) -> tuple[Reason, ...]:
        """The descriptors that listen at an address of this host."""
        if self.proc is None:
            return ()
        places = [place]
        if place.startswith(("127.", "[::1]:")):
            port = place.rpartition(":")[2]
            places += [f"0.0.0.0:{port}", f"[::]:{port}"]
        inode = next(filter(None, (self.proc.sockets.listener(protocol, at) for at in places)), None)
        having = self.proc.descriptors.having(f"socket:[{inode}]")[:_MAX_ENDS] if inode is not None else ()
        return tuple([self._describe(end) for end in having])

    def _describe(self, end: Descriptor) -> Reason:
        return because("descriptor-of", fd=end.fd, process=self.process(end.pid))

    def _end(self, proc: Proc, fd: int, link: str) -> Reason | None:
        match = _SOCKET.match(link)
        if match:
            inode = proc.sockets.other_end(int(match[1]))
            listeners = proc.sockets.queued_at(int(match[1])) if not inode else None
            if listeners is not None:
                return self._queued(proc, listeners)
            return (self._describe_ends(proc, proc.descriptors.having(f"socket:[{inode}]")[:_MAX_ENDS])
                    if inode is not None else None)
        if link == FUSE:
            return because("takes-requests")
        terminal = proc.descriptors.other_end_of_terminal(fd)
        if terminal is not None:
            return self._describe_ends(proc, terminal[:_MAX_ENDS]) if terminal else None
        own = Descriptor(proc.pid, fd)
        info = proc.descriptors.info(own)
        if info is None:
            return None
        if link == "anon_inode:[eventpoll]":
            return self._watched(proc, info.watched)
        if not link.startswith("pipe:") and not (is_path(link) and proc.descriptors.stores_files(info.mount)):
            return None
        ends = []
        for other in proc.descriptors.having(link)[:_MAX_ENDS]:
            its = proc.descriptors.info(other)
            if its is None or other == own or (its.mount, its.inode) != (info.mount, info.inode):
                continue
            # a named pipe that is open for both is either end
            if (its.writes and not info.writes) or (its.reads and not info.reads) or (info.reads and info.writes):
                ends.append(other)
        # a path may also name a file, which has no other end
        return self._describe_ends(proc, ends) if ends or link.startswith("pipe:") else None

    def _queued(self, proc: Proc, listeners: Sequence[int]) -> Reason:
        """The other end of a connection that is in the queue of a listening socket."""
        ends = [end for inode in listeners for end in proc.descriptors.having(f"socket:[{inode}]")[:_MAX_ENDS]]
        listening = tuple([self._describe(end) for end in ends])
        if ends and proc.descriptors.complete and all(end.pid == proc.pid for end in ends):
            return because("in-accept-queue", listeners=listening, only_here=1)
        return because("in-accept-queue", listeners=listening)

    def _describe_ends(self, proc: Proc, ends: Sequence[Descriptor]) -> Reason:
        if not ends:
            return because("other-end-not-open" if proc.descriptors.complete else "other-end-not-found")
        if proc.descriptors.complete and all(end.pid == proc.pid for end in ends):
            return because("other-end-here", fds=tuple([end.fd for end in ends]))
        others = sorted(ends, key=lambda end: end.pid == proc.pid)
        return because("other-end", ends=tuple([self._describe(end) for end in others]))

    def _is_near(self, fd: int) -> bool:
        """Whether a descriptor is one of a pipe, or of a pair of sockets without a name."""
        link = self.proc.descriptors.link(fd) if self.proc is not None else None
        match = _SOCKET.match(link or "")
        found = self.proc.sockets.get(int(match[1])) if self.proc is not None and match else None
        return (link or "").startswith("pipe:") or found is not None and found.protocol == "unix" and not found.local

    def _watched(self, proc: Proc, watched: Sequence[tuple[int, int | None]]) -> Reason | None:
        if not watched:
            return because("watches-nothing")
        found, others = [], []
        for fd, inode in watched[:MANY + 1]:
            # a file is watched until its last descriptor is closed; its number may then be reused
            now = _INODE.search(proc.descriptors.link(fd) or "")
            gone = now is not None and inode is not None and int(now[1]) != inode
            found.append(because("former-descriptor", fd=fd) if gone else because("descriptor", name=self.name(fd)))
            end = None if gone else self.end(fd)
            if end is None or end.code != "other-end-here":
                others.append((fd, end))
        listed = len(watched) <= MANY + 1
        watches = because("watches", watched=tuple(found), count=len(watched), only_here=int(listed and not others))
        if not others or not listed or len(others) > 1 and len({_only_process(end) for _, end in others}) != 1:
            return watches
        # besides what wakes an event loop, the wait is one for this descriptor, or for one process
        fd, end = others[0]
        near = because("watches-pipes-only") if all(map(self._is_near, (fd for fd, _ in others))) else None
        parts = (end, self.unanswered(fd), near)
        return joined([watches, *(part for part in parts if part is not None and part.code in _ONE_END)])


def _only_process(end: Reason | None) -> int | object:
    """The process that alone has the other end of a descriptor; another object for each descriptor without one."""
    pids = {value for process in find_reasons(end, "process") for name, value in process.arguments if name == "pid"}
    return pids.pop() if end is not None and end.code == "other-end" and len(pids) == 1 else object()


def _what(proc: Proc, link: str) -> str:
    match = _ANONYMOUS.match(link)
    if match:
        return match[1]
    match = _SOCKET.match(link)
    found = proc.sockets.get(int(match[1])) if match else None
    if found is None:
        return link
    near = f"socket {found.local}" if found.local else link
    far = f" -> {found.remote}" if found.remote else ""
    return f"{near}{far} ({found.protocol}{', listening' if found.listening else ''})"
