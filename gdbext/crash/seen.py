"""What is known of a fault when it is explained: where it was, and the values that led to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gdbext.crash.origins import Link
from gdbext.inferior.protocol import SignalInfo, ThreadRef
from gdbext.model import Fault
from gdbext.record import record


@record
class FaultSite:
    """A thread's registers at the fault, and the kernel's record of it.

    `access` is the kind of access, if the kernel recorded it; `in_handler` is true if `registers` were found
    below a handler of the signal. `by_others`: another thread sent the signal. `frames` are (program counter, stack
    pointer) from the fault on; `offset` is the number of the debugger's frames before them.
    """

    thread: ThreadRef
    info: SignalInfo
    registers: Mapping[str, int]
    access: str | None = None
    in_handler: bool = False
    by_others: bool = False
    frames: Sequence[tuple[int, int]] = ()
    offset: int = 0


@record
class SeenFault:
    """A fault with the chain of pointers that led to it, innermost first.

    `objects` are addresses that the instruction used. `code_at` is the program counter, or that of the call if the
    program called an address without code. `blamed`: the program counter of the frame that logged a fatal message.
    """

    fault: Fault
    chain: tuple[Link, ...] = ()
    objects: tuple[int, ...] = ()
    code_at: int = 0
    blamed: int | None = None
