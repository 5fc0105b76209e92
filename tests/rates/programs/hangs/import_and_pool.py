"""A module uses a process pool while it is imported; the pool's thread needs the import lock of that module.

Truth: {"expect": "hang", "says": "import|at_import|pool", "statuses": [1]}
"""

import os
import sys

with open("at_import.py", "w") as file:
    file.write("""
import multiprocessing

class Item:
    def __reduce__(self):
        from at_import import items
        return int, (1,)

with multiprocessing.get_context("fork").Pool(1) as pool:
    pool.apply_async(abs, (Item(),)).get()
""")
sys.path.insert(0, ".")
print('{"pid": %d}' % os.getpid(), flush=True)
import at_import
