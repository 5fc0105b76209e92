from __future__ import annotations

import dis
import sys

import pytest

from gdbext.cpython.code.lock_calls import STORES
from gdbext.layout.opcodes import opcodes_of

_LEFT_OUT = ("ENTER_EXECUTOR", "RESERVED", "CACHE")


@pytest.mark.parametrize("minor", range(8, 16))
def test_tables(minor: int) -> None:
    known = opcodes_of(3, minor)
    assert known is not None
    assert known.version == (3, minor)
    assert {"LOAD_FAST", "LOAD_ATTR", "RETURN_VALUE", "EXTENDED_ARG"} <= {*known.names.values()}
    assert all(count > 0 for count in known.caches.values())
    assert {*known.jumps.values()} <= {"absolute", "forward", "backward"}
    assert {*known.jumps, *known.caches} <= {*known.names.values()}
    assert not any(name.startswith("INSTRUMENTED") or "__" in name for name in known.names.values())


@pytest.mark.parametrize("minor", range(8, 16))
def test_every_instruction_that_assigns_a_variable_is_known(minor: int) -> None:
    known = opcodes_of(3, minor)
    assert known is not None
    storing = {name for name in known.names.values() if name.startswith(("STORE_", "DELETE_"))}
    # items of containers, and annotations
    assert storing <= {*STORES, "STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE"}


def test_table_of_the_running_interpreter() -> None:
    known = opcodes_of(*sys.version_info[:2])
    assert known is not None
    assert all(known.names[number] == name for name, number in dis.opmap.items()
               if number < 256 and not name.startswith("INSTRUMENTED") and name not in _LEFT_OUT)


def test_version_without_a_table() -> None:
    assert opcodes_of(3, 7) is None
