"""The threads of a target, as those see them who find out what threads wait for."""

from __future__ import annotations

from collections.abc import Mapping

from gdbext.glibc.version import CLibrary
from gdbext.inferior.protocol import Memory, Target
from gdbext.library import Library
from gdbext.record import record
from gdbext.threads.code import Code
from gdbext.threads.site import Sites
from gdbext.threads.threads import Threads


@record
class Scene:
    """The threads of a target with its code. `sleepers` counts the threads that sleep on each futex word."""

    target: Target
    code: Code
    library: CLibrary
    threads: Threads
    sites: Sites
    sleepers: Mapping[int, int]

    @property
    def memory(self) -> Memory:
        """The target's memory."""
        return self.target.memory

    def is_private(self, address: int) -> bool:
        """Whether an address is in memory that only this process can have mapped; false if that is not known."""
        region = self.code.space.find(address)
        if region is None or region.shared:
            return False
        # a core does not mark shared mappings, but gives each of them a path, "/dev/zero (deleted)" if it has no file
        return self.target.kind != "core" or region.path is None or self.code.module(address) is not None

    def variables(self, library: Library, name: str) -> list[int]:
        """The addresses of a variable in the files of a library, by its symbol."""
        found = [self.target.variable(module, name) for module in self.code.modules if library.has(module.name)]
        return [address for address in found if address is not None]

    def has_mapped(self, path: str) -> bool:
        """Whether the process has mapped a file or a device of the kernel."""
        return any(region.path == path for region in self.target.regions())
