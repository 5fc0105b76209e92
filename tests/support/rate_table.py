"""Prints how many programs of a suite have each outcome, at the end of a run, and the programs with a wrong answer."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

#: The property of a test with its outcome, as JSON.
PROPERTY = "rates"


def print_rates(terminal: pytest.TerminalReporter, config: pytest.Config, suite: str,
                outcomes: Mapping[str, Sequence[str]], right: str) -> None:
    """Print the rates of one suite, and write them to the file in GDBEXT_RATES_SCORE (of tests/rates), or to pytest's.

    :param suite: the folder of its tests.
    :param outcomes: those of each sort of program, the right one first.
    """
    results: list[dict[str, Any]] = [
        json.loads(value)
        for outcome in ("passed", "failed", "xfailed", "xpassed")
        for report in terminal.stats.get(outcome, ())
        if report.nodeid.startswith(f"{suite}/")
        for name, value in getattr(report, "user_properties", ())
        if name == PROPERTY and report.when == "call"
    ]
    if not results:
        return
    results.sort(key=lambda result: (result["program"], result["target"]))
    terminal.section(suite)
    counted: dict[str, dict[str, int]] = {}
    for expect, known in outcomes.items():
        for target in dict.fromkeys(result["target"] for result in results):
            found = [each["outcome"] for each in results if each["expect"] == expect and each["target"] == target]
            if found:
                counted[f"{expect} {target}"] = {outcome: found.count(outcome) for outcome in known}
                terminal.line(f"{expect:7} {target}: {len(found)}, " + ", ".join(
                    f"{outcome} {found.count(outcome)}" for outcome in known))
    for each in results:
        if each["outcome"] != right:
            terminal.line(f"{each['outcome']:16} {each['program']}-{each['target']}: {each['verdict']}")
    name = suite.rpartition("/")[2]
    path = os.environ.get(f"GDBEXT_{name.upper()}_SCORE")
    base = config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    score = Path(path) if path else base / f"{name}.json"
    score.write_text(json.dumps({"rates": counted, "programs": results}, indent=1) + "\n")
    terminal.line(f"written to {score}")
