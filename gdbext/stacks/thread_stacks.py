"""Merged stacks of single threads, without reading other threads.

The runtimes with their thread states are read once, so this lives until the target continues.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice

from gdbext.cpython.runtime import ThreadState
from gdbext.cpython.values import Limits
from gdbext.glibc.pthread import pthread_self
from gdbext.glibc.version import find_c_library
from gdbext.inferior.protocol import ThreadRef
from gdbext.model import Local, PyFrame
from gdbext.model.reasons import Reason, because
from gdbext.record import record
from gdbext.stacks.merge import eval_frames
from gdbext.stacks.mixed import python_variables
from gdbext.threads.code import InterpreterCode, read_code
from gdbext.threads.findings import Findings
from gdbext.threads.python_side import Python, TargetWithTypes, choose_tstate, combined_stack, read_pythons


@record
class MergedStack:
    """A thread's native frames, and what replaces each.

    `native` are (program counter, stack pointer), innermost first. `python` has the Python frames that run in a native
    frame, by its index; `hidden` are the indices of the interpreter's other frames. If the two cannot be merged,
    `unmerged` says why, `python` and `hidden` are empty and `apart` has the Python frames. `variables` reads those of
    each Python frame, innermost first.
    """

    native: Sequence[tuple[int, int]]
    python: Mapping[int, Sequence[PyFrame]]
    hidden: frozenset[int]
    unmerged: Reason | None = None
    apart: tuple[PyFrame, ...] = ()
    variables: Callable[[Limits], Sequence[Sequence[Local]]] = lambda limits: ()


class ThreadStacks:
    """Merges the stacks of a target's threads.

    :raises GdbextError: the target's architecture is not decoded, or its files are not known.
    """

    def __init__(self, target: TargetWithTypes) -> None:
        findings = Findings()
        self._memory = target.memory
        self._code = read_code(target, findings)
        # on x86-64 a thread's ident is its thread pointer
        self._glibc = (find_c_library(target.memory, self._code.modules, target.architecture).layouts
                       if self._code.cpu.DESCRIPTOR_IS_BELOW else None)
        pythons = read_pythons(target, self._code, (), findings)
        self._interpreter_code = InterpreterCode(self._code, [python.runtime.module for python in pythons])
        self._tstates: dict[int, list[tuple[Python, ThreadState]]] = {}
        for python in pythons:
            for interpreter in python.interpreters:
                for tstate in interpreter.threads:
                    self._tstates.setdefault(tstate.thread_id, []).append((python, tstate))
        self._holders = {interpreter.gil.holder for python in pythons for interpreter in python.interpreters
                         if interpreter.gil is not None}

    def merged(self, thread: ThreadRef, registers: Mapping[str, int]) -> MergedStack | None:
        """The stack of a thread with these registers; None for one that runs no Python."""
        tstates = self._tstates.get(pthread_self(self._code.cpu, self._glibc, registers))
        if not tstates:
            return None
        python, current = choose_tstate(tstates, self._holders)
        stack = combined_stack(tstates, current)
        if not stack.frames:
            return None
        native = self._code.unwind(thread, registers)
        at, unmerged = eval_frames(native, stack, lambda pc: python.is_eval(self._code, pc))
        variables = partial(python_variables, self._memory, tstates, stack.frames)
        if at is None or stack.problem is not None:
            # the counts of a stack that was not read to its end explain nothing
            return MergedStack(native, {}, frozenset(),
                               because("text", text=stack.problem) if stack.problem is not None else unmerged,
                               stack.frames, variables)
        placed, frames = {}, iter(stack.frames)
        for index, (count, _) in zip(at, stack.calls):
            placed[index] = tuple(islice(frames, count))
        is_interpreter = self._interpreter_code
        hidden = frozenset(i for i, (pc, _) in enumerate(native) if i not in placed and is_interpreter[pc])
        return MergedStack(native, placed, hidden, variables=variables)
