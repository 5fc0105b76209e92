"""The GDB command made from a command's description: arguments, snapshot, output, and errors in one line."""

from __future__ import annotations

import os
import re
from argparse import Namespace
from dataclasses import replace

import gdb

from gdbext.commands.arguments import FAIL, complete, parse
from gdbext.commands.base import Command, Result
from gdbext.debugger.batch import end_gdb, in_batch_mode
from gdbext.debugger.confirm import take_two_snapshots
from gdbext.debugger.output import failure, write, write_error
from gdbext.debugger.settings import settings, terminal_width
from gdbext.debugger.source import source_files
from gdbext.debugger.target import GdbTarget, session
from gdbext.errors import GdbextError, UsageError
from gdbext.model.reasons import because
from gdbext.model.verdict import STATUS_OF_OUTCOME
from gdbext.narrate.sentences import verdict_title
from gdbext.render.escape import Safe, as_text, concatenated, json_line, printable
from gdbext.render.output_file import write_private
from gdbext.render.style import Style
from gdbext.render.text import TextRenderer
from gdbext.schema.write import document
from gdbext.snapshot import Snapshot, take_snapshot
from gdbext.verdict.judge import verdict_of

# the operators with which an expression writes to the target, and comparisons
_OPERATORS = re.compile(r"<<=|>>=|[-+*/%&|^]=|<=|>=|==|!=|\+\+|--|=")
#: How many addresses a message names.
_MANY = 10
_COMPARISONS = {"<=", ">=", "==", "!="}
#: Exit statuses of GDB, those of the launcher (docs/reference.md).
_NO_ANSWER = STATUS_OF_OUTCOME["doubt"]

_notices_shown: set[str] = set()


class GdbCommand(gdb.Command):
    """A command of gdbext in GDB, which calls the public methods."""

    def __init__(self, command: Command) -> None:
        self.__doc__ = command.help
        self._command = command
        super().__init__(command.name, gdb.COMMAND_STATUS)

    def invoke(self, argument: str, from_tty: bool) -> None:
        """Run the command."""
        self.dont_repeat()
        try:
            self._run_or_fail(argument)
        except gdb.GdbError as error:
            # the status of GDB would be that of a deadlock
            if FAIL.flags[0] in argument.split() and in_batch_mode():
                write_error(str(error))
                end_gdb(_NO_ANSWER)
            raise

    def _run_or_fail(self, argument: str) -> None:
        """Run the command; any error is a `gdb.GdbError` of one line."""
        name = self._command.name
        try:
            self._run(argument)
        except GdbextError as error:
            hint = f"; {error.hint}" if error.hint else ""
            raise failure(f"{name}: {error}{hint}") from None
        except gdb.error as error:
            raise failure(f"{name}: GDB says: {error}; try `info threads` first") from None
        except RecursionError:
            raise failure(f"{name}: the report nests too deeply; please report this bug of gdbext") from None
        except (AssertionError, AttributeError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            if gdb.parameter("python print-stack") == "full":
                raise
            raise failure(f"{name}: internal error: {type(error).__name__}: {error}; `set python "
                          "print-stack full` shows where, please report it") from None

    def complete(self, text: str, word: str) -> list[str]:
        """Complete options."""
        # GDB breaks words at "-" and "=", so the option is completed as a whole and cut to GDB's word
        typed = text.rpartition(" ")[2]
        before = len(typed) - len(word)
        if not typed.startswith("-"):
            return []
        return [candidate[before:] for candidate in complete(typed, self._command.options)]

    def _run(self, argument: str) -> None:
        arguments, expression = self._parse(argument)
        if getattr(arguments, "confirm", None) is not None:
            self._run_twice(arguments)
            return
        with session() as target:
            addresses, unknown = _addresses(target, expression)
            selected = target.selected()
            if self._command.takes == "thread" and selected is not None:
                addresses = [selected]
            snapshot = take_snapshot(target, settings().object_names, target.budget, target.known_code)
            snapshot.limits = settings().limits
            if unknown is not None:
                addresses = [_named(snapshot, expression, unknown)]
            result = self._command.run(snapshot, arguments, addresses)
            text = self._render(target, result, arguments)
        for path, content in result.files:
            write_private(os.path.expanduser(path), content)
        _write(text)
        _fail_if_found(result, arguments)
        if snapshot.mistakes and gdb.parameter("python print-stack") == "full":
            raise snapshot.mistakes[0]  # GDB prints its traceback
        if snapshot.incomplete is not None:
            raise snapshot.incomplete

    def _run_twice(self, arguments: Namespace) -> None:
        assert self._command.confirmed is not None
        report, paused = take_two_snapshots(arguments.confirm)
        note = because("two-snapshots", seconds=f"{arguments.confirm:g}", paused=f"{paused:.2f}")
        result = self._command.confirmed(replace(report, notes=(*report.notes, note)))
        with session() as target:
            text = self._render(target, result, arguments)
        _write(text)
        _fail_if_found(result, arguments)

    def _parse(self, argument: str) -> tuple[Namespace, str]:
        if self._command.takes != "address":
            arguments = parse(self._command.name, gdb.string_to_argv(argument), self._command.options)
            if arguments.rest and self._command.takes == "nothing":
                raise UsageError(f"unexpected argument {arguments.rest[0]!r}", f"see `help {self._command.name}`")
            return arguments, ""
        # GDB parses the expression, quotes included: only the options are taken out
        words = argument.split()
        options = [word for word in words if re.match(r"--[a-z]", word)]
        expression = " ".join(word for word in words if word not in options)
        return parse(self._command.name, options, self._command.options), expression

    def _render(self, target: GdbTarget, result: Result, arguments: Namespace) -> Safe:
        if arguments.json:
            return json_line(document(result.report, result.parts))
        chosen = settings()
        style = Style(chosen.wants_colour, terminal_width())
        notice: list[str] = []
        if style.notice and style.notice not in _notices_shown:
            _notices_shown.add(style.notice)
            notice.append(f"Note: {style.notice}")
        source = source_files(target, chosen)
        text = result.text(TextRenderer(result.whole or result.report, style, source, chosen.context_lines))
        notes = [f"Note: {note}" for note in source.notes()]
        return style.wrap(concatenated([as_text(notice), text, as_text(notes)]))


def _write(text: Safe) -> None:
    """Write through GDB's pager; `q` there, or Ctrl-C, ends the command like GDB's own."""
    try:
        write(text)
    except KeyboardInterrupt:
        raise failure("Quit") from None  # GDB's own message, which not all versions show for an interrupt


def _fail_if_found(result: Result, arguments: Namespace) -> None:
    """With ``--fail``, end a GDB in batch mode or raise an error unless nothing is wrong."""
    if not getattr(arguments, "fail", False):
        return
    verdict = verdict_of(result.whole or result.report)
    status = STATUS_OF_OUTCOME[verdict.outcome]
    if status and in_batch_mode():
        end_gdb(status)
    if status:
        raise GdbextError(f"the verdict is {verdict_title(verdict)}", "--fail makes this an error")


def _addresses(target: GdbTarget, expression: str) -> tuple[list[int], UsageError | None]:
    """The address that an expression names, or why it names none; it may then be the name of a lock."""
    try:
        return [_address(target, expression)] if expression else [], None
    except UsageError as error:
        return [], error


def _named(snapshot: Snapshot, text: str, unknown: UsageError) -> int:
    """The address of the lock that a report calls so: by its name, or by all its words.

    :raises UsageError: no lock has the name, or several have.
    """
    words = text.split()
    found = sorted({lock.address for lock in snapshot.locks() if lock.name == text or f"{lock.address:#x}" in words})
    if len(found) > 1:
        raise UsageError(f"several locks are called {printable(text, 100)}",
                         f"name one by its address: {', '.join(map(hex, found[:_MANY]))}")
    if not found:
        raise unknown
    return found[0]


def _address(target: GdbTarget, expression: str) -> int:
    """Evaluate an expression, which may name a variable of a library whose symbols GDB has not read."""
    try:
        return _evaluate(expression)
    except UsageError:
        if not target.load_all():
            raise
        return _evaluate(expression)


def _evaluate(expression: str) -> int:
    """Evaluate a GDB expression as an address, without calling or changing anything in the target.

    :raises UsageError: the expression cannot be evaluated, or would write.
    """
    if any(operator not in _COMPARISONS for operator in _OPERATORS.findall(expression)):
        raise UsageError(f"{printable(expression)} would change the target", "give an expression without assignment")
    calls = gdb.parameter("may-call-functions")
    try:
        gdb.execute("set may-call-functions off", to_string=True)
        value = gdb.parse_and_eval(expression)
        if value.type.strip_typedefs().code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION, gdb.TYPE_CODE_ARRAY):
            if value.address is None:
                raise UsageError(f"{printable(expression)} has no address", "give the lock's address")
            value = value.address
        return int(value) & 0xFFFFFFFFFFFFFFFF
    except (gdb.error, ValueError, OverflowError, TypeError) as error:
        raise UsageError(f"{printable(expression)} is not an address: {printable(str(error))}",
                         "give a GDB expression such as &table_lock or 0x7f00c0de") from None
    finally:
        gdb.execute(f"set may-call-functions {'on' if calls else 'off'}", to_string=True)
