"""pybind/pybind11#1446: a destructor joins a thread, with the GIL held, and that thread calls back into Python.

The destructor of a bound C++ class stops its worker thread and waits for it. pybind11 runs destructors with the GIL
held, and the worker was just about to call a Python function.

A thread that stops the world for its first thread state is recorded nowhere, and awake for some microseconds of each
millisecond.

Truth: {"expect": "deadlock", "silent": ["live-3.13t", "core-3.13t"],
        "edges": [["main", "thread-exit", "worker"], ["worker", "gil|stop-the-world", "main"]]}
"""

from tests.precision.programs import scene


def progress() -> None:
    print("never printed")


if __name__ == "__main__":
    callback = scene.Callback(progress)
    free, keeping = scene.native(), scene.native(gil=True)
    free.start_worker(callback)
    scene.discover("worker")
    scene.ready()
    keeping.join_worker()
