"""Finds threads that provably hold a lock without a recorded owner, by the machine code of their frames.

A frame proves it if on every path to its call the code acquires the lock and does not release it afterwards, and the
address of the lock can be recomputed: from constants, or from registers and stack slots that still contain it. For a
lock of Rust a guard object proves it too: see `holders/guards.py`. The frames inside of the frame must not have
released the lock meanwhile.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from gdbext.elf.dynamic import find_dynamic_symbol
from gdbext.errors import GdbextError, if_unreadable
from gdbext.holders.guards import Cleanup, Guards
from gdbext.holders.known_code import KnownCode
from gdbext.holders.lock_flow import LockFlow
from gdbext.holders.lock_state import CONSTANT, ONLY, Effect, State, Value, entry
from gdbext.holders.near_addresses import frames_near
from gdbext.holders.pairs import PAIRS, Call, Pairs
from gdbext.inferior.cache import read_u64
from gdbext.inferior.protocol import Module, Target
from gdbext.model.kinds import LockKind
from gdbext.record import record
from gdbext.remembered import remembered
from gdbext.runtimes.names import in_inline_namespace, public_name, rust_name, without_hashes, without_parameters
from gdbext.threads.code import Code
from gdbext.threads.function_code import iter_branches
from gdbext.threads.site import MAX_DEPTH
from gdbext.threads.threads import SeenThread

#: Most frames of one thread that are examined, and the largest table of a module's links, in bytes.
_MAX_FRAMES, _MAX_LINKS = 256, 1 << 20
#: The functions of parking_lot, and those of Rust's standard library that acquire a lock and call no other code.
_WAITING = re.compile(r"<?parking_lot(_core)?::"
                      r"|<?std::sync::.*\b(mutex::Mutex<.+>::lock|rwlock::RwLock<.+>::(read|write))(<.*>)?$"
                      r"|<?std::sys::sync::(mutex|rwlock)::")
#: The sections with a module's links.
_LINKS = (".got", ".got.plt")
#: Most frames of a function that acquires a lock.
_MAX_PARTS = 4


@record
class Proof:
    """A frame that proves it: its function if it has a name, its module, and the function that acquired the lock.

    `call` is None if an atomic instruction has acquired it. With `by_guard`, a guard object of the frame will release
    it.
    """

    function: str | None
    module: str
    call: str | None
    by_guard: bool = False


@record
class FunctionCall:
    """The address of a function, and the first argument with which it was called."""

    function: int
    argument: int


@dataclass(eq=False)
class _Functions:
    """The functions of one row of the table in the files of a target, by address.

    `ending` are those after which, or during which, the lock may be released, and `own` those for no other kind of
    lock. `only` has the path of the file of each acquiring function without an argument.
    """

    own: frozenset[int]
    flow: LockFlow
    acquiring: Mapping[int, Call]
    ending: frozenset[int]
    running: Mapping[int, Call]
    only: Mapping[int, str]
    guards: Guards | None
    others_release: bool
    waiting: frozenset[int]

    @property
    def are_inlined(self) -> bool:
        """Whether code of any file that is not outside of the flow may acquire and release the locks itself."""
        return self.flow.inlined is not None

    def continue_with(self, target: Target, code: Code) -> bool:
        """Go on with another snapshot of the same files; False if what is known may not be right for it."""
        if self.guards is not None:
            self.guards.continue_with(target, code)
        return self.flow.continue_with(target, code)

    def postpone(self, postpones: bool) -> None:
        """See `LockFlow.postpone`."""
        self.flow.postpone(postpones)

    def catch_up(self) -> None:
        """See `LockFlow.catch_up`."""
        self.flow.catch_up()

    @property
    def is_behind(self) -> bool:
        """See `LockFlow.is_behind`."""
        return self.flow.is_behind


class ProvenHolders:
    """Finds the frame that proves that a thread holds a lock."""

    def __init__(self, target: Target, code: Code, library: Sequence[Module], known_code: KnownCode) -> None:
        self._target = target
        self._code = code
        self._library = library
        self._known_code = known_code
        known_code.continue_with(target, code)
        # by the path of a file, and functions
        self._linked: dict[str, frozenset[int]] = {}
        self._having: dict[tuple[frozenset[int], str], bool] = {}
        self._releasing: dict[tuple[frozenset[int], str], bool] = {}
        # by the number of a thread and the index of a frame
        self._known: dict[tuple[int, int], Mapping[str, int] | None] = {}
        # the same, by the functions of a row
        self._cleanups: dict[tuple[_Functions, int, int], Cleanup | None] = {}

    def find(self, seen: SeenThread, kind: LockKind, address: int, only: str | None = None,
             namespace: str | None = None, is_shared: bool | None = None,
             hidden: frozenset[int] = frozenset()) -> Proof | None:
        """The frame of a thread which proves that the thread holds the lock at an address; None if there is none.

        :param only: for a lock that is the only one of its library, the path of that library.
        :param is_shared: whether readers hold the lock; None if the guards of the thread prove nothing.
        :param namespace: the inline namespace of the library; see `namespace_of`.
        """
        functions = self._functions(kind, namespace, hidden) if kind in PAIRS else None
        if functions is None:
            return None
        native = seen.native(self._code)
        for index in self._possible_frames(functions, seen, address, only):
            if self._drop_releases(functions, seen, index, address, is_shared):
                return self._proof(native, index, None, True)
            call = self._frame_holds(functions, seen, index, address, only)
            if call is not None:
                # examined last, because the code of every inner frame is analysed for it
                if any(self._may_have_released(functions, seen, inner, address) for inner in range(index)):
                    return None
                return self._proof(native, index, self._called_by_name(functions, call))
        return None

    def _proof(self, native: Sequence[tuple[int, int]], index: int, call: str | None,
               by_guard: bool = False) -> Proof:
        pc = native[index][0]
        module, function = self._code.module(pc), self._code.frame(pc, index).function
        return Proof(without_hashes(function) if function else None, module.name if module is not None else "", call,
                     by_guard)

    def _possible_frames(self, functions: _Functions, seen: SeenThread, address: int,
                         only: str | None) -> Collection[int]:
        """The indices of the frames that may hold a lock: an analysis takes long, and few frames have its address.

        A frame has it in a register or on the stack, or it is that of a variable which its code can reach.
        """
        native = seen.native(self._code)[:_MAX_FRAMES]
        if only is not None or not (functions.are_inlined or functions.others_release):
            return range(len(native))  # a landing pad may load the address from any memory
        near = frames_near(self._target.memory, native, lambda index: self._known_registers(seen, index), self._is_code,
                           address)
        home = self._code.module(address)
        return [index for index, (pc, _) in enumerate(native)
                if index in near or home is not None and self._may_reach(self._code.module(pc), home.path)]

    def _known_registers(self, seen: SeenThread, index: int) -> Mapping[str, int] | None:
        """The registers of a frame, without a stop of the thread and without the debugger; None if some are unknown."""
        key = seen.number, index
        if key not in self._known:
            self._known[key] = self._unwound(seen, index)
        return self._known[key]

    @if_unreadable(None)
    def _unwound(self, seen: SeenThread, index: int) -> Mapping[str, int] | None:
        own = seen.registers if seen.is_restored else {**seen.registers, **self._target.known_registers(seen.ref)}
        registers = self._code.frame_registers(own, index)
        frame = registers.get(seen.cpu.PROGRAM_COUNTER), registers.get(seen.cpu.STACK_POINTER)
        is_known = frame == seen.native(self._code)[index] and registers.keys() >= {*seen.cpu.CALLEE_SAVED}
        return registers if is_known else None

    def _is_code(self, address: int) -> bool:
        region = self._code.space.find(address)
        return region is not None and bool(region.allows("x"))

    def _may_reach(self, module: Module | None, path: str) -> bool:
        """Whether code of a file may use a variable of a file with a path, or may call code that does."""
        return module is None or path in self._reachable(module) or None in self._reachable(module)

    @remembered
    def _reachable(self, module: Module) -> frozenset[str | None]:
        """The paths of the files to which a file is linked, and those to which they are; None if some are not known."""
        paths: set[str | None] = set()
        left = [module]
        while left:
            module = left.pop()
            if module.path not in paths:
                paths.add(module.path)
                if self._has_all_links(module):
                    left += [found for found in map(self._code.module, self._links(module))
                             if found is not None and not self._is_library(found)]
                else:
                    paths.add(None)
        return frozenset(paths)

    @staticmethod
    def _has_all_links(module: Module) -> bool:
        """Whether the sections with a file's links are known, and not too large to be read."""
        return any(section.name for section in module.sections) and all(
            section.end - section.start <= _MAX_LINKS for section in module.sections if section.name in _LINKS)

    def only_lock(self, kind: LockKind, return_address: int) -> str | None:
        """The library whose only lock the call before a return address acquires."""
        functions = self._functions(kind) if kind in PAIRS else None
        called = self._code.cpu.called(self._target.memory, return_address)
        return functions.only.get(called) if functions is not None and called is not None else None

    def namespace_of(self, kind: LockKind, native: Sequence[tuple[int, int]]) -> str | None:
        """The inline namespace of the library in which a thread waits, by its frames; None if there is none.

        It is a part of the names of dynamic symbols, which are found by a hash of the whole name.
        """
        versioned = PAIRS[kind].versioned
        names = [self._code.symbol(pc, i).function for i, (pc, _) in enumerate(native[:MAX_DEPTH])] if versioned else ()
        found = [versioned.match(name) for name in names if versioned is not None and name is not None]
        return next((match[1] for match in found if match is not None), None)

    def has_functions(self, kind: LockKind, namespace: str | None) -> bool:
        """Whether a file exports functions that acquire locks of a kind."""
        return self._functions(kind, namespace) is not None

    def find_hidden(self, kind: LockKind, seen: SeenThread, address: int, inside: int) -> None:
        """Find functions without exported names that a waiting thread is in, and that return with the lock.

        The frame of the innermost one contains the structure that describes the wait.

        :param inside: the address of that structure.
        """
        native = seen.native(self._code)
        index = next((i for i, (_, sp) in enumerate(native[1:]) if sp > inside), 0)
        if index < 2 or native[index][1] > inside:
            return
        inner = self._values.start_of(native[index - 1][0] - 1)
        starts = tuple(self._values.start_of(pc - 1) for pc, _ in native[index:index + _MAX_PARTS])
        hidden = self._known_code.hidden
        if starts[0] is not None and (
                starts[0] in hidden or inner is not None and self._argument(self._values, seen, index, 0) == address
                and self._keeps(kind, inner, starts[0], native[index][0] - 1)):
            self._known_code.hidden = hidden | {starts[0], *self._acquiring(kind, starts)}

    @remembered
    def _keeps(self, kind: LockKind, inner: int, start: int, pc: int) -> bool:
        """Whether a function that calls another one, in order to wait, returns with the lock of both first arguments.

        A function of the program does not, if the compiler has inlined all of the library's functions into it.
        """
        functions = self._functions(kind, None, frozenset((inner,)))
        return functions is not None and functions.flow.keeps(start, pc, entry(self._code.cpu.ARGUMENTS[0]))

    @remembered
    def _acquiring(self, kind: LockKind, starts: tuple[int | None, ...]) -> Collection[int]:
        """The callers of the first one of these functions that acquire the lock of their first argument, as it does.

        The last one may acquire it by an instruction, too. The code on that path is for the search for deadlocks,
        changes other words in the same way, and so may seem to release any lock.
        """
        functions = self._functions(kind, None, frozenset(start for start in starts[:1] if start is not None))
        lock = entry(self._code.cpu.ARGUMENTS[0])
        found: list[int] = []
        for start in starts[1:]:
            if functions is None or start is None:
                break
            flow = functions.flow
            effect = flow.effect_of_call(start)
            if lock in effect.acquires:
                found.append(start)
                continue
            if lock not in effect.releases and flow.acquires_by_instruction(start, lock) and any(
                    taken.lock == lock and taken.always and taken.kept for taken in effect.taken):
                found.append(start)
            break
        return found

    def call_of(self, seen: SeenThread, index: int) -> FunctionCall | None:
        """The call of a caller's function; None if no register or stack slot still contains its argument."""
        start = self._values.start_of(seen.native(self._code)[index][0] - 1)
        argument = self._argument(self._values, seen, index, 0)
        return FunctionCall(start, argument) if start is not None and argument is not None else None

    def _argument(self, flow: LockFlow, seen: SeenThread, index: int, number: int) -> int | None:
        """An argument of the call of a caller's function; None if no register or stack slot still contains it."""
        state = flow.state_at(seen.native(self._code)[index][0] - 1)
        return recompute(self._target, self._code, entry(self._code.cpu.ARGUMENTS[number]), state,
                         self._registers(seen, index)) if state is not None else None

    @cached_property
    def _values(self) -> LockFlow:
        """The analysis without any locks, which needs no other function than that of a frame."""
        return self._known_code.get("values", lambda: LockFlow(self._target, self._code, {}, self._code.modules))

    # -- the functions of a row --------------------------------------------------------------------------------

    def _functions(self, kind: LockKind, namespace: str | None = None,
                   hidden: frozenset[int] = frozenset()) -> _Functions | None:
        """The functions of a row; None if no file has one that acquires."""
        return self._known_code.get((kind, namespace, hidden), lambda: self._find_functions(kind, namespace, hidden))

    def _find_functions(self, kind: LockKind, namespace: str | None, hidden: frozenset[int]) -> _Functions | None:
        row: Pairs = PAIRS[kind]
        own, acquiring, releasing, running, suspending, waiting = (
            self._addresses(calls, namespace) for calls in (
                row.acquires, row.acquires + row.may_acquire, row.releases, row.runs, row.suspends, row.waits))
        inlined = row.inlined
        if not acquiring and hidden and row.hidden is not None:
            acquiring = {address: (Call(self._known_name(address) or "", 0), module) for address in hidden
                         for module in [self._code.module(address)] if module is not None}
            inlined = row.hidden
        if not (acquiring or running or row.dropped or row.inlined is not None and row.inlined.may_acquire):
            return None
        effects = dict.fromkeys(suspending, Effect(suspends=True))
        only: dict[int, str] = {}
        for address, (call, module) in acquiring.items():
            lock = self._lock(call, module)
            if call.argument is None:
                only[address] = module.path
            flag = self._code.cpu.ARGUMENTS[call.wait_flag] if call.wait_flag is not None else None
            effects[address] = (Effect(acquires={lock: frozenset()}) if call.succeeds == "always"
                                else Effect(attempt=(lock, call.succeeds == "zero"), wait_flag=flag))
        effects.update((address, Effect(releases=(self._lock(*found),))) for address, found in releasing.items())
        ending = frozenset((*releasing, *suspending))
        parts = {part: call for address, (call, _) in running.items() for part in self._parts(address)}
        are_own = row.inlined is not None or row.others_release
        outside = [*self._library, *self._interpreters()] if are_own else self._library
        flow = LockFlow(self._target, self._code, effects, outside, inlined,
                        [module for _, module in waiting.values()], frozenset(waiting))
        guards = (Guards(self._target, self._code, flow, row.inlined) if row.dropped and row.inlined is not None
                  else None)
        return _Functions(
            frozenset((*own, *ending, *parts)), flow, {address: call for address, (call, _) in acquiring.items()},
            ending, parts, only, guards, row.others_release, frozenset(waiting))

    def _interpreters(self) -> list[Module]:
        """The files with an interpreter, whose compiled code has no locks of other languages."""
        return [module for module in self._code.modules
                if find_dynamic_symbol(self._target.memory, module, "Py_Initialize") is not None]

    def _lock(self, call: Call, module: Module) -> Value:
        if call.argument is None:
            return Value((ONLY, module.path), 0)
        return entry(self._code.cpu.ARGUMENTS[call.argument]).plus(-call.offset)

    def _addresses(self, calls: Sequence[Call], namespace: str | None) -> dict[int, tuple[Call, Module]]:
        found: dict[int, tuple[Call, Module]] = {}
        for module in self._code.modules:
            for call in calls:
                name = in_inline_namespace(call.name, namespace) if namespace is not None else call.name
                symbol = find_dynamic_symbol(self._target.memory, module, name)
                if symbol is not None:
                    found.setdefault(symbol.address, (call, module))
        return found

    def _parts(self, function: int) -> Iterable[int]:
        """A function, and those that it calls or jumps to: the one that does the work has the same argument."""
        yield function
        found = self._code.function_range(function)
        if found is None:
            return
        try:
            for _, at, target, _ in iter_branches(self._target.memory, self._code, *found):
                inner = self._code.function_range(target)
                if at == target and inner is not None and inner[0] == target != function:
                    yield target
        except GdbextError:
            return

    # -- one frame -----------------------------------------------------------------------------------------------

    def _frame_holds(self, functions: _Functions, seen: SeenThread, index: int, address: int,
                     only: str | None) -> str | None:
        """The name of the function by which a frame has acquired the lock; None if it does not prove that."""
        native = seen.native(self._code)
        pc = native[index][0]
        if functions.running:
            return self._frame_runs(functions, seen, index, address)
        module = self._code.module(pc)
        if module is None or not self._may_acquire(functions, module):
            return None
        if functions.are_inlined and self._is_acquiring(functions, native, index):
            return None
        if index and self._ends(functions, native, index):
            return None
        flow, entered = functions.flow, self._entered(native, index)
        state = flow.held_at(pc - 1 if index else pc, entered)
        if state is None or not state.held:
            return None
        registers = self._registers(seen, index)
        for lock, released in state.held.items():
            if (lock.base[1] == only if lock.base[0] == ONLY else address not in released and
                    recompute(self._target, self._code, lock, state, registers) == address
                    and (not functions.others_release or flow.gives_back(pc - 1 if index else pc, lock, entered))
                    and not self._passed_on(functions, native, index, lock)):
                return self._name(functions, flow.acquired_by(pc - 1 if index else pc, lock, entered))
        return None

    def _passed_on(self, functions: _Functions, native: Sequence[tuple[int, int]], index: int, lock: Value) -> bool:
        """Whether the call of a frame may have passed a lock to code that is not known and that has returned."""
        if not functions.are_inlined or not index or not functions.flow.passes(
                native[index][0] - 1, lock, self._entered(native, index)):
            return False
        flow = functions.flow
        return any(i < index and flow.has_called_unknown(pc) or i and self._jumped_from_unknown(functions, native, i)
                   for i in range(index + 1) for pc in [native[i][0] - (i > 0)]
                   if not (flow.is_outside(pc) or flow.calls_back(pc)))

    def _jumped_from_unknown(self, functions: _Functions, native: Sequence[tuple[int, int]], index: int) -> bool:
        """Whether a frame has called code that is not known, or that has called such code and jumped to its callee."""
        flow, pc = functions.flow, native[index][0]
        called = self._code.cpu.called(self._target.memory, pc) or flow.called_at(pc - 1, self._entered(native, index))
        inner = self._code.function_range(native[index - 1][0] - (index > 1))
        return called is None or (inner is None or inner[0] != called) and flow.reach_of_call(called).unknown

    def _drop_releases(self, functions: _Functions, seen: SeenThread, index: int, address: int,
                       is_shared: bool | None) -> bool:
        """Whether a destructor of a frame would release a lock of Rust, which no inner frame has given back."""
        if not index or is_shared is None or functions.guards is None:
            return False
        native = seen.native(self._code)
        key = functions, seen.number, index
        if key not in self._cleanups:
            self._cleanups[key] = functions.guards.find_cleanup(native[index][0] - 1, self._registers(seen, index))
        cleanup = self._cleanups[key]
        if cleanup is None or address not in cleanup.releases or (address in cleanup.shared) != is_shared:
            return False
        callee = self._code.function_range(native[index - 1][0] - (index > 1))
        return callee is not None and callee[0] not in cleanup.helpers and not any(
            self._may_have_released(functions, seen, inner, address)
            for inner in range(index) if not self._is_wait(native, inner))

    def _is_wait(self, native: Sequence[tuple[int, int]], index: int) -> bool:
        """Whether a frame is of a function in which the thread waits for another lock."""
        name = self._code.symbol(native[index][0], index).function
        return name is not None and _WAITING.match(rust_name(name) or without_hashes(name)) is not None

    def _name(self, functions: _Functions, called: int | None) -> str:
        if called is None:
            return "?"
        with contextlib.suppress(GdbextError):
            called = self._code.cpu.behind_stub(self._target.memory, called)
        call = functions.acquiring.get(called)
        return call.name if call is not None else self._known_name(called) or f"{called:#x}"

    def _known_name(self, function: int) -> str | None:
        symbol = self._code.symbol(function).function
        return without_hashes(public_name(symbol)) if symbol else None

    def _frame_runs(self, functions: _Functions, seen: SeenThread, index: int, address: int) -> str | None:
        """Whether a frame is of a function that has called another one back while it holds the lock."""
        native = seen.native(self._code)
        if not index or self._in_library(native[index - 1][0]):
            return None
        function = self._code.function_range(native[index][0] - 1)
        call = functions.running.get(function[0]) if function is not None else None
        if call is None or self._argument(functions.flow, seen, index, call.argument or 0) != address:
            return None
        return call.name

    def _ends(self, functions: _Functions, native: Sequence[tuple[int, int]], index: int) -> bool:
        """Whether the call of a frame may have released a lock already: it releases, or has jumped to its callee."""
        return self._has_ended(functions, native[index][0], self._entered(native, index),
                               native[index - 1][0] - (index > 1))

    def _entered(self, native: Sequence[tuple[int, int]], index: int) -> int | None:
        """The function that the caller of a frame has called, which may have jumped to the frame's; None if unknown."""
        return self._code.cpu.called(self._target.memory, native[index + 1][0]) if index + 1 < len(native) else None

    @remembered
    def _has_ended(self, functions: _Functions, pc: int, entered: int | None, inner_pc: int) -> bool:
        called = self._code.cpu.called(self._target.memory, pc) or functions.flow.called_at(pc - 1, entered)
        if called is None:
            return False
        if called in functions.ending:
            return True
        inner = self._code.function_range(inner_pc)
        if inner is not None and inner[0] == called:
            return False
        effect = functions.flow.effect_of_call(called)
        return bool(effect.releases) or effect.releases_unknown

    def _may_have_released(self, functions: _Functions, seen: SeenThread, index: int, address: int) -> bool:
        """Whether a frame may have released a lock that a caller has acquired."""
        native = seen.native(self._code)
        pc = native[index][0] - (index > 0)
        if functions.flow.calls_back(pc):
            return not self._only_waits(functions, native, index)
        function = self._code.function_range(pc)
        if function is not None and function[0] in functions.ending:
            return True
        if functions.are_inlined and self._is_acquiring(functions, native, index):
            return False
        module = self._code.module(pc)
        if function is None or module is None or not self._may_release(functions, module):
            return False
        if index and self._ends(functions, native, index):
            return True
        entered = self._entered(native, index)
        start = functions.flow.start_of(pc, entered)
        if start is None:
            return True  # it jumped here from code that is not known
        if not functions.flow.may_call(functions.ending, start):
            return False
        state = functions.flow.held_at(pc, entered)
        if state is None or state.freed is None:
            return True
        registers = self._registers(seen, index) if state.freed else {}
        return any(recompute(self._target, self._code, lock, state, registers) in (address, None)
                   for lock in state.freed)

    def _only_waits(self, functions: _Functions, native: Sequence[tuple[int, int]], index: int) -> bool:
        """Whether a frame in a file whose functions call code of the program is of one that only waits for a lock."""
        outer = next((i for i in range(index, len(native)) if not functions.flow.calls_back(native[i][0])), None)
        called = self._code.cpu.called(self._target.memory, native[outer][0]) if outer is not None else None
        return called in functions.waiting

    def _called_by_name(self, functions: _Functions, call: str) -> str | None:
        """The function that has acquired a lock; None if an atomic instruction may have done so in its place."""
        inlined = functions.flow.inlined
        if inlined is not None and inlined.may_acquire and call not in {
                known.name for known in functions.acquiring.values() if not known.after_attempt}:
            return None
        return without_parameters(self._target.demangle(call))

    def _is_acquiring(self, functions: _Functions, native: Sequence[tuple[int, int]], index: int) -> bool:
        """Whether a frame is of a function that acquires a lock, or of what that has called in its file and below."""
        inner: list[Module | None] = []
        for i in range(index, min(index + _MAX_PARTS, len(native))):
            pc = native[i][0] - (i > 0)
            module, function = self._code.module(pc), self._code.function_range(pc)
            if function is not None and function[0] in functions.acquiring:
                return all(each is module or self._is_library(each) for each in inner)
            inner.append(module)
        return False

    def _in_library(self, pc: int) -> bool:
        return self._is_library(self._code.module(pc))

    def _is_library(self, module: Module | None) -> bool:
        return any(module is part for part in self._library)

    def _may_acquire(self, functions: _Functions, module: Module) -> bool:
        """Whether a file's functions may acquire locks of a row."""
        if functions.are_inlined:
            return not functions.flow.has_outside(module)
        return not functions.flow.has_outside(module) and self._has(functions.own, module)

    def _may_release(self, functions: _Functions, module: Module) -> bool:
        """Whether a file's functions may release locks of a row: it is linked with a file that can, or can itself."""
        if functions.are_inlined or functions.flow.has_outside(module):
            return not functions.flow.has_outside(module)
        key = functions.ending, module.path
        if key not in self._releasing:
            linked = {found.path: found for found in map(self._code.module, self._links(module)) if found is not None}
            self._releasing[key] = any(self._has(functions.ending, each) for each in (module, *linked.values()))
        return self._releasing[key]

    def _has(self, functions: frozenset[int], module: Module) -> bool:
        """Whether a file outside of the C library has one of these functions, or is linked with one."""
        key = functions, module.path
        if key not in self._having:
            self._having[key] = not self._is_library(module) and (
                any(map(module.contains, functions)) or not functions.isdisjoint(self._links(module)))
        return self._having[key]

    def _links(self, module: Module) -> frozenset[int]:
        """The functions of other files that a file has called so far, or has resolved when it was loaded."""
        if module.path not in self._linked:
            found: set[int] = set()
            for section in module.sections:
                if section.name in _LINKS and section.end - section.start <= _MAX_LINKS:
                    with contextlib.suppress(GdbextError):
                        data = self._target.memory.read(section.start, (section.end - section.start) & ~7)
                        found.update(memoryview(data).cast("Q"))
            self._linked[module.path] = frozenset(found)
        return self._linked[module.path]

    def _registers(self, seen: SeenThread, index: int) -> Mapping[str, int]:
        """The known registers of a frame; none if the debugger unwinds the stack differently."""
        frame = seen.native(self._code)[index]
        try:
            if index == 0:
                return self._target.registers(seen.ref, seen.cpu.FRAME)
            registers = self._target.frame_registers(seen.ref, index + len(seen.handler))
        except GdbextError:
            return {}
        pc, sp = registers.get(seen.cpu.PROGRAM_COUNTER), registers.get(seen.cpu.STACK_POINTER)
        return registers if (pc, sp) == frame else {}


@if_unreadable(None)
def recompute(target: Target, code: Code, lock: Value, state: State, registers: Mapping[str, int]) -> int | None:
    """The address that a value of the analysis stands for; None if no register or stack slot contains it."""
    if lock.base == CONSTANT:
        return lock.offset
    found: set[int] = set()
    name = code.cpu.STACK_POINTER
    top, sp = state.values.get(name), registers.get(name)
    # what the call gets a pointer to it may have changed already
    lowest = min((value.offset for name in code.cpu.ARGUMENTS for value in [state.values.get(name)]
                  if value is not None and state.is_stack(value)), default=None)
    for place, value in state.values.items():
        if value.base != lock.base:
            continue
        word: int | None = None
        if isinstance(place, str):
            word = registers.get(place)
        elif top is not None and sp is not None and place.base == top.base and (
                lowest is None or place.offset < lowest):
            try:
                word = read_u64(target.memory, sp + place.offset - top.offset)
            except GdbextError:
                continue
        if word is not None:
            found.add(word - value.offset + lock.offset & (1 << 64) - 1)
    return found.pop() if len(found) == 1 else None
