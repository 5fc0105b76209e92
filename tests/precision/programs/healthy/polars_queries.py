"""pola-rs/polars#14219, without a fork: queries in several Python threads, and the pool of rayon in between.

The threads of the pool are idle or hand results to each other, and the callers wait for them without a timeout.

Truth: {"expect": "healthy", "packages": ["polars"], "pythons": ["3.11"]}
"""

import polars  # type: ignore[import-not-found,import-untyped,unused-ignore]

from tests.precision.programs import scene


def query() -> None:
    frame = polars.DataFrame({"key": [number % 7 for number in range(3000)], "value": list(range(3000))})
    while not scene.stopping.is_set():
        total = frame.lazy().group_by("key").agg(polars.col("value").sum()).sort("key").collect()
        assert total["value"].sum() == 3000 * 2999 // 2


if __name__ == "__main__":
    threads = [scene.thread(f"thread-{number}", query) for number in range(2)]
    scene.ready()
    query()
    for thread in threads:
        thread.join()
