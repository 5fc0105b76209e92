from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from gdbext.inferior.proc.last_run import seconds_since_run

needs_sched = pytest.mark.skipif(not os.path.exists("/proc/self/sched"), reason="the kernel has no CONFIG_SCHED_DEBUG")


@needs_sched
def test_thread_that_sleeps_has_not_run_since() -> None:
    """Also if it slept on another processor than this thread runs on."""
    begins: dict[int, float] = {}
    end = threading.Event()

    def sleep() -> None:
        begins[threading.get_native_id()] = time.monotonic()
        end.wait()

    threads = [threading.Thread(target=sleep) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        time.sleep(1)
        found = seconds_since_run(os.getpid(), begins)
        now = time.monotonic()
        assert found.keys() == begins.keys()
        assert all(abs(now - begins[tid] - seconds) < 0.5 for tid, seconds in found.items())
        assert os.sched_getaffinity(0) == os.sched_getaffinity(os.getpid())
    finally:
        end.set()
        for thread in threads:
            thread.join()


@needs_sched
def test_affinity_is_as_before() -> None:
    before = os.sched_getaffinity(0)
    seconds_since_run(os.getpid(), [os.getpid()])
    assert os.sched_getaffinity(0) == before


def test_thread_that_has_ended_is_left_out(tmp_path: Path) -> None:
    assert seconds_since_run(1, [2, 3], str(tmp_path)) == {}


@pytest.mark.parametrize("sched", ["", "se.exec_start : x\n", "se.vruntime : 1.0\n"])
def test_file_without_the_time(sched: str, tmp_path: Path) -> None:
    folder = tmp_path / "1" / "task" / "2"
    folder.mkdir(parents=True)
    (folder / "sched").write_text(sched)
    (folder / "stat").write_text("2 (x) S " + "0 " * 50)
    assert seconds_since_run(1, [2], str(tmp_path)) == {}
