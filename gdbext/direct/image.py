"""The memory of a running process at one moment: pages that are read together, and then decoded at leisure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from gdbext.errors import MemoryUnreadable
from gdbext.inferior.cache import PAGE, CachedMemory
from gdbext.inferior.protocol import Memory

#: Most pages that are read in one go, and most pages of an image.
_MOST_TOGETHER, _MOST_PAGES = 256, 32768


class ImageMemory(CachedMemory):
    """A page cache whose first pages can be read together.

    The pages that a snapshot will need are those that the snapshot before it has needed, or nearly so. What is in them
    belongs to one moment if no thread runs while they are read, even if all threads run afterwards.
    """

    def __init__(self, memory: Memory) -> None:
        super().__init__(memory)
        self._image: frozenset[int] = frozenset()
        # the pages that were read before the budget was spent
        self._forgotten: set[int] = set()

    def take(self, pages: Iterable[int]) -> None:
        """Read pages; all other pages are forgotten.

        :param pages: their addresses.
        """
        self._pages.clear()
        for first, count in _runs(sorted(pages)[:_MOST_PAGES]):
            try:
                data = self._memory.read(first, count * PAGE)
            except MemoryUnreadable:
                self._take_each(first, count)
                continue
            self._pages.update((first + at, data[at:at + PAGE]) for at in range(0, count * PAGE, PAGE))
        self._image = frozenset(self._pages)

    def _take_each(self, first: int, count: int) -> None:
        for at in range(first, first + count * PAGE, PAGE):
            try:
                self._pages[at] = self._memory.read(at, PAGE)
            except MemoryUnreadable:
                self._pages[at] = None

    @property
    def used(self) -> Collection[int]:
        """The addresses of the pages that were read so far."""
        return self._forgotten | self._pages.keys()

    def forget(self) -> None:
        """Forget all pages, but not which they were."""
        self._forgotten.update(self._pages)
        super().forget()

    def later(self) -> set[int]:
        """The addresses of the pages that were read after the image."""
        used = {*self.used}
        if not self._image <= used:  # the cache was too small for them
            return used
        return used - self._image


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
