from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from gdbext.cpython.frames import FrameReader, RawFrame
from gdbext.cpython.objects import Objects
from gdbext.errors import MemoryUnreadable
from gdbext.model import Frame, NativeFrame, Part, PyFrame
from gdbext.stacks import boundaries
from gdbext.stacks.boundaries import RULES, Facts, present, read_imports, split
from gdbext.stacks.merge import Item

BOOTSTRAP, EXTERNAL = "<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>"
CTYPES, FFI, CFFI = "_ctypes.cpython-311-x86_64-linux-gnu.so", "libffi.so.8.1.2", "_cffi_backend.abi3.so"
UMATH = "_multiarray_umath.cpython-311-x86_64-linux-gnu.so"


def py(function: str, file: str = "job.py", qualified: str | None = None) -> Frame:
    return PyFrame(function, qualified or function, file, 7)


def native(function: str | None, module: str | None = "libuser.so", file: str | None = None,
           line: int | None = None) -> Frame:
    return NativeFrame(function, module, 0x1000, file, line)


def of(module: str, count: int) -> list[Frame]:
    """Frames of a stripped module."""
    return [native(None, module)] * count


def importing(count: int = 1) -> list[Frame]:
    """The frames of imports within each other, without anything of their own in between."""
    return [py("exec_module", EXTERNAL), py("_load_unlocked", BOOTSTRAP), py("_find_and_load_unlocked", BOOTSTRAP),
            py("_find_and_load", BOOTSTRAP)] * count


def text(part: Part) -> str:
    if part.text is not None:
        return f"[{part.text}]"
    name = part.name or part.frames[0].function or "?"
    return name + (f" -- {part.note}" if part.note else "")


def shown(stack: Sequence[Frame], facts: Facts | None = None) -> list[str]:
    parts = present(stack, facts)
    assert [frame for part in parts for frame in part.frames] == [*stack]
    return [text(part) for part in parts]


def called_by(index: int, *functions: str) -> Facts:
    """Facts of a stack in which the frame of that index is called by these functions of the interpreter."""
    return Facts({index: range(len(functions))}, lambda pc: functions[pc])


def test_a_stack_without_boundaries() -> None:
    assert shown([]) == []
    assert shown([native("read", "libc.so.6"), py("work"), py("main")]) == ["read", "work", "main"]


# -- libffi --------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("library", "module"), [("ctypes", CTYPES), ("cffi", CFFI)])
def test_foreign_calls_are_told_without_symbols(library: str, module: str) -> None:
    stack = [native("compute"), *of(FFI, 3), *of(module, 2), py("work")]
    assert shown(stack) == ["compute", f"[{library} call of compute()]", "work"]
    stack = [py("inside"), *of(module, 2), *of(FFI, 2), native("compute"), *of(FFI, 3), *of(module, 2), py("work")]
    assert shown(stack) == ["inside", f"[{library} callback]", "compute", f"[{library} call of compute()]", "work"]


def test_what_a_foreign_call_is_of() -> None:
    assert shown([native(None), *of(FFI, 2), *of(CTYPES, 1), py("work")])[1] == "[ctypes call into libuser.so]"
    assert shown([native(None, None), *of(FFI, 2), *of(CTYPES, 1), py("work")])[1] == (
        "[ctypes call into code without a file]")
    # `ctypes.pythonapi`
    assert shown([py("inside"), *of(FFI, 2), *of(CTYPES, 1), py("work")])[1] == "[ctypes call into the interpreter]"


def test_a_callback_that_is_called_without_anything_in_between() -> None:
    stack = [py("inside"), *of(CTYPES, 2), *of(FFI, 5), *of(CTYPES, 2), py("work")]
    assert shown(stack) == ["inside", "[ctypes call of a ctypes callback]", "work"]


def test_libffi_that_is_a_part_of_cffi() -> None:
    stack = [py("inside"), *of(CFFI, 4), native("compute"), *of(CFFI, 4), py("work")]
    assert shown(stack) == ["inside", "[cffi callback]", "compute", "[cffi call of compute()]", "work"]
    # neither end shows which of the two it is
    assert shown([py("inside"), *of(CFFI, 2), py("work")]) == ["inside", "?", "?", "work"]


def test_libffi_of_somebody_else() -> None:
    stack = [native("compute"), *of(FFI, 1), *of("libgirepository-1.0.so.1", 1), py("work")]
    assert shown(stack) == ["compute", "?", "?", "work"]


def test_ctypes_that_is_caught_on_its_way() -> None:
    assert shown([*of(FFI, 1), *of(CTYPES, 2), py("work")]) == ["?", "?", "?", "work"]


def test_wrapper_that_cffi_has_compiled() -> None:
    stack = [native("compute"), native("_cffi_f_compute", "_job.abi3.so"), py("work")]
    assert shown(stack) == ["compute", "[cffi call of compute()]", "work"]


# -- extension modules ---------------------------------------------------------------------------------------------

def test_cython() -> None:
    module = "cholesky.cpython-311-x86_64-linux-gnu.so"
    stack: list[Frame] = [
        native("__pyx_f_8cholesky_factor_all._omp_fn.0", module, "/src/cholesky.pyx", 30),
        native("__Pyx_PyObject_Call", module, "/src/cholesky.c", 9000),
        native("__pyx_pw_8cholesky_1factor_batch", module, "/src/cholesky.c", 8000),
        native("__pyx_pw_8cholesky_3tell", module),
        py("work"),
    ]
    assert shown(stack) == ["cholesky.factor_all -- Cython, cholesky.pyx:30", "__Pyx_PyObject_Call -- Cython's own",
                            "cholesky.factor_batch -- Cython", "cholesky.tell -- Cython", "work"]


def test_pybind11() -> None:
    stack: list[Frame] = [
        py("inside"),
        native("PyObject_Vectorcall(PyObject*, PyObject* const*, size_t, PyObject*)"),
        native("pybind11::object pybind11::detail::object_api<pybind11::handle>::operator()<>() const"),
        native("pybind11_init_job(pybind11::module_&)::{lambda(int, pybind11::detail::x)#1}::operator()(int) const"),
        native("void pybind11::cpp_function::initialize<int (*&)(int), int>(int)::{lambda(int)#1}::_FUN(int)"),
        native("pybind11::cpp_function::dispatcher(_object*, _object*, _object*)"),
        py("work"),
    ]
    assert shown(stack) == [
        "inside", "[pybind11 call of Python]",
        "pybind11_init_job(pybind11::module_&)::{lambda(int, pybind11::detail::x)#1}::operator()",
        "[pybind11 dispatch]", "work"]


def test_nanobind() -> None:
    stack: list[Frame] = [
        py("inside"), native("PyObject_Vectorcall"), native("nanobind::detail::obj_vectorcall"), native("run"),
        native("nanobind::detail::nb_func_vectorcall_simple"), py("work")]
    assert shown(stack) == ["inside", "[nanobind call of Python]", "run", "[nanobind dispatch]", "work"]


def test_an_inline_function_of_python_in_a_program() -> None:
    assert shown([py("inside"), native("PyObject_Vectorcall"), native("main")]) == [
        "inside", "PyObject_Vectorcall", "main"]


def test_numpy() -> None:
    loop = [native(name, UMATH) for name in ("PyUFunc_On_Om", None, "ufunc_generic_fastcall")]
    assert shown([py("inside"), *loop, py("work")]) == ["inside", "[numpy ufunc loop]", "work"]
    # a module that is stripped, or another function of it
    assert shown([*of(UMATH, 1), native("array_sort", UMATH), py("work")]) == ["?", "array_sort", "work"]


def test_rust() -> None:
    stack: list[Frame] = [
        py("__hash__"),
        native("<pyo3[eb2406aa]::instance::Bound<T> as pyo3[eb2406aa]::types::any::PyAnyMethods>::hash"),
        native("<rpds[5c3b1f9a]::Map>::insert"),
        native("rpds::Map::get::h0123456789abcdef"),
        native("_RNvNtCs1234_4rpds5utils7replace"),
        native("_RNvNtCs1234_4pyo35impl_10trampoline"),
        native("std::panicking::try"),
        py("work"),
    ]
    assert shown(stack) == ["__hash__", "[PyO3 call of Python]", "<rpds::Map>::insert -- Rust",
                            "rpds::Map::get -- Rust", "rpds::utils::replace -- Rust", "[PyO3 dispatch]", "work"]
    # any thread of Rust's standard library begins with it
    assert shown([native("server::run"), native("std::panicking::try"), native("std::thread::start")])[1] == (
        "[catch of panics]")


def test_generated_code() -> None:
    stack: list[Frame] = [native("__main__::add[abi:v1][abi:c8tJTIeFIjxB](long long)", None), native(None, None),
                          *of("_dispatcher.cpython-311-x86_64-linux-gnu.so", 2), py("work")]
    assert shown(stack) == ["__main__::add -- generated by numba", "? -- generated by numba", "[numba dispatch]",
                            "work"]
    # without names the caller decides
    assert shown(stack[1:])[0] == "? -- generated by numba"
    assert shown([native(None, None), py("work")])[0] == "? -- code in no file"


# -- what the interpreter calls ------------------------------------------------------------------------------------

@pytest.mark.parametrize(("function", "caller", "note"), [
    ("__del__", "gc_collect_main", "__del__ run by the garbage collector"),
    ("__del__", "collect", "__del__ run by the garbage collector"),
    ("__del__", "subtype_dealloc", "__del__ run as the last reference went"),
    ("on_change", "gc_collect_main", "run by the garbage collector"),
    ("on_signal", "_PyErr_CheckSignalsTstate", "signal handler"),
    ("on_signal", "PyErr_CheckSignals", "signal handler"),
])
def test_called_by_the_interpreter(function: str, caller: str, note: str) -> None:
    facts = called_by(1, "_PyObject_Call", caller, "eval_frame_handle_pending")
    assert shown([py("inside"), py(function), py("work")], facts) == ["inside", f"{function} -- {note}", "work"]


def test_a_finaliser_that_the_collector_comes_to_through_others() -> None:
    facts = called_by(0, "slot_tp_finalize", "subtype_dealloc", "delete_garbage", "gc_collect_main")
    (first, _) = shown([py("__del__", qualified="Node.__del__"), py("work")], facts)
    assert first == "__del__ -- __del__ run by the garbage collector"


def test_nothing_is_said_of_callers_without_symbols() -> None:
    assert shown([py("__del__"), py("work")], Facts({0: [1, 2]})) == ["__del__", "work"]
    assert shown([py("__del__"), py("work")]) == ["__del__", "work"]


def test_callers_are_only_named_where_frames_were_left_out() -> None:
    def function(pc: int) -> str | None:
        raise AssertionError(pc)
    assert shown([py("inside"), py("work")], Facts({}, function)) == ["inside", "work"]


def test_handler_of_a_signal_in_native_code() -> None:
    stack = [native("on_signal"), native("__restore_rt", "libc.so.6"), native("compute")]
    assert shown(stack) == ["on_signal", "[signal handler called]", "compute"]


# -- imports -------------------------------------------------------------------------------------------------------

def test_imports_are_named() -> None:
    stack: list[Frame] = [
        py("<module>", "/x/shelf/book.py"), *importing(), py("<module>", "/x/shelf/__init__.py"), *importing(),
        py("import_module", "/usr/lib/python3.9/importlib/__init__.py"), py("work")]
    facts = Facts(imports=lambda: ["shelf.book", "shelf"])
    assert shown(stack, facts) == ["<module>", "[import of shelf.book]", "<module>", "[import of shelf]", "work"]


def test_a_package_that_is_imported_first() -> None:
    facts = Facts(imports=lambda: ["shelf", "shelf.book"])
    assert shown([py("<module>"), *importing(2), py("work")], facts)[1] == "[import of shelf for shelf.book]"


@pytest.mark.parametrize(("file", "name"), [
    ("/opt/lib/python3.11/site-packages/yaml/loader.py", "yaml.loader"),
    ("/usr/lib/python3/dist-packages/yaml/__init__.py", "yaml"),
    ("/x/shelf/book.py", "book"),
    ("book.pyc", "book"),
])
def test_imports_whose_names_are_unreadable(file: str, name: str) -> None:
    facts = Facts(imports=lambda: [None])
    assert shown([py("<module>", file), *importing(), py("work")], facts)[1] == f"[import of {name}]"


def test_an_import_that_has_not_come_to_the_module() -> None:
    assert shown([native("read", "libc.so.6"), *importing(), py("work")])[1] == "[import]"


def test_names_of_imports_are_not_asked_for_without_one() -> None:
    def imports() -> list[str | None]:
        raise AssertionError
    assert shown([py("work")], Facts(imports=imports)) == ["work"]


class Variables(FrameReader):
    """Frames that have variables called `name`; that of the frame at address 0 cannot be read."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def variable(self, raw: RawFrame, name: str) -> int:
        assert name == "name"
        self.asked.append(raw.address)
        if raw.address == 0:
            raise MemoryUnreadable(0, 8)
        return raw.address


class Strings(Objects):
    def __init__(self) -> None:
        pass

    def string(self, address: int) -> str:
        return f"module{address}"


def test_names_are_read_from_the_frames() -> None:
    stack = [py("_find_and_load", BOOTSTRAP), py("_load_unlocked", BOOTSTRAP), py("_find_and_load"),
             py("_find_and_load", BOOTSTRAP), py("_find_and_load", BOOTSTRAP)]
    raw = [RawFrame(address, 0, 0, frame) for address, frame in zip((5, 6, 7, 0, 9), stack)
           if isinstance(frame, PyFrame)]
    variables = Variables()
    assert read_imports(variables, Strings(), raw) == ["module5", None, "module9"]
    assert variables.asked == [5, 0, 9]


# -- starts --------------------------------------------------------------------------------------------------------

START = [py("run", "/usr/lib/python3.11/threading.py", "Thread.run"),
         py("_bootstrap_inner", "/usr/lib/python3.11/threading.py", "Thread._bootstrap_inner"),
         py("_bootstrap", "/usr/lib/python3.11/threading.py", "Thread._bootstrap")]


def test_thread_start() -> None:
    of_libc = [native("start_thread", "libc.so.6"), native("clone3", "libc.so.6")]
    assert shown([py("work"), *START, *of_libc]) == ["work", "[thread start]"]
    assert shown([py("work"), *START, *of("libc.so.6", 2)]) == ["work", "[thread start]"]
    # CPython up to 3.10 records no qualified names
    plain = [py(frame.function or "", frame.file or "") for frame in START]
    assert shown([py("work"), *plain, *of("libpthread-2.31.so", 1), native("clone", "libc.so.6")]) == [
        "work", "[thread start]"]


def test_a_timer_is_shown() -> None:
    timer = py("run", "/usr/lib/python3.11/threading.py", "Timer.run")
    assert shown([timer, *START[1:], *of("libc.so.6", 2)]) == ["run", "[thread start]"]


def test_run_of_something_else_is_shown() -> None:
    assert shown([py("work"), START[0], py("main")]) == ["work", "run", "main"]


def test_program_start() -> None:
    stack = [native("main", "program"), native("__libc_start_call_main", "libc.so.6"),
             native("__libc_start_main_impl", "libc.so.6"), native("_start", "program")]
    assert shown(stack) == ["main", "[program start]"]
    assert shown([native("main", "program"), *of("libc.so.6", 1), native("__libc_start_main", "libc.so.6")]) == [
        "main", "[program start]"]


def test_starts_of_other_runtimes() -> None:
    for function, module in (("gomp_thread_start", "libgomp.so.1"), ("execute_native_thread_routine", "libstdc++.so.6"),
                             ("std::sys::pal::unix::thread::Thread::new::thread_start", "program")):
        stack = [native("work"), native(function, module), native("start_thread", "libc.so.6"),
                 native("clone3", "libc.so.6")]
        assert shown(stack) == ["work", "[thread start]"]


def test_what_waits_is_not_taken_for_a_start() -> None:
    assert shown(list(of("libc.so.6", 2))) == ["?", "?"]
    assert shown([native("work"), *of("libc.so.6", 3)]) == ["work", "?", "?", "?"]
    assert shown([native("read", "libc.so.6"), *of("libc.so.6", 2)]) == ["read", "[thread start]"]


# -- splitting, and the table --------------------------------------------------------------------------------------

def test_split_keeps_where_the_interpreter_was() -> None:
    frame = PyFrame("work", "work", "job.py", 7)
    stack = [(0x9000, 1), (0x2000, 2), (0x1000, 3), (0x2001, 4), (0x2002, 5), (0x9001, 6), (0x2003, 7)]
    items: list[Item] = [0, 1, frame, 3, 4, 5, 6]
    assert split(items, stack, lambda pc: pc < 0x3000) == ([0, frame, 5], {0: [0x2000], 1: [0x2001, 0x2002],
                                                                           2: [0x2003]})


def test_split_of_a_stack_that_begins_in_the_interpreter() -> None:
    assert split([0, 1], [(0x2000, 1), (0x9000, 2)], lambda pc: pc < 0x3000) == ([1], {-1: [0x2000]})


def test_rules_are_whole() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert (rule.fold is None) != (rule.note is None), rule.name
        assert rule.function or rule.place or rule.called_by, rule.name
        assert rule.language in ("python", "native"), rule.name


def test_every_rule_has_its_evidence() -> None:
    """A comment before the row, with a project, its version and a file."""
    with open(boundaries.__file__, encoding="utf-8") as file:
        table = file.read().partition("RULES: tuple")[2].partition("\ndef present")[0]
    rows = table.split("    Rule(")
    assert len(rows) == len(RULES) + 1
    # those that rest on the evidence of the row before
    following = {"start without symbols", "collector's callback"}
    for before, row in zip(rows, rows[1:]):
        name = row.split('"')[1]
        assert name in following or before.rstrip().splitlines()[-1].lstrip().startswith("#"), name


@pytest.mark.parametrize("stack", [
    of(UMATH, 20_000), of(CFFI, 20_000), of("libc.so.6", 20_000), [native(None, None)] * 20_000,
    [py("run", "/usr/lib/python3.11/threading.py", "Thread.run")] * 20_000,
    [native(None, FFI), native(None, CTYPES)] * 10_000, importing(5_000), [native("a" * 60_000)] * 2_000,
    [native("_R" + "B" * 50_000)] * 100, [native("__pyx_pw_" + "1" * 50_000)] * 100,
])
@pytest.mark.slow
def test_deep_stacks_take_no_time(stack: Sequence[Frame]) -> None:
    started = time.process_time()
    parts = present(stack)
    assert time.process_time() - started < 5
    assert sum(len(part.frames) for part in parts) == len(stack)


def test_frames_of_a_test_runner_are_one_part() -> None:
    folder = "/usr/lib/python3/dist-packages"
    runner = [py("_hookexec", f"{folder}/pluggy/_manager.py"), py("pytest_runtest_call", f"{folder}/_pytest/runner.py")]
    parts = present([py("test_one", "/srv/app/test_one.py"), *runner])
    assert [(part.text, len(part.frames)) for part in parts] == [(None, 1), ("pytest", 2)]
    assert [part.text for part in present([py("test_one"), runner[0]])] == [None, None]
