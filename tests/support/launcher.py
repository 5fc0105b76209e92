"""Runs the console script `gdbext` for tests."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support import gdb_session
from tests.support.interpreters import CHECKOUT
from tests.support.patience import patience


@dataclass(frozen=True)
class Ran:
    """The result of a finished launcher."""

    stdout: str
    stderr: str
    status: int

    def document(self) -> dict[str, Any]:
        """The only JSON document that it printed, checked by the schema."""
        document: dict[str, Any] = json.loads(self.stdout)
        assert gdb_session.violations(document) == []
        return document

    def complaint(self) -> str:
        """Its only line of output, which is an error."""
        assert self.stdout == ""
        assert re.fullmatch(r"gdbext \w+: .+; .+\n", self.stderr), self.stderr
        return self.stderr


def command(*arguments: str | Path, gdb: str | Path | None = "") -> list[str]:
    """The command line of a verb with its arguments; without the option --gdb if `gdb` is None."""
    verb, *rest = map(str, arguments)
    if gdb is None:
        return [sys.executable, "-m", "gdbext", verb, *rest]
    return [sys.executable, "-m", "gdbext", verb, "--gdb", str(gdb or gdb_session.executable()), *rest]


def environment(**variables: str) -> dict[str, str]:
    """Environment variables for the launcher, without PYTHONUNBUFFERED, which hides errors of buffered output."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return {**kept, "PYTHONPATH": str(CHECKOUT), "TERM": "dumb", **variables}


def launch(*arguments: str | Path, gdb: Path | str | None = "", by: Sequence[str] = (), **variables: str) -> Ran:
    """Run a verb; `by` is a command prefix that reduces the launcher's rights."""
    return launch_by([*by, *command(*arguments, gdb=gdb)], **variables)


def launch_by(argv: Sequence[str], **variables: str) -> Ran:
    """Run a whole command line."""
    done = subprocess.run(argv, env=environment(**variables), cwd="/", text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=patience(120), check=False)
    assert "Traceback" not in done.stderr, done.stderr
    gdb_session.check_stages(done.stdout)
    return Ran(done.stdout, done.stderr, done.returncode)
