"""docs/support.md says what the tests go through and the tables hold."""

from __future__ import annotations

import pytest

from gdbext.waits import lock_kinds
from scripts import support_matrix
from tests.support import interpreters


def test_the_page_is_up_to_date() -> None:
    made = support_matrix.page()
    written = support_matrix.PAGE.read_text(encoding="utf-8")
    assert written == made, "docs/support.md is out of date: run scripts/support_matrix.py --write"


def test_it_names_everything_that_can_be_required() -> None:
    page = support_matrix.page()
    for name in (*interpreters.NAMES, *interpreters.SUITES, *interpreters.OLD_SUITES, *interpreters.ROOT_PYTHONS,
                 *interpreters.GDBS):
        assert f"`{name}`" in page, name


def test_a_kind_of_lock_without_a_word_on_its_owners_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    row = lock_kinds.KINDS[0]
    more = lock_kinds.Recogniser("latch", frozenset({"latch_wait"}), row.find)
    monkeypatch.setattr(support_matrix, "KINDS", (*lock_kinds.KINDS, more))
    with pytest.raises(support_matrix.Incomplete, match="latch"):
        support_matrix.page()
    assert support_matrix.main([]) == 1


def test_a_kind_of_lock_that_is_gone_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(support_matrix, "KINDS", lock_kinds.KINDS[1:])
    with pytest.raises(support_matrix.Incomplete, match=lock_kinds.KINDS[0].kind):
        support_matrix.page()


def test_check_tells_an_old_page(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert support_matrix.main(["--check"]) == 0
    monkeypatch.setattr(support_matrix, "page", lambda: "")
    assert support_matrix.main(["--check"]) == 1
    assert "--write" in capsys.readouterr().err
