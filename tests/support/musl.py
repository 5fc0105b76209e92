"""Programs that are linked with musl."""

from __future__ import annotations

import shutil

#: Debian has it in the package musl-tools.
COMPILER = shutil.which("musl-gcc")
#: How the programs of tests/gdb/test_musl.py are linked: the flags.
LINKED = {"shared": ["-g"], "static": ["-g", "-static"], "stripped": ["-static", "-s"],
          "hardened": ["-fPIE", "-pie", "-s"]}
#: What they wait for, by the arguments of tests/samples/musl_locks.c; the last two are innocent.
WAYS = ("abba", "rwlock", "condvar", "semaphore", "barrier", "join", "busy", "pool")
