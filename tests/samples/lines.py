"""Threads that hang on a known line, each inside another construct of the language; nothing is deadlocked.

A construct is a function that calls what it is given somewhere in its middle; in the end that is a call into C that
never returns. Each has a thread of its own, and a few threads have all of them nested: before anything was run
often, after CPython has specialised it, and when tracing has been on.

The main thread asks CPython itself for the frames of each thread that hangs and prints them in the end, see
tests/support/samples.py. Runs on CPython 3.6 and later; it writes files to its working directory.
"""

import argparse
import ast
import contextlib
import ctypes
import functools
import gc
import itertools
import json
import os
import py_compile
import random
import re
import signal
import sys
import threading
import time
import types
import weakref
import zipfile
from typing import Any, AsyncIterator, Callable, Coroutine, Generator, Iterator, List, Optional, Tuple, Type, cast

Go = Callable[[], object]
Construct = Callable[[Go], object]
Frames = List[Tuple[str, str, Optional[int], str]]

LIBC = ctypes.CDLL(None)
DEBUG_BUILD = hasattr(sys, "gettotalrefcount")
GATE = threading.Lock()
NEVER_READABLE, _WRITING_END = os.pipe()
BUFFER = ctypes.create_string_buffer(1)

#: Constructs that also work nested in each other, and any number of times.
NESTED = []  # type: List[Construct]
#: Constructs that need a thread of their own, and those that leave CPython changed.
ALONE = []  # type: List[Construct]
LAST = []  # type: List[Construct]


def nested(construct: Construct) -> Construct:
    NESTED.append(construct)
    return construct


def alone(construct: Construct) -> Construct:
    ALONE.append(construct)
    return construct


def run(source: str, file: str, go: Go, **names: object) -> "dict[str, Any]":
    """Run a text as the code of a file that need not exist."""
    space = dict(names, go=go)  # type: dict[str, Any]
    exec(compile(source, file, "exec"), space)
    return space


# -- calls and expressions over several lines -----------------------------------------------------------------------


def take(*arguments: object, **named: object) -> object:
    return arguments, named


def take_and_call(go: Go, *arguments: object, **named: object) -> object:
    return take(
        arguments,
        go(),
        named,
    )


@nested
def argument_on_a_line_of_its_own(go: Go) -> object:
    return take(
        1,
        *[2],
        first=3,
        last=go(),
    )


@nested
def calls_in_calls(go: Go) -> object:
    return take(
        take(1), take(
            take(
                2,
                take(go(),
                     3),
            ),
            4,
        ),
    )


@nested
def call_that_goes_on_for_lines(go: Go) -> object:
    return take_and_call(
        go,
        take(
            1,
        ),
        named=take(
            2,
        ),
    )


class Fluent:
    def step(self) -> "Fluent":
        return self

    def run(self, go: Go) -> "Fluent":
        go()
        return self


@nested
def chained_methods(go: Go) -> object:
    return (
        Fluent()
        .step()
        .step(
        )
        .run(go)
        .step()
    )


@nested
def conditions(go: Go) -> object:
    return (
        take()
        and not (
            go()
            if take()
            else take()
        )
        or take(1)
    )


@nested
def comparison(go: Go) -> object:
    return (
        1
        < 2
        < len(
            str(go())
        )
    )


@nested
def displays(go: Go) -> object:
    return {
        "a": [
            1,
            (
                2,
                {
                    3,
                    str(
                        go()
                    ),
                },
            ),
        ],
        **{
            "b": 4,
        },
    }


@nested
def subscript(go: Go) -> object:
    table = {None: 1}  # type: dict[Optional[object], int]
    return table.get(1) or table[
        go()
    ]


@nested
def format_string(go: Go) -> object:
    return f"""first line
    {take()}
    {
        go()
    }
    {take()!r}
    last line"""


@nested
def assignment_targets(go: Go) -> object:
    values = [0, 1]
    (values[
        0
    ], values[
        len(str(go())) * 0
    ]) = (
        1,
        2,
    )
    return values


@nested
def assertion(go: Go) -> object:
    if __debug__:
        assert (
            take() is not go()
        ), (
            "never"
        )
        return None
    return go()


@nested
def assertion_text(go: Go) -> object:
    with contextlib.suppress(AssertionError):
        assert not take(), (
            go()
        )
    return None if __debug__ else go()


@nested
def default_values(go: Go) -> object:
    def function(
        first: object = take(),
        second: object = go(),
    ) -> object:
        return first, second

    return function


@nested
def backslashes(go: Go) -> object:
    return take() and \
        take() and \
        go()


@nested
def semicolons(go: Go) -> object:
    first = 1; second = go(); third = 3  # noqa: E702
    return first, second, third


# -- comprehensions -------------------------------------------------------------------------------------------------


@nested
def list_comprehension(go: Go) -> object:
    return [
        (
            number,
            go(),
        )
        for number in range(
            2
        )
        if number
    ]


@nested
def comprehension_condition(go: Go) -> object:
    return [
        number
        for number in (1, 2)
        if number
        if go() or
        number
    ]


@nested
def set_in_dict_comprehension(go: Go) -> object:
    return {
        key: {
            (value, str(go()))
            for value in range(key)
        }
        for key in (
            0,
            1,
        )
    }


@nested
def comprehension_source(go: Go) -> object:
    return [
        inner
        for outer in (1, 2)
        for inner in [
            outer,
            go(),
        ]
    ]


@nested
def generator_expression(go: Go) -> object:
    return sum(
        len(
            str(go())
        )
        for _ in
        range(3)
    )


@nested
def generator_expressions(go: Go) -> object:
    return tuple(
        pair
        for pair in (
            (number, go())
            for number in (1, 2)
        )
        if pair[0] > 1
    )


# -- generators -----------------------------------------------------------------------------------------------------


def count(go: Go) -> "Generator[object, object, object]":
    received = yield 1
    while received is None:
        received = (
            yield go()
        )
    return received


def delegate(go: Go) -> "Generator[object, object, object]":
    yield 0
    result = yield from (
        count(
            go
        )
    )
    return result


@nested
def next_of_generator(go: Go) -> object:
    not_started = count(go)
    suspended = count(go)
    next(suspended)
    generator = count(go)
    next(generator)
    return (
        next(
            generator
        ),
        suspended,
        not_started,
    )


@nested
def for_over_generator(go: Go) -> object:
    for value in itertools.islice(
            delegate(go), 4):
        take(value)
    for value in delegate(
        go
    ):
        if value is None:
            break
    return None


@nested
def send_to_generator(go: Go) -> object:
    generator = delegate(go)
    next(generator)
    generator.send(None)
    return generator.send(
        None,
    )


def stubborn(go: Go) -> "Iterator[int]":
    try:
        try:
            yield 1
        except LookupError:
            go()
            raise
    finally:
        take(
            go()
        )


@nested
def throw_into_generator(go: Go) -> object:
    generator = stubborn(go)
    next(generator)
    with contextlib.suppress(LookupError):
        generator.throw(  # type: ignore[attr-defined]
            LookupError(),
        )
    return generator


@nested
def close_generator(go: Go) -> object:
    generator = stubborn(go)
    next(generator)
    generator.close()  # type: ignore[attr-defined]
    return generator


@nested
def drop_generator(go: Go) -> object:
    generator = stubborn(go)  # type: Optional[Iterator[int]]
    next(generator or iter([1]))
    generator = (
        None
    )
    return take(generator)


@nested
def unpack_generator(go: Go) -> object:
    first, *others = itertools.islice(
        delegate(go),
        3
    )
    return take(
        *itertools.islice(delegate(go), 3),
    ), first, others


# -- coroutines -----------------------------------------------------------------------------------------------------


def drive(coroutine: "Coroutine[object, None, object]") -> object:
    while True:
        try:
            coroutine.send(
                None
            )
        except StopIteration as stop:
            return stop.value


class Pause:
    def __await__(self) -> "Generator[object, None, None]":
        yield self


class Resource:
    def __init__(self, on_enter: Go, on_exit: Go) -> None:
        self.on_enter = on_enter
        self.on_exit = on_exit

    def __enter__(self) -> "Resource":
        self.on_enter()
        return self

    def __exit__(self, *error: object) -> bool:
        self.on_exit()
        return True

    async def __aenter__(self) -> "Resource":
        await Pause()
        self.on_enter()
        return self

    async def __aexit__(self, *error: object) -> bool:
        await Pause()
        return bool(
            self.on_exit()
        )


async def fetch(go: Go) -> object:
    await Pause()
    return (
        go()
    )


async def fetch_all(go: Go) -> object:
    return (
        1,
        await
        fetch(
            go
        ),
    )


async def numbers(go: Go) -> "AsyncIterator[object]":
    for number in range(3):
        await Pause()
        yield number
        take(
            number and
            go()
        )


@nested
def await_chain(go: Go) -> object:
    async def main() -> object:
        return await (
            fetch_all(go)
        )

    return drive(
        main()
    )


@nested
def async_for(go: Go) -> object:
    async def main() -> object:
        total = []
        async for number in (
            numbers(go)
        ):
            total.append(number)
        return total

    return drive(main())


@nested
def async_comprehension(go: Go) -> object:
    async def main() -> object:
        return [
            (number, await fetch(go))
            async for number in
            numbers(idle)
            if number
        ]

    return drive(main())


@nested
def async_with(go: Go) -> object:
    async def main() -> object:
        async with Resource(
            idle, idle
        ), Resource(
            go, idle
        ):
            return 1
        return 2

    return drive(main())


@nested
def async_with_exit(go: Go) -> object:
    async def main() -> object:
        async with Resource(
            idle,
            go,
        ):
            take(
                1
            )
        return 2

    return drive(main())


@types.coroutine
def old_coroutine(go: Go) -> "Generator[object, None, object]":
    yield 1
    return go()


@nested
def generator_based_coroutine(go: Go) -> object:
    async def main() -> object:
        return await old_coroutine(go)

    return drive(main())


# -- decorators, lambdas, classes -----------------------------------------------------------------------------------


def wrapped(function: "Callable[..., object]") -> "Callable[..., object]":
    @functools.wraps(
        function
    )
    def wrapper(*arguments: object, **named: object) -> object:
        return function(
            *arguments,
            **named
        )

    return wrapper


def wrapped_with(*_options: object) -> "Callable[[Callable[..., object]], Callable[..., object]]":
    return lambda function: (
        lambda *arguments:
        function(
            *arguments
        )
    )


class Counted:
    def __init__(self, function: "Callable[..., object]") -> None:
        self.function = function
        self.calls = 0

    def __call__(self, *arguments: object) -> object:
        self.calls += 1
        return self.function(
            *arguments)


@nested
@wrapped
@wrapped_with(
    1,
    2,
)
@Counted
def decorated(
    go: Go,
) -> object:
    """A first line above the `def`."""
    return go()


@nested
def while_decorating(go: Go) -> object:
    @wrapped
    @wrapped_with(
        1,
        go(),
    )
    def function() -> object:
        return 1

    return function


@nested
def inside_decorator(go: Go) -> object:
    def decorator(function: Go) -> Go:
        go()
        return function

    @decorator
    @wrapped_with()
    def function() -> object:
        return 1

    @decorator
    class Thing:
        pass

    return function, Thing


@nested
def lambdas(go: Go) -> object:
    return (lambda first, second: (
        first,
        second(),
    ))(
        1, (
            lambda: go()
        ),
    )


@nested
def class_body(go: Go) -> object:
    class Outer:
        value = 1

        class Inner:
            values = (
                1,
                go(),
            )

    return Outer


class Meta(type):
    def __prepare__(name: str, bases: object, **named: Go) -> "dict[str, object]":  # type: ignore[override, misc]
        return {}

    def __new__(cls, name: str, bases: "Tuple[type, ...]", space: "dict[str, Any]", **named: Go) -> "Meta":
        for go in named.values():
            go()
        return super().__new__(
            cls, name, bases, space)

    def __init__(cls, name: str, bases: "Tuple[type, ...]", space: "dict[str, Any]", **named: Go) -> None:
        super().__init__(name, bases, space)


@nested
def metaclass(go: Go) -> object:
    class Made(
        metaclass=Meta,
        on_creation=go,
    ):
        value = 1

    return Made


class Named:
    def __init__(self, go: Go) -> None:
        self.go = go

    def __set_name__(self, owner: type, name: str) -> None:
        self.go()


@nested
def set_name(go: Go) -> object:
    class Owner:
        one = 1
        two = Named(
            go
        )
        three = 3

    return Owner


class Registered:
    def __init_subclass__(cls, go: Go) -> None:
        go()


@nested
def init_subclass(go: Go) -> object:
    class Derived(
        Registered,
        go=go
    ):
        pass

    return Derived


class Deep:
    class Deeper:
        def method(self, go: Go) -> object:
            def local() -> object:
                return [
                    go() for _ in (1,)
                ]

            return local()

        @classmethod
        def class_method(cls, go: Go) -> object:
            return cls().method(go)

        @staticmethod
        def static_method(go: Go) -> object:
            return Deep.Deeper.class_method(go)


@nested
def methods(go: Go) -> object:
    return Deep.Deeper.static_method(go)


# -- try, with, loops -----------------------------------------------------------------------------------------------


@nested
def try_blocks(go: Go) -> object:
    try:
        try:
            take()
        except ValueError:
            return 1
        else:
            take(
                go()
            )
    finally:
        take()
    return 2


@nested
def except_block(go: Go) -> object:
    try:
        raise ValueError(
            "x"
        )
    except (
        LookupError,
        ValueError,
    ) as error:
        take(error)
        go()
    return 1


@nested
def exception_class(go: Go) -> object:
    def classes() -> "Tuple[Type[Exception], ...]":
        go()
        return (ValueError,)

    try:
        raise ValueError
    except LookupError:
        return 1
    except classes():
        return 2


@nested
def finally_on_return(go: Go) -> object:
    for _ in range(3):
        try:
            return take()
        finally:
            take()
            go()
    return None


@nested
def finally_on_error(go: Go) -> object:
    try:
        try:
            raise ValueError
        finally:
            take()
            go()
    except ValueError:
        return 1


@nested
def with_enter(go: Go) -> object:
    with Resource(
        idle, idle
    ), \
            Resource(
                go, idle
            ):
        return 1
    return 2


@nested
def with_exit(go: Go) -> object:
    with Resource(idle, go):
        take(
            1
        )
        take(2)
    return 1


@nested
def with_exit_on_return(go: Go) -> object:
    with Resource(
        idle, go
    ):
        take()
        return take(
            1
        )
    return 2


@nested
def with_exit_on_error(go: Go) -> object:
    with Resource(
        idle, go
    ), Resource(idle, idle):
        take()
        raise ValueError(
            1
        )
    return 2


@nested
def context_manager(go: Go) -> object:
    @contextlib.contextmanager
    def managed() -> "Iterator[int]":
        try:
            yield 1
        finally:
            go()

    with contextlib.ExitStack() as stack:
        stack.enter_context(
            managed()
        )
        stack.callback(take)
    return 1


@nested
def loop_that_goes_back(go: Go) -> object:
    turn = 0
    while True:
        if turn == 3:
            go()
            break
        turn += 1
        for _ in range(
            turn
        ):
            if turn == 2:
                continue
            take(
                turn
            )
    return turn


@nested
def loop_iterator(go: Go) -> object:
    class Items:
        def __init__(self) -> None:
            self.left = 3

        def __iter__(self) -> "Iterator[int]":
            return self

        def __next__(self) -> int:
            if not self.left:
                raise StopIteration
            self.left -= 1
            if self.left == 1:
                go()
            return self.left

    for item in (
        Items()
    ):
        take(
            item
        )
        take()
    return 1


@nested
def recursion(go: Go) -> object:
    def down(depth: int) -> object:
        if depth:
            return take(
                depth,
                down(
                    depth - 1
                ),
            )
        return go()

    return down(12)


# -- called from C --------------------------------------------------------------------------------------------------


@nested
def sort_key(go: Go) -> object:
    return sorted(
        [3, 1, 2],
        key=lambda number: (
            number,
            number == 1 and
            str(go()),
        ),
    )


@nested
def map_filter_reduce(go: Go) -> object:
    def same(item: int) -> int:
        return item

    def add(one: int, two: int) -> int:
        go()
        return one

    return functools.reduce(
        add,
        filter(
            lambda item: item,
            map(
                same,
                [1, 2],
            ),
        ),
    )


@nested
def regular_expression(go: Go) -> object:
    def replace(match: "re.Match[str]") -> str:
        return str(
            go()
        )

    return re.sub(
        "b",
        replace,
        "abc",
    )


CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


@nested
def foreign_callback(go: Go) -> object:
    def compare(one: int, two: int) -> int:
        go()
        return 0

    numbers = (ctypes.c_int * 2)(2, 1)
    return LIBC.qsort(
        numbers, 2,
        4, CALLBACK(compare),
    )


@nested
def cached(go: Go) -> object:
    @functools.lru_cache(
        maxsize=None
    )
    def compute(number: int) -> object:
        return number and (
            compute(number - 1) or
            go()
        )

    return compute(2)


@nested
def single_dispatch(go: Go) -> object:
    @functools.singledispatch
    def show(value: object) -> object:
        return 1

    @show.register(int)
    def show_number(value: int) -> object:
        return go()

    return show(
        1
    )


@nested
def partial(go: Go) -> object:
    return functools.partial(
        take_and_call,
        go,
        first=1
    )(
        2
    )


@nested
def json_hook(go: Go) -> object:
    def hook(pairs: object) -> object:
        return go()

    return json.loads(
        '{"a": {"b": 1}}',
        object_pairs_hook=hook,
    )


class Special:
    """Runs through special methods."""

    def __init__(self, go: Go) -> None:
        self.go = go

    @property
    def attribute(self) -> object:
        return (
            self.go()
        )

    @attribute.setter
    def attribute(self, value: object) -> None:
        self.go()

    def __getattr__(self, name: str) -> object:
        if name.startswith("made_up"):
            return self.go()
        raise AttributeError(name)

    def __getitem__(self, index: object) -> object:
        return self.go()

    def __add__(self, other: object) -> "Special":
        self.go()
        return self

    def __eq__(self, other: object) -> bool:
        self.go()
        return False

    def __hash__(self) -> int:
        self.go()
        return 1

    def __bool__(self) -> bool:
        self.go()
        return True

    def __contains__(self, item: object) -> bool:
        self.go()
        return True

    def __format__(self, spec: str) -> str:
        return str(
            self.go()
        )

    def __repr__(self) -> str:
        return str(self.go())

    def __call__(self) -> object:
        return self.go()


@nested
def special_property(go: Go) -> object:
    return (
        Special(go)
        .attribute
    )


@nested
def special_setter(go: Go) -> object:
    special = Special(go)
    special.attribute = take(
        1
    )
    return special


@nested
def special_getattr(go: Go) -> object:
    special = Special(go)
    return (
        special
        .made_up
    )


@nested
def special_getitem(go: Go) -> object:
    return take(
        Special(go)[
            1
        ]
    )


@nested
def special_operator(go: Go) -> object:
    special = Special(go)
    return (
        special
        + 1
        + 2
    )


@nested
def special_equality(go: Go) -> object:
    return [1, 2].count(
        Special(go)  # type: ignore[arg-type]
    ), Special(go) == \
        1


@nested
def special_hash(go: Go) -> object:
    return {
        1: 2,
        Special(go): 3,
    }


@nested
def special_bool(go: Go) -> object:
    if (
        take()
        and Special(go)
    ):
        return 1
    return 2


@nested
def special_contains(go: Go) -> object:
    return (
        1
        in
        Special(go)
    )


@nested
def special_format(go: Go) -> object:
    return (
        "text "
        f"{Special(go):5}"
    ) + "%s" % (
        Special(go)
    )


@nested
def special_call(go: Go) -> object:
    special = Special(go)
    return special(
    )


@nested
def new_and_init(go: Go) -> object:
    class Base:
        def __new__(cls, *arguments: object) -> "Base":
            return super().__new__(
                cls)

        def __init__(self, on_init: Go) -> None:
            self.value = on_init()

    class Made(Base):
        def __init__(self, on_init: Go) -> None:
            super().__init__(
                on_init
            )

    return Made(
        go
    )


@nested
def init(go: Go) -> object:
    class Made:
        def __init__(self, on_init: Go) -> None:
            self.value = on_init()

    for _ in range(60):
        Made(idle)  # CPython 3.12 and later then calls __init__ without C in between
    for on_init in [idle] * 60 + [go]:
        Made(
            on_init
        )
    return Made


class Mortal:
    def __init__(self, go: Go) -> None:
        self.go = go

    def __del__(self) -> None:
        self.go()


@nested
def last_reference(go: Go) -> object:
    mortal = Mortal(go)
    take()
    del mortal
    take(
        Mortal(go),
    )
    return 1


@nested
def weak_reference(go: Go) -> object:
    class Thing:
        pass

    thing = [Thing()]
    reference = weakref.ref(
        thing[0],
        lambda _: take(
            go()
        ),
    )
    thing.clear()
    return reference


# -- made-up files, unusual code ------------------------------------------------------------------------------------


@nested
def executed(go: Go) -> object:
    return run("a = 1\n\n\ndef f():\n    return (\n        go()\n    )\n\n\nb = f(\n)\n", "<made up>", go)


@nested
def evaluated(go: Go) -> object:
    return eval("(\n\n\n[go()\nfor _ in [1]\n])", {"go": go})


@nested
def interactive(go: Go) -> object:
    exec(compile("go(\n)", "<stdin>", "single"), {"go": go})
    return eval(compile("(1,\n go())", "<string>", "eval"), {"go": go})


#: File names and identifiers whose characters take one, two and four bytes.
STRANGE = [
    ("/tmp/naïve/Größe.py", "größe"),
    ("/tmp/каталог/файл.py", "функция"),
    ("/tmp/日本/ファイル.py", "関数"),
    ("/tmp/😀/𐌰.py", "𐌰𐌱𐌲"),
    ("", "nameless"),
    ("<a\x1b[31m\n\u202eb>", "escape"),
    (b"/tmp/not-utf8-\xff\xfe.py".decode("utf-8", "surrogateescape"), "undecodable"),
    ("C:\\windows\\path.py", "backslash"),
    ("relative/file.py", "relative"),
    ("/" + "deep/" * 500 + "file.py", "deep"),
]


@nested
def strange_names(go: Go) -> object:
    for file, name in STRANGE:
        source = f"class {name}Ω:\n    def {name}(self):\n        return (\n            go()\n        )"
        space = run(source, file, go)
        go = getattr(space[f"{name}Ω"](), name)
    return go()


@nested
def наш_метод(go: Go) -> object:
    def 関数() -> object:
        return "Größe", go()

    class 𐌰𐌱:
        def größe(self) -> object:
            return 関数()

    return 𐌰𐌱().größe()


@nested
def long_names(go: Go) -> object:
    name = "n" * 3000
    source = f"class {name}:\n  class {name}ω:\n    def {name}(self):\n      return go()\n"
    space = run(source, "<long>", go)
    return getattr(getattr(space[name], f"{name}ω")(), name)()


@nested
def far_lines(go: Go) -> object:
    """Steps from line to line that no single entry of a line table can take."""
    for step in (1, 126, 127, 128, 129, 254, 255, 256, 257, 511, 5000, 70000):
        gap = "\n" * step
        source = f"{gap}def far(go):{gap}    value = (1,{gap}    go(),{gap}    2){gap}    return value\n"
        go = functools.partial(run(source, f"<{step} lines apart>", idle)["far"], go)
    return go()


def shuffled(seed: int, *lines: int) -> "Callable[..., object]":
    """A function whose code stands on any lines, also going backwards; chosen by chance if none are given."""
    tree = ast.parse("def step(go, *rest):\n"
                     "    value = len(rest)\n"
                     "    value += 1\n"
                     "    value = (rest[0](go, *rest[1:]) if rest else go(), value)\n"
                     "    return value\n")
    chosen = random.Random(seed)
    node = None  # type: Any
    for node in ast.walk(tree):
        if hasattr(node, "lineno"):
            number = chosen.randint(1, 3000) if not lines else lines[min(node.lineno, len(lines)) - 1]
            node.lineno = node.end_lineno = number
            node.end_col_offset = node.col_offset + 1
    space = {}  # type: dict[str, Any]
    exec(compile(tree, f"<shuffled {seed}>", "exec"), space)
    return cast("Callable[..., object]", space["step"])


SHUFFLED = [shuffled(seed) for seed in range(20)]
SHUFFLED += [
    shuffled(1000 + delta, 70000, 70000 + 3, 70000 + 3 + delta, 70000 + 3 + 2 * delta)
    for delta in (-1, -126, -127, -128, -129, -130, -255, -256, -257, -511, -20000, 126, 127, 128, 129, 255, 256, 257)
]


@nested
def backward_lines(go: Go) -> object:
    if DEBUG_BUILD and sys.version_info >= (3, 12):
        return go()  # traced, such code fails an assertion of CPython
    return SHUFFLED[0](go, *SHUFFLED[1:])


LONG = run(
    "def long(go):\n"
    "    value = 0\n"
    "    for turn in range(3):\n"
    "        if turn == 2:\n"
    "            go()\n"
    "            break\n"
    + "".join(f"        value = value + {number} if turn else 0\n" if number % 40 == 7
              else f"        v{number} = ({number},\n\n           value)\n" for number in range(2000))
    + "    else:\n"
    "        go()\n"
    "    return value\n",
    "<long>", lambda: None)["long"]
LONG_LINE = run(
    "def wide(go):\n"
    "    return [" + ", ".join(f"{number} + len(str({number}))" for number in range(300)) + ",\n"
    "        go()]\n", "<wide>", lambda: None)["wide"]


@nested
def long_function(go: Go) -> object:
    return LONG(go)


@nested
def long_line(go: Go) -> object:
    return LONG_LINE(go)


def lineless(go: Go) -> object:
    return (
        take(),
        go(),
    )


@nested
def without_lines(go: Go) -> object:
    """Code whose line table is empty, or says that there is no line."""
    replace = getattr(lineless.__code__, "replace", None)  # since 3.8
    for table in (b"", bytes([0xFF] * 40) if sys.version_info >= (3, 11) else bytes([254, 128] * 3)):
        if replace is not None:
            name = "co_linetable" if sys.version_info >= (3, 10) else "co_lnotab"
            go = functools.partial(types.FunctionType(replace(**{name: table}), globals()), go)
    return go()


@nested
def renamed(go: Go) -> object:
    replace = getattr(lineless.__code__, "replace", None)
    if replace is not None:
        go = functools.partial(types.FunctionType(replace(co_name="a\0b c", co_filename="\0"), globals()), go)
        go = functools.partial(types.FunctionType(replace(co_name="", co_firstlineno=1 << 30), globals()), go)
    return go()


#: Sources by the version that can compile them.
NEWER = {
    (3, 8): """
def walrus(go, /, one=1):
    if (
        value := (
            one and
            take()
        )
    ):
        take(value)
    return (
        f"{take()=}"
        f"{go()=}"
    )
walrus(go)
""",
    (3, 10): """
def match_statement(go):
    match [1, {"a": 2}]:
        case [0]:
            return 1
        case [
            1,
            {"a": number},
        ] if take(
            number
        ) and go():
            return 2
        case _:
            pass
    with (
        Resource(idle, idle),
        Resource(
            idle,
            idle,
        ) as other,
    ):
        match other:
            case Resource(
                on_enter=on_enter
            ):
                return on_enter
match_statement(go)
""",
    (3, 11): """
def exception_groups(go):
    try:
        raise ExceptionGroup(
            "several",
            [ValueError(), KeyError()],
        )
    except* KeyError:
        take()
    except* (
        ValueError
    ) as group:
        go()
exception_groups(go)
""",
    (3, 12): """
def generic[T: (
    go()
)](value: T) -> T:
    return value
type Alias[T] = list[
    take(
        go()
    )
]
class Generic[
    T
]:
    value = [
        f"{
            go()
        }"
        for _ in (1,)
    ]
generic.__type_params__[0].__bound__
Alias.__value__
""",
    (3, 13): """
class WithDefault[T = (
    go()
)]:
    pass
WithDefault.__type_params__[0].__default__
""",
    (3, 14): """
def annotated(
    one: int,
    two: (
        go()
    ),
) -> int:
    return t"{
        go()
    }"
annotated.__annotations__
""",
}


@nested
def newer_syntax(go: Go) -> object:
    for version, source in NEWER.items():
        if sys.version_info >= version:
            go = functools.partial(run, source, "<%d.%d>" % version, go, take=take, Resource=Resource, idle=idle)
    return go()


# -- modules and their files ----------------------------------------------------------------------------------------

HOOK = [lambda: None]  # type: List[Go]
_NUMBERS = itertools.count()
MODULES = os.path.join(os.getcwd(), "modules")


def write(name: str, text: str) -> str:
    path = os.path.join(MODULES, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def module(name: str, text: str) -> str:
    """Write a module that nobody has imported yet; its path."""
    path = write(f"{name}.py", text)
    importlib = sys.modules["importlib"]
    importlib.invalidate_caches()
    return path


FUNCTION = '"""The {0} one."""\n\n\ndef enter(go):\n    return (\n        go()  # {0}\n    )\n'


@alone
def module_that_hangs(go: Go) -> object:
    write("package/__init__.py", "from . import inner  # the package\n")
    module("package/inner", "VALUE = 1\n\n\nclass Body:\n    import __main__\n    __main__.HOOK[\n        0]()\n")
    HOOK[0] = go
    from package import (  # type: ignore[import-not-found]
        inner,
    )
    return inner


@alone
def module_by_name(go: Go) -> object:
    module("by_name", "import __main__\n\n__main__.HOOK[0]()\n")
    HOOK[0] = go
    return __import__(
        "by_name"
    )


@alone
def module_that_stays(go: Go) -> object:
    module("stays", FUNCTION.format("lasting"))
    return __import__("stays").enter(go)


@alone
def module_that_changes(go: Go) -> object:
    path = module("changes", FUNCTION.format("old"))
    enter = __import__("changes").enter
    with open(path, "w") as file:
        file.write("\n\n\n\n\nnothing = 'of this has run'\n\n")
    return enter(go)


@alone
def module_that_shrinks(go: Go) -> object:
    path = module("shrinks", FUNCTION.format("shrinking"))
    enter = __import__("shrinks").enter
    with open(path, "w") as file:
        file.write("pass\n")
    return enter(go)


@alone
def module_that_vanishes(go: Go) -> object:
    path = module("vanishes", FUNCTION.format("vanishing"))
    enter = __import__("vanishes").enter
    os.remove(path)
    return enter(go)


@alone
def module_that_is_a_pipe(go: Go) -> object:
    path = module("pipe", FUNCTION.format("piped"))
    enter = __import__("pipe").enter
    os.remove(path)
    os.mkfifo(path)
    return enter(go)


@alone
def module_that_is_a_folder(go: Go) -> object:
    path = module("folder", FUNCTION.format("folded"))
    enter = __import__("folder").enter
    os.remove(path)
    os.mkdir(path)
    return enter(go)


@alone
def module_that_is_binary(go: Go) -> object:
    path = module("binary", FUNCTION.format("binary"))
    enter = __import__("binary").enter
    with open(path, "wb") as file:
        file.write(b"\n" * 5 + b"\x00\x1b[2J\xff\xfe\n")
    return enter(go)


@alone
def module_without_source(go: Go) -> object:
    path = module("compiled", FUNCTION.format("compiled"))
    py_compile.compile(path, cfile=path + "c", dfile="/nowhere/compiled.py", doraise=True)
    os.remove(path)
    return __import__("compiled").enter(go)


@alone
def module_imported_lazily(go: Go) -> object:
    module("lazily", "import __main__\n\n__main__.HOOK[0]()\n")
    HOOK[0] = go
    statement = "lazy import" if sys.version_info >= (3, 15) else "import"
    return run(f"{statement} lazily\n\n\ndef use():\n    return (\n        lazily\n    )\n\n\nuse()\n", "<lazy>", idle)


@alone
def module_in_archive(go: Go) -> object:
    archive = os.path.join(MODULES, "archive.zip")
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("zipped.py", FUNCTION.format("zipped"))
    sys.path.append(archive)
    return __import__("zipped").enter(go)


# -- frames at their first instruction, garbage, tracing ------------------------------------------------------------


@alone
def garbage(go: Go) -> object:
    """Garbage found where a function begins that has cells to make, or anywhere else CPython looks for it."""
    def with_cells(
        one: int,
        two: int,
    ) -> object:
        three = one + two
        return lambda: (one, two, three)

    class Knot:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            go()

    gc.collect()
    gc.disable()
    Knot()
    gc.set_threshold(1)
    gc.enable()
    for number in range(10):
        with_cells(
            number,
            number,
        )
    return gc.collect()


def traced(
    go: Go,
    one: int = 1,
) -> object:
    total = one
    for number in (
        1,
        2,
    ):
        total += number
    return [
        total,
        len(str(go())),
    ]


def trace(wanted: str, skip: int) -> Construct:
    """A construct in which a trace function hangs at an event."""

    def construct(go: Go) -> object:
        left = [skip]

        def tracer(frame: types.FrameType, event: str, argument: object) -> Any:
            if frame.f_code is not traced.__code__:
                return None
            if event == wanted:
                left[0] -= 1
                if left[0] < 0:
                    go()
            return tracer

        sys.settrace(tracer)
        try:
            return traced(
                idle
            )
        finally:
            sys.settrace(None)

    construct.__name__ = f"trace_{wanted}_{skip}"
    return construct


LAST += [trace("call", 0), trace("line", 0), trace("line", 3), trace("line", 6), trace("return", 0)]


def profile(wanted: str) -> Construct:
    """A construct in which a profile function hangs at an event."""

    def construct(go: Go) -> object:
        def profiler(frame: types.FrameType, event: str, argument: object) -> None:
            if frame.f_code is traced.__code__ and event == wanted:
                go()

        sys.setprofile(profiler)
        try:
            return traced(idle)
        finally:
            sys.setprofile(None)

    construct.__name__ = f"profile_{wanted}"
    return construct


LAST += [profile("call"), profile("c_call"), profile("return")]


def monitor(wanted: str) -> Construct:
    """A construct in which a callback of `sys.monitoring` hangs at an event."""

    def construct(go: Go) -> object:
        monitoring = getattr(sys, "monitoring", None)  # since 3.12
        if monitoring is None:
            return go()

        # code of its own: events belong to it, not to the function
        watched = types.FunctionType(traced.__code__.replace(co_name=f"watched_{wanted}"), globals())
        event = getattr(monitoring.events, wanted)
        tool = 3 + MONITORED.index(wanted)
        monitoring.use_tool_id(tool, f"lines {wanted}")
        monitoring.register_callback(tool, event, lambda *_: go())
        monitoring.set_local_events(tool, watched.__code__, event)
        return watched(idle, 1)

    construct.__name__ = f"monitor_{wanted}"
    return construct


MONITORED = ("PY_START", "LINE")
LAST += [monitor(wanted) for wanted in MONITORED]


# -- threads --------------------------------------------------------------------------------------------------------


def idle() -> object:
    return None


#: What a thread hangs in in the end, with the system call in which it then is; none of them returns.
ENDS = [
    ("futex", GATE.acquire),
    ("read", functools.partial(os.read, NEVER_READABLE, 1)),
    ("read", functools.partial(LIBC.read, NEVER_READABLE, BUFFER, 1)),
]  # type: List[Tuple[str, Go]]
NUMBERS = {"futex": ("202", "98"), "read": ("0", "63")}


class Hanging:
    """A thread that goes through a construct and hangs there."""

    def __init__(self, role: str, construct: Construct) -> None:
        self.role = role
        self.construct = construct
        self.syscall, self.end = ENDS[next(_NUMBERS) % len(ENDS)]
        self.tid = 0
        self.error = None  # type: Optional[BaseException]
        self.thread = threading.Thread(target=self.work, name=role, daemon=True)
        self.thread.start()
        self.await_end()
        #: Noted now: tracing may change what CPython says of lines that go backwards.
        self.stack = stack(sys._current_frames()[self.thread.ident or 0])

    def work(self) -> None:
        self.tid = int(LIBC.gettid())
        try:
            self.construct(self.end)
        except BaseException as error:
            self.error = error
            raise

    def await_end(self) -> None:
        """Wait until the thread is found again and again in the system call, waiting without limit, and has not run."""
        seen = 0
        before = None  # type: Optional[Tuple[str, str]]
        while seen < 3:
            assert self.thread.is_alive(), f"{self.role} has ended: {self.error!r}"
            time.sleep(0.0005)
            now = self.hangs() if self.tid else None
            seen = seen + 1 if now is not None and now == before else 0
            before = now

    def hangs(self) -> "Optional[Tuple[str, str]]":
        """What it waits for and how often it has gone to sleep so far; None if it does not wait as it is to."""
        try:
            with open(f"/proc/self/task/{self.tid}/syscall") as file:
                number, *arguments = file.read().split()
            with open(f"/proc/self/task/{self.tid}/status") as file:
                (switches,) = [line for line in file if line.startswith("voluntary_ctxt_switches:")]
        except FileNotFoundError:  # it has ended
            return None
        if number not in NUMBERS[self.syscall]:
            return None
        if self.syscall == "read":
            is_end = int(arguments[0], 16) & 0xFFFFFFFF == NEVER_READABLE  # a C int
        else:
            is_end = int(arguments[3], 16) == 0
        return (arguments[0], switches) if is_end else None


def bind(construct: Construct, go: Go) -> Go:
    return lambda: construct(go)


def nest(go: Go) -> object:
    """All constructs in each other."""
    for construct in NESTED:
        go = bind(construct, go)
    return go()


def nest_traced(go: Go) -> object:
    """All but those whose lines CPython 3.14 itself gets wrong once tracing has been on."""
    for construct in NESTED:
        if construct is not backward_lines:
            go = bind(construct, go)
    return go()


def stack(frame: "Optional[types.FrameType]") -> Frames:
    """Every frame of a thread as CPython sees it, innermost first."""
    frames = []  # type: Frames
    while frame is not None:
        code = frame.f_code
        qualified = getattr(code, "co_qualname", code.co_name)  # since 3.11
        frames.append((code.co_name, code.co_filename, frame.f_lineno, qualified))
        frame = frame.f_back
    return frames


THREADS = []  # type: List[Hanging]


def tell_and_pass(value: int) -> int:
    """Print the truth; called for an argument, so the caller stands at the line of the hanging call."""
    caller = sys._getframe(1)
    threads = {"main": tell("read", os.getpid(), "MainThread", stack(caller))}
    for hanging in THREADS:
        threads[hanging.role] = tell(hanging.syscall, hanging.tid, hanging.role, hanging.stack)
    print(json.dumps({
        "sample": "lines",
        "variant": "",
        "pid": os.getpid(),
        "threads": threads,
        "locks": {},
        "deadlock": [],
        "stuck_behind": [],
    }), flush=True)
    return value


def tell(syscall: str, tid: int, name: str, frames: Frames) -> "dict[str, object]":
    return {
        "tid": tid,
        "python_name": name,
        "blocked": True,
        "syscall": syscall,
        "stack": [(function, file, line) for function, file, line, _ in frames],
        "qualified_names": [qualified for _, _, _, qualified in frames],
    }


def on_signal(number: int, frame: "Optional[types.FrameType]") -> None:
    while True:
        os.read(NEVER_READABLE, tell_and_pass(1))


def interrupted(
    value: object,
    other: object = None,
) -> object:
    """Hangs before its first line has run: the signal is handled where a function begins."""
    return value, other


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    sys.dont_write_bytecode = True
    os.makedirs(MODULES)
    sys.path.insert(0, MODULES)
    GATE.acquire()
    for construct in NESTED + ALONE:
        THREADS.append(Hanging(getattr(construct, "__name__", "decorated"), construct))
    THREADS.append(Hanging("nested", nest))
    for construct in NESTED:
        for _ in range(20):
            construct(idle)
    THREADS.append(Hanging("nested, warm", nest))
    for construct in LAST:
        THREADS.append(Hanging(construct.__name__, construct))
    THREADS.append(Hanging("nested, traced", nest_traced))

    signal.signal(signal.SIGUSR1, on_signal)
    # nothing of Python runs between the signal and the call, so the eval loop finds it when the call begins
    list(map(interrupted, map(getattr(LIBC, "raise"), [signal.SIGUSR1])))


if __name__ == "__main__":
    main()
