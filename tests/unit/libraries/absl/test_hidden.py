"""Functions of an Abseil that exports none of them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gdbext.holders.proven import ProvenHolders
from gdbext.libraries.absl.hidden import HiddenFunctions
from gdbext.proofs.known_code import KnownCode
from gdbext.threads.code import read_code
from gdbext.threads.findings import Findings
from gdbext.threads.threads import read_threads
from tests.support.fake_eh_frame import describe_functions
from tests.support.fake_target import APP_TEXT
from tests.support.reader_program import (
    ABSL,
    FUNCTION,
    KEEP,
    LIBC,
    LOCK,
    STEP,
    WORK,
    Reader,
)


def hidden_functions(reader: Reader, known: KnownCode) -> HiddenFunctions:
    return HiddenFunctions(ProvenHolders(reader.target, read_code(reader.target, Findings()), (), known))


#: A function without a name.
WAITING_ABSL = ABSL + 0xC00
#: Waits inside of `work` in order to acquire the mutex of its argument.
WAITING = (*KEEP, "sub $0x10,%rsp", f"call {WAITING_ABSL:#x}")


@pytest.mark.parametrize(("after", "is_found"), [
    (("add $0x10,%rsp", "pop %rbx", "ret"), True),
    (("lock cmpxchg %rcx,(%rbx)", "add $0x10,%rsp", "pop %rbx", "ret"), False),
])
def test_function_that_a_thread_waits_in_is_found_if_it_returns_with_the_mutex(
        after: Sequence[str], is_found: bool) -> None:
    reader = Reader(*KEEP, "call work", "ret", work=(*WAITING, *after))
    stack = reader.thread.stack
    reader.thread.frames = [(LIBC + 0x800, stack), (WAITING_ABSL + STEP, stack + 0x40), (WORK + 4 * STEP, stack + 0x80),
                            (FUNCTION + 3 * STEP, stack + 0xA0), (APP_TEXT + 0x80, stack + 0x200)]
    reader.thread.registers.update(rip=LIBC + 0x800, rsp=stack)
    for level, (pc, sp) in enumerate(reader.thread.frames):
        reader.target.older_registers[1, level] = {"rip": pc, "rsp": sp, "rbx": LOCK}
    describe_functions(reader.target, "/lib/libabsl.so", WAITING_ABSL)
    reader.target.instructions += [(WAITING_ABSL, STEP, "nop"), (WAITING_ABSL + STEP, STEP, "ret")]
    seen, known = read_threads(reader.target, None, Findings())[1], KnownCode()
    hidden_functions(reader, known).add(seen, LOCK, inside=stack + 0x88)
    assert (WORK in known.hidden) is is_found
    # the structure is in the frame of another function, or the function waits for another mutex
    other = KnownCode()
    hidden_functions(reader, other).add(seen, LOCK, inside=stack + 0x48)
    hidden_functions(reader, other).add(seen, LOCK + 8, inside=stack + 0x88)
    assert not other.hidden
