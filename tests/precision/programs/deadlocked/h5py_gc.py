"""h5py/h5py#2019, with h5py itself: its global lock, which is made in Cython, and a collection in a service thread.

The main thread has h5py's lock and waits for a service thread; there the garbage collector frees an h5py object, which
takes the lock.

Truth: {"expect": "deadlock", "silent": ["live", "core"], "standstill": true, "packages": ["h5py"], "pythons": ["3.11"],
        "edges": [["service", "py-fast-rlock", "main"], ["main", "py-condition|py-event|py-lock|semaphore", null]]}
"""

import concurrent.futures
import gc

import h5py  # type: ignore[import-not-found,import-untyped,unused-ignore]
from h5py._objects import phil  # type: ignore[import-not-found,import-untyped,unused-ignore]

from tests.precision.programs import scene


def make_garbage() -> None:
    cycle = [h5py.File("data", "w", driver="core", backing_store=False).id]
    cycle.append(cycle)


def fetch() -> bytes:
    scene.ready()
    gc.collect()
    return b""


if __name__ == "__main__":
    gc.disable()
    make_garbage()
    fsspec = concurrent.futures.ThreadPoolExecutor(1, initializer=scene.enrol, initargs=("service",))
    with phil:
        fsspec.submit(fetch).result()
