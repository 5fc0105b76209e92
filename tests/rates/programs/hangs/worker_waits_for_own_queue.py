"""A worker thread of a task queue waits for the result of a task that it has put into its own queue; a second thread listens for signals.

Truth: {"expect": "hang", "says": "worker.*done", "statuses": [1, 5]}
"""

import os
import queue
import threading

tasks = queue.Queue()


class Task:
    def __init__(self, function):
        self.function, self.done, self.value = function, threading.Event(), None

    def get(self):
        self.done.wait()
        return self.value


def submit(function):
    task = Task(function)
    tasks.put(task)
    return task


def worker():
    while True:
        task = tasks.get()
        task.value = task.function()
        task.done.set()


def report():
    return submit(lambda: 1).get()


threading.Thread(target=worker, name="worker", daemon=True).start()
print('{"pid": %d}' % os.getpid(), flush=True)
submit(report).get()
