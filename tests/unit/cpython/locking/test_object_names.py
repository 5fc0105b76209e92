from __future__ import annotations

import time

import pytest

from gdbext.cpython.locking.object_names import ATTRIBUTES, ObjectNames
from gdbext.cpython.objects import Objects
from gdbext.cpython.values import ValueReader
from gdbext.model import NamedObject
from tests.support import combinations
from tests.support.fake_memory import FakeMemory, NoiseMemory
from tests.support.fake_python import FREE_THREADED, VERSIONS, FakePython, cpython_layouts

BUILDS = [*((version, "default") for version in VERSIONS), *((version, "free-threaded") for version in FREE_THREADED)]


@pytest.fixture(params=BUILDS, ids=["-".join(build) for build in BUILDS])
def python(request: pytest.FixtureRequest) -> FakePython:
    version, build = request.param
    return FakePython(FakeMemory(), version, build=build)


def reader(python: FakePython) -> ObjectNames:
    objects = Objects(python.memory, python.layouts)
    return ObjectNames(objects, ValueReader(python.memory, python.layouts, objects))


def value(python: FakePython, at: int) -> str | None:
    """The value of an account's name."""
    found = reader(python).find(python.instance("Account", lock=python.lock(), name=at))
    assert found is None or (found.type, found.attribute) == ("Account", "name")
    return None if found is None else found.value


@pytest.mark.parametrize("inline", [True, False])
def test_name_in_the_instance(python: FakePython, inline: bool) -> None:
    at = python.instance("Account", inline, lock=python.lock(), name=python.string("alice"))
    assert reader(python).find(at) == NamedObject("Account", "name", "'alice'")


def test_name_in_slots(python: FakePython) -> None:
    kind = python.class_object("Account", lock=python.slot(32), id=python.slot(40))
    at = python.build.alloc(64)
    python.build.put("PyObject", at, ob_type=kind)
    python.memory.u64(at + 32, python.lock(), python.integer(42))
    assert reader(python).find(at) == NamedObject("Account", "id", "42")
    python.memory.u64(at + 40, 0)  # the slot is empty
    assert reader(python).find(at) is None


@pytest.mark.parametrize("attribute", ATTRIBUTES)
def test_each_attribute(python: FakePython, attribute: str) -> None:
    at = python.instance("Account", True, other=python.string("x"), **{attribute: python.string("alice")})
    assert reader(python).find(at) == NamedObject("Account", attribute, "'alice'")


def test_first_attribute_with_a_plain_value(python: FakePython) -> None:
    at = python.instance("Account", key=python.string("k"), path=python.string("/a"), id=python.list_object(),
                         name=python.string(""))
    assert reader(python).find(at) == NamedObject("Account", "path", "'/a'")


def test_plain_values(python: FakePython) -> None:
    assert value(python, python.string("größe")) == "'größe'"
    assert value(python, python.string("it's")) == '"it\'s"'
    assert value(python, python.string("a\x1b[2J\n")) == r"'a\x1b[2J\n'"
    assert value(python, python.integer(0)) == "0"
    assert value(python, python.integer(-(2**63))) == str(-(2**63))
    assert value(python, python.byte_string(b"alice")) == "b'alice'"
    assert value(python, python.byte_string(b"\x8f\x12")) == "0x8f12"


def test_long_values(python: FakePython) -> None:
    assert value(python, python.string("x" * 40)) == repr("x" * 40)
    assert value(python, python.string("/srv/accounts/of/the/bank/europe/alice.sqlite")) == (
        "'/srv/accounts'...'/europe/alice.sqlite'")
    assert value(python, python.byte_string(bytes(20))) == "0x" + 40 * "0"
    for at in (python.string("x" * 5000), python.string("\x1b" * 40), python.byte_string(b"x" * 21),
               python.integer(1 << 130)):
        assert value(python, at) is None


def test_values_that_are_not_plain(python: FakePython) -> None:
    text, kind = python.string("alice"), python.class_object("Text", "str")
    python.build.put("PyTypeObject", kind, tp_name=python.build.cstring(b"str"))  # a class of the same name
    python.build.put("PyObject", text, ob_type=kind)
    damaged, endless = python.string("alice"), python.string("alice")
    python.build.put("PyASCIIObject", damaged, state_kind=0)
    python.build.put("PyASCIIObject", endless, length=1 << 30)
    flag = python.integer(1)
    python.build.put("PyObject", flag, ob_type=python.type_object("bool"))
    for at in (text, damaged, endless, flag, python.list_object(), python.lock(), 0xDEAD_0000, 8):
        assert value(python, at) is None


def test_objects_without_a_name(python: FakePython) -> None:
    account = python.instance("Account", lock=python.lock())
    python.build.put("PyTypeObject", python.type_object("Account"), tp_dict=python.namespace(name=python.string("any")))
    names = reader(python)
    for at in (account, python.class_object("Bank", title=python.string("x")),
               python.module_object(name=python.string("x")), python.namespace(name=python.string("x")),
               python.list_object(), python.string("x"), 0xDEAD_0000, 0):
        assert names.find(at) is None


def test_object_is_read_once(python: FakePython) -> None:
    at, names = python.instance("Account", name=python.string("alice")), reader(python)
    found = names.find(at)
    python.memory.reads.clear()
    assert names.find(at) is found
    assert python.memory.reads == []


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("seed", combinations.seeds(8))
def test_noise(version: str, seed: int) -> None:
    memory = NoiseMemory(seed)
    layouts = cpython_layouts(version)
    objects = Objects(memory, layouts)
    names = ObjectNames(objects, ValueReader(memory, layouts, objects))
    start = time.process_time()
    for i in range(30):
        found = names.find(0x10000 + 8 * 131 * i)
        assert found is None or len(found.value) <= 60
    assert time.process_time() - start < 20
