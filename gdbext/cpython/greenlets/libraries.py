"""Objects of gevent and eventlet: what each class is for, and where its instances keep their members.

gevent is written in Python, and most of it is compiled by Cython. A compiled class has its members at fixed offsets, in
the order of the `.pxd` file. A class that runs as Python has ``__slots__`` or a dict, which describe themselves.
eventlet is Python only.

Sources: gevent 22.10.2 to 26.5.0 src/gevent/_gevent_c_abstract_linkable.pxd, _gevent_c_semaphore.pxd,
_gevent_c_waiter.pxd, _gevent_cgreenlet.pxd, _gevent_cqueue.pxd, libev/corecext.pyx, _ffi/watcher.py, _ffi/callback.py;
eventlet 0.33.3 to 0.41.3 eventlet/semaphore.py, lock.py, event.py, queue.py, greenthread.py, hubs/hub.py.
Confirmed in processes with gevent 22.10.2, 24.2.1 and 26.9.0, and with eventlet 0.33.3, 0.36.1 and 0.41.3.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Final, Literal

from gdbext.cpython.objects import Objects
from gdbext.errors import CorruptStructure, UnknownLayout, if_unreadable
from gdbext.inferior.protocol import Memory
from gdbext.remembered import remembered

#: What instances of a class do: ``linkable`` (a semaphore, an event, a result), ``rlock`` and ``queue`` are waited for;
#: a ``greenlet`` runs, and others wait for its end; a ``waiter`` is what a greenlet waits in; a ``watcher`` (of a time,
#: a descriptor, a child) and a ``callback`` are called by the loop; a ``hub`` of eventlet has the watchers of a thread.
Role = Literal["linkable", "rlock", "queue", "greenlet", "waiter", "watcher", "callback", "hub"]

_ROLES: Mapping[str, Role] = {
    "gevent._gevent_c_abstract_linkable.AbstractLinkable": "linkable",
    "gevent._abstract_linkable.AbstractLinkable": "linkable",
    "gevent.lock.RLock": "rlock",
    "gevent._gevent_cqueue.SimpleQueue": "queue", "gevent._gevent_cqueue.Queue": "queue",
    "gevent._gevent_cqueue.Channel": "queue",
    "gevent.queue.SimpleQueue": "queue", "gevent.queue.Queue": "queue", "gevent.queue.Channel": "queue",
    "gevent._gevent_cgreenlet.Greenlet": "greenlet", "gevent.greenlet.Greenlet": "greenlet",
    "gevent._gevent_c_waiter.Waiter": "waiter", "gevent._waiter.Waiter": "waiter",
    "gevent.libev.corecext.watcher": "watcher", "gevent._ffi.watcher.watcher": "watcher",
    "gevent.libev.corecext.callback": "callback", "gevent._ffi.callback.callback": "callback",
    "eventlet.semaphore.Semaphore": "linkable", "eventlet.event.Event": "linkable",
    "eventlet.queue.LightQueue": "queue", "eventlet.queue.Waiter": "waiter",
    "eventlet.greenthread.GreenThread": "greenlet", "eventlet.hubs.hub.BaseHub": "hub",
}
#: The offsets of members in compiled classes, by ``tp_basicsize``. An object begins with 16 bytes, and then, if it
#: has methods in C, a pointer to their table.
_COMPILED: Mapping[str, Mapping[int, Mapping[str, int]]] = {
    "gevent._gevent_c_abstract_linkable.AbstractLinkable": {64: {"_notifier": 40, "_links": 48}},
    "gevent._gevent_c_semaphore.Semaphore": {80: {"counter": 64}},
    "gevent._gevent_c_semaphore.BoundedSemaphore": {88: {"_initial_value": 80}},
    "gevent._gevent_c_waiter.Waiter": {56: {"greenlet": 32}},
    # 40 bytes are the greenlet of the package greenlet
    "gevent._gevent_cgreenlet.Greenlet": {144: {"_links": 96}},
    # `is_shutdown` is new in 24.10, and `SimpleQueue` in 25.4
    "gevent._gevent_cqueue.Queue": {80: {"getters": 48, "putters": 56}, 88: {"getters": 56, "putters": 64}},
    "gevent._gevent_cqueue.SimpleQueue": {88: {"getters": 56, "putters": 64}},
    "gevent._gevent_cqueue.Channel": {64: {"getters": 32, "putters": 40}},
    "gevent.libev.corecext.watcher": {64: {"_callback": 24, "args": 32}},
    "gevent.libev.corecext.callback": {40: {"callback": 16, "args": 24}},
}
#: Modules of classes that programs import from elsewhere.
_PUBLIC = {
    "gevent._gevent_c_semaphore.": "gevent.lock.", "gevent._semaphore.": "gevent.lock.",
    "gevent._gevent_cevent.": "gevent.event.", "gevent._gevent_cqueue.": "gevent.queue.",
    "gevent._gevent_cgreenlet.": "gevent.", "eventlet.green.Queue.": "queue.",
}
#: What `threading.Lock` is after monkey-patching.
_PATCHED_LOCKS: Final = ("gevent.thread.LockType", "eventlet.lock.Lock")
_HEAPTYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE
_OBJECT_MEMBERS = (6, 16)  # T_OBJECT and T_OBJECT_EX of structmember.h
#: Most objects in one list or queue.
_MAX_ITEMS = 100_000
#: ``collections.deque`` (CPython 3.8 to 3.15 Modules/_collectionsmodule.c): ``ob_size`` at 16, the first block at 24,
#: the index of the first item in it at 40. A block has a link, 64 items and a link to the next block.
_DEQUE = struct.Struct("<QQQQ")
_BLOCK_ITEMS = 64


class GreenObjects:
    """Reads objects of gevent and eventlet in one interpreter. Objects are addresses (``PyObject *``)."""

    def __init__(self, memory: Memory, objects: Objects) -> None:
        self._memory = memory
        self._objects = objects

    @remembered
    @if_unreadable(None)
    def role(self, kind: int) -> Role | None:
        """What instances of a class (``PyTypeObject *``) do; None for a class of another library."""
        return next((_ROLES[name] for name in self._base_names(kind) if name in _ROLES), None)

    def is_a(self, address: int, *classes: str) -> bool:
        """Whether an object is an instance of one of these classes (``module.name``), or derived from it."""
        return not set(classes).isdisjoint(self._base_names(self._objects.type_address(address)))

    def class_name(self, address: int) -> str:
        """An object's class as programs know it, such as ``gevent.lock.Semaphore``."""
        name = self._base_names(self._objects.type_address(address))[0]
        if name in _PATCHED_LOCKS:
            return "threading.Lock"
        return next((public + name[len(inner):] for inner, public in _PUBLIC.items() if name.startswith(inner)), name)

    @remembered
    def _base_names(self, kind: int) -> tuple[str, ...]:
        return tuple([self._qualified(base) for base in self._objects.base_types(kind)])

    @remembered
    def _qualified(self, kind: int) -> str:
        name = self._objects.name_of_type(kind)
        namespace = self._namespace(kind) if "." not in name else 0
        module = self._objects.dict_get(namespace, "__module__") if namespace else None
        return f"{self._objects.string(module)}.{name}" if module and self._objects.type_name(module) == "str" else name

    def _namespace(self, kind: int) -> int:
        # since 3.12 builtin types have their namespaces elsewhere
        flags, namespace = self._objects.read_members("PyTypeObject", kind, "tp_flags", "tp_dict")
        return namespace if flags & _HEAPTYPE else 0

    # -- members ---------------------------------------------------------------------------------------------

    def pointer(self, address: int, member: str) -> int:
        """A member that is an object; 0 if it is not set, or None.

        :raises UnknownLayout: the class is compiled, and has another size than in any known release.
        """
        offset, _ = self._place(self._objects.type_address(address), member)
        value = self._words(address + offset, 1)[0] if offset else self._objects.attribute(address, member) or 0
        return 0 if not value or self._objects.type_name(value) == "NoneType" else value

    def number(self, address: int, member: str) -> int:
        """A member that is a number: ``int`` of C or of Python; see `pointer`."""
        offset, is_compiled = self._place(self._objects.type_address(address), member)
        if is_compiled:
            return int.from_bytes(self._memory.read(address + offset, 4), "little", signed=True)
        value = self.pointer(address, member)
        if not value or self._objects.type_name(value) != "int":
            raise CorruptStructure(address, f"{member} is not a number")
        return self._objects.integer(value)

    @remembered
    def _place(self, kind: int, member: str) -> tuple[int, bool]:
        """The offset of a member, 0 if it is an attribute; and whether the class that has it is compiled."""
        unknown = None
        for base in self._objects.base_types(kind):
            name = self._qualified(base)
            if name in _COMPILED:
                size = self._objects.read_member("PyTypeObject", base, "tp_basicsize")
                members = _COMPILED[name].get(size)
                if members is None:
                    unknown = f"{name} of {size} bytes is not decoded"
                elif member in members:
                    return members[member], True
            else:
                slot = self._slot(base, member)
                if slot:
                    return slot, False
        if unknown is not None:
            raise UnknownLayout(unknown)
        return 0, False

    def _slot(self, kind: int, member: str) -> int:
        namespace = self._namespace(kind)
        found = self._objects.dict_get(namespace, member) if namespace else None
        if not found or self._objects.type_name(found) != "member_descriptor":
            return 0
        definition = self._objects.read_member("PyMemberDescrObject", found, "d_member")
        kind_of_member, offset = self._objects.read_members("PyMemberDef", definition, "type", "offset")
        return offset if kind_of_member in _OBJECT_MEMBERS and offset > 0 else 0

    # -- containers ------------------------------------------------------------------------------------------

    def items(self, address: int) -> Iterator[int]:
        """The items of a ``list``, ``tuple``, ``set`` or ``collections.deque``; of any other object, and of 0, none.

        :raises CorruptStructure: there are too many, or a deque is damaged.
        """
        kind = self._objects.type_name(address) if address else ""
        if kind == "list":
            yield from self._objects.list_start(address, self._objects.size(address, _MAX_ITEMS))
        elif kind == "tuple":
            yield from self._objects.tuple_start(address, self._objects.size(address, _MAX_ITEMS))
        elif kind == "set":
            yield from self._objects.set_items(address)
        elif kind == "collections.deque":
            yield from self._deque(address)

    def _deque(self, address: int) -> Iterator[int]:
        size, block, _, index = _DEQUE.unpack(self._memory.read(address + 16, _DEQUE.size))
        if not 0 <= size <= _MAX_ITEMS or not 0 <= index < _BLOCK_ITEMS:
            raise CorruptStructure(address, f"a deque of {size} items")
        while size > 0:
            words = self._words(block + 8, _BLOCK_ITEMS + 1)
            here = words[index:min(index + size, _BLOCK_ITEMS)]
            yield from here
            size -= len(here)
            block, index = words[_BLOCK_ITEMS], 0

    def _words(self, at: int, count: int) -> tuple[int, ...]:
        return struct.unpack(f"<{count}Q", self._memory.read(at, 8 * count))
