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

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final, Literal

from gdbext.errors import if_unreadable
from gdbext.inferior.cache import read_cstring, read_u32, read_u64
from gdbext.inferior.protocol import Memory
from gdbext.record import record

#: What the operating system's thread waits for (``ThreadState``): to enter a monitor; on a condition variable, as in
#: ``Unsafe.park``; in ``Object.wait``.
MONITOR_WAIT, CONDVAR_WAIT, OBJECT_WAIT = 3, 4, 5

# VMStructEntry: type name, field name, whether it is static, offset, address of a static one; and VMTypeEntry
_MEMBERS: Final = ("gHotSpotVMStruct", ("TypeName", "FieldName", "IsStatic", "Offset", "Address"))
_SIZES: Final = ("gHotSpotVMType", ("TypeName", "Size"))
_MAX_ENTRIES, _MAX_STRIDE, _MAX_NAME = 1 << 13, 512, 64
_MAX_OFFSET = 1 << 16
# members of Thread are at the same offsets in JavaThread; JDK 24 and others have moved some from one to the other
_ALIASES: Final = {"Thread": "JavaThread"}
_TYPES: Final = frozenset((
    "Thread", "JavaThread", "OSThread", "ObjectMonitor", "LockStack", "ThreadsSMRSupport", "ThreadsList", "Threads",
    "oopDesc", "Klass", "Symbol", "CompressedKlassPointers", "Universe",
    # of java_heap.py
    "CollectedHeap", "CompressedOops", "JVMFlag", "InstanceKlass", "ConstantPool", "Array<int>", "Array<u1>",
    "Array<u2>", "ZGlobalsForVMStructs", "XGlobalsForVMStructs"))
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
#: How an owner is known: the monitor records it, or the owner's stack of locks has the object. With ``unknown``,
#: the owner's field names no thread.
How = Literal["free", "recorded", "lock-stack", "unknown"]


@record
class Table:
    """The part of the table that decoders need: offsets by ``Type._member``, addresses of static members, sizes."""

    offsets: Mapping[str, int] = field(compare=False)
    statics: Mapping[str, int] = field(compare=False)
    sizes: Mapping[str, int] = field(compare=False)


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
    offsets: dict[str, int] = {}
    statics: dict[str, int] = {}
    types: dict[int, str | None] = {}

    def type_name(at: int) -> str | None:
        if at not in types:
            name = read_cstring(memory, at, _MAX_NAME).decode("ascii", "replace")
            types[at] = _ALIASES.get(name, name) if name in _TYPES else None
        return types[at]

    for type_at, field_at, is_static, offset, address in _iter_entries(memory, find, *_MEMBERS):
        owner = type_name(type_at)
        if owner is None or not field_at:
            continue
        member = f"{owner}.{read_cstring(memory, field_at, _MAX_NAME).decode('ascii', 'replace')}"
        # ``int32_t``; the bytes after it are not part of it
        if is_static & 0xFFFFFFFF:
            statics[member] = address
        elif offset < _MAX_OFFSET:
            offsets[member] = offset
    sizes = {name: size for at, size in _iter_entries(memory, find, *_SIZES) if (name := type_name(at)) is not None}
    has_list = ("ThreadsSMRSupport._java_thread_list" in statics
                and {"ThreadsList._length", "ThreadsList._threads"} <= offsets.keys()
                or "Threads._thread_list" in statics and "JavaThread._next" in offsets)
    return Table(offsets, statics, sizes) if has_list and offsets.keys() >= set(_NEEDED) else None


def _iter_entries(memory: Memory, find: Callable[[str], int | None], table: str,
                  parts: Sequence[str]) -> Iterator[tuple[int, ...]]:
    """The words of the entries of an exported table; nothing if it is damaged or not there.

    :param table: the start of the names of its variables.
    """
    def value(name: str) -> int | None:
        address = find(name)
        return read_u64(memory, address) if address is not None else None

    at, stride = value(f"{table}s"), value(f"{table}EntryArrayStride")
    found = [value(f"{table}Entry{part}Offset") for part in parts]
    if not at or stride is None or not 8 * len(parts) <= stride <= _MAX_STRIDE:
        return
    known = [part for part in found if part is not None and part <= stride - 8]
    if len(known) < len(parts):
        return
    for entry in range(at, at + _MAX_ENTRIES * stride, stride):
        data = memory.read(entry, stride)
        words = tuple([int.from_bytes(data[part:part + 8], "little") for part in known])
        if not words[0]:
            return
        yield words


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
