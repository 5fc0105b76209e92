"""The error tree: what went wrong, said in one line, and what to try next.

`debugger.command` alone turns an error into a message; everybody else catches the narrow type where there is
a way to go on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

#: Mistakes of gdbext, which must not prevent the rest of a report.
INTERNAL = (AssertionError, AttributeError, ArithmeticError, LookupError, TypeError, ValueError, RecursionError)


class GdbextError(Exception):
    """Base of all errors that a user may see. `hint` says what to do next."""

    hint = ""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        if hint:
            self.hint = hint


class MemoryUnreadable(GdbextError):
    """`size` bytes at `address` are not mapped in the target, or not in the core."""

    hint = "check the address, or make the core with all its memory"

    def __init__(self, address: int, size: int) -> None:
        super().__init__(f"cannot read {size} bytes at {address:#x}")
        self.address = address
        self.size = size


class CorruptStructure(GdbextError):
    """The memory at `address` contradicts itself."""

    hint = "the memory may be damaged, or the address is not what it seems"

    def __init__(self, address: int, what: str) -> None:
        super().__init__(f"{what} (at {address:#x})" if address else what)
        self.address = address
        self.what = what


class UnknownLayout(GdbextError):
    """No table, debug offset or debug information contains the offsets of a structure's members."""

    hint = "install a later gdbext, which may know it, or add it as the documentation explains under `Layouts`"


class RuntimeNotFound(GdbextError):
    """The target has no Python, or none that can be recognised."""

    hint = "check with `info sharedlibrary` whether libpython or a python executable is loaded"


class ThreadUnavailable(GdbextError):
    """A thread has no registers: it runs, or is a ghost that the thread library invented."""

    hint = "stop it with `interrupt`"


class NoTarget(GdbextError):
    """GDB has no process and no core."""

    hint = "attach with `attach PID`, or load a core with `core-file FILE`"


class UsageError(GdbextError):
    """The command line cannot be understood."""


class MissingLibrary(UsageError):
    """A Python library that an option or a verb needs is not installed."""


class BadDocument(GdbextError):
    """A JSON document is not as its schema describes it. `path` leads to the bad part, `what` says what is wrong."""

    hint = "check that gdbext wrote the document, and that it is complete"

    def __init__(self, what: str, path: str = "") -> None:
        super().__init__(f"${path}: {what}")
        self.what = what
        self.path = path


_Function = TypeVar("_Function", bound=Callable[..., Any])


def if_unreadable(answer: object) -> Callable[[_Function], _Function]:
    """Have a function return a fixed answer where it raises a `GdbextError`.

    For functions that look for something in memory which may be damaged or missing.
    """
    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except GdbextError:
                return answer

        return cast(_Function, guarded)

    return decorate
