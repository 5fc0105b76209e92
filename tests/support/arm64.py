"""Cores of programs that hung or crashed in the emulated arm64 machine of `scripts/get-machine`."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import combinations, samples

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "get-machine"
#: What runs in the machine: the commands by the names of their cores.
COMMANDS = {"abba": "./abba mutex", "rwlocks": "./abba rwlock", "locks": "python3 arm64_threads.py abba",
            "healthy": "python3 arm64_threads.py healthy"}
#: Ways to crash, whose cores are named after them.
CRASHES = ("member", "element", "call", "tagged", "stack", "trap", "handler")
SOURCES = ("abba.c", "arm64_threads.py", "arm64_crashes.c")
JOB = """
cd /share
ulimit -c unlimited
echo '/share/core.%p' > /proc/sys/kernel/core_pattern
gcc -O1 -g -pthread -o abba abba.c || exit 1
gcc -O1 -g -pthread -fno-delete-null-pointer-checks -o arm64_crashes arm64_crashes.c || exit 1
start() {{ name=$1; shift; "$@" > $name.out 2>&1 & echo $! > $name.pid; }}
{starts}
for name in {names}; do
    i=0; while [ $i -lt 120 ] && ! [ -s $name.out ]; do sleep 1; i=$((i + 1)); done
done
sleep 10
for name in {names}; do
    pid=$(cat $name.pid); kill -ABRT $pid; wait $pid; mv core.$pid core.$name
done
for way in {crashes}; do
    ./arm64_crashes $way & pid=$!; wait $pid; mv core.$pid core.$way
done
touch done
"""


def _job() -> str:
    starts = "\n".join(f"start {name} {command}" for name, command in COMMANDS.items())
    return JOB.format(starts=starts, names=" ".join(COMMANDS), crashes=" ".join(CRASHES))


def _machine() -> Path:
    made = subprocess.run([SCRIPT, *([] if combinations.LONG else ["--no-download"])], capture_output=True, text=True,
                          check=False)
    if made.returncode:
        pytest.skip(made.stderr.strip())
    return Path(made.stdout.strip())


def core(name: str) -> tuple[Path, Path, Path]:
    """(core, folder with the program, folder with the machine's files) of a command.

    The cores are kept. They are made if GDBEXT_LONG is set, otherwise a test without them is skipped.
    """
    run = _machine()
    sources = [samples.SOURCES / source for source in SOURCES]
    key = hashlib.sha256(b"".join([_job().encode(), *(source.read_bytes() for source in sources)])).hexdigest()[:16]
    folder = samples.cache_directory() / f"arm64-{key}"
    if not (folder / "done").exists():
        if not combinations.LONG:
            pytest.skip("no cores of the emulated machine here; GDBEXT_LONG=1 makes them in 1 to 5 minutes")
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "lock", "wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / "done").exists():
                for source in sources:
                    shutil.copy(source, folder)
                (folder / "job.sh").write_text(_job(), encoding="utf-8")
                subprocess.run([run, folder], check=False, env={**os.environ, "GDBEXT_MACHINE_SECONDS": "900"})
    assert (folder / "done").exists(), (folder / "job.log").read_text(encoding="utf-8", errors="replace")
    return folder / f"core.{name}", folder, run.parent / "root"
