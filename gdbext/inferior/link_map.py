"""The dynamic linker's list of what it has loaded, found without its symbols: by the program headers."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from gdbext.record import record

#: Source: System V ABI, ELF-64 object file format.
_PT_DYNAMIC, _PT_PHDR = 2, 6
_DT_DEBUG = 21
_PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
_PAIR = struct.Struct("<QQ")
#: The first members of struct link_map: l_addr, l_name, l_ld, l_next.
_LINK = struct.Struct("<QQQQ")
#: Bounds on what is believed: program headers, a dynamic section in bytes, loaded files, a path.
_MAX_HEADERS, _MAX_DYNAMIC, _MAX_LINKS, _MAX_PATH = 1000, 1 << 16, 10_000, 4096

#: Gives so many bytes from an address on, or fewer.
Read = Callable[[int, int], bytes]


@record
class LinkedFile:
    """A loaded file by the name that the dynamic linker knows it by, which is empty for the executable.

    `bias` is what is added to link-time addresses, `dynamic` where the file's dynamic section is.
    """

    name: str
    bias: int
    dynamic: int


def linked_files(read: Read, headers: int, count: int) -> Iterator[LinkedFile]:
    """The files that the dynamic linker has loaded, in its order.

    Source: glibc 2.36 elf/link.h, struct r_debug and struct link_map, whose first members do not change.

    :param headers: address of the executable's program headers (AT_PHDR of the auxiliary vector).
    :param count: their number (AT_PHNUM).
    """
    link = _first_link(read, headers, count)
    seen: set[int] = set()
    while link and link not in seen and len(seen) < _MAX_LINKS:
        seen.add(link)
        data = read(link, _LINK.size)
        if len(data) < _LINK.size:
            return
        bias, name, dynamic, link = _LINK.unpack(data)
        yield LinkedFile(read(name, _MAX_PATH).partition(b"\0")[0].decode("utf-8", "surrogateescape"), bias, dynamic)


def _first_link(read: Read, headers: int, count: int) -> int:
    data = read(headers, min(count, _MAX_HEADERS) * _PROGRAM_HEADER.size) if headers else b""
    table = list(_PROGRAM_HEADER.iter_unpack(data[:len(data) // _PROGRAM_HEADER.size * _PROGRAM_HEADER.size]))
    base = next((headers - header[3] for header in table if header[0] == _PT_PHDR), 0)
    for header in table:
        if header[0] == _PT_DYNAMIC:
            dynamic = read(base + header[3], min(header[6], _MAX_DYNAMIC))
            for tag, value in _PAIR.iter_unpack(dynamic[:len(dynamic) // _PAIR.size * _PAIR.size]):
                if tag == _DT_DEBUG:
                    link = read(value + 8, 8)
                    return int.from_bytes(link, "little") if len(link) == 8 else 0
    return 0
