from __future__ import annotations

import struct
from pathlib import Path

import pytest

import gdbext.layout
from gdbext.glibc.version import find_c_library
from gdbext.inferior.protocol import Module, Section
from gdbext.layout.select import glibc_layouts
from gdbext.layout.table import Layouts, Struct
from gdbext.narrate.reasons import explain
from tests.support.fake_elf import fake_elf
from tests.support.fake_memory import FakeMemory
from tests.support.reasons import said

TABLES = Path(gdbext.layout.__file__).parent / "tables"
BASE = 0x7F00_0000_0000
ENDBR = b"\xf3\x0f\x1e\xfa"


def banner(text: bytes, name: str = "libc.so.6", is_main: bool = False) -> tuple[FakeMemory, Module]:
    section = Section(".rodata", BASE, BASE + 4096)
    return FakeMemory({BASE: text.ljust(4096, b"\0")}), Module(f"/lib/{name}", (section,), is_main)


@pytest.mark.parametrize("name", ["libc.so.6", "libc-2.31.so"])
def test_version_by_banner(name: str) -> None:
    memory, libc = banner(b"x\0GNU C Library (Debian GLIBC 2.36-9+deb12u7) stable release version 2.36.\n", name)
    found = find_c_library(memory, [libc], "x86_64")
    assert (found.name, found.why) == ("glibc 2.36", None)
    assert found.layouts is not None
    assert found.layouts.version == "2.36"
    assert found.modules == (libc,)


def test_version_by_banner_of_a_static_program() -> None:
    memory, program = banner(b"GNU C Library (GNU libc) stable release version 2.41.\n", "server", True)
    found = find_c_library(memory, [program], "x86_64")
    assert found.name == "glibc 2.41"


@pytest.mark.parametrize(("text", "name", "expected"), [
    (b"a\0" + b"2.36\0" + b"GLIBC_TUNABLES\0", None, "glibc 2.36"),
    (b"a\0" + b"2.36\0" + b"version 2.31\0" + b"2.3\0", None, None),  # no other trace of glibc
    (b"a\0" + b"2.36\0" + b"2.31\0" + b"GLIBC_TUNABLES\0", None, None),  # one of them is the program's own
    (b"a\0" + b"2.36\0" + b"2.31\0" + b"GLIBC_TUNABLES\0", "__nptl_version", "glibc 2.31"),
    (b"a\0" + b"2.36\0" + b"2.31\0" + b"GLIBC_TUNABLES\0", "my_version", None),
])
def test_version_of_a_static_program_without_banner(text: bytes, name: str | None, expected: str | None) -> None:
    memory, program = banner(text, "server", True)
    found = find_c_library(memory, [program], "x86_64", lambda address: name if address == BASE + 7 else None)
    assert found.name == expected


@pytest.mark.parametrize("version", ["2.17", "2.18", "2.20", "2.22", "2.24", "2.26", "2.28", "2.33", "2.36", "2.40",
                                     "2.42", "2.99"])
def test_nearest_older_table(version: str) -> None:
    memory, libc = banner(b"GNU C Library (x) stable release version " + version.encode() + b".\n")
    found = find_c_library(memory, [libc], "x86_64")
    assert found.name == f"glibc {version}"
    assert found.layouts is not None
    known = [int(path.name.split("-")[1].split(".")[1]) for path in TABLES.glob("glibc-2.*-x86_64.json")]
    minor = int(version.split(".")[1])
    assert found.layouts.version == f"2.{max(other for other in known if other <= minor)}"


@pytest.mark.parametrize(("struct_name", "member", "first"), [
    ("sem_t", "data", 21), ("pthread_barrier_t", "current_round", 23), ("pthread_rwlock_t", "__cur_writer", 25),
    ("pthread_cond_t", "__wrefs", 25),
])
def test_layouts_have_the_algorithm_of_the_version(struct_name: str, member: str, first: int) -> None:
    for minor in range(17, 45):
        memory, libc = banner(b"GNU C Library (x) stable release version 2.%d.\n" % minor)
        layouts = find_c_library(memory, [libc], "x86_64").layouts
        assert layouts is not None
        assert layouts.has(struct_name, member) == (minor >= first), f"2.{minor}"


@pytest.mark.parametrize(("prefix", "version"), [(b"", "2.36"), (ENDBR, "2.36"), (b"", "2.43"), (ENDBR, "2.31")])
def test_version_by_function(prefix: bytes, version: str) -> None:
    # lea text(%rip),%rax; ret; the text is 0x100 bytes later
    code = prefix + b"\x48\x8d\x05" + struct.pack("<i", 0x100 - len(prefix) - 7) + b"\xc3"
    memory, libc = fake_elf(BASE, {"gnu_get_libc_version": (0x2000, 16)}, "/lib/libc.so.6")
    memory.map(BASE + 0x2000, code.ljust(0x100, b"\xcc") + version.encode() + b"\0")
    memory.ensure(BASE + 0x2000, 0x1000)
    assert find_c_library(memory, [libc], "x86_64").name == f"glibc {version}"


@pytest.mark.parametrize("code", [b"\x55\x48\x89\xe5", b"\x48\x8d\x05\xff\xff\xff\x7f\xc3", b""],
                         ids=["other code", "text not readable", "code not readable"])
def test_version_when_function_has_unknown_code_is_unknown(code: bytes) -> None:
    memory, libc = fake_elf(BASE, {"gnu_get_libc_version": (0x2000, 16)}, "/lib/libc.so.6")
    if code:
        memory.map(BASE + 0x2000, code.ljust(64, b"\xcc"))
    found = find_c_library(memory, [libc], "x86_64")
    assert (found.layouts, said(found.why)) == (None, "the version of the C library is not known")


@pytest.mark.parametrize(("version", "machine"), [("2.16", "x86_64"), ("2.27", "aarch64"), ("2.36", "riscv64")])
def test_version_when_older_than_the_tables_is_not_decoded(version: str, machine: str) -> None:
    memory, libc = banner(f"GNU C Library stable release version {version}, by Roland McGrath et al.\n".encode())
    found = find_c_library(memory, [libc], machine)
    assert (found.name, found.layouts) == (f"glibc {version}", None)
    assert found.why is not None
    assert version in explain(found.why)


def test_musl_is_identified_and_needs_no_layouts() -> None:
    found = find_c_library(FakeMemory(), [Module("/lib/ld-musl-x86_64.so.1", ())], "x86_64")
    assert (found.name, found.layouts, found.is_decoded, found.why) == ("musl", None, True, None)


@pytest.mark.parametrize("modules", [[], [Module("/lib/libm.so.6", ())]])
def test_find_c_library_without_one_has_a_reason(modules: list[Module]) -> None:
    found = find_c_library(FakeMemory(), modules, "x86_64")
    assert (found.name, found.layouts, said(found.why)) == (None, None, "no C library is loaded")


def test_version_when_library_is_unreadable_is_unknown() -> None:
    libc = Module("/lib/libc.so.6", (Section(".rodata", BASE, BASE + 4096),))
    assert find_c_library(FakeMemory(), [libc], "x86_64").layouts is None


def with_symbols(version: str, symbols: dict[str, tuple[int, bytes]]) -> Layouts:
    """The layouts for a libc of a version whose symbols have some bytes, at page-aligned addresses."""
    memory, libc = fake_elf(BASE, {name: (at, len(data)) for name, (at, data) in symbols.items()}, "/lib/libc.so.6",
                            extra=(Section(".rodata", BASE + 0x3000, BASE + 0x4000),))
    for at, data in symbols.values():
        memory.map(BASE + at, data)
    memory.map(BASE + 0x3000, f"GNU C Library stable release version {version}.\n".encode().ljust(0x1000, b"\0"))
    found = find_c_library(memory, [libc], "x86_64")
    assert found.layouts is not None
    return found.layouts


def with_thread_db(descriptor: bytes, member: str = "tid", version: str = "2.36") -> Struct:
    return with_symbols(version, {f"_thread_db_pthread_{member}": (0x2000, descriptor)})["struct pthread"]


def test_offset_of_the_tid_by_thread_db_description() -> None:
    assert with_thread_db(struct.pack("<3I", 32, 1, 728)).offset("tid") == 728
    assert with_thread_db(struct.pack("<3I", 32, 1, 720)).offset("tid") == 720


@pytest.mark.parametrize(("data", "size"), [(struct.pack("<I", 2400), 2400), (struct.pack("<I", 0), 2368),
                                            (struct.pack("<I", 1 << 20), 2368), (b"\x20\0", 2368)])
def test_size_of_the_descriptor_by_thread_db(data: bytes, size: int) -> None:
    assert with_symbols("2.36", {"_thread_db_sizeof_pthread": (0x2000, data)})["struct pthread"].size == size


@pytest.mark.parametrize("descriptor", [struct.pack("<3I", 64, 1, 728), struct.pack("<3I", 32, 1, 1 << 20), b"\x20\0"],
                         ids=["other size", "too far", "torn"])
def test_offset_of_the_tid_when_impossible_is_ignored(descriptor: bytes) -> None:
    assert with_thread_db(descriptor).offset("tid") == 720


@pytest.mark.parametrize(("version", "member"), [("2.31", "joinid"), ("2.36", "joinid"), ("2.43", "joinstate")])
@pytest.mark.parametrize("moved", [0, 8, -16])
def test_offset_of_the_join_word_moves_with_the_start_routine(version: str, member: str, moved: int) -> None:
    plain = glibc_layouts(version, "x86_64")["struct pthread"]
    description = struct.pack("<3I", 64, 1, plain.offset("start_routine") + moved)
    found = with_thread_db(description, "start_routine", version)
    assert found.offset(member) == plain.offset(member) + moved
    assert found.offset("tid") == plain.offset("tid")
    # true in every version that describes its start routine
    assert plain.offset("start_routine") - plain.offset(member) == 24


# the first instructions of pthread_cond_destroy, and of the old version that only frees a pointer
CODE_2_31 = bytes.fromhex("4889f8 488d7f24 8b4024 89c1 89c2 83c904 f00fb10f 75f3 89d6 b880000000".replace(" ", ""))
CODE_2_36 = bytes.fromhex("8b4724 4c8d4724 89c1 89c2 83c904 f0410fb108 75f2 89d6 89d0 41b9ca000000".replace(" ", ""))
CODE_2_39 = ENDBR + b"\x90" + CODE_2_36
CODE_2_41 = bytes.fromhex("8b471c 4c8d471c 89c1 89c2 83c904 f0410fb108 75f2 89d6 89d0 41b9ca000000".replace(" ", ""))
CODE_2_43 = b"\x90" + CODE_2_41
CODE_COMPAT = bytes.fromhex("4883ec08 488b3f e8d47cf9ff 31c0 4883c408 c3 662e0f1f840000000000 0f1f00".replace(" ", ""))
JUMP = b"\xe9" + struct.pack("<i", 0x800 - 5)
JUMP_ENDBR = ENDBR + b"\xe9" + struct.pack("<i", 0x800 - 9)
OLD, NEW = 36, 28


def condvar(version: str, code: bytes, jump: bytes = JUMP) -> Layouts:
    """The layouts for a libc whose cnd_destroy jumps to a pthread_cond_destroy with this code."""
    return with_symbols(version, {"cnd_destroy": (0x2000, jump.ljust(0x800, b"\xcc") + code.ljust(64, b"\xcc"))})


@pytest.mark.parametrize(("code", "wrefs"), [
    (CODE_2_31, OLD), (CODE_2_36, OLD), (CODE_2_39, OLD), (CODE_2_41, NEW), (CODE_2_43, NEW),
], ids=["2.31", "2.36", "2.39", "2.41", "2.43"])
@pytest.mark.parametrize("version", ["2.31", "2.38", "2.39", "2.40", "2.41", "2.43"])
@pytest.mark.parametrize("jump", [JUMP, JUMP_ENDBR], ids=["plain", "endbr64"])
def test_layout_of_condition_variables_by_code(version: str, code: bytes, wrefs: int,
                                                               jump: bytes) -> None:
    layouts = condvar(version, code, jump)
    known = layouts["pthread_cond_t"]
    assert (known.offset("__wrefs"), known.offset("__g_signals")) == (wrefs, wrefs + 4)
    assert ("__g_refs" in known) == (wrefs == OLD)
    # other structures are those of the version
    assert layouts.version == glibc_layouts(version, "x86_64").version
    assert layouts["struct pthread"] == glibc_layouts(version, "x86_64")["struct pthread"]


@pytest.mark.parametrize(("code", "jump"), [
    (CODE_COMPAT, JUMP), (b"", JUMP), (CODE_2_36[:7] + CODE_2_41[:7], JUMP), (CODE_2_41, b"\xff\x25" + JUMP[1:]),
    (CODE_2_41, b"\xe9\xff\xff\xff\x7f"), (CODE_2_41, b""),
], ids=["the compatible function", "nothing", "both displacements", "another jump", "a jump to nowhere", "no jump"])
@pytest.mark.parametrize(("version", "wrefs"), [("2.36", OLD), ("2.39", OLD), ("2.43", NEW)])
def test_layout_of_condition_variables_by_version_when_code_is_unknown(version: str, wrefs: int, code: bytes,
                                                                       jump: bytes) -> None:
    assert condvar(version, code, jump)["pthread_cond_t"].offset("__wrefs") == wrefs


def test_layout_of_condition_variables_before_2_25_is_unchanged() -> None:
    assert condvar("2.23", CODE_2_36)["pthread_cond_t"] == glibc_layouts("2.23", "x86_64")["pthread_cond_t"]
