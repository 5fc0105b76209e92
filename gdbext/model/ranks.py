"""A process as a rank of a job: who it is, and which operations of its process groups it has begun and finished."""

from __future__ import annotations

from gdbext.model.evidence import Evidence
from gdbext.record import record


@record
class Identity:
    """Which process of a job this is; a member that is not known is None.

    `size` is how many ranks the job has, and `local_size` how many of them run on this machine. `launcher` is what
    started it, such as ``torchrun`` or ``Open MPI``; `run` names the job; `role` is what the process does in it if not
    all do the same.
    """

    rank: int | None = None
    size: int | None = None
    local_rank: int | None = None
    launcher: str | None = None
    run: str | None = None
    role: str | None = None
    local_size: int | None = None

    @property
    def neighbours(self) -> range:
        """The ranks that must be on the same machine; only itself where that is not known."""
        if self.rank is None:
            return range(0)
        if self.local_size is not None and self.local_size == self.size:
            return range(self.local_size)
        if self.launcher == "torchrun" and self.local_size is not None and self.local_rank is not None:
            first = self.rank - self.local_rank
            return range(first, first + self.local_size)
        return range(self.rank, self.rank + 1)


@record
class Operation:
    """An operation of a process group, such as ``all_reduce``.

    `number` counts the collective operations of the group, or of a pair (`is_pair`) its sends and receives. `shape`
    and `of` are the sizes and the type of the first tensor. `begun` is when it was called, in seconds since 1970.
    `peer` is the other rank in the group. `backend` is ``gloo``, ``nccl`` or the like.
    """

    name: str
    number: int | None
    is_pair: bool = False
    shape: tuple[int, ...] = ()
    of: str | None = None
    begun: float | None = None
    finished: bool = False
    peer: int | None = None
    backend: str | None = None


@record
class Group:
    """A process group as one rank sees it.

    `members` are the ranks of the job, in the order of their ranks in the group; None if not known. `pending` are the
    operations without an end, oldest first; `last` is the newest collective one that was finished.
    """

    name: str
    description: str | None
    members: tuple[int, ...] | None
    pending: tuple[Operation, ...] = ()
    last: Operation | None = None
    evidence: Evidence = "recorded"

    @property
    def is_default(self) -> bool:
        """Whether all ranks of the job belong to it."""
        return self.description == "default_pg"

    @property
    def label(self) -> str:
        """The name that people know: the description if the program gave one; empty if the group is not known."""
        named = self.description not in (None, "", "undefined")
        return str(self.description) if named else f"group {self.name}" if self.name else ""


@record
class Rank:
    """What is known of a process as a member of a job.

    `awaited` is the operation that a thread waits for, as its stack shows it; None if no thread waits for one.
    """

    identity: Identity
    groups: tuple[Group, ...] = ()
    awaited: Operation | None = None
