"""The mappings of a target's address space, with permissions and files."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator

from gdbext.record import record


@record
class Region:
    """A mapping of the target's address space, [start, end). `permissions` are some of ``rwx``, or None if not known.

    `path` is the mapped file, None for anonymous memory, or the kernel's name of the range (``[stack]``); `offset` is
    the file offset of the first byte. A core has the contents below the address `kept`; None means all of them. `file`
    is the device and inode of the file that a process has mapped.
    """

    start: int
    end: int
    permissions: str | None
    path: str | None
    offset: int = 0
    shared: bool = False
    kept: int | None = None
    file: tuple[str, int] | None = None

    def allows(self, permission: str) -> bool | None:
        """Whether the mapping allows reading (``r``), writing (``w``) or execution (``x``); None if not known."""
        return None if self.permissions is None else permission in self.permissions


class AddressSpace:
    """Searches a target's mappings by address."""

    def __init__(self, regions: Iterable[Region]) -> None:
        self._regions = sorted(regions, key=lambda region: region.start)
        self._starts = [region.start for region in self._regions]

    def __iter__(self) -> Iterator[Region]:
        return iter(self._regions)

    def __len__(self) -> int:
        return len(self._regions)

    def find(self, address: int) -> Region | None:
        """The mapping that contains an address, or None."""
        index = bisect.bisect_right(self._starts, address) - 1
        region = self._regions[index] if index >= 0 else None
        return region if region is not None and address < region.end else None

    def above(self, address: int) -> Region | None:
        """The first mapping that starts above an address, or None."""
        index = bisect.bisect_right(self._starts, address)
        return self._regions[index] if index < len(self._regions) else None
