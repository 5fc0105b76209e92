"""Python in a target: runtimes, the Python thread states of threads, GILs, Python stacks."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from gdbext.cpython.frames import FrameReader, PyStack
from gdbext.cpython.gil import GilState
from gdbext.cpython.greenlets.greenlets import GreenletReader
from gdbext.cpython.objects import Objects
from gdbext.cpython.runtime import (
    InterpreterState,
    PythonRuntime,
    ThreadState,
    find_runtimes,
    iter_interpreters,
    not_stopped,
    thread_names,
)
from gdbext.cpython.tasks import AsyncioReader, uses_asyncio, with_asyncio_offsets
from gdbext.elf.dynamic import find_dynamic_symbol
from gdbext.errors import GdbextError, RuntimeNotFound, if_unreadable
from gdbext.inferior.protocol import Memory, Module, Target
from gdbext.layout.table import Struct
from gdbext.model import RECORDED, Evidence, Gil, Interpreter, PythonState, Runtime, StopTheWorld
from gdbext.model.kinds import GIL
from gdbext.model.reasons import Reason, because, because_of
from gdbext.record import record
from gdbext.runtimes.other_pythons import find_other_pythons
from gdbext.threads.code import Code, InterpreterCode
from gdbext.threads.findings import Findings
from gdbext.threads.gone import GoneOwners
from gdbext.threads.threads import SeenThread, Threads


class TargetWithTypes(Target, Protocol):
    """A target with debug information."""

    def debug_structs(self, module: Module) -> Mapping[str, Struct]:
        """CPython's structures from the module's debug information; empty if it has none."""
        ...


@record
class Python:
    """A runtime with its readers and interpreters.

    `eval_loop` is the start and the end of the evaluation function. `finalizing` is the thread that finalizes the
    runtime, after which other threads exit or hang when they take the GIL.
    """

    runtime: PythonRuntime
    objects: Objects
    frames: FrameReader
    eval_loop: tuple[int, int] = (0, 0)
    interpreters: Sequence[InterpreterState] = ()
    finalizing: int | None = None

    def is_eval(self, code: Code, pc: int) -> bool:
        """Whether a program counter is in the eval loop."""
        low, high = self.eval_loop
        if low <= pc < high:
            return True
        # the compiler puts its rarely executed part elsewhere, where only .symtab names it
        return (code.module(pc) is self.runtime.module
                and (code.symbol(pc, 1).function or "").startswith("_PyEval_EvalFrameDefault"))


@record
class PythonThread:
    """Python in one thread: its thread state in each interpreter, and the one that it runs in."""

    tstates: Sequence[tuple[Python, ThreadState]] = ()
    python: Python | None = None
    tstate: ThreadState | None = None
    name: str | None = None


NO_PYTHON = PythonThread()


@record
class SeenGil:
    """A distinct GIL, which several interpreters may share. `why` explains why it has no holder."""

    number: int
    state: GilState
    python: Python
    holder: int | None = None
    orphan: Reason | None = None
    orphan_evidence: Evidence = RECORDED
    why: Reason | None = None

    @property
    def lock(self) -> str:
        """Its id among the locks."""
        return f"{GIL}:{self.number}"


def read_pythons(target: TargetWithTypes, code: Code, pthreads: Collection[int], findings: Findings) -> list[Python]:
    """Read the CPython runtimes of a target with their interpreters and thread states.

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
        if code.unlisted is not None:  # this is reported once for the whole core
            findings.problem("Python", "unreadable", because_of(trouble))
        elif code.truncated is not None:
            findings.fail(f"{trouble}; {code.truncated}", "")
        else:
            findings.fail(str(trouble), trouble.hint)
    return [_read_python(target.memory, runtime, findings) for runtime in runtimes]


def _read_python(memory: Memory, runtime: PythonRuntime, findings: Findings) -> Python:
    objects = Objects(memory, runtime.layouts)
    symbol = find_dynamic_symbol(memory, runtime.module, "_PyEval_EvalFrameDefault")
    python = Python(runtime, objects, FrameReader(memory, runtime.layouts, objects),
                    (symbol.address, symbol.address + symbol.size) if symbol else (0, 0))
    if runtime.note:
        findings.notes.append(runtime.note)
    try:
        python = replace(python, interpreters=list(iter_interpreters(memory, runtime)))
    except GdbextError as error:
        findings.doubt(f"Python {runtime.version}", because_of(error, "interpreters"))
        return python
    if not python.interpreters:
        findings.problem(f"Python {runtime.version}", "not applicable", because("runtime-not-initialised"))
    return python


def read_python_side(target: TargetWithTypes, code: Code, threads: Threads, gone: GoneOwners,
                     findings: Findings) -> PythonSide:
    """Read the runtimes, the thread states of each thread, and the GILs."""
    memory, number_of = target.memory, threads.number_of_pthread
    pythons = [replace(python, finalizing=_finalizing(memory, python, number_of, findings))
               for python in read_pythons(target, code, number_of, findings)]
    tstates: dict[int, list[tuple[Python, ThreadState]]] = {}
    names: dict[int, str] = {}
    for python in pythons:
        for interpreter in python.interpreters:
            if interpreter.problem:
                findings.doubt(f"interpreter {interpreter.id}", because("text", text=interpreter.problem))
            for tstate in interpreter.threads:
                if tstate.thread_id in number_of:
                    tstates.setdefault(number_of[tstate.thread_id], []).append((python, tstate))
            read_names, nothing = functools.partial(_thread_names, python, interpreter, findings), dict[int, str]()
            for pthread, name in findings.guard("names of threads", read_names, nothing, doubt=False).items():
                if pthread in number_of:
                    names.setdefault(number_of[pthread], name)
    number_of_tstate = {tstate.address: number for number, found in tstates.items() for _, tstate in found}
    gils: dict[int, SeenGil] = {}
    for python in pythons:
        for interpreter in python.interpreters:
            state = interpreter.gil
            if state is not None and state.address not in gils:
                gil = SeenGil(len(gils), state, python)
                gils[state.address] = _with_holder(gil, number_of_tstate, gone, findings)
    holders = {gil.state.holder for gil in gils.values()}
    seen = {number: PythonThread(found, *choose_tstate(found, holders), names.get(number))
            for number, found in tstates.items()}
    seen.update((number, PythonThread(name=name)) for number, name in names.items() if number not in seen)
    return PythonSide(memory, code, findings, pythons, seen, list(gils.values()),
                      {each.pthread: each.thread_pointer for each in threads})


def _thread_names(python: Python, interpreter: InterpreterState, findings: Findings) -> dict[int, str]:
    try:
        return thread_names(python.objects, interpreter.address)
    except GdbextError as error:
        findings.problem(f"interpreter {interpreter.id}", "unreadable", because_of(error, "python-names"))
        return {}


@if_unreadable(None)
def _finalizing(memory: Memory, python: Python, number_of_pthread: Mapping[int, int], findings: Findings) -> int | None:
    address = python.runtime.finalizing(memory)
    number = next((number_of_pthread.get(tstate.thread_id) for interpreter in python.interpreters
                   for tstate in interpreter.threads if tstate.address == address), None)
    if number is not None:
        findings.notes.append(because("finalizing", version=python.runtime.version, thread=number))
    return number


def _with_holder(gil: SeenGil, number_of_tstate: Mapping[int, int], gone: GoneOwners, findings: Findings) -> SeenGil:
    holder = gil.state.holder
    if holder is None:
        return gil
    tstates = [(interpreter, tstate) for interpreter in gil.python.interpreters for tstate in interpreter.threads]
    # since 3.13 each thread state records whether it holds the GIL
    noted = {tstate.address for interpreter, tstate in tstates if tstate.holds_gil
             and interpreter.gil is not None and interpreter.gil.address == gil.state.address}
    if noted and holder not in noted:
        findings.problem(gil.lock, "ambiguous", because(
            "gil-claimed-by-others", holder=holder, others=tuple(sorted(noted))))
    if holder in number_of_tstate:
        return replace(gil, holder=number_of_tstate[holder])
    thread_id = next((tstate.thread_id for _, tstate in tstates if tstate.address == holder), None)
    if thread_id is None:
        findings.problem(gil.lock, "not recorded", because("owner-in-no-list", tstate=holder))
        return gil
    orphan, evidence, why = gone.by_descriptor(thread_id)
    if orphan is None:
        findings.problem(gil.lock, "not recorded", because("owner-tstate-gone", tstate=holder, why=why))
    return replace(gil, orphan=orphan, orphan_evidence=evidence, why=why)


def combined_stack(tstates: Sequence[tuple[Python, ThreadState]], current: ThreadState | None) -> PyStack:
    """The Python stack of a thread in all its interpreters: one may have called into another.

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
    # the stack grows down: the innermost call has the lowest anchor; without anchors the current thread state is first
    order = [tstate is not current for _, tstate in tstates]
    stacks = [stack for _, stack in sorted(zip(order, stacks), key=lambda pair: (
        min((anchor for _, anchor in pair[1].calls if anchor is not None), default=0), pair[0]))]
    problems = [stack.problem for stack in stacks if stack.problem]
    return PyStack(tuple(frame for stack in stacks for frame in stack.frames),
                   tuple(call for stack in stacks for call in stack.calls), "; ".join(problems) or None)


def choose_tstate(tstates: Sequence[tuple[Python, ThreadState]],
                  holders: Collection[int | None]) -> tuple[Python, ThreadState]:
    """The current thread state of a thread that has one in several interpreters: it holds a GIL, or is attached.

    :param holders: the thread states (``PyThreadState *``) that hold a GIL.
    """
    chosen = next((pair for pair in tstates if pair[1].address in holders), None)
    return chosen or next((pair for pair in tstates if pair[1].state == "attached"), tstates[-1])


class PythonSide:
    """All of Python in a target: its runtimes, the Python thread state of each thread, the GILs.

    :param pointers: ``pthread_self()`` -> thread pointer, where the two differ.
    """

    def __init__(self, memory: Memory, code: Code, findings: Findings, pythons: Sequence[Python],
                 threads: Mapping[int, PythonThread], gils: Sequence[SeenGil],
                 pointers: Mapping[int, int] | None = None) -> None:
        self._memory = memory
        self._code = code
        self.findings = findings
        self._threads = threads
        self.pythons = pythons
        self.gils = gils
        self._pointers = pointers or {}
        self._asyncio: dict[int, AsyncioReader] = {}
        self._greenlets: dict[int, GreenletReader] = {}
        self.interpreter_code = InterpreterCode(code, [python.runtime.module for python in pythons])
        self.number_of_tstate = {tstate.address: number for number, thread in threads.items()
                                 for _, tstate in thread.tstates}

    def thread(self, number: int) -> PythonThread:
        """Python in a thread."""
        return self._threads.get(number, NO_PYTHON)

    def asyncio(self, python: Python, interpreter: int) -> AsyncioReader | None:
        """The reader of asyncio in an interpreter (``PyInterpreterState *``); None if that has not imported asyncio.

        :raises GdbextError: asyncio is damaged, or not known in this CPython.
        """
        if interpreter not in self._asyncio and uses_asyncio(python.objects, interpreter):
            self._asyncio[interpreter] = self._read_asyncio(python, interpreter)
        return self._asyncio.get(interpreter)

    def _read_asyncio(self, python: Python, interpreter: int) -> AsyncioReader:
        layouts = with_asyncio_offsets(self._memory, python.runtime.layouts, python.runtime.module, self._code.modules)
        return AsyncioReader(self._memory, layouts, python.objects, python.frames, interpreter)

    def greenlets(self, python: Python, interpreter: InterpreterState) -> GreenletReader:
        """The reader of greenlets in an interpreter, which keeps what it has read."""
        known = self._greenlets.get(interpreter.address)
        if known is None:
            known = self._greenlets[interpreter.address] = GreenletReader(
                self._memory, python.runtime.layouts, python.objects, python.frames, interpreter.address,
                python.runtime.address, {
                    tstate.address: self._pointers.get(tstate.thread_id, tstate.thread_id)
                    for tstate in interpreter.threads if tstate.thread_id})
        return known

    def is_eval(self, pc: int) -> bool:
        """Whether a program counter is in the eval loop of any runtime."""
        return any(python.is_eval(self._code, pc) for python in self.pythons)

    # -- for the report --------------------------------------------------------------------------------------

    def stack(self, seen: SeenThread) -> PyStack:
        """The Python stack of a thread."""
        thread = self.thread(seen.number)
        stack = combined_stack(thread.tstates, thread.tstate)
        if stack.problem:
            self.findings.problem(f"thread {seen.number}", "unreadable",
                                   because("part-unreadable", part="python-stack", error=stack.problem))
        return stack

    def state(self, seen: SeenThread) -> PythonState | None:
        """``attached``, ``detached`` or ``suspended``; None for a thread without a thread state."""
        tstate = self.thread(seen.number).tstate
        if tstate is None or tstate.state is not None:
            return tstate.state if tstate is not None else None
        # before 3.13 nothing records it; the thread that holds the GIL is attached
        return "attached" if any(gil.state.holder == tstate.address for gil in self.gils) else "detached"

    def runtimes(self, waiters: Mapping[str, Sequence[int]]) -> tuple[Runtime, ...]:
        """All runtimes for the report.

        :param waiters: numbers of the threads that wait for each GIL.
        """
        return tuple(self._runtime(python, waiters) for python in self.pythons)

    def _runtime(self, python: Python, waiters: Mapping[str, Sequence[int]]) -> Runtime:
        by_address = {gil.state.address: gil for gil in self.gils}
        interpreters = []
        for interpreter in python.interpreters:
            seen = by_address.get(interpreter.gil.address) if interpreter.gil is not None else None
            gil = Gil("", 0, "unknown")
            if seen is not None:
                gil = Gil(seen.lock, seen.state.address, seen.state.state, seen.holder, RECORDED,
                          tuple(waiters.get(seen.lock, ())), interpreter.drop_requested, seen.orphan)
            interpreters.append(Interpreter(interpreter.id, interpreter.address, gil,
                                            self._stop_the_world(python, interpreter)))
        runtime = python.runtime
        return Runtime(runtime.version, runtime.build, runtime.address, runtime.layouts.source, runtime.module.name,
                       tuple(interpreters), python.finalizing)

    def _stop_the_world(self, python: Python, interpreter: InterpreterState) -> StopTheWorld:
        stop = interpreter.stop_the_world
        if stop is None or not stop.requested:
            # a stop of the whole runtime stops the threads of all interpreters
            stop = python.runtime.stop_the_world(self._memory)
        if stop is None or not stop.requested:
            return StopTheWorld(False)
        number_of = self.number_of_tstate
        waiting = tuple(sorted(number_of[tstate.address] for tstate in not_stopped(stop, interpreter.threads)
                               if tstate.address in number_of))
        return StopTheWorld(True, number_of.get(stop.requester), waiting)
