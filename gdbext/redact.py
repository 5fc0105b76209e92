"""Takes private details out of a report, so that it can be shown to others. Pure.

Functions, names of threads and locks, and the ends of file names remain: without them a report explains nothing.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from gdbext.model import Local, NamedObject, Problem, Report, TargetInfo
from gdbext.model.frames import LIBRARY
from gdbext.model.ranks import Identity
from gdbext.model.reasons import Reason, because, find_reasons

_Value = TypeVar("_Value")

#: The code of the reason that lists what was taken out, and what that may be, in the order of the list.
REDACTED = "redacted"
TAKEN = ("arguments", "host", "user", "folders", "addresses", "values", "object-names", "messages", "source")
#: File names that say nothing without their folder.
_OF_FOLDER = ("__init__.py", "__main__.py")
#: Replacements for private details.
_LEFT_OUT, _HOST, _USER, _ADDRESS = "...", "HOST", "USER", "ADDRESS"
#: Folders that are the same on each machine.
_SYSTEM = re.compile(r"/(?:usr/(?!local/|home/)|lib\w*/|s?bin/|dev/|proc/|sys/)")
_HOME = re.compile(r"/(?:home|Users)/([^/]+)(?=/|$)|/root(?=/|$)")
#: A path in a sentence; and a value that is a path, perhaps after the number of its descriptor.
_PATH = re.compile(r"(?<![\w.~<>/-])/[^\s:;,()\"'<>]*/[^\s:;,()\"'<>]*")
_WHOLE_PATH = re.compile(r"((?:fd \d+, )?)((?:/|\.{1,2}/).*)", re.DOTALL)
_NET = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])|\[[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*\]|"
                  r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+|(?<=://)[\w.-]+")
_THIS_MACHINE = re.compile(r"127\.|0\.0\.0\.0$|\[::1?\]$|localhost$")
#: Names of users that say nothing about a person; and words of the model, which are never a name.
_COMMON = frozenset(("root", "user", "app", "nobody", "daemon", "runner", "ubuntu", "localhost"))
_TERM = re.compile(r"[a-z][a-z-]*")
#: Members with a path, with a command line, and with text that the program has made.
_PATHS = frozenset(("file", "module", "path", "link", "folder", "core", "target"))
_COMMANDS = frozenset(("command", "program"))
_MESSAGES = frozenset(("message", "second"))
#: Messages of the C library and of Python contain no values.
_HARMLESS = re.compile(r"(?:free|malloc|realloc|calloc|munmap_chunk|mremap_chunk|unlink_chunk)\w*\(\)[: ]|double free|"
                       r"corrupted |\*\*\* |Fatal Python error|a fatal error")
_SCRIPT = re.compile(r"[\w.-]+\.pyw?")
_MODULE = re.compile(r"[A-Za-z_][\w.]*")


def redact(report: Report, names: Collection[str] = (), source: bool = False) -> Report:
    """Take private details out of a report; its last problem says which.

    :param names: names of users and machines that the report may contain.
    :param source: whether its source lines are shown.
    """
    redaction = Redaction(report, names)
    made = redaction(report)
    whole = redaction.taken | (_earlier([report]) or set()) | (set() if source else {"source"})
    taken = tuple(what for what in TAKEN if what in whole)
    kept = [problem for problem in made.problems if problem.why.code != REDACTED]
    return replace(made, problems=(*kept, Problem("target", "not applicable", because("redacted", taken=taken))))


def taken_out(reports: Iterable[Report]) -> Reason | None:
    """What was taken out of reports, all together; None of reports with everything."""
    taken = _earlier(reports)
    return None if taken is None else because("redacted", taken=tuple([what for what in TAKEN if what in taken]))


def _earlier(reports: Iterable[Report]) -> set[object] | None:
    found = [why for report in reports for problem in report.problems for why in find_reasons(problem.why, REDACTED)]
    return {what for why in found for _, names in why.arguments if isinstance(names, tuple) for what in names
            } if found else None


def program_of(command: str) -> str:
    """The base name of a program, and that of its script or module if it is Python.

    :param command: its command line.
    """
    first, *others = command.split() or [""]
    name = first.rpartition("/")[2]
    if not name.startswith("python"):
        return name
    for word, following in zip(others, [*others[1:], ""]):
        if word == "-m" and _MODULE.fullmatch(following):
            return f"{name} -m {following}"
        script = word.rpartition("/")[2]
        if _SCRIPT.fullmatch(script):
            return f"{name} {script}"
        if not word.startswith("-"):
            break
    return name


@functools.lru_cache(1 << 12)
def short_path(path: str) -> str:
    """A path without the folders that differ between machines: of a file of a package, only those of the package."""
    libraries = list(LIBRARY.finditer(path))
    if libraries and not path.startswith("<"):
        start = libraries[-1].start()
        return path if _SYSTEM.match(path) or start == 0 else f"{_LEFT_OUT}/{path[start:].lstrip('/')}"
    if _SYSTEM.match(path) or path.startswith((f"{_LEFT_OUT}/", "~/", "<")):
        return path
    home = _HOME.match(path)
    parts = (path[home.end():] if home else path).strip("/").split("/")
    kept = parts[-2:] if parts[-1] in _OF_FOLDER else parts[-1:]
    if len(parts) == len(kept):
        return f"~/{'/'.join(kept)}" if home else path
    return f"{_LEFT_OUT}/{'/'.join(kept)}"


class Redaction:
    """Takes private details out of values of the model, and remembers in `taken` which.

    :param report: shows the machine, and the users by whose homes files are named; None: there is none.
    :param names: further names of users and machines.
    :param hosts: those of them that are names of machines.
    """

    def __init__(self, report: Report | None, names: Collection[str] = (), hosts: Collection[str] = ()) -> None:
        self.taken: set[str] = set()
        self._hosts: dict[str, str] = {}
        hosts = {*hosts}
        users: set[str] = set()
        if report is not None:
            target, frames = report.target, [frame for thread in report.threads for frame in thread.stack]
            hosts |= {target.host, target.host.partition(".")[0]} if target.host else set()
            texts = [getattr(frame, "file", None) or "" for frame in frames]
            users = {found[1] for text in (*texts, target.command_line or "", target.executable or "")
                     for found in _HOME.finditer(text) if found[1]}
        self._names = {name: _HOST if name in hosts else _USER for name in (*names, *users, *hosts)
                       if len(name) > 2 and name not in _COMMON}
        self._pattern = re.compile(
            rf"(?<!\w)(?:{'|'.join(map(re.escape, sorted(self._names, key=len, reverse=True)))})(?!\w)"
        ) if self._names else None

    def __call__(self, value: _Value) -> _Value:
        """A copy of a value without private details."""
        made: _Value = self._any(value, "")
        return made

    def _any(self, value: Any, member: str) -> Any:
        if type(value) is str:
            return self._text(value, member)
        if isinstance(value, Reason):
            return Reason(value.code, tuple([(name, self._any(each, name)) for name, each in value.arguments]))
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self._record(value)
        if type(value) in (tuple, list):
            shown = [each for each in value if not isinstance(each, Local)]
            if len(shown) < len(value):
                self.taken.add("values")
            return type(value)([self._any(each, member) for each in shown])
        if isinstance(value, Mapping):
            return {self._any(key, ""): self._any(each, member) for key, each in value.items()}
        return value

    def _record(self, value: Any) -> Any:
        if isinstance(value, NamedObject):
            self.taken.add("object-names")
            return replace(value, value=_LEFT_OUT)
        if isinstance(value, TargetInfo):
            value = self._target(value)
        made = replace(value, **{
            each.name: new for each in dataclasses.fields(value)
            if (new := self._any(old := getattr(value, each.name), each.name)) is not old})
        if isinstance(value, Identity) and value.run is not None:
            return replace(made, run=None)
        registers = getattr(value, "registers", None)
        if registers:
            self.taken.add("values")
            return replace(made, registers={})
        return made

    def _target(self, target: TargetInfo) -> TargetInfo:
        command, path = target.command_line, target.executable
        if target.host is not None:
            self.taken.add("host")
        if command is not None and program_of(command) != command:
            self.taken.add("arguments")
        return replace(target, host=None, executable=path.rpartition("/")[2] if path is not None else None,
                       command_line=program_of(command) if command is not None else None)

    def _text(self, text: str, member: str) -> str:
        if member == "host":
            # the number of machines matters
            return self._changed("host", text, self._hosts.setdefault(text, f"{_HOST}{len(self._hosts) + 1}"))
        if member in _COMMANDS:
            return self._changed("arguments", text, program_of(text))
        if member in _MESSAGES and not _HARMLESS.match(text):
            return self._changed("messages", text, _LEFT_OUT)
        whole = _WHOLE_PATH.fullmatch(text)
        if whole and (whole[1] or member in (*_PATHS, "name", "names")):
            text = self._changed("folders", text, whole[1] + short_path(whole[2]))
        elif member == "file" or member in _PATHS and "/" in text and "://" not in text:
            text = self._changed("folders", text, short_path(text))
        else:
            text = self._changed("folders", text, _PATH.sub(lambda found: short_path(found[0]), text))
        text = self._changed("addresses", text, _NET.sub(_without_address, text))
        if self._pattern is None or _TERM.fullmatch(text) and not member.endswith("name"):
            return text
        for found in self._pattern.findall(text):
            self.taken.add("host" if self._names[found] == _HOST else "user")
        return self._pattern.sub(lambda found: self._names[found[0]], text)

    def _changed(self, what: str, text: str, made: str) -> str:
        if text != made:
            self.taken.add(what)
        return made


def _without_address(found: re.Match[str]) -> str:
    if _THIS_MACHINE.match(found[0]):
        return found[0]
    return f"[{_ADDRESS}]" if found[0].startswith("[") else _ADDRESS
