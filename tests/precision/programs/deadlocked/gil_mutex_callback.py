"""openpmix/openpmix#2306: the Python thread holds the GIL and waits for a library's lock, a callback the reverse.

The library calls a Python function back while it holds its lock; ctypes takes the GIL for that. The main thread calls
the same library without releasing the GIL. Two more threads wait for the GIL for other reasons.

Truth: {"expect": "deadlock", "pythons": ["3.9", "3.11", "3.12", "3.13", "debian"],
        "edges": [["main", "mutex", "worker"], ["worker", "gil", "main"]],
        "behind": ["bystander-1", "bystander-2"]}
"""

from tests.precision.programs import scene

MUTEX = 0


def completed() -> None:
    print("never printed")


def compute() -> None:
    number = 1
    while True:
        number = number * 5 % 1000003


if __name__ == "__main__":
    callback = scene.Callback(completed)
    free, keeping = scene.native(), scene.native(gil=True)
    scene.thread("worker", free.inside, MUTEX, callback)
    free.await_inside(1)
    scene.thread("bystander-1", compute)
    scene.thread("bystander-2", compute)
    scene.ready()
    keeping.enter(MUTEX)
