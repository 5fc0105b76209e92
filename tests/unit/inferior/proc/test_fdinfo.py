"""What a descriptor's fdinfo says."""

from __future__ import annotations

import pytest

from gdbext.inferior.proc.fdinfo import FileLock


@pytest.mark.parametrize(("lock", "wanted", "overlap"), [
    ((0, None), (0, None), True), ((0, None), (100, 109), True), ((105, 105), (100, 109), True),
    ((110, None), (100, 109), False), ((0, 99), (100, 109), False), ((0, 99), (99, None), True)])
def test_overlaps(lock: tuple[int, int | None], wanted: tuple[int, int | None], overlap: bool) -> None:
    assert FileLock("POSIX", True, 1, "", *lock).overlaps(*wanted) == overlap
