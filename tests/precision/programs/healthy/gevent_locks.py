"""Greenlets of gevent that wait for locks, queues and each other, and always continue.

A holder sleeps by a timer, reads from a socket, or runs in another thread's hub. A lock is acquired by one greenlet and
released by another, also while the first one is inside a `with` block of it. Two greenlets share a semaphore of two.
Locks are taken in opposite order, but with a timeout, or by greenlets that another one kills.

Truth: {"expect": "healthy", "packages": ["gevent"], "pythons": ["3.11"]}
"""

from typing import Any

import gevent  # type: ignore[import-not-found,import-untyped,unused-ignore]
import gevent.event  # type: ignore[import-not-found,import-untyped,unused-ignore]
import gevent.lock  # type: ignore[import-not-found,import-untyped,unused-ignore]
import gevent.queue  # type: ignore[import-not-found,import-untyped,unused-ignore]
import gevent.socket  # type: ignore[import-not-found,import-untyped,unused-ignore]

from tests.precision.programs import scene
from tests.precision.programs.green_uses import Greenlets, goes_on

green = Greenlets(gevent)


def kill(one: Any, other: Any) -> None:
    while goes_on():
        pair = [gevent.spawn(green.killed, one, other), gevent.spawn(use_once, other)]
        gevent.sleep(0.01)
        gevent.killall(pair)


def use_once(lock: Any) -> None:
    with lock:
        gevent.sleep(0.003)


def in_hub(*locks: Any) -> None:
    gevent.joinall([gevent.spawn(green.use, lock) for lock in locks])


def main() -> None:
    make = gevent.lock.BoundedSemaphore
    slow, shared, pair, handed, left, late, dying = (make(), make(), gevent.lock.Semaphore(2), make(), make(),
                                                     [make(), make()], [make(), make()])
    recursive, guard, queue = [gevent.lock.RLock(), gevent.lock.RLock()], make(), gevent.queue.Queue(3)
    taken, gone, back = gevent.queue.Queue(), gevent.queue.Queue(), gevent.queue.Queue()
    one, other = gevent.socket.socketpair()
    thread = scene.thread("hub", in_hub, shared)
    scene.ready()
    gevent.joinall([gevent.spawn(*each) for each in (
            (green.use, slow), (green.use, slow), (green.use, slow), (green.use, shared), (green.use, shared),
            (green.use_both, pair, slow), (green.use_both, slow, make()), (green.use_both, pair, recursive[0]),
            (green.use_both, recursive[0], recursive[1]), (green.use_both, recursive[0], pair),
            (green.use_in_time, *late), (green.use_in_time, *reversed(late)), (green.acquire_in_time, *late),
            (kill, *dying), (green.lock_for_another, handed, taken), (green.release_for_another, handed, taken),
            (green.inside, left, gone, back), (green.release_inside, left, gone, back), (green.use, left),
            (green.produce, one), (green.feed, other, queue, guard), (green.consume, queue), (green.use, guard))],
        raise_error=True)
    thread.join()


if __name__ == "__main__":
    main()
