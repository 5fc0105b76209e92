from __future__ import annotations

import struct

import pytest

from gdbext.threads.code import read_code
from gdbext.threads.findings import Findings
from gdbext.threads.sections import Section, Sections
from tests.support.fake_eh_frame import describe_functions
from tests.support.fake_target import APP_TEXT, DRIVER_TEXT, FakeTarget

BEGIN, END, FUNCTION = APP_TEXT + 0x800, APP_TEXT + 0x900, APP_TEXT + 0x200
LOCK = 0x40_4100


class Program:
    """A function that calls others at offsets; ``mov $ARGUMENT,%edi`` stands before a call that has an argument."""

    def __init__(self, *calls: tuple[int, int, int | None]) -> None:
        self.target = FakeTarget()
        self.target.ram.ensure(APP_TEXT, 0x1000)
        describe_functions(self.target, "/app/server", FUNCTION)
        self.sections = Sections(self.target.memory, read_code(self.target, Findings()))
        for offset, function, argument in calls:
            at = FUNCTION + offset
            if argument is not None:
                self.target.ram.write(at - 5, b"\xbf" + struct.pack("<I", argument))
            self.target.ram.write(at, b"\xe8" + struct.pack("<i", function - (at + 5)))

    def contains(self, *pcs: int, first: int = 0, argument: int | None = None,
                 calls: frozenset[int] = frozenset()) -> bool:
        """Whether a stack of these program counters is inside."""
        return self.sections.contains(Section(BEGIN, END, argument, calls), [(pc, 0) for pc in pcs], first)


@pytest.mark.parametrize(("offset", "inside"), [
    (0x10, False), (0x20, False), (0x25, True), (0x60, True), (0x80, True), (0x84, True), (0x85, False), (0xF0, False)])
def test_section_is_from_one_call_to_the_next(offset: int, inside: bool) -> None:
    assert Program((0x20, BEGIN, None), (0x80, END, None)).contains(FUNCTION + offset) == inside


@pytest.mark.parametrize(("after", "inside"), [(0x25, False), (0x40, True), (0x85, True), (0x86, False)])
def test_caller_is_where_its_call_is(after: int, inside: bool) -> None:
    """While the beginning of a section is called it has not begun; while its end is called it has not ended."""
    program = Program((0x20, BEGIN, None), (0x80, END, None))
    assert program.contains(DRIVER_TEXT, FUNCTION + after) == inside


def test_section_that_the_function_does_not_end() -> None:
    assert Program((0x20, BEGIN, None)).contains(FUNCTION + 0xF0)


def test_end_without_a_beginning_is_not_a_section() -> None:
    program = Program((0x80, END, None))
    assert not program.contains(FUNCTION + 0x40)
    assert not program.contains(FUNCTION + 0xF0)


def test_second_section_of_a_function() -> None:
    program = Program((0x20, BEGIN, None), (0x40, END, None), (0x80, BEGIN, None), (0xA0, END, None))
    assert [program.contains(FUNCTION + offset) for offset in (0x30, 0x60, 0x90, 0xB0)] == [True, False, True, False]


def test_frames_before_the_first_do_not_count() -> None:
    program = Program((0x20, BEGIN, None))
    assert program.contains(FUNCTION + 0x40, APP_TEXT + 0x10)
    assert not program.contains(FUNCTION + 0x40, APP_TEXT + 0x10, first=1)


def test_calls_with_another_argument_do_not_count() -> None:
    program = Program((0x20, BEGIN, LOCK), (0x60, BEGIN, LOCK + 8), (0xA0, END, LOCK + 8), (0xC0, END, LOCK))
    assert program.contains(FUNCTION + 0x40, argument=LOCK)
    assert not program.contains(FUNCTION + 0x40, argument=LOCK + 8)
    assert program.contains(FUNCTION + 0xB0, argument=LOCK)
    assert not program.contains(FUNCTION + 0xB0, argument=LOCK + 8)


def test_call_that_is_known_counts_whatever_its_argument() -> None:
    program = Program((0x20, BEGIN, None))
    assert not program.contains(FUNCTION + 0x40, argument=LOCK)
    assert program.contains(FUNCTION + 0x40, argument=LOCK, calls=frozenset({FUNCTION + 0x25}))


def test_code_that_is_unknown_or_unreadable_is_in_no_section() -> None:
    program = Program((0x20, BEGIN, None))
    assert not program.contains(APP_TEXT + 0x10), "no frame description covers it"
    unreadable = FakeTarget()
    describe_functions(unreadable, "/app/server", FUNCTION)
    sections = Sections(unreadable.memory, read_code(unreadable, Findings()))
    assert not sections.contains(Section(BEGIN, END, None, frozenset()), [(FUNCTION + 0x40, 0)], 0)
