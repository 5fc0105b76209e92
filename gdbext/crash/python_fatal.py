"""Adds to a fatal error of Python what it is about: the object of a failed assertion, the owner of a lock of a file.

Sources: CPython 3.8 to 3.14 Include/cpython/object.h (``_PyObject_AssertFailed``), Modules/_io/bufferedio.c
(``_enter_buffered_busy``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from gdbext.cpython.locking.locks import LockReader
from gdbext.crash.origins import OriginReader
from gdbext.crash.pointers import LOWEST, Pointers, read_words
from gdbext.crash.seen import FaultSite, SeenFault
from gdbext.crash.written import constant_arguments, constant_text
from gdbext.elf.dynamic import find_dynamic_symbol
from gdbext.errors import GdbextError
from gdbext.inferior.protocol import Target
from gdbext.model.reasons import Reason, because
from gdbext.threads.code import Code
from gdbext.threads.python_side import PythonSide
from gdbext.threads.site import Sites
from gdbext.threads.threads import Threads

#: Its arguments: object, expression, message, file, line, function.
_ASSERTION, _EXPRESSION, _MESSAGE, _FUNCTION = "_PyObject_AssertFailed", 1, 2, 5
#: The end of the message of a file whose lock is not released at the end of Python.
_OF_FILE = "at interpreter shutdown, possibly due to daemon threads"
_MAX_FRAMES, _MAX_STACK = 24, 1 << 14


class FatalReader:
    """Explains fatal errors of Python further.

    :param is_constant: whether an address is in read-only memory of a loaded file.
    """

    def __init__(self, target: Target, code: Code, threads: Threads, side: PythonSide, sites: Sites,
                 pointers: Pointers, origins: OriginReader, is_constant: Callable[[int], bool]) -> None:
        self._target = target
        self._memory = target.memory
        self._code = code
        self._threads = threads
        self._side = side
        self._sites = sites
        self._pointers = pointers
        self._origins = origins
        self._is_constant = is_constant

    def explain(self, seen: SeenFault, site: FaultSite, native: Sequence[tuple[int, int]]) -> SeenFault:
        """The fault with what is known about its object; unchanged if there is none.

        :param native: (program counter, stack pointer) of the thread's frames, innermost first.
        """
        message = seen.fault.message or ""
        if not message.endswith(_OF_FILE):
            return self._assertion(seen, site, native)
        owner = self._file_owner(site, native)
        return seen if owner is None else replace(seen, fault=replace(
            seen.fault, text=because("file-lock-owned", fault=seen.fault.text, thread=owner[0], function=owner[1])))

    def _assertion(self, seen: SeenFault, site: FaultSite, native: Sequence[tuple[int, int]]) -> SeenFault:
        functions = {symbol.address for python in self._side.pythons
                     for symbol in [find_dynamic_symbol(self._memory, python.runtime.module, _ASSERTION)]
                     if symbol is not None}
        depth = next((i for i, (pc, _) in enumerate(native[:_MAX_FRAMES])
                      if i and self._code.cpu.called(self._memory, pc) in functions), None)
        call = self._origins.code_at_call(native[depth][0]) if depth is not None else None
        if depth is None or call is None:
            return seen
        known = constant_arguments(self._code.cpu, call, call.at)
        texts = [constant_text(self._memory, known.get(at), self._is_constant)
                 for at in (_FUNCTION, _MESSAGE, _EXPRESSION)]
        failed = texts[1] or texts[2]
        if failed is None:
            return seen
        message = ": ".join(filter(None, ("Fatal Python error", texts[0], failed)))
        text = because("python-ended", message=message)
        passed = self._origins.argument(site.thread, native, depth, site.offset)
        objects = self._objects(site, depth, passed)
        if len(objects) != 1:
            return replace(seen, fault=replace(seen.fault, text=text, message=message))
        ((address, kind),) = objects.items()
        return replace(seen, objects=(*seen.objects, address), fault=replace(
            seen.fault, message=message, text=because(
                "about-object", fault=text, object=address, type=kind, certain=int(passed is not None))))

    def _objects(self, site: FaultSite, depth: int, passed: int | None) -> dict[int, str]:
        """The object of an assertion with its type; several if it is not known which of them it is.

        The function that reports it keeps the object in a register that calls preserve.
        """
        registers = self._target.frame_registers(site.thread, depth - 1 + site.offset)
        outer = self._target.frame_registers(site.thread, depth + site.offset)
        kept = [registers[name] for name in self._code.cpu.CALLEE_SAVED
                if name in registers and registers[name] != outer.get(name)]
        return {each: kind[0] for each in (kept if passed is None else (passed,))
                 for kind in [self._pointers.python_object(each)] if kind is not None}

    def _file_owner(self, site: FaultSite, native: Sequence[tuple[int, int]]) -> tuple[int, Reason | None] | None:
        """The thread that owns the lock of the file for which a thread waited, and the function that it is in."""
        words = dict.fromkeys((*site.registers.values(), *read_words(self._memory, native[0][1], _MAX_STACK)))
        for python in self._side.pythons:
            locks = LockReader(self._memory, python.runtime.layouts, python.objects)
            for word in words:
                try:
                    lock = locks.decode(word) if word >= LOWEST and not word & 7 else None
                except GdbextError:
                    continue
                if lock is None or not lock.type_name.startswith("_io.Buffered") or not lock.locked or not lock.owner:
                    continue
                number = self._threads.number_of_pthread.get(lock.owner)
                if number is not None and number != site.thread.number:
                    functions = self._sites.site(self._threads[number].native(self._code)).functions
                    return number, because("function", name=functions[-1]) if functions else None
        return None
