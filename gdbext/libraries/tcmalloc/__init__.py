"""tcmalloc. jemalloc uses pthread mutexes, and mimalloc has no locks for which threads sleep."""

from __future__ import annotations

from typing import Final

from gdbext.library import Kind, Library

LIBRARY: Final = Library(
    "tcmalloc",
    files=r"libtcmalloc(?:_[a-z_]+)?(?:-[0-9a-f]+)?\.so[.0-9]*$",
    kinds={
        "allocator-lock": Kind(
            "inferred: the only thread inside the allocator, candidates otherwise", name="lock of tcmalloc",
            waited_in="`malloc` and `free` of tcmalloc"),
    },
    terms={
        "tcmalloc": "tcmalloc",
    },
    finds_holders=("allocator-lock",),
)
