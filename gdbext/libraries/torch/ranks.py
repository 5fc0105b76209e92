"""What a process has done as a member of the process groups of PyTorch, from its flight recorders."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Final

from gdbext.cpython.objects import Objects
from gdbext.errors import GdbextError, if_unreadable
from gdbext.inferior.cache import cached, read_u64
from gdbext.libraries.torch.recorder import VARIABLES, Recorder
from gdbext.locks.library_parts import LibraryRanks
from gdbext.model import MixedStack, PyFrame
from gdbext.model.ranks import Group

#: The functions of one peer, with the argument that names it, and their file.
_PEERS: Final = {"send": "dst", "recv": "src"}
_FILE: Final = "torch/distributed/distributed_c10d.py"
_MODULE: Final = "torch.distributed.distributed_c10d"
#: Most groups of a process, and ranks of a group.
_MOST_GROUPS, _MOST_RANKS = 1024, 1 << 16


class TorchRanks(LibraryRanks):
    """The groups of a process."""

    def groups(self) -> tuple[Group, ...]:
        """The groups with at least one recorded operation; empty if the recorder is off or not known."""
        found: list[Group] = []
        for variable in VARIABLES:
            for address in self._find_variables(variable):
                try:
                    recorder = read_u64(self._memory, address)
                    found += Recorder(cached(self._memory), recorder).groups() if recorder else ()
                except GdbextError:  # another layout, or it is being made
                    continue
        return tuple(found)

    @if_unreadable({})
    def members(self, objects: Objects, interpreter: int) -> Mapping[str, tuple[int, ...]]:
        """The module's ``_pg_names`` has the groups of this rank, and ``_pg_group_ranks`` their members."""
        modules = objects.read_member("PyInterpreterState", interpreter, "modules")
        module = objects.dict_get(modules, _MODULE) if modules else None
        if module is None:
            return {}
        variables = objects.read_member("PyModuleObject", module, "md_dict")
        names, ranks = (objects.dict_get(variables, name) for name in ("_pg_names", "_pg_group_ranks"))
        if not names or not ranks:
            return {}
        found = {}
        by_group = dict(itertools.islice(objects.dict_items(ranks), _MOST_GROUPS))
        for group, name in itertools.islice(objects.dict_items(names), _MOST_GROUPS):
            if group in by_group:
                # the rank in the job -> the rank in the group
                pairs = [(objects.integer(own), objects.integer(rank))
                         for rank, own in itertools.islice(objects.dict_items(by_group[group]), _MOST_RANKS)]
                found[objects.string(name)] = tuple([rank for _, rank in sorted(pairs)])
        return found

    def peer(self, stack: MixedStack) -> int | None:
        """The argument of ``torch.distributed.send`` or ``recv``, which is a rank of the job."""
        for index, frame in enumerate(stack.frames):
            argument = _PEERS.get(frame.function or "") if isinstance(frame, PyFrame) else None
            if argument is not None and isinstance(frame, PyFrame) and frame.file.endswith(_FILE):
                values = {each.name: each.value for each in stack.variables.get(index, ())}
                value = values.get(argument, "")
                return int(value) if value.isdecimal() else None
        return None


RANKS = TorchRanks
