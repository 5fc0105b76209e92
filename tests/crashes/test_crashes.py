"""`gdbext report CORE` names the cause of a crash in its first lines, and says nothing untrue."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crashes import harness, not_yet
from tests.crashes.harness import NotYet, Program
from tests.crashes.not_yet import NOT_YET

PROGRAMS = harness.programs()
#: A run of CI has one interpreter for each program, and GDB's report of a sixth of them.
SHORT = bool(os.environ.get("GDBEXT_SHORT"))


def cases() -> Iterator[Any]:
    for program in PROGRAMS:
        for python in program.pythons:
            for target in harness.TARGETS:
                name = "-".join(filter(None, (program.name, python, target)))
                marks = [pytest.mark.xfail(raises=NotYet, reason=NOT_YET[name])] if name in NOT_YET else []
                if SHORT and (python != program.pythons[0]
                              or target == "gdb" and zlib.crc32(program.name.encode()) % 6):
                    marks = [pytest.mark.skip(reason="not in a short run")]
                yield pytest.param(program, python, target, id=name, marks=marks)


CASES = list(cases())


def test_every_program_has_a_name_of_its_own() -> None:
    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS)


def test_wrong_answers_are_those_of_programs_with_a_known_outcome() -> None:
    assert NOT_YET.keys() <= {case.id for case in CASES}
    assert {not_yet.outcome(name) for name in NOT_YET} <= {harness.VAGUE, harness.UNKNOWN}


@pytest.mark.parametrize(("program", "python", "target"), CASES)
def test_report(program: Program, python: str, target: str, tmp_path: Path,
                record_property: Callable[[str, object], None]) -> None:
    with harness.core(program, python, tmp_path) as core:
        made = harness.report(core, target)
    outcome = harness.judge(program, made)
    record_property("rates", json.dumps({
        "program": program.name, "target": target, "expect": program.expect, "outcome": outcome,
        "verdict": harness.first_lines(program, made)[:200], "first lines": harness.first_lines(program, made)}))
    if outcome == harness.RIGHT:
        return
    name = "-".join(filter(None, (program.name, python, target)))
    text = f"{outcome}, not {harness.RIGHT}:\n" + "\n".join([*made.stdout.splitlines()[:45], made.stderr])
    if outcome == not_yet.outcome(name):
        raise NotYet(text)
    raise AssertionError(text)
