"""Pipes, sockets and pseudoterminals: the processes of this machine at each end.

Only root can read the descriptors of other users' processes. Where some cannot be read, only a pipe or socket counts
that was made inside the set of processes. That is known if some process has it with close-on-exec: such a descriptor is
closed when a program starts, so it was made by the program that runs in that process, there or in a process that it was
forked from. Where that program was started outside the set, no unreadable process may be younger than it. Descriptors
that are passed on in messages are not seen.

Sources: Linux Documentation/filesystems/proc.rst, open(2).
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Mapping

from gdbext.inferior.address_space import Region
from gdbext.inferior.awaited import READ, Way
from gdbext.inferior.proc.descriptors import Descriptor, iter_links
from gdbext.inferior.proc.files import numbers
from gdbext.inferior.proc.maps import read_maps
from gdbext.inferior.proc.process import Proc, read_name
from gdbext.inferior.proc.status import describe_unseen, is_kernel_thread, parent_of, start_of
from gdbext.inferior.proc.terminals import is_end
from gdbext.model.reasons import Reason, because

#: How long reading the descriptors of all processes may take, in seconds.
_PATIENCE = 2.0
#: The link of a pipe or socket: the kind, and the inode.
INODE = re.compile(r"^(pipe|socket):\[(\d+)\]$")


class Ends:
    """The pipes, sockets and pseudoterminals that the processes of this machine have open.

    :param members: the processes of the set by PID.
    :param root: the folder of /proc.
    """

    def __init__(self, members: Mapping[int, Proc], root: str = "/proc") -> None:
        self._members = members
        self._root = root
        self._programs: dict[int, bool] = {}
        #: Processes outside the set whose descriptors may not be read.
        self._refused: list[int] = []
        #: Why descriptors are not known, None if they are.
        self.blind: Reason | None = None
        #: Which processes outside the set could not be read, None if all could.
        self.unseen: Reason | None = None
        self._open: dict[str, set[Descriptor]] = {}

    def scan(self) -> None:
        """Read the descriptors of all processes; nothing is known before."""
        found, refused = self._open, self._refused
        end = time.monotonic() + _PATIENCE
        pids = numbers(self._root)
        for pid in sorted(pids, key=lambda other: other not in self._members):
            try:
                for fd, link in iter_links(pid, self._root):
                    if link is None:
                        raise PermissionError
                    if INODE.match(link) or is_end(link):
                        found.setdefault(link, set()).add(Descriptor(pid, fd))
            except PermissionError:
                if pid in self._members:
                    self.blind = because("descriptors-refused", pid=pid)
                elif not is_kernel_thread(pid, self._root):
                    refused.append(pid)
            except OSError:  # it has ended
                pass
            if time.monotonic() > end:
                self.blind = because("descriptors-timeout", seconds=f"{_PATIENCE:g}")
                break
        self.unseen = describe_unseen("descriptors", len(refused), pids)

    # -- ends ------------------------------------------------------------------------------------------------

    def other_end(self, member: Proc, fd: int, way: Way) -> set[int] | None:
        """The processes that can end a wait for a descriptor; None if they are not all known.

        :param way: `READ` or `WRITE`, what the thread waits to do.
        """
        link = member.descriptors.link(fd)
        match = INODE.match(link or "")
        if link is not None and is_end(link):
            return self._at_terminal(member, fd, link)
        if match is None or link is None:
            return None
        if match[1] == "pipe":
            found = set()
            for other in self._open.get(link, ()):
                info = member.descriptors.info(other)
                if info is None:
                    return None
                if info.writes if way == READ else info.reads:
                    found.add(other.pid)
            return found if self._is_whole([link]) else None
        inode = int(match[2])
        known = member.sockets.get(inode)
        # any process may send to a socket for datagrams
        if known is None or not known.stream:
            return None
        other_inode = member.sockets.other_end(inode)
        if not other_inode:
            return None
        links = [f"socket:[{other_inode}]"]
        peer = member.sockets.get(other_inode)
        if known.protocol == "unix" and known.local is None and peer is not None and peer.local is None:
            links.append(link)  # socketpair(2) made both ends
        return {other.pid for other in self._open.get(links[0], ())} if self._is_whole(links) else None

    def is_empty(self, member: Proc, fd: int) -> bool:
        """Whether no data is on the way to the sleeping reader of a pipe or stream socket.

        What is written to a pipe or local socket is at the reader at once; a TCP connection has a queue at each end.
        """
        match = INODE.match(member.descriptors.link(fd) or "")
        if match is None or match[1] == "pipe":
            return match is not None
        known = member.sockets.get(int(match[2]))
        peer = member.sockets.get(member.sockets.other_end(int(match[2])) or 0)
        return known is not None and known.stream and not known.unread and (
            known.protocol == "unix" or peer is not None and not peer.unsent)

    def _at_terminal(self, member: Proc, fd: int, link: str) -> set[int] | None:
        """The processes at the other end of a terminal; a program hands a master on to its child processes only."""
        found = {end.pid for end in member.descriptors.other_end_of_terminal(fd) or ()}
        return found if found and (self.unseen is None or found <= self._members.keys()) else None

    def _is_whole(self, links: Iterable[str]) -> bool:
        """Whether all processes that have a pipe or socket are known."""
        return self.unseen is None or self.is_made_inside(
            {holder for link in links for holder in self._open.get(link, ())})

    def is_made_inside(self, having: Collection[Descriptor]) -> bool:
        """Whether no process outside the set can have the open file of descriptors, which are all that are seen."""
        return all(holder.pid in self._members for holder in having) and any(map(self._was_made_inside, having))

    def _was_made_inside(self, holder: Descriptor) -> bool:
        info = next(iter(self._members.values())).descriptors.info(holder)
        return info is not None and info.closed_by_exec and self._is_programs_own(holder.pid)

    def _is_programs_own(self, pid: int) -> bool:
        """Whether only processes of the set, or visible ones, can have what a process's program has made."""
        if pid not in self._programs:
            parent = parent_of(pid, self._root)
            if not parent:
                self._programs[pid] = False
            elif self._started(pid, parent):
                self._programs[pid] = pid in self._members or self._is_younger(pid)
            else:
                self._programs[pid] = self._is_programs_own(parent)
        return self._programs[pid]

    def _started(self, pid: int, parent: int) -> bool:
        """Whether a process has started a program since its parent forked it; False if not known."""
        mine, theirs = read_maps(pid, self._root), read_maps(parent, self._root)
        if mine is None:
            return False
        if theirs is None:
            # another user's process: at most its name is known
            names = [read_name(each, self._root) for each in (pid, parent)]
            return None not in names and names[0] != names[1]
        begin = _vdso(mine)
        return begin is not None and begin != _vdso(theirs)

    def _is_younger(self, pid: int) -> bool:
        """Whether a process is younger than all whose descriptors may not be read."""
        begin = start_of(pid, self._root)
        others = [start_of(other, self._root) for other in self._refused]
        return bool(begin is not None and others and all(other is not None and other < begin for other in others))


def _vdso(regions: Iterable[Region]) -> int | None:
    """The address of the kernel's code: random for each start of a program, kept by fork."""
    return next((region.start for region in regions if region.path == "[vdso]"), None)
