"""Fingerprints of known bugs: their files, and the versions that have the bug."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gdbext.known.fingerprint import Fingerprint, fingerprints, parse, read_file
from gdbext.model.kinds import all_kinds
from gdbext.model.verdict import OUTCOMES
from gdbext.narrate import reasons

BUG = Fingerprint("a/b#1", "a title", "https://example.org", "CPython", "3.11", ("3.11.2", "3.12.1", "3.13.0"),
                  ("3.13.15", "3.14.10"), "2026-11-29", ("no-result",))


@pytest.mark.parametrize(("version", "affected"), [
    ("3.10.4", False), ("3.11.0", True), ("3.11.2", True), ("3.11.9", True), ("3.12.1", True), ("3.12.9", True),
    ("3.13.0rc1", True), ("3.13.0", True), ("3.13.5", None), ("3.13.15", False), ("3.13.20", False),
    ("3.14.2", None), ("3.14.10rc1", None), ("3.14.10", False), ("3.15.0b3", False), ("unknown", None)])
def test_versions(version: str, affected: bool | None) -> None:
    assert BUG.is_affected(version) is affected


def test_a_package_with_one_branch() -> None:
    bug = replace(BUG, since="2.57.0", hangs=("2.57.0", "2.58.0"), ends=("2.59.0",))
    versions = ("2.56.9", "2.57.1", "2.58.0", "2.58.1", "2.59.0", "2.59.1.dev0", "3.0")
    assert [bug.is_affected(version) for version in versions] == [False, True, True, None, False, False, False]


@pytest.mark.parametrize(("version", "fixed"), [
    ("3.12.1", "3.13.15"), ("3.13.0", "3.13.15"), ("3.14.0", "3.14.10"), (None, "3.13.15"), ("?", "3.13.15")])
def test_where_it_is_fixed(version: str | None, fixed: str) -> None:
    assert BUG.fixed_in(version) == fixed


def test_the_files() -> None:
    bugs = fingerprints()
    assert len({bug.id for bug in bugs}) == len(bugs) > 5
    for bug in bugs:
        data = read_file(bug)
        assert data.keys() <= {"id", "title", "url", "package", "since", "workaround", "confirmed", "facts"}
        assert data["confirmed"].keys() == {"date", "hangs", "ends"}
        assert data["facts"].keys() <= {"verdict", "threads", "tasks", "reasons"}
        assert all(each.keys() <= {"waits_for", "holds", "frames"} for each in data["facts"].get("threads", ()))
        assert all(each.keys() <= {"waits_for", "frames", "unheld"} for each in data["facts"].get("tasks", ()))
        assert bug.threads or bug.tasks, f"{bug.id} matches any program with this verdict"
        assert bug.url.startswith("https://github.com/")
        assert bug.id.partition("#")[0] in bug.url
        assert set(bug.verdicts) <= OUTCOMES.keys()
        assert set(bug.reasons) <= reasons._WORDINGS.keys(), bug.id
        assert {kind for each in bug.threads for kind in (*each.waits_for, *each.holds)} <= all_kinds().keys(), bug.id
        frames = [frame for each in bug.threads for frame in each.frames]
        frames += [frame for task in bug.tasks for frame in task.frames]
        assert all(function and path.endswith(".py") for function, path in frames)
        assert all(bug.is_affected(version) for version in bug.hangs), bug.id
        assert not any(bug.is_affected(version) for version in bug.ends), bug.id
        assert not bug.title[0].isupper(), bug.id
        assert not bug.title.endswith("."), bug.id


def test_a_file_without_a_member_is_rejected() -> None:
    data = dict(read_file(fingerprints()[0]))
    del data["since"]
    with pytest.raises(KeyError):
        parse(data)
