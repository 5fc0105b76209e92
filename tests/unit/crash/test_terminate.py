from __future__ import annotations

import pytest

from gdbext.crash import abort
from gdbext.inferior.protocol import Symbol
from gdbext.model import RECORDED
from gdbext.model.frames import InlinedCall
from gdbext.narrate.reasons import explain
from gdbext.runtimes.libstdcxx import CxxException
from tests.support.crash_scene import FUNCTION, HEAP, Scene, aborted, crash_of
from tests.support.fake_target import LIBC_TEXT

THROWN = CxxException(HEAP, "St13runtime_error", False, "it broke", RECORDED)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_terminate_of_the_program_is_not_an_exception(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception of long ago may still be in memory."""
    aborted(scene)
    scene.target.name(LIBC_TEXT + 0x200, "std::terminate()")
    monkeypatch.setattr(abort, "find_exceptions", lambda *_: [THROWN])
    fault = crash_of(scene.target).fault
    assert (fault.kind, fault.message) == ("terminate", None)
    assert explain(fault.text) == "the program called std::terminate()"


@pytest.mark.parametrize(("function", "inlined", "text"), [
    ("std::thread::~thread()", (), "a std::thread was destroyed while it was joinable"),
    ("upload()", ("std::thread::~thread",), "a std::thread was destroyed while it was joinable"),
    ("std::thread::operator=(std::thread&&)", (), "a std::thread was assigned to while it was joinable"),
    ("upload()", ("std::thread::join",), "the program called std::terminate()")])
def test_terminate_of_a_joinable_thread(scene: Scene, function: str, inlined: tuple[str, ...], text: str) -> None:
    aborted(scene)
    scene.target.name(LIBC_TEXT + 0x200, "std::terminate()")
    scene.target.name(FUNCTION - 1, function)
    if inlined:
        scene.target.symbols[FUNCTION - 1] = Symbol(function, inlined=tuple(InlinedCall(name) for name in inlined))
    fault = crash_of(scene.target).fault
    assert fault.kind == "terminate"
    assert text in explain(fault.text)


def test_pure_virtual_call_names_the_object(scene: Scene) -> None:
    thread = aborted(scene)
    scene.target.name(LIBC_TEXT + 0x200, "__cxa_pure_virtual")
    fault = crash_of(scene.target).fault
    assert (fault.kind, thread.ref.number) == ("pure-virtual-call", 1)
    assert explain(fault.text).startswith("a pure virtual function was called: its object is being")
