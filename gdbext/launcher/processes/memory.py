"""Shared memory, and the semaphores of `multiprocessing` in it.

Sources: Linux Documentation/filesystems/proc.rst; CPython 3.13 Modules/_multiprocessing/semaphore.c.
"""

from __future__ import annotations

import os
import re
import struct
import time
from collections.abc import Mapping
from typing import NamedTuple

from gdbext.inferior.proc.files import numbers
from gdbext.inferior.proc.maps import read_maps, read_memory
from gdbext.inferior.proc.status import is_forked, is_kernel_thread
from gdbext.launcher.processes.tree import Member, describe_unseen
from gdbext.model import PyFrame
from gdbext.model.reasons import Reason

#: How long reading the mappings of all processes, and searching memory, may take, in seconds.
_PATIENCE, _SEARCH = 2.0, 1.5
_MOST_SEARCHED = 512 << 20
_PIECE = 4 << 20
# SemLockObject from `handle` on: sem_t *, unsigned long last_tid, int count, maxvalue, kind
_SEM_LOCK = struct.Struct("<QQiii")
_MOST_COUNT = 1 << 20
#: The file of the standard library with the outermost function of a process of `multiprocessing`.
_PROCESS = re.compile(r"(?:^|/)multiprocessing/process\.py$")


class Word(NamedTuple):
    """A place in shared memory, the same for all processes that map it."""

    device: str
    inode: int
    offset: int


class SharedMemory:
    """The memory that processes share.

    :param members: the processes of the set by PID.
    :param root: the folder of /proc.
    """

    def __init__(self, members: Mapping[int, Member], root: str = "/proc") -> None:
        self._members = members
        self._root = root
        self._mapped: dict[tuple[str, int], set[int]] | None = None
        self._holding: dict[Word, frozenset[int] | None] = {}
        #: The processes outside the set whose mappings could not be read; `mapped_by` finds them.
        self.unseen: Reason | None = None

    @staticmethod
    def word_at(member: Member, address: int) -> Word | None:
        """The place of an address of a process; None if it is not in shared memory."""
        mapping = member.mapping_at(address)
        if mapping is None or not mapping.shared or mapping.file is None:
            return None
        return Word(*mapping.file, mapping.offset + address - mapping.start)

    @staticmethod
    def address_of(member: Member, word: Word) -> int | None:
        """The address of a place in a process; None if the process does not map it."""
        for mapping in member.mappings:
            if mapping.shared and mapping.file == (word.device, word.inode):
                at = word.offset - mapping.offset + mapping.start
                if mapping.start <= at < mapping.end:
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
                for mapping in regions or ():
                    if mapping.shared and mapping.file is not None:
                        found.setdefault(mapping.file, set()).add(pid)
            self.unseen = describe_unseen("mappings", refused, pids)
            self._mapped = found
        return self._mapped.get((word.device, word.inode))

    # -- semaphores ------------------------------------------------------------------------------------------

    def counting(self, member: Member, word: Word) -> frozenset[int] | None:
        """The processes whose `multiprocessing` locks count a semaphore as acquired; None if not known.

        :param member: a process that waits for it.
        """
        value = read_memory(member.pid, self.address_of(member, word) or 0, 4, self._root)
        if value != b"\0\0\0\0":
            return None
        if word not in self._holding:
            end = time.monotonic() + _SEARCH
            found = []
            complete = True
            for other in self._members.values():
                address = self.address_of(other, word)
                if address is None:
                    continue
                counts = self._sem_locks(other, address, end)
                if counts and not _has_own_counts(other, self._root):
                    counts = None
                complete = complete and counts is not None
                if counts:
                    found.append(other.pid)
            self._holding[word] = frozenset(found) if complete else None
        return self._holding[word]

    def _sem_locks(self, member: Member, address: int, end: float) -> bool | None:
        """Whether an object of the process counts the semaphore as acquired; None if the time was up."""
        needle = address.to_bytes(8, "little")
        left = _MOST_SEARCHED
        for mapping in member.mappings:
            if mapping.permissions != "rw" or mapping.shared or mapping.path not in (None, "[heap]"):
                continue
            at = mapping.start
            while at < mapping.end:
                if time.monotonic() > end or left <= 0:
                    return None
                size = min(_PIECE, mapping.end - at)
                # an object may extend into the next piece
                wanted = min(size + _SEM_LOCK.size, mapping.end - at)
                if _has_acquired(read_memory(member.pid, at, wanted, self._root, some=True) or b"", needle):
                    return True
                at += size
                left -= size
        return False


def _has_own_counts(member: Member, root: str) -> bool:
    """Whether a process has acquired what its objects count; a copy that `fork` makes has the counts of its parent.

    `multiprocessing` sets them to 0 in its processes before it calls a function of the program.
    """
    return not is_forked(member.pid, root) or any(
        isinstance(frame, PyFrame) and frame.function == "_bootstrap" and _PROCESS.search(frame.file)
        for thread in member.threads for frame in thread.stack)


def _has_acquired(data: bytes, needle: bytes) -> bool:
    at = data.find(needle)
    while at >= 0:
        if not at % 8 and at + _SEM_LOCK.size <= len(data):
            _, thread, count, most, kind = _SEM_LOCK.unpack_from(data, at)
            if thread and 0 < count < _MOST_COUNT and most == 1 and kind in (0, 1):
                return True
        at = data.find(needle, at + 1)
    return False
