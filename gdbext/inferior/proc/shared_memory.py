"""Memory that processes share: places in mapped files, and which processes map them.

Source: Linux Documentation/filesystems/proc.rst.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import NamedTuple

from gdbext.inferior.address_space import AddressSpace, Region
from gdbext.inferior.proc.files import numbers, read_text
from gdbext.inferior.proc.maps import parse_maps, read_maps
from gdbext.inferior.proc.status import describe_unseen, has_ended, is_forked, is_kernel_thread, status_field
from gdbext.model.reasons import Reason

#: How long reading the mappings of all processes may take, in seconds.
_PATIENCE = 2.0


class Word(NamedTuple):
    """A place in shared memory, the same for all processes that map it."""

    device: str
    inode: int
    offset: int


class Sharers(NamedTuple):
    """The other processes that map a file. `complete` is false where some could not be examined."""

    others: tuple[int, ...]
    complete: bool


def others_mapping(pid: int, region: Region, root: str = "/proc", seconds: float = _PATIENCE) -> Sharers:
    """The other processes that have mapped the file of a shared mapping of a process.

    One of another user may not be read. It may not open the memory of this user either, and has it only by fork. Some
    containers hide the memory of their process 1, which opens none.

    :param seconds: time limit.
    """
    if not region.shared or region.file is None:
        return Sharers((), False)
    device, inode = region.file
    wanted, was_forked = f" {device} {inode} ", is_forked(pid, root)
    user = status_field(pid, "Uid", root)
    found: list[int] = []
    complete, end = True, time.monotonic() + seconds
    for other in numbers(root):
        if other == pid:
            continue
        if time.monotonic() > end:
            return Sharers(tuple(found), False)
        text = read_text(f"{root}/{other}/maps")
        if text is None:
            is_stranger = not was_forked and not is_forked(other, root) and (
                other == 1 or status_field(other, "Uid", root) != user)
            complete = complete and (is_stranger or has_ended(other, root) or is_kernel_thread(other, root))
        elif wanted in text and any(each.shared and each.file == region.file for each in parse_maps(text)):
            found.append(other)
    return Sharers(tuple(found), complete)


class SharedMemory:
    """The memory that processes share.

    :param spaces: the mappings of the processes of a set by PID.
    :param root: the folder of /proc.
    """

    def __init__(self, spaces: Mapping[int, AddressSpace], root: str = "/proc") -> None:
        self._spaces = spaces
        self._root = root
        self._mapped: dict[tuple[str, int], set[int]] | None = None
        #: The processes outside the set whose mappings could not be read; `mapped_by` finds them.
        self.unseen: Reason | None = None

    def word_at(self, pid: int, address: int) -> Word | None:
        """The place of an address of a process; None if it is not in shared memory."""
        region = self._spaces[pid].find(address)
        if region is None or not region.shared or region.file is None:
            return None
        return Word(*region.file, region.offset + address - region.start)

    def address_of(self, pid: int, word: Word) -> int | None:
        """The address of a place in a process; None if the process does not map it."""
        for region in self._spaces[pid]:
            if region.shared and region.file == (word.device, word.inode):
                at = word.offset - region.offset + region.start
                if region.start <= at < region.end:
                    return at
        return None

    def mapped_by(self, word: Word) -> set[int] | None:
        """The processes that map the file of a place; None if not all could be read in time."""
        if self._mapped is None:
            found: dict[tuple[str, int], set[int]] = {}
            refused = 0
            end = time.monotonic() + _PATIENCE
            pids = numbers(self._root)
            for pid in pids:
                if time.monotonic() > end:
                    return None
                regions = read_maps(pid, self._root)
                if regions is None:
                    refused += os.path.exists(f"{self._root}/{pid}") and not is_kernel_thread(pid, self._root)
                for region in regions or ():
                    if region.shared and region.file is not None:
                        found.setdefault(region.file, set()).add(pid)
            self.unseen = describe_unseen("mappings", refused, pids)
            self._mapped = found
        return self._mapped.get((word.device, word.inode))
