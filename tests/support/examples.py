"""Makes the output that the documents show, from the samples themselves.

A document contains a line ``<!-- example: PROGRAM COMMAND -->`` and below it an indented block. The block is the output
of that command on that program. `scripts/examples` writes the blocks, and a test compares them.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support import crashes, gdb_session, interpreters, openmp, samples
from tests.support.interpreters import CHECKOUT

PYTHON = "3.11-stripped"
FREE_THREADED = "3.13t-stripped"
#: The width to which GDB folds lines in examples.
WIDTH = 116
_MARK = re.compile(r"<!-- example: (?P<program>[a-z-]+) (?P<command>[^>]+?) -->\n")
#: Differences between two runs of the same program.
_VARYING = (
    # the innermost frame has a name only where the C library's debug information is installed
    (re.compile(r"#0 +\S+ \(\) in libc\.so\.6( at \S+:\d+)?"), "#0 in libc"),
    (re.compile(r"0x[0-9a-f]{5,}"), "0x..."),
    # the kernel decides which thread of a race dies, and the core numbers that one first
    (re.compile(r"\b([Tt]hreads?) \d+\b"), r"\1 N"),
    (re.compile(r"\b(LWP|PID|process|fd|socket|pipe):?\[?\]? ?\[?\d+"), r"\1 N"),
    (re.compile(r"\b\d+(\.\d+)? s\b"), "N s"),
    (re.compile(r"CPython \d+\.\d+\.\d+"), "CPython X"),
    (re.compile(r"\s+"), " "),
)


@dataclass(frozen=True)
class Target:
    """What a program gives to inspect: arguments for GDB, and the one for `gdbext report`."""

    gdb_args: list[str | Path]
    report: str
    directory: Path


@contextlib.contextmanager
def _sample(started: contextlib.AbstractContextManager[samples.Sample]) -> Iterator[Target]:
    with started as sample:
        yield Target(["-p", str(sample.pid)], str(sample.pid), sample.directory)


def _rapids(directory: Path) -> contextlib.AbstractContextManager[Target]:
    python, _ = interpreters.use(PYTHON)
    return _sample(samples.rapids(python, "rwlock", directory))


def _cython_openmp(directory: Path) -> contextlib.AbstractContextManager[Target]:
    return _sample(openmp.start_cython(directory, stripped=True))


def _free_threaded(scene: str) -> Callable[[Path], contextlib.AbstractContextManager[Target]]:
    def start(directory: Path) -> contextlib.AbstractContextManager[Target]:
        python, _ = interpreters.use(FREE_THREADED)
        return _sample(samples.free_threaded(python, scene, directory, stripped=True))
    return start


def _crash(story: str, name: str) -> Callable[[Path], contextlib.AbstractContextManager[Target]]:
    @contextlib.contextmanager
    def start(directory: Path) -> Iterator[Target]:
        with crashes.crash(story, name, "kernel-core", directory, stripped=False) as crash:
            yield Target(crash.gdb_args, str(crash.gdb_args[-1]), directory)
    return start


#: Program -> what starts it.
PROGRAMS: dict[str, Callable[[Path], contextlib.AbstractContextManager[Target]]] = {
    "rapids": _rapids,
    "cython-openmp": _cython_openmp,
    "freethreaded-section": _free_threaded("section-mutex"),
    "freethreaded-world": _free_threaded("guard-world"),
    "crash-race": _crash("race", "3.13t"),
    "crash-handle": _crash("handle", "3.11"),
}


def documents() -> dict[Path, list[tuple[str, str]]]:
    """The documents with examples: (program, command) in the order of each document."""
    found = {}
    for path in sorted([CHECKOUT / "README.md", *(CHECKOUT / "docs").rglob("*.md")]):
        examples = [(match["program"], match["command"]) for match in _MARK.finditer(path.read_text(encoding="utf-8"))]
        if examples:
            found[path] = examples
    return found


def output(program: str, commands: list[str]) -> list[str]:
    """The output of each command, as the documents show it, with the prompt in the first line.

    A command that begins with ``report`` is one of the command line, any other is one of GDB.
    """
    with tempfile.TemporaryDirectory(prefix="gdbext-examples-") as folder:
        directory = Path(folder).resolve() / "example"
        with PROGRAMS[program](directory) as target:
            in_gdb = [command for command in commands if not command.startswith("report")]
            session = gdb_session.batch(target.gdb_args, [f"set width {WIDTH}", *in_gdb], symbols=False)
            assert session.status == 0, session
            made = dict(zip(in_gdb, session.outputs[1:]))
            texts = [f"(gdb) {command}\n{made[command]}" if command in made else _report(command, target)
                     for command in commands]
        return [_plain(text, directory) for text in texts]


def _report(command: str, target: Target) -> str:
    ran = subprocess.run([sys.executable, "-m", "gdbext", "report", target.report, *command.split()[1:]],
                         cwd=target.directory, env={**os.environ, "PYTHONPATH": str(CHECKOUT)}, capture_output=True,
                         text=True, check=False, timeout=120)
    assert ran.returncode in (0, 1), ran.stderr
    return f"$ gdbext report {'PID' if target.report.isdigit() else 'CORE'}\n{ran.stdout}"


def _plain(text: str, directory: Path) -> str:
    """The text without what belongs to this machine."""
    for path, name in ((directory, "/tmp/example"), (CHECKOUT, "/src/gdbext")):
        text = text.replace(str(path), name)
    # a compiled sample may come from the cache of another checkout
    text = re.sub(r"/\S+(?=/tests/samples/)", "/src/gdbext", text)
    return "\n".join(line.rstrip() for line in text.strip("\n").split("\n"))


def comparable(block: str) -> str:
    """A block without what differs between two runs, and without its line breaks."""
    for pattern, name in _VARYING:
        block = pattern.sub(name, block)
    return block.strip()


def blocks(text: str) -> Iterator[tuple[str, str, int, int]]:
    """Program, command, begin and end of each block of a document; an empty one where none is there yet."""
    for match in _MARK.finditer(text):
        block = re.compile(r"\n*((?: {4}.*\n|\n(?= {4}))*)").match(text, match.end())
        assert block is not None
        yield match["program"], match["command"], match.end(), block.end()


def with_blocks(text: str, made: dict[tuple[str, str], str]) -> str:
    """The document with new blocks; a block that differs only in what varies is left as it is."""
    parts, last = [], 0
    for program, command, begin, end in blocks(text):
        new = "".join(f"    {line}\n" if line else "\n" for line in made[program, command].split("\n"))
        same = comparable(text[begin:end]) == comparable(new)
        parts += [text[last:begin], text[begin:end] if same else f"\n{new}\n"]
        last = end
    return "".join(parts) + text[last:]
