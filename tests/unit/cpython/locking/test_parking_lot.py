from __future__ import annotations

import pytest

from gdbext.cpython.locking.parking_lot import Parked, parked_on
from tests.support import versions
from tests.support.fake_memory import FakeMemory, NoiseMemory
from tests.support.fake_python import FakePython, cpython_layouts

STACK, END, LOCK = 0x7F00_0000_0100, 0x7F00_0000_1000, 0x5555_0000_1010
VERSIONS = versions.from_minor(13)


@pytest.fixture(params=VERSIONS)
def python(request: pytest.FixtureRequest) -> FakePython:
    return FakePython(FakeMemory({STACK: bytes(0x1000)}), str(request.param))


def parked(python: FakePython, futex: int) -> Parked | None:
    return parked_on(python.memory, python.layouts, futex, STACK, END)


@pytest.mark.parametrize(("handed_off", "expected"), [(None, False), (0, False), (1, True)])
def test_parked(python: FakePython, handed_off: int | None, expected: bool) -> None:
    # an event has no mutex to hand over
    futex = python.park(STACK + 0x80, LOCK, handed_off)
    assert parked(python, futex) == Parked(LOCK, expected, handed_off is not None)


def test_one_of_several_in_a_bucket(python: FakePython) -> None:
    futex = python.park(STACK + 0x80, LOCK)
    node, other = (python.build.member("wait_entry", at, "node") for at in (STACK + 0x80, STACK + 0x200))
    head = int.from_bytes(python.memory.read(node, 8), "little")
    python.build.put("llist_node", head, next=node, prev=other)
    python.build.put("llist_node", node, next=other, prev=head)
    python.build.put("llist_node", other, next=head, prev=node)
    assert parked(python, futex) == Parked(LOCK, False, False)


def test_semaphore_elsewhere(python: FakePython) -> None:
    futex = python.park(STACK + 0x80, LOCK)
    assert parked_on(python.memory, python.layouts, futex, futex + 8, END) is None
    assert parked_on(python.memory, python.layouts, futex, STACK, futex) is None
    assert parked(python, STACK + 0x600) is None


@pytest.mark.parametrize("damage", ["next", "previous", "leaving", "address", "unmapped", "argument"])
def test_memory_that_is_not_an_entry(python: FakePython, damage: str) -> None:
    futex = python.park(STACK + 0x80, 0 if damage == "address" else LOCK, leaving=int(damage == "leaving"))
    node = python.build.member("wait_entry", STACK + 0x80, "node")
    head = int.from_bytes(python.memory.read(node, 8), "little")
    if damage == "next":
        python.build.put("llist_node", head, prev=LOCK)
    elif damage == "previous":
        python.build.put("llist_node", head, next=LOCK)
    elif damage == "unmapped":
        python.build.put("llist_node", node, next=0xDEAD_0000)
    elif damage == "argument":
        python.build.put("wait_entry", STACK + 0x80, park_arg=0xDEAD_0000)
    assert parked(python, futex) is None


def test_version_without_a_parking_lot() -> None:
    assert parked_on(NoiseMemory(1), cpython_layouts("3.12.1"), STACK, STACK, END) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_noise(version: str) -> None:
    layouts = cpython_layouts(version)
    for seed in range(5):
        memory = NoiseMemory(seed)
        assert [at for at in range(0x10000, 0x14000, 8) if parked_on(memory, layouts, at, 0x10000, 0x14000)] == []
