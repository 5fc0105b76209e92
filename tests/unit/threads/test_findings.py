from __future__ import annotations

from gdbext.model import Problem
from gdbext.narrate.reasons import explain
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
