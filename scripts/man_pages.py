#!/usr/bin/env python3
"""Write docs/man: the manual pages gdbext(1) and gdbext-VERB(1), made of what `gdbext --help` and `VERB --help` say.

The pages do not depend on the Python that makes them, so that a test can compare them: they have no date, and no text
that argparse has formatted, which differs from one version of Python to the next.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from gdbext import __version__  # noqa: E402
from gdbext.launcher import cli  # noqa: E402

FOLDER = ROOT / "docs" / "man"
_ESCAPED = str.maketrans({"\\": r"\e", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti"})
#: Headings of argparse that have other names here; Python 3.9 calls the options "optional arguments".
_HEADINGS = {"positional arguments": "arguments", "optional arguments": "options"}
_REPEATED = {None: "{}", "?": "[{}]", "*": "[{}]...", "+": "{}...", argparse.REMAINDER: "{}..."}


def pages() -> dict[str, str]:
    """The pages by the names of their files."""
    main = cli.parser()
    verbs = next(action for action in main._actions if isinstance(action, argparse._SubParsersAction)).choices
    modules = {module.NAME: module for module in cli.modules()}
    summaries = {name: module.HELP for name, module in modules.items()}
    made = {"gdbext.1": _page("gdbext", "explain hangs and crashes", main, summaries)}
    for name, summary in summaries.items():
        made[f"gdbext-{name}.1"] = _page(f"gdbext-{name}", summary, verbs[name])
    return made


def _page(name: str, summary: str, parser: argparse.ArgumentParser, verbs: Mapping[str, str] | None = None) -> str:
    lines = [f'.TH {name.upper()} 1 "" "gdbext {__version__}" "User Commands"',
             ".SH NAME", f"{_text(name)} \\- {_text(summary)}",
             ".SH SYNOPSIS", *_synopsis(parser, verbs is not None),
             ".SH DESCRIPTION", *_filled(parser.description or "")]
    if verbs is not None:
        lines += [".SH VERBS", *_items(verbs)]
    for group in parser._action_groups:
        actions = {_term(action): _help(action) for action in group._group_actions
                   if not isinstance(action, argparse._SubParsersAction)}
        if actions:
            title = str(group.title)
            lines += [f".SH {_HEADINGS.get(title, title).upper()}", *_items(actions)]
    for part in (parser.epilog or "").split("\n\n"):
        title, _, text = part.partition(":")
        lines += [f".SH {title.upper()}", *(_verbatim(text) if title == "examples" else _filled(text))]
    others = ["gdbext"] if verbs is None else [f"gdbext-{verb}" for verb in verbs]
    lines += [".SH SEE ALSO", *(f".BR {_text(other)} (1)," for other in others), ".BR gdb (1)"]
    return "\n".join(lines) + "\n"


def _synopsis(parser: argparse.ArgumentParser, has_verbs: bool) -> list[str]:
    if has_verbs:
        return [f".B {_text(parser.prog)}", _text("VERB [OPTION]... [ARGUMENT]...")]
    arguments = [_REPEATED[action.nargs].format(_metavar(action))  # type: ignore[index]  # no verb has a number
                 for action in parser._actions if not action.option_strings]
    return [f".B {_text(parser.prog)}", _text(" ".join(["[OPTION]...", *arguments]))]


def _term(action: argparse.Action) -> str:
    if not action.option_strings:
        return _metavar(action)
    argument = "" if action.nargs == 0 else f" {_metavar(action)}"
    return f"{', '.join(action.option_strings)}{argument}"


def _metavar(action: argparse.Action) -> str:
    if action.metavar is None and action.choices is not None:
        return f"{{{','.join(map(str, action.choices))}}}"
    return str(action.metavar or action.dest.upper())


def _help(action: argparse.Action) -> str:
    return (action.help or "") % vars(action)


def _items(items: Mapping[str, str]) -> Iterator[str]:
    for term, text in items.items():
        yield from (".TP", f".B {_text(term)}", _text(text))


def _filled(text: str) -> Iterator[str]:
    """Paragraphs whose lines are broken where they are shown."""
    for number, paragraph in enumerate(text.strip().split("\n\n")):
        if number:
            yield ".PP"
        yield from (_text(line.strip()) for line in paragraph.splitlines())


def _verbatim(text: str) -> list[str]:
    lines = [line.strip() for line in text.strip("\n").splitlines()]
    return [".nf", *map(_text, lines), ".fi"]


def _text(text: str) -> str:
    """Text that roff shows as it is: a line that begins with a dot would be a request."""
    escaped = text.translate(_ESCAPED)
    return rf"\&{escaped}" if escaped.startswith(".") else escaped


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare the pages with those in docs/man, or write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--write", action="store_true", help="write the pages; without it only compare them")
    options = parser.parse_args(arguments)
    made = pages()
    there = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*")}
    if options.write:
        FOLDER.mkdir(exist_ok=True)
        for name in there.keys() - made.keys():
            (FOLDER / name).unlink()
        for name, text in made.items():
            (FOLDER / name).write_text(text, encoding="utf-8")
    elif made != there:
        print("docs/man is out of date: run scripts/man_pages.py --write", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
