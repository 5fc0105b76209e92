"""Shows the GDB sessions of a failed test."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from tests.support import gdb_session

pytest.register_assert_rewrite("tests.support.report")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Forget the sessions of the test before."""
    gdb_session.recent.clear()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """Add to the report of a failure what GDB was told and said."""
    outcome = yield
    report = outcome.get_result()
    if not report.failed:
        return
    sessions = list(gdb_session.recent)
    # a fixture that several tests share ran its session during the first of them
    for value in getattr(item, "funcargs", {}).values():
        session = getattr(value, "session", None)
        if isinstance(session, gdb_session.Result) and session not in sessions:
            sessions.append(session)
    for session in sessions:
        report.sections.append(("gdb session", str(session)))
