"""The documentation of `threading.Lock`: any thread may release it; here as a gate, for two threads in turn.

Each of two threads takes its own gate twice; the other one releases it in between. The thread that took a gate is not
the one who must open it.

Truth: {"expect": "healthy"}
"""

import threading

from tests.precision.programs import scene

ping, pong = threading.Lock(), threading.Lock()


def play(own: threading.Lock, other: threading.Lock) -> None:
    while True:
        own.acquire()
        if scene.stopping.is_set():
            other.release()
            return
        other.release()


if __name__ == "__main__":
    ping.acquire()
    threads = [scene.thread("ping", play, ping, pong), scene.thread("pong", play, pong, ping)]
    scene.ready()
    threads[0].join()
