"""The lines of `gdbext watch`."""

from __future__ import annotations

from gdbext.narrate import watching


def test_sample_names_those_that_are_still_longest_first() -> None:
    assert watching.sample([("1 (a)", 0.0)]) == "1 process, 1 moved"
    assert watching.sample([("1 (a)", 60.2), ("2 (b)", 0.0), ("3 (c)", 120.0)]) == (
        "3 processes, 1 moved; nothing moved in 3 (c) for 120 s, 1 (a) for 60 s")


def test_many_processes_are_counted() -> None:
    assert watching.watches([str(number) for number in range(10)]) == "watches 0, 1, 2, 3, 4, 5, 6, 7 and 2 more"
    assert watching.ended(["1 (a)"]) == "no longer there: 1 (a)"


def test_report_says_whether_the_hang_is_new() -> None:
    assert watching.hang(True, "DEADLOCK: x") == "a new hang: DEADLOCK: x"
    assert watching.hang(False, "DEADLOCK: x") == "the same hang as before: DEADLOCK: x"
    assert watching.no_hang("IDLE") == "no hang: IDLE"
    assert watching.no_hang(None) == "no hang: it goes on"
