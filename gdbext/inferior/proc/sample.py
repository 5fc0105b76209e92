"""One sample of a set of running processes: their threads, mappings and descriptors, and who else shares them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from gdbext.inferior.address_space import AddressSpace, Region
from gdbext.inferior.proc.descriptors import OpenFiles
from gdbext.inferior.proc.ends import Ends
from gdbext.inferior.proc.files import numbers
from gdbext.inferior.proc.maps import read_memory, used_parts
from gdbext.inferior.proc.process import Proc
from gdbext.inferior.proc.shared_memory import SharedMemory
from gdbext.inferior.proc.status import ancestors, is_forked
from gdbext.inferior.proc.threads import Task, read_tasks
from gdbext.model.reasons import Reason, because


class Sample:
    """What /proc shows of the processes of a set; what is asked later belongs to it only if the threads still sleep.

    :param pids: the processes of the set.
    :param root: the path of /proc.
    :param open_files: compares the open files of descriptors.
    """

    def __init__(self, pids: Iterable[int], root: str = "/proc", open_files: OpenFiles | None = None) -> None:
        self._root = root
        self.processes: Mapping[int, Proc] = {pid: Proc(pid, root, open_files=open_files) for pid in pids}
        #: The threads of each process by TID; one of the kernel has no task, but may run.
        self.tasks: Mapping[int, Mapping[int, Task | None]] = {}
        self.spaces: dict[int, AddressSpace] = {}
        self.ends = Ends(self.processes, root)
        self.shared_memory = SharedMemory(self.spaces, root)
        #: Why waits for descriptors are not known, None if they are.
        self.blind: Reason | None = None
        self._begin = 0.0

    def read(self) -> None:
        """Read the threads, then what they share; nothing is known before."""
        tasks = {pid: _read_tasks(pid, self._root) for pid in self.processes}
        self._begin = time.monotonic()
        self.spaces.update({pid: AddressSpace(proc.regions()) for pid, proc in self.processes.items()})
        self.ends.scan()
        refused = next((pid for pid, found in tasks.items() if found is None), None)
        self.blind = self.ends.blind or (because("threads-refused", pid=refused) if refused is not None else None)
        self.tasks = {pid: found or {} for pid, found in tasks.items()}

    def memory(self, pid: int, address: int, size: int, some: bool = False) -> bytes | None:
        """Memory of a process; see `read_memory`."""
        return read_memory(pid, address, size, self._root, some)

    def used(self, pid: int, region: Region) -> list[tuple[int, int]]:
        """See `used_parts`."""
        return used_parts(pid, region, self._root)

    def forked(self, pids: Iterable[int]) -> set[int]:
        """Those of some processes that have not started a program since they were forked."""
        return {pid for pid in pids if is_forked(pid, self._root)}

    def inherited(self, waiter: int, pids: Iterable[int]) -> tuple[int, ...]:
        """Those of some processes that got an end of a pipe or socket from a process that forked them.

        They have not started a program since, and were not forked by, nor have forked, the process that has the other
        end and waits. So an older process has made both ends.
        """
        older = {*ancestors(waiter, self._root)}
        return tuple(sorted(pid for pid in self.forked(pids) if pid not in older and pid != waiter
                            and waiter not in ancestors(pid, self._root)))

    def at_rest(self, seconds: float) -> set[int]:
        """The TIDs of the threads that have not run since the sample was read, at least so many seconds ago."""
        time.sleep(max(0.0, self._begin + seconds - time.monotonic()))
        now = {pid: _read_tasks(pid, self._root) or {} for pid in self.processes}
        return {tid for pid, tasks in self.tasks.items() for tid, task in tasks.items()
                if tid in now[pid] and now[pid][tid] == task}


def _read_tasks(pid: int, root: str) -> dict[int, Task | None] | None:
    """Each thread of a process; one of the kernel has no task. None where they may not be read."""
    try:
        return {**dict.fromkeys(numbers(f"{root}/{pid}/task")), **read_tasks(pid, root=root)}
    except PermissionError:
        return None
    except OSError:  # it has ended
        return {}
