from __future__ import annotations

import struct
import time
from collections.abc import Sequence

import pytest

from gdbext.arch import x86_64
from gdbext.inferior.protocol import Module, Section
from gdbext.runtimes.libstdcxx import CxxException
from gdbext.runtimes.messages import (
    FatalError,
    PythonError,
    RustPanic,
    abort_message,
    fatal_error_texts,
    fatal_errors,
    filled,
    printed,
    pybind11_error,
    rust_panic,
    without_conversions,
)
from tests.support.fake_elf import fake_elf
from tests.support.fake_memory import FakeMemory, NoiseMemory, noise

BASE, LIBC = 0x7F12_0000_0000, 0x7F34_0000_0000
HEAP, STACK = 0x5555_0000_0000, 0x7FFD_0000_0000
# free space in the fake files
FUNCTIONS, CODE, DATA = 0x3000, 0x3400, 0x3A00
ENDINGS = ("_Py_FatalErrorFunc", "_Py_FatalErrorFormat", "Py_FatalError")


def in_image(address: int) -> bool:
    return BASE <= address < BASE + 0x4000


# -- C library ------------------------------------------------------------------------------------------------

def glibc() -> tuple[FakeMemory, Module]:
    memory, libc = fake_elf(LIBC, {"__abort_msg": (DATA, 8), "abort": (FUNCTIONS, 16)}, "/lib/libc.so.6")
    memory.ensure(LIBC, 0x4000)
    memory.map(HEAP, bytes(0x2000))
    return memory, libc


@pytest.mark.parametrize(("stored", "expected"), [
    (b"free(): invalid pointer\n", "free(): invalid pointer"),
    (b"*** stack smashing detected ***: terminated\n", "*** stack smashing detected ***: terminated"),
    (b"a.c:3: main: Assertion `a\nb' failed.\n", "a.c:3: main: Assertion `a\nb' failed."),
    (b"caf\xe9", "caf\\xe9"), (b"\n", None), (b"", None),
])
def test_abort_message(stored: bytes, expected: str | None) -> None:
    memory, libc = glibc()
    memory.u64(LIBC + DATA, HEAP)
    memory.write(HEAP, struct.pack("<I", 4096) + stored + b"\0")
    assert abort_message(memory, libc) == expected


@pytest.mark.parametrize("message", [0, 1, 0xDEAD_0000, HEAP + 0x1FFE, (1 << 64) - 1])
def test_abort_message_when_unset_is_none(message: int) -> None:
    memory, libc = glibc()
    memory.u64(LIBC + DATA, message)
    assert abort_message(memory, libc) is None


@pytest.mark.parametrize("size", [0, 4, 1 << 21, (1 << 32) - 1])
def test_abort_message_when_size_is_impossible_is_none(size: int) -> None:
    memory, libc = glibc()
    memory.u64(LIBC + DATA, HEAP)
    memory.write(HEAP, struct.pack("<I", size) + b"a text\0")
    assert abort_message(memory, libc) is None


def test_abort_message_ends_with_its_size() -> None:
    memory, libc = glibc()
    memory.u64(LIBC + DATA, HEAP)
    memory.write(HEAP, struct.pack("<I", 12) + b"x" * 100)
    assert abort_message(memory, libc) == "x" * 8
    memory.write(HEAP, struct.pack("<I", 1 << 16) + b"x" * 0x1FFC)
    assert abort_message(memory, libc) == "x" * 4096


def test_abort_message_of_another_c_library_is_none() -> None:
    memory, libc = fake_elf(LIBC, {"abort": (FUNCTIONS, 16)}, "/lib/ld-musl-x86_64.so.1")
    assert abort_message(memory, libc) is None
    assert abort_message(memory, Module("/lib/libc.so.6", ())) is None


# -- Python ---------------------------------------------------------------------------------------------------

class Python:
    """A libpython with code assembled by the test, and the stack of a thread that ends the process."""

    def __init__(self, endings: Sequence[str] = ENDINGS) -> None:
        self.memory, self.libc = glibc()
        symbols = {name: (FUNCTIONS + 16 * i, 16) for i, name in enumerate(endings)}
        code = Section(".text", BASE + FUNCTIONS, BASE + DATA)
        _, self.module = fake_elf(BASE, symbols, "/lib/libpython3.so", [code], memory=self.memory)
        self.memory.ensure(BASE, 0x4000)
        self.functions = {"abort": LIBC + FUNCTIONS, **{name: BASE + at for name, (at, _) in symbols.items()}}
        self._code, self._data = BASE + CODE, BASE + DATA

    def text(self, text: str) -> int:
        at = self._data
        self.memory.write(at, text.encode() + b"\0")
        self._data += len(text.encode()) + 1
        return at

    def load(self, register: str, address: int) -> None:
        modrm = {"rdi": 0x3D, "rsi": 0x35}[register]
        self.emit(b"\x48\x8d" + bytes([modrm]) + struct.pack("<i", address - self._code - 7))

    def emit(self, code: bytes) -> None:
        self.memory.write(self._code, code)
        self._code += len(code)

    def call(self, function: int) -> int:
        """Emit a call and return its return address; far functions are called through a slot."""
        if abs(function - self._code) < 1 << 31:
            self.emit(b"\xe8" + struct.pack("<i", function - self._code - 5))
        else:
            slot = self._data + 7 & ~7
            self.memory.u64(slot, function)
            self._data = slot + 8
            self.emit(b"\xff\x15" + struct.pack("<i", slot - self._code - 6))
        return self._code

    def end(self, name: str) -> int:
        self.emit(b"\x50" + b"\x90" * 70)  # no other call is near
        return self.call(self.functions[name])

    def errors(self, *words: int, registers: Sequence[int] = ()) -> list[FatalError]:
        return fatal_errors(x86_64, self.memory, self.module, self.libc, words, registers, in_image)


def test_fatal_error_with_constant_arguments() -> None:
    python = Python()
    function, message = python.text("PyEval_RestoreThread"), python.text("tstate is NULL")
    expected = FatalError("PyEval_RestoreThread", "tstate is NULL", "derived")
    for first, second in (("rdi", "rsi"), ("rsi", "rdi")):
        python.emit(b"\x90" * 64)
        for register in (first, second):
            python.load(register, function if register == "rdi" else message)
        after = python.call(python.functions["_Py_FatalErrorFunc"])
        assert python.errors(0, function, 7, message, after) == [expected]
        assert python.errors(0, after, registers=[message, function]) == [expected]


def test_fatal_error_with_a_format() -> None:
    python = Python()
    function, message = python.text("PyThreadState_Delete"), python.text("tstate %p is still current")
    python.emit(b"\x90" * 64)
    python.load("rdi", function)
    python.load("rsi", message)
    after = python.call(python.functions["_Py_FatalErrorFormat"])
    expected = FatalError("PyThreadState_Delete", "tstate %p is still current", "derived", True)
    assert python.errors(function, message, after) == [expected]


def test_fatal_error_without_function_name() -> None:
    """Code for the limited API calls a function without a name argument."""
    python = Python()
    message = python.text("the text of a caller")
    python.emit(b"\x90" * 64)
    python.load("rdi", message)
    after = python.call(python.functions["Py_FatalError"])
    assert python.errors(python.text("not_its_function"), message, after) == [
        FatalError(None, "the text of a caller", "derived")]
    assert python.errors(after) == [FatalError(None, "the text of a caller", "inferred")]


def test_fatal_error_in_position_dependent_code() -> None:
    memory, _ = fake_elf(0x40_0000, {}, "/usr/bin/python3")
    python = Python()
    python.memory.map(0x40_0000, memory.read(0x40_0000, 0x1000))
    function, message = 0x40_0100, 0x40_0200
    python.memory.write(function, b"drop_gil\0")
    python.memory.write(message, b"GIL is not locked\0")
    python.emit(b"\x90" * 64 + b"\xbe" + struct.pack("<I", message) + b"\xbf" + struct.pack("<I", function))
    after = python.call(python.functions["_Py_FatalErrorFunc"])
    found = fatal_errors(x86_64, python.memory, python.module, python.libc, [function, message, after], [],
                         lambda address: in_image(address) or 0x40_0000 <= address < 0x40_1000)
    assert found == [FatalError("drop_gil", "GIL is not locked", "derived")]


def test_fatal_error_ignores_arguments_of_earlier_calls() -> None:
    python = Python()
    wrong, function, message = python.text("drop_gil"), python.text("PyThreadState_Get"), python.text("no GIL here")
    python.emit(b"\x90" * 64)
    python.load("rdi", wrong)
    python.load("rsi", python.text("GIL is not locked"))
    python.call(python.functions["_Py_FatalErrorFunc"])
    python.load("rsi", message)
    after = python.call(python.functions["_Py_FatalErrorFunc"])
    expected = FatalError("PyThreadState_Get", "no GIL here", "inferred")
    assert python.errors(function, message, after) == [expected]
    assert python.errors(message, function, after) == [expected]


def test_fatal_error_prefers_saved_texts() -> None:
    python = Python()
    saved, message = python.text("PyThreadState_Get"), python.text("no GIL here")
    python.emit(b"\x90" * 64)
    python.load("rdi", python.text("another_function"))
    python.load("rsi", message)
    after = python.call(python.functions["_Py_FatalErrorFunc"])
    assert python.errors(saved, message, after) == [FatalError("PyThreadState_Get", "no GIL here", "inferred")]
    assert python.errors(message, after) == [FatalError("another_function", "no GIL here", "inferred")]
    assert python.errors(after) == [FatalError("another_function", "no GIL here", "inferred")]


def test_fatal_error_when_arguments_are_not_constant() -> None:
    python = Python()
    function, message = python.text("PyThreadState_Get"), python.text("no GIL here")
    after = python.end("_Py_FatalErrorFunc")
    assert python.errors(function, message, after) == [FatalError("PyThreadState_Get", "no GIL here", "inferred")]
    assert python.errors(after) == [FatalError(None, None, "inferred")]


def test_fatal_error_ignores_the_state_that_python_has_printed() -> None:
    python = Python()
    state, function, message = map(python.text, ("initialized", "PyThreadState_Get", "no GIL here"))
    after = python.end("_Py_FatalErrorFunc")
    (error,) = python.errors(state, function, message, after)
    assert error == FatalError("PyThreadState_Get", "no GIL here", "inferred")


def test_fatal_error_when_function_is_not_exported() -> None:
    python = Python(["_Py_FatalErrorFunc", "Py_FatalError"])
    after = python.end("abort")
    function, message = python.text("PyThreadState_Delete"), python.text("tstate %p is still current")
    assert python.errors(1, after, 2, function, message) == [
        FatalError("PyThreadState_Delete", "tstate %p is still current", "inferred", True)]
    assert python.errors(1, after, *[0] * 60, function, message) == [
        FatalError("PyThreadState_Delete", "tstate %p is still current", "inferred", True, True)]
    constant = python.text("the state is still current")
    assert python.errors(1, after, *[0] * 60, function, constant) == [], "too far away"
    assert python.errors(1, after, *[0] * 160, function, message) == [], "too far away"
    assert python.errors(function, message, after) == [], "on the wrong side"


def test_fatal_error_when_text_is_not_constant() -> None:
    python = Python()
    python.memory.write(HEAP, b"handle 7 is lost\0")
    after = python.end("abort")
    assert python.errors(after, HEAP) == [FatalError(None, "handle 7 is lost", "inferred")]
    python.memory.write(HEAP, b"                \0")
    assert python.errors(after, HEAP) == []


def test_abort_outside_python_is_not_a_fatal_error() -> None:
    python = Python()
    elsewhere = python.end("abort")
    message = python.text("a text that has nothing to do with it")
    somewhere_else = Module("/lib/libother.so", python.module.sections[:1])
    found = fatal_errors(x86_64, python.memory, somewhere_else, python.libc, [elsewhere, message], [], in_image)
    assert found == []
    assert python.errors(message, HEAP, STACK) == []
    assert python.errors() == []


def test_fatal_error_during_another() -> None:
    python = Python()
    afters = []
    texts = []
    for name, said in (("_PyMem_DebugFree", "called without the GIL"), ("PyEval_RestoreThread", "tstate is NULL")):
        texts.append((python.text(name), python.text(said)))
        python.emit(b"\x90" * 64)
        python.load("rdi", texts[-1][0])
        python.load("rsi", texts[-1][1])
        afters.append(python.call(python.functions["_Py_FatalErrorFunc"]))
    words = [python.end("abort"), *texts[0], afters[0], 5, 6, *texts[1], afters[1]]
    inner = FatalError("_PyMem_DebugFree", "called without the GIL", "derived")
    assert python.errors(*words) == [inner, FatalError("PyEval_RestoreThread", "tstate is NULL", "derived")]
    # the address of the next function after such a call, in an outer frame
    assert python.errors(*words[:4], 5, 6, afters[1]) == [inner]


def test_fatal_error_texts_are_in_order() -> None:
    python = Python()
    memory = python.memory
    name, said = python.text("drop_gil"), python.text("GIL is not locked")
    others = [python.text(text) for text in ("ab", "", "short a", "a\x1bescaped text", "1st", "no-function")]
    memory.write(HEAP, b"on the heap, not constant\0")
    words = [*others, said, HEAP, 0, 1, (1 << 64) - 1, name, said, name, 0xDEAD_0000]
    assert fatal_error_texts(memory, words, in_image) == ["GIL is not locked", "drop_gil"]
    assert fatal_error_texts(memory, [HEAP], lambda _: True) == ["on the heap, not constant"]


# -- Rust -----------------------------------------------------------------------------------------------------

class Rust:
    """An image with code locations and texts."""

    def __init__(self) -> None:
        self.memory = FakeMemory({BASE: bytes(0x4000), HEAP: bytes(0x1000)})
        self._next = BASE + 0x100

    def text(self, text: bytes) -> int:
        at = self._next
        self.memory.write(at, text)
        self._next += len(text) + 7 & ~7
        return at

    def place(self, path: bytes, line: int, column: int) -> int:
        file = self.text(path)
        return self.text(struct.pack("<QQII", file, len(path), line, column))

    def panic(self, *words: int) -> RustPanic | None:
        return rust_panic(self.memory, words, in_image)


@pytest.mark.parametrize("path", [b"src/lib.rs", b"src/lib.rs\0"], ids=["text", "text with a NUL"])
def test_rust_panic(path: bytes) -> None:
    rust = Rust()
    place, message = rust.place(path, 7, 14), rust.text(b"a handle is not ready, and more")
    expected = RustPanic("a handle is not ready", "src/lib.rs", 7, 14)
    assert rust.panic(0, message, 9, place, 0, place, message, 21) == expected
    rust.memory.write(HEAP, b"a handle is not ready")
    assert rust.panic(place, 21, HEAP, 21) == expected, "a String: capacity, pointer, length"


def test_rust_panic_place_that_begins_like_a_text_is_not_the_message() -> None:
    rust = Rust()
    place, message = rust.place(b"src/lib.rs", 7, 14), rust.text(b"a handle is not ready")
    rust.memory.write(BASE + 0x94B, b"src/lib.rs")  # the pointer to the name begins with a K
    rust.memory.u64(place, BASE + 0x94B)
    assert rust.panic(place, 1, 0, message, 21) == RustPanic("a handle is not ready", "src/lib.rs", 7, 14)


def test_rust_panic_is_the_innermost() -> None:
    rust = Rust()
    inner, outer = rust.place(b"core/src/panicking.rs", 225, 5), rust.place(b"src/lib.rs", 7, 14)
    message = rust.text(b"panic in a function that cannot unwind")
    assert rust.panic(inner, message, 38, outer) == RustPanic("panic in a function that cannot unwind",
                                                              "core/src/panicking.rs", 225, 5)


def test_rust_panic_without_a_message() -> None:
    rust = Rust()
    place, path = rust.place(b"src/lib.rs", 7, 14), rust.text(b"src/main.rs")
    far = [*[0] * 64, rust.text(b"too far"), 7]
    nothing = RustPanic(None, "src/lib.rs", 7, 14)
    for words in ([], [path, 11], far, [HEAP, 8], [0xDEAD_0000, 8], [7, 7], [path, 0], [path, 5000], [path],
                  [rust.text(b"\xff\xfe\xfd"), 3], [rust.text(b"\x1b[31m"), 5]):
        assert rust.panic(place, *words) == nothing, words


@pytest.mark.parametrize(("line", "column", "path"), [
    (0, 1, b"a.rs"), (1, 0, b"a.rs"), (1 << 30, 1, b"a.rs"), (1, 1 << 20, b"a.rs"), (1, 1, b"a.c"), (1, 1, b".rs"),
    (1, 1, b"\xff\xff.rs"), (1, 1, b"\x1b[31m.rs"),
])
def test_rust_panic_when_location_is_invalid_is_none(line: int, column: int, path: bytes) -> None:
    rust = Rust()
    assert rust.panic(rust.place(path, line, column)) is None


def test_rust_panic_ignores_locations_outside_images() -> None:
    rust = Rust()
    place = rust.place(b"src/lib.rs", 7, 14)
    rust.memory.write(HEAP, rust.memory.read(place, 24))
    assert rust.panic(HEAP, place + 1, place - 4, 0, (1 << 64) - 8, BASE + 0x3FF8) is None
    rust.memory.write(HEAP + 64, b"src/lib.rs")
    rust.memory.u64(place, HEAP + 64)
    assert rust.panic(place) is None, "a name that a program has made"
    rust.memory.u64(place, BASE + 0x100, 1 << 40)
    assert rust.panic(place) is None, "a name without end"


# -- pybind11 -------------------------------------------------------------------------------------------------

ERROR = "N8pybind1117error_already_setE"


def carried() -> FakeMemory:
    memory = FakeMemory({HEAP: bytes(0x1000)})
    memory.u64(HEAP, 0, HEAP + 0x100, HEAP + 0xF0)
    memory.u64(HEAP + 0x100, 0x1111, 0x2222, 0, HEAP + 0x128, 8)
    memory.write(HEAP + 0x128, b"KeyError\0")
    return memory


def test_pybind11_error() -> None:
    memory = carried()
    assert pybind11_error(memory, CxxException(HEAP, ERROR, True)) == PythonError(0x1111, 0x2222, "KeyError")
    assert pybind11_error(memory, CxxException(HEAP, "St13runtime_error", True)) is None


@pytest.mark.parametrize(("place", "value"), [
    (HEAP + 8, 0), (HEAP + 8, 0xDEAD_0000), (HEAP + 0x100, 0), (HEAP + 0x118, 0), (HEAP + 0x120, 0),
    (HEAP + 0x120, 9), (HEAP + 0x120, (1 << 64) - 1),
])
def test_pybind11_error_when_damaged_is_none(place: int, value: int) -> None:
    memory = carried()
    memory.write(HEAP + 0x131, b"x")
    memory.u64(place, value)
    assert pybind11_error(memory, CxxException(HEAP, ERROR, True)) is None


# -- hostile memory -------------------------------------------------------------------------------------------

@pytest.mark.parametrize("seed", range(30))
def test_messages_when_memory_is_random_raise_nothing(seed: int) -> None:
    memory = NoiseMemory(seed)
    words = [word % (1 << 24) for word in struct.unpack("<2048Q", noise(16384, seed))]
    start = time.process_time()
    module, libc = Python().module, glibc()[1]
    assert fatal_errors(x86_64, memory, module, libc, words, words, lambda _: True) == []
    assert rust_panic(memory, words, lambda _: True) is None
    assert abort_message(memory, libc) is None
    for word in words[:64]:
        pybind11_error(memory, CxxException(word, ERROR, True))
    assert time.process_time() - start < 10


def test_messages_when_file_is_truncated_raise_nothing() -> None:
    python = Python()
    function, message = python.text("PyEval_RestoreThread"), python.text("tstate is NULL")
    python.emit(b"\x90" * 64)
    python.load("rdi", function)
    python.load("rsi", message)
    after = python.call(python.functions["_Py_FatalErrorFunc"])
    words = [python.end("abort"), function, message, after]
    results = set()
    for cut in range(0, 0x4000, 0x40):
        torn = FakeMemory({LIBC: python.memory.read(LIBC, 0x4000), BASE: python.memory.read(BASE, cut)})
        found = fatal_errors(x86_64, torn, python.module, python.libc, words, [], in_image)
        results.add(tuple((row.function, row.message) for row in found))
    assert results == {(), ((None, None),), (("PyEval_RestoreThread", "tstate is NULL"),)}


# -- printed formats --------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("form", "data", "text"), [
    ("thread state %p must be current", b"\0\xffthread state 0x7f01 must be current\0",
     "thread state 0x7f01 must be current"),
    ("%s: bug likely caused by a refcount error", b"x\0deallocating None: bug likely caused by a refcount error\n",
     "deallocating None: bug likely caused by a refcount error"),
    ("tstate %p is still current", b"tstate nowhere is still current", None),
    ("no memory left", b"..no memory left..", "no memory left"),
    ("invalid tstate: %s", b"invalid tstate: who knows", None),
    ("%s: %d", b"anything: 7", None)])
def test_printed_text_of_a_format(form: str, data: bytes, text: str | None) -> None:
    assert printed(data, form) == text


def test_format_whose_values_are_not_known() -> None:
    assert without_conversions("%s has %-3ld rows, 100%%") == "... has ... rows, 100%"


def test_values_that_are_known_replace_the_conversions_of_a_format() -> None:
    def text(address: int | None) -> str | None:
        return "a 5 % share" if address == 0x10 else None

    assert filled("%s: %d of %5.1f%% in %u", [0x10, 0xFFFF_FFFF, 3], text) == "a 5 %% share: -1 of %5.1f%% in 3"
    assert filled("%s at %p", [None, 0x20], text) == "%s at %p"
    assert filled("%*d", [3, 4], text) == "%*d"
