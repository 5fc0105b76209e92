from __future__ import annotations

import struct

import pytest

from gdbext.errors import CorruptStructure
from gdbext.inferior.address_space import Region
from gdbext.inferior.protocol import Module, Section, Symbol
from gdbext.model import InlinedCall
from gdbext.narrate.reasons import explain
from gdbext.threads.code import Code, InterpreterCode, read_code
from gdbext.threads.findings import Findings
from tests.support.fake_eh_frame import describe_functions
from tests.support.fake_target import APP_TEXT, DRIVER_TEXT, LIBC_TEXT, FakeTarget, FakeThread
from tests.support.reasons import said

OTHER_TEXT = 0x7A00_0001_0000
OTHER = "/app/libwork.so.1"


def code_of(target: FakeTarget) -> tuple[Code, Findings]:
    findings = Findings()
    return read_code(target, findings), findings


def first_page(build_id: bytes) -> bytes:
    """The first page of a file, with its build id: an ELF header, PT_LOAD and PT_NOTE, and the note."""
    note = struct.pack("<III4s", 4, len(build_id), 3, b"GNU\0") + build_id
    header = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 2,
                                                                   64, 0, 0)
    segments = ((1, 5, 0, 0, 0, 0x2000, 0x2000, 0x1000), (4, 4, 0x100, 0x100, 0x100, len(note), len(note), 4))
    headers = b"".join(struct.pack("<IIQQQQQQ", *segment) for segment in segments)
    return ((header + headers).ljust(0x100, b"\0") + note).ljust(0x1000, b"\0")


# -- files ---------------------------------------------------------------------------------------------------------

def with_other_file(loaded: bytes, file: bytes) -> FakeTarget:
    """A core whose library was one build, while the file that the debugger has is perhaps another."""
    target = FakeTarget("core")
    base = OTHER_TEXT - 0x1000
    target.ram.map(base, first_page(loaded))
    target.loaded.append(Module(OTHER, (Section(".text", OTHER_TEXT, OTHER_TEXT + 0x1000),)))
    target.mapped = [(base, OTHER)]
    target.build_ids[OTHER] = file.hex()
    target.name(OTHER_TEXT + 0x10, "work")
    return target


def test_file_of_another_build_is_not_relied_on() -> None:
    code, findings = code_of(with_other_file(b"\x11" * 20, b"\x22" * 20))
    assert OTHER not in [module.path for module in code.modules]
    assert code.symbol(OTHER_TEXT + 0x10) == Symbol(None)
    # it is named all the same
    assert code.frame(OTHER_TEXT + 0x10, 0).module == "libwork.so.1"
    (problem,) = findings.problems
    assert problem.where == "libwork.so.1"
    assert "11" * 20 in explain(problem.why)
    assert "22" * 20 in explain(problem.why)
    assert findings.incomplete is not None
    assert "not the files that the core was made with" in str(findings.incomplete)


def test_file_of_the_same_build_is_relied_on() -> None:
    code, findings = code_of(with_other_file(b"\x11" * 20, b"\x11" * 20))
    assert code.symbol(OTHER_TEXT + 0x10).function == "work"
    assert (findings.problems, findings.incomplete) == ([], None)


def test_debugger_that_knows_no_file_is_an_answer_that_is_not_whole() -> None:
    target = FakeTarget("core")
    target.loaded.clear()
    _, findings = code_of(target)
    assert findings.incomplete is not None
    assert "gdb EXECUTABLE CORE" in findings.incomplete.hint


def test_mapped_library_that_the_debugger_does_not_have_is_missing() -> None:
    target = FakeTarget("core")
    target.mappings = [Region(OTHER_TEXT, OTHER_TEXT + 0x1000, "rx", OTHER)]
    target.mapped = [(OTHER_TEXT, OTHER)]
    code, _ = code_of(target)
    assert code.missing_libraries() == {OTHER: OTHER_TEXT}
    assert (code.missing_file(OTHER_TEXT + 8), code.missing_file(APP_TEXT)) == (OTHER, None)
    assert code.frame(OTHER_TEXT + 8, 0).module == "libwork.so.1"
    target.files[OTHER] = b""
    assert (code.missing_libraries(), code.missing_file(OTHER_TEXT + 8)) == ({}, None)


def test_truncated_core_without_its_list_of_libraries() -> None:
    target = FakeTarget("core")
    target.kept = (1_000, 124_456)
    assert code_of(target)[0].unlisted is None
    target.mappings = [Region(OTHER_TEXT, OTHER_TEXT + 0x1000, "rx", OTHER)]
    target.mapped = [(OTHER_TEXT, OTHER)]
    code, findings = code_of(target)
    assert code.unlisted == ("the core is truncated: 1,000 of 124,456 bytes are there, "
                             "without the dynamic linker's list of libraries")
    assert [said(problem.why) for problem in findings.problems] == [code.unlisted]


# -- symbols and frames --------------------------------------------------------------------------------------------

def test_caller_is_what_its_call_belongs_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that does not return may end with a call: the return address is the next function's first byte."""
    target = FakeTarget()
    target.ram.ensure(APP_TEXT, 0x1000)
    names = {APP_TEXT + 0x1FF: "stops", APP_TEXT + 0x200: "next"}
    monkeypatch.setattr(target, "symbol", lambda address: Symbol(names.get(address)))
    code, _ = code_of(target)
    assert (code.frame(APP_TEXT + 0x200, 0).function, code.frame(APP_TEXT + 0x200, 1).function) == ("next", "stops")


def test_interrupted_function_is_not_a_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler returns to the restorer, of which no byte before is a call."""
    target = FakeTarget()
    target.ram.ensure(LIBC_TEXT, 0x1000)
    target.ram.write(LIBC_TEXT + 0x200, b"\x48\xc7\xc0\x0f\0\0\0\x0f\x05")
    names = {LIBC_TEXT + 0x1FF: "before", LIBC_TEXT + 0x200: "__restore_rt"}
    monkeypatch.setattr(target, "symbol", lambda address: Symbol(names.get(address)))
    assert code_of(target)[0].frame(LIBC_TEXT + 0x200, 2).function == "__restore_rt"


def test_inlined_calls_of_cython_have_the_names_of_their_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """The body is inlined into the wrapper of the same name, whose place in the generated file means nothing."""
    target = FakeTarget()
    calls = [InlinedCall(name, "job.c", line) for line, name in enumerate(
        ["__Pyx_PyObject_Call", "__pyx_f_3job_half", "halve", "__pyx_pf_3job_2work"], 10)]
    symbol = Symbol("__pyx_pw_3job_3work", "job.c", 20, tuple(calls))
    monkeypatch.setattr(target, "symbol", lambda address: symbol)
    frame = code_of(target)[0].frame(APP_TEXT + 0x200, 0)
    assert frame.inlined == (InlinedCall("job.half", "job.c", 11), InlinedCall("halve", "job.c", 12))
    assert (frame.function, frame.file, frame.line) == ("__pyx_pw_3job_3work", "job.c", 13)


def test_inlined_calls_of_other_languages_are_as_the_debugger_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    target = FakeTarget()
    symbol = Symbol("work", "job.c", 20, (InlinedCall("work", "job.c", 3), InlinedCall("f<int>::g", None, None)))
    monkeypatch.setattr(target, "symbol", lambda address: symbol)
    frame = code_of(target)[0].frame(APP_TEXT + 0x200, 0)
    assert (frame.inlined, frame.line) == (symbol.inlined, 20)


def test_caller_of_a_bad_address_is_in_a_loaded_file() -> None:
    target = FakeTarget()
    thread = target.thread()
    target.ram.u64(thread.stack, APP_TEXT + 0x20, 0x1234)
    code, _ = code_of(target)
    assert [code.caller({"rip": 0, "rsp": at}) for at in (thread.stack, thread.stack + 8, 0xDEAD_0000)] == [
        {"rip": APP_TEXT + 0x20, "rsp": thread.stack + 8}, None, None]


# -- stacks --------------------------------------------------------------------------------------------------------

def unwound(target: FakeTarget, thread: FakeThread) -> tuple[list[tuple[int, int]], Findings]:
    code, findings = code_of(target)
    return code.unwind(thread.ref, thread.registers), findings


def test_debugger_unwinds_what_has_no_frame_descriptions() -> None:
    target = FakeTarget()
    thread = target.thread()
    frames, findings = unwound(target, thread)
    assert (frames, findings.problems) == (thread.frames, [])


def test_stack_that_the_debugger_cannot_unwind_has_its_innermost_frame() -> None:
    target = FakeTarget()
    thread = target.thread()
    thread.unwind_error = CorruptStructure(0, "the stack is damaged")
    frames, findings = unwound(target, thread)
    assert frames == [(thread.registers["rip"], thread.stack)]
    assert [(problem.where, problem.what) for problem in findings.problems] == [("thread 1", "unreadable")]


def test_debugger_does_not_unwind_by_files_of_another_build() -> None:
    target = with_other_file(b"\x11" * 20, b"\x22" * 20)
    thread = target.thread()
    assert unwound(target, thread)[0] == thread.frames[:1]


@pytest.mark.parametrize(("is_here", "why"), [(True, "no usable unwind information"), (False, "which is missing")])
def test_callers_of_a_file_that_the_debugger_lacks_are_guesses(is_here: bool, why: str) -> None:
    target = FakeTarget("core")
    target.mappings = [Region(OTHER_TEXT, OTHER_TEXT + 0x1000, "rx", OTHER)]
    if is_here:
        target.files[OTHER] = b""
    thread = target.thread()
    thread.frames = [(DRIVER_TEXT + 0x10, thread.stack), (OTHER_TEXT + 0x10, thread.stack + 0x40),
                     (APP_TEXT + 0x80, thread.stack + 0x80)]
    frames, findings = unwound(target, thread)
    assert frames == thread.frames[:2]
    (problem,) = findings.problems
    assert why in explain(problem.why)


JAVA_CODE = 0x7900_0000_0000


@pytest.mark.parametrize(("library", "permissions", "path", "is_cut"), [
    ("/jdk/libjvm.so", "rwx", None, True), ("/jdk/libother.so", "rwx", None, False),
    ("/jdk/libjvm.so", "rw", None, False), ("/jdk/libjvm.so", "rx", "/app/libwork.so.1", False)])
def test_callers_of_java_code_are_guesses(library: str, permissions: str, path: str | None, is_cut: bool) -> None:
    target = FakeTarget()
    target.loaded.append(Module(library, (Section(".text", OTHER_TEXT, OTHER_TEXT + 0x1000),)))
    target.mappings = [Region(JAVA_CODE, JAVA_CODE + 0x1000, permissions, path)]
    thread = target.thread()
    thread.registers["rip"] = JAVA_CODE + 0x10
    thread.frames = [(JAVA_CODE + 0x10, thread.stack), (0x3, thread.stack + 0x40)]
    code, _ = code_of(target)
    frames = code.unwind(thread.ref, thread.registers)
    assert frames[:1] == thread.frames[:1]
    assert code.is_cut(frames[:1]) == is_cut
    assert len(frames) == 1 if is_cut or path is not None else frames == thread.frames
    assert not code.is_cut([])


def test_function_range_needs_no_symbols() -> None:
    target = FakeTarget()
    target.ram.ensure(APP_TEXT, 0x1000)
    describe_functions(target, "/app/server", APP_TEXT + 0x200)
    code, _ = code_of(target)
    assert code.function_range(APP_TEXT + 0x280) == (APP_TEXT + 0x200, APP_TEXT + 0x300)
    assert code.function_range(APP_TEXT + 0x10) is None


# -- the interpreter -----------------------------------------------------------------------------------------------

PYTHON_TEXT = 0x7B00_0001_0000


def interpreter_code(path: str, is_main: bool, **symbols: int) -> InterpreterCode:
    """With Python in a file, and functions at offsets in it."""
    target = FakeTarget()
    module = Module(path, (Section(".text", PYTHON_TEXT, PYTHON_TEXT + 0x1000),), is_main=is_main)
    target.loaded = [module, target.loaded[1]]
    target.ram.ensure(PYTHON_TEXT, 0x1000)
    for name, offset in symbols.items():
        target.name(PYTHON_TEXT + offset, name)
    return InterpreterCode(code_of(target)[0], [module])


@pytest.mark.parametrize(("path", "is_main"), [
    ("/usr/lib/libpython3.11.so.1.0", False), ("/usr/bin/python3.13", True), ("/usr/bin/python3.13t", True),
    ("/usr/bin/python3.14-dbg", True)])
def test_whole_file_is_the_interpreter(path: str, is_main: bool) -> None:
    code = interpreter_code(path, is_main)
    assert code[PYTHON_TEXT + 0x10]
    assert not code[DRIVER_TEXT + 0x10]
    assert not code[0x1000]


def test_program_that_python_is_linked_into_has_functions_of_its_own() -> None:
    code = interpreter_code("/app/server", True, PyEval_EvalCode=0x100, _PyObject_Call=0x200, serve=0x300)
    assert [code[PYTHON_TEXT + offset] for offset in (0x100, 0x200, 0x300)] == [True, True, False]
    assert not code[PYTHON_TEXT + 0x800]
