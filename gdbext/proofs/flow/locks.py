"""What instructions and branches do to the locks of a state: which must be held, and which may be released."""

from __future__ import annotations

from gdbext.proofs.flow.state import CONSTANT, ONLY, Held, State, Taken, Value

#: Most locks that are known to be released.
_MAX_FREED = 16


def release(state: State, lock: Value | None) -> None:
    """Release a lock, and all locks that may be the same; None is any lock.

    A lock that every path holds is not the same as another one that they hold too: a second acquisition has succeeded,
    and one release ends one of them.
    """
    state.taken = {at: taken._replace(kept=False) if _may_be(state, taken, lock) else taken
                   for at, taken in state.taken.items()}
    if lock is None:
        state.held, state.attempts, state.freed = {}, {}, None
        return
    if state.held.pop(lock, None) is not None:
        state.attempts = {base: attempt for base, attempt in state.attempts.items() if attempt[0] != lock}
        return
    if state.freed is not None:
        state.freed = state.freed | {lock} if len(state.freed) < _MAX_FREED else None
    if lock.base == CONSTANT:
        state.held = {known: released if known.base == CONSTANT else released | {lock.offset}
                      for known, released in state.held.items()}
    elif lock.base[0] != ONLY:
        state.held = {known: released for known, released in state.held.items()
                      if known.base == lock.base and known.offset != lock.offset}
    state.attempts = {base: attempt for base, attempt in state.attempts.items()
                      if attempt[0].base == lock.base and attempt[0].offset != lock.offset}


def _may_be(state: State, taken: Taken, released: Value | None) -> bool:
    """Whether the lock that was released may be one that was taken."""
    lock = taken.lock
    if released is None or lock is None:
        return released is None or released not in state.held
    # as in `release`, one that this path holds is the one that it releases
    return lock == released or released not in state.held and (lock.base != released.base or lock.base[0] == ONLY)


def decide(state: State, is_zero: bool) -> None:
    """Continue on a path that is taken only if the last comparison with zero had this result."""
    attempt = state.attempts.get(state.compared) if state.compared is not None else None
    if attempt is not None and attempt[1] == is_zero:
        state.held[attempt[0]] = frozenset()
    elif attempt is not None:
        state.taken = {at: taken for at, taken in state.taken.items() if taken.lock != attempt[0]}


def has_taken(state: State, lock: Value | None) -> bool:
    """Whether every path to a place has taken a lock and kept it."""
    return lock is not None and any(
        taken.lock == lock and taken.always and taken.kept for taken in state.taken.values())


def in_both(known: Held | None, other: Held) -> Held:
    """Locks that are held on both of two paths."""
    if known is None:
        return other
    return {lock: released | other[lock] for lock, released in known.items() if lock in other}
