"""Several processes in a /proc of files, with their reports, as input of `gdbext.processes.waits`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gdbext.inferior.proc.sample import Sample
from gdbext.model import EXCLUSIVE, Lock, Report, TargetInfo, Thread, Wait
from gdbext.processes.graph import find_deadlocks
from gdbext.processes.waits import Scene, watch_once
from tests.support.fake_proc import FakeOpenFiles, FakeProc

#: x86-64 system call numbers, by name.
NUMBERS = {"read": 0, "write": 1, "poll": 7, "select": 23, "wait4": 61, "futex": 202, "epoll_wait": 232, "pause": 34,
           "flock": 73, "waitid": 247}


class Host:
    """Processes 100, 200 and so on in a /proc of files, each with one thread, and their reports."""

    def __init__(self, root: Path) -> None:
        self.fake = FakeProc(root)
        self.fake.process(1, "init", 0)
        self.fake.write("1/maps", "")
        self.root = root
        self.reports: dict[int, Report | None] = {}

    def process(self, pid: int, call: str | None, arguments: Sequence[int] = (), *,
                lock: Lock | None = None, parent: int = 1, caught: int = 0, tid: int | None = None,
                timed: bool = False) -> None:
        """Add a process, or a further thread of it, in a system call."""
        tid = tid or pid
        if not (self.root / str(pid) / "fd").exists():
            self.fake.process(pid, f"p{pid}", parent)
        status = self.root / str(pid) / "status"
        status.write_text(status.read_text() + f"SigCgt:\t{caught:016x}\n")
        self.at(pid, call, arguments, tid)
        if not (self.root / str(pid) / "maps").exists():
            self.maps(pid, "")
        report = self.reports.get(pid) or Report(TargetInfo("live", pid, None, "x86_64", None))
        waits = None
        if call in ("read", "write"):
            waits = f"descriptor:{arguments[0]:#x}"
        elif lock is not None:
            waits = lock.id
            report = replace(report, locks=(*report.locks, lock))
        thread = Thread(len(report.threads) + 1, tid, tid, f"p{pid}", status="blocked" if call else "running",
                        syscall=call, waits=Wait(waits, EXCLUSIVE, timed) if waits else None)
        self.reports[pid] = replace(report, threads=(*report.threads, thread))

    def at(self, pid: int, call: str | None, arguments: Sequence[int] = (), tid: int | None = None,
           ran: int = 5) -> None:
        """Set the system call that a thread is in."""
        values = [*arguments, 0, 0, 0, 0, 0, 0][:6]
        text = " ".join([str(NUMBERS[call]), *map(hex, values), "0x7ffc0000", "0x7f0000"]) if call else "running"
        folder = f"{pid}/task/{tid or pid}"
        self.fake.write(f"{folder}/syscall", f"{text}\n")
        self.fake.write(f"{folder}/stat", f"{tid or pid} (p{pid}) S 1 {pid} 1 0 -1 4194304\n")
        self.fake.write(f"{folder}/schedstat", f"500 20 {ran}\n")

    def maps(self, pid: int, text: str) -> None:
        self.fake.write(f"{pid}/maps", text)

    def memory(self, pid: int, address: int, data: bytes) -> None:
        path = self.root / str(pid) / "mem"
        with open(path, "r+b" if path.exists() else "w+b") as file:
            file.seek(address)
            file.write(data)

    def pipe(self, number: int, reader: tuple[int, int], *writers: tuple[int, int], flags: int = 0) -> None:
        """Add a pipe; its ends are (process, descriptor)."""
        self.fake.open(reader[1], f"pipe:[{number}]", os.O_RDONLY | flags, pid=reader[0])
        for pid, fd in writers:
            self.fake.open(fd, f"pipe:[{number}]", os.O_WRONLY | flags, pid=pid)

    def polling(self, entries: Sequence[tuple[int, int]]) -> None:
        """Let process 100 poll (descriptor, events) entries."""
        self.process(100, "poll", [0x1000, len(entries), 0xFFFFFFFF])
        self.memory(100, 0x1000, b"".join(fd.to_bytes(4, "little") + events.to_bytes(2, "little") + b"\0\0"
                                          for fd, events in entries))

    def scene(self) -> Scene:
        return watch_once(self.reports, Sample(self.reports, str(self.root), FakeOpenFiles(self.fake.open_files)), 0)

    def deadlocked(self) -> list[tuple[int, ...]]:
        scene = self.scene()
        return [found.processes for found in find_deadlocks(scene.waits, scene.dead)]
