from __future__ import annotations

import pytest

from gdbext.cpython.frames import PyStack
from gdbext.model import PyFrame
from gdbext.stacks.boundaries import split
from gdbext.stacks.merge import Item, eval_frames, merge
from tests.support.reasons import said

EVAL, INTERPRETER, OTHER = 0x1000, 0x2000, 0x9000


def frame(name: str) -> PyFrame:
    return PyFrame(name, name, "job.py", 1)


def native(*kinds: int) -> list[tuple[int, int]]:
    """Frames that are identified by their program counter; each has 0x100 bytes of stack."""
    return [(kind, 0x7000 + 0x100 * i) for i, kind in enumerate(kinds)]


def merged(frames: list[tuple[int, int]], python: PyStack) -> tuple[list[str], str | None]:
    at, reason = eval_frames(frames, python, lambda pc: pc == EVAL)
    items, _ = split(merge(len(frames), python, at), frames, lambda pc: pc in (EVAL, INTERPRETER))
    return [text(item) for item in items], said(reason)


def text(item: Item) -> str:
    return str(item) if isinstance(item, int) else item.function


def stack(names: str, *calls: tuple[int, int | None]) -> PyStack:
    return PyStack(tuple(frame(name) for name in names), calls)


def test_anchors_lie_in_the_frames_of_their_calls() -> None:
    # lock <- driver <- eval(a, b) <- C helper <- eval(c) <- main
    frames = native(OTHER, OTHER, INTERPRETER, EVAL, INTERPRETER, OTHER, EVAL, INTERPRETER, OTHER)
    python = stack("abc", (2, 0x7340), (1, 0x76F8))
    assert merged(frames, python) == (["0", "1", "a", "b", "5", "c", "8"], None)


@pytest.mark.parametrize("anchor", [0x7300, 0x7308, 0x73FF])
def test_edges_of_a_frame(anchor: int) -> None:
    frames = native(OTHER, OTHER, OTHER, EVAL, OTHER)
    assert merged(frames, stack("a", (1, anchor))) == (["0", "1", "2", "a", "4"], None)


def test_anchor_in_the_outermost_frame() -> None:
    assert merged(native(OTHER, EVAL), stack("a", (1, 0x7500))) == (["0", "a"], None)


def test_call_without_frames() -> None:
    assert merged(native(OTHER, EVAL, EVAL), stack("a", (0, 0x7110), (1, 0x7210))) == (["0", "a"], None)


def test_thread_without_python() -> None:
    assert merged(native(OTHER, INTERPRETER, OTHER), PyStack((), ())) == (["0", "2"], None)


def test_functions_tell_where_there_are_no_anchors() -> None:
    frames = native(OTHER, EVAL, INTERPRETER, EVAL, OTHER)
    assert merged(frames, stack("ab", (1, None), (1, None))) == (["0", "a", "b", "4"], None)


def test_call_that_has_only_begun_has_no_python_frame() -> None:
    """As after an overflow of the stack in the first instructions of the eval loop."""
    frames = native(EVAL, OTHER, EVAL, EVAL, OTHER)
    assert merged(frames, stack("ab", (1, None), (1, None))) == (["1", "a", "b", "4"], None)


@pytest.mark.parametrize("frames", [
    native(OTHER, EVAL, OTHER), native(OTHER, EVAL, EVAL, EVAL), native(OTHER), native(EVAL, EVAL, EVAL, EVAL)])
def test_other_number_of_calls_than_of_frames(frames: list[tuple[int, int]]) -> None:
    items, reason = merged(frames, stack("ab", (1, None), (1, None)))
    assert items[:2] == ["a", "b"]
    assert items[2:] == [str(i) for i, (pc, _) in enumerate(frames) if pc == OTHER]
    assert reason is not None
    assert "2 Python frames" in reason


@pytest.mark.parametrize(("calls", "words"), [
    (((1, 0x6000), (1, 0x7210)), "no native frame"),
    (((1, 0x7210), (1, 0x7110)), "no native frame"),
    (((1, 0x7210), (1, 0x7220)), "one native frame"),
    (((1, 0x7210), (1, None)), "not be read to its end"),
], ids=["below the stack", "wrong order", "twice in one", "cut"])
def test_anchors_that_make_no_sense(calls: tuple[tuple[int, int | None], ...], words: str) -> None:
    items, reason = merged(native(OTHER, EVAL, EVAL, OTHER), stack("ab", *calls))
    assert items == ["a", "b", "0", "3"]
    assert reason is not None
    assert words in reason


def test_calls_further_out_than_the_known_frames() -> None:
    """As behind code of a Java machine."""
    frames, python = native(OTHER, EVAL, OTHER), stack("abc", (1, 0x7110), (1, 0x7280), (1, 0x7900))
    at, reason = eval_frames(frames, python, lambda pc: pc == EVAL, is_cut=True)
    assert (at, reason) == ([1, 3, 3], None)
    assert [text(item) for item in merge(len(frames), python, at)] == ["0", "a", "2", "b", "c"]
    items, why = merged(frames, python)
    assert (items, why) == (["a", "b", "c", "0", "2"], "the native stack could not be read to its end")


def test_no_frame_is_lost_or_shown_twice() -> None:
    frames = native(*[OTHER, EVAL] * 50)
    python = PyStack(tuple(frame(f"p{i}") for i in range(150)),
                     tuple((3, 0x7000 + 0x100 * (2 * i + 1) + 8) for i in range(50)))
    items, reason = merged(frames, python)
    assert reason is None
    assert [item for item in items if item.startswith("p")] == [f"p{i}" for i in range(150)]
    assert [item for item in items if not item.startswith("p")] == [str(2 * i) for i in range(50)]
