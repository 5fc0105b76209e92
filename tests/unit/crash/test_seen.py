from __future__ import annotations

from gdbext.crash.seen import SeenFault
from gdbext.model import Fault
from gdbext.model.reasons import because


def test_a_fault_without_origins_is_about_no_objects() -> None:
    seen = SeenFault(Fault("SIGTRAP", None, "trap", because("breakpoint-instruction")))
    assert (seen.chain, seen.objects, seen.blamed) == ((), (), None)
