"""Threads that wait for an operation of a process group: for its ``c10d::Work``, or in a send or receive of gloo.

Source: PyTorch 2.13 torch/csrc/distributed/c10d/Work.cpp (Work::wait); gloo gloo/transport/tcp/unbound_buffer.cc
(UnboundBuffer::waitRecv, waitSend).
"""

from __future__ import annotations

import functools
from functools import cached_property
from typing import Final

from gdbext.inferior.cache import cached
from gdbext.libraries.torch import COLLECTIVE, LIBRARY
from gdbext.libraries.torch.ranks import TorchRanks
from gdbext.libraries.torch.work import awaited_operation
from gdbext.locks.library_parts import LibraryWaits
from gdbext.locks.seen import SeenLock
from gdbext.model.ranks import Group
from gdbext.model.reasons import because
from gdbext.threads.threads import SeenThread

#: Functions of gloo in which a thread waits for one other rank, without their namespaces.
_PAIRS: Final = {"waitRecv": "recv", "waitSend": "send"}
#: Most frames between the sleep and such a function.
_MOST_FRAMES = 8


class Collectives(LibraryWaits):
    """The threads that wait for other ranks."""

    def find_purpose(self, seen: SeenThread, event: SeenLock) -> SeenLock | None:
        """The operation that a thread waits for; None if the condition variable has another purpose."""
        operation = awaited_operation(cached(self._memory), lambda address: self._code.module(address) is not None,
                                      event.address)
        if operation is None:
            operation = self._pair(seen)
        if operation is None:
            return None
        # its timeout ends the program, not the wait: the other ranks do not come later
        return SeenLock(COLLECTIVE, event.address, "not finished", repeats=True, name=self._name(operation),
                        why=because("needs-other-ranks"))

    def _pair(self, seen: SeenThread) -> str | None:
        for index, (pc, _) in enumerate(seen.native(self._code)[:_MOST_FRAMES]):
            module = self._code.module(pc)
            if module is not None and LIBRARY.has(module.name):
                function = (self._code.symbol(pc, index).function or "").partition("(")[0]
                if function.startswith("gloo::"):
                    return _PAIRS.get(function.rpartition("::")[2])
        return None

    def _name(self, operation: str) -> str:
        """The operation with its number and group, if the recorder has one without an end."""
        pending = [(group, each) for group in self._groups for each in group.pending if each.name == operation]
        if len(pending) != 1:
            return operation
        (group, each), = pending
        return f"{operation} #{each.number} of {group.label}"

    @cached_property
    def _groups(self) -> tuple[Group, ...]:
        return TorchRanks(self._memory, functools.partial(self._scene.variables, LIBRARY)).groups()


WAITS = Collectives
