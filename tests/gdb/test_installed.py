"""The archives for PyPI are complete, and what pip installs from them works with no checkout near."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gdbext.launcher.cli import VERBS
from tests.support import cores, gdb_session, interpreters, samples
from tests.support.interpreters import CHECKOUT
from tests.support.launcher import environment
from tests.support.patience import patience
from tests.support.report import Report
from tests.support.samples import Sample

#: What the archives are made of; the build leaves files behind, so it takes place in a copy.
NAMES = ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md",
         "gdbinit.example")
PAGES = sorted(path.name for path in (CHECKOUT / "docs" / "man").iterdir())


@dataclass(frozen=True)
class Archives:
    """The two archives, and the copy of the checkout of which they were made."""

    source: Path
    sdist: Path
    wheel: Path


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Archives:
    folder = tmp_path_factory.mktemp("archives")
    source = folder / "source"
    for name in ("gdbext", "docs"):
        shutil.copytree(CHECKOUT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in NAMES:
        shutil.copy(CHECKOUT / name, source)
    build = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, folder], cwd=source, check=True, stdout=subprocess.DEVNULL)
    (sdist,) = folder.glob("gdbext-*.tar.gz")
    # of the source archive, so that nothing can be in the wheel only because it is in the checkout
    subprocess.run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", folder,
                    sdist], check=True, stdout=subprocess.DEVNULL)
    (wheel,) = folder.glob("gdbext-*.whl")
    return Archives(source, sdist, wheel)


def test_archives_have_every_file_and_nothing_else(archives: Archives) -> None:
    with tarfile.open(archives.sdist) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    docs = {str(path.relative_to(archives.source)) for path in (archives.source / "docs").rglob("*") if path.is_file()}
    assert {*NAMES, *docs} <= names
    assert {f"docs/man/{page}" for page in PAGES} <= names
    with zipfile.ZipFile(archives.wheel) as found:
        names = set(found.namelist())
        (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        text = found.read(metadata).decode()
    assert any(name.endswith("LICENSE") for name in names)
    assert "License: Apache-2.0" in text
    assert "Author: gdbext developers" in text
    assert not any(name.startswith(("tests/", "docs/", "scripts/")) for name in names)
    inside = {name.partition("share/man/man1/")[2] for name in names if "/data/share/man/man1/" in name}
    assert inside == set(PAGES)


def test_twine_accepts_the_archives(archives: Archives) -> None:
    told = subprocess.run([sys.executable, "-m", "twine", "check", "--strict", archives.sdist, archives.wheel],
                          text=True, capture_output=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr
    assert told.stdout.count("PASSED") == 2


def test_pip_install_has_every_file(archives: Archives, tmp_path: Path) -> None:
    installed = tmp_path / "installed"
    command: list[str | Path] = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", installed]
    subprocess.run([*command, archives.wheel], check=True, stdout=subprocess.DEVNULL)

    def files(root: Path) -> set[str]:
        return {str(path.relative_to(root)) for path in root.rglob("*")
                if path.is_file() and "__pycache__" not in path.parts}

    assert files(installed / "gdbext") == files(archives.source / "gdbext")
    # pytest finds the plugin by its entry point
    told = subprocess.run([sys.executable, "-m", "pytest", "--help"], env=environment(PYTHONPATH=str(installed)),
                          cwd=tmp_path, text=True, capture_output=True, check=True).stdout
    assert "--gdbext-timeout" in told
    with samples.abba("mutex", tmp_path / "abba") as sample:
        session = gdb_session.batch(
            ["-p", str(sample.pid)], [f"source {installed / 'gdbext' / 'gdbext'}", "py-deadlocks --json"], load=False)
    assert Report(session.document(1), sample.truth).edges() == set(sample.truth.deadlock)


@pytest.fixture(scope="module")
def hung(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Sample, Path]]:
    """A deadlocked process and its core."""
    with samples.abba("mutex", tmp_path_factory.mktemp("abba")) as sample:
        core = cores.gdb_core(sample)
        yield sample, core
        core.unlink()


def in_folder(folder: Path, *argv: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command of the environment as its user does: without variables of the tests, outside of the checkout."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "GDBEXT_"))}
    return subprocess.run([*map(str, argv)], env={**variables, "COLUMNS": "80"}, cwd=folder, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=patience(300), check=False)


@pytest.mark.parametrize("version", ["3.9", "3.13"])
def test_each_verb_works_where_pip_has_installed_it(
        version: str, archives: Archives, hung: tuple[Sample, Path], tmp_path: Path) -> None:
    """One environment for both archives: the second one replaces what the first one has installed."""
    python, home = interpreters.use(version)[0], tmp_path / "v"
    sample, core = hung
    made = in_folder(tmp_path, python, "-m", "venv", home)
    assert made.returncode == 0, made.stderr
    pip = (home / "bin" / "python", "-m", "pip", "install", "--quiet")
    for options, way, target in (
            ([archives.sdist], ["v/bin/gdbext"], str(sample.pid)),
            (["--force-reinstall", "--no-deps", archives.wheel], ["v/bin/python", "-m", "gdbext"], core)):
        made = in_folder(tmp_path, *pip, *options)
        assert made.returncode == 0, made.stderr
        for verb in VERBS:
            told = in_folder(tmp_path, *way, verb, "--help")
            assert (told.returncode, told.stderr) == (0, ""), verb
            assert told.stdout.startswith(f"usage: gdbext {verb} ")
        told = in_folder(tmp_path, *way, "report", "--json", target)
        assert told.returncode == 1, told.stderr
        assert Report(json.loads(told.stdout), sample.truth).edges() == set(sample.truth.deadlock)
        asked = in_folder(tmp_path, "v/bin/python", "-c", "import gdbext; print(gdbext.__file__)").stdout
        assert Path(asked).is_relative_to(home)
        assert sorted(path.name for path in (home / "share" / "man" / "man1").iterdir()) == PAGES
