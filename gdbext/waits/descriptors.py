"""What a process's descriptors are, who has the other end of one, and who has a file locked: in words.

Only a live process of this machine tells; of a core the numbers are left.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence

from gdbext.inferior.proc import Descriptor, FileLock, Proc, is_path
from gdbext.inferior.protocol import Target

#: How long other ends are looked for, in seconds: the process stands still meanwhile.
SECONDS = 0.3
#: How many descriptors, processes or signals are named before only their number is told.
MANY = 4
#: Most open descriptors that are looked at for the other end of one.
_MAX_ENDS = 64
_SOCKET = re.compile(r"^socket:\[(\d+)\]$")
_ANONYMOUS = re.compile(r"^anon_inode:\[?(.+?)\]?$")
_INODE = re.compile(r":\[(\d+)\]$")


class Descriptors:
    """The descriptors of a target's process; each is worked out once."""

    def __init__(self, target: Target) -> None:
        self.proc = target.proc
        self._kind = target.kind
        self._names: dict[int, str] = {}
        self._ends: dict[int, str | None] = {}
        self._spent = 0.0

    def name(self, fd: int) -> str:
        """Its number and what it is: ``fd 5, pipe:[1234]``."""
        name = self._names.get(fd)
        if name is None:
            link = self.proc.link(fd) if self.proc is not None else None
            what = _what(self.proc, link) if self.proc is not None and link is not None else None
            name = self._names[fd] = f"fd {fd}" if what is None else f"fd {fd}, {what}"
        return name

    def unknown(self, fd: int) -> str | None:
        """Why it is not known what a descriptor is, None if it is."""
        if self.proc is None:
            return ("what it was is not kept in a core" if self._kind == "core"
                    else "what it is cannot be seen from here")
        return "what it is cannot be read" if self.proc.link(fd) is None else None

    def end(self, fd: int) -> str | None:
        """Who has the other end of a descriptor, or what it watches; None where there is no such thing."""
        if fd not in self._ends:
            link = self.proc.link(fd) if self.proc is not None else None
            if self.proc is None or link is None:
                self._ends[fd] = self.unknown(fd)
            elif self._spent > SECONDS:
                self._ends[fd] = "its other end was not looked for, since there are so many descriptors"
            else:
                begin = time.monotonic()
                self._ends[fd] = self._end(self.proc, fd, link)
                self._spent += time.monotonic() - begin
        return self._ends[fd]

    def process(self, pid: int) -> str:
        """A process by the debugger's number, with its name."""
        if self.proc is None or pid == self.proc.pid:
            return "this process"
        name = self.proc.name(pid)
        return f"process {pid}" + (f' "{name}"' if name is not None else "")

    def listener(self, protocol: str, place: str) -> str | None:
        """Who listens at an address, if that is one of this host."""
        if self.proc is None:
            return None
        places = [place]
        if place.startswith(("127.", "[::1]:")):
            port = place.rpartition(":")[2]
            places += [f"0.0.0.0:{port}", f"[::]:{port}"]
        inode = next(filter(None, (self.proc.listener(protocol, at) for at in places)), None)
        having = self.proc.having(f"socket:[{inode}]")[:_MAX_ENDS] if inode is not None else ()
        return listed([self._of(end) for end in having]) or None

    def _of(self, end: Descriptor) -> str:
        return f"fd {end.fd} of {self.process(end.pid)}"

    def _end(self, proc: Proc, fd: int, link: str) -> str | None:
        match = _SOCKET.match(link)
        if match:
            inode = proc.other_end(int(match[1]))
            listeners = proc.queued_at(int(match[1])) if not inode else None
            if listeners is not None:
                return self._queued(proc, listeners)
            return self._whose(proc, proc.having(f"socket:[{inode}]")[:_MAX_ENDS]) if inode is not None else None
        own = Descriptor(proc.pid, fd)
        info = proc.info(own)
        if info is None:
            return None
        if link == "anon_inode:[eventpoll]":
            return self._watched(proc, info.watched)
        if not link.startswith("pipe:") and not (is_path(link) and proc.stores_files(info.mount)):
            return None
        ends = []
        for other in proc.having(link)[:_MAX_ENDS]:
            its = proc.info(other)
            if its is None or other == own or (its.mount, its.inode) != (info.mount, info.inode):
                continue
            # a named pipe that is open for both is either end
            if (its.writes and not info.writes) or (its.reads and not info.reads) or (info.reads and info.writes):
                ends.append(other)
        # a path may also be that of a file without another end
        return self._whose(proc, ends) if ends or link.startswith("pipe:") else None

    def _queued(self, proc: Proc, listeners: Sequence[int]) -> str:
        """The other end of a connection that is in the queue of a listening socket."""
        ends = [end for inode in listeners for end in proc.having(f"socket:[{inode}]")[:_MAX_ENDS]]
        where = listed([self._of(end) for end in ends]) or "a listening socket that was not found"
        return f"no process has accepted the connection yet; it is in the queue of {where}"

    def _whose(self, proc: Proc, ends: Sequence[Descriptor]) -> str:
        if not ends:
            return ("nobody has the other end open" if proc.complete
                    else "nobody was found who has the other end open; not every process could be looked at")
        if proc.complete and all(end.pid == proc.pid for end in ends):
            return "only this process has the other end: " + listed([f"fd {end.fd}" for end in ends])
        others = sorted(ends, key=lambda end: end.pid == proc.pid)
        return "the other end is " + listed([self._of(end) for end in others])

    def _watched(self, proc: Proc, watched: Sequence[tuple[int, int | None]]) -> str:
        texts = []
        for fd, inode in watched[:MANY + 1]:
            # a file is watched until nobody has it open, so that the number may be another's by now
            now = _INODE.search(proc.link(fd) or "")
            gone = now is not None and inode is not None and int(now[1]) != inode
            texts.append(f"what was fd {fd}" if gone else self.name(fd))
        return f"it watches {listed(texts, len(watched))}" if texts else "it watches nothing"

    def lockers(self, fd: int, conflicts: Callable[[FileLock], bool]) -> str | None:
        """Who has a file locked; None where it is not known what the file is.

        :param conflicts: tells whether a lock stands in the way.
        """
        proc = self.proc
        if proc is None:
            return None
        link, file, own = proc.link(fd), proc.file(fd), proc.info(Descriptor(proc.pid, fd))
        if link is None or file is None or own is None:
            return "who has it locked cannot be told"
        locks = [lock for lock in proc.locks(file) if conflicts(lock) and lock not in own.locks]
        pids = dict.fromkeys(lock.pid for lock in locks if lock.pid > 0)
        found = [self.process(pid) if pid != proc.pid else "this very process" for pid in pids]
        if any(lock.pid <= 0 for lock in locks):
            # taken by an open file, not by a process: only the descriptors of that file tell
            for other in proc.having(link)[:_MAX_ENDS]:
                info = proc.info(other)
                if info is not None and any(lock.pid <= 0 and lock in locks for lock in info.locks):
                    found.append(self._of(other))
        return f"locked by {listed(found)}" if found else "who has it locked is not recorded"


def _what(proc: Proc, link: str) -> str:
    match = _ANONYMOUS.match(link)
    if match:
        return match[1]
    match = _SOCKET.match(link)
    found = proc.socket(int(match[1])) if match else None
    if found is None:
        return link
    near = f"socket {found.local}" if found.local else link
    far = f" -> {found.remote}" if found.remote else ""
    return f"{near}{far} ({found.protocol}{', listening' if found.listening else ''})"


def listed(texts: Sequence[str], count: int | None = None) -> str:
    """The first few of several texts, and how many more there are.

    :param count: how many there are, if not all are given.
    """
    count = len(texts) if count is None else count
    if count > MANY:
        return f"{', '.join(texts[:MANY])} and {count - MANY} more"
    return " and ".join([part for part in (", ".join(texts[:-1]), *texts[-1:]) if part])
