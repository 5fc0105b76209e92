"""Guard objects of Rust: the locks that a frame's destructors would release if the call that it is in panicked.

A panic out of a call goes to a landing pad, which destroys the objects that exist during the call. The code of the
landing pad runs here on the frame's registers and memory as they are at the stop. Where a condition is unknown, both
paths are followed. Handlers (`catch_unwind`) are not followed: a program may release there what it does not hold.

Safe code can release a lock of Rust only by the destructor of its guard, and the compiler knows at each call which
guards exist. `Condvar::wait` and `MutexGuard::unlocked` give a lock back for a while: in the function itself the
landing pad acquires it again, and `holders/proven.py` examines the frames inside of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gdbext.arch.protocol import ExceptionTable, Instruction, Machine
from gdbext.elf.dynamic import name_of_slot
from gdbext.elf.except_table import LandingPad, find_landing_pad, iter_landing_pads
from gdbext.errors import GdbextError, if_unreadable
from gdbext.holders.lock_flow import LockFlow
from gdbext.holders.pairs import Inlined
from gdbext.inferior.protocol import Target
from gdbext.record import record
from gdbext.remembered import remembered
from gdbext.threads.code import Code

#: The routine whose cleanups are destructors of Rust. Other languages use landing pads for other purposes.
_PERSONALITY = "rust_eh_personality"
#: Bounds: instructions and paths of one landing pad, depth of calls.
_MAX_STEPS, _MAX_PATHS, _MAX_DEPTH = 4000, 64, 12
#: Most bytes of a function that is followed although it does not release: it may return a member.
_MAX_ACCESSOR = 64
#: The function that continues with the exception after the cleanup.
_RESUME = "_Unwind_Resume"
#: Stands for the address of the exception, which no object can have.
_EXCEPTION = 0x8000_0EEE_0EEE_0EEE


@record
class Cleanup:
    """The locks that every path of a landing pad releases before it acquires them, if it does.

    `shared` are those that a path releases for a reader. `helpers` are functions that get a lock after an instruction
    has released it, or has failed to.
    """

    releases: frozenset[int]
    shared: frozenset[int] = frozenset()
    helpers: frozenset[int] = frozenset()


@dataclass
class _Path:
    """One path: where it is, the depth of calls, and the first that it does with each lock.

    `releases` says whether that releases the lock, by the lock's address; otherwise it may acquire the lock.
    """

    machine: Machine
    at: int
    depth: int
    releases: dict[int, bool]

    def copy(self, at: int) -> _Path:
        return _Path(self.machine.copy(), at, self.depth, dict(self.releases))


class _Unknown(GdbextError):
    """A path depends on an unknown value."""


class Guards:
    """Runs the landing pads of frames.

    :param dropped: the instructions by which destructors release locks.
    """

    def __init__(self, target: Target, code: Code, flow: LockFlow, dropped: Inlined) -> None:
        self._target = target
        self._code = code
        self._cpu = code.cpu
        self._flow = flow
        self._dropped = dropped
        # of all paths of the landing pad that is followed now
        self._shared: set[int] = set()
        self._helpers: set[int] = set()

    def continue_with(self, target: Target, code: Code) -> None:
        """Go on with another snapshot of the same files."""
        self._target, self._code = target, code

    @if_unreadable(None)
    def find_cleanup(self, pc: int, registers: Mapping[str, int]) -> Cleanup | None:
        """What the landing pad of a frame's call does; None if there is none, or if it cannot be followed.

        :param pc: the address of any byte of the call.
        :param registers: of the frame, as a call preserves them.
        """
        table = self._code.exception_table(pc)
        pad = self._landing_pad(table, pc) if table is not None else None
        if table is None or pad is None or not pad.cleans_up or not self._throws(table, pad, pc):
            return None
        self._shared, self._helpers = set(), set()
        machine = self._cpu.machine(self._target.memory, registers)
        machine.registers[self._cpu.RESULT] = _EXCEPTION
        ends = list(self._ends(_Path(machine, pad.address, 0, {})))
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

        found = self._code.function_range(pc)
        code = self._instructions(*found) if found is not None else {}
        calls = calls_of(pad)
        index = next((i for i, each in enumerate(calls) if each.address <= pc < each.next_address), None)
        if index is None:
            return False
        throwing = [each for range_ in iter_landing_pads(self._target.memory, table.address, table.function)
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
        name = self._name(table.personality)
        # in debug information of Rust, the name begins with that of its module
        if name is None:
            # each program contains the routine, which has no name if the program is stripped
            if self._code.module(table.personality) is not self._code.module(pc):
                return None
        elif name.rpartition("::")[2] != _PERSONALITY:
            return None
        return find_landing_pad(self._target.memory, table.address, table.function, pc)

    def _ends(self, first: _Path) -> Iterator[Mapping[int, bool]]:
        """What each path has done when it continues with the exception, or handles it."""
        work, steps, paths = [first], 0, 1
        while work:
            path = work.pop()
            while True:
                steps += 1
                if steps > _MAX_STEPS or paths > _MAX_PATHS:
                    raise _Unknown("the landing pad does not end")
                try:
                    branch = self._step(path)
                except _Resumed:
                    yield path.releases
                    break
                except _Aborted:
                    break
                if branch is not None:
                    work.append(branch)
                    paths += 1

    def _step(self, path: _Path) -> _Path | None:
        """Run one instruction; the other path if it is a jump on an unknown condition."""
        instruction = self._instruction(path.at)
        if instruction.kind == "call":
            self._call(path, instruction, self._behind(path.machine.target(instruction)), instruction.next_address)
        elif instruction.kind == "jump":
            return self._jump(path, instruction)
        elif instruction.kind == "return":
            self._return(path)
        elif instruction.kind in ("trap", "undefined") or not instruction.falls_through:
            raise _Aborted
        else:
            self._exchange(path, instruction)
            path.machine.step(instruction)
            path.at = instruction.next_address
        return None

    def _exchange(self, path: _Path, instruction: Instruction) -> None:
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
            raise _Unknown("an instruction may acquire any lock")
        path.releases.setdefault(address, releases)

    def _jump(self, path: _Path, instruction: Instruction) -> _Path | None:
        is_taken = path.machine.is_taken(instruction)
        target = path.machine.target(instruction)
        if is_taken is False:
            path.at = instruction.next_address
            return None
        if target is None:
            raise _Unknown("the target of a jump is not known")
        if is_taken is None:
            other = path.copy(instruction.next_address)
            path.at = target
            return other
        called = self._behind(target)
        if called is not None and (called != target or path.depth and self._code.starts_function(called)):
            # a call in place of a return
            self._call(path, instruction, called, None)
        else:
            path.at = target
        return None

    def _return(self, path: _Path) -> None:
        after = path.machine.leave()
        if not path.depth or after is None:
            raise _Unknown("the landing pad returns")
        path.depth -= 1
        path.at = after

    def _call(self, path: _Path, instruction: Instruction, called: int | None, after: int | None) -> None:
        """Follow a call, or pass over it.

        :param after: the return address; None for a jump to the function, which returns for the caller.
        """
        machine = path.machine
        argument = machine.registers.get(self._cpu.ARGUMENTS[0])
        if argument == _EXCEPTION or _RESUME in (instruction.symbol or ""):
            raise _Resumed
        if not instruction.falls_through and after is not None:
            raise _Aborted
        if called is None:
            raise _Unknown("the target of a call is not known")
        if argument in path.releases:
            self._helpers.add(called)
            machine.skip_call()
        elif self._is_followed(called):
            if path.depth >= _MAX_DEPTH:
                raise _Unknown("the calls are too deep")
            if after is not None:
                machine.enter(after)
                path.depth += 1
            path.at = called
            return
        elif argument is None and not path.depth:
            raise _Unknown("the function may continue with the exception")
        else:
            machine.skip_call()
        if after is None:
            self._return(path)
        else:
            path.at = after

    @remembered
    def _is_followed(self, called: int) -> bool:
        """Whether a function may acquire or release a lock, or is so small that its result may be needed."""
        found = self._code.function_range(called)
        if found is None or not self._code.starts_function(called) or self._flow.is_outside(called):
            return False
        return found[1] - found[0] <= _MAX_ACCESSOR or self._is_relevant(called, 0)

    @remembered
    def _is_relevant(self, start: int, depth: int) -> bool:
        """Whether a function, or one that it calls, may acquire or release a lock."""
        found = self._code.function_range(start)
        if found is None or self._flow.is_outside(start):
            return False
        return self._flow.is_relevant(start) or depth < _MAX_DEPTH and any(
            self._is_relevant(each, depth + 1) for each in self._flow.callees(*found) if each != start)

    @if_unreadable(None)
    def _behind(self, address: int | None) -> int | None:
        """The function at an address, or behind the stub there."""
        return self._cpu.behind_stub(self._target.memory, address) if address is not None else None

    @remembered
    @if_unreadable(None)
    def _unresolved(self, address: int) -> str | None:
        """The name of the function for which the dynamic linker would fill the slot whose stub leads to an address."""
        module = self._code.module(address)
        index = self._cpu.unresolved_slot(self._target.memory, address) if module is not None else None
        return name_of_slot(self._target.memory, module, index) if module is not None and index is not None else None

    @remembered
    def _name(self, function: int) -> str | None:
        function = self._cpu.behind_stub(self._target.memory, function)
        name = self._unresolved(function) or self._code.symbol(function).function
        return name.partition("@")[0] if name is not None else None  # without a version

    def _instruction(self, address: int) -> Instruction:
        found = self._code.function_range(address)
        instruction = self._instructions(*found).get(address) if found is not None else None
        if instruction is None:
            raise _Unknown("the path leads outside of code")
        return instruction

    @remembered
    def _instructions(self, start: int, end: int) -> Mapping[int, Instruction]:
        return {each.address: each for each in self._flow.instructions(start, end)}


def _callee(call: Instruction) -> object:
    """The function that a call calls, or the slot with its address; None for a call through a register."""
    memory = call.memory
    place = memory.simple(call.next_address) if memory is not None else None
    return call.call_target if memory is None else place if place is not None and place[0] is None else None


class _Resumed(Exception):
    """A path continues with the exception, or starts to handle it."""


class _Aborted(Exception):
    """A path ends the program."""
