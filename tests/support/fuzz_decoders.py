"""Damages what single decoders read: much faster than whole reports, so each decoder sees far more damage.

The calls of decoders that the report of an undamaged core makes are noted, with their arguments. An image is one of
these calls, with other values in some of the words that it reads in memory or in a file.
"""

from __future__ import annotations

import copy
import functools
import inspect
import itertools
import random
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any

from gdbext.inferior.cache import PAGE, CachedMemory
from tests.support import fuzzing
from tests.support.fuzzing import Image, Overtime, Seed

#: The packages whose functions decode what a target chooses.
_ROOMS = tuple(f"gdbext.{name}." for name in (
    "arch", "cpython", "crash", "dwarf", "elf", "glibc", "holders", "proofs", "runtimes", "threads",
    "waits"))
#: Most calls of one function that are noted, most items that are taken of an iterator, and how deep objects may hold
#: the memory in others.
_MOST_CALLS, _MOST_ITEMS, _DEPTH = 8, 100_000, 4
_READS = ("read", "_read")


@dataclass
class Call:
    """A call of a decoder. `words` are the places and sizes that it reads without damage, None if not yet known."""

    function: Callable[..., Any]
    arguments: Sequence[Any]
    words: list[tuple[int, int]] | None = None


class _Noting(CachedMemory):
    words: dict[tuple[int, int], None] | None = None

    def read(self, address: int, size: int) -> bytes:
        if self.words is not None:
            self.words[address, size] = None
        return super().read(address, size)

    def unpack(self, form: struct.Struct, address: int) -> tuple[int, ...]:
        if self.words is not None:
            self.words[address, form.size] = None
        return super().unpack(form, address)


class DecoderSeed:
    """The decoders of a core.

    :param seed: the core.
    """

    layer = "decoders"

    def __init__(self, seed: Seed) -> None:
        self.name = f"{seed.name}:decoders"
        self._seed = seed
        self._memory = CachedMemory(seed.raw)
        self._memory._pages = dict(seed.pages)
        self.calls = self._noted()

    def _noted(self) -> list[Call]:
        found: dict[object, list[Call]] = {}
        known: set[object] = set()
        functions: dict[object, Callable[..., Any] | None] = {}

        def note(frame: FrameType, event: str, argument: object) -> None:
            code = frame.f_code
            module = frame.f_globals.get("__name__", "")
            if event != "call" or not module.startswith(_ROOMS) or len(found.get(code, ())) >= _MOST_CALLS:
                return
            names, places = _parameters(code), frame.f_locals
            if not names or not all(name in places for name in names):
                return
            arguments = [places[name] for name in names]
            if not any(self._is_source(name, value, _DEPTH) for name, value in zip(names, arguments)):
                return
            owner = type(arguments[0]) if names[0] == "self" else None
            if (code, owner) not in functions:
                functions[code, owner] = _function(frame, owner)
            function = functions[code, owner]
            key = code, *(value if isinstance(value, (int, str, bytes)) else id(value) for value in arguments)
            if function is not None and key not in known:
                known.add(key)
                found.setdefault(code, []).append(Call(function, [_copied(value) for value in arguments]))

        sys.setprofile(note)
        try:
            self._seed.healthy_report(self._memory)
        finally:
            sys.setprofile(None)
        return [call for calls in found.values() for call in calls]

    def _is_source(self, name: str, value: object, depth: int) -> bool:
        """Whether a value reads the target: its memory, a file, or an object that holds one of them."""
        if value is self._memory or name in _READS and isinstance(value, (FunctionType, MethodType)):
            return True
        return depth > 0 and _is_ours(value) and any(
            self._is_source(each, held, depth - 1) for each, held in vars(value).items())

    # -- images ----------------------------------------------------------------------------------------------------

    def _call(self, number: str) -> tuple[random.Random, Call]:
        chance = random.Random(f"{self.name} {number}")
        return chance, self.calls[int(chance.random() * len(self.calls))]

    def image(self, number: str) -> Image:
        """Make the image with a number, which also chooses the call."""
        chance, call = self._call(number)
        if call.words is None:
            memory, call.words = CachedMemory(self._seed.raw), []
            noting = _Noting(memory)
            noting._pages, noting.words = dict(self._seed.pages), {}
            _outcome(call.function, _Damage(self._memory, noting, (), noting.words).arguments(call))
            call.words = [word for word in noting.words if word[1] > 0]
        patches = [self._seed.word(chance, call.words, self._page) for _ in range(
            chance.choice((1, 1, 1, 2, 3, 8)))] if call.words else []
        return Image(self.name, number, patches)

    def _page(self, address: int) -> bytes:
        return self._seed.pages.get(address) or bytes(PAGE)

    def check(self, image: Image) -> str | None:
        """Call the decoder; return what is wrong, None if nothing is."""
        _, call = self._call(image.number)
        memory = CachedMemory(self._seed.raw)
        memory._pages = pages = dict(self._seed.pages)
        for address, data in image.patches:
            at = address % PAGE
            page = pages.get(address - at)
            if page is not None:
                pages[address - at] = (page[:at] + data + page[at + len(data):])[:PAGE]
        with fuzzing.limited(fuzzing.LONGEST):
            try:
                return _outcome(call.function, _Damage(self._memory, memory, image.patches, None).arguments(call))
            except Overtime as error:
                return fuzzing.trace(error)


class _Damage:
    """Replaces the memory and the files in arguments by damaged ones."""

    def __init__(self, old: CachedMemory, new: CachedMemory, patches: Sequence[tuple[int, bytes]],
                 notes: dict[tuple[int, int], None] | None) -> None:
        self._old, self._new, self._patches, self._notes = old, new, patches, notes
        self._made: dict[int, Any] = {}

    def arguments(self, call: Call) -> list[Any]:
        """The arguments of a call."""
        names = _parameters(call.function.__code__)
        return [self._replaced(name, value, _DEPTH) for name, value in zip(names, call.arguments)]

    def _replaced(self, name: str, value: Any, depth: int) -> Any:
        if value is self._old:
            return self._new
        if name in _READS and isinstance(value, (FunctionType, MethodType)):
            return self._file(value)
        if not _is_ours(value) or isinstance(value, CachedMemory):
            return _copied(value)
        if depth == 0:
            return value
        if id(value) not in self._made:
            # `copy.copy` would ask a target that has no members yet
            made: Any = object.__new__(type(value)) if not isinstance(value, dict) else dict.__new__(type(value))
            self._made[id(value)] = made
            if isinstance(value, dict):
                made.update(value)
            kept = _kept(type(value).__mro__)
            for each, held in vars(value).items():
                if kept(each):
                    made.__dict__[each] = self._replaced(each, held, depth - 1)
        return self._made[id(value)]

    def _file(self, read: Callable[[int, int], bytes]) -> Callable[[int, int], bytes]:
        def damaged(offset: int, size: int) -> bytes:
            if self._notes is not None:
                self._notes[offset, size] = None
            return fuzzing.patched(read(offset, size), offset, self._patches)

        return damaged


def _parameters(code: CodeType) -> Sequence[str]:
    """The parameters of a function: positional ones, those with keywords only, and the one for all others."""
    count = code.co_argcount + code.co_kwonlyargcount
    return code.co_varnames[:count + bool(code.co_flags & inspect.CO_VARARGS)]


@functools.cache
def _kept(owners: tuple[type, ...]) -> Callable[[str], bool]:
    """Which members of a class's objects are not results that were kept."""
    @functools.cache
    def kept(member: str) -> bool:
        of_class = getattr(owners[0], member, None)
        return not member.startswith("_results_of_") and not isinstance(of_class, cached_property)

    return kept


def _is_ours(value: object) -> bool:
    return (type(value).__module__.startswith("gdbext.") and hasattr(value, "__dict__")
            and not isinstance(value, (type, Enum)))


def _copied(value: Any) -> Any:
    return copy.copy(value) if type(value) in (dict, list, set) else value


def _function(frame: FrameType, owner: type | None) -> Callable[..., Any] | None:
    """The function of a frame; None if it has no name, as a part of another function."""
    code = frame.f_code
    if owner is None:
        found: Any = frame.f_globals.get(code.co_name)
    else:
        found = next((base.__dict__[code.co_name] for base in owner.__mro__ if code.co_name in base.__dict__), None)
        found = getattr(found, "fget", None) or getattr(found, "func", None) or found
    found = inspect.unwrap(found) if callable(found) else None
    return found if getattr(found, "__code__", None) is code else None


def _outcome(function: Callable[..., Any], arguments: Sequence[Any]) -> str | None:
    try:
        code = function.__code__
        count, named = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
        more = arguments[named] if len(arguments) > named else ()
        found = function(*arguments[:count], *more, **dict(zip(code.co_varnames[count:named], arguments[count:])))
        if isinstance(found, Iterator):
            for _ in itertools.islice(found, _MOST_ITEMS):
                pass
    except Exception as error:
        # one of gdbext's own errors is the answer of a decoder
        return None if type(error).__module__.startswith("gdbext.") else fuzzing.trace(error)
    return None
