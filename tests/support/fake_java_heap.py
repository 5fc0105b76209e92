"""Fake memory of a HotSpot Java machine with objects: their classes, the fields of these, and locks."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from gdbext.libraries.java.heap import Objects, read_encoding
from gdbext.libraries.java.hotspot import CONDVAR_WAIT
from tests.support.fake_hotspot import HEAP, LIBRARY, SIZES, FakeHotspot

#: Bits of the state of a thread: alive, waiting, parked; alive, runs; ended.
PARKED, RUNS, ENDED = 0x291, 0x5, 0x2
LOCKS = "java.util.concurrent.locks."
AQS = f"{LOCKS}AbstractQueuedSynchronizer"
AQLS = f"{LOCKS}AbstractQueuedLongSynchronizer"
_FUNCTIONS = LIBRARY + 0x6_0000
_THREAD, _TO_THREAD = "java.lang.Thread", "Ljava/lang/Thread;"
_STATIC, _INTERNAL = 0x8, 0x400
_INITIALIZED, _INJECTED, _GENERIC, _CONTENDED = 1, 2, 4, 16
# name, type, and flags since JDK 21, of the class; with these a field has further numbers
_Field = tuple[str, str, int, int]


def _to(name: str) -> str:
    return f"L{name.replace('.', '/')};"


def _field(name: str, kind: str, access: int = 0, flags: int = 0) -> _Field:
    return name, kind, access, flags


def _classes(version: str) -> Mapping[str, tuple[str | None, tuple[_Field, ...]]]:
    """The base and the fields of each class."""
    old = version == "11"
    status = (_field("threadStatus", "I"),)
    read_write = AQLS if version == "25" else AQS
    found: dict[str, tuple[str | None, tuple[_Field, ...]]] = {
        "java.lang.Object": (None, ()),
        "java.util.Vector": ("java.lang.Object", ()),
        _THREAD: ("java.lang.Object", (
            _field("counter", "J", _STATIC, _INITIALIZED), _field("group", _to("java.lang.ThreadGroup"), 2, _GENERIC),
            _field("eetop", "J"), _field("parkBlocker", "I", _STATIC), _field("seed", "J", 0, _CONTENDED),
            _field("parkBlocker", _to("java.lang.Object"), 0x40),
            *(status if version in ("11", "17") else (_field("holder", _to(f"{_THREAD}$FieldHolder"), 0x10),)))),
        "java.lang.VirtualThread": (_THREAD, ()),
        f"{_THREAD}$FieldHolder": ("java.lang.Object", status),
        f"{LOCKS}AbstractOwnableSynchronizer": ("java.lang.Object", (_field("exclusiveOwnerThread", _TO_THREAD),)),
        "java.util.concurrent.Semaphore$NonfairSync": (AQS, ()),
        "app.Mutex": (AQS, ()),
        f"{LOCKS}ReentrantLock$Sync": (AQS, ()),
        f"{LOCKS}ReentrantLock$NonfairSync": (f"{LOCKS}ReentrantLock$Sync", ()),
        f"{LOCKS}ReentrantReadWriteLock$Sync": (read_write, (_field("firstReader", _TO_THREAD),)),
        f"{LOCKS}ReentrantReadWriteLock$FairSync": (f"{LOCKS}ReentrantReadWriteLock$Sync", ()),
        "java.util.concurrent.FutureTask": ("java.lang.Object", ()),
    }
    for base, kind in ((AQS, "I"), (AQLS, "J")):
        node = _to(f"{base}$Node")
        queue = (_field("head", node), _field("tail", node), _field("state", kind))
        found[base] = (f"{LOCKS}AbstractOwnableSynchronizer", queue)
        found[f"{base}$Node"] = ("java.lang.Object", (
            _field("prev", node), *((_field("thread", _TO_THREAD), _field("nextWaiter", node)) if old
                                    else (_field("waiter", _TO_THREAD),))))
        found[f"{base}$SharedNode"] = found[f"{base}$ExclusiveNode"] = (f"{base}$Node", ())
        found[f"{base}$ConditionObject"] = ("java.lang.Object", (_field("this$0", _to(base), 0x10),))
    return found


def numbers(values: Iterable[int]) -> bytes:
    """Encode numbers as UNSIGNED5."""
    data = bytearray()
    for value in values:
        rest = value
        for index in range(5):
            if rest < 191 or index == 4:
                data.append(rest + 1)
                break
            rest -= 191
            data.append(192 + rest % 64)
            rest //= 64
    return bytes(data)


class FakeJavaHeap(FakeHotspot):
    """A Java machine with objects. `heap` is its ``CollectedHeap``."""

    def __init__(self, version: str, without: str = "", *, collector: str = "UseG1GC", compressed: bool = True,
                 compact: bool = False, generational: bool | None = None) -> None:
        super().__init__(version, without)
        self._is_z, self._compact = collector == "UseZGC", compact
        self._narrow, self._narrow_classes = compressed and not self._is_z, compressed or compact
        member = "ZGlobalsForVMStructs._ZPointerLoadShift"
        #: The bits of a reference of ZGC below its address, those of one that is good, and of one that may be old.
        self.shift = 16 if self._is_z and member in self.offsets and generational is not False else 0
        self.good, self.stale = (0x10, 0x20) if self.shift else (1 << 48, 1 << 49)
        self.memory.u64(_FUNCTIONS, LIBRARY + 0x100)
        flags = {"Verbose": True, "UseSerialGC": False, "UseParallelGC": False, "UseG1GC": False, "UseZGC": False,
                 collector: True, "UseCompressedOops": self._narrow, "UseCompressedClassPointers": compressed,
                 **({"UseCompactObjectHeaders": compact} if version == "25" else {}),
                 **({"ZGenerational": generational} if generational is not None else {})}
        self.flags, self._values = self.alloc(SIZES["JVMFlag"] * len(flags)), self.alloc(len(flags))
        for row, (name, value) in enumerate(flags.items()):
            self.memory.u64(self.flags + SIZES["JVMFlag"] * row, self._values + row, self.text(name), 7)
            self.memory.write(self._values + row, bytes([value]))
        self.heap = self.alloc(0x100)
        self._static("JVMFlag.flags", self.flags)
        self._static("JVMFlag.numFlags", len(flags))
        self._static("Universe._collectedHeap", self.heap)
        for prefix in (self.classes, self.references):
            self._static(f"{prefix}_base", HEAP)
            self._static(f"{prefix}_shift", 3)
        masks = {"ZGlobalsForVMStructs._ZAddressBadMask": self.stale, member: self.shift,
                 "ZGlobalsForVMStructs._ZPointerLoadBadMask": self.stale if self.shift else 0,
                 "XGlobalsForVMStructs._XAddressBadMask": 0 if self.shift else self.stale}
        for kind in "ZX":
            instance = self.alloc(0x80)
            self._static(f"{kind}GlobalsForVMStructs._instance_p", instance)
            for name, mask in masks.items():
                if name.startswith(kind) and name in self.offsets:
                    place = self.alloc(8)
                    self.memory.u64(place, mask)
                    self.put(instance, name, place)
        self._declared = _classes(version)
        self._klasses: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._places: dict[tuple[str, str], tuple[int, str]] = {}

    def _static(self, name: str, value: int) -> None:
        if name in self.statics:
            self.memory.u64(self.statics[name], value)

    def objects(self) -> Objects | None:
        """The reader of objects."""
        encoding = read_encoding(self.memory, self.table())
        if encoding is None:
            return None
        return Objects(self.memory, self.table(), encoding, lambda at: at >> 16 == LIBRARY >> 16)

    # -- classes ---------------------------------------------------------------------------------------------

    def klass(self, name: str) -> int:
        """The ``Klass *`` of a class, which is made when it is asked for the first time."""
        if name not in self._klasses:
            base, fields = self._declared.get(name, ("java.lang.Object", ()))
            klass = self._klasses[name] = self.alloc(0x200)
            self.memory.u64(klass, _FUNCTIONS)
            self.put(klass, "Klass._name", self._symbol(name.replace(".", "/")))
            self.put(klass, "Klass._super", self.klass(base) if base is not None else 0)
            self._fields(name, klass, fields)
        return self._klasses[name]

    def _bases(self, name: str) -> list[str]:
        """A class and its base classes."""
        base, _ = self._declared.get(name, ("java.lang.Object", ()))
        return [name, *(self._bases(base) if base is not None else ())]

    def _symbol(self, text: str) -> int:
        symbol = self.alloc(8 + len(text))
        self.memory.write(symbol + self.offset("Symbol._length"), struct.pack("<H", len(text)))
        self.memory.write(symbol + self.offset("Symbol._body[0]"), text.encode())
        return symbol

    def _fields(self, owner: str, klass: int, fields: tuple[_Field, ...]) -> None:
        # behind those of the base classes; far apart, so that offsets need several bytes
        first = sum(len(self._declared[base][1]) for base in self._bases(owner)[1:])
        rows = [(2 * row + 1, 2 * row + 2, 0x10 + 0x30 * (first + row), *field) for row, field in enumerate(fields)]
        pool = self.alloc(SIZES["ConstantPool"] + 8 * (2 * len(rows) + 1))
        self.put(klass, "InstanceKlass._constants", pool)
        self.memory.u32(pool + self.offset("ConstantPool._length"), 2 * len(rows) + 1)
        for name_index, kind_index, offset, name, kind, access, _ in rows:
            self.memory.u64(pool + SIZES["ConstantPool"] + 8 * name_index, self._symbol(name))
            self.memory.u64(pool + SIZES["ConstantPool"] + 8 * kind_index, self._symbol(kind))
            if not access & _STATIC:
                self._places[owner, name] = offset, kind
        if "InstanceKlass._fields" in self.offsets:
            # the last one is injected by the machine
            data = b"".join(struct.pack("<HHHHI", access, name_index, kind_index, 0, offset << 2 | 1)
                            for name_index, kind_index, offset, _, _, access, _ in rows)
            data += struct.pack("<HHHHI", _INTERNAL, 1, 2, 0, 0x77 << 2 | 1)
            array = self.alloc(4 + len(data))
            self.memory.u32(array, len(data) // 2)
            self.memory.write(array + 4, data)
            self.put(klass, "InstanceKlass._fields", array)
            self.memory.write(klass + self.offset("InstanceKlass._java_fields_count"), struct.pack("<H", len(rows)))
            return
        listed = [len(rows), 1]
        for name_index, kind_index, offset, _, _, access, flags in rows:
            further = [300] * sum(bool(flags & flag) for flag in (_INITIALIZED, _GENERIC, _CONTENDED))
            listed += [name_index, kind_index, offset, access, flags, *further]
        data = numbers([*listed, 1, 2, 0x77, 0, _INJECTED])
        stream = self.alloc(4 + len(data))
        self.memory.u32(stream, len(data))
        self.memory.write(stream + 4, data)
        self.put(klass, "InstanceKlass._fieldinfo_stream", stream)

    # -- objects ---------------------------------------------------------------------------------------------

    def new(self, name: str) -> int:
        """Make an object of a class."""
        subject, klass = self.alloc(0x200), self.klass(name)
        if self._is_z and not self.shift:
            # the same memory is mapped several times, and the bits are part of the address
            subject |= self.good
            self.memory.map(subject, bytes(0x200))
        self._names[subject] = name
        if self._compact:
            self.memory.u64(subject, (klass - HEAP) >> 3 << 42 | 1)
        elif self._narrow_classes:
            # another field may begin after a compressed pointer
            self.memory.u32(subject + 8, (klass - HEAP) >> 3, 0x7777)
        else:
            self.memory.u64(subject + 8, klass)
        return subject

    def place(self, subject: int, owner: str, name: str) -> int:
        """The place of a field of an object."""
        self.klass(owner)
        return subject + self._places[owner, name][0]

    def set(self, subject: int, owner: str, name: str, value: int, *, stale: bool = False) -> None:
        """Write a field: a number, or the address of an object."""
        at, kind = self.place(subject, owner, name), self._places[owner, name][1]
        if kind == "J":
            self.memory.u64(at, value)
        elif kind == "I" or self._narrow:
            self.memory.u32(at, (value - HEAP) >> 3 if kind != "I" and value else value)
        else:
            self.memory.u64(at, self.reference(value, stale=stale))

    def reference(self, subject: int, *, stale: bool = False) -> int:
        """A reference that is not compressed."""
        if not self._is_z or not subject:
            return subject
        if self.shift:
            return subject << self.shift | (self.stale if stale else self.good)
        return subject ^ (self.good | self.stale) if stale else subject

    def refer(self, address: int, member: str, subject: int, *, stale: bool = False) -> None:
        """Let a member of a structure of the machine refer to an object."""
        word = self.reference(subject, stale=stale)
        if self.version == "11":
            self.put(address, member, word)
            return
        handle = self.alloc(8)
        self.memory.u64(handle, word)
        self.put(address, member, handle)

    def monitor(self, owner: int, subject: int | None = None) -> tuple[int, int]:
        monitor, subject = super().monitor(owner, self.new("java.util.Vector") if subject is None else subject)
        self.refer(monitor, "ObjectMonitor._object", subject)
        return monitor, subject

    # -- threads and locks -----------------------------------------------------------------------------------

    def java_thread(self, native: int, status: int = RUNS, name: str = _THREAD) -> int:
        """Make the object of a thread.

        :param native: its ``JavaThread *``, 0 for none.
        """
        subject = self.new(name)
        self.set(subject, _THREAD, "eetop", native)
        if (_THREAD, "threadStatus") in self._places:
            self.set(subject, _THREAD, "threadStatus", status)
        else:
            holder = self.new(f"{_THREAD}$FieldHolder")
            self.set(holder, f"{_THREAD}$FieldHolder", "threadStatus", status)
            self.set(subject, _THREAD, "holder", holder)
        if native:
            self.refer(native, "JavaThread._threadObj", subject)
            if "JavaThread._vthread" in self.offsets:
                self.refer(native, "JavaThread._vthread", subject)
        return subject

    def parks(self, pthread: int, tid: int, stack: tuple[int, int], blocker: int, *, owner_id: int = 0,
              status: int = PARKED) -> int:
        """Add a thread that is in `park`; returns its object."""
        native = self.thread(pthread, tid, stack, CONDVAR_WAIT, owner_id=owner_id)
        subject = self.java_thread(native, status)
        self.set(subject, _THREAD, "parkBlocker", blocker)
        return subject

    def lock_object(self, name: str, owner: int = 0, state: int = 0) -> int:
        """Make the object of a lock, for which no thread waits yet."""
        lock = self.new(name)
        self.own(lock, owner, state)
        return lock

    def own(self, lock: int, owner: int, state: int) -> None:
        """Write the owner and the state of a lock."""
        self.set(lock, f"{LOCKS}AbstractOwnableSynchronizer", "exclusiveOwnerThread", owner)
        self.set(lock, self.queued(lock), "state", state)

    def queued(self, lock: int) -> str:
        """The class of a lock that has the queue."""
        return next(name for name in self._bases(self._names[lock]) if name in (AQS, AQLS))

    def wait_for(self, lock: int, *threads: tuple[int, bool]) -> None:
        """Let threads wait for a lock: the object of each, and whether it waits as a reader."""
        base = self.queued(lock)
        node_class = f"{base}$Node"
        before = self.new(f"{base}$ExclusiveNode" if self.version != "11" else node_class)
        for subject, shared in threads:
            kind = node_class if self.version == "11" else f"{base}$SharedNode" if shared else f"{base}$ExclusiveNode"
            node = self.new(kind)
            self.set(node, node_class, "prev", before)
            self.set(node, node_class, "thread" if self.version == "11" else "waiter", subject)
            if self.version == "11":
                self.set(node, node_class, "nextWaiter", self.new(node_class) if shared else 0)
            before = node
        self.set(lock, base, "tail", before)
