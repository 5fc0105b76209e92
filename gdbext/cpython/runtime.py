"""`_PyRuntime`: finding the CPython runtimes of a process, their versions, layouts, interpreters and threads."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from gdbext import arch
from gdbext.cpython.frames import FrameReader
from gdbext.cpython.gil import GilState, decode_gil, decode_static_gil
from gdbext.cpython.objects import Objects
from gdbext.cpython.stop_the_world import StopState, interpreters_stop, runtimes_stop
from gdbext.elf.dynamic import find_dynamic_symbol
from gdbext.errors import CorruptStructure, GdbextError, MemoryUnreadable, RuntimeNotFound, UnknownLayout
from gdbext.inferior.cache import read_u64
from gdbext.inferior.protocol import Memory, Module
from gdbext.layout.select import cpython_candidates, with_debug_offsets
from gdbext.layout.table import Layouts, Struct
from gdbext.model import PythonState
from gdbext.model.reasons import Reason, because
from gdbext.record import record

_COOKIE = b"xdebugpy"
_MAX_INTERPRETERS = 10_000
_MAX_THREADS = 200_000
#: How many thread states a layout is checked on.
_MAX_VALIDATED = 8
_RODATA_LIMIT = 32 << 20
_NAME_VERSION = re.compile(r"^(?:lib)?python(3\.\d+)")
# a linker may merge the text of PY_VERSION into the tail of a longer one
_FULL_VERSION = re.compile(rb"(?<![\d.])(3\.\d{1,2}\.\d{1,2})(?:(?:a|b|rc)\d+)?\+?\0")

#: ``PyThreadState.state`` since CPython 3.13 (Include/internal/pycore_pystate.h).
THREAD_STATES: Mapping[int, PythonState] = {0: "detached", 1: "attached", 2: "suspended"}


@record
class ThreadState:
    """A ``PyThreadState``: `thread_id` is its ``pthread_self()``.

    `holds_gil` and `gil_requested` are None in versions that do not record them.
    """

    address: int
    interpreter: int
    thread_id: int
    state: PythonState | None
    eval_breaker: int | None
    holds_gil: bool | None = None
    gil_requested: bool | None = None


@record
class InterpreterState:
    """A ``PyInterpreterState`` with its threads; `problem` says why `gil` or threads could not be decoded."""

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

    `address` is that of ``_PyRuntime``, before CPython 3.7 that of ``_PyThreadState_Current``; `head` holds the pointer
    to the first interpreter. `note` mentions a table that was made for another micro version.
    """

    address: int
    module: Module
    version: str
    build: str
    layouts: Layouts
    head: int
    note: Reason | None = None

    def finalizing(self, memory: Memory) -> int | None:
        """The ``PyThreadState *`` that runs ``Py_Finalize``, or None."""
        if not self.layouts.has("_PyRuntimeState", "finalizing"):
            symbol = find_dynamic_symbol(memory, self.module, "_Py_Finalizing")  # CPython 3.6
            return read_u64(memory, symbol.address) or None if symbol is not None else None
        return self.layouts["_PyRuntimeState"].reader("finalizing")(memory, self.address)[0] or None

    def stop_the_world(self, memory: Memory) -> StopState | None:
        """The stop of all interpreters; None in builds that never stop the world."""
        return runtimes_stop(memory, self.layouts, self.address)

    def decode_gil(self, memory: Memory, interpreter: int) -> GilState:
        """The GIL of an interpreter (``PyInterpreterState *``).

        Since CPython 3.12 each interpreter points to its GIL; before that the runtime holds the only one.

        :raises CorruptStructure: the memory there is no GIL.
        """
        if "_PyRuntimeState" not in self.layouts:
            return decode_static_gil(memory, self.module, self.address)
        known = self.layouts["PyInterpreterState"]
        if "gil" in known:
            return decode_gil(memory, self.layouts, known.reader("gil")(memory, interpreter)[0])
        runtime = self.layouts["_PyRuntimeState"]
        gil = decode_gil(memory, self.layouts, self.address + runtime.offset("ceval_gil"))
        if gil.holder is not None and "tstate_current" in runtime:
            # PyThreadState_Swap changes the thread state that runs, and leaves `last_holder` as it was
            current, = runtime.reader("tstate_current")(memory, self.address)
            gil = replace(gil, holder=current or gil.holder)
        return gil


#: Gives the structures that a module's own debug information describes.
DebugStructs = Callable[[Module], Mapping[str, Struct]]


def find_runtimes(memory: Memory, modules: Sequence[Module], machine: str, pthreads: Collection[int] = (),
                  debug_structs: DebugStructs | None = None) -> tuple[list[PythonRuntime], list[GdbextError]]:
    """All CPython runtimes of the process.

    :param pthreads: ``pthread_self()`` of the threads, to check a layout that was made for another build.
    :param debug_structs: asked when there is no table of the very version.
    :return: the runtimes, and an error for each one that was seen but cannot be read.
    :raises RuntimeNotFound: no module holds a runtime at all.
    """
    found: list[PythonRuntime] = []
    problems: list[GdbextError] = []
    for module in modules:
        address = _runtime_address(memory, module)
        old = None if address is not None else find_dynamic_symbol(memory, module, "_PyThreadState_Current")
        try:
            if address is not None:
                found.append(_Recogniser(memory, module, machine, pthreads, debug_structs).recent(address))
            elif old is not None:
                found.append(_Recogniser(memory, module, machine, pthreads, debug_structs).old(old.address))
        except GdbextError as error:
            problems.append(GdbextError(f"the Python in {module.name}: {error}", error.hint))
    if not found and not problems:
        raise RuntimeNotFound("no Python was found in the process")
    return found, problems


def _runtime_address(memory: Memory, module: Module) -> int | None:
    section = module.section(".PyRuntime")  # 3.10 and later
    if section is not None:
        return section.start
    symbol = find_dynamic_symbol(memory, module, "_PyRuntime")
    return symbol.address if symbol else None


class _Recogniser:
    """Finds version and layouts of one module's runtime."""

    def __init__(self, memory: Memory, module: Module, machine: str, pthreads: Collection[int],
                 debug_structs: DebugStructs | None) -> None:
        self._memory = memory
        self._module = module
        self._machine = machine
        self._pthreads = pthreads
        self._debug_structs = debug_structs

    def recent(self, address: int) -> PythonRuntime:
        """A runtime with a ``_PyRuntime`` at an address: CPython 3.7 and later."""
        head = self._memory.read(address, 24)
        if head[:8] != _COOKIE:
            version = _version(self._memory, self._module)
            return self._fitting(address, version, "default", lambda layouts: layouts)
        number, free_threaded = struct.unpack("<QQ", head[8:])
        return self._fitting(address, _of_hex(number), "free-threaded" if free_threaded else "default",
                             lambda layouts: self._with_own_offsets(layouts, address))

    def old(self, address: int) -> PythonRuntime:
        """A runtime with a ``_PyThreadState_Current`` at an address: CPython 3.6."""
        version = _version(self._memory, self._module)
        if not version.startswith("3.6."):
            raise UnknownLayout(f"CPython {version} is not supported")
        return self._fitting(address, version, "default", lambda layouts: layouts)

    def _with_own_offsets(self, layouts: Layouts, address: int) -> Layouts:
        if "_Py_DebugOffsets" not in layouts:
            return layouts
        known = layouts["_Py_DebugOffsets"]
        names = list(known.fields)
        return with_debug_offsets(layouts, dict(zip(names, known.reader(*names)(self._memory, address))))

    def _fitting(self, address: int, version: str, build: str,
                 refine: Callable[[Layouts], Layouts]) -> PythonRuntime:
        """The first candidate that the target's memory confirms.

        First the table of the same version, with the interpreter's own debug offsets if it has them; then its debug
        information, which costs GDB up to a second while the process is paused; then tables of other micro versions.
        """
        reasons = []
        for table in self._candidates(version, build):
            try:
                layouts = refine(table)
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
        symbol = find_dynamic_symbol(self._memory, self._module, "PyInterpreterState_Head")
        if symbol is None:
            raise UnknownLayout("it does not export PyInterpreterState_Head")
        head = arch.of(self._machine).returned_address(self._memory, symbol.address)
        if head is None:
            raise UnknownLayout("its list of interpreters cannot be found")
        return head


def _of_hex(number: int) -> str:
    if not 0x03060000 <= number < 0x04000000:
        raise CorruptStructure(0, f"impossible Python version {number:#x}")
    return f"{number >> 24}.{number >> 16 & 0xFF}.{number >> 8 & 0xFF}"


def _version(memory: Memory, module: Module) -> str:
    # Py_Version is exported since 3.11; before that the text of PY_VERSION lies among the constants
    symbol = find_dynamic_symbol(memory, module, "Py_Version")
    if symbol is not None:
        return _of_hex(int.from_bytes(memory.read(symbol.address, 4), "little"))
    section = module.section(".rodata")
    named = _NAME_VERSION.match(module.name)
    if section is not None:
        try:
            data = memory.read(section.start, min(section.end - section.start, _RODATA_LIMIT))
        except MemoryUnreadable:
            data = b""
        texts = {match.group(1).decode() for match in _FULL_VERSION.finditer(data)}
        if named:
            texts = {text for text in texts if text.startswith(named.group(1) + ".")}
        else:  # 3.6 - 3.10, or it would export Py_Version; "3.40.1" is SQLite's
            texts = {text for text in texts if 6 <= int(text.split(".")[1]) <= 10}
        if len(texts) == 1:
            return texts.pop()
    if named:
        return named.group(1) + ".0"
    raise UnknownLayout("the version of this Python cannot be told")


def validate(memory: Memory, runtime: PythonRuntime, pthreads: Collection[int] = ()) -> None:
    """Check a layout against the target's memory: back pointers, the GIL, thread ids, code objects.

    :param pthreads: ``pthread_self()`` of the threads; one of them must have a thread state. Empty: not checked.
    :raises GdbextError: it does not fit.
    """
    layouts = runtime.layouts
    head = read_u64(memory, runtime.head)
    if head == 0:
        return  # not initialised yet, or finalised: nothing to contradict the layout
    first, following = layouts["PyInterpreterState"].reader("tstate_head", "next")(memory, head)
    number, = layouts["PyInterpreterState"].optional("id")(memory, head)
    if following & 7 or first & 7 or not 0 <= (number or 0) < 1 << 32:
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
    layouts = runtime.layouts
    known = layouts["PyInterpreterState"]
    has_id = "id" in known  # not in 3.6, which numbers nothing
    read = known.reader("next", "id") if has_id else known.reader("next", "next")
    at = read_u64(memory, runtime.head)
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
        found.append(_interpreter(memory, runtime, at, number if has_id else len(found)))
        if following in seen or len(seen) >= _MAX_INTERPRETERS:
            trouble = "the list of interpreters has a loop"
        at = following
    if trouble is not None:
        if not found:
            raise CorruptStructure(at, trouble)
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


def _drop_requested(memory: Memory, layouts: Layouts, interpreter: int, gil: GilState | None,
                    threads: Sequence[ThreadState]) -> bool | None:
    # 3.9 - 3.12 keep one request per interpreter, 3.13 and later bit 0 of the holder's eval_breaker
    # (_PY_GIL_DROP_REQUEST_BIT, Include/internal/pycore_ceval.h)
    if gil is None or gil.state != "held" or gil.shared:  # 3.6 keeps it in a variable of its own
        return None
    known = layouts["PyInterpreterState"]
    try:
        if "gil_drop_request" in known:
            return bool(known.reader("gil_drop_request")(memory, interpreter)[0])
    except GdbextError:
        return None
    holder = next((thread for thread in threads if thread.address == gil.holder), None)
    if holder is None or holder.eval_breaker is None:
        return None
    return bool(holder.eval_breaker & 1)


def thread_names(memory: Memory, layouts: Layouts, objects: Objects, interpreter: int) -> dict[int, str]:
    """Names that `threading` gave to threads (``sys.modules["threading"]._active``): ``pthread_self()`` -> name.

    :param interpreter: ``PyInterpreterState *``.
    """
    modules, = layouts["PyInterpreterState"].reader("modules")(memory, interpreter)
    module = objects.dict_get(modules, "threading") if modules else None
    if not module:
        return {}
    namespace, = layouts["PyModuleObject"].reader("md_dict")(memory, module)
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
