"""ELF files built from bytes, alone or loaded into fake memory with exported symbols and hash tables."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from gdbext.elf.dynamic import gnu_hash
from gdbext.inferior.protocol import Module, Section
from tests.support.fake_memory import FakeMemory

_HASH, _SYMBOLS, _STRINGS = 0x200, 0x400, 0xC00
_SIZE = 0x1000


def elf_headers(segments: Sequence[tuple[int, int, int, int, int]], kind: int = 3) -> bytes:
    """The ELF header and program headers; a segment is (type, flags, offset, link-time address, size)."""
    header = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9) + struct.pack("<HHIQQQIHHHHHH", kind, 62, 1, 0, 64, 0, 0, 64, 56,
                                                                  len(segments), 64, 0, 0)
    return header + b"".join(struct.pack("<IIQQQQQQ", each, flags, offset, address, address, size, size, 4096)
                             for each, flags, offset, address, size in segments)


def build_id_note(build_id: bytes) -> bytes:
    """The note with a file's build id; the size of the id is a multiple of 4."""
    return struct.pack("<III", 4, len(build_id), 3) + b"GNU\0" + build_id


def fake_elf(base: int, symbols: Mapping[str, tuple[int, int]], path: str, extra: Sequence[Section] = (),
             link_base: int = 0, memory: FakeMemory | None = None, gnu: bool = True,
             kinds: Mapping[str, tuple[int, int]] | None = None) -> tuple[FakeMemory, Module]:
    """A file loaded at `base` that exports symbols: name -> (link-time address, size).

    :param link_base: the link-time base address; 0 for position-independent files.
    :param gnu: whether it has a GNU hash table, or only one in the old format.
    :param kinds: (st_info, section index) of symbols other than ordinary functions.
    """
    memory = FakeMemory() if memory is None else memory
    names = sorted(symbols, key=lambda name: gnu_hash(name.encode()) % 2)
    strings, table = b"\0", bytes(24)
    for name in names:
        info, section = (kinds or {}).get(name, (0x12, 7))
        table += struct.pack("<IBBHQQ", len(strings), info, 0, section, *symbols[name])
        strings += name.encode() + b"\0"
    image = bytearray(elf_headers([(1, 5, 0, link_base, _SIZE)]).ljust(_SIZE, b"\0"))
    image[_SYMBOLS:_SYMBOLS + len(table)] = table
    image[_STRINGS:_STRINGS + len(strings)] = strings
    hashed = _gnu_hash_table(names)
    image[_HASH:_HASH + len(hashed)] = hashed
    assert _HASH + len(hashed) <= _SYMBOLS
    assert _SYMBOLS + len(table) <= _STRINGS
    memory.map(base, bytes(image))
    sections = (Section(".gnu.hash" if gnu else ".hash", base + _HASH, base + _HASH + len(hashed)),
                Section(".dynsym", base + _SYMBOLS, base + _SYMBOLS + len(table)),
                Section(".dynstr", base + _STRINGS, base + _STRINGS + len(strings)), *extra)
    return memory, Module(path, sections)


def _gnu_hash_table(names: Sequence[str]) -> bytes:
    # two buckets, one bloom word, symbols sorted by bucket from index 1 on
    hashes = [gnu_hash(name.encode()) for name in names]
    bloom, shift = 0, 6
    buckets = [0, 0]
    chain = []
    for i, value in enumerate(hashes):
        bloom |= 1 << value % 64 | 1 << (value >> shift) % 64
        buckets[value % 2] = buckets[value % 2] or i + 1
        last = i + 1 == len(hashes) or hashes[i + 1] % 2 != value % 2
        chain.append(value & ~1 | int(last))
    return struct.pack(f"<4IQ2I{len(chain)}I", 2, 1, 1, shift, bloom, *buckets, *chain)
