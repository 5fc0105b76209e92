"""Threads that may have raced with the one that died: those in the same function or class, or using the same object.

They are only suspects, since a core shows the moment after the race. Each has the reasons for the suspicion, and the
synchronisation that it shared with the thread that died.
"""

from __future__ import annotations

import itertools
import re
import struct
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from gdbext.cpython.frames import RawFrame
from gdbext.cpython.runtime import ThreadState
from gdbext.crash.pointers import CPLUSPLUS, DATA, MEMORY, PYTHON, Pointers, function_name, read_words
from gdbext.errors import GdbextError
from gdbext.inferior.protocol import Memory
from gdbext.model import Report, Suspect, Thread
from gdbext.model.frames import library_of
from gdbext.model.kinds import GIL
from gdbext.model.reasons import Reason, because
from gdbext.record import record
from gdbext.runtimes.names import rust_name, short_name
from gdbext.threads.code import Code
from gdbext.threads.python_side import Python
from gdbext.threads.site import Sites
from gdbext.threads.threads import SeenThread

#: How many frames of a thread, and how many bytes of its stack, are searched.
_MAX_FRAMES, _MAX_STACK = 48, 1 << 15
#: How many bytes of the faulting frame are searched for pointers.
_MAX_OWN = 4096
_MAX_SUSPECTS = 8
#: The weights of reasons.
_OBJECT, _FUNCTION, _CLASS, _VARIABLE, _REACHES, _NEARBY, _LIBRARY, _RUNS = 8, 4, 3, 3, 2, 2, 1, 1
#: How much memory is searched for pointers to an object: objects of a thread, bytes of each, objects that one points
#: to, and bytes of each of these.
_MAX_OBJECTS, _OBJECT_SIZE, _MAX_POINTED, _POINTED_SIZE = 48, 128, 8, 256
#: How many Python frames are searched for variables, and how many threads.
_MAX_PYTHON_FRAMES, _MAX_PYTHON_THREADS = 8, 64
#: Types whose objects unrelated threads share.
_COMMON_TYPES = frozenset((
    "int", "float", "bool", "str", "bytes", "NoneType", "function", "builtin_function_or_method", "module", "type",
    "method", "complex", "ellipsis", "NotImplementedType", "code", "property", "ABCMeta", "EnumType", "EnumMeta",
    "Thread", "_MainThread", "CDLL", "PyDLL"))
#: Types of containers that several threads of a free-threaded program may change.
_CONTAINERS = frozenset(("list", "dict", "set", "bytearray", "array.array", "collections.deque",
                         "collections.OrderedDict", "collections.defaultdict"))
#: How many reasons of a kind one thread has.
_MAX_ALIKE = 3

# an operator that is a method
_OPERATOR = re.compile(r"::operator(?:[<>-]=?>?|\(\)|<<|>>)=?(?=[(<]).*", re.DOTALL)
# libraries that are compiled into programs
_LIBRARIES = re.compile(r"^(std|__gnu_cxx|__cxxabiv1|pybind11|nanobind|core|alloc|boost|__rustc)"
                        r"(\[[0-9a-f]+\])?(::|$)"
                        r"|^(rust_begin_unwind|rust_panic|__rust_\w+)$")
#: Libraries that only pass calls from Python to other code: any thread may be in them.
GLUE = re.compile(r"^(libffi[-.]|_ctypes\.|_cffi_backend\.)")


@record
class _Weighed:
    """A reason with its weight; `about` is the address of an object that both threads use."""

    weight: int
    reason: Reason
    about: int | None = None


@record
class Functions:
    """The functions and classes that a thread is in, except those of the interpreter and run-time libraries.

    `starts` maps start addresses to names; `classes` and `modules` (by path) have the name of their innermost function.
    """

    starts: Mapping[int, Reason]
    classes: Mapping[str, Reason]
    modules: Mapping[str, Reason]


class SuspectFinder:
    """Compares threads with the one that died.

    :param is_interpreter: whether a program counter is in the interpreter.
    :param tstates: gives the thread states of a thread, by its number.
    :param registers: gives all general registers of a thread: those that calls preserve contain its pointers.
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
        """Find the other threads that may have raced with one, the likeliest first.

        :param native: the frames of the thread that died, from the fault on.
        :param registers: its registers at the fault.
        :param objects: addresses of the objects that the fault was about, nearest first.
        """
        others = list(others)
        # any thread state leads to all: they are linked
        self._tstates = frozenset(tstate.address for seen in others for _, tstate in self._tstates_of(seen.number))
        own = self.functions(native)
        wanted = [address for address in objects
                  if self._pointers.describe(address).kind in (MEMORY, CPLUSPLUS, PYTHON, DATA)]
        nearby = self._nearby(native, registers) - set(wanted)
        sp = registers[self._code.cpu.STACK_POINTER] & ~7
        # a global of the thread that died counts only if native code had it at hand when it died
        at_hand = {*registers.values(), *read_words(self._memory, sp, _MAX_OWN)}
        variables = self._variables(died, at_hand)
        cases: dict[int, list[_Weighed]] = {}
        asked = 0
        for seen in others:
            if seen.number == died.number or seen.unavailable is not None:
                continue
            frames = seen.native(self._code)
            functions = self.functions(frames)
            reasons = cases[seen.number] = list(self._compare(own, functions))
            # other values are only needed to follow them
            same_library = bool(own.modules.keys() & functions.modules.keys())
            words = self._words(seen, frames, None if same_library else {*wanted, *nearby})
            for address in [*(address for address in wanted if address in words), *(nearby & words.keys())]:
                is_wanted = address in wanted
                reasons.append(_Weighed(_OBJECT if is_wanted else _NEARBY, because(
                    "has-the-object" if is_wanted else "has-object-nearby", address=address,
                    place=self._place(words[address], frames), what=self._pointers.describe(address).what),
                    None if is_wanted else address))
            if same_library:
                reasons += self._reaching({*wanted, *nearby}, words, frames)
            if variables and self._tstates_of(seen.number) and asked < _MAX_PYTHON_THREADS:
                asked += 1
                reasons += self._same_variables(variables, seen)
        _drop_common(cases.values())
        return self._ranked(cases, died.number, wanted, report)

    def _reaching(self, wanted: set[int], words: Mapping[int, int | str],
                  frames: Sequence[tuple[int, int]]) -> Iterator[_Weighed]:
        """Find an object of a thread that points to one of the thread that died, directly or through another one."""
        for word in itertools.islice(filter(self._is_object, words), _MAX_OBJECTS):
            inner = self._pointed(word, _OBJECT_SIZE)
            reached, through = inner & wanted, None
            if not reached:
                for value in itertools.islice(filter(self._is_object, inner), _MAX_POINTED):
                    reached = self._pointed(value, _POINTED_SIZE) & wanted
                    if reached:
                        through = value
                        break
            reached.discard(word)
            if reached:
                target = min(reached)
                yield _Weighed(_REACHES, because(
                    "leads-to-object", address=word, place=self._place(words[word], frames), through=through,
                    target=target, what=self._pointers.describe(target).what))
                return

    def _is_object(self, value: int) -> bool:
        found = self._pointers.describe(value)
        return value & 7 == 0 and found.kind in (MEMORY, CPLUSPLUS) and found.what.code != "inaccessible-memory"

    def _pointed(self, address: int, size: int) -> set[int]:
        try:
            data = self._memory.read(address, size)
        except GdbextError:
            return set()
        return set(struct.unpack(f"<{size // 8}Q", data))

    def _variables(self, seen: SeenThread, at_hand: Collection[int] | None = None) -> dict[int, tuple[str, str]]:
        """Names and types of the objects in variables of a thread's innermost Python frames, by address.

        :param at_hand: the objects that global variables may refer to, None: any.
        """
        found: dict[int, tuple[str, str]] = {}
        for python, tstate in self._tstates_of(seen.number):
            try:
                for raw in python.frames.raw(tstate.address, _MAX_PYTHON_FRAMES):
                    for name, address in python.frames.variables(raw)[:_MAX_OBJECTS]:
                        kind = python.objects.type_name(address)
                        if kind not in _COMMON_TYPES:
                            found.setdefault(address, (f"{name} of {raw.frame.function}()", kind))
                    for name, address in self._containers(python, raw):
                        if at_hand is not None and address not in at_hand:
                            continue
                        found.setdefault(address, (f"global variable {name} in {raw.frame.function}()",
                                                   python.objects.type_name(address)))
            except GdbextError:
                continue
        return found

    @staticmethod
    def _containers(python: Python, raw: RawFrame) -> Iterator[tuple[str, int]]:
        """The global containers that the program's code names, if nothing but their own lock protects them."""
        # the code of a module names all of its globals
        if python.runtime.build != "free-threaded" or raw.frame.is_module or library_of(raw.frame) is not None:
            return
        namespace = python.frames.globals(raw)
        for name in itertools.islice(python.frames.names_of(raw.code), _MAX_OBJECTS):
            address = python.objects.dict_get(namespace, name)
            if address and python.objects.type_name(address) in _CONTAINERS:
                yield name, address

    def _same_variables(self, variables: Mapping[int, tuple[str, str]], seen: SeenThread) -> Iterator[_Weighed]:
        own = self._variables(seen)
        for address in [address for address in variables if address in own]:
            name, kind = own[address]
            yield _Weighed(_VARIABLE, because("same-python-object", address=address, name=name, type=kind,
                                              other_name=variables[address][0]), address)

    def functions(self, native: Sequence[tuple[int, int]]) -> Functions:
        """The functions and classes that a thread is in."""
        starts: dict[int, Reason] = {}
        classes: dict[str, Reason] = {}
        modules: dict[str, Reason] = {}
        for i, (pc, _) in enumerate(native[:_MAX_FRAMES]):
            if self._is_interpreter[pc] or self._sites.in_runtime(pc):
                continue
            function = self._code.frame(pc, i).function
            module = self._code.module(pc)
            if module is not None and GLUE.match(module.name):
                continue
            if function is not None and is_library_function(function):
                continue
            found = self._code.function_range(pc if i == 0 else pc - 1)
            name = function_name(function, module)
            if found is not None:
                starts.setdefault(found[0], name)
            if module is not None and not module.is_main:  # all threads run functions of the program
                modules.setdefault(module.path, name)
            name_of_class = class_of_function(function) if function is not None else None
            if name_of_class is not None:
                classes.setdefault(name_of_class, name)
        return Functions(starts, classes, modules)

    @staticmethod
    def _compare(own: Functions, other: Functions) -> Iterator[_Weighed]:
        same = [start for start in other.starts if start in own.starts]
        # all threads of a pool have the same outermost function
        outermost = list(own.starts)[-1:] if len(own.starts) > 1 else []
        if outermost and list(other.starts) == outermost:
            return
        inner = [start for start in same if start not in outermost]
        shared = [name for name in other.classes if name in own.classes]
        libraries = [path for path in other.modules if path in own.modules]
        if inner:
            yield _Weighed(_FUNCTION, because("same-function", function=own.starts[inner[0]]))
        elif shared:
            yield _Weighed(_CLASS, because("same-class", function=other.classes[shared[0]], type=shared[0]))
        elif libraries:
            yield _Weighed(_LIBRARY, because("same-library", function=other.modules[libraries[0]],
                                             library=libraries[0].rpartition("/")[2]))

    def _nearby(self, native: Sequence[tuple[int, int]], registers: Mapping[str, int]) -> set[int]:
        """Addresses of objects in the registers and in the frame of the faulting function."""
        cpu = self._code.cpu
        values = {value for name, value in registers.items() if name not in cpu.NOT_DATA}
        low = registers[cpu.STACK_POINTER] & ~7
        # up to the interpreter's frames
        own = itertools.takewhile(lambda frame: not self._is_interpreter[frame[0]], native[1:_MAX_FRAMES])
        high = max((sp for _, sp in own), default=low)
        values.update(read_words(self._memory, low, min(max(high - low, 0), _MAX_OWN)))
        # Python objects do not count: all threads share some
        return {value for value in values if value not in self._tstates and self._is_object(value)}

    def _words(self, seen: SeenThread, frames: Sequence[tuple[int, int]],
               asked: Collection[int] | None) -> dict[int, int | str]:
        """The values of a thread, each with the register, or the address on the stack, that contains it.

        :param asked: the values that are needed, None: all.
        """
        found: dict[int, int | str] = {}
        sp = seen.sp & ~7
        end = frames[min(len(frames), _MAX_FRAMES) - 1][1] if frames else sp
        words = read_words(self._memory, sp, min(max(end - sp, 512), _MAX_STACK))
        if asked is None or not set(asked).isdisjoint(words):
            for index, word in enumerate(words):
                found.setdefault(word, sp + 8 * index)
        for name, value in self._registers(seen).items():
            if name not in seen.cpu.NOT_DATA:
                found[value] = name
        return found

    def _place(self, place: int | str, frames: Sequence[tuple[int, int]]) -> Reason:
        if isinstance(place, str):
            return because("in-register", register=place)
        index = max((i for i, (_, sp) in enumerate(frames) if sp <= place), default=0)
        frame = self._code.frame(frames[index][0], index)
        return because("on-its-stack", function=short_name(frame.function) if frame.function else None,
                       module=frame.module)

    @staticmethod
    def _ranked(cases: Mapping[int, Sequence[_Weighed]], died: int, objects: Sequence[int],
                report: Report) -> tuple[Suspect, ...]:
        first = report.thread(died)
        found = []
        for number, reasons in cases.items():
            thread = report.thread(number)
            if not reasons or thread is None or first is None:
                continue
            weight = sum(each.weight for each in reasons) + (_RUNS if thread.status == "running" else 0)
            common = tuple(sorted({hold.lock for hold in first.holds} & {hold.lock for hold in thread.holds}))
            found.append((weight, Suspect(
                number, tuple(each.reason for each in sorted(reasons, key=lambda each: -each.weight)),
                tuple(_covered(first, thread, objects, common)), common)))
        found.sort(key=lambda pair: (-pair[0], pair[1].thread))
        return tuple(suspect for _, suspect in found[:_MAX_SUSPECTS])


def _drop_common(cases: Collection[list[_Weighed]]) -> None:
    """Drop reasons about objects that most of the threads use."""
    count = Counter(reason.about for reasons in cases for reason in reasons if reason.about is not None)
    common = {address for address, times in count.items() if times > max(3, len(cases) // 2)}
    for reasons in cases:
        alike: Counter[int] = Counter()
        kept = []
        for reason in reasons:
            if reason.about in common:
                continue
            if reason.about is not None:
                alike[reason.weight] += 1
                if alike[reason.weight] > _MAX_ALIKE:
                    continue
            kept.append(reason)
        reasons[:] = kept


@lru_cache(maxsize=4096)
def is_library_function(function: str) -> bool:
    """Whether a demangled function is of a library that is compiled into programs, such as C++ templates."""
    return _LIBRARIES.match(_without_result(rust_name(function) or function)) is not None


@lru_cache(maxsize=4096)
def class_of_function(function: str) -> str | None:
    """The class or namespace of a demangled C++ or Rust function; None if it has none, and for library functions.

    ``mesh::Cache<int>::intern`` -> ``mesh::Cache<int>``, also with parameters, templates and spaces in the name.
    """
    name = _without_result(rust_name(function) or function)
    # the characters of an operator are not brackets
    plain = _OPERATOR.sub("::operator", name)
    separators = [i for i, _ in _outside_brackets(plain) if plain.startswith("::", i)]
    return name[:separators[-1]] if separators and not _LIBRARIES.match(name) else None


def _without_result(name: str) -> str:
    """A demangled function without the type of its result, which precedes the name of a template function."""
    start = 0
    for i, char in _outside_brackets(name.partition("::operator")[0]):
        if char == "(":
            break
        if char == " ":
            start = i + 1
    return name[start:]


def _outside_brackets(name: str) -> Iterator[tuple[int, str]]:
    """The characters of a demangled name outside of brackets, with the brackets themselves, and their indices."""
    depth = 0
    for i, char in enumerate(name):
        depth -= char in ">)]"
        if depth == 0:
            yield i, char
        depth += char in "<(["


def _covered(died: Thread, other: Thread, objects: Sequence[int], common: tuple[str, ...]) -> Iterator[Reason]:
    """The synchronisation that two threads shared; if they shared none, the locks that each held."""
    if common:
        yield because("both-hold", locks=common)
        return
    if any(section.active and section.object in objects for thread in (died, other)
           for section in thread.critical_sections or ()):
        yield because("one-in-critical-section")
        return
    has_sections = died.critical_sections is not None
    yield because("no-common-lock-or-section" if has_sections else "no-common-lock")
    for thread in (died, other):
        if thread.holds:
            yield because("holds-locks", thread=thread.number, locks=tuple(hold.lock for hold in thread.holds[:4]))
    if has_sections and died.python_state == other.python_state == "attached":
        yield because("both-attached")
    elif not has_sections and other.python_state == "detached":
        had_gil = any(hold.lock.startswith(f"{GIL}:") for hold in died.holds)
        yield because("released-gil" if had_gil else "runs-without-gil", thread=other.number)
    elif other.python_state is None and other.tstate is None:
        yield because("not-a-python-thread", thread=other.number)
