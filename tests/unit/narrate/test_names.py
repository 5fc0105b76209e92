from __future__ import annotations

import pytest

from gdbext.model import Lock, NamedObject, Thread
from gdbext.narrate.names import asleep, names_of, number_list, program_name
from gdbext.narrate.words import Marked, capitalised, listed, plain, plural
from gdbext.render.plain_text import one_line as shown


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


@pytest.mark.parametrize(("name", "text"), [
    ("dst.lock", "dst.lock of Account 'alice'"),
    ("self.lock of Account", "self.lock of Account 'alice'"),
    ("self.lock of MyAccount", "self.lock of MyAccount of Account 'alice'"),
])
def test_name_of_a_lock_of_an_object(name: str, text: str) -> None:
    alice = NamedObject("Account", "name", "'alice'")
    assert plain(program_name(Lock("py-lock:0x10", "py-lock", 0x10, name, "locked", of_object=alice))) == text
    assert plain(program_name(Lock("py-lock:0x10", "py-lock", 0x10, name, "locked"))) == name


def test_values_of_objects_are_escaped_and_cut_where_they_are_shown() -> None:
    odd = NamedObject("\x1b[31m", "name", "x" * 500)
    words = program_name(Lock("py-lock:0x10", "py-lock", 0x10, "lock", "locked", of_object=odd))
    assert shown(words) == "lock of \\x1b[31m " + "x" * 60 + "..."


@pytest.mark.parametrize(("since", "words"), [
    ([4.6], ", asleep for 5 s"), ([130.0], ", asleep for 2 min"), ([7300.0], ", asleep for 2 h"),
    ([200_000.0], ", asleep for 2 days"), ([0.5], ""), ([None], ""), ([9.0, 4.0], ", asleep for 4 s"),
    ([9.0, None], ""), ([9.0, 0.1], "")])
def test_how_long_threads_are_asleep(since: list[float | None], words: str) -> None:
    assert asleep([Thread(i, i, i, "worker", since=each) for i, each in enumerate(since, 1)]) == words
