"""Shared by the healthy programs with greenlets: what greenlets of gevent or eventlet do with locks and queues.

Those that use a lock again and again return when the program is to end.
"""

from __future__ import annotations

from typing import Any

from tests.precision.programs import scene


def goes_on() -> bool:
    return not scene.stopping.is_set()


class Greenlets:
    """What greenlets do; each method runs as one.

    :param library: the module of gevent or eventlet.
    """

    def __init__(self, library: Any) -> None:
        self._library = library

    def use(self, lock: Any) -> None:
        while goes_on():
            with lock:
                self._library.sleep(0.003)
            self._library.sleep(0)

    def use_both(self, first: Any, second: Any) -> None:
        while goes_on():
            with first:
                self._library.sleep(0.002)
                with second:
                    self._library.sleep(0.002)
            self._library.sleep(0)

    def use_in_time(self, first: Any, second: Any) -> None:
        while goes_on():
            try:
                with self._library.Timeout(0.01), first:
                    self._library.sleep(0.002)
                    with second:
                        pass
            except self._library.Timeout:
                self._library.sleep(0)

    def acquire_in_time(self, first: Any, second: Any) -> None:
        while goes_on():
            with first:
                self._library.sleep(0.002)
                if second.acquire(timeout=0.01):
                    second.release()

    def killed(self, first: Any, second: Any) -> None:
        with first:
            self._library.sleep(0.002)
            with second:
                pass

    def lock_for_another(self, lock: Any, taken: Any) -> None:
        while goes_on():
            lock.acquire()
            taken.put(1)
        taken.put(None)

    def release_for_another(self, lock: Any, taken: Any) -> None:
        while taken.get() is not None:
            self._library.sleep(0.002)
            lock.release()

    def inside(self, lock: Any, gone: Any, back: Any) -> None:
        while goes_on():
            with lock:
                # another greenlet releases the lock meanwhile, and takes it again
                gone.put(1)
                back.get()
        gone.put(None)

    def release_inside(self, lock: Any, gone: Any, back: Any) -> None:
        while gone.get() is not None:
            lock.release()
            self._library.sleep(0.002)
            lock.acquire()
            back.put(1)

    def produce(self, end: Any) -> None:
        while goes_on():
            end.send(b"x")
            self._library.sleep(0.001)
        end.close()

    def feed(self, end: Any, queue: Any, lock: Any) -> None:
        while True:
            with lock:
                data = end.recv(100)
            queue.put(data)
            if not data:
                return
            self._library.sleep(0)

    def consume(self, queue: Any) -> None:
        while queue.get():
            pass
