"""python/cpython#120998: `Popen` hangs in `os.read(errpipe_read)`, because its child hangs before exec.

With `preexec_fn` the child runs Python between fork and exec. This child waits for a lock that another parent's thread
held to protect the settings.

Truth: {"expect": "deadlock", "standstill": true,
        "edges": [["main", "py-lock|semaphore", null]]}
"""

import subprocess
import sys
import threading

from tests.precision.programs import scene

settings = threading.Lock()
held = threading.Event()


def change_settings() -> None:
    with settings:
        held.set()
        scene.stopping.wait()


def limit_resources() -> None:
    scene.ready()
    with settings:
        print("never printed")


if __name__ == "__main__":
    scene.thread("worker", change_settings)
    held.wait()
    subprocess.Popen([sys.executable, "-c", ""], preexec_fn=limit_resources)
