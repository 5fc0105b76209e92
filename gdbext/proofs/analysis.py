"""Data-flow analysis of machine code: the locks that a function holds at a place in its code, without symbols.

The analysis follows every path from the function's entry. It knows the functions that acquire and release locks, and
tracks their arguments through registers and memory. A lock is held at a place if every path to that place acquires it,
and none releases it afterwards. The release of an unknown lock ends the proof for all locks that it may be.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from gdbext.arch.protocol import Instruction
from gdbext.errors import GdbextError, if_unreadable
from gdbext.holders.function_flow import Function, TooLarge, analyse
from gdbext.holders.known_code import CodeMemory
from gdbext.holders.lock_state import ANY_LOCK, NO_EFFECT, Effect, Reach, State, Value
from gdbext.holders.pairs import Inlined
from gdbext.inferior.cache import read_u64
from gdbext.inferior.protocol import Module, Target
from gdbext.remembered import remembered
from gdbext.threads.code import Code
from gdbext.threads.function_code import iter_branches

#: Bounds: bytes of one function, callees that are analysed, depth of calls.
_MAX_FUNCTION, _MAX_CALLEES, _MAX_DEPTH = 1 << 14, 200, 6
#: Most bytes of a function that does nothing but return a constant, as __gthread_active_p without optimisation.
_MAX_CONSTANT = 32
#: Most bytes of one function, and most functions, that are searched for calls.
_MAX_SEARCH, _MAX_SEARCHED = 1 << 20, 5000
#: Most bytes of a function that can be seen not to return.
_MAX_PANIC = 512
#: Most bytes of one that is decoded even if it has bytes of an instruction that returns.
_MAX_SHORT = 128
#: Most functions that are searched for exchanges.
_MAX_EXCHANGING = 1000
#: Most processor time since the first function was analysed, in seconds. What is analysed later proves nothing.
_MAX_SECONDS = 10.0


class LockFlow:
    """Finds the locks that functions hold.

    :param effects: the effects of the functions that acquire and release locks, by address. They change no memory but
        the lock, unless other threads do meanwhile.
    :param outside: the files of the C library, whose other functions never release a lock of the program. Their
        messages are translated, for which they take locks of their own.
    :param inlined: the instructions that acquire and release locks in code outside of these files.
    :param calling_back: files whose functions call code of the program, which may release any lock.
    :param waiting: functions of these files that only use the address of a lock, as to wait for it.
    """

    def __init__(self, target: Target, code: Code, effects: Mapping[int, Effect],
                 outside: Sequence[Module] = (), inlined: Inlined | None = None,
                 calling_back: Sequence[Module] = (), waiting: Collection[int] = ()) -> None:
        self._target = target
        self.memory = CodeMemory(target.memory, code)
        self.code = code
        self.cpu = code.cpu
        # by their paths, as the next snapshot has other objects for the same files
        self._outside = frozenset(module.path for module in outside)
        self._calling_back = frozenset(module.path for module in calling_back)
        self.inlined = inlined
        self._known = {**effects, **{address: Effect() for address in waiting}}
        self._primitives = frozenset(self._known)
        self.primitive_effects = [*self._known.values()]
        self._functions: dict[int, Function | None] = {}
        self._reaching: dict[tuple[frozenset[int], int, int], bool] = {}
        self._callees = 0
        # function -> the smallest depth of a call at which a bound was reached
        self._cut: dict[int, int] = {}
        self._is_cut = False
        #: A function outside may copy memory to where its first argument points, as memcpy does.
        arguments = frozenset(code.cpu.ARGUMENTS)
        self.copying = Reach(copies=frozenset(code.cpu.ARGUMENTS[:1]), uses=arguments)
        self.any_reach = Reach(unknown=True, uses=arguments)
        self._only_uses = Reach(uses=arguments)
        self._reaches: dict[int, Reach] = {}
        self._exchanging = 0
        self._end = time.thread_time() + _MAX_SECONDS
        self._is_exhausted = False
        self._postpones = False
        self._postponed: dict[object, Callable[[], object]] = {}
        self._asked: set[object] = set()

    def continue_with(self, target: Target, code: Code) -> bool:
        """Go on with another snapshot of the same files; False if what is known may not be right for it."""
        is_exhausted = (self._is_exhausted or self._exchanging > _MAX_EXCHANGING
                        or len(self._reaching) > _MAX_SEARCHED)
        if is_exhausted or not self.memory.continue_with(target.memory, code):
            return False
        self._target, self.code = target, code
        self._end = time.thread_time() + _MAX_SECONDS
        for address in [*self._cut]:
            self._renew(address, -1)
        return True

    def postpone(self, postpones: bool) -> None:
        """Take functions that are not known yet for unknown code until `catch_up`, or analyse them at once."""
        self._postpones = postpones

    @property
    def is_behind(self) -> bool:
        """Whether functions were postponed."""
        return bool(self._postponed)

    def catch_up(self) -> None:
        """Analyse the functions that were postponed."""
        postponed, self._postponed, self._postpones = self._postponed, {}, False
        for analyse_now in postponed.values():
            analyse_now()

    def _is_postponed(self, what: str, address: int | None, analyse_now: Callable[[], object]) -> bool:
        """Whether what is asked for is analysed later; if it is analysed now, it will be known later."""
        key = what, address
        if not self._postpones or key in self._asked:
            self._asked.add(key)
            return False
        self._postponed[key] = analyse_now
        return True

    def is_late(self) -> bool:
        """Whether the time for all functions is over."""
        self._is_exhausted |= time.thread_time() >= self._end
        return self._is_exhausted

    def start_of(self, pc: int, entered: int | None = None) -> int | None:
        """The start of the function of a program counter; None if it is unknown.

        :param pc: for a caller, the address of any byte of its call.
        :param entered: the function whose call the frame is in, if it is known. The code may be a part of it that the
            compiler has placed apart.
        """
        found = self.code.function_range(pc)
        if found is None:
            return None
        for start in {entered, *self._jumps_into(found)} - {None, found[0]}:
            whole = self._function(start, 0) if start is not None and self.is_relevant(start) else None
            if whole is not None and whole.contains(pc):
                return start
        return found[0] if self.code.starts_function(found[0]) else None

    def _jumps_into(self, found: tuple[int, int]) -> Iterable[int]:
        """The functions into which code jumps behind their start, as code that is placed apart does to come back."""
        targets = self.calls(*found)[1] if found[1] - found[0] <= _MAX_SEARCH else ()
        ranges = ((at, self.code.function_range(at)) for at in targets)
        return [other[0] for at, other in ranges if other is not None and other[0] != at]

    def held_at(self, pc: int, entered: int | None = None) -> State | None:
        """The state before the instruction at a program counter; None if its function cannot be analysed.

        The parameters are those of `start_of`.
        """
        function = self._function_at(pc, entered)
        return function.before(pc) if function is not None else None

    def state_at(self, pc: int) -> State | None:
        """As `held_at`, also for a function that acquires and releases nothing."""
        start = self.start_of(pc)
        function = self._function(start, 0) if start is not None else None
        return function.before(pc) if function is not None else None

    def _function_at(self, pc: int, entered: int | None) -> Function | None:
        start = self.start_of(pc, entered)
        return self._function(start, 0) if start is not None and self.is_relevant(start) else None

    def called_at(self, pc: int, entered: int | None = None) -> int | None:
        """The function that the call at a program counter calls."""
        function = self._function_at(pc, entered)
        called = function.called_at(pc) if function is not None else None
        try:
            return self.cpu.behind_stub(self.memory, called) if called is not None else None
        except GdbextError:
            return None

    def acquired_by(self, pc: int, lock: Value, entered: int | None = None) -> int | None:
        """The function whose call has acquired a lock that is held at a program counter."""
        function = self._function_at(pc, entered)
        return function.acquired_by.get(lock) if function is not None else None

    def acquires_by_instruction(self, start: int, lock: Value) -> bool:
        """Whether an instruction of a function itself acquires a lock, on some path at least."""
        function = self._function(start, 1)
        return function is not None and function.acquires_by_instruction(lock)

    def keeps(self, start: int, pc: int, lock: Value) -> bool:
        """Whether a call in a function acquires a lock that the function returns with, if it makes that call."""
        function = self._function(start, 1)
        return function is not None and function.keeps(pc, lock)

    def gives_back(self, pc: int, lock: Value, entered: int | None = None) -> bool:
        """Whether the function of a program counter releases a lock that it has acquired."""
        function = self._function_at(pc, entered)
        return function is not None and lock in function.given_back

    def is_relevant(self, start: int, depth: int = 0) -> bool:
        """Whether a function, or one that it calls, may call a function that acquires or releases."""
        return self.may_call(self._primitives, start, depth)

    def may_call(self, functions: frozenset[int], start: int, depth: int = 0) -> bool:
        """Whether the function at an address, or one that it calls, may call one of these functions.

        The bytes are searched without decoding them, so the answer may be true for a function that makes no such call.
        """
        key = functions, start, depth
        known = self._reaching.get(key)
        if known is None:
            self._reaching[key] = False  # for a recursive call; the outer call decides
            known = self._reaching[key] = self._search(functions, start, depth)
        return known

    def is_outside(self, address: int) -> bool:
        """Whether code is in a file whose functions never release a lock of the program."""
        return self.has_outside(self.code.module(address))

    def has_outside(self, module: Module | None) -> bool:
        """As `is_outside`, of a file."""
        return module is not None and module.path in self._outside

    def calls_back(self, address: int) -> bool:
        """Whether code is in a file whose functions call code of the program."""
        module = self.code.module(address)
        return module is not None and module.path in self._calling_back

    def _search(self, functions: frozenset[int], start: int, depth: int) -> bool:
        if self.calls_back(start):
            return True
        found = self.code.function_range(start)
        if found is None or self.is_outside(start):
            return False
        if found[1] - found[0] > _MAX_SEARCH or len(self._reaching) > _MAX_SEARCHED:
            return True  # unknown, so it counts as a release of any lock
        return (self._exchanges(*found) or not functions.isdisjoint(self.calls(*found)[0])
                or depth < _MAX_DEPTH and any(self.may_call(functions, callee, depth + 1)
                                              for callee in self.callees(*found)))

    @remembered
    def _exchanges(self, start: int, end: int) -> bool:
        """Whether code may acquire or release a lock by an instruction."""
        if self.inlined is None:
            return False
        try:
            computes = not self.inlined.releases.isdisjoint(("adds", "computes"))
            if not self.cpu.may_exchange(self.memory.read(start, end - start), computes):
                return False
            self._exchanging += 1
            if self._exchanging > _MAX_EXCHANGING:
                return True  # unknown
            found = [each.exchange for each in self.instructions(start, end)]
        except GdbextError:
            return True
        return any(each is not None and self.inlined.may_be(each) for each in found)

    @remembered
    def calls(self, start: int, end: int) -> tuple[frozenset[int], Sequence[int]]:
        """The functions that code may call, also behind stubs and slots; and the targets of its branches, in order."""
        called: set[int] = set()
        callees: list[int] = []
        try:
            for _, at, function, _ in iter_branches(self.memory, self.code, start, end):
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
                            if not start <= function < end and self.code.module(function) is not None
                            and self.code.starts_function(function)))

    def _renew(self, address: int, depth: int) -> None:
        """Forget what is known of a function if it is incomplete only because of a deeper call.

        What is complete is kept for all depths, so that more is known if inner frames are examined first.
        """
        if self._cut.get(address, -1) > depth:
            del self._cut[address]
            self._known.pop(address, None)
            self._functions.pop(address, None)
            self._reaches.pop(address, None)

    def _function(self, start: int, depth: int) -> Function | None:
        self._renew(start, depth)
        if start not in self._functions:
            if depth == 0:
                if self._is_postponed("function", start, lambda: self._function(start, 0)):
                    return None
                self._callees = 0
            self._functions[start] = None  # for a recursive call
            found = self.code.function_range(start)
            if found is not None and self.code.starts_function(start):
                self._functions[start] = analyse(self, found, depth)
        return self._functions[start]

    def effect(self, address: int, depth: int) -> Effect:
        """The effect of a call of the function at an address, or behind the stub there."""
        try:
            address = self.cpu.behind_stub(self.memory, address)
        except GdbextError:
            return NO_EFFECT
        self._renew(address, depth)
        known = self._known.get(address)
        if known is None:
            self._known[address] = ANY_LOCK  # for a recursive call
            with self._noting_cuts(address, depth):
                known = self._known[address] = self._effect_of(address, depth)
        self._is_cut |= address in self._cut
        return known

    @contextlib.contextmanager
    def _noting_cuts(self, address: int, depth: int) -> Iterator[None]:
        """Note if a bound is reached while something about the function at an address is found out."""
        before, self._is_cut = self._is_cut, False
        yield
        if self._is_cut:
            self._cut[address] = min(depth, self._cut.get(address, depth))
        self._is_cut |= before

    def effect_of_call(self, address: int) -> Effect:
        """The effect of a call of a function by a frame of a stack."""
        if self._is_postponed("effect", address, lambda: self.effect_of_call(address)):
            return ANY_LOCK
        self._callees = 0
        return self.effect(address, 1)

    def _effect_of(self, address: int, depth: int) -> Effect:
        if self.calls_back(address):
            return ANY_LOCK
        found = self.code.function_range(address)
        if found is None or found[0] != address:
            return NO_EFFECT
        if not self.is_relevant(address, depth) and found[1] - found[0] > _MAX_CONSTANT:
            return NO_EFFECT
        self._callees += 1
        if depth > _MAX_DEPTH or self._callees > _MAX_CALLEES:
            self._is_cut = True
            return ANY_LOCK
        function = self._function(address, depth)
        return function.effect() if function is not None else ANY_LOCK

    def reach(self, address: int | None, depth: int) -> Reach:
        """What may happen to addresses that the function at an address gets.

        :param address: None if it is not known which function is called.
        """
        try:
            address = self.cpu.behind_stub(self.memory, address) if address is not None else None
        except GdbextError:
            return self.any_reach
        if address is None:
            return self.any_reach
        if address in self._primitives:
            return self._only_uses
        self._renew(address, depth)
        if address not in self._reaches:
            self._reaches[address] = self.any_reach  # for a recursive call
            with self._noting_cuts(address, depth):
                self._reaches[address] = self.copying if self.is_outside(address) else self._reach_of(address, depth)
        self._is_cut |= address in self._cut
        return self._reaches[address]

    def _reach_of(self, address: int, depth: int) -> Reach:
        if self.calls_back(address):
            return self.any_reach
        self._callees += 1
        if depth > _MAX_DEPTH or self._callees > _MAX_CALLEES:
            self._is_cut = True
            return self.any_reach
        function = self._function(address, depth)
        return function.reach(depth) if function is not None else self.any_reach

    def passes(self, pc: int, lock: Value, entered: int | None = None) -> bool:
        """Whether the call at a program counter gets the address of a lock that is held there."""
        function = self._function_at(pc, entered)
        return function is None or function.passes(pc, lock)

    def has_called_unknown(self, pc: int) -> bool:
        """Whether the function of a program counter may have called code that is not known and that has returned."""
        state = self.state_at(pc)
        return state is None or any(self.reach_of_call(called).unknown for called in state.called)

    def reach_of_call(self, address: int | None) -> Reach:
        """As `reach`, of a call by a frame of a stack."""
        if self._is_postponed("reach", address, lambda: self.reach_of_call(address)):
            return self.any_reach
        self._callees = 0
        return self.reach(address, 1)

    @remembered
    def never_returns(self, address: int) -> bool:
        """Whether the function at an address, or behind the stub there, has no way to return, as one that panics."""
        try:
            address = self.cpu.behind_stub(self.memory, address)
            found = self.code.function_range(address)
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

    # -- for the analysis of one function ---------------------------------------------------------------------

    @if_unreadable(False)
    def is_stub(self, address: int) -> bool:
        """Whether an address is that of a stub, which leads to a function of another file."""
        return self.cpu.behind_stub(self.memory, address) != address

    def is_part(self, target: int, parts: Iterable[tuple[int, int]]) -> bool:
        """Whether a jump to an address, with an empty frame, leads to a part of the function and not to another one.

        Code that jumps back into the function's parts is one.
        """
        try:
            if self.cpu.behind_stub(self.memory, target) != target:
                return False
        except GdbextError:
            return False
        found = self.code.function_range(target)
        if found is None:
            return False
        return found[0] != target or not self.code.starts_function(target) or any(
            start < at < end for at in self.calls(*found)[1] for start, end in parts)

    @remembered
    def instructions(self, start: int, end: int) -> Sequence[Instruction]:
        """The instructions of a piece of code.

        :raises GdbextError: it is too large or not readable.
        """
        if end - start > _MAX_FUNCTION:
            raise TooLarge("the function is too large")
        self.memory.read(start, end - start)  # the debugger may disassemble unreadable memory as zeros
        found = self._target.disassemble(start, end)
        if not found:  # the time for the snapshot is over
            self._is_exhausted = True
            raise TooLarge("the code cannot be disassembled")
        return [self.cpu.parse(*each) for each in found]

    @if_unreadable(None)
    def _loaded(self, address: int) -> int | None:
        return read_u64(self.memory, address)

    @if_unreadable(None)
    def slot(self, address: int) -> int | None:
        """The word at an address, if it cannot have changed: it is in a table of the dynamic linker."""
        module = self.code.module(address)
        return read_u64(self.memory, address) if module is not None and self._is_fixed(module, address) else None

    def _is_fixed(self, module: Module, address: int) -> bool:
        section = next((each for each in module.sections if each.start <= address < each.end), None)
        if section is not None and section.name in (".got", ".got.plt", ".data.rel.ro", ".rodata"):
            return True
        region = self.code.space.find(address)
        return region is not None and region.permissions is not None and "w" not in region.permissions

    @if_unreadable(None)
    def table_entry(self, table: int, index: int) -> int | None:
        """The target of an entry in a table of distances."""
        return table + int.from_bytes(self.memory.read(table + 4 * index, 4), "little", signed=True)
