"""`set auto-solib-add off`: reports are the same as when GDB has read the symbols of all libraries."""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support import cores, gdb_session, interpreters, openmp, packages, samples
from tests.support.gdb_session import Interactive, Result, without_times
from tests.support.samples import Sample

OFF = ("-iex", "set auto-solib-add off")
#: gdbext searches large libraries itself and has GDB read small ones; this makes all of them large.
ALL_LARGE = "python import gdbext.debugger.lazy; gdbext.debugger.lazy._SMALL = 0"
COMMANDS = ("py-threads-locks --json", "py-deadlocks --json", "thread apply all -q py-mixed-bt", "py-threads-locks")
#: Lists the libraries whose symbols GDB has read.
READ = re.compile(r"^(?:0x\w+ +0x\w+)? +(Yes|No)(?: \(\*\))? +/\S*/(\S+)$", re.MULTILINE)

#: The order of preference of names for the same code.
SHAPES = r"""
#include <stdint.h>
#define NOINLINE __attribute__((noinline, noclone))

static NOINLINE int hidden(int x) { return x * 3; }
NOINLINE int plain(int x) { return hidden(x) + 1; }
int alias_of_plain(int x) __attribute__((alias("plain")));
int a_weak_alias(int x) __attribute__((weak, alias("plain")));
static int z_local_alias(int x) __attribute__((alias("plain"), used));
static int local_first(int x) __attribute__((alias("hidden"), used));

static int one(int x) { return x + 1; }
static void *choose(void) { return (void *)one; }
int chosen(int x) __attribute__((ifunc("choose")));

__asm__(".text\n.globl sized\n.type sized,@function\nsized: nop\nnop\ninside: nop\n.Llocal: nop\nnop\nret\n"
        ".size sized,.-sized\n.globl unsized\nunsized: nop\nnop\nret\n.type after,@function\nafter: nop\nret\nnop\n"
        ".size after,2\n"
        ".globl outer\n.type outer,@function\nouter: nop\n.type inner,@function\ninner: nop\n.size inner,1\nnop\nret\n"
        ".size outer,.-outer\n.fill 64,1,0x90\n");

int table[64] = {1};
static int counters[16];
const char message[] = "a message";
__thread int of_thread[8] = {1};
static uint8_t large[200000];
int use(int x) {
    counters[x]++, large[x]++, of_thread[x]++;
    return plain(x) + one(x) + z_local_alias(x) + local_first(x);
}
"""

COMPARE = r"""
import os, re, gdb
from gdbext.elf.symtab import SymbolFile, Undecided
handle = os.open(gdb.objfiles()[0].filename, os.O_RDONLY)
file = SymbolFile(lambda offset, size: os.pread(handle, size, offset))
same = undecided = 0
for section in file.sections:
    if not section.address or not section.flags & 2 or section.flags & 0x400:
        continue
    for address in range(section.address, section.address + section.size, max(section.size // 3000, 1)):
        match = re.match(r"^0x[0-9a-f]+ <(.+?)(?:[-+]\d+)?>$", gdb.execute(f"output/a {address:#x}", to_string=True))
        try:
            name = file.symbol(address)
        except Undecided:
            undecided += 1
            continue
        if name == (match and match[1]):
            same += 1
        else:
            print(f"{section.name} {address:#x}: {match and match[1]} in GDB, {name} in the table")
print(f"{same > 100} {undecided < same // 10} {file.symbol_size > 0}")
"""


@pytest.mark.parametrize("strip", [(), ("--strip-unneeded",)], ids=["whole", "stripped"])
def test_symbol_names_match_gdb(strip: Sequence[str], tmp_path: Path) -> None:
    library, script = tmp_path / "libshapes.so", tmp_path / "compare.py"
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", library], input=SHAPES.encode(), check=True)
    if strip:
        subprocess.run(["strip", *strip, library], check=True)
    script.write_text(COMPARE)
    session = gdb_session.batch([library], [f"source {script}"], symbols=False, index=False)
    assert session.outputs[0] == "True True True"


def answers(where: Sequence[str | Path], first: Sequence[str] = (), symbols: bool = True) -> Result:
    """Run the commands; the last output lists the libraries that GDB has read."""
    session = gdb_session.batch(where, [*first, *COMMANDS, "info sharedlibrary"], symbols=symbols, index=False)
    assert "Traceback" not in session.stderr
    assert not session.error_lines("py-threads-locks")
    return session


def check(where: Sequence[str | Path], symbols: bool = True) -> list[dict[str, str]]:
    """Compare reports with and without all symbols; return the libraries that GDB has read in each way without."""
    everything = answers(where, symbols=symbols)
    wanted = [without_times(output) for output in everything.outputs[:len(COMMANDS)]]
    assert {state for state, _ in READ.findall(everything.outputs[-1])} == {"Yes"}
    found = []
    for first in ([], [ALL_LARGE]):
        session = answers([*OFF, *where], first, symbols)
        assert [without_times(output) for output in session.outputs[len(first):-1]] == wanted
        document = session.document(len(first))
        assert any(frame["language"] == "native" for thread in document["threads"] for frame in thread["stack"])
        found.append({name: state for state, name in READ.findall(session.outputs[-1])})
    return found


@pytest.mark.parametrize(("name", "target"), [("3.9", "live"), ("3.11", "gcore"), ("3.12-stripped", "live"),
                                              ("3.13", "kernel core")])
def test_python_program(name: str, target: str, tmp_path: Path) -> None:
    python, symbols = interpreters.use(name)
    with samples.rapids(python, "rwlock", tmp_path) as sample, cores.place(sample, python, target) as where:
        for read in check(where, symbols):
            assert "No" in read.values()


def test_cython_and_openmp(tmp_path: Path) -> None:
    with openmp.start_cython(tmp_path, stripped=False) as sample:
        (read, _) = check(["-p", str(sample.pid)])
        assert (read["libgomp.so.1"], read["libm.so.6"]) == ("Yes", "No")


def test_numpy(tmp_path: Path) -> None:
    python, _ = interpreters.use("3.11")
    with samples.boundaries(python, ["numpy_ufunc", "ctypes_callback"], tmp_path, packages.use("3.11")) as sample:
        read, searched = check(["-p", str(sample.pid)])
        # its table was searched, and the other libraries of numpy are not on a stack
        umath = "_multiarray_umath.cpython-311-x86_64-linux-gnu.so"
        assert (read[umath], searched[umath]) == ("Yes", "No")
        assert [state for library, state in read.items() if "openblas" in library] == ["No"]


@contextlib.contextmanager
def interactive(sample: Sample, directory: Path, *options: str) -> Iterator[Interactive]:
    with Interactive([*options, "-p", str(sample.pid)], home=directory, cwd=directory) as gdb:
        yield gdb


def test_backtrace_at_a_prompt_reads_libraries(tmp_path: Path) -> None:
    python, _ = interpreters.use("3.11")
    with samples.rapids(python, "rwlock", tmp_path) as sample:
        found = []
        for options in ((), OFF):
            with interactive(sample, tmp_path, *options) as gdb:
                # the second thread's libraries are read before the prompt after its selection
                commands = ("bt", "disable frame-filter global gdbext-python", "bt", "thread 2", "bt", "frame 1")
                found.append([gdb.command(command) for command in commands])
                libraries = {name: state for state, name in READ.findall(gdb.command("info sharedlibrary"))}
        assert found[0] == found[1]
        assert "libdrv.so" in found[1][2] or "drv.c" in found[1][2]
        assert (libraries["libdrv.so"], libraries["libc.so.6"]) == ("Yes", "Yes")
        assert "No" in libraries.values()


def test_frame_stays_selected_while_libraries_are_read(tmp_path: Path) -> None:
    python, _ = interpreters.use("3.11")
    with samples.rapids(python, "rwlock", tmp_path) as sample, interactive(sample, tmp_path, *OFF) as gdb:
        gdb.command("frame 2")
        before = gdb.command("frame")
        gdb.command("py-threads-locks --each")
        assert gdb.command("frame") == before


def test_setting_makes_gdb_read_all_libraries(tmp_path: Path) -> None:
    python, _ = interpreters.use("3.11")
    with samples.rapids(python, "rwlock", tmp_path) as sample:
        where = [*OFF, "-p", str(sample.pid)]
        session = gdb_session.batch(where, ["show gdbext load-symbols", "set gdbext load-symbols all", "gil-holder",
                                            "info sharedlibrary", "show gdbext load-symbols"], index=False)
        assert session.outputs[0] == 'The setting for libraries whose symbols are read is "on-stacks".'
        assert {state for state, _ in READ.findall(session.outputs[3])} == {"Yes"}
        assert session.outputs[4] == 'The setting for libraries whose symbols are read is "all".'
        session = gdb_session.batch(where[2:], ["show gdbext load-symbols", "set gdbext load-symbols some"])
        assert "(no effect: auto-solib-add is on)" in session.outputs[0]
        assert session.status != 0


def test_variable_of_an_unread_library(tmp_path: Path) -> None:
    python, _ = interpreters.use("3.11")
    with samples.rapids(python, "rwlock", tmp_path) as sample:
        commands = ["lock-owner &_PyRuntime", "lock-owner &no_such_lock", "info sharedlibrary"]
        whole, without = (gdb_session.batch([*options, "-p", str(sample.pid)], commands, index=False)
                          for options in ((), OFF))
    assert list(map(without_times, without.outputs[:2])) == list(map(without_times, whole.outputs[:2]))
    assert without.error_lines("lock-owner") == whole.error_lines("lock-owner")
    assert "no_such_lock" in whole.error_lines("lock-owner")[-1]
    assert "_PyRuntime is not an address" not in whole.stderr
