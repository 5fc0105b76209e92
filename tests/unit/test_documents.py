"""The documents list what a report can say."""

from __future__ import annotations

import re
from pathlib import Path

import gdbext
from gdbext.libraries import LIBRARIES
from gdbext.model.verdict import OUTCOMES, STATUS_OF_OUTCOME
from gdbext.narrate.sentences import TITLES

DOCS = Path(gdbext.__file__).resolve().parent.parent / "docs"


def test_each_kind_of_verdict_has_its_title_and_its_status() -> None:
    page = (DOCS / "reading-a-report.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([A-Z ]+)` \| `([a-z-]+)` \| (\d) \| ", page, re.MULTILINE)
    assert rows == [(TITLES[kind], kind, str(STATUS_OF_OUTCOME[outcome])) for kind, outcome in OUTCOMES.items()]


def test_each_library_has_its_page() -> None:
    assert {f"{library.folder}.md" for library in LIBRARIES} <= {path.name for path in (DOCS / "libraries").iterdir()}
