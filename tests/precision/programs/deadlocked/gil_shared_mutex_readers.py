"""hoffstadt/DearPyGui#2581: mutexes of a library must be taken before the GIL, and were taken after it.

Here the library's lock is a `std::shared_mutex`. Two render threads hold it for reading and call back into Python; the
main thread, which holds the GIL, waits for it for writing.

Truth: {"expect": "deadlock", "pythons": ["3.11", "3.13"],
        "edges": [["main", "rwlock", "reader-1"], ["main", "rwlock", "reader-2"],
                  ["reader-1", "gil", "main"], ["reader-2", "gil", "main"]]}
"""

from tests.precision.programs import scene

WRITE, READ = 1, 2


def render() -> None:
    print("never printed")


if __name__ == "__main__":
    callback = scene.Callback(render)
    free, keeping = scene.native(), scene.native(gil=True)
    scene.thread("reader-1", free.inside, READ, callback)
    scene.thread("reader-2", free.inside, READ, callback)
    free.await_inside(2)
    scene.ready()
    keeping.enter(WRITE)
