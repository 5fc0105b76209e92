"""oneTBB."""

from __future__ import annotations

from typing import Final

from gdbext.library import Kind, Library

LIBRARY: Final = Library(
    "tbb",
    files=r"libtbb(?:-[0-9a-f]+)?\.so[.0-9]*$",
    kinds={
        "tbb-mutex": Kind(
            "derived where the machine code of a thread proves it, candidates otherwise", name="tbb::mutex",
            waited_in="`tbb::mutex::lock`"),
        "tbb-rwlock": Kind(
            "not recorded, readers are counted: candidates only", name="tbb::rw_mutex", behaviour="rwlock",
            waited_in="`tbb::rw_mutex::lock`, `lock_shared`"),
        "tbb-tasks": Kind(
            "derived: the threads that run a task of `task_group` or `parallel_for` that the waiting thread waits for",
            name="TBB tasks", held="to be finished by", holds="has to finish", no_owner="tasks-left", behaviour="work",
            waited_in="`task_group::wait`, `parallel_for` and other waits for tasks of oneTBB"),
        "tbb-wait": Kind(
            "none: another thread wakes it; a worker without tasks is `idle`", name="event of TBB",
            no_owner="tbb-has-no-owner", behaviour="event",
            waited_in="workers of oneTBB, `task_arena::execute`, `concurrent_bounded_queue`"),
    },
    words={
        "tbb-has-no-owner": "any thread may wake it",
        "tbb-runs-task": "runs one of the tasks, called by {module}",
        "tbb-tasks-in": "in {function}",
        "tbb-waits-in": "in {function}; the thread that will wake it is not recorded",
        "tbb-worker-idle": "worker of TBB without tasks",
    },
    terms={
        "tbb": "a mutex of TBB",
    },
    finds_holders=("tbb-tasks",),
    proven=("tbb-mutex",),
)
