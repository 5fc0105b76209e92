"""Waits for locks on files (``flock``, ``fcntl``): the descriptors that hold them, for a live process.

A core does not record what its descriptors are, so its waits for such locks have no holder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gdbext.inferior.proc.descriptors import Descriptor
from gdbext.inferior.proc.file_locks import Lockers, Request, decode_request
from gdbext.inferior.proc.process import Proc
from gdbext.inferior.protocol import Target
from gdbext.locks.seen import SeenLock, SeenWait, held_by
from gdbext.model import DERIVED, EXCLUSIVE, SHARED, Mode
from gdbext.model.kinds import FILE_LOCK
from gdbext.model.reasons import Reason, because, joined
from gdbext.waits.descriptors import MANY, Descriptors

#: Most characters of another process's command line.
_MOST = 120


def file_lock_wait(target: Target, descriptors: Descriptors, call: str, arguments: Sequence[int]) -> SeenWait | None:
    """The wait of a thread that is blocked in ``flock`` or ``fcntl``; None if it requests no lock."""
    request = decode_request(call, arguments, target.memory.read)
    if request is None:
        return None
    link = target.proc.descriptors.link(request.fd) if target.proc is not None else None
    name = (link or f"fd {request.fd}") + _range(request)
    mode: Mode = EXCLUSIVE if request.write else SHARED
    # threads may request different ranges of one file
    address = request.fd if call == "flock" else arguments[2]
    lock = SeenLock(FILE_LOCK, address, "waited for", mode, name=name, shared=True,
                    why=descriptors.unknown(request.fd))
    if lock.why is None and target.proc is not None:
        lock = _with_lockers(target, target.proc, descriptors, request, lock)
    return SeenWait(because("descriptor", name=descriptors.name(request.fd)), lock, mode=mode)


def _with_lockers(target: Target, proc: Proc, descriptors: Descriptors, request: Request, lock: SeenLock) -> SeenLock:
    lockers = proc.file_locks.find_lockers(request)
    why = _describe(descriptors, proc, lockers)
    state = "locked" if lockers is not None and (lockers.held or lockers.unseen) else "waited for"
    own = [] if lockers is None or not request.exact else [
        each for found, pids in zip(lockers.held.values(), lockers.releasing()) if pids == {proc.pid} for each in found]
    if not own:
        return replace(lock, state=state, why=why)
    here = because("file-locked-here", fds=tuple([each.fd for each in own[:MANY]]))
    threads = target.threads()
    # a handler of a signal ends the wait, or releases the lock
    alone = len(threads) == 1 and proc.has_handlers() is False
    held = held_by([threads[0].number] if alone else (), DERIVED, here)
    return replace(lock, state=state, shared=False, held=held, descriptors=tuple([each.fd for each in own]),
                   why=joined([each for each in (why, here) if each is not None]))


def _describe(descriptors: Descriptors, proc: Proc, lockers: Lockers | None) -> Reason | None:
    if lockers is None:
        return because("locker-unknown")
    found = [because("descriptor-of", fd=each.fd, process=_process(descriptors, proc, each))
             for each in lockers.descriptors()[:MANY]]
    found += [descriptors.process(pid) for pid in lockers.unseen if pid > 0]
    return because("locked-by", lockers=tuple(found[:MANY])) if found else because("locker-not-recorded")


def _process(descriptors: Descriptors, proc: Proc, descriptor: Descriptor) -> Reason:
    """A process with its name and command line."""
    command = proc.command_line(descriptor.pid) if descriptor.pid != proc.pid else None
    if command is None:
        return descriptors.process(descriptor.pid)
    return because("process-running", pid=descriptor.pid, name=proc.name(descriptor.pid), command=command[:_MOST])


def _range(request: Request) -> str:
    if not request.exact:
        return ", an unknown range"
    if request.last is not None:
        return f", bytes {request.first} to {request.last}"
    return f", bytes from {request.first}" if request.first else ""
