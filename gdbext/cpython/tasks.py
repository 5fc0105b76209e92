"""Tasks of asyncio: which there are, what each of them runs, awaits and is named, and which loop runs in which thread.

Structures: ``TaskObj``, ``PyGenObject`` (coroutines and asynchronous generators begin alike), the asyncio members of
thread and interpreter states.

Sources: CPython 3.7, 3.11, 3.13 and 3.14 Modules/_asynciomodule.c, Lib/asyncio/tasks.py, Objects/genobject.c
(``_PyGen_yf``), InternalDocs/asyncio.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

from gdbext.cpython.frames import FrameReader, RawFrame
from gdbext.cpython.objects import Objects
from gdbext.errors import CorruptStructure, GdbextError, UnknownLayout
from gdbext.inferior.protocol import Memory, Module
from gdbext.layout.table import Field, Layouts
from gdbext.model import TaskStatus
from gdbext.record import record
from gdbext.remembered import remembered

#: Most tasks of one interpreter.
MAX_TASKS = 100_000
#: Most coroutines that await one another, in one task.
MAX_DEPTH = 1_000
#: How many classes deep the bases of a type are followed.
_MAX_BASES = 64
#: Most callbacks of one future.
_MAX_CALLBACKS = 1_000

PENDING: Final = "pending"
CANCELLED: Final = "cancelled"
DONE: Final = "done"
#: ``fut_state`` of `_asynciomodule.c`, and ``_state`` of asyncio's Python implementation.
_STATES: Mapping[int, TaskStatus] = {0: PENDING, 1: CANCELLED, 2: DONE}
_STATE_NAMES: Mapping[str | None, TaskStatus] = {"PENDING": PENDING, "CANCELLED": CANCELLED, "FINISHED": DONE}

_GENERATORS = ("coroutine", "generator", "async_generator")
#: What stands for another awaitable: type name -> structure and member that has it.
_STAND_INS = {
    "async_generator_asend": ("PyAsyncGenASend", "ags_gen"),
    "async_generator_athrow": ("PyAsyncGenAThrow", "agt_gen"),
    "coroutine_wrapper": ("PyCoroWrapper", "cw_coroutine"),
    "anext_awaitable": ("anextawaitableobject", "wrapped"),
}
# opcodes: CPython 3.7 - 3.10; RESUME, its specialised and instrumented forms in 3.11 and 3.12
_YIELD_FROM = 72
_RESUMES: dict[tuple[int, ...], tuple[int, ...]] = {(3, 11): (151, 150), (3, 12): (151, 240)}
_AFTER_YIELD_FROM = 2  # RESUME's argument: 1 after yield, 2 after yield from, 3 after await
# PyFrameState, Include/internal/pycore_frame.h (3.10: cpython/frameobject.h); 3.15 numbered it anew
_SUSPENDED, _EXECUTING, _EXECUTING_3_15, _CLEARED_3_15 = -1, 0, 4, 5
_SUSPENDED_YIELD_FROM: dict[tuple[int, ...], tuple[int, ...]] = {(3, 13): (-1,), (3, 14): (-1,), (3, 15): (2, 3)}

_CO_FAST_FREE = 0x80  # Include/internal/pycore_code.h, CPython 3.11 and later

_RUNNING_LOOP = "__asyncio_running_event_loop__"
#: What the groups of the section ``.AsyncioDebug`` are about.
_STATED = {"asyncio_task_object": "TaskObj", "asyncio_interpreter_state": "PyInterpreterState",
           "asyncio_thread_state": "_PyThreadStateImpl"}


@record
class TaskState:
    """A task: addresses are ``PyObject *``. `waiter` is the future that it waits for, None if it waits for none."""

    address: int
    name: str | None
    loop: int
    state: TaskStatus
    coroutine: int
    waiter: int | None


@record
class AwaitChain:
    """The frames of a task that does not run, outermost first. `problem` tells why there may be more."""

    frames: tuple[RawFrame, ...]
    problem: str | None = None


def uses_asyncio(memory: Memory, layouts: Layouts, objects: Objects, interpreter: int) -> bool:
    """Whether an interpreter (``PyInterpreterState *``) has imported asyncio."""
    modules, = layouts["PyInterpreterState"].reader("modules")(memory, interpreter)
    return bool(modules) and objects.dict_get(modules, "asyncio.tasks") is not None


def with_asyncio_offsets(memory: Memory, layouts: Layouts, modules: Iterable[Module]) -> Layouts:
    """Apply the debug offsets of `_asyncio` (CPython 3.14 and later) to a table.

    :param modules: those that may contain them: the extension module, or the interpreter's own.
    :raises UnknownLayout: the numbers are impossible, or its tasks are of another size than the table's.
    """
    if "_Py_AsyncioModuleDebugOffsets" not in layouts:
        return layouts
    section = next((found for found in (module.section(".AsyncioDebug") for module in modules) if found), None)
    if section is None:
        return layouts
    read = layouts["_Py_AsyncioModuleDebugOffsets"].reader("asyncio_task_object.size")
    size, = read(memory, section.start)
    if size != layouts["TaskObj"].size:
        raise UnknownLayout(f"asyncio's tasks have {size} bytes, in no known layout of CPython {layouts.version}")
    names = ("asyncio_task_object.task_name", "asyncio_task_object.task_coro", "asyncio_task_object.task_node",
             "asyncio_interpreter_state.asyncio_tasks_head", "asyncio_thread_state.asyncio_running_loop",
             "asyncio_thread_state.asyncio_running_task", "asyncio_thread_state.asyncio_tasks_head")
    changes: dict[str, dict[str, Field]] = {}
    for name, value in zip(names, layouts["_Py_AsyncioModuleDebugOffsets"].reader(*names)(memory, section.start)):
        group, _, member = name.partition(".")
        old = layouts[_STATED[group]].fields[member]
        if not 0 < value < 1 << 20:
            raise UnknownLayout(f"asyncio's debug offset {name} is {value}")
        changes.setdefault(_STATED[group], {})[member] = Field(value, old.size, old.signed)
    return layouts.replaced(layouts.source, changes, {})


class AsyncioReader:
    """Reads asyncio in one interpreter.

    :param interpreter: ``PyInterpreterState *``.
    :raises UnknownLayout: the layouts do not describe asyncio's tasks, or this CPython keeps them otherwise.
    """

    def __init__(self, memory: Memory, layouts: Layouts, objects: Objects, frames: FrameReader,
                 interpreter: int) -> None:
        self._memory = memory
        self._layouts = layouts
        self._objects = objects
        self._frames = frames
        self._interpreter = interpreter
        self._version = layouts.version_tuple[:2]
        unknown = UnknownLayout(f"tasks of asyncio are not decoded in this CPython {layouts.version}")
        if self._version < (3, 7):
            raise unknown
        # without it nothing is in the thread states, and nothing states where that would be in this build
        self._c_module = self._python_module("_asyncio")
        # this structure belongs to the C module; tasks of the Python implementation are decoded without it
        if self._c_module and "TaskObj" not in layouts:
            raise unknown
        self._task = layouts["TaskObj"].optional(
            "task_name", "task_loop", "task_state", "task_coro", "task_fut_waiter") if "TaskObj" in layouts else None

    # -- which tasks and loops there are ---------------------------------------------------------------------

    def tasks(self, tstates: Sequence[int]) -> tuple[list[int], list[str]]:
        """The tasks (``PyObject *``) that asyncio has recorded, finished ones too, and what could not be read of them.

        Since CPython 3.14 tasks of the C implementation are in lists of the thread states and of the interpreter,
        without finished ones. Others, and all of them before, are in sets.

        :param tstates: ``PyThreadState *`` of the interpreter.
        """
        found: dict[int, None] = {}
        problems: list[str] = []
        sources = [self._in_sets()]
        if self._c_module and self._layouts.has("PyInterpreterState", "asyncio_tasks_head"):
            offset = self._layouts["_PyThreadStateImpl"].offset("asyncio_tasks_head")
            sources += [self._in_list(tstate + offset) for tstate in tstates]
            sources.append(self._in_list(
                self._interpreter + self._layouts["PyInterpreterState"].offset("asyncio_tasks_head")))
        for source in sources:
            try:
                for address in source:
                    if len(found) >= MAX_TASKS:
                        problems.append(f"there are more than {MAX_TASKS} tasks")
                        return list(found), problems
                    found[address] = None
            except GdbextError as error:
                problems.append(str(error))
        return list(found), problems

    def _in_list(self, head: int) -> Iterator[int]:
        # a circle, of which the head is a part; each node lies in a task
        offset = self._layouts["TaskObj"].offset("task_node")
        read = self._layouts["llist_node"].reader("next", "prev")
        at, previous = head, 0
        for _ in range(MAX_TASKS + 2):
            following, back = read(self._memory, at)
            if previous and back != previous:
                raise CorruptStructure(at, "a list of tasks is not linked back")
            if following == head:
                return
            previous, at = at, following
            yield at - offset

    def _in_sets(self) -> Iterator[int]:
        done: set[int] = set()
        for weak in self._weak_sets():
            if weak not in done:
                done.add(weak)
                data = self._objects.attribute(weak, "data")
                for entry in self._objects.set_items(data) if data else ():
                    task, = self._layouts["PyWeakReference"].reader("wr_object")(self._memory, entry)
                    if self._objects.type_name(task) != "NoneType":  # what the weak reference was for is gone
                        yield task
        # tasks that have been run eagerly, CPython 3.12 and 3.13
        eager = self._global("_eager_tasks")
        if eager:
            yield from self._objects.set_items(eager)

    def _weak_sets(self) -> Iterator[int]:
        for name in ("_all_tasks", "_scheduled_tasks"):  # 3.11 and earlier; 3.12 and later
            weak = self._global(name)
            if weak:
                yield weak
        if self._c_module and self._layouts.has("asyncio_state", "weak_tasks"):
            state, = self._layouts["PyModuleObject"].reader("md_state")(self._memory, self._c_module)
            weak = self._layouts["asyncio_state"].reader("weak_tasks")(self._memory, state)[0] if state else 0
            if weak:
                yield weak

    def _python_module(self, name: str) -> int | None:
        modules, = self._layouts["PyInterpreterState"].reader("modules")(self._memory, self._interpreter)
        found = self._objects.dict_get(modules, name) if modules else None
        # None stands for a module that must not be imported
        return found if found and "module" in self._objects.type_names(found) else None

    def _global(self, name: str) -> int | None:
        """A global variable of ``asyncio.tasks``, or None."""
        return self._objects.dict_get(self._namespace, name) if self._namespace else None

    @cached_property
    def _namespace(self) -> int:
        module = self._python_module("asyncio.tasks")
        return self._layouts["PyModuleObject"].reader("md_dict")(self._memory, module)[0] if module else 0

    def current_tasks(self) -> list[int]:
        """The tasks that run now, in any loop, as ``asyncio.tasks`` notes them (CPython 3.13 and earlier)."""
        running = self._global("_current_tasks")
        return [task for _, task in self._objects.dict_items(running)] if running else []

    def running(self, tstate: int) -> tuple[int | None, int | None]:
        """The loop that runs in a thread (``PyThreadState *``), and its current task (since CPython 3.14); or None."""
        if self._layouts.has("_PyThreadStateImpl", "asyncio_running_loop"):
            if not self._c_module:
                return None, None
            loop, task = self._layouts["_PyThreadStateImpl"].optional(
                "asyncio_running_loop", "asyncio_running_task")(self._memory, tstate)
            return loop or None, task or None
        namespace, = self._layouts["PyThreadState"].reader("dict")(self._memory, tstate)
        loop = self._objects.dict_get(namespace, _RUNNING_LOOP) if namespace else None
        if loop and "PyRunningLoopHolder" in self._layouts:  # 3.11 and earlier
            loop, = self._layouts["PyRunningLoopHolder"].reader("rl_loop")(self._memory, loop)
        return (loop if loop and self._objects.type_name(loop) != "NoneType" else None), None

    def thread_id(self, loop: int) -> int | None:
        """The ``pthread_self()`` that a loop written in Python (``PyObject *``) recorded for its thread, or None."""
        number = self._objects.attribute(loop, "_thread_id")
        if not number or self._objects.type_name(number) != "int":
            return None
        return self._objects.integer(number)

    # -- a task ----------------------------------------------------------------------------------------------

    def is_task(self, address: int) -> bool:
        """Whether an object (``PyObject *``) is a task, of either implementation."""
        return self._is_c_task(address) or self._is_python_task(address)

    def _is_c_task(self, address: int) -> bool:
        return self._makes_c_tasks(self._objects.type_address(address))

    @remembered
    def _makes_c_tasks(self, kind: int) -> bool:
        """Whether a type (``PyTypeObject *``) is the C implementation's task type or derived from it."""
        known = self._layouts["PyTypeObject"]
        for _ in range(_MAX_BASES):
            if not kind:
                return False
            if self._objects.name_of_type(kind) == "_asyncio.Task":
                break
            kind, = known.reader("tp_base")(self._memory, kind)
        else:
            return False
        # the structure is private to its C file and may change in any release: its size must be the table's
        size, = known.reader("tp_basicsize")(self._memory, kind)
        if size != self._layouts["TaskObj"].size:
            raise UnknownLayout(f"asyncio's tasks have {size} bytes, in no known layout of "
                                f"CPython {self._layouts.version}")
        return True

    def _is_python_task(self, address: int) -> bool:
        names = self._objects.type_names(address)
        return "Task" in names and "Future" in names[names.index("Task"):]

    def task(self, address: int) -> TaskState:
        """Decode a task (``PyObject *``).

        :raises GdbextError: it is not a task, or contradicts itself.
        """
        if not self._is_c_task(address):
            return self._python_task(address)
        assert self._task is not None  # the size of a C task has been compared with the layout's
        name, loop, number, coroutine, waiter = self._task(self._memory, address)
        state = _STATES.get(number if number is not None else -1)
        if state is None or not loop or coroutine is None:
            raise CorruptStructure(address, "a task that contradicts itself")
        return TaskState(address, self._name(name), loop, state, coroutine, self._not_none(waiter))

    def _python_task(self, address: int) -> TaskState:
        values = dict(self._objects.attributes(address))
        if "_coro" not in values or "_loop" not in values:
            raise CorruptStructure(address, f"a {self._objects.type_name(address)} among the tasks")
        state = self._python_state(values.get("_state"))
        return TaskState(address, self._name(values.get("_name")), values["_loop"], state, values["_coro"],
                         self._not_none(values.get("_fut_waiter")))

    def _python_state(self, address: int | None) -> TaskStatus:
        if not address:
            return PENDING  # an attribute of the class until it changes
        state = _STATE_NAMES.get(self._objects.string(address))
        if state is None:
            raise CorruptStructure(address, "no state of a future")
        return state

    def _name(self, address: int | None) -> str | None:
        if not address:
            return None  # CPython 3.7
        if self._objects.type_name(address) == "int":  # a name that nobody has asked for yet
            return f"Task-{self._objects.integer(address)}"
        return self._objects.string(address)

    def _not_none(self, address: int | None) -> int | None:
        return address if address and self._objects.type_name(address) != "NoneType" else None

    # -- what it runs ----------------------------------------------------------------------------------------

    def await_chain(self, coroutine: int) -> AwaitChain:
        """The frames of a suspended task, from its coroutine (``PyObject *``) to the one that awaits something else."""
        found: list[RawFrame] = []
        seen: set[int] = set()
        at = coroutine
        try:
            while at:
                if at in seen or len(seen) >= MAX_DEPTH:
                    loop = "the coroutines await one another in a circle"
                    return AwaitChain(tuple(found), loop if at in seen else f"cut after {MAX_DEPTH} coroutines")
                seen.add(at)
                kind = self._objects.type_name(at)
                if kind in _GENERATORS:
                    frame = self._frames.generator(at)
                    if frame is None:
                        return AwaitChain(tuple(found), None if self._has_ended(at) else
                                          f"the frame of the {kind} at {at:#x} cannot be read")
                    found.append(frame)
                    at = self._awaited(at, frame)
                elif kind in _STAND_INS:
                    name, member = _STAND_INS[kind]
                    at, = self._layouts[name].reader(member)(self._memory, at)
                else:
                    break  # a future, or an awaitable that is not written in Python
        except GdbextError as error:
            return AwaitChain(tuple(found), str(error))
        return AwaitChain(tuple(found))

    def _awaited(self, generator: int, frame: RawFrame) -> int:
        """What a suspended generator or coroutine has delegated to (``PyObject *``), or 0."""
        if not self._has_delegated(generator, frame):
            return 0
        values = self._frames.stack_values(frame)
        # since 3.15 another value lies above it
        depth = 2 if self._version >= (3, 15) else 1
        return values[-depth] if len(values) >= depth else 0

    def _has_delegated(self, generator: int, frame: RawFrame) -> bool:
        # as _PyGen_yf: by the state since 3.13, before by the instruction that comes next
        known = self._layouts["PyGenObject"]
        if self._version >= (3, 11):
            state, = known.reader("gi_frame_state")(self._memory, generator)
            if self._version >= (3, 13):
                return state in _SUSPENDED_YIELD_FROM[self._version]
            start = frame.code + self._layouts["PyCodeObject"].offset("co_code_adaptive")
            opcode, argument = self._memory.read(start + frame.offset + 2, 2)
            return state == _SUSPENDED and opcode in _RESUMES[self._version] and argument >= _AFTER_YIELD_FROM
        if frame.offset < 0:
            return False
        if self._version >= (3, 10):
            state, = self._layouts["PyFrameObject"].reader("f_state")(self._memory, frame.address)
            suspended = state == _SUSPENDED
        else:
            suspended = bool(self._layouts["PyFrameObject"].reader("f_stacktop")(self._memory, frame.address)[0])
        return suspended and self._yields_from(frame.code, frame.offset)

    @remembered
    def _yields_from(self, code_object: int, offset: int) -> bool:
        """Whether YIELD_FROM follows the instruction at an offset of a code object (CPython 3.10 and earlier)."""
        code, = self._layouts["PyCodeObject"].reader("co_code")(self._memory, code_object)
        at = code + self._layouts["PyBytesObject"].offset("ob_sval") + offset + 2
        return self._memory.read(at, 1)[0] == _YIELD_FROM

    def _has_ended(self, generator: int) -> bool:
        known = self._layouts["PyGenObject"]
        if self._version < (3, 11):
            return known.reader("gi_frame")(self._memory, generator)[0] == 0
        state, = known.reader("gi_frame_state")(self._memory, generator)
        return state == _CLEARED_3_15 if self._version >= (3, 15) else state > _EXECUTING

    def is_executing(self, coroutine: int) -> bool:
        """Whether a coroutine (``PyObject *``) runs now, in some thread; it may have called what runs another task."""
        if self._objects.type_name(coroutine) not in _GENERATORS:
            return False
        known = self._layouts["PyGenObject"]
        if self._version >= (3, 11):
            executing = _EXECUTING_3_15 if self._version >= (3, 15) else _EXECUTING
            return known.reader("gi_frame_state")(self._memory, coroutine)[0] == executing
        frame, = known.reader("gi_frame")(self._memory, coroutine)
        if not frame:
            return False
        if self._version >= (3, 10):
            return self._layouts["PyFrameObject"].reader("f_state")(self._memory, frame)[0] == _EXECUTING
        return bool(self._layouts["PyFrameObject"].reader("f_executing")(self._memory, frame)[0])

    def running_frames(self, tstate: int, coroutine: int) -> tuple[RawFrame, ...]:
        """The Python frames that a task runs now, outermost first; empty if the thread does not run it.

        :param tstate: ``PyThreadState *`` of its loop's thread.
        """
        if self._objects.type_name(coroutine) not in _GENERATORS:
            return ()
        own = self._frames.generator(coroutine)
        frames = []
        for raw in self._frames.raw(tstate):
            frames.append(raw)
            if own is not None and raw.address == own.address:
                return tuple(reversed(frames))
        return ()

    def is_pending(self, future: int) -> bool:
        """Whether a future or task (``PyObject *``) is not finished."""
        if self._is_c_future(future):
            # a future begins like a task
            return self._layouts["TaskObj"].reader("task_state")(self._memory, future)[0] == 0
        return self._python_state(self._objects.attribute(future, "_state")) == PENDING

    def _is_c_future(self, future: int) -> bool:
        return bool({"_asyncio.Future", "_asyncio.Task"} & set(self._objects.type_names(future)))

    # -- futures ---------------------------------------------------------------------------------------------

    def callbacks(self, future: int) -> Iterator[int]:
        """The callbacks (``PyObject *``) of a future or task."""
        if self._is_c_future(future):
            first, rest = self._layouts["TaskObj"].reader("task_callback0", "task_callbacks")(self._memory, future)
            if first:
                yield first
        else:
            rest = self._objects.attribute(future, "_callbacks") or 0
        if rest and self._objects.type_name(rest) == "list":
            for pair in self._objects.list_start(rest, _MAX_CALLBACKS):
                yield from self._objects.tuple_items(pair)[:1]  # with the context that it is to run in

    def free_variables(self, function: int) -> tuple[str, dict[str, int]]:
        """The source file of a function written in Python (``PyFunctionObject *``) and its free variables.

        :raises GdbextError: it is none.
        """
        if self._objects.type_name(function) != "function":
            raise CorruptStructure(function, "no Python function")
        code, closure = self._layouts["PyFunctionObject"].reader("func_code", "func_closure")(self._memory, function)
        file, = self._layouts["PyCodeObject"].reader("co_filename")(self._memory, code)
        cells = self._objects.tuple_items(closure) if closure else ()
        names = self._free_names(code) if cells else ()
        read = self._layouts["PyCellObject"].reader("ob_ref")
        return self._objects.string(file), {name: read(self._memory, cell)[0] for name, cell in zip(names, cells)}

    def _free_names(self, code: int) -> tuple[str, ...]:
        known = self._layouts["PyCodeObject"]
        if "co_freevars" in known:
            names = self._objects.tuple_items(known.reader("co_freevars")(self._memory, code)[0])
        else:  # since 3.11 among the others, of a kind of their own
            names_at, kinds_at = known.reader("co_localsplusnames", "co_localspluskinds")(self._memory, code)
            kinds = self._objects.bytes(kinds_at)
            names = tuple([name for name, kind in zip(self._objects.tuple_items(names_at), kinds)
                           if kind & _CO_FAST_FREE])
        return tuple(self._objects.key_name(name) or "?" for name in names)
