"""The cases of tests/gdb that docs/support.md lists: which interpreters and systems are tested with what, and how."""

from __future__ import annotations

import itertools

from tests.support import combinations, interpreters, samples

#: The deadlock of GIL and driver lock: interpreter, kind of lock, target.
RAPIDS_TARGETS = ("live", "gcore", "kernel-core")
RAPIDS_CASES = [
    *combinations.cases(interpreters.MAIN_NAMES, samples.RAPIDS_VARIANTS, RAPIDS_TARGETS),
    *combinations.cases(interpreters.FURTHER_NAMES, ("rwlock", "readers"), ("live", "kernel-core")),
    *itertools.product(interpreters.FREE_THREADED_NAMES, ("rwlock",), ("live", "kernel-core")),
]

#: Programs that embed Python: interpreter, how it is linked; a program with a stripped interpreter is stripped too.
EMBEDDED = (
    *((name, "shared") for name in ("3.6", "3.9", "3.11", "3.12", "3.13", "debian", "3.9-stripped", "3.12-stripped")),
    *((name, "static") for name in ("3.9", "3.11", "3.12", "3.13", "debian")),
    ("3.12", "static-stripped"),
)

#: Programs with several interpreters: version, how they are related.
SUBINTERPRETERS = [
    *itertools.product(("3.8", "3.9", "3.11", "3.12", "3.13", "debian", "3.9-stripped"), ("shared",)),
    *itertools.product(("3.8", "3.11", "3.12"), ("ended",)),
    *itertools.product(("3.12", "3.13", "3.12-stripped", "3.13-stripped"), ("own",)),
]

#: Programs in which Python does not run.
NOT_RUNNING = ("3.6", "3.8", "3.9", "3.11", "3.12", "3.13", "debian", "3.9-stripped", "3.13-stripped")
#: Programs that end while a daemon thread wants the GIL; among these is all that became of a thread that asks too late.
ENDING = ("3.8", "3.12", "3.13", "debian", "sid-3.13", "sid-3.14", "sid-3.15")

#: What runs in the tree of each release: sample, variant.
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
