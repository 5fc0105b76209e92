"""`gdbext ranks` on jobs of torch.distributed; with GDBEXT_LONG, and if scripts/rates --long has installed PyTorch."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gdbext.jobs.job import PATIENCE
from tests.support import combinations, interpreters, samples
from tests.support.launcher import launch

pytestmark = pytest.mark.skipif(not combinations.LONG, reason="not in a short run")


def python_with_torch() -> str:
    python = samples.cache_directory().parent / "rates" / "3.11" / "bin" / "python"
    asked = [str(python), "-c", "import torch"]
    if not python.exists() or subprocess.run(asked, check=False, capture_output=True).returncode:
        interpreters.do_without("rates-packages", "scripts/rates --long has not installed torch")
    return str(python)


@contextlib.contextmanager
def running(scene: str, size: int, directory: Path) -> Iterator[int]:
    with subprocess.Popen([python_with_torch(), samples.SOURCES / "ranks_torch.py", scene, str(size)], cwd=directory,
                          stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process.pid
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def answer(pid: int) -> tuple[int, dict[str, Any]]:
    ran = launch("ranks", str(pid), "--json", gdb=None)
    return ran.status, json.loads(ran.stdout)


@pytest.mark.parametrize(("scene", "size", "after", "status", "debts"), [
    ("lock", 3, 2.0, 1, [(2, "not-called")]), ("other_operation", 3, 2.0, 1, [(2, "other-operation")]),
    ("circle", 2, 3.0, 1, [(1, "not-called")]), ("messages", 2, PATIENCE + 2, 1, [(1, "no-message")]),
    ("asleep", 3, PATIENCE + 2, 5, [(1, "not-called")]), ("in_step", 2, 1.0, 0, None),
    ("data_loader", 2, 1.0, 0, None), ("compiles", 2, 3.0, 0, None), ("evaluation", 2, 2.0, 0, None),
    ("fsdp", 2, 2.0, 0, None)])
def test_job(scene: str, size: int, after: float, status: int, debts: list[tuple[int, str]] | None,
             tmp_path: Path) -> None:
    with running(scene, size, tmp_path) as pid:
        time.sleep(after)
        found, document = answer(pid)
        assert found == status
        assert len(document["ranks"]) == size
        if debts is not None:
            owing = [(each["rank"], each["debt"]) for each in document["operations"][0]["owing"]]
            assert owing == debts or document["verdict"]["circle"] == [0, 1]
