from __future__ import annotations

from collections.abc import Mapping

import pytest

from gdbext.cpython.frames import FrameReader, RawFrame
from gdbext.cpython.objects import Objects
from gdbext.tasks.names import AwaitedNames
from tests.support.fake_tasks import VERSIONS, FakeTasks


@pytest.fixture(params=VERSIONS)
def fake(request: pytest.FixtureRequest) -> FakeTasks:
    return FakeTasks(request.param)


def names_of(fake: FakeTasks, *frames: tuple[str, Mapping[str, int]]) -> tuple[AwaitedNames, list[RawFrame]]:
    """Suspended functions by file and variables, outermost first."""
    objects = Objects(fake.memory, fake.layouts)
    reader = FrameReader(fake.memory, fake.layouts, objects)
    found = [reader.generator(fake.coroutine("work", file=file, variables=variables)) for file, variables in frames]
    return AwaitedNames(objects, reader), [raw for raw in found if raw is not None]


def is_own(raw: RawFrame) -> bool:
    return raw.frame.file.startswith("/app/")


def test_variable_of_the_innermost_own_frame(fake: FakeTasks) -> None:
    event = fake.instance("Event")
    names, frames = names_of(fake, ("/app/a.py", {"outer": event}), ("/app/b.py", {"ready": event}),
                             ("/lib/sync.py", {"own": event}))
    assert names.find(frames, event, is_own) == "ready"
    assert names.find(frames, 0x10, is_own) is None


def test_attribute_of_self(fake: FakeTasks) -> None:
    event = fake.instance("Event")
    names, frames = names_of(fake, ("/app/a.py", {"self": fake.instance("Server", stopped=event)}))
    assert names.find(frames, event, is_own) == "self.stopped"


def test_frame_that_cannot_be_read(fake: FakeTasks) -> None:
    names, frames = names_of(fake, ("/app/a.py", {"self": 0x10}))
    assert names.find(frames, fake.instance("Event"), is_own) is None
