"""Landing pads: what the code that destroys the objects of a frame would do if its call threw an exception.

An exception out of a call goes to a landing pad, which destroys the objects that exist during the call. The code of the
landing pad runs here on the frame's registers and memory as they are at the stop. Where a condition is unknown, both
paths are followed. Handlers are not followed: a program may release there what it does not hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gdbext.arch.protocol import Instruction, Machine
from gdbext.elf.dynamic import name_of_slot
from gdbext.errors import GdbextError, if_unreadable
from gdbext.inferior.protocol import Target
from gdbext.proofs.analysis import LockAnalysis
from gdbext.proofs.program import Program
from gdbext.remembered import remembered

#: Bounds: instructions and paths of one landing pad, depth of calls.
_MAX_STEPS, _MAX_PATHS, _MAX_DEPTH = 4000, 64, 12
#: Most bytes of a function that is followed although it does not release: it may return a member.
_MAX_ACCESSOR = 64
#: The function that continues with the exception after the cleanup.
_RESUME = "_Unwind_Resume"
#: Stands for the address of the exception, which no object can have.
_EXCEPTION = 0x8000_0EEE_0EEE_0EEE


@dataclass
class Path:
    """One path: where it is, the depth of calls, and the first that it does with each lock.

    `releases` says whether that releases the lock, by the lock's address; otherwise it may acquire the lock.
    """

    machine: Machine
    at: int
    depth: int = 0
    releases: dict[int, bool] = field(default_factory=dict)

    def copy(self, at: int) -> Path:
        """A copy, for another path from an address."""
        return Path(self.machine.copy(), at, self.depth, dict(self.releases))


class UnknownPath(GdbextError):
    """A path depends on an unknown value."""


class LandingPads:
    """Runs landing pads. What their code does to locks is for a subclass to note.

    :param analysis: decides which functions are followed: those that may acquire or release a lock.
    """

    def __init__(self, target: Target, program: Program, analysis: LockAnalysis) -> None:
        self._memory = target.memory
        self._program = program
        self._cpu = program.cpu
        self._analysis = analysis

    def note_instruction(self, path: Path, instruction: Instruction) -> None:
        """Note what an instruction does to a lock."""

    def skips(self, path: Path, called: int, argument: int | None) -> bool:
        """Whether a call is passed over, by the function and its first argument."""
        return False

    def run(self, landing_pad: int, registers: Mapping[str, int]) -> list[Path]:
        """All paths from the start of a landing pad to where they continue with the exception, or handle it.

        :param registers: of the frame, as a call preserves them.
        :raises GdbextError: a path cannot be followed.
        """
        machine = self._cpu.machine(self._memory, registers)
        machine.registers[self._cpu.RESULT] = _EXCEPTION
        return list(self._ends(Path(machine, landing_pad)))

    def _ends(self, first: Path) -> Iterator[Path]:
        work, steps, paths = [first], 0, 1
        while work:
            path = work.pop()
            while True:
                steps += 1
                if steps > _MAX_STEPS or paths > _MAX_PATHS:
                    raise UnknownPath("the landing pad does not end")
                try:
                    branch = self._step(path)
                except _Resumed:
                    yield path
                    break
                except _Aborted:
                    break
                if branch is not None:
                    work.append(branch)
                    paths += 1

    def _step(self, path: Path) -> Path | None:
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
            self.note_instruction(path, instruction)
            path.machine.step(instruction)
            path.at = instruction.next_address
        return None

    def _jump(self, path: Path, instruction: Instruction) -> Path | None:
        is_taken = path.machine.is_taken(instruction)
        target = path.machine.target(instruction)
        if is_taken is False:
            path.at = instruction.next_address
            return None
        if target is None:
            raise UnknownPath("the target of a jump is not known")
        if is_taken is None:
            other = path.copy(instruction.next_address)
            path.at = target
            return other
        called = self._behind(target)
        if called is not None and (called != target or path.depth and self._program.starts_function(called)):
            # a call in place of a return
            self._call(path, instruction, called, None)
        else:
            path.at = target
        return None

    def _return(self, path: Path) -> None:
        after = path.machine.leave()
        if not path.depth or after is None:
            raise UnknownPath("the landing pad returns")
        path.depth -= 1
        path.at = after

    def _call(self, path: Path, instruction: Instruction, called: int | None, after: int | None) -> None:
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
            raise UnknownPath("the target of a call is not known")
        if self.skips(path, called, argument):
            machine.skip_call()
        elif self._is_followed(called):
            if path.depth >= _MAX_DEPTH:
                raise UnknownPath("the calls are too deep")
            if after is not None:
                machine.enter(after)
                path.depth += 1
            path.at = called
            return
        elif argument is None and not path.depth:
            raise UnknownPath("the function may continue with the exception")
        else:
            machine.skip_call()
        if after is None:
            self._return(path)
        else:
            path.at = after

    @remembered
    def _is_followed(self, called: int) -> bool:
        """Whether a function may acquire or release a lock, or is so small that its result may be needed."""
        found = self._program.function_range(called)
        if found is None or not self._program.starts_function(called) or self._analysis.graph.is_outside(called):
            return False
        return found[1] - found[0] <= _MAX_ACCESSOR or self._is_relevant(called, 0)

    @remembered
    def _is_relevant(self, start: int, depth: int) -> bool:
        """Whether a function, or one that it calls, may acquire or release a lock."""
        found = self._program.function_range(start)
        if found is None or self._analysis.graph.is_outside(start):
            return False
        return self._analysis.is_relevant(start) or depth < _MAX_DEPTH and any(
            self._is_relevant(each, depth + 1) for each in self._analysis.code.callees(*found) if each != start)

    @if_unreadable(None)
    def _behind(self, address: int | None) -> int | None:
        """The function at an address, or behind the stub there."""
        return self._cpu.behind_stub(self._memory, address) if address is not None else None

    @remembered
    @if_unreadable(None)
    def _unresolved(self, address: int) -> str | None:
        """The name of the function for which the dynamic linker would fill the slot whose stub leads to an address."""
        module = self._program.module(address)
        index = self._cpu.unresolved_slot(self._memory, address) if module is not None else None
        return name_of_slot(self._memory, module, index) if module is not None and index is not None else None

    @remembered
    def name_of(self, function: int) -> str | None:
        """The name of a function, without a version; None if it has none."""
        function = self._cpu.behind_stub(self._memory, function)
        name = self._unresolved(function) or self._program.symbol(function).function
        return name.partition("@")[0] if name is not None else None

    def _instruction(self, address: int) -> Instruction:
        found = self._program.function_range(address)
        instruction = self.instructions(*found).get(address) if found is not None else None
        if instruction is None:
            raise UnknownPath("the path leads outside of code")
        return instruction

    @remembered
    def instructions(self, start: int, end: int) -> Mapping[int, Instruction]:
        """The instructions of a function, by address."""
        return {each.address: each for each in self._analysis.code.instructions(start, end)}


class _Resumed(Exception):
    """A path continues with the exception, or starts to handle it."""


class _Aborted(Exception):
    """A path ends the program."""
