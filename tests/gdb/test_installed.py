"""`pip install .` installs the whole package, including the loader and the tables."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from tests.support import gdb_session, samples
from tests.support.interpreters import CHECKOUT
from tests.support.launcher import environment
from tests.support.report import Report


def check_archives(source: Path, folder: Path) -> None:
    """Check that the source archive has docs and licence, and that the wheel made of it names both."""
    build = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, folder], cwd=source, check=True, stdout=subprocess.DEVNULL)
    (archive,) = folder.glob("gdbext-*.tar.gz")
    with tarfile.open(archive) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    docs = {str(path.relative_to(source)) for path in (source / "docs").rglob("*") if path.is_file()}
    assert {"LICENSE", "CHANGELOG.md", "README.md", *docs} <= names
    subprocess.run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", folder,
                    archive], check=True, stdout=subprocess.DEVNULL)
    (wheel,) = folder.glob("gdbext-*.whl")
    with zipfile.ZipFile(wheel) as found:
        names = set(found.namelist())
        (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        text = found.read(metadata).decode()
    assert any(name.endswith("LICENSE") for name in names)
    assert "License: Apache-2.0" in text
    assert "Author: gdbext developers" in text
    assert not any(name.startswith(("tests/", "docs/", "scripts/")) for name in names)


def test_pip_install_has_every_file(tmp_path: Path) -> None:
    # install from a copy, because setuptools leaves a build folder behind
    source = tmp_path / "source"
    shutil.copytree(CHECKOUT / "gdbext", source / "gdbext", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in", "CHANGELOG.md"):
        shutil.copy(CHECKOUT / name, source)
    shutil.copytree(CHECKOUT / "docs", source / "docs")
    check_archives(source, tmp_path)
    installed = tmp_path / "installed"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--target", installed, source], check=True, stdout=subprocess.DEVNULL)

    def files(root: Path) -> set[str]:
        return {str(path.relative_to(root)) for path in root.rglob("*")
                if path.is_file() and "__pycache__" not in path.parts}

    assert files(installed / "gdbext") == files(source / "gdbext")
    # pytest finds the plugin by its entry point
    told = subprocess.run([sys.executable, "-m", "pytest", "--help"], env=environment(PYTHONPATH=str(installed)),
                          cwd=tmp_path, text=True, capture_output=True, check=True).stdout
    assert "--gdbext-timeout" in told
    with samples.abba("mutex", tmp_path / "abba") as sample:
        session = gdb_session.batch(
            ["-p", str(sample.pid)], [f"source {installed / 'gdbext' / 'gdbext'}", "py-deadlocks --json"], load=False)
    assert Report(session.document(1), sample.truth).edges() == set(sample.truth.deadlock)
