"""The console script `gdbext`: its verbs, and the options that they share.

Each verb is a module with NAME, HELP (one line), DESCRIPTION, EXAMPLES, `add_arguments(parser)` and `run(options)`,
which returns the exit status. They are listed in VERBS.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import signal
import stat
import sys
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType, ModuleType
from typing import IO

from gdbext import __version__
from gdbext.errors import GdbextError, MissingLibrary, UsageError
from gdbext.launcher.output import write_to_stderr
from gdbext.launcher.snapshots.options import DEFAULTS, FIELDS, Options
from gdbext.launcher.status import BAD_USAGE, NO_ANSWER, NO_GDB, NoGdb
from gdbext.render.escape import as_text, printable
from gdbext.render.style import wants_colour

#: The modules of the verbs in the order of ``--help``. A module imports optional packages in `run` only.
VERBS = ("report", "dump", "show", "diff", "issue", "attach", "triage", "ranks", "dask", "run", "watch", "known",
         "install", "doctor", "completion")

_DESCRIPTION = "Explains hangs and crashes of programs that mix Python with native code, without knowing GDB."
_EXAMPLES = """\
examples:
  gdbext 4711                     why process 4711 hangs, and what its threads do: the
                                  same as gdbext report 4711
  gdbext report core.4711         the same for a core; it may be compressed
  gdbext show found.json          a report that --json has written
  gdbext issue 4711               a block for an issue, without what is private
  gdbext triage cores/            many cores, grouped by what happened
  gdbext run --after 10m -- CMD   start a program, and report when it hangs
  gdbext watch 4711               report on each new hang
  gdbext attach 4711              GDB, with gdbext in it
  gdbext doctor                   whether all requirements are met

exit status: 0 nothing wrong found, 1 a deadlock, a crash or another state that does
not end by itself, 2 bad usage, 3 no answer: the target could not be read, or the
report could not be written, 4 no GDB or a GDB without Python, 5 a hang that may end
when something outside of the process happens"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the verb that the command line names.

    :return: the exit status. After an exception it is never a verdict, but `BAD_USAGE`, `NO_GDB` or `NO_ANSWER`, with
        one line that says why, below the usage of the verb if an option is wrong.
    """
    name = "gdbext"
    options: argparse.Namespace | None = None
    try:
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # by `launcher.start`
            signal.signal(signal.SIGINT, signal.default_int_handler)
        _prepare_streams()
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP
                signal.signal(number, _end)
        options = _parse(arguments)
        name = f"gdbext {options.verb}"
        status = int(options.run(options))
        sys.stdout.flush()
        return status
    except SystemExit as end:
        return _ended(name, end)
    except UsageError as error:
        usage = "" if options is None or isinstance(error, MissingLibrary) else options.parser.format_usage()
        return _complain(name, error, BAD_USAGE, usage)
    except GdbextError as error:
        return _complain(name, error, NO_GDB if isinstance(error, NoGdb) else NO_ANSWER)
    except BrokenPipeError:  # the reader has closed the pipe
        return NO_ANSWER
    except OSError as error:
        return _complain(name, GdbextError(f"cannot write the report: {error.strerror or error}",
                                           "make room, or write it elsewhere"), NO_ANSWER)
    except KeyboardInterrupt:
        _complain(name, GdbextError("interrupted"), NO_ANSWER)
        return 128 + signal.SIGINT
    except Exception as error:
        return _complain(name, GdbextError(f"internal error: {_place(error)}", "please report it"), NO_ANSWER)
    finally:
        for stream in (sys.stdout, sys.stderr):
            _settle(stream)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line; an error prints the usage of the verb, and ends with `BAD_USAGE`.

    A PID or an existing file in place of a verb is a target of `report`, or of `show` if it is a document.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    first = words[0] if words else ""
    # modules of other verbs take longer to load than some reports take
    made = parser(only="report" if first.isdecimal() else first)
    if first and first not in VERBS and not first.startswith("-"):
        if first.isdecimal() or os.path.exists(first):
            words.insert(0, "show" if first.endswith(".json") else "report")
        else:
            hint = "; `gdbext report --name PATTERN` reports on processes by their command line"
            made.error(f"unknown verb {printable(first, 300)}{_close_to(first, VERBS) or hint}")
    options, unknown = made.parse_known_args(words)
    if unknown:
        # `parse_args` would print the usage without a verb
        close = _close_to(unknown[0].partition("=")[0], options.parser._option_string_actions)
        options.parser.error(f"unknown arguments: {' '.join(printable(each, 300) for each in unknown)}{close}")
    return options


def _close_to(word: str, names: Iterable[str]) -> str:
    """A question whether one of the names was meant, if one is similar."""
    import difflib  # for mistakes only

    found = difflib.get_close_matches(word, list(names), 1, 0.7)
    return f"; did you mean {found[0]}?" if found else ""


def _prepare_streams() -> None:
    """Prepare the standard streams for reports.

    :raises GdbextError: there is no standard output.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # closed: the next file opened would take the number, and get the report
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:
        sys.stderr = open(2, "w", errors="backslashreplace", closefd=False)  # noqa: SIM115  # it remains open
    if sys.stdout is None:
        sys.stdout = open(1, "w", errors="backslashreplace", closefd=False)  # noqa: SIM115
        raise GdbextError("standard output is closed, so the report cannot be written", "redirect it to a file: > FILE")
    if isinstance(sys.stdout, io.TextIOWrapper):
        # encodings of old locales and of $PYTHONIOENCODING lack many letters of names
        sys.stdout.reconfigure(errors="backslashreplace")


def _settle(stream: IO[str]) -> None:
    """Flush a stream; if that fails, prevent Python from failing again at its exit."""
    try:
        stream.flush()
    except (OSError, ValueError):
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        except (OSError, ValueError):  # it has no descriptor
            pass


def _ended(name: str, end: SystemExit) -> int:
    """Pass on the exit of argparse, with 0 or 2, and of a signal, with 128 + its number; all else is an error."""
    if end.code == 0:
        try:
            sys.stdout.flush()
        except OSError as error:
            return _complain(name, GdbextError(f"cannot write the help: {error.strerror or error}", "make room"),
                             NO_ANSWER)
    if end.code in (0, BAD_USAGE) or isinstance(end.code, int) and end.code > 128:
        raise end
    return _complain(name, GdbextError(f"internal error: it ended with {end.code}", "please report it"), NO_ANSWER)


def _place(error: Exception) -> str:
    """An exception with the line that raised it, for a bug report."""
    frames = traceback.extract_tb(error.__traceback__)
    at = f" in {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
    text = printable(str(error), 300)
    return f"{type(error).__name__}{at}" + (f": {text}" if text else "")


def parser(brief: bool = False, only: str | None = None) -> argparse.ArgumentParser:
    """Make the parser of the command line.

    :param brief: describe each verb by one line, as completion does.
    :param only: if it is the name of a verb, other verbs are left out.
    """
    made = argparse.ArgumentParser("gdbext", description=_DESCRIPTION, epilog=_EXAMPLES,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--version", action="version", version=f"gdbext {__version__}")
    verbs = made.add_subparsers(dest="verb", metavar="VERB", required=True)
    for module in modules((only,) if only in VERBS else VERBS):
        verb = verbs.add_parser(module.NAME, help=module.HELP, epilog=module.EXAMPLES,
                                description=module.HELP if brief else module.DESCRIPTION,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
        module.add_arguments(verb)
        verb.set_defaults(run=module.run, parser=verb)
    return made


def modules(verbs: Iterable[str] = VERBS) -> list[ModuleType]:
    """The modules of verbs, all by default."""
    return [importlib.import_module(f"gdbext.launcher.verbs.{name}") for name in verbs]


# -- what verbs share -----------------------------------------------------------------------------------------------

def add_gdb(group: argparse._ActionsContainer) -> None:
    """Add the choice of GDB."""
    group.add_argument("--gdb", metavar="FILE", help="the GDB to use (else $GDBEXT_GDB, else gdb on $PATH)")


def add_by_gdb(group: argparse._ActionsContainer, where: str = "") -> None:
    """Add the choice to take snapshots with GDB."""
    group.add_argument("--gdb", metavar="FILE", help=f"take the snapshot with this GDB{where}, a file or a name on "
                       "$PATH: it pauses a process, and adds variables of native functions of a crash. Without this "
                       "option gdbext reads processes and cores itself")


def add_timeout(group: argparse._ActionsContainer) -> None:
    """Add the time limit of a snapshot."""
    group.add_argument("--timeout", metavar="SECONDS", type=seconds, default=DEFAULTS.timeout,
                       help="how long a snapshot may take; half of it is for reading (default: %(default)g)")


def add_max_pause(group: argparse._ActionsContainer) -> None:
    """Add the limit on the pause of a process."""
    group.add_argument("--max-pause", metavar="SECONDS", type=seconds, default=DEFAULTS.max_pause,
                       help="how long a process may be paused; what is not read then is left out of the report, which "
                       "says so (default: %(default)g)")


def add_object_names(group: argparse._ActionsContainer) -> None:
    """Add the choice whether reports contain values of objects that have locks."""
    group.add_argument("--no-object-names", action="store_false", dest="object_names",
                       help="do not name an object that has a lock by one of its values (Account 'alice'), and do "
                            "not show the values in the condition of a loop that polls")
    add_redact(group)
    group.add_argument("--values", action="store_true", dest="values_of_others",
                       help="write such values, and those of variables, to a file even if the process or core belongs "
                       "to another user")


def add_redact(group: argparse._ActionsContainer) -> None:
    """Add the choice whether reports contain private details."""
    group.add_argument("--redact", action="store_true",
                       help="take out what is private: arguments of the program, values, source lines, messages, names "
                       "of the machine, the user and objects, addresses of peers; shorten folders. The last line says "
                       "what was taken out")
    group.add_argument("--source", action="store_true", help="with --redact: show source lines nevertheless")


def add_output(verb: argparse.ArgumentParser, schema: str) -> None:
    """Add JSON instead of text, and HTML in addition."""
    verb.add_argument("--json", action="store_true",
                      help=f"print one JSON document, schema {schema}, instead of text")
    verb.add_argument("--html", metavar="FILE", help="also write a page for browsers")
    verb.add_argument("--color", choices=("auto", "always", "never"), default="auto",
                      help="whether the text is coloured; auto: on a terminal, unless $NO_COLOR or $FORCE_COLOR is set "
                      "(default: auto)")
    verb.add_argument("--no-pager", dest="pager", action="store_false",
                      help="do not show text that is longer than the terminal with $PAGER (default: less -FRX)")


def add_snapshot_options(verb: argparse.ArgumentParser, timeout: bool = True, without_gdb: bool = False) -> None:
    """Add the options of a snapshot.

    :param without_gdb: whether GDB is not needed.
    """
    group = verb.add_argument_group("snapshot options")
    if without_gdb:
        choice = group.add_mutually_exclusive_group()
        add_by_gdb(choice)
        choice.add_argument("--no-gdb", action="store_true", dest="without_gdb",
                            help="take the snapshot without GDB, which is the default")
        group.add_argument("--no-stop", action="store_false", dest="may_stop",
                           help="do not stop threads that run, not even for a moment; what they do is then not known")
    else:
        add_gdb(group)
    if timeout:
        add_timeout(group)
        add_max_pause(group)
    group.add_argument("--sysroot", metavar="DIR", type=_folder,
                       help="the folder that holds the target's files under their own paths, such as an image")
    group.add_argument("--search", metavar="DIR", type=_folder, action="append", default=[],
                       help="a folder with the core's executable and libraries, found by build id, then by name; may "
                       "be given several times")
    group.add_argument("--debuginfod", action="store_true",
                       help="use GDB, and let it ask the servers of $DEBUGINFOD_URLS for symbols")
    add_object_names(group)


def add_text(verb: argparse.ArgumentParser, variables: bool = False) -> None:
    """Add the options of the text.

    :param variables: whether it may have variables.
    """
    verb.add_argument("--stacks", choices=("full", "top", "none"), default=DEFAULTS.stacks,
                      help="how much of each stack is shown (default: %(default)s)")
    verb.add_argument("--native", choices=("all", "verdict", "none"), default=DEFAULTS.native,
                      help="which threads are shown with native frames; verdict: those that the verdict is about. "
                      "Threads without Python frames always are (default: %(default)s)")
    if variables:
        verb.add_argument("--locals", action="store_true", help="show the variables of Python frames, also in JSON; "
                          "long values are cut")
    verb.add_argument("--each", action="store_true", help="show each thread by itself, also those with the same stack")


def parse_options(options: argparse.Namespace) -> Options:
    """The snapshot options of the command line."""
    width = os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else 0
    # a verb has some of the options
    chosen = Options(**{name: getattr(options, name) for name in FIELDS if hasattr(options, name)})
    if not chosen.may_stop and chosen.gdb is not None:
        raise UsageError("GDB stops a process, and --no-stop forbids that", "leave out one of --gdb and --no-stop")
    if chosen.locals and chosen.by_gdb:
        raise UsageError("with GDB a report has no variables", "leave out one of --gdb and --locals; in a session of "
                         "GDB, `py-mixed-bt -full` shows those of a thread")
    return replace(chosen, search=tuple(chosen.search), colour=parse_colour(options), width=width or None,
                   without_gdb=chosen.without_gdb or not chosen.may_stop, values_of_others=shows_values(options))


def shows_values(options: argparse.Namespace) -> bool:
    """Whether a report shows values of variables of another user's program: not in a file, unless asked for."""
    if options.values_of_others or any(getattr(options, name, None) for name in ("html", "dot")):
        return bool(options.values_of_others)
    try:
        return not stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)
    except (OSError, ValueError):  # it has no descriptor
        return True


def parse_colour(options: argparse.Namespace) -> bool:
    """Whether the text is coloured."""
    chosen = getattr(options, "color", "auto")
    return wants_colour(sys.stdout.isatty()) if chosen == "auto" else chosen == "always"


def number(text: str) -> int:
    """Parse a number of things."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{printable(text, 100)} is not a number from 1 on")
    return int(text)


def seconds(text: str) -> float:
    """Parse a time in seconds."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 86400:
        raise argparse.ArgumentTypeError(f"{printable(text, 100)} is not a number of seconds from 0 to a day (86400)")
    return value


def duration(text: str) -> float:
    """Parse a time such as 90, 90s, 10m or 2h; in seconds."""
    scale = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}.get(text[-1:])
    try:
        value = float(text if scale is None else text[:-1]) * (scale or 1.0)
    except ValueError:
        value = 0.0
    if not 0 < value <= 366 * 86400:
        raise argparse.ArgumentTypeError(f"{printable(text, 100)} is not a time: 90s, 10m, 2h")
    return value


def _folder(text: str) -> Path:
    try:
        path = Path(text).expanduser()
        if path.is_dir():
            return path
    except (OSError, RuntimeError, ValueError):  # no such user, a name that is too long, a null byte
        pass
    raise argparse.ArgumentTypeError(f"{printable(text, 300)} is not a folder")


def _end(number: int, frame: FrameType | None) -> None:
    # an exception, which ends every GDB in good order
    raise SystemExit(128 + number)


def _complain(name: str, error: GdbextError, status: int, usage: str = "") -> int:
    hint = f"; {error.hint}" if error.hint else ""
    try:
        write_to_stderr(as_text([*usage.splitlines(), f"{name}: {error}{hint}"]))
    except (OSError, ValueError):  # there is no reader
        pass
    return status
