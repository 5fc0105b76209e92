"""Finds the calls of ``acquire`` and ``release`` in the bytecode of a function, and what may change their objects.

A call is recognised if its object is a variable or attributes of one, and its arguments are variables or constants.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from gdbext.cpython.code.bytecode import Bytecode, Instruction
from gdbext.record import record

_ACQUIRES = ("acquire",)
_RELEASES = ("release", "release_lock", "__exit__")
#: Names of attributes that take or release a lock: a function without them has nothing to analyse.
LOCK_NAMES = frozenset((*_ACQUIRES, *_RELEASES))
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
_CELLS = ("LOAD_DEREF", "LOAD_CLASSDEREF")
_STORES_OF_LOCALS = ("STORE_FAST", "DELETE_FAST", "STORE_FAST_MAYBE_NULL", "LOAD_FAST_AND_CLEAR")
_STORES_OF_CELLS = ("STORE_DEREF", "DELETE_DEREF")
_STORES_BY_NAME = ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR", "STORE_NAME", "DELETE_NAME")
_STORES_OF_PAIRS = ("STORE_FAST_STORE_FAST", "STORE_FAST_LOAD_FAST")
#: All instructions that assign variables or attributes.
STORES = frozenset((*_STORES_OF_LOCALS, *_STORES_OF_CELLS, *_STORES_BY_NAME, *_STORES_OF_PAIRS))
#: Instructions that push one value, which may be an argument.
_PUSHES = ("LOAD_CONST", "LOAD_COMMON_CONSTANT", "LOAD_SMALL_INT", "LOAD_FAST", "LOAD_FAST_BORROW",
           "LOAD_FAST_CHECK", "LOAD_GLOBAL", *_CELLS)
_PAIRS = ("LOAD_FAST_LOAD_FAST", "LOAD_FAST_BORROW_LOAD_FAST_BORROW")
_CALLS = ("CALL", "CALL_METHOD", "CALL_FUNCTION")
_CALLS_WITH_NAMES = ("CALL_KW", "CALL_FUNCTION_KW")  # the names are one more value on the stack
_BETWEEN = ("PUSH_NULL", "PRECALL", "KW_NAMES", "NOP")
_LONGEST_CALL = 16


class Place(NamedTuple):
    """An expression of a function: a variable, and the names of the attributes that lead from it to the object."""

    is_global: bool
    variable: str
    attributes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ".".join((self.variable, *self.attributes))


class LockCall(NamedTuple):
    """A call of ``acquire`` or ``release``.

    `place` is None if the expression is of another form. `first` and `call` are the indices of the first instruction
    of the expression and of the call. `tested` is the index of the jump that tests the result, or None, and
    `jumps_if_true` whether it jumps if the lock was acquired. `is_sure`: without a jump the lock is acquired, too.
    """

    place: Place | None
    first: int
    call: int
    acquires: bool
    is_sure: bool = False
    tested: int | None = None
    jumps_if_true: bool = False


@record
class LockCalls:
    """The calls of a function that take or release locks.

    `stores` are the names of variables and attributes that instructions assign, by index. `escapes` are the places
    whose ``release`` is used in another way than by a call, such as an argument; None for other expressions.
    """

    calls: Sequence[LockCall]
    stores: Mapping[int, Collection[str]]
    escapes: Collection[Place | None]


class Names(NamedTuple):
    """``co_names``, the names of local variables, and the index among these at which cells are counted from."""

    names: Sequence[str]
    variables: Sequence[str]
    first_cell: int


def find_lock_calls(code: Bytecode, names: Names, version: tuple[int, ...]) -> LockCalls:
    """Find the calls of one function.

    :raises IndexError: the code is damaged.
    """
    return _Finder(code, names, version).find()


def iter_places(code: Bytecode, names: Names, version: tuple[int, ...], wanted: Sequence[int],
                is_module: bool) -> Iterator[Place]:
    """The variables in some instructions, each with the attributes that are read of it; a method is left out.

    :param wanted: the indices of the instructions, ascending.
    :param is_module: whether this is the code of a module, in which names are global variables.
    :raises IndexError: the code is damaged.
    """
    finder = _Finder(code, names, version)
    place: Place | None = None
    for i in wanted:
        each = code.instructions[i]
        is_method = each.name == "LOAD_METHOD" or version >= (3, 12) and bool(each.argument & 1)
        if place is not None and each.name == "LOAD_ATTR" and not is_method:
            place = place._replace(attributes=(*place.attributes, finder.attribute(each)))
            continue
        if place is not None:
            yield place
        place = None
        known = finder.variable(each)
        if known is not None:
            if each.name in _PAIRS:
                yield Place(False, names.variables[each.argument >> 4])
            place = Place(*known)
        elif each.name == "LOAD_NAME" and is_module:
            place = Place(True, names.names[each.argument])
    if place is not None:
        yield place


def iter_attributes(code: Bytecode, names: Names, version: tuple[int, ...], wanted: Sequence[int]) -> Iterator[str]:
    """The names of the attributes and methods that some instructions read.

    :param wanted: the indices of the instructions.
    :raises IndexError: the code is damaged.
    """
    finder = _Finder(code, names, version)
    return (finder.attribute(code.instructions[i]) for i in wanted if code.instructions[i].name in _ATTRIBUTES)


def iter_results(code: Bytecode, names: Names, version: tuple[int, ...], wanted: Sequence[int]) -> Iterator[str]:
    """The names of the variables to which some instructions assign the result of a call.

    :param wanted: the indices of the instructions.
    :raises IndexError: the code is damaged.
    """
    finder = _Finder(code, names, version)
    for i in wanted:
        if i and code.instructions[i - 1].name.startswith("CALL"):
            yield from finder.assigned(code.instructions[i])


class _Finder:
    def __init__(self, code: Bytecode, names: Names, version: tuple[int, ...]) -> None:
        self._code = code
        self._instructions = code.instructions
        self._names = names
        self._version = version
        # instructions that are reached in another way than from the one before them
        self._entered = {target for i, following in enumerate(code.successors) for target in following
                         if target != i + 1} | {handler for handler in code.handlers if handler is not None}

    def find(self) -> LockCalls:
        calls = []
        escapes = set()
        stores = {}
        # releases that no instruction loads in a known way
        unseen = {*_RELEASES} & {*self._names.names}
        for i, each in enumerate(self._instructions):
            if each.name in _ATTRIBUTES:
                attribute = self.attribute(each)
                unseen.discard(attribute)
                if attribute in LOCK_NAMES:
                    found = self._call(i, attribute in _ACQUIRES)
                    if found is not None:
                        calls.append(found)
                    elif attribute not in _ACQUIRES:
                        escapes.add(self._place_before(i)[0])
            elif self._is_other_release(each):
                escapes.add(None)
            assigned = tuple(self.assigned(each))
            if assigned:
                stores[i] = assigned
        if unseen:
            escapes.add(None)
        return LockCalls(calls, stores, escapes)

    def attribute(self, each: Instruction) -> str:
        """The name of the attribute that an instruction reads."""
        shift = each.name == "LOAD_ATTR" and self._version >= (3, 12)
        return self._names.names[each.argument >> 1 if shift else each.argument]

    def _is_other_release(self, each: Instruction) -> bool:
        """Whether an instruction loads a variable, or a method of a base class, with the name of a release."""
        if each.name == "LOAD_SUPER_ATTR":
            return self._names.names[each.argument >> 2] in _RELEASES
        if each.name == "LOAD_NAME":
            return self._names.names[each.argument] in _RELEASES
        known = self.variable(each)
        return known is not None and known[1] in _RELEASES

    def variable(self, each: Instruction) -> tuple[bool, str] | None:
        """(whether it is global, name) of the variable that an instruction pushes last."""
        if each.name == "LOAD_GLOBAL":
            return True, self._names.names[each.argument >> 1 if self._version >= (3, 11) else each.argument]
        if each.name in _CELLS:
            return False, self._names.variables[each.argument + self._names.first_cell]
        if each.name in _PAIRS or each.name == "STORE_FAST_LOAD_FAST":
            return False, self._names.variables[each.argument & 15]
        if each.name.startswith("LOAD_FAST") and each.name != "LOAD_FAST_AND_CLEAR":
            return False, self._names.variables[each.argument]
        return None

    def assigned(self, each: Instruction) -> Iterator[str]:
        """The names that an instruction assigns."""
        variables = self._names.variables
        if each.name in _STORES_OF_LOCALS:
            yield variables[each.argument]
        elif each.name in _STORES_OF_CELLS:
            yield variables[each.argument + self._names.first_cell]
        elif each.name in _STORES_BY_NAME:
            yield self._names.names[each.argument]
        elif each.name == "STORE_FAST_STORE_FAST":
            yield variables[each.argument >> 4]
            yield variables[each.argument & 15]
        elif each.name == "STORE_FAST_LOAD_FAST":
            yield variables[each.argument >> 4]

    def _place_before(self, i: int) -> tuple[Place | None, int]:
        """The expression whose value is on top of the stack before an instruction, and the index of its first one."""
        attributes: list[str] = []
        at = i - 1
        while at >= 0 and at + 1 not in self._entered:
            each = self._instructions[at]
            known = self.variable(each)
            if known is not None:
                return Place(*known, tuple(attributes[::-1])), at
            if each.name != "LOAD_ATTR" or (self._version >= (3, 12) and each.argument & 1):
                break
            attributes.append(self.attribute(each))
            at -= 1
        return None, i

    def _call(self, i: int, acquires: bool) -> LockCall | None:
        """The call of the method that an instruction loads; None if that is not what follows."""
        pushed = 0
        for at in range(i + 1, min(i + _LONGEST_CALL, len(self._instructions))):
            each = self._instructions[at]
            if at in self._entered:
                return None
            if each.name in _CALLS or each.name in _CALLS_WITH_NAMES:
                if pushed != each.argument + (each.name in _CALLS_WITH_NAMES):
                    return None
                place, first = self._place_before(i)
                sure = acquires and not pushed
                tested, jumps_if_true = self._test(at) if acquires else (None, False)
                return LockCall(place, first, at, acquires, sure, tested, jumps_if_true)
            if each.name in _PUSHES:
                if each.name == "LOAD_GLOBAL" and self._version >= (3, 11) and each.argument & 1:
                    return None  # begins another call
                pushed += 1
            elif each.name in _PAIRS:
                pushed += 2
            elif each.name == "LOAD_ATTR":
                if not pushed or (self._version >= (3, 12) and each.argument & 1):
                    return None
            elif each.name not in _BETWEEN or (each.name == "PUSH_NULL" and at != i + 1):
                return None
        return None

    def _test(self, call: int) -> tuple[int | None, bool]:
        at, negated = call + 1, False
        while at < len(self._instructions) and at not in self._entered:
            name = self._instructions[at].name
            if name == "UNARY_NOT":
                negated = not negated
            elif name.startswith("POP_JUMP") and name.endswith(("IF_TRUE", "IF_FALSE")):
                return at, name.endswith("IF_TRUE") != negated
            elif name != "TO_BOOL":
                break
            at += 1
        return None, False
