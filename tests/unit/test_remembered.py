"""Results that objects keep, and answers for memory that cannot be read."""

from __future__ import annotations

import pytest

from gdbext.errors import MemoryUnreadable, if_unreadable
from gdbext.remembered import remembered


class Squares:
    def __init__(self) -> None:
        self.calls: list[int] = []

    @remembered
    def square(self, number: int) -> int:
        """The square of a number."""
        self.calls.append(number)
        if number < 0:
            raise ValueError("negative")
        return number * number


def test_remembered_runs_once_for_each_argument_and_object() -> None:
    first, second = Squares(), Squares()
    assert [first.square(2), first.square(3), first.square(2), second.square(2)] == [4, 9, 4, 4]
    assert first.calls == [2, 3]
    assert second.calls == [2]
    assert Squares.square.__doc__ == "The square of a number."


def test_remembered_runs_again_after_an_error() -> None:
    squares = Squares()
    for _ in range(2):
        with pytest.raises(ValueError, match="negative"):
            squares.square(-1)
    assert squares.calls == [-1, -1]


def test_if_unreadable_answers_for_our_errors_only() -> None:
    @if_unreadable(-1)
    def read(error: Exception | None) -> int:
        if error is not None:
            raise error
        return 7

    assert read(None) == 7
    assert read(MemoryUnreadable(0, 8)) == -1
    with pytest.raises(KeyError):
        read(KeyError())
