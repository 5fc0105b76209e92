"""The generator of layout tables: small C files with known layouts, and one real table made anew."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gdbext.layout.members import StructSpec, read_specs
from gdbext.layout.select import with_debug_offsets
from gdbext.layout.table import Field, parse_table

# pyelftools is for scripts/ only; older releases do not read DWARF 5
pytest.importorskip("elftools", minversion="0.29")

from scripts import gen_layouts

GCC = shutil.which("gcc")
needs_gcc = pytest.mark.skipif(GCC is None, reason="no gcc")
#: Options that make gcc describe members and bit fields in the ways of the DWARF versions.
DIALECTS = [["-gdwarf-5"], ["-gdwarf-4"], ["-gdwarf-3", "-gstrict-dwarf"], ["-gdwarf-2", "-gstrict-dwarf"]]

SOURCE = r"""
typedef unsigned long word;
typedef struct { word _value; } atomic_address;
struct inner { char tag; struct { int deep; } in; };
typedef struct inner inner_t;
typedef union { struct { int lock; unsigned count; } data; char size[40]; } mutex_t;
struct outer {
    char c;
    signed char sc;
    unsigned char uc;
    short s;
    unsigned u;
    volatile long l;
    void *pointer;
    int (*function)(void);
    const inner_t nested;
    inner_t array[3];
    mutex_t mutex;
    atomic_address wrapped;
    union { long anonymous; struct { char a0, a1; }; };
    struct { unsigned b0 : 2; unsigned b1 : 3; unsigned b2 : 27; unsigned b3 : 9; } state;
    unsigned char flag : 1, kind : 3;
    enum { MINUS = -1, ZERO } negative;
    enum { ONE = 1 } positive;
    int matrix[2][3];
    struct forward *forward;
    unsigned long long last[];
};
struct outer outer;
typedef struct { int only_typedef; } nameless_t;
nameless_t nameless;
struct declared;
struct declared *declared;
#ifdef ATOMICS
#include <stdatomic.h>
struct eleven { atomic_int counter; struct { _Atomic(unsigned long) _value; } wrapped; } eleven;
#endif
"""

SPEC = StructSpec(("no_such_name", "outer"), (
    "c", "sc", "uc", "s", "u", "l", "pointer", "function", "nested", "tag = nested.tag", "deep = nested.in.deep",
    "array", "first = array.in.deep", "lock = mutex.data.lock", "mutex_size = mutex.size", "wrapped", "anonymous",
    "a1", "b0 = state.b0", "b1 = state.b1", "b2 = state.b2", "b3 = state.b3", "flag", "kind", "negative", "positive",
    "matrix", "forward", "last", "moved = gone.away | nested.tag", "absent", "deep_absent = nested.in.absent",
    "through_scalar = u.x"), "")

EXPECTED: dict[str, list[Any]] = {
    "c": [0, 1, "signed"], "sc": [1, 1, "signed"], "uc": [2, 1], "s": [4, 2, "signed"], "u": [8, 4],
    "l": [16, 8, "signed"], "pointer": [24, 8], "function": [32, 8], "nested": [40, 8], "tag": [40, 1, "signed"],
    "deep": [44, 4, "signed"], "array": [48, 24], "first": [52, 4, "signed"], "lock": [72, 4, "signed"],
    "mutex_size": [72, 40], "wrapped": [112, 8], "anonymous": [120, 8, "signed"], "a1": [121, 1, "signed"],
    "b0": [128, 4, 0, 2], "b1": [128, 4, 2, 3], "b2": [128, 4, 5, 27], "b3": [132, 4, 0, 9], "flag": [136, 1, 0, 1],
    "kind": [136, 1, 1, 3], "negative": [140, 4, "signed"], "positive": [144, 4], "matrix": [148, 24],
    "forward": [176, 8], "last": [184, 0], "moved": [40, 1, "signed"],
}
if platform.machine() == "aarch64":
    # plain char is unsigned there
    for name in ("c", "tag", "moved", "a1"):
        EXPECTED[name] = EXPECTED[name][:2]


def compile_c(folder: Path, source: str, *options: str) -> Path:
    assert GCC is not None
    file, binary = folder / "layouts.c", folder / "layouts.o"
    file.write_text(source, encoding="utf-8")
    subprocess.run([GCC, "-c", *options, str(file), "-o", str(binary)], check=True, timeout=60)
    return binary


def structs_of(binary: Path, **specs: StructSpec) -> gen_layouts.Structs:
    with binary.open("rb") as stream:
        structs, _ = gen_layouts.structs_of(gen_layouts.open_elf(stream).get_dwarf_info(), specs)
        return structs


# -- DWARF ------------------------------------------------------------------------------------------------------

@needs_gcc
@pytest.mark.parametrize("dialect", DIALECTS, ids=" ".join)
def test_members(tmp_path: Path, dialect: list[str]) -> None:
    struct = structs_of(compile_c(tmp_path, SOURCE, *dialect), outer=SPEC)["outer"]
    expected = dict(EXPECTED)
    if "-gdwarf-2" in dialect:
        # strict DWARF 2 does not tell whether an enumeration is signed
        expected["negative"] = [140, 4]
    assert struct == {"size": 184, "members": expected}


@needs_gcc
@pytest.mark.parametrize("dialect", DIALECTS, ids=" ".join)
def test_the_compiler_agrees(tmp_path: Path, dialect: list[str]) -> None:
    # the same places, as the compiler computes them: a wrong one is an array of negative size
    places = [("nested.in.deep", "deep"), ("mutex.data.lock", "lock"), ("a1", "a1"), ("negative", "negative"),
              ("matrix", "matrix"), ("forward", "forward"), ("last", "last"), ("array[0].in.deep", "first")]
    members = structs_of(compile_c(tmp_path, SOURCE, *dialect), outer=SPEC)["outer"]["members"]
    checks = "".join(f'_Static_assert(__builtin_offsetof(struct outer, {path}) == {members[name][0]}, "{name}");\n'
                     for path, name in places)
    compile_c(tmp_path, SOURCE + checks)


@needs_gcc
@pytest.mark.parametrize("dialect", DIALECTS, ids=" ".join)
def test_bit_fields_hold_the_value_that_c_wrote(tmp_path: Path, dialect: list[str]) -> None:
    source = SOURCE.replace("struct outer outer;",
                            "struct outer outer = {.state = {1, 5, 12345, 300}, .flag = 1, .kind = 6};")
    binary = compile_c(tmp_path, source, *dialect)
    members = structs_of(binary, outer=SPEC)["outer"]["members"]
    with binary.open("rb") as stream:
        elf = gen_layouts.open_elf(stream)
        data = elf.get_section_by_name(".data").data()[:184]
    values = {}
    for name in ("b0", "b1", "b2", "b3", "flag", "kind"):
        offset, size, low, width = members[name]
        values[name] = Field(offset, size, bits=(low, width)).extract(data)
    assert values == {"b0": 1, "b1": 5, "b2": 12345, "b3": 300, "flag": 1, "kind": 6}


@needs_gcc
def test_c11_atomics(tmp_path: Path) -> None:
    binary = compile_c(tmp_path, SOURCE, "-g", "-DATOMICS")
    struct = structs_of(binary, e=StructSpec(("eleven",), ("counter", "wrapped"), ""))["e"]
    assert struct == {"size": 16, "members": {"counter": [0, 4, "signed"], "wrapped": [8, 8]}}


@needs_gcc
def test_structures_by_typedef_and_those_only_declared(tmp_path: Path) -> None:
    structs = structs_of(compile_c(tmp_path, SOURCE, "-g"), t=StructSpec(("nameless_t",), ("only_typedef",), ""),
                         d=StructSpec(("declared",), ("x",), ""), f=StructSpec(("forward",), ("x",), ""))
    assert structs == {"t": {"size": 4, "members": {"only_typedef": [0, 4, "signed"]}}}


@needs_gcc
def test_a_definition_in_a_later_unit_is_found(tmp_path: Path) -> None:
    assert GCC is not None
    for name, text in (("a", "struct late; struct late *a;"), ("b", "struct late { long x, y; } b;")):
        (tmp_path / f"{name}.c").write_text(text, encoding="utf-8")
    binary = tmp_path / "both.so"
    subprocess.run([GCC, "-g", "-shared", "-fPIC", "a.c", "b.c", "-o", str(binary)], check=True, cwd=tmp_path,
                   timeout=60)
    assert structs_of(binary, late=StructSpec(("late",), ("y",), "")) == {
        "late": {"size": 16, "members": {"y": [8, 8, "signed"]}}}


@needs_gcc
def test_compressed_debug_information(tmp_path: Path) -> None:
    binary = compile_c(tmp_path, SOURCE, "-g", "-gz=zlib")
    assert structs_of(binary, outer=SPEC)["outer"]["members"]["lock"] == [72, 4, "signed"]


def test_split_member() -> None:
    assert gen_layouts.split_member("prev") == ("prev", ["prev"])
    assert gen_layouts.split_member("gil = ceval.gil") == ("gil", ["ceval.gil"])
    assert gen_layouts.split_member("m = imports.modules | modules") == ("m", ["imports.modules", "modules"])


# -- versions and files -----------------------------------------------------------------------------------------

@pytest.mark.parametrize(("word", "text"), [(0x030B07F0, "3.11.7"), (0x030D00C1, "3.13.0rc1"), (0x030F00A5, "3.15.0a5"),
                                            (0x030E0AF0, "3.14.10")])
def test_hex_version(word: int, text: str) -> None:
    assert gen_layouts.hex_version(word) == text


@needs_gcc
@pytest.mark.parametrize(("source", "version"), [
    ("const unsigned long Py_Version = 0x030b07f0;", "3.11.7"),
    ('const char *a = "lib/python3.9", *b = "3.9.18", *c = "3.2.0", *d = "3.2.0";', "3.9.18"),
    # a linker shares the tail of a longer text
    ('const char *a = "lib/python3.10", *b = "/opt/versions/3.10.13";', "3.10.13"),
    ('const char *a = "lib/python3.9", *b = "3.9.2+";', "3.9.2"),
    ('const char *a = "lib/python3.9", *b = "13.9.18", *c = "3.9.18.4";', None),
])
def test_version_of_an_interpreter(tmp_path: Path, source: str, version: str | None) -> None:
    with compile_c(tmp_path, source).open("rb") as stream:
        assert gen_layouts.cpython_version(gen_layouts.open_elf(stream)) == version


@needs_gcc
@pytest.mark.parametrize(("source", "version"), [
    ('const char banner[] = "GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36.\\nCopyright";', "2.36"),
    ('static const char __attribute__((used)) nptl_version[] = "2.31";', "2.31"),
    ("int x = 1;", None),
])
def test_version_of_a_libc(tmp_path: Path, source: str, version: str | None) -> None:
    with compile_c(tmp_path, source).open("rb") as stream:
        assert gen_layouts.glibc_version(gen_layouts.open_elf(stream)) == version


INTERPRETER = """
const unsigned long Py_Version = 0x030b07f0;
struct _object { %s void *ob_type; } object;
%s
"""


@needs_gcc
@pytest.mark.parametrize(("member", "symbol", "build"), [
    ("long ob_refcnt;", "", "default"),
    ("long ob_refcnt;", "void _Py_NegativeRefcount(void) {}", "default-debug"),
    ("unsigned long ob_tid;", "", "free-threaded"),
    ("unsigned long ob_tid;", "void _Py_NegativeRefcount(void) {}", "free-threaded-debug"),
])
def test_build_flavours(tmp_path: Path, capsys: pytest.CaptureFixture[str], member: str, symbol: str,
                        build: str) -> None:
    binary = compile_c(tmp_path, INTERPRETER % (member, symbol), "-g")
    assert gen_layouts.main(["cpython", "--file", str(binary), "--output", "-"]) == 0
    layouts = parse_table(capsys.readouterr().out)
    assert (layouts.version, layouts.build) == ("3.11.7", build)
    assert layouts["PyObject"].offset("ob_type") == 8


@needs_gcc
def test_detached_debug_information(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert GCC is not None
    if shutil.which("objcopy") is None:
        pytest.skip("no objcopy")
    build_id = "0123456789abcdef0123456789abcdef01234567"
    (tmp_path / "i.c").write_text(INTERPRETER % ("long ob_refcnt;", ""), encoding="utf-8")
    library = tmp_path / "libpython3.11.so.1.0"
    subprocess.run([GCC, "-g", "-shared", f"-Wl,--build-id=0x{build_id}", str(tmp_path / "i.c"), "-o", str(library)],
                   check=True, timeout=60)
    detached = tmp_path / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug"
    detached.parent.mkdir(parents=True)
    subprocess.run(["objcopy", "--only-keep-debug", str(library), str(detached)], check=True, timeout=60)
    subprocess.run(["objcopy", "--strip-debug", str(library)], check=True, timeout=60)
    assert gen_layouts.main(["cpython", "--file", str(library), "--debug-dir", str(tmp_path), "--output",
                             str(tmp_path)]) == 0
    written = tmp_path / f"cpython-3.11.7-default-{platform.machine()}.json"
    assert capsys.readouterr().out == f"{written}\n"
    assert json.loads(written.read_text(encoding="utf-8"))["build_id"] == build_id
    detached.unlink()
    assert gen_layouts.main(["cpython", "--file", str(library), "--debug-dir", str(tmp_path)]) == 1
    assert f"none for its build id {build_id}" in capsys.readouterr().err


@needs_gcc
def test_what_a_file_does_not_tell_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    binary = compile_c(tmp_path, "struct _object { long ob_refcnt; void *ob_type; } object;", "-g")
    assert gen_layouts.main(["cpython", "--file", str(binary), "--output", "-"]) == 1
    assert "give it with --version" in capsys.readouterr().err
    assert gen_layouts.main(["cpython", "--file", str(binary), "--version", "3.8.1", "--output", "-"]) == 0
    assert parse_table(capsys.readouterr().out).version == "3.8.1"


@pytest.mark.parametrize("content", [b"", b"not an ELF file", b"\x7fELF"])
def test_a_bad_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    assert gen_layouts.main(["glibc", "--file", str(path)]) == 1
    assert capsys.readouterr().err.startswith("gen_layouts: ")


# -- output -----------------------------------------------------------------------------------------------------

def test_table_text() -> None:
    structs = {"b": {"size": 8, "members": {"z": [4, 4], "a": [0, 4, "signed"], "also": [0, 4, 0, 1]}},
               "a": {"size": 0, "members": {"x": [0, 0]}}}
    facts = gen_layouts.Facts("3.11.7", "default", "x86_64", "ab")
    assert gen_layouts.table_text("cpython", facts, structs, "P") == (
        '{"build": "default",\n "build_id": "ab",\n "machine": "x86_64",\n "producer": "P",\n'
        ' "runtime": "cpython",\n "version": "3.11.7",\n "structs": {\n'
        '  "a": {"size": 0, "members": {"x": [0, 0]}},\n'
        '  "b": {"size": 8, "members": {"a": [0, 4, "signed"], "also": [0, 4, 0, 1], "z": [4, 4]}}\n}}\n')
    assert gen_layouts.table_name("cpython", facts) == "cpython-3.11.7-default-x86_64.json"
    assert gen_layouts.table_name("glibc", facts._replace(version="2.36")) == "glibc-2.36-x86_64.json"


def test_a_donor_lends_what_is_missing_to_its_own_minor_version_only(tmp_path: Path) -> None:
    facts = gen_layouts.Facts("3.10.13", "default", "x86_64", "")
    lent = {"PyModuleObject": {"size": 56, "members": {"md_dict": [16, 8]}}}
    donor = tmp_path / "donor.json"
    donor.write_text(gen_layouts.table_text("cpython", facts, {**lent, "PyObject": {"size": 99, "members": {}}}, "P"),
                     encoding="utf-8")
    structs: gen_layouts.Structs = {"PyObject": {"size": 16, "members": {}}}
    assert gen_layouts.merge_donor(facts._replace(version="3.10.2"), structs, donor) == ["PyModuleObject"]
    assert structs == {"PyObject": {"size": 16, "members": {}}, **lent}
    for other in (facts._replace(version="3.9.13"), facts._replace(build="free-threaded"),
                  facts._replace(machine="aarch64")):
        with pytest.raises(gen_layouts.GenerationError, match="cannot lend"):
            gen_layouts.merge_donor(other, {}, donor)


# -- real builds ------------------------------------------------------------------------------------------------

def build_id_of(path: Path) -> str:
    with path.open("rb") as stream:
        return gen_layouts.build_id_of(gen_layouts.open_elf(stream))


def table_of(runtime: str, path: Path) -> Path | None:
    """The table that was made from exactly this file."""
    build_id = build_id_of(path)
    return next((table for table in gen_layouts.TABLES.glob(f"{runtime}-*.json")
                 if json.loads(table.read_text(encoding="utf-8"))["build_id"] == build_id), None)


def generated_again(runtime: str, path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert gen_layouts.main([runtime, "--file", str(path), "--output", "-"]) == 0
    return capsys.readouterr().out


@pytest.mark.slow
def test_a_table_of_an_interpreter_made_anew(capsys: pytest.CaptureFixture[str]) -> None:
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    for library in sorted(versions.glob("*/lib/libpython3.*.so.1.0"), reverse=True):
        table = table_of("cpython", library)
        if table is not None:
            assert generated_again("cpython", library, capsys) == table.read_text(encoding="utf-8")
            return
    pytest.skip("no interpreter here is one that a table was made from")


def free_threaded_pythons() -> list[Path]:
    """Those with debug information that scripts/get-python made."""
    store = Path(os.environ.get("GDBEXT_PYTHONS", Path.home() / ".cache" / "gdbext" / "pythons"))
    return sorted(store.glob("3.*t/bin/python3.*t"))


def test_a_table_of_a_free_threaded_interpreter_made_anew(capsys: pytest.CaptureFixture[str]) -> None:
    for path in free_threaded_pythons():
        table = table_of("cpython", path)
        if table is not None:
            assert generated_again("cpython", path, capsys) == table.read_text(encoding="utf-8")
            return
    pytest.skip("no free-threaded interpreter here is one that a table was made from")


def test_an_interpreter_says_the_same_of_itself() -> None:
    # since 3.13 the numbers are also constants in the interpreter's data
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    compared = 0
    for library in sorted(versions.glob("3.1[3-9]*/lib/libpython3.*.so.1.0")):
        table = table_of("cpython", library)
        if table is None:
            continue
        layouts = parse_table(table.read_text(encoding="utf-8"))
        with library.open("rb") as stream:
            data = gen_layouts.open_elf(stream).get_section_by_name(".PyRuntime").data()
        offsets = {name: field.extract(data) for name, field in layouts["_Py_DebugOffsets"].fields.items()}
        told = with_debug_offsets(layouts, offsets)
        assert {name: dict(struct.fields) for name, struct in told.structs.items()} == {
            name: dict(struct.fields) for name, struct in layouts.structs.items()}
        compared += 1
    if not compared:
        pytest.skip("no CPython 3.13 or later here that a table was made from")


def glibc_source(tree: Path, version: str = '#define VERSION "2.17"') -> Path:
    """As much of glibc's sources as the generator compiles, with a semaphore and a file in places of their own."""
    for path, text in {
        "version.h": f'#define RELEASE "stable"\n{version}\n',
        "include/libc-symbols.h": "#include <libc-abis.h>\n#ifndef HAVE_WEAK_SYMBOLS\n#error\n#endif\n",
        "nptl/pthreadP.h": "#include <asm/unistd.h>\nstruct pthread { char header[720]; int tid; };\n",
        # the folder of the machine comes before the one of all machines
        "sysdeps/x86_64/internaltypes.h": "struct new_sem { int value; int private; unsigned long nwaiters; };\n",
        "sysdeps/generic/internaltypes.h": "#error",
        "sysdeps/generic/ldsodefs.h": "#include <config.h>\nstruct rtld_global { char ns[40], _dl_load_lock[40]; };",
        "include/stdio.h": "struct _IO_FILE { int flags; int _fileno; };\n",
    }.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text, encoding="utf-8")
    return tree


@needs_gcc
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the sources are compiled for x86-64")
def test_sources_of_glibc(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gen_layouts.main(["glibc", "--source", str(glibc_source(tmp_path)), "--output", "-"]) == 0
    layouts = parse_table(capsys.readouterr().out)
    assert (layouts.runtime, layouts.version, layouts.build, layouts.machine) == ("glibc", "2.17", "default", "x86_64")
    assert layouts.producer.startswith("sources, GNU C99")
    found = {name: {member: field.offset for member, field in struct.fields.items()}
             for name, struct in layouts.structs.items()}
    assert found == {"struct pthread": {"tid": 720}, "sem_t": {"value": 0, "private": 4, "nwaiters": 8},
                     "struct rtld_global": {"_dl_load_lock": 40}, "struct _IO_FILE": {"_fileno": 4}}


@needs_gcc
def test_sources_that_do_not_compile_or_tell_no_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = glibc_source(tmp_path, "")
    assert gen_layouts.main(["glibc", "--source", str(tree), "--output", "-"]) == 1
    assert "give it with --version" in capsys.readouterr().err
    (tree / "include" / "stdio.h").write_text("#error broken", encoding="utf-8")
    assert gen_layouts.main(["glibc", "--source", str(tree), "--version", "2.17", "--output", "-"]) == 1
    assert "broken" in capsys.readouterr().err
    assert gen_layouts.main(["glibc", "--source", str(tmp_path / "nowhere"), "--output", "-"]) == 1
    assert capsys.readouterr().err.startswith("gen_layouts: ")


def test_a_table_of_the_system_libc_made_anew(capsys: pytest.CaptureFixture[str]) -> None:
    for library in (Path(f"/lib/{platform.machine()}-linux-gnu/libc.so.6"), Path("/lib64/libc.so.6")):
        table = table_of("glibc", library) if library.exists() else None
        if table is None:
            continue
        with library.open("rb") as stream:
            try:
                gen_layouts.find_debug(library, gen_layouts.open_elf(stream), [Path("/usr/lib/debug")])
            except gen_layouts.GenerationError:
                continue
        assert generated_again("glibc", library, capsys) == table.read_text(encoding="utf-8")
        return
    pytest.skip("no libc here is one that a table was made from, with its debug information")


def python_headers() -> list[Path]:
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    return [path for path in (*sorted(Path("/usr/include").glob("python3.*")),
                              *sorted(versions.glob("3.*/include/python3.*")))
            if (path / "internal" / "pycore_frame.h").exists() and (path / "pyconfig.h").exists()]


@needs_gcc
@pytest.mark.long
def test_headers_give_the_same_as_debug_information(capsys: pytest.CaptureFixture[str]) -> None:
    compared = 0
    for folder in python_headers():
        status = gen_layouts.main(["cpython", "--headers", str(folder), "--output", "-"])
        out = capsys.readouterr()
        assert status == 0, out.err
        made = json.loads(out.out)
        table = gen_layouts.TABLES / f"cpython-{made['version']}-default-{made['machine']}.json"
        if not table.exists():
            continue
        compared += 1
        known = json.loads(table.read_text(encoding="utf-8"))["structs"]
        differing = gen_layouts.differences(made["structs"], known)
        if parse_table(out.out).version_tuple < (3, 13):
            # what only source files declare no header tells
            missing = {name for name in differing if name not in made["structs"]}
            specs = read_specs("cpython")
            assert all(re.match(r"(Objects|Modules|Python)/[\w/]+\.c", specs[name].home) for name in missing)
            differing = [name for name in differing if name not in missing]
        assert differing == [], made["version"]
    if not compared:
        pytest.skip("no headers of a version that has a table")


@needs_gcc
@pytest.mark.slow
def test_headers_compiled_as_a_debug_build(capsys: pytest.CaptureFixture[str]) -> None:
    folder = next(iter(reversed(python_headers())), None)
    if folder is None:
        pytest.skip("no headers")
    status = gen_layouts.main(["cpython", "--headers", str(folder), "--option=-DPy_DEBUG", "--output", "-"])
    out = capsys.readouterr()
    assert status == 0, out.err
    assert json.loads(out.out)["build"] == "default-debug"


@needs_gcc
@pytest.mark.long
def test_headers_of_a_free_threaded_build_give_the_same_as_its_debug_information() -> None:
    compared = 0
    for path in free_threaded_pythons():
        headers = path.parent.parent / "include" / path.name
        if not (headers / "internal" / "pycore_lock.h").exists():
            continue
        facts, known, _ = gen_layouts.read_binary("cpython", path, [Path("/usr/lib/debug")], None, None)
        made_facts, made, _ = gen_layouts.read_headers([str(headers)], "gcc", [], True, None)
        assert facts.build == "free-threaded"
        assert made_facts == facts._replace(build_id="")
        # private ones are among them, of the interpreter and of its extension modules
        assert {"lockobject", "wait_entry", "TaskObj", "simplequeueobject", "SemLockObject"} <= set(known)
        assert gen_layouts.differences(made, known) == []
        compared += 1
    if not compared:
        pytest.skip("no free-threaded interpreter with headers and debug information here")


@needs_gcc
@pytest.mark.parametrize("version", ["0x030c0af0", "0x031000f0"])
def test_nothing_is_declared_for_versions_that_it_was_not_read_from(tmp_path: Path, version: str) -> None:
    # without Python.h: a declaration would not compile
    compile_c(tmp_path, f'#define PY_VERSION_HEX {version}\n#include "{gen_layouts.PRIVATE}"\n')
    with pytest.raises(subprocess.CalledProcessError):
        compile_c(tmp_path, f'#define PY_VERSION_HEX 0x030d05f0\n#include "{gen_layouts.PRIVATE}"\n')


def test_declarations_that_do_not_give_the_default_builds_table_are_refused(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gen_layouts, "TABLES", tmp_path)
    facts = gen_layouts.Facts("3.14.0", "default", "x86_64", "")
    structs: gen_layouts.Structs = {"lockobject": {"size": 24, "members": {"lock": [16, 1]}},
                                    "_PyRuntimeState": {"size": 999, "members": {"stoptheworld": [64, 24]}}}
    assert "no cpython-3.14.0-default-x86_64.json to compare" in gen_layouts.check_private(facts, structs)
    table = tmp_path / gen_layouts.table_name("cpython", facts)
    # the runtime's end depends on options of the build
    known = {**structs, "_PyRuntimeState": {**structs["_PyRuntimeState"], "size": 1000}}
    table.write_text(gen_layouts.table_text("cpython", facts, known, "P"), encoding="utf-8")
    assert gen_layouts.check_private(facts, structs) == ""
    for wrong in ({"size": 32, "members": {"lock": [16, 1]}}, {"size": 24, "members": {"lock": [17, 1]}},
                  {"size": 24, "members": {}}):
        with pytest.raises(gen_layouts.GenerationError, match="lockobject"):
            gen_layouts.check_private(facts, {**structs, "lockobject": wrong})
    with pytest.raises(gen_layouts.GenerationError, match="lockobject"):
        gen_layouts.check_private(facts, {"_PyRuntimeState": structs["_PyRuntimeState"]})
    with pytest.raises(gen_layouts.GenerationError, match="textio"):
        gen_layouts.check_private(facts, {**structs, "textio": {"size": 8, "members": {}}})


def test_extension_modules_are_those_of_the_build(tmp_path: Path) -> None:
    for folder, file in (("python3.14", "_queue.cpython-314-x86_64-linux-gnu.so"),
                         ("python3.14t", "_asyncio.cpython-314t-x86_64-linux-gnu.so")):
        (tmp_path / "lib" / folder / "lib-dynload").mkdir(parents=True)
        (tmp_path / "lib" / folder / "lib-dynload" / file).touch()
    path = tmp_path / "bin" / "python3"
    assert [found.name for found in gen_layouts.extension_modules(path, "3.14.1", False)] == [
        "_queue.cpython-314-x86_64-linux-gnu.so"]
    assert [found.name for found in gen_layouts.extension_modules(path, "3.14.1", True)] == [
        "_asyncio.cpython-314t-x86_64-linux-gnu.so"]


def test_system_calls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    header = tmp_path / "unistd_64.h"
    header.write_text("#ifndef _ASM_UNISTD_64_H\n#define __NR_read 0\n#define __NR_futex 202\n\n#endif\n")
    assert gen_layouts.main(["syscalls", "--file", str(header), "--output", "-"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made == {"machine": "x86_64", "source": "Linux uapi asm/unistd_64.h", "names": {"0": "read", "202": "futex"}}


def test_header_without_system_calls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    header = tmp_path / "unistd_64.h"
    header.write_text("/* nothing */\n")
    assert gen_layouts.main(["syscalls", "--file", str(header), "--output", "-"]) == 1
    assert "no system call" in capsys.readouterr().err


def test_the_table_of_system_calls_made_anew(capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers never change; a newer kernel's header only has more of them."""
    header = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
    if not header.exists():
        pytest.skip("no kernel headers for x86-64 here")
    assert gen_layouts.main(["syscalls", "--file", str(header), "--output", "-"]) == 0
    made = json.loads(capsys.readouterr().out)["names"]
    table = gen_layouts.ARCHITECTURES / "x86_64" / "system_calls.json"
    known = json.loads(table.read_text(encoding="utf-8"))["names"]
    assert {number: made[number] for number in known if number in made} == {
        number: name for number, name in known.items() if number in made}
    assert known["202"] == made["202"] == "futex"
