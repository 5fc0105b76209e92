"""Locks that suspended coroutines and generators hold, in every version of CPython."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import combinations, cores, differential, interpreters, samples
from tests.support.report import Report

# CPython 3.6 keeps tasks in other places; 3.7 has no threading.get_native_id, which the sample uses
NAMES = tuple(name for name in interpreters.NAMES if not name.startswith(("3.6", "3.7")))
VARIANTS = ("task", "generator", "loop-idle")
SOURCE = samples.SOURCES / "suspended.py"
#: The line in which each variant's function is suspended inside its `with` block, and the function.
SUSPENDED = {"task": ("keep", "await wait(event)"), "generator": ("rows", "yield from range(3)"),
             "loop-idle": ("keep", "await wait(event)")}


def line_of(text: str) -> int:
    lines = SOURCE.read_text(encoding="utf-8").splitlines()
    # the first of the lines directly after `with`
    number, = [number for number, line in enumerate(lines, 1) if line.strip() == text
               and lines[number - 2].strip().startswith("with")]
    return number


#: Without symbols the wait of a loop is read as that of a task; its lock records the owner, which no symbol contains.
CASES = [case for case in combinations.cases(NAMES, VARIANTS, ("live", "gcore"))
         if combinations.LONG or not (case[0].endswith("-stripped") and case[1] == "loop-idle")]


@pytest.mark.parametrize(("name", "variant", "target"), CASES)
def test_thread_that_alone_can_resume_the_frame_is_the_holder(
    name: str, variant: str, target: str, tmp_path: Path
) -> None:
    python, symbols = interpreters.use(name)
    argv: list[str | Path] = [python, "-W", "ignore", SOURCE, variant]
    with samples.running(argv, tmp_path) as sample, cores.place(sample, python, target) as where:
        session = differential.batch(sample, where, [differential.COMMAND], symbols=symbols,
                                     directory=sample.directory)
    assert session.status == 0
    document, truth = session.document(), sample.truth
    report = Report(document, truth)
    holder, = report.lock("lock")["holders"]
    function, text = SUSPENDED[variant]
    assert report.role(holder["thread"]) == "main"
    assert (holder["taken_at"]["function"], holder["taken_at"]["line"]) == (function, line_of(text) - 1)
    assert report.edges() == {tuple(edge) for edge in truth.deadlock}
    if variant == "loop-idle":
        # the lock records its owner, and the loop may resume the coroutine at any time
        assert (holder["evidence"], document["deadlocks"]) == ("recorded", [])
        return
    code = "in-suspended-task" if variant == "task" else "in-suspended-generator"
    assert (holder["evidence"], holder["why_code"]["code"]) == ("derived", code)
    assert holder["why_code"]["arguments"] == {"file": str(SOURCE), "line": line_of(text), "thread": holder["thread"]}
    assert [each["evidence"] for each in document["deadlocks"]] == ["derived"]
