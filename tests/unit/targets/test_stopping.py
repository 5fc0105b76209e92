"""Single threads of a process are stopped for a moment: of a child that sleeps or computes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gdbext import arch
from gdbext.targets import stopping
from gdbext.targets.stopping import StoppedThreads
from tests.support.samples import thread_state

PROGRAM = """\
import signal, sys, threading, time
signal.signal(signal.SIGUSR1, lambda number, frame: print("signal", flush=True))
threading.Thread(target=lambda: [None for _ in iter(int, 1)], daemon=True).start()
print("ready", flush=True)
while True:
    time.sleep(0.01)
"""


@pytest.fixture
def child() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.kill()


def tids(pid: int) -> list[int]:
    return sorted(int(path.name) for path in Path(f"/proc/{pid}/task").iterdir())


def test_threads_stop_and_run_again(child: subprocess.Popen[str]) -> None:
    main, other = tids(child.pid)
    with StoppedThreads() as stopped:
        assert stopped.stop((other,)) == {other} == set(stopped.current)
        assert thread_state(other) == "t"
        assert thread_state(main) != "t"
        assert stopped.stop((main, other)) == {main, other}
        registers = arch.of("x86_64").user_registers(stopped.registers(other))
        assert min(registers["rsp"], registers["fs_base"]) > 0
        assert stopped.seconds == 0.0
    assert not stopped.current
    assert stopped.ever == {main, other}
    assert stopped.seconds > 0
    assert "t" not in {thread_state(main), thread_state(other)}


def test_some_threads_can_run_again_before_the_others(child: subprocess.Popen[str]) -> None:
    main, other = tids(child.pid)
    with StoppedThreads() as stopped:
        stopped.stop((main, other))
        stopped.resume((main, 1 << 30))
        assert set(stopped.current) == {other}
        assert thread_state(main) != "t"
        assert thread_state(other) == "t"
        # as long as any thread is stopped
        assert stopped.seconds == 0.0
        stopped.resume((other,))
        assert stopped.seconds > 0
        assert stopped.stop((main,)) == {main}


@pytest.mark.parametrize("is_partial", [False, True])
def test_thread_that_did_not_stop_in_time_runs_again(child: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch,
                                                     is_partial: bool) -> None:
    """A busy machine gives it the processor only after the time is over."""
    _, other = tids(child.pid)
    with StoppedThreads() as stopped:
        with monkeypatch.context() as patched:
            patched.setattr(stopping, "_SECONDS", 0.01)
            patched.setattr(os, "waitpid", lambda *_: (0, 0))
            assert stopped.stop((other,)) == set()
        if is_partial:
            stopped.resume((other,))
    assert thread_state(other) != "t"
    assert "TracerPid:\t0\n" in Path(f"/proc/{other}/status").read_text()


def test_area_of_a_thread_that_the_kernel_changes(child: subprocess.Popen[str]) -> None:
    main, other = tids(child.pid)
    with StoppedThreads() as stopped:
        stopped.stop((main, other))
        for tid in (main, other):
            address, size = stopped.kernel_area(tid)
            # glibc 2.35 or later registers it in the thread's struct pthread; an older C library does not
            thread_pointer = arch.of("x86_64").user_registers(stopped.registers(tid))["fs_base"]
            assert not address or 0 < address - thread_pointer < 0x1000 and 20 <= size <= 64
    assert stopped.kernel_area(main) == (0, 0)


def test_signal_that_arrives_meanwhile_is_not_lost(child: subprocess.Popen[str]) -> None:
    assert child.stdout is not None
    for _ in range(20):
        with StoppedThreads() as stopped:
            child.send_signal(signal.SIGUSR1)
            stopped.stop(tids(child.pid))
        assert child.stdout.readline() == "signal\n"


def test_thread_that_has_ended_is_not_stopped(child: subprocess.Popen[str]) -> None:
    with StoppedThreads() as stopped:
        assert stopped.stop((1 << 30,)) == set()
        assert stopped.registers(child.pid) == b""


def test_process_of_another_debugger_is_refused(child: subprocess.Popen[str]) -> None:
    code = ("import sys; from gdbext.targets.stopping import StoppedThreads; "
            "stopped = StoppedThreads(); stopped.stop([int(sys.argv[1])]); print('stopped', flush=True); input()")
    with subprocess.Popen([sys.executable, "-c", code, str(child.pid)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True, cwd=Path(__file__).parents[3]) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "stopped\n"
        with StoppedThreads() as stopped, pytest.raises(PermissionError):
            stopped.stop((child.pid,))
        # the kernel resumes the thread when its tracer is killed
        other.kill()
        other.wait()
    deadline = time.monotonic() + 10
    while thread_state(child.pid) == "t" and time.monotonic() < deadline:
        time.sleep(0.01)
    assert thread_state(child.pid) != "t"


EXECUTES = """\
import os, sys, threading, time
threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
print("ready", flush=True)
sys.stdin.readline()
os.execv("/bin/cat", ["cat"])
"""


def test_process_that_executes_another_program_does_not_wait_for_us() -> None:
    """The kernel ends its other threads first, and keeps those that we have stopped until we have waited for them."""
    with subprocess.Popen([sys.executable, "-c", EXECUTES], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        try:
            with StoppedThreads() as stopped:
                others = set(tids(process.pid)) - {process.pid}
                assert stopped.stop(others) == others
                process.stdin.write("go\n")
                process.stdin.flush()
                end = time.monotonic() + 10
                while Path(f"/proc/{process.pid}/comm").read_text() != "cat\n":
                    assert time.monotonic() < end, "the process waits for us"
                    time.sleep(0.001)
        finally:
            process.kill()
