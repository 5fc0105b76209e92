from __future__ import annotations

from argparse import Namespace

import pytest

from gdbext.commands import py_crash
from gdbext.commands.arguments import JSON, parse
from gdbext.commands.base import Command
from gdbext.commands.every import COMMANDS
from gdbext.errors import GdbextError, UsageError
from gdbext.inferior.protocol import SignalInfo
from gdbext.inferior.signals import SIGSEGV
from gdbext.schema.write import document
from gdbext.snapshot import take_snapshot
from tests.support.fake_python_target import PythonTarget
from tests.support.fake_target import APP_TEXT, DRIVER_TEXT, FakeTarget


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_help_has_usage_example_and_every_option(command: Command) -> None:
    assert command.help.splitlines()[0].endswith(".")
    assert f"Usage: {command.name}" in command.help
    assert "Example" in command.help
    assert max(map(len, command.help.splitlines())) <= 120
    for option in command.options:
        assert any(f" {flag}" in command.help for flag in option.flags)


def test_commands_are_complete_and_have_json() -> None:
    assert [command.name for command in COMMANDS] == [
        "py-deadlocks", "py-threads-locks", "py-mixed-bt", "py-crash", "gil-holder", "rwlock-owner", "lock-owner"]
    assert all(JSON in command.options for command in COMMANDS)


# -- py-crash ------------------------------------------------------------------------------------------------------

def test_py_crash_result_has_only_the_involved_threads_and_locks() -> None:
    """The crashed thread, suspects and threads of findings, with the locks that they hold or wait for."""
    target = PythonTarget("3.12.1", "core")
    (died, state), (waiter, _), bystander = target.python_thread(), target.python_thread(), target.thread()
    target.python.take_gil(target.interpreter, state)
    target.waits_for_gil(waiter)
    died.frames = [(APP_TEXT + 0x10, died.stack)]
    bystander.frames = [(DRIVER_TEXT + 0x10, bystander.stack)]
    target.signals[1] = SignalInfo(SIGSEGV, 1, 0)
    result = py_crash.COMMAND.run(take_snapshot(target), Namespace(), ())
    assert result.report.crash is not None
    assert [thread.number for thread in result.report.threads] == [1]
    assert [lock.id for lock in result.report.locks] == ["gil:0"]
    made = document(result.report, result.parts)
    assert {"crash", "threads", "locks", "runtimes", "problems"} <= set(made)
    assert "deadlocks" not in made


def test_py_crash_without_a_fatal_signal_raises_an_error() -> None:
    target = FakeTarget()
    target.thread()
    with pytest.raises(GdbextError, match="no thread was stopped by a signal that ends programs"):
        py_crash.COMMAND.run(take_snapshot(target), Namespace(), ())


def test_py_crash_accepts_only_json() -> None:
    assert parse("py-crash", ["--json"], py_crash.COMMAND.options).json
    with pytest.raises(UsageError):
        parse("py-crash", ["--full"], py_crash.COMMAND.options)
