"""Prints the rates at the end."""

from __future__ import annotations

import pytest

from tests.rates import harness
from tests.support.rate_table import print_rates


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print how many programs of each sort have each outcome, and the programs with a wrong answer."""
    print_rates(terminalreporter, config, "tests/rates", harness.OUTCOMES, harness.RIGHT)
