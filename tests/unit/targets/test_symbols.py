"""Symbols of a loaded file and of its separate debug file, in a made-up file and in files of this machine."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from gdbext.elf.headers import Read
from gdbext.elf.symtab import SymbolFile
from gdbext.targets import symbols
from gdbext.targets.source_lines import SourceLines
from gdbext.targets.symbols import LoadedFile
from tests.support.mini_debug import with_mini_debug

BIAS = 0x5000_0000_0000
SOURCE = """
static int __attribute__((noinline)) hidden(int value) { return value * 3 + 1; }
int exported(int value) { return hidden(value) + hidden(value + 1); }
"""


def opened(path: str) -> Read | None:
    if not Path(path).is_file():
        return None
    data = Path(path).read_bytes()
    return lambda offset, size: data[offset:offset + size]


def loaded(path: Path) -> LoadedFile:
    read = opened(str(path))
    assert read is not None
    return LoadedFile(SymbolFile(read), BIAS, str(path), opened)


def addresses(path: Path) -> dict[str, int]:
    """The addresses of the functions in a file's symbol table."""
    lines = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout.splitlines()
    return {line.split()[2]: int(line.split()[0], 16) for line in lines if " t " in line.lower()}


@pytest.fixture
def library(tmp_path: Path) -> Path:
    source = tmp_path / "libx.c"
    source.write_text(SOURCE)
    made = tmp_path / "libx.so"
    subprocess.run(["gcc", "-O1", "-g", "-shared", "-fPIC", "-Wl,--build-id", "-o", made, source], check=True)
    return made


def test_symbol_is_found_at_run_time_addresses(library: Path) -> None:
    at, file = addresses(library), loaded(library)
    assert [file.symbol(BIAS + at[name] + 1) for name in ("hidden", "exported")] == ["hidden", "exported"]
    assert file.symbol(BIAS - 1) is None
    assert file.has_lines


def test_symbol_of_a_stripped_file_is_that_of_its_debug_file(library: Path) -> None:
    at, stripped, folder = addresses(library), library.with_name("libstripped.so"), library.parent / ".debug"
    shutil.copy(library, stripped)
    subprocess.run(["strip", stripped], check=True)
    assert (loaded(stripped).symbol(BIAS + at["hidden"]), loaded(stripped).has_lines) == (None, False)
    assert loaded(stripped).symbol(BIAS + at["exported"]) == "exported"
    folder.mkdir()
    debug = folder / "libstripped.debug"
    subprocess.run(["objcopy", "--only-keep-debug", library, debug], check=True)
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", stripped], check=True)
    assert loaded(stripped).symbol(BIAS + at["hidden"]) == "hidden"
    assert loaded(stripped).has_lines


def test_debug_file_of_another_build_is_not_used(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at, other = addresses(library), library.with_name("other.debug")
    subprocess.run(["gcc", "-O0", "-g", "-shared", "-fPIC", "-Wl,--build-id", "-o", other, library.with_suffix(".c")],
                   check=True)
    subprocess.run(["strip", library], check=True)
    build_id = loaded(library).build_id
    assert build_id is not None
    place = library.parent / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug"
    place.parent.mkdir(parents=True)
    shutil.copy(other, place)
    monkeypatch.setattr(symbols, "DEBUG_FOLDER", str(library.parent))
    assert loaded(library).symbol(BIAS + at["hidden"]) is None


def test_debug_file_without_a_build_id_needs_the_right_checksum(library: Path) -> None:
    source, plain = library.with_suffix(".c"), library.with_name("libplain.so")
    subprocess.run(["gcc", "-O1", "-g", "-shared", "-fPIC", "-Wl,--build-id=none", "-o", plain, source], check=True)
    at, debug = addresses(plain), plain.with_name("libplain.debug")
    subprocess.run(["objcopy", "--only-keep-debug", plain, debug], check=True)
    subprocess.run(["objcopy", "--strip-all", f"--add-gnu-debuglink={debug}", plain], check=True)
    assert loaded(plain).build_id is None
    assert loaded(plain).symbol(BIAS + at["hidden"]) == "hidden"
    assert loaded(plain).has_lines
    with open(debug, "ab") as file:
        file.write(b"other")
    assert loaded(plain).symbol(BIAS + at["hidden"]) is None


def test_symbol_is_that_of_the_compressed_table(library: Path) -> None:
    at = addresses(library)
    assert loaded(with_mini_debug(library)).symbol(BIAS + at["hidden"]) == "hidden"
    assert loaded(with_mini_debug(library)).symbol(BIAS + at["exported"]) == "exported"
    assert loaded(with_mini_debug(library, b"damaged")).symbol(BIAS + at["hidden"]) is None


def test_debug_information_has_lines_at_run_time_addresses(library: Path) -> None:
    lines = SourceLines()
    found = lines.find(loaded(library), BIAS + addresses(library)["hidden"])
    assert found is not None
    assert (found.function, found.file, found.line) == ("hidden", str(library.with_suffix(".c")), 2)
    # of a second read of the process
    assert lines.find(loaded(library), BIAS + addresses(library)["hidden"]) == found
    assert lines.find(loaded(library), BIAS + 1) is None


def test_shared_file_is_found_by_its_build_id(library: Path) -> None:
    link = library.with_name("link")
    build_id = loaded(library).build_id
    assert build_id is not None
    link.write_bytes(b"common.debug\0" + bytes.fromhex(build_id))
    subprocess.run(["objcopy", f"--add-section=.gnu_debugaltlink={link}", library], check=True)
    shutil.copy(library, library.with_name("common.debug"))
    read = opened(str(library))
    assert read is not None
    file = SymbolFile(read)
    assert file.shared_link() == ("common.debug", build_id)
    found = loaded(library)._shared_file(file)
    assert found is not None
    assert found.build_id() == build_id


def test_version_of_an_exported_symbol_does_not_change_which_of_two_names_is_chosen(tmp_path: Path) -> None:
    """As in glibc: fcntl of GLIBC_2.2.5 and fcntl64 of GLIBC_2.28. With its version, the other name would be last."""
    (tmp_path / "x.map").write_text("ONE { global: exported; local: *; };\nTWO { global: exported64; } ONE;\n")
    (tmp_path / "x.c").write_text(f'{SOURCE}int exported64(int) __attribute__((alias("exported")));\n')
    made = tmp_path / "libx.so"
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-Wl,--version-script=x.map", "-o", made, "x.c"], check=True,
                   cwd=tmp_path)
    at = addresses(made)["exported"]
    subprocess.run(["strip", made], check=True)
    assert loaded(made).symbol(BIAS + at) == "exported64"
