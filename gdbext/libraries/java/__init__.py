"""Java: the HotSpot machine inside of a process, as with JPype and PyJNIus."""

from __future__ import annotations

from typing import Final

from gdbext.library import Kind, Library

LIBRARY: Final = Library(
    "java",
    files=r"libjvm\.so$",
    makes_code=True,
    kinds={
        "java-monitor": Kind(
            "recorded; derived where the object is in the owner's stack of locks (JDK 21 and later)",
            name="Java monitor", records_owner=True, waiters="wake",
            waited_in="`synchronized` methods and blocks, `MonitorEnter` of JNI; HotSpot of JDK 11 to 25"),
        "java-condition": Kind(
            "none: any thread that has the monitor may notify it", name="Object.wait",
            no_owner="java-condition-has-no-owner", behaviour="event", waited_in="`Object.wait`"),
        "java-lock": Kind(
            "recorded; a candidate if the lock is of a class of the program", name="Java lock",
            records_owner=True,
            waited_in="`ReentrantLock`; HotSpot of JDK 11 to 25 with Serial, Parallel or G1 collector, partly with "
                      "ZGC"),
        "java-rwlock": Kind(
            "recorded: the writer, or the first of the readers; further readers are only counted",
            name="Java read-write lock", records_owner=True, behaviour="rwlock",
            waited_in="`ReentrantReadWriteLock`, likewise"),
        "java-park": Kind(
            "none: any thread may unpark it", name="LockSupport.park",
            no_owner="park-has-no-owner", behaviour="event",
            waited_in="`LockSupport.park`: `Semaphore`, `CountDownLatch`, `Condition.await`, futures, queues"),
    },
    words={
        "java-condition-has-no-owner": "any thread that has the monitor may notify it",
        "java-first-reader": "readers have locked it {count} times; only the first reader is recorded",
        "java-lock-stack": "the Java machine lists the object among those that the thread has locked",
        "java-owner-claimed": "its owner field names the candidate; its class may let another thread release it",
        "java-owner-unknown": "its owner field contains {word:#x}, which identifies no thread of the Java machine",
    },
)
