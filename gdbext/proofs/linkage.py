"""Which files are linked with which functions and variables, by the tables that the dynamic linker fills."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from gdbext.errors import GdbextError
from gdbext.inferior.protocol import Memory, Module
from gdbext.proofs.program import Program
from gdbext.remembered import remembered

#: The largest table of a file's links, in bytes, and the sections with these tables.
_MAX_LINKS, _LINKS = 1 << 20, (".got", ".got.plt")


class Linkage:
    """Reads the links of the files of one snapshot.

    :param library: the files of the C library.
    """

    def __init__(self, memory: Memory, program: Program, library: Sequence[Module]) -> None:
        self._memory = memory
        self._program = program
        self.library = library
        # by the path of a file, and functions
        self._linked: dict[str, frozenset[int]] = {}
        self._having: dict[tuple[frozenset[int], str], bool] = {}
        self._near: dict[tuple[frozenset[int], str], bool] = {}

    def is_library(self, module: Module | None) -> bool:
        """Whether a file is one of the C library."""
        return any(module is part for part in self.library)

    def links(self, module: Module) -> frozenset[int]:
        """The functions of other files that a file has called so far, or has resolved when it was loaded."""
        if module.path not in self._linked:
            found: set[int] = set()
            for section in module.sections:
                if section.name in _LINKS and section.end - section.start <= _MAX_LINKS:
                    with contextlib.suppress(GdbextError):
                        data = self._memory.read(section.start, (section.end - section.start) & ~7)
                        found.update(memoryview(data).cast("Q"))
            self._linked[module.path] = frozenset(found)
        return self._linked[module.path]

    def has(self, functions: frozenset[int], module: Module) -> bool:
        """Whether a file outside of the C library has one of some functions, or is linked with one."""
        key = functions, module.path
        if key not in self._having:
            self._having[key] = not self.is_library(module) and (
                any(map(module.contains, functions)) or not functions.isdisjoint(self.links(module)))
        return self._having[key]

    def is_near(self, functions: frozenset[int], module: Module) -> bool:
        """The same of a file, or of one that it is linked with."""
        key = functions, module.path
        if key not in self._near:
            linked = {found.path: found for found in map(self._program.module, self.links(module)) if found is not None}
            self._near[key] = any(self.has(functions, each) for each in (module, *linked.values()))
        return self._near[key]

    def may_reach(self, module: Module | None, path: str) -> bool:
        """Whether code of a file may use a variable of the file at a path, or may call code that does."""
        return module is None or path in self._reachable(module) or None in self._reachable(module)

    @remembered
    def _reachable(self, module: Module) -> frozenset[str | None]:
        """The paths of the files to which a file is linked, and those to which they are; None if some are not known."""
        paths: set[str | None] = set()
        left = [module]
        while left:
            module = left.pop()
            if module.path not in paths:
                paths.add(module.path)
                if _has_all_links(module):
                    left += [found for found in map(self._program.module, self.links(module))
                             if found is not None and not self.is_library(found)]
                else:
                    paths.add(None)
        return frozenset(paths)


def _has_all_links(module: Module) -> bool:
    """Whether the sections with a file's links are known, and not too large to be read."""
    return any(section.name for section in module.sections) and all(
        section.end - section.start <= _MAX_LINKS for section in module.sections if section.name in _LINKS)
