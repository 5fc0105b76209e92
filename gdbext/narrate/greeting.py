"""The first lines of a GDB that `gdbext attach` starts."""

from __future__ import annotations

from collections.abc import Iterator

from gdbext.narrate.words import Foreign, Words


def greeting(target: str, headline: Words, crashed: bool) -> Iterator[Words]:
    """The verdict, the commands that explain it, and the command that lists all others.

    :param target: ``process 4711``, or the name of a core.
    """
    yield (Foreign(target, 300), ": ", *headline)
    explains = "py-crash explains it" if crashed else "py-deadlocks explains it"
    yield (f"{explains}, py-threads-locks shows every thread, py-mixed-bt the selected one",)
    yield ("help gdbext lists all commands",)
