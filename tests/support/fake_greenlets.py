"""Greenlets in fake memory, in the lists of the garbage collector."""

from __future__ import annotations

from collections.abc import Sequence

from gdbext.cpython.frames import FrameReader
from gdbext.cpython.greenlets.greenlets import GreenletReader
from gdbext.cpython.objects import Objects
from gdbext.cpython.runtime import PythonRuntime, iter_interpreters
from gdbext.inferior.protocol import Module
from gdbext.threads.code import Code
from gdbext.threads.findings import Findings
from gdbext.threads.python_side import Python, PythonSide, PythonThread
from tests.support import versions
from tests.support.fake_memory import FakeMemory
from tests.support.fake_python import FakePython

#: One version for each shape of frames and of handled exceptions; 3.8 has the lists in the runtime.
VERSIONS = versions.from_minor(8)
MAIN_STOP = (1 << 64) - 1
_STACK = 0x7FFC_0000_0000
PTHREAD = 0x7F00_0000_1000
#: The ``greenlet::ThreadState *`` of the thread.
THREAD_STATE = 0x5A5A_0000
#: Bytes of the state of an interpreter or runtime that contains the heads.
_HEADS_AT = 64


class FakeGreenlets(FakePython):
    """A runtime with one interpreter and one thread that has imported greenlet.

    :param back: whether a greenlet points back to its object first, as since greenlet 3.1.
    """

    def __init__(self, version: str, release: str = "3.5.6", back: bool = True) -> None:
        super().__init__(FakeMemory(), version)
        self.back = back
        self.runtime()
        self.interp = self.interpreter()
        self.tstate = self.thread(self.interp, PTHREAD)
        # the third module with thread-local memory is greenlet's; the second has none in this thread yet
        table, block = self.build.alloc(128) + 16, self.build.alloc(64)
        self.memory.u64(PTHREAD, PTHREAD, table)
        self.memory.u64(table - 16, 3, 0, 1, 0, self.build.alloc(16), 0, MAIN_STOP, 0, block, 0)
        self.memory.u64(block, 0, THREAD_STATE)
        if version == "3.8.18":
            self.heads = self.runtime_address + _HEADS_AT
        else:
            self.heads = self.interp + self.layouts["PyInterpreterState"].size - 4 * 24 - 8 - _HEADS_AT
        #: The objects in each of the four lists: three generations and the permanent one.
        self.lists: list[list[int]] = [[], [], [], []]
        self.kind = self.type_object("greenlet.greenlet")
        self.extension = self.tracked(2, 0)
        inside = self.module_object(greenlet=self.kind)
        self.memory.write(self.extension, self.memory.read(inside, self.layouts["PyModuleObject"].size))
        package = self.module_object(__version__=self.string(release))
        modules = self.dictionary([(self.string("greenlet"), package),
                                   (self.string("greenlet._greenlet"), self.extension)])
        self.build.put("PyInterpreterState", self.interp, modules=modules)
        self.main = self.greenlet(stop=MAIN_STOP, start=1)

    def tracked(self, generation: int, kind: int, size: int = 256) -> int:
        """An object with a ``PyGC_Head`` before it."""
        at = self.build.alloc(16 + size) + 16
        self.build.put("PyObject", at, ob_type=kind)
        self.lists[generation].append(at)
        return at

    def greenlet(self, generation: int = 2, kind: int | None = None, *, stop: int = _STACK, start: int = _STACK - 512,
                 exc_info: int = 0, frame: int = 0, main: int = 0, thread_state: int = THREAD_STATE, saved: int = 0,
                 self_address: int | None = None) -> int:
        """A greenlet; its members as in ``greenlet::Greenlet``."""
        at = self.tracked(generation, self.kind if kind is None else kind)
        handled = (0, 0) if self.version_tuple >= (3, 11) else (0,) * 4
        itself = at if self_address is None else self_address
        owner = (itself, thread_state) if stop == MAIN_STOP else (main,)
        words: Sequence[int] = (
            0x7F00_1000, *((itself,) if self.back else ()), exc_info, *handled, 0, 0, start, stop,
            0x5000 if saved else 0, saved, 0, 0, frame, 7, 7, *(() if self.back or stop == MAIN_STOP else (itself,)),
            *owner, 0, 0)
        pimpl = self.build.alloc(8 * 40)
        self.memory.u64(pimpl, *words)
        self.memory.u64(at + self.layouts["PyObject"].size + 16, pimpl)
        return at

    def suspended(self, *functions: tuple[str, int], generation: int = 2, main: int | None = None) -> int:
        """A suspended greenlet with these functions, innermost first."""
        at = 0
        for name, line in reversed(functions):
            at = self.frame(self.code(name, line), previous=at)
        frame = at
        if "_PyInterpreterFrame" in self.layouts:
            frame = self.build.new("PyFrameObject", f_frame=at)
        self.build.put("PyObject", frame, ob_type=self.type_object("frame"))
        return self.greenlet(generation, exc_info=self.tstate + 64, frame=frame,
                             main=self.main if main is None else main)

    def publish(self) -> None:
        """Link the lists."""
        for i, objects in enumerate(self.lists):
            head = self.heads + 24 * i + (8 if i == 3 else 0)
            nodes = [head, *(each - 16 for each in objects)]
            for j, node in enumerate(nodes):
                # the lowest bits are flags
                flag = 0 if node == head else 1
                self.memory.u64(node, nodes[(j + 1) % len(nodes)], nodes[j - 1] | 2 * flag)

    def side(self, findings: Findings) -> PythonSide:
        """The published runtime as that of a process whose thread 4 has all its thread states."""
        self.publish()
        at = self.build.member("_PyRuntimeState", self.runtime_address, "interpreters_head")
        runtime = PythonRuntime(self.runtime_address, Module("/usr/lib/libpython.so", ()), self.version, "default",
                                self.layouts, at)
        objects = Objects(self.memory, self.layouts)
        interpreters = list(iter_interpreters(self.memory, runtime))
        python = Python(runtime, objects, FrameReader(self.memory, self.layouts, objects), interpreters=interpreters)
        tstates = [(python, tstate) for tstate in interpreters[0].threads]
        return PythonSide(self.memory, Code.__new__(Code), findings, [python], {4: PythonThread(tstates)}, [])

    def reader(self) -> GreenletReader:
        """The reader of the greenlets, after `publish`."""
        self.publish()
        objects = Objects(self.memory, self.layouts)
        return GreenletReader(self.memory, self.layouts, objects, FrameReader(self.memory, self.layouts, objects),
                              self.interp, self.runtime_address, {self.tstate: PTHREAD})
