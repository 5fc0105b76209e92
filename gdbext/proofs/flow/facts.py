"""What the instructions of one function do that its summary needs, recorded when the states are settled."""

from __future__ import annotations

from collections.abc import Mapping

from gdbext.arch.protocol import Instruction
from gdbext.proofs.flow.locks import release
from gdbext.proofs.flow.state import CONSTANT, State, Value, entry

#: Stands for the register of a value that is a constant.
_CONSTANT = "constant"


class Facts:
    """What instructions do.

    While `block` is the address of a block, what its instructions do is recorded with that address: `calls` with the
    register that contains each argument at the function's entry, the locks that they release but have not acquired, and
    the places to which they store. `used` are the arguments that they read; see `Escapes`. `given_back` are locks that
    the function has acquired on every path to a release of them, and `acquired_by` the functions that have acquired
    locks.
    """

    def __init__(self) -> None:
        self.block: int | None = None
        self.calls: list[tuple[int, int | None, Mapping[str, str | None]]] = []
        self.released: list[tuple[int, Value | None]] = []
        self.given_back: set[Value] = set()
        self.stored: list[tuple[int, str | None]] = []
        self.used: set[str] = set()
        self.acquired_by: dict[Value, int] = {}

    def note_uses(self, instruction: Instruction, state: State) -> None:
        """Record the arguments that an instruction reads from the registers in which they were passed."""
        if self.block is not None:
            self.used.update(name for name in instruction.read if state.values.get(name) == entry(name))

    def note_store(self, at: Value | None, state: State) -> None:
        """Record that an instruction stores a value."""
        origin = origin_of(at)
        if self.block is not None and origin != state.cpu.STACK_POINTER:
            self.stored.append((self.block, None if origin == _CONSTANT else origin))

    def note_call(self, called: int | None, state: State) -> None:
        """Record a call with its arguments."""
        if self.block is not None:
            self.calls.append((self.block, called, {
                name: origin_of(state.values.get(name)) for name in state.cpu.ARGUMENTS}))

    def release(self, lock: Value | None, state: State) -> None:
        """Release a lock, or any lock, and record it."""
        if self.block is not None and (lock is None or lock not in state.held):
            self.released.append((self.block, lock))
        elif lock is not None:
            self.given_back.add(lock)
        release(state, lock)


def origin_of(value: Value | None) -> str | None:
    """The register at the function's entry from which a value is computed, or `_CONSTANT`; None for others."""
    if value is None or value.base[0] != "entry":
        return _CONSTANT if value is not None and value.base == CONSTANT else None
    return str(value.base[1])


def stores_of(places: frozenset[str | None], origins: Mapping[str, str | None],
              stack_pointer: str) -> frozenset[str | None]:
    """The places outside of the frame to which a call stores; see `Escapes`.

    :param origins: the register that contains each argument at the function's entry; see `origin_of`.
    """
    found = {origins.get(name) if name is not None else None for name in places}
    if _CONSTANT in found:
        found.add(None)
    return frozenset(found - {_CONSTANT, stack_pointer})
