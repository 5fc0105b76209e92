"""`_PyRuntime`: finding the CPython runtimes of a process, their versions, layouts, interpreters and threads."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gdbext.cpython.gil import GilState, decode_gil
from gdbext.cpython.objects import Objects
from gdbext.errors import CorruptStructure, GdbextError, MemoryUnreadable, RuntimeNotFound, UnknownLayout
from gdbext.layout.select import cpython_candidates, with_debug_offsets
from gdbext.layout.table import Layouts
from gdbext.native.elf import find_dynamic_symbol
from gdbext.target.protocol import Memory, Module

_COOKIE = b"xdebugpy"
_MAX_INTERPRETERS = 10_000
_MAX_THREADS = 200_000
_RODATA_LIMIT = 32 << 20
_NAME_VERSION = re.compile(r"^(?:lib)?python(3\.\d+)")
# a linker may merge the text of PY_VERSION into the tail of a longer one
_FULL_VERSION = re.compile(rb"(?<![\d.])(3\.\d{1,2}\.\d{1,2})(?:(?:a|b|rc)\d+)?\+?\0")

#: ``PyThreadState.state`` since CPython 3.13 (Include/internal/pycore_pystate.h).
THREAD_STATES = {0: "detached", 1: "attached", 2: "suspended"}


@dataclass(frozen=True)
class ThreadState:
    """A ``PyThreadState``: `thread_id` is its ``pthread_self()``."""

    address: int
    interpreter: int
    thread_id: int
    state: str | None
    eval_breaker: int | None


@dataclass(frozen=True)
class InterpreterState:
    """A ``PyInterpreterState`` with its threads. `gil` is None where it could not be decoded, `problem` says why."""

    address: int
    id: int
    gil: GilState | None
    threads: tuple[ThreadState, ...]
    drop_requested: bool | None
    stop_the_world: tuple[bool, bool, int] | None
    problem: str | None = None


@dataclass(frozen=True)
class PythonRuntime:
    """One CPython runtime: where it is, what it is, and the layouts that its memory confirmed.

    `note` tells of a table that was made for another micro version.
    """

    address: int
    module: Module
    version: str
    build: str
    layouts: Layouts
    note: str | None = None


def find_runtimes(memory: Memory, modules: Sequence[Module],
                  machine: str) -> tuple[list[PythonRuntime], list[GdbextError]]:
    """All CPython runtimes of the process.

    :return: the runtimes, and an error for each one that was seen but cannot be read.
    :raises RuntimeNotFound: no module holds a runtime at all.
    """
    found: list[PythonRuntime] = []
    problems: list[GdbextError] = []
    seen = 0
    for module in modules:
        address = _runtime_address(memory, module)
        if address is None:
            if find_dynamic_symbol(memory, module, "PyEval_EvalFrameEx"):
                seen += 1
                problems.append(UnknownLayout(f"the Python in {module.name} has no _PyRuntime, as before CPython 3.7"))
            continue
        seen += 1
        try:
            found.append(_recognise(memory, module, address, machine))
        except GdbextError as error:
            problems.append(GdbextError(f"the Python in {module.name}: {error}", error.hint))
    if not seen:
        raise RuntimeNotFound("no Python was found in the process")
    return found, problems


def _runtime_address(memory: Memory, module: Module) -> int | None:
    section = module.section(".PyRuntime")  # 3.10 and later
    if section is not None:
        return section.start
    symbol = find_dynamic_symbol(memory, module, "_PyRuntime")
    return symbol.address if symbol else None


def _recognise(memory: Memory, module: Module, address: int, machine: str) -> PythonRuntime:
    head = memory.read(address, 24)
    build = "default"
    if head[:8] == _COOKIE:
        number, free_threaded = struct.unpack("<QQ", head[8:])
        version = _of_hex(number)
        build = "free-threaded" if free_threaded else "default"
    else:
        version = _version(memory, module)
    reasons = []
    for table in cpython_candidates(version, build, machine):
        layouts = table
        try:
            if head[:8] == _COOKIE and "_Py_DebugOffsets" in table:
                layouts = with_debug_offsets(table, _read_debug_offsets(memory, table, address))
            _validate(memory, layouts, address)
        except GdbextError as error:
            reasons.append(f"{table.version}: {error}")
            continue
        note = None
        if table.version != version:
            note = f"no table for CPython {version}; the one for {table.version} fits and is used"
        return PythonRuntime(address, module, version, build, layouts, note)
    raise UnknownLayout(f"no layout table fits CPython {version} ({'; '.join(reasons)[:300]})")


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


def _read_debug_offsets(memory: Memory, table: Layouts, address: int) -> dict[str, int]:
    known = table["_Py_DebugOffsets"]
    names = list(known.fields)
    return dict(zip(names, known.reader(*names)(memory, address)))


def _validate(memory: Memory, layouts: Layouts, address: int) -> None:
    """Check a layout against the target's memory: back pointers, the GIL, thread ids.

    :raises CorruptStructure: it does not fit.
    """
    head, = layouts["_PyRuntimeState"].reader("interpreters_head")(memory, address)
    if head == 0:
        return  # not initialised yet, or finalised: nothing to contradict the layout
    known = layouts["PyInterpreterState"]
    first, number, following = known.reader("tstate_head", "id", "next")(memory, head)
    if not 0 <= number < 1 << 32 or following & 7 or first & 7:
        raise CorruptStructure(head, "the first interpreter makes no sense")
    if first:
        interp, thread_id, previous = layouts["PyThreadState"].reader("interp", "thread_id", "prev")(memory, first)
        if interp != head or previous != 0:
            raise CorruptStructure(first, "the first thread state does not point back to its interpreter")
        if thread_id & 0xF:  # a struct pthread is aligned to 64 bytes; 0 is not bound yet
            raise CorruptStructure(first, "the first thread state has an impossible thread id")
    decode_gil(memory, layouts, gil_address(memory, layouts, address, head))


def gil_address(memory: Memory, layouts: Layouts, runtime: int, interpreter: int) -> int:
    """Where the GIL of an interpreter lies.

    Since CPython 3.12 each interpreter points to its GIL, which may be its own; before that `_PyRuntime` holds the
    only one.
    """
    known = layouts["PyInterpreterState"]
    if "gil" in known:
        address, = known.reader("gil")(memory, interpreter)
        return address
    return runtime + layouts["_PyRuntimeState"].offset("ceval_gil")


def iter_interpreters(memory: Memory, runtime: PythonRuntime) -> Iterator[InterpreterState]:
    """The interpreters of a runtime with their thread states, by ascending id as the runtime lists them.

    A damaged list ends the walk; what was read before is kept and `problem` of the last interpreter says why.
    """
    layouts = runtime.layouts
    known = layouts["PyInterpreterState"]
    at, = layouts["_PyRuntimeState"].reader("interpreters_head")(memory, runtime.address)
    found: list[InterpreterState] = []
    seen: set[int] = set()
    trouble = None
    while at and trouble is None:
        seen.add(at)
        try:
            following, number = known.reader("next", "id")(memory, at)
        except GdbextError as error:
            trouble = f"the list of interpreters: {error}"
            break
        found.append(_interpreter(memory, runtime, at, number))
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
        gil = decode_gil(memory, layouts, gil_address(memory, layouts, runtime.address, address))
    except GdbextError as error:
        problem = f"the GIL of interpreter {number}: {error}"
    try:
        threads, trouble = _thread_states(memory, layouts, address)
    except GdbextError as error:
        threads, trouble = (), f"the thread states of interpreter {number}: {error}"
    return InterpreterState(address, number, gil, threads, _drop_requested(memory, layouts, address, gil, threads),
                            _stop_the_world(memory, layouts, address), problem or trouble)


def _thread_states(memory: Memory, layouts: Layouts,
                   interpreter: int) -> tuple[tuple[ThreadState, ...], str | None]:
    at, = layouts["PyInterpreterState"].reader("tstate_head")(memory, interpreter)
    known = layouts["PyThreadState"]
    members = ["next", "interp", "thread_id"]
    has_state, has_breaker = "state" in known, "eval_breaker" in known
    members += ["state"] * has_state + ["eval_breaker"] * has_breaker
    read = known.reader(*members)
    found: list[ThreadState] = []
    seen: set[int] = set()
    while at:
        if at in seen or len(seen) >= _MAX_THREADS:
            return tuple(found), "the list of thread states has a loop"
        seen.add(at)
        try:
            following, interp, thread_id, *more = read(memory, at)
        except GdbextError as error:
            return tuple(found), f"the list of thread states: {error}"
        if interp != interpreter:
            return tuple(found), f"the thread state at {at:#x} belongs to another interpreter"
        state = THREAD_STATES.get(more[0]) if has_state else None
        found.append(ThreadState(at, interpreter, thread_id, state, more[-1] if has_breaker else None))
        at = following
    return tuple(found), None


def _drop_requested(memory: Memory, layouts: Layouts, interpreter: int, gil: GilState | None,
                    threads: Sequence[ThreadState]) -> bool | None:
    # 3.9 - 3.12 keep one request per interpreter, 3.13 and later bit 0 of the holder's eval_breaker
    # (_PY_GIL_DROP_REQUEST_BIT, Include/internal/pycore_ceval.h)
    if gil is None or gil.state != "held":
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


def _stop_the_world(memory: Memory, layouts: Layouts, interpreter: int) -> tuple[bool, bool, int] | None:
    """(requested, stopped, ``PyThreadState *`` of the requester), or None before CPython 3.13."""
    known = layouts["PyInterpreterState"]
    if "stoptheworld" not in known or "_stoptheworld_state" not in layouts:
        return None
    try:
        requested, stopped, requester = layouts["_stoptheworld_state"].reader(
            "requested", "world_stopped", "requester")(memory, interpreter + known.offset("stoptheworld"))
    except GdbextError:
        return None
    return bool(requested), bool(stopped), requester


def thread_names(memory: Memory, layouts: Layouts, objects: Objects, interpreter: int) -> dict[int, str]:
    """Names that `threading` gave to threads: ``pthread_self()`` -> name.

    Read from ``sys.modules["threading"]._active``; empty where the program does not use `threading`.

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
