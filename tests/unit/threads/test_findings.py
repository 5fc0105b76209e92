from __future__ import annotations

import re

import pytest

from gdbext.errors import INTERNAL, GdbextError, MemoryUnreadable
from gdbext.model import Problem
from gdbext.narrate.reasons import explain
from gdbext.threads import findings as findings_module
from gdbext.threads.findings import Findings
from tests.support.reasons import text


def test_first_failure_is_what_the_user_has_to_do_something_about() -> None:
    findings = Findings()
    findings.fail("no executable", "give it too")
    findings.fail("libx.so: another file", "use `set sysroot`", reported=True)
    assert findings.incomplete is not None
    assert (str(findings.incomplete), findings.incomplete.hint) == ("no executable", "give it too")
    assert findings.problems == [Problem("target", "not applicable", text("no executable"))]


def test_doubt_is_a_problem_and_a_reason_for_no_verdict() -> None:
    findings = Findings()
    findings.problem("thread 1", "unreadable", text("its native stack"))
    findings.doubt("gil:0", text("the holder cannot be read"))
    assert [explain(doubt) for doubt in findings.doubts] == ["gil:0: the holder cannot be read"]
    assert findings.problems[1:] == [Problem("gil:0", "unreadable", text("the holder cannot be read"))]


def test_stage_that_fails_is_one_problem_and_a_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings_module, "GUARDED", (GdbextError, *INTERNAL))
    findings = Findings()
    stages: dict[str, int] = {}
    for _ in range(2):
        assert findings.guard("asyncio", lambda: stages["tasks"], 7) == 7
    problem, = findings.problems
    assert (problem.where, problem.what) == ("asyncio", "unreadable")
    assert re.fullmatch(r"left out because of a bug in gdbext, please report it: KeyError in test_findings.py:\d+",
                        explain(problem.why))
    assert len(findings.doubts) == 1
    assert [type(mistake) for mistake in findings.mistakes] == [KeyError, KeyError]


def test_stage_with_unreadable_memory_is_a_problem_and_no_mistake() -> None:
    def read() -> str:
        raise MemoryUnreadable(0x10, 8)

    findings = Findings()
    assert findings.guard("names of locks", read, "", doubt=False) == ""
    assert findings.problems == [Problem("names of locks", "unreadable", text("cannot read 8 bytes at 0x10"))]
    assert not findings.doubts
    assert not findings.mistakes
