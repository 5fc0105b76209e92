"""Frames of stacks: their names and places, the frames that a verdict shows, and a summary of the others."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gdbext.model import Frame, InlinedCall, NativeFrame, Part, PyFrame, Thread
from gdbext.model.frames import library_of
from gdbext.narrate.words import Foreign, Words, listed, plural

#: The end of the text of a recursion (`gdbext.stacks.recursion`).
REPEATED = "times more"
#: The last line of a stack that was cut on request, as GDB prints it.
MORE_FRAMES = "(More stack frames follow...)"
#: How many Python frames, and how many native frames, a verdict shows of a thread.
_VERDICT_FRAMES = 6
#: Modules that only pass a call between Python and a library; a verdict omits their frames.
_GLUE = re.compile(r"^(?:libffi\.so|_ctypes[.]|_cffi_backend[.])")


def parts_of(thread: Thread) -> Sequence[Part]:
    """The parts of a thread's stack; without any, one for each frame."""
    return thread.parts or [Part((frame,)) for frame in thread.stack]


def numbered(parts: Sequence[Part]) -> Iterator[tuple[int, Part]]:
    """Each part, with the index of its first frame in the stack."""
    return zip(itertools.accumulate((len(part.frames) for part in parts), initial=0), parts)


def explaining_frames(thread: Thread) -> set[int]:
    """The indexes of the frames that explain what a thread does: named native ones and the innermost Python ones.

    Python frames of libraries are among them only if the program has none of its own.
    """
    has_own = any(isinstance(frame, PyFrame) and library_of(frame) is None for frame in thread.stack)
    entries = list(numbered(parts_of(thread)))
    last_python = max((index for index, part in entries if part.text is None
                       and isinstance(part.frames[0], PyFrame)), default=len(thread.stack))
    python = native = 0
    chosen = set()
    for index, part in entries:
        if part.text is not None:
            continue
        frame = part.frames[0]
        if isinstance(frame, PyFrame):
            is_own = not has_own or library_of(frame) is None
            python += is_own
            wanted = is_own and python <= _VERDICT_FRAMES
        else:
            glue = frame.function is None or (frame.module is not None and _GLUE.match(frame.module) is not None)
            native += not glue
            # frames outside the outermost Python frame only show how the thread was started
            wanted = not glue and native <= _VERDICT_FRAMES and python < _VERDICT_FRAMES and index < last_python
        if wanted:
            chosen.add(index)
    return chosen


def own_frame(thread: Thread) -> tuple[PyFrame | None, list[PyFrame]]:
    """The innermost Python frame of the program's own code, and the frames of libraries that it has called.

    Without code of its own, the innermost Python frame.
    """
    inner: list[PyFrame] = []
    for frame in thread.stack:
        if isinstance(frame, PyFrame):
            if library_of(frame) is None:
                return frame, inner
            inner.append(frame)
    return (inner[0], []) if inner else (None, [])


#: Modules whose functions do not explain a wait: the C library, the interpreter, and what passes calls on.
_NOT_EXPLAINING = re.compile(r"^(?:libc|libpthread|ld-linux|ld-musl|libpython|python)[-.\d]")
#: Further modules whose inlined functions are not shown.
_RUNTIME = re.compile(r"^lib(?:gomp|iomp5?|omp)[-.\d]")
#: Functions that the headers of the C++ library define.
_CXX_LIBRARY = re.compile(r"^(?:std|__gnu_cxx)::|^__gthread_")
#: The source files of Rust's library.
_LANGUAGE_LIBRARY = re.compile(r"(^|/)library/(core|std|alloc)/src/")
#: Functions that other headers define: those of bindings to Python, and Python's own.
_BINDINGS = re.compile(r"^(?:pybind11|nanobind)::|^_?Py[A-Z]?\w*_")


def inlined_calls(frame: Frame) -> Sequence[InlinedCall]:
    """The inlined functions of a native frame that are shown, innermost first.

    None of the C library, the interpreter and OpenMP; of functions of the C++ library that call each other, the one
    that other code called.
    """
    if isinstance(frame, PyFrame) or any(each.match(frame.module or "libc.")
                                         for each in (_NOT_EXPLAINING, _GLUE, _RUNTIME)):
        return ()
    callers = [*(call.function for call in frame.inlined[1:]), frame.function or ""]
    return [call for call, caller in zip(frame.inlined, callers)
            if not (_CXX_LIBRARY.match(call.function) and _CXX_LIBRARY.match(caller))]


def inlined_of_program(frame: Frame) -> InlinedCall | None:
    """The innermost inlined function of a frame, except those of the libraries of C++ and Rust and of bindings."""
    if isinstance(frame, PyFrame):
        return None
    return next((call for call in inlined_calls(frame) if not _LANGUAGE_LIBRARY.search(call.file or "")
                 and not _CXX_LIBRARY.match(call.function) and not _BINDINGS.match(call.function)), None)


def native_caller(thread: Thread) -> NativeFrame | None:
    """The innermost function of a library outside of the C library and the interpreter, if no Python frame is inside.

    None as well where such a function has no name.
    """
    for part in parts_of(thread):
        for frame in part.frames:
            if isinstance(frame, PyFrame):
                return None
            if not _NOT_EXPLAINING.match(frame.module or "libc.") and not _GLUE.match(frame.module or ""):
                named = replace(frame, function=part.name) if part.name is not None else frame
                return named if named.function else None
    return None


def own_place(thread: Thread) -> str | None:
    """The innermost place of a thread in the program's own code, in a few words; None without any."""
    frame, _ = own_frame(thread)
    return f"{frame.function} {file_name(frame.file)}:{frame.line}" if frame is not None else short_place(thread.stack)


def libraries(frames: Sequence[Frame]) -> Words:
    """``flask, gunicorn (9 frames)``."""
    names = list(dict.fromkeys(name for frame in frames if (name := library_of(frame)) is not None))
    shown = listed([(Foreign(name, 40),) for name in names[:_VERDICT_FRAMES]])
    return (*shown, ", ..." if len(names) > _VERDICT_FRAMES else "", f" ({plural(len(frames), 'frame')})")


def left_out(parts: Sequence[Part]) -> Words:
    """A summary of omitted parts: the texts of folded ones, and the number of frames."""
    count = sum(len(part.frames) for part in parts)
    if not count:
        return ()
    if all(part.text is None and library_of(frame) is not None for part in parts for frame in part.frames):
        return libraries([frame for part in parts for frame in part.frames])
    texts = [part.text for part in parts if part.text is not None]
    if len(texts) == len(parts):
        # a recursion is counted by its rounds: a document has only the first of its frames
        count = count if not any(text.endswith(REPEATED) for text in texts) else 1
        return (*listed([(Foreign(text, 200),) for text in texts]), f" ({plural(count, 'frame')})" if count > 1 else "")
    # the start of a thread does not explain its current wait
    shown = [(Foreign(text, 200),) for text in texts if not text.endswith(" start")][:_VERDICT_FRAMES]
    return (plural(count, "frame"), *((", with ", *listed(shown)) if shown else ()))


def file_name(path: str) -> str:
    """The last part of a path."""
    return path.rpartition("/")[2]


def frame_name(frame: Frame) -> str:
    """The function of a frame, or its program counter without one."""
    if isinstance(frame, PyFrame):
        return frame.qualified_name or frame.function
    return f"{frame.function}()" if frame.function else f"{frame.pc:#x}"


def frame_place(frame: Frame) -> str:
    """The file and line of a frame, and the module of a native frame, if known."""
    if isinstance(frame, PyFrame):
        return f"{frame.file}:{frame.line if frame.line is not None else '?'}"
    place = f"{frame.file}:{frame.line}" if frame.file and frame.line else ""
    return " ".join(part for part in (frame.module or "", place) if part)


def frame_line(frame: Frame) -> str:
    """A frame on one line: ``work (job.py:41)``, ``get (libdrv.so)``."""
    if isinstance(frame, PyFrame):
        line = f":{frame.line}" if frame.line is not None else ""
        return f"{frame.qualified_name} ({file_name(frame.file)}{line})"
    return f"{frame.function or '?'} ({frame.module or 'no file'})"


def short_place(stack: Sequence[Frame]) -> str | None:
    """The innermost Python frame of a thread in a few words, else its innermost function; None without any."""
    for frame in stack:
        if isinstance(frame, PyFrame):
            return f"{frame.function} {file_name(frame.file)}:{frame.line}"
    return next((frame_name(frame) for frame in stack if frame.function), None)
