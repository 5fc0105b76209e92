"""The sentence for each reason code. Those of the libraries in `gdbext.libraries` are loaded when one is needed."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from gdbext.library import MANY, Wording, have, listed
from gdbext.model.kinds import name_of_kind
from gdbext.model.reasons import Argument, Reason, ReasonCode
from gdbext.narrate.crash_reasons import WORDINGS as CRASH_WORDINGS

_PARTS = {
    "async-with": "its `async with` blocks", "asyncio-running": "its running tasks", "callbacks": "its callbacks",
    "coroutines": "its coroutines", "critical-sections": "its critical sections",
    "event-loop": "its event loop", "interpreters": "its interpreters", "native-stack": "its native stack",
    "python-names": "names of Python threads", "python-stack": "its Python stack",
    "python-wait": "its wait in Python", "robust-list": "its list of robust mutexes",
    "task-wait": "its wait",
}
# what a report without GDB lacks; `LEFT_OUT` of direct/target.py
_LACKS = {
    "frames": "the callers of frames without a frame description",
    "instructions": "the machine code that proves which thread holds a lock, or why a thread crashed",
    "late-lines": "source lines of more native functions (debug information is read for at most 2 s)",
    "lines": "source lines and inlined calls of native functions",
    "types": "structures of a Python version without a table, from its debug information",
    "unstopped": "the callers of a thread that is not stopped, since that would end its system call",
    "variables": "variables of native functions",
}
# what a redacted report lacks; `TAKEN` of redact.py
_PRIVATE = {
    "addresses": "addresses", "arguments": "the arguments of the program", "folders": "folders of files",
    "host": "the name of the machine", "messages": "messages of the program", "object-names": "names of objects",
    "source": "source lines", "user": "the name of the user", "values": "values",
}
_OWNERLESS = {
    "elided-mutex": "the mutex uses lock elision (Intel TSX), which", "futex": "a futex word of unknown meaning",
    "future": "a std::future that a thread waits for",
    "linker": "the lock is held and", "mutex": "the mutex is locked and",
    "normal-mutex": "a mutex of musl's normal type", "writer": "a read-write lock of musl",
    "once-flag": "a _PyOnceFlag", "py-mutex": "a PyMutex",
    "python-lock": "a lock of this kind",
    "rw-mutex": "a _PyRWMutex",
    "spin-lock": "a spin lock", "stdio": "the lock",
}
_PLACES = {
    "allocator": "the allocator with this arena",
    "initialiser": "its initialiser", "static-initialiser": "the initialiser of the static variable",
}


def _without_gdb(lacks: tuple[str, ...], target: str = "TARGET", processor: str | None = None) -> str:
    """:param processor: of the target, if this machine has another one, whose GDB may not know it."""
    left_out = "; ".join(_LACKS[what] for what in lacks)
    if processor is not None:
        return (f"{left_out} (shown by `gdbext report {target} --gdb GDB` with a GDB for {processor}, such as "
                "gdb-multiarch)")
    return f"{left_out} (shown by `gdbext report {target} --gdb gdb` and `gdbext attach {target}`)"


def _processes(pids: Sequence[int]) -> str:
    return f"process{'es' if len(pids) != 1 else ''} {listed(pids)}"


def _processes_have(pids: Sequence[int]) -> str:
    return f"{_processes(pids)} {'has' if len(pids) == 1 else 'have'}"


def _place(file: str, line: int | None) -> str:
    return file if line is None else f"{file}:{line}"


def _shared_memory(kind: str, path: str, offset: int) -> str:
    """The place of a lock in shared memory; empty for a lock of `multiprocessing`, which has a deleted file of its own.

    The kernel shows memory without a file as one that was deleted.
    """
    if name_of_kind(kind, shared=True).startswith("multiprocessing."):
        return ""
    path = path.replace(" (deleted)", "")
    return f" in shared memory ({'without a file' if path in ('', '/dev/zero') else path}, {offset:#x})"


def _counted(count: int) -> str:
    return f"{count} reader{'s' if count != 1 else ''} counted, none recorded"


def _with_why(text: str, why: str | None) -> str:
    return text if why is None else f"{text} ({why})"


def _counts(waits: str, unfinished: int, maxsize: int, queued: int) -> str:
    """What a thread in `join`, `put` or `get` of a queue waits for, in numbers.

    Programs that never call `join` need not call `task_done` either; unfinished tasks then mean nothing.
    """
    unfinished_tasks = f"{unfinished} unfinished task{'s' if unfinished != 1 else ''}, "
    return {"join": unfinished_tasks, "put": f"maxsize {maxsize}, "}.get(waits, "") + f"{queued} queued"


def _of(function: str | None) -> str:
    return f" of {function}" if function is not None else ""


def _lost_call(workers: int, gone: Sequence[str]) -> str:
    """Why the result of a call that was sent to a pool of processes never comes."""
    waiting = "the only worker of the pool waits" if workers == 1 else f"all {workers} workers of the pool wait"
    if not gone:
        return f"its call is lost: {waiting} for calls, and no result is on its way; a worker that had it has ended"
    ended = f"worker {gone[0]} has ended and was" if len(gone) == 1 else f"workers {listed(gone)} have ended and were"
    return f"its call is lost: {ended} replaced, and {waiting} for calls"


def _queued_call(function: str | None, workers: int, queued: int, functions: Sequence[str]) -> str:
    """Where a call is that no worker of a pool has taken yet."""
    others = f", with {queued - 1} more," if queued > 1 else ""
    behind = "the only worker" if workers == 1 else f"all {workers} workers"
    return f"its call{_of(function)} is queued{others} behind {behind} of the pool"


def _compiled(threads: Sequence[int], more: int) -> str:
    named = ", ".join(map(str, threads)) + (" ..." if more else "")
    waiting = f"thread {named} waits" if len(threads) == 1 else f"threads {named} wait"
    return f"compiled Python code is not decoded; in such code {waiting} for locks that do not record their holder"


def _dropped(count: int) -> str:
    return (f"{count} deadlock{'s' if count != 1 else ''} not shown: seen in only one of the two snapshots, or some "
            "of their threads ran in between")


_WORDINGS: Mapping[ReasonCode, Wording] = {
    "text": "{text}",
    "several": lambda reasons: "; ".join(reasons),
    "part-unreadable": lambda part, error: f"{_PARTS[part]}: {error}",
    "stage-failed": "left out because of a bug in gdbext, please report it: {error} in {file}:{line}",

    "arrivals-not-recorded": "the threads that have not arrived are not recorded",
    "condition-has-no-owner": "a condition has no owner: any thread may notify it",
    "condvar-has-no-owner": "a condition variable has no owner: any thread may signal it",
    "event-has-no-owner": "an event has no owner: any thread may set it",
    "park-has-no-owner": "any thread may unpark it",
    "py-semaphore-has-no-owner": "a semaphore has no owner: any thread may release it",
    "semaphore-has-no-owner": "a semaphore has no owner: any thread may post it",

    "libc-not-loaded": "no C library is loaded",
    "libc-version-unknown": "the version of the C library is not known",
    "stacks-scanned": "musl has no unwind tables: the callers of its functions were found by return addresses on the "
                      "stack",
    "table-of-other-version": "no layout table for CPython {version}; the table for {table} fits and is used",

    "build-differs": "the core was made with build {core}, the file {path} is build {file}",
    "file-does-not-fit": "the file {path} does not fit where the core has it mapped",
    "emulated": lambda by, program=None: (
        f"the program{f' {program}' if program else ''} runs under {by}: native stacks are those of {by}"),
    "finalizing": "thread {thread} finalises Python {version}: other threads that request the GIL end or sleep forever",
    "frames-unlisted": "its native stack beyond {file}, which GDB does not list",
    "frames-without-description": "its native stack beyond {file}, which has no usable unwind information",
    "frames-without-file": "its native stack beyond {file}, which is missing",
    "gil-claimed-by-others": lambda holder, others: (
        f"the GIL records thread state {holder:#x} as its holder, but {', '.join(map(hex, others))} claims to hold it"),
    "greenlets-not-judged": lambda count: (
        f"it is not known what {count:,} suspended greenlet{'s wait' if count != 1 else ' waits'} for, so a deadlock "
        "among such greenlets is not found"),
    "holder-was-asked": "the holder was asked to release the GIL, and no other thread can have asked",
    "other-python": "{name} in {module} is not decoded",
    "owner-in-no-list": "thread state {tstate:#x} holds it, but is in no interpreter's list",
    "owner-tstate-gone": "thread state {tstate:#x} holds it: {why}",
    "runtime-not-initialised": "the runtime is not initialised, or already finalised",
    "runs-take-gil": "it runs take_gil, and another thread holds the GIL",
    "tids-unknown": "the TIDs of {count} of {total} threads are not known, so owners recorded as TIDs may not "
                    "be found",

    # these four are part of the interface
    "no-maker": "nobody makes it",
    "thread-exited": "thread exited",
    "left-behind-by-fork": "left behind by fork",
    "not-a-living-thread": "not a living thread",
    "forked-by-other-thread": "its owner had TID {tid}; this process was forked by a thread other than the main thread",
    "idents-not-matched": "its owner is recorded as the thread with pthread_t {pthread:#x}, which cannot be matched to "
                          "a thread",
    "not-a-descriptor": "its owner field contains {pthread:#x}, which is not a thread descriptor",
    "not-a-tid": "its owner field contains {tid}, which is not a TID",
    "owner-descriptor": "its owner was the thread with pthread_t {pthread:#x}",
    "owner-maybe-unread": "its owner is the thread with pthread_t {pthread:#x}; some threads cannot be read",
    "owner-unmapped": "its owner was the thread with pthread_t {pthread:#x}, whose memory is no longer mapped",
    "tid-maybe-unread": "its owner has TID {tid}; the TIDs of some threads are not known",
    "tid-not-given-yet": "its owner field contains {tid}, a TID that no thread has had yet",
    "tid-not-here": "its owner had TID {tid}, which is not a thread of this process",
    "tid-not-listed": "its owner has TID {tid}, a thread that the debugger does not list",
    "tid-of-other-process": "its owner has TID {tid}, a thread of another process",
    "tid-of-parent": "its owner had TID {tid}, a thread of the parent process",
    "tid-reused": "its owner had TID {tid}, which another process has now",
    "tid-vanished": "its owner had TID {tid}, which no thread has any longer",

    "holding-process-ended": "no thread of this process has it, and no other process has it mapped any more",
    "in-no-other-process": "no other process has it",
    "held-by-another-process": "no thread of this process holds it; another process may",
    "lock-about-to-be-taken": "it is free and about to be acquired",
    "lock-unreadable": "it cannot be read: {error}",
    "records-no-owner": lambda what: f"{_term(what, _OWNERLESS)} records no owner",
    "readers-counted": _counted,

    "asked-to-stop": "attached, and asked to stop",
    "in-critical-section": "attached, in an active critical section of it",
    "in-no-critical-section": "no attached thread is in a critical section of it",
    "in-several-critical-sections": "several threads have it in their critical sections",
    "acquired-and-waits": "it has called `acquire` before and now waits for the same lock, which another thread may "
                          "release as a signal",
    "acquired-by-call": "it has called `{expression}.acquire()`, and its function releases the lock on every way out",
    "acquired-by-call-normally": "it has called `{expression}.acquire()`, and its function releases the lock unless an "
                                 "exception ends it",
    "acquired-by-several": "several threads have taken it by a `with` statement or `acquire`, and only one can hold it",
    "acquired-not-released": "the candidate has called `acquire`, but its function does not release the lock on every "
                             "way out",
    "maybe-released-since": "it has called `acquire`, but the lock may have been released since",
    "in-several-with-blocks": "several threads are inside `with` blocks of it",
    "in-greenlet-with-block": "a suspended greenlet is inside a `with` block of the lock",
    "in-shared-generator": lambda file, line: (
        f"inside a `with` block of the lock in a generator suspended at {_place(file, line)}, which another thread may "
        "resume"),
    "in-suspended-generator": lambda file, line, thread: (
        f"inside a `with` block of the lock in a generator suspended at {_place(file, line)}, which only thread "
        f"{thread} can resume"),
    "in-suspended-greenlet": lambda file, line, thread: (
        f"inside a `with` block of the lock in a greenlet suspended at {_place(file, line)}, which only thread "
        f"{thread} can resume"),
    "in-suspended-task": lambda file, line, thread: (
        f"inside a `with` block of the lock in a coroutine suspended at {_place(file, line)}, which only thread "
        f"{thread}'s event loop can resume"),
    "in-with-block": "inside a `with` block of the lock",
    "maybe-left-with-block": "inside a `with` block of the lock, but may have released it since",
    "not-all-stopped": "the runtime counts {count} threads that have not stopped; {seen} of them were found",
    "owner-ident-compiled": "its owner has the ident of thread {thread}, whose code is compiled and cannot be searched",
    "owner-ident-reused": "its owner has the ident of thread {thread}, but no frame of that thread refers to the lock: "
                          "the owner may be an earlier thread that had the ident",
    "queue-counts": _counts,
    "requester-unknown": "the requesting thread is not known",

    "tasks-left": "some tasks are unfinished, and the threads that run them are not recorded",


    "descriptor": "{name}",
    "former-descriptor": "the former fd {fd}",
    "in-timed-wait": "is in a timed wait",
    "interrupted-by-the-pause": "the thread slept in this call until the pause, as the kernel recorded before it",
    "maybe-blocked": "was in {call} when it was stopped; whether it was blocked there is not known",
    "opens": lambda path, access: f"opens {path} to {('read', 'write', 'read and write', 'be used')[access]}",
    "sleeps": "sleeps",
    "sleeps-for": "sleeps for {seconds} s",
    "sleeps-more": "sleeps for {seconds} s more",
    "sleeps-until": "sleeps until a set time",
    "waits-for-aio": "waits for asynchronous I/O",
    "waits-for-file-system": lambda call, path, kind=None, folder=None, source=None: (
        f"waits in {call} for the file system of {path or 'a file'}"
        + (f" ({kind}, {source}, mounted on {folder})" if kind else "")),
    "waits-for-any-child": "waits for any child process",
    "waits-for-child": "waits for child {process}",
    "waits-for-child-number": lambda number, process=None: (
        f"waits for child process {number}" + ("" if process is None else f", which is {process} here")),
    "waits-for-children": lambda children, count: f"waits for any child: {listed(children, count)}",
    "waits-for-execve": lambda children, count: (
        "waits until a child process calls execve" if not count
        else f"waits until child {children[0]} calls execve" if count == 1
        else f"waits until one of its children calls execve: {listed(children, count)}"),
    "waits-for-futexes": lambda words, count: (
        f"waits for any of the futex words {', '.join(map(hex, words))}"
        + (f" and {count - len(words)} more" if count > len(words) else "")),
    "waits-for-group": "waits for any child process of group {group}",
    "waits-for-message": "waits for a message in System V queue {number}",
    "waits-for-own-group": "waits for any child process of its own group",
    "waits-for-pidfd": "waits for the child process of fd {fd}",
    "waits-for-room": "waits for room in System V queue {number}",
    "waits-for-semaphores": "waits for System V semaphore set {number}",
    "waits-for-signal": lambda signals=(): f"waits for {' or '.join(signals) or 'a signal'}",
    "with-timeout": "{wait}, with a timeout",
    "wrote-a-part": "the call wrote only part of the data: stopping the thread ended it",

    "connects-to": lambda place, listeners=(): (
        f"to {place}" + (f", where {listed(listeners)} listens" if listeners else "")),
    "copies-to": "it copies to {name}",
    "descriptor-not-in-core": "a core does not record what it referred to",
    "descriptor-not-visible": "what it refers to cannot be seen from here",
    "descriptor-of": "fd {fd} of {process}",
    "descriptor-unreadable": "what it refers to cannot be read",
    "descriptor-in-use": "the candidates have this descriptor in a variable, a `with` statement or a system call",
    "file-locked-here": lambda fds: (
        f"only this process has the open file that holds the lock: {listed([f'fd {fd}' for fd in fds])}"),
    "in-accept-queue": lambda listeners, only_here=0: (
        "no process has accepted the connection yet; it is in the queue of "
        f"{listed(listeners) or 'a listening socket that was not found'}"),
    "ioctl-request": "request {request:#x}",
    "locked-by": lambda lockers: f"locked by {listed(lockers)}",
    "locker-not-recorded": "the process that locked it is not recorded",
    "locker-unknown": "the process that locked it is not known",
    "of-descriptor": "of fd {fd}, {end}",
    "accepts-more": "others may connect",
    "of-other-descriptors": lambda count: (
        f"of {count:,} other descriptor{'s' if count > 1 else ''}, no process with another end is known"),
    "other-end": lambda ends: f"the other end is {listed(ends)}",
    "watches-pipes-only": "besides what wakes it, it watches pipes and pairs of sockets only",
    "named-pipe": "a named pipe, which any process may open to write",
    "takes-requests": "the requests for a file system that this process serves",
    "served-here": "this process itself serves the file system mounted on {folder}, through fd {fd}",
    "other-end-here": lambda fds: f"only this process has the other end: {listed([f'fd {fd}' for fd in fds])}",
    "other-end-not-found": "no process was found that has the other end open; some processes could not be examined",
    "other-end-not-open": "no process has the other end open",
    "other-end-not-searched": "its other end was not searched for: there are too many descriptors",
    "process": lambda pid, name=None, generation=None: (
        f"process {pid}" + (f' "{name}"' if name is not None else "")),
    "process-running": lambda pid, name, command: (
        f"process {pid}" + (f' "{name}"' if name is not None else "") + f" ({command})"),
    "this-process": "this process",
    "unanswered": "this end sent data {seconds} s ago and has received none since",
    "watches": lambda watched, count, only_here=0: (
        f"it watches {listed(watched, count)}" + (f"; only this process has the other end{'s' if count > 1 else ''}"
                                                   if only_here else "")),
    "watches-nothing": "it watches nothing",

    "as-many-others": lambda missing: (
        f"{have(missing)} not arrived, and exactly {missing} other thread{'s' if missing != 1 else ''} could still do "
        "so"),
    "called-not-released": lambda threads, function, module, call: (
        f"{f'{function}() in {module}' if function else f'code in {module}'} has called {call}() for it, and has not "
        f"released it, in thread{'s' if len(threads) != 1 else ''} {listed(threads)}"),
    "foreign-owner": "its owner has TID {tid}, which is not a thread of this process; the lock is shared",
    "guard-in-frame": lambda function, module, call: (
        f"{f'{function}() in {module}' if function else f'code in {module}'} has acquired it, and a guard object in "
        f"its frame will release it{f' with {call}()' if call else ''}"),
    "maybe-inside": lambda where: f"threads that may be inside {_term(where, _PLACES)}",
    "maybe-not-arrived": lambda missing: f"{have(missing)} not arrived; which ones is not recorded",
    "nobody-inside": lambda where: f"no thread was found inside {_term(where, _PLACES)}",
    "only-thread-inside": lambda where: f"the only thread inside {_term(where, _PLACES)}",
    "owner-called-fork": "its owner had TID {tid} in the process that forked this one; the thread that called fork is "
                         "the first thread here",
    "proven-by-code": lambda function, module, call: (
        f"{f'{function}() in {module}' if function else f'code in {module}'} has acquired it with {call}() and has not "
        "released it"),
    "proven-by-instruction": lambda function, module: (
        f"{f'{function}() in {module}' if function else f'code in {module}'} has acquired it with an atomic "
        "instruction and has not released it"),
    "proven-readers": lambda count, threads: (
        f"{_counted(count)}; the code of {'the' if threads == 1 else 'each'} holder acquires the lock and has not "
        "released it"),
    "readers-not-recorded": lambda count, candidates: (
        f"{_counted(count)}; {candidates or 'no'} {'thread has' if candidates == 1 else 'threads have'} the lock's "
        "address on the stack"),
    "several-proven": lambda threads: f"the code of {threads} threads acquires it, but only one thread can hold it",
    "call-is-queued": _queued_call,
    "only-submit-starts-workers": "the pool starts a worker only when a call is submitted, and every thread that could "
                                  "do that waits for a result",
    "workers-replaced": lambda names: (
        "the workers of its pool end and are replaced: each of them has ended or was started since the wait began, now "
        f"{listed(names)}"),
    "pool-sends-call": lambda function: f"it has to send the call{_of(function)} to a worker of the pool",
    "pool-without-workers": lambda pending: (
        f"its pool has no worker process and starts none; {pending} call{'s are' if pending != 1 else ' is'} pending"),
    "pool-takes-results": "it has to take the results from the workers of the pool",
    "runs-call": lambda function: f"it runs the call{_of(function)} whose result this is",
    "threads-in-file": "only threads with code of {file} on their stacks can finish it",
    "too-many-readers": lambda count, threads: f"{_counted(count)}, but the code of {threads} threads acquires it",

    "eval-in-no-frame": "a call of the eval loop is in no native frame",
    "evals-in-one-frame": "two calls of the eval loop are in one native frame",
    "frame-counts-differ": "{python} Python frames, but {native} native calls of the eval loop",
    "native-stack-cut": "the native stack could not be read to its end",
    "python-stack-cut": "the Python stack could not be read to its end",

    "deadlocks-dropped": _dropped,
    "every-thread-waits": "every thread of the process waits, without a timeout, for something that only another of "
                          "them could do",
    "more-unreadable": "{count} more",
    "held-in-parent": lambda pid, number, name, function, file, line: (
        f"fork has copied it; in the parent, process {pid}, thread {number}"
        + (f' "{name}"' if name else "") + " has it"
        + (f", taken in {function} at {_place(file, line)}" if function else "")),
    "no-other-thread": lambda owner_unknown: (
        "the process has no other thread that could release the lock"
        + (": its owner may not have survived fork" if owner_unknown else "")),
    "deadlocks-not-listed": "the document does not list deadlocks",
    "owner-gone": lambda lock, orphan, why=None: _with_why(f"the owner of {lock} is gone: {orphan}", why),
    "call-lost": _lost_call,
    "taker-has-ended": "the thread that takes the results of its pool has ended",
    "pool-is-idle": "all calls are sent, the pipes of the pool are empty, and its threads and workers have waited for "
                    "calls and results for some time",

    "any-descriptor": lambda waits: " or ".join(waits[:MANY]),
    "end-of-process": lambda pids: f"for the end of {_processes(pids)}",
    "end-of-thread": "for the end of thread {number}",
    "futex-word": "for a futex word",
    "lock-of-file": "for the lock of {link}, fd {fd}",
    "named-lock": "for {name}",
    "reads-descriptor": "to read {link}, fd {fd}",
    "shared-lock": lambda kind, name, path, offset: (
        f"for {name_of_kind(kind, shared=True)}{f' {name}' if name else ''}{_shared_memory(kind, path, offset)}"),
    "writes-descriptor": "to write {link}, fd {fd}",
    "any-thread-may-release": "any other thread of its process may release it",
    "children-of-process": "these are its children",
    "children-ended": lambda children, count: (
        f"{'a child process has' if count == 1 else f'{count} child processes have'} ended, and this process has not "
        f"waited for {'it' if count == 1 else 'them'}: {listed(children, count)}"),
    "child-ended": lambda process, signal=None, status=None: process + (
        f" was killed by {signal}" if signal is not None else
        f" has exited with status {status}" if status is not None else " has ended"),
    "no-thread-can-run": "none of these threads can run",
    "only-processes-with-end": lambda pids: f"only {_processes_have(pids)} the other end",
    "only-processes-with-memory": lambda pids: f"only {_processes_have(pids)} that memory",
    "only-processes-with-open-file": lambda pids: f"only {_processes_have(pids)} the open file that holds the lock",
    "semaphore-counted-by": "only process {pid} counts the semaphore as acquired",
    "descriptors-refused": "the descriptors of process {pid} could not be read",
    "descriptors-timeout": "not all descriptors could be read within {seconds} s",
    "other-users-invisible": "processes of other users could not be seen",
    "other-users-unreadable": lambda what, count: (
        f"{what} of {count:,} process{'es of other users' if count > 1 else ' of another user'} could not be read"),
    "threads-refused": "the system calls of the threads of process {pid} could not be read",

    "address-inside": lambda address, base, structure, member=None: (
        f"{address:#x} is {member or f'byte {address - base}'} of the {structure} at {base:#x}"),
    "ambiguous-address": lambda kinds, addresses: (
        "it could be any of: " + ", ".join(f"{kind} at {at:#x}" for kind, at in zip(kinds, addresses))),
    "budget-of-frames": lambda count, most: (
        f"the report has at most {most:,} frames; the stacks of {count:,} thread{'s are' if count > 1 else ' is'} "
        "left out"),
    "budget-of-memory": lambda size: (
        f"the snapshot was cut short after it had used {size >> 20:,} MiB of memory; what was not read until then is "
        "missing"),
    "budget-of-reads": lambda size: (
        f"the snapshot was cut short after {size >> 20:,} MiB; what was not read until then is missing"),
    "budget-of-time": "the snapshot was cut short after {seconds} s; what was not read until then is missing",
    "compiled-code-waits": _compiled,
    "died-in-handler": "thread {thread} died of {signal}, which it sent from a signal handler; the report shows "
                       "what it was doing when the handled signal arrived",
    "doubt": "{where}: {why}",
    "doubts": lambda doubts, more: "; ".join([*doubts, *([f"and {more} more"] if more else [])]),
    "gil-holder-unknown": "threads wait for {lock}, and its holder is not known",
    "libraries-unlisted": "GDB does not list the libraries",
    "made-without-gdb": _without_gdb,
    "locks-not-decoded": "{why}; native locks are not decoded",
    "not-interleaved": "Python and native frames are not interleaved: {why}",
    "redacted": lambda taken: (
        f"what is private: {', '.join([_PRIVATE[what] for what in taken])}" if taken else
        "what is private, of which nothing was found"),
    "threads-came-or-went": lambda count: (
        f"{count} thread{'s' * (count != 1)} began or ended while the process was read"),
    "threads-unreadable": "{count} of {total} threads cannot be read",
    "values-withheld": "values of variables are left out of this file because the {what} belongs to another user; "
                       "--values includes them",
    "two-snapshots": "two snapshots, {seconds} s apart; the process was paused for {paused} s in all",
}


@functools.cache
def _of_libraries() -> tuple[Mapping[ReasonCode, Wording], Mapping[str, str]]:
    """The sentences of the libraries, and what they call their locks and places."""
    from gdbext.libraries import LIBRARIES

    return ({code: wording for library in LIBRARIES for code, wording in library.words.items()},
            {term: text for library in LIBRARIES for term, text in library.terms.items()})


def _term(term: str, own: Mapping[str, str]) -> str:
    return own.get(term) or _of_libraries()[1][term]


def wording_of(code: ReasonCode) -> Wording:
    """The wording of a code.

    :raises LookupError: there is none, as for a code of a newer version.
    """
    return CRASH_WORDINGS.get(code) or _WORDINGS.get(code) or _of_libraries()[0][code]


def explain(reason: Reason) -> str:
    """The sentence of a reason, in lower case without a full stop. Text from the target is not escaped."""
    wording = wording_of(reason.code)
    arguments: dict[str, Any] = {name: _worded(value) for name, value in reason.arguments}
    return wording.format(**arguments) if isinstance(wording, str) else wording(**arguments)


def _worded(value: Argument) -> Any:
    if isinstance(value, tuple):
        return tuple(_worded(each) for each in value)
    return explain(value) if isinstance(value, Reason) else value
