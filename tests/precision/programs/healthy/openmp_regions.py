"""joblib/threadpoolctl#40: OpenMP regions from a pool of Python threads, and a team that is idle in between.

Truth: {"expect": "healthy"}
"""

import concurrent.futures
import os

from tests.precision.programs import scene

if __name__ == "__main__":
    os.environ["OMP_WAIT_POLICY"] = "passive"
    free = scene.native()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        free.make_team()
        scene.ready()
        while not scene.stopping.is_set():
            for future in [pool.submit(free.sum_up, 2000) for _ in range(10)]:
                future.result()
