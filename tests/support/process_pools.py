"""Pools of `multiprocessing.pool` in the memory of a `FakePython`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.support.fake_python import FakePython

FILE = "/usr/lib/python3/multiprocessing/pool.py"


def none(python: FakePython) -> int:
    """An object of the type of None."""
    return python.builtin("NoneType", "PyObject")


def frame(python: FakePython, function: str, previous: int = 0, file: str = FILE, **variables: int) -> int:
    """The frame of a function of the pool; a variable without a value is 0."""
    code = python.code(function, 60, variables=list(variables), file=file)
    return python.fill(python.frame(code, previous), list(variables.values()))


def task(python: FakePython, job: int, index: int, function: int, *arguments: int) -> int:
    """A call as it is sent to a worker."""
    return python.tuple_object(python.integer(job), python.integer(index), function, python.tuple_object(*arguments),
                               python.namespace())


def map_task(python: FakePython, job: int, index: int, function: int) -> int:
    """A part of `map`, in which the program's function is an argument."""
    return task(python, job, index, python.function("mapstar"), python.tuple_object(function, python.tuple_object()))


def result(python: FakePython, name: str, job: int, cache: int, guard: int, pool: int = 0, **numbers: int) -> int:
    """A result of a class, with the event or condition that threads wait for, and its pool."""
    made: Mapping[str, int] = {key: python.integer(value) for key, value in numbers.items()}
    member = "_cond" if "Iterator" in name else "_event"
    values = {member: guard, "_job": python.integer(job), "_cache": cache, **made}
    if member == "_cond":
        values["_items"] = python.list_object()
    if pool:
        values["_pool"] = pool
    return python.instance(name, True, **values)


def unsent(python: FakePython, *jobs: int) -> Sequence[int]:
    """Items of the queue to the thread that sends calls, of `apply_async`."""
    return [python.tuple_object(python.list_object(task(python, job, 0, python.function("child"))), none(python))
            for job in jobs]
