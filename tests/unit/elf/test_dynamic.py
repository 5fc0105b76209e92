from __future__ import annotations

import ctypes
import struct
import time
from pathlib import Path

import pytest

from gdbext.elf.dynamic import DynamicSymbol, find_dynamic_symbol, gnu_hash, load_base, name_of_slot
from gdbext.errors import MemoryUnreadable
from gdbext.inferior.protocol import Module, Section
from tests.support.fake_elf import fake_elf
from tests.support.fake_memory import FakeMemory, NoiseMemory

BASE = 0x7F12_0000_0000
SYMBOLS = {"_PyRuntime": (0x2000, 656), "Py_Version": (0x3000, 8), "PyMutex_Lock": (0x1100, 50), "x": (0x1200, 1),
           "_thread_db_pthread_tid": (0x2800, 12)}


# hashes computed by GNU binutils
@pytest.mark.parametrize(("name", "value"), [(b"", 5381), (b"printf", 0x156B2BB8), (b"exit", 0x7C967E3F),
                                             (b"syscall", 0xBAC212A0), (b"flapenguin.me", 0x8AE9F18E)])
def test_gnu_hash(name: bytes, value: int) -> None:
    assert gnu_hash(name) == value


@pytest.mark.parametrize("gnu", [True, False], ids=["GNU hash", "old hash"])
@pytest.mark.parametrize("name", SYMBOLS)
def test_find_dynamic_symbol_when_exported(name: str, gnu: bool) -> None:
    memory, module = fake_elf(BASE, SYMBOLS, "/lib/libx.so", gnu=gnu)
    offset, size = SYMBOLS[name]
    assert find_dynamic_symbol(memory, module, name) == DynamicSymbol(BASE + offset, size)


@pytest.mark.parametrize("gnu", [True, False], ids=["GNU hash", "old hash"])
@pytest.mark.parametrize("name", ["", "Py_Versio", "Py_Version2", "nothing", "_PyRuntimf", "y" * 5000])
def test_find_dynamic_symbol_when_not_exported_is_none(name: str, gnu: bool) -> None:
    memory, module = fake_elf(BASE, SYMBOLS, "/lib/libx.so", gnu=gnu)
    assert find_dynamic_symbol(memory, module, name) is None


def test_find_dynamic_symbol_when_undefined_or_thread_local_is_none() -> None:
    kinds = {"Py_Version": (0x12, 0), "x": (0x16, 7)}
    memory, module = fake_elf(BASE, SYMBOLS, "/lib/libx.so", kinds=kinds)
    assert find_dynamic_symbol(memory, module, "Py_Version") is None
    assert find_dynamic_symbol(memory, module, "x") is None
    assert find_dynamic_symbol(memory, module, "_PyRuntime") is not None


def test_find_dynamic_symbol_in_file_with_fixed_address() -> None:
    memory, module = fake_elf(0x40_0000, {"_PyRuntime": (0x40_2000, 656)}, "/usr/bin/python3", link_base=0x40_0000)
    assert find_dynamic_symbol(memory, module, "_PyRuntime") == DynamicSymbol(0x40_2000, 656)


@pytest.mark.parametrize("size", [0, 0x200, 0x208, 0x220, 0x228, 0x400, 0xC00])
def test_find_dynamic_symbol_when_file_is_truncated_is_none(size: int) -> None:
    memory, module = fake_elf(BASE, SYMBOLS, "/lib/libx.so")
    torn = FakeMemory({BASE: memory.read(BASE, size)} if size else {})
    assert find_dynamic_symbol(torn, module, "_PyRuntime") is None


def test_find_dynamic_symbol_without_tables_is_none() -> None:
    assert find_dynamic_symbol(FakeMemory(), Module("/x", ()), "main") is None


def test_find_dynamic_symbol_when_chain_is_endless_is_none() -> None:
    memory, module = fake_elf(BASE, SYMBOLS, "/lib/libx.so")
    table = module.sections[0].start
    value = gnu_hash(b"wanted")
    # all bits of the bloom filter are set, and all words of the chain have the hash; none has the name or ends the
    # chain
    memory.u64(table + 16, (1 << 64) - 1)
    memory.u32(table + 24, 1, 1)
    memory.map(table + 32, (value & ~1).to_bytes(4, "little") * 0x4000)
    memory.ensure(module.sections[1].start, 1 << 20)
    memory.reads.clear()
    assert find_dynamic_symbol(memory, module, "wanted") is None
    assert len(memory.reads) < 50_000


def test_load_base_without_a_readable_header() -> None:
    high = Module("/lib/libx.so", (Section(".text", BASE + 0x1040, BASE + 0x2000),))
    fixed = Module("/usr/bin/x", (Section(".text", 0x40_1040, 0x40_2000),))
    assert load_base(FakeMemory(), high) == BASE + 0x1000
    assert load_base(FakeMemory(), fixed) == 0
    with pytest.raises(MemoryUnreadable):
        load_base(FakeMemory(), Module("/x", ()))


@pytest.mark.parametrize("seed", range(40))
def test_find_dynamic_symbol_when_memory_is_damaged_raises_nothing(seed: int) -> None:
    at = seed * 0x1000
    sections = tuple(Section(name, at + 0x100 * i, at + 0x100 * i + 0x80)
                     for i, name in enumerate((".gnu.hash", ".dynsym", ".dynstr")))
    start = time.process_time()
    found = find_dynamic_symbol(NoiseMemory(seed), Module("/x", sections), "_PyRuntime")
    assert found is None
    assert time.process_time() - start < 5


def test_find_dynamic_symbol_in_the_real_libc() -> None:
    """The test reads its own process and compares the result with its dynamic linker."""
    maps = [line.split() for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()]
    paths = [line[5] for line in maps if len(line) > 5 and "/libc.so.6" in line[5]]
    if not paths:
        pytest.skip("this Python runs on no glibc of 2.34 or later")
    section_module = _module_of(paths[0], min(int(line[0].split("-")[0], 16) for line in maps if paths[0] in line))
    memory = _OwnMemory([(int(low, 16), int(high, 16)) for low, high in
                         (line[0].split("-") for line in maps if "r" in line[1])])
    libc = ctypes.CDLL(paths[0])
    for name in ("gnu_get_libc_version", "pthread_create", "memcmp"):
        expected = ctypes.cast(getattr(libc, name), ctypes.c_void_p).value
        found = find_dynamic_symbol(memory, section_module, name)
        assert found is not None, name
        if name != "memcmp":  # an indirect function: its symbol is the resolver's
            assert found.address == expected


class _OwnMemory:
    def __init__(self, ranges: list[tuple[int, int]]) -> None:
        self._ranges = ranges

    def read(self, address: int, size: int) -> bytes:
        if not any(low <= address and address + size <= high for low, high in self._ranges):
            raise MemoryUnreadable(address, size)
        return ctypes.string_at(address, size)


def _module_of(path: str, base: int) -> Module:
    data = Path(path).read_bytes()
    offset, size, count = (int.from_bytes(data[at:at + n], "little") for at, n in ((40, 8), (58, 2), (60, 2)))
    names_index = int.from_bytes(data[62:64], "little")
    headers = [data[offset + i * size:offset + (i + 1) * size] for i in range(count)]

    def word(header: bytes, at: int, n: int = 8) -> int:
        return int.from_bytes(header[at:at + n], "little")

    names = word(headers[names_index], 24)
    sections = []
    for header in headers:
        at = names + word(header, 0, 4)
        if word(header, 16):
            start = base + word(header, 16)
            sections.append(Section(data[at:data.index(b"\0", at)].decode(), start, start + word(header, 32)))
    return Module(path, tuple(sections))


def test_name_of_slot() -> None:
    names = [b"", b"pthread_rwlock_unlock", b"free"]
    strings = b"\0".join(names) + b"\0"
    symbols = b"".join(struct.pack("<IBBHQQ", strings.index(name + b"\0") if name else 0, 0x12, 0, 0, 0, 0)
                       for name in names)
    relocations = b"".join(struct.pack("<QQq", 0x3000, number << 32 | 7, 0) for number in (2, 1, 9))
    memory, sections = FakeMemory(), []
    for at, (name, data) in enumerate([(".rela.plt", relocations), (".dynsym", symbols), (".dynstr", strings)]):
        memory.map(0x1000 * (at + 1), data + bytes(0x200))
        sections.append(Section(name, 0x1000 * (at + 1), 0x1000 * (at + 1) + len(data)))
    module = Module("/lib/libx.so", tuple(sections))
    assert [name_of_slot(memory, module, i) for i in range(4)] == ["free", "pthread_rwlock_unlock", None, None]
    assert name_of_slot(memory, Module("/lib/libx.so", ()), 0) is None
