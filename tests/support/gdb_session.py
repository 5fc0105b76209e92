"""Runs GDB for tests, in batch mode and interactively, always in the same environment.

GDBEXT_GDB chooses the GDB. It reads an init file only from a home that a test provides, asks no server for
symbols, does not fold lines and gets few of the tests' environment variables.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import pexpect
from jsonschema import Draft202012Validator

from tests.support.interpreters import CHECKOUT
from tests.support.patience import patience

LOAD = f"source {CHECKOUT / 'gdbext' / 'gdbext'}"
SCHEMA = CHECKOUT / "docs" / "gdbext-1.schema.json"
# not GDB's own prompt, which occurs in the examples of a help text
PROMPT = "(gdb-under-test) "
TIMEOUT = patience(120)

_TIMES = re.compile(r'\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ|(?<=paused )[\d.]+(?= s)|(?<="time": )\d+|(?<="paused": )[\d.]+')

_SETTINGS = (
    "set debuginfod enabled off",
    "set width 0",
    "set height 0",
    "set confirm off",
    "set style enabled off",
)
_NO_SYMBOLS = "set debug-file-directory /nonexistent"
_INDEX = Path(os.environ.get("GDBEXT_CACHE") or Path.home() / ".cache" / "gdbext") / "index"
#: Options by which GDB caches its index of debug information, which saves a quarter of a session's time.
INDEX = ("-iex", f"python gdb.execute('set index-cache directory {_INDEX}'); gdb.execute('set index-cache ' + "
                 "('on' if int(gdb.VERSION.split('.')[0]) < 12 else 'enabled on'))")
_MARK = "---- command {} ----"
_FAILED_STAGE = "left out because of a bug in gdbext"
# text that GDB appends to the output of the last command when it ends
_DETACHED = re.compile(r"\[Inferior \d+ \(process \d+\) detached\]\n?\Z")
_KEPT = ("PATH", "LD_LIBRARY_PATH", "TMPDIR", "COVERAGE_PROCESS_START")


def timeless(document: dict[str, Any] | None) -> dict[str, Any]:
    """A document without the time at which it was made, and how long the process was paused."""
    assert document is not None
    return {**document, "target": {**document["target"], "time": None, "paused": None}}


def without_times(text: str) -> str:
    """A report without the time at which it was made, and how long the process was paused."""
    return _TIMES.sub("...", text)


@dataclass(frozen=True)
class Result:
    """A finished batch session. `outputs` has the standard output of each command."""

    argv: tuple[str, ...]
    commands: tuple[str, ...]
    stdout: str
    stderr: str
    status: int | None
    outputs: tuple[str, ...] = field(repr=False)

    @property
    def timed_out(self) -> bool:
        """Whether the session was killed after its timeout."""
        return self.status is None

    def document(self, index: int = 0) -> dict[str, Any]:
        """The JSON document that is a command's whole output; a document of gdbext is checked by its schema."""
        try:
            document: dict[str, Any] = json.loads(self.outputs[index])
        except (ValueError, IndexError) as error:
            raise AssertionError(f"{self.commands[index]}: no JSON document ({error})\n{self}") from error
        if "--json" in self.commands[index].split():
            found = _violations_in(self.outputs[index])
            assert not found, "\n".join([f"{self.commands[index]}: violates {SCHEMA.name}", *found])
        return document

    def error_lines(self, command: str) -> list[str]:
        """The error messages of a command on standard error."""
        return [line for line in self.stderr.splitlines() if line.startswith(f"{command}: ")]

    def __str__(self) -> str:
        """The session as in a terminal, for the message of a failing test."""
        status = "timed out" if self.timed_out else f"status {self.status}"
        return f"$ {' '.join(self.argv)}\n{self.stdout}\n-- stderr --\n{self.stderr}\n-- {status} --"


@functools.cache
def validator() -> Draft202012Validator:
    """The validator of documents, created once; inlined references halve its time."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    definitions = schema.pop("$defs")

    def resolved(part: Any) -> Any:
        if isinstance(part, list):
            return [resolved(item) for item in part]
        if not isinstance(part, dict):
            return part
        own = {name: resolved(value) for name, value in part.items() if name != "$ref"}
        if "$ref" in part:
            referred = resolved(definitions[part["$ref"].rpartition("/")[2]])
            assert not own.keys() & referred.keys(), f"both {part} and what it refers to say it"
            own.update(referred)
        return own

    return Draft202012Validator(resolved(schema))


def violations(document: Any) -> list[str]:
    """The violations of the schema in a document of gdbext, one line each."""
    return [f"{error.json_path}: {error.message[:200]}" for error in validator().iter_errors(document)]


@functools.lru_cache(maxsize=16)
def _violations_in(text: str) -> list[str]:
    # tests request the same document of a session repeatedly
    return violations(json.loads(text))


def check_stages(output: str) -> None:
    """Fail if a stage of a snapshot failed, which its report shows as a problem."""
    assert _FAILED_STAGE not in output, output


# the sessions of the current test, for the message of a failure; cleared by conftest.py
recent: list[Result] = []


def executable() -> str:
    """The GDB under test."""
    return os.environ.get("GDBEXT_GDB", "gdb")


def environment(home: Path) -> dict[str, str]:
    """The environment of GDB."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {**kept, "HOME": str(home), "LANG": "C.UTF-8", "TERM": "dumb"}


def settings(*, symbols: bool = True) -> list[str]:
    """Options that must take effect before GDB loads any file."""
    commands = [*_SETTINGS] if symbols else [*_SETTINGS, _NO_SYMBOLS]
    return [part for command in commands for part in ("-iex", command)]


def batch(
    gdb_args: Sequence[str | Path],
    commands: Sequence[str],
    *,
    symbols: bool = True,
    load: bool = True,
    timeout: float = TIMEOUT,
    directory: Path | None = None,
    gdb: Sequence[str | Path] = (),
    index: bool = True,
    max_pause: int | None = None,
) -> Result:
    """Run commands in a new GDB.

    The exit status is GDB's, which is that of the last command.

    :param gdb_args: GDB's command line arguments for the process or core.
    :param symbols: when false, GDB finds no detached symbols.
    :param load: when false, gdbext is not loaded.
    :param timeout: in seconds; the session's processes are killed after that.
    :param directory: GDB's working directory; its temporary home by default.
    :param gdb: the command that starts another GDB than the one under test.
    :param index: when false, the GDB under test does not use the cache of debug information, as for users.
    :param max_pause: for how many seconds a command may read a live process; None for gdbext's default.
    """
    argv = [*map(str, gdb or [executable()]), "-nx", "-batch", *settings(symbols=symbols)]
    if index and not gdb:
        argv += INDEX
    if load:
        argv += ["-iex", LOAD]
    if max_pause is not None:
        argv += ["-iex", f"set gdbext max-pause {max_pause}"]
    argv += [str(argument) for argument in gdb_args]
    for number, command in enumerate(commands):
        argv += ["-ex", f"echo \\n{_MARK.format(number)}\\n", "-ex", command]
    with tempfile.TemporaryDirectory(prefix="gdbext-home-") as home:
        process = subprocess.Popen(
            argv,
            cwd=directory or home,
            env=environment(Path(home)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="backslashreplace",
            start_new_session=True,
        )
        status: int | None
        try:
            stdout, stderr = process.communicate(timeout=timeout)
            status = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            stdout, stderr = process.communicate()
            status = None
    marks = "|".join(re.escape(_MARK.format(number)) for number in range(len(commands)))
    outputs = (
        tuple(part.strip("\n") for part in re.split(rf"\n(?:{marks})\n", _DETACHED.sub("", stdout))[1:])
        if commands
        else ()
    )
    result = Result(tuple(argv), tuple(commands), stdout, stderr, status, outputs)
    recent.append(result)
    assert not result.timed_out, f"GDB did not end within {timeout} s\n{result}"
    check_stages(stdout)
    return result


class Interactive:
    """GDB at a terminal, controlled like a person would."""

    def __init__(
        self,
        gdb_args: Sequence[str | Path],
        *,
        home: Path,
        cwd: Path,
        read_init: bool = False,
        symbols: bool = True,
        timeout: float = patience(60),
    ) -> None:
        """Start GDB and wait for its prompt.

        :param home: GDB's home directory; with `read_init` its .gdbinit is read.
        :param symbols: when false, GDB finds no detached symbols.
        """
        # a terminal so wide that lines are never folded
        self.process: pexpect.spawn[str] = pexpect.spawn(
            shutil.which(executable()) or executable(),
            [
                *([] if read_init else ["-nx"]),
                "-q",
                *settings(symbols=symbols),
                *("-iex", f"set prompt {PROMPT}"),
                *([] if read_init else ["-iex", LOAD]),
                *(str(argument) for argument in gdb_args),
            ],
            cwd=str(cwd),
            env=environment(home),
            encoding="utf-8",
            codec_errors="backslashreplace",
            timeout=timeout,
            dimensions=(50, 500),
        )
        self.transcript = ""
        self.steps = 0
        self.greeting = self.read_to_prompt()

    def __enter__(self) -> Interactive:
        """Enter the session, which ends with the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End GDB; an attached process continues."""
        if kind is not None:
            # pytest shows the output of a failed test
            print(f"-- interactive session --\n{self.transcript}")
        if self.process.isalive():
            self.process.sendline("quit")
            try:
                self.process.expect(pexpect.EOF, timeout=10)
            except pexpect.TIMEOUT:
                pass
        self.process.close(force=True)

    def read_to_prompt(self) -> str:
        """Read GDB's output up to its next prompt."""
        self.process.expect_exact(PROMPT)
        text = (self.process.before or "").replace("\r\n", "\n")
        self.transcript += text + PROMPT
        return text

    def type(self, text: str) -> None:
        """Type without a newline."""
        self.process.send(text)

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self.process.sendintr()
        self._catch_up()

    def take_back(self) -> None:
        """Erase the typed text with Ctrl-U."""
        self.type("\x15")
        self._catch_up()

    def start(self, text: str) -> None:
        """Start a command without waiting for its end."""
        self.process.sendline(text)
        self.process.expect_exact(f"{text}\r\n")
        self.transcript += f"{text}\n"

    def _catch_up(self) -> None:
        # GDB may now write any number of prompts, handle Ctrl-C after later input, and discard that input. So wait
        # for the prompt after a line that only GDB can write. The arguments contain no string, for which GDB would
        # allocate memory in the target.
        for _ in range(2):
            for _ in range(10):
                self.steps += 1
                self.process.sendline(f'printf "caught-up-%d\\n", {self.steps}')
                found = self.process.expect([rf"caught-up-{self.steps}\r?\n", pexpect.TIMEOUT], timeout=3)
                self.transcript += (self.process.before or "").replace("\r\n", "\n")
                if found == 0:
                    break
            self.read_to_prompt()

    def command(self, text: str) -> str:
        """Run a command and return its output, without the echo of the command itself."""
        self.process.sendline(text)
        _, _, output = self.read_to_prompt().partition("\n")
        return output.strip("\n")
