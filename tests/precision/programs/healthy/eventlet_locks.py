"""Greenlets of eventlet that wait for locks, queues, events and each other, and always continue.

A holder sleeps by a timer, reads from a socket, or waits for an event. A lock is acquired by one greenlet and released
by another or by a call of the hub, also while the first one is inside a `with` block of it. Two greenlets share a
semaphore of two. Locks are taken in opposite order, but with a timeout, or by greenlets that another one kills, or one
of them is released by a call that the hub has not made yet. A native thread has a hub of its own.

Truth: {"expect": "healthy", "packages": ["eventlet"], "pythons": ["3.11"]}
"""

from typing import Any

import eventlet  # type: ignore[import-not-found,import-untyped,unused-ignore]
import eventlet.event  # type: ignore[import-not-found,import-untyped,unused-ignore]
import eventlet.green.socket  # type: ignore[import-not-found,import-untyped,unused-ignore]
import eventlet.green.threading  # type: ignore[import-not-found,import-untyped,unused-ignore]
import eventlet.hubs  # type: ignore[import-not-found,import-untyped,unused-ignore]
import eventlet.queue  # type: ignore[import-not-found,import-untyped,unused-ignore]
from eventlet.semaphore import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
    BoundedSemaphore,
    Semaphore,
)

from tests.precision.programs import scene
from tests.precision.programs.green_uses import Greenlets, goes_on

green = Greenlets(eventlet)
make, RLock = eventlet.green.threading.Lock, eventlet.green.threading.RLock


def kill(one: Any, other: Any) -> None:
    while goes_on():
        pair = [eventlet.spawn(green.killed, one, other), eventlet.spawn(green.killed, other, one)]
        for each in pair:
            # the call of the hub that kills it is scheduled from the start
            eventlet.spawn_after(0.01, each.kill)
        eventlet.sleep(0.02)


def opened(lock: Any, other: Any) -> None:
    while goes_on():
        with lock:
            # the hub releases the lock later, and the one that has the other lock continues
            eventlet.spawn_after(0.006, lock.release)
            eventlet.sleep(0.002)
            with other:
                pass
            eventlet.sleep(0.01)
            lock.acquire()
        eventlet.sleep(0.001)


def behind_opened(lock: Any, other: Any) -> None:
    while goes_on():
        with other:
            eventlet.sleep(0.003)
            with lock:
                pass
        eventlet.sleep(0.001)


def wait_for_end() -> None:
    while goes_on():
        lock = make()
        with lock:
            # the greenlet that it waits for has the lock only after that
            eventlet.spawn(eventlet.sleep, 0.002).wait()
            after = eventlet.spawn(use_once, lock)
            eventlet.sleep(0.002)
        after.wait()


def use_once(lock: Any) -> None:
    with lock:
        eventlet.sleep(0.001)


def answer(requests: Any) -> None:
    while True:
        event = requests.get()
        if event is None:
            return
        eventlet.sleep(0.002)
        event.send(1)


def ask(requests: Any, lock: Any) -> None:
    while goes_on():
        with lock:
            event = eventlet.event.Event()
            requests.put(event)
            event.wait()
    requests.put(None)


def in_hub() -> None:
    locks = [RLock(), make(), BoundedSemaphore()]
    for each in [eventlet.spawn(green.use, lock) for lock in locks * 2]:
        each.wait()


def main() -> None:
    slow, pair, handed, left, late, dying = (make(), Semaphore(2), make(), make(), [make(), make()],
                                             [BoundedSemaphore(), BoundedSemaphore()])
    recursive, guard, queue = [RLock(), RLock()], make(), eventlet.queue.Queue(3)
    taken, gone, back, requests = (eventlet.queue.Queue() for _ in range(4))
    one, other = eventlet.green.socket.socketpair()
    open_late, behind = BoundedSemaphore(), make()
    thread = scene.thread("hub", in_hub)
    scene.ready()
    for each in [eventlet.spawn(*each) for each in (
            (green.use, slow), (green.use, slow), (green.use, slow), (green.use_both, pair, slow),
            (green.use_both, slow, make()), (green.use_both, pair, recursive[0]),
            (green.use_both, recursive[0], recursive[1]), (green.use_both, recursive[0], pair),
            (green.use_in_time, *late), (green.use_in_time, *reversed(late)), (green.acquire_in_time, *late),
            (kill, *dying), (green.lock_for_another, handed, taken), (green.release_for_another, handed, taken),
            (green.inside, left, gone, back), (green.release_inside, left, gone, back), (green.use, left),
            (opened, open_late, behind), (behind_opened, open_late, behind), (wait_for_end,), (answer, requests),
            (ask, requests, make()), (green.produce, one), (green.feed, other, queue, guard), (green.consume, queue),
            (green.use, guard))]:
        each.wait()
    thread.join()


if __name__ == "__main__":
    main()
