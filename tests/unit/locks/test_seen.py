from __future__ import annotations

from gdbext.locks.seen import Known, SeenLock, held_by, merge
from gdbext.model import EXCLUSIVE, INFERRED, Holder, NamedObject, Waiter
from gdbext.model.reasons import because


def test_as_lock_has_the_id_the_holders_and_the_waiters() -> None:
    held = held_by((3, None), INFERRED, because("text", text="alone"))
    holders = (Holder(3, EXCLUSIVE, INFERRED, because("text", text="alone")),)
    assert held == Known(holders)
    lock = SeenLock("semaphore", 0x10, "zero", held=held).as_lock([Waiter(1, EXCLUSIVE)])
    assert (lock.id, lock.wait_for, lock.holders, lock.waiters) == (
        "semaphore:0x10", "any", holders, (Waiter(1, EXCLUSIVE),))
    assert SeenLock("gil", 0x10, "held", number=2).id == "gil:2"


def test_merge_of_a_descriptor_keeps_each_state_and_reason() -> None:
    ways = [SeenLock("descriptor", 5, state, why=because("text", text=why)) for state, why in (
        ("waiting to read", "a"), ("waiting to write", "b"), ("waiting to read", "a"))]
    merged = merge(ways)
    assert merged.state == "waiting to read or waiting to write"
    assert merged.why == because("several", reasons=(because("text", text="a"), because("text", text="b")))
    assert merge(ways[:1]) is ways[0]


def test_merge_of_a_lock_takes_the_first_name_and_all_objects() -> None:
    alice, bob = (NamedObject("Account", "name", name) for name in ("'alice'", "'bob'"))
    ways = [SeenLock("py-lock", 5, "locked", known_by=frozenset((1,))),
            SeenLock("py-lock", 5, "locked", name="lock", known_by=frozenset((2,)), of_object=alice),
            SeenLock("py-lock", 5, "locked", name="other", of_object=bob)]
    merged = merge(ways)
    assert (merged.name, merged.of_object, merged.known_by) == ("lock", alice, frozenset((1, 2)))
    assert merge(ways[:1] + ways[:1]).of_object is None
