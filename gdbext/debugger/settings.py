"""GDB settings: `set gdbext ...` and `show gdbext ...`, and what they are set to.

A value that does not fit is refused with one line, and the one before stays.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import gdb

from gdbext.cpython.values import Limits
from gdbext.debugger.console import output
from gdbext.record import record
from gdbext.render.escape import printable

SET_HELP = """Change how gdbext reads source and writes reports.

Usage: set gdbext SETTING VALUE

`show gdbext` lists all settings with their values.

Example:
  (gdb) set gdbext context-lines 3"""

SHOW_HELP = """Show how gdbext reads source and writes reports.

Usage: show gdbext [SETTING]

Without SETTING all of them are shown."""


@record
class Settings:
    """What the user has set; the values here are those of a new GDB.

    `colour` is ``auto``, ``on`` or ``off``. Of local variables `locals_depth` is how many levels of containers are
    shown, `locals_items` how many items of each, `locals_width` how many characters of one value. With `load_all` GDB
    reads the symbols of all libraries although it was told not to do so by itself.
    """

    source_path: tuple[str, ...] = ()
    source_anywhere: bool = True
    context_lines: int = 0
    colour: str = "auto"
    locals_depth: int = 2
    locals_items: int = 10
    locals_width: int = 80
    load_all: bool = False

    @property
    def limits(self) -> Limits:
        """How much is told of one variable."""
        return Limits(self.locals_depth, self.locals_items, self.locals_width)

    @property
    def wants_colour(self) -> bool:
        """Whether reports are coloured now."""
        if self.colour != "auto":
            return self.colour == "on"
        if os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb":
            return False
        # GDB's Python replaces sys.stdout by its own stream, so the terminal is asked for by its descriptor
        return bool(gdb.parameter("style enabled")) and os.isatty(1) and sys.flags.interactive == 0


class _Setting(gdb.Parameter):
    """A setting; `kept` is its value after the last check. GDB calls the methods of the classes below."""

    kept: Any

    def __init__(self, name: str, what: str, details: str, value: object, kind: int, *words: Sequence[str],
                 group: int = gdb.COMMAND_DATA) -> None:
        self.set_doc = f"Set {what}."
        self.show_doc = f"Show {what}."
        self.__doc__ = details
        self.name = name
        self._what = what
        super().__init__(f"gdbext {name}", group, kind, *words)
        self.kept = self.value = value


class _Number(_Setting):
    """A whole number between two bounds."""

    def __init__(self, name: str, bounds: tuple[int, int], value: int, what: str, details: str) -> None:
        self._bounds = bounds
        super().__init__(name, what, f"{details}\nFrom {bounds[0]} to {bounds[1]}; {value} unless it is set.", value,
                         gdb.PARAM_ZINTEGER)

    def get_set_string(self) -> str:
        value, (low, high) = self.value, self._bounds
        if not isinstance(value, int) or not low <= value <= high:
            self.value = self.kept
            raise gdb.GdbError(f"gdbext {self.name} must be from {low} to {high}, not {value}; it stays {self.kept}")
        self.kept = value
        return ""

    def get_show_string(self, svalue: str) -> str:
        return f"{self._what[0].upper()}{self._what[1:]} is {svalue}."


class _Choice(_Setting):
    """One of a few words. GDB itself refuses others."""

    def __init__(self, name: str, words: tuple[str, ...], what: str, details: str, show: Callable[[str], str]) -> None:
        self._show = show
        super().__init__(name, what, details, words[0], gdb.PARAM_ENUM, words)

    def get_set_string(self) -> str:
        self.kept = str(self.value)
        return ""

    def get_show_string(self, svalue: str) -> str:
        return self._show(svalue)


class _SourcePath(_Setting):
    """Folders, separated by colons."""

    def __init__(self) -> None:
        super().__init__("source-path", "the folders in which source files are looked for first", """\
Usage: set gdbext source-path [FOLDER[:FOLDER]...]

A frame names the file of its code, as /app/pkg/job.py. In each folder it is looked for
by as much of the end of that name as fits: app/pkg/job.py, then pkg/job.py. Next, with
`set gdbext source any`, comes the file at the very place that the frame names, last
job.py in each folder. A relative name is looked for in these folders only.

Only regular files whose names end in .py or .pyw are read. Without FOLDER no folder is
searched.""", "", gdb.PARAM_OPTIONAL_FILENAME, group=gdb.COMMAND_FILES)

    def get_set_string(self) -> str:
        names = [name.strip() for name in str(self.value or "").split(":")]
        # relative ones are meant from where the user is now
        folders = [os.path.abspath(os.path.expanduser(name)) for name in names if name]
        for folder in folders:
            if not os.path.isdir(folder):
                self.value = self.kept
                raise gdb.GdbError(f"gdbext source-path: {printable(folder, 300)} is no folder; the path stays "
                                   + (f'"{printable(self.kept)}"' if self.kept else "empty"))
        self.kept = self.value = ":".join(dict.fromkeys(folders))
        return ""

    def get_show_string(self, svalue: str) -> str:
        if not self.kept:
            return "No folders are searched for source files."
        return f'The folders in which source files are looked for first are "{printable(self.kept)}".'


class _SetPrefix(gdb.Command):
    """``set gdbext``."""

    __doc__ = SET_HELP

    def __init__(self) -> None:
        super().__init__("set gdbext", gdb.COMMAND_DATA, gdb.COMPLETE_NONE, True)

    def invoke(self, argument: str, from_tty: bool) -> None:
        _refuse("set", argument)
        gdb.execute("help set gdbext")


class _ShowPrefix(gdb.Command):
    """``show gdbext``."""

    __doc__ = SHOW_HELP

    def __init__(self) -> None:
        super().__init__("show gdbext", gdb.COMMAND_DATA, gdb.COMPLETE_NONE, True)

    def invoke(self, argument: str, from_tty: bool) -> None:
        _refuse("show", argument)
        for name in _parameters:
            gdb.write(f"{name}:  " + output(f"show gdbext {name}"))


def _refuse(verb: str, argument: str) -> None:
    if argument:
        raise gdb.GdbError(f"{verb} gdbext: there is no setting {printable(argument.split()[0], 100)}; "
                           f"`help {verb} gdbext` lists them")


_parameters: dict[str, _Setting] = {}


def register() -> None:
    """Make the settings known to GDB; done again, their values stay."""
    if _parameters:
        return
    _SetPrefix()
    _ShowPrefix()
    new = Settings()
    made: tuple[_Setting, ...] = (
        _SourcePath(),
        _Choice("source", ("any", "path"), "which source files may be read", """\
`any`: the regular files that frames name, if their names end in .py or .pyw, and those
in the folders of `set gdbext source-path` (the default).
`path`: only those in the folders. The target then cannot choose the file by a name
that it has made up.""", lambda value: {
            "any": "Source files may be read wherever frames name them.",
            "path": "Source files may only be read in the folders of `show gdbext source-path`."}[value]),
        _Number("context-lines", (0, 20), new.context_lines,
                "the number of lines shown before and after a source line",
                "They tell where in its function a frame is."),
        _Choice("colour", ("auto", "on", "off"), "whether reports are coloured", """\
`auto`: if GDB's own output is (`show style enabled`), it goes to a terminal, and the
environment variable NO_COLOR is not set (the default).""", lambda value: (
            f'Colour of reports is "{value}"'
            + (f" (currently {'on' if settings().wants_colour else 'off'})." if value == "auto" else "."))),
        _Number("locals-depth", (0, 10), new.locals_depth,
                "the number of levels of containers shown in a variable's value",
                "What lies deeper is shown as an ellipsis."),
        _Number("locals-items", (1, 1000), new.locals_items,
                "the number of items shown of each container in a variable's value",
                "How many more there are is told."),
        _Number("locals-width", (10, 10_000), new.locals_width,
                "the number of characters shown of a variable's value", "Longer ones are cut."),
        _Choice("load-symbols", ("on-stacks", "all"), "which libraries' symbols are read", """\
Counts only with `set auto-solib-add off`, which keeps GDB from reading the symbols of
every library when it attaches to a process: the process stands still meanwhile.
`on-stacks`: those of libraries that stacks lie in, when a command of gdbext needs
them, and before each prompt those of the selected thread's stack (the default).
`all`: those of all libraries, at the first command of gdbext.""", lambda value: (
            f'Symbols read of libraries: "{value}"'
            + (" (with `set auto-solib-add off`; now GDB reads all by itself)." if gdb.parameter("auto-solib-add")
               else "."))))
    _parameters.update((setting.name, setting) for setting in made)


def settings() -> Settings:
    """What is set now."""
    if not _parameters:
        return Settings()
    path, source, context_lines, colour, depth, items, width, load_symbols = (
        setting.kept for setting in _parameters.values())
    return Settings(tuple(path.split(":")) if path else (), source == "any", context_lines, colour, depth, items, width,
                    load_symbols == "all")


def terminal_width() -> int | None:
    """How many columns a line may take: ``set width``, which GDB sets itself at a terminal; None for any number."""
    width = gdb.parameter("width")
    # GDB's pager takes a line that fills the terminal for two
    return max(width - 1, 1) if isinstance(width, int) and width > 0 else None
