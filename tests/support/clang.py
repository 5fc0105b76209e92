"""A C++ compiler of LLVM: Zig contains clang, and PyPI has Zig. It uses the headers, libraries and linker of gcc."""

from __future__ import annotations

import functools
import os
import shutil
from pathlib import Path

from tests.support import interpreters, packages, samples

#: The name of the compiler in GDBEXT_REQUIRE.
NAME = "clang"
_RELEASE = "ziglang==0.17.1"


@functools.cache
def command() -> tuple[str, ...]:
    """The compiler with its first options; skips or fails the test without it."""
    folder = samples.cache_directory().parent / NAME

    def tidy(folder: Path) -> None:
        for part in (folder / "ziglang" / "lib").iterdir():  # only the compiler's own headers are needed
            if part.is_dir() and part.name != "include":
                shutil.rmtree(part)

    failure = packages.install(folder, (_RELEASE,), "--no-compile", "--no-deps", tidy=tidy, state=("only clang",))
    if failure is not None:
        interpreters.do_without(NAME, f"{_RELEASE} cannot be installed: {failure}")
    zig = folder / "ziglang"
    # gcc has the header of its OpenMP
    openmp = Path(samples.HERE.run(["gcc", "-print-file-name=include/omp.h"]).strip()).parent
    return (str(zig / "zig"), "clang", f"--target={os.uname().machine}-linux-gnu", "-resource-dir", str(zig / "lib"),
            "-idirafter", str(openmp))
