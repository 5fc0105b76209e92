"""The debug sections of one file, also compressed ones, and the time that reading them may take.

C structure: ELF gABI ``Elf64_Chdr``. Source of ``.zdebug_*``: GNU binutils 2.41 bfd/compress.c.
"""

from __future__ import annotations

import contextlib
import struct
import time
import zlib
from collections.abc import Callable, Iterator

from gdbext.elf.headers import SHF_COMPRESSED, SHT_NOBITS, FileSection
from gdbext.elf.symtab import SymbolFile
from gdbext.errors import CorruptStructure, GdbextError

_CHDR, _ZLIB = struct.Struct("<IIQQ"), 1
#: Bounds in bytes: a decompressed section, a piece that is decompressed at once, a string, and what is read for one.
_MAX_SECTION, _PIECE, _MAX_STRING, _SHORT = 1 << 28, 1 << 16, 1 << 16, 128


class OutOfTime(GdbextError):
    """Debug information is not read any further in this report."""


class Budget:
    """The processor time that one report may spend on debug information, in seconds.

    Only what `spending` encloses counts. Time that other programs take does not, so the report on a busy machine is
    the same.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.process_time) -> None:
        self._left = seconds
        self._clock = clock
        self._deadline = 0.0

    @contextlib.contextmanager
    def spending(self) -> Iterator[None]:
        """Count the time inside.

        :raises OutOfTime: no time is left.
        """
        began = self._clock()
        self._deadline = began + self._left
        self.check()
        try:
            yield
        finally:
            self._left -= self._clock() - began

    def check(self) -> None:
        """Check the time; long loops do that now and then.

        :raises OutOfTime: no time is left.
        """
        if self._clock() >= self._deadline:
            self._left = 0
            raise OutOfTime("reading debug information takes too long")


class DebugSections:
    """Reads debug sections by their names (``.debug_info``), whether they are compressed or not."""

    def __init__(self, file: SymbolFile, budget: Budget) -> None:
        self._file = file
        self.budget = budget
        self._strings: dict[tuple[str, int], str] = {}
        self._compressed: dict[str, _CompressedSection] = {}

    def _find(self, name: str) -> FileSection | None:
        found = self._file.section(name) or self._file.section(f".z{name[1:]}")
        return found if found is not None and found.kind != SHT_NOBITS else None

    def size(self, name: str) -> int:
        """The size of a section in bytes, decompressed; 0 if the file has no such section."""
        section = self._find(name)
        if section is None:
            return 0
        return self._decompressor(name, section).size if _is_compressed(section) else section.size

    def read(self, name: str, offset: int, size: int) -> bytes:
        """Read bytes of a section, fewer at its end.

        :raises CorruptStructure: there is no such place, or the section cannot be decompressed.
        """
        section = self._find(name)
        if section is None:
            raise CorruptStructure(0, f"the file has no {name}")
        if _is_compressed(section):
            data = self._decompressor(name, section).read(offset, size)
        else:
            data = self._file.read(section.offset + offset, min(size, section.size - offset)) if offset >= 0 else b""
        if not data and size:
            raise CorruptStructure(offset, f"nothing is there in {name}")
        return data

    def string(self, name: str, offset: int) -> str:
        """The string at an offset of a section.

        :raises CorruptStructure: it has no end.
        """
        known = self._strings.get((name, offset))
        if known is None:
            for limit in (_SHORT, _MAX_STRING):
                text, end, _ = self.read(name, offset, limit).partition(b"\0")
                if end:
                    break
            else:
                raise CorruptStructure(offset, f"a string of {name} has no end")
            known = self._strings[name, offset] = text.decode("utf-8", "backslashreplace")
        return known

    def _decompressor(self, name: str, section: FileSection) -> _CompressedSection:
        if name not in self._compressed:
            self._compressed[name] = _CompressedSection(self._file, section, self.budget)
        return self._compressed[name]


class _CompressedSection:
    """A compressed section. Each read decompresses what it needs and no more, because a large section takes long.

    :raises CorruptStructure: it cannot be decompressed.
    """

    def __init__(self, file: SymbolFile, section: FileSection, budget: Budget) -> None:
        self._file, self._section, self._budget = file, section, budget
        self._at, self._end = section.offset, section.offset + section.size
        self._stream, self._data = zlib.decompressobj(), bytearray()
        head = file.read(section.offset, _CHDR.size)
        if section.flags & SHF_COMPRESSED and len(head) == _CHDR.size:
            kind, _, self.size, _ = _CHDR.unpack(head)
            self._at += _CHDR.size
        else:
            kind, self.size = _ZLIB if head.startswith(b"ZLIB") else 0, int.from_bytes(head[4:12], "big")
            self._at += 12
        if kind != _ZLIB or self.size > _MAX_SECTION:  # Python's library has zstd since 3.14 only
            raise CorruptStructure(section.offset, f"{section.name} cannot be decompressed")

    def read(self, offset: int, size: int) -> bytes:
        """Read bytes, fewer at the end.

        :raises CorruptStructure: they cannot be decompressed.
        """
        wanted = min(offset + size, self.size)
        try:
            while len(self._data) < wanted and self._at < self._end:
                self._budget.check()
                piece = self._file.read(self._at, min(_PIECE, self._end - self._at))
                self._at += _PIECE
                self._data += self._stream.decompress(piece, self.size - len(self._data))
        except zlib.error as error:
            raise CorruptStructure(self._section.offset,
                                   f"{self._section.name} cannot be decompressed: {error}") from None
        return bytes(memoryview(self._data)[offset:offset + size]) if offset >= 0 else b""


def _is_compressed(section: FileSection) -> bool:
    return bool(section.flags & SHF_COMPRESSED) or section.name.startswith(".z")
