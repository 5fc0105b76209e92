"""Narrowing a report to what a command is about."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from gdbext.model import Report


def only(report: Report, threads: Collection[int], locks: Collection[str]) -> Report:
    """The report with these threads and locks; the locks that its deadlocks name stay in."""
    named = {edge.lock for deadlock in report.deadlocks for edge in deadlock.edges} | set(locks)
    return replace(report, threads=tuple(thread for thread in report.threads if thread.number in threads),
                   locks=tuple(lock for lock in report.locks if lock.id in named))
