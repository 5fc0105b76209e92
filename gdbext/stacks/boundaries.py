"""Names the boundaries between languages in a merged stack: how Python calls native code, and native code Python.

What only carries a call from one to the other (libffi, dispatchers, the import machinery, the start of a thread) is
folded into a line that says so, and other frames get a note. `RULES` is the only table of these patterns; a row
with its evidence is all that a further boundary takes. Merging is for `analysis.stacks`, how parts look for `render`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Union

from gdbext.cpython.frames import FrameReader, RawFrame
from gdbext.cpython.objects import Objects
from gdbext.errors import GdbextError
from gdbext.model import Frame, NativeFrame, Part, PyFrame
from gdbext.model.standard_library import role_of
from gdbext.record import record
from gdbext.runtimes.names import cython_name, rust_name, without_hashes, without_parameters
from gdbext.stacks.merge import Item


class Facts:
    """What a merged stack does not show.

    :param left_out: by the index of a frame, the program counters of the interpreter's native frames directly outside
        of it, innermost first; see `split`.
    :param function: the name of the function at a program counter.
    :param imports: the names of the modules that are being imported, innermost first; see `read_imports`.
    """

    def __init__(self, left_out: Mapping[int, Sequence[int]] | None = None,
                 function: Callable[[int], str | None] = lambda pc: None,
                 imports: Callable[[], Sequence[str | None]] = lambda: ()) -> None:
        self._left_out = left_out or {}
        self._function = function
        self._imports = imports

    def callers(self, index: int) -> Iterator[str]:
        """The interpreter's functions directly outside of a frame, innermost first; ``""`` for one without a symbol."""
        return (self._function(pc) or "" for pc in self._left_out.get(index, ()))

    @functools.cached_property
    def imports(self) -> Sequence[str | None]:
        """Names of the modules that are being imported, innermost first."""
        return self._imports()


def split(items: Sequence[Item], native: Sequence[tuple[int, int]],
          is_interpreter: Callable[[int], bool],
          shown: Collection[int] = ()) -> tuple[list[Item], dict[int, list[int]]]:
    """Take the interpreter's own frames out of a stack that was merged with them, and keep where they were.

    :param items: the result of `stacks.merge` with all native frames but those of the eval loop.
    :param native: (program counter, stack pointer) of each native frame.
    :param is_interpreter: whether a program counter is in the interpreter.
    :param shown: native frames, by index, that stay in any case.
    :return: what is left, and for `Facts` the program counters directly outside of each item of that.
    """
    kept: list[Item] = []
    left_out: dict[int, list[int]] = {}
    for item in items:
        if isinstance(item, int) and item not in shown and is_interpreter(native[item][0]):
            left_out.setdefault(len(kept) - 1, []).append(native[item][0])
        else:
            kept.append(item)
    return kept, left_out


def read_imports(frames: FrameReader, objects: Objects, stack: Sequence[RawFrame]) -> list[str | None]:
    """The name of the module that each running `_find_and_load` imports, innermost first; None where it is unreadable.

    It is the argument `name` (CPython 3.6 to 3.15 Lib/importlib/_bootstrap.py).

    :param stack: the Python frames of a thread, innermost first.
    """
    found: list[str | None] = []
    for raw in stack:
        if is_import(raw.frame):
            try:
                at = frames.variable(raw, "name")
                found.append(objects.string(at) if at else None)
            except GdbextError:
                found.append(None)
    return found


# -- what rules are made of ----------------------------------------------------------------------------------------


@record
class Run:
    """Frames in a row that fit the same rule: those of `stack` from `start` to before `end`."""

    stack: Sequence[Frame]
    start: int
    end: int
    facts: Facts

    @property
    def frames(self) -> Sequence[Frame]:
        """Its frames, innermost first."""
        return self.stack[self.start:self.end]

    @property
    def inner(self) -> Frame | None:
        """The frame that it calls."""
        return self.stack[self.start - 1] if self.start else None

    @property
    def outer(self) -> Frame | None:
        """The frame that calls it."""
        return self.stack[self.end] if self.end < len(self.stack) else None


#: A text, or what makes one of a run; None from that: the rule is not about this run.
Tell = Union[str, Callable[[Run], "str | None"]]
PYTHON, NATIVE = "python", "native"


@record
class Rule:
    """A row of the table: which frames it is about, and what it makes of them.

    A frame fits if all fit that are given: its `language`, its `function` (qualified), its `place` (the module of a
    native frame, the file of a Python frame) and, for a Python frame that the interpreter calls, one of the functions
    that it is `called_by`. An unknown function counts as an empty text.

    Either `fold` or `note` is given. Adjacent frames that fit make one line, or have the same note; with `each` every
    frame stands alone.
    """

    name: str
    language: str
    function: str = ""
    place: str = ""
    called_by: str = ""
    fold: Tell | None = None
    note: Tell | None = None
    each: bool = False

    def fits(self, stack: Sequence[Frame], index: int, facts: Facts) -> bool:
        """Whether a frame is one that the rule is about."""
        if self not in _candidates(*_key(stack[index])):
            return False
        if not self.called_by:
            return True
        called_by = _compiled(self.called_by)
        return any(called_by.search(name) for name in facts.callers(index))


def _key(frame: Frame) -> tuple[str, str, str]:
    if isinstance(frame, PyFrame):
        return PYTHON, frame.qualified_name, frame.file
    return NATIVE, frame.function or "", frame.module or ""


_compiled = functools.lru_cache(maxsize=None)(re.compile)


@functools.lru_cache(maxsize=4096)
def _candidates(language: str, function: str, place: str) -> tuple[Rule, ...]:
    """The rules that a frame fits by itself, without its neighbours."""
    readable = rust_name(function) or function
    return tuple(rule for rule in RULES
                 if rule.language == language and _compiled(rule.place).search(place)
                 and (_compiled(rule.function).search(function) or _compiled(rule.function).search(readable)))


def _in(pattern: str, frame: Frame | None) -> bool:
    """Whether a frame is a native one of such a module."""
    return isinstance(frame, NativeFrame) and re.search(pattern, frame.module or "") is not None


# -- texts ---------------------------------------------------------------------------------------------------------


def _foreign_call(library: str, module: str) -> Callable[[Run], str | None]:
    """For a run of libffi and of a library on top of it: whether it is a call, a callback or both.

    A call goes from the library through libffi out, and a callback comes in the other way. Where libffi is a part of
    the library, as in wheels of cffi, the frames at either end decide.
    """
    def tell(run: Run) -> str | None:
        mine = [_in(module, frame) for frame in run.frames]
        if not any(mine):
            return None
        if all(mine):
            calls = isinstance(run.outer, PyFrame) and not isinstance(run.inner, PyFrame)
            called = isinstance(run.inner, PyFrame) and not isinstance(run.outer, PyFrame)
        else:
            calls, called = mine[-1], mine[0]
        if calls and called:
            return f"{library} call of a {library} callback"
        if called:
            return f"{library} callback"
        if not calls or run.inner is None:
            return None
        return f"{library} call {_describe_callee(run.inner)}"
    return tell


def _describe_callee(called: Frame) -> str:
    if isinstance(called, PyFrame):
        return "into the interpreter"
    return f"of {called.function}()" if called.function else f"into {called.module or 'code without a file'}"


def _cffi_wrapper(run: Run) -> str | None:
    (frame,) = run.frames
    match = re.match(r"_cffi_[df]_(\w+)", frame.function or "")
    return f"cffi call of {match[1]}()" if match else None


def _calls_or_is_called(library: str) -> Callable[[Run], str | None]:
    """Tells which way a run of a library for extension modules carries a call."""
    def tell(run: Run) -> str | None:
        if all(_compiled(_OF_PYTHON_H).search(frame.function or "") for frame in run.frames):
            return None
        calls = isinstance(run.inner, PyFrame) and not isinstance(run.outer, PyFrame)
        return f"{library} call of Python" if calls else f"{library} dispatch"
    return tell


def _cython(run: Run) -> str:
    (frame,) = run.frames
    # `#line` is there only with the options emit_linenums and gdb_debug; otherwise DWARF describes the C code
    if frame.file and frame.line and frame.file.endswith((".pyx", ".pxd", ".pxi", ".py")):
        return f"Cython, {frame.file.rpartition('/')[2]}:{frame.line}"
    return "Cython"


def _generated(run: Run) -> str:
    if _in(_NUMBA, run.outer) or any("[abi:v" in (frame.function or "") for frame in run.frames):
        return "generated by numba"
    return "code in no file"


def _pyo3(run: Run) -> str | None:
    """As for other libraries for extension modules; any program of Rust has the functions that catch a panic."""
    names = [rust_name(frame.function or "") or frame.function or "" for frame in run.frames]
    if any(map(_compiled(_OF_PYO3).search, names)):
        return _calls_or_is_called("PyO3")(run)
    return "catch of panics"


def _ufunc(run: Run) -> str | None:
    if any(_compiled(_UFUNC).search(frame.function or "") for frame in run.frames):
        return "numpy ufunc loop"
    return None


def is_import(frame: Frame) -> bool:
    """Whether a frame is the one of the import system that knows the name of the module."""
    return isinstance(frame, PyFrame) and role_of(frame) == "imports"


def _import(run: Run) -> str:
    """The module that is imported, and for the sake of which others if there are several."""
    before = sum(map(is_import, run.stack[:run.start]))
    count = sum(map(is_import, run.frames))
    names = [name for name in run.facts.imports[before:before + count] if name]
    if not names and isinstance(run.inner, PyFrame) and run.inner.is_module:
        names = [_module_of(run.inner.file)]
    if not names:
        return "import"
    return f"import of {names[0]}" + (f" for {names[-1]}" if len(names) > 1 else "")


def _module_of(file: str) -> str:
    """The name of a module by its file: in full if the file is in a folder of packages, otherwise without packages."""
    path = re.sub(r"(/__init__)?\.pyc?$", "", file)
    _, found, inside = path.rpartition("-packages/")
    return inside.replace("/", ".") if found else path.rpartition("/")[2]


def _signal_handler(run: Run) -> str | None:
    names = [*run.facts.callers(run.start)]
    at = next(index for index, name in enumerate(names) if _compiled(_CHECK_SIGNALS).search(name))
    # since CPython 3.12 PyErr_CheckSignals collects garbage too: in functions that a stripped interpreter does not name
    if names[at].endswith("CheckSignals") and "" in names[max(at - 1, 0):at]:
        # which calls it up to 3.7 only
        return "signal handler" if "Py_MakePendingCalls" in names[at + 1:at + 2] else None
    return "signal handler"


def _python_start(run: Run) -> str | None:
    outermost = run.frames[-1]
    return "thread start" if outermost.function == "_bootstrap" else None


def _test_runner(run: Run) -> str | None:
    return "pytest" if len(run.frames) > 1 else None


def _native_start(run: Run) -> str | None:
    if run.outer is not None or run.inner is None:
        return None
    names = [frame.function for frame in run.frames]
    # without symbols: start_thread and the function that calls it
    if names.count(None) > 2:
        return None
    return "program start" if any(name and "libc_start" in name or name == "_start" for name in names) else (
        "thread start")


# -- the table -----------------------------------------------------------------------------------------------------

_IMPORT_FILES = (r"^<frozen (importlib\._bootstrap(_external)?|zipimport)>$"
                 r"|/importlib/(__init__|_bootstrap|_bootstrap_external)\.py$")
_UFUNC = r"^(ufunc_generic_\w*call|PyUFunc_\w+|try_trivial_\w+|execute_(legacy_)?ufunc_loop|\w*iterator_loop)$"
# CPython 3.9 Include/cpython/abstract.h: inline functions, which an extension may have compiled as its own
_OF_PYTHON_H = r"^_?PyObject_(Vectorcall|VectorcallTstate|CallNoArg|CallOneArg)(\(|$)"
_OF_PYO3 = r"^<?pyo3(\[[0-9a-f]+\])?::|::py_methods::ITEMS::"
_NUMBA = r"^_dispatcher\."
_COLLECTOR = (r"^_?(gc_collect\w*|PyGC_Collect\w*|Py_RunGC|collect|collect_with_callback|collect_generations"
              r"|delete_garbage|finalize_garbage|handle_weakrefs)$"
              # up to 3.11 what is made collects when it is time, and runs no other Python code; these are exported
              r"|^(_PyObject_GC_(Malloc|New|NewVar)|PyType_GenericAlloc)$")
_CHECK_SIGNALS = r"^_?PyErr_CheckSignals\w*$"
_DEALLOCATION = r"^(PyObject_CallFinalizerFromDealloc|subtype_dealloc)$"

#: Tried in order; the first rule that fits a frame and has a text wins.
RULES: tuple[Rule, ...] = (
    # libffi 3.4 src/x86/unix64.S: ffi_call_unix64, ffi_closure_unix64; CPython 3.13 Modules/_ctypes/callproc.c,
    # callbacks.c, which are an extension module of their own in every build with shared ones
    Rule("ctypes", NATIVE, place=r"^(libffi[-.]|_ctypes\.)", fold=_foreign_call("ctypes", r"^_ctypes\.")),
    # cffi 2.0 src/c/_cffi_backend.c: cdata_call, invoke_callback; src/c/call_python.c: cffi_call_python
    Rule("cffi", NATIVE, place=r"^(libffi[-.]|_cffi_backend\.)", fold=_foreign_call("cffi", r"^_cffi_backend\.")),
    # cffi 2.0 src/cffi/recompiler.py (_generate_cpy_function_decl): `_cffi_f_NAME` takes the arguments from Python,
    # `_cffi_d_NAME` those of C, for calls through a pointer
    Rule("cffi, compiled", NATIVE, function=r"^_cffi_[df]_\w", fold=_cffi_wrapper, each=True),
    # Cython 3.1 Cython/Compiler/Naming.py: pywrap_prefix, pyfunc_prefix, func_prefix, genbody_prefix
    Rule("Cython function", NATIVE, function=r"__pyx_(pw|pf|f|gb)_\d", note=_cython, each=True),
    # Cython 3.1 Cython/Utility/ObjectHandling.c, CythonFunction.c, ModuleSetupCode.c: helpers begin like this
    Rule("Cython helper", NATIVE, function=r"^__Pyx_", note="Cython's own"),
    # pybind11 2.13 include/pybind11/pybind11.h: cpp_function::dispatcher calls the function that `initialize` has made
    # of the user's; cast.h: detail::object_api::operator(), detail::simple_collector and detail::unpacking_collector
    # call Python
    Rule("pybind11", NATIVE, function=r"^([\w:]+[*&]* )?pybind11::(cpp_function|detail)::|" + _OF_PYTHON_H,
         fold=_calls_or_is_called("pybind11")),
    # nanobind 2.9 src/nb_func.cpp: nb_func_vectorcall_simple, nb_func_vectorcall_complex; include/nanobind/nb_func.h:
    # func_create; src/common.cpp: obj_vectorcall calls Python
    Rule("nanobind", NATIVE, function=r"^([\w:]+[*&]* )?nanobind::detail::|" + _OF_PYTHON_H,
         fold=_calls_or_is_called("nanobind")),
    # NumPy 2.0 to 2.3 numpy/_core/src/umath/ufunc_object.c: ufunc_generic_vectorcall, ufunc_generic_fastcall,
    # try_trivial_single_output_loop, execute_ufunc_loop; loops.c.src: PyUFunc_On_Om, which calls Python. The same in
    # 1.26 numpy/core; in 1.19 ufunc_generic_call, execute_legacy_ufunc_loop and iterator_loop
    Rule("NumPy", NATIVE, place=r"^_multiarray_umath\.", fold=_ufunc),
    # PyO3 0.25 and 0.29 src/impl_/trampoline.rs, pymethods.rs and extract_argument.rs lead from Python to Rust, within
    # std::panic::catch_unwind (Rust 1.89 library/std/src/panicking.rs); src/types/any.rs calls Python; in 0.25
    # pyo3-macros-backend/src/pyimpl.rs and pymethod.rs make the trampolines of methods within `py_methods::ITEMS`
    Rule("PyO3", NATIVE, function=r"^<?std(\[[0-9a-f]+\])?::panic(king|::catch_unwind)|" + _OF_PYO3, fold=_pyo3),
    # Rust RFC 2603 (v0 mangling; GDB 10 leaves it as it is, later ones show the crates' hashes); the older mangling
    # ends in a hash (rustc 1.80 compiler/rustc_symbol_mangling/src/legacy.rs); how both write closures and traits'
    # implementations
    Rule("Rust", NATIVE, function=r"^_R[A-Z]|\w\[[0-9a-f]{4,16}\]::|::h[0-9a-f]{16}$|\{\{?closure[#}]"
         r"|^<(?!lambda).+>::|^(core|alloc)::", note="Rust", each=True),
    # numba 0.61 numba/_dispatcher.cpp: Dispatcher_call, compile_and_invoke and call_cfunc call machine code that is in
    # no file; numba/core/itanium_mangler.py (mangle_identifier): ABI tags v1, v2 ... distinguish specialisations
    Rule("numba", NATIVE, place=_NUMBA, fold="numba dispatch"),
    # GDB 13 gdb/jit.c: what a JIT registers with GDB has names then, but no file
    Rule("generated code", NATIVE, place=r"^$", note=_generated),
    # glibc 2.36 sysdeps/unix/sysv/linux/x86_64/libc_sigaction.c: handlers return to __restore_rt;
    # Linux 6.1 arch/arm64/kernel/vdso/sigreturn.S: to the kernel's own code
    Rule("signal", NATIVE, function=r"^(__restore_rt|__kernel_rt_sigreturn)$", fold="signal handler called"),
    # glibc 2.36 nptl/pthread_create.c: start_thread; sysdeps/unix/sysv/linux/x86_64/clone3.S,
    # aarch64/clone.S (thread_start); csu/libc-start.c;
    # GCC 12 libgomp/team.c: gomp_thread_start; libstdc++-v3/src/c++11/thread.cc: execute_native_thread_routine;
    # Rust 1.80 library/std/src/sys/pal/unix/thread.rs: thread_start. Those of glibc are not exported, so that a
    # stripped one does not name them.
    Rule("start", NATIVE, function=r"^(start_thread|thread_start|_*clone3?|_*libc_start\w+|_start|gomp_thread_start"
         r"|execute_native_thread_routine|.*::thread_start)$", fold=_native_start),
    Rule("start without symbols", NATIVE, function=r"^$|^(start_thread|thread_start|_*clone3?|_*libc_start\w+)$",
         place=r"^(libc|libpthread)[-.]", fold=_native_start),
    # CPython 3.6 to 3.15 Lib/threading.py (Thread._bootstrap); before 3.11 only the plain names are recorded
    Rule("Python thread", PYTHON, function=r"^(Thread\.)?(run|_bootstrap|_bootstrap_inner)$", place=r"/threading\.py$",
         fold=_python_start),
    # pytest 7 to 9 src/_pytest, pluggy 1.5 src/pluggy: between the program and a test are some thirty frames
    Rule("pytest", PYTHON, place=r"/(_pytest|pluggy)/\w+\.py$", fold=_test_runner),
    # CPython 3.6 to 3.15 Lib/importlib: frozen as `importlib._bootstrap` and `importlib._bootstrap_external`
    Rule("import", PYTHON, place=_IMPORT_FILES, fold=_import),
    # CPython 3.13 Python/gc.c, gc_free_threading.c: gc_collect_main, finalize_garbage; before 3.13 Modules/gcmodule.c,
    # before 3.10 `collect`, and up to 3.11 _PyObject_GC_Alloc and _PyObject_GC_Link, which collect; from 3.12 on
    # allocating only asks for that to be done, in Python/ceval_gil.c and PyErr_CheckSignals
    Rule("finaliser, by the collector", PYTHON, function=r"(^|\.)__del__$", called_by=_COLLECTOR,
         note="__del__ run by the garbage collector", each=True),
    Rule("collector's callback", PYTHON, called_by=_COLLECTOR, note="run by the garbage collector", each=True),
    # CPython 3.6 to 3.15 Objects/typeobject.c: subtype_dealloc; Objects/object.c: PyObject_CallFinalizerFromDealloc,
    # which is exported; the collector calls what these call too, but not them unless the last reference goes
    Rule("finaliser", PYTHON, function=r"(^|\.)__del__$", called_by=_DEALLOCATION,
         note="__del__ run as the last reference went", each=True),
    # CPython 3.13 Modules/signalmodule.c: _PyErr_CheckSignalsTstate calls the handlers that are written in Python;
    # before 3.9 PyErr_CheckSignals or _PyErr_CheckSignals itself. From 3.13 on only PyErr_CheckSignals is exported
    Rule("signal handler", PYTHON, called_by=_CHECK_SIGNALS, note=_signal_handler, each=True),
)


def present(stack: Sequence[Frame], facts: Facts | None = None) -> list[Part]:
    """The parts that a merged stack is shown as, innermost first; each frame is in one of them, in its order.

    :param stack: the frames of the report, innermost first.
    """
    facts = facts or Facts()
    parts: list[Part] = []
    # the end of the run for which a rule had no text
    declined: dict[str, int] = {}
    at = 0
    while at < len(stack):
        text = None
        for rule in _candidates(*_key(stack[at])):
            if declined.get(rule.name, 0) > at or not rule.fits(stack, at, facts):
                continue
            end = at + 1
            while not rule.each and end < len(stack) and rule.fits(stack, end, facts):
                end += 1
            tell = rule.fold or rule.note
            text = tell(Run(stack, at, end, facts)) if callable(tell) else tell
            if text is not None:
                break
            declined[rule.name] = end
        if text is None:
            parts.append(_shown(stack[at], None))
            at += 1
        elif rule.fold is None:
            parts += [_shown(frame, text) for frame in stack[at:end]]
            at = end
        else:
            folded = tuple(stack[at:end])
            if parts and parts[-1].text == text and text.endswith(" start"):
                folded = parts.pop().frames + folded  # Python's is inside the C library's
            parts.append(Part(folded, text))
            at = end
    return parts


def _shown(frame: Frame, note: str | None) -> Part:
    name = _own_name(frame.function or "", frame.module) if isinstance(frame, NativeFrame) else None
    return Part((frame,), note=note, name=name)


# what numba adds to names
_ABI = re.compile(r"\[abi:\w+\]")


@functools.lru_cache(maxsize=4096)
def _own_name(function: str, module: str | None) -> str | None:
    name = cython_name(function, module) or rust_name(function) or _ABI.sub("", without_hashes(function))
    name = name.replace("::_3clocals_3e::", "::<locals>::")  # as numba spells it
    if not name.endswith("operator()"):  # that has lost them already
        name = without_parameters(name)
    return name if name != function else None
