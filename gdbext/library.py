"""`Library`: how a library in `gdbext.libraries` describes itself, with its lock kinds (`Kind`) and sentences.

Nothing here or in the ``__init__.py`` of a library reads the target, so a report can be worded without the decoders.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from typing import Literal, Union

from gdbext.record import record

#: A sentence: a format string for `str.format`, or a function if the words depend on the arguments. Arguments that are
#: reasons arrive as sentences.
Wording = Union[str, Callable[..., str]]
#: How many items of a list are named.
MANY = 4

#: What a lock is.
Behaviour = Literal[
    "lock",        # one thread holds it
    "rwlock",      # likewise, or several readers do
    "file-lock",   # likewise; it is outside of the process unless only this process holds it
    "event",       # any thread may end the wait; if holders are known, any of them
    "work",        # likewise; if holders are known, all of them have to finish
    "barrier",     # its holders are the threads that have not arrived yet
    "team",        # likewise, and a team without work waits there for the next
    "thread-end",  # the holder is that thread
    "pause",       # of all threads of an interpreter
    "outside",     # not a lock but something outside of the process
]


@record
class Kind:
    """A row. The defaults are those of a plain lock that does not record its owner."""

    #: how its holders are found, as docs/support.md shows it
    found: str = "not known"
    #: the functions in which threads wait for it, as docs/support.md shows them
    waited_in: str = ""
    #: what people call it, before its address and name; None: the kind
    name: str | None = None
    #: what a reader sees instead of the kind and the address
    title: str | None = None
    #: the words before the holders, if not "held by"; empty where the title contains it
    held: str | None = None
    #: the verb between a holder and the lock
    holds: str = "holds"
    #: what it is, which says how a wait for it ends
    behaviour: Behaviour = "lock"
    #: whether the lock itself names its owner
    records_owner: bool = False
    #: why nobody is known to hold it, for kinds that have no owner
    no_owner: str | None = None
    #: who may release it, unless it is shared with other processes: threads of this process, these and signal handlers
    #: of C, these and signal handlers of Python, which run in the first thread; or others, if that is not certain
    released_by: Literal["own-threads", "signal-handlers", "python-handlers", "others"] = "own-threads"
    #: whether nobody holds it for the moment in which it goes from one thread to the next
    passed_on: bool = False
    #: whether its waiters sleep, wake up regularly to ask for it, or run
    waiters: Literal["sleep", "wake", "spin"] = "sleep"
    #: whether the first thread of a program may wait for it only to end the program
    may_end_program: bool = False
    #: whether it is an operation that ends when other ranks of a job take part
    of_ranks: bool = False
    #: bytes from its futex word to the TID of the owner, of a lock that processes may share
    owner_offset: int | None = None

    @property
    def is_event(self) -> bool:
        """Whether a waiter waits until any other thread wakes it, unless a thread holds it."""
        return self.behaviour in ("event", "work", "team")

    @property
    def gathers(self) -> bool:
        """Whether its holders are the threads that have not arrived yet."""
        return self.behaviour in ("barrier", "team")

    @property
    def wait_for(self) -> Literal["all", "any"]:
        """Whether a waiter needs ``all`` holders to release it or ``any`` one of them."""
        return "any" if self.behaviour in ("event", "outside") else "all"

    @property
    def own_threads_only(self) -> bool:
        """Whether only threads of the process and signal handlers release it, unless it is shared."""
        return self.released_by != "others" and self.behaviour != "outside"


@record
class Library:
    """A library, with the parts of `gdbext` that know it.

    `folder` is its folder in `gdbext.libraries`. `files` matches the beginning of the names of its files; None if its
    code may be in any file. `words` has the sentence for each reason code of the library, `terms` what sentences call
    its locks and places.

    Further modules in the folder are loaded when a snapshot needs them: ``waits`` says what threads wait for.
    """

    folder: str
    files: str | None
    kinds: Mapping[str, Kind]
    words: Mapping[str, Wording] = field(default_factory=dict)
    terms: Mapping[str, str] = field(default_factory=dict)
    #: whether it makes machine code while it runs, which nothing describes
    makes_code: bool = False
    #: the reasons of threads of its pool that cannot finish a job
    idle: Collection[str] = ()
    #: the kinds whose holders the module ``holders`` finds
    finds_holders: Collection[str] = ()
    #: the kinds of which the module ``pairs`` has the functions that acquire and release them
    proven: Collection[str] = ()
    #: whether the module ``ranks`` reads what a process does as a member of a job
    has_ranks: bool = False

    def has(self, file: str) -> bool:
        """Whether a file is one of the library's, by its name."""
        return self.files is not None and re.match(self.files, file) is not None

    def modules(self) -> list[str]:
        """The further modules of the library; see `gdbext.locks.library_parts`."""
        parts = ["waits", *(["holders"] if self.finds_holders else []), *(["pairs"] if self.proven else []),
                 *(["ranks"] if self.has_ranks else [])]
        return [f"gdbext.libraries.{self.folder}.{part}" for part in parts]

    def may_be_in(self, files: Collection[str]) -> bool:
        """Whether a process with these files, given by their names, may have the library."""
        return self.files is None or any(map(self.has, files))


def listed(texts: Sequence[object], count: int | None = None) -> str:
    """List the first few texts, and how many more there are; `count` is the total if not all are given."""
    count = len(texts) if count is None else count
    named = [str(text) for text in texts]
    if count > MANY:
        return f"{', '.join(named[:MANY])} and {count - MANY} more"
    return " and ".join([part for part in (", ".join(named[:-1]), *named[-1:]) if part])


def have(count: int, noun: str = "thread") -> str:
    """``1 thread has``, ``2 threads have``."""
    return f"{count} {noun}{' has' if count == 1 else 's have'}"
