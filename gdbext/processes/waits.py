"""What threads of several processes wait for across processes: pipes, sockets, children, locks in files and memory.

The report of each process says what its threads wait for; a sample of /proc shows the rest. Any thread of any process
that has the other end of a descriptor may end a wait for it. Such a wait is part of a deadlock only if all of these
threads are known and none of them can run. A thread counts as able to run where something is not known.

The reports are made one after the other, or a few at a time, before the sample. So a wait counts only if its thread is
still in the same system call, and has not run while the sample was read.

Source: Linux include/uapi/linux/futex.h.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping, Sequence

from gdbext import arch
from gdbext.errors import GdbextError
from gdbext.inferior.awaited import READ, WRITE, Way, c_int, decode_awaited_child, read_watched
from gdbext.inferior.proc.descriptors import Descriptor, OpenFiles
from gdbext.inferior.proc.ends import INODE
from gdbext.inferior.proc.file_locks import decode_request
from gdbext.inferior.proc.process import Proc
from gdbext.inferior.proc.sample import Sample
from gdbext.inferior.proc.shared_memory import Word
from gdbext.inferior.proc.threads import SystemCall
from gdbext.model import DERIVED, INFERRED, RECORDED, RESULT_STATES, Lock, Report, Thread, weakest
from gdbext.model.kinds import DESCRIPTOR, FILE_LOCK, FUTEX, SEMAPHORE, id_of_lock, kind_of
from gdbext.model.reasons import Reason, because
from gdbext.narrate.names import kind_and_name
from gdbext.narrate.words import plain
from gdbext.processes.graph import Node, Wait
from gdbext.processes.semaphores import find_counting, has_own_counts
from gdbext.record import record

#: How long, in seconds, the threads of a deadlock must not have run.
STILL = 0.3
_TRIES = 3

_READS = frozenset(("read", "readv", "pread64", "preadv", "preadv2", "recvfrom", "recvmsg", "recvmmsg"))
_WRITES = frozenset(("write", "writev", "pwrite64", "pwritev", "pwritev2", "sendto", "sendmsg", "sendmmsg"))
_EPOLLS = frozenset(("epoll_wait", "epoll_pwait", "epoll_pwait2"))
_FUTEX_PRIVATE = 128


@record
class Scene:
    """What the threads of several processes wait for, and the threads that never run again by their own reports.

    `moved` is the number of waits that do not count because their threads ran meanwhile. `blind` says why waits for
    descriptors are not known, None if they are.
    """

    waits: Mapping[Node, Wait]
    dead: frozenset[Node]
    moved: int
    blind: Reason | None


def watch(reports: Mapping[int, Report | None], root: str = "/proc", seconds: float = STILL,
          open_files: OpenFiles | None = None) -> Scene:
    """What processes wait for of each other, once their threads are at rest after the snapshots.

    :param reports: the report of each process by PID, None if it could not be read.
    :param root: the folder of /proc.
    :param seconds: how long a thread must not have run.
    :param open_files: compares the open files of descriptors.
    """
    for _ in range(_TRIES):
        scene = watch_once(reports, Sample(reports, root, open_files or OpenFiles(arch.system_call_number)),
                            seconds)
        if not scene.moved:
            break
    return scene


def watch_once(reports: Mapping[int, Report | None], sample: Sample, seconds: float) -> Scene:
    """What processes wait for of each other, without the waits of threads that run meanwhile; see `watch`."""
    sample.read()
    waits = find_waits(reports, sample)
    known = [(pid, report) for pid, report in reports.items() if report is not None]
    dead = {Node(pid, number) for pid, report in known for deadlock in report.deadlocks for number in deadlock.involved}
    rested = sample.at_rest(seconds)
    moved = {Node(pid, thread.number) for pid, report in known for thread in report.threads
             if thread.lwp not in rested}
    return Scene({node: wait for node, wait in waits.items() if node not in moved}, frozenset(dead - moved),
                 len(moved & waits.keys()), sample.blind)


def find_waits(reports: Mapping[int, Report | None], sample: Sample) -> dict[Node, Wait]:
    """The known waits of the threads, by the report of each process and one sample of all."""
    finder = _Waits(reports, sample)
    found = {Node(pid, thread.number): finder.find(pid, thread)
             for pid, report in reports.items() if report is not None for thread in report.threads}
    return {node: wait for node, wait in found.items() if wait is not None}


class _Waits:
    """Finds the waits of threads, by the report of each process and one sample of all."""

    def __init__(self, reports: Mapping[int, Report | None], sample: Sample) -> None:
        self._reports = reports
        self._sample = sample
        self._counting: dict[Word, frozenset[int] | None] = {}

    def _nodes(self, pids: Iterable[int], excluded: Node | None = None) -> frozenset[Node]:
        """The threads of processes; a thread that no report has is a node that can run."""
        found = set()
        for pid in pids:
            report = self._reports[pid]
            known = {thread.lwp: thread.number for thread in report.threads} if report is not None else {}
            found |= {Node(pid, known.get(tid, -tid)) for tid in self._sample.tasks[pid]} or {Node(pid, -pid)}
        return frozenset(found - {excluded})

    # -- one thread ------------------------------------------------------------------------------------------

    def find(self, pid: int, thread: Thread) -> Wait | None:
        """What a thread waits for; None where it may continue by itself, or where that is not known."""
        task = self._sample.tasks[pid].get(thread.lwp)
        waits, name = thread.waits, thread.syscall
        if task is None or task.call is None or thread.status != "blocked" or waits is not None and waits.timed:
            return None
        report = self._reports[pid]
        if report is not None and report.target.stopped is not None:
            return None  # what it waits for may have come long ago
        # after a debugger has stopped the thread, the kernel restarts some calls under another number
        call = task.call
        if _call_names().get(call.number) not in (name, "restart_syscall"):
            return None
        process, read = self._sample.processes[pid], functools.partial(self._sample.memory, pid)
        if name == "futex":
            return self._futex(pid, thread, call)
        if name in _READS or name in _WRITES:
            fd = c_int(call.arguments[0])
            if waits is None or waits.lock != id_of_lock(DESCRIPTOR, fd):
                return None
            return self._descriptor_wait(process, [(fd, READ if name in _READS else WRITE)], alone=True)
        if name in ("poll", "ppoll", "select", "pselect6"):
            return self._descriptor_wait(process, read_watched(name, call.arguments, read))
        if name in _EPOLLS:
            return self._descriptor_wait(process, _watched(process, c_int(call.arguments[0])))
        if name in ("flock", "fcntl"):
            return self._file_lock(process, name, call)
        if name in ("wait4", "waitid"):
            return self._child(process, name, call)
        return None

    def _no_handlers(self, pids: Iterable[int]) -> bool:
        """Whether no signal's handler may wake a thread of some processes."""
        for pid in pids:
            report = self._reports[pid]
            if self._sample.processes[pid].has_handlers(report is None or bool(report.runtimes)) is not False:
                return False
        return True

    # -- descriptors -----------------------------------------------------------------------------------------

    def _descriptor_wait(self, process: Proc, wanted: Sequence[tuple[int, Way]] | None,
                         alone: bool = False) -> Wait | None:
        """A wait for any of several descriptors; `alone`: the call waits for a single one, and for nothing else."""
        if not wanted or self._sample.blind is not None:
            return None
        pids: set[int] = set()
        parts = []
        for fd, way in wanted:
            ends = self._sample.ends.other_end(process, fd, way)
            if not ends or not ends <= self._reports.keys():
                return None
            pids |= ends
            parts.append(because("reads-descriptor" if way == READ else "writes-descriptor",
                                 link=process.descriptors.link(fd), fd=fd))
        # a handler of a signal may write to an end of its own
        if process.pid in pids and not (alone and self._no_handlers([process.pid])):
            return None
        why = _with(because("only-processes-with-end", pids=tuple(sorted(pids))), self._sample.ends.unseen)
        inherited = self._sample.inherited(process.pid, pids)
        empty = all(way == READ and self._sample.ends.is_empty(process, fd) for fd, way in wanted)
        if len(parts) > 1:
            awaited = because("any-descriptor", waits=tuple(parts))
            return Wait("descriptors", awaited, self._nodes(pids), False, INFERRED, why, inherited=inherited,
                        empty=empty)
        link = process.descriptors.link(wanted[0][0]) or ""
        kind = "pipe" if link.startswith("pipe:") else "socket" if link.startswith("socket:") else "terminal"
        return Wait(kind, parts[0], self._nodes(pids), False, INFERRED, why, inherited=inherited, empty=empty)

    # -- locks on files --------------------------------------------------------------------------------------

    def _file_lock(self, process: Proc, name: str, call: SystemCall) -> Wait | None:
        """A wait for a lock on a file; any process that has the open file with the conflicting lock may release it."""
        request = decode_request(name, call.arguments, functools.partial(self._sample.memory, process.pid))
        lockers = process.file_locks.find_lockers(request) if request is not None and request.exact else None
        if request is None or lockers is None or self._sample.blind is not None:
            return None
        pids: frozenset[int] = frozenset().union(*lockers.releasing(self._sample.ends.is_made_inside))
        # a handler of a signal may release the lock, or end the wait
        if not pids or not pids <= self._reports.keys() or not self._no_handlers({process.pid, *pids}):
            return None
        awaited = because("lock-of-file", link=process.descriptors.link(request.fd), fd=request.fd)
        why = _with(because("only-processes-with-open-file", pids=tuple(sorted(pids))),
                    None if lockers.all_seen else self._sample.ends.unseen)
        return Wait(FILE_LOCK, awaited, self._nodes(pids), False, DERIVED, why)

    # -- children --------------------------------------------------------------------------------------------

    def _child(self, process: Proc, name: str, call: SystemCall) -> Wait | None:
        child = decode_awaited_child(name, call.arguments)
        wanted: set[int | None] = {*process.children()}
        if child.kind == "pidfd":
            info = process.descriptors.info(Descriptor(process.pid, child.number))
            wanted = {info.process if info is not None else None}
        elif child.kind == "process":
            wanted = {process.child(child.number)}
        pids = {pid for pid in wanted if pid}
        if not pids or not pids <= self._reports.keys():
            return None
        named = child.kind in ("pidfd", "process")
        return Wait("child", because("end-of-process", pids=tuple(sorted(pids))), self._nodes(pids), False,
                    RECORDED if named else DERIVED, () if named else (because("children-of-process"),))

    # -- memory ----------------------------------------------------------------------------------------------

    def _futex(self, pid: int, thread: Thread, call: SystemCall) -> Wait | None:
        report = self._reports[pid]
        lock = report.lock(thread.waits.lock) if report is not None and thread.waits is not None else None
        word = self._sample.shared_memory.word_at(pid, call.arguments[0])
        if word is None:
            return self._inside(pid, thread, lock, call)
        if not call.arguments[1] & _FUTEX_PRIVATE or lock is None:
            return self._shared(pid, thread, lock, call, word)
        return None  # a private lock in shared memory: which processes use it is not known

    def _inside(self, pid: int, thread: Thread, lock: Lock | None, call: SystemCall) -> Wait | None:
        """A wait for another thread of the same process."""
        node = Node(pid, thread.number)
        if lock is None or thread.waits is None:
            return self._idle(pid, node, because("futex-word")) if call.arguments[1] & _FUTEX_PRIVATE else None
        kind = kind_of(lock.kind)
        awaited = because("named-lock", name=plain(kind_and_name(lock.id, lock.kind, lock.name, lock.state,
                                                                 lock.shared)))
        if lock.holders:
            evidence = weakest([*(holder.evidence for holder in lock.holders), thread.waits.evidence])
            why = next((holder.why for holder in lock.holders if holder.why), thread.waits.why)
            if kind.behaviour == "thread-end":
                awaited = because("end-of-thread", number=lock.holders[0].thread)
            return Wait("lock", awaited, frozenset(Node(pid, holder.thread) for holder in lock.holders),
                        kind.wait_for == "all", evidence, (why,) if why else ())
        if lock.orphan or lock.state == "free" or kind.passed_on or lock.candidates:
            return None
        if thread.lwp == pid and kind.released_by == "python-handlers" and lock.state not in RESULT_STATES:
            return None  # it may wait for a signal
        return self._idle(pid, node, awaited, kind.released_by == "signal-handlers")

    def _idle(self, pid: int, node: Node, awaited: Reason, by_signal: bool = True) -> Wait | None:
        """A wait that any other thread of the process may end, and with `by_signal` a handler of a signal."""
        others = self._nodes([pid], node)
        if not others or by_signal and not self._no_handlers([pid]):
            return None
        return Wait("lock", awaited, others, False, INFERRED, (because("any-thread-may-release"),), idle=True)

    def _shared(self, pid: int, thread: Thread, lock: Lock | None, call: SystemCall, word: Word) -> Wait | None:
        """A wait for a lock in memory that other processes may have mapped."""
        kind = lock.kind if lock is not None else FUTEX
        region = self._sample.spaces[pid].find(call.arguments[0])
        path = region.path if region is not None and region.path is not None else ""
        awaited = because("shared-lock", kind=kind, name=lock.name if lock is not None else None, path=path,
                          offset=word.offset)
        if lock is not None and lock.foreign_owner is not None:
            return self._owned(pid, lock, lock.foreign_owner, awaited)
        if lock is not None and lock.holders:
            return self._inside(pid, thread, lock, call)
        counting = self._counted_by(pid, word)
        if counting is not None and len(counting) == 1:
            why = because("semaphore-counted-by", pid=min(counting))
            return Wait(SEMAPHORE, awaited, self._nodes(counting), False, DERIVED, (why,))
        # other processes may map a file later that has a name
        if not path.endswith("(deleted)") or path.startswith("/SYSV"):
            return None
        pids = self._sample.shared_memory.mapped_by(word)
        if pids is None or not pids <= self._reports.keys() or not self._no_handlers(pids):
            return None
        reasons = _with(because("only-processes-with-memory", pids=tuple(sorted(pids))),
                        self._sample.shared_memory.unseen)
        others = self._nodes(pids, Node(pid, thread.number))
        return Wait(kind, awaited, others, False, INFERRED, reasons, may_release=True)

    def _counted_by(self, pid: int, word: Word) -> frozenset[int] | None:
        """The processes whose `multiprocessing` locks count a semaphore as acquired; None if not known.

        :param pid: a process that waits for it.
        """
        address = self._sample.shared_memory.address_of(pid, word)
        if self._sample.memory(pid, address or 0, 4) != bytes(4):
            return None
        if word not in self._counting:
            self._counting[word] = find_counting(self._sample, word)
        counting = self._counting[word]
        forked = self._sample.forked(counting or ())
        return counting if all(has_own_counts(self._reports[each], each in forked) for each in counting or ()) else None

    def _owned(self, pid: int, lock: Lock, owner: int, awaited: Reason) -> Wait | None:
        """A wait for a lock that records the TID of its owner, which is a thread of another process."""
        offset = kind_of(lock.kind).owner_offset
        if offset is None:
            return None
        data = self._sample.memory(pid, lock.address + offset, 4)
        if data is None or int.from_bytes(data, "little") != owner:
            return None
        found = [Node(other, thread.number) for other, report in self._reports.items() if report is not None
                 for thread in report.threads if thread.tid == owner]
        return Wait(lock.kind, awaited, frozenset(found), True) if len(found) == 1 else None


def _watched(process: Proc, fd: int) -> list[tuple[int, Way]] | None:
    """The descriptors that ``epoll_wait`` waits for, by its descriptor; None if not known."""
    info = process.descriptors.info(Descriptor(process.pid, fd))
    found: list[tuple[int, Way]] = []
    for watched, inode in info.watched if info is not None else ():
        # a file is watched until no process has it open, so its number may have been reused
        match = INODE.match(process.descriptors.link(watched) or "")
        if match is None or inode != int(match[2]):
            return None
        found.append((watched, READ))
    return found


@functools.cache
def _call_names() -> Mapping[int, str]:
    """The names of system calls by number; empty for processors that are not decoded."""
    try:
        return arch.of(os.uname().machine).system_call_names()
    except GdbextError:
        return {}


def _with(why: Reason, unseen: Reason | None) -> tuple[Reason, ...]:
    """A reason, with what makes it less certain."""
    return (why,) if unseen is None else (why, unseen)
