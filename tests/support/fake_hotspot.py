"""Fake memory of a HotSpot Java machine: its exported tables, its threads and its monitors."""

from __future__ import annotations

from collections.abc import Mapping

from gdbext.libraries.java import hotspot
from tests.support.fake_memory import FakeMemory

#: Where the library is.
LIBRARY = 0x7F40_0000_0000
_TEXTS, _ENTRIES, _STATICS = LIBRARY + 0x1_0000, LIBRARY + 0x2_0000, LIBRARY + 0x3_0000
_VARIABLES, _TYPES = LIBRARY + 0x4_0000, LIBRARY + 0x5_0000
#: Where all else is.
HEAP = 0x7F41_0000_0000
_STRIDE, _TYPE_STRIDE = 48, 32
#: Sizes in the table.
SIZES = {"Other": 8, "ConstantPool": 72, "JVMFlag": 24}
_COMMON = {
    "ThreadsList._length": 4, "ThreadsList._threads": 16, "OSThread._thread_id": 0x10, "OSThread._pthread_id": 0x18,
    "OSThread._state": 0, "JavaThread._stack_base": 0x40, "JavaThread._stack_size": 0x48,
    "JavaThread._current_pending_monitor": 0x50, "JavaThread._current_waiting_monitor": 0x58,
    "JavaThread._threadObj": 0x68,
    "ObjectMonitor._owner": 64, "ObjectMonitor._object": 8, "oopDesc._metadata._klass": 8, "Klass._name": 24,
    "Klass._super": 120, "Symbol._length": 4, "Symbol._body[0]": 6, "InstanceKlass._constants": 232,
    "ConstantPool._length": 60, "Array<int>._length": 0, "Array<u1>._data": 4, "Array<u2>._data": 4,
    "JVMFlag._name": 8, "JVMFlag._addr": 0,
}
_FIELDS_UNTIL_20 = {"InstanceKlass._fields": 440, "InstanceKlass._java_fields_count": 302,
                    "CollectedHeap._is_gc_active": 48}
_FIELDS = {"InstanceKlass._fieldinfo_stream": 448, "CollectedHeap._is_stw_gc_active": 48, "JavaThread._vthread": 0x70}
_LOCK_STACK = {"JavaThread._lock_stack": 0x80, "LockStack._top": 0}
#: By version of Java: the members of the table that differ, and where static ones are.
VERSIONS: Mapping[str, Mapping[str, int]] = {
    "11": {"Thread._osthread": 0x38, "JavaThread._next": 0x30, **_FIELDS_UNTIL_20,
           "ZGlobalsForVMStructs._ZAddressBadMask": 16},
    "17": {"JavaThread._osthread": 0x38, **_FIELDS_UNTIL_20, "ZGlobalsForVMStructs._ZAddressBadMask": 48},
    "21": {"JavaThread._osthread": 0x38, **_LOCK_STACK, "LockStack._base[0]": 8, **_FIELDS,
           "XGlobalsForVMStructs._XAddressBadMask": 48,
           "ZGlobalsForVMStructs._ZPointerLoadBadMask": 16, "ZGlobalsForVMStructs._ZPointerLoadShift": 24},
    "25": {"Thread._osthread": 0x38, **_LOCK_STACK, "LockStack._base[0]": 16, **_FIELDS,
           "JavaThread._monitor_owner_id": 0x60, "ObjectMonitor._stack_locker": 72,
           "ZGlobalsForVMStructs._ZPointerLoadBadMask": 16, "ZGlobalsForVMStructs._ZPointerLoadShift": 24},
}
_LIST = {"11": "Threads._thread_list"}
_CLASSES = {"11": "Universe._narrow_klass.", "25": "CompressedKlassPointers."}
_REFERENCES = {"11": "Universe._narrow_oop.", "25": "CompressedOops."}


class FakeHotspot:
    """A Java machine of a version. `variables` are the addresses of its exported variables.

    `references` and `classes` are the start of the names of what compressed pointers need.
    """

    def __init__(self, version: str, without: str = "") -> None:
        self.version = version
        self.memory = FakeMemory()
        self.offsets = {**_COMMON, **VERSIONS[version]}
        self.offsets.pop(without, None)
        self.classes = _CLASSES.get(version, "CompressedKlassPointers._narrow_klass.")
        self.references = _REFERENCES.get(version, "CompressedOops._narrow_oop.")
        names = [_LIST.get(version, "ThreadsSMRSupport._java_thread_list"), "Universe._collectedHeap",
                 *(f"{prefix}{name}" for prefix in (self.classes, self.references) for name in ("_base", "_shift")),
                 "JVMFlag.flags", "JVMFlag.numFlags",
                 *(f"{kind}GlobalsForVMStructs._instance_p" for kind in ("ZX" if version == "21" else "Z"))]
        self.statics = {name: _STATICS + 0x10 * i for i, name in enumerate(names) if name != without}
        self.memory.map(_STATICS, bytes(0x100))
        self.threads: list[int] = []
        self._next_text, self._next = _TEXTS, HEAP
        entries = [*((name, 0, offset, 0) for name, offset in {"Other._member": 3, **self.offsets}.items()),
                   *((name, 1, 0, address) for name, address in self.statics.items())]
        self.memory.map(_ENTRIES, bytes(_STRIDE * (len(entries) + 1)))
        for row, (name, is_static, offset, address) in enumerate(entries):
            kind, _, member = name.partition(".")
            # bytes after the flag are not part of it
            self.memory.u64(_ENTRIES + _STRIDE * row, self.text(kind), self.text(member), self.text("int"),
                            is_static | 0xAB << 32, offset, address)
        self.memory.map(_TYPES, bytes(_TYPE_STRIDE * (len(SIZES) + 1)))
        for row, (name, size) in enumerate(SIZES.items()):
            self.memory.u64(_TYPES + _TYPE_STRIDE * row, self.text(name), 0, 0, size)
        values = {"gHotSpotVMStructs": _ENTRIES, "gHotSpotVMStructEntryArrayStride": _STRIDE,
                  **{f"gHotSpotVMStructEntry{part}Offset": 8 * row for row, part in enumerate(
                      ("TypeName", "FieldName", "TypeString", "IsStatic", "Offset", "Address"))},
                  "gHotSpotVMTypes": _TYPES, "gHotSpotVMTypeEntryArrayStride": _TYPE_STRIDE,
                  "gHotSpotVMTypeEntryTypeNameOffset": 0, "gHotSpotVMTypeEntrySizeOffset": 24}
        self.variables = {name: _VARIABLES + 8 * row for row, name in enumerate(values)}
        self.memory.u64(_VARIABLES, *values.values())

    def text(self, text: str) -> int:
        """Make a C string."""
        at, data = self._next_text, text.encode() + b"\0"
        self._next_text += len(data)
        # whole words, as strings are read in pieces
        self.memory.map(at, data + bytes(64))
        return at

    def alloc(self, size: int) -> int:
        """Allocate zero bytes."""
        at = self._next
        self._next += (size + 0xFF) & ~0xFF
        self.memory.map(at, bytes(size))
        return at

    def table(self) -> hotspot.Table:
        """The table as it is decoded."""
        found = hotspot.read_table(self.memory, self.variables.get)
        assert found is not None
        return found

    def put(self, address: int, member: str, value: int) -> None:
        """Write a member of 8 bytes."""
        self.memory.u64(address + self.offset(member), value)

    def offset(self, member: str) -> int:
        """The offset of a member; those of `JavaThread` may be listed for `Thread`."""
        return self.offsets.get(member, self.offsets.get(member.replace("JavaThread", "Thread"), 0))

    def thread(self, pthread: int, tid: int, stack: tuple[int, int], state: int = 2, *, pending: int = 0,
               waiting: int = 0, owner_id: int = 0) -> int:
        """Add a ``JavaThread``; returns its address."""
        address, os_thread = self.alloc(0x200), self.alloc(0x100)
        self.put(address, "JavaThread._osthread", os_thread)
        self.put(address, "JavaThread._stack_base", stack[1])
        self.put(address, "JavaThread._stack_size", stack[1] - stack[0])
        self.put(address, "JavaThread._current_pending_monitor", pending)
        self.put(address, "JavaThread._current_waiting_monitor", waiting)
        if "JavaThread._monitor_owner_id" in self.offsets:
            self.put(address, "JavaThread._monitor_owner_id", owner_id)
        self.memory.u32(os_thread + self.offset("OSThread._thread_id"), tid)
        self.memory.u32(os_thread + self.offset("OSThread._state"), state)
        self.put(os_thread, "OSThread._pthread_id", pthread)
        self.lock(address)
        self.threads.append(address)
        self._list()
        return address

    def lock(self, thread: int, *objects: int) -> None:
        """Let a thread have these objects in its stack of locks."""
        if "LockStack._top" in self.offsets:
            base = self.offsets["JavaThread._lock_stack"]
            first = base + self.offsets["LockStack._base[0]"]
            self.memory.u32(thread + base + self.offsets["LockStack._top"], first + 8 * len(objects))
            # an object that it has released stays behind the top
            self.memory.u64(thread + first, *objects, 0x5151_5151)

    def _list(self) -> None:
        head = next(iter(self.statics.values()))
        if self.version == "11":
            self.memory.u64(head, self.threads[-1])
            self.put(self.threads[-1], "JavaThread._next", self.threads[-2] if len(self.threads) > 1 else 0)
            return
        listed, array = self.alloc(0x40), self.alloc(8 * len(self.threads))
        self.memory.u64(head, listed)
        self.memory.u32(listed + self.offsets["ThreadsList._length"], len(self.threads))
        self.put(listed, "ThreadsList._threads", array)
        self.memory.u64(array, *self.threads)

    def monitor(self, owner: int, subject: int | None = None) -> tuple[int, int]:
        """Make a monitor with this word as its owner; returns it and the address of the object."""
        monitor, handle = self.alloc(0x100), self.alloc(0x10)
        subject = self.alloc(0x100) if subject is None else subject
        self.put(monitor, "ObjectMonitor._owner", owner)
        self.memory.u64(handle, subject)
        self.put(monitor, "ObjectMonitor._object", subject if self.version == "11" else handle)
        return monitor, subject

    def park(self) -> int:
        """Make a ``ParkEvent`` on which a thread sleeps; returns its ``pthread_cond_t *``."""
        event = self.alloc(0x80)
        self.memory.u32(event, 0xFFFFFFFF, 1)
        return event + 48
