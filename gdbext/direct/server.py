"""A process that takes snapshots for the launcher: it loads gdbext once, and forks for each process and core.

Each message on the socket has no text and three files: the request (JSON), the core, and a pipe for the answer (JSON).
For a process the second file has no meaning.
A snapshot ends with its time limit, with this process, or by its own mistakes, without an effect on others. This
process ends when the launcher closes the socket or ends.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import errno
import gc
import importlib
import json
import os
import resource
import signal
import socket
from types import FrameType
from typing import Any, TextIO

from gdbext.commands.answer import write_answer
from gdbext.commands.report_options import ReportOptions
from gdbext.direct.one_snapshot import Request, answer_request
from gdbext.libraries import LIBRARIES
from gdbext.record import compile_records

#: prctl(2): the signal that a process gets when its parent ends. Source: Linux 6.1 include/uapi/linux/prctl.h.
_PR_SET_PDEATHSIG = 1
#: The largest size of the memory of one snapshot, in bytes: a damaged core may ask for anything.
_MOST_MEMORY = 4 << 30
_FILES = 3
_SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC)
#: Modules that other modules import only when they need them.
_LATER = ("gdbext.arch.x86_64", "gdbext.cpython.object_state", "gdbext.crash.reader", "gdbext.direct.forked",
          "gdbext.inferior.proc.installed", "gdbext.known.match",
          "gdbext.targets.core", "gdbext.tasks.trio_tasks", "gdbext.holders.pairs.posix", "gdbext.holders.proven",
          "gdbext.render.crash", "gdbext.render.dot",
          "gdbext.render.tasks", "gdbext.runtimes.libstdcxx", "gdbext.runtimes.messages", "gdbext.schema.write",
          "gdbext.stacks.recursion", *(name for library in LIBRARIES for name in library.modules()))


def main(descriptor: int) -> None:
    """Take snapshots until the launcher closes the socket.

    :param descriptor: of the socket.
    """
    signal.signal(signal.SIGCHLD, _reap)
    prctl = ctypes.CDLL(None).prctl
    gc.disable()  # a snapshot makes many objects and drops few
    gc.freeze()  # `read_unmoved` has those of a snapshot collected, and none of the modules'
    own = os.getpid()
    with socket.socket(fileno=descriptor) as requests:
        while True:
            files = _receive(requests)
            if len(files) != _FILES:
                return
            if os.fork() == 0:
                requests.close()
                try:
                    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
                    if os.getppid() == own:
                        _work(*files)
                finally:
                    os._exit(0)
            for file in files:
                os.close(file)
            for name in _LATER:  # once, not in each further child; the first one need not wait for it
                importlib.import_module(name)
            compile_records()


def _reap(number: int, frame: FrameType | None) -> None:
    # the launcher has their answers; so their use of time and memory counts as this process's
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _receive(requests: socket.socket) -> list[int]:
    """The files of the next message; fewer if there is none."""
    size = array.array("i").itemsize
    _, ancillary, flags, _ = requests.recvmsg(1, socket.CMSG_SPACE(_FILES * size))
    if flags & socket.MSG_CTRUNC:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))  # the launcher shows this line
    files = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            files.frombytes(data[:len(data) // size * size])
    return list(files)


def _work(request: int, core: int, reply: int) -> None:
    with open(request, encoding="utf-8") as file:
        members = json.load(file)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # the default action of the signal ends this process, whatever it does
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, members.pop("timeout"))
    _limit_memory()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with open(reply, "w", encoding="utf-8") as answer:
        _answer(members, core, answer)


def _limit_memory() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = _MOST_MEMORY if hard == resource.RLIM_INFINITY else min(_MOST_MEMORY, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _answer(members: dict[str, Any], core: int, file: TextIO) -> None:
    try:
        request = Request(ReportOptions(**members.pop("options")), **members)
        write_answer(answer_request(request, f"/proc/self/fd/{core}"), file)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _SHORTAGES:  # modules are loaded here too
            write_answer({"problem": f"the process that reads it needs more: {error.strerror}",
                          "hint": "see whether memory, descriptors (`ulimit -n`) or room for files have run out"}, file)
            return
        import traceback

        frame = traceback.extract_tb(error.__traceback__)[-1]
        write_answer({"problem": f"internal error: {type(error).__name__} in {os.path.basename(frame.filename)}:"
                                 f"{frame.lineno}", "hint": "please report it"}, file)
