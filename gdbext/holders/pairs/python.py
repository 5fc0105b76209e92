"""Locks of CPython that native code takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gdbext.model.kinds import LockKind
from gdbext.proofs.flow.atomics import Inlined
from gdbext.proofs.functions import Call, calls
from gdbext.proofs.pairs import Pairs

PAIRS: Final[Mapping[LockKind, Pairs]] = {
    # CPython 3.13 and 3.14 Include/cpython/lock.h: 1 is locked, 3 is locked with waiting threads. Code in C and C++
    # inlines the first attempt, and the release of a mutex that nobody waits for
    "py-mutex": Pairs((Call("PyMutex_Lock", after_attempt=True),), calls("PyMutex_Unlock"),
                      inlined=Inlined(1, frozenset((1,)), frozenset(("exchanges", "compares", "computes")))),
}
