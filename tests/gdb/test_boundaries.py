"""Boundaries between languages are named as they are, on stacks of real processes that cross them.

Golden texts are what `py-mixed-bt` prints for each thread of tests/samples/boundaries.py, by interpreter, in
tests/gdb/boundaries. GDBEXT_GOLDEN=write writes them anew; look at the difference before it is committed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support import cores, gdb_session, interpreters, openmp, packages, roots, samples
from tests.support.gdb_session import Interactive
from tests.support.samples import Sample

GOLDEN = Path(__file__).with_name("boundaries")
COMMAND = "thread apply all -q py-mixed-bt"
#: What GDB says, of a core by a kernel that knows more registers than it does, of each thread that it comes to first.
_GDBS_OWN = re.compile(r"^warning: Section `\.reg-xstate/\d+' in core file too small\.\n", re.MULTILINE)
#: What Python itself brings; the main thread is in the handler of a signal.
OF_LIBRARY = ("ctypes_callback", "collected", "last_reference", "importing")
OF_PACKAGES = ("cffi_callback", "cffi_compiled", "pybind11_call", "nanobind_call", "cython_call", "numpy_ufunc",
               "rust_hash")
NAMES = ("3.9", "3.11", "3.13", "sid-3.14")
#: What is tested with a core, too; and with numba.
MOST = "3.11"
#: What is said of a `__del__` that the collector runs unasked. Since 3.12 a stripped interpreter has no function around
#: it whose name tells, for none is exported: nothing is said, neither that a signal had come.
COLLECTING = {
    "3.9-stripped": "__del__ run by the garbage collector",
    "3.11": "__del__ run by the garbage collector",
    "3.11-stripped": "__del__ run by the garbage collector",
    "3.13": "__del__ run by the garbage collector",
    "3.13-stripped": None,
}
CYTHON = {
    "main": """\
  # cholesky.factor_batch () in cholesky.cpython-311-x86_64-linux-gnu.so [Cython]
  # solve at solve.py:36
           cholesky.factor_batch(announced(batch), THREADS)
  # main at solve.py:43
           print(solve(matrices).trace(), file=sys.stderr)
                 ^^^^^^^^^^^^^^^
  # <module> at solve.py:47
           main()
       ... program start (2 frames)""",
    # OpenMP's threads run the loop that the compiler has made a function of
    "worker1": """\
  # cholesky.factor_all () in cholesky.cpython-311-x86_64-linux-gnu.so [Cython]
  # 0x0 () in libgomp.so.1
       ... thread start (2 frames)""",
}


@contextmanager
def running(name: str, scenes: Sequence[str], directory: Path, *, of_packages: bool = False) -> Iterator[Sample]:
    """Scenes of the sample, run by an interpreter."""
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
    """The text of each thread by its role, without what is another with each process and with each build of a package.

    Frames of the sample's own code keep their lines. Of folders only the files are left.
    """
    text = re.sub(r"0x[0-9a-f]+", "0x0", text)
    text = re.sub(r"pipe:\[\d+\]", "pipe:[N]", text)
    text = re.sub(r" at /\S*/", " at ", text)
    text = re.sub(r"( at boundaries_(?:cffi|cython)\.c):\d+", r"\1:N", text)  # generated
    # as glibc names it, with and without its symbols
    text = re.sub(r"^(  #0 +)(?:__GI_)?(?:__libc_|__)?read \(\)", r"\1read ()", text, flags=re.MULTILINE)
    found = {}
    for block in re.split(r"^(?=Thread \d+ \(LWP )", text, flags=re.MULTILINE)[1:]:
        match = re.match(r"Thread \d+ \(LWP (\d+)(?:, TID (\d+))?\)", block)
        assert match, block
        role = sample.truth.role_of(int(match[2] or match[1]))
        found[role] = f"Thread N (LWP N){block[match.end():]}".strip("\n")
    return found


def look(sample: Sample, where: Sequence[str | Path] = (), *, symbols: bool = True) -> dict[str, str]:
    """The text of each thread by its role, as a batch session writes it."""
    session = gdb_session.batch(where or ["-p", str(sample.pid)], [COMMAND], symbols=symbols)
    assert session.status == 0, session
    assert "Traceback" not in session.stderr, session
    return blocks(_GDBS_OWN.sub("", session.outputs[0]), sample)


def check(name: str, found: Mapping[str, str]) -> None:
    """Compare with the golden text of an interpreter, as far as there are these threads."""
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("GDBEXT_GOLDEN") == "write":
        file.parent.mkdir(exist_ok=True)
        both = {**read(file), **found} if file.exists() else found
        file.write_text("\n\n".join(both[role] for role in sorted(both)) + "\n")
    golden = read(file)
    assert found == {role: golden[role] for role in found}


def read(file: Path) -> dict[str, str]:
    """The golden text of each thread by its role."""
    return {part.split('"')[1]: part for part in re.split(r"\n\n(?=Thread )", file.read_text().rstrip("\n"))}


@pytest.mark.parametrize("name", NAMES)
def test_every_boundary(name: str, tmp_path: Path) -> None:
    """In batch mode and at a terminal, which show the same."""
    scenes = [*OF_LIBRARY, *OF_PACKAGES, *(["numba_function"] if name == MOST else [])]
    # Debian's has detached ones, which may be installed or not
    symbols = name not in interpreters.ROOT_PYTHONS
    with running(name, scenes, tmp_path, of_packages=True) as sample:
        found = look(sample, symbols=symbols)
        with Interactive(["-p", str(sample.pid)], home=tmp_path, cwd=tmp_path, symbols=symbols) as gdb:
            at_terminal = blocks(gdb.command(COMMAND), sample)
        in_core = look_at_core(sample) if name == MOST else None
    assert set(found) == {"MainThread", *scenes}
    check(name, found)
    assert at_terminal == found
    if in_core is not None:
        pipe = "fd 3, pipe:[N]; only this process has the other end: fd 4\n"
        assert in_core == {role: text.replace(pipe, "fd 3; a core does not record what it referred to\n")
                           for role, text in found.items()}


def look_at_core(sample: Sample) -> dict[str, str]:
    """The same from a core; the sample ends."""
    core = cores.kernel_core(sample)
    found = look(sample, [sample.executable, core])
    core.unlink()
    return found


def test_without_packages(tmp_path: Path) -> None:
    """What takes none is tested everywhere."""
    with running(MOST, OF_LIBRARY, tmp_path) as sample:
        found = look(sample)
    assert set(found) == {"MainThread", *OF_LIBRARY}
    check(MOST, found)


def test_an_interpreter_without_symbols(tmp_path: Path) -> None:
    """Few of its own functions have names, so what it calls cannot always be told; modules and files tell the rest."""
    with running("3.11-stripped", OF_LIBRARY, tmp_path) as sample:
        check("3.11-stripped", look(sample, symbols=False))


@pytest.mark.parametrize("name", COLLECTING)
def test_garbage_is_collected_where_something_is_made(name: str, tmp_path: Path) -> None:
    """Not where the program asks for it. From 3.12 on it happens where signals are looked for, too."""
    with running(name, ["allocating"], tmp_path) as sample:
        found = look(sample, symbols=not name.endswith("-stripped"))
    note = COLLECTING[name]
    (line,) = re.findall(r"^  #2   __del__ at boundaries\.py:\d+(.*)$", found["allocating"], re.MULTILINE)
    assert line == (f" [{note}]" if note else "")


@pytest.mark.parametrize("target", ["live", "core"])
def test_cython(target: str, tmp_path: Path) -> None:
    """An extension that OpenMP runs."""
    with openmp.start_cython(tmp_path, stripped=False) as sample:
        found = look_at_core(sample) if target == "core" else look(sample)
    for role, expected in CYTHON.items():
        # how many frames libgomp itself has is its own affair
        shown = re.sub(r"^(  #)\d+ +", r"\1 ", found[role], flags=re.MULTILINE)
        inner, matched, rest = shown.partition(expected)
        assert matched, shown
        assert rest == ""
        modules = re.findall(r"^  # .* in (\S+)$", inner, re.MULTILINE)
        assert modules
        assert all(re.fullmatch(r"lib(gomp|c)\.so\.\d+", module) for module in modules), inner
