"""What threads of several processes wait for of each other: pipes, sockets, children, locks in memory that they share.

A look tells what each thread of one process waits for. Here the documents of several processes, and what /proc tells of
these while they run, are put together. A wait for a descriptor ends when any thread of any process acts that has the
other end, so it is part of a deadlock only if all of these are known and none of them can run. What is not known lets a
thread run.

Looks are made one by one, or a few at a time, so a wait counts only if its thread is in the same system call still, and
has not been scheduled while the descriptors and mappings of all processes were read.

Sources: Linux Documentation/filesystems/proc.rst, include/uapi/linux/{futex,wait}.h; glibc 2.36
sysdeps/nptl/bits/{pthreadtypes-arch,struct_mutex,struct_rwlock}.h.
"""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import gdbext
from gdbext.inferior.proc import Descriptor, Proc
from gdbext.launcher.processes.descriptors import READ, WRITE, Descriptors
from gdbext.launcher.processes.graph import Node, Wait
from gdbext.launcher.processes.memory import SharedMemory, Word
from gdbext.launcher.processes.tree import Member, ThreadState, mappings, read_memory, thread_states
from gdbext.model import DERIVED, INFERRED, RECORDED, RESULT_STATES, Lock, Report, Thread, weakest
from gdbext.model.kinds import DESCRIPTOR, FUTEX, SEMAPHORE, id_of_lock, kind_of
from gdbext.narrate.reasons import explain
from gdbext.narrate.verdict import kind_and_name
from gdbext.narrate.words import plain

#: For how long, in seconds, no thread of a deadlock may have run.
STILL = 0.3
_TRIES = 3

_READS = frozenset(("read", "readv", "pread64", "preadv", "preadv2", "recvfrom", "recvmsg", "recvmmsg"))
_WRITES = frozenset(("write", "writev", "pwrite64", "pwritev", "pwritev2", "sendto", "sendmsg", "sendmmsg"))
_EPOLLS = frozenset(("epoll_wait", "epoll_pwait", "epoll_pwait2"))
_FUTEX_PRIVATE = 128
_P_ALL, _P_PID, _P_PGID, _P_PIDFD = range(4)

#: Signals whose handlers let no other thread go on: SIGINT, that ends Python programs, and two of glibc's own.
_HARMLESS = 1 << 1 | 1 << 31 | 1 << 32


class Scene:
    """Several processes of this machine, that run, and what they wait for, once `watch` has found that out.

    :param reports: of each process, by its number; None: it could not be read.
    :param root: where /proc is.
    """

    def __init__(self, reports: Mapping[int, Report | None], root: str = "/proc") -> None:
        self._root = root
        self.members = {pid: Member(pid, report, Proc(pid, root)) for pid, report in reports.items()}
        self._shared_memory = SharedMemory(self.members, root)
        self._descriptors = Descriptors(self.members, root)
        #: What keeps descriptors from being told, None if nothing does.
        self.blind: str | None = None
        self.waits: dict[Node, Wait] = {}
        self.dead: set[Node] = set()
        #: How many threads have run while they were watched whose waits would have counted.
        self.moved = 0

    def watch(self, seconds: float = STILL) -> None:
        """Find what the threads wait for, and leave out those that run within so many seconds."""
        before = {pid: thread_states(pid, self._root) for pid in self.members}
        begin = time.monotonic()
        for member in self.members.values():
            member.mappings = mappings(member.pid, self._root) or ()
        self._descriptors.scan()
        self.blind = self._descriptors.blind
        for pid, states in before.items():
            if states is None:
                self.blind = self.blind or f"what the threads of process {pid} do may not be known"
            self.members[pid].states = states or {}
        for member in self.members.values():
            self._look(member)
        time.sleep(max(0.0, begin + seconds - time.monotonic()))
        for member in self.members.values():
            self._forget_moved(member, thread_states(member.pid, self._root) or {})

    def _look(self, member: Member) -> None:
        for thread in member.threads:
            wait = self._wait(member, thread)
            if wait is not None:
                self.waits[Node(member.pid, thread.number)] = wait
        for deadlock in member.report.deadlocks if member.report is not None else ():
            self.dead |= {Node(member.pid, number) for number in deadlock.involved}

    def _forget_moved(self, member: Member, now: Mapping[int, ThreadState]) -> None:
        for thread in member.threads:
            if thread.lwp not in now or now[thread.lwp] != member.states.get(thread.lwp):
                node = Node(member.pid, thread.number)
                self.moved += self.waits.pop(node, None) is not None
                self.dead.discard(node)

    def nodes(self, pids: Iterable[int], but: Node | None = None) -> frozenset[Node]:
        """The threads of processes: those of their reports, and one that can run for each that is in none."""
        found = set()
        for pid in pids:
            member = self.members[pid]
            known = {thread.lwp: thread.number for thread in member.threads}
            found |= {Node(pid, known.get(tid, -tid)) for tid in member.states} or {Node(pid, -pid)}
        return frozenset(found - {but} if but is not None else found)

    # -- one thread ------------------------------------------------------------------------------------------

    def _wait(self, member: Member, thread: Thread) -> Wait | None:
        """What a thread waits for; None where it may go on by itself, or by what is not known."""
        state = member.states.get(thread.lwp)
        waits, call = thread.waits, thread.syscall
        if state is None or state.call is None or thread.status != "blocked" or waits is not None and waits.timed:
            return None
        # a debugger's visit makes the kernel restart some calls under another number, with the same arguments
        if _call_names().get(str(state.call)) not in (call, "restart_syscall"):
            return None
        if call == "futex":
            return self._futex(member, thread, state)
        if call in _READS or call in _WRITES:
            fd = _int(state.arguments[0])
            if waits is None or waits.lock != id_of_lock(DESCRIPTOR, fd):
                return None
            return self._on(member, [(fd, READ if call in _READS else WRITE)], alone=True)
        if call in ("poll", "ppoll"):
            return self._on(member, self._descriptors.polled(member, state))
        if call in ("select", "pselect6"):
            return self._on(member, self._descriptors.selected(member, state))
        if call in _EPOLLS:
            return self._on(member, self._descriptors.watched(member, _int(state.arguments[0])))
        if call in ("wait4", "waitid"):
            return self._child(member, call, state)
        return None

    # -- descriptors -----------------------------------------------------------------------------------------

    def _on(self, member: Member, wanted: Sequence[tuple[int, str]] | None, alone: bool = False) -> Wait | None:
        """A wait for any of some descriptors."""
        if not wanted or self.blind is not None:
            return None
        pids: set[int] = set()
        names = []
        for fd, way in wanted:
            ends = self._descriptors.other_end(member, fd, way)
            if not ends or not ends <= self.members.keys():
                return None
            pids |= ends
            names.append(f"to {way} {member.proc.link(fd)}, fd {fd}")
        # its own end may be for the handler of a signal to write to
        if member.pid in pids and not (alone and self._no_handlers(member)):
            return None
        kind = "descriptors" if len(names) > 1 else "pipe" if "pipe:" in names[0] else "socket"
        why = _reasons(f"{_only(pids)} the other end", self._descriptors.unseen)
        return Wait(kind, " or ".join(names[:4]), self.nodes(pids), False, INFERRED, why)

    def _no_handlers(self, member: Member) -> bool:
        caught = member.proc.caught_signals()
        return caught is not None and not caught & ~_HARMLESS

    # -- children --------------------------------------------------------------------------------------------

    def _child(self, member: Member, call: str, state: ThreadState) -> Wait | None:
        kind, number = _P_PID, _int(state.arguments[0])
        if call == "waitid":
            kind, number = state.arguments[0] & 0xFFFFFFFF, _int(state.arguments[1])
        children = set(member.proc.children())
        if kind == _P_PIDFD:
            info = member.proc.info(Descriptor(member.pid, number))
            wanted = {info.process} if info is not None and info.process else set()
        elif kind == _P_PID and number > 0:
            child = member.proc.child(number)
            wanted = {child} if child is not None else set()
        else:
            wanted = children
        if not wanted or not wanted <= self.members.keys():
            return None
        sure = len(wanted) == 1 and (kind == _P_PIDFD or kind == _P_PID and number > 0)
        return Wait("child", f"for the end of {_listed(sorted(wanted))}", self.nodes(wanted), False,
                    RECORDED if sure else DERIVED, () if sure else ("these are its children",))

    # -- memory ----------------------------------------------------------------------------------------------

    def _futex(self, member: Member, thread: Thread, state: ThreadState) -> Wait | None:
        lock = member.report.lock(thread.waits.lock) if member.report is not None and thread.waits is not None else None
        word = self._shared_memory.word_at(member, state.arguments[0])
        if word is not None and not state.arguments[1] & _FUTEX_PRIVATE or word is not None and lock is None:
            return self._shared(member, thread, lock, state, word)
        if word is not None:
            return None  # of which processes a lock is that says to be private and lies there, is not known
        return self._inside(member, thread, lock, state)

    def _inside(self, member: Member, thread: Thread, lock: Lock | None, state: ThreadState) -> Wait | None:
        """A wait for another thread of the same process."""
        node = Node(member.pid, thread.number)
        if lock is None or thread.waits is None:
            return self._idle(member, node, "for a futex word") if state.arguments[1] & _FUTEX_PRIVATE else None
        kind = kind_of(lock.kind)
        name = "for " + plain(kind_and_name(lock.id, lock.kind, lock.name))
        if lock.holders:
            evidence = weakest([*(holder.evidence for holder in lock.holders), thread.waits.evidence])
            reason = next((holder.why for holder in lock.holders if holder.why), thread.waits.why)
            why = explain(reason) if reason is not None else None
            if kind.ends_thread:
                name = f"for the end of thread {lock.holders[0].thread}"
            return Wait("lock", name, frozenset(Node(member.pid, holder.thread) for holder in lock.holders),
                        kind.wait_for == "all", evidence, (why,) if why else ())
        if lock.orphan or lock.state == "free" or kind.passed_on or lock.candidates:
            return None
        if thread.lwp == member.pid and kind.may_await_signal and lock.state not in RESULT_STATES:
            return None  # a signal may be what it waits for
        return self._idle(member, node, name, kind.handler_may_release)

    def _idle(self, member: Member, node: Node, name: str, by_signal: bool = True) -> Wait | None:
        others = self.nodes([member.pid], node)
        if not others or by_signal and not self._no_handlers(member):
            return None
        why = "any other thread of its process may let it go on"
        return Wait("lock", name, others, False, INFERRED, (why,), idle=True)

    def _shared(self, member: Member, thread: Thread, lock: Lock | None, state: ThreadState, word: Word) -> Wait | None:
        """A wait for a lock in memory that other processes may have."""
        kind = lock.kind if lock is not None else FUTEX
        mapping = member.mapping_at(state.arguments[0])
        assert mapping is not None
        name = lock.name if lock is not None else None
        place = f"{mapping.path or 'without a name'}, {word.offset:#x}"
        what = f"for {kind} {name or ''}".rstrip() + f" in shared memory ({place})"
        if lock is not None and lock.foreign_owner is not None:
            return self._owned(member, lock, lock.foreign_owner, what)
        if lock is not None and lock.holders:
            return self._inside(member, thread, lock, state)
        counting = self._shared_memory.counting(member, word)
        if counting is not None and len(counting) == 1:
            counts = f"only {_listed(sorted(counting))} counts the semaphore as acquired"
            return Wait(SEMAPHORE, what, self.nodes(counting), False, DERIVED, (counts,))
        # what has a name may be mapped by those who come later
        if not mapping.path.endswith("(deleted)") or mapping.path.startswith("/SYSV"):
            return None
        pids = self._shared_memory.mapped_by(word)
        if pids is None or not pids <= self.members.keys():
            return None
        if not all(self._no_handlers(self.members[pid]) for pid in pids):
            return None
        why = _reasons(f"{_only(pids)} that memory", self._shared_memory.unseen)
        return Wait(kind, what, self.nodes(pids, Node(member.pid, thread.number)), False, INFERRED, why)

    def _owned(self, member: Member, lock: Lock, owner: int, what: str) -> Wait | None:
        offset = kind_of(lock.kind).owner_offset
        if offset is None:
            return None
        data = read_memory(member.pid, lock.address + offset, 4, self._root)
        if data is None or int.from_bytes(data, "little") != owner:
            return None
        found = [Node(other.pid, thread.number) for other in self.members.values()
                 for thread in other.threads if thread.tid == owner]
        return Wait(lock.kind, what, frozenset(found), True) if len(found) == 1 else None


def watch(reports: Mapping[int, Report | None], root: str = "/proc") -> Scene:
    """What processes wait for of each other, when their threads have come to rest after the looks."""
    for _ in range(_TRIES):
        scene = Scene(reports, root)
        scene.watch()
        if not scene.moved:
            break
    return scene


@functools.cache
def _call_names() -> dict[str, str]:
    """The names of system calls by their numbers; none for machines that are not decoded."""
    path = Path(gdbext.__file__).with_name("arch") / os.uname().machine / "system_calls.json"
    try:
        names: dict[str, str] = json.loads(path.read_text(encoding="ascii"))["names"]
    except OSError:
        return {}
    return names


def _only(pids: Collection[int]) -> str:
    return f"only {_listed(sorted(pids))} {'has' if len(pids) == 1 else 'have'}"


def _reasons(why: str, unseen: str | None) -> tuple[str, ...]:
    """A reason, with what makes it less sure."""
    return (why,) if unseen is None else (why, unseen)


def _int(value: int) -> int:
    """A register as the ``int`` that the kernel takes it for."""
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def _listed(pids: Sequence[int]) -> str:
    shown = [str(pid) for pid in pids[:4]]
    more = f" and {len(pids) - 4} more" if len(pids) > 4 else ""
    return ("process " if len(pids) == 1 else "processes ") + ", ".join(shown) + more
