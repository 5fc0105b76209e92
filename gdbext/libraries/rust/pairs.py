"""Locks of Rust's standard library and of parking_lot, which atomic instructions acquire and guards release."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from gdbext.inferior.protocol import Target
from gdbext.libraries.rust.guards import Cleanup, Guards
from gdbext.model.kinds import LockKind
from gdbext.proofs.flow.atomics import Inlined
from gdbext.proofs.functions import LockFunctions
from gdbext.proofs.linkage import Linkage
from gdbext.proofs.pairs import Pairs
from gdbext.proofs.program import Program
from gdbext.proofs.rules import FrameRules, Sought
from gdbext.proofs.stack import Stack, place_of
from gdbext.record import record
from gdbext.runtimes.names import rust_name, without_hashes

#: The state of a `RwLock` that a writer holds.
_WRITER: Final = (1 << 30) - 1
#: The functions of parking_lot, and those of Rust's standard library that acquire a lock and call no other code.
_WAITING = re.compile(r"<?parking_lot(_core)?::"
                      r"|<?std::sync::.*\b(mutex::Mutex<.+>::lock|rwlock::RwLock<.+>::(read|write))(<.*>)?$"
                      r"|<?std::sys::sync::(mutex|rwlock)::")


class RustRules(FrameRules):
    """A guard in a frame proves that the thread holds the lock, if no inner frame has given it back."""

    def __init__(self, functions: LockFunctions, target: Target, program: Program, linkage: Linkage,
                 dropped: Inlined) -> None:
        super().__init__(functions, target, program, linkage)
        self._guards = Guards(target, program, functions.analysis, dropped)
        # by the number of a thread and the index of a frame
        self._cleanups: dict[tuple[int, int], Cleanup | None] = {}

    def has_guard(self, stack: Stack, index: int, lock: Sought) -> bool:
        """Whether a destructor of a frame would release the lock, which no inner frame has given back."""
        if not index or lock.is_shared is None:
            return False
        key = stack.number, index
        if key not in self._cleanups:
            self._cleanups[key] = self._guards.find_cleanup(place_of(stack, index), stack.registers(index))
        cleanup = self._cleanups[key]
        if (cleanup is None or lock.address not in cleanup.releases
                or (lock.address in cleanup.shared) != lock.is_shared):
            return False
        callee = self.program.function_range(place_of(stack, index - 1))
        return callee is not None and callee[0] not in cleanup.helpers and not any(
            self.may_have_released(stack, inner, lock.address)
            for inner in range(index) if not self._is_wait(stack, inner))

    def _is_wait(self, stack: Stack, index: int) -> bool:
        """Whether a frame is of a function in which the thread waits for another lock."""
        name = self.program.symbol(stack.native[index][0], index).function
        return name is not None and _WAITING.match(rust_name(name) or without_hashes(name)) is not None


@record
class RustPairs(Pairs):
    """Locks whose guards release them by atomic instructions."""

    @property
    def has_guards(self) -> bool:
        """Whether guard objects prove that a thread holds a lock."""
        return True

    def rules(self, functions: LockFunctions, target: Target, program: Program, linkage: Linkage) -> FrameRules:
        """The rules for the frames of a snapshot."""
        assert self.inlined is not None
        return RustRules(functions, target, program, linkage, self.inlined)


PAIRS: Final[Mapping[LockKind, Pairs]] = {
    # Rust 1.62 to 1.95 library/std/src/sys/sync/mutex/futex.rs: 1 is locked, 2 is locked with waiting threads.
    # It is released by an exchange for 0 only
    "rust-mutex": RustPairs(inlined=Inlined(4, frozenset((1, 2)), frozenset(("exchanges",)))),
    # the same releases, rwlock/futex.rs: the number of readers in 30 bits, all of them set for a writer, and above it
    # what waits
    "rust-rwlock": RustPairs(inlined=Inlined(4, frozenset((_WRITER,)), frozenset(("adds", "computes")),
                                         frozenset((1, _WRITER)), frozenset((1, _WRITER)))),
    # parking_lot 0.12.1 src/raw_mutex.rs, raw_rwlock.rs: a byte that is 1, and a word that counts readers from bit 4
    # on. A destructor exchanges the value of a lock that nobody waits for, and otherwise calls a function. Bit 2 is
    # that of an upgradable reader, whose release depends on the value
    "parking-lot-mutex": RustPairs(inlined=Inlined(1, frozenset(), frozenset(("compares",)), zero_frees=True)),
    "parking-lot-rwlock": RustPairs(inlined=Inlined(8, frozenset(), frozenset(("compares", "adds")),
                                                subtracted=frozenset((16, 16 | 4)), zero_frees=True)),
}
