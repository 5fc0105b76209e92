from __future__ import annotations

import pytest

from gdbext.model import Thread
from gdbext.narrate.names import names_of, number_list
from gdbext.narrate.words import Marked, capitalised, listed, plain, plural


@pytest.mark.parametrize(("numbers", "text"), [
    ([1], "thread 1"), ([1, 2], "threads 1, 2"), ([1, 2, 3], "threads 1-3"),
    ([1, 2, 3, 7, 9, 10], "threads 1-3, 7, 9, 10"),
    ([*range(0, 60, 2)], f"threads {', '.join(str(number) for number in range(0, 40, 2))} and 10 more"),
])
def test_number_list(numbers: list[int], text: str) -> None:
    assert number_list(numbers) == text


@pytest.mark.parametrize(("names", "text"), [
    (["w-1", "w-2", None, "w-2", "w-30"], '"w-1" ... "w-30"'), (["w-1", "w-2", "main"], '"w-1", "w-2", "main"'),
    (["a", "b", "c", "d", "e", "f"], '"a", "b", "c", "d" and 2 more names'), ([None], ""),
])
def test_names_that_differ_in_a_number_are_shortened(names: list[str | None], text: str) -> None:
    assert plain(names_of([Thread(at, at, at, name) for at, name in enumerate(names)])) == text


def test_plural() -> None:
    assert [plural(1, "lock"), plural(0, "lock"), plural(2000, "lock")] == ["1 lock", "0 locks", "2,000 locks"]


def test_capitalised_and_listed() -> None:
    assert plain(capitalised((Marked("lock", ("the GIL",)), " is held"))) == "The GIL is held"
    assert plain(listed([("a",), ("b", "c")])) == "a, bc"
    assert listed([]) == ()
