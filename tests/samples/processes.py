"""Processes that wait for each other: some forever, others not.

Each scene runs in processes of its own below the one that was started. The second line of its output contains, for each
scene, the numbers of its processes and whether they are deadlocked; it comes when they are about to wait.
"""

import asyncio
import contextlib
import ctypes
import fcntl
import json
import mmap
import multiprocessing
import os
import signal
import struct
import sys
import tempfile
import threading
import time
from typing import Callable, List

REPORT = os.pipe()
#: Python 3.9 has no name for it.
F_OFD_SETLKW = 38


def tell(scene: str, pids: List[int], deadlocked: bool) -> None:
    line = {"scene": scene, "pids": pids, "deadlocked": deadlocked}
    os.write(REPORT[1], (json.dumps(line) + "\n").encode())


def forked(function: Callable[[], object]) -> int:
    """Run a function in a child, which ends with it."""
    pid = os.fork()
    if not pid:
        try:
            function()
        finally:
            os._exit(0)
    return pid


def keep(*ends: int) -> None:
    """Close the pipe ends that this process must not have."""
    for end in ends:
        os.close(end)


def waiting_child() -> "tuple[int, int, int]":
    """A child that waits for a byte of its parent before it writes one: its PID, and the parent's two ends."""
    (down, to_child), (up, to_parent) = os.pipe(), os.pipe()

    def child() -> None:
        keep(to_child, up)
        os.read(down, 1)
        os.write(to_parent, b"x")

    pid = forked(child)
    keep(down, to_parent)
    return pid, up, to_child


# -- forever -------------------------------------------------------------------------------------------------


def pipes() -> None:
    """Each reads from the other, and neither writes."""
    pid, up, to_child = waiting_child()
    tell("pipes", [os.getpid(), pid], True)
    os.read(up, 1)
    os.write(to_child, b"x")


def full_pipes() -> None:
    """Each writes more than fits into the pipe, and would read afterwards."""
    (down, to_child), (up, to_parent) = os.pipe(), os.pipe()

    def write(end: int) -> None:
        # what has been written of it is, if a debugger comes by
        left = 4 << 20
        while left:
            left -= os.write(end, b"x" * left)

    def child() -> None:
        keep(to_child, up)
        write(to_parent)
        os.read(down, 1)

    pid = forked(child)
    keep(down, to_parent)
    tell("full_pipes", [os.getpid(), pid], True)
    write(to_child)
    os.read(up, 1)


def waitpid() -> None:
    """The parent waits for the end of a child, which waits for the parent to write."""
    down, to_child = os.pipe()

    def child() -> None:
        keep(to_child)
        os.read(down, 1)

    pid = forked(child)
    keep(down)
    tell("waitpid", [os.getpid(), pid], True)
    os.waitpid(pid, 0)


def lock() -> None:
    """The child holds a `multiprocessing` lock and waits for a message of its parent, which waits for the lock."""
    context = multiprocessing.get_context("fork")
    guard = context.Lock()
    mine, theirs = context.Pipe()
    taken = context.Event()

    def child() -> None:
        with guard:
            taken.set()
            theirs.recv()

    # a process of `os.fork` may have a count that it has not made itself
    process = context.Process(target=child)
    process.start()
    taken.wait()
    assert process.pid is not None
    tell("lock", [os.getpid(), process.pid], True)
    with guard:
        mine.send(1)


def mutexes() -> None:
    """Two mutexes in shared memory, taken in opposite order."""
    library = ctypes.CDLL(None)
    memory = mmap.mmap(-1, 4096)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    first, second = ctypes.c_void_p(address), ctypes.c_void_p(address + 64)
    attributes = ctypes.create_string_buffer(8)
    library.pthread_mutexattr_init(attributes)
    library.pthread_mutexattr_setpshared(attributes, 1)
    for each in (first, second):
        library.pthread_mutex_init(each, attributes)
    (down, to_child), (up, to_parent) = os.pipe(), os.pipe()

    def child() -> None:
        library.pthread_mutex_lock(second)
        os.write(to_parent, b"x")
        os.read(down, 1)
        library.pthread_mutex_lock(first)

    pid = forked(child)
    library.pthread_mutex_lock(first)
    os.read(up, 1)
    os.write(to_child, b"x")
    tell("mutexes", [os.getpid(), pid], True)
    library.pthread_mutex_lock(second)


def threads() -> None:
    """As `pipes`; the parent reads in a thread, that its first one joins, and has a thread that waits for work."""
    pid, up, to_child = waiting_child()
    work = threading.Condition()

    def wait_for_work() -> None:
        with work:
            work.wait()

    threading.Thread(target=wait_for_work).start()
    reader = threading.Thread(target=os.read, args=(up, 1))
    reader.start()
    tell("threads", [os.getpid(), pid], True)
    reader.join()


def locked_file() -> int:
    """A descriptor of a new file that this process has locked."""
    fd, _ = tempfile.mkstemp(dir=".")
    fcntl.flock(fd, fcntl.LOCK_EX)
    return fd


def files() -> None:
    """Each has locked a file that the other waits for."""
    _, path = tempfile.mkstemp(dir=".")
    (down, to_child), (up, to_parent) = os.pipe(), os.pipe()

    def child() -> None:
        mine = locked_file()
        os.write(to_parent, os.readlink(f"/proc/self/fd/{mine}").encode())
        os.read(down, 1)
        fcntl.flock(os.open(path, os.O_RDWR), fcntl.LOCK_EX)

    pid = forked(child)
    # not before the fork: the child would have the open file too
    lock = os.open(path, os.O_RDWR)
    theirs = os.open(os.read(up, 4096), os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_SH)
    os.write(to_child, b"x")
    tell("files", [os.getpid(), pid], True)
    fcntl.flock(theirs, fcntl.LOCK_SH)


def ranges() -> None:
    """As `files`, with ranges of one file and locks of open files; POSIX locks would fail with EDEADLK."""
    _, path = tempfile.mkstemp(dir=".")
    (down, to_child), (up, to_parent) = os.pipe(), os.pipe()

    def lock(file: int, call: int, start: int) -> None:
        fcntl.fcntl(file, call, struct.pack("hhxxxxqqixxxx", fcntl.F_WRLCK, os.SEEK_SET, start, 10, 0))

    def child() -> None:
        file = os.open(path, os.O_RDWR)
        lock(file, F_OFD_SETLKW, 100)
        os.write(to_parent, b"x")
        os.read(down, 1)
        lock(file, F_OFD_SETLKW, 9)

    pid = forked(child)
    file = os.open(path, os.O_RDWR)
    os.read(up, 1)
    lock(file, F_OFD_SETLKW, 0)
    os.write(to_child, b"x")
    tell("ranges", [os.getpid(), pid], True)
    lock(file, F_OFD_SETLKW, 109)


# -- not forever ---------------------------------------------------------------------------------------------


def pipeline() -> None:
    """One reads what the other will write after a sleep; the other's child reads from both of them."""
    up, to_parent = os.pipe()
    work, to_worker = os.pipe()

    def child() -> None:
        keep(up, work)
        time.sleep(600)
        os.write(to_parent, b"x")

    def worker() -> None:
        keep(to_worker, to_parent, up)
        os.read(work, 1)

    pids = [forked(child), forked(worker)]
    keep(to_parent, work)
    tell("pipeline", [os.getpid(), *pids], False)
    os.read(up, 1)


def outside() -> None:
    """As `pipes`, but a process outside of the tree can also write: the one that started it."""
    (down, to_child), (up, to_parent) = os.pipe(), os.pipe()

    def child() -> None:
        keep(to_child, up)
        os.read(0, 1)
        os.write(to_parent, b"x")

    pid = forked(child)
    keep(down, to_parent)
    tell("outside", [os.getpid(), pid], False)
    os.read(up, 1)


def event_loop() -> None:
    """An event loop that waits for a signal, which would arrive through its self-pipe; its child waits for work."""
    down, to_child = os.pipe()

    def work() -> None:
        keep(to_child)
        os.read(down, 1)

    async def serve() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_event_loop()
        loop.add_signal_handler(signal.SIGTERM, stop.set)
        child = forked(work)
        keep(down)
        tell("event_loop", [os.getpid(), child], False)
        await stop.wait()

    asyncio.new_event_loop().run_until_complete(serve())


def ping_pong() -> None:
    """Two processes that repeatedly send each other a byte."""
    (down, to_child), (up, to_parent) = os.pipe(), os.pipe()

    def child() -> None:
        keep(to_child, up)
        while os.read(down, 1):
            os.write(to_parent, b"x")

    pid = forked(child)
    keep(down, to_parent)
    tell("ping_pong", [os.getpid(), pid], False)
    while True:
        os.write(to_child, b"x")
        os.read(up, 1)
        time.sleep(0.001)


def signals() -> None:
    """As `waitpid`; a handler writes to the child."""
    down, to_child = os.pipe()

    def child() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.read(down, 1)

    signal.signal(signal.SIGTERM, lambda number, frame: os.write(to_child, b"x"))
    pid = forked(child)
    tell("signals", [os.getpid(), pid], False)
    os.read(down, 1)


def inherited() -> None:
    """As `files`, but a third process has the open file of the parent's lock, and releases it after a sleep."""
    mine = locked_file()
    path = os.readlink(f"/proc/self/fd/{mine}")
    up, to_parent = os.pipe()

    def sleeper() -> None:
        time.sleep(600)
        fcntl.flock(mine, fcntl.LOCK_UN)

    def child() -> None:
        os.close(mine)
        theirs = locked_file()
        os.write(to_parent, os.readlink(f"/proc/self/fd/{theirs}").encode())
        fcntl.flock(os.open(path, os.O_RDWR), fcntl.LOCK_EX)

    pids = [forked(sleeper), forked(child)]
    wanted = os.open(os.read(up, 4096), os.O_RDWR)
    tell("inherited", [os.getpid(), *pids], False)
    fcntl.flock(wanted, fcntl.LOCK_EX)


def alarmed() -> None:
    """As `files`, but an alarm ends the wait of the parent, which tries again."""
    mine = locked_file()
    path = os.readlink(f"/proc/self/fd/{mine}")
    up, to_parent = os.pipe()

    def child() -> None:
        os.close(mine)
        theirs = locked_file()
        os.write(to_parent, os.readlink(f"/proc/self/fd/{theirs}").encode())
        fcntl.flock(os.open(path, os.O_RDWR), fcntl.LOCK_EX)

    def give_up(number: int, frame: object) -> None:
        raise TimeoutError

    pid = forked(child)
    wanted = os.open(os.read(up, 4096), os.O_RDWR)
    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(600)
    tell("alarmed", [os.getpid(), pid], False)
    with contextlib.suppress(TimeoutError):
        fcntl.flock(wanted, fcntl.LOCK_EX)


def pool() -> None:
    """A pool with idle workers, whose owner waits for input from outside."""
    context = multiprocessing.get_context("fork")
    workers = context.Pool(2)
    workers.map(abs, range(8))
    tell("pool", [os.getpid(), *(worker.pid for worker in workers._pool)], False)  # type: ignore[attr-defined]
    os.read(0, 1)


SCENES = (pipes, full_pipes, waitpid, lock, mutexes, threads, files, ranges, pipeline, outside, event_loop, ping_pong,
          signals, inherited, alarmed, pool)


if __name__ == "__main__":
    wanted = [scene for scene in SCENES if scene.__name__ in sys.argv[1:] or len(sys.argv) == 1]
    for scene in wanted:
        forked(scene)
    print(json.dumps({"sample": "processes", "variant": "", "pid": os.getpid(), "threads": {}, "locks": {},
                      "deadlock": [], "stuck_behind": []}), flush=True)
    with os.fdopen(REPORT[0]) as lines:
        told = [json.loads(lines.readline()) for _ in wanted]
        print(json.dumps(told), flush=True)
        sys.stdin.read()
