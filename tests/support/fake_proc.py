"""A /proc of files and links in a folder, with the parts that `gdbext.inferior.proc` reads."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from gdbext.inferior.proc.descriptors import Descriptor, OpenFiles
from gdbext.inferior.proc.process import Proc
from gdbext.inferior.proc.sock_diag import Exchange, UnixSockets
from gdbext.inferior.proc.threads import Sleep

#: The default mount of descriptors, and its device in the format of the table of locks.
MOUNT, DEVICE = 22, "fe:00"
_TABLES = ("unix", "tcp", "tcp6", "udp", "udp6")


class FakeOpenFiles(OpenFiles):
    """The numbers of the open files of descriptors, None for one that is not known; others have one of their own."""

    def __init__(self, files: Mapping[Descriptor, int | None]) -> None:
        super().__init__()
        self._files = files

    def is_same(self, one: Descriptor, other: Descriptor) -> bool | None:
        found = [self._files.get(each, -index) for index, each in enumerate((one, other), 1)]
        return None if None in found else found[0] == found[1]


class FakeProc:
    """Processes with descriptors; the inspected one is number 100, called ``server``."""

    def __init__(self, root: Path, pid: int = 100) -> None:
        self.root = root
        self.pid = pid
        #: The reports of netlink: local sockets with their other ends, and pending connections with their listeners.
        self.peers: dict[int, int] = {}
        #: When TCP connections have sent and received, by their addresses.
        self.exchanges: dict[tuple[str, str], Exchange] = {}
        #: See `FakeOpenFiles`.
        self.open_files: dict[Descriptor, int | None] = {}
        self.queued: dict[int, int] = {}
        self.write("locks", "")
        self.process(pid, "server")
        self.write(f"{pid}/mountinfo", "21 1 0:5 / /proc rw - proc proc rw\n"
                                       f"{MOUNT} 1 254:0 / / rw - ext4 /dev/vda rw\n")
        for process in (str(pid), "self"):
            (root / process / "ns").mkdir(parents=True)
            for namespace in ("mnt", "net", "time"):
                os.symlink(f"{namespace}:[4026531840]", root / process / "ns" / namespace)
        (root / str(pid) / "net").mkdir()
        for table in _TABLES:
            self.write(f"{pid}/net/{table}", "heading\n")

    def proc(self, seconds: float = 10, asleep: Mapping[int, Sleep] | None = None) -> Proc:
        """The process as read by gdbext."""
        return Proc(self.pid, str(self.root), seconds, lambda: UnixSockets(self.peers, self.queued), asleep,
                    FakeOpenFiles(self.open_files), lambda local, remote: self.exchanges.get((local, remote)))

    def move_to_namespace(self, kind: str) -> None:
        """Put the process into a namespace of its own, ``net`` or ``time``."""
        link = self.root / str(self.pid) / "ns" / kind
        link.unlink()
        os.symlink(f"{kind}:[5]", link)

    def write(self, path: str, text: str) -> None:
        """Write a file."""
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def process(self, pid: int, name: str, parent: int = 1, numbers: Sequence[int] = ()) -> None:
        """Add a process; `numbers` are its process ids in PID namespaces, the debugger's first."""
        for folder in ("fd", "fdinfo"):
            (self.root / str(pid) / folder).mkdir(parents=True)
        self.write(f"{pid}/comm", f"{name}\n")
        self.write(f"{pid}/stat", f"{pid} ({name}) S {parent} {parent} 1 0 -1 4194304\n")
        spelled = "\t".join(map(str, numbers or [pid]))
        self.write(f"{pid}/status", f"Name:\t{name}\nPid:\t{pid}\nNSpid:\t{spelled}\nThreads:\t1\n")

    def asleep(self, lwp: int, call: str, *, switches: int = 5, state: str = "S (sleeping)",
               function: str = "pipe_write") -> None:
        """Add a thread of the process; `call` is the text of its file `syscall`."""
        folder = f"{self.pid}/task/{lwp}"
        self.write(f"{folder}/syscall", call)
        self.write(f"{folder}/wchan", function)
        self.write(f"{folder}/status", f"Name:\tserver\nState:\t{state}\nvoluntary_ctxt_switches:\t{switches}\n"
                                       "nonvoluntary_ctxt_switches:\t3\n")

    def open(self, fd: int, link: str, flags: int = 0, *, pid: int | None = None, mount: int = MOUNT,
             inode: int | None = None, more: str = "") -> None:
        """Add an open descriptor, with the inode named in the link, if any.

        :param more: further lines of its fdinfo.
        """
        home = self.root / str(self.pid if pid is None else pid)
        os.symlink(link, home / "fd" / str(fd))
        found = re.search(r":\[(\d+)\]$", link)
        number = inode if inode is not None else int(found[1]) if found else 7
        (home / "fdinfo" / str(fd)).write_text(
            f"pos:\t0\nflags:\t0{0o100000 | flags:o}\nmnt_id:\t{mount}\nino:\t{number}\n{more}")

    def socket(self, table: str, row: str) -> None:
        """Add a line to a table of sockets, in the kernel's format."""
        with open(self.root / str(self.pid) / "net" / table, "a") as file:
            file.write(f"{row}\n")

    def internet(self, table: str, local: str, remote: str, inode: int, state: int = 1) -> None:
        """Add a line to a table of internet sockets, with addresses in the kernel's format."""
        self.socket(table, f"   0: {local} {remote} {state:02X} 00000000:00000000 00:00000000 00000000     0        0 "
                           f"{inode} 2 0000000000000000 20 4 0 10 -1")

    def local(self, inode: int, path: str | None = None, *, listening: bool = False, kind: int = 1) -> None:
        """Add a line to the table of local sockets."""
        flags = 0x10000 if listening else 0
        self.socket("unix", f"0000000000000000: 00000002 00000000 {flags:08X} {kind:04X} 01 {inode}"
                            + (f" {path}" if path is not None else ""))

    def lock(self, kind: str, mode: str, pid: int, inode: int, span: str = "0 EOF", *, waits: bool = False) -> str:
        """Add a line to the table of file locks; returns it in the format of a descriptor's fdinfo."""
        line = f"1: {'-> ' if waits else ''}{kind}  ADVISORY  {mode} {pid} {DEVICE}:{inode} {span}\n"
        with open(self.root / "locks", "a") as file:
            file.write(line)
        return f"lock:\t{line}"

    def children(self, children: Mapping[int, str]) -> None:
        """Set the children of the process."""
        for pid, name in children.items():
            self.process(pid, name, self.pid)
