from __future__ import annotations

import struct

import pytest

from gdbext.crash.loggers import Logged, LoggerReader
from gdbext.crash.origins import OriginReader
from gdbext.crash.pointers import Pointers
from gdbext.threads.code import read_code
from gdbext.threads.findings import Findings
from gdbext.threads.site import Sites
from gdbext.threads.threads import read_threads
from tests.support.crash_scene import CALLER, FUNCTION, HEAP, OUTERMOST, STEP, Scene
from tests.support.fake_target import APP_DATA, LIBC_TEXT

MESSAGE = "Check failed: device != nullptr"
#: The logger is in the frame of the function that called its destructor.
IN_FRAME = 0x40


def stream_buffer(text: int, size: int) -> bytes:
    return struct.pack("<7Q", APP_DATA + 0x80, 0, 0, 0, text, text + size, text + size + 16)


class Logger(Scene):
    """A thread that has called abort in a destructor."""

    def __init__(self, destructor: str = "tsl::LogMessageFatal::~LogMessageFatal()") -> None:
        super().__init__()
        self.target.name(LIBC_TEXT + 0x100, "abort")
        self.target.name(FUNCTION + 8 - 1, destructor)
        after = self.code(f"lea {IN_FRAME:#x}(%rsp),%rdi", f"call {FUNCTION:#x}", at=CALLER) + STEP
        outer = self.stack + 0x200
        self.stack_frames = [(LIBC_TEXT + 0x100, self.stack), (FUNCTION + 8, self.stack + 0x100), (after, outer),
                             (OUTERMOST + 8, self.stack + 0x300)]
        self.target.older_registers[1, 2] = {"rip": after, "rsp": outer}
        self.target.ram.write(HEAP + 0x100, MESSAGE.encode())

    def find(self) -> Logged | None:
        findings = Findings()
        code = read_code(self.target, findings)
        pointers = Pointers(self.target, code, read_threads(self.target, None, findings), ())
        sites = Sites(self.target.memory, code, [module for module in code.modules if module.name == "libc.so.6"])
        return LoggerReader(self.target.memory, code, sites, pointers, OriginReader(self.target, code, pointers)).find(
            self.target.fakes[0].ref, self.stack_frames, 0)


@pytest.fixture
def logger() -> Logger:
    return Logger()


def test_message_in_a_stream_that_is_part_of_the_logger(logger: Logger) -> None:
    logger.target.ram.write(logger.stack + 0x200 + IN_FRAME + 8, stream_buffer(HEAP + 0x100, len(MESSAGE)))
    assert logger.find() == Logged(MESSAGE, 2)


def test_message_in_a_stream_that_the_logger_points_to(logger: Logger) -> None:
    logger.target.ram.u64(logger.stack + 0x200 + IN_FRAME, HEAP + 0x400)
    logger.target.ram.write(HEAP + 0x460, stream_buffer(HEAP + 0x100, len(MESSAGE)))
    assert logger.find() == Logged(MESSAGE, 2)


def test_message_that_an_object_of_the_logger_describes(logger: Logger) -> None:
    """A pointer into the object itself, and a length."""
    logger.target.ram.u64(logger.stack + 0x200 + IN_FRAME, HEAP + 0x80)
    logger.target.ram.u64(HEAP + 0x90, HEAP + 0x100, len(MESSAGE))
    assert logger.find() == Logged(MESSAGE, 2)


def test_stream_with_damaged_pointers_has_no_message(logger: Logger) -> None:
    logger.target.ram.write(logger.stack + 0x200 + IN_FRAME + 8, stream_buffer(HEAP + 0x100, 1 << 40))
    assert logger.find() is None


def test_stream_of_a_function_that_is_no_destructor_is_not_the_reason() -> None:
    logger = Logger("Table::render_rows(int)")
    logger.target.ram.write(logger.stack + 0x200 + IN_FRAME + 8, stream_buffer(HEAP + 0x100, len(MESSAGE)))
    assert logger.find() is None


FATAL = "F1128 20:58:20.511127   28141 shape.h:843] Check failed: buffer != nullptr"


@pytest.mark.parametrize(("text", "found"), [(FATAL, Logged(FATAL, 2)), (f"E{FATAL[1:]}", None), (MESSAGE, None)])
def test_function_of_a_logger_whose_destructor_is_inlined_has_a_fatal_line(text: str, found: Logged | None) -> None:
    logger = Logger("absl::log_internal::LogMessage::Flush()")
    logger.target.name(CALLER + 8 - 1, "xla::Shape::dimensions()")
    logger.target.ram.u64(logger.stack + 0x200 + IN_FRAME, HEAP + 0x80)
    logger.target.ram.write(HEAP + 0x100, text.encode())
    logger.target.ram.u64(HEAP + 0x90, HEAP + 0x100, len(text))
    assert logger.find() == found
