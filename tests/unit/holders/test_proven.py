"""The frame that proves that a thread holds a lock: its names, and those of the library's functions."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gdbext.holders.proven import ProvenHolders
from gdbext.proofs.known_code import KnownCode
from gdbext.proofs.rules import Sought
from gdbext.threads.code import read_code
from gdbext.threads.findings import Findings
from gdbext.threads.threads import read_threads
from tests.support.reader_program import (
    FUNCTION,
    HOLDING,
    KEEP,
    LOCK,
    LOCK_ABSL,
    RELEASED,
    UNLOCK_ABSL,
    Reader,
)


def test_registers_of_another_frame_prove_nothing() -> None:
    """The debugger unwinds the stack in another way than the frame descriptions do."""
    assert not Reader().holds(HOLDING, rsp=0x7000)


def test_proof_names_the_function_that_acquired() -> None:
    reader = Reader()
    reader.holds(HOLDING)
    findings = Findings()
    code = read_code(reader.target, findings)
    seen = read_threads(reader.target, None, findings)[1]
    proven = ProvenHolders(reader.target, code, reader.target.loaded[2:3], KnownCode())
    proof = proven.find(seen, "rwlock", Sought(LOCK))
    assert proof is not None
    assert (proof.call, proof.module) == ("pthread_rwlock_rdlock", "libdrv.so")


LOCKING_ABSL = (*KEEP, f"call {LOCK_ABSL}", "call work", "mov %rbx,%rdi", f"call {UNLOCK_ABSL}", "call work", "ret")


@pytest.mark.parametrize(("index", "namespace", "is_held"), [
    (HOLDING, "debian3", True),
    (RELEASED, "debian3", False),
    (HOLDING, None, False),  # no function has such a name
    (HOLDING, "lts_20250814", False),
])
def test_functions_have_the_names_of_the_namespace(index: int, namespace: str | None, is_held: bool) -> None:
    reader = Reader(*LOCKING_ABSL, work=("nop", "nop", "ret"))
    assert reader.holds(index, inside=1, kind="absl-mutex", namespace=namespace) == is_held


@pytest.mark.parametrize(("names", "namespace"), [
    (("absl::debian3::synchronization_internal::Waiter::Wait", "absl::debian3::Mutex::Block"), "debian3"),
    ((None, "absl::lts_20250814::CondVar::WaitCommon"), "lts_20250814"),
    (("absl::Mutex::Block",), None),
    (("app::absl::Mutex::Block",), None),
])
def test_namespace_is_that_of_a_function_in_which_the_thread_waits(
        names: Sequence[str | None], namespace: str | None) -> None:
    reader = Reader()
    pcs = [FUNCTION + 0x40 * i for i in range(len(names))]
    for pc, name in zip(pcs, names):
        if name is not None:
            reader.target.name(pc, name)
    proven = ProvenHolders(reader.target, read_code(reader.target, Findings()), (), KnownCode())
    native = [(pc, 0) for pc in pcs]
    assert proven.namespace_of("absl-mutex", native) == namespace
    assert proven.namespace_of("rwlock", native) is None
