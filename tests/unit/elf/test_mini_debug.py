"""The compressed symbol table in an executable, made as Fedora makes it."""

from __future__ import annotations

import lzma
import subprocess
from pathlib import Path

import pytest

from gdbext.elf import mini_debug
from gdbext.elf.headers import open_regular
from gdbext.elf.mini_debug import mini_debug_file
from gdbext.elf.symtab import SymbolFile
from gdbext.errors import CorruptStructure
from tests.support.mini_debug import SOURCE, addresses, with_mini_debug


@pytest.fixture
def library(tmp_path: Path) -> Path:
    (tmp_path / "x.c").write_text(SOURCE)
    made = tmp_path / "libx.so"
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", made, tmp_path / "x.c"], check=True)
    return made


def opened(path: Path) -> SymbolFile:
    return SymbolFile(open_regular(str(path)))


def test_symbols_are_those_of_functions_that_are_not_exported(library: Path) -> None:
    hidden = addresses(library)["hidden"]
    file = opened(with_mini_debug(library))
    assert file.symbol(hidden + 1) is None
    found = mini_debug_file(file)
    assert found is not None
    assert found.symbol(hidden + 1) == "hidden"


def test_file_without_the_section_has_none(library: Path) -> None:
    assert mini_debug_file(opened(library)) is None


@pytest.mark.parametrize("contents", [
    b"", b"not xz", lzma.compress(b"\x7fELF" + bytes(100))[:-10], lzma.compress(b"not ELF"), lzma.compress(bytes(10))])
def test_bad_contents_are_corrupt(contents: bytes, library: Path) -> None:
    with pytest.raises(CorruptStructure):
        mini_debug_file(opened(with_mini_debug(library, contents)))


def test_contents_that_become_too_large_are_not_decompressed(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = opened(with_mini_debug(library))
    monkeypatch.setattr(mini_debug, "_MAX_SIZE", 1000)
    with pytest.raises(CorruptStructure, match="too large"):
        mini_debug_file(file)
    monkeypatch.setattr(mini_debug, "_MAX_COMPRESSED", 10)
    with pytest.raises(CorruptStructure, match="too large"):
        mini_debug_file(file)
