from __future__ import annotations

import pytest

from gdbext.cpython import generators
from gdbext.errors import UnknownLayout
from gdbext.layout.opcodes import opcodes_of
from tests.support import versions
from tests.support.fake_tasks import FakeTasks


def test_states_of_newer_versions_are_data() -> None:
    for version in versions.from_minor(10, versions.EVERY):
        known = opcodes_of(*versions.version_tuple(version)[:2])
        assert known is not None
        assert known.states("FRAME_SUSPENDED")
        assert len(known.states("FRAME_EXECUTING")) == 1
        assert not known.states("FRAME_SUSPENDED") & known.states("FRAME_EXECUTING")


def test_the_number_of_a_state_depends_on_the_version() -> None:
    states = {minor: opcodes_of(3, minor).states("FRAME_EXECUTING") for minor in (14, 15)}  # type: ignore[union-attr]
    assert states == {14: {0}, 15: {4}}


@pytest.mark.parametrize("version", versions.TESTED)
def test_state_of_a_suspended_coroutine(version: str) -> None:
    fake = FakeTasks(version)
    inner = fake.coroutine("inner")
    outer = fake.coroutine("outer", awaits=inner)
    read = fake.reader().generators
    assert (read.is_suspended(outer), read.is_executing(outer), read.has_ended(outer)) == (True, False, False)


@pytest.mark.parametrize("version", versions.from_minor(10))
def test_version_without_known_states_is_an_unknown_layout(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generators, "opcodes_of", lambda major, minor: None)
    fake = FakeTasks(version)
    coroutine = fake.coroutine("outer", awaits=fake.coroutine("inner"))
    with pytest.raises(UnknownLayout, match="states of generators are not known in CPython " + version):
        fake.reader().generators.is_suspended(coroutine)
    chain = fake.reader().generators.await_chain(coroutine)
    assert [raw.frame.function for raw in chain.frames] == ["outer"]
    assert "states of generators are not known" in str(chain.problem)
