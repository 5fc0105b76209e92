"""Native locks: which one a thread sleeps on, and which threads hold it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gdbext.analysis.code import Code
from gdbext.analysis.lock_kinds import Context, View, recognise, recognise_address
from gdbext.analysis.threads import SeenThread, Threads
from gdbext.errors import GdbextError
from gdbext.glibc.futex import FutexWait
from gdbext.glibc.version import CLibrary
from gdbext.model import EXCLUSIVE, INFERRED, RECORDED, SHARED, Holder, Lock, Wait, Waiter
from gdbext.native.names import public_name
from gdbext.target.protocol import Target

#: Most bytes of a stack that are searched for the address of a lock.
MAX_STACK_SCAN = 1 << 20
#: How many frames of a waiter may be inside the C library before the one that called it.
_LIBC_DEPTH = 6
_CALLEE_SAVED = ("rbx", "rbp", "r12", "r13", "r14", "r15")
#: Structures of the C library by kind of lock, for telling which member an address is.
STRUCTURES = {"rwlock": "pthread_rwlock_t", "mutex": "pthread_mutex_t", "condvar": "pthread_cond_t",
              "semaphore": "sem_t"}


class NativeLocks:
    """The locks that threads sleep on in futex calls."""

    def __init__(self, target: Target, code: Code, library: CLibrary, threads: Threads) -> None:
        self._target = target
        self._memory = target.memory
        self._code = code
        self._library = library
        self._threads = threads
        sleepers: dict[int, int] = {}
        for seen in threads:
            if seen.futex is not None:
                sleepers[seen.futex.address] = sleepers.get(seen.futex.address, 0) + 1
        self._context = None
        if library.layouts is not None:
            self._context = Context(self._memory, library.layouts, sleepers, threads.number_of_pthread)
        self._views: dict[str, View] = {}
        # what many threads share is worked out once
        self._view_of_wait: dict[tuple[object, ...], View] = {}
        self._names_of_top: dict[tuple[int, ...], list[str]] = {}

    def wait(self, seen: SeenThread, futex: FutexWait) -> Wait:
        """What a thread waits for that sleeps on a futex word."""
        functions = self._functions_on_top(seen)
        key = (futex, *functions)
        view = self._view_of_wait.get(key)
        if view is None:
            if self._context is None:
                view = View("futex", futex.address, "waited for", why="the C library's locks are not decoded")
            else:
                view = recognise(self._context, futex, functions)
            self._view_of_wait[key] = view
        lock_id = _id(view)
        self._views.setdefault(lock_id, view)
        return Wait(lock_id, view.mode, futex.timed)

    def _functions_on_top(self, seen: SeenThread) -> list[str]:
        """Public names of the C library's functions on top of a stack, as far as symbols tell."""
        top = tuple([pc for pc, _ in seen.native(self._code)[:_LIBC_DEPTH]])
        names = self._names_of_top.get(top)
        if names is None:
            names = self._names_of_top[top] = []
            for i, pc in enumerate(top):
                if not self._in_library(pc):
                    break
                function = self._code.symbol(pc, i).function
                if function is not None:
                    names.append(public_name(function))
        return names

    def _in_library(self, pc: int) -> bool:
        module = self._code.module(pc)
        return module is not None and any(module is part for part in self._library.modules)

    def locks(self) -> list[Lock]:
        """Every lock that a thread waits for, with holders and waiters."""
        waiters: dict[str, list[Waiter]] = {}
        for seen in self._threads:
            if seen.wait is not None:
                waiters.setdefault(seen.wait.lock, []).append(Waiter(seen.number, seen.wait.mode))
        return [self._lock(view, waiters.get(lock_id, ())) for lock_id, view in self._views.items()]

    def at(self, address: int, kind: str | None) -> tuple[Lock | None, str | None]:
        """The lock at an address on which no thread waits, and what to tell the user about the address."""
        if self._context is None:
            return None, None
        view, note = recognise_address(self._context, address, kind)
        return (self._lock(view, ()) if view is not None else None), note

    def size(self, kind: str) -> int:
        """Size of a lock of a kind, in bytes."""
        if self._library.layouts is None or kind not in STRUCTURES:
            return 8
        return self._library.layouts[STRUCTURES[kind]].size

    def member(self, lock: Lock, address: int) -> str:
        """What lies at an address inside a lock."""
        if self._library.layouts is not None and lock.kind in STRUCTURES:
            for name, member in self._library.layouts[STRUCTURES[lock.kind]].fields.items():
                if lock.address + member.offset == address:
                    return name
        return f"byte {address - lock.address}"

    # -- who holds it ----------------------------------------------------------------------------------------

    def _lock(self, view: View, waiters: Sequence[Waiter]) -> Lock:
        holders: tuple[Holder, ...] = ()
        candidates: tuple[int, ...] = ()
        orphan, why = None, view.why
        if view.owner_thread is not None:
            holders = (Holder(view.owner_thread, EXCLUSIVE, RECORDED),)
        elif view.owner is not None:
            number = self._threads.number_of_tid.get(view.owner)
            if number is not None:
                holders = (Holder(number, EXCLUSIVE, RECORDED),)
            elif view.elsewhere:
                why = f"its owner has TID {view.owner}, which is no thread of this process; the lock is shared"
            elif self._threads.all_tids_known:
                orphan = self._orphan(view.owner)
                why = f"its owner had TID {view.owner}"
            else:
                why = f"its owner has TID {view.owner}; not all threads tell theirs"
        elif view.readers:
            holders, candidates, why = self._readers(view, {waiter.thread for waiter in waiters})
        return Lock(_id(view), view.kind, view.address, self._name(view, waiters), view.state, holders, tuple(waiters),
                    candidates, orphan, view.wait_for, why)

    def _orphan(self, owner: int) -> str:
        # a child of fork has the thread that called fork only; the locks of the others stay as they were
        status = self._target.read_host_file(f"/proc/{owner}/status", 4096) if self._target.kind == "live" else None
        if status is not None and f"\nTgid:\t{self._target.pid}\n".encode() not in status:
            return "left behind by fork"
        return "thread exited"

    def _readers(self, view: View, waiters: Collection[int]) -> tuple[tuple[Holder, ...], tuple[int, ...], str]:
        """Who may hold a lock that counts its readers and names none."""
        found = tuple(seen.number for seen in self._threads
                      if seen.number not in waiters and not seen.unavailable and self._mentions(seen, view.address))
        count = view.readers
        said = f"{count} reader{'s' if count != 1 else ''} counted, none recorded"
        if len(found) == count and self._threads.all_available:
            on_stack = "thread has" if count == 1 else "threads have"
            why = f"{said}; just {count} {on_stack} the lock's address on the stack"
            return tuple(Holder(number, SHARED, INFERRED, why) for number in found), (), why
        on_stack = "thread has" if len(found) == 1 else "threads have"
        return (), found, f"{said}; {len(found) or 'no'} {on_stack} the lock's address on the stack"

    def _mentions(self, seen: SeenThread, address: int) -> bool:
        """Whether an address is on a thread's stack or in a register that its caller's frame may keep it in."""
        try:
            if address in self._target.registers(seen.ref, _CALLEE_SAVED).values():
                return True
        except GdbextError:
            pass
        low = seen.registers["rsp"] & ~7
        high = min(seen.native(self._code)[-1][1] + 256, low + MAX_STACK_SCAN)
        wanted = address.to_bytes(8, "little")
        for at in range(low, high, 4096):
            try:
                data = self._memory.read(at, min(4096, high - at))
            except GdbextError:
                return False
            place = data.find(wanted)
            while place >= 0:
                if place & 7 == 0:
                    return True
                place = data.find(wanted, place + 1)
        return False

    def _name(self, view: View, waiters: Sequence[Waiter]) -> str | None:
        """The variable that a lock is, or the library that uses it."""
        module = self._code.module(view.address)
        if module is not None:
            symbol = self._code.symbol(view.address).function
            return f"{symbol} in {module.name}" if symbol else f"in {module.name}"
        if view.kind == "thread-exit":
            return None
        for waiter in waiters:
            for pc, _ in self._threads[waiter.thread].native(self._code)[:_LIBC_DEPTH + 2]:
                module = self._code.module(pc)
                if module is not None and not self._in_library(pc):
                    return f"in {module.name}"
        return None


def _id(view: View) -> str:
    return f"{view.kind}:{view.address:#x}"
