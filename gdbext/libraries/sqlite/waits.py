"""Threads in SQLite's busy handler. Which process has the database locked is known from /proc/locks.

The handler sleeps for 1, 2, 5, 10, 15, 20, 25, 25, 25, 50, 50 and then each time for 100 ms. The connection counts how
often, in ``BusyHandler.nBusy`` of its ``struct sqlite3``: ``xBusyHandler``, ``pBusyArg``, which is the connection
itself, and ``nBusy`` are followed by ``aDbStatic``, which begins with the name of the first database, ``main``. These
members identify the structure among the pointers on the thread's stack; its offsets differ between versions. Behind
``aDbStatic`` are ``pSavepoint``, ``nAnalysisLimit`` since 3.32, and ``busyTimeout``.

Source: SQLite 3.40 src/main.c (sqliteDefaultBusyCallback), src/sqliteInt.h (struct sqlite3, BusyHandler, Db), src/os.h
(PENDING_BYTE, SHARED_SIZE), src/os_unix.c (UNIX_SHM_BASE), src/sqlite3.h (SQLITE_SHM_NLOCK).
"""

from __future__ import annotations

import itertools
import struct
from functools import cached_property
from typing import Final, NamedTuple

from gdbext.errors import if_unreadable
from gdbext.inferior.awaited import read_timespec
from gdbext.inferior.cache import read_available, read_cstring
from gdbext.inferior.proc.fdinfo import FileLock
from gdbext.libraries.sqlite import DATABASE, LIBRARY
from gdbext.locks.library_parts import LibraryWaits
from gdbext.locks.seen import SeenLock, SeenWait
from gdbext.model import LONG
from gdbext.model.reasons import because
from gdbext.threads.threads import SeenThread

#: The argument of each call that is the time to sleep.
_SLEEPS: Final = {"nanosleep": 0, "clock_nanosleep": 2}
#: Which sleeps are the last ones, in seconds; how long those before took, and how many they are.
_LAST, _BEFORE, _FIRST = 0.1, 0.228, 11
#: What counts as waiting, in seconds: transactions of others end sooner.
_LONG: Final = 1
#: How much of a stack is searched for the connection, and how many pointers are tried.
_STACK, _MOST_POINTERS = 1 << 14, 512
#: How much of a connection is read: the busy handler is in the first kilobyte, and is followed by names.
_CONNECTION = struct.Struct("<160Q")
_MOST_TRIES = 10_000_000
#: From ``pBusyArg`` to the word with the timeout; the largest timeout, in milliseconds.
_TIMEOUT, _MOST = 11, 1 << 31
_WORD: Final = struct.Struct("<Q")
#: The bytes of a database, and of the index of its write-ahead log, that are locked.
_DATABASE: Final = (0x40000000, 0x40000000 + 511)
_INDEX, _SUFFIX = (120, 127), "-shm"
#: Most frames between the sleep and SQLite.
_MOST_FRAMES = 8


class _Busy(NamedTuple):
    """A connection (``sqlite3 *``) in its busy handler: for how long it has tried, and its timeout, in seconds."""

    connection: int
    waited: float
    timeout: float | None


class Databases(LibraryWaits):
    """The threads that wait for a database."""

    def find_wait(self, seen: SeenThread) -> SeenWait | None:
        """The database that a thread tries to lock; None for any other thread.

        It is a lock if this process has locked it, and the busy timeout ends after an hour or more.
        """
        busy = self._busy(seen)
        if busy is None or busy.waited < _LONG:
            return None
        waited = int(busy.waited)
        if self._locked is None:
            return SeenWait(because("waits-for-database", seconds=waited))
        path, lock = self._locked
        if lock.pid == self._target.pid and busy.timeout is not None and busy.timeout - busy.waited >= LONG:
            return SeenWait(None, SeenLock(DATABASE, busy.connection, "locked", name=path, repeats=True,
                                           why=because("tries-again", seconds=waited)))
        proc = self._target.proc
        by = proc.describe(lock.pid) if proc is not None and lock.pid > 0 else None
        return SeenWait(because("waits-for-database", seconds=waited, path=path, by=by))

    def _busy(self, seen: SeenThread) -> _Busy | None:
        """What is known of a thread that sleeps in the busy handler; None for any other thread."""
        call = seen.call
        if call is None or not call.blocked or call.name not in _SLEEPS or not self._in_handler(seen):
            return None
        seconds = read_timespec(self._memory, call.arguments[_SLEEPS[call.name]])
        return self._connection(seen) if seconds is not None and seconds >= _LAST else None

    def _connection(self, seen: SeenThread) -> _Busy | None:
        start = seen.registers.get(seen.cpu.STACK_POINTER, 0) & -8
        data = read_available(self._memory, start, _STACK)
        words = dict.fromkeys(word for word, in _WORD.iter_unpack(data[:len(data) & -8]) if word and not word % 8)
        for word in itertools.islice(words, _MOST_POINTERS):
            busy = self._busy_of(word)
            if busy is not None:
                return busy
        return None

    @if_unreadable(None)
    def _busy_of(self, connection: int) -> _Busy | None:
        """The busy handler of a connection (``sqlite3 *``); None if the pointer is not one."""
        members = _CONNECTION.unpack(self._memory.read(connection, _CONNECTION.size))
        for i in range(1, len(members) - 2):
            if members[i] != connection:
                continue
            module = self._code.module(members[i - 1])
            if (module is not None and LIBRARY.has(module.name)
                    and read_cstring(self._memory, members[i + 2], len("main") + 1) == b"main"):
                tries = members[i + 1] & 0xFFFFFFFF
                # two integers, one of which is the timeout in milliseconds; the other one is mostly 0
                after = members[i + _TIMEOUT] if i + _TIMEOUT < len(members) else 0
                first, second = after & 0xFFFFFFFF, after >> 32
                timeout = (first or second) / 1000 if not (first and second) and (first or second) < _MOST else None
                waited = _BEFORE + (tries - _FIRST) * _LAST
                return _Busy(connection, waited, timeout) if tries < _MOST_TRIES else None
        return None

    def _in_handler(self, seen: SeenThread) -> bool:
        """Whether SQLite itself has called the function that sleeps."""
        module = self._sites.calling_module(seen.native(self._code)[:_MOST_FRAMES])
        return module is not None and LIBRARY.has(module.name)

    @cached_property
    def _locked(self) -> tuple[str, FileLock] | None:
        """The database of this process that is locked to write, and the lock; None if there is none, or several."""
        proc = self._target.proc
        if proc is None:
            return None
        found = dict(proc.file_locks.of_open_files(*_DATABASE))
        found.update((path[:-len(_SUFFIX)], lock) for path, lock in proc.file_locks.of_open_files(*_INDEX)
                     if path.endswith(_SUFFIX))
        return next(iter(found.items())) if len(found) == 1 else None


WAITS = Databases
