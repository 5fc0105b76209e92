"""Reports built by hand: Python and native threads, locks of several kinds, deadlocks, problems."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar, cast

from gdbext.model import (
    DERIVED,
    EXCLUSIVE,
    INFERRED,
    RECORDED,
    SHARED,
    WORLD_TO_GO_ON,
    WORLD_TO_STOP,
    Awaited,
    Columns,
    Crash,
    CriticalSection,
    Deadlock,
    Edge,
    Ender,
    EventLoop,
    Fault,
    Finding,
    Gil,
    Greenlet,
    GreenletWait,
    Group,
    Handler,
    Hold,
    Holder,
    Identity,
    InlinedCall,
    Interpreter,
    Local,
    Lock,
    MixedStack,
    NamedObject,
    NativeFrame,
    Operand,
    Operation,
    Part,
    Polling,
    Problem,
    PyFrame,
    Rank,
    Recursion,
    Report,
    Runtime,
    StopCause,
    Stopped,
    StopTheWorld,
    Suspect,
    TargetInfo,
    Task,
    Thread,
    Wait,
    Waiter,
)
from gdbext.model.known import KnownBug
from gdbext.model.reasons import Reason, because
from gdbext.model.verdict import Verdict
from tests.support.reasons import text

RWLOCK, GIL, COUNTED = "rwlock:0x5591e0c0", "gil:0", "rwlock:0x6000"
INFO = TargetInfo("live", 885, "/usr/bin/python3.11", "x86_64", "glibc 2.36")
WHY = because("readers-not-recorded", count=1, candidates=1)


def gil_deadlock() -> Report:
    """Thread 1 holds the GIL and waits for a library's lock, thread 2 the reverse; thread 3 is stuck behind them."""
    update = (NativeFrame("pthread_rwlock_wrlock", "libc.so.6", 0x7F0000001000),
              NativeFrame("update_table", "libdrv.so", 0x7F0000002000, "/src/drv.c", 12,
                          (InlinedCall("drv::Guard<T>::Guard", "/src/guard.h", 7), InlinedCall("drv::enter"))),
              PyFrame("update", "Table.update", "/app/job.py", 41), PyFrame("main", "main", "/app/job.py", 90),
              NativeFrame(None, "python3.11", 0x401000))
    work = (NativeFrame(None, "libc.so.6", 0x7F0000001100), PyFrame("work", "work", "/app/job.py", 17),
            NativeFrame("start_thread", "libc.so.6", 0x7F0000001200))
    threads = (
        Thread(1, 885, 1, "python", "MainThread", 0x55D0, "attached", "blocked", "futex",
               (Hold(GIL, EXCLUSIVE, RECORDED),), Wait(RWLOCK, EXCLUSIVE, False), update),
        Thread(2, 886, 2, "python", "loader", 0x55E0, "detached", "blocked", "futex",
               (Hold(RWLOCK, EXCLUSIVE, RECORDED),), Wait(GIL, EXCLUSIVE, False), work),
        Thread(3, 887, 3, "python", "reader", 0x55F0, "detached", "blocked", "futex", (),
               Wait(RWLOCK, SHARED, False), work),
        Thread(4, 888, 4, "jemalloc_bg_thd", status="blocked", syscall="poll"),
        Thread(5, 889, None, None),
    )
    locks = (
        Lock(RWLOCK, "rwlock", 0x5591E0C0, "in libdrv.so", "write-locked", (Holder(2, EXCLUSIVE, RECORDED),),
             (Waiter(1, EXCLUSIVE), Waiter(3, SHARED))),
        Lock(COUNTED, "rwlock", 0x6000, None, "read-locked", (), (), (3, 4),
             why=because("readers-not-recorded", count=2, candidates=2)),
        Lock(GIL, "gil", 0x7F00, None, "held", (Holder(1, EXCLUSIVE, RECORDED),), (Waiter(2, EXCLUSIVE),)),
    )
    gil = Gil(GIL, 0x7F00, "held", 1, RECORDED, (2,), True)
    runtime = Runtime("3.11.7", "default", 0x7E00, "table", "libpython3.11.so.1.0",
                      (Interpreter(0, 0x7D00, gil, StopTheWorld(False)),))
    deadlock = Deadlock((1, 2), RECORDED, (Edge(1, RWLOCK, 2), Edge(2, GIL, 1)), None, (3,))
    return Report(INFO, (runtime,), threads, locks, (deadlock,), (Problem("thread 5", "unreadable", text("it runs")),),
                  (because("table-of-other-version", version="3.11.7", table="3.11.2"),))


def world_that_does_not_stop() -> Report:
    """Thread 1 stops the world and waits for thread 2; thread 3 is suspended and holds the list that 2 waits for."""
    going_on, stopping, section = "stop-the-world:0x100", "stop-the-world:0x104", "py-critical-section:0x20a"
    shelf = CriticalSection(0x20A, 0x200, "list", True)
    threads = (
        Thread(1, 885, 1, "python", "collector", 0x55D0, "detached", "blocked", "futex",
               (Hold(going_on, EXCLUSIVE, RECORDED),), Wait(stopping, EXCLUSIVE, False), critical_sections=()),
        Thread(2, 886, 2, "python", "user", 0x55E0, "attached", "blocked", "futex",
               (Hold(stopping, EXCLUSIVE, RECORDED),), Wait(section, EXCLUSIVE, False),
               critical_sections=(CriticalSection(None, None, None, False),)),
        Thread(3, 887, 3, "python", "sorter", 0x55F0, "suspended", "blocked", "futex",
               (Hold(section, EXCLUSIVE, RECORDED),), Wait(going_on, EXCLUSIVE, False),
               critical_sections=(shelf, CriticalSection(0x30A, 0x300, "dict", False))),
        Thread(4, 888, 4, "jemalloc_bg_thd", status="blocked", syscall="poll", critical_sections=(),
               ended_by=(Ender("time", 0.5), Ender("thread", thread=2), Ender("process", process=886, evidence=DERIVED),
                         Ender("nobody", why=text("its thread has exited"))),
               since=0.25,
               polling=Polling(PyFrame("poll", "poll", "/app/job.py", 3), 0.5, (Local("ready", "bool", "False"),)),
               at_work=PyFrame("handle", "handle", "/app/job.py", 9),
               in_loop=PyFrame("serve", "serve", "/app/job.py", 5), takes_next=True, ident=0x7f30),
    )
    locks = (
        Lock(going_on, "stop-the-world", 0x100, WORLD_TO_GO_ON, "stopping", (Holder(1, EXCLUSIVE, RECORDED),),
             (Waiter(3, EXCLUSIVE),)),
        Lock(stopping, "stop-the-world", 0x104, WORLD_TO_STOP, "1 not stopped", (Holder(2, EXCLUSIVE, RECORDED),),
             (Waiter(1, EXCLUSIVE),)),
        Lock(section, "py-critical-section", 0x20A, "shelf (list)", "locked", (Holder(3, EXCLUSIVE, RECORDED),),
             (Waiter(2, EXCLUSIVE),)),
        Lock(GIL, "gil", 0x7F00, None, "disabled"),
    )
    runtime = Runtime("3.13.15", "free-threaded", 0x7E00, "table", "python3.13t",
                      (Interpreter(0, 0x7D00, Gil(GIL, 0x7F00, "disabled"), StopTheWorld(True, 1, (2,))),))
    deadlock = Deadlock((1, 2, 3), RECORDED, (Edge(1, stopping, 2), Edge(2, section, 3), Edge(3, going_on, 1)))
    return Report(INFO, (runtime,), threads, locks, (deadlock,))


def inferred_deadlock() -> Report:
    """A reader inferred from the circumstances, and a writer."""
    mutex = "mutex:0x10"
    threads = (
        Thread(1, 10, 10, "a", status="blocked", syscall="futex", holds=(Hold(mutex, EXCLUSIVE, RECORDED),),
               waits=Wait(COUNTED, EXCLUSIVE, False)),
        Thread(2, 11, 11, "b", status="blocked", syscall="futex", holds=(Hold(COUNTED, SHARED, INFERRED, WHY),),
               waits=Wait(mutex, EXCLUSIVE, False)),
    )
    locks = (
        Lock(mutex, "mutex", 0x10, None, "locked", (Holder(1, EXCLUSIVE, RECORDED),), (Waiter(2, EXCLUSIVE),)),
        Lock(COUNTED, "rwlock", 0x6000, None, "read-locked", (Holder(2, SHARED, INFERRED, WHY),),
             (Waiter(1, EXCLUSIVE),), why=WHY),
    )
    deadlock = Deadlock((1, 2), INFERRED, (Edge(1, COUNTED, 2, INFERRED, WHY), Edge(2, mutex, 1)), WHY)
    return Report(INFO, (), threads, locks, (deadlock,))


def standstill_of_workers(workers: int, queues: int = 1) -> Report:
    """Thread 1 in Queue.join(), and idle workers, all with the same stack."""
    def wait(lock: str) -> Wait:
        return Wait(lock, EXCLUSIVE, False)

    every = [f"py-condition:{0x100 + queue:#x}" for queue in range(queues)]
    done = "py-condition:0x10"
    frames = [PyFrame(name, f"Queue.{name}", "/usr/lib/python3.11/queue.py", line) for name, line in (
        ("join", 90), ("get", 171))]
    threads = [Thread(1, 1, 1, "python", "MainThread", status="blocked", syscall="futex", waits=wait(done),
                      stack=(frames[0],))]
    threads += [Thread(number, number, number, "python", f"worker-{number}", status="blocked", syscall="futex",
                       waits=wait(every[number % queues]), stack=(frames[1],)) for number in range(2, 2 + workers)]
    states = {done: "not all tasks are done", **dict.fromkeys(every, "queue is empty")}
    locks = tuple(Lock(lock, "py-condition", int(lock.partition(":")[2], 16), "jobs", state, (), tuple(
        Waiter(thread.number, EXCLUSIVE) for thread in threads if thread.waits == wait(lock)), wait_for="any")
        for lock, state in states.items())
    edges = tuple(Edge(thread.number, thread.waits.lock, None, INFERRED) for thread in threads if thread.waits)
    numbers = tuple(thread.number for thread in threads)
    deadlock = Deadlock(numbers, INFERRED, edges, text("every thread of the process waits"), standstill=True)
    return Report(INFO, (), tuple(threads), locks, (deadlock,))


def orphaned() -> Report:
    """A thread that waits for an owner that no longer exists."""
    lock = Lock("mutex:0x10", "mutex", 0x10, "accounts in bank", "locked", (), (Waiter(1, EXCLUSIVE),), (),
                because("thread-exited"), why=text("its owner had TID 4242"))
    thread = Thread(1, 10, 10, "bank", status="blocked", syscall="futex", waits=Wait(lock.id, EXCLUSIVE, False))
    why = because("owner-gone", lock="mutex:0x10", orphan=lock.orphan)
    return Report(INFO, (), (thread,), (lock,), (Deadlock((1,), RECORDED, (Edge(1, lock.id, None),), why),))


def left_behind() -> Report:
    """A GIL and a shared lock that fork left behind, and a lock of another process."""
    lock = Lock("semaphore:0x10", "semaphore", 0x10, None, "zero", (), (Waiter(1, EXCLUSIVE),), (),
                because("left-behind-by-fork"), "any", DERIVED, text("no thread state has that id"), True)
    foreign = Lock("mutex:0x40", "mutex", 0x40, None, "locked", shared=True, foreign_owner=4242)
    wait = Wait(lock.id, EXCLUSIVE, True, INFERRED, text("the only semaphore whose address is on the stack"))
    gil = Gil(GIL, 0x7F00, "held", evidence=DERIVED, orphan=because("left-behind-by-fork"))
    runtime = Runtime("3.11.7", "default", 0x7E00, "dwarf", "python3.11",
                      (Interpreter(0, 0x7D00, gil, StopTheWorld(False)),), 1)
    thread = Thread(1, 10, 10, "child", status="blocked", syscall="futex", waits=wait)
    return Report(INFO, (runtime,), (thread,), (lock, foreign))


def standstill() -> Report:
    """Both threads of a process wait for the other; for one of them no holder is known."""
    end, queue = "thread-exit:0x10", "py-condition:0x20"
    threads = (
        Thread(1, 10, 10, "main", status="blocked", syscall="futex", waits=Wait(end, EXCLUSIVE, False)),
        Thread(2, 11, 11, "worker", status="blocked", syscall="futex", waits=Wait(queue, EXCLUSIVE, False)),
    )
    locks = (
        Lock(end, "thread-exit", 0x10, None, "running", (Holder(2, EXCLUSIVE, RECORDED),), (Waiter(1, EXCLUSIVE),)),
        Lock(queue, "py-condition", 0x20, "jobs of pool", "queue is empty", (), (Waiter(2, EXCLUSIVE),),
             wait_for="any"),
    )
    why = because("every-thread-waits")
    deadlock = Deadlock((1, 2), INFERRED, (Edge(1, end, 2, INFERRED), Edge(2, queue, None, INFERRED)), why,
                        standstill=True)
    return Report(INFO, (), threads, locks, (deadlock,))


def part_of_a_report() -> Report:
    """A report that says where it comes from, and lacks what its verdict rests on."""
    target = dataclasses.replace(INFO, command_line="python3 job.py", host="web-3", time=1795352341, paused=0.091,
                                 kept=1000, whole=2000)
    return dataclasses.replace(gil_deadlock(), target=target, deadlocks=(), verdict=Verdict(
        "event-loop-blocked", (1,), (2,), (0x10,), DERIVED, (0x37,)))


def without_verdict() -> Report:
    """No deadlock was found, but none can be ruled out."""
    return dataclasses.replace(healthy(), no_verdict=because("other-python", name="PyPy", module="libpypy3.9-c.so"))


def stopped(by: StopCause = "signal", name: str | None = "SIGSTOP", pid: int | None = None) -> Report:
    """A process that would compute if nothing had stopped it."""
    report = healthy()
    return dataclasses.replace(report, target=dataclasses.replace(report.target, stopped=Stopped(by, name, pid)))


def traced() -> Report:
    """A process that a debugger has stopped."""
    return stopped("tracer", "gdb", 4711)


def healthy() -> Report:
    """A thread that runs and holds the GIL, one that waits for it, one in a system call."""
    report = gil_deadlock()
    threads = (dataclasses.replace(report.threads[0], waits=None, status="running", syscall=None),
               dataclasses.replace(report.threads[1], holds=()), report.threads[3])
    return dataclasses.replace(report, threads=threads, locks=report.locks[2:], deadlocks=(), problems=(), notes=())


def asyncio() -> Report:
    """Two tasks that wait for each other, one of them unnamed and waiting for a lock; a coroutine with variables."""
    stack = (PyFrame("work", "Job.work", "/app/job.py", 5, Columns(4, 17, 6), "coroutine"),
             NativeFrame("epoll_wait", "libc.so.6", 0x7F00), NativeFrame("start_thread", "libc.so.6", 0x7F10))
    why = because("in-with-block")
    held = Lock("py-lock:0x70", "py-lock", 0x70, "table.lock", "locked",
                (Holder(1, EXCLUSIVE, DERIVED, why, stack[0]),), of_object=NamedObject("Table", "name", "'orders'"))
    lock = Awaited(kind="asyncio.Lock", address=0x90, name="lock", holders=(0x10,))
    tasks = (Task(0x10, "a", 0x7000, 1, "pending", stack[:1], Awaited((0x20,), 2, timed=True), (0x20,)),
             Task(0x20, None, 0x7000, None, "running", (), lock))
    waits = GreenletWait("gevent.lock.RLock", 0xA0, "lock", (), 2, True, (0x31,), DERIVED, why, stack[0], True)
    greenlets = (Greenlet(0x30, "greenlet.greenlet", 1, "current", is_main=True),
                 Greenlet(0x31, "Worker", 1, "suspended", stack=stack[:1]),
                 Greenlet(0x32, "Worker", 1, "suspended", stack=stack[:1]),
                 Greenlet(0x37, "Worker", 2, "suspended", waits=waits),
                 Greenlet(0x38, "Worker", 2, "suspended", waits=GreenletWait(greenlets=(0x37,))),
                 Greenlet(0x33, "Worker", None, "suspended"), Greenlet(0x34, "Worker", None, "dead"),
                 Greenlet(0x35, "Worker", None, "not started"), Greenlet(0x36, "greenlet.greenlet", 2, "current", True))
    report = gil_deadlock()
    first = dataclasses.replace(
        report.threads[0], holds=(Hold(held.id, EXCLUSIVE, DERIVED, why, stack[0]),), stack=stack,
        parts=(Part(stack[:1]), Part(stack[1:], "thread start")),
        unmerged=because("frame-counts-differ", python=2, native=1),
        blocked_on=because("waits-for-child", process=because("process", pid=4711, name="make")),
        variables=((Local("x", "int", "1"),), (), ()))
    ended = Operation("all_reduce", 5, shape=(8, 2), of="float32", begun=1.5, finished=True, backend="gloo")
    pending = Operation("recv", None, is_pair=True, peer=1)
    rank = Rank(Identity(0, 2, 0, "torchrun", "nightly", "trainer", 2), (
        Group("0", "default_pg", (0, 1), (pending,), ended), Group("1", None, None, evidence=INFERRED)), pending)
    return dataclasses.replace(report, threads=(first, *report.threads[1:]), locks=(*report.locks, held), tasks=tasks,
                               rank=rank, known=(KnownBug(
                                   "python/cpython#1", "a pool hangs", "https://example.org/1", "CPython", "3.13.0",
                                   "3.13.15", 4, 5, "use threads"),),
                               task_cycles=((0x10, 0x20),),
                               event_loops=(EventLoop(0x7000, "_UnixSelectorEventLoop", 1, 2),), greenlets=greenlets,
                               greenlet_cycles=((0x37,),))


def crashed() -> Report:
    """A null pointer access, with every part that a crash report can have."""
    null = because("null-member", offset=0x18, register="rdi")
    touched = because("accessed", access="read", size=8, address=0x18, is_readable=1, problem=null)
    function = because("function", name="get")
    origins = (because("argument", register="rdi", number=1, function=function, is_this=0),
               because("in-caller", function=function, origin=text("a later version found it")))
    fault = Fault("SIGSEGV", "SEGV_MAPERR", "null-member", touched, INFERRED, because("only-null-is-so-low"), (1, 0),
                  0x18, "read", 8, 0x401000, "mov 0x18(%rdi),%rax",
                  (Operand("%rdi", 0, because("null"), origins), Operand("%rax", 1)), {"rdi": 0, "fs_base": 0x7F00},
                  "said", True)
    stack = MixedStack((NativeFrame("get", "libdrv.so", 0x401000), PyFrame("f", "f", "/app/job.py", 3)),
                       (Part((NativeFrame("get", "libdrv.so", 0x401000),), None, "Cython", "lib.get"),
                        Part((PyFrame("f", "f", "/app/job.py", 3),))),
                       because("eval-in-no-frame"), {0: (Local("self", "Node *", "0x0"),)})
    crash = Crash(1, fault, stack, 0, Recursion(
        (0, 1), 900, 2000, False, 8 << 20, (PyFrame("main", "main", "/app/job.py", 9),)),
                  (Finding("without-gil", 2, text("uses Python")),
                   Finding("impossible-object", None, because("not-an-object", address=0x10, names=("row", "rows[0]"),
                                                              problem=because("bad-reference-count", count=-5)),
                           INFERRED, because("object-in-variable"))),
                  (Suspect(2, (because("same-function", function=function), text("it too")),
                           (because("no-common-lock"), because("holds-locks", thread=1, locks=("gil:0",))),
                           ("gil:0",)),),
                  (because("file-missing", path="/app/libdrv.so", build_id=None),
                   because("files-missing", files=("a", "b"), more=2)),
                  (Handler(0, 1, "SIGPROF"),),
                  because("handler-ended", signal="SIGABRT", of="SIGSEGV", function="f()", text="Assertion failed"),
                  (because("python-caller", thread=2, function=because("function", name="run"), library="libdrv.so",
                           caller="main", file="/app/job.py", line=7),))
    return Report(INFO, crash=crash)


#: A hostile string from a target, in place of a name.
HOSTILE = "a\x1b[2J\x1b]0;x\x07\nb\r\u202ec\u2066\u2028\x85\x9b\x00\u200b\ud800\U000e0001\"\\;}"

#: Fields with gdbext's own strings, not the target's.
_OURS = {"id", "lock", "kind", "state", "mode", "evidence", "orphan_evidence", "wait_for", "status", "what", "build",
         "architecture", "version", "layout", "python_state", "syscall", "by"}

T = TypeVar("T")


def hostile(report: T) -> T:
    """The same report with `HOSTILE` in place of every string that may come from the target."""
    if isinstance(report, Reason):
        return cast("T", text(HOSTILE))
    changes: dict[str, Any] = {}
    for each in dataclasses.fields(report):  # type: ignore[arg-type]
        value = getattr(report, each.name)
        if isinstance(value, str) and each.name not in _OURS:
            changes[each.name] = HOSTILE
        elif isinstance(value, tuple):
            changes[each.name] = tuple(
                hostile(item) if dataclasses.is_dataclass(item) else HOSTILE if isinstance(item, str) else item
                for item in value)
        elif dataclasses.is_dataclass(value):
            changes[each.name] = hostile(value)
    return dataclasses.replace(report, **changes)  # type: ignore[type-var]
