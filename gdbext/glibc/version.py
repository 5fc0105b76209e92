"""Which C library the target runs, and where its structures keep their members.

The version is read from the library in the target's memory, never from debug types: those may belong to another
version, and misled people more than once (docs/case-studies/rapids.md).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from gdbext.errors import GdbextError, UnknownLayout
from gdbext.layout.select import glibc_layouts
from gdbext.layout.table import Field, Layouts
from gdbext.native.elf import find_dynamic_symbol
from gdbext.target.cache import read_cstring
from gdbext.target.protocol import Memory, Module

_LIBC = re.compile(r"^libc(\.so\.6|-2\.\d+\.so)$")
_PTHREAD = re.compile(r"^libpthread(\.so\.0|-2\.\d+\.so)$")
_MUSL = re.compile(r"^(ld-musl-.*\.so\.1|libc\.musl-.*\.so\.1)$")
_BANNER = re.compile(rb"GNU C Library [^\0]{0,200}?release version (\d+\.\d+)")
_RODATA_LIMIT = 8 << 20


@dataclass(frozen=True)
class CLibrary:
    """The target's C library.

    `name` is for people (``glibc 2.36``); `layouts` is None when its structures are unknown, `why` says why.
    """

    name: str | None
    layouts: Layouts | None
    why: str | None = None
    modules: tuple[Module, ...] = ()


def find_c_library(memory: Memory, modules: Sequence[Module], machine: str) -> CLibrary:
    """Recognise the C library and choose its layouts.

    Source: glibc 2.36 csu/version.c (`gnu_get_libc_version`, the banner), nptl_db/structs.def.
    """
    libc = next((module for module in modules if _LIBC.match(module.name)), None)
    if libc is None:
        if any(_MUSL.match(module.name) for module in modules):
            return CLibrary("musl", None, "musl's locks are not decoded")
        # a statically linked program carries glibc's banner itself
        libc = next((module for module in modules if module.is_main), None)
    if libc is None:
        return CLibrary(None, None, "no C library is loaded")
    version = _version_by_function(memory, libc) or _version_by_banner(memory, libc)
    if version is None:
        return CLibrary(None, None, "the C library does not tell its version")
    parts = (libc, *[module for module in modules if _PTHREAD.match(module.name)])
    try:
        layouts = glibc_layouts(version, machine)
    except UnknownLayout as error:
        return CLibrary(f"glibc {version}", None, str(error), parts)
    return CLibrary(f"glibc {version}", _with_thread_db(memory, parts, layouts), None, parts)


def _version_by_function(memory: Memory, libc: Module) -> str | None:
    # const char *gnu_get_libc_version(void): [endbr64] lea disp(%rip),%rax; ret
    symbol = find_dynamic_symbol(memory, libc, "gnu_get_libc_version")
    if symbol is None:
        return None
    try:
        code = memory.read(symbol.address, 16)
        start = 4 if code[:4] == b"\xf3\x0f\x1e\xfa" else 0
        if code[start:start + 3] != b"\x48\x8d\x05":
            return None
        text = symbol.address + start + 7 + int.from_bytes(code[start + 3:start + 7], "little", signed=True)
        found = re.fullmatch(rb"\d+\.\d+", read_cstring(memory, text, 16))
    except GdbextError:
        return None
    return found.group().decode() if found else None


def _version_by_banner(memory: Memory, libc: Module) -> str | None:
    section = libc.section(".rodata")
    if section is None:
        return None
    try:
        found = _BANNER.search(memory.read(section.start, min(section.end - section.start, _RODATA_LIMIT)))
    except GdbextError:
        return None
    return found.group(1).decode() if found else None


def _with_thread_db(memory: Memory, modules: Sequence[Module], layouts: Layouts) -> Layouts:
    # libc describes `struct pthread` for libthread_db: {bits, count, byte offset}; a distribution's patch that
    # moves `tid` shows there
    for module in modules:
        symbol = find_dynamic_symbol(memory, module, "_thread_db_pthread_tid")
        if symbol is None:
            continue
        try:
            bits, _, offset = struct.unpack("<3I", memory.read(symbol.address, 12))
        except GdbextError:
            continue
        known = layouts["struct pthread"]["tid"]
        if bits == 8 * known.size and offset != known.offset and offset < 1 << 16:
            return layouts.replaced("table", {"struct pthread": {"tid": Field(offset, known.size, True)}}, {})
    return layouts
