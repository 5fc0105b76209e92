"""What threads of several processes wait for across processes: pipes, sockets, children, locks in files and memory.

The report of each process says what its threads wait for; /proc shows the rest while the processes run. Any thread of
any process that has the other end of a descriptor may end a wait for it. Such a wait is part of a deadlock only if all
of these threads are known and none of them can run. A thread counts as able to run where something is not known.

The snapshots are taken one after the other, or a few at a time. So a wait counts only if its thread is still in the
same system call, and has not run while the descriptors and mappings of all processes were read.

Sources: Linux Documentation/filesystems/proc.rst, include/uapi/linux/{futex,wait}.h; glibc 2.36
sysdeps/nptl/bits/{pthreadtypes-arch,struct_mutex,struct_rwlock}.h.
"""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import gdbext
from gdbext.inferior.proc.descriptors import Descriptor, OpenFiles
from gdbext.inferior.proc.file_locks import decode_request
from gdbext.inferior.proc.files import numbers
from gdbext.inferior.proc.maps import read_maps, read_memory
from gdbext.inferior.proc.process import Proc
from gdbext.inferior.proc.threads import SystemCall, Task, read_tasks
from gdbext.launcher.processes.descriptors import READ, WRITE, Descriptors
from gdbext.launcher.processes.graph import Node, Wait
from gdbext.launcher.processes.memory import SharedMemory, Word
from gdbext.launcher.processes.tree import Member
from gdbext.model import DERIVED, INFERRED, RECORDED, RESULT_STATES, Lock, Report, Thread, weakest
from gdbext.model.kinds import DESCRIPTOR, FILE_LOCK, FUTEX, SEMAPHORE, id_of_lock, kind_of
from gdbext.model.reasons import Reason, because
from gdbext.narrate.verdict import kind_and_name
from gdbext.narrate.words import plain

#: How long, in seconds, the threads of a deadlock must not have run.
STILL = 0.3
_TRIES = 3

_READS = frozenset(("read", "readv", "pread64", "preadv", "preadv2", "recvfrom", "recvmsg", "recvmmsg"))
_WRITES = frozenset(("write", "writev", "pwrite64", "pwritev", "pwritev2", "sendto", "sendmsg", "sendmmsg"))
_EPOLLS = frozenset(("epoll_wait", "epoll_pwait", "epoll_pwait2"))
_FUTEX_PRIVATE = 128
_P_ALL, _P_PID, _P_PGID, _P_PIDFD = range(4)


class Scene:
    """Several running processes of this machine, and what their threads wait for once `watch` has run.

    :param reports: the report of each process by PID, None if it could not be read.
    :param root: the folder of /proc.
    :param open_files: compares the open files of descriptors.
    """

    def __init__(self, reports: Mapping[int, Report | None], root: str = "/proc",
                 open_files: OpenFiles | None = None) -> None:
        self._root = root
        if open_files is None:
            numbers = (int(number) for number, name in _call_names().items() if name == "kcmp")
            open_files = OpenFiles(next(numbers, None))
        self.members = {pid: Member(pid, report, Proc(pid, root, open_files=open_files))
                        for pid, report in reports.items()}
        self._shared_memory = SharedMemory(self.members, root)
        self._descriptors = Descriptors(self.members, root)
        #: Why waits for descriptors are not known, None if they are.
        self.blind: Reason | None = None
        self.waits: dict[Node, Wait] = {}
        self.dead: set[Node] = set()
        #: The number of waits that do not count because their threads ran while they were watched.
        self.moved = 0

    def watch(self, seconds: float = STILL) -> None:
        """Find what the threads wait for, except threads that run within so many seconds."""
        before = {pid: _read_states(pid, self._root) for pid in self.members}
        begin = time.monotonic()
        for member in self.members.values():
            member.mappings = read_maps(member.pid, self._root) or ()
        self._descriptors.scan()
        self.blind = self._descriptors.blind
        for pid, states in before.items():
            if states is None:
                self.blind = self.blind or because("threads-refused", pid=pid)
            self.members[pid].states = states or {}
        for member in self.members.values():
            for thread in member.threads:
                wait = self._wait(member, thread)
                if wait is not None:
                    self.waits[Node(member.pid, thread.number)] = wait
            for deadlock in member.report.deadlocks if member.report is not None else ():
                self.dead |= {Node(member.pid, number) for number in deadlock.involved}
        time.sleep(max(0.0, begin + seconds - time.monotonic()))
        for member in self.members.values():
            now = _read_states(member.pid, self._root) or {}
            for thread in member.threads:
                if thread.lwp not in now or now[thread.lwp] != member.states.get(thread.lwp):
                    node = Node(member.pid, thread.number)
                    self.moved += self.waits.pop(node, None) is not None
                    self.dead.discard(node)

    def _nodes(self, pids: Iterable[int], excluded: Node | None = None) -> frozenset[Node]:
        """The threads of processes; a thread that no report has is a node that can run."""
        found = set()
        for pid in pids:
            member = self.members[pid]
            known = {thread.lwp: thread.number for thread in member.threads}
            found |= {Node(pid, known.get(tid, -tid)) for tid in member.states} or {Node(pid, -pid)}
        return frozenset(found - {excluded})

    # -- one thread ------------------------------------------------------------------------------------------

    def _wait(self, member: Member, thread: Thread) -> Wait | None:
        """What a thread waits for; None where it may continue by itself, or where that is not known."""
        task = member.states.get(thread.lwp)
        waits, name = thread.waits, thread.syscall
        if task is None or task.call is None or thread.status != "blocked" or waits is not None and waits.timed:
            return None
        # after a debugger has stopped the thread, the kernel restarts some calls under another number
        call = task.call
        if _call_names().get(str(call.number)) not in (name, "restart_syscall"):
            return None
        if name == "futex":
            return self._futex(member, thread, call)
        if name in _READS or name in _WRITES:
            fd = _int(call.arguments[0])
            if waits is None or waits.lock != id_of_lock(DESCRIPTOR, fd):
                return None
            return self._descriptor_wait(member, [(fd, READ if name in _READS else WRITE)], alone=True)
        if name in ("poll", "ppoll"):
            return self._descriptor_wait(member, self._descriptors.polled(member, call))
        if name in ("select", "pselect6"):
            return self._descriptor_wait(member, self._descriptors.selected(member, call))
        if name in _EPOLLS:
            return self._descriptor_wait(member, self._descriptors.watched(member, _int(call.arguments[0])))
        if name in ("flock", "fcntl"):
            return self._file_lock(member, name, call)
        if name in ("wait4", "waitid"):
            return self._child(member, name, call)
        return None

    # -- descriptors -----------------------------------------------------------------------------------------

    def _descriptor_wait(self, member: Member, wanted: Sequence[tuple[int, str]] | None,
                         alone: bool = False) -> Wait | None:
        """A wait for any of several descriptors; `alone`: the call waits for a single one, and for nothing else."""
        if not wanted or self.blind is not None:
            return None
        pids: set[int] = set()
        parts = []
        for fd, way in wanted:
            ends = self._descriptors.other_end(member, fd, way)
            if not ends or not ends <= self.members.keys():
                return None
            pids |= ends
            parts.append(because("reads-descriptor" if way == READ else "writes-descriptor",
                                 link=member.proc.descriptors.link(fd), fd=fd))
        # a handler of a signal may write to an end of its own
        if member.pid in pids and not (alone and self._no_handlers(member)):
            return None
        why = _with(because("only-processes-with-end", pids=tuple(sorted(pids))), self._descriptors.unseen)
        if len(parts) > 1:
            awaited = because("any-descriptor", waits=tuple(parts))
            return Wait("descriptors", awaited, self._nodes(pids), False, INFERRED, why)
        kind = "pipe" if str(member.proc.descriptors.link(wanted[0][0])).startswith("pipe:") else "socket"
        return Wait(kind, parts[0], self._nodes(pids), False, INFERRED, why)

    def _no_handlers(self, member: Member) -> bool:
        return member.proc.has_handlers(member.report is None or bool(member.report.runtimes)) is False

    # -- locks on files --------------------------------------------------------------------------------------

    def _file_lock(self, member: Member, name: str, call: SystemCall) -> Wait | None:
        """A wait for a lock on a file; any process that has the open file with the conflicting lock may release it."""
        request = decode_request(name, call.arguments, lambda at, size: read_memory(member.pid, at, size, self._root))
        lockers = member.proc.file_locks.find_lockers(request) if request is not None and request.exact else None
        if request is None or lockers is None or self.blind is not None:
            return None
        pids: frozenset[int] = frozenset().union(*lockers.releasing(self._descriptors.is_made_inside))
        # a handler of a signal may release the lock, or end the wait
        if not pids or not pids <= self.members.keys() or not all(
                self._no_handlers(self.members[pid]) for pid in {member.pid, *pids}):
            return None
        awaited = because("lock-of-file", link=member.proc.descriptors.link(request.fd), fd=request.fd)
        why = _with(because("only-processes-with-open-file", pids=tuple(sorted(pids))),
                    None if lockers.all_seen else self._descriptors.unseen)
        return Wait(FILE_LOCK, awaited, self._nodes(pids), False, DERIVED, why)

    # -- children --------------------------------------------------------------------------------------------

    def _child(self, member: Member, name: str, call: SystemCall) -> Wait | None:
        kind, number = _P_PID, _int(call.arguments[0])
        if name == "waitid":
            kind, number = call.arguments[0] & 0xFFFFFFFF, _int(call.arguments[1])
        children = set(member.proc.children())
        if kind == _P_PIDFD:
            info = member.proc.descriptors.info(Descriptor(member.pid, number))
            wanted = {info.process} if info is not None and info.process else set()
        elif kind == _P_PID and number > 0:
            child = member.proc.child(number)
            wanted = {child} if child is not None else set()
        else:
            wanted = children
        if not wanted or not wanted <= self.members.keys():
            return None
        named = len(wanted) == 1 and (kind == _P_PIDFD or kind == _P_PID and number > 0)
        return Wait("child", because("end-of-process", pids=tuple(sorted(wanted))), self._nodes(wanted), False,
                    RECORDED if named else DERIVED, () if named else (because("children-of-process"),))

    # -- memory ----------------------------------------------------------------------------------------------

    def _futex(self, member: Member, thread: Thread, call: SystemCall) -> Wait | None:
        lock = member.report.lock(thread.waits.lock) if member.report is not None and thread.waits is not None else None
        word = self._shared_memory.word_at(member, call.arguments[0])
        if word is not None and not call.arguments[1] & _FUTEX_PRIVATE or word is not None and lock is None:
            return self._shared(member, thread, lock, call, word)
        if word is not None:
            return None  # a private lock in shared memory: which processes use it is not known
        return self._inside(member, thread, lock, call)

    def _inside(self, member: Member, thread: Thread, lock: Lock | None, call: SystemCall) -> Wait | None:
        """A wait for another thread of the same process."""
        node = Node(member.pid, thread.number)
        if lock is None or thread.waits is None:
            return self._idle(member, node, because("futex-word")) if call.arguments[1] & _FUTEX_PRIVATE else None
        kind = kind_of(lock.kind)
        awaited = because("named-lock", name=plain(kind_and_name(lock.id, lock.kind, lock.name, lock.state,
                                                                 lock.shared)))
        if lock.holders:
            evidence = weakest([*(holder.evidence for holder in lock.holders), thread.waits.evidence])
            why = next((holder.why for holder in lock.holders if holder.why), thread.waits.why)
            if kind.ends_thread:
                awaited = because("end-of-thread", number=lock.holders[0].thread)
            return Wait("lock", awaited, frozenset(Node(member.pid, holder.thread) for holder in lock.holders),
                        kind.wait_for == "all", evidence, (why,) if why else ())
        if lock.orphan or lock.state == "free" or kind.passed_on or lock.candidates:
            return None
        if thread.lwp == member.pid and kind.may_await_signal and lock.state not in RESULT_STATES:
            return None  # it may wait for a signal
        return self._idle(member, node, awaited, kind.handler_may_release)

    def _idle(self, member: Member, node: Node, awaited: Reason, by_signal: bool = True) -> Wait | None:
        """A wait that any other thread of the process may end, and with `by_signal` a handler of a signal."""
        others = self._nodes([member.pid], node)
        if not others or by_signal and not self._no_handlers(member):
            return None
        return Wait("lock", awaited, others, False, INFERRED, (because("any-thread-may-release"),), idle=True)

    def _shared(self, member: Member, thread: Thread, lock: Lock | None, call: SystemCall, word: Word) -> Wait | None:
        """A wait for a lock in memory that other processes may have mapped."""
        kind = lock.kind if lock is not None else FUTEX
        mapping = member.mapping_at(call.arguments[0])
        assert mapping is not None
        awaited = because("shared-lock", kind=kind, name=lock.name if lock is not None else None, path=mapping.path,
                          offset=word.offset)
        if lock is not None and lock.foreign_owner is not None:
            return self._owned(member, lock, lock.foreign_owner, awaited)
        if lock is not None and lock.holders:
            return self._inside(member, thread, lock, call)
        counting = self._shared_memory.counting(member, word)
        if counting is not None and len(counting) == 1:
            why = because("semaphore-counted-by", pid=min(counting))
            return Wait(SEMAPHORE, awaited, self._nodes(counting), False, DERIVED, (why,))
        # other processes may map a file later that has a name
        path = mapping.path or ""
        if not path.endswith("(deleted)") or path.startswith("/SYSV"):
            return None
        pids = self._shared_memory.mapped_by(word)
        if pids is None or not pids <= self.members.keys():
            return None
        if not all(self._no_handlers(self.members[pid]) for pid in pids):
            return None
        reasons = _with(because("only-processes-with-memory", pids=tuple(sorted(pids))), self._shared_memory.unseen)
        others = self._nodes(pids, Node(member.pid, thread.number))
        return Wait(kind, awaited, others, False, INFERRED, reasons, may_release=True)

    def _owned(self, member: Member, lock: Lock, owner: int, awaited: Reason) -> Wait | None:
        """A wait for a lock that records the TID of its owner, which is a thread of another process."""
        offset = kind_of(lock.kind).owner_offset
        if offset is None:
            return None
        data = read_memory(member.pid, lock.address + offset, 4, self._root)
        if data is None or int.from_bytes(data, "little") != owner:
            return None
        found = [Node(other.pid, thread.number) for other in self.members.values()
                 for thread in other.threads if thread.tid == owner]
        return Wait(lock.kind, awaited, frozenset(found), True) if len(found) == 1 else None


def watch(reports: Mapping[int, Report | None], root: str = "/proc") -> Scene:
    """What processes wait for of each other, once their threads are at rest after the snapshots."""
    for _ in range(_TRIES):
        scene = Scene(reports, root)
        scene.watch()
        if not scene.moved:
            break
    return scene


def _read_states(pid: int, root: str) -> dict[int, Task | None] | None:
    """Each thread of a process; one of the kernel has no task, but may run. None where they may not be read."""
    try:
        return {**dict.fromkeys(numbers(f"{root}/{pid}/task")), **read_tasks(pid, root=root)}
    except PermissionError:
        return None
    except OSError:  # it has ended
        return {}


@functools.cache
def _call_names() -> dict[str, str]:
    """The names of system calls by number; empty for processors that are not decoded."""
    path = Path(gdbext.__file__).with_name("arch") / os.uname().machine / "system_calls.json"
    try:
        names: dict[str, str] = json.loads(path.read_text(encoding="ascii"))["names"]
    except OSError:
        return {}
    return names


def _with(why: Reason, unseen: Reason | None) -> tuple[Reason, ...]:
    """A reason, with what makes it less certain."""
    return (why,) if unseen is None else (why, unseen)


def _int(value: int) -> int:
    """A register's value as a C ``int``."""
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value
