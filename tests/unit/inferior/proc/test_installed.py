"""Versions of a distribution and of packages, by the files of a root folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gdbext.inferior.proc.installed import distribution, packages

SITE = "/opt/v/lib/python3.11/site-packages"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, files in {"requests-2.31.0": {}, "PyYAML-6.0.1": {"top_level.txt": "_yaml\nyaml\n"},
                        "scikit_learn-1.5.0": {"RECORD": "sklearn/__init__.py,sha256=x,1\n"},
                        "one-1": {"top_level.txt": "shared\n"}, "two-2": {"top_level.txt": "shared\n"}}.items():
        folder = Path(f"{tmp_path}{SITE}/{name}.dist-info")
        folder.mkdir(parents=True)
        for file, text in files.items():
            (folder / file).write_text(text)
    return tmp_path


def test_packages_have_the_versions_of_their_dist_info_folders(root: Path) -> None:
    files = [f"{SITE}/{name}" for name in ("yaml/loader.py", "requests/api.py", "sklearn/x/y.py", "yaml/__init__.py")]
    assert packages([*files, "/srv/app.py", "<frozen x>"], str(root)) == [
        ("PyYAML", "6.0.1"), ("requests", "2.31.0"), ("scikit-learn", "1.5.0")]


def test_package_that_is_not_known_has_no_version(root: Path) -> None:
    assert packages([f"{SITE}/shared/a.py", f"{SITE}/other.py", "/no/site-packages/x/y.py"], str(root)) == []


def test_package_that_was_installed_after_the_core_was_written_does_not_count(root: Path) -> None:
    info = f"{root}{SITE}/requests-2.31.0.dist-info"
    os.utime(info, (1_000, 1_000))
    assert packages([f"{SITE}/requests/api.py"], str(root), before=2_000) == [("requests", "2.31.0")]
    assert packages([f"{SITE}/requests/api.py"], str(root), before=500) == []


def test_fifo_is_not_read(root: Path) -> None:
    os.mkfifo(f"{root}{SITE}/requests-2.31.0.dist-info/top_level.txt")
    assert packages([f"{SITE}/other/x.py"], str(root)) == []


def test_distribution_is_the_name_for_people(root: Path) -> None:
    assert distribution(str(root)) is None
    (root / "etc").mkdir()
    (root / "etc" / "os-release").write_text('ID=debian\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n')
    assert distribution(str(root)) == "Debian GNU/Linux 12 (bookworm)"
