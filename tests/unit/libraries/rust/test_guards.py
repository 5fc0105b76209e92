"""Guards of Rust: the locks that destructors release, by the code of landing pads."""

from __future__ import annotations

import pytest

from gdbext.libraries.rust.guards import Cleanup
from tests.support.landing_pad import COUNT, LOCK, NAMES, PERSONALITY, RELEASE, RESUME, TEXT, Frame

RELEASES = f"mov %rax,%rbx\n{RELEASE.format('%rbp')}\n{RESUME}"


def test_lock_that_the_landing_pad_releases_is_found() -> None:
    assert Frame(RELEASES).released() == {LOCK}
    assert Frame(RELEASES).released(rbp=LOCK + 8) == {LOCK + 8}


def test_landing_pad_without_cleanup_is_not_followed() -> None:
    """Action 1: type filter 1, no further action."""
    assert Frame(RELEASES, actions=b"\1\1\0").released() == set()
    assert Frame(RELEASES, actions=b"\1\0\0").released() == {LOCK}


#: As the destructor of a guard of parking_lot: a function is called if threads wait for the lock.
DROPPED = """
    mov %rax,%rbx
    xor %ecx,%ecx
    mov $0x1,%eax
    lock cmpxchg %cl,(%rbp)
    jne slow
    end: mov %rbx,%rdi
    call resume
    slow: mov %rbp,%rdi
    call other
    jmp end
"""
RELOCKED = DROPPED.replace("xor %ecx,%ecx", "mov $0x1,%ecx\nxor %eax,%eax\nlock cmpxchg %cl,(%rbp)\nxor %ecx,%ecx")


def test_guard_of_rust_is_destroyed_by_an_atomic_instruction() -> None:
    cleanup = Frame(DROPPED).cleanup()
    assert cleanup == Cleanup(frozenset({LOCK}), helpers=frozenset({NAMES["other"]}))


def test_lock_that_the_landing_pad_acquires_again_was_given_back() -> None:
    cleanup = Frame(RELOCKED).cleanup()
    assert cleanup is not None
    assert not cleanup.releases


@pytest.mark.parametrize(("exchange", "released"), [
    ("mov $0xfffffffffffffff0,%rcx\nlock xadd %rcx,(%rbp)", {LOCK}),
    ("lock subq $0x10,(%rbp)", {LOCK}),
    ("lock decq (%rbp)", set()),  # a count of references
    ("mov %r14,%rcx\nlock xadd %rcx,(%rbp)", set()),
    ("lock cmpxchg %cl,(%rbp)", set()),  # of another size
])
def test_guard_of_a_reader_subtracts_its_count(exchange: str, released: set[int]) -> None:
    cleanup = Frame(f"mov %rax,%rbx\n{exchange}\n{RESUME}", dropped=COUNT).cleanup()
    assert cleanup is not None
    assert cleanup.releases == cleanup.shared == released


def test_exchange_at_an_unknown_address_may_acquire_any_lock() -> None:
    assert Frame(DROPPED.replace("xor %ecx,%ecx", "xor %ecx,%ecx\nlock cmpxchg %dl,(%r14)")).cleanup() is None


@pytest.mark.parametrize(("name", "address", "is_known"), [
    ("rust_eh_personality", PERSONALITY, True),
    ("std::sys::personality::gcc::rust_eh_personality", PERSONALITY, True),
    (None, TEXT + 0x3F00, True),  # in a stripped program
    (None, PERSONALITY, False),
    ("__gnat_personality_v0", TEXT + 0x3F00, False),
    ("__gxx_personality_v0", PERSONALITY, False),
])
def test_personality_of_rust_may_have_no_name(name: str | None, address: int, is_known: bool) -> None:
    frame = Frame(DROPPED)
    frame.personality, frame.personality_at = name, address
    assert frame.released() == ({LOCK} if is_known else set())


@pytest.mark.parametrize(("calls", "throws"), [
    (("call drop", "nop", "call other"), [True, True]),
    # what exists during the first call exists during the second
    (("call drop", "call send", "call other"), [True, True, True]),
    # the second may throw nothing, so the third one may destroy the guard
    (("call drop", "call send", "call send", "call other"), [True, True, False, True]),
    (("call drop", "call other", "call send", "call other"), [True, True, True, True]),
    (("call *%rbx", "call *%rbx", "call *%rbx", "call *%rbx"), [True, True, False, True]),
    # the code between them destroys the guard, may come from elsewhere, or may be passed over
    (("call drop", "lock cmpxchg %dl,(%r14)", "call send", "call other"), [True, False, True]),
    (("call drop", "label: nop", "call send", "call other", "jne label"), [True, False, True]),
    (("call drop", "jne label", "call send", "label: nop", "call other"), [True, False, True]),
    (("call drop", "nop", "call send", "call other", "jmp *%rcx"), [True, False, True]),
])
def test_call_between_others_may_have_no_landing_pad(calls: tuple[str, ...], throws: list[bool]) -> None:
    frame = Frame(DROPPED, calls=calls)
    at = [i for i, line in enumerate(calls) if line.startswith("call")]
    assert [frame.cleanup(call=i) is not None for i in at] == throws
