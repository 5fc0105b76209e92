"""SQLite, which sleeps and tries again while another connection has a database locked."""

from __future__ import annotations

from typing import Final

from gdbext.library import Library


def _waits(seconds: int, path: str | None = None, by: str | None = None) -> str:
    which = f"the SQLite database {path}" if path else "an SQLite database"
    return f"has tried for {seconds} s to lock {which}" + (f", which {by} has locked" if by else "")


LIBRARY: Final = Library(
    "sqlite",
    files=r"(?:lib|_)sqlite3\b",
    kinds={},
    words={"waits-for-database": _waits},
)
