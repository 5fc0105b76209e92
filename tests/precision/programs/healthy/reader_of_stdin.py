"""eXeC64/imv#282, in Python: a thread waits for input, and others for the stream that it reads from.

The thread that reads from a `BufferedReader` holds its lock until there is input; a second reader waits for the lock.

Truth: {"expect": "healthy"}
"""

import os
import sys
import threading

from tests.precision.programs import scene

if __name__ == "__main__":
    reading, writing = os.pipe()
    file = open(reading, "rb")  # noqa: SIM115
    threads = [scene.thread(f"reading-{number}", file.read, 1) for number in range(3)]
    scene.thread("console", sys.stdin.readline)
    with scene.until_told():
        scene.ready()
        threading.Event().wait()
    os.write(writing, b"xyz")
    for thread in threads:
        thread.join()
