"""Functions of Python's standard library that say what a thread does, by module and name: the only table of them.

loky, the pools of joblib, and billiard, those of celery, have copies of some.

Sources: CPython 3.6 to 3.15 Lib/asyncio, Lib/concurrent/futures, Lib/multiprocessing, Lib/threading.py, Lib/queue.py,
Lib/importlib/_bootstrap.py; loky 3.4 loky/backend/resource_tracker.py;
billiard 4.2 billiard/{pool,process}.py.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Literal

from gdbext.model.frames import PyFrame

Role = Literal[
    "cancels-and-waits",       # for a task that it has cancelled
    "imports",                 # a module
    "joins-thread",
    "makes-calls",             # takes the arguments of a pool's calls from the program's iterator
    "manages-processes",       # of a pool: sends calls, takes results
    "process-worker",          # of a pool
    "replaces-workers",        # of a pool of processes
    "runs-call",               # of a pool of threads
    "runs-thread",
    "sends-calls",             # to the workers of a pool
    "sends-items",             # of a queue to other processes
    "sleeps",                  # a task
    "starts-process",          # its first function
    "takes-requests",          # of a process of multiprocessing that serves others
    "takes-results",           # of the workers of a pool
    "thread-worker",           # of a pool
    "waits-for-calls",         # of an event loop that is to end, in threads
    "waits-for-connections",
    "waits-for-results",       # of calls of pools
    "waits-for-consumers",     # of a queue: for room, or until all items are done
    "waits-for-futures",
    "waits-for-one-future",
    "worker",                  # of a pool of threads or processes
]

#: By function, which a frame is asked for first, and module.
_ROLES: Mapping[str, Mapping[str, Role]] = {
    "_bootstrap": {"billiard.process": "starts-process", "multiprocessing.process": "starts-process",
                   "threading": "runs-thread"},
    "_bootstrap_inner": {"threading": "runs-thread"},
    "run": {"concurrent.futures.process": "manages-processes", "concurrent.futures.thread": "runs-call",
            "threading": "runs-thread"},
    "join": {"asyncio.queues": "waits-for-consumers", "threading": "joins-thread"},
    "_wait_for_tstate_lock": {"threading": "joins-thread"},
    "_worker": {"concurrent.futures.thread": "thread-worker"},
    "_process_worker": {"concurrent.futures.process": "process-worker"},
    "worker": {"multiprocessing.pool": "worker"},
    "workloop": {"billiard.pool": "worker"},
    "_handle_tasks": {"multiprocessing.pool": "sends-calls"},
    "_handle_results": {"multiprocessing.pool": "takes-results"},
    "_handle_workers": {"multiprocessing.pool": "replaces-workers"},
    "main": {"loky.backend.resource_tracker": "takes-requests", "multiprocessing.forkserver": "takes-requests",
             "multiprocessing.resource_tracker": "takes-requests"},
    "_guarded_task_generation": {"multiprocessing.pool": "makes-calls"},
    "_feed": {"multiprocessing.queues": "sends-items"},
    "wait": {"concurrent.futures._base": "waits-for-results", "multiprocessing.connection": "waits-for-connections"},
    "as_completed": {"concurrent.futures._base": "waits-for-results"},
    "_do_shutdown": {"asyncio.base_events": "waits-for-calls"},
    "put": {"asyncio.queues": "waits-for-consumers"},
    "sleep": {"asyncio.tasks": "sleeps"},
    "wait_for": {"asyncio.tasks": "waits-for-one-future"},
    "_cancel_and_wait": {"asyncio.tasks": "cancels-and-waits"},
    "_wait": {"asyncio.tasks": "waits-for-futures"},
    "_find_and_load": {"importlib._bootstrap": "imports"},
}
#: Modules that take locks for their callers.
TAKES_FOR_CALLERS = frozenset((
    "concurrent.futures._base", "importlib._bootstrap", "multiprocessing.pool", "multiprocessing.queues",
    "multiprocessing.synchronize", "queue", "threading"))
_FILE = re.compile(
    r"(?:^|/)(threading|queue|(?:asyncio|concurrent/futures|multiprocessing|importlib|billiard|loky/backend)/\w+)\.py$"
    r"|^<frozen (importlib\.\w+)>$")


@functools.lru_cache(maxsize=4096)
def module_of(file: str) -> str | None:
    """The module of a file, of the few that the table has, those of asyncio and of importlib; else None."""
    found = _FILE.search(file)
    return (found[1] or found[2]).replace("/", ".") if found is not None else None


def is_in(frame: PyFrame, package: str) -> bool:
    """Whether a frame's function is in a module of the standard library, or in a module of a package of it."""
    module = module_of(frame.file)
    return module is not None and f"{module}.".startswith(f"{package}.")


def role_of(frame: PyFrame) -> Role | None:
    """What a frame's function is for; None for a function that is not in the table."""
    modules = _ROLES.get(frame.function)
    return modules.get(module_of(frame.file) or "") if modules is not None else None
