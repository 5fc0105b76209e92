from __future__ import annotations

import random

import pytest

from gdbext.commands.arguments import JSON, Option, complete, file_name, parse, seconds, thread_numbers
from gdbext.errors import UsageError

OPTIONS = (JSON, Option("--each", action="store_true"),
           Option("--stacks", choices=("full", "top", "none"), default="full"), Option("--dot", type=file_name),
           Option("--full", "-full", action="store_true"), Option("--confirm", nargs="?", type=seconds, const=1.0))
NOTHING = {"json": False, "each": False, "stacks": "full", "dot": None, "full": False, "confirm": None}


@pytest.mark.parametrize(("line", "options", "rest"), [
    ("", {}, ()),
    ("--json", {"json": True}, ()),
    ("--json 1 3-5", {"json": True}, ("1", "3-5")),
    ("1 --each 2", {"each": True}, ("1", "2")),
    ("--stacks=top", {"stacks": "top"}, ()),
    ("--stacks top", {"stacks": "top"}, ()),
    ("--stacks=top --stacks=none", {"stacks": "none"}, ()),
    ("--dot out.dot 1", {"dot": "out.dot"}, ("1",)),
    ("--dot=out.dot", {"dot": "out.dot"}, ()),
    ("--dot=a=b", {"dot": "a=b"}, ()),
    ("-- --json", {}, ("--json",)),
    ("--each -- --", {"each": True}, ("--",)),
    ("-1 -x &table", {}, ("-1", "-x", "&table")),
    ("-full 5", {"full": True}, ("5",)),
    ("--full -5", {"full": True}, ("-5",)),
    ("-5 -full", {"full": True}, ("-5",)),
    ("-json", {}, ("-json",)),
    ("--confirm", {"confirm": 1.0}, ()),
    ("--confirm --json", {"confirm": 1.0, "json": True}, ()),
    ("--confirm 0.3", {"confirm": 0.3}, ()),
    ("--confirm=12", {"confirm": 12.0}, ()),
])
def test_parse_returns_options_and_rest(line: str, options: dict[str, object], rest: tuple[str, ...]) -> None:
    assert vars(parse("py-threads-locks", line.split(), OPTIONS)) == {**NOTHING, **options, "rest": rest}


@pytest.mark.parametrize("line", ["--nothing", "--jso", "--json=1", "--json=", "--each=yes", "--stacks", "--stacks=",
                                  "--stacks=all", "--dot", "--=x", "---json", "--dot=", "--dot --", "--dot --json",
                                  "--confirm x", "--confirm=", "--confirm=-1", "--confirm=1e3", "--confirm=\u0663"])
def test_parse_when_the_line_is_invalid_raises_a_usage_error(line: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse("py-threads-locks", line.split(), OPTIONS)
    assert caught.value.hint


@pytest.mark.parametrize(("word", "expected"), [
    ("-", ["--json", "--each", "--stacks=full", "--stacks=top", "--stacks=none", "--dot", "-full", "--confirm"]),
    ("--j", ["--json"]), ("--stacks=", ["--stacks=full", "--stacks=top", "--stacks=none"]),
    ("--stacks=t", ["--stacks=top"]), ("--x", []), ("3", []), ("-f", ["-full"]),
])
def test_complete_lists_matching_options(word: str, expected: list[str]) -> None:
    assert complete(word, OPTIONS) == expected


def test_parse_accepts_every_completion() -> None:
    for word in complete("-", OPTIONS):
        name = word.lstrip("-").partition("=")[0]
        found = vars(parse("py-threads-locks", [word, "x"] if name == "dot" else [word], OPTIONS))
        assert found[name] not in (None, False)


EXISTING = [1, 2, 3, 5, 8, 12]


@pytest.mark.parametrize(("text", "expected"), [
    ("", EXISTING), ("  ", EXISTING), ("all", EXISTING), ("1", [1]), ("8 1", [1, 8]), ("2-5", [2, 3, 5]),
    ("4-100", [5, 8, 12]), ("1,3 , 5", [1, 3, 5]), ("1-2 2-3", [1, 2, 3]), ("007", None), ("1 1", [1]), ("6-9", [8]),
    ("0-1", [1]),
])
def test_thread_numbers_returns_existing_threads(text: str, expected: list[int] | None) -> None:
    if expected is None:
        with pytest.raises(UsageError):
            thread_numbers(text, EXISTING)
    else:
        assert thread_numbers(text, EXISTING) == expected


LONG = "9" * 5000
INVALID_LISTS = ("x", "4", "1 4", "-1", "1-", "5-2", "1--2", "1-x", "1.1", "0", "all 1", "1-2-3", "0x1", "+1",
                 "\u00b2", "\u0663", "1-\u00b2", "0-99999999", "1-99999999999999999999999", "99999999999999999999999",
                 LONG, f"1-{LONG}")


@pytest.mark.parametrize("text", INVALID_LISTS, ids=lambda text: ascii(text)[:20])
def test_thread_numbers_when_invalid_raise_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        thread_numbers(text, EXISTING)
    assert caught.value.hint
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("seed", range(20))
def test_random_line_is_parsed_or_raises_a_usage_error(seed: int) -> None:
    chooser = random.Random(seed)
    for _ in range(200):
        letters = "-=1x,json allstackdot\u00b2\u0663\0"
        words = ["".join(chooser.choices(letters, k=chooser.randrange(8))) for _ in range(3)]
        try:
            thread_numbers(" ".join(parse("py-threads-locks", words, OPTIONS).rest), EXISTING)
        except UsageError:
            continue
