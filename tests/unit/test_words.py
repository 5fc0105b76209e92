"""Habits of language that make this project hard to read do not come back; docs/glossary.md has the words to use."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

HOME = Path(__file__).resolve().parent.parent.parent
#: A habit, and what to write.
HABITS = {
    r"\b(is|are|was|were|been|be) told\b|\btells (of|the|which|that|who|what|whether)\b": "reports, shows, says",
    r"\b[Ww]ho (waits|holds|sleeps|wants|has|needs|takes)\b|\b[Ww]hoever\b": "the waiting thread, the holder",
    r"\b(let|lets|letting) go of\b": "releases, detaches, resumes",
    r"\bfor ever\b|\bst(and|ands|ood) still\b": "forever, is paused, is blocked",
    r"\b(not|nowhere) to be had\b": "is not available",
    r"\b(looked|looks) at\b|\ba look at\b": "inspects, reads, takes a snapshot",
    r"\b(?<!there )is none of (ours|Python's)\b": "is not one of ...",
    r"\bas (it|GDB|the schema|the code object) has it\b": "the value in ...",
}
SUFFIXES = {".py", ".md", ".c", ".cc", ".cpp", ".h", ".hpp", ".rs", ".pyx", ".sh", ""}


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "-C", str(HOME), "ls-files", "-z"], capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [HOME / name for name in listed.stdout.split("\0") if name and Path(name).suffix in SUFFIXES]


def habits_in(text: str) -> list[str]:
    return [f"line {text.count(chr(10), 0, match.start()) + 1}: {match[0]!r}; write: {instead}"
            for habit, instead in HABITS.items() for match in re.finditer(habit, text)]


def test_habits_are_found() -> None:
    assert habits_in("the lock\nthat it lets go of") == ["line 2: 'lets go of'; write: releases, detaches, resumes"]
    assert habits_in("the holder releases the lock") == []


@pytest.mark.slow
def test_no_text_of_the_project_has_them() -> None:
    found = {str(path.relative_to(HOME)): habits for path in tracked() if path != Path(__file__).resolve()
             if (habits := habits_in(path.read_text(encoding="utf-8", errors="replace")))}
    assert found == {}
