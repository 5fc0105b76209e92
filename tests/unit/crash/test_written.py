from __future__ import annotations

from gdbext.crash.origins import OriginReader
from gdbext.crash.pointers import Pointers
from gdbext.crash.written import Written, WrittenReader
from gdbext.model import DERIVED, INFERRED
from gdbext.threads.code import read_code
from gdbext.threads.findings import Findings
from gdbext.threads.site import Sites
from gdbext.threads.threads import read_threads
from tests.support.crash_scene import CALLER, FUNCTION, OUTERMOST, STEP, Scene
from tests.support.fake_target import APP_DATA, LIBC_TEXT

WRITES, ABORT = FUNCTION + 0x400, LIBC_TEXT + 0x500
FORM, NAME = APP_DATA + 0x100, APP_DATA + 0x200


class Program(Scene):
    """A thread whose function has called abort."""

    def __init__(self, *texts: str, form: bytes = b"tile %d of %s has no pixels\n", writer: str = "fprintf") -> None:
        super().__init__()
        self.target.name(WRITES, writer)
        self.target.name(ABORT, "abort")
        self.target.ram.write(FORM, form + b"\0")
        self.target.ram.write(NAME, b"the atlas\0")
        self.after = self.code(*texts) + STEP
        self.stack_frames = [(ABORT + 8, self.stack), (self.after, self.stack + 0x100)]
        self._link(FUNCTION, texts)

    def _link(self, function: int, texts: tuple[str, ...]) -> None:
        for i, text in enumerate(texts):
            if text == f"call {WRITES:#x}":
                after = function + STEP * (i + 1)
                self.target.ram.write(after - 5, b"\xe8" + (WRITES - after).to_bytes(4, "little", signed=True))

    def find(self, stack: bytes = b"") -> Written | None:
        findings = Findings()
        code = read_code(self.target, findings)
        pointers = Pointers(self.target, code, read_threads(self.target, None, findings), ())
        sites = Sites(self.target.memory, code, [module for module in code.modules if module.name == "libc.so.6"])
        reader = WrittenReader(self.target.memory, code, sites, OriginReader(self.target, code, pointers),
                               lambda address: APP_DATA <= address < APP_DATA + 0x1000)
        return reader.find(self.stack_frames, stack)


FORMAT = (f"mov ${FORM:#x},%rsi", "mov $0x7,%rdx", f"mov ${NAME:#x},%rcx", f"call {WRITES:#x}")


def test_message_with_values_that_are_constants() -> None:
    assert Program(*FORMAT, f"call {ABORT:#x}").find() == Written("tile 7 of the atlas has no pixels", 1, DERIVED)


def test_value_that_was_computed_is_found_on_the_stack() -> None:
    program = Program(f"mov ${FORM:#x},%rsi", "mov %rbx,%rdx", "mov %rax,%rcx", f"call {WRITES:#x}",
                      f"call {ABORT:#x}")
    assert program.find(b"\0tile 12 of c has no pixels\n\0") == Written("tile 12 of c has no pixels", 1, DERIVED)
    assert program.find() == Written("tile ... of ... has no pixels", 1, INFERRED)


def test_call_on_one_of_two_paths_has_not_written_the_message() -> None:
    to_abort = FUNCTION + STEP * (len(FORMAT) + 1)
    assert Program(f"je {to_abort:#x}", *FORMAT, f"call {ABORT:#x}").find() is None


def test_function_that_does_not_write_has_no_message() -> None:
    assert Program(*FORMAT, f"call {ABORT:#x}", writer="open_tile").find() is None


def test_format_that_a_caller_passed_counts_if_it_was_printed() -> None:
    program = Program("nop", f"call {ABORT:#x}")
    after = program.code(f"mov ${FORM:#x},%rdi", f"call {FUNCTION:#x}", at=CALLER) + STEP
    program.stack_frames += [(after, program.stack + 0x200), (OUTERMOST + 8, program.stack + 0x300)]
    assert program.find(b"tile 3 of b has no pixels\n") == Written("tile 3 of b has no pixels", 2, DERIVED)
    assert program.find(b"tile 3 of b") is None
