"""birdnet-team/birdnet#73, before anything goes wrong: a worker process whose threads wait for other processes.

The inspected process is a child: its main thread waits for a semaphore that is shared with its parent. No
thread of the child will ever post it, another process may.

Truth: {"expect": "healthy"}
"""

import multiprocessing
import os
import sys
import threading

from tests.precision.programs import scene

if __name__ == "__main__":
    semaphore = multiprocessing.get_context("fork").Semaphore(0)
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        sys.exit(os.waitstatus_to_exitcode(status))
    scene.thread("helper", threading.Event().wait)
    with scene.until_told():
        scene.ready()
        semaphore.acquire()
