from __future__ import annotations

import time

import pytest

from gdbext.cpython.objects import MAX_BYTES, MAX_STRING, Objects
from gdbext.errors import CorruptStructure, GdbextError, MemoryUnreadable
from tests.support import combinations, versions
from tests.support.fake_memory import FakeMemory, NoiseMemory
from tests.support.fake_python import VERSIONS, FakePython, cpython_layouts


@pytest.fixture(params=VERSIONS)
def python(request: pytest.FixtureRequest) -> FakePython:
    return FakePython(FakeMemory(), str(request.param))


def objects(python: FakePython) -> Objects:
    return Objects(python.memory, python.layouts)


# -- str ------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("text", ["", "work", "/srv/app/job.py", "Größe", "тест", "数据\u3000", "😀 in file", "a\0b"],
                         ids=["empty", "ascii", "path", "latin", "cyrillic", "chinese", "emoji", "null"])
def test_strings(python: FakePython, text: str) -> None:
    assert objects(python).string(python.string(text)) == text


@pytest.mark.parametrize("kind", [1, 2, 4])
def test_string_of_a_wider_kind_than_needed(python: FakePython, kind: int) -> None:
    assert objects(python).string(python.string("abc", kind)) == "abc"


def test_lone_surrogate_is_replaced(python: FakePython) -> None:
    # the result of os.fsdecode for a file name that is not UTF-8
    text = objects(python).string(python.string("a\udcffb"))
    assert (text[0], text[-1]) == ("a", "b")
    text.encode()


def test_characters_beyond_unicode_are_replaced(python: FakePython) -> None:
    at = python.string("ab", 4)
    python.memory.write(at + python.layouts["PyCompactUnicodeObject"].size, b"\xff" * 8)
    objects(python).string(at).encode()


def test_long_string_is_cut(python: FakePython) -> None:
    assert objects(python).string(python.string("x" * MAX_STRING)) == "x" * MAX_STRING
    assert objects(python).string(python.string("x" * (MAX_STRING + 1))) == "x" * MAX_STRING + "..."


@pytest.mark.parametrize("kind", [1, 4])
def test_string_that_claims_a_gigabyte(python: FakePython, kind: int) -> None:
    at = python.string("é" * 5000, kind)
    python.build.put("PyASCIIObject", at, length=1 << 30)
    python.memory.reads.clear()
    assert objects(python).string(at) == "é" * MAX_STRING + "..."
    assert max(size for _, size in python.memory.reads) <= 4 * MAX_STRING


def test_string_that_claims_more_than_is_mapped(python: FakePython) -> None:
    at = python.string("short")
    python.build.put("PyASCIIObject", at, length=1 << 30)
    with pytest.raises(MemoryUnreadable):
        objects(python).string(at)


@pytest.mark.parametrize("members", [{"length": -1}, {"state_kind": 0}, {"state_kind": 3}, {"state_kind": 7},
                                     {"state_kind": 2, "state_ascii": 1}])
def test_object_that_is_not_a_string(python: FakePython, members: dict[str, int]) -> None:
    at = python.string("abc")
    python.build.put("PyASCIIObject", at, **members)
    with pytest.raises(CorruptStructure):
        objects(python).string(at)


@pytest.mark.parametrize("version", versions.before(12, VERSIONS))
def test_legacy_string_points_to_its_text(version: str) -> None:
    python = FakePython(FakeMemory(), version)
    at = python.build.alloc(python.layouts["PyUnicodeObject"].size)
    python.build.put("PyASCIIObject", at, length=3, state_kind=2, state_compact=0)
    python.build.put("PyUnicodeObject", at, data=python.build.cstring("日本語".encode("utf-16-le")))
    assert objects(python).string(at) == "日本語"


# -- other objects --------------------------------------------------------------------------------------------

def test_type_names(python: FakePython) -> None:
    reader = objects(python)
    lock = python.build.new("PyObject", ob_type=python.type_object("_thread.lock"))
    assert [reader.type_name(at) for at in (lock, python.string("x"), python.byte_string(b""))] == [
        "_thread.lock", "str", "bytes"]
    python.memory.reads.clear()
    assert reader.type_name(lock) == "_thread.lock"
    assert len(python.memory.reads) == 1


def test_type_name_without_end_is_cut(python: FakePython) -> None:
    at = python.build.new("PyObject", ob_type=python.type_object("x" * 5000))
    assert objects(python).type_name(at) == "x" * 200


def test_type_name_that_is_not_utf8(python: FakePython) -> None:
    kind = python.build.new("PyTypeObject", tp_name=python.build.cstring(b"\xff\xfe"))
    at = python.build.new("PyObject", ob_type=kind)
    assert objects(python).type_name(at) == "\ufffd\ufffd"


def test_object_without_a_type(python: FakePython) -> None:
    with pytest.raises(MemoryUnreadable):
        objects(python).type_name(python.build.new("PyObject"))


def test_bytes(python: FakePython) -> None:
    reader = objects(python)
    assert reader.bytes(python.byte_string(b"")) == b""
    assert reader.bytes(python.byte_string(bytes(range(256)))) == bytes(range(256))


@pytest.mark.parametrize("size", [-1, MAX_BYTES + 1, 1 << 62])
def test_bytes_of_impossible_size(python: FakePython, size: int) -> None:
    at = python.byte_string(b"abc")
    python.build.put("PyVarObject", at, ob_size=size)
    with pytest.raises(CorruptStructure):
        objects(python).bytes(at)


@pytest.mark.parametrize("value", [0, 1, -1, 2**30 - 1, 2**30, -(2**30), 0x7F12_3456_7700, -(2**63), 2**119 + 5])
def test_integers(python: FakePython, value: int) -> None:
    assert objects(python).integer(python.integer(value)) == value


def test_integer_that_is_too_large(python: FakePython) -> None:
    with pytest.raises(CorruptStructure):
        objects(python).integer(python.integer(1 << 121))


# -- dict and attributes --------------------------------------------------------------------------------------

def test_dict(python: FakePython) -> None:
    reader = objects(python)
    keys = [python.string(text) for text in ("threading", "sys", "größe")]
    at = python.dictionary([(keys[0], 0x1000), (keys[1], 0), (0, 0x3000), (keys[2], 0x2000)])
    assert list(reader.dict_items(at)) == [(keys[0], 0x1000), (keys[2], 0x2000)]
    assert [reader.dict_get(at, name) for name in ("threading", "sys", "größe", "x")] == [0x1000, None, 0x2000, None]


def test_dict_of_integers(python: FakePython) -> None:
    key = python.integer(0x7F00_1234)
    at = python.dictionary([(key, 0x1000)], unicode_keys=False)
    assert list(objects(python).dict_items(at)) == [(key, 0x1000)]
    assert objects(python).dict_get(at, "x") is None


def test_empty_dict(python: FakePython) -> None:
    assert list(objects(python).dict_items(python.dictionary([]))) == []


def test_damaged_key_does_not_hide_the_others(python: FakePython) -> None:
    bad = python.string("threading")
    python.build.put("PyASCIIObject", bad, state_kind=0)
    at = python.dictionary([(bad, 0x1000), (0x10, 0x2000), (python.string("threading"), 0x3000)])
    assert objects(python).dict_get(at, "threading") == 0x3000


@pytest.mark.parametrize("count", [-1, 1 << 17, 1 << 60])
def test_dict_of_impossible_size(python: FakePython, count: int) -> None:
    keys = python.build.put("PyDictKeysObject", python.keys([]), dk_nentries=count)
    at = python.build.new("PyDictObject", ma_keys=keys)
    with pytest.raises(CorruptStructure):
        list(objects(python).dict_items(at))


def test_dict_with_impossible_index(python: FakePython) -> None:
    modern = python.version_tuple >= (3, 11)
    member = {"dk_log2_index_bytes": 200} if modern else {"dk_size": 1 << 50}
    at = python.build.new("PyDictObject", ma_keys=python.build.put("PyDictKeysObject", python.keys([]), **member))
    with pytest.raises(CorruptStructure):
        list(objects(python).dict_items(at))


def test_split_dict(python: FakePython) -> None:
    key = python.string("_name")
    at = python.dictionary([(key, 0)])
    values = python.build.alloc(64)
    header = 8 if python.version_tuple >= (3, 13) else 0
    python.memory.u64(values + header, 0x4000)
    python.build.put("PyDictObject", at, ma_values=values)
    assert list(objects(python).dict_items(at)) == [(key, 0x4000)]


@pytest.mark.parametrize("inline", [True, False])
def test_attributes(python: FakePython, inline: bool) -> None:
    name, ident = python.string("worker"), python.integer(5)
    at = python.instance("Thread", inline, _name=name, _ident=ident)
    reader = objects(python)
    assert [reader.attribute(at, wanted) for wanted in ("_name", "_ident", "_target")] == [name, ident, None]


def test_attribute_of_an_object_without_attributes(python: FakePython) -> None:
    assert objects(python).attribute(python.string("text"), "_name") is None


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("seed", combinations.seeds(8))
def test_noise(version: str, seed: int) -> None:
    memory = NoiseMemory(seed)
    reader = Objects(memory, cpython_layouts(version))
    start = time.process_time()
    for i in range(60):
        at = 0x10000 + 8 * 131 * i
        for ask in (reader.type_name, reader.string, reader.bytes, reader.integer):
            try:
                ask(at)
            except GdbextError:
                pass
        for look in (reader.dict_get, reader.attribute):
            try:
                look(at, "_name")
            except GdbextError:
                pass
    assert time.process_time() - start < 20


# -- types, attributes, sequences -----------------------------------------------------------------------------

def test_names_of_a_type_and_its_bases(python: FakePython) -> None:
    at = python.instance("Traced", x=python.integer(1))
    kinds = [python.type_object(name) for name in ("Traced", "Base", "object")]
    for derived, base in zip(kinds, kinds[1:]):
        python.build.put("PyTypeObject", derived, tp_base=base)
    assert objects(python).type_names(at) == ("Traced", "Base", "object")


def test_type_that_is_its_own_base(python: FakePython) -> None:
    at = python.instance("Odd", x=python.integer(1))
    python.build.put("PyTypeObject", python.type_object("Odd"), tp_base=python.type_object("Odd"))
    assert set(objects(python).type_names(at)) == {"Odd"}


def test_unreadable_base(python: FakePython) -> None:
    at = python.instance("Odd", x=python.integer(1))
    python.build.put("PyTypeObject", python.type_object("Odd"), tp_base=0xDEAD_0000)
    with pytest.raises(MemoryUnreadable):
        objects(python).type_names(at)


@pytest.mark.parametrize("inline", [True, False])
def test_all_attributes(python: FakePython, inline: bool) -> None:
    values = {name: python.integer(i) for i, name in enumerate(("_lock", "size", "größe"))}
    at = python.instance("Pool", inline, **values)
    assert dict(objects(python).attributes(at)) == values


def test_attributes_without_value(python: FakePython) -> None:
    value = python.integer(1)
    at = python.instance("Pool", _lock=value, unset=0)
    assert list(objects(python).attributes(at)) == [("_lock", value)]


def test_object_without_attributes(python: FakePython) -> None:
    assert list(objects(python).attributes(python.string("x"))) == []
    assert objects(python).attribute(python.string("x"), "y") is None


def test_sequences(python: FakePython) -> None:
    items = [python.integer(i) for i in range(3)]
    assert objects(python).tuple_items(python.tuple_object(*items)) == tuple(items)
    assert objects(python).list_items(python.list_object(*items)) == tuple(items)
    assert objects(python).tuple_items(python.tuple_object()) == ()
    assert objects(python).list_items(python.list_object()) == ()


@pytest.mark.parametrize("size", [-1, 1 << 20, 1 << 62])
def test_sequence_of_impossible_size(python: FakePython, size: int) -> None:
    for at, items in ((python.tuple_object(1), objects(python).tuple_items),
                      (python.list_object(1), objects(python).list_items)):
        python.build.put("PyVarObject", at, ob_size=size)
        with pytest.raises(CorruptStructure):
            items(at)


def test_name_of_a_function_written_in_c(python: FakePython) -> None:
    definition = python.build.new("PyMethodDef", ml_name=python.build.cstring(b"acquire"))
    assert objects(python).c_function_name(definition) == "acquire"
    with pytest.raises(MemoryUnreadable):
        objects(python).c_function_name(0xDEAD_0000)


def test_function_compiled_by_cython_has_the_name_of_its_definition() -> None:
    fake = FakePython(FakeMemory(), "3.13.0")
    bound = fake.builtin_method("__exit__", 0)
    fake.build.put("PyObject", bound, ob_type=fake.type_object("_cython_3_1_2.cython_function_or_method"))
    objects = Objects(fake.memory, fake.layouts)
    assert objects.function_name(bound) == "__exit__"
    assert objects.bound_method(fake.method(bound, 0x7000)) == (0x7000, "__exit__")
