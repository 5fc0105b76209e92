"""What a target's addresses are mapped to: ranges with permissions and files."""

from __future__ import annotations

import bisect
from collections.abc import Iterable

from gdbext.record import record


@record
class Region:
    """A mapping of the target's address space, [start, end). `permissions` are some of ``rwx``, None if not known.

    `path` is the mapped file's, None for anonymous memory, or the kernel's name of the range (``[stack]``); `offset` is
    the first mapped byte of the file. A core has the contents up to before the address `kept`; None: all of them.
    """

    start: int
    end: int
    permissions: str | None
    path: str | None
    offset: int = 0
    shared: bool = False
    kept: int | None = None

    def allows(self, permission: str) -> bool | None:
        """Whether memory may be read (``r``), written (``w``) or executed (``x``); None if that is not known."""
        return None if self.permissions is None else permission in self.permissions


class AddressSpace:
    """Mappings of a target, to be searched by address."""

    def __init__(self, regions: Iterable[Region]) -> None:
        self._regions = sorted(regions, key=lambda region: region.start)
        self._starts = [region.start for region in self._regions]

    def __len__(self) -> int:
        return len(self._regions)

    def find(self, address: int) -> Region | None:
        """The mapping that an address lies in, or None."""
        index = bisect.bisect_right(self._starts, address) - 1
        region = self._regions[index] if index >= 0 else None
        return region if region is not None and address < region.end else None

    def above(self, address: int) -> Region | None:
        """The first mapping that begins above an address, or None."""
        index = bisect.bisect_right(self._starts, address)
        return self._regions[index] if index < len(self._regions) else None
