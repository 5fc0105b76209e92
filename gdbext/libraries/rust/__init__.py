"""Rust: locks of the standard library and of parking_lot, and the thread pools rayon and tokio.

All of it is compiled into the files that use it.
"""

from __future__ import annotations

from typing import Final

from gdbext.library import Kind, Library

LIBRARY: Final = Library(
    "rust",
    files=None,
    kinds={
        "parking-lot-mutex": Kind(
            "derived where a guard in a frame of a thread proves it, candidates otherwise", name="parking_lot Mutex",
            waited_in="`parking_lot::Mutex::lock`"),
        "parking-lot-rwlock": Kind(
            "not recorded, readers are counted: derived where a guard in a frame of a thread proves it, candidates "
            "otherwise", name="parking_lot RwLock", behaviour="rwlock",
            waited_in="`parking_lot::RwLock::read`, `write`, `upgradable_read`"),
        "parking-lot-condvar": Kind(
            "none: any thread may notify it", name="parking_lot Condvar",
            no_owner="condvar-has-no-owner", behaviour="event",
            waited_in="`parking_lot::Condvar::wait`"),
        "parking-lot-once": Kind(
            "not recorded: candidates only", name="parking_lot Once", held="run by",
            waited_in="`parking_lot::Once::call_once`"),
        "rust-mutex": Kind(
            "derived where the machine code of a thread proves it, candidates otherwise", name="Rust Mutex",
            waited_in="`std::sync::Mutex::lock`"),
        "rust-rwlock": Kind(
            "not recorded, readers are counted: derived where the machine code of a thread proves it, candidates "
            "otherwise", name="Rust RwLock", behaviour="rwlock",
            waited_in="`std::sync::RwLock::read`, `write`"),
        "rust-condvar": Kind(
            "none: any thread may notify it; also channels", name="Rust Condvar",
            no_owner="condvar-has-no-owner", behaviour="event",
            waited_in="`std::sync::Condvar::wait`, `Barrier::wait`"),
        "rust-once": Kind(
            "not recorded: candidates only", name="Rust Once", held="run by",
            waited_in="`std::sync::Once::call_once`, `OnceLock`, `LazyLock`"),
        "rust-park": Kind(
            "none: any thread may unpark it; also channels", name="thread::park",
            no_owner="park-has-no-owner", behaviour="event",
            waited_in="`std::thread::park`, `std::sync::mpsc`"),
    },
    words={
        "rayon-in-job": "inside a job of a rayon pool",
        "rayon-waits-for-job": "waits for a job of a rayon pool",
        "rayon-worker-idle": "idle worker of rayon",
        "tokio-block-on": "in `block_on` of tokio until a future is ready",
        "tokio-blocking-idle": "idle thread of tokio's pool for blocking calls",
        "tokio-in-blocking-call": "inside a call of tokio's `spawn_blocking`",
        "tokio-in-task": "inside a task of tokio, whose worker it blocks",
        "tokio-worker-idle": "idle worker of tokio",
    },
    terms={
        "parking-lot": "a lock of parking_lot",
        "rust": "a lock of Rust's standard library",
    },
    proven=("rust-mutex", "rust-rwlock", "parking-lot-mutex", "parking-lot-rwlock"),
)
