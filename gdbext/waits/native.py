"""Waits for locks of native code: threads that sleep on a futex word or spin; and robust mutexes that threads hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from gdbext.errors import GdbextError
from gdbext.glibc.mutex import decode_mutex
from gdbext.glibc.robust import iter_robust_mutexes
from gdbext.model import INFERRED, RECORDED, Evidence
from gdbext.model.kinds import CONDVAR, kind_of
from gdbext.model.reasons import because, because_of
from gdbext.runtimes.names import public_name
from gdbext.threads.threads import SeenThread
from gdbext.waits.lock_kinds import recognise, unknown, view_mutex, view_spin_lock
from gdbext.waits.seen import SeenLock, SeenWait

if TYPE_CHECKING:
    from gdbext.waits.context import Context

_SPINNING = ("pthread_spin_lock",)


def futex_wait(seen: SeenThread, context: Context) -> SeenWait | None:
    """A thread's sleep on a futex word."""
    futex = seen.futex
    if futex is None or context.parked.is_over(seen):
        return None
    site = context.sites.site(seen.native(context.code))
    key = (futex, site)
    view = context.views.get(key)
    if view is None:
        if context.words is None:
            view = unknown(futex, site)
        else:
            view = context.openmp.view(seen, futex) or recognise(context.words, futex, site)
            worker = context.openmp.of_condvar(seen) if view.kind == CONDVAR else None
            if worker is not None and view.why is not None:
                view = replace(view, why=because("several", reasons=(worker, view.why)))
        context.views[key] = view
    # a lock that does not record its owner does not record either that nobody is left
    evidence: Evidence = INFERRED if view.orphan and not kind_of(view.kind).records_owner else RECORDED
    return SeenWait(None, view, futex.timed, None, view.why if evidence == INFERRED else None, True, view.mode,
                       evidence)


def spinning_wait(seen: SeenThread, context: Context) -> SeenWait | None:
    """A thread's wait in a loop for a spin lock."""
    if seen.futex is not None or seen.unavailable is not None or seen.call is not None:
        return None
    module = context.code.module(seen.pc)
    if not any(module is part for part in context.library.modules):
        return None
    function = context.code.symbol(seen.pc).function
    if function is None or public_name(function) not in _SPINNING:
        return None
    return SeenWait(None, view_spin_lock(seen.registers.get(seen.cpu.ARGUMENTS[0], 0)))


def read_robust_mutexes(context: Context) -> Iterator[SeenLock]:
    """Robust mutexes are on a list of the thread that holds them, whether anybody waits or not."""
    layouts = context.library.layouts
    for seen in context.threads:
        if not seen.pthread or layouts is None:
            continue
        try:
            for address in iter_robust_mutexes(context.memory, layouts, seen.pthread):
                state = decode_mutex(context.memory, layouts, address)
                if state.plausible and state.locked:
                    yield view_mutex(state)
        except GdbextError as error:
            context.findings.problem(f"thread {seen.number}", "unreadable", because_of(error, "robust-list"))
