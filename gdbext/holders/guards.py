"""Guard objects: the locks that a frame's destructors would release if the call that it is in threw an exception.

An exception out of a call goes to a landing pad, which destroys the objects that exist during the call. The code of
the landing pad runs here on the frame's registers and memory as they are at the stop. Where a condition is unknown,
both paths are followed. So a guard that says that it does not own its lock (`std::unique_lock` after `unlock()`)
releases nothing. Handlers (`catch`) are not followed: a program may release there what it does not hold.

That a destructor would release a lock does not prove that the thread holds it. `holders/proven.py` also requires that
the code before the call has acquired it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gdbext.arch.protocol import Instruction, Machine
from gdbext.elf.dynamic import name_of_slot
from gdbext.elf.except_table import find_landing_pad
from gdbext.errors import GdbextError, if_unreadable
from gdbext.holders.lock_flow import LockFlow
from gdbext.inferior.protocol import Target
from gdbext.record import record
from gdbext.remembered import remembered
from gdbext.threads.code import Code

#: Routines whose cleanups are destructors: those of C++, and of C++ functions without a handler that GCC optimises at
#: link time; and that of Rust. Other languages use landing pads for other purposes.
_PERSONALITIES = frozenset({"__gxx_personality_v0", "__gcc_personality_v0", "rust_eh_personality"})
#: Bounds: instructions and paths of one landing pad, depth of calls.
_MAX_STEPS, _MAX_PATHS, _MAX_DEPTH = 4000, 64, 12
#: Most bytes of a function that is followed although it neither acquires nor releases: it may return a member.
_MAX_ACCESSOR = 64
#: The function that continues with the exception after the cleanup.
_RESUME = "_Unwind_Resume"
#: Stands for the address of the exception, which no object can have.
_EXCEPTION = 0x8000_0EEE_0EEE_0EEE


@record
class Cleanup:
    """The locks that every path of a landing pad releases before it acquires them, if it does, and the function's call.

    `releases` has the function by the lock's address. `all` are the locks that any path releases.
    """

    releases: Mapping[int, int]
    all: frozenset[int]


@dataclass
class _Path:
    """One path: where it is, the depth of calls, and the first that it does with each lock.

    `first` has the function that releases the lock, by the lock's address; None if it acquires the lock.
    """

    machine: Machine
    at: int
    depth: int
    first: dict[int, int | None]

    def copy(self, at: int) -> _Path:
        return _Path(self.machine.copy(), at, self.depth, dict(self.first))


class _Unknown(GdbextError):
    """A path depends on an unknown value."""


class Guards:
    """Runs the landing pads of frames.

    :param arguments: the register with the lock's address, by the address of each function that acquires or releases.
    :param releasing: those of them that only release.
    :param names: the addresses of all of them, by their names.
    """

    def __init__(self, target: Target, code: Code, flow: LockFlow, arguments: Mapping[int, str],
                 releasing: frozenset[int], names: Mapping[str, int]) -> None:
        self._target = target
        self._code = code
        self._cpu = code.cpu
        self._flow = flow
        self._arguments = arguments
        self._releasing = releasing
        self._names = names

    def continue_with(self, target: Target, code: Code) -> None:
        """Go on with another snapshot of the same files."""
        self._target, self._code = target, code

    @if_unreadable(None)
    def find_cleanup(self, pc: int, registers: Mapping[str, int], hides_flags: bool = False) -> Cleanup | None:
        """What the landing pad of a frame's call does; None if there is none, or if it cannot be followed.

        :param pc: the address of any byte of the call.
        :param registers: of the frame, as a call preserves them.
        :param hides_flags: take flags in memory as unknown, to find out whether the release depends on one.
        """
        table = self._code.exception_table(pc)
        if table is None or self._name(table.personality) not in _PERSONALITIES:
            return None
        pad = find_landing_pad(self._target.memory, table.address, table.function, pc)
        if pad is None or not pad.cleans_up:
            return None
        machine = self._cpu.machine(self._target.memory, registers, hides_flags)
        machine.registers[self._cpu.RESULT] = _EXCEPTION
        ends = list(self._ends(_Path(machine, pad.address, 0, {})))
        if not ends:
            return None
        releases: dict[int, int] = {}
        for lock, by in ends[0].items():
            if by is not None and all(end.get(lock) is not None for end in ends):
                releases[lock] = by
        return Cleanup(releases, frozenset(lock for end in ends for lock, by in end.items() if by is not None))

    def _ends(self, first: _Path) -> Iterator[Mapping[int, int | None]]:
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
                    yield path.first
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
            path.machine.step(instruction)
            path.at = instruction.next_address
        return None

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
        if called is not None and (called != target or called in self._arguments
                                   or path.depth and self._code.starts_function(called)):
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
        if called in self._arguments:
            lock = machine.registers.get(self._arguments[called])
            if lock is None:
                raise _Unknown("the lock is not known")
            path.first.setdefault(lock, called if called in self._releasing else None)
            machine.skip_call()
            # all functions that release return 0, if anything
            if called in self._releasing:
                machine.registers[self._cpu.RESULT] = 0
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
        """Whether a function may acquire or release a lock, also by a function that was never called yet."""
        found = self._code.function_range(start)
        if found is None or self._flow.is_outside(start):
            return False
        called, callees = self._flow.calls(*found)
        return (self._flow.is_relevant(start) or any(self._resolved(each) in self._arguments for each in called)
                or depth < _MAX_DEPTH and any(self._is_relevant(each, depth + 1) for each in callees if each != start))

    @if_unreadable(None)
    def _behind(self, address: int | None) -> int | None:
        """The function at an address, or behind the stub there."""
        return self._resolved(self._cpu.behind_stub(self._target.memory, address)) if address is not None else None

    def _resolved(self, address: int) -> int:
        """The function for which the dynamic linker would fill a slot, if an address is that of a slot without it."""
        return self._names.get(self._unresolved(address) or "", address)

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


class _Resumed(Exception):
    """A path continues with the exception, or starts to handle it."""


class _Aborted(Exception):
    """A path ends the program."""
