"""Names of addresses by an ELF file's symbol table."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from gdbext.elf import symtab
from gdbext.elf.symtab import SymbolFile, Undecided
from gdbext.errors import CorruptStructure, GdbextError
from gdbext.inferior.protocol import Module, Section

TEXT, DATA, PLT, TDATA = 1, 2, 3, 4
LOCAL, GLOBAL, WEAK = 0, 1, 2
FUNCTION, OBJECT, IFUNC, NO_TYPE = 2, 1, 10, 0
START = 0x1000  # .text has 64 KiB, so it is in two pages of the search


@dataclass(frozen=True)
class Sym:
    name: str
    address: int
    size: int
    binding: int = GLOBAL
    kind: int = FUNCTION
    section: int = TEXT


def image(symbols: Sequence[Sym], *, kind: int = 2, extra: Sequence[tuple[str, bytes]] = ()) -> bytes:
    """An ELF file: .text, .data, .plt, .tdata, the symbol table, its names, `extra` sections, the names of sections.

    The program header is that of a section whose name begins with ``.note``.
    """
    strings, table = b"\0", bytes(24)
    for sym in symbols:
        info = sym.binding << 4 | sym.kind
        table += struct.pack("<IBBHQQ", len(strings), info, 0, sym.section, sym.address, sym.size)
        strings += sym.name.encode() + b"\0"
    rows: list[tuple[str, int, int, int, bytes | int, int]] = [  # name, type, flags, address, content or size, link
        ("", 0, 0, 0, b"", 0), (".text", 1, 6, START, 0x20000, 0), (".data", 1, 3, 0x40000, 0x1000, 0),
        (".plt", 1, 6, 0x50000, 0x100, 0), (".tdata", 1, 0x403, 0x40800, 0x40, 0), (".symtab", kind, 0, 0, table, 6),
        (".strtab", 3, 0, 0, strings, 0), *[(name, 1, 0, 0, content, 0) for name, content in extra]]
    names = b"".join(row[0].encode() + b"\0" for row in rows) + b".shstrtab\0"
    rows.append((".shstrtab", 3, 0, 0, names, 0))
    body, headers, name_at, notes = bytes(64 + 56), b"", 0, (0, 0)
    for name, section_kind, flags, address, content, link in rows:
        size = content if isinstance(content, int) else len(content)
        if name.startswith(".note"):
            notes = len(body), size
        headers += struct.pack("<IIQQQQIIQQ", name_at, section_kind, flags, address, len(body), size, link, 0, 1, 24)
        body += b"" if isinstance(content, int) else content
        name_at += len(name) + 1
    header = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack(
        "<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, len(body), 0, 64, 56, 1, 64, len(rows), len(rows) - 1)
    program_header = struct.pack("<IIQQQQQQ", 4, 4, notes[0], 0, 0, notes[1], notes[1], 4)
    return header + program_header + body[64 + 56:] + headers


def reader(data: bytes) -> Callable[[int, int], bytes]:
    return lambda offset, size: data[offset:offset + size]


def file(*symbols: Sym, kind: int = 2) -> SymbolFile:
    return SymbolFile(reader(image(symbols, kind=kind)))


def test_symbol_within_a_function() -> None:
    known = file(Sym("first", START, 16), Sym("second", START + 16, 16))
    assert [known.symbol(START + at) for at in (0, 15, 16, 31, 32)] == ["first", "first", "second", "second", None]


def test_symbol_when_names_share_an_address_is_the_last_by_bytes() -> None:
    assert file(Sym("b", START, 8), Sym("c", START, 8, WEAK), Sym("a", START, 8)).symbol(START) == "c"


def test_symbol_prefers_an_exported_function_to_a_local_alias() -> None:
    assert file(Sym("z", START, 8, LOCAL), Sym("a", START, 8)).symbol(START + 4) == "a"
    assert file(Sym("z", START, 8, kind=IFUNC), Sym("a", START, 8)).symbol(START + 4) == "a"
    # a symbol of another size is not an alias
    assert file(Sym("z", START, 9, LOCAL), Sym("a", START, 8)).symbol(START + 4) == "z"


def test_symbol_when_functions_are_nested() -> None:
    known = file(Sym("outer", START, 64), Sym("inner", START + 8, 8))
    assert [known.symbol(START + at) for at in (4, 8, 15, 16, 63, 64)] == ["outer", "inner", "inner", "outer", "outer",
                                                                          None]


def test_symbol_without_a_size() -> None:
    known = file(Sym("sized", START, 8), Sym("label", START + 4, 0, LOCAL, NO_TYPE), Sym("bare", START + 32, 0),
                 Sym("later", START + 64, 8))
    assert [known.symbol(START + at) for at in (5, 9, 40, 80)] == ["sized", "label", "bare", None]


def test_symbol_ignores_compiler_labels_and_special_symbols() -> None:
    known = file(Sym("f", START, 8), Sym(".L1", START + 4, 4, LOCAL), Sym("", START + 4, 4),
                 Sym("section", START + 4, 4, LOCAL, 3), Sym("file.c", START + 4, 4, LOCAL, 4))
    assert known.symbol(START + 5) == "f"


def test_symbol_ignores_other_sections() -> None:
    known = file(Sym("f", START, 8), Sym("x", 0x40000, 16, kind=OBJECT, section=DATA),
                 Sym("absolute", START + 2, 8, section=0xFFF1), Sym("undefined", START + 2, 8, section=0),
                 Sym("thread_local", 0x40800, 8, kind=6, section=TDATA))
    assert known.symbol(START + 3) == "f"
    assert (known.symbol(0x40008), known.symbol(0x40010), known.symbol(0x40800)) == ("x", None, None)
    assert known.symbol(0x70000) is None


def test_symbol_in_linkage_tables_is_undecided() -> None:
    with pytest.raises(Undecided):
        file(Sym("f", START, 8)).symbol(0x50010)


def test_symbol_uses_exported_symbols_without_others() -> None:
    known = file(Sym("f", START, 8), kind=11)
    assert known.symbol(START) == "f"
    assert known.symbol_size > 24


@pytest.mark.parametrize("searches", [0, symtab._MAX_SEARCHES])
def test_symbol_on_another_page_than_the_address(searches: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symtab, "_MAX_SEARCHES", searches)
    rng = random.Random(7)
    starts = sorted(rng.sample(range(START, START + 0x1FF00), 300))
    order = [Sym(f"f{at:x}", at, after - at) for at, after in zip(starts, [*starts[1:], START + 0x20000])]
    rng.shuffle(order)
    known = file(*order)
    for sym in order:
        assert known.symbol(sym.address) == known.symbol(sym.address + sym.size - 1) == sym.name
    assert file(Sym("whole", START, 0x20000)).symbol(START + 0x1FFFF) == "whole"


def test_bias_of_the_loaded_file() -> None:
    known = file(Sym("f", START, 8))
    sections = [Section(".text", 0x7F0000001000, 0x7F0000021000), Section(".data", 0x7F0000040000, 0x7F0000041000)]
    assert known.bias(Module("/lib/x.so", tuple(sections))) == 0x7F0000000000
    assert known.bias(Module("/lib/x.so", (*sections, Section(".bss", 0x7F0000050000, 0x7F0000051000)))) is None
    assert known.bias(Module("/lib/x.so", (sections[0], Section(".data", 0x7F0000040000, 0x7F0000041008)))) is None
    assert known.bias(Module("/lib/x.so", ())) is None


def test_debug_information_and_debug_link() -> None:
    note = struct.pack("<III", 4, 4, 3) + b"GNU\0" + b"\xde\xad\xbe\xef"
    extra = [(".gnu_debuglink", b"x.debug\0" + bytes(4)), (".note.gnu.build-id", note)]
    known = SymbolFile(reader(image([], extra=extra)))
    assert (known.debug_link()[0], known.build_id(), known.has_debug_information) == ("x.debug", "deadbeef", False)
    for name in (".debug_info", ".gnu_debugdata"):
        assert SymbolFile(reader(image([], extra=[(name, b"x")]))).has_debug_information
    nothing = SymbolFile(reader(image([])))
    assert (nothing.debug_link()[0], nothing.build_id(), nothing.symbol_size) == (None, None, 0)
    with pytest.raises(Undecided):
        nothing.symbol(START)


def test_symbol_file_when_damaged_raises_only_known_errors() -> None:
    data = image([Sym("f", START, 8), Sym("g", START + 8, 8)])
    for size in (0, 16, 63, 64, len(data) - 1):
        with pytest.raises(CorruptStructure):
            SymbolFile(reader(data[:size]))
    rng = random.Random(3)
    for _ in range(2000):
        torn = bytearray(data)
        for _ in range(rng.randrange(1, 8)):
            torn[rng.randrange(len(torn))] = rng.randrange(256)
        try:
            known = SymbolFile(reader(bytes(torn)))
            known.symbol(START + 4)
        except GdbextError:
            continue
