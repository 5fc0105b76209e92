from __future__ import annotations

import struct
from pathlib import Path

import pytest

import gdbext.layout
from gdbext.glibc.version import find_c_library
from gdbext.target.protocol import Module, Section
from tests.support.fake_elf import fake_elf
from tests.support.fake_memory import FakeMemory

TABLES = Path(gdbext.layout.__file__).parent / "tables"
BASE = 0x7F00_0000_0000
ENDBR = b"\xf3\x0f\x1e\xfa"


def banner(text: bytes, name: str = "libc.so.6", is_main: bool = False) -> tuple[FakeMemory, Module]:
    section = Section(".rodata", BASE, BASE + 4096)
    return FakeMemory({BASE: text.ljust(4096, b"\0")}), Module(f"/lib/{name}", (section,), is_main)


@pytest.mark.parametrize("name", ["libc.so.6", "libc-2.31.so"])
def test_by_banner(name: str) -> None:
    memory, libc = banner(b"x\0GNU C Library (Debian GLIBC 2.36-9+deb12u7) stable release version 2.36.\n", name)
    found = find_c_library(memory, [libc], "x86_64")
    assert (found.name, found.why) == ("glibc 2.36", None)
    assert found.layouts is not None
    assert found.layouts.version == "2.36"
    assert found.modules == (libc,)


def test_static_program_carries_the_banner_itself() -> None:
    memory, program = banner(b"GNU C Library (GNU libc) stable release version 2.41.\n", "server", True)
    found = find_c_library(memory, [program], "x86_64")
    assert found.name == "glibc 2.41"


@pytest.mark.parametrize("version", ["2.26", "2.28", "2.33", "2.36", "2.40", "2.42", "2.99"])
def test_nearest_older_table(version: str) -> None:
    memory, libc = banner(b"GNU C Library (x) stable release version " + version.encode() + b".\n")
    found = find_c_library(memory, [libc], "x86_64")
    assert found.name == f"glibc {version}"
    assert found.layouts is not None
    known = sorted(int(path.name.split("-")[1].split(".")[1]) for path in TABLES.glob("glibc-2.*-x86_64.json"))
    minor = int(version.split(".")[1])
    expected = max([other for other in known if other <= minor], default=known[0])
    assert found.layouts.version == f"2.{expected}"


@pytest.mark.parametrize(("prefix", "version"), [(b"", "2.36"), (ENDBR, "2.36"), (b"", "2.43"), (ENDBR, "2.31")])
def test_by_function(prefix: bytes, version: str) -> None:
    # lea text(%rip),%rax; ret -- the text 0x100 bytes further on
    code = prefix + b"\x48\x8d\x05" + struct.pack("<i", 0x100 - len(prefix) - 7) + b"\xc3"
    memory, libc = fake_elf(BASE, {"gnu_get_libc_version": (0x2000, 16)}, "/lib/libc.so.6")
    memory.map(BASE + 0x2000, code.ljust(0x100, b"\xcc") + version.encode() + b"\0")
    memory.ensure(BASE + 0x2000, 0x1000)
    assert find_c_library(memory, [libc], "x86_64").name == f"glibc {version}"


@pytest.mark.parametrize("code", [b"\x55\x48\x89\xe5", b"\x48\x8d\x05\xff\xff\xff\x7f\xc3", b""],
                         ids=["other code", "text not readable", "code not readable"])
def test_function_that_cannot_be_understood(code: bytes) -> None:
    memory, libc = fake_elf(BASE, {"gnu_get_libc_version": (0x2000, 16)}, "/lib/libc.so.6")
    if code:
        memory.map(BASE + 0x2000, code.ljust(64, b"\xcc"))
    found = find_c_library(memory, [libc], "x86_64")
    assert (found.layouts, found.why) == (None, "the C library does not tell its version")


def test_too_old_for_the_tables() -> None:
    memory, libc = banner(b"GNU C Library stable release version 2.17, by Roland McGrath et al.\n")
    found = find_c_library(memory, [libc], "x86_64")
    assert (found.name, found.layouts) == ("glibc 2.17", None)
    assert found.why is not None
    assert "2.17" in found.why


def test_musl_is_named_and_not_decoded() -> None:
    found = find_c_library(FakeMemory(), [Module("/lib/ld-musl-x86_64.so.1", ())], "x86_64")
    assert (found.name, found.layouts, found.why) == ("musl", None, "musl's locks are not decoded")


@pytest.mark.parametrize("modules", [[], [Module("/lib/libm.so.6", ())]])
def test_no_c_library(modules: list[Module]) -> None:
    found = find_c_library(FakeMemory(), modules, "x86_64")
    assert (found.name, found.layouts, found.why) == (None, None, "no C library is loaded")


def test_unreadable_library() -> None:
    libc = Module("/lib/libc.so.6", (Section(".rodata", BASE, BASE + 4096),))
    assert find_c_library(FakeMemory(), [libc], "x86_64").layouts is None


def with_thread_db(descriptor: bytes) -> int:
    memory, libc = fake_elf(BASE, {"_thread_db_pthread_tid": (0x2000, 12)}, "/lib/libc.so.6",
                            extra=(Section(".rodata", BASE + 0x3000, BASE + 0x4000),))
    memory.map(BASE + 0x2000, descriptor)
    memory.map(BASE + 0x3000, b"GNU C Library stable release version 2.36.\n".ljust(0x1000, b"\0"))
    found = find_c_library(memory, [libc], "x86_64")
    assert found.layouts is not None
    return found.layouts["struct pthread"].offset("tid")


def test_library_tells_where_a_patched_distribution_keeps_the_tid() -> None:
    assert with_thread_db(struct.pack("<3I", 32, 1, 728)) == 728
    assert with_thread_db(struct.pack("<3I", 32, 1, 720)) == 720


@pytest.mark.parametrize("descriptor", [struct.pack("<3I", 64, 1, 728), struct.pack("<3I", 32, 1, 1 << 20), b"\x20\0"],
                         ids=["other size", "too far", "torn"])
def test_impossible_offset_of_the_tid_is_not_believed(descriptor: bytes) -> None:
    assert with_thread_db(descriptor) == 720
