"""Messages of a process that ended itself: from the C library, Python's fatal errors, Rust panics, pybind11.

The texts are stored by the functions that end a process, or are on the stack of the thread that called them. Symbols of
local functions are not needed.

Sources: glibc 2.36 include/stdlib.h (``struct abort_msg_s``); CPython 3.9 to 3.13 Python/pylifecycle.c; rustc 1.95
library/core/src/panic/location.rs, library/std/src/panicking.rs; pybind11 2.13 include/pybind11/pytypes.h.
"""

from __future__ import annotations

import itertools
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from gdbext.arch.protocol import Architecture
from gdbext.elf.dynamic import find_dynamic_symbol
from gdbext.errors import GdbextError, if_unreadable
from gdbext.inferior.cache import read_cstring, read_u64
from gdbext.inferior.protocol import Memory, Module
from gdbext.model import Evidence
from gdbext.record import record
from gdbext.runtimes.libstdcxx import FIRST_PAGES, CxxException, is_text, read_string

IsReadOnly = Callable[[int], bool]

#: ``struct abort_msg_s``: its size in whole pages, then the text.
_ABORT_SIZE = struct.Struct("<I")
_MAX_TEXT, _MAX_ABORT_SIZE = 4096, 1 << 20

#: The largest number of stack words and registers between the end of a process and its cause. A signal handler in
#: between, such as faulthandler's, takes a few thousand bytes with the registers that the kernel saves.
_MAX_WORDS = 4096

#: The functions that end Python with a message (not all builds export them all), and the indices of the arguments for
#: the calling function's name and the text. Since CPython 3.9 ``Py_FatalError()`` is a macro that passes the function's
#: name, except in code for the limited API.
_FATAL_ERRORS = {"_Py_FatalErrorFunc": (0, 1), "_Py_FatalErrorFormat": (0, 1), "Py_FatalError": (None, 0)}
#: Names of C functions, and the shortest text that is accepted as a message.
#: The states of the runtime, which Python prints before it ends, so that pointers to them may remain on the stack
#: (CPython 3.9 to 3.14 Python/pylifecycle.c, ``fatal_error_dump_runtime``).
_STATES = frozenset(("initialized", "core initialized", "preinitialized", "preinitializing", "unknown"))
_FUNCTION = re.compile(r"_*[A-Za-z]\w{2,}", re.ASCII)
_MIN_MESSAGE = 8
#: A conversion of a ``printf`` format, and what its last letter makes.
_CONVERSION = re.compile(r"%([-+ #0]*[\d*]*(?:\.[\d*]+)?(?:hh|h|ll|l|z|t|j)?[diouxXpscfeg%])")
_FLOAT = rb"-?(?:[\d.]+(?:e[-+]\d+)?|nan|inf)"
_CONVERTED = {"p": rb"(?:0x[0-9a-f]+|\(nil\))", "d": rb"-?\d+", "i": rb"-?\d+", "u": rb"\d+", "x": rb"[0-9a-f]+",
              "X": rb"[0-9A-F]+", "o": rb"[0-7]+", "f": _FLOAT, "e": _FLOAT, "g": _FLOAT, "c": rb"[ -~]", "%": b"%"}
#: A call's arguments are loaded at most this many bytes before it.
_NEAR_CALL = 64
#: The largest number of words between the call of ``abort()`` and the registers saved by a fatal error's functions;
#: and by one that formats its message.
_ABORT, _NEAR_ABORT, _NEAR_FORMAT = "abort", 48, 160

#: ``core::panic::Location``: file name and its length, line, column. Some releases count a NUL behind the name.
_LOCATION = struct.Struct("<QQII")
_MAX_PATH, _MAX_LINE, _MAX_COLUMN = 4096, 1 << 24, 1 << 16
#: Where core says that a panic cannot unwind; files of Rust's library.
_NO_UNWIND = "library/core/src/panicking.rs"
_RUST_LIBRARY = re.compile(r"(^|/)library/(core|std|alloc|panic_\w+)/src/")
#: The class of exceptions of Rust, and the exception: class, cleanup, two words of the unwinder; a constant of std, and
#: the payload, a ``Box<dyn Any>``.
_RUST_EXCEPTION, _EXCEPTION = b"MOZ\0RUST", struct.Struct("<7Q")
#: The message of a panic is at most this many words behind the location on the stack.
_NEAR_LOCATION = 64

_PYBIND11_ERROR = "N8pybind1117error_already_setE"
#: ``pybind11::error_already_set`` since 2.10: the pointer to its shared part; in that ``m_type`` and ``m_value``, then
#: the text behind ``m_trace``.
_FETCHED_ERROR, _ERROR_PARTS, _ERROR_TEXT = 8, struct.Struct("<QQ"), 24


# -- C library ------------------------------------------------------------------------------------------------

@if_unreadable(None)
def abort_message(memory: Memory, libc: Module) -> str | None:
    """The text that glibc printed before it ended the process, for example for a failed assertion; or None.

    glibc stores it for debuggers in ``__abort_msg`` (seen from 2.27 to 2.43). It stays there, so it explains the end of
    the process only if glibc did end it.

    Source: glibc 2.36 include/stdlib.h, sysdeps/posix/libc_fatal.c, assert/assert.c.
    """
    found = find_dynamic_symbol(memory, libc, "__abort_msg")
    if found is None:
        return None
    message = read_u64(memory, found.address)
    if not message:
        return None
    (size,) = _ABORT_SIZE.unpack(memory.read(message, _ABORT_SIZE.size))
    if not _ABORT_SIZE.size < size <= _MAX_ABORT_SIZE:
        return None
    text = read_cstring(memory, message + _ABORT_SIZE.size, min(size - _ABORT_SIZE.size, _MAX_TEXT))
    return text.decode(errors="backslashreplace").rstrip("\n") or None


# -- Python ---------------------------------------------------------------------------------------------------

@record
class FatalError:
    """A fatal error: ``Fatal Python error: FUNCTION: MESSAGE``.

    `evidence` is ``derived`` if the calling code passes exactly these texts, ``inferred`` if they are the nearest ones
    on the stack. `is_format`: the message is a ``printf`` format; the printed message had values in it. `is_far`: it
    was found so far from the call of `abort` that it counts only if it was printed.
    """

    function: str | None
    message: str | None
    evidence: Evidence
    is_format: bool = False
    is_far: bool = False


def fatal_errors(cpu: Architecture, memory: Memory, python: Module, libc: Module, words: Iterable[int],
                 registers: Iterable[int], is_read_only: IsReadOnly) -> list[FatalError]:
    """Find the fatal errors with which a thread is ending Python, innermost first.

    There are several if another error occurred while Python reported the first.

    Source: CPython 3.9 to 3.13 Include/pyerrors.h, Python/pylifecycle.c.

    :param python: the file with the interpreter.
    :param libc: the C library.
    :param words: words of the thread's stack, from the innermost frame.
    :param registers: registers of the innermost frame, which may still have values from outer functions.
    :param is_read_only: whether an address is in read-only memory of a loaded file.
    """
    stack = list(itertools.islice(words, _MAX_WORDS))
    functions: dict[int | None, str] = {}
    for module, name in ((libc, _ABORT), *((python, name) for name in _FATAL_ERRORS)):
        symbol = find_dynamic_symbol(memory, module, name)
        if symbol is not None:
            functions[symbol.address] = name
    calls = [(index, functions[function]) for index, word in enumerate(stack) if is_read_only(word)
             for function in [cpu.called(memory, word)] if function in functions]
    found: list[FatalError] = []
    start = 0
    for index, name in calls:
        error = None
        if name == _ABORT:
            is_last = not any(0 < other - index <= _NEAR_ABORT and end != _ABORT for other, end in calls)
            if is_last and python.contains(stack[index]):
                # the function in between is not exported, or its call is not recognised
                error = _unnamed_error(memory, stack[index + 1:index + _NEAR_FORMAT], is_read_only)
        else:
            near = stack[start:index]
            saved = fatal_error_texts(memory, near if found else [*near, *registers], is_read_only)
            error = _fatal_error(name, _constant_arguments(cpu, memory, stack[index], is_read_only), saved)
            if found and error.evidence != "derived":
                # a call at the end of a function is followed by the next function's start, which looks like a return
                # address
                error = None
        if error is not None:
            found.append(error)
            start = index + 1
    return found


def printed(data: bytes, form: str) -> str | None:
    """Find the text that a ``printf`` format has become, such as in the buffers on a stack; None if it is not there.

    :param data: memory that may contain the text.
    """
    pieces = _CONVERSION.split(form)
    # else anything would match, or the end of the text would not be known
    if len("".join(pieces[::2])) < _MIN_MESSAGE or len(pieces) > 1 and not pieces[-1]:
        return None
    pattern = b"".join(re.escape(piece.encode()) if index % 2 == 0 else _CONVERTED.get(piece[-1:], b"[ -~]{0,300}?")
                       for index, piece in enumerate(pieces))
    found = re.search(pattern, data)
    return found[0].decode() if found is not None else None


def filled(form: str, values: Iterable[int | None], text: Callable[[int | None], str | None]) -> str:
    """A ``printf`` format with the values that are known instead of their conversions.

    :param values: the integers and addresses behind the format, None for one that is not known.
    :param text: reads the text at an address.
    """
    pieces, rest = _CONVERSION.split(form), iter(values)
    if any("*" in each for each in pieces[1::2]):
        return form  # a width is an argument, too
    made = []
    for index, piece in enumerate(pieces):
        if index % 2 == 0:
            made.append(piece)
            continue
        # values of floating point are passed in other registers
        value = next(rest, None) if piece[-1] not in "feg%" else None
        shown = text(value) if piece[-1] == "s" else None
        if piece in ("d", "i", "u") and value is not None:
            shown = str((value & 0xFFFF_FFFF ^ 0x8000_0000) - 0x8000_0000 if piece != "u" else value & 0xFFFF_FFFF)
        made.append(f"%{piece}" if shown is None else shown.replace("%", "%%"))
    return "".join(made)


def without_conversions(form: str) -> str:
    """A ``printf`` format with an ellipsis for each value that is not known."""
    return "".join(piece if index % 2 == 0 else "%" if piece == "%" else "..."
                   for index, piece in enumerate(_CONVERSION.split(form)))


def _fatal_error(ending: str, arguments: Mapping[int, str], saved: Sequence[str]) -> FatalError:
    """Combine the texts in the code before the call with those saved on the stack, which take precedence.

    Code may be disassembled in several ways, and an argument may be a parameter of the calling function.
    """
    where = _FATAL_ERRORS[ending]
    function, message = (arguments.get(place) if place is not None else None for place in where)
    is_derived = message in saved and (function in saved or where[0] is None)
    if where[0] is not None and function not in saved:
        function = next(filter(_FUNCTION.fullmatch, saved), function)
    if message not in saved:
        message = next((text for text in saved if " " in text), message)
    return FatalError(function, message, "derived" if is_derived else "inferred", "%" in (message or ""))


def _unnamed_error(memory: Memory, words: Sequence[int], is_read_only: IsReadOnly) -> FatalError | None:
    """Infer a fatal error from the texts on the stack; a caller's message may be in any memory."""
    near, further = words[:_NEAR_ABORT], words[_NEAR_ABORT:]
    texts = fatal_error_texts(memory, near, is_read_only)
    message = next((text for text in texts if " " in text), None)
    if message is None:
        # a function with a variable number of arguments has a large frame
        more = fatal_error_texts(memory, further, is_read_only)
        message = next((text for text in more if " " in text and _CONVERSION.search(text)), None)
        if message is not None:
            function = next(filter(_FUNCTION.fullmatch, [*texts, *more]), None)
            return FatalError(function, message, "inferred", True, True)
    if message is None:
        message = next((text for text in fatal_error_texts(memory, near, lambda _: True) if " " in text), None)
        return FatalError(None, message, "inferred") if message else None
    return FatalError(next(filter(_FUNCTION.fullmatch, texts), None), message, "inferred", "%" in message)


def _constant_arguments(cpu: Architecture, memory: Memory, return_address: int,
                        is_read_only: IsReadOnly) -> dict[int, str]:
    """The texts that the code before a call loads into argument registers: index of the argument -> text."""
    start = return_address - _NEAR_CALL
    try:
        # values loaded before an earlier call are arguments of that call
        for after, function in cpu.iter_calls(memory, start, return_address):
            if after < return_address and is_read_only(function):
                start = after
        loads = cpu.loaded_arguments(memory, start, return_address)
    except GdbextError:
        return {}
    found = {}
    for argument, address in loads:
        text = _read_text(memory, address, is_read_only)
        if text is not None:
            found[argument] = text  # the last load before the call counts
    return found


def fatal_error_texts(memory: Memory, words: Iterable[int], is_read_only: IsReadOnly) -> list[str]:
    """Find the constant texts that words point to, each once, in order: names of C functions, and messages.

    Functions that do not return keep their arguments in registers, and the functions they call save these on the stack.
    So the arguments of a fatal error are found without identifying the functions.

    :param words: registers, and the stack between the end of the process and the code that ended it.
    :param is_read_only: whether an address is in read-only memory of a loaded file.
    """
    texts = (_read_text(memory, word, is_read_only) for word in dict.fromkeys(itertools.islice(words, _MAX_WORDS)))
    return list(dict.fromkeys(text for text in texts if text is not None and text not in _STATES))


@if_unreadable(None)
def _read_text(memory: Memory, address: int, is_read_only: IsReadOnly) -> str | None:
    if address < FIRST_PAGES or not is_read_only(address):
        return None
    data = read_cstring(memory, address, _MAX_TEXT)
    if not is_text(data):
        return None
    text = data.decode()
    is_message = len(text) >= _MIN_MESSAGE and " " in text.strip()
    return text if is_message or _FUNCTION.fullmatch(text) else None


# -- Rust -----------------------------------------------------------------------------------------------------

@record
class RustPanic:
    """A panic: its place, and its message if known. Both are inferred from the stack.

    ``panic in a function that cannot unwind``, at a line of Rust's standard library, means that a first panic reached a
    function that cannot be unwound, such as an ``extern "C"`` one. The first message is not on the stack then.
    """

    message: str | None
    file: str
    line: int
    column: int


def rust_panic(memory: Memory, words: Sequence[int], in_image: Callable[[int], bool]) -> RustPanic | None:
    """Find the innermost panic on a stack, or None.

    The function that ends a process for a panic has a pointer to the place of the panic, and its caller the message, as
    a ``&str`` or a ``String``. Stacks may contain places for other reasons, so use this only for a thread that ended
    the process from Rust.

    Source: rustc 1.95 library/core/src/panic/location.rs, library/std/src/panicking.rs.

    :param words: words of a thread's stack, from the innermost frame.
    :param in_image: whether an address is in a loaded file.
    """
    for index, word in enumerate(words[:_MAX_WORDS]):
        place = _location(memory, word, in_image) if word % 8 == 0 and in_image(word) else None
        if place is not None:
            # the word after the pointer to the place may look like the length of a text there
            return RustPanic(_rust_message(memory, words[index + 1:index + _NEAR_LOCATION], in_image), *place)
    return None


def is_second_panic(panic: RustPanic) -> bool:
    """Whether a panic only says that another one could not unwind: core reports that in a function of its own."""
    return panic.file.endswith(_NO_UNWIND)


def rust_places(memory: Memory, words: Iterable[int], in_image: Callable[[int], bool]) -> list[tuple[str, int, int]]:
    """The places of panics that words point to, without those in Rust's library: file, line and column, each once."""
    found = (_location(memory, word, in_image) for word in dict.fromkeys(words) if word % 8 == 0 and in_image(word))
    return list(dict.fromkeys(place for place in found if place is not None and not _RUST_LIBRARY.search(place[0])))


def rust_payloads(memory: Memory, start: int, data: bytes,
                  in_image: Callable[[int], bool]) -> Iterator[tuple[int, str]]:
    """The messages of panics in flight in a piece of memory, each with the frame that is to catch it.

    Source: rustc 1.95 library/panic_unwind/src/gcc.rs (``struct Exception``); libgcc unwind.inc: ``private_2`` is the
    canonical frame address of the handler. The payload is a ``&str`` or a ``String``.

    :param data: the contents of the memory from `start` on.
    """
    at = data.find(_RUST_EXCEPTION)
    while at >= 0:
        if (start + at) % 8 == 0 and at + _EXCEPTION.size <= len(data):
            _, cleanup, _, handler, canary, payload, table = _EXCEPTION.unpack_from(data, at)
            message = _payload(memory, payload) if in_image(cleanup) and in_image(canary) and in_image(table) else None
            if message is not None:
                yield handler, message
        at = data.find(_RUST_EXCEPTION, at + 8)


@if_unreadable(None)
def _payload(memory: Memory, address: int) -> str | None:
    """The text of a ``&str`` (pointer, length) or a ``String`` (capacity, pointer, length, in the compiler's order)."""
    words = struct.unpack("<3Q", memory.read(address, 24))
    for start, size in ((words[0], words[1]), (words[1], words[2]), (words[0], words[2])):
        if start >= FIRST_PAGES and 0 < size <= _MAX_TEXT:
            try:
                data = memory.read(start, size)
            except GdbextError:
                continue
            if is_text(data):
                return data.decode()
    return None


@if_unreadable(None)
def _location(memory: Memory, address: int, in_image: Callable[[int], bool]) -> tuple[str, int, int] | None:
    start, length, line, column = _LOCATION.unpack(memory.read(address, _LOCATION.size))
    if not (in_image(start) and 3 < length <= _MAX_PATH and 0 < line < _MAX_LINE and 0 < column < _MAX_COLUMN):
        return None
    path = memory.read(start, length)
    path = path[:-1] if path.endswith(b"\0") else path
    return (path.decode(), line, column) if path.endswith(b".rs") and is_text(path) else None


def _rust_message(memory: Memory, words: Sequence[int], in_image: Callable[[int], bool]) -> str | None:
    """The first text that two adjacent words describe, address and length, except file names.

    It is a constant, or in a ``String``, whose capacity is next to these words.
    """
    for index in range(len(words) - 1):
        start, length = words[index:index + 2]
        if not 0 < length <= _MAX_TEXT or start < FIRST_PAGES:
            continue
        around = (*words[index - 1:index], *words[index + 2:index + 3])
        if not in_image(start) and not any(length <= capacity <= _MAX_TEXT for capacity in around):
            continue
        try:
            data = memory.read(start, length)
        except GdbextError:
            continue
        if is_text(data) and not data.endswith(b".rs"):
            return data.decode()
    return None


# -- pybind11 -------------------------------------------------------------------------------------------------

@record
class PythonError:
    """A Python exception that pybind11 carries through C++ code.

    `type` and `value` are addresses of Python objects. `text` begins with the name of the exception's class; message
    and traceback follow only if the program has called ``what()``.
    """

    type: int
    value: int
    text: str


@if_unreadable(None)
def pybind11_error(memory: Memory, exception: CxxException) -> PythonError | None:
    """Decode the Python exception in a ``pybind11::error_already_set``; None for other C++ exceptions.

    Source: pybind11 2.13 include/pybind11/pytypes.h (since 2.10; older versions threw a ``std::runtime_error`` with the
    full text).
    """
    if exception.type != _PYBIND11_ERROR:
        return None
    error = read_u64(memory, exception.address + _FETCHED_ERROR)
    kind, value = _ERROR_PARTS.unpack(memory.read(error, _ERROR_PARTS.size))
    text = read_string(memory, error + _ERROR_TEXT)
    return PythonError(kind, value, text) if text and kind else None
