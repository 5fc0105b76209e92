"""pola-rs/polars#14219: a query in the child of fork, after one in the parent, hangs.

The threads of Polars' pool, which the query is handed to, are not in the child. The only thread there waits on a
condition variable of rayon for a result that nobody computes.

Truth: {"expect": "deadlock", "standstill": true, "packages": ["polars"], "pythons": ["3.11"],
        "edges": [["main", "rust-condvar", null]]}
"""

import os
import warnings

import polars  # type: ignore[import-not-found,import-untyped,unused-ignore]

from tests.precision.programs import scene


def query() -> object:
    frame = polars.DataFrame({"key": [number % 7 for number in range(10000)], "value": list(range(10000))})
    return frame.lazy().group_by("key").agg(polars.col("value").sum()).sort("key").collect()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    query()
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    else:
        scene.ready()
        query()
