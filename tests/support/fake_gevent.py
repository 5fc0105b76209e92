"""Objects of gevent in fake memory: compiled classes with their members, and classes that run as Python."""

from __future__ import annotations

from gdbext.cpython.greenlets.libraries import GreenObjects
from gdbext.cpython.greenlets.waits import GreenWaits
from gdbext.cpython.objects import Objects
from tests.support.fake_greenlets import FakeGreenlets

_HEAPTYPE = 1 << 9
#: By class: its base, ``tp_basicsize``.
_CLASSES = {
    "gevent._gevent_c_abstract_linkable.AbstractLinkable": ("", 64),
    "gevent._gevent_c_semaphore.Semaphore": ("gevent._gevent_c_abstract_linkable.AbstractLinkable", 80),
    "gevent._gevent_c_semaphore.BoundedSemaphore": ("gevent._gevent_c_semaphore.Semaphore", 88),
    "gevent._gevent_cevent.Event": ("gevent._gevent_c_abstract_linkable.AbstractLinkable", 72),
    "gevent._gevent_c_waiter.Waiter": ("", 56),
    "gevent._gevent_cqueue.SimpleQueue": ("", 88),
    "gevent._gevent_cqueue.Queue": ("gevent._gevent_cqueue.SimpleQueue", 104),
    "gevent._gevent_cgreenlet.Greenlet": ("greenlet.greenlet", 144),
    "gevent.libev.corecext.watcher": ("", 64),
    "gevent.libev.corecext.timer": ("gevent.libev.corecext.watcher", 104),
    "gevent.libev.corecext.io": ("gevent.libev.corecext.watcher", 120),
    "gevent.libev.corecext.async_": ("gevent.libev.corecext.watcher", 104),
    "gevent.libev.corecext.callback": ("", 40),
}
_LINKS = {"gevent._gevent_cgreenlet.Greenlet": 96}
SEMAPHORE, BOUNDED, EVENT = ("gevent._gevent_c_semaphore.Semaphore", "gevent._gevent_c_semaphore.BoundedSemaphore",
                             "gevent._gevent_cevent.Event")
GREENLET, TIMER, IO, ASYNC = ("gevent._gevent_cgreenlet.Greenlet", "gevent.libev.corecext.timer",
                              "gevent.libev.corecext.io", "gevent.libev.corecext.async_")
CALLBACK, QUEUE = "gevent.libev.corecext.callback", "gevent._gevent_cqueue.Queue"


class FakeGevent(FakeGreenlets):
    """A runtime with greenlets of gevent."""

    def of(self, name: str, size: int | None = None) -> int:
        """A class of gevent, with its bases (``PyTypeObject *``)."""
        known = name in self._types
        base, basic_size = _CLASSES.get(name, ("", 0))
        kind = self.type_object(name)
        if not known:
            self.build.put("PyTypeObject", kind, tp_basicsize=size or basic_size)
            if base:
                self.build.put("PyTypeObject", kind, tp_base=self.of(base))
        return kind

    def links(self, address: int, *items: int) -> int:
        """The object with these in its list of links."""
        kinds = Objects(self.memory, self.layouts).type_names(address)
        offset = next((_LINKS[kind] for kind in kinds if kind in _LINKS), 48)
        self.memory.u64(address + offset, self.list_object(*items))
        return address

    def linkable(self, kind: str, *items: int, notifier: int = 0, counter: int = 0, initial: int | None = None) -> int:
        """A semaphore, an event or a result."""
        at = self.links(self.tracked(2, self.of(kind)), *items)
        self.memory.u64(at + 40, notifier)
        self.memory.u64(at + 64, counter)
        self.memory.u64(at + 80, initial or 0)
        return at

    def waiter(self, greenlet: int) -> int:
        """A ``Waiter`` in which a greenlet waits."""
        at = self.tracked(2, self.of("gevent._gevent_c_waiter.Waiter"))
        self.memory.u64(at + 32, greenlet)
        return at

    def watcher(self, kind: str, function: int, *arguments: int) -> int:
        """A watcher or callback of the loop."""
        at = self.tracked(2, self.of(kind))
        self.memory.u64(at + (16 if kind == CALLBACK else 24), function, self.tuple_object(*arguments))
        return at

    def deque(self, *items: int, start: int = 0) -> int:
        """A ``collections.deque``; `start` is the index of its first item in the first block."""
        blocks: list[list[int]] = [[]]
        for i, item in enumerate(items, start):
            if i % 64 == 0 and i:
                blocks.append([])
            blocks[-1].append(item)
        following = 0
        for i, block in reversed([*enumerate(blocks)]):
            at = self.build.alloc(8 * 66)
            self.memory.u64(at + 8 + (8 * start if i == 0 else 0), *block)
            self.memory.u64(at + 8 * 65, following)
            following = at
        made = self.build.alloc(64)
        self.build.put("PyObject", made, ob_type=self.type_object("collections.deque"))
        self.memory.u64(made + 16, len(items), following, 0, start, 0)
        return made

    def queue(self, getters: int, putters: int = 0) -> int:
        """A queue with deques of waiters."""
        at = self.tracked(2, self.of(QUEUE))
        self.memory.u64(at + 56, getters, putters)
        return at

    def python_class(self, name: str, module: str, *slots: str) -> int:
        """A class that runs as Python, whose members follow its header."""
        namespace = {slot: self.slot(16 + 8 * i) for i, slot in enumerate(slots)}
        kind = self.type_object(name)
        self.build.put("PyTypeObject", kind, tp_flags=_HEAPTYPE,
                       tp_dict=self.namespace(__module__=self.string(module), **namespace))
        return kind

    def rlock(self, block: int, owner: int = 0, count: int = 0) -> int:  # type: ignore[override]
        """A ``gevent.lock.RLock``."""
        at = self.tracked(2, self.python_class("RLock", "gevent.lock", "_block", "_owner", "_count"))
        self.memory.u64(at + 16, block, owner, self.integer(count))
        return at

    def switch(self, target: int) -> int:
        """The bound method ``switch`` of a greenlet or of a waiter."""
        return self.builtin_method("switch", target)

    def gevent(self) -> GreenWaits:
        """The decoder, after all objects were made."""
        reader = self.reader()
        assert reader.greenlets
        return reader.green

    def objects(self) -> GreenObjects:
        """The reader of gevent's objects."""
        return GreenObjects(self.memory, Objects(self.memory, self.layouts))
