"""Locks of oneTBB."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gdbext.model.kinds import LockKind
from gdbext.proofs.flow.atomics import Inlined
from gdbext.proofs.functions import Call, calls
from gdbext.proofs.pairs import Pairs
from gdbext.record import record


@record
class TbbPairs(Pairs):
    """Mutexes of oneTBB."""

    @property
    def waits(self) -> tuple[Call, ...]:
        """The functions that wait for a mutex, or wake a thread that does; any other may run a task of the program."""
        return calls("_ZN3tbb6detail2r115wait_on_addressEPvRNS0_2d113delegate_baseEm "
                     "_ZN3tbb6detail2r121notify_by_address_oneEPv")


PAIRS: Final[Mapping[LockKind, Pairs]] = {
    # oneTBB 2021.5 to 2023.1 include/oneapi/tbb/mutex.h: both are exchanges
    "tbb-mutex": TbbPairs(inlined=Inlined(1, frozenset((1,)), frozenset(("exchanges",)), is_bool=True)),
}
