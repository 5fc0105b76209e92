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


def goes_on() -> bool:
    return not scene.stopping.is_set()


def use(lock: Any) -> None:
    while goes_on():
        with lock:
            gevent.sleep(0.003)
        gevent.sleep(0)


def use_both(first: Any, second: Any) -> None:
    while goes_on():
        with first:
            gevent.sleep(0.002)
            with second:
                gevent.sleep(0.002)
        gevent.sleep(0)


def use_in_time(first: Any, second: Any) -> None:
    while goes_on():
        try:
            with gevent.Timeout(0.01), first:
                gevent.sleep(0.002)
                with second:
                    pass
        except gevent.Timeout:
            gevent.sleep(0)


def acquire_in_time(first: Any, second: Any) -> None:
    while goes_on():
        with first:
            gevent.sleep(0.002)
            if second.acquire(timeout=0.01):
                second.release()


def killed(first: Any, second: Any) -> None:
    with first:
        gevent.sleep(0.002)
        with second:
            pass


def kill(one: Any, other: Any) -> None:
    while goes_on():
        pair = [gevent.spawn(killed, one, other), gevent.spawn(use_once, other)]
        gevent.sleep(0.01)
        gevent.killall(pair)


def use_once(lock: Any) -> None:
    with lock:
        gevent.sleep(0.003)


def lock_for_another(lock: Any, taken: Any) -> None:
    while goes_on():
        lock.acquire()
        taken.put(1)
    taken.put(None)


def release_for_another(lock: Any, taken: Any) -> None:
    while taken.get() is not None:
        gevent.sleep(0.002)
        lock.release()


def inside(lock: Any, gone: Any, back: Any) -> None:
    while goes_on():
        with lock:
            # another greenlet releases the lock meanwhile, and takes it again
            gone.put(1)
            back.get()
    gone.put(None)


def release_inside(lock: Any, gone: Any, back: Any) -> None:
    while gone.get() is not None:
        lock.release()
        gevent.sleep(0.002)
        lock.acquire()
        back.put(1)


def produce(end: Any) -> None:
    while goes_on():
        end.send(b"x")
        gevent.sleep(0.001)
    end.close()


def feed(end: Any, queue: Any, lock: Any) -> None:
    while True:
        with lock:
            data = end.recv(100)
        queue.put(data)
        if not data:
            return
        gevent.sleep(0)


def consume(queue: Any) -> None:
    while queue.get():
        pass


def in_hub(*locks: Any) -> None:
    gevent.joinall([gevent.spawn(use, lock) for lock in locks])


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
        (use, slow), (use, slow), (use, slow), (use, shared), (use, shared), (use_both, pair, slow),
        (use_both, slow, make()), (use_both, pair, recursive[0]), (use_both, recursive[0], recursive[1]),
        (use_both, recursive[0], pair), (use_in_time, *late), (use_in_time, *reversed(late)),
        (acquire_in_time, *late), (kill, *dying), (lock_for_another, handed, taken),
        (release_for_another, handed, taken), (inside, left, gone, back), (release_inside, left, gone, back),
        (use, left), (produce, one), (feed, other, queue, guard), (consume, queue), (use, guard))], raise_error=True)
    thread.join()


if __name__ == "__main__":
    main()
