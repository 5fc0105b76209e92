"""Pages that are read together, which were read afterwards, and which have changed."""

from __future__ import annotations

import pytest

from gdbext.errors import MemoryUnreadable
from gdbext.inferior.cache import BYPASS_PAGES, PAGE
from gdbext.targets.image import ImageMemory
from tests.support.fake_memory import FakeMemory

AT = 0x7F00_0000_0000


def memory(pages: int) -> FakeMemory:
    return FakeMemory({AT: b"".join(bytes([number]) * PAGE for number in range(pages))})


def test_pages_that_follow_each_other_are_read_at_once() -> None:
    raw = memory(8)
    image = ImageMemory(raw)
    image.take([AT + 2 * PAGE, AT, AT + PAGE, AT + 5 * PAGE])
    assert raw.reads == [(AT, 3 * PAGE), (AT + 5 * PAGE, PAGE)]
    assert image.read(AT + PAGE, 2) == b"\1\1"
    assert image.read(AT + 5 * PAGE, 1) == b"\5"
    assert len(raw.reads) == 2
    assert image.later() == set()


def test_what_is_read_later_is_known() -> None:
    image = ImageMemory(memory(8))
    image.take([AT])
    assert image.read(AT + 3 * PAGE, 1) == b"\3"
    assert image.later() == {AT + 3 * PAGE}
    assert set(image.used) == {AT, AT + 3 * PAGE}


def test_image_replaces_what_was_read_before() -> None:
    raw = memory(2)
    image = ImageMemory(raw)
    assert image.read(AT, 1) == b"\0"
    raw.write(AT, b"new")
    image.take([AT])
    assert image.read(AT, 3) == b"new"


def test_unreadable_pages_remain_unreadable() -> None:
    image = ImageMemory(memory(2))
    image.take([AT + PAGE, AT + 2 * PAGE])
    assert image.read(AT + PAGE, 1) == b"\1"
    with pytest.raises(MemoryUnreadable):
        image.read(AT + 2 * PAGE, 1)
    assert image.later() == set()


def few_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gdbext.targets.image._MOST_KEPT", 2)


def more_than_is_kept(monkeypatch: pytest.MonkeyPatch) -> tuple[FakeMemory, ImageMemory]:
    """Memory of eight pages that were read, and of which two are kept."""
    few_kept(monkeypatch)
    raw = memory(8)
    image = ImageMemory(raw)
    for page in range(8):
        image.read(AT + page * PAGE, 1)
    return raw, image


def test_image_is_kept_and_other_pages_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    few_kept(monkeypatch)
    raw = memory(8)
    image = ImageMemory(raw)
    image.take([AT, AT + PAGE])
    for page in range(2, 8):
        assert image.read(AT + page * PAGE, 1) == bytes([page])
        assert len(image._pages) <= 4
    raw.write(AT, b"new")
    assert image.read(AT, 1) == b"\0"
    assert image.later() == set(range(AT + 2 * PAGE, AT + 8 * PAGE, PAGE))


def test_pages_that_are_not_kept_are_compared_too(monkeypatch: pytest.MonkeyPatch) -> None:
    raw, image = more_than_is_kept(monkeypatch)
    assert image.changed(lambda page: True) == set()
    for page in (1, 7):
        raw.write(AT + page * PAGE, b"new")
    assert image.changed(lambda page: True) == {AT + PAGE, AT + 7 * PAGE}


def test_page_that_differs_when_it_is_read_again_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if it is as before in the end: what was decoded belongs to two moments."""
    raw, image = more_than_is_kept(monkeypatch)
    raw.write(AT + PAGE, b"new")
    assert image.read(AT + PAGE, 3) == b"new"
    raw.write(AT + PAGE, b"\1\1\1")
    assert image.changed(lambda page: True) == {AT + PAGE}


@pytest.mark.parametrize("before", [b"\1", b"2"])
def test_ignored_range_of_a_page_that_is_not_kept(before: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    raw, image = more_than_is_kept(monkeypatch)
    raw.write(AT + PAGE, before)
    image.ignore(AT + PAGE, 1)
    raw.write(AT + PAGE, b"3")
    assert image.changed(lambda page: True) == (set() if before == b"\1" else {AT + PAGE})


def test_pages_with_other_contents_have_changed() -> None:
    raw = memory(4)
    image = ImageMemory(raw)
    image.take([AT])
    for page in range(4):
        image.read(AT + page * PAGE, 1)
    for page in (0, 1, 3):
        raw.write(AT + page * PAGE, b"new")
    # the image is that of its moment
    assert image.changed(lambda page: page != AT + 3 * PAGE) == {AT + PAGE}
    assert image.changed(lambda page: True) == {AT + PAGE, AT + 3 * PAGE}


def test_ignored_ranges_count_as_unchanged() -> None:
    raw = memory(3)
    image = ImageMemory(raw)
    for page in range(3):
        image.read(AT + page * PAGE, 1)
    image.ignore(AT + 2 * PAGE - 2, 4)
    raw.write(AT + 2 * PAGE - 2, b"news")
    assert image.changed(lambda page: True) == set()
    raw.write(AT + 2 * PAGE - 3, b"news!")
    assert image.changed(lambda page: True) == {AT + PAGE}


def test_large_reads_count_too() -> None:
    raw = memory(BYPASS_PAGES + 2)
    image = ImageMemory(raw)
    image.take([AT])
    size = PAGE * (BYPASS_PAGES + 1)
    image.read(AT, size)
    assert image.later() == set(range(AT, AT + size, PAGE))
    assert image.changed(lambda page: True) == set()
    raw.write(AT + PAGE, b"new")
    assert image.changed(lambda page: True) == set(range(AT, AT + size, PAGE))


def test_forgotten_pages_may_have_changed() -> None:
    image = ImageMemory(memory(2))
    image.read(AT + PAGE, 1)
    image.forget()
    assert image.changed(lambda page: True) == {AT + PAGE}


def test_pages_that_another_thread_forgets_meanwhile_may_have_changed() -> None:
    image = ImageMemory(memory(3))
    image.read(AT + PAGE, PAGE + 1)

    def may_change(page: int) -> bool:
        image.forget()
        return True

    assert image.changed(may_change) == {AT + PAGE, AT + 2 * PAGE}


def test_image_can_be_dropped() -> None:
    image = ImageMemory(memory(2))
    image.take([AT])
    before = image.is_taken
    image.drop()
    assert (before, image.is_taken) == (True, False)
    assert set(image.used) == set()
