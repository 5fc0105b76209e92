"""Waits for locks of Rust code: those of the crate parking_lot, and those of the standard library."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from gdbext.elf.dynamic import DynamicSymbol, find_dynamic_symbol
from gdbext.errors import if_unreadable
from gdbext.glibc.futex import FUTEX_WAIT, FUTEX_WAIT_BITSET, PRIVATE, FutexWait
from gdbext.inferior.cache import read_u32, read_u64
from gdbext.inferior.protocol import Module
from gdbext.libraries.rust import parking_lot, std
from gdbext.libraries.rust.pools import WAITS_FOR_JOB, describe_wait
from gdbext.locks.library_parts import LibraryWaits
from gdbext.locks.scene import Scene
from gdbext.locks.seen import FREE, MENTIONS, NotRecorded, SeenLock, for_purpose, job_of_pool, without_owner
from gdbext.model import EXCLUSIVE, SHARED, Mode
from gdbext.model.kinds import LockKind, kind_of
from gdbext.model.reasons import because
from gdbext.remembered import remembered
from gdbext.runtimes.names import rust_name
from gdbext.threads.function_code import code_up_to
from gdbext.threads.site import MAX_DEPTH
from gdbext.threads.threads import SeenThread

_MUTEX: Final = "parking-lot-mutex"
_RWLOCK: Final = "parking-lot-rwlock"
_CONDVAR: Final = "parking-lot-condvar"
_ONCE: Final = "parking-lot-once"
#: What the names of the functions contain that wait for each kind.
_NAMES: tuple[tuple[str, LockKind], ...] = (
    ("parking_lot::raw_mutex::", _MUTEX), ("parking_lot::raw_rwlock::", _RWLOCK), ("parking_lot::condvar::", _CONDVAR),
    ("parking_lot::once::", _ONCE))
_STD_MUTEX: Final = "rust-mutex"
_STD_RWLOCK: Final = "rust-rwlock"
_STD_CONDVAR: Final = "rust-condvar"
_STD_ONCE: Final = "rust-once"
_STD_PARK: Final = "rust-park"
#: The same for functions of the standard library; in Rust up to 1.77 the modules have other names.
_STD_NAMES: tuple[tuple[str, LockKind], ...] = (
    ("Mutex::lock_contended", _STD_MUTEX), ("RwLock::read_contended", _STD_RWLOCK),
    ("RwLock::write_contended", _STD_RWLOCK), ("Condvar::wait", _STD_CONDVAR), ("Once::call", _STD_ONCE),
    ("Once::wait", _STD_ONCE), ("Parker::park", _STD_PARK), ("Thread::park", _STD_PARK),
    ("thread::functions::park", _STD_PARK), ("thread::park", _STD_PARK))
#: Most frames that are searched for the functions of a thread pool.
_MAX_FRAMES = 64
#: Most bytes of the function ``syscall``.
_SYSCALL_SIZE = 64
_CONSTANTS: Mapping[int, LockKind] = {std.MUTEX_WAITED_FOR: _STD_MUTEX, std.PARKED: _STD_PARK}
#: What GDB or `rust_name` add to names: brackets around the type of a method, and hashes.
_ADDED: Final = re.compile(r"<|>|\[[0-9a-f]+\]")
#: Sections with the variables of a file, and the most copies of the crate in one file that are searched for.
_VARIABLES, _MAX_COPIES = (".bss", ".data"), 8


class Rust(LibraryWaits):
    """The waits of threads in Rust code. Tables of parking_lot are searched for when the first thread sleeps in it."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        # path of a file -> addresses of the variables that point to tables, one for each search; None was not found
        self._tables: dict[str, list[int | None]] = {}

    @if_unreadable(None)
    def find_lock(self, seen: SeenThread, futex: FutexWait) -> SeenLock | None:
        """What a thread waits for that sleeps on a futex word of Rust code; None for any other wait."""
        if futex.op == FUTEX_WAIT | PRIVATE and futex.expected == parking_lot.PARKED:
            find = self._find_parked
        elif futex.op == FUTEX_WAIT_BITSET | PRIVATE:
            find = self._find_std
        else:
            return None
        native = seen.native(self._code)
        module = self._code.module(native[1][0]) if len(native) > 1 and self._is_in_syscall(native[0][0]) else None
        lock = find(futex, native[1:], module) if module is not None else None
        if module is None or lock is None or lock.why is None or not kind_of(lock.kind).is_event:
            return lock
        pool = describe_wait([_ADDED.sub("", name) for name in self._names(native[1:], module, _MAX_FRAMES)])
        if pool is None:
            return lock
        if pool == WAITS_FOR_JOB and read_u32(self._memory, futex.address) == futex.expected:
            return job_of_pool(lock, pool)
        return for_purpose(lock, because(pool))

    def describe_unknown(self, futex: FutexWait) -> str | None:
        """Whether a futex word that fits no kind may be of Rust: its standard library has calls of this form only."""
        return "rust" if futex.op == FUTEX_WAIT_BITSET | PRIVATE and not futex.timed else None

    def _is_in_syscall(self, pc: int) -> bool:
        """Whether an address is in ``syscall`` of the C library, which Rust code calls; the library's locks do not."""
        module = self._code.module(pc)
        symbol = self._syscall(module) if module is not None and self._sites.in_runtime(pc) else None
        return symbol is not None and 0 <= pc - symbol.address < _SYSCALL_SIZE

    @remembered
    def _syscall(self, module: Module) -> DynamicSymbol | None:
        return find_dynamic_symbol(self._memory, module, "syscall")

    def _find_parked(self, futex: FutexWait, native: Sequence[tuple[int, int]], module: Module) -> SeenLock | None:
        parked = parking_lot.read_parked(self._memory, futex.address)
        if parked is None or not self._is_in_queue(module, parked):
            return None
        names = self._names(native, module)
        kind = next((kind for part, kind in _NAMES if any(part in name for name in names)), None)
        return None if names and kind is None else self._decode(parked, kind)

    def _find_std(self, futex: FutexWait, native: Sequence[tuple[int, int]], module: Module) -> SeenLock | None:
        name = _ADDED.sub("", next(iter(self._names(native[:1], module)), ""))
        kind = next((kind for part, kind in _STD_NAMES if name.startswith("std::") and part in name), None)
        if kind is None:
            if not self._has_std(module):
                return None
            kind = self._std_kind(futex, native[0][0])
        return self._decode_std(futex, kind) if kind is not None else None

    @remembered
    def _has_std(self, module: Module) -> bool:
        return any(std.has_library(self._memory, section) for section in module.sections
                   if section.name == ".rodata")

    @remembered
    def _expects(self, pc: int) -> Literal["constant", "variable", "unknown"]:
        """What code that sleeps expects of its word.

        :param pc: the return address of the call of ``syscall(SYS_futex, word, op, expected, ...)``.
        """
        instructions = code_up_to(self._target, self._code, pc)
        if len(instructions) < 2 or instructions[-2].kind != "call":
            return "unknown"
        cpu = self._code.cpu
        origin = cpu.origin(instructions, len(instructions) - 2, cpu.ARGUMENTS[3])
        if origin is None or origin.kind == "argument":
            return "unknown"
        if origin.kind == "constant":
            return "constant" if origin.certain else "unknown"
        # a constant is the same on all paths, so one path with another value is enough; a slot may contain a constant
        in_slot = origin.operand is not None and origin.operand.base_register == cpu.STACK_POINTER
        return "unknown" if in_slot else "variable"

    def _std_kind(self, futex: FutexWait, pc: int) -> LockKind | None:
        """The kind of a lock of the standard library whose functions have no names, or are inlined.

        A mutex and a parked thread expect a constant. A read-write lock may have the same value as a parked thread.
        Otherwise the word counts signals of a condition variable, if its value is not one of a lock.
        """
        if futex.expected in _CONSTANTS:
            expects = self._expects(pc)
            if expects != "variable":
                return _CONSTANTS[futex.expected] if expects == "constant" else None
        if std.rwlock_of_reader(self._memory, futex.address, futex.expected) is not None:
            return _STD_RWLOCK
        if std.is_surely_of_writer(self._memory, futex.address, self._scene.sleepers):
            return _STD_RWLOCK
        if std.rwlock_of_writer(self._memory, futex.address) is not None:
            return None
        return _STD_CONDVAR if futex.expected not in std.ONCE_WAITED_FOR else None

    def _decode_std(self, futex: FutexWait, kind: LockKind) -> SeenLock | None:
        if kind == _STD_MUTEX:
            locked = std.is_locked_mutex(self._memory, futex.address)
            fits = locked is not None and futex.expected == std.MUTEX_WAITED_FOR
            return _lock(kind, futex.address, bool(locked)) if fits else None
        if kind == _STD_RWLOCK:
            mode: Mode = SHARED
            state = std.rwlock_of_reader(self._memory, futex.address, futex.expected)
            if state is None:
                mode, state = EXCLUSIVE, std.rwlock_of_writer(self._memory, futex.address)
            return _rwlock(kind, state, mode) if state is not None else None
        if kind == _STD_ONCE:
            return SeenLock(kind, futex.address, "in progress", held=NotRecorded(MENTIONS),
                            why=because("records-no-owner", what="rust"))
        if kind == _STD_PARK:
            return SeenLock(kind, futex.address, "parked", why=because("park-has-no-owner"))
        return SeenLock(kind, futex.address, "waiting for a signal", why=because("condvar-has-no-owner"))

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

    def _names(self, native: Sequence[tuple[int, int]], module: Module, most: int = MAX_DEPTH) -> list[str]:
        """The names of the functions of one file in which a thread waits, innermost first."""
        names = []
        for pc, _ in native[:most]:
            function = self._code.symbol(pc, 1).function
            if function is None or self._code.module(pc) is not module:
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
                found.append(_rwlock(_RWLOCK, state, EXCLUSIVE if parked.token == parking_lot.TO_WRITE else SHARED))
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
            found.append(SeenLock(_ONCE, parked.key, "in progress", held=NotRecorded(MENTIONS),
                                  why=because("records-no-owner", what="parking-lot")))
        return found[0] if len(found) == 1 else None


def _lock(kind: LockKind, address: int, locked: bool) -> SeenLock:
    return without_owner(kind, address, "locked" if locked else FREE, _crate(kind))


def _rwlock(kind: LockKind, state: std.RwLockState, mode: Mode) -> SeenLock:
    return without_owner(kind, state.address, state.state, _crate(kind), mode, state.readers)


def _crate(kind: LockKind) -> str:
    return "rust" if kind.startswith("rust-") else "parking-lot"


WAITS = Rust
