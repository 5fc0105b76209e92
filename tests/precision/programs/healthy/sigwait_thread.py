"""bpo-8407: a thread that receives the signals of the process with `sigwait`, while the others wait for its message.

Truth: {"expect": "healthy"}
"""

import signal
import threading

from tests.precision.programs import scene

told = threading.Condition()
reasons = []


def receive() -> None:
    reasons.append(signal.sigwait({signal.SIGTERM}))
    with told:
        told.notify_all()


def wait() -> None:
    with told:
        told.wait_for(lambda: reasons)


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    scene.thread("signals", receive)
    threads = [scene.thread(f"waiting-{number}", wait) for number in range(3)]
    scene.ready()
    for thread in threads:
        thread.join()
