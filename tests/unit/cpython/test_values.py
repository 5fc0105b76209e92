from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

from gdbext.cpython.frames import FrameReader
from gdbext.cpython.objects import Objects
from gdbext.cpython.values import _BUILTIN, MAX_VARIABLES, UNREADABLE, Limits, ValueReader, _Kind, locals_of
from gdbext.errors import GdbextError, MemoryUnreadable
from gdbext.layout.select import numpy_layouts
from tests.support import combinations
from tests.support.fake_memory import Builder, FakeMemory, NoiseMemory
from tests.support.fake_python import FREE_THREADED, VERSIONS, FakePython, cpython_layouts

BUILDS = [*((version, "default") for version in ("3.6.15", *VERSIONS)),
          *((version, "free-threaded") for version in FREE_THREADED)]
NOWHERE = 0xDEAD_0000


@pytest.fixture(params=BUILDS, ids=["-".join(build) for build in BUILDS])
def python(request: pytest.FixtureRequest) -> FakePython:
    version, build = request.param
    return FakePython(FakeMemory(), version, build=build)


def reader(python: FakePython) -> ValueReader:
    return ValueReader(python.memory, python.layouts, Objects(python.memory, python.layouts))


def text(python: FakePython, address: int, **limits: int) -> str:
    return reader(python).text(address, Limits(**limits))


def integers(python: FakePython, count: int) -> list[int]:
    return [python.integer(i) for i in range(count)]


# -- numbers and strings --------------------------------------------------------------------------------------

@pytest.mark.parametrize(("kind", "expected"), [
    ("NoneType", "None"), ("ellipsis", "Ellipsis"), ("NotImplementedType", "NotImplemented")])
def test_constants(python: FakePython, kind: str, expected: str) -> None:
    assert text(python, python.builtin(kind, "PyObject")) == expected


def test_truth(python: FakePython) -> None:
    for value in (True, False):
        at = python.integer(int(value))
        python.build.put("PyObject", at, ob_type=python.type_object("bool"))
        assert text(python, at) == str(value)


@pytest.mark.parametrize("value", [0, 7, -1, 2**30, -(2**64), 10**199, -(10**199)])
def test_integers(python: FakePython, value: int) -> None:
    assert text(python, python.integer(value)) == str(value)


@pytest.mark.parametrize(("value", "expected"), [
    (10**200, "<int of 201 digits>"), (10**200 - 1, str(10**200 - 1)), (-(10**500), "<int of 501 digits>"),
    (10**500 - 1, "<int of 500 digits>"), (1 << 40_000, "<int of about 12047 digits>")],
    ids=["bound", "below", "negative", "nines", "huge"])
def test_integers_of_many_digits(python: FakePython, value: int, expected: str) -> None:
    assert text(python, python.integer(value)) == expected


def test_integer_longer_than_python_formats(python: FakePython) -> None:
    assert text(python, python.integer(10**5000), characters=100_000) == "<int of 5001 digits>"


@pytest.mark.parametrize("value", [0.0, -0.0, 1.5, 5e-324, 1e300, float("inf"), float("nan")])
def test_floats(python: FakePython, value: float) -> None:
    at = python.builtin("float", "PyFloatObject", **python.words("PyFloatObject", ob_fval=value))
    assert text(python, at) == repr(value)


@pytest.mark.parametrize("value", [1 - 2j, complex(-0.0, float("nan")), 2j])
def test_complex_numbers(python: FakePython, value: complex) -> None:
    words = python.words("PyComplexObject", real=value.real, imag=value.imag)
    assert text(python, python.builtin("complex", "PyComplexObject", **words)) == repr(value)


@pytest.mark.parametrize("value", ["", "work", "it's", "a\n\0\x1b", "Größe", "数据", "😀", "a\udcffb", "😀\ud800"],
                         ids=["empty", "ascii", "quote", "controls", "latin", "chinese", "emoji", "lone", "both"])
def test_strings(python: FakePython, value: str) -> None:
    assert text(python, python.string(value)) == repr(value)


def test_a_pair_of_surrogates_stays_two_characters(python: FakePython) -> None:
    assert text(python, python.string("\ud83d\ude00", 2)) == r"'\ud83d\ude00'"


def test_characters_beyond_unicode(python: FakePython) -> None:
    at = python.string("ab", 4)
    python.memory.write(at + python.layouts["PyCompactUnicodeObject"].size, b"\xff" * 8)
    assert text(python, at) == repr("\ufffd\ufffd")


def test_long_strings_are_cut_and_not_read_whole(python: FakePython) -> None:
    at = python.string("x" * 5000)
    python.build.put("PyASCIIObject", at, length=1 << 39)
    python.memory.reads.clear()
    assert text(python, at) == f"'{'x' * 200}'..."
    assert max(size for _, size in python.memory.reads) <= 800


def test_escapes_count(python: FakePython) -> None:
    assert text(python, python.string("\0" * 500)) == repr("\0" * 49) + "..."
    assert text(python, python.byte_string(b"\0" * 49)) == repr(b"\0" * 49)


def test_bytes(python: FakePython) -> None:
    assert text(python, python.byte_string(b"a\0'\xff")) == repr(b"a\0'\xff")
    long = python.byte_string(b"y" * 300)
    assert text(python, long) == f"b'{'y' * 200}'..."
    python.build.put("PyVarObject", long, ob_size=-1)
    with pytest.raises(GdbextError):
        text(python, long)


def test_byte_arrays(python: FakePython) -> None:
    at = python.builtin("bytearray", "PyByteArrayObject", ob_start=python.build.cstring(b"abc"))
    assert text(python, at) == "bytearray(b'')"
    python.build.put("PyVarObject", at, ob_size=3)
    assert text(python, at) == "bytearray(b'abc')"
    assert text(python, at, characters=2) == "bytearray(b'ab'...)"


# -- containers -----------------------------------------------------------------------------------------------

def test_containers(python: FakePython) -> None:
    one, word = python.integer(1), python.string("a")
    assert text(python, python.list_object()) == "[]"
    assert text(python, python.list_object(one, word)) == "[1, 'a']"
    assert text(python, python.tuple_object()) == "()"
    assert text(python, python.tuple_object(one)) == "(1,)"
    assert text(python, python.tuple_object(one, python.list_object(word))) == "(1, ['a'])"
    assert text(python, python.dictionary([])) == "{}"
    assert text(python, python.namespace(a=one, b=python.tuple_object())) == "{'a': 1, 'b': ()}"
    assert text(python, python.dictionary([(one, word), (word, one)], unicode_keys=False)) == "{1: 'a', 'a': 1}"
    assert text(python, python.set_object()) == "set()"
    assert text(python, python.set_object(one, word)) == "{1, 'a'}"
    assert text(python, python.set_object(type_name="frozenset")) == "frozenset()"
    assert text(python, python.set_object(one, type_name="frozenset")) == "frozenset({1})"


def test_ranges_and_slices(python: FakePython) -> None:
    one, ten, none = python.integer(1), python.integer(10), python.builtin("NoneType", "PyObject")
    assert text(python, python.builtin("range", "rangeobject", start=one, stop=ten, step=one)) == "range(1, 10)"
    assert text(python, python.builtin("range", "rangeobject", start=one, stop=ten, step=ten)) == "range(1, 10, 10)"
    assert text(python, python.builtin("slice", "PySliceObject", start=none, stop=ten, step=none)
                ) == "slice(None, 10, None)"
    damaged = python.builtin("range", "rangeobject", start=one, stop=NOWHERE, step=one)
    assert text(python, damaged) == f"range(1, {UNREADABLE})"
    python.build.put("rangeobject", damaged, stop=damaged)
    assert text(python, damaged) == "range(1, range(...))"


def test_removed_keys_of_a_set(python: FakePython) -> None:
    one, dummy = python.integer(1), python.builtin("object", "PyObject")
    assert text(python, python.set_object(one, size=256, dropped=[dummy] * 100)) == "{1}"
    assert text(python, python.set_object(dropped=[dummy])) == "set()"


def test_set_with_an_impossible_table(python: FakePython) -> None:
    at = python.set_object(python.integer(1))
    python.build.put("PySetObject", at, mask=5)
    with pytest.raises(GdbextError):
        text(python, at)
    python.build.put("PySetObject", at, mask=(1 << 40) - 1)
    with pytest.raises(MemoryUnreadable):
        text(python, at)


def test_number_of_items_is_limited(python: FakePython) -> None:
    eleven, ten = integers(python, 11), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9"
    assert text(python, python.list_object(*eleven[:10])) == f"[{ten}]"
    assert text(python, python.list_object(*eleven)) == f"[{ten}, ...]"
    assert text(python, python.tuple_object(*eleven)) == f"({ten}, ...)"
    assert text(python, python.set_object(*eleven, size=16)) == f"{{{ten}, ...}}"
    pairs = ", ".join(f"{i}: {i}" for i in range(10))
    assert text(python, python.dictionary(list(zip(eleven, eleven)), unicode_keys=False)) == f"{{{pairs}, ...}}"
    assert text(python, python.list_object(*eleven), items=2) == "[0, 1, ...]"


def test_a_list_of_a_million_is_not_read_whole(python: FakePython) -> None:
    at = python.list_object(*integers(python, 20))
    python.build.put("PyVarObject", at, ob_size=1 << 30)
    python.memory.reads.clear()
    assert text(python, at).endswith("9, ...]")
    assert max(size for _, size in python.memory.reads) <= 200


def test_a_dict_of_a_million_is_not_read_whole(python: FakePython) -> None:
    at = python.dictionary(list(zip(integers(python, 20), integers(python, 20))), unicode_keys=False)
    keys = int.from_bytes(python.memory.read(at + python.layouts["PyDictObject"].offset("ma_keys"), 8), "little")
    python.build.put("PyDictKeysObject", keys, dk_nentries=1 << 20)
    python.build.put("PyDictObject", at, ma_used=1 << 20)
    assert text(python, at).endswith("9: 9, ...}")


def test_unused_entries(python: FakePython) -> None:
    key, one = python.string("k"), python.integer(1)
    at = python.dictionary([(key, 0)] * 50 + [(key, one)])
    python.build.put("PyDictObject", at, ma_used=1)
    assert text(python, at) == "{'k': 1}"
    assert text(python, at, reads=20) == "{...}"


def test_depth_is_limited(python: FakePython) -> None:
    one = python.integer(1)
    deep = python.list_object(python.tuple_object(python.namespace(a=python.list_object(one), b=python.list_object())))
    assert text(python, deep) == "[({'a': [...], 'b': []},)]"
    assert text(python, deep, depth=1) == "[(...)]"
    assert text(python, deep, depth=4) == "[({'a': [1], 'b': []},)]"
    assert text(python, python.list_object(python.set_object(one), python.namespace(a=one)), depth=1
                ) == "[{...}, {...}]"
    assert text(python, one, depth=0) == "1"


def test_depth_is_limited_to_the_stack_of_python() -> None:
    python = FakePython(FakeMemory(), "3.12.1")
    at = python.list_object()
    for _ in range(300):
        at = python.list_object(at)
    assert text(python, at, depth=10_000, characters=10_000) == "[" * 50 + "[...]" + "]" * 50


def test_cycles(python: FakePython) -> None:
    own = python.list_object(0)
    items = int.from_bytes(python.memory.read(own + python.layouts["PyListObject"].offset("ob_item"), 8), "little")
    python.memory.u64(items, own)
    assert text(python, own, depth=50) == "[[...]]"
    pair = python.tuple_object(own)
    python.memory.u64(items, pair)
    assert text(python, own, depth=50) == "[([...],)]"
    assert text(python, pair, depth=50) == "([(...)],)"
    mapping = python.namespace(me=own)
    python.memory.u64(items, mapping)
    assert text(python, mapping, depth=50) == "{'me': [{...}]}"


def test_same_object_twice_is_not_a_cycle(python: FakePython) -> None:
    inner = python.list_object(python.integer(1))
    assert text(python, python.list_object(inner, inner)) == "[[1], [1]]"


def test_no_item_begins_after_the_last_character(python: FakePython) -> None:
    at = python.list_object(*[python.string("x" * 60)] * 9)
    word = f"'{'x' * 60}'"
    assert text(python, at) == f"[{word}, {word}, {word}, '{'x' * 8}'..., ...]"
    nested = python.list_object(*[python.list_object(*integers(python, 10))] * 10)
    shown = text(python, nested, characters=50)
    assert shown == "[[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], [0, 1, 2, 3, 4, 5, ...], ...]"


def test_damaged_part_is_shown_as_unreadable(python: FakePython) -> None:
    one, bad = python.integer(1), python.string("abc")
    python.build.put("PyASCIIObject", bad, state_kind=0)
    assert text(python, python.list_object(one, NOWHERE, bad, one)) == f"[1, {UNREADABLE}, {UNREADABLE}, 1]"
    assert text(python, python.tuple_object(0, one)) == "(<NULL>, 1)"
    assert text(python, python.dictionary([(NOWHERE, one), (one, NOWHERE)], unicode_keys=False)
                ) == f"{{{UNREADABLE}: 1, 1: {UNREADABLE}}}"
    assert text(python, python.set_object(NOWHERE)) == f"{{{UNREADABLE}}}"
    assert text(python, python.instance("Account", owner=NOWHERE)).endswith(f": owner={UNREADABLE}>")
    for address in (NOWHERE, 0, bad):
        with pytest.raises(GdbextError):
            text(python, address)


@pytest.mark.parametrize("base", ["list", "tuple", "dict", "set", "frozenset", "str", "int", "float", "bytes"])
def test_derived_classes_are_named(python: FakePython, base: str) -> None:
    one = python.integer(1)
    made, expected = {
        "list": (python.list_object(one), "[1]"), "tuple": (python.tuple_object(one), "(1,)"),
        "dict": (python.namespace(a=one), "{'a': 1}"), "set": (python.set_object(one), "{1}"),
        "frozenset": (python.set_object(one, type_name="frozenset"), "{1}"), "str": (python.string("a"), "'a'"),
        "int": (one, "1"), "float": (python.builtin("float", "PyFloatObject"), "0.0"),
        "bytes": (python.byte_string(b"a"), "b'a'"),
    }[base]
    python.build.put("PyObject", made, ob_type=python.class_object("Mine", base))
    assert text(python, made) == f"Mine({expected})" if base != "int" else "Mine(1)"


def test_derived_of_derived_in_c(python: FakePython) -> None:
    ordered = python.type_object("collections.OrderedDict", tp_base=python.type_object("dict"))
    at, empty = python.namespace(a=python.integer(1)), python.dictionary([])
    for mapping in (at, empty):
        python.build.put("PyObject", mapping, ob_type=ordered)
    assert (text(python, at), text(python, empty)) == ("OrderedDict({'a': 1})", "OrderedDict()")
    python.build.put("PyObject", at, ob_type=python.class_object("Mine", "collections.OrderedDict"))
    assert text(python, at) == "Mine({'a': 1})"


def test_class_with_the_name_of_a_builtin_type(python: FakePython) -> None:
    python.class_object("list")
    at = python.builtin("list", "PyListObject")
    assert text(python, at) == f"<list at {at:#x}>"


def test_a_type_whose_bases_have_a_loop(python: FakePython) -> None:
    kind = python.class_object("Odd")
    python.build.put("PyTypeObject", kind, tp_base=kind)
    at = python.builtin("Odd", "PyObject")
    assert text(python, at) == f"<Odd at {at:#x}>"


def test_a_named_tuple(python: FakePython) -> None:
    fields = python.tuple_object(python.string("x"), python.string("y"))
    kind = python.class_object("Point", "tuple", _fields=fields)
    at = python.tuple_object(python.integer(1), python.list_object())
    python.build.put("PyObject", at, ob_type=kind)
    assert text(python, at) == "Point(x=1, y=[])"
    shorter = python.tuple_object(python.integer(1))
    python.build.put("PyObject", shorter, ob_type=kind)
    assert text(python, shorter) == "Point((1,))"


# -- instances ------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("inline", [True, False])
def test_instances(python: FakePython, inline: bool) -> None:
    at = python.instance("Account", inline, owner=python.string("x"), balance=python.list_object(python.integer(3)))
    assert text(python, at) == f"<Account at {at:#x}: owner='x', balance=[3]>"
    assert text(python, at, depth=1) == f"<Account at {at:#x}: owner='x', balance=[...]>"
    assert text(python, at, items=1) == f"<Account at {at:#x}: owner='x', ...>"
    assert text(python, python.list_object(at), depth=1) == f"[<Account at {at:#x}>]"
    empty = python.instance("Empty", inline)
    assert text(python, empty) == f"<Empty at {empty:#x}>"


def test_instance_that_contains_itself(python: FakePython) -> None:
    holder = python.list_object(0)
    at = python.instance("Node", me=holder)
    items = int.from_bytes(python.memory.read(holder + python.layouts["PyListObject"].offset("ob_item"), 8), "little")
    python.memory.u64(items, at)
    assert text(python, at, depth=50) == f"<Node at {at:#x}: me=[<... at {at:#x}>]>"


def test_slots(python: FakePython) -> None:
    header = python.layouts["PyObject"].size
    python.class_object("Base", first=python.slot(header), __weakref__=python.slot(8), number=python.slot(8, kind=1))
    kind = python.class_object("Derived", "Base", second=python.slot(header + 8), unset=python.slot(header + 16))
    order = python.tuple_object(kind, python.type_object("Base"), python.type_object("object"))
    python.build.put("PyTypeObject", kind, tp_mro=order)
    at = python.builtin("Derived", "PyListObject")
    python.memory.u64(at + header, python.integer(1), python.string("b"), 0)
    assert text(python, at) == f"<Derived at {at:#x}: first=1, second='b'>"


def test_attributes_in_the_order_in_which_they_were_set() -> None:
    # instances of a class share the names, in an order that need not be that of any of them
    python = FakePython(FakeMemory(), "3.14.10")
    at = python.instance("Account", balance=python.integer(3), owner=python.string("x"))
    values = at + 48
    array = values + python.layouts["PyDictValues"].offset("values")
    python.build.put("PyDictValues", values, capacity=6, size=2)
    python.memory.write(array + 8 * 6, bytes([1, 0]))
    assert text(python, at) == f"<Account at {at:#x}: owner='x', balance=3>"


def test_dataclasses(python: FakePython) -> None:
    header = python.layouts["PyObject"].size
    python.class_object("Field", repr=python.slot(header))
    shown = []
    for value in (1, 0):
        truth = python.integer(value)
        python.build.put("PyObject", truth, ob_type=python.type_object("bool"))
        field = python.builtin("Field", "PyListObject")
        python.memory.u64(field + header, truth)
        shown.append(field)
    fields = python.namespace(owner=shown[0], secret=shown[1], unset=shown[0])
    at = python.instance("Account", False, secret=python.string("k"), owner=python.string("x"),
                         other=python.integer(1))
    kind = python.type_object("Account")
    python.build.put("PyTypeObject", kind, tp_dict=python.namespace(__dataclass_fields__=fields))
    assert text(python, at) == "Account(owner='x')"
    assert text(python, python.list_object(at), depth=1) == "[Account(...)]"


def test_dataclass_that_contains_itself(python: FakePython) -> None:
    kind, field = python.class_object("Field"), python.builtin("Field", "PyListObject")
    fields = python.namespace(repr=field)
    python.build.put("PyTypeObject", kind, tp_dict=python.namespace(__dataclass_fields__=fields))
    assert text(python, field) == "Field()"


@pytest.mark.parametrize("metaclass", ["EnumMeta", "EnumType"])
def test_members_of_enumerations(python: FakePython, metaclass: str) -> None:
    python.class_object(metaclass, "type")
    red = python.instance("Colour", False, _value_=python.string("r"))
    mixed = python.instance("Colour", False, _value_=python.integer(3))
    members = python.namespace(RED=red, ALIAS=red)
    kind = python.type_object("Colour")
    python.build.put("PyTypeObject", kind, tp_dict=python.namespace(_member_map_=members))
    python.build.put("PyObject", kind, ob_type=python.type_object(metaclass))
    assert text(python, red) == "<Colour.RED: 'r'>"
    assert text(python, mixed) == "<Colour: 3>"
    python.build.put("PyObject", kind, ob_type=python.type_object("type"))
    assert text(python, red) == f"<Colour at {red:#x}: _value_='r'>"


def test_member_of_an_enumeration_of_integers(python: FakePython) -> None:
    high = python.integer(2)
    python.class_object("EnumMeta", "type")
    kind = python.class_object("Level", "int", "EnumMeta", _member_map_=python.namespace(HIGH=high))
    python.build.put("PyObject", high, ob_type=kind)
    assert text(python, high) == "<Level.HIGH: 2>"


def test_exceptions(python: FakePython) -> None:
    python.type_object("ValueError", tp_base=python.type_object("BaseException"))
    python.class_object("Refused", "ValueError")
    arguments = python.tuple_object(python.string("bad"), python.integer(3))
    for name in ("ValueError", "Refused"):
        at = python.builtin(name, "PyBaseExceptionObject", args=arguments)
        assert text(python, at) == f"{name}('bad', 3)"
        assert text(python, python.list_object(at), depth=1) == f"[{name}(...)]"
    assert text(python, python.builtin("ValueError", "PyBaseExceptionObject")) == "ValueError()"


def test_functions_and_modules(python: FakePython) -> None:
    function = python.function("work")
    python.build.put("PyFunctionObject", function, func_qualname=python.string("Pool.work"))
    assert text(python, function) == f"<function Pool.work at {function:#x}>"
    owner, module = python.instance("Pool", x=python.integer(1)), python.module_object(__name__=python.string("os"))
    assert text(python, python.method(function, owner)) == f"<bound method Pool.work of <Pool at {owner:#x}>>"
    assert text(python, python.builtin_method("len", module)) == "<built-in function len>"
    assert text(python, python.builtin_method("len", 0)) == "<built-in function len>"
    assert text(python, python.builtin_method("pop", owner)) == f"<built-in method pop of Pool at {owner:#x}>"
    descriptor = python.method_descriptor("join")
    python.build.put("PyMethodDescrObject", descriptor, d_type=python.type_object("str"))
    assert text(python, descriptor) == "<method 'join' of 'str' objects>"
    assert text(python, module) == "<module 'os'>"
    nameless = python.module_object()
    assert text(python, nameless) == f"<module at {nameless:#x}>"


def test_classes(python: FakePython) -> None:
    kind = python.class_object("Account", __module__=python.string("bank"))
    assert text(python, kind) == "<class 'bank.Account'>"
    python.build.put("PyHeapTypeObject", kind, ht_qualname=python.string("make.<locals>.Account"))
    assert text(python, kind) == "<class 'bank.make.<locals>.Account'>"
    assert text(python, python.type_object("collections.deque")) == "<class 'collections.deque'>"


def test_long_names_are_cut(python: FakePython) -> None:
    function = python.function("work")
    python.build.put("PyFunctionObject", function, func_qualname=python.string("x" * 300))
    assert text(python, function) == f"<function {'x' * 200}... at {function:#x}>"


@pytest.mark.parametrize("name", ["weakref", "weakref.ReferenceType"])
def test_weak_references(python: FakePython, name: str) -> None:
    alive, dead = python.instance("Account", x=python.integer(1)), python.builtin("NoneType", "PyObject")
    at = python.builtin(name, "PyWeakReference", wr_object=alive)
    assert text(python, at) == f"<weakref at {at:#x}; to 'Account' at {alive:#x}>"
    at = python.builtin(name, "PyWeakReference", wr_object=dead)
    assert text(python, at) == f"<weakref at {at:#x}; dead>"


def test_cells_are_followed(python: FakePython) -> None:
    assert text(python, python.tuple_object(python.cell(python.integer(1)))) == "(1,)"
    empty, own = python.cell(0), python.cell(0)
    assert text(python, empty) == f"<empty cell at {empty:#x}>"
    python.build.put("PyCellObject", own, ob_ref=own)
    assert text(python, own) == f"<cell at {own:#x}>"


@pytest.mark.parametrize("name", ["_thread.lock", "collections.deque", "object", "mappingproxy"])
def test_everything_else(python: FakePython, name: str) -> None:
    at = python.builtin(name, "PyObject")
    assert text(python, at) == f"<{name} at {at:#x}>"


# -- numpy ----------------------------------------------------------------------------------------------------

def array(python: FakePython, scalar: str, shape: tuple[int, ...], size: int = 8, old: bool = False) -> int:
    """A numpy array in the layout of NumPy 2 or NumPy 1."""
    numpy = Builder(python.memory, numpy_layouts("x86_64"), 0x6666_0000_0000)
    descriptor = "PyArray_DescrProto" if old else "PyArray_Descr"
    grown = python.layouts["PyObject"].size - numpy.layouts["PyArrayObject"]["ob_base"].size
    dimensions = python.build.alloc(8 * len(shape) + 8)
    python.memory.u64(dimensions, *shape)
    described = python.build.alloc(256)
    numpy.put(descriptor, described + grown, typeobj=python.type_object(scalar), elsize=size, alignment=4)
    at = python.build.alloc(256)
    numpy.put("PyArrayObject", at + grown, nd=len(shape), dimensions=dimensions, descr=described)
    return python.build.put("PyObject", at, ob_type=python.type_object("numpy.ndarray"))


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize(("scalar", "shape", "expected"), [
    ("numpy.float64", (3, 4), "float64 (3, 4)"), ("numpy.bool_", (5,), "bool (5,)"), ("numpy.object_", (), "object ()"),
    ("numpy.str_", (0, 2), "str96 (0, 2)"), ("numpy.void", (1,), "void96 (1,)")])
def test_arrays(python: FakePython, old: bool, scalar: str, shape: tuple[int, ...], expected: str) -> None:
    at = array(python, scalar, shape, 12, old)
    assert text(python, at) == f"<numpy.ndarray {expected} at {at:#x}>"
    assert text(python, python.list_object(at)) == f"[<numpy.ndarray {expected} at {at:#x}>]"


@pytest.mark.parametrize("damage", [{"nd": 65}, {"nd": -1}, {"dimensions": NOWHERE}, {"descr": NOWHERE}])
def test_impossible_arrays(python: FakePython, damage: dict[str, int]) -> None:
    at = array(python, "numpy.float64", (3,))
    numpy = Builder(python.memory, numpy_layouts("x86_64"))
    grown = python.layouts["PyObject"].size - numpy.layouts["PyArrayObject"]["ob_base"].size
    numpy.put("PyArrayObject", at + grown, **damage)
    assert text(python, at) == f"<numpy.ndarray at {at:#x}>"


def test_a_class_derived_from_arrays(python: FakePython) -> None:
    at = array(python, "numpy.int32", (2,))
    python.build.put("PyObject", at, ob_type=python.class_object("memmap", "numpy.ndarray"))
    assert text(python, at) == f"<memmap int32 (2,) at {at:#x}>"


# -- whatever the memory holds --------------------------------------------------------------------------------

def everything(python: FakePython) -> int:
    """A list of an object of each kind, some of them in each other."""
    one, word = python.integer(1), python.string("word")
    python.class_object("EnumMeta", "type")
    python.type_object("ValueError", tp_base=python.type_object("BaseException"))
    header = python.layouts["PyObject"].size
    python.class_object("Slots", first=python.slot(header), second=python.slot(header + 8))
    slots = python.builtin("Slots", "PyListObject")
    python.memory.u64(slots + header, one, word)
    high = python.integer(2)
    level = python.class_object("Level", "int", "EnumMeta", _member_map_=python.namespace(HIGH=high))
    python.build.put("PyObject", high, ob_type=level)
    account = python.instance("Account", owner=word, balance=python.list_object(one))
    return python.list_object(
        python.tuple_object(one, python.namespace(a=word)), python.set_object(one, word), account, slots, high, level,
        python.builtin("range", "rangeobject", start=one, stop=one, step=one), python.byte_string(b"abc"),
        python.builtin("ValueError", "PyBaseExceptionObject", args=python.tuple_object(account)),
        python.method(python.function("work"), account), python.module_object(__name__=word), python.cell(slots),
        python.builtin("weakref", "PyWeakReference", wr_object=account), array(python, "numpy.str_", (2, 3)),
        python.builtin("bytearray", "PyByteArrayObject", ob_start=one))


@pytest.mark.parametrize("seed", combinations.seeds(3))
def test_damaged_memory(python: FakePython, seed: int) -> None:
    at = everything(python)
    whole = text(python, at, items=50, characters=2000)
    assert whole.count(",") > 20
    chooser = random.Random(seed)
    pieces = sorted(python.memory._ranges)
    start = time.process_time()
    for _ in range(40):
        changed: list[tuple[int, bytes]] = []
        for _ in range(chooser.randrange(1, 30)):
            piece = chooser.choice(pieces)
            where = piece + chooser.randrange(0, len(python.memory._ranges[piece]) - 7, 8)
            changed.append((where, python.memory.read(where, 8)))
            word = chooser.choice([0, 1, at, chooser.getrandbits(64), chooser.getrandbits(20), chooser.choice(pieces),
                                   (1 << 64) - 1, 1 << 40])
            python.memory.u64(where, word)
        for limits in (Limits(), Limits(depth=8, items=50, characters=2000)):
            try:
                assert len(reader(python).text(at, limits)) < limits.characters + 2000
            except GdbextError:
                pass
        for where, data in reversed(changed):
            python.memory.write(where, data)
    assert text(python, at, items=50, characters=2000) == whole
    assert time.process_time() - start < 20


@pytest.mark.parametrize("build", BUILDS[::3], ids=lambda build: "-".join(build))
@pytest.mark.parametrize("seed", combinations.seeds(4))
def test_noise(build: tuple[str, str], seed: int) -> None:
    memory = NoiseMemory(seed)
    layouts = cpython_layouts(*build)
    look = ValueReader(memory, layouts, Objects(memory, layouts))
    start = time.process_time()
    for i in range(60):
        try:
            assert len(look.text(0x10000 + 8 * 131 * i)) < 2000
        except GdbextError:
            pass
    assert time.process_time() - start < 20
    assert memory.bytes_read < 100 << 20


class OfEveryType(ValueReader):
    """Takes each object for one of another builtin type."""

    def kind(self, address: int) -> _Kind:
        """A type that follows from the address, like any other number."""
        name = sorted(_BUILTIN)[address // 8 % len(_BUILTIN)]
        return _Kind(address, name, address % 3 == 0, name, address % 2 == 0)


@pytest.mark.parametrize("build", BUILDS, ids=lambda build: "-".join(build))
@pytest.mark.parametrize("seed", combinations.seeds(2))
@pytest.mark.slow
def test_noise_in_objects_of_every_type(build: tuple[str, str], seed: int) -> None:
    memory = NoiseMemory(seed)
    layouts = cpython_layouts(*build)
    look = OfEveryType(memory, layouts, Objects(memory, layouts))
    told, start = 0, time.process_time()
    for i in range(400):
        try:
            assert len(look.text(0x10000 + 8 * 131 * i)) < 2000
            told += 1
        except GdbextError:
            pass
    assert told > 20
    assert time.process_time() - start < 20


@pytest.mark.parametrize("make", [
    lambda python, inner: python.list_object(*[inner] * 40),
    lambda python, inner: python.instance("Node", **{f"a{i}": inner for i in range(40)}),
    lambda python, inner: python.dictionary([(python.string(f"k{i}"), inner) for i in range(40)]),
], ids=["list", "instance", "dict"])
def test_number_of_reads_is_limited(make: Callable[[FakePython, int], int]) -> None:
    python = FakePython(FakeMemory(), "3.12.1")
    at = python.integer(1)
    for _ in range(6):
        at = make(python, at)
    # forty to the sixth if nothing stopped it
    python.memory.reads.clear()
    shown = text(python, at, depth=50, items=1000, characters=1 << 30, reads=1000)
    assert shown.count("...") > 5
    assert len(python.memory.reads) < 40_000


# -- variables ------------------------------------------------------------------------------------------------

def test_variables_of_a_frame(python: FakePython) -> None:
    names = ("given", "unset", "broken", "total")
    code = python.code("work", 1, variables=names, cells=("inner",))
    cell = python.cell(python.string("in a cell"))
    values = [python.integer(1), 0, NOWHERE, python.list_object(python.integer(1), python.integer(2)), cell]
    frame = python.fill(python.frame(code), values)
    objects = Objects(python.memory, python.layouts)
    frames = FrameReader(python.memory, python.layouts, objects)
    tstate = python.build.new("PyThreadState")
    python.innermost(tstate, frame)
    (raw,) = frames.raw(tstate)
    look = ValueReader(python.memory, python.layouts, objects)
    assert locals_of(frames, look, raw) == [
        ("given", "int", "1"), ("broken", "?", UNREADABLE), ("total", "list", "[1, 2]"),
        ("inner", "str", "'in a cell'")]
    assert locals_of(frames, look, raw, Limits(items=1))[2] == ("total", "list", "[1, ...]")


def test_number_of_variables_is_limited(python: FakePython) -> None:
    names = [f"v{i}" for i in range(MAX_VARIABLES + 5)]
    one = python.integer(1)
    size = python.layouts["PyFrameObject"].size + 8 * len(names) + 512
    frame = python.fill(python.frame(python.code("work", 1, variables=names), at=python.build.alloc(size)),
                        [one] * len(names))
    objects = Objects(python.memory, python.layouts)
    frames = FrameReader(python.memory, python.layouts, objects)
    tstate = python.build.new("PyThreadState")
    python.innermost(tstate, frame)
    (raw,) = frames.raw(tstate)
    found = locals_of(frames, ValueReader(python.memory, python.layouts, objects), raw)
    assert found == [(name, "int", "1") for name in names[:MAX_VARIABLES]]
