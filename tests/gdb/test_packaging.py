"""Packages for distributions, and the script of `action.yml`, on real processes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gdbext import __version__
from gdbext.inferior.proc.status import state_of
from tests.support.hangs import running
from tests.support.interpreters import CHECKOUT
from tests.support.launcher import environment
from tests.support.patience import patience
from tests.support.samples import wait_until

PACKAGING = CHECKOUT / "packaging"
HANGS = CHECKOUT / "tests" / "samples" / "hangs.py"
#: Where Debian's packages have their files.
MODULES = "usr/lib/python3/dist-packages"


def ran(*command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, command)], env=environment(**variables), text=True, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=patience(120), check=False)


def test_package_of_debian_has_a_command_that_reports(tmp_path: Path) -> None:
    tools = ("dpkg-buildpackage", "dh", "dh_python3", "pybuild")
    missing = [tool for tool in tools if shutil.which(tool, path="/usr/bin") is None]
    plugin = "/usr/share/doc/pybuild-plugin-pyproject"
    if missing or not Path(plugin).exists():
        pytest.skip(f"not here: {', '.join(missing) or plugin}")
    built = ran(PACKAGING / "build-deb", tmp_path)
    assert built.returncode == 0, built.stderr
    (package,) = tmp_path.glob("*.deb")
    assert package.name == f"gdbext_{__version__}_all.deb"
    assert ran("dpkg-deb", "--extract", package, tmp_path / "root").returncode == 0
    root = tmp_path / "root"
    assert len([*(root / "usr/share/man/man1").iterdir()]) == len([*(CHECKOUT / "docs" / "man").iterdir()])
    assert (root / "usr/lib/systemd/system/gdbext-watch.service").exists()
    with running("deadlock") as pid:
        told = ran("/usr/bin/python3", root / "usr/bin/gdbext", "report", str(pid),
                   PYTHONPATH=str(root / MODULES))
    assert told.returncode == 1, told.stderr
    assert "DEADLOCK: 2 threads wait for each other" in told.stdout


def test_descendants_of_a_job_are_explained_before_its_limit(tmp_path: Path) -> None:
    command = tmp_path / "gdbext"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m gdbext "$@"\n')
    command.chmod(0o755)
    # a shell that waits for one that waits for the program that hangs
    tree = f"bash -c '{sys.executable} {HANGS} deadlock & wait' & wait"
    told = ran(CHECKOUT / "scripts" / "run-with-limit", "--before", "1s", "--html", tmp_path / "pages", "4s",
               "bash", "-c", tree, GDBEXT=str(command))
    assert told.returncode == 124, told.stderr
    assert re.search(r"^3 processes: 0 deadlocked with each other, 1 with a deadlock", told.stderr, re.MULTILINE)
    assert "at .../hangs.py:57 in transfer" in told.stderr
    assert str(HANGS.parent) not in told.stderr
    (page,) = (tmp_path / "pages").iterdir()
    assert "DEADLOCK" in page.read_text()
    wait_until(lambda: state_of(int(told.stdout.split()[0])) in (None, "Z"), "the end of the program")


@pytest.mark.parametrize(("arguments", "status"), [
    (("9m", "sh", "-c", "exit 7"), 7), (("9m",), 2), (("soon", "true"), 2), (("--before", "2m", "1m", "true"), 0)])
def test_status_is_that_of_the_command(arguments: tuple[str, ...], status: int, tmp_path: Path) -> None:
    command = tmp_path / "gdbext"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m gdbext "$@"\n')
    command.chmod(0o755)
    told = ran(CHECKOUT / "scripts" / "run-with-limit", *arguments, GDBEXT=str(command))
    assert told.returncode == status, told.stderr


def test_action_passes_each_input_to_the_script() -> None:
    text = (CHECKOUT / "action.yml").read_text(encoding="utf-8")
    inputs = re.findall(r"^  ([a-z-]+):$", text.partition("inputs:")[2].partition("runs:")[0], re.MULTILINE)
    assert inputs == ["run", "timeout-minutes", "before", "pages"]
    variables = dict(re.findall(r"^ +([A-Z]+): \$\{\{ inputs\.([a-z-]+) \}\}$", text, re.MULTILINE))
    assert sorted(variables.values()) == sorted(inputs)
    script = text.rpartition("run: |")[2]
    assert all(f"${name}" in script or f"${{{name}}}" in script for name in variables)
    assert "${{" not in script  # an input is never text of the script
    assert os.access(CHECKOUT / "scripts" / "run-with-limit", os.X_OK)


def test_unit_of_systemd_is_valid(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("not here: systemd-analyze")
    text = (PACKAGING / "systemd" / "gdbext-watch.service").read_text(encoding="utf-8")
    unit = tmp_path / "gdbext-watch.service"
    # the command and its manual page exist only where gdbext is installed
    unit.write_text(text.replace("/usr/bin/gdbext", sys.executable).replace("man:gdbext-watch(1)", "man:sh(1)"))
    told = ran("systemd-analyze", "verify", "--man=no", unit)
    assert (told.returncode, told.stderr) == (0, "")
    (command,) = re.findall(r"^ExecStart=/usr/bin/gdbext (.*) \$GDBEXT_WATCH$", text, re.MULTILINE)
    told = ran(sys.executable, "-m", "gdbext", *command.split(), "--help")
    assert told.returncode == 0, told.stderr


def test_all_packages_have_one_version_and_the_same_requirements() -> None:
    project = (CHECKOUT / "pyproject.toml").read_text(encoding="utf-8")
    (listed,) = re.findall(r"^dependencies = \[(.*)\]$", project, re.MULTILINE)
    needed = sorted(re.findall(r'"([^"]+)"', listed))
    recipe = (PACKAGING / "conda" / "meta.yaml").read_text(encoding="utf-8")
    runs = re.findall(r"^    - (\S+ ?>=\S+)$", recipe.partition("  run:\n")[2].partition("test:")[0], re.MULTILINE)
    assert sorted(each.replace(" ", "") for each in runs) == sorted([*needed, "python>=3.9"])
    assert f'{{% set version = "{__version__}" %}}' in recipe
    assert (PACKAGING / "debian" / "changelog").read_text(encoding="utf-8").startswith(f"gdbext ({__version__}) ")
