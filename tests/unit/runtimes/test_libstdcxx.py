from __future__ import annotations

import struct
import time
from collections.abc import Sequence

import pytest

from gdbext.runtimes.libstdcxx import (
    CxxException,
    class_of,
    find_exceptions,
    is_text,
    read_string,
    read_type_name,
    readable_type,
)
from tests.support.fake_cxx import (
    CLASS,
    FUNDAMENTAL,
    GNU,
    HEAP,
    IMAGE,
    IMAGE_SIZE,
    LLVM,
    POINTER,
    SI,
    VMI,
    Program,
    in_image,
)
from tests.support.fake_memory import FakeMemory, NoiseMemory, noise

RUNTIME = "text of its std::runtime_error"


@pytest.fixture
def program() -> Program:
    return Program()


# -- types ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("stored", "expected"), [
    ("St13runtime_error", "St13runtime_error"), ("*N12_GLOBAL__N_11AE", "N12_GLOBAL__N_11AE"), ("i", "i"),
    ("3été", "3été"), ("", None), ("*", None), ("has space", None), ("**i", None), ("tab\t", None),
])
def test_type_name(program: Program, stored: str, expected: str | None) -> None:
    assert read_type_name(program.memory, program.type(stored)) == expected


def test_type_name_when_invalid_is_none(program: Program) -> None:
    type_info = program.type("i")
    program.memory.u64(type_info + 8, 0xDEAD_0000)
    assert read_type_name(program.memory, type_info) is None
    program.memory.map(HEAP + 0x10_0000, b"\xff\xfe\0")
    program.memory.u64(type_info + 8, HEAP + 0x10_0000)
    assert read_type_name(program.memory, type_info) is None
    assert read_type_name(FakeMemory(), type_info) is None


def test_type_name_when_long_is_truncated(program: Program) -> None:
    type_info = program.type("i")
    program.memory.map(HEAP + 0x10_0000, b"x" * 0x10_0000)
    program.memory.u64(type_info + 8, HEAP + 0x10_0000)
    program.memory.reads.clear()
    name = read_type_name(program.memory, type_info)
    assert name == "x" * 4096
    assert sum(size for _, size in program.memory.reads) < 10_000


def test_readable_type() -> None:
    names = {"_ZTISt13runtime_error": "typeinfo for std::runtime_error", "_ZTIi": "typeinfo for int"}
    assert readable_type("St13runtime_error", lambda name: names.get(name, name)) == "std::runtime_error"
    assert readable_type("i", lambda name: names.get(name, name)) == "int"
    assert readable_type("odd", lambda name: names.get(name, name)) == "odd"


# -- objects --------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("kind", [CLASS, SI, VMI])
@pytest.mark.parametrize("top", [0, -8, -4096])
def test_class_of_object(program: Program, kind: str, top: int) -> None:
    thing = program.heap(8)
    program.memory.u64(thing, program.vtable(program.type("5Shape", kind, 0, 0), top))
    assert class_of(program.memory, in_image, thing) == "5Shape"


@pytest.mark.parametrize("kind", [POINTER, FUNDAMENTAL])
def test_class_of_when_type_is_not_a_class_is_none(program: Program, kind: str) -> None:
    thing = program.heap(8)
    program.memory.u64(thing, program.vtable(program.type("i", kind)))
    assert class_of(program.memory, in_image, thing) is None


@pytest.mark.parametrize("top", [8, -(1 << 40), (1 << 63) - 1])
def test_class_of_when_offset_to_top_is_implausible_is_none(program: Program, top: int) -> None:
    thing = program.heap(8)
    program.memory.u64(thing, program.vtable(program.type("5Shape"), top))
    assert class_of(program.memory, in_image, thing) is None


def test_class_of_when_not_an_object_is_none(program: Program) -> None:
    memory = program.memory
    shape = program.type("5Shape")
    thing = program.heap(16)
    for pointer in (0, 1, HEAP, HEAP + 0x110, IMAGE, program.text("text"), shape, (1 << 64) - 8,
                    program.vtable(shape) + 1, IMAGE + IMAGE_SIZE - 8):
        memory.u64(thing, pointer)
        assert class_of(memory, in_image, thing) is None, hex(pointer)
    memory.u64(thing, program.vtable(shape))
    assert class_of(memory, in_image, thing) == "5Shape"
    assert class_of(memory, in_image, thing + 1) is None
    assert class_of(memory, in_image, 0xDEAD_0000) is None


def test_class_of_when_type_is_on_the_heap_is_none(program: Program) -> None:
    """Heap data cannot imitate an object, and other languages have no such types."""
    memory = program.memory
    thing, fake = program.heap(8), program.heap(256)
    shape = program.type("5Shape")
    memory.u64(fake, 0, shape, 0)
    memory.u64(thing, fake + 16)
    assert class_of(memory, in_image, thing) is None, "the table"
    memory.write(fake, memory.read(shape, 16))
    memory.u64(thing, program.vtable(fake))
    assert class_of(memory, in_image, thing) is None, "the type"
    memory.write(fake, b"5Shape\0")
    memory.u64(shape + 8, fake)
    memory.u64(thing, program.vtable(shape))
    assert class_of(memory, in_image, thing) is None, "the name"


def test_class_of_when_type_describes_itself_is_none(program: Program) -> None:
    type_info = program.image(32)
    program.memory.u64(type_info, program.vtable(type_info), program.text("5Shape"))
    thing = program.heap(8)
    program.memory.u64(thing, program.vtable(type_info))
    assert class_of(program.memory, in_image, thing) is None


# -- exceptions -----------------------------------------------------------------------------------------------

@pytest.mark.parametrize("library", [GNU, LLVM], ids=["GNU", "LLVM"])
@pytest.mark.parametrize("offset", [-0x80, -0x70, -0x20, 0], ids=["block", "header", "unwind header", "object"])
def test_find_exceptions_by_pointers_to_any_part(program: Program, library: bytes, offset: int) -> None:
    thrown = program.throw(program.type("7Problem"), library=library)
    assert program.find(1, thrown + offset, thrown + offset, thrown) == [CxxException(thrown, "7Problem", True)]


@pytest.mark.parametrize("library", [GNU, LLVM], ids=["GNU", "LLVM"])
def test_exception_is_caught_when_it_has_handlers(program: Program, library: bytes) -> None:
    for handlers, expected in ((0, False), (1, True), (-1 & 0xFFFFFFFF, True)):
        (found,) = program.find(program.throw(program.type("7Problem"), handlers=handlers, library=library))
        assert found.is_caught is expected


def test_find_exceptions_of_another_language_is_empty(program: Program) -> None:
    assert program.find(program.throw(program.type("7Problem"), library=b"TSUR\0ZOM")) == []
    assert program.find(program.throw(program.type("7Problem"), library=b"\2++CCUNG")) == []


@pytest.mark.parametrize("references", [0, -1 & 0xFFFFFFFF, 0x5555_0012])
def test_find_exceptions_when_freed_is_empty(program: Program, references: int) -> None:
    assert program.find(program.throw(program.type("7Problem"), references=references)) == []


def test_find_exceptions_when_freed_in_a_low_heap_is_empty(program: Program) -> None:
    """The free() of glibc stores `address >> 12` over the reference count: a small number if the program is not PIE."""
    thrown = program.throw(program.type("7Problem"), references=0x1C3D)
    program.memory.u64(thrown - 0x78, 0x9D2C_51B8_0F33_0E6A)
    assert program.find(thrown) == []


def test_find_exceptions_when_memory_changes_meanwhile_is_empty(
        program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is not stopped may free an exception between two reads of its class."""
    thrown = program.throw(program.type("7Problem"))
    read, seen = program.memory.read, []

    def read_once(address: int, size: int) -> bytes:
        data = read(address, size)
        if GNU in data or data[1:] == GNU[1:]:
            seen.append(address)
            return data if len(seen) == 1 else bytes(size)
        return data

    monkeypatch.setattr(program.memory, "read", read_once)
    assert program.find(thrown) == []
    assert len(seen) > 1


def test_find_exceptions_when_not_an_exception_is_empty(program: Program) -> None:
    memory, type_info = program.memory, program.type("7Problem")
    thrown = program.throw(type_info)
    for member, value in ((-0x70, 0), (-0x70, HEAP), (-0x70, program.text("text")), (-0x58, 0), (-0x58, HEAP)):
        kept = memory.read(thrown + member, 8)
        memory.u64(thrown + member, value)
        assert program.find(thrown) == [], member
        memory.write(thrown + member, kept)
    assert len(program.find(thrown)) == 1
    # the class of an exception without the members before it
    memory.map(0x6000_0000_0000, GNU + bytes(24))
    assert program.find(0x6000_0000_0000, 0x6000_0000_0020, thrown + 8, 0, (1 << 64) - 16) == []


@pytest.mark.parametrize("library", [GNU, LLVM], ids=["GNU", "LLVM"])
def test_find_exceptions_when_dependent_has_the_primary(program: Program, library: bytes) -> None:
    primary = program.throw(program.type("7Problem"), library=library)
    dependent = program.throw(0, library=b"\1" + library[1:])
    program.memory.u64(dependent - 0x20 - (0x50 if library == GNU else 0x58), primary)
    expected = [CxxException(primary, "7Problem", True)]
    assert program.find(dependent - 0x20) == expected
    assert program.find(dependent - 0x20, primary) == expected
    for elsewhere in (dependent, HEAP, 0xDEAD_0000):
        program.memory.u64(dependent - 0x20 - (0x50 if library == GNU else 0x58), elsewhere)
        assert program.find(dependent - 0x20) == []


def test_find_exceptions_when_nested_are_newest_first(program: Program) -> None:
    old, other = program.throw(program.type("3Old")), program.throw(program.type("5Other"), handlers=0)
    middle = program.throw(program.type("6Middle"), following=old - 0x70)
    new = program.throw(program.type("3New"), following=middle - 0x70)
    expected = ["3New", "6Middle", "3Old"]
    assert [found.type for found in program.find(new)] == expected
    assert [found.type for found in program.find(old, new, middle)] == expected
    assert [found.type for found in program.find(other, middle, old, new)] == ["5Other", *expected]
    # an exception that is not handled is not in a list
    program.memory.u64(other - 0x50, new - 0x70)
    assert [found.type for found in program.find(other)] == ["5Other"]


def test_find_exceptions_when_list_is_cyclic_or_endless_is_bounded(program: Program) -> None:
    one = program.throw(program.type("3One"))
    two = program.throw(program.type("3Two"), following=one - 0x70)
    program.memory.u64(one - 0x50, two - 0x70)
    assert {found.type for found in program.find(one, two)} == {"3One", "3Two"}
    program.memory.u64(one - 0x50, one - 0x70)
    assert [found.type for found in program.find(one)] == ["3One"]
    program.memory.u64(one - 0x50, 0xDEAD_0000)
    assert [found.type for found in program.find(one)] == ["3One"]
    last = one
    for _ in range(60):
        last = program.throw(program.type("1A"), following=last - 0x70)
    assert len(program.find(last)) == 32


# -- messages -------------------------------------------------------------------------------------------------

def standard(program: Program, name: str = "St13runtime_error") -> int:
    return program.type(name, SI, program.type("St9exception"))


@pytest.mark.parametrize("library", [GNU, LLVM], ids=["GNU", "LLVM"])
@pytest.mark.parametrize("name", ["St13runtime_error", "St11logic_error"])
def test_standard_exception(program: Program, library: bytes, name: str) -> None:
    thrown = program.throw(standard(program, name), [0, program.shared_string(b"not ready")], library=library)
    assert program.what(thrown) == ("not ready", "recorded", f"text of its std::{name[4:]}")


def test_derived_exception(program: Program) -> None:
    derived = program.type("7Derived", SI, program.type("6Middle", SI, standard(program)))
    thrown = program.throw(derived, [0, program.shared_string(b"not ready")])
    assert program.what(thrown) == ("not ready", "recorded", RUNTIME)


def test_exception_as_second_base(program: Program) -> None:
    derived = program.many("7Derived", (program.type("5First"), 2), (standard(program), 0x10 << 8 | 2))
    thrown = program.throw(derived, [0, 0, 0, program.shared_string(b"not ready")])
    assert program.what(thrown) == ("not ready", "recorded", RUNTIME)


def test_exception_as_a_virtual_base(program: Program) -> None:
    # the virtual table has the offset 24 bytes before its address
    derived = program.many("7Derived", (standard(program), -24 << 8 | 3))
    vtable = program.vtable(derived, 0, [0x18])
    thrown = program.throw(derived, [vtable, 0, 0, 0, program.shared_string(b"not ready")])
    assert program.what(thrown) == ("not ready", "recorded", RUNTIME)
    for broken in (HEAP, 0, 0xDEAD_0000):
        program.memory.u64(thrown, broken)
        assert program.what(thrown) == (None, None, None)


def test_text_when_string_is_damaged_is_not_recorded(program: Program) -> None:
    text = program.shared_string(b"not ready")
    thrown = program.throw(standard(program), [0, text])
    for length, capacity in ((10, 9), (1 << 60, 1 << 61), (1 << 31, 1 << 31), (5, 9)):
        program.memory.u64(text - 24, length, capacity)
        assert program.what(thrown)[1] != "recorded"
    for pointer in (0, 8, 0xDEAD_0000, (1 << 64) - 1):
        program.memory.u64(thrown + 8, pointer)
        assert program.what(thrown) == (None, None, None)


def test_text_when_long_is_truncated(program: Program) -> None:
    program.memory.map(HEAP + 0x10_0000, struct.pack("<QQQ", 20_000, 20_000, 0) + b"x" * 20_000 + b"\0")
    thrown = program.throw(standard(program), [0, HEAP + 0x10_0018])
    assert program.what(thrown)[0] == "x" * 4096


def test_text_when_not_utf_8_is_escaped(program: Program) -> None:
    thrown = program.throw(standard(program), [0, program.shared_string(b"caf\xe9")])
    assert program.what(thrown) == ("caf\\xe9", "recorded", RUNTIME)


def test_filesystem_error(program: Program) -> None:
    system = program.type("St12system_error", SI, standard(program))
    error = program.type("NSt10filesystem7__cxx1116filesystem_errorE", SI, system)
    shared = program.heap(112)
    program.string(shared + 80, b"cannot copy [/from] [/to]")
    thrown = program.throw(error, [0, program.shared_string(b"cannot copy"), 0, 0, shared])
    why = "text of its std::filesystem::filesystem_error"
    assert program.what(thrown) == ("cannot copy [/from] [/to]", "recorded", why)
    program.memory.u64(thrown + 32, 0xDEAD_0000)
    assert program.what(thrown) == ("cannot copy", "recorded", RUNTIME)


@pytest.mark.parametrize(("name", "data", "expected"), [
    ("i", struct.pack("<i", -42), "-42"), ("j", struct.pack("<I", 1 << 31), "2147483648"),
    ("l", struct.pack("<q", -1), "-1"), ("y", b"\xff" * 8, "18446744073709551615"), ("a", b"\x80", "-128"),
])
def test_thrown_number(program: Program, name: str, data: bytes, expected: str) -> None:
    thrown = program.throw(program.type(name, FUNDAMENTAL))
    program.memory.write(thrown, data)
    assert program.what(thrown) == (expected, "recorded", "the thrown value")


def test_thrown_text(program: Program) -> None:
    literal = program.throw(program.type("PKc", POINTER), [program.text("a literal")])
    assert program.what(literal) == ("a literal", "recorded", "the thrown value")
    thrown = program.throw(program.type("NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"))
    program.string(thrown, b"a string")
    assert program.what(thrown) == ("a string", "recorded", "the thrown value")
    shared = program.throw(program.type("Ss"), [program.shared_string(b"an old string")])
    assert program.what(shared) == ("an old string", "recorded", "the thrown value")
    assert program.what(program.throw(program.type("PKc", POINTER), [0xDEAD_0000])) == (None, None, None)


@pytest.mark.parametrize("text", [b"gone", b"handle 9 is gone, and that is a long text", "schön".encode()])
@pytest.mark.parametrize("offset", [8, 16, 40])
def test_text_in_string_member(program: Program, text: bytes, offset: int) -> None:
    own = program.type("3Own", SI, program.type("St9exception"))
    thrown = program.throw(own)
    program.string(thrown + offset, text)
    assert program.what(thrown) == (text.decode(), "inferred", "the first std::string in the object")


def test_text_in_other_members(program: Program) -> None:
    own = program.type("3Own", SI, program.type("St9exception"))
    constant = "the first constant text that the object points to"
    assert program.what(program.throw(own, [0, 5, program.text("constant")])) == ("constant", "inferred", constant)
    shared = program.throw(own, [0, program.text("file.cc"), program.shared_string(b"gone")])
    assert program.what(shared) == ("gone", "inferred", "the first shared string of the object")


def test_text_when_none_is_stored_is_none(program: Program) -> None:
    base = program.type("St9exception")
    own = program.type("3Own", SI, base)
    assert program.what(program.throw(own)) == (None, None, None)
    # an empty string, bytes that are not characters, and a text that is too short
    thrown = program.throw(own, [0, 0, 0, 0, 0, 0, 0, 0, 0, program.text("abc")])
    program.string(thrown + 8, b"")
    program.string(thrown + 40, b"\x01\x02\xff")
    assert program.what(thrown) == (None, None, None)
    # a class without the base need not have a text
    plain = program.throw(program.type("5Plain"))
    program.string(plain + 8, b"a name")
    assert program.what(plain) == (None, None, None)


def test_text_behind_the_object_is_ignored(program: Program) -> None:
    own = program.type("3Own", SI, program.type("St9exception"))
    thrown = program.throw(own, size=0x10)
    program.string(thrown + 0x28, b"of a neighbour")
    assert program.what(thrown) == (None, None, None)
    # an allocator without sizes
    program.memory.u64(thrown - 0x88, 0)
    assert program.what(thrown)[0] == "of a neighbour"


def test_bases_when_cyclic_end(program: Program) -> None:
    one = program.type("3One", SI, 0)
    two = program.type("3Two", SI, one)
    program.memory.u64(one + 16, two)
    assert program.what(program.throw(two)) == (None, None, None)
    program.memory.u64(one + 16, one)
    assert program.what(program.throw(one)) == (None, None, None)


def test_bases_when_count_is_impossible_are_ignored(program: Program) -> None:
    derived = program.many("7Derived", (standard(program), 2))
    thrown = program.throw(derived, [0, program.shared_string(b"not ready")])
    assert program.what(thrown)[0] == "not ready"
    program.memory.write(derived + 20, struct.pack("<I", 0xFFFFFFFF))
    program.memory.reads.clear()
    assert program.what(thrown) == (None, None, None)
    assert len(program.memory.reads) < 1000


def test_bases_when_repeated_are_bounded(program: Program) -> None:
    """Each class has the previous one as a base many times, at different offsets."""
    last = program.type("1A")
    for i in range(8):
        last = program.many(f"2A{i}", *[(last, j * 16 << 8 | 2) for j in range(1, 12)])
    start = time.process_time()
    assert program.what(program.throw(last)) == (None, None, None)
    assert time.process_time() - start < 2


# -- texts ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("words", "expected"), [
    ([16, 3], "abc"), ([16, 0], None), ([16, 16], None), ([16, 2], None), ([16, -1], None), ([0, 3], None),
    ([1 << 46, 3, 100], None),
])
def test_read_string(words: Sequence[int], expected: str | None) -> None:
    memory = FakeMemory({HEAP: bytes(64)})
    memory.write(HEAP + 16, b"abc\0")
    start = HEAP + 16 if words[0] == 16 else words[0]
    memory.u64(HEAP, start, words[1] & (1 << 64) - 1, *words[2:])
    assert read_string(memory, HEAP) == expected
    assert read_string(memory, HEAP + 0x1000) is None


def test_empty_string() -> None:
    memory = FakeMemory({HEAP: bytes(64)})
    memory.u64(HEAP, HEAP + 16, 0)
    assert read_string(memory, HEAP) == ""


@pytest.mark.parametrize(("data", "expected"), [
    (b"plain\n", True), ("größer".encode(), True), (b"\x1b[31m", False), (b"caf\xe9", False), (b"a\0b", False)])
def test_is_text(data: bytes, expected: bool) -> None:
    assert is_text(data) is expected


# -- hostile memory -------------------------------------------------------------------------------------------

@pytest.mark.parametrize("seed", range(30))
def test_find_exceptions_when_memory_is_random_raises_nothing(seed: int) -> None:
    words = struct.unpack("<512Q", noise(4096, seed))
    memory = NoiseMemory(seed)
    start = time.process_time()
    near = [word % (1 << 20) * 16 for word in words]
    assert find_exceptions(memory, [*words, *near], lambda _: True) == []
    assert [class_of(memory, lambda _: True, word) for word in (*words, *near)] == [None] * 1024
    assert time.process_time() - start < 5


def test_find_exceptions_when_memory_is_partial_raises_nothing(program: Program) -> None:
    """Any readable part of an exception causes no error and no wrong answer."""
    derived = program.type("7Derived", SI, standard(program))
    thrown = program.throw(derived, [0, program.shared_string(b"not ready")])
    image, heap = program.memory.read(IMAGE, IMAGE_SIZE), program.memory.read(HEAP, 0x8000)
    texts = set()
    for cut in range(0, 0x800, 8):
        for low, high in ((0, cut), (cut, IMAGE_SIZE), (cut, cut + 8)):
            # bytes left out between two places
            memory = FakeMemory({HEAP: heap, IMAGE: image[:low], IMAGE + high: image[high:]})
            found = find_exceptions(memory, [thrown], in_image)
            assert [row.type for row in found] in ([], ["7Derived"])
            texts.add(found[0].text if found else "nothing")
    assert texts == {"nothing", None, "not ready"}


def test_find_exceptions_in_many_words_is_fast(program: Program) -> None:
    words = [HEAP + 16 * i for i in range(0x800)] * 64 + [program.throw(program.type("7Problem"))]
    start = time.process_time()
    program.find(*words)
    assert time.process_time() - start < 2
