"""Functions that hang with values of many kinds in their variables.

Runs on CPython 3.6 and later. Writes values.json, which has a list of [NAME, TYPE, TEXT] of the variables of each
of the functions that are running, then prints one JSON line about itself and reads from standard input.
The text is the result of `repr` where that can be determined without running code of the program.
"""

import builtins
import collections
import enum
import functools
import importlib
import itertools
import json
import os
import sys
import threading
import types
import typing
import weakref


def optional(name: str) -> "typing.Any":
    """A module, or None where there is none."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


dataclasses = optional("dataclasses")  # since 3.7
numpy = optional("numpy")


class Account:
    def __init__(self, owner: object, balance: object) -> None:
        self.owner = owner
        self.balance = balance

    def pay(self) -> None:
        pass


class Empty:
    pass


class Slots:
    __slots__ = ("first", "second", "unset")

    def __init__(self) -> None:
        self.first = 1
        self.second = "two"


class More(Slots):
    __slots__ = ("third", "__dict__")

    def __init__(self) -> None:
        super().__init__()
        self.third = 3.0
        self.free = True


class Colour(enum.Enum):
    RED = 1
    BLUE = "blue"
    ALIAS = 1


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Names(list):  # type: ignore[type-arg]
    pass


class Table(dict):  # type: ignore[type-arg]
    pass


class Text(str):
    __slots__ = ()


class Meters(float):
    pass


class Count(int):
    pass


class Bag(set):  # type: ignore[type-arg]
    pass


class Refused(Exception):
    pass


Point = collections.namedtuple("Point", "x y")

if dataclasses is not None:
    Transfer = dataclasses.make_dataclass("Transfer", [
        ("source", object), ("amount", int, dataclasses.field(default=1)),
        ("secret", str, dataclasses.field(default="key", repr=False)), ("limit", typing.ClassVar[int], 7)])
    Tight = dataclasses.make_dataclass("Tight", ["a"], **({"slots": True} if sys.version_info >= (3, 10) else {}))

    class Frozen(Transfer):  # type: ignore[valid-type,misc]
        """Not a dataclass by itself."""


def local_class() -> type:
    class Local:
        pass

    return Local


def countdown() -> "typing.Iterator[int]":
    yield 1


def type_name(value: object) -> str:
    """The ``tp_name`` of a value's type, in which what is written in Python has no module."""
    kind = type(value)
    # made at run time, as some of C are too in the newer versions
    in_python = kind.__flags__ & 1 << 9 and kind not in (
        type(threading.Lock()), collections.defaultdict, collections.deque)
    return kind.__name__ if kind.__module__ == "builtins" or in_python else f"{kind.__module__}.{kind.__name__}"


def first(values: "typing.Iterable[object]", count: int = 10) -> str:
    return ", ".join(map(repr, itertools.islice(values, count)))


def at(value: object) -> str:
    return f"at {id(value):#x}"


told = {}  # type: dict[str, list[tuple[str, str, str]]]


def tell(function: str, variables: "dict[str, object]", texts: "dict[str, str]") -> None:
    wrong = set(texts) - set(variables)
    assert not wrong, wrong
    told[function] = [(name, type_name(value), texts[name] if name in texts else repr(value))
                      for name, value in variables.items()]


def hang() -> None:
    with open("values.json", "w") as file:
        json.dump(told, file)
    truth = {"sample": "values", "variant": "values", "pid": os.getpid(), "locks": {}, "deadlock": [],
             "stuck_behind": [],
             "threads": {"main": {"tid": os.getpid(), "python_name": "MainThread", "blocked": True, "syscall": "read",
                                  "stack": []}}}
    print(json.dumps(truth), flush=True)
    os.read(0, 1)


def plain(given: int, *rest: int, keyword: str = "default", **options: int) -> None:
    """Numbers and strings."""
    if given < 0:
        never = 1
    none, ellipsis, not_implemented, true, false = None, ..., NotImplemented, True, False
    zero, one, negative, digit = 0, 1, -5, 1 << 30
    large, below, many_digits, huge, gigantic = 1 << 100, -(1 << 64), 10 ** 150, 10 ** 500, 1 << 40_000
    number, infinite, nan, minus_zero, tiny = 3.25, float("inf"), float("nan"), -0.0, 5e-324
    complex_number = -1.5 - 2j
    text, latin, cyrillic, emoji = "ascii", "Größe", "данные", "в😀"
    quoted, both_quotes, controls, surrogate, empty_text = "it's", "it's \"so\"", "a\n\t\0\x1b\x7f", "a\udcff", ""
    long_text, long_bytes, data, mutable, no_bytes = "x" * 5000, b"\xff" * 5000, b"a\0'", bytearray(b"ab\xff"), b""
    empty_array = bytearray()
    tell("plain", locals(), {
        "huge": "<int of 501 digits>", "gigantic": "<int of about 12047 digits>",
        "long_text": repr("x" * 200) + "...", "long_bytes": repr(b"\xff" * 49) + "...",
    })
    containers()


def containers() -> None:
    """Containers, those of the standard library too."""
    no_tuple = ()  # type: tuple[int, ...]
    numbers, empty_list, nested = [1, -2, 3.5], list(no_tuple), [[1], ["a", None], (2,)]
    many, deep = list(range(100_000)), [[[[1]]], {"a": {"b": {"c": 1}}}, (((1,),),)]
    exactly = list(range(10))
    own_list = [1]  # type: list[object]
    own_list.append(own_list)
    own_dict = {}  # type: dict[str, object]
    own_dict["me"] = own_dict
    own_tuple = ([],)  # type: tuple[list[object]]
    own_tuple[0].append(own_tuple)
    pair, single = (1, "b"), ("only",)
    wide = ["y" * 80 for _ in range(9)]
    one_set, several, no_set, frozen, no_frozen = {1}, {3, 1, 2}, set(no_tuple), frozenset("a"), frozenset(no_tuple)
    changed = set(range(40))
    for i in range(38):
        changed.discard(i)
    crowd = set(range(500))
    mapping, no_mapping, by_number = {"a": 1, "b": [2]}, dict.fromkeys(no_tuple), {1: "one", (2, 3): None, None: 2.5}
    crowded = {i: i for i in range(100_000)}
    frozen_mapping = getattr(builtins, "frozendict", dict)({"a": [1]})  # since 3.15
    thinned = dict.fromkeys("abcdef", 0)
    del thinned["a"], thinned["c"]
    span, steps, part, part_of = range(10), range(10, 0, -2), slice(1, None), slice("a", None, -1)
    ordered = collections.OrderedDict([("a", 1), ("b", 2)])
    default = collections.defaultdict(int, {"k": 4})
    counter = collections.Counter("aab")
    point, names, table, own_text, meters, count, bag = (
        Point(1, [2]), Names([1]), Table(a=1), Text("t"), Meters(2.5), Count(7), Bag({1}))
    no_names, no_table, no_order, no_bag = Names(), Table(), collections.OrderedDict(no_mapping), Bag()
    tell("containers", locals(), {
        "many": f"[{first(many)}, ...]", "deep": "[[[[...]]], {'a': {'b': {...}}}, (((...),),)]",
        "wide": "['{0}', '{0}', '{1}'..., ...]".format("y" * 80, "y" * 32),
        "crowd": f"{{{first(crowd)}, ...}}",
        "crowded": f"{{{', '.join(f'{i}: {i}' for i in range(10))}, ...}}",
        "ordered": "OrderedDict({'a': 1, 'b': 2})", "default": "defaultdict({'k': 4})",
        "names": "Names([1])", "table": "Table({'a': 1})", "own_text": "Text('t')", "meters": "Meters(2.5)",
        "count": "Count(7)", "no_names": "Names([])", "no_table": "Table()",
    })
    objects(1)


def objects(given: int) -> None:
    """Functions, classes, instances, arrays."""
    def inner() -> object:
        return captured, unset_cell

    captured = ["in a cell"]
    if given < 0:
        unset_cell = 1
    numbers = [1]
    module_function, built_in, bound, joined = countdown, len, numbers.append, str.join
    owner = Account("x", 1)
    method, unbound = owner.pay, Account.pay
    module, static_class, class_, nested_class, c_class = os, int, Account, local_class(), functools.partial
    error, errors, refused, os_error, no_error = (
        ValueError("bad"), KeyError("a", 1), Refused("no"), OSError(2, "No such file"), StopIteration())
    account, empty, slots, more = Account("x", 3), Empty(), Slots(), More()
    other = Account(account, [1, (2,)])
    own_account = Account(None, 0)
    own_account.owner = [own_account]
    materialized = Account("dict", 1)
    vars(materialized)["balance"] = 2
    swapped = Account.__new__(Account)
    swapped.balance, swapped.owner = 1, 2
    grown = Account("more", 0)
    for i in range(40):
        setattr(grown, f"a{i}", i)
    alive = weakref.ref(account)
    dead = weakref.ref(Empty())
    colour, named_colour, alias, level, flag, flags = (
        Colour.RED, Colour.BLUE, Colour.ALIAS, Level.HIGH, Access.READ, Access.READ | Access.WRITE)
    colour_class = Colour
    queue, lock, thing, generator, proxy = (
        collections.deque([1]), threading.Lock(), object(), countdown(), types.MappingProxyType({1: 2}))
    if dataclasses is not None:
        transfer = Transfer(account, 5)
        heir = Frozen("a")
        tight = Tight(1)
        own_transfer = Transfer(None)
        own_transfer.source = own_transfer
    if numpy is not None:
        array, vector, scalar_array = numpy.zeros((3, 4)), numpy.arange(5, dtype="int32"), numpy.array(1.5)
        words, raw, flags_array, objects, empty_matrix = (
            numpy.array(["abc", "d"]), numpy.zeros(2, dtype=[("a", "i4"), ("b", "f8")]), numpy.ones((1, 2, 3), bool),
            numpy.array([None]), numpy.zeros((0, 2), "complex64"))
        scalar = numpy.float64(2.5)
        numbers_of = [vector]
    tell("objects", locals(), {
        "bound": f"<built-in method append of list {at(numbers)}>",
        "method": f"<bound method Account.pay of <Account {at(owner)}>>",
        "module": "<module 'os'>",
        "error": "ValueError('bad')", "errors": "KeyError('a', 1)", "refused": "Refused('no')",
        "os_error": "FileNotFoundError(2, 'No such file')",
        "account": f"<Account {at(account)}: owner='x', balance=3>",
        "other": f"<Account {at(other)}: owner=<Account {at(account)}: owner='x', balance=3>, balance=[1, (2,)]>",
        "own_account": f"<Account {at(own_account)}: owner=[<... {at(own_account)}>], balance=0>",
        "materialized": f"<Account {at(materialized)}: owner='dict', balance=2>",
        "swapped": f"<Account {at(swapped)}: balance=1, owner=2>",
        "grown": f"<Account {at(grown)}: owner='more', balance=0, {', '.join(f'a{i}={i}' for i in range(8))}, ...>",
        "owner": f"<Account {at(owner)}: owner='x', balance=1>",
        "empty": f"<Empty {at(empty)}>", "slots": f"<Slots {at(slots)}: first=1, second='two'>",
        "more": f"<More {at(more)}: first=1, second='two', third=3.0, free=True>",
        "alive": f"<weakref {at(alive)}; to 'Account' {at(account)}>", "dead": f"<weakref {at(dead)}; dead>",
        "colour": "<Colour.RED: 1>", "named_colour": "<Colour.BLUE: 'blue'>", "alias": "<Colour.RED: 1>",
        "level": "<Level.HIGH: 2>", "flag": "<Access.READ: 1>", "flags": "<Access: 3>",
        "colour_class": "<class '__main__.Colour'>",
        "queue": f"<collections.deque {at(queue)}>", "lock": f"<_thread.lock {at(lock)}>",
        "thing": f"<object {at(thing)}>", "generator": f"<generator {at(generator)}>",
        "proxy": f"<mappingproxy {at(proxy)}>",
        **({
            "transfer": f"Transfer(source=<Account {at(account)}: owner='x', balance=3>, amount=5)",
            "tight": "Tight(a=1)", "heir": "Frozen(source='a', amount=1)",
            "own_transfer": f"Transfer(source=<... {at(own_transfer)}>, amount=1)",
        } if dataclasses is not None else {}),
        **({
            "array": f"<numpy.ndarray float64 (3, 4) {at(array)}>",
            "vector": f"<numpy.ndarray int32 (5,) {at(vector)}>",
            "scalar_array": f"<numpy.ndarray float64 () {at(scalar_array)}>",
            "words": f"<numpy.ndarray str96 (2,) {at(words)}>", "raw": f"<numpy.ndarray void96 (2,) {at(raw)}>",
            "flags_array": f"<numpy.ndarray bool (1, 2, 3) {at(flags_array)}>",
            "objects": f"<numpy.ndarray object (1,) {at(objects)}>",
            "empty_matrix": f"<numpy.ndarray complex64 (0, 2) {at(empty_matrix)}>",
            "scalar": "float64(2.5)",
            "numbers_of": f"[<numpy.ndarray int32 (5,) {at(vector)}>]",
        } if numpy is not None else {}),
    })
    hang()


if __name__ == "__main__":
    plain(1, 2, 3, extra=int(sys.version_info[1]))
