"""What reads the frames and locks of one Python runtime: `with` blocks, acquired locks, pools, names, files."""

from __future__ import annotations

from collections.abc import Collection

from gdbext.cpython.code.acquired import LockFlows
from gdbext.cpython.code.functions import Functions
from gdbext.cpython.code.with_blocks import WithBlock, WithBlocks
from gdbext.cpython.files import FileReader
from gdbext.cpython.frames import RawFrame
from gdbext.cpython.locking.locks import LockReader
from gdbext.cpython.locking.naming import Names
from gdbext.cpython.locking.object_names import ObjectNames
from gdbext.cpython.locking.places import PlaceReader
from gdbext.cpython.locking.taken import TakenLocks
from gdbext.cpython.locking.waited import DEPTH, WaitedLocks
from gdbext.cpython.pools.futures import PoolReader
from gdbext.cpython.pools.multiprocessing import PoolHandlers
from gdbext.cpython.values import ValueReader
from gdbext.inferior.protocol import Memory
from gdbext.threads.python_side import Python


class Reader:
    """Reads the locks of one runtime.

    :param locks: what decodes lock objects, if not those of Python only.
    """

    def __init__(self, memory: Memory, python: Python, pthreads: Collection[int],
                 locks: LockReader | None = None) -> None:
        self.layouts = python.runtime.layouts
        self.objects = python.objects
        self.frames = python.frames
        self.locks = locks or LockReader(memory, self.layouts, python.objects)
        self.files = FileReader(memory, self.layouts, python.objects)
        self.values = values = ValueReader(memory, self.layouts, python.objects)
        self.places = PlaceReader(python.objects, self.frames, values)
        self.names = Names(python.objects, self.frames, self.locks, values)
        self.object_names = ObjectNames(python.objects, values)
        self.waited = WaitedLocks(memory, self.layouts, python.objects, self.frames, self.locks, python.interpreters,
                                  pthreads)
        self.functions = Functions(self.layouts, python.objects, self.frames)
        self.pools = PoolReader(memory, self.layouts, python.objects, self.frames, self.locks)
        self.pool_handlers = PoolHandlers(memory, self.layouts, python.objects, self.frames, self.locks)
        self._withs = WithBlocks(memory, self.layouts, python.objects, self.frames)
        self.taken = TakenLocks(python.objects, self.frames, self._withs, self.locks,
                                LockFlows(self.functions, self.frames), self.places)

    def managers(self, raw: RawFrame) -> list[WithBlock]:
        """The `with` blocks that a frame is inside of, with their context managers; see `WithBlocks.of`."""
        return self._withs.of(raw)

    def enters(self, tstate: int, word: int) -> bool:
        """Whether a thread sleeps on a word in a `with` statement."""
        stack = self.frames.raw(tstate, DEPTH)
        waited = self.waited.find(word, stack)
        return waited is not None and any(self._withs.is_entering(raw) for raw in stack[:waited[1] + 1])
