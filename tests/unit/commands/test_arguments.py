from __future__ import annotations

import random

import pytest

from gdbext.commands.arguments import JSON, Arguments, Option, complete, parse, thread_numbers
from gdbext.errors import UsageError

OPTIONS = (JSON, Option("each", "show each"), Option("stacks", "how much", choices=("full", "top", "none")),
           Option("dot", "write the graph", value="FILE"), Option("full", "show more", short=True))


@pytest.mark.parametrize(("line", "options", "rest"), [
    ("", {}, ()),
    ("--json", {"json": ""}, ()),
    ("--json 1 3-5", {"json": ""}, ("1", "3-5")),
    ("1 --each 2", {"each": ""}, ("1", "2")),
    ("--stacks=top", {"stacks": "top"}, ()),
    ("--stacks=top --stacks=none", {"stacks": "none"}, ()),
    ("--dot out.dot 1", {"dot": "out.dot"}, ("1",)),
    ("--dot=out.dot", {"dot": "out.dot"}, ()),
    ("--dot=a=b", {"dot": "a=b"}, ()),
    ("-- --json", {}, ("--json",)),
    ("-1 -x &table", {}, ("-1", "-x", "&table")),
    ("-full 5", {"full": ""}, ("5",)),
    ("--full -5", {"full": ""}, ("-5",)),
    ("-json", {}, ("-json",)),
])
def test_parse(line: str, options: dict[str, str], rest: tuple[str, ...]) -> None:
    found = parse(line.split(), OPTIONS)
    assert found == Arguments(options, rest)
    assert all(name in found for name in options)
    assert "nothing" not in found


@pytest.mark.parametrize("line", ["--nothing", "--jso", "--json=1", "--json=", "--each=yes", "--stacks", "--stacks=",
                                  "--stacks=all", "--dot", "--=x", "---json", "--dot="])
def test_what_cannot_be_understood(line: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(line.split(), OPTIONS)
    assert caught.value.hint


def test_default() -> None:
    assert parse([], OPTIONS).get("stacks", "full") == "full"
    assert parse(["--stacks=none"], OPTIONS).get("stacks", "full") == "none"


@pytest.mark.parametrize(("word", "expected"), [
    ("--", ["--json", "--each", "--stacks=full", "--stacks=top", "--stacks=none", "--dot"]),
    ("--j", ["--json"]), ("--stacks=", ["--stacks=full", "--stacks=top", "--stacks=none"]),
    ("--stacks=t", ["--stacks=top"]), ("--x", []), ("3", []),
])
def test_complete(word: str, expected: list[str]) -> None:
    assert complete(word, OPTIONS) == expected


def test_what_completes_is_understood() -> None:
    for word in complete("--", OPTIONS):
        name = word[2:].partition("=")[0]
        assert name in parse([word, "x"] if name == "dot" else [word], OPTIONS)


EXISTING = [1, 2, 3, 5, 8, 12]


@pytest.mark.parametrize(("text", "expected"), [
    ("", EXISTING), ("  ", EXISTING), ("all", EXISTING), ("1", [1]), ("8 1", [1, 8]), ("2-5", [2, 3, 5]),
    ("4-100", [5, 8, 12]), ("1,3 , 5", [1, 3, 5]), ("1-2 2-3", [1, 2, 3]), ("007", None), ("1 1", [1]), ("6-9", [8]),
    ("0-1", [1]),
])
def test_thread_numbers(text: str, expected: list[int] | None) -> None:
    if expected is None:
        with pytest.raises(UsageError):
            thread_numbers(text, EXISTING)
    else:
        assert thread_numbers(text, EXISTING) == expected


LONG = "9" * 5000
NO_NUMBERS = ("x", "4", "1 4", "-1", "1-", "5-2", "1--2", "1-x", "1.1", "0", "all 1", "1-2-3", "0x1", "+1", "\u00b2",
              "\u0663", "1-\u00b2", "0-99999999", "1-99999999999999999999999", "99999999999999999999999", LONG,
              f"1-{LONG}")


@pytest.mark.parametrize("text", NO_NUMBERS, ids=lambda text: ascii(text)[:20])
def test_no_thread_numbers(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        thread_numbers(text, EXISTING)
    assert caught.value.hint
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("seed", range(20))
def test_any_line_is_understood_or_refused(seed: int) -> None:
    chooser = random.Random(seed)
    for _ in range(200):
        letters = "-=1x,json allstackdot\u00b2\u0663\0"
        words = ["".join(chooser.choices(letters, k=chooser.randrange(8))) for _ in range(3)]
        try:
            thread_numbers(" ".join(parse(words, OPTIONS).rest), EXISTING)
        except UsageError:
            continue
