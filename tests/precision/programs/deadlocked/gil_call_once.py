"""pybind/pybind11#4877, from the review: `std::call_once` under the GIL, and the function that it calls takes the GIL.

The review explains why the GIL must be given up before `std::call_once`: a thread that has the GIL waits for the one
that runs the function, which gave the GIL up on the way and waits to get it back.

Truth: {"expect": "deadlock", "pythons": ["3.11", "3.13"],
        "edges": [["main", "once", "worker"], ["worker", "gil", "main"]]}
"""

from tests.precision.programs import scene

ONCE = 3


def initialise() -> None:
    print("never printed")


if __name__ == "__main__":
    callback = scene.Callback(initialise)
    free, keeping = scene.native(), scene.native(gil=True)
    scene.thread("worker", free.inside, ONCE, callback)
    free.await_inside(1)
    scene.ready()
    keeping.enter(ONCE)
