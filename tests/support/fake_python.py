"""A CPython runtime laid out in fake memory by the table of its version: interpreters, threads, frames, objects."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from gdbext.inferior.protocol import Module, Section
from gdbext.layout.opcodes import opcodes_of
from gdbext.layout.select import cpython_candidates, debug_offsets
from gdbext.layout.table import Layouts
from tests.support import bytecode, versions
from tests.support.fake_memory import Builder, FakeMemory

#: The versions that the fake can make.
VERSIONS = versions.from_minor(9)

#: The size of variables and value stack behind a frame, in bytes.
_ROOM = 512
_SETUP_WITH = 143
_TYPE_SUBCLASS = 1 << 31
#: Versions with tables of free-threaded builds.
FREE_THREADED = versions.FREE_THREADED

#: The entry of a `with` statement on the value stack.
Exit = tuple[int, ...]

_MANAGED_DICT, _INLINE_VALUES, _HEAPTYPE = 1 << 4, 1 << 2, 1 << 9


def cpython_layouts(version: str, build: str = "default") -> Layouts:
    """The layout table of a version."""
    found = next(cpython_candidates(version, build, "x86_64"))
    assert found.version == version
    return found


@dataclass(frozen=True)
class Call:
    """A native call of the eval loop, with its functions as (name, line), innermost first.

    `anchor` is the address of its C frame or entry frame on the native stack.
    """

    functions: tuple[tuple[str, int], ...]
    anchor: int = 0


class FakePython:
    """Objects of one version in fake memory, and a runtime after a call of `runtime`."""

    def __init__(self, memory: FakeMemory, version: str, heap: int = 0x5555_0000_0000,
                 build: str = "default") -> None:
        self.version = version
        self.free_threaded = build == "free-threaded"
        self.version_tuple = tuple(int(part) for part in version.split("."))
        self.layouts = cpython_layouts(version, build)
        self.memory = memory
        self.build = Builder(memory, self.layouts, heap)
        self._types: dict[str, int] = {}
        self._slots: list[int] = []
        self.runtime_address = 0
        self.module = Module("", ())

    # -- objects ---------------------------------------------------------------------------------------------

    def type_object(self, name: str, **members: int) -> int:
        """The type object of a name."""
        if name not in self._types:
            at = self.build.alloc(self.layouts["PyHeapTypeObject"].size)
            self._types[name] = self.build.put(
                "PyTypeObject", at, tp_name=self.build.cstring(name.encode()), **members)
            kind = at if name == "type" else self.type_object("type", tp_flags=_TYPE_SUBCLASS)
            self.build.put("PyObject", at, ob_type=kind)
        return self._types[name]

    def _object(self, type_name: str, size: int) -> int:
        at = self.build.alloc(size)
        self.build.put("PyObject", at, ob_type=self.type_object(type_name))
        return at

    def string(self, text: str, kind: int | None = None) -> int:
        """A compact ``str`` of the smallest kind, or of the given kind."""
        is_ascii = text.isascii() and kind is None
        if kind is None:
            top = max(map(ord, text), default=0)
            kind = 1 if top < 0x100 else 2 if top < 0x10000 else 4
        header = self.layouts["PyASCIIObject" if is_ascii else "PyCompactUnicodeObject"].size
        data = text.encode({1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}[kind], "surrogatepass")
        at = self._object("str", header + len(data) + kind)
        self.build.put("PyASCIIObject", at, length=len(text), state_kind=kind, state_compact=1,
                       state_ascii=int(is_ascii))
        self.memory.map(at + header, data + bytes(kind))
        return at

    def byte_string(self, data: bytes) -> int:
        """A ``bytes``."""
        offset = self.layouts["PyBytesObject"].offset("ob_sval")
        at = self._object("bytes", offset + len(data) + 1)
        self.build.put("PyVarObject", at, ob_size=len(data))
        self.memory.write(at + offset, data)
        return at

    def integer(self, value: int) -> int:
        """An ``int``."""
        digits, rest = [], abs(value)
        while rest:
            digits.append(rest & 0x3FFFFFFF)
            rest >>= 30
        known = self.layouts["PyLongObject"]
        at = self._object("int", known.offset("ob_digit") + 4 * max(len(digits), 1))
        if "lv_tag" in known:
            self.build.put("PyLongObject", at, lv_tag=len(digits) << 3 | (1 if value == 0 else 2 if value < 0 else 0))
        else:
            self.build.put("PyVarObject", at, ob_size=-len(digits) if value < 0 else len(digits))
        if digits:
            self.memory.u32(at + known.offset("ob_digit"), *digits)
        return at

    def keys(self, entries: Sequence[tuple[int, int]], unicode_keys: bool = True) -> int:
        """The keys object of a dict; `unicode_keys` requests entries without hashes, if the version has them."""
        known = self.layouts["PyDictKeysObject"]
        modern = "dk_log2_index_bytes" in known
        entry = self.layouts["PyDictUnicodeEntry" if modern and unicode_keys else "PyDictKeyEntry"]
        at = self.build.alloc(known.offset("dk_indices") + 8 + entry.size * len(entries))
        if modern:
            self.build.put("PyDictKeysObject", at, dk_log2_size=3, dk_log2_index_bytes=3, dk_kind=int(unicode_keys),
                           dk_nentries=len(entries))
        else:
            self.build.put("PyDictKeysObject", at, dk_size=8, dk_nentries=len(entries))
        for i, (key, value) in enumerate(entries):
            self.build.put(entry.name, at + known.offset("dk_indices") + 8 + i * entry.size, me_key=key, me_value=value)
        return at

    def dictionary(self, entries: Sequence[tuple[int, int]], unicode_keys: bool = True) -> int:
        """A ``dict`` of (key, value) addresses."""
        at = self._object("dict", self.layouts["PyDictObject"].size)
        return self.build.put("PyDictObject", at, ma_used=len(entries), ma_keys=self.keys(entries, unicode_keys))

    def namespace(self, **entries: int) -> int:
        """A ``dict`` with ``str`` keys."""
        return self.dictionary([(self.string(name), value) for name, value in entries.items()])

    def module_object(self, **entries: int) -> int:
        """A module object with these globals."""
        at = self._object("module", self.layouts["PyModuleObject"].size)
        return self.build.put("PyModuleObject", at, md_dict=self.namespace(**entries))

    def instance(self, class_name: str, inline: bool = True, **attributes: int) -> int:
        """An instance of a class written in Python.

        :param inline: store the attributes as inline values, if the version has them.
        """
        version = self.version_tuple
        before, basic_size = 64, 48
        at = self.build.alloc(before + basic_size + 256) + before
        if version < (3, 11):
            kind = self.type_object(class_name, tp_dictoffset=16, tp_basicsize=basic_size, tp_flags=_HEAPTYPE)
            self.build.put("PyObject", at, ob_type=kind)
            self.memory.u64(at + 16, self.namespace(**attributes))
            return at
        flags = _HEAPTYPE | _MANAGED_DICT | (_INLINE_VALUES if version >= (3, 13) else 0)
        kind = self.type_object(class_name, tp_basicsize=basic_size, tp_flags=flags, tp_dictoffset=-1)
        self.build.put("PyObject", at, ob_type=kind)
        if not inline:
            self.memory.u64(at - (8 if self.free_threaded else 24), self.namespace(**attributes))
            return at
        cached = self.keys([(self.string(name), 0) for name in attributes])
        self.build.put("PyHeapTypeObject", kind, ht_cached_keys=cached)
        header = self.layouts["PyDictValues"].offset("values")
        if version >= (3, 13):
            values = at + basic_size
        else:
            values = self.build.alloc(header + 8 * len(attributes))
            self.memory.u64(at - (32 if version < (3, 12) else 24), values if version < (3, 12) else values - 1)
        self.memory.u64(values + header, *attributes.values())
        return at

    def tuple_object(self, *items: int) -> int:
        """A ``tuple``."""
        offset = self.layouts["PyTupleObject"].offset("ob_item")
        at = self._object("tuple", offset + 8 * len(items))
        self.build.put("PyVarObject", at, ob_size=len(items))
        self.memory.u64(at + offset, *items)
        return at

    def list_object(self, *items: int) -> int:
        """A ``list``."""
        at = self._object("list", self.layouts["PyListObject"].size)
        array = self.build.alloc(8 * len(items) + 8)
        self.memory.u64(array, *items)
        self.build.put("PyVarObject", at, ob_size=len(items))
        return self.build.put("PyListObject", at, ob_item=array)

    def cell(self, value: int) -> int:
        """The cell of a variable that inner functions also use."""
        return self.build.put("PyCellObject", self._object("cell", 64), ob_ref=value)

    def builtin_method(self, name: str, owner: int) -> int:
        """A method written in C, bound to an object."""
        definition = self.build.new("PyMethodDef", ml_name=self.build.cstring(name.encode()))
        at = self._object("builtin_function_or_method", self.layouts["PyCFunctionObject"].size)
        return self.build.put("PyCFunctionObject", at, m_ml=definition, m_self=owner)

    def method_descriptor(self, name: str) -> int:
        """An unbound method written in C."""
        at = self._object("method_descriptor", self.layouts["PyMethodDescrObject"].size)
        return self.build.put("PyMethodDescrObject", at, d_name=self.string(name))

    def function(self, name: str) -> int:
        """A function written in Python."""
        at = self._object("function", self.layouts["PyFunctionObject"].size)
        return self.build.put("PyFunctionObject", at, func_name=self.string(name))

    def method(self, function: int, owner: int) -> int:
        """A method written in Python, bound to an object."""
        at = self._object("method", self.layouts["PyMethodObject"].size)
        return self.build.put("PyMethodObject", at, im_func=function, im_self=owner)

    def builtin(self, type_name: str, struct_name: str, **members: int) -> int:
        """An object of a type written in C."""
        return self.build.put(struct_name, self._object(type_name, self.layouts[struct_name].size), **members)

    def words(self, struct_name: str, **doubles: float) -> dict[str, int]:
        """Members of type ``double`` as the words that `builtin` takes."""
        return {name: int.from_bytes(struct.pack("<d", value), "little") for name, value in doubles.items()}

    def set_object(self, *items: int, type_name: str = "set", size: int = 8, dropped: Sequence[int] = ()) -> int:
        """A ``set`` with a table of `size` entries, in which removed keys come first."""
        entry = self.layouts["setentry"]
        table = self.build.alloc(entry.size * size)
        for i, key in enumerate([*dropped, *items]):
            self.build.put("setentry", table + i * entry.size, key=key, hash=-1 if i < len(dropped) else 7 + i)
        return self.builtin(type_name, "PySetObject", used=len(items), mask=size - 1, table=table)

    def class_object(self, name: str, base: str = "object", metaclass: str = "type", **namespace: int) -> int:
        """A class written in Python, without `__dict__`; `builtin` makes its instances."""
        at = self.type_object(name, tp_flags=_HEAPTYPE, tp_base=self.type_object(base))
        self.build.put("PyTypeObject", at, tp_dict=self.namespace(**namespace))
        self.build.put("PyVarObject", at, ob_size=sum(value in self._slots for value in namespace.values()))
        return self.build.put("PyObject", at, ob_type=self.type_object(metaclass))

    def slot(self, offset: int, kind: int = 16) -> int:
        """The descriptor of a name in `__slots__`; the kind is ``T_OBJECT_EX``."""
        member = self.build.new("PyMemberDef", type=kind, offset=offset)
        self._slots.append(self.builtin("member_descriptor", "PyMemberDescrObject", d_member=member))
        return self._slots[-1]

    # -- locks -----------------------------------------------------------------------------------------------

    def inner_lock(self, locked: bool = True) -> int:
        """The target of a ``PyThread_type_lock``: a semaphore, since 3.15 a mutex."""
        at = self.build.alloc(32)
        self.memory.u64(at, int(locked) if self.version_tuple >= (3, 15) else int(not locked))
        return at

    def lock(self, locked: bool = True) -> int:
        """A `_thread.lock`."""
        at = self._object("_thread.lock", self.layouts["lockobject"].size)
        if "lock" in self.layouts["lockobject"]:
            return self.build.put("lockobject", at, lock=int(locked))
        return self.build.put("lockobject", at, lock_lock=self.inner_lock(locked))

    def lock_word(self, lock: int) -> int:
        """The address at which threads waiting for a `_thread.lock` sleep or are parked."""
        known = self.layouts["lockobject"]
        if "lock" in known:
            return lock + known.offset("lock")
        return int.from_bytes(self.memory.read(lock + known.offset("lock_lock"), 8), "little")

    def rlock(self, owner: int | None) -> int:
        """A `_thread.RLock` that a thread (``pthread_self()``) has taken twice, or a released one without `owner`."""
        at = self._object("_thread.RLock", self.layouts["rlockobject"].size)
        if "mutex" in self.layouts["rlockobject"]:
            return self.build.put("rlockobject", at, mutex=int(owner is not None), thread=owner or 0x77, level=1)
        return self.build.put("rlockobject", at, rlock_lock=self.inner_lock(owner is not None),
                              rlock_owner=owner or 0x77, rlock_count=2 if owner is not None else 0)

    def rlock_word(self, lock: int) -> int:
        """The address at which threads waiting for a `_thread.RLock` sleep or are parked."""
        known = self.layouts["rlockobject"]
        if "mutex" in known:
            return lock + known.offset("mutex")
        return int.from_bytes(self.memory.read(lock + known.offset("rlock_lock"), 8), "little")

    def fast_rlock(self, owner: int | None, name: str = "lupa.lua54.FastRLock") -> int:
        """A `FastRLock` that a thread (``pthread_self()``) has taken, or a released one without `owner`."""
        header = self.layouts["PyObject"].size
        at = self.build.alloc(header + 32)
        self.build.put("PyObject", at, ob_type=self.type_object(name, tp_basicsize=header + 32))
        self.memory.u64(at + header, self.inner_lock(), owner or 0x77)
        self.memory.u32(at + header + 16, int(owner is not None), 1, 1)
        return at

    def fast_rlock_word(self, lock: int) -> int:
        """The word that threads waiting for a `FastRLock` sleep on."""
        return int.from_bytes(self.memory.read(lock + self.layouts["PyObject"].size, 8), "little")

    def condition(self, lock: int) -> int:
        """A `threading.Condition` over a lock."""
        return self.instance("Condition", _lock=lock, _waiters=self.list_object())

    def park(self, stack: int, address: int, handed_off: int | None = None, leaving: int = 0) -> int:
        """Park a thread at an address, with its entry on its stack; returns the word that it sleeps on."""
        head = self.build.new("llist_node")
        node = self.build.member("wait_entry", stack, "node")
        self.build.put("llist_node", head, next=node, prev=node)
        argument = self.build.new("mutex_entry", handed_off=handed_off) if handed_off is not None else 0
        self.build.put("wait_entry", stack, park_arg=argument, addr=address, is_unparking=leaving)
        self.build.put("llist_node", node, next=head, prev=head)
        return self.build.member("wait_entry", stack, "sema")

    def section(self, at: int, *mutexes: int, previous: int = 0, active: bool = True) -> int:
        """A critical section of one or two mutexes on a stack; returns the tagged pointer to it.

        :param previous: the tagged pointer to the enclosing section.
        """
        self.build.put("PyCriticalSection", at, _cs_prev=previous, _cs_mutex=mutexes[0])
        if len(mutexes) > 1:
            self.build.put("PyCriticalSection2", at, _cs_mutex2=mutexes[1])
        return at | (len(mutexes) > 1) << 1 | (not active)

    def mutex_of(self, address: int, locked: bool = True) -> int:
        """The lock of an object (``PyMutex *``)."""
        self.build.put("PyObject", address, ob_mutex=int(locked))
        return self.build.member("PyObject", address, "ob_mutex")

    def code(self, name: str, line: int, size: int = 20, table: bytes | None = None, file: str = "/app/job.py",
             qualified_name: str | None = None, first_traceable: int = 1, *, variables: Sequence[str] = (),
             cells: Sequence[str] = (), names: Sequence[str] = (), stack_size: int = 8, exceptions: bytes = b"",
             instructions: bytes = b"") -> int:
        """A code object with `size` bytes of instructions, all on one line unless a line table is given.

        :param variables: names of local variables, followed by those in `cells`.
        :param names: ``co_names``.
        :param exceptions: the exception table, if the version has one.
        :param instructions: ``co_code``, if the version stores it separately.
        """
        known = self.layouts["PyCodeObject"]
        modern = "co_code_adaptive" in known
        if table is None:
            table = one_line_table(self.version_tuple, size)
        start = known.offset("co_code_adaptive") if modern else known.size
        at = self._object("code", start + size)
        self.build.put("PyCodeObject", at, co_filename=self.string(file), co_name=self.string(name),
                       co_linetable=self.byte_string(table), co_firstlineno=line)
        self.build.put("PyCodeObject", at, co_stacksize=stack_size, co_names=self._strings(names))
        if "co_nlocalsplus" in known:
            kinds = bytes([0x20] * len(variables) + [0x40] * len(cells))
            self.build.put("PyCodeObject", at, co_nlocalsplus=len(kinds),
                           co_exceptiontable=self.byte_string(exceptions),
                           co_localsplusnames=self._strings([*variables, *cells]),
                           co_localspluskinds=self.byte_string(kinds))
        else:
            self.build.put("PyCodeObject", at, co_nlocals=len(variables), co_varnames=self._strings(variables),
                           co_cellvars=self._strings(cells), co_freevars=self._strings(()),
                           co_code=self.byte_string(instructions))
        if "co_qualname" in known:
            self.build.put("PyCodeObject", at, co_qualname=self.string(qualified_name or name))
        if modern:
            self.build.put("PyVarObject", at, ob_size=size // 2)
            self.build.put("PyCodeObject", at, _co_firsttraceable=first_traceable)
        return at

    def _strings(self, texts: Sequence[str]) -> int:
        return self.tuple_object(*map(self.string, texts))

    # -- frames ----------------------------------------------------------------------------------------------

    def frame(self, code: int, previous: int = 0, offset: int = 8, owner: int = 0, at: int | None = None,
              **more: int) -> int:
        """A Python frame at a byte offset of its code, at the address `at` or on the heap."""
        if "_PyInterpreterFrame" not in self.layouts:
            unit = 2 if self.version_tuple >= (3, 10) else 1
            at = self.build.alloc(self.layouts["PyFrameObject"].size + _ROOM) if at is None else at
            return self.build.put("PyFrameObject", at, f_back=previous, f_code=code, f_lasti=offset // unit, **more)
        known = self.layouts["_PyInterpreterFrame"]
        at = self.build.alloc(known.size + _ROOM) if at is None else at
        executable = "f_executable" if "f_executable" in known else "f_code"
        instruction = "instr_ptr" if "instr_ptr" in known else "prev_instr"
        base = code + self.layouts["PyCodeObject"].offset("co_code_adaptive")
        # since 3.14 the pointer carries a tag
        members = {executable: code | (1 if self.version_tuple >= (3, 14) else 0), instruction: base + offset}
        return self.build.put("_PyInterpreterFrame", at, previous=previous, owner=owner, **members, **more)

    def fill(self, frame: int, variables: Sequence[int] = (), stack: Sequence[int] = (), namespace: int = 0) -> int:
        """Set the variables, value stack (``PyObject *``) and globals of a frame; returns the frame.

        The depth of the value stack is set if the version always records it. The values are tagged as in the version.
        """
        slots = [*variables, *stack]
        if self.version_tuple >= (3, 14):
            slots = [slot or 1 for slot in slots]  # NULL
        if "_PyInterpreterFrame" not in self.layouts:
            at = frame + self.layouts["PyFrameObject"].offset("f_localsplus")
            self.build.put("PyFrameObject", frame, f_valuestack=at + 8 * len(variables), f_globals=namespace)
            if "f_stackdepth" in self.layouts["PyFrameObject"]:
                self.build.put("PyFrameObject", frame, f_stackdepth=-1)
        else:
            known = self.layouts["_PyInterpreterFrame"]
            at = frame + known.offset("localsplus")
            if "stackpointer" in known:
                self.build.put("_PyInterpreterFrame", frame, stackpointer=at + 8 * len(slots))
            else:
                self.build.put("_PyInterpreterFrame", frame, stacktop=-1)
            self.build.put("_PyInterpreterFrame", frame, f_globals=namespace)
        self.memory.u64(at, *slots)
        return frame

    def in_with(self, managers: Sequence[Exit], waiting: Exit | None = None, variables: Sequence[tuple[str, int]] = (),
                previous: int = 0, names: Sequence[str] = (), function: str = "work", namespace: int = 0,
                file: str = "/app/job.py") -> int:
        """A frame inside nested `with` blocks; the first begins on line 101, the next on line 102, and so on.

        :param managers: the entries of the blocks on the value stack, outermost first.
        :param waiting: the entry of a manager that is not entered yet.
        """
        each, count = (2, len(managers)) if self.version_tuple >= (3, 14) else (1, len(managers))
        protected, instructions, blocks = [], bytearray(120), []
        for i in range(count):
            handler = 100 - 4 * i
            end = 10 * i + 22 if i + 1 < count else 60
            protected.append((10 * i + 12, end, handler, each * (i + 1)))
            if i:  # an exception in a handler is handled outside of its block
                protected.append((handler, handler + 4, handler + 4, each * i))
            unit = 2 if self.version_tuple >= (3, 10) else 1
            instructions[10 * i + 10:10 * i + 12] = bytes([_SETUP_WITH, (handler - 10 * i - 12) // unit])
            blocks.append((122, handler // unit, each * (i + 1)))
        if waiting is not None:
            entering = 10 * count + 10
            # since 3.14 an ordinary call, with three units of caches, calls __enter__
            protected.append((entering + (8 if self.version_tuple >= (3, 14) else 2), 60, 100 - 4 * count,
                              each * (count + 1)))
            instructions[entering] = _SETUP_WITH
        at = self.frame(self.code(function, 100, 120, ten_byte_lines(self.version_tuple), file, first_traceable=0,
                                  variables=[name for name, _ in variables], names=names,
                                  exceptions=exception_table(protected), instructions=bytes(instructions)),
                        previous, 10 * count + 10 if waiting is not None else 10 * count + 4)
        stack = [slot for manager in [*managers, *([waiting] if waiting is not None else [])] for slot in manager]
        self.fill(at, [value for _, value in variables], stack, namespace)
        if "PyTryBlock" in self.layouts:
            known, block = self.layouts["PyFrameObject"], self.layouts["PyTryBlock"]
            self.build.put("PyFrameObject", at, f_iblock=count)
            for i, (kind, handler, level) in enumerate(blocks):
                self.build.put("PyTryBlock", at + known.offset("f_blockstack") + i * block.size, b_type=kind,
                               b_handler=handler, b_level=level)
        return at

    def between_acquire_and_release(self, lock: int, variable: str = "lock", previous: int = 0, namespace: int = 0, *,
                                    releases: bool = True, waits_for: int = 0) -> int:
        """A frame that has called ``acquire`` of a local variable on line 100, and calls something now.

        :param releases: whether it releases the lock in a `finally`.
        :param waits_for: a lock whose ``acquire`` is the call, the value of the variable ``other``.
        """
        known = opcodes_of(*self.version_tuple[:2])
        assert known is not None
        names = {*known.names.values()}
        assemble = partial(bytecode.assemble, known)

        def method(name: int, index: int) -> list[tuple[str, int]]:
            load = ("LOAD_METHOD", name) if "LOAD_METHOD" in names else ("LOAD_ATTR", name << 1 | 1)
            before = [("PRECALL", 0)] if "PRECALL" in names else []
            return [("LOAD_FAST", index), load, *before, ("CALL" if "CALL" in names else "CALL_METHOD", 0)]

        modern = "_PyInterpreterFrame" in self.layouts
        unit = 2 if self.version_tuple >= (3, 10) else 1
        begin = assemble(*method(0, 0), ("POP_TOP", 0))
        now = assemble(*method(0, 1))
        release = assemble(*method(1, 0), ("POP_TOP", 0)) if releases else b""
        rest = assemble(("POP_TOP", 0)) + (b"" if modern else assemble(("POP_BLOCK", 0))) + release + assemble(
            ("LOAD_CONST", 0), ("RETURN_VALUE", 0))
        setup = b"" if modern else assemble(("SETUP_FINALLY", len(now + rest) // unit))
        code = begin + setup + now + rest + release + assemble(
            ("END_FINALLY" if "END_FINALLY" in names else "RERAISE", 0))
        start, end = len(begin + setup), len(begin + setup + now)
        made = self.code("work", 100, len(code), one_line_table(self.version_tuple, len(code)), first_traceable=0,
                         variables=[variable, "other"], names=["acquire", "release"],
                         exceptions=exception_table([(start, end, len(begin + setup + now + rest), 0)]),
                         instructions=code)
        if modern:
            self.memory.write(made + self.layouts["PyCodeObject"].offset("co_code_adaptive"), code)
        last = 2 + 2 * known.caches.get("CALL", 0)
        return self.fill(self.frame(made, previous, end - last), [lock, waits_for], namespace=namespace)

    def generator_of(self, body: int, references: int = 1) -> int:
        """A generator that is suspended in a frame; the frame is used up."""
        version = self.version_tuple
        generator = self._object("generator", 2048)
        if "ob_ref_local" in self.layouts["PyObject"]:
            self.build.put("PyObject", generator, ob_ref_local=references)
        else:
            self.build.put("PyObject", generator, ob_refcnt=references)
        if version < (3, 11):
            top = body + self.layouts["PyFrameObject"].size
            state = {"f_stackdepth": 1, "f_state": -1} if version >= (3, 10) else {"f_stacktop": top}
            self.build.put("PyFrameObject", body, **state)
            return self.build.put("PyGenObject", generator, gi_frame=body)
        place = self.build.member("PyGenObject", generator, "gi_iframe")
        self.memory.write(place, self.memory.read(body, self.layouts["_PyInterpreterFrame"].size + 128))
        if "stackpointer" in self.layouts["_PyInterpreterFrame"]:
            known = self.build.member("_PyInterpreterFrame", body, "stackpointer")
            top = int.from_bytes(self.memory.read(known, 8), "little")
            self.build.put("_PyInterpreterFrame", place, stackpointer=top - body + place)
        state_number = 1 if version >= (3, 15) else -2 if version >= (3, 13) else -1
        return self.build.put("PyGenObject", generator, gi_frame_state=state_number)

    def exit_of(self, manager: int, name: str = "__exit__") -> Exit:
        """The entry of a `with` statement on the value stack, for a manager written in C."""
        if self.version_tuple >= (3, 14):
            return self.method_descriptor(name), manager
        return (self.builtin_method(name, manager),)

    def python_exit_of(self, manager: int, name: str = "__exit__") -> Exit:
        """The entry of a `with` statement on the value stack, for a manager written in Python."""
        if self.version_tuple >= (3, 14):
            return self.function(name), manager
        return (self.method(self.function(name), manager),)

    def innermost(self, tstate: int, frame: int) -> None:
        """Make a frame the newest one of a thread state."""
        if "current_frame" in self.layouts["PyThreadState"]:
            self.build.put("PyThreadState", tstate, current_frame=frame)
        elif self.version_tuple >= (3, 11):
            root = self.build.member("PyThreadState", tstate, "root_cframe")
            cframe = self.build.new("_PyCFrame", current_frame=frame, previous=root)
            self.build.put("PyThreadState", tstate, cframe=cframe)
        else:
            self.build.put("PyThreadState", tstate, frame=frame)

    def stack(self, tstate: int, calls: Sequence[Call]) -> None:
        """Give a thread state a Python stack, innermost call first."""
        version = self.version_tuple
        previous = cframe = 0
        if version >= (3, 15):
            previous = self._shim(0, None)
        if (3, 11) <= version < (3, 13):
            cframe = self.build.member("PyThreadState", tstate, "root_cframe")
        for call in reversed(calls):
            if version >= (3, 12):
                previous = self._shim(previous, call.anchor)
            elif version >= (3, 11):
                cframe = self.build.put("_PyCFrame", call.anchor, previous=cframe)
            for i, (name, line) in enumerate(reversed(call.functions)):
                more = {"is_entry": int(i == 0)} if (3, 11) <= version < (3, 12) else {}
                previous = self.frame(self.code(name, line), previous, **more)
        if "current_frame" in self.layouts["PyThreadState"]:
            self.build.put("PyThreadState", tstate, current_frame=previous)
        elif version >= (3, 11):
            self.build.put("_PyCFrame", cframe, current_frame=previous)
            self.build.put("PyThreadState", tstate, cframe=cframe)
        else:
            self.build.put("PyThreadState", tstate, frame=previous)

    def _shim(self, previous: int, at: int | None) -> int:
        at = self.build.alloc(self.layouts["_PyInterpreterFrame"].size) if at is None else at
        return self.build.put("_PyInterpreterFrame", at, previous=previous, owner=3)

    # -- the runtime -----------------------------------------------------------------------------------------

    def runtime(self, path: str | None = None) -> Module:
        """A runtime without interpreters; returns its module."""
        major, minor, micro = self.version_tuple
        path = path or f"/usr/lib/libpython{major}.{minor}.so.1.0"
        at = self.build.alloc(self.layouts["_PyRuntimeState"].size)
        self.runtime_address = at
        text = self.build.alloc(0x1000)
        rodata = self.build.alloc(0x100)
        self.memory.write(rodata, b"\0" + self.version.encode() + b"\0")
        if self.version_tuple >= (3, 13):
            self.memory.write(at, b"xdebugpy")
            self.memory.u64(at + 8, major << 24 | minor << 16 | micro << 8 | 0xF0, int(self.free_threaded))
            self.build.put("_Py_DebugOffsets", at, **self.debug_offsets())
        self.module = Module(path, (
            Section(".PyRuntime", at, at + self.layouts["_PyRuntimeState"].size),
            Section(".text", text, text + 0x1000),
            Section(".rodata", rodata, rodata + 0x100)))
        return self.module

    def debug_offsets(self) -> dict[str, int]:
        """The contents of ``_Py_DebugOffsets`` of this version."""
        wanted = self.layouts["_Py_DebugOffsets"]
        found = {}
        for group, (struct_name, members) in debug_offsets().items():
            for theirs, ours in members.items():
                if f"{group}.{theirs}" in wanted:
                    found[f"{group}.{theirs}"] = self.layouts[struct_name].offset(ours)
        embedded, gil = self.layouts["PyInterpreterState"].offset("gil_embedded"), self.layouts["_gil_runtime_state"]
        return {**found, "interpreter_state.gil_runtime_state": embedded,
                "interpreter_state.gil_runtime_state_locked": embedded + gil.offset("locked"),
                "interpreter_state.gil_runtime_state_holder": embedded + gil.offset("last_holder")}

    def interpreter(self, number: int = 0, following: int = 0, **members: int) -> int:
        """An interpreter at the head of the runtime's list, with a free GIL.

        Since 3.12 it has its own GIL; before that the runtime has the only one.
        """
        at = self.build.new("PyInterpreterState", id=number, next=following, **members)
        if "gil" in self.layouts["PyInterpreterState"]:
            gil = self.build.member("PyInterpreterState", at, "gil_embedded")
            self.build.put("PyInterpreterState", at, gil=gil, own_gil=1)
        else:
            gil = self.build.member("_PyRuntimeState", self.runtime_address, "ceval_gil")
        self.build.put("_gil_runtime_state", gil, interval=5000, locked=0)
        self.build.put("_PyRuntimeState", self.runtime_address, interpreters_head=at)
        return at

    def gil_of(self, interpreter: int) -> int:
        """The address of an interpreter's GIL."""
        known = self.layouts["PyInterpreterState"]
        if "gil" in known:
            return int.from_bytes(self.memory.read(interpreter + known.offset("gil"), 8), "little")
        return self.build.member("_PyRuntimeState", self.runtime_address, "ceval_gil")

    def thread(self, interpreter: int, pthread: int, **members: int) -> int:
        """A thread state at the head of an interpreter's list."""
        known = self.layouts["PyInterpreterState"]["tstate_head"]
        head = int.from_bytes(self.memory.read(interpreter + known.offset, 8), "little")
        at = self.build.new("PyThreadState", interp=interpreter, thread_id=pthread, next=head, **members)
        if head:
            self.build.put("PyThreadState", head, prev=at)
        self.build.put("PyInterpreterState", interpreter, tstate_head=at)
        return at

    def take_gil(self, interpreter: int, tstate: int) -> int:
        """Make a thread state hold the GIL; returns the GIL's address."""
        return self.build.put("_gil_runtime_state", self.gil_of(interpreter), locked=1, last_holder=tstate)


def ten_byte_lines(version: tuple[int, ...], count: int = 12) -> bytes:
    """A line table with a new line every ten bytes of instructions."""
    if version >= (3, 11):
        return b"".join(bytes([0x80 | 13 << 3 | 4, 2 if i else 0]) for i in range(count))
    return bytes([10, 0] + [10, 1] * (count - 1)) if version >= (3, 10) else bytes([10, 1] * count)


def exception_table(entries: Sequence[tuple[int, int, int, int]]) -> bytes:
    """An exception table of (start, end, handler, depth), sorted by start; all except the depth are in bytes."""
    table = b""
    for start, end, handler, depth in sorted(entries):
        for i, number in enumerate((start // 2, (end - start) // 2, handler // 2, depth << 1)):
            digits = [number & 0x3F]
            while number > 0x3F:
                number >>= 6
                digits.append(number & 0x3F | 0x40)
            digits.reverse()
            digits[0] |= 0x80 if i == 0 else 0
            table += bytes(digits)
    return table


def one_line_table(version: tuple[int, ...], size: int) -> bytes:
    """A line table in which all `size` bytes of instructions are on the first line."""
    if version >= (3, 11):
        table, units = b"", size // 2
        while units:
            step = min(units, 8)
            table += bytes([0x80 | 13 << 3 | step - 1, 0])
            units -= step
        return table
    if version >= (3, 10):
        return bytes([size, 0])
    return b""
