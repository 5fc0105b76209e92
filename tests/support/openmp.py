"""Programs that hang in OpenMP: tests/samples/openmp.c, and the extension of tests/samples/cython_openmp."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from tests.support import interpreters, samples
from tests.support.samples import HERE, SOURCES, Descendant, Place, Sample

#: Every scene of openmp.c, in the order in which they run.
SCENES = (
    *("barrier", "slow", "end", "end_two", "single", "idle", "idle_deadlock", "nested", "two_teams", "tasks"),
    *("taskwait", "ordered", "critical", "named", "reentered", "locks", "nested_locks"),
)
#: The name of the extension in GDBEXT_REQUIRE.
CYTHON = "cython-openmp"
#: The last Cython in which `prange` keeps the GIL if its caller holds it, and the last SciPy whose declarations of
#: LAPACK do not mention exceptions.
REQUIREMENTS = ("cython==3.0.0", "scipy==1.10.1", "numpy<2", "setuptools")
#: The version of Python for which SciPy is installed.
PYTHON = "3.11"

_FLAGS = ("-O2", "-std=gnu11", "-Wall", "-Wextra", "-pthread", "-fopenmp")
_CYTHON_SOURCE = SOURCES / "cython_openmp"
# threads sleep at once instead of spinning for some milliseconds
_VARIABLES = {"OMP_WAIT_POLICY": "passive"}


def program(*, stripped: bool, place: Place = HERE) -> Path:
    """The compiled openmp.c."""
    if stripped:
        return samples.compiled("openmp-stripped", "openmp.c", _FLAGS, strip=True, place=place)
    return samples.compiled("openmp", "openmp.c", (*_FLAGS, "-g"), strip=False, place=place)


def start(
    scenes: Sequence[str], directory: Path, *, stripped: bool, place: Place = HERE
) -> AbstractContextManager[Sample]:
    """Run scenes of openmp.c in one process."""
    argv: list[str | Path] = [program(stripped=stripped, place=place), *scenes]
    return samples.running(argv, directory, place=place, variables=_VARIABLES)


def start_fork(directory: Path, *, stripped: bool) -> AbstractContextManager[Sample]:
    """Run a child process that opens a region with its parent's pool."""
    argv: list[str | Path] = [program(stripped=stripped), "fork"]
    return samples.running(argv, directory, variables=_VARIABLES, kind=Descendant)


def start_llvm(clang: str, scenes: Sequence[str], directory: Path) -> AbstractContextManager[Sample]:
    """Run scenes of openmp.c compiled by clang with LLVM's OpenMP; only the threads of their truth are valid."""
    compiled = directory / "openmp-llvm"
    HERE.run([clang, *_FLAGS, "-Wno-everything", "-o", compiled, SOURCES / "openmp.c"])
    return samples.running([compiled, *scenes], directory, variables={"KMP_BLOCKTIME": "0"})


# -- the extension ------------------------------------------------------------------------------------------------


def start_cython(directory: Path, *, stripped: bool) -> AbstractContextManager[Sample]:
    """Run a Cython extension that hangs in `prange`; skips or fails the test if a requirement is missing."""
    python, _ = interpreters.use(f"{PYTHON}-stripped" if stripped else PYTHON)
    samples.extension_flags(python)  # only for the check of the headers, which setup.py finds by itself
    environment, missing = _environment()
    if environment is None:
        interpreters.do_without(CYTHON, missing)
    packages = environment / "lib" / f"python{PYTHON}" / "site-packages"
    extension = _extension(environment, stripped)
    variables = {"PYTHONPATH": os.pathsep.join(map(str, (extension, packages)))}
    return samples.running([python, _CYTHON_SOURCE / "solve.py"], directory, variables=variables)


@functools.cache
def _environment() -> tuple[Path | None, str]:
    """A virtual environment with Cython and SciPy, created once; or the reason why there is none."""
    python, _ = interpreters.use(PYTHON)
    store = samples.cache_directory().parent / CYTHON
    done = store / ".done"
    text = "\n".join([str(python), *REQUIREMENTS])
    store.mkdir(parents=True, exist_ok=True)
    with open(store.with_name(f"{CYTHON}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists() or done.read_text() != text:
            for command in (
                [python, "-m", "venv", "--clear", store],
                [store / "bin/python", "-m", "pip", "--disable-pip-version-check", "install", "-q", *REQUIREMENTS],
            ):
                made = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
                if made.returncode:
                    return None, f"{CYTHON}: {' '.join(REQUIREMENTS)} cannot be installed: {made.stderr.strip()[-300:]}"
            done.write_text(text)
    return store, ""


@functools.cache
def _extension(environment: Path, stripped: bool) -> Path:
    """The folder with the compiled extension, which is kept until its sources change."""
    sources = sorted(file for file in _CYTHON_SOURCE.iterdir() if file.suffix in (".pyx", ".h", ".py"))
    parts = [*(file.read_bytes() for file in sources), *map(str.encode, REQUIREMENTS), str(stripped).encode()]
    target = samples.cache_directory() / hashlib.sha256(b"\0".join(parts)).hexdigest()[:16] / CYTHON
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(target.with_name(f"{CYTHON}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            # Cython writes its C code next to the source
            work = target.with_name(f"{CYTHON}.unfinished")
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir()
            for file in sources:
                shutil.copy(file, work)
            HERE.run([environment / "bin/python", work / "setup.py", "-q", "build_ext", "--build-lib", work,
                      "--build-temp", work / "build"])
            if stripped:
                HERE.run(["strip", "--strip-all", *work.glob("*.so")])
            work.rename(target)
    return target
