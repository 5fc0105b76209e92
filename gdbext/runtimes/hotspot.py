"""Monitors of Java objects in a HotSpot machine (`libjvm.so`): which thread waits for one, and which thread has it.

The library exports a table of the offsets of its members (``gHotSpotVMStructs``), so every version is read in the same
way, without symbols. A thread that waits for a monitor sleeps on a condition variable of its own (``ParkEvent``), and
its ``JavaThread`` has the address of the monitor (``ObjectMonitor``).

A monitor records its owner in one of these ways:

- the ``JavaThread *``; since JDK 24 a number that the ``JavaThread`` has too;
- an address on the owner's stack (``BasicLock *``), if another thread has made the monitor for an object that was
  locked already;
- a marker for the same case since JDK 21; the object is then in the owner's stack of locks (``LockStack``).

Sources: OpenJDK 11, 17, 21 and 25 src/hotspot/share/runtime/{vmStructs,objectMonitor,osThread,lockStack,threadSMR}.hpp,
threads.cpp (``owning_thread_from_monitor``), os/posix/os_posix.hpp (``PlatformEvent``).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final, Literal

from gdbext.errors import if_unreadable
from gdbext.inferior.cache import read_cstring, read_u32, read_u64
from gdbext.inferior.protocol import Memory
from gdbext.record import record

#: What the operating system's thread waits for (``ThreadState``): to enter a monitor; in ``Object.wait``.
MONITOR_WAIT, OBJECT_WAIT = 3, 5

_TABLE: Final = "gHotSpotVMStructs"
_ENTRY: Final = "gHotSpotVMStructEntry"
# VMStructEntry: type name, field name, whether it is static, offset, address of a static one
_PARTS: Final = ("TypeName", "FieldName", "IsStatic", "Offset", "Address")
_MAX_ENTRIES, _MAX_STRIDE, _MAX_NAME = 1 << 13, 512, 64
_MAX_OFFSET = 1 << 16
# members of Thread are at the same offsets in JavaThread; JDK 24 and others have moved some from one to the other
_ALIASES: Final = {"Thread": "JavaThread"}
_TYPES: Final = frozenset((
    "Thread", "JavaThread", "OSThread", "ObjectMonitor", "LockStack", "ThreadsSMRSupport", "ThreadsList", "Threads",
    "oopDesc", "Klass", "Symbol", "CompressedKlassPointers", "Universe"))
_NEEDED: Final = (
    "JavaThread._osthread", "JavaThread._stack_base", "JavaThread._stack_size", "JavaThread._current_pending_monitor",
    "JavaThread._current_waiting_monitor", "OSThread._pthread_id", "OSThread._thread_id", "OSThread._state",
    "ObjectMonitor._owner")
_MAX_THREADS = 1 << 16
# PlatformEvent: event and number of parked threads, a mutex, the condition variable
_EVENT = struct.Struct("<ii")
_EVENT_BEFORE_CONDITION = 48
_EVENTS = (-1, 0, 1)
_NO_OWNER, _ANONYMOUS = 0, 1
# a thread that removes the monitor of an object that nobody has locked: since JDK 21, and before that
_DEFLATER = (2, (1 << 64) - 1)
#: Most objects in a thread's stack of locks; there is room for 8.
_MAX_LOCKS = 64
# by version: where the base of compressed pointers to classes is, and how far these are shifted
_BASES: Final = ("CompressedKlassPointers._base", "CompressedKlassPointers._narrow_klass._base",
                 "Universe._narrow_klass._base")
_SHIFTS: Final = ("CompressedKlassPointers._shift", "CompressedKlassPointers._narrow_klass._shift",
                  "Universe._narrow_klass._shift")
_MAX_SHIFT, _MAX_CLASS_NAME = 10, 512
_CLASS_NAME: Final = re.compile(r"[^\s.;\x00-\x20]+")

#: How an owner is known: the monitor records it, or the owner's stack of locks has the object. With ``unknown``,
#: the owner's field names no thread.
How = Literal["free", "recorded", "lock-stack", "unknown"]


@record
class Table:
    """The part of the table that decoders need: offsets by ``Type._member``, and addresses of static members."""

    offsets: Mapping[str, int] = field(compare=False)
    statics: Mapping[str, int] = field(compare=False)


@record
class JavaThread:
    """A ``JavaThread``.

    `pthread` and `tid` are the thread's ``struct pthread *`` and its TID. `stack` are its bounds. `state` is that of
    the operating system's thread. `pending` and `waiting` are the ``ObjectMonitor *`` that the thread waits to enter,
    and the one whose ``Object.wait`` it is in, or 0. `owner_id` is the number by which monitors record it, None before
    JDK 24. `locked` are the objects in its stack of locks.
    """

    address: int
    pthread: int
    tid: int
    state: int
    stack: tuple[int, int]
    pending: int
    waiting: int
    owner_id: int | None
    locked: tuple[int, ...]

    def has_on_stack(self, address: int) -> bool:
        """Whether an address is on the thread's stack."""
        return self.stack[0] <= address < self.stack[1]


@record
class Monitor:
    """A monitor. `owner` is None if nobody has it, or if that is unknown; `word` is its owner's field."""

    address: int
    how: How
    owner: JavaThread | None
    word: int


@if_unreadable(None)
def read_table(memory: Memory, find: Callable[[str], int | None]) -> Table | None:
    """Read the exported table.

    :param find: finds the address of an exported variable.
    :return: None if the library exports no such table, or one that lacks members.
    """
    def value(name: str) -> int | None:
        address = find(name)
        return read_u64(memory, address) if address is not None else None

    at, stride = value(_TABLE), value(f"{_ENTRY}ArrayStride")
    parts = [value(f"{_ENTRY}{part}Offset") for part in _PARTS]
    if not at or stride is None or not 8 * len(_PARTS) <= stride <= _MAX_STRIDE:
        return None
    known = [part for part in parts if part is not None and part <= stride - 8]
    if len(known) < len(_PARTS):
        return None
    offsets: dict[str, int] = {}
    statics: dict[str, int] = {}
    for name, is_static, offset, address in _iter_entries(memory, at, stride, known):
        if is_static:
            statics[name] = address
        elif offset < _MAX_OFFSET:
            offsets[name] = offset
    has_list = ("ThreadsSMRSupport._java_thread_list" in statics
                and {"ThreadsList._length", "ThreadsList._threads"} <= offsets.keys()
                or "Threads._thread_list" in statics and "JavaThread._next" in offsets)
    return Table(offsets, statics) if has_list and offsets.keys() >= set(_NEEDED) else None


def _iter_entries(memory: Memory, at: int, stride: int,
                  parts: Sequence[int]) -> Iterator[tuple[str, bool, int, int]]:
    """The entries of the types that are needed: name, whether it is static, offset, address."""
    types: dict[int, str | None] = {}
    for entry in range(at, at + _MAX_ENTRIES * stride, stride):
        data = memory.read(entry, stride)
        pointers = [int.from_bytes(data[part:part + 8], "little") for part in parts]
        type_at, field_at, is_static, offset, address = pointers
        if not type_at:
            return
        if type_at not in types:
            name = read_cstring(memory, type_at, _MAX_NAME).decode("ascii", "replace")
            types[type_at] = _ALIASES.get(name, name) if name in _TYPES else None
        owner = types[type_at]
        if owner is not None and field_at:
            member = read_cstring(memory, field_at, _MAX_NAME).decode("ascii", "replace")
            # ``int32_t``; the bytes after it are not part of it
            yield f"{owner}.{member}", bool(is_static & 0xFFFFFFFF), offset, address


def read_java_threads(memory: Memory, table: Table) -> tuple[JavaThread, ...]:
    """Read all threads of the Java machine; one that is damaged is left out."""
    found = (_read_java_thread(memory, table, address) for address in _addresses(memory, table))
    return tuple([thread for thread in found if thread is not None])


@if_unreadable(())
def _addresses(memory: Memory, table: Table) -> Sequence[int]:
    smr = table.statics.get("ThreadsSMRSupport._java_thread_list")
    if smr is not None:
        listed = read_u64(memory, smr)
        count = read_u32(memory, listed + table.offsets["ThreadsList._length"])
        if count > _MAX_THREADS:
            return ()
        data = memory.read(read_u64(memory, listed + table.offsets["ThreadsList._threads"]), 8 * count)
        return tuple(dict.fromkeys(struct.unpack(f"<{count}Q", data)))
    addresses: dict[int, None] = {}
    at = read_u64(memory, table.statics["Threads._thread_list"])
    while at and at not in addresses and len(addresses) < _MAX_THREADS:
        addresses[at] = None
        at = read_u64(memory, at + table.offsets["JavaThread._next"])
    return tuple(addresses)


@if_unreadable(None)
def _read_java_thread(memory: Memory, table: Table, address: int) -> JavaThread | None:
    def word(member: str, base: int = address) -> int:
        return read_u64(memory, base + table.offsets[member])

    os_thread = word("JavaThread._osthread")
    pthread = word("OSThread._pthread_id", os_thread)
    tid, state = (read_u32(memory, os_thread + table.offsets[f"OSThread.{name}"]) for name in ("_thread_id", "_state"))
    high = word("JavaThread._stack_base")
    low = high - word("JavaThread._stack_size")
    if not pthread or not tid or not 0 < low < high:
        return None
    has_id = "JavaThread._monitor_owner_id" in table.offsets
    return JavaThread(address, pthread, tid, state, (low, high), word("JavaThread._current_pending_monitor"),
                      word("JavaThread._current_waiting_monitor"),
                      word("JavaThread._monitor_owner_id") if has_id else None, _locked(memory, table, address))


def _locked(memory: Memory, table: Table, address: int) -> tuple[int, ...]:
    """The objects in a thread's stack of locks; its top is counted in bytes from the start of the thread."""
    base, top, first = (table.offsets.get(name) for name in (
        "JavaThread._lock_stack", "LockStack._top", "LockStack._base[0]"))
    if base is None or top is None or first is None:
        return ()
    count, odd = divmod(read_u32(memory, address + base + top) - base - first, 8)
    if odd or not 0 < count <= _MAX_LOCKS:
        return ()
    data = memory.read(address + base + first, 8 * count)
    return tuple([word for word in struct.unpack(f"<{count}Q", data) if word])


@if_unreadable(False)
def is_park_event(memory: Memory, condition: int) -> bool:
    """Whether the thread that sleeps on a condition variable is parked by an event of the Java machine.

    :param condition: ``pthread_cond_t *``.
    """
    event, parked = _EVENT.unpack(memory.read(condition - _EVENT_BEFORE_CONDITION, _EVENT.size))
    return parked == 1 and event in _EVENTS


def read_monitor(memory: Memory, table: Table, threads: Sequence[JavaThread], address: int) -> Monitor:
    """Read a monitor.

    :param threads: all threads of the Java machine.
    :param address: ``ObjectMonitor *``.
    :raises MemoryUnreadable: it is not readable.
    """
    word = read_u64(memory, address + table.offsets["ObjectMonitor._owner"])
    has_markers = "JavaThread._lock_stack" in table.offsets
    if word == _NO_OWNER or word in _DEFLATER:
        return Monitor(address, "free", None, word)
    if word == _ANONYMOUS and has_markers:
        return _with_anonymous_owner(memory, table, threads, address)
    if "JavaThread._monitor_owner_id" in table.offsets:
        owners = [thread for thread in threads if thread.owner_id == word]
    else:
        owners = ([thread for thread in threads if thread.address == word]
                  or [thread for thread in threads if thread.has_on_stack(word)])
    return Monitor(address, "recorded", owners[0], word) if len(owners) == 1 else Monitor(
        address, "unknown", None, word)


def _with_anonymous_owner(memory: Memory, table: Table, threads: Sequence[JavaThread], address: int) -> Monitor:
    """A monitor that another thread than its owner has made: the owner has locked the object before."""
    unknown = Monitor(address, "unknown", None, _ANONYMOUS)
    how: How = "recorded"
    owners: list[JavaThread] = []
    if "ObjectMonitor._stack_locker" in table.offsets:
        locker = read_u64(memory, address + table.offsets["ObjectMonitor._stack_locker"])
        owners = [thread for thread in threads if locker and thread.has_on_stack(locker)]
    if not owners and "ObjectMonitor._object" in table.offsets:
        how = "lock-stack"
        # WeakHandle: the address of the pointer to the object
        handle = read_u64(memory, address + table.offsets["ObjectMonitor._object"])
        locked = read_u64(memory, handle) if handle else 0
        owners = [thread for thread in threads if locked and locked in thread.locked]
    return Monitor(address, how, owners[0], _ANONYMOUS) if len(owners) == 1 else unknown


def class_name(memory: Memory, table: Table, address: int, is_in_library: Callable[[int], bool]) -> str | None:
    """The name of the class of the object to which a monitor belongs, as in Java code; None if it is not found.

    :param address: ``ObjectMonitor *``.
    :param is_in_library: whether an address is in the library of the Java machine.
    """
    for klass in _classes(memory, table, address):
        name = _name_of_class(memory, table, klass, is_in_library)
        if name is not None:
            return name
    return None


@if_unreadable(())
def _classes(memory: Memory, table: Table, address: int) -> Sequence[int]:
    """The addresses that may be those of the class of a monitor's object."""
    member = table.offsets.get("ObjectMonitor._object")
    if member is None:
        return ()
    # the object, or since JDK 16 the address of the pointer to it
    found = read_u64(memory, address + member)
    return [klass for at in (_pointer(memory, found), found) if at
            for klass in _classes_of_object(memory, table, at)]


@if_unreadable(None)
def _pointer(memory: Memory, address: int) -> int | None:
    return read_u64(memory, address)


@if_unreadable(())
def _classes_of_object(memory: Memory, table: Table, address: int) -> Sequence[int]:
    """The compressed pointer of an object to its class, and the one that is not compressed."""
    member = table.offsets.get("oopDesc._metadata._klass")
    if member is None:
        return ()
    word = read_u64(memory, address + member)
    bases, shifts = ([table.statics[name] for name in names if name in table.statics] for names in (_BASES, _SHIFTS))
    if not bases or not shifts:
        return (word,)
    shift = read_u32(memory, shifts[0])
    narrow = read_u64(memory, bases[0]) + ((word & 0xFFFFFFFF) << min(shift, _MAX_SHIFT))
    return (narrow, word)


@if_unreadable(None)
def _name_of_class(memory: Memory, table: Table, klass: int, is_in_library: Callable[[int], bool]) -> str | None:
    offsets = [table.offsets.get(name) for name in ("Klass._name", "Symbol._length", "Symbol._body[0]")]
    known = [offset for offset in offsets if offset is not None]
    # a ``Klass`` begins with the address of its virtual functions
    if len(known) < len(offsets) or klass & 7 or not is_in_library(read_u64(memory, klass)):
        return None
    symbol = read_u64(memory, klass + known[0])
    length = int.from_bytes(memory.read(symbol + known[1], 2), "little")
    if not 0 < length <= _MAX_CLASS_NAME:
        return None
    name = memory.read(symbol + known[2], length).decode("utf-8", "replace")
    return name.replace("/", ".") if _CLASS_NAME.fullmatch(name) else None
