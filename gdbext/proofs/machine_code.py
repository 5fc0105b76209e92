"""The machine code of a program: instructions, branches, stubs and tables of constants. Bounded and remembered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gdbext.arch.protocol import Instruction
from gdbext.errors import GdbextError, if_unreadable
from gdbext.inferior.cache import read_u64
from gdbext.inferior.protocol import Memory, Module, Target
from gdbext.proofs.program import CodeMemory, Program
from gdbext.remembered import remembered

#: Most bytes of one function that is analysed.
_MAX_FUNCTION = 1 << 14
#: Most bytes of a function that can be seen not to return.
_MAX_PANIC = 512
#: Most bytes of one that is decoded even if it has bytes of an instruction that returns.
_MAX_SHORT = 128


class TooLarge(GdbextError):
    """The code exceeds the bounds of the analysis."""


def iter_branches(memory: Memory, program: Program, start: int, end: int) -> Iterator[tuple[int, int, int, bool]]:
    """(next address, address, function, whether it is a call) of each call and jump that leads to a module.

    The function is that at the address, or behind the stub or slot there. Instructions are not decoded, so bytes that
    only look like a branch come too.

    :raises MemoryUnreadable: the code is not readable.
    """
    for after, address, is_slot, is_call in program.cpu.iter_branches(memory.read(start, end - start), start):
        if program.module(address) is not None:
            try:
                function = read_u64(memory, address) if is_slot else program.cpu.behind_stub(memory, address)
            except GdbextError:
                continue
            yield after, address, function, is_call


class MachineCode:
    """Reads the code of a program."""

    def __init__(self, target: Target, program: Program) -> None:
        self._target = target
        self.memory = CodeMemory(target.memory, program)
        self.program = program
        self.cpu = program.cpu
        #: Whether code could not be read because the time for the snapshot was over.
        self.is_exhausted = False

    def continue_with(self, target: Target, program: Program) -> bool:
        """Go on with another snapshot of the same files; False if what was read may not be right for it."""
        if self.is_exhausted or not self.memory.continue_with(target.memory, program):
            return False
        self._target, self.program = target, program
        return True

    @remembered
    def instructions(self, start: int, end: int) -> Sequence[Instruction]:
        """The instructions of a piece of code.

        :raises GdbextError: it is too large or not readable.
        """
        if not self.cpu.PROVES:
            raise GdbextError("the code of this processor proves nothing")
        if end - start > _MAX_FUNCTION:
            raise TooLarge("the function is too large")
        self.memory.read(start, end - start)  # the debugger may disassemble unreadable memory as zeros
        found = self._target.disassemble(start, end)
        if not found:  # the time for the snapshot is over
            self.is_exhausted = True
            raise TooLarge("the code cannot be disassembled")
        return [self.cpu.parse(*each) for each in found]

    # -- functions -------------------------------------------------------------------------------------------------

    @if_unreadable(None)
    def behind_stub(self, address: int) -> int | None:
        """The function at an address, or behind the stub there; None if it cannot be read."""
        return self.cpu.behind_stub(self.memory, address)

    def is_stub(self, address: int) -> bool:
        """Whether an address is that of a stub, which leads to a function of another file."""
        return self.behind_stub(address) not in (address, None)

    def is_part(self, target: int, parts: Iterable[tuple[int, int]]) -> bool:
        """Whether a jump to an address, with an empty frame, leads to a part of the function and not to another one.

        Code that jumps back into the function's parts is one.
        """
        found = self.program.function_range(target) if self.behind_stub(target) == target else None
        if found is None:
            return False
        return found[0] != target or not self.program.starts_function(target) or any(
            start < at < end for at in self.calls(*found)[1] for start, end in parts)

    @remembered
    def calls(self, start: int, end: int) -> tuple[frozenset[int], Sequence[int]]:
        """The functions that code may call, also behind stubs and slots; and the targets of its branches, in order."""
        called: set[int] = set()
        callees: list[int] = []
        try:
            for _, at, function, _ in iter_branches(self.memory, self.program, start, end):
                called.add(function)
                if function == at and not start <= at < end:
                    callees.append(at)
            # a function that is called several times may be called through a register
            loads = self.cpu.iter_loads(self.memory.read(start, end - start), start)
            called.update(word for word in map(self._loaded, loads) if word is not None)
        except GdbextError:
            return frozenset(called), ()
        return frozenset(called), tuple(dict.fromkeys(callees))

    @remembered
    def callees(self, start: int, end: int) -> Sequence[int]:
        """The functions in code outside of a range that its calls and jumps may lead to, also in other files."""
        called, targets = self.calls(start, end)
        return (*targets, *(function for function in called.difference(targets)
                            if not start <= function < end and self.program.module(function) is not None
                            and self.program.starts_function(function)))

    @remembered
    def never_returns(self, address: int) -> bool:
        """Whether the function at an address, or behind the stub there, has no way to return, as one that panics."""
        try:
            address = self.cpu.behind_stub(self.memory, address)
            found = self.program.function_range(address)
            if found is None or found[0] != address or found[1] - address > _MAX_PANIC:
                return False
            if found[1] - address > _MAX_SHORT and self.cpu.may_return(
                    self.memory.read(address, found[1] - address)):
                return False
            code = self.instructions(*found)
        except GdbextError:
            return False
        return bool(code) and code[-1].next_address == found[1] and not any(
            each.kind in ("return", "undefined") or each.kind == "jump" and (
                each.jump_target is None or not address <= each.jump_target < found[1])
            or not each.operands and len(each.text.split()) > len(each.prefixes) + 1 for each in code)

    # -- constants in memory ---------------------------------------------------------------------------------------

    @if_unreadable(None)
    def _loaded(self, address: int) -> int | None:
        return read_u64(self.memory, address)

    @if_unreadable(None)
    def slot(self, address: int) -> int | None:
        """The word at an address, if it cannot have changed: it is in a table of the dynamic linker."""
        module = self.program.module(address)
        return read_u64(self.memory, address) if module is not None and self._is_fixed(module, address) else None

    def _is_fixed(self, module: Module, address: int) -> bool:
        section = next((each for each in module.sections if each.start <= address < each.end), None)
        if section is not None and section.name in (".got", ".got.plt", ".data.rel.ro", ".rodata"):
            return True
        region = self.program.space.find(address)
        return region is not None and region.permissions is not None and "w" not in region.permissions

    @if_unreadable(None)
    def table_entry(self, table: int, index: int) -> int | None:
        """The target of an entry in a table of distances."""
        return table + int.from_bytes(self.memory.read(table + 4 * index, 4), "little", signed=True)
