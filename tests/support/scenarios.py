"""The cases of tests/gdb that docs/support.md lists, by interpreter and system."""

from __future__ import annotations

import itertools

from tests.support import combinations, interpreters, samples

#: Deadlocks of the GIL and a driver's lock: interpreter, kind of lock, target.
RAPIDS_TARGETS = ("live", "gcore", "kernel-core")
RAPIDS_CASES = [
    *combinations.cases(interpreters.MAIN_NAMES, samples.RAPIDS_VARIANTS, RAPIDS_TARGETS),
    *combinations.cases(interpreters.FURTHER_NAMES, ("rwlock", "readers"), ("live", "kernel-core")),
    *itertools.product(interpreters.FREE_THREADED_NAMES, ("rwlock",), ("live", "kernel-core")),
]

#: Programs that embed Python: interpreter, kind of linking. A program is stripped if its interpreter is.
EMBEDDED = (
    *((name, "shared") for name in ("3.6", "3.9", "3.11", "3.12", "3.13", "debian", "3.9-stripped", "3.12-stripped")),
    *((name, "static") for name in ("3.9", "3.11", "3.12", "3.13", "debian")),
    ("3.12", "static-stripped"),
)

#: Programs with several interpreters: version, relation of the interpreters.
SUBINTERPRETERS = [
    *itertools.product(("3.8", "3.9", "3.11", "3.12", "3.13", "debian", "3.9-stripped"), ("shared",)),
    *itertools.product(("3.8", "3.11", "3.12"), ("ended",)),
    *itertools.product(("3.12", "3.13", "3.12-stripped", "3.13-stripped"), ("own",)),
]

#: Programs in which Python is not running.
NOT_RUNNING = ("3.6", "3.8", "3.9", "3.11", "3.12", "3.13", "debian", "3.9-stripped", "3.13-stripped")
#: Programs that end while a daemon thread requests the GIL: every outcome of such a request occurs.
ENDING = ("3.8", "3.12", "3.13", "debian", "sid-3.13", "sid-3.14", "sid-3.15")

#: The programs that run in the tree of each release: sample, variant.
ROOT_SCENARIOS = (
    *(("rapids", variant) for variant in samples.RAPIDS_VARIANTS),
    *(("abba", variant) for variant in samples.ABBA_VARIANTS),
)
#: Further interpreters that Debian packages: name, kind of lock.
ROOT_PYTHON_CASES = [
    (name, variant)
    for name in interpreters.ROOT_PYTHONS
    for variant in (("rwlock",) if name.endswith("-dbg") else ("rwlock", "readers"))
]
