"""Identifies musl as the target's C library, by its file or by its texts in a program that it is linked into."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gdbext.errors import if_unreadable
from gdbext.inferior.protocol import Memory, Module
from gdbext.record import record

_FILE = re.compile(r"^(?:ld-musl-.*\.so\.1|libc\.musl-.*\.so\.1)$")
#: ``__libc_version``, which the dynamic linker prints.
_VERSION = re.compile(rb"\0(1\.[12]\.\d{1,2})\0")
#: The first texts of ``strerror``, which every program has that prints (musl 1.2.3 src/errno/__strerror.h).
_TEXTS = re.compile(rb"No error information\0(?:Illegal byte sequence\0|Success\0)")
_LIMIT = 8 << 20


@record
class Musl:
    """musl in a target: the file that contains it, and its version if that is known."""

    module: Module
    version: str | None = None

    @property
    def name(self) -> str:
        """As the report has it."""
        return f"musl {self.version}" if self.version else "musl"


def find_musl(memory: Memory, modules: Sequence[Module]) -> Musl | None:
    """Find musl, shared or linked into the program; None if neither is found."""
    shared = next((module for module in modules if _FILE.match(module.name)), None)
    if shared is not None:
        found = set(_VERSION.findall(_constants(memory, shared)))
        return Musl(shared, found.pop().decode() if len(found) == 1 else None)
    program = next((module for module in modules if module.is_main), None)
    if program is not None and _TEXTS.search(_constants(memory, program)):
        return Musl(program)
    return None


@if_unreadable(b"")
def _constants(memory: Memory, module: Module) -> bytes:
    section = module.section(".rodata")
    return memory.read(section.start, min(section.end - section.start, _LIMIT)) if section is not None else b""
