"""asyncio in fake memory: tasks in lists and sets, suspended coroutines, futures, event loops."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from gdbext.cpython.frames import FrameReader
from gdbext.cpython.objects import Objects
from gdbext.cpython.tasks import AsyncioReader
from tests.support import versions
from tests.support.fake_memory import FakeMemory
from tests.support.fake_python import FakePython

#: The versions whose tasks are decoded.
VERSIONS = versions.TESTED

LIBRARY = "/usr/lib/python3/asyncio"
_RESERVE = 1024
_CO_FAST_LOCAL, _CO_FAST_FREE = 0x20, 0x80
_YIELD_FROM, _RETURN_VALUE, _RESUME = 72, 83, 151
#: The byte offset of the instruction at which all coroutines are suspended.
_AT = 8


class FakeTasks(FakePython):
    """A runtime with one interpreter and one thread, without asyncio state."""

    def __init__(self, version: str, pthread: int = 0x7F00_0000_1000) -> None:
        super().__init__(FakeMemory(), version)
        self.runtime()
        self.interp = self.interpreter()
        self.tstate = self.thread(self.interp, pthread)
        self.build.alloc(_RESERVE)  # a thread state is followed by a part that is not in its structure
        if "_PyThreadStateImpl" in self.layouts:
            self.build.put("_PyThreadStateImpl", self.tstate)
        self.none = self.object_of("NoneType")
        self.loop = self.instance("_UnixSelectorEventLoop")
        self.has_lists = self.layouts.has("PyInterpreterState", "asyncio_tasks_head")
        #: The address of the awaited object on a coroutine's value stack.
        self.awaited_at: dict[int, int] = {}
        self.scheduled: list[int] = []
        if self.has_lists:
            self.list_of(self.thread_list(), [])
            self.list_of(self.interpreter_list(), [])

    # -- objects ---------------------------------------------------------------------------------------------

    def object_of(self, type_name: str, size: int = 64, base: int = 0, **members: int) -> int:
        """An object of the named type."""
        at = self.build.alloc(size)
        if base:
            members["tp_base"] = base
        self.build.put("PyObject", at, ob_type=self.type_object(type_name, **members))
        return at

    def set_of(self, items: Sequence[int], deleted: int = 0) -> int:
        """A ``set`` of items, with `deleted` further entries that were removed."""
        entry = self.layouts["setentry"].size
        room = 8
        while room < 2 * (len(items) + deleted):
            room *= 2
        table = self.build.alloc(room * entry)
        pairs = [*((item, 1) for item in items), *[(self.none, -1)] * deleted]
        assert entry == 16, "a key and a hash"
        self.memory.write(table, b"".join(struct.pack("<Qq", *pair) for pair in pairs))
        at = self.object_of("set", self.layouts["PySetObject"].size)
        return self.build.put("PySetObject", at, mask=room - 1, table=table)

    def weak_set(self, items: Sequence[int]) -> int:
        """A ``weakref.WeakSet``."""
        references = []
        for item in items:
            at = self.object_of("weakref", self.layouts["PyWeakReference"].size)
            references.append(self.build.put("PyWeakReference", at, wr_object=item))
        return self.instance("WeakSet", data=self.set_of(references, deleted=1))

    def callback(self, file: str, **free: int) -> int:
        """A function with free variables."""
        cells = [self.cell(value) for value in free.values()]
        at = self.function("callback")
        return self.build.put("PyFunctionObject", at, func_code=self.code_with(file, "callback", (), [*free]),
                              func_closure=self.tuple_object(*cells) if cells else 0)

    def code_with(self, file: str, name: str, variables: Sequence[str], free: Sequence[str] = (),
                  delegates: bool = False) -> int:
        """A code object with named variables; all its coroutines are suspended at the same instruction."""
        instructions = bytearray(20)
        instructions[_AT + 2] = _YIELD_FROM if delegates else _RETURN_VALUE
        code = self.code(name, 10, file=file, variables=variables, instructions=bytes(instructions))
        names = [self.string(each) for each in [*variables, *free]]
        if "co_localsplusnames" in self.layouts["PyCodeObject"]:
            kinds = bytes([_CO_FAST_LOCAL] * len(variables) + [_CO_FAST_FREE] * len(free))
            self.build.put("PyCodeObject", code, co_nlocalsplus=len(names),
                           co_localsplusnames=self.tuple_object(*names), co_localspluskinds=self.byte_string(kinds))
            following = code + self.layouts["PyCodeObject"].offset("co_code_adaptive") + _AT + 2
            self.memory.write(following, bytes([_RESUME, 3 if delegates else 1]))
        elif free:
            self.build.put("PyCodeObject", code, co_freevars=self.tuple_object(*names[len(variables):]))
        return code

    # -- coroutines ------------------------------------------------------------------------------------------

    def coroutine(self, name: str, awaits: int = 0, kind: str = "coroutine", file: str = "/app/job.py",
                  under: Sequence[int] = (), variables: Mapping[str, int] | None = None) -> int:
        """A suspended coroutine, generator or asynchronous generator.

        :param awaits: the object that it awaits; 0 if it is suspended at a plain ``yield``.
        :param under: the entry below that on its value stack.
        """
        version = self.version_tuple
        variables = variables or {}
        code = self.code_with(file, name, [*variables], delegates=bool(awaits))
        values = [*under, *([awaits] if awaits else [self.none])]
        if version >= (3, 15) and awaits:
            values.append(self.none)
        if version < (3, 11):
            frame = self.build.alloc(self.layouts["PyFrameObject"].offset("f_localsplus") + 8 * 32)
            self.frame(code, offset=_AT, at=frame)
            slots = frame + self.layouts["PyFrameObject"].offset("f_localsplus")
            stack = slots + 8 * len(variables)
            depth = ({"f_stackdepth": len(values), "f_state": -1} if version >= (3, 10)
                     else {"f_stacktop": stack + 8 * len(values)})
            self.build.put("PyFrameObject", frame, f_valuestack=stack, **depth)
            at = self.object_of(kind, self.layouts["PyGenObject"].size)
            self.build.put("PyGenObject", at, gi_frame=frame)
        else:
            offset = self.layouts["PyGenObject"].offset("gi_iframe")
            at = self.object_of(kind, offset + self.layouts["_PyInterpreterFrame"].offset("localsplus") + 8 * 32)
            frame = at + offset
            slots = frame + self.layouts["_PyInterpreterFrame"].offset("localsplus")
            stack = slots + 8 * len(variables)
            depth = ({"stackpointer": stack + 8 * len(values)} if version >= (3, 14)
                     else {"stacktop": len(variables) + len(values)})
            self.frame(code, offset=_AT, owner=1, at=frame, **depth)
            suspended, delegated = (1, 2) if version >= (3, 15) else (-2, -1) if version >= (3, 13) else (-1, -1)
            self.build.put("PyGenObject", at, gi_frame_state=delegated if awaits else suspended)
        self.memory.u64(slots, *variables.values(), *values)
        self.awaited_at[at] = stack + 8 * len(under)
        return at

    def execute(self, coroutine: int) -> None:
        """Make a coroutine the running one."""
        version = self.version_tuple
        if version >= (3, 11):
            self.build.put("PyGenObject", coroutine, gi_frame_state=4 if version >= (3, 15) else 0)
            return
        frame, = self.layouts["PyGenObject"].reader("gi_frame")(self.memory, coroutine)
        if version >= (3, 10):
            self.build.put("PyFrameObject", frame, f_state=0)
        else:
            self.build.put("PyFrameObject", frame, f_executing=1, f_stacktop=0)

    def stand_in(self, kind: str, struct_name: str, member: str, what: int) -> int:
        """An awaitable that wraps another one."""
        return self.build.put(struct_name, self.object_of(kind, self.layouts[struct_name].size), **{member: what})

    # -- tasks and futures -----------------------------------------------------------------------------------

    def _head(self, kind: str, callbacks: Sequence[int], **members: int) -> int:
        size = self.layouts["TaskObj"].size
        at = self.object_of(kind, size, tp_basicsize=size)
        if callbacks:
            members["task_callback0"] = callbacks[0]
        if len(callbacks) > 1:
            pairs = [self.tuple_object(each, self.none) for each in callbacks[1:]]
            members["task_callbacks"] = self.list_object(*pairs)
        return self.build.put("TaskObj", at, task_loop=self.loop, **members)

    def future(self, callbacks: Sequence[int] = (), kind: str = "_asyncio.Future", state: int = 0) -> int:
        """A future, which has the same first members as a task."""
        return self._head(kind, callbacks, task_state=state)

    def gathering(self, children: Sequence[int]) -> int:
        """The future returned by ``asyncio.gather``, whose class is written in Python."""
        return self.instance("_GatheringFuture", False, _children=self.list_object(*children))

    def task(self, name: str | int | None, coroutine: int, waiter: int = 0, state: int = 0,
             callbacks: Sequence[int] = (), scheduled: bool = True) -> int:
        """A task, which `publish` makes discoverable."""
        members = {}
        if "task_name" in self.layouts["TaskObj"] and name is not None:
            members["task_name"] = self.integer(name) if isinstance(name, int) else self.string(name)
        at = self._head("_asyncio.Task", callbacks, task_coro=coroutine, task_fut_waiter=waiter, task_state=state,
                        **members)
        if scheduled:
            self.scheduled.append(at)
        return at

    def python_task(self, coroutine: int, **attributes: int) -> int:
        """A task of asyncio's Python implementation, which `publish` makes discoverable."""
        self.instance("Future")
        at = self.instance("Task", False, _coro=coroutine, _loop=self.loop, **attributes)
        self.build.put("PyTypeObject", self.type_object("Task"), tp_base=self.type_object("Future"))
        self.scheduled.append(at)
        return at

    # -- lists of tasks --------------------------------------------------------------------------------------

    def thread_list(self) -> int:
        """The head of the thread's list of tasks, since 3.14."""
        return self.build.member("_PyThreadStateImpl", self.tstate, "asyncio_tasks_head")

    def interpreter_list(self) -> int:
        """The head of the interpreter's list of tasks, since 3.14."""
        return self.build.member("PyInterpreterState", self.interp, "asyncio_tasks_head")

    def list_of(self, head: int, tasks: Sequence[int]) -> None:
        """Link tasks to a circular list."""
        offset = self.layouts["TaskObj"].offset("task_node")
        nodes = [head, *(task + offset for task in tasks)]
        for i, node in enumerate(nodes):
            self.build.put("llist_node", node, next=nodes[(i + 1) % len(nodes)], prev=nodes[i - 1])

    def publish(self, current: int = 0, others: Sequence[int] = (), eager: Sequence[int] = ()) -> None:
        """Add the tasks to asyncio's lists: `current` is running, `others` are in the weak set in every version."""
        in_set = list(others)
        if self.has_lists:
            self.list_of(self.thread_list(), self.scheduled)
            self.build.put("_PyThreadStateImpl", self.tstate, asyncio_running_loop=self.loop,
                           asyncio_running_task=current)
        else:
            in_set += self.scheduled
            self._note_running_loop()
        weak = "_scheduled_tasks" if self.version_tuple >= (3, 12) else "_all_tasks"
        running = [(self.loop, current)] if current and not self.has_lists else []
        members = {weak: self.weak_set([*in_set, self.none]),
                   "_current_tasks": self.dictionary(running, unicode_keys=False)}
        if self.version_tuple >= (3, 12):
            members["_eager_tasks"] = self.set_of(eager)
        modules = self.namespace(**{"asyncio.tasks": self.module_object(**members), "_asyncio": self.module_object()})
        self.build.put("PyInterpreterState", self.interp, modules=modules)

    def _note_running_loop(self) -> None:
        if self.version_tuple >= (3, 13):
            self.build.put("_PyThreadStateImpl", self.tstate, asyncio_running_loop=self.loop)
            return
        noted = self.loop
        if "PyRunningLoopHolder" in self.layouts:
            noted = self.object_of("_RunningLoopHolder")
            self.build.put("PyRunningLoopHolder", noted, rl_loop=self.loop)
        namespace = self.namespace(__asyncio_running_event_loop__=noted)
        self.build.put("PyThreadState", self.tstate, dict=namespace)

    def reader(self) -> AsyncioReader:
        """The reader for this memory."""
        objects = Objects(self.memory, self.layouts)
        return AsyncioReader(self.memory, self.layouts, objects, FrameReader(self.memory, self.layouts, objects),
                             self.interp)
