"""A hung process in a container, inspected from the host, from inside, and from another container.

A container here is a tree of another release that is the root of its own mount namespace, with its own PID namespace
and, as for rootless engines, its own user namespace.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support import roots, samples
from tests.support.launcher import environment
from tests.support.patience import patience
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
                         cwd="/", text=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=patience(120),
                         check=False)
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


#: Two threads that wait for each other's mutex, which are variables; with PADDED these have other addresses.
ABBA = """
#include <pthread.h>
#include <unistd.h>
#ifdef PADDED
int padding[1 << 16] = {1};
#endif
pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
pthread_barrier_t both;
static void take(pthread_mutex_t *one, pthread_mutex_t *other) {
    pthread_mutex_lock(one);
    pthread_barrier_wait(&both);
    pthread_mutex_lock(other);
}
static void *run(void *unused) { take(&second, &first); return unused; }
int main(void) {
    pthread_t thread;
    pthread_barrier_init(&both, 0, 2);
    pthread_create(&thread, 0, run, 0);
    take(&first, &second);
}
"""
#: What takes the capabilities away with which GDB enters mount namespaces.
POWERLESS = ("setpriv", "--bounding-set", "-sys_admin,-sys_chroot", "--inh-caps", "-sys_admin,-sys_chroot")


def built(path: Path, *flags: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    source = path.with_suffix(".c")
    source.write_text(ABBA)
    subprocess.run(["gcc", "-pthread", *flags, "-o", path, source], check=True)
    return path


def check_abba(command: Sequence[str | Path], *ways: Sequence[str]) -> None:
    """Run a program that hangs; each way to report names its locks."""
    with subprocess.Popen(command) as process:
        try:
            samples.wait_until(lambda: both_wait(process.pid), "the deadlock")
            for way in ways:
                ran = subprocess.run([*way[1:], sys.executable, "-m", "gdbext", "report", "--json", str(process.pid),
                                      *(("--gdb", "gdb") if way[0] == "gdb" else ("--no-gdb",))], env=environment(),
                                     cwd="/", text=True, capture_output=True, timeout=patience(120), check=False)
                assert ran.returncode == 1, ran.stderr
                document = json.loads(ran.stdout)
                assert {lock["name"].split()[0] for lock in document["locks"]} == {"first", "second"}, way
                assert document["target"]["libc"].startswith("glibc "), way
        finally:
            process.kill()


def with_mounts(script: str, *arguments: Path) -> list[str | Path]:
    """The command that runs a script of the shell in a mount namespace of its own."""
    new = ["unshare", "--mount"]
    if subprocess.run([*new, "chroot", "/", "true"], check=False, capture_output=True).returncode:
        pytest.skip("a mount namespace or chroot is not permitted here")
    return [*new, "sh", "-c", script, "sh", *arguments]


def both_wait(pid: int) -> bool:
    """Whether both threads of a process are in futex()."""
    calls = [(task / "syscall").read_text().split()[0] for task in Path(f"/proc/{pid}/task").iterdir()]
    return calls == ["202", "202"]


def test_executable_that_has_another_file_under_its_name_here(tmp_path: Path) -> None:
    """GDB read the file of this machine, so variables had wrong addresses."""
    own = built(tmp_path / "program", "-no-pie")
    other = built(tmp_path / "inside" / "program", "-no-pie", "-DPADDED")
    os.utime(own, (0, 0))
    command = with_mounts('mount --bind "$1" "$2" && exec "$2"', other, own)
    check_abba(command, ("no-gdb",), ("gdb",), ("gdb", *POWERLESS))


def test_program_with_another_root_folder(tmp_path: Path) -> None:
    """Mappings name its files from the root of its mount namespace, as those of a container of `buildah` do."""
    tree = tmp_path / "tree"
    program = built(tree / "program")
    listed = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    for library in (word for word in listed.split() if word.startswith("/")):
        (tree / library[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, tree / library[1:])
    command = with_mounts('mount --bind "$1" /mnt && exec chroot /mnt /program', tree)
    check_abba(command, ("no-gdb",), ("gdb",), ("gdb", *POWERLESS))
    check_abba(["chroot", tree, "/program"], ("no-gdb",), ("gdb",))
