"""Build ids and kinds of ELF files on this machine."""

from __future__ import annotations

import functools
import os
import stat
from pathlib import Path

from gdbext.elf.headers import ET_DYN, ET_EXEC, SHT_NOBITS, file_machine, file_type, opened_file, read_sections
from gdbext.elf.notes import find_build_id
from gdbext.errors import CorruptStructure
from gdbext.launcher.snapshots.programs import HOME
from gdbext.launcher.status import Unreadable

#: What to do about another processor.
ONLY_DECODED = "only x86-64 and arm64 are decoded"


def build_id_of(path: str | Path) -> str | None:
    """The build id of a file, in hexadecimal; None if it has none, cannot be read, or is not an ELF file."""
    try:
        found = os.stat(path)
        return _build_id_of(str(path), found.st_mtime_ns, found.st_size)
    except (OSError, ValueError):
        return None


@functools.lru_cache(maxsize=100_000)
def _build_id_of(path: str, changed: int, size: int) -> str | None:
    with open(path, "rb", buffering=0) as file:
        return find_build_id(opened_file(file))


def is_debug_file(path: str | Path) -> bool:
    """Whether a file has only the symbols of another file with the same build id."""
    try:
        with open(path, "rb", buffering=0) as file:
            return any(section.kind == SHT_NOBITS for section in read_sections(opened_file(file))
                       if section.name in (".dynamic", ".text", ".interp"))
    except (CorruptStructure, OSError, ValueError):
        return False


def check_machine(start: bytes, what: str) -> None:
    """Check that the processor of an ELF file is decoded, by the file's first 20 bytes.

    :raises Unreadable: it is not.
    """
    name = file_machine(start)
    if name is not None and not is_decoded(name):
        raise Unreadable(f"{what}: the processor is {name}", ONLY_DECODED)


def is_decoded(machine: str) -> bool:
    """Whether targets with a processor can be read, by its name as in `os.uname`."""
    return Path(HOME, "gdbext", "arch", machine, "system_calls.json").exists()


def is_program(path: Path) -> bool:
    """Whether a file is an executable or a library."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return False
        with open(path, "rb", buffering=0) as file:
            return file_type(file.read(18)) in (ET_EXEC, ET_DYN)
    except OSError:
        return False
