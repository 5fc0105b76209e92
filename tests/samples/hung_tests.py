"""Tests that hang, for the plugin of pytest: ``pytest hung_tests.py``."""

from __future__ import annotations

import asyncio
import ctypes
import socket
import subprocess
import sys
import threading
import time

import pytest


def test_passes() -> None:
    pass


@pytest.mark.gdbext_timeout(1.5)
def test_deadlock() -> None:
    first, second, both = threading.Lock(), threading.Lock(), threading.Barrier(2)

    def other() -> None:
        with second:
            both.wait()
            with first:
                pass

    threading.Thread(target=other, name="other", daemon=True).start()
    with first:
        both.wait()
        with second:
            pass


def test_child() -> None:
    subprocess.run([sys.executable, "-c", "import threading; x = threading.Lock(); x.acquire(); x.acquire()"],
                   check=False)


def test_blocked_loop() -> None:
    """asyncio.Runner catches the first SIGINT, and its loop never runs the cancellation."""
    async def block() -> None:
        with socket.socket() as server:
            server.bind(("127.0.0.1", 0))
            server.listen(1)
            with socket.create_connection(server.getsockname()) as client:
                client.recv(1)

    asyncio.run(block())


def test_ends_late() -> None:
    """It ends during the report, and fails all the same."""
    end = time.monotonic() + 2.2
    while time.monotonic() < end:
        try:
            time.sleep(0.1)
        except KeyboardInterrupt:
            pass


@pytest.mark.gdbext_timeout(0)
def test_without_limit() -> None:
    time.sleep(2.5)


def test_holds_the_gil() -> None:
    library, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(64)
    library.pthread_mutex_lock(mutex)
    library.pthread_mutex_lock(mutex)


def test_passes_after_the_others() -> None:
    pass
