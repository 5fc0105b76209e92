"""OpenMP: GNU's libgomp, whose structures are decoded; LLVM's and Intel's library, by the names of its functions."""

from __future__ import annotations

from typing import Final

from gdbext.library import Kind, Library, have

LIBRARY: Final = Library(
    "openmp",
    files=r"lib(?:gomp|omp|iomp5)(?:-[0-9a-f]+)?\.so[.0-9]*$",
    kinds={
        "openmp-barrier": Kind(
            "inferred: the members of the team that have not arrived; an idle pool has none", name="OpenMP barrier",
            behaviour="team", released_by="others", waited_in="futex calls of libgomp itself"),
        "openmp-lock": Kind(
            "derived where the machine code of a thread proves it; inferred: the only thread inside the critical "
            "section, or the thread whose task a nested lock names; candidates otherwise", name="OpenMP lock",
            released_by="others",
            waited_in="futex calls of libgomp itself"),
    },
    words={
        "all-arrived": "all threads have arrived and are about to wake up",
        "idle-pool": "an idle thread pool",
        "members-elsewhere": lambda missing, seen, total, elsewhere: (
            f"{have(missing)} not arrived; {seen} of its {total} members were found, {elsewhere} of them elsewhere"),
        "members-missing": lambda missing: (
            f"{have(missing)} not arrived, and exactly {missing} of the team's members "
            f"{'is' if missing == 1 else 'are'} not waiting there"),
        "members-not-existing": "{missing} of its {total} threads do not exist in this process",
        "openmp-worker": "OpenMP worker of {library}",
        "openmp-worker-idle": "idle OpenMP worker of {library}",
        "openmp-worker-in": "OpenMP worker of {library} in {function}",
        "ordered-section": "the thread in the ordered section, and the next to enter it, are not recorded",
        "owner-is-its-task": "the lock names the task of the thread as its owner",
        "owner-task-unknown": "the lock names a task as its owner, and no thread was found that runs it",
        "tasks-run": "all threads of the team have arrived, and those that do not sleep run tasks",
        "team-starts-or-ends": "a team's threads are about to start or to end",
    },
    terms={
        "libgomp-lock": "an internal lock of libgomp",
        "libgomp-semaphore": "a semaphore of libgomp",
        "openmp-lock": "an OpenMP lock",
        "critical-section": "the critical section",
    },
    proven=("openmp-lock",),
)
