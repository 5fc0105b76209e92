"""OpenMathLib/OpenBLAS#2197: matrix products in several Python threads, and the pool of OpenBLAS in between.

Truth: {"expect": "healthy", "packages": ["numpy"], "pythons": ["3.11"]}
"""

import numpy  # type: ignore[import-not-found,import-untyped,unused-ignore]

from tests.precision.programs import scene


def work() -> None:
    matrix = numpy.ones((120, 120))
    while not scene.stopping.is_set():
        assert (matrix @ matrix)[0, 0] == 120
        numpy.sort(numpy.arange(2000.0)[::-1])


if __name__ == "__main__":
    threads = [scene.thread(f"thread-{number}", work) for number in range(3)]
    with scene.until_told():
        scene.ready()
        threads[0].join()
    for thread in threads:
        thread.join()
