"""h5py/h5py#2019: a finaliser waits for a lock whose holder waits for the finaliser's thread.

HDF5 calls back into Python under h5py's global lock, an RLock. The callback asks a service thread for data; garbage
collection in that thread frees an h5py object, which takes the global lock.

Truth: {"expect": "deadlock", "standstill": true,
        "edges": [["service", "py-rlock", "main"], ["main", "py-condition", "service"]]}
"""

from __future__ import annotations

import concurrent.futures
import gc
import threading

from tests.precision.programs import scene

phil = threading.RLock()


class ObjectID:
    """In a cycle with itself, so that only the garbage collector frees it."""

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        with phil:
            pass


def fetch() -> bytes:
    ObjectID()
    scene.ready()
    gc.collect()
    return b""


if __name__ == "__main__":
    gc.disable()
    fsspec = concurrent.futures.ThreadPoolExecutor(1, initializer=scene.enrol, initargs=("service",))
    with phil:
        fsspec.submit(fetch).result()
