"""Finds the loaded file that contains an address."""

from __future__ import annotations

import bisect
from collections.abc import Sequence

from gdbext.inferior.protocol import Module
from gdbext.remembered import remembered

#: Sections with addresses that are not in memory: templates of thread-local storage.
TEMPLATES = (".tbss", ".tdata")


class ModuleMap:
    """Finds the module of an address and remembers the answer."""

    def __init__(self, modules: Sequence[Module]) -> None:
        self._ranges = sorted((section.start, section.end, index) for index, module in enumerate(modules)
                              for section in module.sections
                              if section.end > section.start and section.name not in TEMPLATES)
        self._starts = [item[0] for item in self._ranges]
        self._modules = modules

    @remembered
    def find(self, address: int) -> Module | None:
        """The module with a section that contains an address, or None."""
        index = bisect.bisect_right(self._starts, address) - 1
        if index >= 0 and address < self._ranges[index][1]:
            return self._modules[self._ranges[index][2]]
        return None
