"""The documentation of `Popen.wait`: it hangs when the child's output fills a pipe without a reader.

The main thread waits for the child to end, the child for a reader. No lock is involved, and the child waits for
another process; no two threads of this one wait for each other.

Truth: {"expect": "hang"}
"""

import subprocess
import sys

from tests.precision.programs import scene

if __name__ == "__main__":
    process = subprocess.Popen([sys.executable, "-c", "print('x' * 1000000)"], stdout=subprocess.PIPE)
    scene.ready()
    process.wait()
