"""Who may have raced with a thread that died: others in the same function or class, or with the same object at hand.

They are suspects: a core shows one moment, after the fact. Each comes with what speaks for it, and with what
synchronisation it and the thread that died had in common.
"""

from __future__ import annotations

import itertools
import re
import struct
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from gdbext.cpython.runtime import ThreadState
from gdbext.crash.pointers import CPLUSPLUS, DATA, MEMORY, PYTHON, Pointers
from gdbext.errors import GdbextError
from gdbext.inferior.cache import read_available
from gdbext.inferior.protocol import Memory
from gdbext.model import Report, Suspect, Thread
from gdbext.model.kinds import GIL
from gdbext.record import record
from gdbext.runtimes.names import rust_name, short_name
from gdbext.threads.code import Code
from gdbext.threads.python_side import Python
from gdbext.threads.site import Sites
from gdbext.threads.threads import SeenThread

#: How many frames of a thread, and how much of its stack, in bytes, are looked at.
_MAX_FRAMES, _MAX_STACK = 48, 1 << 15
#: How much of the frame that died may be looked at for pointers, in bytes.
_MAX_OWN = 4096
_MAX_SUSPECTS = 8
#: What speaks how much for a suspect.
_OBJECT, _FUNCTION, _CLASS, _VARIABLE, _REACHES, _NEARBY, _LIBRARY, _RUNS = 8, 4, 3, 2, 2, 2, 1, 1
#: How much memory is looked at for pointers to an object: objects at hand, bytes of each, and what these point to.
_MAX_AT_HAND, _OBJECT_SIZE, _MAX_POINTED, _POINTED_SIZE = 48, 128, 8, 256
#: How many Python frames are looked at for variables, and how many threads.
_MAX_PYTHON_FRAMES, _MAX_PYTHON_THREADS = 8, 64
#: Types whose objects many threads have without having anything to do with each other.
_COMMON_TYPES = frozenset((
    "int", "float", "bool", "str", "bytes", "NoneType", "function", "builtin_function_or_method", "module", "type",
    "method", "complex", "ellipsis", "NotImplementedType", "code", "property", "ABCMeta", "EnumType", "EnumMeta",
    "Thread", "_MainThread", "CDLL", "PyDLL"))
#: How many reasons of a kind are told of one thread.
_MAX_ALIKE = 3

# a method's operator, whose brackets are none
_OPERATOR = re.compile(r"::operator(?:[<>-]=?>?|\(\)|<<|>>)=?(?=[(<]).*", re.DOTALL)
# libraries that are compiled into programs
_LIBRARIES = re.compile(r"^(std|__gnu_cxx|__cxxabiv1|pybind11|nanobind|core|alloc|boost)(::|$)")
# what only carries calls between Python and others: every thread may be in it
_GLUE = re.compile(r"^(libffi[-.]|_ctypes\.|_cffi_backend\.)")


@record
class _Reason:
    """What speaks for a suspect, and how much; `about` is the address of what it has in common with who died."""

    weight: int
    text: str
    about: int | None = None


@dataclass
class _Case:
    """What is known of one thread."""

    reasons: list[_Reason] = field(default_factory=list)

    @property
    def weight(self) -> int:
        return sum(reason.weight for reason in self.reasons)


@record
class Functions:
    """The functions and classes that a thread is in, outside of the interpreter and run-time libraries.

    `starts` are by address where the function begins, with what it is called; `classes` and `modules` (by path) come
    with the innermost of their functions.
    """

    starts: Mapping[int, str]
    classes: Mapping[str, str]
    modules: Mapping[str, str]


class SuspectFinder:
    """Compares threads with the one that died.

    :param is_interpreter: whether a program counter lies in the interpreter.
    :param tstates: the thread states of a thread, by its number.
    :param registers: all general ones of a thread; what a blocked thread works on is in those that calls preserve.
    """

    def __init__(self, memory: Memory, code: Code, sites: Sites, pointers: Pointers,
                 is_interpreter: Mapping[int, bool],
                 tstates: Callable[[int], Sequence[tuple[Python, ThreadState]]],
                 registers: Callable[[SeenThread], Mapping[str, int]]) -> None:
        self._memory = memory
        self._code = code
        self._sites = sites
        self._pointers = pointers
        self._is_interpreter = is_interpreter
        self._tstates_of = tstates
        self._registers = registers
        self._tstates: frozenset[int] = frozenset()

    def find(self, died: SeenThread, native: Sequence[tuple[int, int]], registers: Mapping[str, int],
             objects: Sequence[int], others: Iterable[SeenThread], report: Report) -> tuple[Suspect, ...]:
        """The other threads that may have raced with one, the likeliest first.

        :param native: the frames of the thread that died, from the fault on.
        :param registers: its registers at the fault.
        :param objects: addresses of what the fault was about, nearest first.
        """
        others = list(others)
        # thread states are linked with each other: who has one reaches all
        self._tstates = frozenset(tstate.address for seen in others for _, tstate in self._tstates_of(seen.number))
        own = self.functions(native)
        wanted = [address for address in objects if self._is_data(address)]
        nearby = self._nearby(native, registers) - set(wanted)
        variables = self._variables(died, _MAX_PYTHON_FRAMES)
        cases: dict[int, _Case] = {}
        asked = 0
        for seen in others:
            if seen.number == died.number or seen.unavailable is not None:
                continue
            frames = seen.native(self._code)
            case = cases[seen.number] = _Case()
            functions = self.functions(frames)
            self._compare(own, functions, case)
            # all of them only where what they point to matters
            same_library = bool(own.modules.keys() & functions.modules.keys())
            words = self._words(seen, frames, None if same_library else {*wanted, *nearby})
            for address in wanted:
                if address in words:
                    case.reasons.append(_Reason(
                        _OBJECT, f"has {address:#x} {self._place(words[address], frames)}: "
                        f"{self._pointers.describe(address).text}, which the fault was about"))
            for address in nearby & words.keys():
                case.reasons.append(_Reason(
                    _NEARBY, f"has {address:#x} {self._place(words[address], frames)}, as the thread that died "
                    f"({self._pointers.describe(address).text})", address))
            if same_library:
                case.reasons += self._reaching({*wanted, *nearby}, words, frames)
            if variables and self._tstates_of(seen.number) and asked < _MAX_PYTHON_THREADS:
                asked += 1
                case.reasons += self._same_variables(variables, seen)
        _drop_common(cases.values())
        return self._ranked(cases, died.number, wanted, report)

    def _reaching(self, wanted: set[int], words: Mapping[int, int | str],
                  frames: Sequence[tuple[int, int]]) -> Iterator[_Reason]:
        """Whether an object that a thread has at hand points to one that the thread which died had, or to what does."""
        at_hand = (word for word in words
                   if word & 7 == 0 and self._pointers.describe(word).kind in (MEMORY, CPLUSPLUS))
        for word in itertools.islice(at_hand, _MAX_AT_HAND):
            inner = self._pointed(word, _OBJECT_SIZE)
            pointed = [value for value in inner
                       if value & 7 == 0 and self._pointers.describe(value).kind in (MEMORY, CPLUSPLUS)]
            reached = inner & wanted
            through = ""
            if not reached:
                for value in pointed[:_MAX_POINTED]:
                    reached = self._pointed(value, _POINTED_SIZE) & wanted
                    if reached:
                        through = f"{value:#x}, and that "
                        break
            reached.discard(word)
            if reached:
                address = min(reached)
                yield _Reason(_REACHES, f"has {word:#x} {self._place(words[word], frames)}, which points to {through}"
                       + ("to " if through else "") + f"{address:#x} ({self._pointers.describe(address).text}), "
                       "which the thread that died had at hand")
                return

    def _pointed(self, address: int, size: int) -> set[int]:
        try:
            data = self._memory.read(address, size)
        except GdbextError:
            return set()
        return set(struct.unpack(f"<{size // 8}Q", data))

    def _variables(self, seen: SeenThread, limit: int) -> dict[int, str]:
        """Objects that the variables of a thread's innermost Python frames have, by address, with their names."""
        found: dict[int, str] = {}
        for python, tstate in self._tstates_of(seen.number):
            try:
                for raw in python.frames.raw(tstate.address, limit):
                    for name, address in python.frames.variables(raw)[:_MAX_AT_HAND]:
                        kind = python.objects.type_name(address)
                        if kind not in _COMMON_TYPES:
                            found.setdefault(address, f"{name} of {raw.frame.function}(), a {kind}")
            except GdbextError:
                continue
        return found

    def _same_variables(self, variables: Mapping[int, str], seen: SeenThread) -> Iterator[_Reason]:
        own = self._variables(seen, _MAX_PYTHON_FRAMES)
        for address in [address for address in variables if address in own]:
            yield _Reason(_VARIABLE, f"has the Python object {address:#x} too: it is {own[address]}, and the other "
                          f"thread's {variables[address].partition(',')[0]}", address)

    def functions(self, native: Sequence[tuple[int, int]]) -> Functions:
        """Which functions and classes a thread is in."""
        starts: dict[int, str] = {}
        classes: dict[str, str] = {}
        modules: dict[str, str] = {}
        for i, (pc, _) in enumerate(native[:_MAX_FRAMES]):
            if self._is_interpreter[pc] or self._sites.in_runtime(pc):
                continue
            function = self._code.frame(pc, i).function
            module = self._code.module(pc)
            if module is not None and _GLUE.match(module.name):
                continue
            found = self._code.function_range(pc + 1 if i == 0 else pc)
            if function is not None and is_library_function(function):
                continue
            name = f"{short_name(function)}()" if function else f"a function of {module.name if module else 'no file'}"
            if found is not None:
                starts.setdefault(found[0], name)
            if module is not None and not module.is_main:  # every thread of a program is in the program
                modules.setdefault(module.path, name)
            name_of_class = class_of_function(function) if function is not None else None
            if name_of_class is not None:
                classes.setdefault(name_of_class, name)
        return Functions(starts, classes, modules)

    def _compare(self, own: Functions, other: Functions, case: _Case) -> None:
        same = [start for start in other.starts if start in own.starts]
        # the outermost function of every thread of a pool is the same: it says nothing
        outermost = list(own.starts)[-1:] if len(own.starts) > 1 else []
        if outermost and list(other.starts) == outermost:
            return
        telling = [start for start in same if start not in outermost]
        if telling:
            case.reasons.append(_Reason(_FUNCTION, f"is in {own.starts[telling[0]]} too"))
        shared = [name for name in other.classes if name in own.classes]
        if shared and not telling:
            name = shared[0]
            case.reasons.append(_Reason(_CLASS, f"is in {other.classes[name]}, of the same class {name}"))
        libraries = [path for path in other.modules if path in own.modules]
        if libraries and not telling and not shared:
            path = libraries[0]
            case.reasons.append(_Reason(_LIBRARY, f"is in {other.modules[path]}, of the same library "
                                        + path.rpartition("/")[2]))

    def _is_data(self, address: int) -> bool:
        return self._pointers.describe(address).kind in (MEMORY, CPLUSPLUS, PYTHON, DATA)

    def _nearby(self, native: Sequence[tuple[int, int]], registers: Mapping[str, int]) -> set[int]:
        """Addresses of objects that the function which died had in registers or in its frame."""
        values = {value for name, value in registers.items() if name not in ("rip", "rsp", "fs_base")}
        low = registers["rsp"] & ~7
        # up to where the interpreter called, or this thread's own functions end
        own = itertools.takewhile(lambda frame: not self._is_interpreter[frame[0]], native[1:_MAX_FRAMES])
        high = max((sp for _, sp in own), default=low)
        values.update(self._stack_words(low, min(max(high - low, 0), _MAX_OWN)))
        # what Python shares is shared under its own rules, and every thread has some of it
        return {value for value in values
                if value & 7 == 0 and value not in self._tstates
                and self._pointers.describe(value).kind in (MEMORY, CPLUSPLUS)}

    def _stack_words(self, low: int, size: int) -> Sequence[int]:
        """The words of a part of a stack, as far as it can be read."""
        data = read_available(self._memory, low, size & ~7)
        return memoryview(data[:len(data) & ~7]).cast("Q")

    def _words(self, seen: SeenThread, frames: Sequence[tuple[int, int]],
               asked: Collection[int] | None) -> dict[int, int | str]:
        """What a thread has at hand: each value with the register, or the address on the stack, that it is in.

        :param asked: the values that count, None: all.
        """
        found: dict[int, int | str] = {}
        sp = seen.registers["rsp"] & ~7
        end = frames[min(len(frames), _MAX_FRAMES) - 1][1] if frames else sp
        words = self._stack_words(sp, min(max(end - sp, 512), _MAX_STACK))
        # most threads have nothing of it
        if asked is None or not set(asked).isdisjoint(words):
            for index, word in enumerate(words):
                found.setdefault(word, sp + 8 * index)
        for name, value in self._registers(seen).items():
            if name not in ("rip", "rsp", "orig_rax", "fs_base"):
                found[value] = f"%{name}"
        return found

    def _place(self, place: int | str, frames: Sequence[tuple[int, int]]) -> str:
        if isinstance(place, str):
            return f"in {place}"
        index = max((i for i, (_, sp) in enumerate(frames) if sp <= place), default=0)
        frame = self._code.frame(frames[index][0], index)
        where = f"{short_name(frame.function)}()" if frame.function else frame.module or "code in no file"
        return f"on its stack, in {where}"

    def _ranked(self, cases: Mapping[int, _Case], died: int, objects: Sequence[int],
                report: Report) -> tuple[Suspect, ...]:
        first = report.thread(died)
        found = []
        for number, case in cases.items():
            thread = report.thread(number)
            if not case.reasons or thread is None or first is None:
                continue
            runs = _RUNS if thread.status == "running" else 0
            common = tuple(sorted({hold.lock for hold in first.holds} & {hold.lock for hold in thread.holds}))
            reasons = tuple(reason.text for reason in sorted(case.reasons, key=lambda reason: -reason.weight))
            found.append((case.weight + runs, Suspect(number, reasons, _covered(first, thread, objects, common),
                                                      common)))
        found.sort(key=lambda pair: (-pair[0], pair[1].thread))
        return tuple(suspect for _, suspect in found[:_MAX_SUSPECTS])


def _drop_common(cases: Collection[_Case]) -> None:
    """What most of the threads have at hand tells none of them from the others."""
    count = Counter(reason.about for case in cases for reason in case.reasons if reason.about is not None)
    common = {address for address, times in count.items() if times > max(3, len(cases) // 2)}
    for case in cases:
        alike: Counter[int] = Counter()
        kept = []
        for reason in case.reasons:
            if reason.about in common:
                continue
            if reason.about is not None:
                alike[reason.weight] += 1
                if alike[reason.weight] > _MAX_ALIKE:
                    continue
            kept.append(reason)
        case.reasons[:] = kept


@lru_cache(maxsize=4096)
def is_library_function(function: str) -> bool:
    """Whether a demangled function is of a library that is compiled into programs, such as the standard templates."""
    return _LIBRARIES.match(_without_result(function)) is not None


@lru_cache(maxsize=4096)
def class_of_function(function: str) -> str | None:
    """The class or namespace that a demangled C++ or Rust function belongs to, None for one of no class or a library's.

    ``mesh::Cache<int>::intern`` -> ``mesh::Cache<int>``; parameters, templates and spaces in the name do not mislead.
    """
    name = _without_result(rust_name(function) or function)
    depth, last = 0, None
    # an operator's own signs are no brackets
    for i, char in enumerate(_OPERATOR.sub("::operator", name)):
        if char in "<([":
            depth += 1
        elif char in ">)]":
            depth -= 1
        elif char == ":" and depth == 0 and name[i:i + 2] == "::":
            last = i
    return None if last is None or _LIBRARIES.match(name) else name[:last]


def _without_result(name: str) -> str:
    """A demangled function without the type of its result, which stands before the name of a template's."""
    depth = start = 0
    for i, char in enumerate(name.partition("::operator")[0]):
        if char == "(" and depth == 0:
            break
        if char in "<([":
            depth += 1
        elif char in ">)]":
            depth -= 1
        elif char == " " and depth == 0:
            start = i + 1
    return name[start:]


def _covered(died: Thread, other: Thread, objects: Sequence[int], common: Sequence[str]) -> str:
    """Which synchronisation two threads had in common."""
    if common:
        return "both hold " + ", ".join(map(_lock, common))
    sections = [section for thread in (died, other) for section in thread.critical_sections or ()
                if section.active and section.object in objects]
    if sections:
        return "one of them is in a critical section of the object, the other is not"
    held = [f"thread {thread.number} holds {', '.join(_lock(hold.lock) for hold in thread.holds[:4])}"
            for thread in (died, other) if thread.holds]
    free = died.critical_sections is not None
    nothing = "no lock in common" + (" and no critical section" if free else "")
    attached = [thread for thread in (died, other) if thread.python_state == "attached"]
    if free and len(attached) == 2:
        held.append("both are attached and run at the same time")
    elif not free and other.python_state == "detached":
        held.append(f"thread {other.number} has released it" if any(_is_gil(hold.lock) for hold in died.holds)
                    else f"thread {other.number} runs without the GIL")
    elif other.python_state is None and other.tstate is None:
        held.append(f"thread {other.number} is none of Python's")
    return f"{nothing}: {', '.join(held)}" if held else nothing


def _is_gil(lock_id: str) -> bool:
    return lock_id.startswith(f"{GIL}:")


def _lock(lock_id: str) -> str:
    return "the GIL" if _is_gil(lock_id) else lock_id
