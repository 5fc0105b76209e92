"""docs/man says what `--help` says, and roff renders it."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gdbext.launcher import cli
from scripts import man_pages

PAGES = sorted(path.name for path in man_pages.FOLDER.iterdir())


def parsers() -> dict[str, argparse.ArgumentParser]:
    """The parser of each page."""
    main = cli.parser()
    verbs = next(action for action in main._actions if isinstance(action, argparse._SubParsersAction))
    return {"gdbext.1": main, **{f"gdbext-{verb}.1": verbs.choices[verb] for verb in cli.VERBS}}


def test_the_pages_are_up_to_date() -> None:
    assert man_pages.main([]) == 0, "docs/man is out of date: run scripts/man_pages.py --write"


def test_each_verb_has_its_page() -> None:
    assert sorted(parsers()) == PAGES


@pytest.mark.parametrize("name", PAGES)
def test_each_option_and_example_of_the_help_is_in_the_page(name: str) -> None:
    parser = parsers()[name]
    page = re.sub(r"\\(.)", lambda found: {"e": "\\", "-": "-", "&": ""}.get(found[1], found[0]),
                  (man_pages.FOLDER / name).read_text(encoding="utf-8"))
    for code, char in {r"\(aq": "'", r"\(ga": "`", r"\(ha": "^", r"\(ti": "~"}.items():
        page = page.replace(code, char)
    told = parser.format_help()
    options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", told.partition("examples:")[0]))
    assert options - set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", page)) == set()
    lines = page.splitlines()
    assert all(line.strip() in lines for line in (parser.epilog or "").splitlines() if line.startswith("  "))


@pytest.mark.parametrize("name", PAGES)
def test_groff_has_no_warning(name: str) -> None:
    if shutil.which("groff") is None:
        pytest.skip("no groff")
    made = subprocess.run(["groff", "-man", "-Tascii", "-ww", str(man_pages.FOLDER / name)], text=True,
                          capture_output=True, check=False)
    assert (made.returncode, made.stderr) == (0, "")
    assert "SYNOPSIS" in re.sub(".\b", "", re.sub(r"\x1b\[\d*m", "", made.stdout))


def test_an_old_page_and_one_too_many_are_noticed_and_replaced(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(man_pages, "FOLDER", tmp_path)
    assert man_pages.main(["--write"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == PAGES
    (tmp_path / "gdbext-gone.1").write_text("")
    assert man_pages.main([]) == 1
    assert "--write" in capsys.readouterr().err
    assert man_pages.main(["--write"]) == 0
    assert man_pages.main([]) == 0


def test_text_is_shown_as_it_is() -> None:
    assert man_pages._text(r".so 'x' a\b -h ~ ^ `") == r"\&.so \(aqx\(aq a\eb \-h \(ti \(ha \(ga"
