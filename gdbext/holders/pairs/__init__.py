"""The functions that acquire and release locks whose owner is not recorded, by lock kind.

The rules (`proofs/rules.py`) look for calls of these functions in the machine code of every frame. Names are those of
dynamic symbols, so C++ names are mangled. The modules here are for locks of the C library, of C++ and of Python; those
of libraries are in their folders.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final

from gdbext.libraries import LIBRARIES
from gdbext.model.kinds import LockKind

if TYPE_CHECKING:
    from gdbext.proofs.pairs import Pairs

_OWN: Final[Mapping[LockKind, str]] = {
    **dict.fromkeys(("rwlock", "spin-lock", "mutex", "semaphore", "once"), "posix"),
    "static-guard": "cxx",
    "py-mutex": "python",
}
#: The modules with the rows, by kind. Most locks record their owner, and these modules take as long to load as a small
#: snapshot.
KINDS: Final[Mapping[LockKind, str]] = {
    **{kind: f"gdbext.holders.pairs.{name}" for kind, name in _OWN.items()},
    **{kind: f"gdbext.libraries.{library.folder}.pairs" for library in LIBRARIES for kind in library.proven},
}


def pairs_of(kind: LockKind) -> Pairs:
    """The row of a kind."""
    rows: Mapping[LockKind, Pairs] = import_module(KINDS[kind]).PAIRS
    return rows[kind]
