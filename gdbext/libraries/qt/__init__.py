"""Qt 5 and 6: QtCore."""

from __future__ import annotations

from typing import Final

from gdbext.library import Kind, Library

LIBRARY: Final = Library(
    "qt",
    files=r"libQt[56]Core(?:-[0-9a-f]+)?\.so[.0-9]*$",
    kinds={
        "qt-mutex": Kind(
            "derived where the machine code of a thread proves it, or inside a `with QMutexLocker` block of it; "
            "candidates otherwise", name="QMutex", waited_in="`QMutex::lock`, Qt 5 and 6"),
        "qt-recursive-mutex": Kind(
            "recorded: the ident of the thread", name="QRecursiveMutex", records_owner=True,
            waited_in="`QRecursiveMutex::lock`"),
        "qt-rwlock": Kind(
            "recorded if it is recursive; otherwise readers are only counted: derived where the machine code of a "
            "thread proves it, or inside a `with QReadLocker` or `with QWriteLocker` block; candidates otherwise",
            name="QReadWriteLock", records_owner=True, behaviour="rwlock",
            waited_in="`QReadWriteLock::lockForRead`, `lockForWrite`, Qt 5 and 6"),
        "qt-semaphore": Kind(
            "none: any thread may release it", name="QSemaphore", no_owner="semaphore-has-no-owner", behaviour="event",
            released_by="others", waited_in="`QSemaphore::acquire`"),
        "qt-call": Kind(
            "derived: the thread that has the event of the call in its queue; inferred: the thread that handles it",
            name="blocking queued call", held="to be run by", holds="is to run",
            waited_in="`Qt::BlockingQueuedConnection`"),
    },
    words={
        "in-locker-block": "inside a `with` block of a locker that has the lock",
        "qt-call-handled": "the only thread that handles the event of the call",
        "qt-call-queued": "its queue of events contains the call",
        "qt-call-unknown": "the thread that is to run the call was not found",
    },
    terms={
        "qt-mutex": "a QMutex",
        "qt-rwlock": "a QReadWriteLock",
    },
    finds_holders=("qt-mutex", "qt-rwlock"),
    proven=("qt-mutex", "qt-rwlock"),
)
