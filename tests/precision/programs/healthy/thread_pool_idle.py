"""bpo-24882: a `ThreadPoolExecutor` keeps its threads; without work all of them are idle.

A service that has done its first jobs and waits for a signal: the main thread in `pause`, the workers idle.

Truth: {"expect": "healthy"}
"""

import concurrent.futures
import signal

from tests.precision.programs import scene

if __name__ == "__main__":
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(len, ["a" * n for n in range(20)])) == 190
        with scene.until_told():
            scene.ready()
            signal.pause()
