"""What lies at an address of the target: code, a thread's stack, a Python or C++ object, a file, or nothing.

Each answer is proven by memory itself; where nothing proves anything it is only told what kind of memory it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdbext.cpython.object_state import nearly_filled_with
from gdbext.errors import GdbextError
from gdbext.inferior.address_space import Region
from gdbext.inferior.protocol import Memory, Target
from gdbext.record import record
from gdbext.runtimes.libstdcxx import class_of, readable_type
from gdbext.threads.code import Code
from gdbext.threads.python_side import Python
from gdbext.threads.threads import Threads

#: Kinds of pointers.
NULL, SMALL, NON_CANONICAL, PATTERN, UNMAPPED = "null", "small", "non-canonical", "pattern", "unmapped"
CODE, DATA, STACK, PYTHON, CPLUSPLUS, FILE, MEMORY = "code", "data", "stack", "python", "c++", "file", "memory"
#: Kinds that no program means to point to.
BAD = frozenset((NULL, SMALL, NON_CANONICAL, PATTERN, UNMAPPED))

#: Below this nothing is mapped on Linux unless someone insists (vm.mmap_min_addr).
LOWEST = 0x10000


@record
class Pointer:
    """What a value is, seen as an address: the kind, and in words."""

    value: int
    kind: str
    text: str


class Pointers:
    """Tells what is at addresses of a stopped target."""

    def __init__(self, target: Target, code: Code, threads: Threads, pythons: Sequence[Python]) -> None:
        self._memory: Memory = target.memory
        self._demangle = target.demangle
        self._code = code
        self._pythons = pythons
        self.space = code.space
        self._stacks: dict[int, tuple[int, int]] = {}
        for seen in threads:
            sp = seen.registers.get(code.cpu.STACK_POINTER)
            region = self.space.find(sp) if sp is not None else None
            if region is not None and sp is not None:
                self._stacks.setdefault(region.start, (seen.number, sp))
        self._known: dict[int, Pointer] = {}

    def describe(self, value: int) -> Pointer:
        """What a value is, seen as an address."""
        known = self._known.get(value)
        if known is None:
            known = self._known[value] = self._look(value)
        return known

    def is_readable(self, address: int) -> bool:
        """Whether a byte is there and in the core."""
        try:
            self._memory.read(address, 1)
        except GdbextError:
            return False
        return True

    def stack_of(self, address: int) -> int | None:
        """The number of the thread whose stack an address lies in, as far as the mappings tell; None for no stack."""
        region = self.space.find(address)
        found = self._stacks.get(region.start) if region is not None else None
        return found[0] if found is not None else None

    def in_image(self, address: int) -> bool:
        """Whether an address lies in a loaded file."""
        return self._code.module(address) is not None

    def class_of(self, address: int) -> str | None:
        """The C++ class of an object with virtual functions, as its type information has it; None for others."""
        if address & 7 or address < LOWEST:
            return None
        try:
            name = class_of(self._memory, self.in_image, address)
        except GdbextError:
            return None
        return readable_type(name, self._demangle) if name is not None else None

    def python_type(self, address: int) -> str | None:
        """The type of a Python object, None if there is none."""
        for python in self._pythons:
            try:
                if address >= LOWEST and python.objects.is_object(address):
                    return python.objects.type_name(address)
            except GdbextError:
                continue
        return None

    def _look(self, value: int) -> Pointer:
        if value == 0:
            return Pointer(value, NULL, "null")
        if value < LOWEST:
            return Pointer(value, SMALL, f"no address: {value} is too small")
        if not self._code.cpu.is_canonical(value):
            filled = nearly_filled_with(value)
            if filled is not None:
                return Pointer(value, PATTERN, filled)
            text = _as_text(value)
            return Pointer(value, NON_CANONICAL, f"no address of {self._code.cpu.TITLE} (not canonical)"
                           + (f"; as text it reads {text}" if text else ""))
        return self._mapped(value)

    def _mapped(self, value: int) -> Pointer:
        module = self._code.module(value)
        region = self.space.find(value)
        if module is not None:
            function = self._code.symbol(value).function
            executable = region is not None and region.allows("x")
            where = f"{function} in {module.name}" if function else f"in {module.name}"
            return Pointer(value, CODE if executable else DATA, ("code: " if executable else "data: ") + where)
        if region is None and not self.is_readable(value):
            if not len(self.space):
                return Pointer(value, UNMAPPED, "not readable")
            filled = nearly_filled_with(value)
            return Pointer(value, UNMAPPED, filled if filled else "not mapped")
        number = self.stack_of(value)
        if number is not None:
            return Pointer(value, STACK, f"on the stack of thread {number}")
        kind = self.python_type(value)
        if kind is not None:
            return Pointer(value, PYTHON, f"a Python object of type {kind}")
        name = self.class_of(value)
        if name is not None:
            return Pointer(value, CPLUSPLUS, f"a C++ object of class {name}")
        return _plain(value, region)


def _plain(value: int, region: Region | None) -> Pointer:
    if region is None:
        return Pointer(value, MEMORY, "memory")
    if region.path and region.path.startswith("/"):
        return Pointer(value, FILE, f"in the mapping of {region.path.rpartition('/')[2]}, at its byte "
                                    f"{value - region.start + region.offset:#x}")
    if region.permissions == "":
        return Pointer(value, MEMORY, "memory that may not be touched (a guard page, or reserved)")
    return Pointer(value, MEMORY, "heap" if region.path == "[heap]" else region.path or "memory")


def _as_text(value: int) -> str | None:
    """A value that is text, as a pointer that a string was written over: quoted, or None."""
    data = value.to_bytes(8, "little").rstrip(b"\0")
    return repr(data.decode("ascii")) if len(data) >= 5 and all(32 <= byte < 127 for byte in data) else None
