"""Looks at a process again and again; GDB runs this, and `harness.looks_at` is at the other end of its pipe.

For each snapshot a line goes into the pipe: the JSON document of `py-deadlocks`, or what went wrong. Then the process
goes on until the harness sends it a signal. At the end a core is made, if one is wanted.
"""

import json
import os

import gdb

# GDB takes every signal first: the process gets its own as before, and one is for us
gdb.execute("handle all nostop noprint pass", to_string=True)
gdb.execute(f"handle {os.environ['PRECISION_SIGNAL']} stop print nopass", to_string=True)
with open(int(os.environ["PRECISION_PIPE"]), "w") as pipe:
    for _ in range(int(os.environ["PRECISION_LOOKS"])):
        try:
            told = {"document": json.loads(gdb.execute("py-deadlocks --json", to_string=True))}
        except (gdb.error, ValueError) as error:
            told = {"failed": str(error)}
        print(json.dumps(told), file=pipe, flush=True)
        gdb.execute("continue", to_string=True)
if "PRECISION_CORE" in os.environ:
    gdb.execute(f"generate-core-file {os.environ['PRECISION_CORE']}", to_string=True)
