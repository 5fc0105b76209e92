"""pybind/pybind11#4877: the initialiser of a C++ `static` takes the GIL; the thread that waits for it holds the GIL.

A C++ function with a local `static` is called by one thread without the GIL and by another with it. The first one
initialises the static, which takes a call into Python; the other waits for that, and keeps the GIL.

Truth: {"expect": "deadlock", "pythons": ["3.11", "3.13"],
        "edges": [["main", "static-guard", "worker"], ["worker", "gil", "main"]]}
"""

from tests.precision.programs import scene

GUARD = 4


def initialise() -> None:
    print("never printed")


if __name__ == "__main__":
    callback = scene.Callback(initialise)
    free, keeping = scene.native(), scene.native(gil=True)
    scene.thread("worker", free.inside, GUARD, callback)
    free.await_inside(1)
    scene.ready()
    keeping.enter(GUARD)
