"""Loaded files that the debugger has not found, identified by the target's mappings.

A debugger opens a library by the dynamic linker's name. That name may be relative (``./libx.so``), and the file may
be deleted. The kernel knows the absolute path, and the mapped ELF header has the segments.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Sequence

from gdbext.elf.headers import (
    PF_X,
    PT_GNU_EH_FRAME,
    PT_LOAD,
    SHF_ALLOC,
    SHF_EXECINSTR,
    Read,
    find_segments,
    link_address,
    mapped_file,
)
from gdbext.elf.symtab import SymbolFile
from gdbext.errors import GdbextError, if_unreadable
from gdbext.inferior.address_space import Region
from gdbext.inferior.cache import PAGE
from gdbext.inferior.modules import TEMPLATES
from gdbext.inferior.protocol import Memory, Module, Section
from gdbext.record import record

#: The largest number of files that are added.
_MAX_FILES = 1000


@record
class MappedModule:
    """A loaded file. `file` is None if the file on disk is missing or differs; `bias` is added to its addresses."""

    module: Module
    file: SymbolFile | None
    bias: int

    @if_unreadable(None)
    def symbol(self, address: int) -> str | None:
        """The name of the symbol that covers an address, still mangled; None if not known."""
        if self.file is None:
            return None
        return self.file.symbol(address - self.bias)


def mapped_modules(memory: Memory, regions: Sequence[Region], known: Sequence[Module],
                   open_file: Callable[[str], Read | None]) -> Iterator[MappedModule]:
    """Find files with mapped code that are not among the known modules.

    :param open_file: opens a file by the path of its mapping; None if it cannot.
    """
    sections = sorted((section.start, section.end) for module in known for section in module.sections
                      if section.name not in TEMPLATES)
    starts = [start for start, _ in sections]
    headers: dict[str, int] = {}
    code: dict[tuple[str, int | None], list[Region]] = {}
    for region in regions:
        path = region.path
        if path is None or not path.startswith("/"):
            continue
        if region.offset == 0:
            headers[path] = region.start
        if region.allows("x") is False:  # None if a core lacks the permissions
            continue
        before = bisect.bisect_left(starts, region.end) - 1
        if before < 0 or sections[before][1] <= region.start:
            code.setdefault((path, headers.get(path)), []).append(region)
    for (path, header), mapped in list(code.items())[:_MAX_FILES]:
        found = _make_module(memory, path, header, mapped, open_file(path))
        if found is not None:
            yield found


def _make_module(memory: Memory, path: str, header: int | None, code: Sequence[Region],
                 read: Read | None) -> MappedModule | None:
    in_memory = mapped_file(memory, header) if header is not None else None
    segments = find_segments(in_memory) if in_memory is not None else []
    if in_memory is not None and not segments and in_memory(0, 1):
        return None  # not an ELF file
    file = _open_if_same(memory, header, read)
    if file is not None:
        bias = next((found for found in (_find_bias(file, region) for region in code) if found is not None), None)
        if bias is not None:
            sections = [Section(section.name, section.address + bias, section.address + section.size + bias)
                        for section in file.sections if section.flags & SHF_ALLOC and section.size]
            return MappedModule(Module(path, tuple(sections), by_mapping=True), file, bias)
    linked = link_address(segments)
    executable = [segment for segment in segments if segment.kind == PT_LOAD and segment.flags & PF_X]
    if header is None or linked is None or not executable:
        return None
    base = header - linked
    # an executable segment is code, whatever the names of its sections
    parts = [Section("", header, header + 1)]
    parts += [Section("", max(base + segment.address, header + 1), base + segment.address + segment.size)
              for segment in executable]
    parts += [Section(".eh_frame_hdr", base + segment.address, base + segment.address + segment.size)
              for segment in segments if segment.kind == PT_GNU_EH_FRAME]
    return MappedModule(Module(path, tuple(parts), by_mapping=True), None, base)


def _open_if_same(memory: Memory, header: int | None, read: Read | None) -> SymbolFile | None:
    """The file on disk, unless its first page differs from the mapped one."""
    if read is None:
        return None
    first = read(0, PAGE)
    try:
        if header is not None and first and memory.read(header, len(first)) != first:
            return None
    except GdbextError:  # the core may lack that page
        pass
    try:
        return SymbolFile(read)
    except GdbextError:
        return None


def _find_bias(file: SymbolFile, code: Region) -> int | None:
    """The difference between run-time and link-time addresses, computed from a section that is mapped as code."""
    for section in file.sections:
        if section.flags & SHF_EXECINSTR and code.offset <= section.offset < code.offset + code.end - code.start:
            return code.start + section.offset - code.offset - section.address
    return None
