"""What is shown of a process that ended without an answer."""

from __future__ import annotations

import resource

import pytest

from gdbext.launcher.snapshots.said import last_line, memory_hint


@pytest.mark.parametrize(("said", "line"), [
    ("", ""), ("\0", ""), ("Fatal error\n\0\n", "Fatal error"), ("first\nlast\n", "last"), ("a\x1b[2Jb", "a[2Jb"),
    ("out of memory\n \t\n\0\0", "out of memory")])
def test_last_line_has_something_to_read(said: str, line: str) -> None:
    assert last_line(said) == line


@pytest.mark.parametrize(("limit", "says"), [(resource.RLIM_INFINITY, ""), (150 << 20, "150 MiB")])
def test_limit_on_memory_is_named(limit: int, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (limit, limit))
    assert says in memory_hint()
    assert bool(memory_hint()) == bool(says)
