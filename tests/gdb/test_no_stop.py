"""`gdbext report --no-stop` of processes that do not come to rest, or that are traced: what can be read is reported."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import gdb_session, samples
from tests.support.launcher import Ran, launch_by

#: Threads begin and end all the time; with an argument two others are deadlocked.
PROGRAM = """
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both;
static void *forth(void *none) {
    pthread_mutex_lock(&one);
    pthread_barrier_wait(&both);
    pthread_mutex_lock(&other);
    return none;
}
static void *back(void *none) {
    pthread_mutex_lock(&other);
    pthread_barrier_wait(&both);
    pthread_mutex_lock(&one);
    return none;
}
static void *nap(void *none) {
    usleep(200);
    return none;
}
static void *churn(void *none) {
    for (;;) {
        pthread_t thread;
        if (!pthread_create(&thread, NULL, nap, NULL))
            pthread_join(thread, NULL);
    }
    return none;
}
int main(int argc, char **argv) {
    pthread_t thread;
    (void)argv;
    pthread_barrier_init(&both, NULL, 3);
    if (argc > 1) {
        pthread_create(&thread, NULL, forth, NULL);
        pthread_create(&thread, NULL, back, NULL);
        pthread_barrier_wait(&both);
    }
    pthread_create(&thread, NULL, churn, NULL);
    pthread_create(&thread, NULL, churn, NULL);
    puts("ready");
    fflush(stdout);
    for (;;)
        pause();
}
"""


@contextlib.contextmanager
def running(folder: Path, *arguments: str) -> Iterator[int]:
    source, program = folder / "churn.c", folder / "churn"
    source.write_text(PROGRAM)
    subprocess.run(["gcc", "-O1", "-pthread", "-o", program, source], check=True)
    with subprocess.Popen([program, *arguments], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield process.pid
        finally:
            process.kill()


def report(pid: int) -> Ran:
    return launch_by([sys.executable, "-m", "gdbext", "report", str(pid), "--no-stop", "--json"])


@pytest.mark.parametrize("arguments", [(), ("deadlock",)], ids=["healthy", "deadlocked"])
def test_threads_that_begin_and_end_are_left_out(arguments: tuple[str, ...], tmp_path: Path) -> None:
    with running(tmp_path, *arguments) as pid:
        found = [report(pid) for _ in range(3)]
    for ran in found:
        document = ran.document()
        assert (document["verdict"]["kind"], ran.status) == (("deadlock", 1) if arguments else ("unknown", 3))
        assert [deadlock["evidence"] for deadlock in document["deadlocks"]] == ["recorded"] * len(arguments)
        assert document["target"]["paused"] == 0.0


def test_traced_process_is_read(tmp_path: Path) -> None:
    """Nothing is traced to read it, so it does not matter that another process traces it."""
    with samples.abba("mutex", tmp_path) as sample, subprocess.Popen(
            [gdb_session.executable(), "-nx", "-q", "-p", str(sample.pid)], stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as tracer:
        try:
            samples.wait_until(lambda: sample.status(sample.pid, "State").startswith("t"), "GDB to attach")
            ran = report(sample.pid)
        finally:
            tracer.communicate(b"detach\nquit\n")
    document = ran.document()
    assert document["verdict"]["kind"] == "deadlock"
    assert document["target"]["stopped"]["by"] == "tracer"
