"""Prints the score at the end, and writes it to GDBEXT_PRECISION_SCORE or to pytest's temporary directory."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the numbers of right, silent and false programs, and the names of those that are not right."""
    scores: list[dict[str, Any]] = [
        json.loads(value)
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, ())
        for name, value in getattr(report, "user_properties", ())
        if name == "precision" and report.when == "call"
    ]
    if not scores:
        return
    scores.sort(key=lambda score: (score["program"], score["python"]))
    counted: dict[str, dict[str, int]] = {}
    for score in scores:
        for target, verdict in score["verdicts"].items():
            row = counted.setdefault(f"{score['expect']} {target}", {"right": 0, "silent": 0, "false": 0})
            row[verdict] += 1
    terminalreporter.section("precision")
    for expect, row in sorted(counted.items()):
        terminalreporter.line(f"{expect:13} " + ", ".join(f"{verdict} {number}" for verdict, number in row.items()))
    for score in scores:
        if score["verdict"] != "right":
            why = "; ".join(score["why"])
            terminalreporter.line(f"{score['verdict']:6} {score['program']}-{score['python']}: {why}")
    path = os.environ.get("GDBEXT_PRECISION_SCORE")
    target = Path(path) if path else config._tmp_path_factory.getbasetemp() / "precision.json"  # type: ignore[attr-defined]
    target.write_text(json.dumps({"score": counted, "programs": scores}, indent=1) + "\n")
    terminalreporter.line(f"written to {target}")
