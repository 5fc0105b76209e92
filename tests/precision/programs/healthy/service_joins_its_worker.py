"""bpo-35935: the main thread joins a thread that waits for an event; Ctrl-C or SIGTERM sets it, in a signal handler.

The main thread waits for the other thread, and that one for an event that only a signal triggers.

Truth: {"expect": "healthy"}
"""

from tests.precision.programs import scene

if __name__ == "__main__":
    scene.listen()
    worker = scene.thread("worker", scene.stopping.wait)
    scene.ready()
    worker.join()
