"""Waits for locks of Rust code: those of the crate parking_lot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gdbext.errors import if_unreadable
from gdbext.glibc.futex import FUTEX_WAIT, PRIVATE, FutexWait
from gdbext.inferior.cache import read_u64
from gdbext.inferior.protocol import Module, Target
from gdbext.model import EXCLUSIVE, SHARED, Mode
from gdbext.model.kinds import LockKind
from gdbext.model.reasons import because
from gdbext.runtimes import parking_lot
from gdbext.runtimes.names import rust_name
from gdbext.threads.code import Code
from gdbext.threads.site import MAX_DEPTH, Sites
from gdbext.threads.threads import SeenThread
from gdbext.waits.seen import MENTIONS, READERS, SeenLock

_MUTEX: Final = "parking-lot-mutex"
_RWLOCK: Final = "parking-lot-rwlock"
_CONDVAR: Final = "parking-lot-condvar"
_ONCE: Final = "parking-lot-once"
#: What the names of the functions contain that wait for each kind.
_NAMES: tuple[tuple[str, LockKind], ...] = (
    ("parking_lot::raw_mutex::", _MUTEX), ("parking_lot::raw_rwlock::", _RWLOCK), ("parking_lot::condvar::", _CONDVAR),
    ("parking_lot::once::", _ONCE))
#: Sections with the variables of a file, and the most copies of the crate in one file that are searched for.
_VARIABLES, _MAX_COPIES = (".bss", ".data"), 8


class Rust:
    """The waits of threads in Rust code. Tables of parking_lot are searched for when the first thread sleeps in it."""

    def __init__(self, target: Target, code: Code, sites: Sites) -> None:
        self._memory = target.memory
        self._code = code
        self._sites = sites
        # path of a file -> addresses of the variables that point to tables, one for each search; None was not found
        self._tables: dict[str, list[int | None]] = {}

    @if_unreadable(None)
    def find_lock(self, seen: SeenThread, futex: FutexWait) -> SeenLock | None:
        """What a thread waits for that sleeps on a futex word of Rust code; None for any other wait."""
        if futex.op != FUTEX_WAIT | PRIVATE or futex.expected != parking_lot.PARKED:
            return None
        parked = parking_lot.read_parked(self._memory, futex.address)
        if parked is None:
            return None
        native = seen.native(self._code)
        caller = self._sites.site(native).caller
        module = self._code.module(native[caller][0]) if caller is not None else None
        if caller is None or module is None or not self._is_in_queue(module, parked):
            return None
        names = self._names(native, caller)
        kind = next((kind for part, kind in _NAMES if any(part in name for name in names)), None)
        return None if names and kind is None else self._decode(parked, kind)

    def _is_in_queue(self, module: Module, parked: parking_lot.ParkedThread) -> bool:
        """Whether a table of the crate in a file proves that a thread waits for its key."""
        known = self._tables.setdefault(module.path, [])
        if any(at is not None and parking_lot.is_in_queue(self._memory, read_u64(self._memory, at), parked)
               for at in known):
            return True
        if len(known) >= _MAX_COPIES or None in known:
            return False
        found = [parking_lot.find_table(self._memory, section.start, section.end, parked)
                 for section in module.sections if section.name in _VARIABLES]
        known.append(next((at for at in found if at is not None), None))
        return known[-1] is not None

    def _names(self, native: Sequence[tuple[int, int]], caller: int) -> list[str]:
        """The names of the functions of one file in which a thread waits, innermost first."""
        names = []
        module = self._code.module(native[caller][0])
        for index in range(caller, min(len(native), caller + MAX_DEPTH)):
            function = self._code.symbol(native[index][0], index).function
            if function is None or self._code.module(native[index][0]) is not module:
                break
            names.append(rust_name(function) or function)
        return names

    def _decode(self, parked: parking_lot.ParkedThread, kind: LockKind | None) -> SeenLock | None:
        """The lock at a thread's key.

        :param kind: what the functions show that wait; None if they have no names.
        """
        found: list[SeenLock] = []
        if kind in (None, _RWLOCK):
            state = parking_lot.decode_rwlock(self._memory, parked)
            if state is not None:
                found.append(_rwlock(state, parked.token))
        if kind in (None, _MUTEX, _CONDVAR) and not parked.token:
            # a signal moves the threads that wait for a condition variable to the queue of the mutex
            locked = parking_lot.is_locked_mutex(self._memory, parked.key)
            mutex = parking_lot.mutex_of_condvar(self._memory, parked.key) if kind != _MUTEX else None
            if mutex is not None:
                found.append(SeenLock(_CONDVAR, parked.key, "waiting for a signal",
                                      why=because("condvar-has-no-owner")))
            if locked is not None and not (kind and mutex):
                found.append(_lock(_MUTEX, parked.key, locked))
        if kind in (None, _ONCE) and not parked.token and parking_lot.is_running_once(self._memory, parked.key):
            found.append(SeenLock(_ONCE, parked.key, "in progress", find_holders=MENTIONS,
                                  why=because("records-no-owner", what=_ONCE)))
        return found[0] if len(found) == 1 else None


def _lock(kind: LockKind, address: int, locked: bool) -> SeenLock:
    if not locked:
        return SeenLock(kind, address, "free", why=because("lock-about-to-be-taken"))
    return SeenLock(kind, address, "locked", find_holders=MENTIONS, why=because("records-no-owner", what=kind))


def _rwlock(state: parking_lot.RwLockState, token: int) -> SeenLock:
    mode: Mode = EXCLUSIVE if token == parking_lot.TO_WRITE else SHARED
    if state.readers:
        return SeenLock(_RWLOCK, state.address, state.state, mode, count=state.readers, find_holders=READERS)
    if state.state == "free":
        return SeenLock(_RWLOCK, state.address, state.state, mode, why=because("lock-about-to-be-taken"))
    return SeenLock(_RWLOCK, state.address, state.state, mode, find_holders=MENTIONS,
                    why=because("records-no-owner", what=_RWLOCK))
