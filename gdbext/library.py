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
    #: whether a waiter needs ``all`` holders to release it or ``any`` one of them
    wait_for: Literal["all", "any"] = "all"
    #: whether the lock itself names its owner
    records_owner: bool = False
    #: why nobody is known to hold it, for kinds that have no owner
    no_owner: str | None = None
    #: whether it may be held by several readers
    has_readers: bool = False
    #: whether its holders are the threads that have not arrived yet
    gathers: bool = False
    #: whether a waiter waits until any other thread wakes it, unless a thread holds it
    is_event: bool = False
    #: whether the first thread of a program may wait for it only to end the program
    may_end_program: bool = False
    #: whether programs also use it to wait for a signal: a Python signal handler runs in the first thread
    may_await_signal: bool = False
    #: whether a signal handler of C may release it
    handler_may_release: bool = False
    #: whether only threads of the process release it, unless it is shared with other processes
    own_threads_only: bool = False
    #: whether nobody holds it for the moment in which it goes from one thread to the next
    passed_on: bool = False
    #: whether its waiters wake up regularly to ask for it
    waiters_wake: bool = False
    #: whether its waiters run while they wait
    spins: bool = False
    #: whether it is not a lock but something outside of the process
    outside: bool = False
    #: whether it is outside of the process unless only this process holds it
    may_be_outside: bool = False
    #: whether its name is shown in place of its address
    by_name: bool = False
    #: whether it is the end of a thread: the holder is that thread
    ends_thread: bool = False
    #: whether it is about the pause of all threads of an interpreter
    stops_world: bool = False
    #: its structure in the C library
    structure: str | None = None
    #: bytes from its futex word to the TID of the owner
    owner_offset: int | None = None


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

    def has(self, file: str) -> bool:
        """Whether a file is one of the library's, by its name."""
        return self.files is not None and re.match(self.files, file) is not None

    def modules(self) -> list[str]:
        """The further modules of the library; see `gdbext.locks.library_parts`."""
        parts = ["waits", *(["holders"] if self.finds_holders else []), *(["pairs"] if self.proven else [])]
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
