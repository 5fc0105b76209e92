"""cython/cython#6999: the GIL and a native lock in either order, where one side only tries and gives way.

Some threads take the library's mutex without the GIL and call back into Python under it. Others have the GIL and try
the mutex, one of them for a few milliseconds; when they do not get it they give up the GIL for a moment.

Truth: {"expect": "healthy"}
"""

import time

from tests.precision.programs import scene

MUTEX = 0
counted = 0


def count() -> None:
    global counted
    for _ in range(50):
        counted += 1


def from_native() -> None:
    free = scene.native()
    while not scene.stopping.is_set():
        free.inside(MUTEX, callback)


def from_python(milliseconds: int) -> None:
    keeping = scene.native(gil=True)
    while not scene.stopping.is_set():
        while not keeping.try_mutex(milliseconds):
            time.sleep(0)
        count()
        keeping.unlock_mutex()


if __name__ == "__main__":
    callback = scene.Callback(count)
    scene.native().let_in()
    threads = [scene.thread(f"native-{number}", from_native) for number in range(3)]
    threads += [scene.thread(f"python-{number}", from_python, 4 * (number == 0)) for number in range(3)]
    scene.ready()
    for thread in threads:
        thread.join()
