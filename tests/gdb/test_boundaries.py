"""Boundaries between languages on the stacks of real processes.

The golden texts are the output of `py-mixed-bt` for each thread of tests/samples/boundaries.py, by interpreter, in
tests/gdb/boundaries. GDBEXT_GOLDEN=write rewrites them; review the difference before you commit it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support import cores, differential, interpreters, openmp, packages, roots, samples
from tests.support.gdb_session import Interactive
from tests.support.samples import Sample

GOLDEN = Path(__file__).with_name("boundaries")
COMMAND = "thread apply all -q py-mixed-bt"
#: GDB's warning for each thread that it reads first, in a core from a kernel that saves more registers than GDB knows.
_GDBS_OWN = re.compile(r"^warning: (?:Section `\.reg-xstate/\d+' in core file too small"
                       r"|Unexpected size of section `\.reg-xstate/\d+' in core file)\.\n?", re.MULTILINE)
#: The scenes that need only Python itself; the main thread is in a signal handler.
OF_LIBRARY = ("ctypes_callback", "collected", "last_reference", "importing")
OF_PACKAGES = ("cffi_callback", "cffi_compiled", "pybind11_call", "nanobind_call", "cython_call", "numpy_ufunc",
               "rust_hash")
NAMES = ("3.9", "3.11", "3.13", "sid-3.14")
#: The interpreters that are also tested with a core, and with numba.
MOST = "3.11"
#: The text for a `__del__` that an automatic collection runs. Since 3.12 a stripped interpreter exports no function
#: that identifies it, so nothing is said, nor that a signal had arrived.
COLLECTING = {
    "3.9-stripped": "__del__ run by the garbage collector",
    "3.11": "__del__ run by the garbage collector",
    "3.11-stripped": "__del__ run by the garbage collector",
    "3.13": "__del__ run by the garbage collector",
    "3.13-stripped": None,
}
CYTHON = {
    "main": """\
       cholesky.factor_all () inlined
  # cholesky.factor_batch () in cholesky.cpython-311-x86_64-linux-gnu.so [Cython]
  # solve at solve.py:36
           cholesky.factor_batch(announced(batch), THREADS)
  # main at solve.py:43
           print(solve(matrices).trace(), file=sys.stderr)
                 ^^^^^^^^^^^^^^^
  # <module> at solve.py:47
           main()
       ... program start (2 frames)""",
    # OpenMP's threads run the loop, which the compiler turned into a function
    "worker1": """\
       cholesky.factor () inlined
  # cholesky.factor_all () in cholesky.cpython-311-x86_64-linux-gnu.so [Cython]
  # 0x0 () in libgomp.so.1
       ... thread start (2 frames)""",
}


@contextmanager
def running(name: str, scenes: Sequence[str], directory: Path, *, of_packages: bool = False) -> Iterator[Sample]:
    """Run scenes of the sample in an interpreter."""
    place, installed = samples.HERE, None
    if name in interpreters.ROOT_PYTHONS:
        root = roots.use_python(name, headers=of_packages)
        python, place = root.python, root.place
    else:
        python, _ = interpreters.use(name)
    if of_packages:
        installed = packages.use(name.rpartition("-")[2], place)
    with samples.boundaries(python, scenes, directory, installed, place=place) as sample:
        yield sample


def blocks(text: str, sample: Sample) -> dict[str, str]:
    """The text of each thread by its role, without the parts that differ between processes and builds of a package.

    Frames of the sample's own code keep their lines. Paths are reduced to file names.
    """
    text = re.sub(r"0x[0-9a-f]+", "0x0", text)
    text = re.sub(r"pipe:\[\d+\]", "pipe:[N]", text)
    text = re.sub(r" at /\S*/", " at ", text)
    # generated, or a package's
    text = re.sub(r"( at (?:boundaries_cffi|boundaries_cython|nb_call)\.[ch]):\d+", r"\1:N", text)
    # glibc's name for it, with and without symbols
    text = re.sub(r"^(  #0 +)(?:__GI_)?(?:__libc_|__)?read \(\) in (\S+)(?: at .*)?$", r"\1read () in \2", text,
                  flags=re.MULTILINE)
    found = {}
    for block in re.split(r"^(?=Thread \d+ \(LWP )", text, flags=re.MULTILINE)[1:]:
        match = re.match(r"Thread \d+ \(LWP (\d+)(?:, TID (\d+))?\)", block)
        assert match, block
        role = sample.truth.role_of(int(match[2] or match[1]))
        found[role] = f"Thread N (LWP N){block[match.end():]}".strip("\n")
    return found


def read_blocks(sample: Sample, where: Sequence[str | Path] = (), *, symbols: bool = True) -> dict[str, str]:
    """The text of each thread by its role, from a batch session."""
    session = differential.batch(sample, where or ["-p", str(sample.pid)], [differential.COMMAND, COMMAND],
                                 symbols=symbols)
    assert session.status == 0, session
    assert "Traceback" not in session.stderr, session
    return blocks(_GDBS_OWN.sub("", session.outputs[1]), sample)


def check(name: str, found: Mapping[str, str]) -> None:
    """Compare the threads with the golden text of an interpreter."""
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("GDBEXT_GOLDEN") == "write":
        file.parent.mkdir(exist_ok=True)
        both = {**read(file), **found} if file.exists() else found
        file.write_text("\n\n".join(both[role] for role in sorted(both)) + "\n")
    golden = read(file)
    assert found == {role: golden[role] for role in found}


def read(file: Path) -> dict[str, str]:
    """Read the golden text of each thread, by its role."""
    return {part.split('"')[1]: part for part in re.split(r"\n\n(?=Thread )", file.read_text().rstrip("\n"))}


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.long if name != MOST else ()) for name in NAMES])
def test_every_boundary(name: str, tmp_path: Path) -> None:
    """Batch mode and a terminal show the same."""
    scenes = [*OF_LIBRARY, *OF_PACKAGES, *(["numba_function"] if name == MOST else [])]
    # Debian's interpreter has detached symbols, which may or may not be installed
    symbols = name not in interpreters.ROOT_PYTHONS
    with running(name, scenes, tmp_path, of_packages=True) as sample:
        found = read_blocks(sample, symbols=symbols)
        with Interactive(["-p", str(sample.pid)], home=tmp_path, cwd=tmp_path, symbols=symbols) as gdb:
            at_terminal = blocks(gdb.command(COMMAND), sample)
        in_core = read_blocks_of_core(sample) if name == MOST else None
    assert set(found) == {"MainThread", *scenes}
    check(name, found)
    assert at_terminal == found
    if in_core is not None:
        pipe = "fd 3, pipe:[N]; only this process has the other end: fd 4\n"
        assert in_core == {role: text.replace(pipe, "fd 3; a core does not record what it referred to\n")
                           for role, text in found.items()}


def read_blocks_of_core(sample: Sample) -> dict[str, str]:
    """The text of each thread by its role, from a kernel core; the sample ends."""
    core = cores.kernel_core(sample)
    found = read_blocks(sample, [sample.executable, core])
    core.unlink()
    return found


def test_boundaries_without_packages(tmp_path: Path) -> None:
    """The scenes that need no packages are tested everywhere."""
    with running(MOST, OF_LIBRARY, tmp_path) as sample:
        found = read_blocks(sample)
    assert set(found) == {"MainThread", *OF_LIBRARY}
    check(MOST, found)


def test_boundaries_of_a_stripped_interpreter(tmp_path: Path) -> None:
    """Few of its functions have names, so boundaries are sometimes named by module or file only."""
    with running("3.11-stripped", OF_LIBRARY, tmp_path) as sample:
        check("3.11-stripped", read_blocks(sample, symbols=False))


@pytest.mark.parametrize("name", COLLECTING)
def test_automatic_collection_is_a_boundary(name: str, tmp_path: Path) -> None:
    """An automatic collection. Since 3.12 it also runs where the eval loop checks for signals."""
    with running(name, ["allocating"], tmp_path) as sample:
        found = read_blocks(sample, symbols=not name.endswith("-stripped"))
    note = COLLECTING[name]
    (line,) = re.findall(r"^  #2   __del__ at boundaries\.py:\d+(.*)$", found["allocating"], re.MULTILINE)
    assert line == (f" [{note}]" if note else "")


@pytest.mark.parametrize("target", ["live", "core"])
def test_boundaries_of_cython_and_openmp(target: str, tmp_path: Path) -> None:
    """An extension whose code OpenMP runs."""
    with openmp.start_cython(tmp_path, stripped=False) as sample:
        found = read_blocks_of_core(sample) if target == "core" else read_blocks(sample)
    for role, expected in CYTHON.items():
        # libgomp's own number of frames differs between versions
        shown = re.sub(r"^(  #)\d+ +", r"\1 ", found[role], flags=re.MULTILINE)
        shown = re.sub(r" at cholesky\.c:\d+", "", shown)  # generated
        inner, matched, rest = shown.partition(expected)
        assert matched, shown
        assert rest == ""
        modules = re.findall(r"^  # .* in (\S+)(?: at .*)?$", inner, re.MULTILINE)
        assert modules
        assert all(re.fullmatch(r"lib(gomp|c)\.so\.\d+", module) for module in modules), inner
