"""Starts a process beside this one that takes reports of it from outside."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from typing import IO

from gdbext.launcher.snapshots.programs import HOME, environment

#: prctl(2): which process, with its descendants, may trace this one where Yama allows only ancestors. Source: Linux 6.1
#: include/uapi/linux/prctl.h, security/yama/yama_lsm.c.
_PR_SET_PTRACER = 0x59616D61
# the package's folder must not come before Python's own folders
_START = ("import sys; sys.path.insert(0, {home!r}); import gdbext; sys.path.append(sys.path.pop(0)); "
          "from {module} import main; main(*{arguments!r})")


def start_helper(module: str, *arguments: str | float | bool | None, stdin: int | IO[bytes],
                 stdout: int | None = subprocess.DEVNULL, stderr: int | None = None) -> subprocess.Popen[str]:
    """Start a process that runs the function `main` of a module, and allow it to trace this process.

    It has a session of its own, so Ctrl-C at the terminal does not reach it.
    """
    start = _START.format(home=HOME, module=module, arguments=arguments)
    # -I: without the folders and settings of the environment
    process = subprocess.Popen([sys.executable, "-I", "-c", start], stdin=stdin, stdout=stdout, stderr=stderr,
                               env=environment(), text=True, start_new_session=True)
    ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(process.pid), 0, 0, 0)
    return process
