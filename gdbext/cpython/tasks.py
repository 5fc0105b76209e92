"""Tasks of asyncio with their names, frames and the futures they await, and the event loops of threads.

Structures: ``TaskObj``, the asyncio members of thread and interpreter states. What one coroutine does is in
``generators.py``.

Sources: CPython 3.7, 3.11, 3.13 and 3.14 Modules/_asynciomodule.c, Lib/asyncio/tasks.py, InternalDocs/asyncio.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Final

from gdbext.cpython.frames import FrameReader, RawFrame
from gdbext.cpython.generators import GENERATORS, Generators
from gdbext.cpython.objects import Objects
from gdbext.errors import CorruptStructure, GdbextError, UnknownLayout
from gdbext.inferior.protocol import Memory, Module
from gdbext.layout.table import Field, Layouts
from gdbext.model import TaskStatus
from gdbext.record import record
from gdbext.remembered import remembered

#: Largest number of tasks of one interpreter.
MAX_TASKS = 100_000
#: Largest number of callbacks of one future.
_MAX_CALLBACKS = 1_000

PENDING: Final = "pending"
CANCELLED: Final = "cancelled"
DONE: Final = "done"
#: ``fut_state`` of `_asynciomodule.c`, and ``_state`` of asyncio's Python implementation.
_STATES: Mapping[int, TaskStatus] = {0: PENDING, 1: CANCELLED, 2: DONE}
_STATE_NAMES: Mapping[str | None, TaskStatus] = {"PENDING": PENDING, "CANCELLED": CANCELLED, "FINISHED": DONE}

_CO_FAST_FREE = 0x80  # Include/internal/pycore_code.h, CPython 3.11 and later

_RUNNING_LOOP = "__asyncio_running_event_loop__"
#: The structure that each group of the section ``.AsyncioDebug`` describes.
_DESCRIBED = {"asyncio_task_object": "TaskObj", "asyncio_interpreter_state": "PyInterpreterState",
              "asyncio_thread_state": "_PyThreadStateImpl"}


@record
class TaskState:
    """A task; addresses are ``PyObject *``. `waiter` is the future that it waits for, or None."""

    address: int
    name: str | None
    loop: int
    state: TaskStatus
    coroutine: int
    waiter: int | None


def uses_asyncio(objects: Objects, interpreter: int) -> bool:
    """Whether an interpreter (``PyInterpreterState *``) has imported asyncio."""
    return has_imported(objects, interpreter, "asyncio.tasks")


def has_imported(objects: Objects, interpreter: int, module: str) -> bool:
    """Whether an interpreter (``PyInterpreterState *``) has imported a module."""
    modules = objects.read_member("PyInterpreterState", interpreter, "modules")
    return bool(modules) and objects.dict_get(modules, module) is not None


def with_asyncio_offsets(memory: Memory, layouts: Layouts, runtime: Module, modules: Iterable[Module]) -> Layouts:
    """Apply the debug offsets of `_asyncio` (CPython 3.14 and later) to a table.

    :param runtime: the module of the interpreter, which contains the offsets if the extension module is built in.
    :param modules: everything loaded.
    :raises UnknownLayout: the numbers are impossible, or the size of a task differs from the table's.
    """
    if "_Py_AsyncioModuleDebugOffsets" not in layouts:
        return layouts
    version = "".join(map(str, layouts.version_tuple[:2]))
    modules = [module for module in modules
               if module is runtime or module.name.startswith(f"_asyncio.cpython-{version}")]
    section = next((found for found in (module.section(".AsyncioDebug") for module in modules) if found), None)
    if section is None:
        return layouts
    size, = layouts["_Py_AsyncioModuleDebugOffsets"].reader("asyncio_task_object.size")(memory, section.start)
    _check_task_size(layouts, size)
    names = ("asyncio_task_object.task_name", "asyncio_task_object.task_coro", "asyncio_task_object.task_node",
             "asyncio_interpreter_state.asyncio_tasks_head", "asyncio_thread_state.asyncio_running_loop",
             "asyncio_thread_state.asyncio_running_task", "asyncio_thread_state.asyncio_tasks_head")
    changes: dict[str, dict[str, Field]] = {}
    for name, value in zip(names, layouts["_Py_AsyncioModuleDebugOffsets"].reader(*names)(memory, section.start)):
        group, _, member = name.partition(".")
        old = layouts[_DESCRIBED[group]].fields[member]
        if not 0 < value < 1 << 20:
            raise UnknownLayout(f"asyncio's debug offset {name} is {value}")
        changes.setdefault(_DESCRIBED[group], {})[member] = Field(value, old.size, old.signed)
    return layouts.replaced(layouts.source, changes, {})


def _check_task_size(layouts: Layouts, size: int) -> None:
    # the structure is private to its C file and may change in any release
    if size != layouts["TaskObj"].size:
        raise UnknownLayout(f"asyncio's tasks have {size} bytes, in no known layout of CPython {layouts.version}")


class AsyncioReader:
    """Reads asyncio in one interpreter. What it has read of a task it remembers, because several parts of a report ask.

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
        self.generators = Generators(memory, layouts, objects, frames)
        unknown = UnknownLayout(f"tasks of asyncio are not decoded in this CPython {layouts.version}")
        if layouts.version_tuple < (3, 7):
            raise unknown
        # without this module the asyncio members of thread states are empty, and their offsets are not confirmed
        self._c_module = self._module("_asyncio")
        # the Python implementation does without this structure
        if self._c_module and "TaskObj" not in layouts:
            raise unknown
        self._task = layouts["TaskObj"].optional(
            "task_name", "task_loop", "task_state", "task_coro", "task_fut_waiter") if "TaskObj" in layouts else None

    # -- lists of tasks and loops ----------------------------------------------------------------------------

    @remembered
    def tasks(self, tstates: tuple[int, ...]) -> tuple[list[int], list[str]]:
        """The tasks (``PyObject *``) that asyncio has recorded, also finished ones, and problems in reading them.

        Since CPython 3.14 thread states and the interpreter list the unfinished tasks of the C implementation. Other
        tasks, and all tasks of earlier versions, are in sets.

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
        # a circular list through the head; the other nodes are members of tasks
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
            if weak in done:
                continue
            done.add(weak)
            data = self._objects.attribute(weak, "data")
            for entry in self._objects.set_items(data) if data else ():
                task = self._objects.read_member("PyWeakReference", entry, "wr_object")
                if self._objects.type_name(task) != "NoneType":  # the task of this weak reference is gone
                    yield task
        # tasks that were run eagerly, CPython 3.12 and 3.13
        eager = self._global("_eager_tasks")
        if eager:
            yield from self._objects.set_items(eager)

    def _weak_sets(self) -> Iterator[int]:
        for name in ("_all_tasks", "_scheduled_tasks"):  # 3.11 and earlier; 3.12 and later
            weak = self._global(name)
            if weak:
                yield weak
        if self._c_module and self._layouts.has("asyncio_state", "weak_tasks"):
            state = self._objects.read_member("PyModuleObject", self._c_module, "md_state")
            weak = self._objects.read_member("asyncio_state", state, "weak_tasks") if state else 0
            if weak:
                yield weak

    def _module(self, name: str) -> int | None:
        modules = self._objects.read_member("PyInterpreterState", self._interpreter, "modules")
        found = self._objects.dict_get(modules, name) if modules else None
        # None in `sys.modules` blocks the import of a module
        return found if found and "module" in self._objects.type_names(found) else None

    def _global(self, name: str) -> int | None:
        """A global variable of ``asyncio.tasks``, or None."""
        return self._objects.dict_get(self._namespace, name) if self._namespace else None

    @cached_property
    def _namespace(self) -> int:
        module = self._module("asyncio.tasks")
        return self._objects.read_member("PyModuleObject", module, "md_dict") if module else 0

    def current_tasks(self) -> list[int]:
        """The tasks that now run in any loop, as ``asyncio.tasks`` records them (CPython 3.13 and earlier)."""
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
        namespace = self._objects.read_member("PyThreadState", tstate, "dict")
        loop = self._objects.dict_get(namespace, _RUNNING_LOOP) if namespace else None
        if loop and "PyRunningLoopHolder" in self._layouts:  # 3.11 and earlier
            loop = self._objects.read_member("PyRunningLoopHolder", loop, "rl_loop")
        return self._not_none(loop), None

    def thread_id(self, loop: int) -> int | None:
        """The ``pthread_self()`` that a loop written in Python (``PyObject *``) recorded for its thread, or None."""
        number = self._objects.attribute(loop, "_thread_id")
        return self._objects.integer(number) if number and self._objects.type_name(number) == "int" else None

    def watched(self, loop: int) -> int | None:
        """How many descriptors a loop of asyncio (``PyObject *``) watches, besides those by which it is woken.

        :return: None for loops of other kinds, and if it is not known.
        """
        selector, own = self._objects.attribute(loop, "_selector"), self._objects.attribute(loop, "_internal_fds")
        files = self._objects.attribute(selector, "_fd_to_key") if selector else None
        if not files or not own or "dict" not in self._objects.type_names(files):
            return None
        return max(self._objects.dict_size(files) - self._objects.integer(own), 0)

    # -- a task ----------------------------------------------------------------------------------------------

    def is_task(self, address: int) -> bool:
        """Whether an object (``PyObject *``) is a task, of either implementation."""
        return self._is_c_task(address) or self._is_python_task(address)

    def _is_c_task(self, address: int) -> bool:
        return self._makes_c_tasks(self._objects.type_address(address))

    @remembered
    def _makes_c_tasks(self, kind: int) -> bool:
        """Whether a type (``PyTypeObject *``) is the C implementation's task type or derived from it."""
        for base in self._objects.base_types(kind):
            if self._objects.name_of_type(base) == "_asyncio.Task":
                _check_task_size(self._layouts, self._objects.read_member("PyTypeObject", base, "tp_basicsize"))
                return True
        return False

    def _is_python_task(self, address: int) -> bool:
        names = self._objects.type_names(address)
        return "Task" in names and "Future" in names[names.index("Task"):]

    @remembered
    def task(self, address: int) -> TaskState:
        """Decode a task (``PyObject *``).

        :raises GdbextError: the object is not a task, or is damaged.
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
            return PENDING  # the class has the attribute until it changes
        state = _STATE_NAMES.get(self._objects.string(address))
        if state is None:
            raise CorruptStructure(address, "not the state of a future")
        return state

    def _name(self, address: int | None) -> str | None:
        if not address:
            return None  # CPython 3.7
        if self._objects.type_name(address) == "int":  # the text is made when it is first used
            return f"Task-{self._objects.integer(address)}"
        return self._objects.string(address)

    def _not_none(self, address: int | None) -> int | None:
        return address if address and self._objects.type_name(address) != "NoneType" else None

    # -- frames of a task ------------------------------------------------------------------------------------

    def is_executing(self, coroutine: int) -> bool:
        """Whether a coroutine (``PyObject *``) runs now in some thread; the running code may be another task's."""
        return self._objects.type_name(coroutine) in GENERATORS and self.generators.is_executing(coroutine)

    def running_frames(self, tstate: int, coroutine: int) -> tuple[RawFrame, ...]:
        """The Python frames of a running task, outermost first; empty if the thread does not run it.

        :param tstate: ``PyThreadState *`` of its loop's thread.
        """
        if self._objects.type_name(coroutine) not in GENERATORS:
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
            # futures and tasks have the same first members
            return self._objects.read_member("TaskObj", future, "task_state") == 0
        return self._python_state(self._objects.attribute(future, "_state")) == PENDING

    def _is_c_future(self, future: int) -> bool:
        return bool({"_asyncio.Future", "_asyncio.Task"} & set(self._objects.type_names(future)))

    # -- futures ---------------------------------------------------------------------------------------------

    def callbacks(self, future: int) -> Iterator[int]:
        """The callbacks (``PyObject *``) of a future or task."""
        if self._is_c_future(future):
            first, rest = self._objects.read_members("TaskObj", future, "task_callback0", "task_callbacks")
            if first:
                yield first
        else:
            rest = self._objects.attribute(future, "_callbacks") or 0
        if rest and self._objects.type_name(rest) == "list":
            for pair in self._objects.list_start(rest, _MAX_CALLBACKS):
                yield from self._objects.tuple_items(pair)[:1]  # the second item is the context to run it in

    def free_variables(self, function: int) -> tuple[str, dict[str, int]]:
        """The source file of a function written in Python (``PyFunctionObject *``) and its free variables.

        :raises GdbextError: the object is not a function.
        """
        if self._objects.type_name(function) != "function":
            raise CorruptStructure(function, "not a Python function")
        code, closure = self._objects.read_members("PyFunctionObject", function, "func_code", "func_closure")
        file = self._objects.string(self._objects.read_member("PyCodeObject", code, "co_filename"))
        cells = self._objects.tuple_items(closure) if closure else ()
        names = self._free_names(code) if cells else ()
        return file, {name: self._objects.read_member("PyCellObject", cell, "ob_ref")
                      for name, cell in zip(names, cells)}

    def _free_names(self, code: int) -> tuple[str, ...]:
        if self._layouts.has("PyCodeObject", "co_freevars"):
            names = self._objects.tuple_items(self._objects.read_member("PyCodeObject", code, "co_freevars"))
        else:  # since 3.11 among the others, marked by their kinds
            names_at, kinds_at = self._objects.read_members(
                "PyCodeObject", code, "co_localsplusnames", "co_localspluskinds")
            kinds = self._objects.bytes(kinds_at)
            names = tuple([name for name, kind in zip(self._objects.tuple_items(names_at), kinds)
                           if kind & _CO_FAST_FREE])
        return tuple(self._objects.key_name(name) or "?" for name in names)
