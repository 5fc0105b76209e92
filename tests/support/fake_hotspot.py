"""Fake memory of a HotSpot Java machine: its exported table, its threads and its monitors."""

from __future__ import annotations

from collections.abc import Mapping

from gdbext.runtimes import hotspot
from tests.support.fake_memory import FakeMemory

#: Where the library is.
LIBRARY = 0x7F40_0000_0000
_TEXTS, _ENTRIES, _STATICS = LIBRARY + 0x1_0000, LIBRARY + 0x2_0000, LIBRARY + 0x3_0000
_VARIABLES, _HEAP = LIBRARY + 0x4_0000, 0x7F41_0000_0000
_STRIDE = 48
_COMMON = {
    "ThreadsList._length": 4, "ThreadsList._threads": 16, "OSThread._thread_id": 0x10, "OSThread._pthread_id": 0x18,
    "OSThread._state": 0, "JavaThread._stack_base": 0x40, "JavaThread._stack_size": 0x48,
    "JavaThread._current_pending_monitor": 0x50, "JavaThread._current_waiting_monitor": 0x58,
    "ObjectMonitor._owner": 64, "ObjectMonitor._object": 8, "oopDesc._metadata._klass": 8, "Klass._name": 24,
    "Symbol._length": 4, "Symbol._body[0]": 6,
}
#: By version of Java: the members of the table that differ, and where static ones are.
VERSIONS: Mapping[str, Mapping[str, int]] = {
    "11": {"Thread._osthread": 0x38, "JavaThread._next": 0x30},
    "17": {"JavaThread._osthread": 0x38},
    "21": {"JavaThread._osthread": 0x38, "JavaThread._lock_stack": 0x80, "LockStack._top": 0, "LockStack._base[0]": 8},
    "25": {"Thread._osthread": 0x38, "JavaThread._lock_stack": 0x80, "LockStack._top": 0, "LockStack._base[0]": 16,
           "JavaThread._monitor_owner_id": 0x60, "ObjectMonitor._stack_locker": 72},
}
_LIST = {"11": "Threads._thread_list"}
_CLASSES = {"11": "Universe._narrow_klass", "25": "CompressedKlassPointers"}


class FakeHotspot:
    """A Java machine of a version. `variables` are the addresses of its exported variables."""

    def __init__(self, version: str, without: str = "") -> None:
        self.version = version
        self.memory = FakeMemory()
        self.offsets = {**_COMMON, **VERSIONS[version]}
        self.offsets.pop(without, None)
        prefix = _CLASSES.get(version, "CompressedKlassPointers._narrow_klass")
        names = (_LIST.get(version, "ThreadsSMRSupport._java_thread_list"), f"{prefix}._base", f"{prefix}._shift")
        self.statics = {name: _STATICS + 0x10 * i for i, name in enumerate(names)}
        self.memory.map(_STATICS, bytes(0x100))
        self.threads: list[int] = []
        self._next_text, self._next = _TEXTS, _HEAP
        entries = [*((name, 0, offset, 0) for name, offset in {"Other._member": 3, **self.offsets}.items()),
                   *((name, 1, 0, address) for name, address in self.statics.items())]
        self.memory.map(_ENTRIES, bytes(_STRIDE * (len(entries) + 1)))
        for row, (name, is_static, offset, address) in enumerate(entries):
            kind, _, member = name.partition(".")
            # bytes after the flag are not part of it
            self.memory.u64(_ENTRIES + _STRIDE * row, self._text(kind), self._text(member), self._text("int"),
                            is_static | 0xAB << 32, offset, address)
        values = {"gHotSpotVMStructs": _ENTRIES, "gHotSpotVMStructEntryArrayStride": _STRIDE,
                  **{f"gHotSpotVMStructEntry{part}Offset": 8 * row for row, part in enumerate(
                      ("TypeName", "FieldName", "TypeString", "IsStatic", "Offset", "Address"))}}
        self.variables = {name: _VARIABLES + 8 * row for row, name in enumerate(values)}
        self.memory.u64(_VARIABLES, *values.values())

    def _text(self, text: str) -> int:
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

    def monitor(self, owner: int, class_name: str = "java/util/Vector") -> tuple[int, int]:
        """Make a monitor with this word as its owner; returns it and the address of the object."""
        monitor, subject, klass, symbol = (self.alloc(0x100) for _ in range(4))
        self.put(monitor, "ObjectMonitor._owner", owner)
        handle = self.alloc(0x10)
        self.memory.u64(handle, subject)
        self.put(monitor, "ObjectMonitor._object", subject if self.version == "11" else handle)
        self.memory.u64(klass, LIBRARY + 0x100)
        self.put(klass, "Klass._name", symbol)
        self.memory.u32(symbol + self.offsets["Symbol._length"], len(class_name))
        self.memory.write(symbol + self.offsets["Symbol._body[0]"], class_name.encode())
        _, base, shift = self.statics.values()
        self.memory.u64(base, _HEAP)
        self.memory.u32(shift, 3)
        self.memory.u32(subject + self.offsets["oopDesc._metadata._klass"], (klass - _HEAP) >> 3, 0x7777)
        return monitor, subject

    def park(self) -> int:
        """Make a ``ParkEvent`` on which a thread sleeps; returns its ``pthread_cond_t *``."""
        event = self.alloc(0x80)
        self.memory.u32(event, 0xFFFFFFFF, 1)
        return event + 48
