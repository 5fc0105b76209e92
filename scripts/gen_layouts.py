#!/usr/bin/env python3
"""Make a layout table from debug information: the offsets of the members of CPython's and glibc's structures.

Input is an ELF file with DWARF 4 or 5 (an interpreter, a shared library, a detached debug file, which is also found by
build id), or a folder of CPython's headers or of glibc's sources, which are compiled; `cpython_private.h` has what
CPython's headers lack. `gdbext/layout/members.json` says which members are wanted; what the build does not have is left
out. Output is one JSON file in `gdbext/layout/tables`, the same byte for byte each time. docs/internals/layouts.md
describes its format. Nothing of the input is run.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Union

from elftools.common.exceptions import DWARFError, ELFError
from elftools.elf.elffile import ELFFile

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from gdbext.layout.members import StructSpec, read_specs  # noqa: E402

SPECS = {name: read_specs(name) for name in ("cpython", "glibc", "libgomp", "numpy")}
TABLES = ROOT / "gdbext" / "layout" / "tables"
ARCHITECTURES = ROOT / "gdbext" / "arch"
MACHINES = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64"}

#: Names that say nothing about the place of a value.
_TRANSPARENT = ("DW_TAG_typedef", "DW_TAG_const_type", "DW_TAG_volatile_type", "DW_TAG_atomic_type",
                "DW_TAG_restrict_type")
_AGGREGATES = ("DW_TAG_structure_type", "DW_TAG_union_type", "DW_TAG_class_type")
_POINTER_TAGS = ("DW_TAG_pointer_type", "DW_TAG_reference_type", "DW_TAG_subroutine_type")
# DW_ATE_signed, DW_ATE_signed_char
_SIGNED_ENCODINGS = (5, 6)

#: Headers of CPython that define the wanted structures; a version has some of them.
HEADERS = ("frameobject.h", "structmember.h", "internal/pycore_runtime.h", "internal/pycore_runtime_structs.h",
           "internal/pycore_interp.h", "internal/pycore_interp_structs.h", "internal/pycore_pystate.h",
           "internal/pycore_frame.h", "internal/pycore_interpframe_structs.h", "internal/pycore_interpframe.h",
           "internal/pycore_gil.h", "internal/pycore_dict.h", "internal/pycore_moduleobject.h",
           "internal/pycore_code.h", "internal/pycore_lock.h", "internal/pycore_tstate.h",
           "internal/pycore_critical_section.h", "internal/pycore_parking_lot.h", "internal/pycore_pythread.h",
           "internal/pycore_brc.h")
#: Structures whose ends depend on options of the build (JIT); no wanted member is there.
OPEN_ENDED = ("PyInterpreterState", "_PyRuntimeState", "_PyThreadStateImpl")
#: Declarations of what no header defines, 3.13 - 3.15.
PRIVATE = Path(__file__).resolve().parent / "cpython_private.h"

#: Extension modules with wanted structures, which most builds have as files of their own.
EXTENSIONS = ("_asyncio", "_queue", "_multiprocessing")

#: Folders of glibc 2.17 - 2.27 for x86-64, in the order in which its own build searches them; a version has some.
GLIBC_FOLDERS = (
    "sysdeps/unix/sysv/linux/x86_64/64", "nptl/sysdeps/unix/sysv/linux/x86_64", "sysdeps/unix/sysv/linux/x86_64",
    "nptl/sysdeps/unix/sysv/linux/x86", "sysdeps/unix/sysv/linux/x86", "sysdeps/x86/nptl",
    "sysdeps/unix/sysv/linux/wordsize-64", "sysdeps/x86_64/nptl", "nptl/sysdeps/unix/sysv/linux",
    "nptl/sysdeps/pthread", "sysdeps/unix/sysv/linux/include", "sysdeps/unix/sysv/linux", "sysdeps/nptl",
    "sysdeps/pthread", "sysdeps/gnu", "sysdeps/unix/sysv", "sysdeps/unix", "sysdeps/posix", "nptl/sysdeps/x86_64/64",
    "sysdeps/x86_64/64", "nptl/sysdeps/x86_64", "sysdeps/x86_64", "sysdeps/x86", "sysdeps/ieee754",
    "sysdeps/wordsize-64", "sysdeps/generic", "nptl", "libio", ".")
#: The files that glibc's build would make before it compiles anything, if the structures need them.
GLIBC_MADE = {"config.h": "", "abi-versions.h": "", "libc-abis.h": "enum { LIBC_ABI_DEFAULT, LIBC_ABI_MAX };\n",
              "bits/stdio_lim.h": "#define FILENAME_MAX 4096\n#define IOV_MAX 1024\n", "misc/bits/syscall.h": ""}
#: What it would find out, and the options with which it compiles a file of libpthread.
GLIBC_OPTIONS = ("-std=gnu99", "-fgnu89-inline", "-O2", "-fPIC", "-DPIC", "-DSHARED", "-D_LIBC_REENTRANT",
                 "-D_IO_MTSAFE_IO", "-DNOT_IN_libc=1", "-DMODULE_NAME=libpthread", "-DMODULE_libpthread=1",
                 "-DMODULE_testsuite=2", "-DHAVE_WEAK_SYMBOLS", "-DHAVE_ASM_WEAK_DIRECTIVE", "-DHAVE_FORCED_UNWIND")
GLIBC_SOURCE = "#include <pthreadP.h>\n#include <internaltypes.h>\n#include <ldsodefs.h>\n#include <stdio.h>\n"

#: What has the structures of NumPy 2, and that of NumPy 1 under another name.
NUMPY_SOURCE = ("#define NPY_NO_DEPRECATED_API NPY_API_VERSION\n#define NPY_TARGET_VERSION NPY_1_22_API_VERSION\n"
                "#include <Python.h>\n#include <numpy/ndarraytypes.h>\n")

Member = list[Union[int, str]]
Structs = dict[str, dict[str, Any]]


class GenerationError(Exception):
    """The input lacks something that a table needs; the text says what."""


class Place(NamedTuple):
    """A member found: byte offset in the outermost structure, its type, and its bits if it is a bit field."""

    offset: int
    type: Any
    bits: tuple[int, int] | None


# -- DWARF ------------------------------------------------------------------------------------------------------

def _name(die: Any) -> str:
    attribute = die.attributes.get("DW_AT_name")
    if attribute is None:
        return ""
    value = attribute.value
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _constant(die: Any, attribute: str) -> int | None:
    found = die.attributes.get(attribute)
    if found is None:
        return None
    if isinstance(found.value, int):
        return found.value
    # DWARF 2 wrote a member's place as an expression: DW_OP_plus_uconst, ULEB128
    block = list(found.value)
    if not block or block[0] != 0x23:
        return None
    value = 0
    for index, byte in enumerate(block[1:]):
        value |= (byte & 0x7F) << 7 * index
    return value


def _type_of(die: Any) -> Any | None:
    return die.get_DIE_from_attribute("DW_AT_type") if "DW_AT_type" in die.attributes else None


def strip(die: Any | None) -> Any | None:
    """The type behind typedefs and qualifiers; None for void."""
    while die is not None and die.tag in _TRANSPARENT:
        die = _type_of(die)
    return die


def size_of(die: Any | None) -> int:
    """Bytes of a type; 0 for void and for an array without bounds."""
    die = strip(die)
    if die is None:
        return 0
    if die.tag == "DW_TAG_array_type":
        total = size_of(_type_of(die))
        for child in die.iter_children():
            if child.tag != "DW_TAG_subrange_type":
                continue
            count = _constant(child, "DW_AT_count")
            if count is None:
                last = _constant(child, "DW_AT_upper_bound")
                # gcc writes an array of no elements without an upper bound, or with -1 in all the bits of its form
                count = 0 if last is None or last in (0xFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF) else last + 1
            total *= count
        return total
    size = _constant(die, "DW_AT_byte_size")
    if size is not None:
        return size
    return int(die.cu["address_size"]) if die.tag in _POINTER_TAGS else 0


def is_signed(die: Any | None) -> bool:
    """Whether the type is a signed integer, a signed character or an enumeration with negative values."""
    die = strip(die)
    while die is not None and die.tag == "DW_TAG_enumeration_type" and "DW_AT_encoding" not in die.attributes:
        die = strip(_type_of(die))
    return die is not None and _constant(die, "DW_AT_encoding") in _SIGNED_ENCODINGS


def _members(die: Any) -> Iterator[Any]:
    return (child for child in die.iter_children() if child.tag == "DW_TAG_member")


def _place(member: Any, base: int) -> Place:
    kind = _type_of(member)
    at = _constant(member, "DW_AT_data_member_location") or 0
    width = _constant(member, "DW_AT_bit_size")
    if width is None:
        return Place(base + at, kind, None)
    unit = _constant(member, "DW_AT_byte_size") or size_of(kind)
    from_start = _constant(member, "DW_AT_data_bit_offset")
    if from_start is not None:
        # DWARF 4 and 5 count from the start of the structure; the unit of storage is the aligned one that contains it
        start = from_start // (8 * unit) * unit
        low = from_start - 8 * start
    else:
        # DWARF 3: an offset from the most significant bit of the unit of storage
        start = at
        low = 8 * unit - (_constant(member, "DW_AT_bit_offset") or 0) - width
    return Place(base + start, kind, (low, width))


def find_member(aggregate: Any, name: str, base: int = 0) -> Place | None:
    """A member by its name, also within anonymous structures and unions."""
    for member in _members(aggregate):
        own = _name(member)
        if own == name:
            return _place(member, base)
        if not own:
            inner = strip(_type_of(member))
            if inner is not None and inner.tag in _AGGREGATES:
                found = find_member(inner, name, _place(member, base).offset)
                if found is not None:
                    return found
    return None


def find_path(aggregate: Any, path: str) -> Place | None:
    """A member by its C path, such as ``ceval.gil``. A step into an array goes to its first element."""
    place = Place(0, aggregate, None)
    for step in path.split("."):
        inner = strip(place.type)
        while inner is not None and inner.tag == "DW_TAG_array_type":
            inner = strip(_type_of(inner))
        if inner is None or inner.tag not in _AGGREGATES:
            return None
        found = find_member(inner, step, place.offset)
        if found is None:
            return None
        place = found
    return _unwrapped(place)


def _unwrapped(place: Place) -> Place:
    # CPython up to 3.12 wraps atomics as struct { T _value; }: the value is what decoders ask for
    while True:
        inner = strip(place.type)
        if inner is None or inner.tag not in _AGGREGATES:
            return place
        members = list(_members(inner))
        if len(members) != 1 or _name(members[0]) != "_value":
            return place
        place = _place(members[0], place.offset)


def member_entry(place: Place) -> Member:
    """A member as it is written in a table."""
    size = size_of(place.type)
    if place.bits is not None:
        low, width = place.bits
        return [place.offset, max(size, (low + width + 7) // 8), low, width]
    return [place.offset, size, "signed"] if is_signed(place.type) else [place.offset, size]


def split_member(written: str) -> tuple[str, list[str]]:
    """The name that decoders use and the C paths to try, from a line of `layout/members.json`."""
    name, equals, paths = written.partition("=")
    return name.strip(), [path.strip() for path in (paths if equals else name).split("|")]


def describe(aggregate: Any, spec: StructSpec) -> dict[str, Any]:
    """One structure as it is written in a table, with those of its wanted members that it has."""
    members = {}
    for written in spec.members:
        name, paths = split_member(written)
        for path in paths:
            place = find_path(aggregate, path)
            if place is not None:
                members[name] = member_entry(place)
                break
    return {"size": size_of(aggregate), "members": members}


class Definitions:
    """The complete structures of one file's DWARF, looked up by tag or typedef name.

    A full walk of an interpreter's DWARF takes minutes, so a unit is only looked into when it mentions a name that
    is still wanted: names are offsets into the string section there, which a search of its bytes finds.
    """

    def __init__(self, dwarf: Any) -> None:
        self._parts = [dwarf]
        extra = getattr(dwarf, "supplementary_dwarfinfo", None)
        if extra is not None:
            self._parts.append(extra)
        self._found: dict[str, Any] = {}
        self.producers: Counter[str] = Counter()

    def find(self, names: Sequence[str]) -> dict[str, Any]:
        """Name -> complete structure or union, for those of the names that have one."""
        missing = set(names) - set(self._found)
        needles = self._needles(missing)
        for part in self._parts:
            data = part.debug_info_sec.stream.getvalue()
            # clang's indexed strings have no offsets to search for
            indexed = getattr(part, "debug_str_offsets_sec", None) is not None
            for unit in part.iter_CUs():
                if not missing:
                    break
                start = unit.cu_offset
                end = start + unit["unit_length"] + unit.structs.initial_length_field_size()
                if indexed or any(data.find(needle, start, end) >= 0
                                  for name in missing for needle in needles[name]):
                    missing -= self._look_into(unit, missing)
        return {name: self._found[name] for name in names if name in self._found}

    def _needles(self, names: set[str]) -> dict[str, list[bytes]]:
        needles: dict[str, list[bytes]] = {name: [name.encode() + b"\0"] for name in names}
        for part in self._parts:
            if part.debug_str_sec is None:
                continue
            strings = b"\0" + part.debug_str_sec.stream.getvalue()
            for name in names:
                # the string may be the tail of a longer one
                text = name.encode() + b"\0"
                at = strings.find(text)
                while at >= 0:
                    needles[name].append((at - 1).to_bytes(4, "little"))
                    at = strings.find(text, at + 1)
        return needles

    def _look_into(self, unit: Any, missing: set[str]) -> set[str]:
        tags: dict[str, Any] = {}
        typedefs: dict[str, Any] = {}
        top = unit.get_top_DIE()
        for die in unit.iter_DIE_children(top):
            if die.tag in _AGGREGATES or die.tag == "DW_TAG_typedef":
                name = _name(die)
                if name in missing:
                    (typedefs if die.tag == "DW_TAG_typedef" else tags).setdefault(name, die)
                    if die.tag in _AGGREGATES and "DW_AT_declaration" not in die.attributes:
                        tags[name] = die
        new = {}
        for name in missing:
            for die in (tags.get(name), strip(typedefs.get(name))):
                if die is not None and die.tag in _AGGREGATES and "DW_AT_declaration" not in die.attributes:
                    new[name] = die
                    break
        if new:
            self._found.update(new)
            producer = top.attributes.get("DW_AT_producer")
            if producer is not None:
                # without the options: they hold folders of the machine that built it
                self.producers[producer.value.decode("utf-8", "replace").split(" -")[0]] += len(new)
        return set(new)


def structs_of(dwarf: Any, specs: dict[str, StructSpec]) -> tuple[Structs, str]:
    """The structures of a table, and the compiler that the debug information names."""
    definitions = Definitions(dwarf)
    found = definitions.find([name for spec in specs.values() for name in spec.c_names])
    structs: Structs = {}
    for struct, spec in specs.items():
        for name in spec.c_names:
            if name in found:
                structs[struct] = describe(found[name], spec)
                break
    producers = definitions.producers.most_common(1)
    return structs, producers[0][0] if producers else ""


# -- files ------------------------------------------------------------------------------------------------------

class Facts(NamedTuple):
    """What one build says about itself."""

    version: str
    build: str
    machine: str
    build_id: str


def open_elf(stream: BinaryIO) -> Any:
    """An ELF file of pyelftools, whose older releases have no types."""
    make: Any = ELFFile
    return make(stream)


def build_id_of(elf: Any) -> str:
    """The build id in hexadecimal, or an empty text."""
    for section in elf.iter_sections():
        if section["sh_type"] == "SHT_NOTE":
            for note in section.iter_notes():
                if note["n_type"] == "NT_GNU_BUILD_ID":
                    return str(note["n_desc"])
    return ""


def _text_sections(elf: Any) -> Iterator[bytes]:
    for section in elf.iter_sections():
        if section["sh_type"] == "SHT_PROGBITS" and section.name.startswith((".rodata", ".data")):
            yield section.data()


def _symbol(elf: Any, *names: str) -> Any | None:
    for section in elf.iter_sections():
        if section["sh_type"] in ("SHT_SYMTAB", "SHT_DYNSYM"):
            for name in names:
                for symbol in section.get_symbol_by_name(name) or ():
                    if symbol["st_shndx"] != "SHN_UNDEF":
                        return symbol
    return None


def hex_version(word: int) -> str:
    """``3.13.0rc1`` for CPython's version word 0x030d00c1."""
    text = f"{word >> 24 & 0xFF}.{word >> 16 & 0xFF}.{word >> 8 & 0xFF}"
    level = {0xA: "a", 0xB: "b", 0xC: "rc"}.get(word >> 4 & 0xF)
    return f"{text}{level}{word & 0xF}" if level else text


def cpython_version(elf: Any) -> str | None:
    """The full version of an interpreter, read from its data, or None."""
    symbol = _symbol(elf, "Py_Version")
    if symbol is not None and isinstance(symbol["st_shndx"], int):
        section = elf.get_section(symbol["st_shndx"])
        if section["sh_type"] == "SHT_PROGBITS":
            at = symbol["st_value"] - section["sh_addr"]
            return hex_version(int.from_bytes(section.data()[at:at + 4], "little"))
    # before 3.11: the text of sys.version, which a linker may have made the tail of another text (a path of the
    # installation). "python3.9" in a path decides which of several such texts is meant.
    minors: Counter[str] = Counter()
    versions: Counter[str] = Counter()
    for data in _text_sections(elf):
        minors.update(text.decode() for text in re.findall(rb"python(3\.\d+)", data))
        versions.update(text.decode() for text in re.findall(rb"(?<![\d.])(3\.\d+\.\d+(?:(?:a|b|rc)\d+)?)\+?\0", data))
    for minor, _ in minors.most_common():
        fitting = [text for text, _ in versions.most_common() if text.startswith(minor + ".")]
        if fitting:
            return fitting[0]
    return None


def glibc_version(elf: Any) -> str | None:
    """The version of a libc or libpthread, read from its data, or None."""
    for data in _text_sections(elf):
        match = re.search(rb"GNU C Library [^\0]*?release version (\d+(?:\.\d+)+)", data)
        if match:
            return match[1].decode()
    # up to 2.33 the locks are in libpthread, which has no banner
    symbol = _symbol(elf, "nptl_version")
    if symbol is not None:
        section = elf.get_section(symbol["st_shndx"])
        at = symbol["st_value"] - section["sh_addr"]
        return str(section.data()[at:at + symbol["st_size"]].rstrip(b"\0").decode())
    return None


def cpython_flavour(structs: Structs, elf: Any) -> str:
    """``default`` or ``free-threaded``, with ``-debug`` for a Py_DEBUG build."""
    flavour = "free-threaded" if "ob_tid" in structs["PyObject"]["members"] else "default"
    # these two exist with Py_REF_DEBUG only, which Py_DEBUG implies (the second: up to 3.7)
    return flavour + "-debug" if _symbol(elf, "_Py_NegativeRefcount", "_Py_RefTotal") else flavour


def find_debug(path: Path, elf: Any, folders: Sequence[Path]) -> Path:
    """The file with the DWARF of `path`: itself, or the detached one of the same build id."""
    if elf.get_section_by_name(".debug_info") is not None:
        return path
    build_id = build_id_of(elf)
    if not build_id:
        raise GenerationError(f"{path} has neither debug information nor a build id")
    for folder in folders:
        detached = folder / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug"
        if detached.exists():
            return detached
    raise GenerationError(f"{path} has no debug information, and there is none for its build id {build_id} in "
                          + ", ".join(map(str, folders)))


def dwarf_of(elf: Any, path: Path, folders: Sequence[Path]) -> Any:
    """The DWARF of an open ELF file, with the shared part that dwz may have moved to another file."""
    dwarf = elf.get_dwarf_info()
    link = elf.get_section_by_name(".gnu_debugaltlink")
    if link is None or getattr(dwarf, "supplementary_dwarfinfo", None) is not None:
        return dwarf
    name, _, _ = link.data().partition(b"\0")
    for candidate in [path.parent / name.decode(), *(folder / ".dwz" / Path(name.decode()).name
                                                     for folder in folders)]:
        if candidate.exists():
            with candidate.open("rb") as stream:
                dwarf.supplementary_dwarfinfo = open_elf(stream).get_dwarf_info()
            return dwarf
    raise GenerationError(f"{path} refers to {name.decode()}, which is not there")


def extension_modules(path: Path, version: str, free_threaded: bool) -> list[Path]:
    """The files of `EXTENSIONS` that belong to an interpreter (in ``bin``) or a libpython (in ``lib``)."""
    minor = ".".join(version.split(".")[:2]) + ("t" if free_threaded else "")
    folder = path.parent.parent / "lib" / f"python{minor}" / "lib-dynload"
    return [file for name in EXTENSIONS for file in sorted(folder.glob(f"{name}.*.so"))]


def read_binary(runtime: str, path: Path, folders: Sequence[Path], version: str | None,
                build: str | None) -> tuple[Facts, Structs, str]:
    """Facts, structures and producer of one interpreter, shared library or detached debug file."""
    with path.open("rb") as stream:
        elf = open_elf(stream)
        machine = MACHINES.get(elf["e_machine"], str(elf["e_machine"]))
        if version is None:
            version = {"cpython": cpython_version, "glibc": glibc_version}.get(runtime, lambda _: None)(elf)
            if version is None:
                raise GenerationError(f"{path} does not contain its version: give it with --version")
        debug = find_debug(path, elf, folders)
        with debug.open("rb") as debug_stream:
            debug_elf = elf if debug == path else open_elf(debug_stream)
            structs, compiler = structs_of(dwarf_of(debug_elf, debug, folders), SPECS[runtime])
        if not structs:
            raise GenerationError(f"{debug} describes none of the structures of {runtime}")
        flavour = "default"
        if runtime == "cpython":
            if "PyObject" not in structs:
                raise GenerationError(f"{debug} does not describe PyObject")
            flavour = cpython_flavour(structs, elf)
            for extension in extension_modules(path, version, flavour.startswith("free-threaded")):
                with extension.open("rb") as other:
                    found = find_debug(extension, open_elf(other), folders)
                with found.open("rb") as other:
                    missing = {name: spec for name, spec in SPECS["cpython"].items() if name not in structs}
                    structs.update(structs_of(dwarf_of(open_elf(other), found, folders), missing)[0])
        build = build or flavour
        return Facts(version, build, machine, build_id_of(elf)), structs, f"{path.name}, {compiler}"


# -- headers ----------------------------------------------------------------------------------------------------

def header_source(free_threaded: bool) -> str:
    """A C file that pulls in all structures that CPython's headers define, and declares private ones."""
    lines = ["#define Py_BUILD_CORE 1"]
    if free_threaded:
        lines.append("#define Py_GIL_DISABLED 1")
    lines.append("#include <Python.h>")
    for header in HEADERS:
        lines += [f"#if __has_include(<{header}>)", f"#include <{header}>", "#endif"]
    return "\n".join([*lines, "unsigned int gdbext_version = PY_VERSION_HEX;", "#ifdef Py_DEBUG",
                      "Py_ssize_t _Py_RefTotal;", "#endif", PRIVATE.read_text(encoding="utf-8")])


def _compile(text: str, folder: Path, compiler: str, options: Sequence[str]) -> Path:
    """Compile a C file with debug information on all its types; the object file, in the folder."""
    source = folder / "layouts.c"
    binary = source.with_suffix(".o")
    source.write_text(text, encoding="utf-8")
    command = [compiler, "-g", "-gdwarf-5", "-fno-eliminate-unused-debug-types", "-w", "-c", *options, str(source),
               "-o", str(binary)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise GenerationError(f"the headers do not compile: {done.stderr.strip()}")
    return binary


def read_headers(folders: Sequence[str], compiler: str, options: Sequence[str], free_threaded: bool,
                 version: str | None) -> tuple[Facts, Structs, str]:
    """The same as `read_binary`, of a folder of CPython's headers."""
    with tempfile.TemporaryDirectory() as name:
        binary = _compile(header_source(free_threaded), Path(name), compiler,
                          [*options, *(f"-I{folder}" for folder in folders)])
        with binary.open("rb") as stream:
            elf = open_elf(stream)
            symbol = _symbol(elf, "gdbext_version")
            assert symbol is not None
            section = elf.get_section(symbol["st_shndx"])
            word = int.from_bytes(section.data()[symbol["st_value"]:][:4], "little")
            structs, producer = structs_of(elf.get_dwarf_info(), SPECS["cpython"])
            facts = Facts(version or hex_version(word), cpython_flavour(structs, elf),
                          MACHINES.get(elf["e_machine"], str(elf["e_machine"])), "")
            return facts, structs, f"headers, {producer}"


def read_numpy_headers(folders: Sequence[str], compiler: str, options: Sequence[str],
                       version: str | None) -> tuple[Facts, Structs, str]:
    """The same of folders with NumPy's headers and CPython's, of a default build.

    :raises GenerationError: they do not compile, or no version was given: no header contains it.
    """
    if version is None:
        raise GenerationError("headers of NumPy do not contain their version: give it with --version")
    with tempfile.TemporaryDirectory() as name:
        binary = _compile(NUMPY_SOURCE, Path(name), compiler, [*options, *(f"-I{folder}" for folder in folders)])
        with binary.open("rb") as stream:
            elf = open_elf(stream)
            structs, producer = structs_of(elf.get_dwarf_info(), SPECS["numpy"])
            machine = MACHINES.get(elf["e_machine"], str(elf["e_machine"]))
            return Facts(version, "default", machine, ""), structs, f"headers, {producer}"


def differences(structs: Structs, known: Structs) -> list[str]:
    """The structures, by name, that are not the same in two descriptions of a build.

    For what was made of headers and what was made of debug information.
    """
    return sorted(name for name in {*structs, *known}
                  if name not in structs or name not in known or structs[name]["members"] != known[name]["members"]
                  or (structs[name]["size"] != known[name]["size"] and name not in OPEN_ENDED))


def check_private(facts: Facts, structs: Structs) -> str:
    """Compare what headers and declarations give for a default build with its table, if there is one.

    Debug information of free-threaded builds is rare. The declarations of private structures are the same text for
    both builds, so the default build's table, made from debug information, shows whether they are right.

    :return: a remark if there is no such table, else an empty text.
    :raises GenerationError: a structure differs.
    """
    table = TABLES / table_name("cpython", facts)
    if not table.exists():
        return f"there is no {table.name} to compare the declarations of {PRIVATE.name} with"
    wrong = differences(structs, json.loads(table.read_text(encoding="utf-8"))["structs"])
    if wrong:
        raise GenerationError(f"headers and {PRIVATE.name} do not give for a default build what {table.name} has: "
                              f"{', '.join(wrong)} (is the table older than the list of members?)")
    return ""


def read_glibc_source(tree: Path, compiler: str, version: str | None) -> tuple[Facts, Structs, str]:
    """The same as `read_binary`, of a folder of glibc's sources, 2.17 to 2.27; of the system only the kernel's headers.

    :raises GenerationError: they do not compile, or do not contain their version.
    """
    if version is None:
        told = re.search(r'^#define VERSION "(\d+\.\d+)', (tree / "version.h").read_text("utf-8"), re.MULTILINE)
        if told is None:
            raise GenerationError(f"{tree} does not contain its version: give it with --version")
        version = told[1]
    own = subprocess.run([compiler, "-print-file-name=include"], capture_output=True, text=True, check=True).stdout
    with tempfile.TemporaryDirectory() as name:
        made = Path(name)
        for file, text in GLIBC_MADE.items():
            (made / file).parent.mkdir(parents=True, exist_ok=True)
            (made / file).write_text(text, encoding="utf-8")
        for kernels, folder in (("linux", "linux"), ("asm-generic", "asm-generic"), ("asm", "x86_64-linux-gnu/asm")):
            (made / kernels).symlink_to(Path("/usr/include", folder))
        folders = [tree / "include", made, *(tree / folder for folder in GLIBC_FOLDERS)]
        binary = _compile(GLIBC_SOURCE, made, compiler, [
            *GLIBC_OPTIONS, "-nostdinc", "-isystem", own.strip(), *(f"-I{folder}" for folder in folders),
            "-include", str(tree / "include" / "libc-symbols.h")])
        with binary.open("rb") as stream:
            elf = open_elf(stream)
            structs, producer = structs_of(elf.get_dwarf_info(), SPECS["glibc"])
            return Facts(version, "default", MACHINES[elf["e_machine"]], ""), structs, f"sources, {producer}"


def merge_donor(facts: Facts, structs: Structs, donor: Path) -> list[str]:
    """Take the structures that are missing from the table of a near version; their names.

    For structures private to a .c file, which headers do not define.

    :raises GenerationError: the donor is of another minor version, flavour or machine.
    """
    table = json.loads(donor.read_text(encoding="utf-8"))
    theirs = (table["version"].split(".")[:2], table["build"], table["machine"])
    if theirs != (facts.version.split(".")[:2], facts.build, facts.machine):
        raise GenerationError(f"{donor.name} cannot lend structures to {facts.version} {facts.build}")
    taken = sorted(set(table["structs"]) - set(structs))
    for name in taken:
        structs[name] = table["structs"][name]
    return taken


# -- output -----------------------------------------------------------------------------------------------------

def table_name(runtime: str, facts: Facts) -> str:
    """The file name under which `gdbext.layout.select` finds a table."""
    flavour = f"-{facts.build}" if runtime == "cpython" else ""
    return f"{runtime}-{facts.version}{flavour}-{facts.machine}.json"


def table_text(runtime: str, facts: Facts, structs: Structs, producer: str) -> str:
    """A table as it is written: sorted, one structure a line, so that a diff shows what moved."""
    head = {"runtime": runtime, **facts._asdict(), "producer": producer}
    lines = [f"{json.dumps(key)}: {json.dumps(head[key])}," for key in sorted(head)]
    body = []
    for name in sorted(structs):
        members = structs[name]["members"]
        # in the order of memory: two lines of two versions can be compared by eye
        ordered = {key: members[key] for key in sorted(members, key=lambda key: (*members[key][:1], key))}
        body.append(f' {json.dumps(name)}: {{"size": {structs[name]["size"]}, "members": {json.dumps(ordered)}}}')
    return "{" + "\n ".join(lines) + '\n "structs": {\n ' + ",\n ".join(body) + "\n}}\n"


def absent(runtime: str, structs: Structs) -> list[str]:
    """The wanted members that a build does not have, for the report on standard error."""
    missing = []
    for name, spec in SPECS[runtime].items():
        if name not in structs:
            missing.append(name)
            continue
        missing += [f"{name}.{member}" for member, _ in map(split_member, spec.members)
                    if member not in structs[name]["members"]]
    return missing


def syscalls_text(header: Path, machine: str) -> str:
    """The table of system call numbers, from the kernel's header.

    :param header: ``asm/unistd_64.h`` or ``asm-generic/unistd.h`` of the kernel's user-space headers.
    :raises GenerationError: it defines none.
    """
    found = re.findall(r"^#define __NR(?:3264)?_(\w+)\s+(\d+)\s*$", header.read_text(encoding="utf-8"), re.MULTILINE)
    # the generic header also has the count of all calls, and the first number that is a processor's own
    names = {int(number): name for name, number in found if name not in ("syscalls", "arch_specific_syscall")}
    if not names:
        raise GenerationError(f"{header} defines no system call")
    rows = ",\n".join(f'  "{number}": "{name}"' for number, name in sorted(names.items()))
    return f'{{"machine": "{machine}", "source": "Linux uapi asm/{header.name}",\n "names": {{\n{rows}\n}}}}\n'


def _main_syscalls(options: argparse.Namespace) -> int:
    try:
        text = syscalls_text(options.file, options.machine)
    except (GenerationError, OSError) as error:
        print(f"gen_layouts: {error}", file=sys.stderr)
        return 1
    if str(options.output) == "-":
        sys.stdout.write(text)
    else:
        target = options.output / options.machine / "system_calls.json"
        target.write_text(text, encoding="utf-8")
        print(target)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0],
                                     epilog="See docs/internals/layouts.md.")
    commands = parser.add_subparsers(dest="runtime", required=True, metavar="RUNTIME")
    for runtime, text in (("cpython", "an interpreter or libpython, or CPython's headers"),
                          ("glibc", "libc.so.6 (up to glibc 2.33: libpthread.so.0)"),
                          ("libgomp", "libgomp.so.1, with the GCC's major version as --version"),
                          ("numpy", "NumPy's headers, with its version as --version")):
        command = commands.add_parser(runtime, help=text, description=f"Make a table of {text}.")
        source = command.add_mutually_exclusive_group(required=True)
        source.add_argument("--file", type=Path, help="ELF file with debug information, or whose detached debug "
                                                      "file is found by build id")
        if runtime in ("cpython", "numpy"):
            source.add_argument("--headers", metavar="DIR[,DIR]",
                                help="folders with Python.h and pyconfig.h, and for NumPy with its own headers, to be "
                                     "compiled")
            command.add_argument("--option", action="append", default=[],
                                 help="with --headers: a further option of the compiler, as --option=-DX; repeatable")
        if runtime == "cpython":
            command.add_argument("--free-threaded", action="store_true",
                                 help="with --headers: define Py_GIL_DISABLED")
            command.add_argument("--donor", type=Path, metavar="TABLE",
                                 help="take structures that are not found from this table of the same minor version")
        elif runtime == "glibc":
            source.add_argument("--source", type=Path, metavar="DIR",
                                help="glibc's sources, 2.17 to 2.27, to be compiled for x86-64")
        command.add_argument("--compiler", default="gcc",
                             help="of headers and sources: C compiler (default: gcc)")
        command.add_argument("--version", help="full version, if the file does not contain it")
        command.add_argument("--build", help="flavour, if it is not to be recognised: default, free-threaded, or one "
                                             "of them with -debug")
        command.add_argument("--debug-dir", type=Path, action="append", metavar="DIR",
                             help="folder with .build-id, searched first; repeatable (then: /usr/lib/debug)")
        command.add_argument("--list-absent", action="store_true",
                             help="name the wanted members that the build does not have")
        command.add_argument("--output", type=Path, default=TABLES, metavar="DIR",
                             help="folder for the table (default: gdbext/layout/tables); - prints it")
    syscalls = commands.add_parser("syscalls", help="the numbers of system calls",
                                   description="Make the table of system call numbers from the kernel's header.")
    syscalls.add_argument("--file", type=Path, required=True, help="asm/unistd_64.h of the kernel's headers")
    syscalls.add_argument("--machine", default="x86_64", help="the architecture (default: x86_64)")
    syscalls.add_argument("--output", type=Path, default=ARCHITECTURES, metavar="DIR",
                          help="folder with one for each architecture (default: gdbext/arch); - prints it")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Make one table; the exit status."""
    options = _parser().parse_args(arguments)
    if options.runtime == "syscalls":
        return _main_syscalls(options)
    folders = [*(options.debug_dir or ()), Path("/usr/lib/debug")]
    try:
        if options.file is not None:
            facts, structs, producer = read_binary(options.runtime, options.file, folders, options.version,
                                                   options.build)
        elif options.runtime == "glibc":
            facts, structs, producer = read_glibc_source(options.source, options.compiler, options.version)
        elif options.runtime == "numpy":
            facts, structs, producer = read_numpy_headers(options.headers.split(","), options.compiler, options.option,
                                                          options.version)
        else:
            facts, structs, producer = read_headers(options.headers.split(","), options.compiler, options.option,
                                                    options.free_threaded, options.version)
            if options.build:
                facts = facts._replace(build=options.build)
            if options.free_threaded:
                default, private, _ = read_headers(options.headers.split(","), options.compiler, options.option, False,
                                                   options.version)
                remark = check_private(default, private)
                if remark:
                    print(f"gen_layouts: {remark}", file=sys.stderr)
        if getattr(options, "donor", None) is not None:
            taken = merge_donor(facts, structs, options.donor)
            if taken:
                producer += f"; {', '.join(taken)} of {options.donor.name}"
    except (GenerationError, DWARFError, ELFError, OSError) as error:
        print(f"gen_layouts: {error}", file=sys.stderr)
        return 1
    text = table_text(options.runtime, facts, structs, producer)
    if str(options.output) == "-":
        sys.stdout.write(text)
    else:
        target = options.output / table_name(options.runtime, facts)
        target.write_text(text, encoding="utf-8")
        print(target)
    if options.list_absent:
        print("not in this build:", *(absent(options.runtime, structs) or ["nothing"]), sep="\n  ", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
