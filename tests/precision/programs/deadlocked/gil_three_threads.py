"""boostorg/python#11, from the discussion: a `shared_ptr` whose destructor takes the GIL, under the program's locks.

Three threads form the cycle: one has the GIL and waits for lock A, one has A and waits for B, one has B and drops the
last reference to a Python object.

Truth: {"expect": "deadlock", "pythons": ["3.11", "3.13"],
        "edges": [["main", "mutex", "first"], ["first", "mutex", "second"], ["second", "gil", "main"]],
        "behind": ["fourth"]}
"""

from tests.precision.programs import scene

A, B = 0, 6


def drop() -> None:
    print("never printed")


if __name__ == "__main__":
    callback = scene.Callback(drop)
    free, keeping = scene.native(), scene.native(gil=True)
    scene.thread("second", free.inside, B, callback)
    free.await_inside(1)
    scene.thread("first", free.inside, A, free.pass_inner)
    free.await_inside(2)
    scene.thread("fourth", free.lock_mutex)
    scene.ready()
    keeping.enter(A)
