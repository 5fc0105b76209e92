"""Guard objects of Rust: the locks that a frame's destructors would release if the call that it is in panicked.

Safe code can release a lock of Rust only by the destructor of its guard, and the compiler knows at each call which
guards exist. `Condvar::wait` and `MutexGuard::unlocked` give a lock back for a while: in the function itself the
landing pad acquires it again, and the rules examine the frames inside of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from gdbext.arch.protocol import ExceptionTable, Instruction
from gdbext.elf.except_table import LandingPad, find_landing_pad, iter_landing_pads
from gdbext.errors import if_unreadable
from gdbext.inferior.protocol import Target
from gdbext.proofs.analysis import LockAnalysis
from gdbext.proofs.flow.atomics import Inlined
from gdbext.proofs.landing_pads import LandingPads, Path, UnknownPath
from gdbext.proofs.program import Program
from gdbext.record import record

#: The routine whose cleanups are destructors of Rust. Other languages use landing pads for other purposes.
_PERSONALITY = "rust_eh_personality"


@record
class Cleanup:
    """The locks that every path of a landing pad releases before it acquires them, if it does.

    `shared` are those that a path releases for a reader. `helpers` are functions that get a lock after an instruction
    has released it, or has failed to.
    """

    releases: frozenset[int]
    shared: frozenset[int] = frozenset()
    helpers: frozenset[int] = frozenset()


class Guards(LandingPads):
    """Runs the landing pads of frames of Rust.

    :param dropped: the instructions by which destructors release locks.
    """

    def __init__(self, target: Target, program: Program, analysis: LockAnalysis, dropped: Inlined) -> None:
        super().__init__(target, program, analysis)
        self._dropped = dropped
        # of all paths of the landing pad that is followed now
        self._shared: set[int] = set()
        self._helpers: set[int] = set()

    @if_unreadable(None)
    def find_cleanup(self, pc: int, registers: Mapping[str, int]) -> Cleanup | None:
        """What the landing pad of a frame's call does; None if there is none, or if it cannot be followed.

        :param pc: the address of any byte of the call.
        :param registers: of the frame, as a call preserves them.
        """
        table = self._program.exception_table(pc)
        pad = self._landing_pad(table, pc) if table is not None else None
        if table is None or pad is None or not pad.cleans_up or not self._throws(table, pad, pc):
            return None
        self._shared, self._helpers = set(), set()
        ends = [path.releases for path in self.run(pad.address, registers)]
        if not ends:
            return None
        releases = frozenset(lock for lock in ends[0] if all(end.get(lock) for end in ends))
        return Cleanup(releases, frozenset(self._shared), frozenset(self._helpers))

    def _throws(self, table: ExceptionTable, pad: LandingPad, pc: int) -> bool:
        """Whether an exception may come out of a call, so that the landing pad is really that of the call.

        LLVM joins the ranges of calls that have the same landing pad, with calls between them that throw nothing. The
        first call and the last one of each range may throw, and so may others of the same functions. The guards of a
        call are also those of the next one, if there is no other call or branch between them.
        """
        def calls_of(range_: LandingPad) -> list[Instruction]:
            return [code[at] for at in sorted(code) if range_.start <= at < range_.end and code[at].kind == "call"]

        def throws(call: Instruction) -> bool:
            callee = _callee(call)
            return call in throwing or callee is not None and callee in map(_callee, throwing)

        found = self._program.function_range(pc)
        code = self.instructions(*found) if found is not None else {}
        calls = calls_of(pad)
        index = next((i for i, each in enumerate(calls) if each.address <= pc < each.next_address), None)
        if index is None:
            return False
        throwing = [each for range_ in iter_landing_pads(self._memory, table.address, table.function)
                    for each in [*calls_of(range_)[:1], *calls_of(range_)[-1:]]]
        call = calls[index]
        if throws(call) or not index or not throws(calls[index - 1]):
            return throws(call)
        between = {each.address: each for each in code.values()
                   if calls[index - 1].next_address <= each.address <= call.address}
        jumps = [each for each in code.values() if each.kind == "jump"]
        return (all(each is call or each.kind == "other" and each.exchange is None for each in between.values())
                and all(jump.jump_target is not None and jump.jump_target not in between for jump in jumps))

    def _landing_pad(self, table: ExceptionTable, pc: int) -> LandingPad | None:
        name = self.name_of(table.personality)
        # in debug information of Rust, the name begins with that of its module
        if name is None:
            # each program contains the routine, which has no name if the program is stripped
            if self._program.module(table.personality) is not self._program.module(pc):
                return None
        elif name.rpartition("::")[2] != _PERSONALITY:
            return None
        return find_landing_pad(self._memory, table.address, table.function, pc)

    def note_instruction(self, path: Path, instruction: Instruction) -> None:
        """Note that an instruction releases a lock, or may acquire it."""
        exchange, dropped = instruction.exchange, self._dropped
        if exchange is None or exchange.size != dropped.size or exchange.kind == "computes":
            return
        address = exchange.operand.address(path.machine.registers, instruction.next_address)
        bits = 8 * exchange.size
        stored = path.machine.lowest(exchange.stored, bits) if exchange.stored is not None else exchange.added
        mask = (1 << bits) - 1
        releases = stored is not None and not stored & mask
        if exchange.kind == "adds":
            if address is None or stored is None or -stored & mask not in dropped.subtracted:
                return  # a count of references
            releases = True
            if -stored & mask not in dropped.acquired:
                self._shared.add(address)
        elif address is None:
            raise UnknownPath("an instruction may acquire any lock")
        path.releases.setdefault(address, releases)

    def skips(self, path: Path, called: int, argument: int | None) -> bool:
        """Whether a function gets a lock that the path has released, or has failed to release."""
        if argument not in path.releases:
            return False
        self._helpers.add(called)
        return True


def _callee(call: Instruction) -> object:
    """The function that a call calls, or the slot with its address; None for a call through a register."""
    memory = call.memory
    place = memory.simple(call.next_address) if memory is not None else None
    return call.call_target if memory is None else place if place is not None and place[0] is None else None
