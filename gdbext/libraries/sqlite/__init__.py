"""SQLite, which sleeps and tries again while another connection has a database locked."""

from __future__ import annotations

from typing import Final

from gdbext.library import Kind, Library


def _waits(seconds: int, path: str | None = None, by: str | None = None) -> str:
    which = f"the SQLite database {path}" if path else "an SQLite database"
    return f"has tried for {seconds} s to lock {which}" + (f", which {by} has locked" if by else "")


#: A database that this process has locked, and that a thread of it tries to lock without an end.
DATABASE: Final = "sqlite-database"

LIBRARY: Final = Library(
    "sqlite",
    files=r"(?:lib|_)sqlite3\b",
    kinds={DATABASE: Kind(
        "none: a connection does not know the threads that use it", name="SQLite database",
        waiters="wake", waited_in="SQLite's busy handler, without an end")},
    words={"waits-for-database": _waits, "tries-again": "the thread has tried for {seconds} s"},
)
