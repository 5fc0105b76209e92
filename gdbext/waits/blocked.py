"""Waits in system calls other than futex calls: for descriptors, locked files, time, signals and more.

A wait on a descriptor is reported as a wait for a lock of kind ``descriptor``, which has no holder, so it is never part
of a deadlock. Any other wait is reported as text. Only a live process shows what a descriptor is and which processes
have its other end.

Sources: Linux 6.1 include/uapi/asm-generic/poll.h, include/uapi/linux/{io_uring,sched,time_types,wait}.h.
"""

from __future__ import annotations

import functools
import re
import socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace

from gdbext.errors import if_unreadable
from gdbext.glibc.futex import decode_futex_waits
from gdbext.inferior.awaited import (
    MOST_DESCRIPTORS,
    POLLFD,
    c_int,
    decode_awaited_child,
    read_polled,
    read_selected,
    read_timespec,
)
from gdbext.inferior.cache import read_cstring
from gdbext.inferior.proc.descriptors import Descriptor
from gdbext.inferior.proc.sockets import address_text
from gdbext.inferior.protocol import Target
from gdbext.inferior.signals import signal_name
from gdbext.locks.seen import SeenLock, SeenWait
from gdbext.model import DERIVED, RECORDED, TO_READ, TO_STORE, TO_WRITE
from gdbext.model.kinds import DESCRIPTOR
from gdbext.model.reasons import Reason, ReasonCode, because, joined
from gdbext.threads.code import Code
from gdbext.threads.cut_short import has_slept, is_cut_short
from gdbext.threads.site import Sites
from gdbext.threads.threads import SeenThread
from gdbext.waits.descriptors import MANY, Descriptors
from gdbext.waits.file_locks import file_lock_wait
from gdbext.waits.file_systems import CALLS, file_system_wait
from gdbext.waits.time_left import MILLISECONDS, TIMER_ABSTIME, TIMESPECS

READ, WRITE, EVENTS = TO_READ, TO_WRITE, "waiting for events"

_MAX_PATH = 256
#: Limits of clocks, descriptors and events of ``poll``, to recognise a call by its arguments.
_MAX_CLOCK = 16
_MAX_FD = 1 << 20
_MAX_EVENTS = 1 << 14

_GETEVENTS = struct.Struct("<QIIQ")  # struct io_uring_getevents_arg: mask, its size, -, struct __kernel_timespec *
_UINT64 = struct.Struct("<Q")

_CLONE_VFORK = 0x4000
_IORING_ENTER_EXT_ARG = 8

#: What a call waits for whose first argument is a descriptor.
_STATES = {
    **dict.fromkeys(("read", "readv", "pread64", "preadv", "preadv2", "recvfrom", "recvmsg", "recvmmsg",
                     "mq_timedreceive"), READ),
    **dict.fromkeys(("write", "writev", "pwrite64", "pwritev", "pwritev2", "sendto", "sendmsg", "sendmmsg",
                     "sendfile", "mq_timedsend"), WRITE),
    **dict.fromkeys(("accept", "accept4"), "waiting for a connection"),
    **dict.fromkeys(("epoll_wait", "epoll_pwait", "epoll_pwait2"), EVENTS),
    **dict.fromkeys(("fsync", "fdatasync"), TO_STORE),
    **dict.fromkeys(("splice", "tee", "copy_file_range"), "waiting to copy"),
    "connect": "connecting",
    "io_uring_enter": "waiting for completions",
}
#: Which argument is the other descriptor of a call that copies.
_COPIES_TO = {"splice": 2, "tee": 1, "copy_file_range": 2}
#: Calls that the kernel restarts as ``restart_syscall``, by the names of the functions that make them.
_RESTARTED = {"poll": "poll", "poll_chk": "poll", "nanosleep": "clock_nanosleep",
              "clock_nanosleep": "clock_nanosleep", "sleep": "clock_nanosleep", "usleep": "clock_nanosleep",
              "thrd_sleep": "clock_nanosleep"}
_INTERNAL = re.compile(r"^_*(?:GI_)?_*")


class Blocked:
    """Recognises the waits of a target's threads in system calls other than futex calls."""

    def __init__(self, target: Target, code: Code, sites: Sites) -> None:
        self._memory = target.memory
        self._proc = target.proc
        self._descriptors = Descriptors(target)
        self._code = code
        self._sites = sites
        self._calls: dict[str, Callable[[str, Sequence[int]], SeenWait | None]] = {
            **dict.fromkeys(("poll", "ppoll"), self._poll),
            **dict.fromkeys(("select", "pselect6"), self._select),
            "ioctl": self._ioctl,
            **dict.fromkeys(("flock", "fcntl"), functools.partial(file_lock_wait, target, self._descriptors)),
            "wait4": self._child, "waitid": self._child,
            **dict.fromkeys(("vfork", "clone", "clone3"), self._vfork),
            "nanosleep": lambda name, arguments: SeenWait(self._sleep(arguments[0]), timed=True),
            "clock_nanosleep": self._clock_nanosleep,
            **dict.fromkeys(("pause", "rt_sigsuspend"), lambda name, arguments: SeenWait(because("waits-for-signal"))),
            "rt_sigtimedwait": self._sigtimedwait,
            **dict.fromkeys(("semop", "semtimedop", "msgrcv", "msgsnd"), self._system_v),
            "io_getevents": lambda name, arguments: _with_timeout(
                because("waits-for-aio"), self._timed(name, arguments)),
            **dict.fromkeys(CALLS, functools.partial(file_system_wait, target)),
            "open": lambda name, arguments: self._opening(*arguments[:2]),
            "openat": lambda name, arguments: self._opening(*arguments[1:3]),
        }

    def find(self, seen: SeenThread) -> SeenWait | None:
        """What a thread waits for other than a futex word; None if it is not blocked, or in an unknown call."""
        call = seen.call
        if call is None or seen.futex is not None:
            return None
        is_cut = is_cut_short(self._memory, self._proc, call)
        slept = is_cut is not False and has_slept(self._proc, seen, call)
        if is_cut is None and not slept:
            return SeenWait(because("maybe-blocked", call=call.name), is_known=False)
        if not (call.blocked or slept or is_cut):
            return None
        if call.name == "sendfile" and not slept:
            return None  # it is restarted if it is interrupted before it begins
        if call.name == "futex_waitv":
            return self._futex_waitv(seen)
        name = call.name or self._restarted(seen, call.arguments)
        if name is None:
            return SeenWait(because("in-timed-wait"), timed=True)
        found = self._calls[name](name, call.arguments) if name in self._calls else self._simple(name, call.arguments)
        if found is None:
            return None
        if slept:
            found = replace(found, evidence=RECORDED, why=because("interrupted-by-the-pause"))
        elif is_cut:
            found = replace(found, evidence=DERIVED, why=because("wrote-a-part"))
        return found if call.name is not None else replace(found, syscall=name)

    # -- calls on a descriptor -------------------------------------------------------------------------------

    def _simple(self, name: str, arguments: Sequence[int]) -> SeenWait | None:
        state = _STATES.get(name)
        fd = _fd(arguments[0])
        if state is None or fd is None:
            return None
        more = None
        if name == "connect":
            more = self._connecting(arguments[1], arguments[2])
        elif name in _COPIES_TO:
            other = _fd(arguments[_COPIES_TO[name]])
            more = because("copies-to", name=self._descriptors.name(other)) if other is not None else None
        return self._wait_on(fd, state, self._timed(name, arguments), more, other_end=state != TO_STORE)

    def _wait_on(self, fd: int, state: str, timed: bool = False, more: Reason | None = None, *,
            other_end: bool = True) -> SeenWait:
        name = self._descriptors.name(fd)
        known = self._descriptors.end(fd) if other_end else self._descriptors.unknown(fd)
        unanswered = self._descriptors.unanswered(fd) if state == READ else None
        if known is None and state == READ and self._descriptors.is_named_pipe(fd):
            known = because("named-pipe")
        why = joined([each for each in (known, more, unanswered) if each is not None])
        return SeenWait(because("descriptor", name=name), _lock(fd, name, state, why), timed)

    def _timed(self, name: str, arguments: Sequence[int]) -> bool:
        if name in MILLISECONDS:
            return c_int(arguments[MILLISECONDS[name]]) >= 0
        if name in TIMESPECS:
            return arguments[TIMESPECS[name]] != 0
        if name == "io_uring_enter" and arguments[3] & _IORING_ENTER_EXT_ARG:
            values = self._unpack(_GETEVENTS, arguments[4])
            return values is not None and values[3] != 0
        return False

    def _ioctl(self, name: str, arguments: Sequence[int]) -> SeenWait | None:
        fd = _fd(arguments[0])
        if fd is None:
            return None
        return self._wait_on(fd, "waiting in ioctl", False, because("ioctl-request", request=arguments[1] & 0xFFFFFFFF),
                        other_end=False)

    def _poll(self, name: str, arguments: Sequence[int]) -> SeenWait | None:
        timed = self._timed(name, arguments)
        polled = read_polled(arguments, self._memory.read)
        if polled is None:
            return self._wait_on_any([], arguments[0], timed, f"{arguments[1] & 0xFFFFFFFF} descriptors")
        if polled:
            return self._wait_on_any([fd for fd, _ in polled], arguments[0], timed)
        if name == "ppoll":
            return self._plain_wait(self._left(arguments[2]), timed)
        return self._plain_wait(because("sleeps-for", seconds=_seconds(c_int(arguments[2]) / 1000)), timed)

    def _select(self, name: str, arguments: Sequence[int]) -> SeenWait | None:
        timed = self._timed(name, arguments)
        selected = read_selected(arguments, self._memory.read)
        first = next((at for at in arguments[1:4] if at), 0)
        if selected is None:
            return self._wait_on_any([], first, timed, "several descriptors")
        if selected:
            return self._wait_on_any(sorted({fd for fd, _ in selected}), first, timed)
        return self._plain_wait(self._left(arguments[4]), timed)

    def _wait_on_any(self, fds: Sequence[int], address: int, timed: bool, name: str = "") -> SeenWait:
        """A wait for any of several descriptors, or for one; the address is that of the array or set."""
        fds = list(dict.fromkeys(fds))
        if len(fds) == 1:
            return self._wait_on(fds[0], EVENTS, timed)
        more = [f"{len(fds) - MANY} more"] if len(fds) > MANY else []
        name = name or "; ".join([self._descriptors.name(fd) for fd in fds[:MANY]] + more)
        if fds and self._proc is None:
            why = self._descriptors.unknown(fds[0])
        else:
            ends = [(fd, self._descriptors.end(fd)) for fd in fds[:MANY]]
            known = [because("of-descriptor", fd=fd, end=end) for fd, end in ends if end is not None]
            others = len(fds) - len(known)  # the kernel, or another machine, may have their other ends
            unanswered = self._descriptors.unanswered(fds[0]) if len(fds) == 1 else None
            why = joined([*known, *([because("of-other-descriptors", count=others)] if known and others else []),
                          *([unanswered] if unanswered is not None else [])])
        return SeenWait(because("descriptor", name=name), _lock(address, name, EVENTS, why), timed)

    @staticmethod
    def _plain_wait(sleep: Reason, timed: bool) -> SeenWait:
        """A wait with no descriptors: for time, or for a signal."""
        return SeenWait(sleep if timed else because("waits-for-signal"), timed=timed)

    @if_unreadable(None)
    def _connecting(self, address: int, size: int) -> Reason | None:
        """The address that a socket is connecting to, and the descriptors that listen there."""
        data = self._memory.read(address, min(size & 0xFFFFFFFF, _MAX_PATH))
        family, rest = int.from_bytes(data[:2], "little"), data[2:]
        protocol = "TCP"
        if family == socket.AF_UNIX and rest:
            # an abstract name begins with a NUL and extends to the end
            raw = rest.partition(b"\0")[0] if rest[0] else rest.replace(b"\0", b"@")
            protocol, place = "unix", raw.decode("utf-8", "backslashreplace")
        elif family == socket.AF_INET and len(rest) >= 6:
            place = address_text(rest[2:6], int.from_bytes(rest[:2], "big"))
        elif family == socket.AF_INET6 and len(rest) >= 22:
            place = address_text(rest[6:22], int.from_bytes(rest[:2], "big"))
        else:
            return None
        return because("connects-to", place=place, listeners=self._descriptors.listeners(protocol, place))

    # -- waits without a descriptor --------------------------------------------------------------------------

    def _child(self, name: str, arguments: Sequence[int]) -> SeenWait:
        proc, child = self._proc, decode_awaited_child(name, arguments)
        number = child.number
        if child.kind == "pidfd":
            info = proc.descriptors.info(Descriptor(proc.pid, number)) if proc is not None else None
            if info is None or not info.process or info.process < 0:
                return SeenWait(because("waits-for-pidfd", fd=number))
            return SeenWait(because("waits-for-child", process=self._descriptors.process(info.process)))
        if child.kind == "process":
            here = proc.child(number) if proc is not None else None
            if proc is None or here is None:
                return SeenWait(because("waits-for-child-number", number=number))
            process = self._descriptors.process(here)
            if here == number:
                return SeenWait(because("waits-for-child", process=process))
            return SeenWait(because("waits-for-child-number", number=number, process=process))
        if child.kind == "group":
            return SeenWait(because("waits-for-group", group=number) if number else because("waits-for-own-group"))
        children, count = self._children()
        if not count:
            return SeenWait(because("waits-for-any-child"))
        return SeenWait(because("waits-for-children", children=children, count=count))

    def _children(self) -> tuple[tuple[Reason, ...], int]:
        """Some child processes, and the number of all; none in a core."""
        children = self._proc.children() if self._proc is not None else ()
        return tuple([self._descriptors.process(pid) for pid in children[:MANY]]), len(children)

    def _vfork(self, name: str, arguments: Sequence[int]) -> SeenWait | None:
        """A wait for a child that shares the memory of this process until it calls execve or ends."""
        flags: int | None = arguments[0]
        if name == "clone3":
            values = self._unpack(_UINT64, arguments[0])  # struct clone_args: flags
            flags = values[0] if values is not None else None
        if name != "vfork" and (flags is None or not flags & _CLONE_VFORK):
            return None
        children, count = self._children()
        return SeenWait(because("waits-for-execve", children=children, count=count))

    def _clock_nanosleep(self, name: str, arguments: Sequence[int]) -> SeenWait:
        if arguments[1] & TIMER_ABSTIME:
            until = read_timespec(self._memory, arguments[2])
            now = self._proc.now(arguments[0]) if self._proc is not None else None
            text = because("sleeps-until") if until is None or now is None else self._more(until - now)
            return SeenWait(text, timed=True)
        return SeenWait(self._sleep(arguments[2]), timed=True)

    def _sleep(self, at: int) -> Reason:
        seconds = read_timespec(self._memory, at)
        return because("sleeps") if seconds is None else because("sleeps-for", seconds=_seconds(seconds))

    def _left(self, at: int) -> Reason:
        """A sleep in ``select`` or ``ppoll``, into whose timeout the kernel writes the remaining time."""
        seconds = read_timespec(self._memory, at)
        return self._more(seconds) if seconds is not None else because("sleeps")

    @staticmethod
    def _more(seconds: float) -> Reason:
        return because("sleeps-more", seconds=_seconds(round(max(seconds, 0), 1)))

    def _sigtimedwait(self, name: str, arguments: Sequence[int]) -> SeenWait:
        values = self._unpack(_UINT64, arguments[0])
        mask = values[0] if values is not None else 0
        numbers = [bit + 1 for bit in range(64) if mask >> bit & 1]
        signals = tuple(map(signal_name, numbers)) if len(numbers) <= MANY else ()
        return _with_timeout(because("waits-for-signal", signals=signals), self._timed(name, arguments))

    def _system_v(self, name: str, arguments: Sequence[int]) -> SeenWait:
        codes: dict[str, ReasonCode] = {"msgrcv": "waits-for-message", "msgsnd": "waits-for-room"}
        wait = because(codes.get(name, "waits-for-semaphores"), number=c_int(arguments[0]))
        return _with_timeout(wait, self._timed(name, arguments))

    @if_unreadable(None)
    def _opening(self, path: int, flags: int) -> SeenWait | None:
        text = read_cstring(self._memory, path, _MAX_PATH).decode("utf-8", "backslashreplace")
        return SeenWait(because("opens", path=text, access=flags & 3))

    @if_unreadable(None)
    def _futex_waitv(self, seen: SeenThread) -> SeenWait | None:
        waits = decode_futex_waits(self._memory, seen.call)
        if not waits:
            return None
        words = tuple([wait.address for wait in waits[:MANY]])
        return _with_timeout(because("waits-for-futexes", words=words, count=len(waits)), waits[0].timed)

    # -- calls whose number is lost --------------------------------------------------------------------------

    def _restarted(self, seen: SeenThread, arguments: Sequence[int]) -> str | None:
        """The original call of a restarted one, from the calling function or else from its arguments."""
        functions = [_INTERNAL.sub("", name) for name in self._sites.site(seen.native(self._code)).functions]
        if functions:
            name = next((_RESTARTED[function] for function in functions if function in _RESTARTED), None)
            # before glibc 2.31 the function `nanosleep` made the call of that name
            return "nanosleep" if name == "clock_nanosleep" and arguments[0] >= _MAX_CLOCK else name
        first, second, third = arguments[:3]
        if first < _MAX_CLOCK and second == 0 and read_timespec(self._memory, third) is not None:
            return "clock_nanosleep"
        if first == 0 and second == 0:
            return "poll"
        if second > MOST_DESCRIPTORS:
            return "nanosleep" if read_timespec(self._memory, first) is not None else None
        return "poll" if self._is_polled(first, second) else None

    @if_unreadable(False)
    def _is_polled(self, array: int, count: int) -> bool:
        entries = list(POLLFD.iter_unpack(self._memory.read(array, count * POLLFD.size)))
        return bool(entries) and all(-1 <= fd < _MAX_FD and 0 < events < _MAX_EVENTS for fd, events, _ in entries)

    # -- memory ----------------------------------------------------------------------------------------------

    @if_unreadable(None)
    def _unpack(self, form: struct.Struct, at: int) -> tuple[int, ...] | None:
        return form.unpack(self._memory.read(at, form.size))


def _lock(address: int, name: str, state: str, why: Reason | None) -> SeenLock:
    return SeenLock(DESCRIPTOR, address, state, name=name, why=why)


def _with_timeout(wait: Reason, timed: bool) -> SeenWait:
    return SeenWait(because("with-timeout", wait=wait) if timed else wait, timed=timed)


def _fd(value: int) -> int | None:
    fd = c_int(value)
    return fd if fd >= 0 else None


def _seconds(seconds: float) -> str:
    return f"{seconds:.6f}".rstrip("0").rstrip(".")
