"""Auterion/libmav-python#11, after the fix: the mutex is always taken without the GIL, and callbacks take the GIL.

Seen from outside it looks much like the deadlock: threads hold the mutex and want the GIL, others want the mutex.
The holder of the GIL computes, and releases it soon.

Truth: {"expect": "healthy"}
"""

from tests.precision.programs import scene

MUTEX = 0


def receive() -> None:
    sum(range(2000))


def work(computing: bool) -> None:
    free = scene.native()
    while not scene.stopping.is_set():
        if computing:
            sum(range(20000))
            free.pass_mutex()
        else:
            free.inside(MUTEX, callback)


if __name__ == "__main__":
    callback = scene.Callback(receive)
    scene.native().let_in()
    threads = [scene.thread(f"thread-{number}", work, number % 2 == 0) for number in range(6)]
    scene.ready()
    work(True)
    for thread in threads:
        thread.join()
