"""ray-project/ray#17980: a module that is being imported waits for a thread that imports it.

The module starts a thread at import time and joins it. The thread imports the same module for a name in it, and waits
for the lock of the module, which the importing thread has until the import is done.

Truth: {"expect": "deadlock",
        "edges": [["main", "thread-exit|py-lock|py-event|semaphore", "importer"],
                  ["importer", "py-import|py-lock|py-rlock|semaphore", "main"]]}
"""

import importlib
import sys
from pathlib import Path

if __name__ == "__main__":
    Path("actors.py").write_text("from tests.precision.programs.deadlocked.import_joins_thread import start\nstart()\n")
    sys.path.insert(0, "")
    importlib.import_module("actors")


def start() -> None:
    from tests.precision.programs import scene

    thread = scene.thread("importer", importlib.import_module, "actors")
    scene.ready()
    thread.join()
