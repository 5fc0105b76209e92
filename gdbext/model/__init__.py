"""The values that a report consists of.

Every class here is a frozen value with little behaviour. Nothing here imports the rest of the
package. Thread references are GDB thread numbers, addresses and LWP ids are ints.
"""

from __future__ import annotations

from typing import Final, Literal

from gdbext.model.crash import Crash as Crash
from gdbext.model.crash import Fault as Fault
from gdbext.model.crash import Finding as Finding
from gdbext.model.crash import Handler as Handler
from gdbext.model.crash import Operand as Operand
from gdbext.model.crash import Recursion as Recursion
from gdbext.model.crash import Suspect as Suspect
from gdbext.model.evidence import DERIVED as DERIVED
from gdbext.model.evidence import EVIDENCE as EVIDENCE
from gdbext.model.evidence import INFERRED as INFERRED
from gdbext.model.evidence import RECORDED as RECORDED
from gdbext.model.evidence import Evidence as Evidence
from gdbext.model.evidence import weakest as weakest
from gdbext.model.frames import Columns as Columns
from gdbext.model.frames import Frame as Frame
from gdbext.model.frames import InlinedCall as InlinedCall
from gdbext.model.frames import Local as Local
from gdbext.model.frames import MixedStack as MixedStack
from gdbext.model.frames import NativeFrame as NativeFrame
from gdbext.model.frames import Part as Part
from gdbext.model.frames import PyFrame as PyFrame
from gdbext.model.kinds import LockKind, kind_of
from gdbext.model.known import KnownBug as KnownBug
from gdbext.model.ranks import Group as Group
from gdbext.model.ranks import Identity as Identity
from gdbext.model.ranks import Operation as Operation
from gdbext.model.ranks import Rank as Rank
from gdbext.model.reasons import Reason
from gdbext.model.tasks import Awaited as Awaited
from gdbext.model.tasks import EventLoop as EventLoop
from gdbext.model.tasks import Greenlet as Greenlet
from gdbext.model.tasks import GreenletStatus as GreenletStatus
from gdbext.model.tasks import GreenletWait as GreenletWait
from gdbext.model.tasks import Task as Task
from gdbext.model.tasks import TaskStatus as TaskStatus
from gdbext.model.verdict import Verdict
from gdbext.record import record

#: How a lock is held or waited for.
Mode = Literal["exclusive", "shared"]
EXCLUSIVE: Final = "exclusive"
SHARED: Final = "shared"

TargetKind = Literal["live", "core"]
StopCause = Literal["signal", "tracer", "cgroup"]
ThreadStatus = Literal["blocked", "running", "unknown"]
PythonState = Literal["attached", "detached", "suspended"]
GilStatus = Literal["held", "free", "disabled", "unknown"]
#: Who or what can end a wait: see `Ender`.
EnderKind = Literal["time", "thread", "this-process", "process", "outside", "nobody"]
#: Whether a waiter needs all holders to release a lock, or any one of them.
WaitFor = Literal["all", "any"]
ProblemKind = Literal["unreadable", "not recorded", "not applicable", "ambiguous"]

#: Names of locks of kind ``stop-the-world``: the one that paused threads wait for, and the one of the requester.
WORLD_TO_GO_ON = "for the world to go on"
WORLD_TO_STOP = "for the world to stop"

#: The state of a descriptor that a thread reads from, or writes to.
TO_READ = "waiting to read"
TO_WRITE = "waiting to write"
#: The state of a descriptor whose data the disk has to store.
TO_STORE = "waiting for the disk"
#: The state of a lock whose waiters need the result of a call.
RESULT_PENDING = "result is pending"
#: States of locks whose waiters need work to be done: a result, or room in a queue.
RESULT_STATES = frozenset((RESULT_PENDING, "not all tasks are done", "queue is full"))


@record
class Problem:
    """Something that is not known: where, the kind of problem, and why."""

    where: str
    what: ProblemKind
    why: Reason


@record
class Hold:
    """A lock that a thread holds. `taken_at` is the frame that took it, with the line, if that is known."""

    lock: str
    mode: Mode
    evidence: Evidence
    why: Reason | None = None
    taken_at: PyFrame | None = None


@record
class Wait:
    """A lock that a thread waits for.

    `timed` is true when the wait can end by itself and its code does not just repeat it.
    """

    lock: str
    mode: Mode
    timed: bool
    evidence: Evidence = RECORDED
    why: Reason | None = None


#: A timeout that is not an answer: schedulers wait for an hour or a day where they wait for an event, in seconds.
LONG = 3600.0


@record
class Ender:
    """Who or what can end a wait.

    ``time``: its timeout, in at most `seconds`, None if that is not known. ``thread``: a thread by its number.
    ``this-process``: any thread of the process, and nobody else. ``process``: a process of this machine, by its PID.
    ``outside``: something that is not a known process. ``nobody``: nothing ends it.
    """

    what: EnderKind
    seconds: float | None = None
    thread: int | None = None
    process: int | None = None
    evidence: Evidence = RECORDED
    why: Reason | None = None


@record
class Polling:
    """A loop of short sleeps: the function with the loop, with the line of its condition, and the sleep in seconds.

    `seconds` is None if only the end of the sleep is recorded. `values` are the variables in the condition, with
    attributes of variables, as far as they are known.
    """

    frame: PyFrame
    seconds: float | None = None
    values: tuple[Local, ...] = ()


@record
class CriticalSection:
    """A critical section of free-threaded CPython that a thread is in: a ``PyMutex *``, mostly that of an object.

    `mutex` is None while it is not taken yet. A section that is not `active` was suspended: its mutex is free.
    """

    mutex: int | None
    object: int | None
    type: str | None
    active: bool


@record
class Thread:
    """A thread of the target: its stack, the locks that it holds, and the lock that it waits for."""

    number: int
    lwp: int
    tid: int | None
    name: str | None
    python_name: str | None = None
    tstate: int | None = None
    python_state: PythonState | None = None
    status: ThreadStatus = "unknown"
    syscall: str | None = None
    holds: tuple[Hold, ...] = ()
    waits: Wait | None = None
    stack: tuple[Frame, ...] = ()
    #: why Python and native frames are not interleaved, or None where they are
    unmerged: Reason | None = None
    #: what it is blocked on in the system call, where that is not a lock
    blocked_on: Reason | None = None
    #: innermost first; None where there is no free-threaded Python
    critical_sections: tuple[CriticalSection, ...] | None = None
    #: what the stack is shown as; empty: each frame as it is
    parts: tuple[Part, ...] = ()
    #: of each frame of the stack, where they were asked for
    variables: tuple[tuple[Local, ...], ...] | None = None
    #: who or what can end its wait; empty if it does not wait, or if that is not known
    ended_by: tuple[Ender, ...] = ()
    #: how long ago it ran last, in seconds; None if it runs, and where that is not known
    since: float | None = None
    #: the loop in which it sleeps for a short time, if that loop has a condition
    polling: Polling | None = None
    #: the function of the program that a library has called and in which it waits, if that ends and does not only wait
    #: for more work
    at_work: PyFrame | None = None
    #: the innermost function of the program that waits in a loop, perhaps for more work
    in_loop: PyFrame | None = None
    #: whether the program has called nothing else in this turn of the loop
    takes_next: bool = False
    #: what `threading.get_ident` returns in it
    ident: int | None = None


@record
class Holder:
    """A thread that holds a lock, as seen from the lock; see `Hold`."""

    thread: int
    mode: Mode
    evidence: Evidence
    why: Reason | None = None
    taken_at: PyFrame | None = None


@record
class Waiter:
    """A thread that waits for a lock, as seen from the lock."""

    thread: int
    mode: Mode


@record
class NamedObject:
    """An object: its type, and the attribute whose value, as text, distinguishes it from others of that type."""

    type: str
    attribute: str
    value: str


@record
class Lock:
    """A lock with its state, holders and waiters.

    `wait_for` says whether a waiting thread needs ``all`` holders to release the lock or ``any`` one of them.
    """

    id: str
    kind: LockKind
    address: int
    name: str | None
    state: str
    holders: tuple[Holder, ...] = ()
    waiters: tuple[Waiter, ...] = ()
    candidates: tuple[int, ...] = ()
    orphan: Reason | None = None
    wait_for: WaitFor = "all"
    #: how it is known that the recorded owner is not a living thread
    orphan_evidence: Evidence = RECORDED
    #: what a reader should know about how the holders were found, or why they were not
    why: Reason | None = None
    #: whether another process may release it
    shared: bool = False
    #: the TID that a shared lock records as its owner, where it is not a thread of this process
    foreign_owner: int | None = None
    #: the object that has the lock in an attribute, if a value distinguishes it from others of its type
    of_object: NamedObject | None = None

    @property
    def is_event(self) -> bool:
        """Whether a wait for it is a wait for an event, as of an idle worker: any thread may set it.

        A thread that waits for the result of another thread's work is not idle: its program needs the result.
        """
        return kind_of(self.kind).is_event and self.state not in RESULT_STATES and not self.holders

    @property
    def is_queued_call(self) -> bool:
        """Whether it is the result of a call in the queue of a pool: any of its holders may take the call."""
        return any(holder.why is not None and holder.why.code == "call-is-queued" for holder in self.holders)

    @property
    def is_outside(self) -> bool:
        """Whether it is not a lock of the process: a descriptor, or a file lock that another process may hold."""
        kind = kind_of(self.kind)
        return kind.behaviour == "outside" or kind.behaviour == "file-lock" and self.shared


@record
class Edge:
    """`waiter` waits for `lock`, which `holder` holds (None: its recorded owner is not a living thread)."""

    waiter: int
    lock: str
    holder: int | None
    evidence: Evidence = RECORDED
    why: Reason | None = None


@record
class Deadlock:
    """A set of threads none of which can run again, with the edges that show it.

    In a `standstill` each thread waits for something that only the others could do. An edge without a holder then
    means that the thread that would have to act is not known.
    """

    threads: tuple[int, ...]
    evidence: Evidence
    edges: tuple[Edge, ...]
    why: Reason | None = None
    stuck_behind: tuple[int, ...] = ()
    standstill: bool = False

    @property
    def owner_gone(self) -> bool:
        """Whether its cause is a lock whose owner is not a living thread."""
        # in a standstill, the threads that could act are not known
        return not self.standstill and any(edge.holder is None for edge in self.edges)

    @property
    def no_result(self) -> bool:
        """Whether its threads wait for a result that nobody makes."""
        return self.owner_gone and self.why is not None and any(
            isinstance(value, Reason) and value.code == "no-maker" for _, value in self.why.arguments)

    @property
    def of_pool(self) -> bool:
        """Whether its threads are the workers of a pool, which wait for calls that are queued behind themselves."""
        return bool(self.edges) and all(
            edge.why is not None and edge.why.code == "call-is-queued" for edge in self.edges)

    @property
    def involved(self) -> tuple[int, ...]:
        """Its own threads and those stuck behind it."""
        return (*self.threads, *self.stuck_behind)


@record
class Gil:
    """The GIL of one interpreter.

    `lock` is its lock id; interpreters that share a GIL share the id. `drop_requested` is None when it is not
    known. `holder` is a thread number; when the holding thread state belongs to no living thread, `holder` is
    None and `orphan` says so.
    """

    lock: str
    address: int
    state: GilStatus
    holder: int | None = None
    evidence: Evidence = RECORDED
    waiters: tuple[int, ...] = ()
    drop_requested: bool | None = None
    orphan: Reason | None = None


@record
class StopTheWorld:
    """Whether a thread has asked all others to pause (CPython 3.13 and later), and which have not paused yet."""

    requested: bool
    requester: int | None = None
    waiting_for: tuple[int, ...] = ()


@record
class Interpreter:
    """One interpreter of a runtime."""

    id: int
    address: int
    gil: Gil
    stop_the_world: StopTheWorld


@record
class Runtime:
    """One CPython runtime in the process. `finalizing` is the thread that shuts it down, or None."""

    version: str
    build: str
    address: int
    layout: str
    module: str
    interpreters: tuple[Interpreter, ...]
    finalizing: int | None = None


@record
class Stopped:
    """What keeps a process from running.

    `name` is that of the signal, that of the tracing process, or the path of the file that froze the cgroup; `pid` is
    the tracing process. Both are None if they are not known.
    """

    by: StopCause
    name: str | None = None
    pid: int | None = None


@record
class TargetInfo:
    """The process or core that was inspected."""

    kind: TargetKind
    pid: int
    executable: str | None
    architecture: str
    libc: str | None
    #: the arguments of the process, separated by spaces, where they are known
    command_line: str | None = None
    #: the name of the machine that the process runs on; None for a core
    host: str | None = None
    #: when the snapshot was taken, in seconds since the epoch; for a core, when the core was written
    time: float | None = None
    #: how long the process was paused, in seconds, once that is known
    paused: float | None = None
    #: of a truncated core, how many bytes there are, and how many there would be; else None
    kept: int | None = None
    whole: int | None = None
    #: what keeps the process from running, None if nothing does
    stopped: Stopped | None = None


@record
class Report:
    """The result of one snapshot of a target. Commands show parts of it."""

    target: TargetInfo
    runtimes: tuple[Runtime, ...] = ()
    threads: tuple[Thread, ...] = ()
    locks: tuple[Lock, ...] = ()
    deadlocks: tuple[Deadlock, ...] = ()
    problems: tuple[Problem, ...] = ()
    #: extra words for the reader of the text, one line each
    notes: tuple[Reason, ...] = ()
    #: why no deadlock may be ruled out, or None
    no_verdict: Reason | None = None
    #: asyncio, where it was asked for
    event_loops: tuple[EventLoop, ...] = ()
    tasks: tuple[Task, ...] = ()
    #: addresses of tasks each of which waits for the next, and the last for the first
    task_cycles: tuple[tuple[int, ...], ...] = ()
    #: which rank of a job it is, and what it has done as one; None if nothing says that it is one
    rank: Rank | None = None
    #: greenlets, where they were asked for
    greenlets: tuple[Greenlet, ...] = ()
    #: addresses of greenlets each of which waits for the next, and the last for the first
    greenlet_cycles: tuple[tuple[int, ...], ...] = ()
    crash: Crash | None = None
    #: known bugs that it looks like
    known: tuple[KnownBug, ...] = ()
    #: where the report has less than what its verdict rests on; else `verdict.judge` makes it
    verdict: Verdict | None = None

    def thread(self, number: int) -> Thread | None:
        """The thread of that number, or None."""
        return next((thread for thread in self.threads if thread.number == number), None)

    def lock(self, lock_id: str) -> Lock | None:
        """The lock of that id, or None."""
        return next((lock for lock in self.locks if lock.id == lock_id), None)


# at the end, because it imports from here
