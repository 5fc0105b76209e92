"""The functions of a kind of lock in the files of a target, and the summaries by which the analysis knows them."""

from __future__ import annotations

from gdbext.proofs.flow.state import ONLY, Value, entry
from gdbext.proofs.functions import Call, FunctionFinder, calls
from gdbext.threads.code import read_code
from gdbext.threads.findings import Findings
from tests.support.reader_program import ABSL, LIBC, Reader


def finder() -> FunctionFinder:
    target = Reader().target
    return FunctionFinder(target, read_code(target, Findings()), target.loaded[2:3])


def test_functions_are_found_by_their_exported_names() -> None:
    found = finder().find(calls("pthread_rwlock_rdlock pthread_rwlock_wrlock"))
    assert {(address, call.name, module.name) for address, (call, module) in found.items()} == {
        (LIBC + 0x800, "pthread_rwlock_rdlock", "libc.so.6")}


def test_names_get_the_inline_namespace_of_the_release() -> None:
    wanted = calls("_ZN4absl5Mutex4LockEv")
    assert [*finder().find(wanted, "debian3")] == [ABSL + 0x800]
    assert not finder().find(wanted)


def test_summaries_say_what_functions_do_with_the_lock_of_an_argument() -> None:
    module = Reader().target.loaded[2]
    found = finder().summaries(
        {1: (Call("lock"), module), 2: (Call("try", 1, "zero", wait_flag=2), module), 3: (Call("one", None), module)},
        {4: (Call("unlock", offset=8), module)}, {5: (Call("wait"), module)})
    assert found[1].acquires == {entry("rdi"): frozenset()}
    assert (found[2].attempt, found[2].wait_flag) == ((entry("rsi"), True), "rdx")
    assert found[3].acquires == {Value((ONLY, module.path), 0): frozenset()}
    assert found[4].releases == (entry("rdi").plus(-8),)
    assert found[5].suspends
