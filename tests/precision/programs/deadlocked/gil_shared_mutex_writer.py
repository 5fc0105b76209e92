"""numpy/numpy#28577: a C++ `std::shared_mutex` taken with the GIL held, in the dispatch cache of ufuncs.

A thread writes to the cache, under the lock and without the GIL, and needs Python for that. Another one reads from the
cache and waits for the lock while it holds the GIL.

Truth: {"expect": "deadlock", "pythons": ["3.11", "3.13"],
        "edges": [["main", "rwlock", "writer"], ["writer", "gil", "main"]]}
"""

from tests.precision.programs import scene

WRITE, READ = 1, 2


def fill() -> None:
    print("never printed")


if __name__ == "__main__":
    callback = scene.Callback(fill)
    free, keeping = scene.native(), scene.native(gil=True)
    scene.thread("writer", free.inside, WRITE, callback)
    free.await_inside(1)
    scene.ready()
    keeping.enter(READ)
