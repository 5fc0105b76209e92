"""Finds broken rules of CPython's C API: no thread state, no GIL, calls after finalisation, dead objects.

Each finding rests on the interpreter's own records; code that could be legitimate is not reported.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from gdbext.cpython.frames import RawFrame
from gdbext.cpython.object_state import ObjectState, read_object_state
from gdbext.errors import GdbextError
from gdbext.inferior.protocol import Memory
from gdbext.model import DERIVED, Finding, Report
from gdbext.model.reasons import Reason, because
from gdbext.record import record
from gdbext.runtimes.names import public_name
from gdbext.threads.code import Code
from gdbext.threads.python_side import Python, PythonSide
from gdbext.threads.site import Sites
from gdbext.threads.threads import SeenThread

#: Functions of the API that only an attached thread may call (on default builds: a thread that holds the GIL).
#: CPython 3.13 Doc/c-api: functions on objects, except those that are documented to need no thread state.
_NEEDS_GIL = re.compile(
    r"^_?Py(Object|List|Dict|Tuple|Set|FrozenSet|Long|Float|Complex|Bool|Unicode|Bytes|ByteArray|Err|Number|Sequence"
    r"|Mapping|Iter|Type|Module|Import|Run|Eval|Capsule|Weakref|Cell|CFunction|Method|Arg|Buffer|MemoryView|Slice"
    r"|Exception|GC|Gen|Context|Function|Code|Sys|State)_|^_?Py_(IncRef|DecRef|Dealloc|BuildValue|VaBuildValue|Repr\w*)$")
_NEEDS_NONE = re.compile(
    r"^_?Py(Eval_(Acquire|Restore|Save|Release|Init|ThreadsInit)|Err_SetInterrupt|Import_AppendInittab"
    r"|Import_ExtendInittab|Capsule_Is|Type_Check|Object_(Type)?Check$)")
#: Functions that may run any code, including code that releases the GIL while it computes.
_RUNS_ANYTHING = re.compile(r"_(Call|Vectorcall|EvalCode|Import)|^PyRun_|^PyImport_|Iter(_Next|Next)$")
#: How many frames of the interpreter, or of run-time libraries that it calls, one call of the API may have.
_MAX_CALL = 64
#: How many Python frames, variables of each and items of each container are searched for dead objects.
_MAX_FRAMES, _MAX_VARIABLES, _MAX_ITEMS, _MAX_FOUND = 4, 50, 256, 5


def _needs_gil(function: str, died: bool) -> bool:
    # before it returns, the latter has released the GIL itself
    return (_NEEDS_GIL.match(function) is not None and not _NEEDS_NONE.match(function)
            or died and function == "PyGILState_Release")


@record
class ApiCall:
    """A call of an interpreter's function by code outside of it, in `module`."""

    function: str
    module: str
    python: Python


class GilRules:
    """Checks threads of a target against the rules."""

    def __init__(self, memory: Memory, code: Code, side: PythonSide, sites: Sites) -> None:
        self._memory = memory
        self._code = code
        self._side = side
        self._sites = sites

    def api_call(self, native: Sequence[tuple[int, int]]) -> ApiCall | None:
        """The call of the API that a thread is in; None if it is in other code, or running Python in the call.

        :param native: (program counter, stack pointer) of the frames, innermost first.
        """
        inside = self._side.interpreter_code
        pcs = [pc for pc, _ in native[:2 * _MAX_CALL]]
        inner = next((i for i, pc in enumerate(pcs[:_MAX_CALL]) if not self._sites.in_runtime(pc)), len(pcs))
        frames = list(itertools.takewhile(lambda pc: inside[pc], pcs[inner:inner + _MAX_CALL]))
        outer = inner + len(frames)
        if (not frames or len(frames) >= _MAX_CALL or outer >= len(pcs) or any(map(self._side.is_eval, frames))
                or self._sites.in_runtime(pcs[outer])):
            return None
        module, python = self._code.module(pcs[outer]), self._python_at(frames[0])
        function = self._called(pcs[outer], frames[-1])
        if function is None or module is None or python is None:
            return None
        return ApiCall(public_name(function), module.name, python)

    def _called(self, return_address: int, inside: int) -> str | None:
        target = self._code.cpu.called(self._memory, return_address)
        return self._code.symbol(target).function if target is not None else self._code.symbol(inside, 1).function

    def _python_at(self, pc: int) -> Python | None:
        module = self._code.module(pc)
        found = [python for python in self._side.pythons if python.runtime.module is module]
        return found[0] if found else next(iter(self._side.pythons), None)

    def of_thread(self, seen: SeenThread, native: Sequence[tuple[int, int]], died: bool) -> Iterator[Finding]:
        """Find the rules that a thread breaks by its call of the API.

        :param died: whether it is the thread that died. Other threads are not reported if they are blocked in a call,
            since the interpreter's own functions release the GIL while they wait.
        """
        if not died and seen.call is not None and seen.call.blocked:
            return
        call = self.api_call(native)
        if call is None or not _needs_gil(call.function, died):
            return
        where = {"function": call.function, "module": call.module}
        python = call.python
        if not python.interpreters:
            yield Finding("after-finalisation", seen.number, because("api-without-interpreter", **where), DERIVED,
                          because("no-interpreter"))
            return
        if python.finalizing is not None and python.finalizing != seen.number:
            yield Finding("after-finalisation", seen.number,
                          because("api-during-finalisation", finalizer=python.finalizing, **where))
        if not self._side.thread(seen.number).tstates:
            # an interpreter that was finalised has deleted the states of the other threads
            yield Finding("no-thread-state", seen.number, because("api-without-thread-state", **where), DERIVED,
                          because("no-thread-state"))
        elif self._side.state(seen) != "attached" and not _RUNS_ANYTHING.search(call.function):
            yield Finding("without-gil", seen.number, self._not_attached(seen, where))

    def _not_attached(self, seen: SeenThread, where: Mapping[str, str]) -> Reason:
        running = self._side.thread(seen.number).python
        if running is not None and running.runtime.build.startswith("free-threaded"):
            return because("api-not-attached", state=self._side.state(seen), **where)
        holder = next((gil.holder for gil in self._side.gils if gil.python is running and gil.holder is not None), None)
        return because("api-without-gil", holder=holder, **where)

    def blocking(self, report: Report) -> Iterator[Finding]:
        """Find threads that hold a GIL while they are blocked outside Python."""
        for runtime in report.runtimes:
            for interpreter in runtime.interpreters:
                gil = interpreter.gil
                thread = report.thread(gil.holder) if gil.state == "held" and gil.holder is not None else None
                if thread is None or thread.status != "blocked" or not gil.waiters:
                    continue
                yield Finding("blocks-with-gil", thread.number, because(
                    "blocked-with-gil", waiters=gil.waiters[:10], blocked_on=thread.blocked_on,
                    lock=thread.waits.lock if thread.waits is not None else None, syscall=thread.syscall))

    # -- objects ---------------------------------------------------------------------------------------------

    def object_state(self, address: int) -> ObjectState | None:
        """The header of an address that is not an object; None if it may be one or cannot be read."""
        found: ObjectState | None = None
        for python in self._side.pythons:
            try:
                state = read_object_state(self._memory, python.runtime.layouts, python.objects, address)
            except GdbextError:
                continue
            if state.problem is None:  # with several runtimes it is an object of only one of them
                return None
            found = found or state
        return found

    def type_offset(self) -> int | None:
        """The offset of the type pointer in an object; None without Python."""
        return next((python.runtime.layouts["PyObject"].offset("ob_type") for python in self._side.pythons), None)

    def dead_variables(self, seen: SeenThread) -> dict[int, list[str]]:
        """Find dead objects in variables of the innermost Python frames, or in containers there.

        :return: names of the variables by the address of the object.
        """
        found: dict[int, list[str]] = {}
        for python, tstate in self._side.thread(seen.number).tstates:
            try:
                raws = python.frames.raw(tstate.address, _MAX_FRAMES)
            except GdbextError:
                continue
            for raw in raws:
                for name, address in self._variables(python, raw):
                    if address in found:
                        if len(found[address]) < _MAX_FOUND:
                            found[address].append(f"{name} of {raw.frame.function}()")
                    elif len(found) < _MAX_FOUND and self.object_state(address) is not None:
                        found[address] = [f"{name} of {raw.frame.function}()"]
        return found

    @staticmethod
    def _variables(python: Python, raw: RawFrame) -> Iterator[tuple[str, int]]:
        """Names and addresses of a frame's variables, and of the items of lists and tuples among them."""
        try:
            variables = python.frames.variables(raw)[:_MAX_VARIABLES]
        except GdbextError:
            return
        objects = python.objects
        readers: dict[str, Callable[[int, int], Sequence[int]]] = {"list": objects.list_start,
                                                                   "tuple": objects.tuple_start}
        for name, address in variables:
            yield name, address
            try:
                items = readers[objects.type_name(address)](address, _MAX_ITEMS)
            except (GdbextError, KeyError):
                continue
            for index, item in enumerate(items):
                if item:
                    yield f"{name}[{index}]", item
