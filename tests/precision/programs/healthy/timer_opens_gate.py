"""bpo-8844: the main thread waits for the action of a signal handler, which a timer of the kernel triggers.

Between two signals all threads wait without a timeout, and for one another, judging by the locks.

Truth: {"expect": "healthy"}
"""

import contextlib
import signal
import threading
from types import FrameType
from typing import Optional

from tests.precision.programs import scene

# a plain lock, which the handler may release whatever it interrupts
gate, work = threading.Lock(), threading.Semaphore(0)


def on_timer(number: int, frame: Optional[FrameType]) -> None:
    # not after a check whether it is locked: the next signal may be handled in between
    with contextlib.suppress(RuntimeError):
        gate.release()


def do_work() -> None:
    while not scene.stopping.is_set():
        work.acquire()


if __name__ == "__main__":
    scene.listen()
    worker = scene.thread("worker", do_work)
    signal.signal(signal.SIGALRM, on_timer)
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
    scene.ready()
    while not scene.stopping.is_set():
        gate.acquire()
        work.release()
    signal.setitimer(signal.ITIMER_REAL, 0)
    work.release()
    worker.join()
