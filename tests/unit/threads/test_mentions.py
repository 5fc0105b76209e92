from __future__ import annotations

import pytest

from gdbext.threads.code import read_code
from gdbext.threads.findings import Findings
from gdbext.threads.mentions import OUTERMOST, Mentions
from gdbext.threads.threads import read_threads
from tests.support.fake_target import APP_TEXT, FakeTarget

LOCK, OTHER = 0x40_4100, 0x40_4200


def mentions_of(target: FakeTarget, *addresses: int) -> Mentions:
    findings = Findings()
    return Mentions(target, read_code(target, findings), read_threads(target, None, findings), addresses)


def test_address_on_the_stack_or_in_a_saved_register() -> None:
    target = FakeTarget()
    on_stack, in_saved, in_argument, nowhere = (target.thread() for _ in range(4))
    target.remember(on_stack, LOCK)
    in_saved.registers["r12"] = LOCK
    in_argument.registers["rdi"] = LOCK
    target.remember(nowhere, LOCK + 1)
    assert mentions_of(target).threads_with(LOCK) == {on_stack.ref.number, in_saved.ref.number}


@pytest.mark.parametrize(("at", "is_found"), [
    (0x100, True), (0xF8, False), (0x104, False), (0x800 + OUTERMOST - 8, True), (0x800 + OUTERMOST, False)])
def test_only_aligned_words_of_the_used_stack_count(at: int, is_found: bool) -> None:
    target = FakeTarget()
    thread = target.thread()
    thread.registers["rsp"] = thread.stack + 0x100
    target.remember(thread, LOCK, at)
    assert mentions_of(target).threads_with(LOCK) == ({1} if is_found else set())


def test_stack_that_is_not_readable_to_its_end() -> None:
    target = FakeTarget()
    thread = target.thread()
    thread.frames[-1] = (APP_TEXT + 0x80, thread.stack + 0x9000)
    target.remember(thread, LOCK, 0x1FF8)
    assert mentions_of(target).threads_with(LOCK) == {1}


def test_thread_without_registers_mentions_nothing() -> None:
    target = FakeTarget()
    target.thread()
    gone = target.thread()
    target.remember(gone, LOCK)
    gone.available = False
    assert mentions_of(target).threads_with(LOCK) == set()


def test_announced_addresses_are_searched_together() -> None:
    target = FakeTarget()
    target.remember(target.thread(), LOCK)
    target.remember(target.thread(), OTHER)
    mentions = mentions_of(target, LOCK, OTHER)
    assert mentions.threads_with(LOCK) == {1}
    reads = len(target.ram.reads)
    assert mentions.threads_with(OTHER) == {2}
    assert len(target.ram.reads) == reads
