"""The rules by which the machine code of a frame proves that its thread holds a lock.

A frame proves it if on every path to its call the code acquires the lock and does not release it afterwards, and the
address of the lock can be recomputed: from constants, or from registers and stack slots that still contain it. The
frames inside of it must not have released the lock meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection

from gdbext.inferior.protocol import Module, Target
from gdbext.proofs.flow.state import ONLY, Value
from gdbext.proofs.functions import LockFunctions, known_name
from gdbext.proofs.linkage import Linkage
from gdbext.proofs.near_frames import frames_near
from gdbext.proofs.program import Program
from gdbext.proofs.stack import Stack, entered, place_of, recompute
from gdbext.record import record
from gdbext.remembered import remembered

#: Most frames of one thread that are examined, and of a function that acquires a lock.
_MAX_FRAMES, MAX_PARTS = 256, 4


@record
class Sought:
    """The lock whose holder is sought.

    `only` is the path of its library if that has no other lock of the kind. `is_shared` says whether readers hold it;
    None if guard objects of the thread prove nothing.
    """

    address: int
    only: str | None = None
    is_shared: bool | None = None


@record
class FrameProof:
    """The frame that proves it, and the name of the function that has acquired the lock.

    The name is None if a guard object of the frame proves it, which will release the lock.
    """

    index: int
    call: str | None


class FrameRules:
    """The rules for one kind of lock in one snapshot. A library with rules of its own has a subclass."""

    def __init__(self, functions: LockFunctions, target: Target, program: Program, linkage: Linkage) -> None:
        self.functions = functions
        self.analysis = functions.analysis
        self.memory = target.memory
        self.program = program
        self.linkage = linkage

    # -- what a library may replace --------------------------------------------------------------------------------

    @property
    def needs_address(self) -> bool:
        """Whether only frames with an address near that of the lock are analysed: any file may have the code."""
        return self.functions.are_inlined

    def has_guard(self, stack: Stack, index: int, lock: Sought) -> bool:
        """Whether a guard object of a frame proves that the thread holds the lock."""
        return False

    def acquired(self, stack: Stack, index: int, lock: Sought) -> FrameProof | None:
        """The proof that a frame has acquired the lock, and holds it during its call."""
        module = self.program.module(stack.native[index][0])
        if module is None or not self._may_acquire(module) or self._is_inside(stack, index):
            return None
        if index and self.ends(stack, index):
            return None
        pc, whole = place_of(stack, index), self.entered(stack, index)
        state = self.analysis.held_at(pc, whole)
        if state is None or not state.held:
            return None
        registers = stack.registers(index)
        for held, released in state.held.items():
            if (held.base[1] == lock.only if held.base[0] == ONLY else lock.address not in released
                    and recompute(self.memory, self.program.cpu, held, state, registers) == lock.address
                    and self.counts(pc, held, whole) and not self._passed_on(stack, index, held)):
                return FrameProof(index, self._name(self.analysis.acquired_by(pc, held, whole)))
        return None

    def counts(self, pc: int, lock: Value, whole: int | None) -> bool:
        """Whether a lock that the analysis finds at a place counts."""
        return True

    # -- one thread ------------------------------------------------------------------------------------------------

    def find(self, stack: Stack, lock: Sought) -> FrameProof | None:
        """The innermost frame that proves that a thread holds a lock; None if no frame does."""
        for index in self._possible_frames(stack, lock):
            if self.has_guard(stack, index, lock):
                return FrameProof(index, None)
            proof = self.acquired(stack, index, lock)
            if proof is not None:
                # examined last, because the code of every inner frame is analysed for it
                is_released = any(self.may_have_released(stack, inner, lock.address) for inner in range(index))
                return None if is_released else proof
        return None

    def _possible_frames(self, stack: Stack, lock: Sought) -> Collection[int]:
        """The indices of the frames that may hold a lock: an analysis takes long, and few frames have its address.

        A frame has it in a register or on the stack, or it is that of a variable which its code can reach.
        """
        native = stack.native[:_MAX_FRAMES]
        if lock.only is not None or not self.needs_address:
            return range(len(native))  # a landing pad may load the address from any memory
        near = frames_near(self.memory, native, stack.known_registers, self._is_code, lock.address)
        home = self.program.module(lock.address)
        return [index for index, (pc, _) in enumerate(native) if index in near
                or home is not None and self.linkage.may_reach(self.program.module(pc), home.path)]

    def _is_code(self, address: int) -> bool:
        region = self.program.space.find(address)
        return region is not None and bool(region.allows("x"))

    def entered(self, stack: Stack, index: int) -> int | None:
        """The function that the caller of a frame has called; None if unknown."""
        return entered(stack, index, self.program.cpu, self.memory)

    def _name(self, called: int | None) -> str:
        """The name of a function that has acquired a lock."""
        if called is None:
            return "?"
        called = self.analysis.code.behind_stub(called) or called
        call = self.functions.acquiring.get(called)
        return call.name if call is not None else known_name(self.program, called) or f"{called:#x}"

    # -- passed addresses ------------------------------------------------------------------------------------------

    def _passed_on(self, stack: Stack, index: int, lock: Value) -> bool:
        """Whether the call of a frame may have passed a lock to code that is not known and that has returned."""
        if not self.functions.are_inlined or not index or not self.analysis.passes(
                place_of(stack, index), lock, self.entered(stack, index)):
            return False
        return any(i < index and self.analysis.has_called_unknown(pc) or i and self._jumped_from_unknown(stack, i)
                   for i in range(index + 1) for pc in [place_of(stack, i)]
                   if not (self.analysis.graph.is_outside(pc) or self.analysis.graph.calls_back(pc)))

    def _jumped_from_unknown(self, stack: Stack, index: int) -> bool:
        """Whether a frame has called code that is not known, or that has called such code and jumped to its callee."""
        called = self._called(stack.native[index][0], self.entered(stack, index))
        inner = self.program.function_range(place_of(stack, index - 1))
        return called is None or (
            inner is None or inner[0] != called) and self.analysis.escapes_of_call(called).unknown

    def _called(self, pc: int, whole: int | None) -> int | None:
        """The function that a frame has called."""
        return self.program.cpu.called(self.memory, pc) or self.analysis.called_at(pc - 1, whole)

    # -- releases --------------------------------------------------------------------------------------------------

    def ends(self, stack: Stack, index: int) -> bool:
        """Whether the call of a frame may have released a lock already: it releases, or has jumped to its callee."""
        return self._has_ended(stack.native[index][0], self.entered(stack, index), place_of(stack, index - 1))

    @remembered
    def _has_ended(self, pc: int, whole: int | None, inner_pc: int) -> bool:
        called = self._called(pc, whole)
        if called is None:
            return False
        if called in self.functions.ending:
            return True
        inner = self.program.function_range(inner_pc)
        if inner is not None and inner[0] == called:
            return False
        summary = self.analysis.summary_of_call(called)
        return bool(summary.releases) or summary.releases_unknown

    def may_have_released(self, stack: Stack, index: int, address: int) -> bool:
        """Whether a frame may have released a lock that a caller has acquired."""
        pc, graph = place_of(stack, index), self.analysis.graph
        if graph.calls_back(pc):
            return not self._only_waits(stack, index)
        function = self.program.function_range(pc)
        if function is not None and function[0] in self.functions.ending:
            return True
        if self._is_inside(stack, index):
            return False
        module = self.program.module(pc)
        if function is None or module is None or not self._may_release(module):
            return False
        if index and self.ends(stack, index):
            return True
        whole = self.entered(stack, index)
        start = self.analysis.start_of(pc, whole)
        if start is None:
            return True  # it jumped here from code that is not known
        if not graph.may_call(self.functions.ending, start):
            return False
        state = self.analysis.held_at(pc, whole)
        if state is None or state.freed is None:
            return True
        registers = stack.registers(index) if state.freed else {}
        return any(recompute(self.memory, self.program.cpu, lock, state, registers) in (address, None)
                   for lock in state.freed)

    def _only_waits(self, stack: Stack, index: int) -> bool:
        """Whether a frame in a file whose functions call code of the program is of one that only waits for a lock."""
        native = stack.native
        outer = next((i for i in range(index, len(native)) if not self.analysis.graph.calls_back(native[i][0])), None)
        called = self.program.cpu.called(self.memory, native[outer][0]) if outer is not None else None
        return called in self.functions.waiting

    # -- files -----------------------------------------------------------------------------------------------------

    def _is_inside(self, stack: Stack, index: int) -> bool:
        """Whether a frame is of a function that acquires a lock, or of what that has called in its file and below."""
        if not self.functions.are_inlined:
            return False
        inner: list[Module | None] = []
        for i in range(index, min(index + MAX_PARTS, len(stack.native))):
            pc = place_of(stack, i)
            module, function = self.program.module(pc), self.program.function_range(pc)
            if function is not None and function[0] in self.functions.acquiring:
                return all(each is module or self.linkage.is_library(each) for each in inner)
            inner.append(module)
        return False

    def _may_acquire(self, module: Module) -> bool:
        """Whether a file's functions may acquire locks of the kind."""
        return not self.analysis.graph.has_outside(module) and (
            self.functions.are_inlined or self.linkage.has(self.functions.own, module))

    def _may_release(self, module: Module) -> bool:
        """Whether a file's functions may release locks: it is linked with a file that can, or can itself."""
        return not self.analysis.graph.has_outside(module) and (
            self.functions.are_inlined or self.linkage.is_near(self.functions.ending, module))
