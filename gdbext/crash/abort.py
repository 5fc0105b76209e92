"""Explains aborts: a fatal error of Python, an assertion, a damaged heap, a C++ exception, a Rust panic.

The decoders in `runtimes/` read the messages from memory; the caller of `abort` decides which of them is the reason.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from gdbext.crash.pointers import Pointers, read_words
from gdbext.crash.seen import SeenFault
from gdbext.crash.terminate import Terminated, TerminateReader
from gdbext.elf.dynamic import find_dynamic_symbol
from gdbext.inferior.cache import PAGE, read_available
from gdbext.inferior.protocol import Module, Target
from gdbext.model import DERIVED, INFERRED, RECORDED, Fault
from gdbext.model.reasons import Reason, because
from gdbext.runtimes.libstdcxx import CxxException, find_exceptions, readable_type
from gdbext.runtimes.messages import (
    FatalError,
    RustPanic,
    abort_message,
    fatal_errors,
    is_second_panic,
    printed,
    pybind11_error,
    rust_panic,
    rust_payloads,
    rust_places,
    without_conversions,
)
from gdbext.threads.code import Code
from gdbext.threads.python_side import PythonSide
from gdbext.threads.site import Sites

#: How much memory is searched for a panic in flight.
_MAX_SEARCHED = 256 << 20
#: How many frames are searched for the caller of `abort`, how many for messages, and bytes of stack.
_MAX_FRAMES, _MAX_STACK_FRAMES, _MAX_STACK = 24, 48, 1 << 16
# glibc 2.36 malloc/malloc.c, debug/stack_chk_fail.c, debug/chk_fail.c
_DAMAGED = re.compile(r"malloc|free\(|realloc|double free|corrupted|munmap_chunk|mremap_chunk|invalid fastbin|chunk"
                      r"|\*\*\* ")
#: The functions of the C++ library that print a failed assertion, and the text. Source: GCC 12
#: libstdc++-v3/src/c++11/debug.cc (``std::__glibcxx_assert_fail``); before GCC 12 it was a part of the program.
_CXX_ASSERTIONS = ("std::__glibcxx_assert_fail", "std::__replacement_assert")
_CXX_ASSERTION = re.compile(rb"Assertion '[ -~]{1,300}' failed\.")
_SANITIZER = re.compile(r"lib(tsan|asan|lsan|ubsan)\.so")
_SANITIZERS = {"tsan": "ThreadSanitizer", "asan": "AddressSanitizer", "lsan": "LeakSanitizer",
               "ubsan": "UndefinedBehaviorSanitizer"}


class AbortReader:
    """Explains calls of `abort`.

    :param c_library: the modules of the C library.
    """

    def __init__(self, target: Target, code: Code, side: PythonSide, sites: Sites, pointers: Pointers,
                 c_library: Sequence[Module]) -> None:
        self._memory = target.memory
        self._demangle = target.demangle
        self._code = code
        self._side = side
        self._sites = sites
        self._pointers = pointers
        self._c_library = c_library
        self._terminations = TerminateReader(target.memory, code, sites, pointers)

    def explain(self, fault: Fault, native: Sequence[tuple[int, int]], registers: Mapping[str, int]) -> SeenFault:
        """Add the message of an abort and its kind to a fault; the fault is unchanged if they are unknown.

        :param native: (program counter, stack pointer) of the thread's frames, innermost first.
        :param registers: of the innermost.
        :return: the fault with the objects that it is about.
        """
        words = self._words(registers[self._code.cpu.STACK_POINTER], native)
        why = self._terminations.explain(native, [*words, *registers.values()])
        explained = self._explain(fault, native, registers, words, why)
        return SeenFault(explained, objects=(why.object,) if why is not None and why.object is not None else ())

    def _explain(self, fault: Fault, native: Sequence[tuple[int, int]], registers: Mapping[str, int],
                 words: Sequence[int], why: Terminated | None) -> Fault:
        values = list(registers.values())
        names = [self._code.frame(pc, i).function or "" for i, (pc, _) in enumerate(native[:_MAX_FRAMES])]
        for python, library in itertools.product(self._side.pythons, self._c_library[:1]):
            errors = fatal_errors(self._code.cpu, self._memory, python.runtime.module, library, words, values,
                                  self.is_constant)
            if errors:
                return self._fatal(fault, errors[-1], registers, native)
        message = next(filter(None, (abort_message(self._memory, module) for module in self._c_library)), None)
        if message is not None:
            kind = ("assertion" if "Assertion `" in message else
                    "heap-corruption" if _DAMAGED.match(message) else "abort")
            # a damaged stack is that of the function itself
            is_heap = kind == "heap-corruption" and not message.startswith("***")
            text = because("c-library-ended" if not is_heap else "invalid-pointer-freed"
                           if message.rstrip().endswith("invalid pointer") else "heap-damaged", message=message)
            return replace(fault, kind=kind, text=text, message=message)
        sanitizer = self._sanitizer(native, names)
        if sanitizer is not None:
            return replace(fault, kind="sanitizer", text=sanitizer)
        if any(name.startswith(_CXX_ASSERTIONS) for name in names):
            return self._assertion(fault, registers, native)
        thrown = find_exceptions(self._memory, [*words, *values], self._pointers.in_image)
        if why is not None:
            return self._terminated(fault, why, thrown)
        if thrown and self._is_terminated(names, native):
            return self._uncaught(fault, thrown[0], None)
        is_rust = any("panic" in name for name in names) or self._has_rust(native)
        panic = rust_panic(self._memory, words, self._in_caller(native) if not is_rust else self._pointers.in_image)
        if panic is None:
            return fault
        if is_rust and is_second_panic(panic):
            return self._first_panic(fault, panic, registers, native)
        message = panic.message if is_rust else None
        if message is None:
            # a panic that nothing can catch, or code without names: only a panic in flight proves it
            message = self._in_flight()
        if message is None and not is_rust:
            return fault
        text = because("rust-panic", file=panic.file, line=panic.line, column=panic.column, message=message)
        return replace(fault, kind="rust-panic", text=text, message=message, evidence=INFERRED,
                       why=because("panic-on-stack" if panic.message == message else "panic-in-flight"))

    def _assertion(self, fault: Fault, registers: Mapping[str, int], native: Sequence[tuple[int, int]]) -> Fault:
        """A failed assertion of the C++ library, whose text is in the buffers of the stack."""
        found = _CXX_ASSERTION.search(self.used_stack(registers, native))
        if found is None:
            return replace(fault, kind="assertion", text=because("cxx-assertion", message=None))
        message = found[0].decode()
        return replace(fault, kind="assertion", text=because("cxx-assertion", message=message), message=message,
                       evidence=DERIVED)

    def _first_panic(self, fault: Fault, second: RustPanic, registers: Mapping[str, int],
                     native: Sequence[tuple[int, int]]) -> Fault:
        """The panic that could not unwind, which is the cause of the second one."""
        stack = self.used_stack(registers, native)
        places = rust_places(self._memory, memoryview(stack[:len(stack) & ~7]).cast("Q"), self._pointers.in_image)
        # the handler of a panic while another one unwinds is further in; several places are those of several panics
        message = self._in_flight()
        file, line, column = places[0] if len(places) == 1 else (None, None, None)
        return replace(fault, kind="rust-panic", message=message or second.message, evidence=INFERRED,
                       text=because("first-rust-panic", file=file, line=line, column=column, message=message,
                                    second=second.message), why=because("panic-in-flight"))

    def _in_flight(self) -> str | None:
        """The message of the panic in flight that is caught furthest out; None if there is none."""
        payloads: list[tuple[int, str]] = []
        left = _MAX_SEARCHED
        for region in self._pointers.space:
            size = region.end - region.start
            if region.allows("w") and not (region.path or "").startswith("/") and size <= left:
                left -= size
                payloads += rust_payloads(self._memory, region.start, read_available(self._memory, region.start, size),
                                          self._pointers.in_image)
        return max(payloads, default=(0, None))[1]

    def _in_caller(self, native: Sequence[tuple[int, int]]) -> Callable[[int], bool]:
        """Whether an address is in the file that has called `abort`."""
        caller = next((pc for pc, _ in native[:_MAX_FRAMES] if not self._sites.in_runtime(pc)), None)
        module = self._code.module(caller) if caller is not None else None
        return lambda address: module is not None and self._code.module(address) is module

    def _terminated(self, fault: Fault, why: Terminated, thrown: Sequence[CxxException]) -> Fault:
        """The fault, if it is known why std::terminate was called."""
        if why.kind == "exception":
            return self._uncaught(fault, thrown[0] if thrown else None, why.left)
        kind = "pure-virtual-call" if why.kind == "pure-virtual" else "terminate"
        handled = thrown[0] if thrown and thrown[0].is_caught and why.kind == "program" else None
        text = why.text or fault.text
        if handled is not None:
            text = because("terminate-in-handler", type=readable_type(handled.type, self._demangle), text=handled.text)
        message = None if handled is None else handled.text
        return replace(fault, kind=kind, text=text, evidence=why.evidence, message=message)

    def _uncaught(self, fault: Fault, thrown: CxxException | None, left: Reason | None) -> Fault:
        if thrown is None:
            return replace(fault, kind="uncaught-exception",
                           text=because("terminate-called", type=None, text=None, left=left))
        name = readable_type(thrown.type, self._demangle)
        python = pybind11_error(self._memory, thrown)
        text = thrown.text or (python.text if python is not None else None)
        return replace(fault, kind="uncaught-exception", message=text,
                       text=because("terminate-called", type=name, text=text, left=left),
                       evidence=INFERRED if thrown.evidence == INFERRED else RECORDED,
                       why=because("text", text=thrown.why) if thrown.why else None)

    def _sanitizer(self, native: Sequence[tuple[int, int]], names: Sequence[str]) -> Reason | None:
        """The reason, if a sanitizer's run-time library called `abort`."""
        for i, (pc, _) in enumerate(native[:len(names)]):
            module = self._code.module(pc)
            found = _SANITIZER.match(module.name) if module is not None else None
            if found is not None:
                return because("sanitizer-ended", name=_SANITIZERS[found[1]],
                               found_race=int(any("ReportRace" in name for name in names[i:])))
            if not self._sites.in_runtime(pc):
                return None
        return None

    def _is_terminated(self, names: Sequence[str], native: Sequence[tuple[int, int]]) -> bool:
        """Whether the C++ library, rather than the program, called `abort`."""
        for (pc, _), name in zip(native, names):
            module = self._code.module(pc)
            if module is None:
                return False
            if module.name.startswith(("libstdc++", "libc++")) or "terminate" in name:
                return True
            if not self._sites.in_runtime(pc):
                return False
        return False

    def _has_rust(self, native: Sequence[tuple[int, int]]) -> bool:
        """Whether the caller of `abort` is linked with Rust's library, which exports its personality function."""
        caller = next((pc for pc, _ in native[:_MAX_FRAMES] if not self._sites.in_runtime(pc)), None)
        module = self._code.module(caller) if caller is not None else None
        return module is not None and find_dynamic_symbol(self._memory, module, "rust_eh_personality") is not None

    def _words(self, sp: int, native: Sequence[tuple[int, int]]) -> list[int]:
        low = sp & ~7
        return list(read_words(self._memory, low, min(_end_of(native, low) - low, _MAX_STACK)))

    def _fatal(self, fault: Fault, first: FatalError, registers: Mapping[str, int],
               native: Sequence[tuple[int, int]]) -> Fault:
        """Explain a fatal error: of several, the outermost, which caused the others while it was reported."""
        if not first.function and not first.message:
            return replace(fault, kind="fatal-python-error", text=because("python-ended", message=None))
        text, evidence = first.message, first.evidence
        why = None if first.evidence == DERIVED else because("message-nearest-on-stack")
        if text is not None and first.is_format:
            text = printed(self.used_stack(registers, native), text)
            if text is None and first.is_far:
                return replace(fault, kind="fatal-python-error", text=because("python-ended", message=None))
            if text is None:
                text, evidence, why = without_conversions(first.message or ""), INFERRED, because("values-not-found")
        message = "Fatal Python error: " + ": ".join(part for part in (first.function, text) if part)
        return replace(fault, kind="fatal-python-error", text=because("python-ended", message=message),
                       message=message, evidence=evidence, why=why)

    def used_stack(self, registers: Mapping[str, int], native: Sequence[tuple[int, int]]) -> bytes:
        """The stack up to the outermost frame that is searched, and what calls that have returned left below it."""
        sp = registers[self._code.cpu.STACK_POINTER]
        region = self._pointers.space.find(sp)
        low = max(sp - _MAX_STACK, region.start if region is not None else sp) & -PAGE
        high = min(_end_of(native, sp), sp + _MAX_STACK)
        return b"".join(read_available(self._memory, at, PAGE) for at in range(low, high, PAGE))

    def is_constant(self, address: int) -> bool:
        """Whether an address is in read-only memory of a loaded file."""
        if self._code.module(address) is None:
            return False
        region = self._pointers.space.find(address)
        return region is None or region.allows("w") is not True


def _end_of(native: Sequence[tuple[int, int]], sp: int) -> int:
    """The end of the part of a stack that is searched."""
    return max((frame_sp for _, frame_sp in native[:_MAX_STACK_FRAMES]), default=sp) + 512
