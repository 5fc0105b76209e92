"""A module starts a thread while it is imported and joins it; the thread imports the same module.

Truth: {"expect": "hang", "says": "import|at_import", "statuses": [1], "core": true}
"""

import os
import sys

with open("at_import.py", "w") as file:
    file.write("""
import threading

def load():
    from at_import import settings

thread = threading.Thread(target=load, name="load")
thread.start()
thread.join()
settings = {}
""")
sys.path.insert(0, ".")
print('{"pid": %d}' % os.getpid(), flush=True)
import at_import
