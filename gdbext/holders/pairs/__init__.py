"""The functions that acquire and release locks whose owner is not recorded, by lock kind: a module for each library.

The rules (`proofs/rules.py`) look for calls of these functions in the machine code of every frame. A new lock kind
needs a row in the module of its library, and its name here. Names are those of dynamic symbols, so C++ names are
mangled.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final

from gdbext.model.kinds import LockKind

if TYPE_CHECKING:
    from gdbext.proofs.pairs import Pairs

#: The modules of the libraries, by the kinds of locks that they have a row for. Most locks record their owner, and
#: these modules take as long to load as a small snapshot.
KINDS: Final[Mapping[LockKind, str]] = {
    **dict.fromkeys(("rwlock", "spin-lock", "mutex", "semaphore", "once"), "posix"),
    "static-guard": "cxx",
    "openmp-lock": "openmp",
    "py-mutex": "python",
    **dict.fromkeys(("qt-rwlock", "qt-mutex"), "qt"),
    "absl-mutex": "absl",
    "boost-shared-mutex": "boost",
    **dict.fromkeys(("rust-mutex", "rust-rwlock", "parking-lot-mutex", "parking-lot-rwlock"), "rust"),
    "tbb-mutex": "tbb",
}


def pairs_of(kind: LockKind) -> Pairs:
    """The row of a kind."""
    rows: Mapping[LockKind, Pairs] = import_module(f"gdbext.holders.pairs.{KINDS[kind]}").PAIRS
    return rows[kind]
