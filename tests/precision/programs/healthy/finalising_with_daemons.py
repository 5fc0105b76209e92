"""bpo-1856: the interpreter finalises while daemon threads request the GIL; they stop forever where they are.

The end of this program takes its time: an object in a module has a destructor that waits for SIGTERM. The daemon
threads hold locks and wait for the GIL, which the main thread holds. They never continue, as intended.

Truth: {"expect": "healthy"}
"""

import ctypes
import functools
import signal
import threading

from tests.precision.programs import scene

lock = threading.Lock()


def compute() -> None:
    while True:
        with lock:
            sum(range(100))


class Last:
    def __init__(self) -> None:
        # with the GIL, and not interrupted; kept here, because the module's names are gone then
        signals = (ctypes.c_ulong * 16)(1 << signal.SIGTERM - 1)
        self.wait = functools.partial(ctypes.PyDLL(None).sigwait, signals, ctypes.byref(ctypes.c_int()))

    def __del__(self) -> None:
        self.wait()


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    for number in range(3):
        scene.thread(f"daemon-{number}", compute)
    signal.last = Last()  # type: ignore[attr-defined]
    scene.ready()
