from __future__ import annotations

import pytest

from gdbext.errors import CorruptStructure, UnknownLayout
from tests.support.fake_gevent import BOUNDED, EVENT, QUEUE, TIMER, FakeGevent


@pytest.fixture
def fake() -> FakeGevent:
    return FakeGevent("3.13.0")


def test_role_of_a_class_is_that_of_its_base(fake: FakeGevent) -> None:
    of = fake.objects().role
    assert [of(fake.of(kind)) for kind in (BOUNDED, EVENT, QUEUE, TIMER)] == [
        "linkable", "linkable", "queue", "watcher"]
    assert of(fake.type_object("greenlet.greenlet")) is None
    assert of(0x10) is None  # nothing is mapped there


def test_role_of_a_python_class_is_found_by_its_module(fake: FakeGevent) -> None:
    assert fake.objects().role(fake.python_class("RLock", "gevent.lock")) == "rlock"
    fake = FakeGevent("3.13.0")
    assert fake.objects().role(fake.python_class("RLock", "app.locks")) is None


def test_classes_have_the_names_that_programs_use(fake: FakeGevent) -> None:
    objects = fake.objects()
    patched = fake.tracked(2, fake.python_class("LockType", "gevent.thread"))
    assert [objects.class_name(each) for each in (fake.linkable(BOUNDED), fake.linkable(EVENT), patched)] == [
        "gevent.lock.BoundedSemaphore", "gevent.event.Event", "threading.Lock"]


def test_members_of_compiled_and_of_python_classes(fake: FakeGevent) -> None:
    semaphore = fake.linkable(BOUNDED, counter=1, initial=3)
    lock = fake.rlock(semaphore, 0, 2)
    objects = fake.objects()
    assert [objects.number(semaphore, name) for name in ("counter", "_initial_value")] == [1, 3]
    assert objects.pointer(lock, "_block") == semaphore
    assert objects.number(lock, "_count") == 2
    assert objects.pointer(lock, "_owner") == 0


def test_none_counts_as_not_set(fake: FakeGevent) -> None:
    none = fake.builtin("NoneType", "PyObject")
    assert fake.objects().pointer(fake.linkable(EVENT, notifier=none), "_notifier") == 0


def test_compiled_class_of_another_size_is_not_decoded(fake: FakeGevent) -> None:
    fake.of("gevent._gevent_c_abstract_linkable.AbstractLinkable", 72)
    with pytest.raises(UnknownLayout, match="AbstractLinkable of 72 bytes is not decoded"):
        fake.objects().pointer(fake.linkable(EVENT), "_links")


def test_python_number_of_another_type_is_damaged(fake: FakeGevent) -> None:
    lock = fake.rlock(0, 0, 2)
    fake.memory.u64(lock + 32, fake.string("two"))
    with pytest.raises(CorruptStructure, match="_count is not a number"):
        fake.objects().number(lock, "_count")


@pytest.mark.parametrize(("count", "start"), [(0, 31), (1, 63), (3, 62), (200, 31)])
def test_items_of_a_deque(fake: FakeGevent, count: int, start: int) -> None:
    items = [fake.integer(i) for i in range(count)]
    assert [*fake.objects().items(fake.deque(*items, start=start))] == items


def test_damaged_deque(fake: FakeGevent) -> None:
    made = fake.deque(fake.integer(1))
    fake.memory.u64(made + 16, 1 << 40)
    with pytest.raises(CorruptStructure):
        list(fake.objects().items(made))


def test_items_of_other_containers(fake: FakeGevent) -> None:
    items = [fake.integer(1), fake.integer(2)]
    objects = fake.objects()
    assert [*objects.items(fake.list_object(*items))] == items == [*objects.items(fake.tuple_object(*items))]
    assert [*objects.items(fake.integer(3))] == [] == [*objects.items(0)]
