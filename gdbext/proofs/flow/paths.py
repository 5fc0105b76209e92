"""Follows every path through one function, from its entry, until the state before each of its blocks is settled."""

from __future__ import annotations

from gdbext.arch.protocol import Instruction
from gdbext.proofs.flow.atomics import Inlined
from gdbext.proofs.flow.control_flow import MAX_PARTS, ControlFlow
from gdbext.proofs.flow.facts import Facts
from gdbext.proofs.flow.locks import decide
from gdbext.proofs.flow.meet import meet
from gdbext.proofs.flow.state import CONSTANT, State, entry
from gdbext.proofs.flow.summaries import Callees
from gdbext.proofs.flow.transfer import Transfer
from gdbext.proofs.machine_code import MachineCode, TooLarge
from gdbext.worklist import Fixpoint, walk

#: Most rounds of the analysis for each block.
_MAX_ROUNDS = 24


class Paths:
    """One function's code with the state before each of its blocks, and what its instructions do.

    `exits` are the states where it returns. `returning` are the blocks from which a path leads there.
    """

    def __init__(self, code: MachineCode, callees: Callees, inlined: Inlined | None, found: tuple[int, int],
                 depth: int) -> None:
        self._code = code
        self._callees = callees
        self.flow = ControlFlow(code, found[0])
        self.flow.add_part(*found)
        self._transfer = Transfer(callees, code.slot, inlined, depth, self.flow.straight_before)
        self._fixpoint: Fixpoint[int, State] = Fixpoint(self.flow.following, _meet)
        self._rounds = 0
        #: The block that is followed now.
        self._at = found[0]
        #: Recorded after all states are settled: the states at the exits, and the blocks before each block.
        self._is_settled = False
        self.exits: list[State] = []
        self._ends: set[int] = set()
        self._before: dict[int, set[int]] = {}
        self.returning: frozenset[int] = frozenset()

    @property
    def facts(self) -> Facts:
        """What the instructions of the function do."""
        return self._transfer.facts

    def settle(self) -> None:
        """Compute the state before each block, and add the parts and blocks that the states lead to.

        :raises GdbextError: the code cannot be read, or exceeds the bounds.
        """
        for _ in range(2 * MAX_PARTS):
            before = len(self.flow.parts), len(self.flow.leaders)
            self._compute_states()
            if before == (len(self.flow.parts), len(self.flow.leaders)):
                break
        else:
            raise TooLarge("the function has too many parts")
        self._is_settled = True
        for address in sorted(self._fixpoint.states):
            self.facts.block = address
            self._follow(address)
        self.facts.block = None
        self.returning = frozenset(walk(self._ends, lambda block: self._before.get(block, ())))

    def _compute_states(self) -> None:
        self._rounds = 0
        self._fixpoint = Fixpoint(self.flow.following, _meet)
        first = State.at_entry(self._code.cpu)
        self._fixpoint.arrive(self.flow.start, first)
        while True:
            self._fixpoint.settle(self._follow_in_time)
            # code without a jump to it handles exceptions; nothing is known at its start
            unreached = self.flow.unreached(self._fixpoint.states)
            if unreached is None:
                return
            self.flow.leaders.add(unreached)
            self._fixpoint.arrive(unreached, State(self._code.cpu, {}, first.bases))

    def _follow_in_time(self, block: int) -> None:
        self._rounds += 1
        if self._rounds > _MAX_ROUNDS * len(self.flow.leaders):
            raise TooLarge("the analysis does not end")
        if self._callees.is_late():
            raise TooLarge("the time for all functions is over")
        self._follow(block)

    # -- one path --------------------------------------------------------------------------------------------------

    def before(self, pc: int) -> State | None:
        """The state before the instruction that covers a program counter; None if there is no such instruction."""
        states = self._fixpoint.states
        leader = max((address for address in states if address <= pc), default=None)
        if leader is None:
            return None
        state, at = states[leader].copy(), leader
        while at in self.flow.instructions and (at == leader or at not in self.flow.leaders):
            instruction = self.flow.instructions[at]
            if at <= pc < instruction.next_address:
                return state
            if not instruction.falls_through:
                return None
            self._step(instruction, state)
            at = instruction.next_address
        return None

    def called_at(self, pc: int) -> int | None:
        """The function that the call at a program counter calls."""
        call, state = self.flow.at(pc), self.before(pc)
        if call is None or call.kind != "call" or state is None:
            return None
        return self._transfer.called(call, state)

    def _follow(self, leader: int) -> None:
        """Follow the instructions of a block to its end."""
        instructions, leaders = self.flow.instructions, self.flow.leaders
        state, at, self._at = self._fixpoint.states[leader].copy(), leader, leader
        while at in instructions:
            instruction = instructions[at]
            is_taken = _is_taken(instruction, state)
            is_last = instruction.kind == "call" and self._never_returns(instruction, state)
            if is_taken is not False or instruction.kind != "jump":
                self._step(instruction, state)
            if not instruction.falls_through or is_taken or is_last:
                return
            if instruction.kind == "jump" and instruction.condition in ("equal", "unequal"):
                decide(state, instruction.condition == "unequal")
            at = instruction.next_address
            if at in leaders:
                self._arrive(at, state)
                return

    def _never_returns(self, call: Instruction, state: State) -> bool:
        called = self._transfer.called(call, state)
        return called is not None and self._code.never_returns(called)

    def _step(self, instruction: Instruction, state: State) -> None:
        """Change a state as an instruction does, and continue where it leads."""
        self._transfer.note_uses(instruction, state)
        if instruction.kind == "jump":
            self._jump(instruction, state)
        elif instruction.kind == "return":
            self._exit(state)
        else:
            self._transfer.apply(instruction, state)

    # -- jumps and returns -----------------------------------------------------------------------------------------

    def _jump(self, instruction: Instruction, state: State) -> None:
        target = instruction.jump_target
        leaves = state.values.get(state.cpu.STACK_POINTER) == entry(state.cpu.STACK_POINTER)
        if target is None:
            cases = self.flow.cases(instruction, lambda: {
                value.offset for value in state.values.values() if value.base == CONSTANT})
            for case in cases:
                self._arrive(case, state)
            if leaves:
                self._leave(instruction, state, self._transfer.called(instruction, state))
            elif not cases:
                raise TooLarge("the target of a jump is unknown")
        elif self.flow.contains(target):
            self._arrive(target, _taken(instruction, state))
        elif leaves and not self._code.is_part(target, self.flow.parts) or self._code.is_stub(target):
            self._leave(instruction, state.copy(), target)
        else:  # a part that the compiler has put elsewhere
            part = self._code.program.function_range(target)
            if part is None:
                raise TooLarge("a jump leads to code without a frame description")
            self.flow.add_part(*part)
            self.flow.leaders.add(target)
            self._arrive(target, _taken(instruction, state))

    def _leave(self, jump: Instruction, state: State, called: int | None) -> None:
        """Follow a jump to another function, which returns to the caller."""
        self._transfer.call(jump, state, called)
        self._exit(state)

    def _arrive(self, block: int, state: State) -> None:
        if self._is_settled:
            self._before.setdefault(block, set()).add(self._at)
        elif block in self.flow.instructions:
            self._fixpoint.arrive(block, state)

    def _exit(self, state: State) -> None:
        if self._is_settled:
            self.exits.append(state.copy())
            self._ends.add(self._at)


def _meet(address: int, known: State | None, other: State) -> State:
    met = meet(address, known, other)
    return known if known is not None and met is not known and met.is_same(known) else met


def _taken(jump: Instruction, state: State) -> State:
    """The state at the target of a jump."""
    if jump.condition not in ("equal", "unequal") or state.compared is None:
        return state
    made = state.copy()
    decide(made, jump.condition == "equal")
    return made


def _is_taken(instruction: Instruction, state: State) -> bool | None:
    if state.is_zero is None or instruction.condition not in ("equal", "unequal"):
        return None
    return state.is_zero == (instruction.condition == "equal")
