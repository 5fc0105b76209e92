from __future__ import annotations

import random

import pytest

from gdbext.cpython.greenlets.greenlets import Greenlet
from gdbext.errors import CorruptStructure, GdbextError, UnknownLayout
from tests.support.fake_greenlets import PTHREAD, VERSIONS, FakeGreenlets

#: Whether a greenlet points back to its object at the beginning, as since 3.1, or at its end.
LAYOUTS = [("3.5.6", True), ("3.0.3", False)]


@pytest.fixture(params=VERSIONS)
def fake(request: pytest.FixtureRequest) -> FakeGreenlets:
    return FakeGreenlets(str(request.param))


def found(fake: FakeGreenlets) -> dict[int, Greenlet]:
    return {each.address: each for each in fake.reader().greenlets}


@pytest.mark.parametrize(("release", "back"), LAYOUTS)
@pytest.mark.parametrize("version", VERSIONS)
def test_states_threads_and_frames(version: str, release: str, back: bool) -> None:
    fake = FakeGreenlets(version, release, back)
    derived = fake.type_object("Worker", tp_base=fake.kind)
    suspended = fake.suspended(("leave", 5), ("work", 9), generation=0)
    handles = fake.suspended(("leave", 5), generation=3)
    current = fake.greenlet(1, derived, main=fake.main)
    dead = fake.greenlet(start=0, main=fake.main)
    new = fake.greenlet(kind=derived, start=0, stop=0)
    fake.tracked(2, fake.type_object("dict"))
    reader = fake.reader()
    assert reader.is_used
    by_address = {each.address: each for each in reader.greenlets}
    assert {address: (each.state, each.tstate, each.is_main) for address, each in by_address.items()} == {
        fake.main: ("current", fake.tstate, True), suspended: ("suspended", fake.tstate, False),
        handles: ("suspended", fake.tstate, False), current: ("current", fake.tstate, False),
        dead: ("dead", None, False), new: ("not started", None, False)}
    assert [(raw.frame.function, raw.frame.line) for raw in reader.stack(by_address[suspended])] == [
        ("leave", 5), ("work", 9)]
    assert reader.stack(by_address[current]) == []
    assert [reader.type_name(by_address[each]) for each in (suspended, current)] == ["greenlet.greenlet", "Worker"]


def test_greenlet_of_an_ended_thread_has_no_thread_although_another_has_its_thread_state(fake: FakeGreenlets) -> None:
    fake.suspended(("leave", 5))
    ended = fake.greenlet(stop=(1 << 64) - 1, start=1, thread_state=0)
    left = fake.suspended(("leave", 5), main=ended)
    greenlets = found(fake)
    assert (greenlets[left].state, greenlets[left].tstate) == ("suspended", None)
    assert (greenlets[ended].state, greenlets[ended].is_main) == ("dead", True)


def test_greenlet_of_a_thread_that_fork_has_left_behind_has_no_thread(fake: FakeGreenlets) -> None:
    # its main greenlet still has the state of the thread, but no thread has that
    left_behind = fake.greenlet(stop=(1 << 64) - 1, start=1, thread_state=0x6666_0000)
    at = fake.suspended(("leave", 5), main=left_behind)
    greenlets = found(fake)
    assert (greenlets[at].tstate, greenlets[left_behind].tstate) == (None, None)


@pytest.mark.parametrize("table", [0, 0x10, 0x7777_0000])
def test_thread_whose_thread_local_memory_is_unreadable_is_nobodys(fake: FakeGreenlets, table: int) -> None:
    fake.memory.u64(PTHREAD + 8, table)
    at = fake.suspended(("leave", 5))
    assert (found(fake)[at].state, found(fake)[at].tstate) == ("suspended", None)


@pytest.mark.parametrize("wrong", [
    {"start": 0x7FFC_0000_0000 + 8}, {"saved": 1 << 20}, {"stop": 0}, {"frame": "main"}, {"self_address": 0x1234}])
def test_greenlet_that_contradicts_itself_is_damage(fake: FakeGreenlets, wrong: dict[str, int | str]) -> None:
    fake.greenlet(main=fake.main, **{  # type: ignore[arg-type]
        name: fake.main if value == "main" else value for name, value in wrong.items()})
    with pytest.raises(CorruptStructure, match="greenlet"):
        found(fake)


def test_greenlet_that_is_made_now_is_left_out(fake: FakeGreenlets) -> None:
    at = fake.greenlet()
    fake.memory.u64(at + fake.layouts["PyObject"].size + 16, 0)
    assert [*found(fake)] == [fake.main]


@pytest.mark.parametrize(("version", "release"), [
    ("3.9.18", "1.1.3"), ("3.12.1", "3.0.2"), ("3.11.7", "4.0.0"), ("3.11.7", "unknown")])
def test_releases_that_are_not_decoded(version: str, release: str) -> None:
    reader = FakeGreenlets(version, release).reader()
    with pytest.raises(UnknownLayout, match="greenlet"):
        _ = reader.greenlets


@pytest.mark.parametrize("release", ["2.0.0", "3.0.2", "3.0", "3.2.0a1"])
def test_releases_that_are_decoded_before_cpython_3_12(release: str) -> None:
    assert len(FakeGreenlets("3.11.7", release).reader().greenlets) == 1


def test_interpreter_without_greenlet_has_none(fake: FakeGreenlets) -> None:
    fake.build.put("PyInterpreterState", fake.interp, modules=fake.namespace(os=fake.module_object()))
    reader = fake.reader()
    assert (reader.is_used, reader.greenlets) == (False, ())


@pytest.mark.parametrize("seed", range(3))
def test_damaged_memory_raises_only_gdbext_errors(fake: FakeGreenlets, seed: int) -> None:
    known = [fake.suspended(("leave", 5), ("work", 9), generation=i % 4) for i in range(6)]
    fake.publish()
    chooser = random.Random(seed)
    for at in known:
        pimpl = int.from_bytes(fake.memory.read(at + fake.layouts["PyObject"].size + 16, 8), "little")
        place = chooser.choice([at - 16, at - 8, at + 8, pimpl + 8 * chooser.randrange(20)])
        fake.memory.u64(place, chooser.choice([0, 1, 8, chooser.getrandbits(64), known[0], pimpl]))
    reader = fake.reader.__func__(_Published(fake))  # type: ignore[attr-defined]
    try:
        for each in reader.greenlets:
            reader.stack(each)
    except GdbextError:
        pass


class _Published:
    """The fake as it is: its lists are not linked again."""

    def __init__(self, fake: FakeGreenlets) -> None:
        self.__dict__.update(fake.__dict__)

    def publish(self) -> None:
        pass
