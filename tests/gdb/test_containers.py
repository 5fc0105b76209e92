"""A hung process in a container, inspected from the host, from inside, and from a container beside it.

A container here is a tree of another release that is the root of its own mount namespace, with its own PID namespace
and, as for rootless engines, its own user namespace.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support import roots, samples
from tests.support.launcher import environment
from tests.support.report import Report
from tests.support.roots import Root
from tests.support.samples import Descendant, Sample

#: As in `docker run` and in rootless podman.
KINDS = {"root": (), "rootless": ("--user", "--map-root-user")}


@dataclasses.dataclass(frozen=True)
class Container:
    """A running container with a hung process."""

    root: Root
    sample: Sample
    rootless: bool

    def entered(self, *namespaces: str) -> list[str]:
        """The command prefix that enters namespaces of the container, always with its user namespace if it has one."""
        user = ("--user", "--preserve-credentials") if self.rootless else ()
        return ["nsenter", "--target", str(self.sample.pid), *namespaces, *user]


@pytest.fixture(scope="module", params=KINDS)
def container(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    root = roots.use("bullseye")
    driver = samples.build("libdrv.so", root.place)
    new = ("unshare", *KINDS[request.param], "--pid", "--fork", "--kill-child")
    tried = subprocess.run([*new, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"no namespaces can be made here: {tried.stderr.strip()}")
    place = dataclasses.replace(root.place, enter=(*new, *root.place.enter))
    argv: list[str | Path] = [root.python, samples.SOURCES / "rapids.py", "--lock", "rwlock", "--driver", driver,
                              "--switch-interval", str(samples.STILL)]
    with samples.running(argv, tmp_path_factory.mktemp("rapids"), place=place, kind=Descendant) as sample:
        yield Container(root, sample, bool(KINDS[request.param]))


def check(sample: Sample, where: Sequence[str], number: int, *options: str) -> Report:
    """Run `gdbext report` on the process, which has that number there; the report matches its truth."""
    ran = subprocess.run([*where, "-m", "gdbext", "report", "--json", str(number), *options], env=environment(),
                         cwd="/", text=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False)
    assert ran.returncode == 1, ran.stderr
    report = Report(json.loads(ran.stdout), sample.truth)
    assert report.edges() == set(sample.truth.deadlock)
    assert report.python_stack("main") == sample.truth.threads["main"].stack
    assert report.document["target"]["libc"] == "glibc 2.31"
    assert not sample.is_stopped()
    return report


WAYS = pytest.mark.parametrize("options", [("--gdb", "gdb"), ("--no-gdb",)], ids=["gdb", "no-gdb"])


@WAYS
def test_from_the_host(container: Container, options: Sequence[str]) -> None:
    check(container.sample, [sys.executable], container.sample.pid, *options)


@WAYS
def test_from_inside(container: Container, options: Sequence[str]) -> None:
    """As with `docker exec`: with the Python and the GDB of the container."""
    inside = [*container.entered("--pid", "--mount", "--root"), str(container.root.python)]
    check(container.sample, inside, container.sample.truth.pid, *options)


@WAYS
def test_from_a_container_that_shares_its_processes(container: Container, options: Sequence[str]) -> None:
    """As with `docker run --pid=container:NAME` and `kubectl debug --target`: other files, the same processes."""
    other = roots.use("trixie")
    beside = [*container.entered("--pid"), *other.place.enter, str(other.python)]
    assert not other.place.outside(container.sample.executable).exists()
    check(container.sample, beside, container.sample.truth.pid, *options)
