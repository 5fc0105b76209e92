"""Messages of loggers that end the program: LOG(FATAL) and CHECK of glog, Abseil, TSL, XLA, c10 and others alike.

Such a logger is a temporary object whose destructor writes the message and calls `abort`. The message is still in the
buffer of its stream: a part of the object, or of memory that the object points to. What called the destructor is the
code that logged it.

C structures: ``std::basic_streambuf`` of libstdc++ and libc++. Source: GCC 12 libstdc++-v3/include/std/streambuf.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence

from gdbext.crash.origins import OriginReader
from gdbext.crash.pointers import LOWEST, Pointers
from gdbext.crash.suspects import class_of_function
from gdbext.inferior.cache import read_available
from gdbext.inferior.protocol import Memory, ThreadRef
from gdbext.record import record
from gdbext.runtimes.libstdcxx import is_text
from gdbext.threads.code import Code
from gdbext.threads.site import Sites

#: The virtual table; then begin, current place and end of the area to read, and of the area to write.
_BUFFER = struct.Struct("<7Q")
#: How many bytes of a logger, and of each object that it points to, are searched; glog's buffer is 30,000 bytes before
#: its stream.
_OBJECT, _POINTED = 512, 1 << 15
#: How many members of a logger are followed, how many functions a logger has on the stack, and the length of messages.
_MAX_MEMBERS, _MAX_FUNCTIONS, _SHORTEST, _LONGEST = 16, 8, 4, 1 << 15
#: The start of a fatal line, with severity, date, time, thread and place. Source: glog 0.6 src/logging.cc
#: (LogMessage::Init); Abseil 20240116 absl/log/internal/log_format.cc (FormatLogPrefix); c10 has brackets around it.
_FATAL_LINE = re.compile(r"\[?F\d{4,8} \d\d:\d\d:\d\d[.\d]* +\d+ [^\s:]+:\d+\] ")
_DESTRUCTOR = re.compile(r"(?:^|::)~\w")


@record
class Logged:
    """A message with which a logger ended the program, and the index of the frame that logged it."""

    message: str
    frame: int


class LoggerReader:
    """Finds the message of the logger that has called `abort`."""

    def __init__(self, memory: Memory, code: Code, sites: Sites, pointers: Pointers, origins: OriginReader) -> None:
        self._memory = memory
        self._code = code
        self._sites = sites
        self._pointers = pointers
        self._origins = origins

    def find(self, thread: ThreadRef, native: Sequence[tuple[int, int]], offset: int) -> Logged | None:
        """Find the message.

        :param native: (program counter, stack pointer) of the thread's frames, innermost first.
        :param offset: the number of the debugger's frames before them.
        """
        first = next((i for i, (pc, _) in enumerate(native) if not self._sites.in_runtime(pc)), len(native))
        inner = [i for i in range(first, min(first + _MAX_FUNCTIONS, len(native) - 1)) if self._destroys(native[i][0])]
        if not inner:
            return self._of_member(thread, native, first, offset)
        caller = inner[0] + 1
        while caller in inner:  # the destructor of a base class
            caller += 1
        logger = self._origins.argument(thread, native, caller, offset)
        message = self._message(logger) if logger is not None else None
        if logger is None or message is None:
            return None
        # a function of the logger's library may call the destructor
        holds = (i for i in range(caller, len(native) - 1) if native[i][1] <= logger < native[i + 1][1])
        return Logged(message, next(holds, caller))

    def _of_member(self, thread: ThreadRef, native: Sequence[tuple[int, int]], first: int,
                   offset: int) -> Logged | None:
        """The message of a logger whose destructor was inlined into the code that logs.

        Its other functions are on the stack. Their class is a logger if the text begins as a line of a fatal message.
        """
        logger = class_of_function(self._name(native[first][0])) if first < len(native) else None
        caller, message = first + 1, None
        while logger is not None and caller < min(first + _MAX_FUNCTIONS, len(native) - 1):
            if message is None:
                this = self._origins.argument(thread, native, caller, offset)
                text = self._message(this) if this is not None else None
                message = text if text is not None and _FATAL_LINE.match(text) else None
            if class_of_function(self._name(native[caller][0])) != logger:
                return Logged(message, caller) if message is not None else None
            caller += 1
        return None

    def _name(self, pc: int) -> str:
        return self._code.symbol(pc, 1).function or ""

    def _destroys(self, pc: int) -> bool:
        return _DESTRUCTOR.search(self._name(pc).partition("(")[0]) is not None

    def _message(self, logger: int) -> str | None:
        """The text in the first stream buffer of an object, or of an object that it points to."""
        own = read_available(self._memory, logger, _OBJECT)
        found = next(self._buffers(own), None)
        if found is not None:
            return found
        words = memoryview(own[:8 * _MAX_MEMBERS]).cast("Q") if len(own) >= 8 * _MAX_MEMBERS else ()
        for word in words:
            if word & 7 or word < LOWEST or self._pointers.in_image(word) and not self._is_data(word):
                continue
            data = read_available(self._memory, word, _POINTED + _OBJECT)
            found = next(self._buffers(data), None) or self._view(word, data[:_OBJECT])
            if found is not None:
                return found
        return None

    def _is_data(self, address: int) -> bool:
        region = self._pointers.space.find(address)
        return region is not None and region.allows("w") is True

    def _buffers(self, data: bytes) -> Iterator[str]:
        """The texts written to the stream buffers in some memory."""
        for at in range(0, len(data) - _BUFFER.size + 1, 8):
            table, _, _, _, begin, current, end = _BUFFER.unpack_from(data, at)
            if LOWEST <= begin < current <= end and current - begin <= _LONGEST and self._pointers.in_image(table):
                text = self._text(begin, current - begin)
                if text is not None:
                    yield text

    def _view(self, start: int, data: bytes) -> str | None:
        """The longest text in an object that a pointer and a length in it describe, such as Abseil's message."""
        words = memoryview(data[:len(data) & ~7]).cast("Q")
        texts = [self._text(begin, size) for begin, size in zip(words, words[1:])
                 if start <= begin < start + _POINTED and _SHORTEST <= size <= _LONGEST]
        return max(filter(None, texts), key=len, default=None)

    def _text(self, start: int, size: int) -> str | None:
        data = read_available(self._memory, start, size).rstrip(b"\0")
        if len(data) < _SHORTEST or not is_text(data):
            return None
        return data.decode().strip() or None
