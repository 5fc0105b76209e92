"""Functions of the standard library by file and name: their roles and their modules."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from gdbext.model.frames import PyFrame
from gdbext.model.standard_library import _ROLES, TAKES_FOR_CALLERS, is_in, module_of, role_of


def frame(function: str, file: str) -> PyFrame:
    return PyFrame(function, function, file, 1)


@pytest.mark.parametrize(("file", "module"), [
    ("/usr/lib/python3.13/concurrent/futures/thread.py", "concurrent.futures.thread"),
    ("multiprocessing/pool.py", "multiprocessing.pool"), ("/usr/lib/python3.13/threading.py", "threading"),
    ("/opt/python313.zip/queue.py", "queue"), ("/usr/lib/python3.13/asyncio/tasks.py", "asyncio.tasks"),
    ("<frozen importlib._bootstrap>", "importlib._bootstrap"), ("/lib/importlib/_bootstrap.py", "importlib._bootstrap"),
    ("/app/thread.py", None), ("/app/myqueue.py", None), ("<frozen zipimport>", None), ("<string>", None)])
def test_module_is_known_by_the_end_of_its_file(file: str, module: str | None) -> None:
    assert module_of(file) == module


def test_function_has_a_role_in_its_own_module_only() -> None:
    assert role_of(frame("_worker", "/lib/concurrent/futures/thread.py")) == "thread-worker"
    assert role_of(frame("run", "/lib/concurrent/futures/process.py")) == "manages-processes"
    assert role_of(frame("run", "/lib/threading.py")) == "runs-thread"
    assert role_of(frame("_worker", "/app/thread.py")) is role_of(frame("work", "/lib/threading.py")) is None


def test_package_contains_its_modules() -> None:
    found = frame("sleep", "/lib/asyncio/tasks.py")
    assert is_in(found, "asyncio")
    assert is_in(found, "asyncio.tasks")
    assert not is_in(found, "asyncio.task")
    assert not is_in(frame("sleep", "/app/tasks.py"), "asyncio")


def test_functions_of_the_table_exist_in_this_python() -> None:
    """Those that other versions have, and this one has not, are named here."""
    missing = {(module, function) for function, modules in _ROLES.items() for module in modules
               if not module.startswith(("billiard.", "loky."))  # these are not installed
               and f"def {function}(" not in Path(str(importlib.import_module(module).__file__)).read_text()}
    assert missing <= {("threading", "_wait_for_tstate_lock"), ("asyncio.tasks", "wait_for"),
                       ("asyncio.tasks", "_cancel_and_wait"), ("importlib._bootstrap", "_find_and_load")}
    assert {module_of(f"/lib/{name.replace('.', '/')}.py") for name in TAKES_FOR_CALLERS} == TAKES_FOR_CALLERS
