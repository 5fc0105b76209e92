"""What the first thread of another process sleeps in: the file or the shared memory, and for how long it has slept.

That shows whether a worker process is idle, without its memory. Read from /proc, see `proc.threads`.
"""

from __future__ import annotations

from gdbext.inferior.address_space import AddressSpace
from gdbext.inferior.proc.files import read_link
from gdbext.inferior.proc.last_run import seconds_since_run
from gdbext.inferior.proc.maps import read_maps
from gdbext.inferior.proc.shared_memory import SharedMemory, Word
from gdbext.inferior.proc.threads import read_tasks
from gdbext.record import record

#: Descriptors are smaller; a larger first argument may be an address.
_MOST_DESCRIPTORS = 1 << 31


@record
class Sleeper:
    """The first thread of a process, asleep in a system call since `seconds`.

    `link` is the file of the descriptor that the first argument of the call is, and `word` the place in shared memory
    whose address it is. One of them is None, or both.
    """

    pid: int
    call: int
    seconds: float
    link: str | None
    word: Word | None


def read_sleeper(pid: int, root: str = "/proc") -> Sleeper | None:
    """Read the sleep of the first thread of a process.

    :return: None if it runs, has ended, may not be read, or if it is not known how long it slept.
    """
    try:
        before = read_tasks(pid, (pid,), root).get(pid)
    except OSError:
        return None
    if before is None or before.call is None or not before.call.arguments:
        return None
    first = before.call.arguments[0]
    link = read_link(f"{root}/{pid}/fd/{first}") if first < _MOST_DESCRIPTORS else None
    word = None if link is not None else shared_word(pid, first, root)
    seconds = seconds_since_run(pid, (pid,), root).get(pid)
    try:
        same = read_tasks(pid, (pid,), root).get(pid) == before
    except OSError:
        return None
    return Sleeper(pid, before.call.number, seconds, link, word) if same and seconds is not None else None


def shared_word(pid: int, address: int, root: str = "/proc") -> Word | None:
    """The place in shared memory of an address of a process; None if it is not in such memory."""
    regions = read_maps(pid, root)
    return SharedMemory({pid: AddressSpace(regions)}, root).word_at(pid, address) if regions else None
