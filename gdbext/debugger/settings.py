"""GDB settings: `set gdbext ...` and `show gdbext ...`.

An invalid value is refused with one line, and the setting keeps its value.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import gdb

from gdbext.cpython.values import Limits
from gdbext.debugger.console import output
from gdbext.debugger.output import failure, write
from gdbext.record import record
from gdbext.render.escape import cleaned, printable
from gdbext.render.style import wants_colour


@record
class Settings:
    """The values of all settings; the defaults are those of a new GDB.

    `colour` is ``auto``, ``on`` or ``off``. For the values of variables, `locals_depth` limits the levels of
    containers, `locals_items` the items of each, and `locals_width` the characters of a value. With `load_all` GDB
    reads the symbols of all libraries in spite of `set auto-solib-add off`. With `verdict_in_editors` an editor shows
    the verdict when it attaches. With `object_names` an object that has a lock is named by the value of an attribute. A
    command reads a live process for at most `max_pause` seconds.
    """

    source_path: tuple[str, ...] = ()
    source_anywhere: bool = True
    context_lines: int = 0
    colour: str = "auto"
    locals_depth: int = 2
    locals_items: int = 10
    locals_width: int = 80
    load_all: bool = False
    verdict_in_editors: bool = True
    object_names: bool = True
    max_pause: int = 10

    @property
    def limits(self) -> Limits:
        """The limits for the value of a variable."""
        return Limits(self.locals_depth, self.locals_items, self.locals_width)

    @property
    def wants_colour(self) -> bool:
        """Whether reports are coloured now."""
        if self.colour != "auto":
            return self.colour == "on"
        # by its descriptor, since GDB's Python replaces sys.stdout
        return wants_colour(bool(gdb.parameter("style enabled")) and os.isatty(1) and sys.flags.interactive == 0)


class _Setting(gdb.Parameter):
    """A setting; `kept` is its last valid value. GDB calls the methods of the classes below."""

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
    """An integer between two bounds."""

    def __init__(self, name: str, bounds: tuple[int, int], value: int, what: str, details: str) -> None:
        self._bounds = bounds
        super().__init__(name, what, f"{details}\nThe range is {bounds[0]} to {bounds[1]}; the default is {value}.",
                         value, gdb.PARAM_ZINTEGER)

    def get_set_string(self) -> str:
        value, (low, high) = self.value, self._bounds
        if not isinstance(value, int) or not low <= value <= high:
            self.value = self.kept
            raise failure(f"gdbext {self.name} must be from {low} to {high}, not {value}; it stays {self.kept}")
        self.kept = value
        return ""

    def get_show_string(self, svalue: str) -> str:
        return f"{self._what[0].upper()}{self._what[1:]} is {svalue}."


class _Choice(_Setting):
    """One of a few words; GDB itself refuses others."""

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
        super().__init__("source-path", "the folders that are searched first for source files", """\
Usage: set gdbext source-path [FOLDER[:FOLDER]...]

A frame names the file of its code, for example /app/pkg/job.py. Each folder is searched
for the longest end of that name: app/pkg/job.py, then pkg/job.py. With
`set gdbext source any`, the file that the frame names is next. The last choice is
job.py in each folder. A relative name is searched for in these folders only.

Only regular files whose names end in .py or .pyw are read. Without FOLDER, no folder is
searched.""", "", gdb.PARAM_OPTIONAL_FILENAME, group=gdb.COMMAND_FILES)

    def get_set_string(self) -> str:
        names = [name.strip() for name in str(self.value or "").split(":")]
        # relative to GDB's working directory at the time of the command
        folders = [os.path.abspath(os.path.expanduser(name)) for name in names if name]
        for folder in folders:
            if not os.path.isdir(folder):
                self.value = self.kept
                raise failure(f"gdbext source-path: {printable(folder, 300)} is not a folder; the path stays "
                              + (f'"{printable(self.kept)}"' if self.kept else "empty"))
        self.kept = self.value = ":".join(dict.fromkeys(folders))
        return ""

    def get_show_string(self, svalue: str) -> str:
        if not self.kept:
            return "No folders are searched for source files."
        return f'The folders that are searched first for source files are "{printable(self.kept)}".'


class _Prefix(gdb.Command):
    """``set gdbext`` or ``show gdbext``."""

    def __init__(self, verb: str, doc: str) -> None:
        self.__doc__ = doc
        self._verb = verb
        super().__init__(f"{verb} gdbext", gdb.COMMAND_DATA, gdb.COMPLETE_NONE, True)

    def invoke(self, argument: str, from_tty: bool) -> None:
        if argument:
            raise failure(f"{self._verb} gdbext: there is no setting {printable(argument.split()[0], 100)}; "
                          f"`help {self._verb} gdbext` lists them")
        if self._verb == "set":
            gdb.execute("help set gdbext")
            return
        for name in _parameters:
            write(cleaned(f"{name}:  " + output(f"show gdbext {name}")))


_parameters: dict[str, _Setting] = {}


def register() -> None:
    """Make the settings known to GDB; a second call has no effect."""
    if _parameters:
        return
    _Prefix("set", """Set how gdbext reads source files and writes reports.

Usage: set gdbext SETTING VALUE

`show gdbext` lists all settings with their values.

Example:
  (gdb) set gdbext context-lines 3""")
    _Prefix("show", """Show how gdbext reads source files and writes reports.

Usage: show gdbext [SETTING]

Without SETTING, all settings are shown.""")
    new = Settings()
    made: tuple[_Setting, ...] = (
        _SourcePath(),
        _Choice("source", ("any", "path"), "which source files may be read", """\
any   Read the regular files that frames name, if their names end in .py or .pyw, and
      files in the folders of `set gdbext source-path`. This is the default.
path  Read only files in these folders. The target then cannot have another file read by
      naming it.""", lambda value: {
            "any": "Source files may be read wherever frames name them.",
            "path": "Source files may only be read in the folders of `show gdbext source-path`."}[value]),
        _Number("context-lines", (0, 20), new.context_lines,
                "the number of lines shown before and after a source line",
                "They show where in its function a frame is."),
        _Choice("colour", ("auto", "on", "off"), "whether reports are coloured", """\
With `auto`, the default, reports are coloured if GDB's own output is (see `show style
enabled`) and the output is a terminal. The environment variable NO_COLOR switches
colours off, FORCE_COLOR switches them on.""",
                lambda value: f'Colour of reports is "{value}"'
                + (f" (currently {'on' if settings().wants_colour else 'off'})." if value == "auto" else ".")),
        _Number("locals-depth", (0, 10), new.locals_depth,
                "the number of levels of containers shown in a variable's value",
                "Deeper levels are shown as an ellipsis."),
        _Number("locals-items", (1, 1000), new.locals_items,
                "the number of items shown of each container in a variable's value",
                "The number of the remaining items is shown."),
        _Number("locals-width", (10, 10_000), new.locals_width,
                "the number of characters shown of a variable's value", "Longer values are truncated."),
        _Choice("load-symbols", ("on-stacks", "all"), "the libraries whose symbols are read", """\
This setting has an effect only with `set auto-solib-add off`, which keeps GDB from
reading the symbols of every library while it attaches to a process and the process is
paused.

on-stacks  Read the symbols of libraries with frames on stacks: when a command of gdbext
           needs them, and before each prompt for the selected thread's stack. This is
           the default.
all        Read the symbols of all libraries at the first command of gdbext.""", lambda value: (
            f'The setting for libraries whose symbols are read is "{value}"'
            + (" (no effect: auto-solib-add is on)." if gdb.parameter("auto-solib-add") else "."))),
        _Choice("verdict-in-editors", ("on", "off"), "whether an editor shows the verdict when it attaches", """\
With `on`, the default, an editor that uses the Debug Adapter Protocol shows one line in
its debug console: once for each process that it attaches to, and for each core.""",
                lambda value: f'Whether an editor shows the verdict when it attaches is "{value}".'),
        _Choice("object-names", ("on", "off"), "whether an object that has a lock is named by one of its values", """\
on   A lock in an attribute of a Python object is shown with the value of the object's
     attribute `name`, `id`, `path`, `key`, `title` or `uuid`, for example
     "src.lock of Account 'alice'". This is the default.
off  No such value is read. Reports then do not contain it.""", lambda value: {
            "on": "An object that has a lock is named by one of its values.",
            "off": "An object that has a lock is not named by its values."}[value]),
        _Number("max-pause", (1, 3600), new.max_pause,
                "the number of seconds for which a command reads a live process",
                "The report then has what was known, and says so. Cores have no such limit."))
    _parameters.update((setting.name, setting) for setting in made)


def settings() -> Settings:
    """Return the current values."""
    if not _parameters:
        return Settings()
    path, source, context_lines, colour, depth, items, width, load_symbols, verdict, object_names, max_pause = (
        setting.kept for setting in _parameters.values())
    return Settings(tuple(path.split(":")) if path else (), source == "any", context_lines, colour, depth, items, width,
                    load_symbols == "all", verdict == "on", object_names == "on", max_pause)


def terminal_width() -> int | None:
    """Return the number of columns for a line: ``set width``, which GDB adapts to the terminal; None for no limit."""
    width = gdb.parameter("width")
    # GDB's pager counts a line that fills the terminal as two
    return max(width - 1, 1) if isinstance(width, int) and width > 0 else None
