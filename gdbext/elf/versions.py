"""Versions of exported symbols, in the form that they have in names: ``pthread_cond_wait@@GLIBC_2.3.2``.

C structures: ``Elf64_Verdef``, ``Elf64_Verdaux`` and ``Elf64_Versym`` (Linux Standard Base 5.0, symbol versioning).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from gdbext.elf.headers import FileSection, Read

#: vd_version, vd_flags, vd_ndx, vd_cnt, vd_hash, vd_aux, vd_next; and vda_name, vda_next.
_VERDEF, _VERDAUX = struct.Struct("<HHHHIII"), struct.Struct("<II")
#: The version of symbols without one, the bit of those that new programs do not use, and the first real version.
_HIDDEN, _FIRST = 0x8000, 2
#: Bounds: versions of a file, a section of definitions, the number of symbols, and the length of a name.
_MAX_VERSIONS, _MAX_DEFINITIONS, _MAX_SYMBOLS, _MAX_NAME = 4096, 1 << 20, 1 << 22, 256


class Versions:
    """The versions of a file's exported symbols.

    :param read: reads the file.
    :param sections: the file's sections.
    """

    def __init__(self, read: Read, sections: Sequence[FileSection]) -> None:
        by_name = {section.name: section for section in sections}
        numbers, definitions = by_name.get(".gnu.version"), by_name.get(".gnu.version_d")
        self._numbers = b""
        self._names: Mapping[int, bytes] = {}
        if numbers is not None and definitions is not None and definitions.link < len(sections):
            self._numbers = read(numbers.offset, min(numbers.size, 2 * _MAX_SYMBOLS))
            self._names = _read_names(read, definitions, sections[definitions.link])

    def suffix(self, index: int) -> bytes:
        """The version of a symbol with ``@`` or ``@@`` before it; empty if it has none.

        :param index: the symbol's place in the table of exported symbols.
        """
        number = int.from_bytes(self._numbers[2 * index:2 * index + 2], "little")
        name = self._names.get(number & ~_HIDDEN)
        if name is None:
            return b""
        return (b"@" if number & _HIDDEN else b"@@") + name


def _read_names(read: Read, definitions: FileSection, strings: FileSection) -> Mapping[int, bytes]:
    data = read(definitions.offset, min(definitions.size, _MAX_DEFINITIONS))
    names: dict[int, bytes] = {}
    at = 0
    for _ in range(_MAX_VERSIONS):
        if at + _VERDEF.size > len(data):
            break
        _, _, number, _, _, auxiliary, after = _VERDEF.unpack_from(data, at)
        if number >= _FIRST and at + auxiliary + _VERDAUX.size <= len(data):
            name_at, _ = _VERDAUX.unpack_from(data, at + auxiliary)
            names[number] = read(strings.offset + name_at, _MAX_NAME).partition(b"\0")[0]
        if after == 0:
            break
        at += after
    return names
