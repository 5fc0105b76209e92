"""duckdb/duckdb#10854: at exit a static object joins the worker threads, and one of them waits for the GIL.

The task scheduler joins its threads in its destructor, here one that `exit` runs, while its caller has the GIL; a
worker is to release a Python object and asks for the GIL.

A thread that stops the world for its first thread state is recorded nowhere, and awake for some microseconds of each
millisecond.

Truth: {"expect": "deadlock", "silent": ["live-3.13t", "core-3.13t"],
        "edges": [["main", "thread-exit", "worker"], ["worker", "gil|stop-the-world", "main"]]}
"""

import ctypes

from tests.precision.programs import scene


def release() -> None:
    print("never printed")


if __name__ == "__main__":
    callback = scene.Callback(release)
    scene.native().start_worker(callback)
    scene.discover("worker")
    scene.ready()
    ctypes.PyDLL(None).exit(0)
