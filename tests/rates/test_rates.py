"""`gdbext report` names the cause of a hang in its first lines, and calls no healthy program a hang."""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.rates import harness, not_yet
from tests.rates.harness import NotYet, Program
from tests.rates.not_yet import NOT_YET, SOMETIMES

PROGRAMS = harness.programs()
#: A run of CI needs no package. It has half of the programs, one report on a healthy one, and the cores of a sixth.
SHORT = bool(os.environ.get("GDBEXT_SHORT"))


def cases() -> Iterator[Any]:
    for program in PROGRAMS:
        for target in program.targets:
            name = f"{program.name}-{target}"
            why = NOT_YET.get(name)
            marks = [] if why is None else [
                pytest.mark.xfail(raises=NotYet, strict=not why.startswith(SOMETIMES), reason=why)]
            if SHORT and (program.packages or zlib.crc32(program.name.encode()) % (6 if target == "core" else 2)):
                marks = [pytest.mark.skip(reason="not in a short run")]
            yield pytest.param(program, target, id=name, marks=marks)


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
    assert {not_yet.outcome(name) for name in NOT_YET} <= known - {harness.RIGHT}


@pytest.mark.parametrize(("program", "target"), CASES)
def test_report(program: Program, target: str, tmp_path: Path,
                record_property: Callable[[str, object], None]) -> None:
    still = harness.STILL_BEFORE_CORE if target == "core" else harness.STILL
    with harness.running(program, tmp_path, still) as pid:
        if target == "core":
            made = [harness.report_on_core(pid, tmp_path)]
        else:
            made = [harness.report(pid)]
            if program.expect == "healthy" and not SHORT:
                for _ in range(1, harness.REPORTS):
                    time.sleep(harness.PAUSE)
                    made.append(harness.report(pid))
            if SHORT and harness.judge(program, made[0]) == harness.WEAK_ALARM:
                # other tests run beside this one; `scripts/rates` counts such an alarm, and here it must last
                time.sleep(harness.STILL)
                made = [harness.report(pid)]
    outcomes = [harness.judge(program, each) for each in made]
    outcome = harness.worst(program.expect, outcomes)
    said = made[outcomes.index(outcome)]
    record_property("rates", json.dumps({
        "program": program.name, "target": target, "expect": program.expect, "outcome": outcome,
        "verdict": harness.verdict(said), "first lines": harness.first_lines(program, said)}))
    if outcome == harness.RIGHT:
        return
    if outcome == harness.UNKNOWN and program.expect == "healthy":
        return  # on a busy machine a process may move too fast; nothing untrue is said, and the rates count it
    expected = not_yet.outcome(f"{program.name}-{target}")
    text = f"{outcome}, not {expected or harness.RIGHT}:\n" + "\n".join(said.stdout.splitlines()[:20])
    unclear = outcome == harness.UNKNOWN and NOT_YET.get(f"{program.name}-{target}", "").startswith(SOMETIMES)
    if outcome == expected or unclear:
        raise NotYet(text)
    raise AssertionError(text)
