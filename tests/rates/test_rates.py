"""`gdbext report` names the cause of a hang in its first lines, and calls no healthy program a hang."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.rates import harness
from tests.rates.harness import NotYet, Program
from tests.rates.not_yet import NOT_YET

PROGRAMS = harness.programs()


def cases() -> Iterator[Any]:
    for program in PROGRAMS:
        for python in program.pythons:
            for target in program.targets:
                name = f"{program.name}-{python}-{target}"
                marks = [pytest.mark.xfail(raises=NotYet, strict=True, reason=NOT_YET[name])] if name in NOT_YET else []
                yield pytest.param(program, python, target, id=name, marks=marks)


CASES = list(cases())


def test_every_program_has_a_name_of_its_own() -> None:
    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS)


def test_half_of_the_programs_need_no_package() -> None:
    for expect in ("hang", "healthy"):
        packages = [program.packages for program in PROGRAMS if program.expect == expect]
        assert packages.count(()) >= len(packages) / 2


def test_wrong_answers_are_those_of_programs_with_a_known_outcome() -> None:
    assert NOT_YET.keys() <= {case.id for case in CASES}
    known = {outcome for outcomes in harness.OUTCOMES.values() for outcome in outcomes}
    assert {text.partition(":")[0] for text in NOT_YET.values()} <= known - {harness.RIGHT}


@pytest.mark.parametrize(("program", "python", "target"), CASES)
def test_report(program: Program, python: str, target: str, tmp_path: Path, request: pytest.FixtureRequest,
                record_property: Callable[[str, object], None]) -> None:
    with harness.running(program, python, tmp_path) as pid:
        if target == "core":
            made = [harness.report_on_core(pid, tmp_path)]
        else:
            made = [harness.report(pid)]
            if program.expect == "healthy" and not os.environ.get("GDBEXT_SHORT"):
                for _ in range(1, harness.REPORTS):
                    time.sleep(harness.PAUSE)
                    made.append(harness.report(pid))
    outcomes = [harness.judge(program, each) for each in made]
    outcome = harness.worst(program.expect, outcomes)
    said = made[outcomes.index(outcome)]
    record_property("rates", json.dumps({
        "program": program.name, "python": python, "target": target, "expect": program.expect, "outcome": outcome,
        "statuses": program.statuses, "status": said.status, "verdict": harness.verdict(said)}))
    if outcome == harness.RIGHT:
        return
    expected = NOT_YET.get(request.node.callspec.id, "").partition(":")[0]
    text = f"{outcome}, not {expected or harness.RIGHT}:\n" + "\n".join(said.stdout.splitlines()[:20])
    if outcome == expected:
        raise NotYet(text)
    raise AssertionError(text)
