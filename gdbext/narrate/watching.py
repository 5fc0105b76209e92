"""The lines of `gdbext watch` about what it watches and finds."""

from __future__ import annotations

from collections.abc import Sequence

from gdbext.narrate.words import plural

#: How many processes a line names.
_MANY = 8


def begins(every: float, still: float) -> str:
    """How often processes are sampled, and when they are reported on; in seconds."""
    return f"a sample every {every:g} s, a report on a process that does not move for {still:g} s"


def watches(names: Sequence[str]) -> str:
    """Which processes are watched from now on."""
    return f"watches {_listed(names)}"


def ended(names: Sequence[str]) -> str:
    """Which processes are no longer watched."""
    return f"no longer there: {_listed(names)}"


def sample(processes: Sequence[tuple[str, float]]) -> str:
    """What a sample has found.

    :param processes: their names, and for how many seconds nothing has moved.
    """
    still = sorted([each for each in processes if each[1]], key=lambda each: -each[1])
    names = [f"{name} for {seconds:.0f} s" for name, seconds in still]
    return (f"{plural(len(processes), 'process')}, {len(processes) - len(still):,} moved" +
            (f"; nothing moved in {_listed(names)}" if names else ""))


def no_hang(verdict: str | None) -> str:
    """That a report has found no hang; without a verdict: the next one differs, so the process goes on."""
    return f"no hang: {'it goes on' if verdict is None else verdict}"


def hang(is_new: bool, verdict: str) -> str:
    """That a report has found a hang."""
    return f"{'a new hang' if is_new else 'the same hang as before'}: {verdict}"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MANY
    return ", ".join(names[:_MANY]) + (f" and {more:,} more" if more > 0 else "")
