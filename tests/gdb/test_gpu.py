"""Threads that wait for a GPU: with a stand-in for the CUDA driver, since few machines have one."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import gdbext
from gdbext.inferior.proc.threads import read_tasks
from tests.support import differential, gdb_session, samples
from tests.support.samples import wait_until

FLAGS = ("-O2", "-std=gnu11", "-Wall", "-Wextra", "-pthread", "-shared", "-fPIC", "-fvisibility=hidden")
PROGRAM = """
import ctypes, sys, threading

scene, path = sys.argv[1:]
kind = ctypes.PyDLL if scene.startswith("holding-gil") else ctypes.CDLL
driver, lock = kind(path), threading.Lock()

@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def callback(data):
    with lock:
        pass

def wait():
    print("ready", flush=True)
    if scene == "context":
        driver.cuCtxSynchronize()
    elif scene == "launch":
        driver.cuLaunchKernel()
    else:
        driver.cuStreamSynchronize(ctypes.c_void_p(1 if scene.endswith("loop") else 0))

if scene.startswith(("holding", "lock")):
    with lock:
        driver.cuLaunchHostFunc(None, callback, None)
        wait()
else:
    wait()
"""
#: The number of the system call.
FUTEX = 202
INSIDE = "; thread 2 is in a function that the GPU may have to wait for"
#: What the first thread does, and the kind of the verdict, by the scene.
SCENES = {
    "stream": ("waits for the GPU in cuStreamSynchronize()", "computing"),
    "stream-loop": ("waits for the GPU in cuStreamSynchronize()", "computing"),
    "context": ("waits for the GPU in cuCtxSynchronize()", "computing"),
    "launch": ("waits in cuLaunchKernel() of the CUDA driver", "computing"),
    "lock": ("waits for the GPU in cuStreamSynchronize()" + INSIDE, "blocked-behind"),
    "lock-loop": ("waits for the GPU in cuStreamSynchronize()" + INSIDE, "blocked-behind"),
    "holding-gil": ("waits for the GPU in cuStreamSynchronize()" + INSIDE, "blocked-behind"),
}


@contextlib.contextmanager
def running(scene: str) -> Iterator[subprocess.Popen[str]]:
    driver = samples.compiled("libcuda.so.1", "cuda.c", FLAGS, strip=True)
    with subprocess.Popen([sys.executable, "-c", PROGRAM, scene, driver], stdout=subprocess.PIPE,
                          stdin=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            waits_in_loop, has_callback = scene.endswith("loop"), scene.startswith(("lock", "holding"))
            asleep = (not waits_in_loop) + has_callback
            wait_until(lambda: sum(task.call is not None and task.call.number == FUTEX
                                   for task in read_tasks(process.pid).values()) == asleep, scene)
            if waits_in_loop:
                time.sleep(0.3)  # nothing shows when it begins
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("scene", SCENES)
def test_thread_that_waits_for_the_gpu(scene: str) -> None:
    does, kind = SCENES[scene]
    with running(scene) as process:
        report = gdbext.report(process.pid, without_gdb=True)
        compared, left_out = differential.of_process(process.pid, symbols=True)
        in_gdb = gdb_session.batch(["-p", str(process.pid)], ["py-deadlocks", "py-threads-locks --json"])
    assert (report.verdict.kind, report.verdict.threads) == (kind, (1,))
    # the sentence of the verdict ends there, or names the caller
    said = rf': .*thread 1 "[^"]*"(, which holds .* and)? {re.escape(does)}(\.\n|, called in )'
    assert re.search(said, str(report))
    assert re.search(said, in_gdb.outputs[0])
    document = in_gdb.document(1)
    assert document["verdict"]["kind"] == kind
    assert differential.differing_lines("cuda", document, compared, left_out) == []


def test_core_of_a_process_that_waits_for_the_gpu(tmp_path: Path) -> None:
    core = tmp_path / "core"
    with running("context") as process:
        gdb_session.batch(["-p", str(process.pid)], [f"generate-core-file {core}"], load=False)
    report = gdbext.report(core)
    assert report.verdict.kind == "computing"
    assert "waits for the GPU in cuCtxSynchronize(), called in " in str(report)
