"""Static variables of C++ functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gdbext.model.kinds import LockKind
from gdbext.proofs.functions import calls
from gdbext.proofs.pairs import Pairs

PAIRS: Final[Mapping[LockKind, Pairs]] = {
    # Itanium C++ ABI 3.3.3: the result is 1 if this thread is to run the initialiser
    "static-guard": Pairs(
        calls("__cxa_guard_acquire", "not zero"), calls("__cxa_guard_release __cxa_guard_abort")),
}
