"""Abseil, which gRPC, TensorFlow and JAX contain, so its code may be in any file."""

from __future__ import annotations

from typing import Final

from gdbext.library import Kind, Library

LIBRARY: Final = Library(
    "absl",
    files=None,
    kinds={
        "absl-mutex": Kind(
            "not recorded, readers are counted: derived where the machine code of a thread proves it, candidates "
            "otherwise", name="absl::Mutex", behaviour="rwlock",
            waited_in="`absl::Mutex::Lock`, `ReaderLock`"),
        "absl-condvar": Kind(
            "none: any thread may signal it, or make the condition of `absl::Mutex::Await` true", name="absl::CondVar",
            no_owner="condvar-has-no-owner", behaviour="event",
            waited_in="`absl::CondVar::Wait`, `absl::Mutex::Await`, `LockWhen`"),
    },
    terms={
        "absl-mutex": "an absl::Mutex",
    },
    proven=("absl-mutex",),
)
