"""Python in a target: runtimes, which thread has which thread state, GILs, who waits for them, Python stacks."""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from gdbext.cpython.frames import FrameReader, PyStack
from gdbext.cpython.gil import GilState
from gdbext.cpython.objects import Objects
from gdbext.cpython.runtime import (
    InterpreterState,
    PythonRuntime,
    ThreadState,
    find_runtimes,
    iter_interpreters,
    thread_names,
)
from gdbext.cpython.stop_the_world import not_stopped
from gdbext.elf.dynamic import find_dynamic_symbol
from gdbext.errors import GdbextError, RuntimeNotFound
from gdbext.glibc.futex import FutexWait
from gdbext.inferior.protocol import Memory, Module, Target
from gdbext.layout.table import Struct
from gdbext.model import (
    DERIVED,
    EXCLUSIVE,
    RECORDED,
    Gil,
    Holder,
    Interpreter,
    Lock,
    Runtime,
    StopTheWorld,
    Wait,
    Waiter,
)
from gdbext.model.reasons import Reason, because, because_of
from gdbext.runtimes.names import public_name
from gdbext.runtimes.other_pythons import find_other_pythons
from gdbext.threads.code import Code, InterpreterCode
from gdbext.threads.findings import Findings
from gdbext.threads.gone import GoneOwners
from gdbext.threads.threads import SeenThread, Threads

#: Among how many frames on top of a stack `take_gil` is looked for.
_TAKE_GIL_DEPTH = 8
#: Functions of the C library in which a thread that does not hold the GIL waits for it, and the size of their frames.
_WAITING_FUNCTIONS = ("pthread_cond_timedwait", "pthread_cond_clockwait", "pthread_mutex_lock")
_MAX_WAIT_FRAMES = 4096


class TargetWithTypes(Target, Protocol):
    """A target whose debug information can be asked."""

    def debug_structs(self, module: Module) -> Mapping[str, Struct]:
        """CPython's structures as the module's debug information describes them; empty where it has none."""
        ...


class Python:
    """A runtime with what is read from it."""

    def __init__(self, memory: Memory, runtime: PythonRuntime) -> None:
        self.runtime = runtime
        self.objects = Objects(memory, runtime.layouts)
        self.frames = FrameReader(memory, runtime.layouts, self.objects)
        self.interpreters: list[InterpreterState] = []
        self.finalizing: int | None = None
        symbol = find_dynamic_symbol(memory, runtime.module, "_PyEval_EvalFrameDefault")
        self._eval = (symbol.address, symbol.address + symbol.size) if symbol else (0, 0)

    def is_eval(self, code: Code, pc: int) -> bool:
        """Whether a program counter lies in the eval loop."""
        low, high = self._eval
        if low <= pc < high:
            return True
        # the part of it that the compiler thought to be run rarely lies elsewhere, and only .symtab names it
        return (code.module(pc) is self.runtime.module
                and (code.symbol(pc, 1).function or "").startswith("_PyEval_EvalFrameDefault"))


class SeenGil:
    """A distinct GIL: interpreters that share it share this."""

    def __init__(self, lock_id: str, state: GilState, python: Python) -> None:
        self.lock = lock_id
        self.state = state
        self.python = python
        self.holder: int | None = None
        self.orphan: Reason | None = None
        self.orphan_evidence = RECORDED
        #: why nobody is its holder though it is held
        self.why: Reason | None = None
        self.waiters: list[int] = []

    def as_lock(self) -> Lock:
        """The GIL as a lock among the others."""
        holders = (Holder(self.holder, EXCLUSIVE, RECORDED),) if self.holder is not None else ()
        return Lock(self.lock, "gil", self.state.address, None, self.state.state, holders,
                    tuple(Waiter(number, EXCLUSIVE) for number in self.waiters), (), self.orphan,
                    orphan_evidence=self.orphan_evidence, why=self.why)


def read_pythons(target: TargetWithTypes, code: Code, pthreads: Collection[int], findings: Findings) -> list[Python]:
    """The CPython runtimes of a target with their interpreters and thread states; none where there is no Python.

    :param pthreads: ``pthread_self()`` of the threads, to check layouts that were made for another build.
    """
    runtimes: Sequence[PythonRuntime] = ()
    troubles: Sequence[GdbextError] = ()
    try:
        runtimes, troubles = find_runtimes(target.memory, code.modules, target.architecture, set(pthreads),
                                           target.debug_structs)
    except RuntimeNotFound:
        pass
    if not troubles:
        others = find_other_pythons(target.memory, code.modules, [runtime.module for runtime in runtimes])
        findings.doubts += [because("other-python", name=name, module=module.name) for name, module in others]
    for trouble in troubles:
        if code.unlisted is not None:  # what is lost is a matter of the whole core, and reported as one
            findings.problem("Python", "unreadable", because_of(trouble))
        elif code.truncated is not None:
            findings.fail(f"{trouble}; {code.truncated}", "")
        else:
            findings.fail(str(trouble), trouble.hint)
    return [_read_python(target.memory, runtime, findings) for runtime in runtimes]


def _read_python(memory: Memory, runtime: PythonRuntime, findings: Findings) -> Python:
    python = Python(memory, runtime)
    if runtime.note:
        findings.notes.append(runtime.note)
    try:
        python.interpreters = list(iter_interpreters(memory, runtime))
    except GdbextError as error:
        findings.doubt(f"Python {runtime.version}", because_of(error, "interpreters"))
        return python
    if not python.interpreters:
        findings.problem(f"Python {runtime.version}", "not applicable", because("runtime-not-initialised"))
    return python


def combined_stack(tstates: Sequence[tuple[Python, ThreadState]], current: ThreadState | None) -> PyStack:
    """The Python stack of a thread, in all interpreters that it is in: one may have called into another.

    :param current: the thread state that the thread runs in now.
    """
    stacks = []
    for python, tstate in tstates:
        try:
            stacks.append(python.frames.stack(tstate.address))
        except GdbextError as error:
            stacks.append(PyStack((), (), str(error)))
    if len(stacks) == 1:
        return stacks[0]
    # the stack grows down, so the innermost call has the lowest anchor; without anchors the thread state that
    # runs now comes first
    order = [(0 if tstate is current else 1) for _, tstate in tstates]
    stacks = [stack for _, stack in sorted(zip(order, stacks), key=lambda pair: (
        min((anchor for _, anchor in pair[1].calls if anchor is not None), default=0), pair[0]))]
    problems = [stack.problem for stack in stacks if stack.problem]
    return PyStack(tuple(frame for stack in stacks for frame in stack.frames),
                   tuple(call for stack in stacks for call in stack.calls), "; ".join(problems) or None)


def choose_tstate(tstates: Sequence[tuple[Python, ThreadState]],
                  holders: Collection[int | None]) -> tuple[Python, ThreadState]:
    """The thread state that a thread runs in, of those that it has in several interpreters.

    It holds a GIL, or is attached.

    :param holders: the thread states (``PyThreadState *``) that hold a GIL.
    """
    chosen = next((pair for pair in tstates if pair[1].address in holders), None)
    return chosen or next((pair for pair in tstates if pair[1].state == "attached"), tstates[-1])


class PythonSide:
    """All of Python in a target; links thread states to the threads."""

    def __init__(self, target: TargetWithTypes, code: Code, threads: Threads, gone: GoneOwners,
                 findings: Findings) -> None:
        self._memory = target.memory
        self._gone = gone
        self._code = code
        self._threads = threads
        self._findings = findings
        self._by_pthread = {seen.pthread: seen for seen in threads if seen.pthread}
        self.pythons = self._read_runtimes(target)
        self.interpreter_code = InterpreterCode(code, [python.runtime.module for python in self.pythons])
        self.number_of_tstate = {tstate.address: seen.number for seen in threads for _, tstate in seen.tstates}
        self.gils = self._read_gils()

    # -- runtimes and thread states --------------------------------------------------------------------------

    def _read_runtimes(self, target: TargetWithTypes) -> list[Python]:
        pythons = read_pythons(target, self._code, self._threads.number_of_pthread, self._findings)
        for python in pythons:
            for interpreter in python.interpreters:
                self._link_threads(python, interpreter)
            python.finalizing = self._finalizing(python)
        return pythons

    def _link_threads(self, python: Python, interpreter: InterpreterState) -> None:
        where = f"interpreter {interpreter.id}"
        if interpreter.problem:
            self._findings.doubt(where, because("text", text=interpreter.problem))
        for tstate in interpreter.threads:
            seen = self._by_pthread.get(tstate.thread_id)
            if seen is not None:
                seen.tstates.append((python, tstate))
        try:
            names = thread_names(self._memory, python.runtime.layouts, python.objects, interpreter.address)
        except GdbextError as error:
            self._findings.problem(where, "unreadable", because_of(error, "python-names"))
            return
        for pthread, name in names.items():
            seen = self._by_pthread.get(pthread)
            if seen is not None and seen.python_name is None:
                seen.python_name = name

    def _finalizing(self, python: Python) -> int | None:
        """The thread that shuts a runtime down; the others then end or hang when they want the GIL."""
        try:
            tstate = python.runtime.finalizing(self._memory)
        except GdbextError:
            return None
        number = next((seen.number for seen in self._threads for _, other in seen.tstates
                       if other.address == tstate), None)
        if number is not None:
            self._findings.notes.append(because("finalizing", version=python.runtime.version, thread=number))
        return number

    # -- the GIL ---------------------------------------------------------------------------------------------

    def _read_gils(self) -> list[SeenGil]:
        found: dict[int, SeenGil] = {}
        for python in self.pythons:
            for interpreter in python.interpreters:
                state = interpreter.gil
                if state is not None and state.address not in found:
                    gil = found[state.address] = SeenGil(f"gil:{len(found)}", state, python)
                    self._find_holder(gil)
        holders = {gil.state.holder for gil in found.values()}
        for seen in self._threads:
            if seen.tstates:
                seen.python, seen.tstate = choose_tstate(seen.tstates, holders)
        return list(found.values())

    def _find_holder(self, gil: SeenGil) -> None:
        holder = gil.state.holder
        if holder is None:
            return
        gil.holder = self.number_of_tstate.get(holder)
        tstates = [(interpreter, tstate) for interpreter in gil.python.interpreters for tstate in interpreter.threads]
        # since 3.13 each thread state notes itself whether it holds the GIL
        noted = {tstate.address for interpreter, tstate in tstates if tstate.holds_gil
                 and interpreter.gil is not None and interpreter.gil.address == gil.state.address}
        if noted and holder not in noted:
            self._findings.problem(gil.lock, "ambiguous", because(
                "gil-claimed-by-others", holder=holder, others=tuple(sorted(noted))))
        if gil.holder is not None:
            return
        if all(tstate.address != holder for _, tstate in tstates):
            self._findings.problem(gil.lock, "not recorded", because("owner-in-no-list", tstate=holder))
        else:
            thread_id = next(tstate.thread_id for _, tstate in tstates if tstate.address == holder)
            gil.orphan, gil.orphan_evidence, gil.why = self._gone.by_descriptor(thread_id)
            if gil.orphan is None:
                self._findings.problem(gil.lock, "not recorded",
                                       because("owner-tstate-gone", tstate=holder, why=gil.why))

    def gil_wait(self, seen: SeenThread) -> Wait | None:
        """A thread's wait for a GIL, or None; the GIL notes it among its waiters."""
        for gil in self.gils:
            wait = None
            if gil.holder != seen.number:
                if seen.futex is not None:
                    wait = self._sleeping_wait(gil, seen.futex)
                elif seen.tstate is not None and not (seen.call is not None and seen.call.blocked):
                    wait = self._wait_between_sleeps(gil, seen)
            if wait is not None:
                gil.waiters.append(seen.number)
                return wait
        return None

    def find_lone_waiters(self) -> None:
        """Waits for a GIL that are known because somebody asked its holder for it and only one thread can have.

        From 3.9 on the request is taken back when a thread gets the GIL, so while it stands somebody waits; a waiter
        that is caught in the few microseconds between two sleeps cannot be told by its system call. Since 3.13 the
        request is one to the thread that holds the GIL; before it is the interpreter's, and may be left over from
        before where interpreters share a GIL.

        Source: CPython 3.12 and 3.13 Python/ceval_gil.c, take_gil and drop_gil.
        """
        for gil in self.gils:
            interpreters = [interpreter for interpreter in gil.python.interpreters
                            if interpreter.gil is not None and interpreter.gil.address == gil.state.address]
            layouts = gil.python.runtime.layouts
            if gil.holder is None or gil.waiters or not any(each.drop_requested for each in interpreters):
                continue
            if not layouts.has("PyThreadState", "eval_breaker") and len(interpreters) != 1:
                continue
            able = [seen for seen in self._threads if seen.number != gil.holder and seen.wait is None and seen.tstates
                    and (seen.call is None or not seen.call.blocked)]
            if len(able) == 1 and self._threads.all_available:
                gil.waiters.append(able[0].number)
                able[0].wait = Wait(gil.lock, EXCLUSIVE, False, DERIVED, because("holder-was-asked"))

    def _sleeping_wait(self, gil: SeenGil, futex: FutexWait) -> Wait | None:
        if gil.state.state == "disabled":
            return None
        if gil.state.is_waited_for(futex.address, futex.timed, self._static_name(gil, futex.address)):
            # its sleep has a timeout, but the code only asks for the GIL again and repeats it
            return Wait(gil.lock, EXCLUSIVE, False)
        return None

    def _wait_between_sleeps(self, gil: SeenGil, seen: SeenThread) -> Wait | None:
        """A thread that wants the GIL wakes every 5 ms, asks for it and sleeps again: it may be caught awake."""
        if gil.state.state != "held":
            return None
        call = seen.call
        if seen.tstate is not None and seen.python is gil.python and seen.tstate.gil_requested:
            return Wait(gil.lock, EXCLUSIVE, False)  # CPython 3.15 and later record it
        if call is not None and call.name in ("futex", None):
            # the kernel has just let it go, and it has not run a single instruction since: it still waits
            address, timeout = call.arguments[0], call.arguments[3]
            if gil.state.is_waited_for(address, timeout != 0, self._static_name(gil, address)):
                return Wait(gil.lock, EXCLUSIVE, False)
        elif call is None and seen.python is gil.python and self._in_wait_for(gil, seen):
            return Wait(gil.lock, EXCLUSIVE, False)
        elif call is None and seen.python is gil.python and self._in_take_gil(seen):
            return Wait(gil.lock, EXCLUSIVE, False, DERIVED, because("runs-take-gil"))
        return None

    def _static_name(self, gil: SeenGil, address: int) -> str | None:
        # CPython 3.6 keeps its GIL in static variables, which only symbols tell apart
        if not gil.state.shared or self._code.module(address) is not gil.python.runtime.module:
            return None
        return self._code.symbol(address).function

    def _in_wait_for(self, gil: SeenGil, seen: SeenThread) -> bool:
        """Whether a thread is awake inside of a function of the C library in which it waits for the GIL.

        The interpreter has called that function, and one of the GIL's own words is at hand in it: in a register, or on
        the stack below the interpreter's frame. The names of these functions are exported.
        """
        native = seen.native(self._code)[:_TAKE_GIL_DEPTH]
        depth = next((i for i, (pc, _) in enumerate(native) if self.interpreter_code[pc]), 0)
        if not depth or not any(public_name(self._code.symbol(pc, i).function or "") in _WAITING_FUNCTIONS
                                for i, (pc, _) in enumerate(native[:depth])):
            return False
        low, high = seen.registers["rsp"] & ~7, native[depth][1]
        if not 0 < high - low <= _MAX_WAIT_FRAMES:
            return False
        try:
            words = struct.unpack(f"<{(high - low) // 8}Q", self._memory.read(low, (high - low) // 8 * 8))
        except GdbextError:
            return False
        return any(gil.state.is_waited_for(word, True, self._static_name(gil, word))
                   for word in {*words, *seen.registers.values()})

    def _in_take_gil(self, seen: SeenThread) -> bool:
        # it may have called others of the interpreter, and these the C library, to find out when to wake
        for i, (pc, _) in enumerate(seen.native(self._code)[:_TAKE_GIL_DEPTH]):
            if self.interpreter_code[pc] and public_name(self._code.symbol(pc, i).function or "") == "take_gil":
                return True
        return False

    def is_eval(self, pc: int) -> bool:
        """Whether a program counter lies in the eval loop of any runtime."""
        return any(python.is_eval(self._code, pc) for python in self.pythons)

    # -- for the report --------------------------------------------------------------------------------------

    def stack(self, seen: SeenThread) -> PyStack:
        """The Python stack of a thread."""
        stack = combined_stack(seen.tstates, seen.tstate)
        if stack.problem:
            self._findings.problem(f"thread {seen.number}", "unreadable",
                                   because("part-unreadable", part="python-stack", error=stack.problem))
        return stack

    def state(self, seen: SeenThread) -> str | None:
        """``attached``, ``detached`` or ``suspended``; None for a thread without a thread state."""
        if seen.tstate is None or seen.tstate.state is not None:
            return seen.tstate.state if seen.tstate is not None else None
        # before 3.13 nothing records it, and who holds the GIL is attached
        return "attached" if any(gil.state.holder == seen.tstate.address for gil in self.gils) else "detached"

    def runtimes(self) -> tuple[Runtime, ...]:
        """All runtimes as the report has them."""
        return tuple(self._runtime(python) for python in self.pythons)

    def _runtime(self, python: Python) -> Runtime:
        by_address = {gil.state.address: gil for gil in self.gils}
        interpreters = []
        for interpreter in python.interpreters:
            seen = by_address.get(interpreter.gil.address) if interpreter.gil is not None else None
            gil = Gil("", 0, "unknown")
            if seen is not None:
                gil = Gil(seen.lock, seen.state.address, seen.state.state, seen.holder, RECORDED,
                          tuple(seen.waiters), interpreter.drop_requested, seen.orphan)
            interpreters.append(Interpreter(interpreter.id, interpreter.address, gil,
                                            self._stop_the_world(python, interpreter)))
        runtime = python.runtime
        return Runtime(runtime.version, runtime.build, runtime.address, runtime.layouts.source, runtime.module.name,
                       tuple(interpreters), python.finalizing)

    def _stop_the_world(self, python: Python, interpreter: InterpreterState) -> StopTheWorld:
        stop = interpreter.stop_the_world
        if stop is None or not stop.requested:
            # one of the whole runtime stops the threads of each interpreter
            stop = python.runtime.stop_the_world(self._memory)
        if stop is None or not stop.requested:
            return StopTheWorld(False)
        number_of = self.number_of_tstate
        waiting = tuple(sorted(number_of[tstate.address] for tstate in not_stopped(stop, interpreter.threads)
                               if tstate.address in number_of))
        return StopTheWorld(True, number_of.get(stop.requester), waiting)
