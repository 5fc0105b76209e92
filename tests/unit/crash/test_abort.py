from __future__ import annotations

import dataclasses

import pytest

from gdbext.crash import abort
from gdbext.inferior.protocol import Module, Section, SignalInfo
from gdbext.inferior.signals import SIGABRT
from gdbext.model import DERIVED, INFERRED, RECORDED
from gdbext.narrate.reasons import explain
from gdbext.runtimes.libstdcxx import CxxException
from gdbext.runtimes.messages import FatalError, RustPanic
from tests.support.crash_rules import Rules
from tests.support.crash_scene import HEAP, STEP, Scene, aborted, crash_of
from tests.support.fake_elf import fake_elf
from tests.support.fake_target import DRIVER_TEXT, LIBC_TEXT
from tests.support.reasons import text

SANITIZER_TEXT = 0x7B00_0000_0000


@pytest.fixture
def scene() -> Scene:
    return Scene()


def say(scene: Scene, text: str) -> None:
    """Store an abort message in glibc."""
    target = scene.target
    index, libc = next((i, module) for i, module in enumerate(target.loaded) if module.name == "libc.so.6")
    banner, pointer, base = LIBC_TEXT + 0x8000, LIBC_TEXT + 0x9000, LIBC_TEXT - 0x1000
    old = libc.section(".rodata")
    assert old is not None
    target.ram.write(banner, target.ram.read(old.start, 64))
    target.ram.u64(pointer, pointer + 0x100)
    target.ram.write(pointer + 0x100, (4096).to_bytes(4, "little") + text.encode() + b"\0")
    sections = (Section(".text", LIBC_TEXT, banner), Section(".rodata", banner, banner + 64))
    _, target.loaded[index] = fake_elf(base, {"__abort_msg": (pointer - base, 8)}, libc.path, sections,
                                       memory=target.ram)


@pytest.mark.parametrize(("text", "kind"), [
    ("server: table.c:41: update: Assertion `table != NULL' failed.", "assertion"),
    ("double free or corruption (fasttop)", "heap-corruption"), ("free(): invalid pointer", "heap-corruption"),
    ("malloc(): corrupted top size", "heap-corruption"), ("realloc(): invalid next size", "heap-corruption"),
    ("corrupted size vs. prev_size", "heap-corruption"),
    ("*** stack smashing detected ***: terminated", "heap-corruption"),
    ("Fatal glibc error: tpp.c:83", "abort"),
])
def test_abort_message_of_the_c_library_is_the_reason(scene: Scene, text: str, kind: str) -> None:
    aborted(scene)
    say(scene, text + "\n")
    fault = crash_of(scene.target).fault
    # the heap may have been damaged long before; a smashed stack is that of the function itself
    earlier = kind == "heap-corruption" and not text.startswith("***")
    assert (fault.kind, fault.message) == (kind, text)
    is_pointer = text.endswith("invalid pointer")
    assert explain(fault.text) == f"the C library ended the program: {text}" + (
        ": what was freed is not from malloc(), or the heap was damaged earlier and in other code" if is_pointer else
        ". The heap was found damaged here; the write or free() that damaged it may have been earlier and in other code"
        if earlier else "")


def test_abort_without_a_reason(scene: Scene) -> None:
    aborted(scene)
    crash = crash_of(scene.target)
    assert (crash.fault.kind, explain(crash.fault.text)) == ("abort", "the program called abort()")
    assert crash.fault.message is None
    # the guilty frame is the caller of abort
    assert crash.guilty == 2


def test_abort_sent_by_another_process_has_no_message(scene: Scene) -> None:
    """An old message of the C library or an exception object is not the reason."""
    aborted(scene)
    say(scene, "an assertion of long ago")
    scene.target.signals[1] = SignalInfo(SIGABRT, 0, None, 4242, 5)
    assert crash_of(scene.target).fault.kind == "sent"


THROWN = CxxException(HEAP, "St13runtime_error", False, "it broke", RECORDED)


@pytest.mark.parametrize(("name", "kind"), [
    ("__verbose_terminate_handler", "uncaught-exception"), ("std::terminate()", "uncaught-exception"),
    ("stop", "abort")])
def test_uncaught_exception(scene: Scene, monkeypatch: pytest.MonkeyPatch, name: str, kind: str) -> None:
    """Only if the C++ library called abort; an exception object may exist for other reasons."""
    thread = aborted(scene)
    scene.target.name(DRIVER_TEXT + 0x400, name)
    thread.frames.insert(2, (DRIVER_TEXT + 0x400, thread.stack + 0x180))
    monkeypatch.setattr(abort, "find_exceptions", lambda *_: [THROWN])
    scene.target.demangled["_ZTISt13runtime_error"] = "typeinfo for std::runtime_error"
    fault = crash_of(scene.target).fault
    assert fault.kind == kind
    if kind != "abort":
        assert explain(fault.text) == (
            "std::terminate() was called for a C++ exception of type std::runtime_error: it broke")
        assert (fault.message, fault.evidence) == ("it broke", RECORDED)


def test_uncaught_exception_with_an_uncertain_text_is_inferred(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    aborted(scene)
    scene.target.name(LIBC_TEXT + 0x200, "__cxa_throw")
    monkeypatch.setattr(abort, "find_exceptions", lambda *_: [
        dataclasses.replace(THROWN, evidence=INFERRED, why="the first text in it")])
    fault = crash_of(scene.target).fault
    assert (fault.kind, fault.evidence, fault.why) == ("uncaught-exception", INFERRED, text("the first text in it"))


@pytest.mark.parametrize(("name", "kind"), [("rust_panic", "rust-panic"), ("stop", "abort")])
def test_rust_panic(scene: Scene, monkeypatch: pytest.MonkeyPatch, name: str, kind: str) -> None:
    thread = aborted(scene)
    scene.target.name(DRIVER_TEXT + 0x400, name)
    thread.frames.insert(2, (DRIVER_TEXT + 0x400, thread.stack + 0x180))
    monkeypatch.setattr(abort, "rust_panic", lambda *_: RustPanic("index out of bounds", "src/lib.rs", 41, 5))
    fault = crash_of(scene.target).fault
    assert fault.kind == kind
    if kind != "abort":
        assert explain(fault.text) == "a Rust panic at src/lib.rs:41:5: index out of bounds"
        assert (fault.message, fault.evidence) == ("index out of bounds", INFERRED)


@pytest.mark.parametrize(("errors", "message", "evidence"), [
    ([FatalError("take_gil", "no thread state", DERIVED)], "Fatal Python error: take_gil: no thread state", DERIVED),
    ([FatalError("inner", "of the report", DERIVED), FatalError(None, "the first", INFERRED)],
     "Fatal Python error: the first", INFERRED)])
def test_fatal_python_error(monkeypatch: pytest.MonkeyPatch, errors: list[FatalError], message: str,
                            evidence: str) -> None:
    """The outermost of several errors is the first one."""
    rules = Rules()
    rules.target.python_thread()
    scene = Scene(rules.target)
    scene.thread = rules.target.fakes[0]
    aborted(scene)
    monkeypatch.setattr(abort, "fatal_errors", lambda *_: errors)
    fault = crash_of(scene.target).fault
    assert (fault.kind, fault.message, fault.evidence) == ("fatal-python-error", message, evidence)
    assert explain(fault.text) == f"Python ended the program: {message}"


@pytest.mark.parametrize(("function", "race"), [("__tsan::ReportRace(__tsan::ThreadState*)", True), ("Die", False)])
def test_sanitizer(scene: Scene, function: str, race: bool) -> None:
    thread = aborted(scene)
    scene.target.loaded.append(Module("/lib/libtsan.so.2", (Section(".text", SANITIZER_TEXT, SANITIZER_TEXT + 0x100),)))
    scene.target.name(SANITIZER_TEXT, function)
    thread.frames.insert(2, (SANITIZER_TEXT, thread.stack + 0x180))
    fault = crash_of(scene.target).fault
    assert fault.kind == "sanitizer"
    assert explain(fault.text).startswith("ThreadSanitizer ended the program")
    assert ("data race" in explain(fault.text)) is race


def test_failed_assertion_of_the_cxx_library(scene: Scene) -> None:
    """Its text is still in the buffer in which it was printed, below the frames that are active."""
    thread = aborted(scene)
    scene.target.name(LIBC_TEXT + 0x200, "std::__glibcxx_assert_fail(char const*, int, char const*, char const*)")
    assert explain(crash_of(scene.target).fault.text) == "the C++ library ended the program: an assertion failed"
    scene.target.ram.write(thread.stack + 0x50, b"vector.h:9: f(): Assertion '__n < this->size()' failed.")
    fault = crash_of(scene.target).fault
    assert (fault.kind, fault.message) == ("assertion", "Assertion '__n < this->size()' failed.")


@pytest.mark.parametrize(("call", "said"), [
    (f"call {LIBC_TEXT + 0x200:#x} <abort@plt>", "libffi.so.8 called abort()"),
    ("call *%r10", "the program called abort()")])
def test_abort_of_a_library_that_passes_calls_on(scene: Scene, call: str, said: str) -> None:
    """It may also pass on a call of abort()."""
    thread = aborted(scene)
    thread.frames[2] = (scene.code("nop", call) + STEP, thread.frames[2][1])
    scene.target.loaded = [dataclasses.replace(module, path=module.path.replace("libdrv.so", "libffi.so.8"))
                           for module in scene.target.loaded]
    assert explain(crash_of(scene.target).fault.text).startswith(said)
