"""GDB settings: `set gdbext ...` and `show gdbext ...`, and what they are set to.

A value that does not fit is refused with one line, and the one before stays.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

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


class _Number(gdb.Parameter):
    """A whole number between two bounds."""

    def __init__(self, name: str, bounds: tuple[int, int], value: int, what: str, details: str) -> None:
        self.set_doc = f"Set {what}."
        self.show_doc = f"Show {what}."
        self.__doc__ = f"{details}\nFrom {bounds[0]} to {bounds[1]}; {value} unless it is set."
        self._name = name
        self._bounds = bounds
        self._what = what
        self._kept = value
        super().__init__(f"gdbext {name}", gdb.COMMAND_DATA, gdb.PARAM_ZINTEGER)
        self.value = value

    @property
    def number(self) -> int:
        """The value."""
        return self._kept

    def get_set_string(self) -> str:
        """Check a new value; GDB calls this when it has stored it."""
        value, (low, high) = self.value, self._bounds
        if not isinstance(value, int) or not low <= value <= high:
            self.value = self._kept
            raise gdb.GdbError(f"gdbext {self._name} must be from {low} to {high}, not {value}; it stays "
                               f"{self._kept}")
        self._kept = value
        return ""

    def get_show_string(self, svalue: str) -> str:
        """The answer to `show`."""
        return f"{self._what[0].upper()}{self._what[1:]} is {svalue}."


class _Choice(gdb.Parameter):
    """One of a few words. GDB itself refuses others."""

    def __init__(self, name: str, words: tuple[str, ...], what: str, details: str,
                 show: Callable[[str], str]) -> None:
        self.set_doc = f"Set {what}."
        self.show_doc = f"Show {what}."
        self.__doc__ = details
        self._show = show
        super().__init__(f"gdbext {name}", gdb.COMMAND_DATA, gdb.PARAM_ENUM, words)
        self.value = words[0]

    @property
    def word(self) -> str:
        """The value."""
        return str(self.value)

    def get_set_string(self) -> str:
        """Nothing is to be said; GDB calls this when it has stored a new value."""
        return ""

    def get_show_string(self, svalue: str) -> str:
        """The answer to `show`."""
        return self._show(svalue)


class _SourcePath(gdb.Parameter):
    """Folders, separated by colons."""

    def __init__(self) -> None:
        self.set_doc = "Set the folders in which source files are looked for first."
        self.show_doc = "Show the folders in which source files are looked for first."
        self.__doc__ = """\
Usage: set gdbext source-path [FOLDER[:FOLDER]...]

A frame names the file of its code, as /app/pkg/job.py. In each folder it is looked for
by as much of the end of that name as fits: app/pkg/job.py, then pkg/job.py. Next, with
`set gdbext source any`, comes the file at the very place that the frame names, last
job.py in each folder. A relative name is looked for in these folders only.

Only regular files whose names end in .py or .pyw are read. Without FOLDER no folder is
searched."""
        self._kept = ""
        super().__init__("gdbext source-path", gdb.COMMAND_FILES, gdb.PARAM_OPTIONAL_FILENAME)
        self.value = ""

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders, by absolute names."""
        return tuple(self._kept.split(":")) if self._kept else ()

    def get_set_string(self) -> str:
        """Check the folders of a new value; GDB calls this when it has stored it."""
        names = [name.strip() for name in str(self.value or "").split(":")]
        # relative ones are meant from where the user is now
        folders = [os.path.abspath(os.path.expanduser(name)) for name in names if name]
        for folder in folders:
            if not os.path.isdir(folder):
                self.value = self._kept
                raise gdb.GdbError(f"gdbext source-path: {printable(folder, 300)} is no folder; the path stays "
                                   + (f'"{printable(self._kept)}"' if self._kept else "empty"))
        self._kept = ":".join(dict.fromkeys(folders))
        self.value = self._kept
        return ""

    def get_show_string(self, svalue: str) -> str:
        """The answer to `show`."""
        if not self._kept:
            return "No folders are searched for source files."
        return f'The folders in which source files are looked for first are "{printable(self._kept)}".'


class _SetPrefix(gdb.Command):
    """``set gdbext``."""

    __doc__ = SET_HELP

    def __init__(self) -> None:
        super().__init__("set gdbext", gdb.COMMAND_DATA, gdb.COMPLETE_NONE, True)

    def invoke(self, argument: str, from_tty: bool) -> None:
        """Called by GDB where no setting of that name follows."""
        _refuse("set", argument)
        gdb.execute("help set gdbext")


class _ShowPrefix(gdb.Command):
    """``show gdbext``."""

    __doc__ = SHOW_HELP

    def __init__(self) -> None:
        super().__init__("show gdbext", gdb.COMMAND_DATA, gdb.COMPLETE_NONE, True)

    def invoke(self, argument: str, from_tty: bool) -> None:
        """Called by GDB where no setting of that name follows."""
        _refuse("show", argument)
        for name in _NAMES:
            gdb.write(f"{name}:  " + output(f"show gdbext {name}"))


def _refuse(verb: str, argument: str) -> None:
    if argument:
        raise gdb.GdbError(f"{verb} gdbext: there is no setting {printable(argument.split()[0], 100)}; "
                           f"`help {verb} gdbext` lists them")


@record
class _Parameters:
    source_path: _SourcePath
    source: _Choice
    context_lines: _Number
    colour: _Choice
    locals_depth: _Number
    locals_items: _Number
    locals_width: _Number
    load_symbols: _Choice


_NAMES = ("source-path", "source", "context-lines", "colour", "locals-depth", "locals-items", "locals-width",
          "load-symbols")
_parameters: _Parameters | None = None


def register() -> None:
    """Make the settings known to GDB; done again, their values stay."""
    global _parameters
    if _parameters is not None:
        return
    _SetPrefix()
    _ShowPrefix()
    new = Settings()
    _parameters = _Parameters(
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


def settings() -> Settings:
    """What is set now."""
    if _parameters is None:
        return Settings()
    return Settings(_parameters.source_path.folders, _parameters.source.word == "any",
                    _parameters.context_lines.number, _parameters.colour.word, _parameters.locals_depth.number,
                    _parameters.locals_items.number, _parameters.locals_width.number,
                    _parameters.load_symbols.word == "all")


def terminal_width() -> int | None:
    """How many columns a line may take, None for any number: ``set width``, which GDB sets itself at a terminal."""
    width = gdb.parameter("width")
    # GDB's pager takes a line that fills the terminal for two
    return max(width - 1, 1) if isinstance(width, int) and width > 0 else None
