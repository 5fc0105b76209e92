"""Which loaded file an address lies in."""

from __future__ import annotations

import bisect
from collections.abc import Sequence

from gdbext.inferior.protocol import Module

#: Sections that have addresses of their own, but no place in memory.
TEMPLATES = (".tbss", ".tdata")


class ModuleMap:
    """Finds the module of an address; each address is looked up once."""

    def __init__(self, modules: Sequence[Module]) -> None:
        self._ranges = sorted((section.start, section.end, index) for index, module in enumerate(modules)
                              for section in module.sections
                              if section.end > section.start and section.name not in TEMPLATES)
        self._starts = [item[0] for item in self._ranges]
        self._modules = modules
        self._known: dict[int, Module | None] = {}

    def find(self, address: int) -> Module | None:
        """The module that has the address in one of its sections, or None."""
        if address in self._known:
            return self._known[address]
        index = bisect.bisect_right(self._starts, address) - 1
        found = None
        if index >= 0 and address < self._ranges[index][1]:
            found = self._modules[self._ranges[index][2]]
        self._known[address] = found
        return found
