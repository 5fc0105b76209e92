from __future__ import annotations

import pytest

from gdbext.model import Frame, NativeFrame, Part, PyFrame, Thread
from gdbext.narrate.frames import explaining_frames, frame_line, frame_name, frame_place, left_out, short_place
from gdbext.narrate.words import plain

PYTHON = PyFrame("f", "C.f", "/a/b.py", 4)
NATIVE = NativeFrame("g", "libdrv.so", 1, "g.c", 3)
BARE = NativeFrame(None, None, 1)


def test_name_place_and_line_of_a_frame() -> None:
    frames: list[Frame] = [PyFrame("f", "C.f", "/a/b.py", None), NATIVE, BARE]
    assert [frame_name(frame) for frame in frames] == ["C.f", "g()", "0x1"]
    assert [frame_place(frame) for frame in frames] == ["/a/b.py:?", "libdrv.so g.c:3", ""]
    assert [frame_line(frame) for frame in (*frames, PYTHON)] == [
        "C.f (b.py)", "g (libdrv.so)", "? (no file)", "C.f (b.py:4)"]


def test_short_place_of_a_stack() -> None:
    assert short_place([BARE, NATIVE, PYTHON]) == "f b.py:4"
    assert short_place([BARE, NATIVE]) == "g()"
    assert short_place([BARE]) is None


@pytest.mark.parametrize(("stack", "chosen"), [
    ([BARE, NATIVE, PYTHON, NATIVE], {1, 2}),
    # six native and six Python frames; no callers of the outermost Python frame
    ([*[NATIVE] * 8, *[PYTHON] * 8, NATIVE], {*range(6), *range(8, 14)}),
    ([NATIVE, BARE], {0}), ([], set()),
])
def test_explaining_frames(stack: list[Frame], chosen: set[int]) -> None:
    assert explaining_frames(Thread(1, 1, 1, None, stack=tuple(stack))) == chosen


def test_summary_of_omitted_frames() -> None:
    call, start = Part((NATIVE,), "ctypes call"), Part((NATIVE, NATIVE), "thread start")
    assert plain(left_out([call])) == "ctypes call"
    assert plain(left_out([call, start])) == "ctypes call, thread start (3 frames)"
    assert plain(left_out([call, start, Part((NATIVE,))])) == "4 frames, with ctypes call"
    assert left_out([]) == ()
