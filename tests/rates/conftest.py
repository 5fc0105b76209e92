"""Prints the rates at the end, and writes them to GDBEXT_RATES_SCORE or to pytest's temporary directory."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.rates import harness


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print how many programs of each sort have each outcome, and the programs with a wrong answer."""
    results: list[dict[str, Any]] = [
        json.loads(value)
        for outcome in ("passed", "failed", "xfailed", "xpassed")
        for report in terminalreporter.stats.get(outcome, ())
        for name, value in getattr(report, "user_properties", ())
        if name == "rates" and report.when == "call"
    ]
    if not results:
        return
    results.sort(key=lambda result: (result["program"], result["target"]))
    terminalreporter.section("rates")
    counted: dict[str, dict[str, int]] = {}
    for expect, outcomes in harness.OUTCOMES.items():
        for target in ("live", "core"):
            found = [each["outcome"] for each in results if each["expect"] == expect and each["target"] == target]
            if found:
                counted[f"{expect} {target}"] = {outcome: found.count(outcome) for outcome in outcomes}
                terminalreporter.line(f"{expect:7} {target}: {len(found)}, " + ", ".join(
                    f"{outcome} {found.count(outcome)}" for outcome in outcomes))
    for each in results:
        if each["outcome"] != harness.RIGHT:
            terminalreporter.line(f"{each['outcome']:16} {each['program']}-{each['target']}: {each['verdict']}")
    path = os.environ.get("GDBEXT_RATES_SCORE")
    score = Path(path) if path else config._tmp_path_factory.getbasetemp() / "rates.json"  # type: ignore[attr-defined]
    score.write_text(json.dumps({"rates": counted, "programs": results}, indent=1) + "\n")
    terminalreporter.line(f"written to {score}")
