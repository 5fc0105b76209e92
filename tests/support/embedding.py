"""Compiles samples that embed Python against an interpreter under test, and runs them."""

from __future__ import annotations

import contextlib
import functools
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import interpreters, samples
from tests.support.samples import Sample

_FLAGS = ("-O2", "-g", "-std=gnu11", "-Wall", "-Wextra", "-pthread")
# Debian's archive is not position-independent, and depends on some system libraries
_FURTHER = {"debian": ("-no-pie", "-lexpat", "-lz")}
# the facts of `python3-config --embed`, for this interpreter and without that script
_ASK = """
import json, sys, sysconfig
names = ("INCLUDEPY", "INSTSONAME", "LDVERSION", "LIBDIR", "LIBPL", "LIBRARY", "LIBS", "MULTIARCH", "SYSLIBS")
print(json.dumps(dict({name: sysconfig.get_config_var(name) or "" for name in names}, HOME=sys.base_prefix)))
"""


@dataclass(frozen=True)
class Python:
    """The files needed to embed an interpreter; `library` and `archive` are None if it has none."""

    home: Path
    headers: Path
    library: Path | None
    archive: Path | None
    system_libraries: tuple[str, ...]
    symbols: bool


def use(name: str) -> Python:
    """An interpreter under test, for embedding; skips or fails the test without it."""
    path, symbols = interpreters.use(name)
    python = _find(path, symbols)
    if not (python.headers / "Python.h").exists():
        samples.skip_without_headers(python.headers)
    return python


@functools.cache
def _find(path: Path, symbols: bool) -> Python:
    asked = subprocess.run(
        [str(path), "-S", "-E", "-c", _ASK], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    )
    config: dict[str, Any] = json.loads(asked.stdout)
    # a stripped copy has its own library in ../lib; Debian reports /usr/lib for libraries in a folder below it
    places = (path.parent.parent / "lib", Path(config["LIBDIR"]), Path(config["LIBDIR"]) / config["MULTIARCH"])
    libraries = [place / config["INSTSONAME"] for place in places if (place / config["INSTSONAME"]).is_file()]
    if not config["INSTSONAME"].endswith(".so.1.0"):  # the interpreter is not linked with the library
        libraries = [found for place in places for found in place.glob(f"libpython{config['LDVERSION']}.so.1.0")]
    archive = Path(config["LIBPL"]) / f"libpython{config['LDVERSION']}.a"
    return Python(
        Path(config["HOME"]),
        Path(config["INCLUDEPY"]),
        libraries[0] if libraries else None,
        archive if archive.exists() else None,
        (*config["LIBS"].split(), *config["SYSLIBS"].split()),
        symbols,
    )


def build(name: str, source: str, *, static: bool = False, strip: bool = False,
          exports: bool = True) -> tuple[Path, Python]:
    """Link a program of tests/samples with an interpreter's library, or with its static archive."""
    python = use(name)
    flags = [*_FLAGS, "-isystem", str(python.headers)]
    if static:
        if python.archive is None:
            pytest.skip(f"no static library of Python {name}")
        if exports:  # symbols that extension modules need from the program
            flags.append("-rdynamic")
        libraries = [str(python.archive), *python.system_libraries, *_FURTHER.get(name, ())]
    else:
        if python.library is None:
            pytest.skip(f"no shared library of Python {name}")
        libraries = [str(python.library), f"-Wl,-rpath,{python.library.parent}"]
    return samples.compiled(Path(source).stem, source, flags, libraries, strip=strip), python


def embed(
    name: str, directory: Path, *, static: bool = False, strip: bool = False
) -> contextlib.AbstractContextManager[Sample]:
    """Run a program deadlocked over its own mutex and the GIL of the Python that it embeds."""
    program, python = build(name, "embed.c", static=static, strip=strip)
    return samples.running([program, python.home], directory)


def subinterpreters(name: str, variant: str, directory: Path) -> contextlib.AbstractContextManager[Sample]:
    """Run a program with several interpreters: ``shared``, ``ended``, or since 3.12 ``own``."""
    program, python = build(name, "subinterpreters.c")
    return samples.running([program, variant, python.home], directory)


def compiled(name: str, variant: str, directory: Path, *,
             bare: bool = False) -> contextlib.AbstractContextManager[Sample]:
    """Run compiled code that takes Python's locks: ``lock``, ``alone`` or ``rlock``.

    :param bare: Python is statically linked, and the program is stripped and exports nothing.
    """
    program, python = build(name, "compiled.c", static=bare, strip=bare, exports=not bare)
    return samples.running([program, variant, python.home], directory)


def state(name: str, variant: str, directory: Path) -> contextlib.AbstractContextManager[Sample]:
    """Run a program whose Python is ``linked``, ``loaded``, ``finalised``, ``finalising``, or initialised ``again``."""
    if variant != "loaded":
        program, python = build(name, "states.c")
        return samples.running([program, variant, python.home], directory)
    python = use(name)
    if python.library is None:
        pytest.skip(f"no shared library of Python {name}")
    program = samples.compiled("loader", "states.c", (*_FLAGS, "-DLOADER"), strip=False)
    return samples.running([program, python.library], directory)
