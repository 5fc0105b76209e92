from __future__ import annotations

import pytest

from gdbext.model import Frame, InlinedCall, NativeFrame, Part, PyFrame, Thread
from gdbext.narrate.frames import (
    explaining_frames,
    frame_line,
    frame_name,
    frame_place,
    inlined_calls,
    left_out,
    libraries,
    native_caller,
    own_frame,
    own_place,
    short_place,
)
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


OWN = PyFrame("view", "view", "/srv/app.py", 7)
LIBRARIES = (PyFrame("wait", "Event.wait", "/usr/lib/python3.11/threading.py", 1),
             PyFrame("send", "Session.send", "/venv/lib/python3.11/site-packages/requests/sessions.py", 2),
             PyFrame("urlopen", "urlopen", "/venv/lib/python3.11/site-packages/urllib3/pool.py", 3))
SERVER = PyFrame("handle", "handle", "/usr/lib/python3/dist-packages/gunicorn/sync.py", 4)


def test_frames_of_libraries_do_not_explain_a_thread_that_has_code_of_its_own() -> None:
    thread = Thread(1, 1, 1, None, stack=(*LIBRARIES, OWN, SERVER))
    assert explaining_frames(thread) == {3}
    assert own_frame(thread) == (OWN, list(LIBRARIES))
    assert plain(left_out([Part((frame,)) for frame in LIBRARIES])) == "threading, requests, urllib3 (3 frames)"
    assert plain(libraries([SERVER] * 9)) == "gunicorn (9 frames)"


def test_frames_of_libraries_explain_a_thread_without_other_code() -> None:
    thread = Thread(1, 1, 1, None, stack=LIBRARIES)
    assert explaining_frames(thread) == {0, 1, 2}
    assert own_frame(thread) == (LIBRARIES[0], [])
    assert own_place(thread) == "wait threading.py:1"


@pytest.mark.parametrize(("module", "shown"), [
    ("libdrv.so", True), ("server", True), ("libstdc++.so.6", True), ("libcrypto.so.3", True),
    ("libc.so.6", False), ("libpthread-2.31.so", False), ("libpython3.11.so.1.0", False), ("python3.11", False),
    ("_ctypes.cpython-311-x86_64-linux-gnu.so", False), ("libgomp.so.1", False), ("libomp.so.5", False), (None, False),
])
def test_inlined_calls_are_shown_except_those_of_runtimes(module: str | None, shown: bool) -> None:
    calls = (InlinedCall("lock", "lock.h", 3),)
    assert tuple(inlined_calls(NativeFrame("g", module, 1, "g.c", 3, calls))) == (calls if shown else ())
    assert inlined_calls(PYTHON) == ()


def test_inlined_calls_within_the_cxx_library_are_shown_by_their_outermost() -> None:
    names = ["__gthread_mutex_lock", "std::mutex::lock", "std::lock_guard<...>::lock_guard", "drv::enter",
             "std::invoke", "std::call_once"]
    frame = NativeFrame("work", "libdrv.so", 1, inlined=tuple(InlinedCall(name) for name in names))
    assert [call.function for call in inlined_calls(frame)] == [
        "std::lock_guard<...>::lock_guard", "drv::enter", "std::call_once"]
    within = NativeFrame("std::thread::join", "libstdc++.so.6", 1, inlined=(InlinedCall("std::mutex::lock"),))
    assert not inlined_calls(within)


def test_function_of_the_program_that_waits_in_the_c_library() -> None:
    libc, work = NativeFrame("read", "libc.so.6", 1), NativeFrame("work(int)", "server", 2)
    thread = Thread(1, 1, 1, None, stack=(libc, work), parts=(Part((libc,)), Part((work,), None, None, "work")))
    found = native_caller(thread)
    assert found is not None
    assert found.function == "work"


def test_recursion_is_counted_by_its_rounds_only() -> None:
    """A document has only the first frames of a deep stack."""
    assert plain(left_out([Part((NATIVE, NATIVE), "the same entry 19,998 times more")])) == (
        "the same entry 19,998 times more")
    assert plain(left_out([Part((NATIVE, NATIVE), "program start")])) == "program start (2 frames)"
