"""The sentence for each reason code of `gdbext.model.crash_reasons`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from gdbext.model.kinds import GIL, kind_of, name_of_kind


def _list(items: tuple[str, ...], more: int = 0) -> str:
    return ", ".join(items) + (f" and {more} more" if more else "")


def _lock(lock: str) -> str:
    """What people call the lock with an id."""
    kind, _, address = lock.partition(":")
    if kind == GIL:
        return "the GIL"
    if kind_of(kind).behaviour == "thread-end":
        return f"the end of thread {address}"
    return f"{name_of_kind(kind)} {address}"


def _locks(locks: tuple[str, ...]) -> str:
    return ", ".join(map(_lock, locks))


_FILLERS = {
    "python-freed": "Python's debug allocator leaves it in freed memory",
    "python-new": "Python's debug allocator leaves it in memory that has not been written yet",
    "python-around": "Python's debug allocator puts it around memory",
    "python37-freed": "the debug allocator of Python up to 3.7 leaves it in freed memory",
    "python37-new": "the debug allocator of Python up to 3.7 leaves it in memory that has not been written yet",
    "python37-around": "the debug allocator of Python up to 3.7 puts it around memory",
    "jemalloc-freed": "jemalloc can leave it in freed memory",
    "jemalloc-new": "jemalloc can leave it in memory that has not been written yet",
    "asan-new": "AddressSanitizer leaves it in memory that has not been written yet",
}


def _fill_pattern(byte: int, filler: str | None = None) -> str:
    return f"the byte {byte:#04x} eight times, a fill pattern" + (f" ({_FILLERS[filler]})" if filler else "")


def _name(register: str) -> str:
    """A register as its processor's assembly writes it: ``%rax``, ``x0``."""
    return register if re.match(r"(?:[wx]\d+|sp)$", register) else f"%{register}"


def _loaded(register: str, operand: str, now: int | None = None, base: str | None = None, value: int = 0,
            what: str | None = None) -> str:
    """:param now: the current content of the memory, if it has changed."""
    read = f"{_name(register)} was read from {operand}" + (f" (which now contains {now:#x})" if now is not None else "")
    if base is not None:
        return f"{read}: {_name(base)} is {value:#x}, {what}"
    return f"{read}, {what}" if what is not None else read


def _exception(type: str | None, text: str | None) -> str:
    of = f" of type {type}" if type else ""
    no_memory = " (memory could not be allocated)" if type in ("std::bad_alloc", "std::bad_array_new_length") else ""
    return f"a C++ exception{of}{no_memory}" + (f": {text}" if text else "")


def _terminate_called(type: str | None, text: str | None, left: str | None = None) -> str:
    noexcept = f"; it was to leave {left}, which is noexcept" if left else ""
    return f"std::terminate() was called for {_exception(type, text)}{noexcept}"


#: What each `si_code` of SIGFPE says.
_FLOATING = {
    "FPE_FLTDIV": "a floating-point number was divided by 0", "FPE_FLTOVF": "a floating-point result is too large",
    "FPE_FLTUND": "a floating-point result is too small", "FPE_FLTRES": "a floating-point result is not exact",
    "FPE_FLTINV": "an invalid floating-point operation, such as 0/0 or the root of a negative number",
}
#: Functions that return null if there is no memory.
_ALLOCATORS = frozenset(("malloc", "calloc", "realloc", "reallocarray", "aligned_alloc", "memalign", "PyMem_Malloc",
                         "PyMem_RawMalloc", "PyObject_Malloc"))


def _returned_null(fault: str, function: str) -> str:
    no_memory = ": it could not allocate memory" if function.partition("(")[0] in _ALLOCATORS else ""
    return f"{fault}, which was returned by {function}{no_memory}"


def _in_register(register: str | None) -> str:
    return f" ({_name(register)})" if register is not None else ""


_VERBS = {"read": "read", "write": "wrote", "execute": "ran code"}


def _accessed(access: str | None, size: int | None, address: int | None, is_readable: int,
              problem: str | None = None) -> str:
    """:param is_readable: whether the instruction could be read."""
    words = [_VERBS.get(access or "", "accessed memory")]
    if access in ("read", "write"):
        words.append(f"{size} byte{'s' if size != 1 else ''}" if size else "memory")
    if address is not None:
        words.append(f"at {address:#x}")
    if not is_readable:
        words.append("(the instruction is not known)")
    return " ".join(words) + (f": {problem}" if problem is not None else "")


_CALL = "is in {function}(), called from {module}, "
_RELEASED = "this thread has released it (PyEval_SaveThread, or a call of ctypes.CDLL)"


def _without_gil(function: str, module: str, holder: int | None) -> str:
    state = f"thread {holder} holds the GIL" if holder is not None else "the GIL is free"
    return _CALL.format(function=function, module=module) + f"but {state}: {_RELEASED}"


def _blocked_with_gil(waiters: tuple[int, ...], lock: str | None, blocked_on: str | None, syscall: str | None) -> str:
    where = f"for {_lock(lock)}" if lock is not None else blocked_on or f"in {syscall or 'a system call'}"
    return f"holds the GIL and is blocked {where}; threads waiting for the GIL: {', '.join(map(str, waiters))}"


def _not_an_object(address: int, names: tuple[str, ...], problem: str, type: str | None = None, used: int = 0) -> str:
    """:param used: whether the fault was about it; otherwise it was only found in a variable."""
    called = f", {' and '.join(names)}," if names else ""
    verb = "used" if used else "has"
    if type is not None:
        return f"{verb} {address:#x}{called or ','} a Python object of type {type} that was freed: {problem}"
    return f"{verb} {address:#x}{called or ','} which is not (or no longer) a Python object: {problem}"


def _listed(pointers: tuple[str, ...]) -> str:
    return "; ".join(pointers)


def _block_before(block: int, size: int, text: str | None, is_source: int, pointers: tuple[str, ...]) -> str:
    """:param is_source: whether the text that ends in the damaged header is that of the block."""
    begins = f", which begins with {text!r}," if text else ""
    held = f"; pointers to it are {_listed(pointers)}" if pointers else ""
    verb = "was probably written beyond its end" if is_source else "ends where the damaged header begins"
    return f"the block before it, {block:#x} of {size:,} bytes{begins} {verb}{held}"


def _leads_to(address: int, place: str, target: int, what: str, through: int | None = None) -> str:
    through_words = f"{through:#x}, and that to " if through is not None else ""
    return (f"has {address:#x} {place}, which points to {through_words}{target:#x} ({what}), "
            "which the thread that died also used")


#: The sentence of each code: a format string for `str.format`, or a function of the arguments.
WORDINGS: Mapping[str, str | Callable[..., str]] = {
    "function": "{name}()",
    "unnamed-function": lambda module: f"a function of {module}" if module else "code in no file",
    "null": "null",
    "small-number": "not an address: {value} is too small",
    "not-canonical": lambda text=None: (
        "not a valid address (not canonical)" + (f"; as text it reads {text!r}" if text else "")),
    "fill-pattern": _fill_pattern,
    "code-in": lambda module, function=None: f"code: {f'{function} in' if function else 'in'} {module}",
    "data-in": lambda module, function=None: f"data: {f'{function} in' if function else 'in'} {module}",
    "not-readable": "not readable",
    "not-mapped": "not mapped",
    "on-stack-of": "on the stack of thread {thread}",
    "python-object": "a Python object of type {type}",
    "freed-python-object": "a Python object of type {type} that was freed ({problem})",
    "cpp-object": "a C++ object of class {type}",
    "mapped-file": "in the mapping of {file}, at byte {offset:#x} of the file",
    "freed-memory": "memory that was freed",
    "read-from-freed": "{fault}; the pointer to it is from {address:#x}, memory that was freed",
    "read-from-none": "{fault}; the pointer was read from offset {offset:#x} of None, which was used as another object",
    "link-of-malloc": "that memory begins with a link of malloc's list of free blocks",
    "malloc-block": "a block of malloc",
    "truncated-pointer": lambda register, value, offset, whole, what: (
        (f"at offset {offset:#x} of " if offset else "") + f"%{register} = {value:#x}, the lower half of the pointer "
        f"{whole:#x} ({what}): it was passed or returned as a 32-bit integer, as by ctypes without restype or "
        "argtypes, or by C without a declaration"),
    "whole-pointer-fits": "the upper half is missing, and nothing else in memory that begins a block has this half",
    "returned-null": _returned_null,
    "index-out": "index %{index} = {value} of the array at %{register} ({what}) leads to where nothing is mapped",
    "link-used": "{fault}; the pointer is a link of malloc's list of free blocks: it is from memory that was freed",
    "links-are-combined": "malloc combines such a link with its own address; the result is in the heap",
    "frame-too-large": lambda function, kib, stack: (
        f"the local variables of {function} need {kib:,} KiB more than the {stack:,} KiB of the stack"),
    "frame-below-stack": "its frame begins below the stack and ends in it",
    "unloaded-code": "{fault}; code that was there is not mapped any more: its library was probably unloaded (dlclose)",
    "thread-started-there": "the thread's first function, or what it got, was there too",
    "registered-there": "the C library keeps only functions that a program has registered with it",
    "returned-to-bad-address": "returned to {address:#x}: {what}",
    "file-size-limit": "a file was to grow beyond the limit on its size (RLIMIT_FSIZE, `ulimit -f`)",
    "cpu-time-limit": "the process used up its CPU time (RLIMIT_CPU, `ulimit -t`)",
    "floating-point-error": lambda error, instruction: (
        f"{_FLOATING.get(error, 'a floating-point error')} in `{instruction}`; the program has enabled traps for it "
        "(feenableexcept)"),
    "inaccessible-memory": "memory that may not be accessed (a guard page, or reserved)",
    "heap": "heap",
    "mapping": "{name}",
    "memory": "memory",
    "memory-holding": lambda value, what=None: f"{f'{what}, which ' if what else ''}contains {value:#x}",
    "in-caller": "in {function}: {origin}",
    "uncertain-origin": "{origin}, unless the program jumped past that",
    "argument": lambda register, number, function, is_this: (
        f"{_name(register)} is {'`this`, ' if is_this else ''}argument {number} of {function}"),
    "constant": lambda register, instruction: f"{_name(register)} was set by `{instruction}`",
    "result": lambda register, function: f"{_name(register)} was returned by {function}",
    "computed": lambda register, instruction: f"{_name(register)} was computed by `{instruction}`",
    "loaded": _loaded,
    "stopped-by-signal": "{signal} stopped the program",
    "sender-unknown": "{signal} was sent; by which process is not recorded",
    "sent-by-own-thread": "{signal} was sent by another thread of the program: the code that ran is not at fault",
    "sent-by-itself": "the program sent itself {signal}: this thread is in the call that sent it",
    "sent-by-process": "{signal} was sent by process {pid}: the code that ran is not at fault",
    "accessed": _accessed,
    "refused-instruction": "the processor refused the instruction `{instruction}` (general protection)",
    "null-pointer": lambda register=None: "a null pointer" + _in_register(register),
    "null-member": lambda offset, register=None: (
        f"the member at offset {offset:#x} of a null pointer" + _in_register(register)),
    "null-element": lambda register, index, value: (
        f"an element of a null array ({_name(register)}), at index {_name(index)} = {value:#x}"),
    "bad-register": lambda register, value, offset, what: (
        (f"at offset {offset:#x} of " if offset else "") + f"{_name(register)} = {value:#x}, {what}"),
    "not-canonical-sum": lambda register, value: (
        f"not a valid address (not canonical), made of {_name(register)} = {value:#x}"),
    "stack-used-up": "the stack is used up, {kib} KiB of it",
    "misaligned-for": "`{mnemonic}` needs an address that is a multiple of {alignment}",
    "misaligned": "the address is not aligned",
    "protection-key": "a protection key forbids it",
    "mapped-since": "nothing was mapped there at that time, though now it is {what}",
    "forbidden": "its mapping does not allow it ({what})",
    "forbidden-then": "its mapping did not allow it at that time ({what})",
    "allowed-only": lambda permissions, what: f"its mapping allows {permissions or 'no access'} ({what})",
    "freed-large-block": "nothing is mapped there any more, probably a large block of malloc that was freed",
    "block-at-page": "such a block begins 16 bytes behind the start of a mapping of its own, which free() unmaps",
    "nothing-mapped": "nothing was mapped there",
    "called-null": "called a null function pointer",
    "called-bad-address": "called a function at {address:#x}: {what}",
    "ran-data": "ran code at {address:#x}: {what}, which is not executable",
    "file-too-short": "byte {offset:#x} of {path}, which is mapped, but the file ends before it: it was truncated",
    "no-page": "byte {offset:#x} of {path}, which is mapped and long enough, but the kernel has no page for it: "
               "its file system is full, or the disk failed",
    "no-page-or-end": "byte {offset:#x} of {path}, which is mapped, but the kernel has no page for it: its file system "
                      "is full, or the file was truncated",
    "file-is-longer": "the file is long enough now",
    "no-memory-behind": "the mapping has no memory behind it (a file that ends before it, or huge pages that ran out)",
    "faulty-memory": "memory is faulty (hardware)",
    "arithmetic-error": "an arithmetic error",
    "arithmetic-error-in": "an arithmetic error in `{instruction}`",
    "divided-by-zero": "an integer was divided by 0",
    "divided-by-zero-or-overflow": "an integer was divided by 0, or the quotient is too large",
    "quotient-too-large": "the quotient of a division by {divisor} is too large for its register",
    "stopped-itself": "the program trapped (`{instruction}`): compilers emit it for code that must not be reached, "
                      "such as __builtin_trap() or a missing return",
    "unreadable-instruction": "the processor refused an instruction, which cannot be read",
    "not-an-instruction": lambda bytes, needs: (
        f"the disassembler does not know the instruction {bytes}; its prefix is {needs}, which the processor may lack"
        if needs else f"ran bytes that are not an instruction ({bytes}): it jumped into data or between instructions"),
    "unsupported-instruction": lambda instruction, bytes, needs: (
        f"the processor does not have the instruction `{instruction}` ({bytes}"
        + (f"; {needs}" if needs else "") + "): the code was built for another one"),
    "breakpoint-instruction": "a breakpoint instruction that no debugger set: __builtin_debugtrap() or an "
                              "assertion",
    "forbidden-system-call": lambda number, name=None: (
        f"system call {f'{name}()' if name else number} is forbidden by a seccomp filter"),
    "only-null-is-so-low": "only a null pointer leads to such a low address",
    "just-below-stack": "the address is just below the stack that the thread uses",
    "faults-again": "a handler sent the signal again and returned; the instruction faults each time that it runs",
    "rust-out-of-memory": lambda size: (
        "Rust ended the program because memory could not be allocated" + (f": {size:,} bytes" if size else "")),
    "abort-after": "the program called abort() after it wrote: {message}",
    "written-before": "the code before the call wrote the message",
    "fatal-message": "the program logged a fatal message and called abort(): {message}",
    "stream-of-logger": "the message is stored in the object whose function called abort()",
    "called-abort": "the program called abort()",
    "glue-aborted": "{library} called abort(): what describes the call or the callback is damaged; a callback must be "
                    "kept alive as long as it can be called",
    "glue-passes-calls": "the library only passes calls on, and ends the program if their types are impossible",
    "handler-ended": lambda signal, of, function, text: (
        f"then its handler{f', {function},' if function else ''} ended the program with {signal}"
        + (f": {text}" if text else "")),
    "c-library-ended": "the C library ended the program: {message}",
    "heap-damaged": "the C library ended the program: {message}. The heap was found damaged here; the write or free() "
                    "that damaged it may have been earlier and in other code",
    "damaged-header": lambda fault, block, size, text: (
        f"{fault}. The header before block {block:#x} contains the impossible size {size:#x}"
        + (f"; the text {text!r} ends there" if text else "")),
    "invalid-pointer-freed": "the C library ended the program: {message}: what was freed is not from malloc(), or the "
                             "heap was damaged earlier and in other code",
    "block-before": _block_before,
    "pointers-to-block": lambda block, pointers: f"pointers to block {block:#x} are {_listed(pointers)}",
    "freed-no-block": "the C library ended the program: {message}. {address:#x} was passed to free(), but malloc() has "
                      "not returned it: {what}",
    "not-aligned-block": "it is not a multiple of 16, so it is inside of a block, or not from malloc()",
    "first-fault": "the handler ran because of an earlier fault: {signal} in {function}, {fault}",
    "python-caller": lambda thread, function, library, caller, file, line: (
        f"thread {thread} is in {f'{function} of ' if function else ''}the same library {library}, called by {caller} "
        f"at {file}:{line}"),
    "interpreter-data-damaged": "the interpreter used only its own data here: other code, such as an extension or a "
                                "ctypes call, has probably damaged it earlier",
    "cxx-assertion": lambda message: f"the C++ library ended the program: {message or 'an assertion failed'}",
    "sanitizer-ended": lambda name, found_race: (
        f"{name} ended the program" + (": it found a data race" if found_race else "")
        + "; its report is the last thing that the program wrote to standard error"),
    "rust-panic": lambda file, line, column, message: (
        f"a Rust panic at {file}:{line}:{column}: {message or 'its message is not known'}"),
    "first-rust-panic": lambda message, second, file, line, column: (
        "a Rust panic" + (f" at {file}:{line}:{column}" if file else "")
        + f": {message or 'its message is not known'}; it could not unwind ({second or 'Rust panicked again'})"),
    "panic-in-flight": "the panic in flight was found in memory, and its location on the stack",
    "terminate-called": _terminate_called,
    "terminate-in-handler": lambda type, text: (
        "the program called std::terminate() while it handled " + _exception(type, text)),
    "terminate-by-program": "the program called std::terminate()",
    "joinable-thread": lambda assigned: (
        "std::terminate() was called: a std::thread was " + ("assigned to" if assigned else "destroyed")
        + " while it was joinable, before join() or detach() was called"),
    "pure-virtual": "a pure virtual function was called: its object is being constructed or destroyed, or was "
                    "destroyed",
    "pure-virtual-of": "a pure virtual function of class {type} was called: its object {object:#x} is being "
                       "constructed or destroyed, so it has the virtual functions of {type} only",
    "python-ended": lambda message: f"Python ended the program: {message or 'a fatal error'}",
    "about-object": lambda fault, object, type, certain: (
        f"{fault} ({'' if certain else 'probably '}object {object:#x} of type {type})"),
    "file-lock-owned": lambda fault, thread, function: (
        f"{fault}; thread {thread} owns the lock of that file" + (f", and is in {function}" if function else "")),
    "panic-on-stack": "the panic's message and location were found on the stack",
    "values-not-found": "the message is the one in the code; the values in it were not found",
    "message-nearest-on-stack": "the messages are those nearest to the call of abort() on the stack",
    "api-without-interpreter": _CALL + "though Python is finalised, or not initialised",
    "api-during-finalisation": _CALL + "while thread {finalizer} finalises Python",
    "api-without-thread-state": _CALL + "but has no thread state: it has not called PyGILState_Ensure(), or has "
                                "released what that gave it",
    "api-not-attached": _CALL + "but its thread state is {state}: it must be attached to use objects",
    "api-without-gil": _without_gil,
    "blocked-with-gil": _blocked_with_gil,
    "not-an-object": _not_an_object,
    "no-interpreter": "the runtime has no interpreter",
    "no-thread-state": "no interpreter has a thread state for this thread",
    "object-in-variable": "a variable refers to it, and no live object has such a header",
    "type-read-there": "the interpreter read a bad pointer from where an object has its type, and no live object has "
                       "such a header",
    "header-of-freed": "its type is still there, and no live object has such a reference count",
    "object-filled": "it contains {pattern}",
    "object-in-free-list": "its first word is the address of another block, as in a free list of the Python "
                           "allocator: it was freed",
    "object-in-malloc-list": "its first word is a link of malloc's free list: it was freed",
    "bad-reference-count": "its reference count is {count}",
    "type-filled": "its type pointer is {pattern}",
    "type-unreadable": "its type pointer {type:#x} does not lead to a readable type",
    "not-a-type": "its type pointer {type:#x} does not lead to a type",
    "in-register": lambda register: f"in {_name(register)}",
    "on-its-stack": lambda function, module: (
        f"on its stack, in {f'{function}()' if function else module or 'code in no file'}"),
    "has-the-object": "has {address:#x} {place}: {what}, which the fault was about",
    "has-object-nearby": "has {address:#x} {place}, as the thread that died ({what})",
    "leads-to-object": _leads_to,
    "same-python-object": "has the Python object {address:#x} too: it is {name}, a {type}, and the other thread's "
                          "{other_name}",
    "same-function": "is in {function} too",
    "same-class": "is in {function}, of the same class {type}",
    "same-library": "is in {function}, of the same library {library}",
    "both-hold": lambda locks: f"both hold {_locks(locks)}",
    "one-in-critical-section": "one of them is in a critical section of the object, the other is not",
    "no-common-lock": "no lock in common",
    "no-common-lock-or-section": "no lock in common and no critical section",
    "holds-locks": lambda thread, locks: f"thread {thread} holds {_locks(locks)}",
    "both-attached": "both are attached and run at the same time",
    "released-gil": "thread {thread} has released it",
    "runs-without-gil": "thread {thread} runs without the GIL",
    "not-a-python-thread": "thread {thread} is not a Python thread",
    "libraries-not-listed": lambda why, libraries, more: (
        f"{why}; so {_list(libraries, more)} may have no names, their data is not decoded, and stacks may end there"),
    "core-cut-off": "{why}; the rest cannot be read",
    "file-missing": lambda path, build_id: (
        f"{path}{f' (build id {build_id})' if build_id else ''}: frames in it have no names, and the stack may end "
        "there"),
    "files-missing": lambda files, more: f"files that were mapped and are not on this machine: {_list(files, more)}",
}
