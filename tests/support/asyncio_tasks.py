"""Tasks of asyncio in fake memory that wait in typical ways, and the report on them."""

from __future__ import annotations

from gdbext.cpython.frames import FrameReader
from gdbext.cpython.objects import Objects
from gdbext.cpython.runtime import PythonRuntime, iter_interpreters
from gdbext.cpython.tasks import AsyncioReader, uses_asyncio
from gdbext.inferior.protocol import Module
from gdbext.model import Problem, Task
from gdbext.tasks.asyncio_tasks import AsyncioTasks, find_tasks
from gdbext.threads.findings import Findings
from gdbext.threads.python_side import Python
from tests.support import versions
from tests.support.fake_tasks import LIBRARY, VERSIONS, FakeTasks

#: Before 3.8 tasks have no names to order them by.
NAMED = versions.from_minor(8, VERSIONS)


def python_of(fake: FakeTasks) -> Python:
    at = fake.build.member("_PyRuntimeState", fake.runtime_address, "interpreters_head")
    runtime = PythonRuntime(fake.runtime_address, Module("/usr/lib/libpython.so", ()), fake.version, "default",
                            fake.layouts, at)
    objects = Objects(fake.memory, fake.layouts)
    return Python(runtime, objects, FrameReader(fake.memory, fake.layouts, objects),
                  interpreters=list(iter_interpreters(fake.memory, runtime)))


def look(fake: FakeTasks, number: int | None = 1) -> tuple[AsyncioTasks, list[Problem]]:
    findings = Findings()
    numbers = {fake.tstate: number} if number is not None else {}
    python = python_of(fake)

    def reader_of(python: Python, interpreter: int) -> AsyncioReader | None:
        return (AsyncioReader(fake.memory, fake.layouts, python.objects, python.frames, interpreter)
                if uses_asyncio(python.objects, interpreter) else None)

    return find_tasks(fake.memory, [python], numbers, reader_of, findings), findings.problems


def one(fake: FakeTasks, name: str) -> Task:
    found, problems = look(fake)
    assert problems == []
    task, = [task for task in found.tasks if task.name == name]
    return task


def awaiting(fake: FakeTasks, name: str, future: int, file: str = "/app/job.py", function: str = "work",
             **variables: int) -> int:
    """A task that waits for a future."""
    iterator = fake.object_of("_asyncio.FutureIter")
    return fake.task(name, fake.coroutine(function, iterator, file=file, variables=variables), waiter=future)


def library(fake: FakeTasks, name: str, future: int, file: str, function: str, outer: dict[str, int] | None = None,
            **variables: int) -> int:
    """A task in which a function of asyncio waits, called by the program's own."""
    iterator = fake.object_of("_asyncio.FutureIter")
    inner = fake.coroutine(function, iterator, file=f"{LIBRARY}/{file}.py", variables=variables)
    return fake.task(name, fake.coroutine("work", inner, variables=outer), waiter=future)


def derived(fake: FakeTasks, *names: str) -> int:
    """An object of a class that is derived from others, nearest first."""
    at = fake.instance(names[0])
    for own, base in zip(names, names[1:]):
        fake.build.put("PyTypeObject", fake.type_object(own), tp_base=fake.type_object(base))
    return at
