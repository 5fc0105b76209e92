"""Finds the signals that have a handler written in Python (`signal.signal`).

The interpreter keeps an array of {tripped, func}, one for each signal. Since CPython 3.12 the array is a part of
``_PyRuntime``; before, it is a static variable, which is recognised in the module's ``.bss`` by its contents.

Source: CPython 3.13 Include/internal/pycore_signal.h (struct _signals_runtime_state), CPython 3.11
Modules/signalmodule.c (Handlers).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from gdbext.cpython.objects import Objects
from gdbext.cpython.runtime import PythonRuntime
from gdbext.errors import if_unreadable
from gdbext.inferior.cache import read_u64
from gdbext.inferior.protocol import Memory

#: Py_NSIG on Linux: signals are numbered from 1 to 64.
_NUMBERS = 65
_INTERRUPT = 2  # SIGINT
#: Size of an element and offset of its `func`, in bytes, for versions without a layout.
_STRIDE, _FUNC = 16, 8
#: Largest ``.bss`` that is searched, in bytes.
_MAX_SEARCHED = 16 << 20
_DEFAULT_INTERRUPT = "default_int_handler"
#: The handler of SIGINT while an asyncio loop runs, which interrupts too (Lib/asyncio/runners.py, 3.11 and later).
_ASYNCIO_INTERRUPT = "_on_sigint"
#: The file with that of trio.
_TRIO_INTERRUPT = "/trio/_core/_ki.py"


@if_unreadable(None)
def handled_signals(memory: Memory, runtime: PythonRuntime, objects: Objects) -> frozenset[int] | None:
    """The signals with a handler in Python, except the interpreter's own handler of SIGINT; None if not known.

    Handlers that native code has set are not included.
    """
    handlers = _table(memory, runtime) or _search(memory, runtime, objects)
    if not handlers:
        return None
    return frozenset(number for number, handler in enumerate(handlers, 1)
                     if not _is_default(memory, runtime, objects, number, handler))


def _table(memory: Memory, runtime: PythonRuntime) -> Sequence[int] | None:
    """``func`` of each signal from 1 on, in the runtime's table; None if there is no table, or it is not filled yet."""
    if not runtime.layouts.has("_PyRuntimeState", "signal_handlers_func"):
        return None
    known = runtime.layouts["_PyRuntimeState"]
    table = known["signal_handlers"]
    at, stride = known.offset("signal_handlers_func") - table.offset, table.size // _NUMBERS
    data = memory.read(runtime.address + table.offset, table.size)
    handlers = [struct.unpack_from("<Q", data, number * stride + at)[0] for number in range(1, _NUMBERS)]
    return handlers if all(handlers) else None


def _search(memory: Memory, runtime: PythonRuntime, objects: Objects) -> Sequence[int] | None:
    """``func`` of each signal in the static variable: the only place with an empty element and 64 objects."""
    section = runtime.module.section(".bss")
    if section is None or not 0 < section.end - section.start <= _MAX_SEARCHED:
        return None
    size = (section.end - section.start) // 8
    words = struct.unpack(f"<{size}Q", memory.read(section.start, 8 * size))
    step, last = _STRIDE // 8, (_NUMBERS - 1) * _STRIDE // 8 + _FUNC // 8
    found = []
    for start in range(size - last):
        # the quick test first: 64 pointers in a row are rare
        if not words[start + last] or not words[start + step + 1] or words[start] or words[start + 1]:
            continue
        handlers = words[start + step + 1:start + last + 1:step]
        if all(handlers) and all(word in (0, 1) for word in words[start + step:start + last:step]):
            found.append(handlers)
    fitting = [handlers for handlers in found if all(_is_object(objects, handler) for handler in set(handlers))]
    return fitting[0] if len(fitting) == 1 else None


@if_unreadable(False)
def _is_object(objects: Objects, address: int) -> bool:
    return objects.is_object(address)


def _is_default(memory: Memory, runtime: PythonRuntime, objects: Objects, number: int, handler: int) -> bool:
    """Whether a handler (``PyObject *``) is SIG_DFL, SIG_IGN, None (not set by Python), or Python's for SIGINT."""
    layouts, kinds = runtime.layouts, objects.type_names(handler)
    if "int" in kinds or "NoneType" in kinds:
        return True
    if number != _INTERRUPT:
        return False
    if "functools.partial" in kinds:
        # its function is the first member of the object (Modules/_functoolsmodule.c, partialobject)
        method = read_u64(memory, handler + layouts["PyObject"].size)
        return objects.bound_method(method)[1] == _ASYNCIO_INTERRUPT
    if "function" in kinds:
        code = objects.read_member("PyFunctionObject", handler, "func_code")
        return objects.string(objects.read_member("PyCodeObject", code, "co_filename")).endswith(_TRIO_INTERRUPT)
    return objects.bound_method(handler)[1] == _DEFAULT_INTERRUPT
