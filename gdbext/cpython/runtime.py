"""Finds the CPython runtimes of a process (`_PyRuntime`): their versions, layouts, interpreters and threads."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from gdbext import arch
from gdbext.cpython.frames import FrameReader
from gdbext.cpython.gil import GilState, decode_gil, decode_static_gil
from gdbext.cpython.objects import Objects
from gdbext.cpython.stop_the_world import StopState, interpreters_stop, runtimes_stop
from gdbext.elf.dynamic import find_dynamic_symbol
from gdbext.errors import CorruptStructure, GdbextError, MemoryUnreadable, RuntimeNotFound, UnknownLayout, if_unreadable
from gdbext.inferior.cache import read_u64
from gdbext.inferior.protocol import Memory, Module
from gdbext.layout.select import cpython_candidates, with_debug_offsets
from gdbext.layout.table import Layouts, Struct
from gdbext.model import PythonState
from gdbext.model.reasons import Reason, because
from gdbext.record import record

_COOKIE = b"xdebugpy"
_MAX_INTERPRETERS = 10_000
#: Ids of interpreters (``int64_t``) are given in ascending order.
_MOST_ID = 1 << 32
_MAX_THREADS = 200_000
#: Number of thread states on which a layout is checked.
_MAX_VALIDATED = 8
_RODATA_LIMIT = 32 << 20
_NAME_VERSION = re.compile(r"^(?:lib)?python(3\.\d+)")
# a linker may merge the text of PY_VERSION into the tail of a longer one
_FULL_VERSION = re.compile(rb"(?<![\d.])(3\.\d{1,2}\.\d{1,2})(?:(?:a|b|rc)\d+)?\+?\0")

#: ``PyThreadState.eval_breaker`` (CPython 3.13 Include/internal/pycore_ceval.h, _PY_EVAL_PLEASE_STOP_BIT).
_PLEASE_STOP = 1 << 5

#: ``PyThreadState.state`` since CPython 3.13 (Include/internal/pycore_pystate.h).
THREAD_STATES: Mapping[int, PythonState] = {0: "detached", 1: "attached", 2: "suspended"}


@record
class ThreadState:
    """A ``PyThreadState``; `thread_id` is the thread's ``pthread_self()``. Members the version lacks are None."""

    address: int
    interpreter: int
    thread_id: int
    state: PythonState | None
    eval_breaker: int | None
    holds_gil: bool | None = None
    gil_requested: bool | None = None


@record
class InterpreterState:
    """A ``PyInterpreterState`` with its threads; `problem` says why the GIL or threads could not be decoded."""

    address: int
    id: int
    gil: GilState | None
    threads: tuple[ThreadState, ...]
    drop_requested: bool | None
    stop_the_world: StopState | None
    problem: str | None = None


@record
class PythonRuntime:
    """One CPython runtime, with the layouts that its memory confirmed.

    `address` is that of ``_PyRuntime``, before CPython 3.7 that of ``_PyThreadState_Current``. `head` is the address of
    the pointer to the first interpreter. `note` mentions a table that was made for another micro version.
    """

    address: int
    module: Module
    version: str
    build: str
    layouts: Layouts
    head: int
    note: Reason | None = None

    def finalizing(self, memory: Memory) -> int | None:
        """The ``PyThreadState *`` of the thread that runs ``Py_Finalize``, or None."""
        if not self.layouts.has("_PyRuntimeState", "finalizing"):
            symbol = find_dynamic_symbol(memory, self.module, "_Py_Finalizing")  # CPython 3.6
            return read_u64(memory, symbol.address) or None if symbol is not None else None
        return self.layouts["_PyRuntimeState"].reader("finalizing")(memory, self.address)[0] or None

    def stop_the_world(self, memory: Memory) -> StopState | None:
        """The stop of all interpreters; None in builds that never stop the world."""
        return runtimes_stop(memory, self.layouts, self.address)

    def decode_gil(self, memory: Memory, interpreter: int) -> GilState:
        """The GIL of an interpreter (``PyInterpreterState *``).

        Since CPython 3.12 each interpreter points to its GIL; before that the runtime contains the only one.

        :raises CorruptStructure: the memory there is not a GIL.
        """
        if "_PyRuntimeState" not in self.layouts:
            return decode_static_gil(memory, self.module, self.address)
        known = self.layouts["PyInterpreterState"]
        if "gil" in known:
            return decode_gil(memory, self.layouts, known.reader("gil")(memory, interpreter)[0])
        runtime = self.layouts["_PyRuntimeState"]
        gil = decode_gil(memory, self.layouts, self.address + runtime.offset("ceval_gil"))
        if gil.holder is not None and "tstate_current" in runtime:
            # PyThreadState_Swap changes the running thread state, but not `last_holder`
            current, = runtime.reader("tstate_current")(memory, self.address)
            gil = replace(gil, holder=current or gil.holder)
        return gil


#: Returns the structures that a module's debug information describes.
DebugStructs = Callable[[Module], Mapping[str, Struct]]


def find_runtimes(memory: Memory, modules: Sequence[Module], machine: str, pthreads: Collection[int] = (),
                  debug_structs: DebugStructs | None = None) -> tuple[list[PythonRuntime], list[GdbextError]]:
    """Find all CPython runtimes of the process.

    :param pthreads: ``pthread_self()`` of the threads, to check a layout that was made for another build.
    :param debug_structs: called when there is no table of the same version.
    :return: the runtimes, and an error for each one that was found but cannot be read.
    :raises RuntimeNotFound: no module contains a runtime.
    """
    found: list[PythonRuntime] = []
    problems: list[GdbextError] = []
    for module in modules:
        recogniser = _Recogniser(memory, module, machine, pthreads, debug_structs)
        try:
            runtime = recogniser.find()
            if runtime is not None:
                found.append(runtime)
        except GdbextError as error:
            problems.append(GdbextError(f"the Python in {module.name}: {error}", error.hint))
    if not found and not problems:
        raise RuntimeNotFound("no Python was found in the process")
    return found, problems


class _Recogniser:
    """Finds the version and layouts of one module's runtime."""

    def __init__(self, memory: Memory, module: Module, machine: str, pthreads: Collection[int],
                 debug_structs: DebugStructs | None) -> None:
        self._memory = memory
        self._module = module
        self._machine = machine
        self._pthreads = pthreads
        self._debug_structs = debug_structs

    def find(self) -> PythonRuntime | None:
        """The runtime of the module, or None if it does not contain one."""
        section = self._module.section(".PyRuntime")  # 3.10 and later
        address = section.start if section is not None else self._symbol("_PyRuntime")
        if address is not None:
            head = self._memory.read(address, 24)
            if head[:8] != _COOKIE:  # 3.7 to 3.12
                return self._fitting(address, self._find_version(), "default", has_offsets=False)
            number, free_threaded = struct.unpack("<QQ", head[8:])
            return self._fitting(address, _version_of_hex(number), "free-threaded" if free_threaded else "default",
                                 has_offsets=True)
        address = self._symbol("_PyThreadState_Current")  # 3.6
        if address is None:
            return None
        version = self._find_version()
        if not version.startswith("3.6."):
            raise UnknownLayout(f"CPython {version} is not supported")
        return self._fitting(address, version, "default", has_offsets=False)

    def _symbol(self, name: str) -> int | None:
        symbol = find_dynamic_symbol(self._memory, self._module, name)
        return symbol.address if symbol is not None else None

    def _with_own_offsets(self, layouts: Layouts, address: int) -> Layouts:
        if "_Py_DebugOffsets" not in layouts:
            return layouts
        known = layouts["_Py_DebugOffsets"]
        names = list(known.fields)
        return with_debug_offsets(layouts, dict(zip(names, known.reader(*names)(self._memory, address))))

    def _fitting(self, address: int, version: str, build: str, has_offsets: bool) -> PythonRuntime:
        """The first candidate that the target's memory confirms.

        First the table of the same version, with the interpreter's own debug offsets if it has them. Then its debug
        information, which takes GDB up to a second while the process is paused. Then tables of other micro versions.
        """
        reasons = []
        for table in self._candidates(version, build):
            try:
                layouts = self._with_own_offsets(table, address) if has_offsets else table
                head = self._head(layouts, address)
                runtime = PythonRuntime(address, self._module, version, build, layouts, head)
                validate(self._memory, runtime, () if table.version == version else self._pthreads)
            except GdbextError as error:
                reasons.append(f"{table.source} {table.version}: {error}")
                continue
            if table.version != version:
                note = because("table-of-other-version", version=version, table=table.version)
                return replace(runtime, note=note)
            return runtime
        raise UnknownLayout(f"no layout fits CPython {version} ({'; '.join(reasons)[:300]})")

    def _candidates(self, version: str, build: str) -> Iterator[Layouts]:
        asked = False
        unknown = None
        try:
            for table in cpython_candidates(version, build, self._machine):
                if table.version != version and not asked:
                    asked = True
                    yield from self._by_debug_information(version, build)
                yield table
        except UnknownLayout as error:
            unknown = error
        if not asked:
            yield from self._by_debug_information(version, build)
        if unknown is not None:
            raise unknown

    def _by_debug_information(self, version: str, build: str) -> Iterator[Layouts]:
        structs = self._debug_structs(self._module) if self._debug_structs is not None else {}
        if structs:
            yield Layouts("cpython", version, build, self._machine, structs, "dwarf")

    def _head(self, layouts: Layouts, address: int) -> int:
        if "_PyRuntimeState" in layouts:
            return address + layouts["_PyRuntimeState"].offset("interpreters_head")
        # PyInterpreterState *PyInterpreterState_Head(void) { return interp_head; }
        function = self._symbol("PyInterpreterState_Head")
        if function is None:
            raise UnknownLayout("it does not export PyInterpreterState_Head")
        head = arch.of(self._machine).returned_address(self._memory, function)
        if head is None:
            raise UnknownLayout("its list of interpreters cannot be found")
        return head

    def _find_version(self) -> str:
        # Py_Version is exported since 3.11; before that the text of PY_VERSION is among the constants
        symbol = self._symbol("Py_Version")
        if symbol is not None:
            return _version_of_hex(int.from_bytes(self._memory.read(symbol, 4), "little"))
        section = self._module.section(".rodata")
        named = _NAME_VERSION.match(self._module.name)
        if section is not None:
            try:
                data = self._memory.read(section.start, min(section.end - section.start, _RODATA_LIMIT))
            except MemoryUnreadable:
                data = b""
            texts = {match.group(1).decode() for match in _FULL_VERSION.finditer(data)}
            if named:
                texts = {text for text in texts if text.startswith(named.group(1) + ".")}
            else:  # 3.6 - 3.10, later versions export Py_Version; "3.40.1" is SQLite's
                texts = {text for text in texts if 6 <= int(text.split(".")[1]) <= 10}
            if len(texts) == 1:
                return texts.pop()
        if named:
            return named.group(1) + ".0"
        raise UnknownLayout("the version of this Python cannot be determined")


def _version_of_hex(number: int) -> str:
    if not 0x03060000 <= number < 0x04000000:
        raise CorruptStructure(0, f"impossible Python version {number:#x}")
    return f"{number >> 24}.{number >> 16 & 0xFF}.{number >> 8 & 0xFF}"


def validate(memory: Memory, runtime: PythonRuntime, pthreads: Collection[int] = ()) -> None:
    """Check a layout against the target's memory: back pointers, the GIL, thread ids, code objects.

    :param pthreads: ``pthread_self()`` of the threads; one of them must have a thread state. Empty: not checked.
    :raises GdbextError: the layout does not fit.
    """
    layouts = runtime.layouts
    head = read_u64(memory, runtime.head)
    if head == 0:
        return  # not initialised yet, or finalised: nothing to contradict the layout
    first, following = layouts["PyInterpreterState"].reader("tstate_head", "next")(memory, head)
    number, = layouts["PyInterpreterState"].optional("id")(memory, head)
    if following & 7 or first & 7 or not 0 <= (number or 0) < _MOST_ID:
        raise CorruptStructure(head, "the first interpreter makes no sense")
    if first:
        interp, thread_id, previous = layouts["PyThreadState"].reader("interp", "thread_id", "prev")(memory, first)
        if interp != head or previous != 0:
            raise CorruptStructure(first, "the first thread state does not point back to its interpreter")
        if thread_id & 0xF:  # a struct pthread is aligned to 64 bytes; 0 is not bound yet
            raise CorruptStructure(first, "the first thread state has an impossible thread id")
    runtime.decode_gil(memory, head)
    threads, _ = _thread_states(memory, layouts, head, limit=_MAX_VALIDATED)
    if pthreads and threads and not any(thread.thread_id in pthreads for thread in threads):
        raise CorruptStructure(head, "no thread state belongs to a thread of the process")
    stacks = [FrameReader(memory, layouts, Objects(memory, layouts)).stack(thread.address) for thread in threads]
    if stacks and all(stack.problem is not None and not stack.frames for stack in stacks):
        raise CorruptStructure(head, f"no Python stack can be read: {stacks[0].problem}")


def iter_interpreters(memory: Memory, runtime: PythonRuntime) -> Iterator[InterpreterState]:
    """The interpreters of a runtime with their thread states, by ascending id.

    A damaged list ends the walk; `problem` of the last interpreter then says why.
    """
    read = runtime.layouts["PyInterpreterState"].optional("next", "id")
    at: int | None = read_u64(memory, runtime.head)
    found: list[InterpreterState] = []
    seen: set[int] = set()
    trouble = None
    while at and trouble is None:
        seen.add(at)
        try:
            following, number = read(memory, at)
        except GdbextError as error:
            trouble = f"the list of interpreters: {error}"
            break
        if not 0 <= (number or 0) < _MOST_ID:
            trouble = "the list of interpreters: the id of one is impossible"
            break
        # CPython 3.6 does not number interpreters
        found.append(_interpreter(memory, runtime, at, len(found) if number is None else number))
        if following in seen or len(seen) >= _MAX_INTERPRETERS:
            trouble = "the list of interpreters has a loop"
        at = following
    if trouble is not None:
        if not found:
            raise CorruptStructure(at or 0, trouble)
        found[-1] = replace(found[-1], problem=found[-1].problem or trouble)
    return iter(sorted(found, key=lambda interpreter: interpreter.id))


def _interpreter(memory: Memory, runtime: PythonRuntime, address: int, number: int) -> InterpreterState:
    layouts = runtime.layouts
    gil, problem = None, None
    try:
        gil = runtime.decode_gil(memory, address)
    except GdbextError as error:
        problem = f"the GIL of interpreter {number}: {error}"
    try:
        threads, trouble = _thread_states(memory, layouts, address)
    except GdbextError as error:
        threads, trouble = (), f"the thread states of interpreter {number}: {error}"
    return InterpreterState(address, number, gil, threads, _drop_requested(memory, layouts, address, gil, threads),
                            interpreters_stop(memory, layouts, address), problem or trouble)


def _thread_states(memory: Memory, layouts: Layouts,
                   interpreter: int, limit: int = _MAX_THREADS) -> tuple[tuple[ThreadState, ...], str | None]:
    at, = layouts["PyInterpreterState"].reader("tstate_head")(memory, interpreter)
    known = layouts["PyThreadState"]
    # `holds_gil` is a bit of `_status` in 3.13, and a member of its own since 3.14
    read = known.optional("next", "interp", "thread_id", "state", "eval_breaker", "holds_gil", "status_holds_gil",
                          "gil_requested")
    found: list[ThreadState] = []
    seen: set[int] = set()
    while at and len(seen) < limit:
        if at in seen:
            return tuple(found), "the list of thread states has a loop"
        seen.add(at)
        try:
            following, interp, thread_id, state, breaker, holds, holds_bit, requested = read(memory, at)
        except GdbextError as error:
            return tuple(found), f"the list of thread states: {error}"
        if interp != interpreter:
            return tuple(found), f"the thread state at {at:#x} belongs to another interpreter"
        if following is None or thread_id is None:
            raise UnknownLayout("thread states cannot be followed in this layout")
        holds = holds_bit if holds is None else holds
        found.append(ThreadState(
            at, interpreter, thread_id, THREAD_STATES.get(state) if state is not None else None, breaker,
            None if holds is None else bool(holds), None if requested is None else bool(requested)))
        at = following
    return tuple(found), "the list of thread states does not end" if at and limit == _MAX_THREADS else None


@if_unreadable(None)
def _drop_requested(memory: Memory, layouts: Layouts, interpreter: int, gil: GilState | None,
                    threads: Sequence[ThreadState]) -> bool | None:
    # 3.9 - 3.12 keep one request per interpreter, 3.13 and later bit 0 of the holder's eval_breaker
    # (_PY_GIL_DROP_REQUEST_BIT, Include/internal/pycore_ceval.h)
    if gil is None or gil.state != "held" or gil.shared:  # 3.6 keeps it in a variable of its own
        return None
    known = layouts["PyInterpreterState"]
    if "gil_drop_request" in known:
        return bool(known.reader("gil_drop_request")(memory, interpreter)[0])
    breaker = next((thread.eval_breaker for thread in threads if thread.address == gil.holder), None)
    return None if breaker is None else bool(breaker & 1)


def thread_names(objects: Objects, interpreter: int) -> dict[int, str]:
    """The names of threads in `threading` (``sys.modules["threading"]._active``): ``pthread_self()`` -> name.

    :param interpreter: ``PyInterpreterState *``.
    """
    modules = objects.read_member("PyInterpreterState", interpreter, "modules")
    module = objects.dict_get(modules, "threading") if modules else None
    if not module:
        return {}
    namespace = objects.read_member("PyModuleObject", module, "md_dict")
    active = objects.dict_get(namespace, "_active") if namespace else None
    names: dict[int, str] = {}
    for key, thread in objects.dict_items(active) if active else ():
        try:
            name = objects.attribute(thread, "_name")
            if name:
                names[objects.integer(key)] = objects.string(name)
        except GdbextError:
            continue
    return names


def not_stopped(stop: StopState, tstates: Iterable[ThreadState]) -> list[ThreadState]:
    """The attached threads that were asked to stop and have not stopped yet."""
    if not stop.requested or stop.stopped:
        return []
    return [tstate for tstate in tstates if tstate.state == "attached" and tstate.address != stop.requester
            and (tstate.eval_breaker is None or tstate.eval_breaker & _PLEASE_STOP)]
