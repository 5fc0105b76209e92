"""Runs programs that crash, and compares the first lines of `gdbext report CORE` with the truth.

A program is a Python script, or a C, C++ or Rust source, in `programs/crashes` or `programs/twins`. A twin crashes for
another reason than the program that it resembles: the rule that explains the one must not be applied to the other. A
script with a C, C++, Cython or Rust source of the same name gets the path of that library, which is built for its
interpreter, as its argument. The text at the top of a program says what it does, and ends with its truth, in JSON:

    Truth: {"says": ["SIGSEGV", "sample_stack.*SIGPROF"], "never": "called by render"}

says     regular expressions that the first lines of the report match if they name the cause. White space in the report
         counts as one space, capitals do not count
never    a regular expression of what would be a false statement, anywhere in the report
python   the interpreters of a script, if not Debian's
flags    further flags of the compiler, such as `-O2`
run      words to run it with, such as `["--variant", "2"]`
packages  the Python packages that it needs, by import name: it is run with Python 3.11 of scripts/rates
env      environment variables
needs    files or programs without which it cannot run here
cut      how many bytes of the core are kept, for a core that was truncated

A program may print `skip: REASON` and exit with status 0 if it cannot run here.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import combinations, cores, gdb_session, interpreters, launcher, samples
from tests.support.patience import patience

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
PYTHON = "debian"
#: The number of lines of a report that a person reads first.
FIRST_LINES = 15

RIGHT = "right"
#: A crash whose cause the first lines do not name; one about which the report says something untrue; no report.
VAGUE, UNKNOWN, UNTRUE = "vague", "no report", "untrue"
OUTCOMES = {"crash": (RIGHT, VAGUE, UNKNOWN, UNTRUE), "twin": (RIGHT, VAGUE, UNKNOWN, UNTRUE)}
#: How a report is made: without GDB, and by GDB.
TARGETS = ("core", "gdb")

_KEYS = {"says", "never", "python", "flags", "run", "env", "needs", "cut", "packages"}
_FOLDERS = {"crashes": "crash", "twins": "twin"}
#: Packages of hundreds of megabytes: only in a long run.
_HEAVY = {"jax", "torch"}
_COMPILED = {".c": ("-std=gnu11",), ".cpp": ("-std=gnu++20",), ".rs": ()}
_FLAGS = ("-g", "-Wall", "-pthread")


class NotYet(Exception):
    """The answer is wrong as `not_yet.py` says."""


@dataclass(frozen=True)
class Program:
    """A program and its truth."""

    path: Path
    expect: str
    says: tuple[str, ...]
    never: str | None
    pythons: tuple[str, ...]
    truth: dict[str, Any]

    @property
    def name(self) -> str:
        """The program's name in the tests."""
        return self.path.stem

    @classmethod
    def read(cls, path: Path) -> Program:
        """Read the text at the top of a program."""
        text = path.read_text(encoding="utf-8")
        text = text.split('"""')[1] if path.suffix == ".py" else text.partition("/*")[2].partition("*/")[0]
        try:
            data = json.loads(text.partition("Truth: ")[2])
        except ValueError as error:
            raise AssertionError(f"{path}: the truth is not JSON: {error}") from None
        assert not data.keys() - _KEYS, f"{path}: {data.keys() - _KEYS} is not understood"
        pythons = tuple(data.get("python", (PYTHON,))) if path.suffix == ".py" else ("",)
        return cls(path, _FOLDERS[path.parent.name], tuple(data["says"]), data.get("never"), pythons, data)


def programs() -> list[Program]:
    """All programs, those whose cause is to be found first."""
    paths = [path for folder in _FOLDERS for path in sorted((PROGRAMS / folder).iterdir())]
    return [Program.read(path) for path in paths if path.suffix == ".py"
            or path.suffix in _COMPILED and not path.with_suffix(".py").exists()]


@contextlib.contextmanager
def core(program: Program, python: str, directory: Path) -> Iterator[Path]:
    """Run a program in an empty directory until it has crashed; the kernel's core."""
    for needed in program.truth.get("needs", ()):
        if not (shutil.which(needed) or Path(needed).exists()):
            pytest.skip(f"no {needed} here")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    # else a core contains 64 MiB for each thread
    environment = {**kept, "MALLOC_ARENA_MAX": "1", "HOME": str(directory), **program.truth.get("env", {})}
    prefix = cores.prefix()
    _, limit = resource.getrlimit(resource.RLIMIT_CORE)
    ran = subprocess.run(
        [*command(program, python), *program.truth.get("run", ())], cwd=directory, env=environment,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=patience(60), check=False,
        preexec_fn=functools.partial(resource.setrlimit, resource.RLIMIT_CORE, (limit, limit)))
    if ran.returncode == 0 and ran.stdout.startswith("skip: "):
        pytest.skip(ran.stdout[6:].strip())
    assert ran.returncode < 0, f"{program.name} did not crash: {ran.returncode}\n{ran.stdout}{ran.stderr[-2000:]}"
    found = sorted(directory.glob(f"{prefix}*"))
    if not found:
        pytest.skip("the kernel wrote no core: the hard limit on the size of cores may be too low")
    assert len(found) == 1, f"which is the core? {found}"
    if "cut" in program.truth:
        os.truncate(found[0], program.truth["cut"])
    try:
        yield found[0]
    finally:
        found[0].unlink()


def command(program: Program, python: str) -> list[str]:
    """The command line of a program, which is compiled if it must be."""
    flags = (*_FLAGS, *program.truth.get("flags", ()))
    if program.path.suffix != ".py":
        return [str(_compiled(program.name, program.path, flags))]
    path = _python(program, python)
    argv = [str(path), str(program.path)]
    for suffix in _COMPILED:
        source = program.path.with_suffix(suffix)
        if source.exists():
            if suffix != ".rs":
                flags = (*flags, "-shared", "-fPIC", *samples.extension_flags(path), *_headers(path, program))
            argv.append(str(_compiled(f"{program.name}.so", source, flags)))
    source = program.path.with_suffix(".pyx")
    if source.exists():
        with tempfile.TemporaryDirectory(prefix="gdbext-cython-") as folder:
            made = Path(folder) / f"{program.name}.c"
            samples.HERE.run([path, "-m", "cython", str(source), "-o", str(made)])
            flags = (*flags, "-shared", "-fPIC", "-O1", "-Wno-unused-function", *samples.extension_flags(path))
            argv.append(str(_compiled(f"{program.name}.so", made, flags)))
    return argv


def _python(program: Program, python: str) -> Path:
    """The interpreter of a script."""
    packages = program.truth.get("packages", ())
    if not packages:
        return interpreters.use(python)[0]
    if _HEAVY.intersection(packages) and not combinations.LONG:
        pytest.skip("a large package, which only a long run has")
    path = samples.cache_directory().parent / "rates" / "3.11" / "bin" / "python"
    asked = f"import importlib.util as u; print(all(map(u.find_spec, {list(packages)!r})))"
    if not path.exists() or samples.HERE.run([path, "-c", asked]).strip() != "True":
        interpreters.do_without("rates-packages", f"scripts/rates has not installed {', '.join(packages)}")
    return path


def _headers(python: Path, program: Program) -> Iterator[str]:
    """The options for the headers of a script's packages."""
    for name in {"pybind11", "nanobind"}.intersection(program.truth.get("packages", ())):
        inside = Path(samples.HERE.run([python, "-c", f"import {name}; print({name}.__path__[0])"]).strip())
        for part in ("include", "src", "ext/robin_map/include"):
            yield from ("-isystem", str(inside / part))


def _compiled(name: str, source: Path, flags: tuple[str, ...]) -> Path:
    where = os.path.relpath(source, samples.SOURCES)
    if source.suffix == ".rs":
        kind = ("--crate-type=cdylib",) if name.endswith(".so") else ()
        return samples.compiled(name, where, ("--edition=2021", "-g", *kind, *flags[len(_FLAGS):]), strip=False)
    options = ("-lstdc++",) if source.suffix == ".cpp" else ()
    return samples.compiled(name, where, (*_COMPILED[source.suffix], *flags), options, strip=False)


def report(path: Path, target: str) -> launcher.Ran:
    """The report on a core."""
    return launcher.launch("report", str(path), gdb=gdb_session.executable() if target == "gdb" else None)


def first_lines(program: Program, made: launcher.Ran) -> str:
    """What a person reads first, as one line, without the program's name, which says what is wrong."""
    return _plain(program, "\n".join(made.stdout.splitlines()[:FIRST_LINES]))


def _plain(program: Program, text: str) -> str:
    return " ".join(text.replace(program.name, "program").split())


def judge(program: Program, made: launcher.Ran) -> str:
    """Compare a report with the truth."""
    if made.status != 1:
        return UNKNOWN
    if program.never and re.search(program.never, _plain(program, made.stdout), re.IGNORECASE):
        return UNTRUE
    said = first_lines(program, made)
    return RIGHT if all(re.search(words, said, re.IGNORECASE) for words in program.says) else VAGUE
