"""The dynamic linker's list of loaded files. It is found through the program headers and needs no symbols."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping

from gdbext.elf.headers import MAX_FILE_SEGMENTS, Read, iter_entries, iter_segments
from gdbext.record import record

#: Source: System V ABI, ELF-64 object file format; Linux 6.1 include/uapi/linux/auxvec.h.
_PT_DYNAMIC, _PT_PHDR = 2, 6
_DT_DEBUG = 21
_AT_PHDR, _AT_PHNUM = 3, 5
#: An entry of the auxiliary vector or of a dynamic section: tag and value.
TAG_AND_VALUE = struct.Struct("<QQ")
#: The first members of struct link_map: l_addr, l_name, l_ld, l_next.
_LINK = struct.Struct("<QQQQ")
#: Bounds: a dynamic section in bytes, loaded files, a path in bytes.
_MAX_DYNAMIC, _MAX_LINKS, _MAX_PATH = 1 << 16, 10_000, 4096


@record
class LinkedFile:
    """A loaded file. `name` is the dynamic linker's name for it, empty for the executable.

    `bias` is added to link-time addresses; `dynamic` is the address of the file's dynamic section.
    """

    name: str
    bias: int
    dynamic: int


def linked_files(read: Read, auxiliary: Mapping[int, int]) -> Iterator[LinkedFile]:
    """Iterate over the files that the dynamic linker has loaded, in its order.

    Source: glibc 2.36 elf/link.h, struct r_debug and struct link_map, whose first members do not change.

    :param read: reads memory of the process by address.
    :param auxiliary: the process's auxiliary vector: tag -> value.
    """
    link = _find_first_link(read, auxiliary)
    seen: set[int] = set()
    while link and link not in seen and len(seen) < _MAX_LINKS:
        seen.add(link)
        data = read(link, _LINK.size)
        if len(data) < _LINK.size:
            return
        bias, name, dynamic, link = _LINK.unpack(data)
        yield LinkedFile(read(name, _MAX_PATH).partition(b"\0")[0].decode("utf-8", "surrogateescape"), bias, dynamic)


def _find_first_link(read: Read, auxiliary: Mapping[int, int]) -> int:
    headers, count = auxiliary.get(_AT_PHDR, 0), auxiliary.get(_AT_PHNUM, 0)
    segments = list(iter_segments(read, headers, min(count, MAX_FILE_SEGMENTS))) if headers else []
    base = next((headers - segment.address for segment in segments if segment.kind == _PT_PHDR), 0)
    dynamic = next((segment for segment in segments if segment.kind == _PT_DYNAMIC), None)
    if dynamic is not None:
        entries = read(base + dynamic.address, min(dynamic.size, _MAX_DYNAMIC))
        for tag, value in iter_entries(TAG_AND_VALUE, entries):
            if tag == _DT_DEBUG:
                link = read(value + 8, 8)
                return int.from_bytes(link, "little") if len(link) == 8 else 0
    return 0
