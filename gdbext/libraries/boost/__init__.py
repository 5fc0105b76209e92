"""Boost: `boost::shared_mutex`, which is in a header, so its code may be in any file."""

from __future__ import annotations

from typing import Final

from gdbext.library import Kind, Library

LIBRARY: Final = Library(
    "boost",
    files=None,
    kinds={
        "boost-shared-mutex": Kind(
            "not recorded, readers are counted: derived where the machine code of a thread proves it, candidates "
            "otherwise", name="boost::shared_mutex", behaviour="rwlock",
            waited_in="`boost::shared_mutex::lock`, `lock_shared`, `lock_upgrade`"),
    },
    terms={
        "shared-mutex": "a boost::shared_mutex",
    },
    proven=("boost-shared-mutex",),
)
