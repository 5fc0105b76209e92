"""python/cpython#4071, from its description: queues of `QueueHandler` are full of locks that fork leaves as they are.

A thread puts a job into a priority queue, which compares it with others under the queue's mutex; then the process
forks, and the child uses the queue.

Truth: {"expect": "deadlock", "standstill": true,
        "edges": [["main", "py-lock|semaphore", null]]}
"""

from __future__ import annotations

import os
import queue
import threading

from tests.precision.programs import scene

comparing = threading.Event()


class Job:
    def __lt__(self, other: Job) -> bool:
        comparing.set()
        scene.stopping.wait()
        return True


if __name__ == "__main__":
    jobs: queue.PriorityQueue[Job] = queue.PriorityQueue()
    jobs.put(Job())
    scene.thread("worker", jobs.put, Job())
    comparing.wait()
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    else:
        scene.ready()
        jobs.put(Job())
