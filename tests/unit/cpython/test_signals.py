from __future__ import annotations

from dataclasses import replace

import pytest

from gdbext.cpython.objects import Objects
from gdbext.cpython.runtime import find_runtimes
from gdbext.cpython.signals import handled_signals
from gdbext.inferior.protocol import Section
from tests.support.fake_memory import FakeMemory
from tests.support.fake_python import VERSIONS, FakePython

SIGINT, SIGTERM = 2, 15


class Program:
    """A Python that has filled its table of handlers, unless `handlers` says otherwise."""

    def __init__(self, version: str) -> None:
        self.python = FakePython(FakeMemory(), version)
        self.module = self.python.runtime()
        self.python.interpreter()
        default = self.python.integer(0)
        builtin = self.python.builtin_method("default_int_handler", 0)
        self.handlers = [0, *[default] * 64]
        self.handlers[SIGINT] = builtin
        self.python.type_object("NoneType")

    def none(self) -> int:
        return self.python.build.new("PyObject", ob_type=self.python.type_object("NoneType"))

    def handled(self) -> frozenset[int] | None:
        """The handled signals of the program."""
        known = self.python.layouts["_PyRuntimeState"]
        if "signal_handlers" in known:
            at = self.python.runtime_address + known.offset("signal_handlers")
        else:
            at = self.python.build.alloc(0x1000) + 0x80
            sections = (*self.module.sections, Section(".bss", at - 0x80, at + 0xF80))
            self.module = replace(self.module, sections=sections)
        for number, handler in enumerate(self.handlers):
            self.python.memory.u64(at + 16 * number, 0, handler)
        (runtime,), problems = find_runtimes(self.python.memory, [self.module], "x86_64")
        assert not problems
        return handled_signals(self.python.memory, runtime, Objects(self.python.memory, runtime.layouts))


@pytest.fixture(params=VERSIONS)
def program(request: pytest.FixtureRequest) -> Program:
    return Program(str(request.param))


def test_no_handlers(program: Program) -> None:
    program.handlers[9] = program.none()
    assert program.handled() == frozenset()


def test_handlers_of_the_program(program: Program) -> None:
    program.handlers[SIGTERM] = program.python.function("stop")
    program.handlers[SIGINT] = program.python.method(program.python.function("stop"), program.python.integer(1))
    program.handlers[10] = program.python.builtin_method("set", program.python.integer(1))
    assert program.handled() == frozenset({SIGINT, SIGTERM, 10})


@pytest.mark.parametrize(("name", "is_own"), [("_on_sigint", True), ("_stop", False)])
def test_interrupt_handler_of_asyncio(program: Program, name: str, is_own: bool) -> None:
    python = program.python
    method = python.method(python.function(name), python.integer(1))
    partial = python.build.new("PyObject", ob_type=python.type_object("functools.partial"))
    python.memory.u64(partial + python.layouts["PyObject"].size, method)
    program.handlers[SIGINT] = partial
    assert program.handled() == (frozenset() if is_own else {SIGINT})


@pytest.mark.parametrize("damage", ["empty", "a gap", "garbage"])
def test_table_that_is_not_filled(program: Program, damage: str) -> None:
    if damage == "empty":
        program.handlers = [0] * 65
    else:
        program.handlers[30] = 0 if damage == "a gap" else 0xDEAD_0000
    assert program.handled() is None
