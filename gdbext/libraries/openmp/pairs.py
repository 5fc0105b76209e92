"""Locks and critical sections of OpenMP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gdbext.model.kinds import LockKind
from gdbext.proofs.functions import calls
from gdbext.proofs.pairs import Pairs

PAIRS: Final[Mapping[LockKind, Pairs]] = {
    # GCC 12 libgomp/config/linux/lock.c and critical.c: on Linux, the lock of a named section is in the variable that
    # the argument points to
    "openmp-lock": Pairs(
        calls("omp_set_lock omp_set_nest_lock GOMP_critical_name_start")
        + calls("GOMP_critical_start", argument=None) + calls("omp_test_lock omp_test_nest_lock", "not zero"),
        calls("omp_unset_lock omp_unset_nest_lock GOMP_critical_name_end")
        + calls("GOMP_critical_end", argument=None)),
}
