"""Identifies the target's C library and the layouts of its structures.

The version is read from the library in the target's memory, never from debug types: those may belong to another
version, and have been misleading more than once (docs/case-studies/rapids.md).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace

from gdbext import arch
from gdbext.elf.dynamic import DynamicSymbol, find_dynamic_symbol
from gdbext.errors import GdbextError, UnknownLayout, if_unreadable
from gdbext.inferior.cache import read_cstring, read_u32
from gdbext.inferior.protocol import Memory, Module
from gdbext.layout.select import glibc_layouts, glibc_structs
from gdbext.layout.table import Field, Layouts
from gdbext.model.reasons import Reason, because, because_of
from gdbext.musl.version import Musl, find_musl
from gdbext.record import record

#: File names of glibc's main library.
LIBC = re.compile(r"^libc(\.so\.6|-2\.\d+\.so)$")
_PTHREAD = re.compile(r"^libpthread(\.so\.0|-2\.\d+\.so)$")
_BANNER = re.compile(rb"GNU C Library [^\0]{0,200}?release version (\d+\.\d+)")
#: The string ``nptl_version``, which libthread_db asks for; static linking keeps it and drops the banner.
_NPTL_VERSION, _NPTL_SYMBOL = re.compile(rb"(?<=\0)2\.[1-9]\d(?=\0)"), "__nptl_version"
#: A string of every program that is linked with glibc 2.26 or later.
_TUNABLES = b"GLIBC_TUNABLES"
_RODATA_LIMIT = 8 << 20


@record
class CLibrary:
    """The target's C library; `layouts` is None if its structures are unknown, with the reason in `why`.

    `musl` is set if it is musl, whose structures need no layouts.
    """

    name: str | None
    layouts: Layouts | None
    why: Reason | None = None
    modules: tuple[Module, ...] = ()
    musl: Musl | None = None

    @property
    def is_decoded(self) -> bool:
        """Whether its locks are decoded."""
        return self.layouts is not None or self.musl is not None


def find_c_library(memory: Memory, modules: Sequence[Module], machine: str,
                   symbol: Callable[[int], str | None] = lambda address: None) -> CLibrary:
    """Identify the C library and choose its layouts.

    Source: glibc 2.36 csu/version.c (`gnu_get_libc_version`, the banner), nptl/libpthread-compat.c and
    nptl/nptl-stack.c (`nptl_version`), nptl_db/structs.def.

    :param symbol: returns the name of the symbol at an address, None if there is none.
    """
    libc = next((module for module in modules if LIBC.match(module.name)), None)
    if libc is None:
        musl = find_musl(memory, modules)
        if musl is not None:
            return CLibrary(musl.name, None, None, (musl.module,), musl)
        # a statically linked program may contain glibc's banner
        libc = next((module for module in modules if module.is_main), None)
    if libc is None:
        return CLibrary(None, None, because("libc-not-loaded"))
    version = (_version_by_function(memory, libc, machine) or _version_by_banner(memory, libc)
               or _version_for_debuggers(memory, libc, symbol))
    if version is None:
        return CLibrary(None, None, because("libc-version-unknown"))
    parts = (libc, *[module for module in modules if _PTHREAD.match(module.name)])
    try:
        layouts = glibc_layouts(version, machine)
    except UnknownLayout as error:
        return CLibrary(f"glibc {version}", None, because_of(error), parts)
    layouts = _with_condvar(memory, parts, _with_thread_db(memory, parts, layouts))
    return CLibrary(f"glibc {version}", layouts, None, parts)


@if_unreadable(None)
def _version_by_function(memory: Memory, libc: Module, machine: str) -> str | None:
    symbol = find_dynamic_symbol(memory, libc, "gnu_get_libc_version")
    text = arch.of(machine).returned_address(memory, symbol.address) if symbol is not None else None
    if text is None:
        return None
    found = re.fullmatch(rb"\d+\.\d+", read_cstring(memory, text, 16))
    return found.group().decode() if found else None


@if_unreadable(None)
def _version_by_banner(memory: Memory, libc: Module) -> str | None:
    section = libc.section(".rodata")
    if section is None:
        return None
    found = _BANNER.search(memory.read(section.start, min(section.end - section.start, _RODATA_LIMIT)))
    return found.group(1).decode() if found else None


@if_unreadable(None)
def _version_for_debuggers(memory: Memory, program: Module, symbol: Callable[[int], str | None]) -> str | None:
    """The version of glibc that is linked into a program, which may also contain version numbers of its own."""
    section = program.section(".rodata")
    if section is None:
        return None
    data = memory.read(section.start, min(section.end - section.start, _RODATA_LIMIT))
    found = [*_NPTL_VERSION.finditer(data)]
    named = {match.group() for match in found if symbol(section.start + match.start()) == _NPTL_SYMBOL}
    versions = named or ({match.group() for match in found} if _TUNABLES in data else set())
    return versions.pop().decode() if len(versions) == 1 else None


def _find_in(memory: Memory, modules: Sequence[Module], name: str) -> DynamicSymbol | None:
    places = (find_dynamic_symbol(memory, module, name) for module in modules)
    return next((symbol for symbol in places if symbol is not None), None)


def _with_thread_db(memory: Memory, modules: Sequence[Module], layouts: Layouts) -> Layouts:
    # libc describes `struct pthread` for libthread_db, including members that a distribution's patch has moved
    known = layouts["struct pthread"]
    changes = {}
    distance = _distance(memory, modules, "_thread_db_pthread_tid", known["tid"])
    if distance:
        changes["tid"] = replace(known["tid"], offset=known.offset("tid") + distance)
    distance = _distance(memory, modules, "_thread_db_pthread_start_routine", known["start_routine"])
    if distance:
        # the futex word of a join is not described, but has always been directly before the start routine
        for member in ("joinid", "joinstate"):
            if member in known:
                changes[member] = replace(known[member], offset=known.offset(member) + distance)
    size = _size_of_descriptor(memory, modules) or known.size
    if not changes and size == known.size:
        return layouts
    return layouts.replaced("table", {"struct pthread": changes}, {"struct pthread": size})


@if_unreadable(None)
def _size_of_descriptor(memory: Memory, modules: Sequence[Module]) -> int | None:
    """The size of ``struct pthread``, which differs between releases; on arm64 it leads from a thread pointer to it."""
    symbol = _find_in(memory, modules, "_thread_db_sizeof_pthread")
    size = read_u32(memory, symbol.address) if symbol is not None else 0
    return size if 0 < size < 1 << 16 else None


@if_unreadable(0)
def _distance(memory: Memory, modules: Sequence[Module], name: str, field: Field) -> int:
    """The distance of a member from its place in the table, by its description: {bits, count, byte offset}."""
    symbol = _find_in(memory, modules, name)
    if symbol is None:
        return 0
    bits, _, offset = struct.unpack("<3I", memory.read(symbol.address, 12))
    return offset - field.offset if bits == 8 * field.size and offset < 1 << 16 else 0


def _with_condvar(memory: Memory, modules: Sequence[Module], layouts: Layouts) -> Layouts:
    # some distributions backported a change of `pthread_cond_t` in 2.41 to 2.38 - 2.40. The code of
    # pthread_cond_destroy shows the offset of __wrefs. That name is exported twice, but C11's cnd_destroy (2.28 and
    # later) jumps to the right function. Without it the version decides.
    symbol = _find_in(memory, modules, "cnd_destroy")
    by_version = layouts["pthread_cond_t"]
    if symbol is None or "__wrefs" not in by_version:
        return layouts
    try:
        places = arch.of(layouts.machine).members_behind_jump(memory, symbol.address)
    except GdbextError:
        return layouts
    if places is None or by_version.offset("__wrefs") in places:
        return layouts
    for known in glibc_structs("pthread_cond_t", layouts.machine):
        if "__wrefs" in known and known.offset("__wrefs") in places:
            return replace(layouts, structs={**layouts.structs, "pthread_cond_t": known})
    return layouts
