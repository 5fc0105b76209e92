"""ViennaTools/ViennaLS#12: a parallel region is entered with the GIL held, and its threads call Python.

The main thread has done its part and waits, with the GIL, at the barrier that ends the region; the other threads of
the team want the GIL for the velocity field, which is written in Python.

Truth: {"expect": "deadlock", "pythons": ["3.11", "3.13"],
        "edges": [["main", "openmp-barrier", "team-1"], ["main", "openmp-barrier", "team-2"],
                  ["team-1", "gil", "main"], ["team-2", "gil", "main"]]}
"""

import os

from tests.precision.programs import scene


def velocity() -> None:
    print("never printed")


if __name__ == "__main__":
    os.environ["OMP_WAIT_POLICY"] = "passive"
    callback = scene.Callback(velocity)
    free, keeping = scene.native(), scene.native(gil=True)
    free.make_team()
    scene.discover("team-1", "team-2")
    scene.ready()
    keeping.advect(callback)
