"""The message that a program wrote before it called `abort`: the texts in the code before the call.

The functions that write are those of stdio and of C++ streams. Constant texts and values are arguments in the code;
what the program computed is looked for on the stack, where `fprintf` has buffered the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from gdbext.arch.protocol import Architecture, Instruction, MemoryOperand
from gdbext.crash.origins import OriginReader
from gdbext.errors import GdbextError
from gdbext.inferior.cache import read_cstring
from gdbext.inferior.protocol import Memory
from gdbext.model import DERIVED, INFERRED, Evidence
from gdbext.record import record
from gdbext.runtimes.libstdcxx import is_text
from gdbext.runtimes.messages import filled, printed, without_conversions
from gdbext.runtimes.names import public_name
from gdbext.threads.code import Code
from gdbext.threads.function_code import FunctionCode
from gdbext.threads.site import Sites

#: Functions that write: the index of the argument with the text, and whether it is a ``printf`` format, whose values
#: are the arguments behind it. The index is None for a value, or for a part that is no text.
_WRITERS: Mapping[str, tuple[int | None, bool]] = {
    "printf": (0, True), "fprintf": (1, True), "dprintf": (1, True), "syslog": (1, True), "__printf_chk": (1, True),
    "__fprintf_chk": (2, True), "__dprintf_chk": (2, True), "__syslog_chk": (2, True), "fputs": (0, False),
    "puts": (0, False), "fwrite": (0, False), "perror": (0, False),
    "fflush": (None, False), "fputc": (None, False), "putc": (None, False),
    # of C++ streams, without the namespace, a template's arguments and the result
    "__ostream_insert": (1, False), "operator<<": (1, False), "endl": (None, False), "put": (None, False),
    "flush": (None, False), "ostream::operator<<": (None, False), "_M_insert": (None, False),
}
#: Those that write a value that is not known here.
_VALUES = ("ostream::operator<<", "_M_insert")
_OF_STREAM = re.compile(r"\bstd::(?:__1::)?(?:(?:basic_)?(ostream)(?:<char, std::(?:__1::)?char_traits<char> ?>)?::)?"
                        r"(__ostream_insert|operator<<|endl|_M_insert|put|flush)(?: ?[<(]|$)")
#: How many callers of the function that called `abort` may have passed the message, how many calls wrote it, and the
#: length of a text.
_MAX_CALLERS, _MAX_WRITES, _MAX_TEXT = 3, 8, 4096
#: A text that is passed to a function that ends the program is a message if it has at least this length.
_SHORTEST = 8


@record
class Written:
    """A message, how it is known, and the index of the frame that passed it to the function that wrote it."""

    message: str
    frame: int
    evidence: Evidence


class WrittenReader:
    """Finds the message that a thread wrote before it called `abort`.

    :param is_constant: whether an address is in read-only memory of a loaded file.
    """

    def __init__(self, memory: Memory, code: Code, sites: Sites, origins: OriginReader,
                 is_constant: Callable[[int], bool]) -> None:
        self._memory = memory
        self._code = code
        self._cpu = code.cpu
        self._sites = sites
        self._origins = origins
        self._is_constant = is_constant

    def find(self, native: Sequence[tuple[int, int]], stack: bytes) -> Written | None:
        """Find the message; None if the code before the call has written none.

        :param native: (program counter, stack pointer) of the thread's frames, innermost first.
        :param stack: the used part of its stack, and what calls that have returned left below it.
        """
        first = next((i for i, (pc, _) in enumerate(native) if not self._sites.in_runtime(pc)), len(native))
        if not 0 < first < len(native):
            return None
        code = self._origins.code_at_call(native[first][0])
        if code is None:
            return None
        texts: list[str] = []
        evidence: Evidence = DERIVED
        for text, is_known in self._writes(code, stack):
            texts.append(text)
            evidence = evidence if is_known else INFERRED
        message = "".join(texts).strip()
        if len(message.replace("...", "")) >= _SHORTEST:
            return Written(message, first, evidence)
        return self._passed(native, first, stack)

    def _passed(self, native: Sequence[tuple[int, int]], first: int, stack: bytes) -> Written | None:
        """A message that a caller passed to the function that ended the program, and that was printed."""
        for index in range(first + 1, min(first + 1 + _MAX_CALLERS, len(native))):
            if self._sites.in_runtime(native[index][0]):
                return None
            code = self._origins.code_at_call(native[index][0])
            known = constant_arguments(self._cpu, code, code.at) if code is not None else {}
            for at in range(len(self._cpu.ARGUMENTS)):
                form = self._text(known.get(at))
                if form is None or len(form) < _SHORTEST or " " not in form:
                    continue
                found = printed(stack, self._filled(form, known, at))
                if found is not None:
                    return Written(found.strip(), index, DERIVED)
        return None

    def _writes(self, code: FunctionCode, stack: bytes) -> Iterator[tuple[str, bool]]:
        """The texts of the last calls before an instruction that write, and whether each is known completely."""
        targets = _jump_targets(code)
        writes: list[tuple[int, str]] = []
        for index in range(code.at - 1, -1, -1):
            if code.instructions[index].kind != "call":
                continue
            name = self._callee(code.instructions[index])
            if name not in _WRITERS or len(writes) == _MAX_WRITES or not self._is_always_before(code, index, targets):
                break
            writes.append((index, name))
        for i, name in reversed(writes):
            at, is_format = _WRITERS[name]
            known = constant_arguments(self._cpu, code, i)
            text = self._text(known.get(at)) if at is not None else None
            if text is None:
                if at is not None or name.endswith(_VALUES):
                    yield "...", False
            elif not is_format:
                yield text, True
            else:
                form = self._filled(text, known, at or 0)
                done = without_conversions(form)
                found = None if "..." not in done or "..." in text else printed(stack, form)
                yield found or done, found is not None or "..." not in done

    def _callee(self, instruction: Instruction) -> str:
        target = self._cpu.called(self._memory, instruction.next_address)
        name = self._code.symbol(target).function if target is not None else None
        found = _OF_STREAM.search(name) if name else None
        if found is None:
            public = public_name((name or "").partition("@")[0])
            return public if public in _WRITERS else public.lstrip("_").replace("IO_", "", 1)
        return "ostream::operator<<" if found[1] and found[2] == "operator<<" else found[2]

    def _is_always_before(self, code: FunctionCode, index: int, targets: Collection[int | None]) -> bool:
        """Whether an instruction runs on each way to the one that matters."""
        first = code.instructions[0].address
        if None not in targets and self._code.starts_function(first) and code.at in _reached(code, None):
            return code.at not in _reached(code, index)
        # an exception, a table of jumps or another part of the function leads there
        return None not in targets and all(
            code.instructions[i].falls_through and code.instructions[i + 1].address not in targets
            for i in range(index, code.at))

    def _filled(self, form: str, known: Mapping[int, int], at: int) -> str:
        """A format with the values that are constants; `at` is the index of its argument."""
        return filled(form, (known.get(i) for i in range(at + 1, len(self._cpu.ARGUMENTS))), self._text)

    def _text(self, address: int | None) -> str | None:
        return constant_text(self._memory, address, self._is_constant)


def constant_text(memory: Memory, address: int | None, is_constant: Callable[[int], bool]) -> str | None:
    """The text at an address of a constant; None if there is none."""
    if address is None or not is_constant(address):
        return None
    try:
        data = read_cstring(memory, address, _MAX_TEXT)
    except GdbextError:
        return None
    return data.decode() if is_text(data) else None


def constant_arguments(cpu: Architecture, code: FunctionCode, call: int) -> dict[int, int]:
    """The arguments of a call that are constants in the code before it, by their index."""
    known: dict[str, int] = {}
    targets, start = _jump_targets(code), call
    while start > 0 and code.instructions[start].address not in targets and code.instructions[start - 1].falls_through:
        start -= 1
    for instruction in code.instructions[start:call]:
        values: dict[str, int] = {}
        for each in instruction.assignments() or ():
            source = each.source
            if isinstance(source, MemoryOperand):
                value = source.address({}, instruction.next_address) if each.is_address else None
            else:
                value = known.get(source) if isinstance(source, str) else source
            if value is not None and isinstance(each.target, str):
                values[each.target] = value + each.offset
        for name in instruction.written:
            known.pop(name, None)
        known.update(values)
    return {i: known[name] for i, name in enumerate(cpu.ARGUMENTS) if name in known}


def _jump_targets(code: FunctionCode) -> set[int | None]:
    """The addresses that a function jumps to; None for a jump by a register or a table."""
    return {each.jump_target for each in code.instructions if each.kind == "jump"}


def _reached(code: FunctionCode, without: int | None) -> set[int]:
    """The indices of the instructions that run from the start of a function on, if one of them ended it."""
    places = {each.address: i for i, each in enumerate(code.instructions)}
    reached: set[int] = set()
    left = [0]
    while left:
        index = left.pop()
        if index in reached or index == without or index >= len(code.instructions):
            continue
        reached.add(index)
        here = code.instructions[index]
        if here.falls_through:
            left.append(index + 1)
        target = places.get(here.jump_target) if here.jump_target is not None else None
        if target is not None:
            left.append(target)
    return reached
