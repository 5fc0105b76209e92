"""Python locks that were taken by calls of ``acquire``: the report compared with the program's truth."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import cores, differential, gdb_session, interpreters, roots, samples
from tests.support.report import Report

VARIANTS = ("deadlocks", "waits")
VERSIONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.13t", "3.14t")
CASES = [*itertools.product(VERSIONS, VARIANTS, ("live",)), ("3.11-stripped", "deadlocks", "gcore"),
         ("3.13-stripped", "deadlocks", "gcore"), ("3.14t-stripped", "deadlocks", "gcore"), ("3.9", "waits", "gcore"),
         ("debian", "waits", "gcore"), *itertools.product(("3.12", "3.13", "3.14t"), ("profiled",), ("live",))]
PROGRAM = samples.SOURCES / "acquires.py"


def check(report: Report, more: dict[str, Any]) -> None:
    """Holders, candidates, reasons and places of all locks, and the deadlocks."""
    assert report.document["problems"] == []
    taken = {}
    why: dict[str, str | None] = {}
    for name in more["why"]:
        lock = report.lock(name)
        report.check_lock(name)
        for holder in lock["holders"]:
            taken[name] = [holder["taken_at"]["function"], holder["taken_at"]["line"]]
        reason = lock["holders"][0]["why_code"] if lock["holders"] else lock["why_code"]
        why[name] = reason["code"] if reason is not None else None
    assert why == more["why"]
    assert taken == more["taken"]
    assert report.edges() == set(report.truth.deadlock)


@pytest.mark.parametrize(("name", "variant", "target"), CASES, ids=["-".join(case) for case in CASES])
def test_holders_of_acquired_locks(name: str, variant: str, target: str, tmp_path: Path) -> None:
    python, symbols = interpreters.use(name)
    arguments = ("deadlocks", "profiled") if variant == "profiled" else (variant,)
    with samples.running([python, PROGRAM, *arguments], tmp_path) as sample:
        more = json.loads((sample.directory / "more.json").read_text())
        # threads that only release a lock may still be ending, and two reports would differ in that
        samples.wait_until(lambda: len(sample.tids()) == len(sample.truth.threads), "other threads to end")
        with cores.place(sample, python, target) as where:
            session = differential.batch(sample, where, [differential.COMMAND], symbols=symbols,
                                         directory=sample.directory)
    check(Report(session.document(0), sample.truth), more)


@pytest.mark.parametrize("name", ["sid-3.13", "sid-3.14", "sid-3.15"])
def test_holders_of_acquired_locks_in_newer_interpreters(name: str, tmp_path: Path) -> None:
    root = roots.use_python(name)
    for variant in VARIANTS:
        (tmp_path / variant).mkdir()
        with samples.running([root.python, PROGRAM, variant], tmp_path / variant, place=root.place,
                             variables=dict(root.variables)) as sample:
            more = json.loads((sample.directory / "more.json").read_text())
            session = gdb_session.batch(["-p", str(sample.pid)], ["py-threads-locks --stacks=none --json"],
                                        symbols=False, directory=sample.directory)
        check(Report(session.document(0), sample.truth), more)
