"""gdbext reports no false deadlock and finds those it can: programs after public reports, and the score."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.precision import harness
from tests.precision.harness import (
    LONG_LOOKS,
    LOOKS,
    Program,
    Score,
)
from tests.support import combinations
from tests.support.documents import unexplained

PROGRAMS = harness.programs()
CASES = [pytest.param(program, python, id=f"{program.name}-{python}") for program in PROGRAMS
         for python in program.chosen]


def test_programs_of_both_sorts_are_many() -> None:
    expected = [program.expect for program in PROGRAMS]
    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS)
    assert expected.count("deadlock") >= 22
    assert expected.count("healthy") + expected.count("hang") >= 22


@pytest.mark.parametrize(("program", "python"), CASES)
def test_verdict(
    program: Program, python: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    score = Score(program.name, python, program.expect)
    differing: list[str] = []
    with harness.running(program, python, tmp_path) as target:
        roles = {tid: role for role, tid in target.threads.items()}
        if program.expect != "healthy":
            target.wait_until_stuck()
        for document, left_out in harness.looks_without_gdb(target):
            verdict, why = harness.judge(program, roles, document)
            if verdict != harness.SILENT or "instructions" not in left_out:
                score.add("live", verdict, why)
        if program.expect == "healthy":
            if program.is_seen_by_gdb:
                for document in harness.looks_at(target, LONG_LOOKS if combinations.LONG else LOOKS):
                    score.add(document["target"]["kind"], *harness.judge(program, roles, document))
            # before GDB reads the core, because a busy program takes the processor from it
            target.end()
            if program.core and program.is_seen_by_gdb:
                score.add("core", *harness.judge(program, roles, harness.look_at_gcore(target)))
        elif program.is_seen_by_gdb:
            # nothing moves, so both readers see the same
            by_gdb = harness.look_live(target)
            score.add("live", *harness.judge(program, roles, by_gdb))
            differing += [f"live{line}" for line in unexplained(program.name, by_gdb, document, left_out)]
            # GDB has just detached
            target.wait_until_stuck(0.1)
            by_gdb, document, left_out = harness.look_at_core(target)
            score.add("core", *harness.judge(program, roles, by_gdb))
            verdict, why = harness.judge(program, roles, document)
            if verdict != harness.SILENT or "instructions" not in left_out:
                score.add("core", verdict, why)
            differing += [f"core{line}" for line in unexplained(program.name, by_gdb, document, left_out)]
        else:
            document, left_out = harness.look_at_core_without_gdb(target)
            verdict, why = harness.judge(program, roles, document)
            if verdict != harness.SILENT or "instructions" not in left_out:
                score.add("core", verdict, why)
    record_property("precision", json.dumps(asdict(score)))
    assert harness.unexpected(program, score) == [], f"{program.name}: {'; '.join(score.why)}"
    assert differing == [], "the report without GDB is another one"
