"""grpc/grpc#22624: the child of fork waits for a mutex of the C++ core that a thread of the parent had.

A thread of the library holds its mutex while another forks. The mutex records its owner, which is not in the child.

Truth: {"expect": "deadlock", "standstill": true,
        "edges": [["main", "mutex", null]]}
"""

import os
import threading

from tests.precision.programs import scene

held = threading.Event()


def poll() -> None:
    scene.native().lock_mutex()
    held.set()
    scene.stopping.wait()


if __name__ == "__main__":
    scene.thread("poller", poll)
    held.wait()
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    else:
        scene.ready()
        scene.native().lock_mutex()
