"""bpo-1731717: threads that start subprocesses and wait for them, all the time.

Truth: {"expect": "healthy"}
"""

import subprocess
import threading

from tests.precision.programs import scene

starting = threading.Lock()


def work() -> None:
    while not scene.stopping.is_set():
        with starting:
            process = subprocess.Popen(["/bin/true"], stdout=subprocess.PIPE)
        process.communicate()
        assert process.returncode == 0


if __name__ == "__main__":
    threads = [scene.thread(f"thread-{number}", work) for number in range(3)]
    scene.ready()
    for thread in threads:
        thread.join()
