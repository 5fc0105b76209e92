"""The system calls that threads of a running process sleep in, read before a debugger stops the process.

A stop interrupts these calls. Most of them then return a code that says so, but some return what they have done so far.
Source: Linux Documentation/filesystems/proc.rst (syscall, wchan, status).
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Container

from gdbext.record import record

#: The longest time to read the threads of a process, in seconds. The process runs meanwhile.
_SECONDS = 0.2
_MOST_BYTES = 1 << 16
#: Kernel functions in which a thread sleeps that was stopped or frozen, so that it has already left its system call.
_STOPPED = frozenset(("do_freezer_trap", "do_jobctl_trap", "do_signal_stop", "get_signal", "ptrace_stop"))
_STATE = re.compile(r"^State:\tS ", re.MULTILINE)
_SWITCHES = "\nvoluntary_ctxt_switches:\t"


@record
class SystemCall:
    """A system call with its six arguments, and the registers of the thread that made it.

    The number is negative and there are no arguments if a thread is blocked in the kernel but in no system call.
    """

    number: int
    arguments: tuple[int, ...]
    stack_pointer: int
    program_counter: int


@record
class Sleep:
    """A thread's sleep in a system call. `switches` is how often the thread has gone to sleep since it began."""

    call: SystemCall
    switches: int


def parse_system_call(text: str) -> SystemCall | None:
    """Parse /proc/PID/task/TID/syscall; None if the thread runs, or if the text makes no sense."""
    words = text.split()
    try:
        number, *values, stack_pointer, program_counter = int(words[0]), *[int(word, 16) for word in words[1:]]
    except (IndexError, ValueError):
        return None
    return SystemCall(number, tuple(values), stack_pointer, program_counter)


def parse_switches(status: str) -> int | None:
    """How often a thread has gone to sleep, from /proc/PID/task/TID/status; None if that is not recorded."""
    number = status.partition(_SWITCHES)[2].partition("\n")[0]  # a regular expression would try each line
    return int(number) if number.isdecimal() else None


def read_asleep(pid: int, numbers: Container[int], root: str = "/proc", seconds: float = _SECONDS) -> dict[int, Sleep]:
    """Read which threads of a running process sleep in certain system calls, by their LWP ids.

    A thread is left out if the kernel does not let us read it, or if a signal could not interrupt its sleep.

    :param numbers: the numbers of the system calls.
    :param root: the path of /proc.
    :param seconds: time limit; the threads that remain then are left out.
    """
    found: dict[int, Sleep] = {}
    end = time.monotonic() + seconds
    try:
        tasks = os.listdir(f"{root}/{pid}/task")
    except OSError:
        return found
    for task in tasks:
        if time.monotonic() > end:
            break
        folder = f"{root}/{pid}/task/{task}"
        call = parse_system_call(_read(f"{folder}/syscall"))
        if call is None or call.number not in numbers or not task.isdigit():
            continue
        status = _read(f"{folder}/status")
        switches = parse_switches(status)
        # the compiler adds parts to names: "ptrace_stop.part.0"
        is_stopped = _read(f"{folder}/wchan").partition(".")[0] in _STOPPED
        if switches is not None and _STATE.search(status) and not is_stopped:
            found[int(task)] = Sleep(call, switches)
    return found


def _read(path: str) -> str:
    try:
        with open(path, "rb", buffering=0) as file:
            return (file.read(_MOST_BYTES) or b"").decode("utf-8", "backslashreplace")
    except OSError:  # the thread has ended, or we may not read it
        return ""
