"""Starts Dask clusters on this machine, with Dask from PyPI, and runs `gdbext dask` on them."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support import interpreters, samples
from tests.support.interpreters import CHECKOUT
from tests.support.packages import install
from tests.support.patience import patience

#: The name of Dask in GDBEXT_REQUIRE.
NAME = "dask-packages"
# the last release for Python 3.9, and the latest one
OLD, NEW = "2024.8.0", "2026.8.0"
REQUIREMENTS = [f"distributed=={OLD if sys.version_info < (3, 10) else NEW}"]


@functools.cache
def packages() -> tuple[Path | None, str]:
    """The folder with Dask for the Python that runs the tests, or the reason why there is none."""
    folder = samples.cache_directory().parent / NAME / f"{sys.version_info.major}.{sys.version_info.minor}"
    failure = install(folder, REQUIREMENTS)
    if failure is not None:
        return None, f"Dask cannot be installed: {failure}"
    return folder, ""


@dataclass(frozen=True)
class Cluster:
    """A running cluster: the address of its scheduler, and what its workers wrote about themselves."""

    sample: samples.Sample
    variables: dict[str, str]

    @property
    def facts(self) -> dict[str, Any]:
        """The facts that the client wrote to a file."""
        facts: dict[str, Any] = json.loads((self.sample.directory / "cluster.json").read_text())
        return facts

    @property
    def pids(self) -> set[int]:
        """The process ids of the workers."""
        return {worker["pid"] for worker in self.facts["workers"]}

    def gdbext(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Run `gdbext dask` on the cluster."""
        return gdbext(self.facts["scheduler"], *options, variables=self.variables)


def gdbext(*options: str, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run `gdbext dask`."""
    return subprocess.run([sys.executable, "-m", "gdbext", "dask", *options], cwd=CHECKOUT,
                          env={**os.environ, **variables}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=patience(120), check=False)


@contextlib.contextmanager
def started(
    directory: Path, options: Sequence[str] = (), variables: Mapping[str, str] | None = None
) -> Iterator[Cluster]:
    """Run tests/samples/cluster.py until it hangs, or works if it is to; skips the test without Dask.

    :param variables: further environment variables, for `gdbext dask` too.
    """
    folder, missing = packages()
    if folder is None:
        interpreters.do_without(NAME, missing)
    environment = {**(variables or {}), "PYTHONPATH": f"{folder}{os.pathsep}{CHECKOUT}"}
    argv: list[str | Path] = [
        Path(sys.executable), samples.SOURCES / "cluster.py", "--driver", samples.build("libdrv.so"), *options]
    with samples.running(argv, directory, variables=environment) as sample:
        cluster = Cluster(sample, environment)
        for worker in cluster.facts["workers"]:
            for role in ("task", "callbacks"):
                wait_for_futex(worker["pid"], worker[role])
        yield cluster
        pids = cluster.pids
    # a hung worker notices nothing: the kernel ends it when its nanny ends
    samples.wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids), "the workers to end")


def wait_for_futex(pid: int, tid: int, proc: Path = Path("/proc")) -> None:
    """Wait until a thread of a worker is blocked in a futex call."""
    path = proc / f"{pid}/task/{tid}/syscall"
    samples.wait_until(lambda: path.read_text().startswith("202 "), f"thread {tid} of worker {pid} to hang")


def snapshot_at_rest(cluster: Cluster, *options: str) -> subprocess.CompletedProcess[str]:
    """Take snapshots until one catches every event loop idle, not in one of its periodic tasks."""
    for _ in range(5):
        found = cluster.gdbext(*options)
        if not re.search("threads runs?$", found.stdout, re.MULTILINE):
            return found
    raise AssertionError(f"each time some thread ran: {found}")
