"""The documentation of `threading.Lock`: locks taken by `acquire`, in the ways that look like holding them and are not.

A lock that is a signal is acquired twice, and another thread releases it in between. Two threads hand a pair of locks
to each other, each inside `try: ... finally: release()`. A function returns with the lock, another one releases it. A
timed attempt fails and the thread goes on. A lock is released for a while inside the `try`. An attribute gets another
lock.

Truth: {"expect": "healthy"}
"""

import threading
import time

from tests.precision.programs import scene


def pause() -> None:
    time.sleep(0.002)


def wait_for_signals() -> None:
    """The first `acquire` takes the lock, the second one waits until another thread releases it."""
    while not scene.stopping.is_set():
        signal = threading.Lock()
        signal.acquire()
        try:
            threading.Thread(target=send, args=(signal,)).start()
            signal.acquire()
        finally:
            signal.release()


def send(signal: threading.Lock) -> None:
    pause()
    signal.release()


class HandedOver:
    """Each thread waits for the lock that the other one releases, while its own `finally` releases its own."""

    def __init__(self) -> None:
        self.ping, self.pong = threading.Lock(), threading.Lock()
        self.pong.acquire()
        self.is_over = False

    def serve(self) -> None:
        while not scene.stopping.is_set():
            self.ping.acquire()
            try:
                pause()
            finally:
                self.pong.release()
        self.is_over = True

    def answer(self) -> None:
        while not self.is_over:  # or the other thread would wait for an answer that never comes
            if self.pong.acquire(timeout=0.01):
                try:
                    pause()
                finally:
                    self.ping.release()


class Store:
    def __init__(self) -> None:
        self.lock, self.log = threading.Lock(), threading.Lock()

    def begin(self) -> None:
        self.lock.acquire()

    def end(self) -> None:
        self.lock.release()

    def transactions(self) -> None:
        while not scene.stopping.is_set():
            self.begin()
            try:
                self.write()
            finally:
                self.end()

    def write(self) -> None:
        self.log.acquire()
        try:
            pause()
        finally:
            self.log.release()

    def flushes(self) -> None:
        """Takes the locks in the other order, but never waits for one while it has the other."""
        while not scene.stopping.is_set():
            self.log.acquire()
            try:
                self.log.release()
                self.lock.acquire()
                pause()
                self.lock.release()
                self.log.acquire()
            finally:
                self.log.release()

    def attempts(self) -> None:
        while not scene.stopping.is_set():
            self.log.acquire()
            try:
                has_lock = self.lock.acquire(timeout=0.001)
                try:
                    pause()
                finally:
                    if has_lock:
                        self.lock.release()
            finally:
                self.log.release()


class Renewed:
    """The thread that renews the lock keeps the old one in a variable."""

    def __init__(self) -> None:
        self.lock, self.other = threading.Lock(), threading.Lock()

    def renew(self) -> None:
        while not scene.stopping.is_set():
            old = self.lock
            old.acquire()
            try:
                self.lock = threading.Lock()
            finally:
                old.release()
            self.other.acquire()
            try:
                self.use(self.lock)
            finally:
                self.other.release()

    def use(self, lock: threading.Lock) -> None:
        lock.acquire()
        pause()
        lock.release()

    def both(self) -> None:
        while not scene.stopping.is_set():
            lock = self.lock
            lock.acquire()
            try:
                lock.release()
                self.use(self.other)
                lock.acquire()
            finally:
                lock.release()


if __name__ == "__main__":
    handed, store, renewed = HandedOver(), Store(), Renewed()
    threads = [
        scene.thread("waiting", wait_for_signals),
        scene.thread("serving", handed.serve),
        scene.thread("answering", handed.answer),
        scene.thread("storing", store.transactions),
        scene.thread("flushing", store.flushes),
        scene.thread("trying", store.attempts),
        scene.thread("renewing", renewed.renew),
        scene.thread("using", renewed.both),
    ]
    scene.ready()
    for thread in threads:
        thread.join()
