"""Programs that hang as programs do, and some that do not: ``hangs.py VARIANT``.

Each prints the PID to inspect when its threads are on the way to where they stay. No debugger is needed to see which
verdict is right: the code of each variant shows it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import ctypes
import multiprocessing
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any


class Account:
    """Two locks that are both called `lock`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lock = threading.Lock()


def announce(pid: int | None = None) -> None:
    print(os.getpid() if pid is None else pid, flush=True)


def start(function: Callable[..., Any], *arguments: object, name: str | None = None) -> threading.Thread:
    thread = threading.Thread(target=function, args=arguments, name=name, daemon=True)
    thread.start()
    return thread


def read_forever() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as anybody:  # may send to it, and nobody does
        anybody.bind(("127.0.0.1", 0))
        anybody.recv(1)


def deadlock() -> None:
    """Two threads take two locks in different orders."""
    accounts = Account("alice"), Account("bob")
    both = threading.Barrier(2)

    def transfer(source: Account, target: Account) -> None:
        with source.lock:
            both.wait()
            with target.lock:
                pass

    one = start(transfer, *accounts, name="one")
    start(transfer, *accounts[::-1], name="two")
    announce()
    one.join()


def orphaned() -> None:
    """A child of fork waits for a lock that a thread of its parent held."""
    lock, held = threading.RLock(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            read_forever()

    start(hold)
    held.wait()
    child = os.fork()
    if child == 0:
        lock.acquire()
    announce(child)
    os.waitpid(child, 0)


def standstill() -> None:
    """No worker calls task_done(), and all wait for more."""
    jobs: queue.Queue[int] = queue.Queue()

    def work() -> None:
        while True:
            jobs.get()

    for _ in range(100):
        start(work)
    jobs.put(1)
    announce()
    jobs.join()


def event_loop() -> None:
    """A coroutine calls a function that blocks its thread."""
    async def handle() -> None:
        announce()
        read_forever()

    async def main() -> None:
        others = [asyncio.ensure_future(asyncio.sleep(1000)) for _ in range(5)]
        await asyncio.sleep(0)
        await asyncio.gather(handle(), *others)

    asyncio.run(main())


def behind() -> None:
    """A thread keeps a lock while it reads from a socket."""
    lock, held = threading.Lock(), threading.Event()

    def fetch() -> None:
        with lock:
            held.set()
            read_forever()

    start(fetch, name="fetcher")
    held.wait()
    announce()
    with lock:
        pass


def sleeping_holder() -> None:
    """A thread keeps a lock while it sleeps for ten minutes; two others want the lock."""
    lock, held = threading.Lock(), threading.Event()

    def reconnect() -> None:
        with lock:
            held.set()
            time.sleep(600)

    def use() -> None:
        with lock:
            pass

    start(reconnect, name="reconnect")
    held.wait()
    start(use)
    announce()
    use()


def sleeping_with_gil() -> None:
    """The first thread calls a C function that sleeps and does not release the GIL."""
    def beat() -> None:
        while True:
            time.sleep(0.01)

    start(beat)
    announce()
    ctypes.PyDLL(None).sleep(600)


def polling() -> None:
    """The only thread waits for a file to be removed."""
    marker = "/proc/self"
    announce()
    while os.path.exists(marker):
        time.sleep(0.2)


def own_loop() -> None:
    """An event loop watches its own wake-up socket only, and all workers wait for what only further calls give."""
    permits: queue.Queue[int] = queue.Queue()

    async def main() -> None:
        executor = concurrent.futures.ThreadPoolExecutor(2)
        loop = asyncio.get_running_loop()
        loop.call_later(0.2, announce)
        await asyncio.gather(*[loop.run_in_executor(executor, permits.get) for _ in range(4)])

    asyncio.run(main())


def child() -> None:
    """The first thread waits for a child process."""
    with subprocess.Popen(["sleep", "1000"]) as process:
        announce()
        process.wait()


def killed_child() -> None:
    """The first thread waits for what a child would write that was killed; this process has the other end too."""
    ours, _theirs = multiprocessing.Pipe(duplex=False)
    child = os.fork()
    if child == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    announce()
    ours.recv()


LOCK = threading.Lock()


def take_lock(number: int) -> int:
    with LOCK:
        return number


def children() -> None:
    """A pool is forked while a lock is held; each child waits for its copy of the lock."""
    held = threading.Event()

    def hold() -> None:
        with LOCK:
            held.set()
            read_forever()

    start(hold)
    held.wait()
    pool = multiprocessing.get_context("fork").Pool(2)
    announce()
    pool.map(take_lock, range(4))


def pool() -> None:
    """All workers of a pool wait for work of the same pool; a thread that reads might bring something else."""
    executor, both = concurrent.futures.ThreadPoolExecutor(2), threading.Barrier(2)

    def outer() -> int:
        both.wait()
        return executor.submit(int).result()

    start(read_forever)
    results = [executor.submit(outer) for _ in range(2)]
    announce()
    for result in results:
        result.result()


class NeedsLock:
    """An argument that takes the lock when it is sent to another process."""

    def __reduce__(self) -> Any:
        with LOCK:
            return int, ()


def unsent_call() -> None:
    """A call is sent to a pool of processes by a thread that needs the lock which the waiting thread has."""
    pool = multiprocessing.get_context("fork").Pool(1)
    with LOCK:
        result = pool.apply_async(str, (NeedsLock(),))
        announce()
        result.get()


def lost_call() -> None:
    """A worker of a pool of processes ends with a call; its result never comes."""
    pool = multiprocessing.get_context("fork").Pool(2)
    result = pool.map_async(end_if_two, range(3), chunksize=1)
    time.sleep(2)  # a pool that has just begun to rest may still have the call
    announce()
    result.get()


def end_if_two(number: int) -> int:
    if number == 2:
        os._exit(1)
    return number


def slow_call() -> None:
    """A call of a pool waits for something outside, and the main thread waits for its result."""
    executor = concurrent.futures.ThreadPoolExecutor(2)
    result = executor.submit(read_forever)
    announce()
    result.result()


def full_queue() -> None:
    """A queue is full, and nobody takes anything from it."""
    jobs: queue.Queue[int] = queue.Queue(3)
    start(read_forever)
    announce()
    while True:
        jobs.put(1)


def unknown() -> None:
    """A lock that was acquired without a `with` block does not record who did that."""
    lock = threading.Lock()
    lock.acquire()
    start(read_forever)
    announce()
    lock.acquire()


def computing() -> None:
    """A thread computes, and others wait for it."""
    def work() -> None:
        while True:
            sum(range(1000))

    thread = start(work, name="worker")
    announce()
    thread.join()


def idle() -> None:
    """A server waits for a connection, its workers for work."""
    jobs: queue.Queue[int] = queue.Queue()
    start(jobs.get)
    with socket.create_server(("127.0.0.1", 0)) as server:
        announce()
        server.accept()


def sleeping() -> None:
    """The first thread sleeps."""
    announce()
    time.sleep(1000)


globals()[sys.argv[1]]()
