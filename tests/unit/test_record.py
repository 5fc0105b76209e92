from __future__ import annotations

import copy
import functools
import pickle
from dataclasses import field, fields, replace

import pytest

from gdbext.record import compile_records, record


@record
class Lock:
    kind: str
    address: int = 0
    cache: list[int] = field(default_factory=list, compare=False, repr=False)

    @functools.cached_property
    def name(self) -> str:
        return f"{self.kind}:{self.address:#x}"


@record
class Semaphore(Lock):
    value: int = 1


@record
class Named:
    name: str

    def __repr__(self) -> str:
        return f"<{self.name}>"


@record
class Nothing:
    """It has no fields."""


def test_made_as_a_dataclass_is() -> None:
    assert [each.name for each in fields(Semaphore("sem"))] == ["kind", "address", "cache", "value"]
    assert replace(Lock("mutex", 8), address=16) == Lock("mutex", address=16)
    with pytest.raises(TypeError):
        Lock()  # type: ignore[call-arg]


def test_equal_and_hashed_by_what_is_compared() -> None:
    first, second = Lock("mutex", 8, [1]), Lock("mutex", 8, [2])
    assert first.name
    assert first == second
    assert hash(first) == hash(second)
    assert len({first, second, Lock("mutex", 9)}) == 2
    assert first != Lock("mutex", 9)
    assert first != Semaphore("mutex", 8)
    assert first.__eq__(("mutex", 8)) is NotImplemented
    assert Semaphore("sem", 8, value=2) != Semaphore("sem", 8)
    assert Named("a") == Named("a") != Named("b")
    assert hash(Named("a")) == hash(Named("a"))
    assert Nothing() == Nothing()
    assert hash(Nothing()) == hash(Nothing())


def test_not_hashable_if_a_field_is_not() -> None:
    with pytest.raises(TypeError):
        hash(Named([]))  # type: ignore[arg-type]


def test_shown() -> None:
    assert repr(Lock("mutex", 8)) == "Lock(kind='mutex', address=8)"
    assert repr(Semaphore("sem")) == "Semaphore(kind='sem', address=0, value=1)"
    assert repr(Named("a")) == "<a>"
    assert repr(Nothing()) == "Nothing()"


def test_copied_and_sent_to_other_processes() -> None:
    lock = Lock("mutex", 8, [1])
    assert copy.deepcopy(lock) == pickle.loads(pickle.dumps(lock)) == lock


def test_compiled_constructor_does_what_the_first_call_does() -> None:
    @record
    class Pair:
        first: int
        others: list[int] = field(default_factory=list)

    lazy = Pair.__init__
    compile_records()
    assert Pair.__init__ is not lazy
    assert (Pair(1).others, Pair(1, [2]).others) == ([], [2])
    compile_records()
    with pytest.raises(TypeError, match="first"):
        Pair()  # type: ignore[call-arg]
