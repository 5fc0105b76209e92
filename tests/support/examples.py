"""Makes the output that the documents show, by the commands themselves.

A document contains a line ``<!-- example: PROGRAM COMMAND -->`` and below it an indented block: the command and its
output. COMMAND is

- a command of GDB, or several, separated by ``; ``. ``thread "NAME"`` selects the Python thread of that name;
- or a command line that begins with ``gdbext``, in which words in capitals stand for the program (PID, CORE, ADDRESS).

`` | FILTER`` after COMMAND leaves out lines: a shell command, such as ``head -5`` or ``sed '/^ *#/d'``. The block then
has a line ``...`` wherever lines are missing. The filter ``json`` lays out a document of JSON instead. ``json N`` shows
the first N elements of each list, and the beginnings of long strings; ``json N MEMBER...`` of these members of the
document only. ``...`` stands for the rest.

`scripts/examples` writes the blocks, and a test compares them.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support import clusters, cores, crashes, engines, gdb_session, interpreters, openmp, ranks, samples
from tests.support.interpreters import CHECKOUT
from tests.support.patience import patience

PYTHON = "3.11-stripped"
FREE_THREADED = "3.13t-stripped"
#: The width to which lines are folded in examples.
WIDTH = 116
#: The length of the strings that the filter ``json N`` shortens.
_LONG = 100
_MARK = re.compile(r"<!-- example: (?P<program>[a-z-]+) (?P<command>.+?)(?: \| (?P<filter>.+?))? -->\n")
_THREAD = re.compile(r'thread "([^"]+)"')
#: The line with the command line of a process, and its part after that.
_FIRST_LINE = re.compile(r"^gdbext: .*?\s(PID \d+ on .*?Z(,\s(?:not\s)?paused(?:\s[\d.]+\ss)?)?)$",
                         re.MULTILINE | re.DOTALL)
# frames have the same names on machines with and without the C library's debug information
_GDB = """#!/bin/sh
exec {gdb} -iex 'set debug-file-directory /nonexistent' "$@"
"""
#: Differences between two runs of the same program.
_VARYING = (
    # numbers of another length move the line breaks
    (re.compile(r"\s+"), " "),
    # the innermost frame has a name only where the C library's debug information is installed
    (re.compile(r"#0 +\S+ \(\) in libc\.so\.6( at \S+:\d+)?"), "#0 in libc"),
    (re.compile(r"0x[0-9a-f]{5,}"), "0x..."),
    (re.compile(r'"(pid|lwp|tid|time)": \d+'), r'"\1": N'),
    (re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ"), "TIME"),
    (re.compile(r'"(version|libc)": "[^"]+"'), r'"\1": "X"'),
    # threads that poll may be awake
    (re.compile(r"\bsleeps for 0\.0005 s\b"), "runs"),
    # the kernel decides which thread of a race dies, and the core numbers that one first
    (re.compile(r"\b([Tt]hreads?) \d+\b"), r"\1 N"),
    (re.compile(r'"module": "(lib)?python3[^"]*"'), '"module": "python"'),
    # the compiler's number of a local variable
    (re.compile(r"\block\.\d+ in locks\b"), "lock.N in locks"),
    (re.compile(r"\ball \d+ threads\b"), "all N threads"),
    # on a slow machine: a worker that hangs has not been heard from for ten seconds
    (re.compile(r"\bsilent for \d+ s, "), ""),
    # workers of Dask are sorted by their ports
    (re.compile(r"\bpartition-\d+\b"), "partition-N"),
    (re.compile(r"\b\d+-Dask-Default-Threads-\d+-\d+\b"), "Dask-Default-Threads"),
    # where the worker's event loop happened to need the GIL
    (re.compile(r'(?<="Dask-Default-Threads"), (at|in) .*?(?= How this is known)'), ""),
    (re.compile(r"(tcp://[0-9.]+):\d+"), r"\1:N"),
    (re.compile(r"\b(LWP|PID|TID|process|fd|socket|pipe):?\[?\]? ?\[?\d+"), r"\1 N"),
    # a thread has run in the last second, or not
    (re.compile(r", asleep for \d+ s\b"), ""),
    # there are other users, or none
    (re.compile(r" descriptors of .{1,40}? could not be read;"), ""),
    # ranks have waited for a second, or for less
    (re.compile(r" for \d+ s(?=; rank)"), ""),
    (re.compile(r"\b\d+(\.\d+)? s\b"), "N s"),
    # a thread that runs just then is stopped
    (re.compile(r", (?:not paused|paused N s)(?= |$)"), ", PAUSED"),
    (re.compile(r"CPython \d+\.\d+\.\d+"), "CPython X"),
)


@dataclass(frozen=True)
class Example:
    """A marker of a document."""

    program: str
    command: str
    filter: str = ""


@dataclass(frozen=True)
class Target:
    """What a program gives to inspect.

    `gdb_args` are GDB's arguments, `words` the meaning of words in a command line. `gdbext` runs a command line.
    `arguments` are those of a process.
    """

    directory: Path
    gdb_args: list[str | Path] = field(default_factory=list)
    words: Mapping[str, str] = field(default_factory=dict)
    gdbext: Callable[[Path, Sequence[str]], subprocess.CompletedProcess[str]] | None = None
    arguments: tuple[str, ...] = ()


# -- programs ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _live(started: contextlib.AbstractContextManager[samples.Sample]) -> Iterator[Target]:
    with started as sample:
        arguments = Path(f"/proc/{sample.pid}/cmdline").read_text().rstrip("\0").split("\0")
        yield Target(sample.directory, ["-p", str(sample.pid)], {"PID": str(sample.pid)}, arguments=(*arguments,))


def _python(sample: Callable[[Path, Path], contextlib.AbstractContextManager[samples.Sample]], name: str = PYTHON,
            ) -> Callable[[Path], contextlib.AbstractContextManager[Target]]:
    return lambda directory: _live(sample(interpreters.use(name)[0], directory))


def _rapids(python: Path, directory: Path) -> contextlib.AbstractContextManager[samples.Sample]:
    return samples.rapids(python, "rwlock", directory)


def _free_threaded(scene: str) -> Callable[[Path], contextlib.AbstractContextManager[Target]]:
    return _python(lambda python, directory: samples.free_threaded(python, scene, directory, stripped=True),
                   FREE_THREADED)


def _job(scene: str) -> Callable[[Path], contextlib.AbstractContextManager[Target]]:
    @contextlib.contextmanager
    def run(directory: Path) -> Iterator[Target]:
        with ranks.running(scene, directory) as job:
            yield Target(directory, [], {"PID": str(job.pid)})

    return run


def _engine(scene: str) -> Callable[[Path], contextlib.AbstractContextManager[Target]]:
    @contextlib.contextmanager
    def run(directory: Path) -> Iterator[Target]:
        with engines.running(scene, directory) as engine:
            names = {name.upper(): str(pid) for name, pid in engine.processes.items()}
            yield Target(directory, [], {"PID": str(engine.pid), **names})

    return run


def _crash(story: str, name: str) -> Callable[[Path], contextlib.AbstractContextManager[Target]]:
    @contextlib.contextmanager
    def start(directory: Path) -> Iterator[Target]:
        with crashes.crash(story, name, "kernel-core", directory, stripped=False) as crash:
            yield Target(directory, crash.gdb_args, {"CORE": str(crash.gdb_args[-1])})
    return start


@contextlib.contextmanager
def _cores(directory: Path) -> Iterator[Target]:
    """A folder with four cores of two machines: two of a deadlock, one of another deadlock, and one of a crash."""
    python, _ = interpreters.use(PYTHON)
    folder = directory / "cores"
    for machine in ("node1", "node2"):
        (folder / machine).mkdir(parents=True)
    hung = {"node1/core.412": functools.partial(_rapids, python), "node2/core.377": functools.partial(_rapids, python),
            "node1/core.530": functools.partial(samples.rapids, python, "mutex")}
    for number, (name, start) in enumerate(hung.items()):
        with start(directory / str(number)) as sample:
            cores.kernel_core(sample).rename(folder / name)
    with crashes.crash("handle", "3.11", "kernel-core", directory / "crash", stripped=False) as crash:
        os.link(crash.gdb_args[-1], folder / "node2" / "core.391")
        yield Target(directory)


@contextlib.contextmanager
def _dask(directory: Path) -> Iterator[Target]:
    with clusters.started(directory, variables={"GDBEXT_GDB": str(_gdb_without_symbols(directory))}) as cluster:
        yield Target(directory, gdbext=lambda _, arguments: clusters.snapshot_at_rest(cluster, *arguments[2:]))


#: Program -> what starts it.
PROGRAMS: dict[str, Callable[[Path], contextlib.AbstractContextManager[Target]]] = {
    "rapids": _python(_rapids),
    "twice": _python(lambda python, directory: samples.running([python, samples.SOURCES / "twice.py"], directory)),
    "readers": lambda directory: _live(samples.locks("locks", ["read-ambiguous"], directory)),
    "forked": lambda directory: _live(samples.owners(["fork", "left-mutex"], directory)),
    "cython-openmp": lambda directory: _live(openmp.start_cython(directory, stripped=True)),
    "freethreaded-section": _free_threaded("section-mutex"),
    "freethreaded-world": _free_threaded("guard-world"),
    "crash-race": _crash("race", "3.13t"),
    "crash-handle": _crash("handle", "3.11"),
    "ranks": _job("lock"),
    "engine-lock": _engine("lock"),
    "engine-lost": _engine("lost"),
    "cores": _cores,
    "dask": _dask,
}


# -- output --------------------------------------------------------------------------------------------------


def output(program: str, examples: Iterable[Example]) -> dict[Example, str]:
    """The block of each example of a program, without its indentation; skips the test if the program is missing."""
    with tempfile.TemporaryDirectory(prefix="gdbext-examples-") as folder:
        directory = Path(folder).resolve() / "example"
        directory.mkdir()
        with PROGRAMS[program](directory) as target:
            # several examples may filter the output of one command
            ran = {command: _run(command, target) for command in dict.fromkeys(each.command for each in examples)}
        return {each: _block(*ran[each.command], each.filter, target) for each in examples}


def _run(command: str, target: Target) -> tuple[str, str]:
    """The command, with its prompt, and its output."""
    if not command.startswith("gdbext "):
        commands = _THREAD.sub(lambda name: f"thread {_thread_number(name[1], target)}", command).split("; ")
        outputs = _in_gdb(commands, target)
        if len(commands) == 1:
            return f"(gdb) {commands[0]}", outputs[0]
        return "", "\n".join(f"(gdb) {command}\n{output}" for command, output in zip(commands, outputs))
    arguments = [target.words.get(word, word) for word in shlex.split(command)[1:]]
    ran = (target.gdbext or _gdbext)(target.directory, arguments)
    assert ran.returncode in (0, 1), ran.stderr
    return f"$ {command}", ran.stdout


def _in_gdb(commands: Sequence[str], target: Target) -> tuple[str, ...]:
    session = gdb_session.batch(target.gdb_args, [f"set width {WIDTH}", *commands], symbols=False)
    assert session.status == 0, session
    for index, command in enumerate(commands, 1):
        if "--json" in command:
            session.document(index)  # it is one of the schema
    return session.outputs[1:]


def _thread_number(name: str, target: Target) -> int:
    threads = json.loads(_in_gdb(["py-threads-locks --json --stacks=none"], target)[0])["threads"]
    (number,) = [thread["number"] for thread in threads if thread["python_name"] == name]
    return int(number)


def _gdbext(directory: Path, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gdbext", *arguments], cwd=directory, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, check=False, timeout=patience(120),
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), "GDBEXT_GDB": str(_gdb_without_symbols(directory))})


def _gdb_without_symbols(directory: Path) -> Path:
    """A GDB that finds no detached symbols."""
    path = directory / "gdb"
    path.write_text(_GDB.format(gdb=shlex.quote(shutil.which(gdb_session.executable()) or gdb_session.executable())))
    path.chmod(0o755)
    return path


def _block(prompt: str, text: str, filtered: str, target: Target) -> str:
    text = _plain(text, target).strip("\n")
    name, *options = filtered.split() or [""]
    if name == "json":
        document = folded(json.loads(text), *map(int, options[:1]))
        text = laid_out({**{name: document[name] for name in options[1:]}, ...: ...} if options[1:] else document)
    elif filtered:
        text = shortened(text, filtered)
    lines = [line for long in text.split("\n") for line in _wrapped(long.rstrip())]
    return "\n".join([prompt] * bool(prompt) + lines)


def _plain(text: str, target: Target) -> str:
    """The text without what belongs to this machine."""
    # gdbext shortens a command line, and paths have other lengths on other machines
    line = " ".join(os.path.basename(argument) for argument in target.arguments)
    text = _FIRST_LINE.sub(lambda found: f"gdbext: {line}  {' '.join(found[1].split())}", text)
    for path, name in ((target.directory, "/tmp/example"), (CHECKOUT, "/src/gdbext")):
        text = text.replace(str(path), name)
    # a compiled sample may come from the cache of another checkout
    text = re.sub(r"/\S+(?=/tests/samples/)", "/src/gdbext", text)
    text = re.sub(r"/[^\s\"]+/samples/[0-9a-f]{16}(?=/)", "/tmp/example", text)
    text = re.sub(r"/[^\s\"]+/bin(?=/python3)", "/usr/bin", text)
    return re.sub(rf'(?<= on |": "){re.escape(socket.gethostname())}(?=[,)"])', "node1", text)


def shortened(text: str, command: str) -> str:
    """The lines of a text that a shell command leaves, with a line ``...`` for the missing ones."""
    ran = subprocess.run(["sh", "-c", command], input=text + "\n", capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"{command}: nothing is left, or {ran.stderr}"
    lines, kept, at = text.split("\n"), [], 0
    for line in [*ran.stdout.splitlines(), None]:
        found = len(lines) if line is None else lines.index(line, at)  # a filter only leaves out lines
        missing = [other for other in lines[at:found] if other.strip()]
        if missing:
            kept.append(f"{re.match(' *', missing[0])[0]}...")  # type: ignore[index]
        kept += [] if line is None else [line]
        at = found + 1
    return "\n".join(kept)


def _wrapped(line: str) -> list[str]:
    """The lines of a long one, folded like those of GDB."""
    if len(line) <= WIDTH:
        return [line]
    begin = " " * (len(line) - len(line.lstrip()))
    return textwrap.wrap(line.lstrip(), WIDTH, initial_indent=begin, subsequent_indent=begin + " " * 4,
                         break_long_words=False, break_on_hyphens=False)


def folded(value: Any, count: int | None = None) -> Any:
    """A document with the first elements of each list and the beginnings of long strings.

    :param count: the number of elements; all, and whole strings, by default.
    """
    if isinstance(value, dict):
        return {name: folded(each, count) for name, each in value.items()}
    if isinstance(value, list):
        cut = count is not None and len(value) > count
        return [*(folded(each, count) for each in value[:count]), *([...] if cut else [])]
    return f"{value[:_LONG]}..." if count is not None and isinstance(value, str) and len(value) > _LONG else value


def laid_out(value: Any, column: int = 0) -> str:
    """JSON on lines of at most `WIDTH` characters, as far as they can be, filled; `...` stands for itself.

    :param column: the column at which the text begins.
    """
    if value is ...:
        return "..."
    if isinstance(value, dict):
        opening, closing = "{}"
        items = [("" if name is ... else f"{json.dumps(name)}: ", each) for name, each in value.items()]
    elif isinstance(value, list):
        opening, closing = "[]"
        items = [("", each) for each in value]
    else:
        return json.dumps(value)
    lines = [""]
    for index, (name, each) in enumerate(items):
        part = name + laid_out(each, column + 1 + len(name))
        comma = "," if index < len(items) - 1 else ""
        # what has several lines begins on a line of its own and ends one
        if lines[-1] and ("\n" in part + lines[-1] or column + 1 + len(f"{lines[-1]} {part}{comma}") > WIDTH):
            lines.append("")
        lines[-1] += f"{' ' * bool(lines[-1])}{part}{comma}"
    return opening + f"\n{' ' * (column + 1)}".join(lines) + closing


# -- documents -----------------------------------------------------------------------------------------------


def documents() -> list[Path]:
    """The documents that may have examples."""
    return sorted([CHECKOUT / "README.md", *(CHECKOUT / "docs").rglob("*.md")])


def examples_by_program() -> dict[str, list[Example]]:
    """The examples of all documents, each once."""
    found: dict[str, dict[Example, None]] = {}
    for path in documents():
        for example, _, _ in blocks(path.read_text(encoding="utf-8")):
            found.setdefault(example.program, {})[example] = None
    return {program: [*examples] for program, examples in found.items()}


def comparable(block: str) -> str:
    """A block without what differs between two runs, and without its line breaks."""
    for pattern, name in _VARYING:
        block = pattern.sub(name, block)
    return block.strip()


def blocks(text: str) -> Iterator[tuple[Example, int, int]]:
    """Example, begin and end of each block of a document; an empty one where none is there yet."""
    for match in _MARK.finditer(text):
        block = re.compile(r"(?:\n* {4}.*\n)*\n*").match(text, match.end())
        assert block is not None
        yield Example(match["program"], match["command"], match["filter"] or ""), match.end(), block.end()


def with_blocks(text: str, made: Mapping[Example, str]) -> str:
    """The document with new blocks; a block that differs only in what varies is left as it is."""
    parts, last = [], 0
    for example, begin, end in blocks(text):
        if example not in made:
            continue
        new = textwrap.indent(made[example], " " * 4) + "\n"
        same = comparable(text[begin:end]) == comparable(new)
        parts += [text[last:begin], text[begin:end] if same else f"\n{new}\n"]
        last = end
    return "".join(parts) + text[last:]
