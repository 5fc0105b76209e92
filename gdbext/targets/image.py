"""The memory of a running process at one moment: pages that are read together, and then decoded at leisure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from gdbext.errors import MemoryUnreadable
from gdbext.inferior.cache import BYPASS_PAGES, MISSING, PAGE, CachedMemory
from gdbext.inferior.protocol import Memory

#: Most pages that are read in one go, and most pages of an image.
_MOST_TOGETHER, _MOST_PAGES = 256, 32768
#: Most pages besides the image whose contents are kept: 32 MiB. A thread needs about four.
_MOST_KEPT = 8192


class ImageMemory(CachedMemory):
    """A page cache whose first pages can be read together.

    The pages that a snapshot will need are those that the snapshot before it has needed, or nearly so. What is in them
    belongs to one moment if no thread runs while they are read, even if all threads run afterwards.
    """

    def __init__(self, memory: Memory) -> None:
        super().__init__(memory)
        self._image: frozenset[int] = frozenset()
        # the hash of each page whose contents are no longer kept
        self._hashes: dict[int, int] = {}
        # the pages that were read before the budget was spent, and those that were read twice and differ
        self._forgotten: set[int] = set()
        # what was read past the cache: the hash of each range, by its address and size
        self._past: dict[tuple[int, int], int] = {}
        # ranges that do not count as changed, by their pages
        self._ignored: dict[int, list[tuple[int, int]]] = {}

    def take(self, pages: Iterable[int]) -> None:
        """Read pages; all other pages are forgotten.

        :param pages: their addresses.
        """
        self._pages.clear()
        self._hashes.clear()
        self._past.clear()
        self._pages.update(self._read_pages(sorted(pages)[:_MOST_PAGES]))
        self._image = frozenset(self._pages)

    def _read_pages(self, pages: Collection[int]) -> Iterator[tuple[int, bytes | None]]:
        """Read pages in ascending order, those that follow each other together."""
        for first, count in _runs(pages):
            try:
                data = self._memory.read(first, count * PAGE)
            except MemoryUnreadable:
                yield from ((at, self._read_page(at)) for at in range(first, first + count * PAGE, PAGE))
            else:
                yield from ((first + at, data[at:at + PAGE]) for at in range(0, count * PAGE, PAGE))

    def _read_page(self, at: int) -> bytes | None:
        try:
            return self._memory.read(at, PAGE)
        except MemoryUnreadable:
            return None

    def _fetch(self, address: int, size: int) -> bytes:
        data = super()._fetch(address, size)
        if size >= PAGE * (BYPASS_PAGES - 1):
            self._past[address, size] = hash(data)
        elif self._hashes and not (address | size) % PAGE:
            self._compare_again(address, data)
        return data

    def _make_room(self, count: int) -> None:
        """Replace the contents of pages by their hashes if there are too many; the image remains."""
        if len(self._pages) + count <= _MOST_KEPT + len(self._image):
            return
        for at, data in list(self._pages.items()):
            if at not in self._image:
                self._hashes[at] = self._hash(at, data)
                self._pages.pop(at, None)

    def _hash(self, page: int, data: bytes | None) -> int:
        return hash(self._without_ignored(page, data))

    def _compare_again(self, address: int, data: bytes) -> None:
        """Compare pages that are read again."""
        for at in range(0, len(data), PAGE):
            was = self._hashes.get(address + at)
            if was is not None and self._hash(address + at, data[at:at + PAGE]) != was:
                self._forgotten.add(address + at)

    def ignore(self, address: int, size: int) -> None:
        """Take a range for unchanged, from now on."""
        end = address + size
        for page in range(address & -PAGE, end, PAGE):
            if page in self._hashes:
                data = self._read_page(page)
                if self._hash(page, data) != self._hashes.pop(page):
                    self._forgotten.add(page)
                self._pages[page] = data
            self._ignored.setdefault(page, []).append((max(address, page) - page, min(end, page + PAGE) - page))

    def _without_ignored(self, page: int, data: bytes | None) -> bytes | None:
        for start, end in self._ignored.get(page, ()):
            data = data and data[:start] + bytes(end - start) + data[end:]
        return data

    def changed(self, may_change: Callable[[int], bool]) -> set[int]:
        """Read pages again, except those of the image, and return the addresses of those that have changed.

        :param may_change: says of a page whether it is worth reading.
        """
        again = sorted(at for at in {*self._pages, *self._hashes} if at not in self._image and may_change(at))
        found = {at for at, data in self._read_pages(again) if not self._is_unchanged(at, data)}
        for (address, size), was in self._past.items():
            try:
                if hash(self._memory.read(address, size)) != was:
                    found.update(range(address & -PAGE, address + size, PAGE))
            except MemoryUnreadable:
                found.add(address & -PAGE)
        return found | self._forgotten

    def _is_unchanged(self, page: int, data: bytes | None) -> bool:
        was = self._hashes.get(page)
        if was is not None:
            return was == self._hash(page, data)
        # the thread that watches the budget may have forgotten it meanwhile
        before = self._pages.get(page, MISSING)
        return before is not MISSING and (
            data == before or self._without_ignored(page, data) == self._without_ignored(page, before))

    @property
    def is_taken(self) -> bool:
        """Whether there is an image."""
        return bool(self._image)

    def drop(self) -> None:
        """Have no image: it does not show one moment."""
        self._pages.clear()
        self._hashes.clear()
        self._image = frozenset()

    @property
    def used(self) -> Collection[int]:
        """The addresses of the pages that were read so far."""
        return self._forgotten | self._pages.keys() | self._hashes.keys()

    def is_still_missing(self, page: int) -> bool:
        """Whether a page could not be read, and cannot be read now."""
        return self._pages.get(page, MISSING) is None and self._read_page(page) is None

    def forget(self) -> None:
        """Forget all pages, but not which they were."""
        self._forgotten.update(self._pages)
        super().forget()

    def later(self) -> set[int]:
        """The addresses of the pages that were read after the image."""
        past = {at for address, size in self._past for at in range(address & -PAGE, address + size, PAGE)}
        return {*self.used} - self._image | past


def _runs(pages: Collection[int]) -> Iterator[tuple[int, int]]:
    """The address and the number of pages of each run of pages that follow each other."""
    first = count = 0
    for at in pages:
        if count and at == first + count * PAGE and count < _MOST_TOGETHER:
            count += 1
            continue
        if count:
            yield first, count
        first, count = at, 1
    if count:
        yield first, count
