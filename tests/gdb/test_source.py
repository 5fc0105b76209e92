"""Source lines: the marked part, the context, the search for files, and the settings."""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import cores, gdb_session, interpreters, samples
from tests.support.gdb_session import Interactive, Result, without_times
from tests.support.interpreters import CHECKOUT
from tests.support.samples import Sample

SGR = re.compile(r"\x1b\[[0-9;]*m")
BOLD = re.compile(r"\x1b\[1m(.*?)\x1b\[22m")
#: 3.9 records no columns.
VERSIONS = ("3.9", "3.11", "3.13")

PROGRAM = '''\
import json
import os
import sys
import threading
import time

import latin
from pkg import relative

lock = threading.Lock()
ready = []


def take(lock, size):
    ready.append(size)
    return lock.acquire() + size


def whole():
    ready.append(1)
    lock.acquire()


def in_the_middle():
    return "größe", take(lock, len("日本")), 1


def several_lines():
    return [1, take(
        lock,
        2)]


def places(frame):
    while frame is not None:
        code = frame.f_code
        positions = list(code.co_positions())[frame.f_lasti // 2] if hasattr(code, "co_positions") else None
        yield code.co_name, frame.f_lineno, positions
        frame = frame.f_back


def seen():
    frames = sys._current_frames()
    return {name: list(places(frames.get(thread.ident))) for name, thread in threads.items()}


lock.acquire()
functions = whole, in_the_middle, several_lines
threads = {function.__name__: threading.Thread(target=function, daemon=True) for function in functions}
threads["latin"] = threading.Thread(target=latin.hang, args=(lock, ready), daemon=True)
threads["relative"] = threading.Thread(target=relative.hang, args=(lock, ready), daemon=True)
for thread in threads.values():
    thread.start()
while len(ready) < len(threads):
    time.sleep(0.001)
still = 0
while still < 100:
    before = seen()
    time.sleep(0.001)
    still = still + 1 if seen() == before else 0
with open("places.json", "w") as file:
    json.dump(before, file)
truth = {name: {"tid": thread.native_id, "python_name": thread.name, "blocked": True, "syscall": "futex", "stack": []}
         for name, thread in threads.items()}
truth["main"] = {"tid": os.getpid(), "python_name": "MainThread", "blocked": True, "syscall": "futex", "stack": []}
print(json.dumps({"sample": "source", "variant": "", "pid": os.getpid(), "threads": truth, "locks": {},
                  "deadlock": [], "stuck_behind": []}), flush=True)
lock.acquire()
'''
LINE = PROGRAM.splitlines().index("def in_the_middle():") + 2
END = len(PROGRAM.splitlines())
LATIN = '''\
# -*- coding: latin-1 -*-
def hang(lock, ready):
    ready.append(1)
    return "größe", lock.acquire(), "ß"
'''
#: Its functions have a relative file name.
RELATIVE = '''\
import os.path

path = os.path.join(os.path.dirname(__file__), "given.py")
with open(path, encoding="utf-8") as file:
    exec(compile(file.read(), "pkg/given.py", "exec"))
'''
GIVEN = '''\
def hang(lock, ready):
    ready.append(1)
    x = lock.acquire()
'''


@dataclass(frozen=True)
class Program:
    """A hung program, and the places of its threads according to CPython."""

    version: str
    sample: Sample
    symbols: bool

    @property
    def folder(self) -> Path:
        """The folder with its files."""
        return self.sample.directory

    @property
    def has_columns(self) -> bool:
        """Whether the interpreter's line tables have columns."""
        return self.version != "3.9"

    def run(self, *commands: str) -> Result:
        """Run a session on the program, in another folder."""
        return gdb_session.batch(["-p", str(self.sample.pid)], commands, symbols=self.symbols)

    def places(self) -> dict[str, list[Any]]:
        """The function, line and ``co_positions`` of each frame, innermost first, by role."""
        found: dict[str, list[Any]] = json.loads((self.folder / "places.json").read_text())
        return found

    def shown(self, text: str, function: str) -> list[str]:
        """The lines below the only frame of a function, without their common indentation."""
        lines = text.splitlines()
        (at,) = [index for index, line in enumerate(lines) if re.match(rf" *#\d+ +{re.escape(function)} at ", line)]
        below = []
        for line in lines[at + 1:]:
            if not line.startswith(" " * 11) or re.match(r" *(#|\.\.\.)", line):
                break
            below.append(line[11:])
        return below


@pytest.fixture(scope="module", params=VERSIONS)
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    python, symbols = interpreters.use(request.param)
    folder = tmp_path_factory.mktemp("source")
    (folder / "pkg").mkdir()
    (folder / "job.py").write_text(PROGRAM, "utf-8")
    (folder / "latin.py").write_text(LATIN, "latin-1")
    (folder / "pkg" / "__init__.py").touch()
    (folder / "pkg" / "relative.py").write_text(RELATIVE, "utf-8")
    (folder / "pkg" / "given.py").write_text(GIVEN, "utf-8")
    with samples.running([python, folder / "job.py"], folder, variables={"LC_ALL": "C.UTF-8"}) as sample:
        yield Program(request.param, sample, symbols)


def carets(program: Program, *lines: str) -> list[str]:
    """A source line, with the line that marks a part of it if columns are recorded."""
    return [*lines] if program.has_columns else [line for line in lines if set(line) != {" ", "^"}]


# -- columns --------------------------------------------------------------------------------------------------

def test_columns_match_cpython(program: Program) -> None:
    document = program.run("py-threads-locks --json").document()
    stacks = {thread["lwp"]: thread["stack"] for thread in document["threads"]}
    frames = 0
    for role, places in program.places().items():
        stack = stacks[program.sample.truth.threads[role].tid]
        found = [(frame["function"], frame["line"], frame["columns"]) for frame in stack
                 if frame["language"] == "python"]
        expected = [(name, line, [positions[2], positions[3], positions[1]] if positions else None)
                    for name, line, positions in places]
        assert found == expected, role
        assert (found[0][2] is not None) == program.has_columns
        frames += len(found)
    assert frames > 15
    assert not [frame for stack in stacks.values() for frame in stack
                if frame["language"] == "native" and "columns" in frame]


def test_running_part_is_underlined(program: Program) -> None:
    session = program.run("py-threads-locks --each")
    assert session.status == 0
    text = session.outputs[0]
    assert program.shown(text, "whole") == ["lock.acquire()"]
    assert program.shown(text, "in_the_middle") == carets(
        program, 'return "größe", take(lock, len("日本")), 1', "                ^^^^^^^^^^^^^^^^^^^^^^^")
    assert program.shown(text, "several_lines") == carets(program, "return [1, take(", "           ^^^^^")
    assert program.shown(text, "<module>") == ["lock.acquire()"]
    # the file is in latin-1, but columns count UTF-8 bytes
    (latin,) = [line for line in text.splitlines() if f"{program.folder}/latin.py:4" in line]
    following = text.partition(latin)[2].splitlines()[1:3]
    assert following[0].strip() == 'return "größe", lock.acquire(), "ß"'
    assert ("^" in following[1]) == program.has_columns
    if program.has_columns:
        assert following[1] == " " * (following[0].index("lock")) + "^" * len("lock.acquire()")


def test_colour(program: Program) -> None:
    session = program.run("py-threads-locks --each", "set gdbext colour on", "py-threads-locks --each",
                          "set gdbext colour off", "py-threads-locks --each")
    plain, coloured, again = (without_times(session.outputs[index]) for index in (0, 2, 4))
    assert plain == again
    assert "\x1b" not in plain
    notice = r"\ANote: pygments cannot be imported by GDB's Python .*\n"
    assert SGR.sub("", re.sub(notice, "", coloured)) == plain
    bold = SGR.sub("", "".join(match.group() for match in BOLD.finditer(
        next(line for line in coloured.splitlines() if "日本" in line))))
    assert bold == ('take(lock, len("日本"))' if program.has_columns else "")


def test_context_lines(program: Program) -> None:
    session = program.run("set gdbext context-lines 4", "py-threads-locks --each")
    assert program.shown(session.outputs[1], "in_the_middle") == carets(
        program,
        f"   {LINE - 4}      lock.acquire()",
        f"   {LINE - 3}",
        f"   {LINE - 2}",
        f"   {LINE - 1}  def in_the_middle():",
        f'-> {LINE}      return "größe", take(lock, len("日本")), 1',
        "                           ^^^^^^^^^^^^^^^^^^^^^^^",
        f"   {LINE + 1}",
        f"   {LINE + 2}",
        f"   {LINE + 3}  def several_lines():",
        f"   {LINE + 4}      return [1, take(")
    # the outermost frame is at the end of its file
    assert program.shown(session.outputs[1], "<module>")[-1] == f"-> {END}  lock.acquire()"


# -- files ----------------------------------------------------------------------------------------------------

def notes(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("Note: ") and ("newer" in line or "source" in line)]


def no_source(count: str, example: Path | str) -> str:
    return f"Note: no source for {count}, such as {example}; `help set gdbext source-path` shows where gdbext searches"


def test_relative_names_are_searched_only_in_the_source_path(program: Program) -> None:
    # GDB's working directory does not matter
    session = gdb_session.batch(["-p", str(program.sample.pid)],
                                ["py-threads-locks", f"set gdbext source-path {program.folder}", "py-threads-locks"],
                                symbols=program.symbols, directory=program.folder)
    assert notes(session.outputs[0]) == [no_source("1 file", "pkg/given.py")]
    assert "x = lock.acquire()" not in session.outputs[0]
    assert notes(session.outputs[2]) == []
    assert "x = lock.acquire()" in session.outputs[2]


def test_moved_files_are_found_by_substitution(program: Program, tmp_path: Path) -> None:
    moved = tmp_path / "checkout" / program.folder.name / "job.py"
    moved.parent.mkdir(parents=True)
    source = program.folder / "job.py"
    source.rename(moved)
    try:
        session = program.run(
            "py-threads-locks", f"set gdbext source-path /usr:{tmp_path / 'checkout'}", "py-threads-locks",
            "set gdbext source-path", "py-threads-locks")
    finally:
        moved.rename(source)
    for index in (0, 4):
        assert notes(session.outputs[index]) == [no_source("2 files", f"{program.folder}/job.py")]
        assert session.outputs[index].count("no source for") == 1
        assert "take(lock" not in session.outputs[index]
    assert notes(session.outputs[2]) == [no_source("1 file", "pkg/given.py")]
    assert "take(lock" in session.outputs[2]


def test_source_path_as_the_only_place(program: Program, tmp_path: Path) -> None:
    session = program.run("set gdbext source path", "py-threads-locks", f"set gdbext source-path {program.folder}",
                          "py-threads-locks", "thread apply all bt", "set gdbext source any", "thread apply all bt")
    nothing, own, own_backtraces, backtraces = (session.outputs[index] for index in (1, 3, 4, 6))
    assert not re.search(r"^ {11}\S", re.sub(r"^ +(#|\.\.\.).*", "", nothing, flags=re.MULTILINE), re.MULTILINE)
    (note,) = notes(nothing)
    assert re.match(r"Note: no source for 3 files, such as /", note)
    assert "take(lock" in own
    # threading.py is not in the path
    assert "self._bootstrap_inner()" not in own_backtraces
    assert "self._bootstrap_inner()" in backtraces


def test_file_newer_than_the_process(program: Program) -> None:
    path = program.folder / "job.py"
    before = path.stat()
    note = f"Note: {path} is newer than the process: its lines may differ from the running code"
    assert note not in program.run("py-threads-locks").outputs[0]
    os.utime(path, (time.time(), time.time()))
    try:
        session = program.run("py-threads-locks --each", "py-threads-locks --json")
    finally:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert notes(session.outputs[0])[0] == note
    assert session.outputs[0].count("newer than") == 1
    assert "take(lock" in session.outputs[0]
    # the note is only in the text
    assert "newer" not in session.outputs[1]


def test_file_newer_than_the_core(program: Program) -> None:
    path = program.folder / "job.py"
    core = cores.gdb_core(program.sample)
    before = path.stat()
    try:
        sessions = [gdb_session.batch([program.sample.executable, core], ["py-threads-locks"], symbols=program.symbols)]
        os.utime(path, (time.time() + 10, time.time() + 10))
        sessions += [gdb_session.batch([program.sample.executable, core], ["py-threads-locks"],
                                       symbols=program.symbols)]
    finally:
        core.unlink()
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    for session in sessions:
        assert "take(lock" in session.outputs[0]
    assert [note for note in notes(sessions[0].outputs[0]) if "newer" in note] == []
    assert notes(sessions[1].outputs[0])[0] == (
        f"Note: {path} is newer than the core: its lines may differ from the running code")


# -- settings -------------------------------------------------------------------------------------------------

SHOWN = {
    "source-path": "No folders are searched for source files.",
    "source": "Source files may be read wherever frames name them.",
    "context-lines": "The number of lines shown before and after a source line is 0.",
    "colour": 'Colour of reports is "auto" (currently off).',
    "locals-depth": "The number of levels of containers shown in a variable's value is 2.",
    "locals-items": "The number of items shown of each container in a variable's value is 10.",
    "locals-width": "The number of characters shown of a variable's value is 80.",
    "load-symbols": 'The setting for libraries whose symbols are read is "on-stacks" '
                    "(no effect: auto-solib-add is on).",
    "verdict-in-editors": 'Whether an editor shows the verdict when it attaches is "on".',
    "object-names": "An object that has a lock is named by one of its values.",
    "max-pause": "The number of seconds for which a command reads a live process is 10.",
}
GOOD = {
    "source-path": (f"{CHECKOUT}/gdbext:/:{CHECKOUT}/gdbext/",
                    f'The folders that are searched first for source files are "{CHECKOUT}/gdbext:/".'),
    "source": ("path", "Source files may only be read in the folders of `show gdbext source-path`."),
    "context-lines": ("20", "The number of lines shown before and after a source line is 20."),
    "colour": ("on", 'Colour of reports is "on".'),
    "locals-depth": ("0", "The number of levels of containers shown in a variable's value is 0."),
    "locals-items": ("1", "The number of items shown of each container in a variable's value is 1."),
    "locals-width": ("10000", "The number of characters shown of a variable's value is 10000."),
    "load-symbols": ("all", 'The setting for libraries whose symbols are read is "all" '
                     "(no effect: auto-solib-add is on)."),
    "verdict-in-editors": ("off", 'Whether an editor shows the verdict when it attaches is "off".'),
    "object-names": ("off", "An object that has a lock is not named by its values."),
    "max-pause": ("60", "The number of seconds for which a command reads a live process is 60."),
}
BAD = {
    "source-path": ("/:/nonexistent", "gdbext source-path: /nonexistent is not a folder; the path stays "
                    f'"{CHECKOUT}/gdbext:/"'),
    "source": ("nowhere", 'Undefined item: "nowhere".'),
    "context-lines": ("21", "gdbext context-lines must be from 0 to 20, not 21; it stays 20"),
    "colour": ("purple", 'Undefined item: "purple".'),
    "locals-depth": ("-1", "gdbext locals-depth must be from 0 to 10, not -1; it stays 0"),
    "locals-items": ("0", "gdbext locals-items must be from 1 to 1000, not 0; it stays 1"),
    "locals-width": ("9", "gdbext locals-width must be from 10 to 10000, not 9; it stays 10000"),
    "load-symbols": ("none", 'Undefined item: "none".'),
    "verdict-in-editors": ("maybe", 'Undefined item: "maybe".'),
    "object-names": ("some", 'Undefined item: "some".'),
    "max-pause": ("0", "gdbext max-pause must be from 1 to 3600, not 0; it stays 60"),
}


def test_default_settings() -> None:
    session = gdb_session.batch([], ["show gdbext", *(f"show gdbext {name}" for name in SHOWN)])
    assert session.outputs[0].splitlines() == [f"{name}:  {text}" for name, text in SHOWN.items()]
    assert session.outputs[1:] == tuple(SHOWN.values())
    assert session.status == 0
    assert session.stderr == ""


def test_settings_are_set_shown_and_kept() -> None:
    load = f"source {CHECKOUT / 'gdbext' / 'gdbext'}"
    commands = [f"set gdbext {name} {value}" for name, (value, _) in GOOD.items()]
    commands += ["show gdbext", load, "show gdbext"]
    commands += [f"set gdbext {name} {value}" for name, (value, _) in BAD.items()]
    session = gdb_session.batch([], [*commands, "show gdbext"])
    expected = [f"{name}:  {text}" for name, (_, text) in GOOD.items()]
    # neither loading gdbext again nor refused values change them
    for index in (len(GOOD), len(GOOD) + 2, -1):
        assert session.outputs[index].splitlines() == expected
    assert session.stderr.splitlines() == [message for _, message in BAD.values()]
    assert set(session.outputs[:len(GOOD)]) == {""}


@pytest.mark.parametrize("command", [f"set gdbext {name} {value}" for name, (value, _) in BAD.items()]
                         + ["set gdbext nonsense 1", "show gdbext nonsense", "set gdbext context-lines",
                            "set gdbext context-lines many"])
def test_bad_value_fails_with_one_line(command: str) -> None:
    session = gdb_session.batch([], [command])
    assert session.status != 0
    assert len(session.stderr.splitlines()) == 1
    assert "Traceback" not in session.stderr
    assert session.outputs == ("",)


def test_source_path_can_be_emptied_and_be_relative(tmp_path: Path) -> None:
    (tmp_path / "home" / "src").mkdir(parents=True)
    session = gdb_session.batch([], [f"set gdbext source-path home::{tmp_path}/home/src/..", "show gdbext source-path",
                                     "set gdbext source-path", "show gdbext source-path",
                                     "set gdbext source-path ~", "show gdbext source-path"], directory=tmp_path)
    assert session.outputs[1] == f'The folders that are searched first for source files are "{tmp_path}/home".'
    assert session.outputs[3] == SHOWN["source-path"]
    assert re.search(r'source files are "/.*gdbext-home-\w+"\.', session.outputs[5])


def test_help_has_every_setting() -> None:
    session = gdb_session.batch([], ["help set gdbext", "help show gdbext", "set gdbext"]
                                + [f"help set gdbext {name}" for name in SHOWN])
    for name in SHOWN:
        assert f"set gdbext {name} -- Set " in session.outputs[0]
        assert f"show gdbext {name} -- Show " in session.outputs[1]
    assert session.outputs[2] == session.outputs[0]
    for name, text in zip(SHOWN, session.outputs[3:]):
        assert len(text.splitlines()) >= 2, name
        assert "not documented" not in text
        assert max(map(len, text.splitlines())) <= 90
    assert "0 to 20" in session.outputs[3 + list(SHOWN).index("context-lines")]


def test_reference_lists_every_setting() -> None:
    usage = (CHECKOUT / "docs" / "reference.md").read_text("utf-8")
    listed = re.findall(r"^\| `set gdbext ([a-z-]+) ", usage, re.MULTILINE)
    assert listed == list(SHOWN)


def test_settings_at_a_terminal(tmp_path: Path, program: Program) -> None:
    with Interactive(["-p", str(program.sample.pid)], home=tmp_path, cwd=tmp_path) as gdb:
        assert "\x1b[1m" not in gdb.command("py-threads-locks")
        gdb.command("python import os; os.environ['TERM'] = 'xterm'")
        assert "currently off" in gdb.command("show gdbext colour")  # the session switches GDB's styles off
        gdb.command("python os.environ['FORCE_COLOR'] = '1'")
        assert "currently on" in gdb.command("show gdbext colour")
        assert "\x1b[1;36mThread 1 (LWP" in gdb.command("py-threads-locks")
        gdb.command("python del os.environ['FORCE_COLOR']")
        gdb.command("set style enabled on")
        assert "currently on" in SGR.sub("", gdb.command("show gdbext colour"))
        coloured = gdb.command("py-threads-locks")
        assert "\x1b[1;36mThread 1 (LWP" in coloured
        assert (BOLD.search(coloured) is not None) == program.has_columns
        gdb.command("python os.environ['NO_COLOR'] = '1'")
        assert "currently off" in SGR.sub("", gdb.command("show gdbext colour"))
        assert "\x1b[1;36mThread" not in gdb.command("py-threads-locks")
        gdb.command("set gdbext colour on")
        assert "\x1b[1;36mThread 1 (LWP" in gdb.command("py-threads-locks")
        gdb.command("set gdbext colour off")
        gdb.command("set gdbext context-lines 1")
        text = gdb.command("py-threads-locks")
        assert "\x1b[1;36mThread" not in text
        assert f"-> {LINE}  " in text
        gdb.command("set gdbext context-lines 99")
        assert "is 1." in gdb.command("show gdbext context-lines")
        for typed, completed in (("set gdbext con", "set gdbext context-lines"), ("set gdbext colour a",
                                                                                 "set gdbext colour auto")):
            assert gdb.command(f"complete {typed}").splitlines() == [completed]
    assert not program.sample.is_stopped()


# -- files that the target's user may not read ----------------------------------------------------------------

#: Drops root's rights, and then runs a line of code under the file name in its arguments.
HOSTILE = """
import json, os, sys, threading
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
lock = threading.Lock()
lock.acquire()
print(json.dumps({"sample": "hostile", "variant": "", "pid": os.getpid(), "locks": {}, "deadlock": [],
                  "stuck_behind": [], "threads": {"main": {"tid": os.getpid(), "python_name": "MainThread",
                                                           "blocked": True, "syscall": "futex", "stack": []}}}),
      flush=True)
exec(compile("lock.acquire()", sys.argv[1], "exec"))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may read what the process may not")
@pytest.mark.parametrize("prefix", ["", "/proc/self/root"])
@pytest.mark.parametrize("kind", ["process", "core"])
def test_process_of_another_user_cannot_show_files_of_root(kind: str, prefix: str, tmp_path: Path) -> None:
    python, _ = interpreters.use(interpreters.ANY)
    (tmp_path / "hostile.py").write_text(HOSTILE)
    with tempfile.TemporaryDirectory(prefix="gdbext-hostile-") as folder:
        os.chmod(folder, 0o755)
        secret = Path(folder, "secret")
        secret.write_text("root:x:1\n")
        secret.chmod(0o600)
        Path(folder, "s.py").symlink_to(secret)
        with samples.running([python, tmp_path / "hostile.py", f"{prefix}{folder}/s.py"], tmp_path) as sample:
            target: list[str | Path] = ["-p", str(sample.pid)]
            if kind == "core":
                target = [python, cores.gdb_core(sample)]
            hidden = gdb_session.batch(target, ["py-threads-locks", "bt"])
            secret.chmod(0o644)
            shown = gdb_session.batch(target, ["py-threads-locks", "bt"])
    for output in hidden.outputs:
        assert f"{prefix}{folder}/s.py:1" in output
        assert "root:x" not in output
    assert "no source for" in hidden.outputs[0]
    if not prefix:  # newer kernels can be asked not to follow the links of /proc
        for output in shown.outputs:
            assert "root:x:1" in output
