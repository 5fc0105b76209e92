"""The codes of reasons that a report of a crash contains; `gdbext.narrate.crash` has their sentences."""

from __future__ import annotations

from typing import Literal

CrashCode = Literal[
    # functions
    "function", "unnamed-function",
    # what is at an address
    "null", "small-number", "not-canonical", "fill-pattern", "code-in", "data-in", "not-readable", "not-mapped",
    "on-stack-of", "python-object", "freed-python-object", "cpp-object", "mapped-file", "inaccessible-memory",
    "freed-memory", "malloc-block",
    "read-from-freed", "link-of-malloc", "read-from-none", "heap", "mapping", "memory",
    "memory-holding",
    # how a value got into a register
    "in-caller", "uncertain-origin", "argument", "constant", "result", "computed", "loaded",
    # what a signal or an instruction did
    "stopped-by-signal", "sender-unknown", "sent-by-own-thread", "sent-by-itself", "sent-by-process",
    "accessed", "refused-instruction",
    "null-pointer", "null-member", "null-element", "bad-register", "not-canonical-sum", "stack-used-up",
    "misaligned-for", "misaligned",
    "index-out", "link-used", "links-are-combined",
    "truncated-pointer", "returned-null", "frame-too-large", "returned-to-bad-address", "unloaded-code",
    "file-size-limit", "cpu-time-limit", "floating-point-error",
    "protection-key", "mapped-since", "forbidden", "forbidden-then", "allowed-only", "nothing-mapped",
    "called-null", "called-bad-address", "ran-data", "file-too-short", "no-page", "no-page-or-end", "no-memory-behind",
    "faulty-memory",
    "arithmetic-error", "arithmetic-error-in", "divided-by-zero", "divided-by-zero-or-overflow", "quotient-too-large",
    "stopped-itself",
    "unreadable-instruction", "not-an-instruction", "unsupported-instruction", "breakpoint-instruction",
    "forbidden-system-call",
    # how the fault is known
    "only-null-is-so-low", "just-below-stack", "faults-again", "handler-ended",
    "whole-pointer-fits", "frame-below-stack", "thread-started-there", "registered-there",
    "file-is-longer", "freed-large-block", "block-at-page",
    # what the program said when it aborted
    "glue-aborted", "glue-passes-calls",
    "called-abort", "rust-out-of-memory", "abort-after", "written-before", "fatal-message", "stream-of-logger",
    "c-library-ended", "heap-damaged", "damaged-header", "cxx-assertion", "sanitizer-ended", "rust-panic",
    "terminate-called", "terminate-in-handler",
    "terminate-by-program", "joinable-thread", "pure-virtual", "pure-virtual-of", "python-ended", "about-object",
    "file-lock-owned",
    "panic-on-stack", "first-rust-panic", "panic-in-flight", "values-not-found", "message-nearest-on-stack",
    # what else is known
    "first-fault", "python-caller", "interpreter-data-damaged", "block-before", "pointers-to-block", "freed-no-block",
    "not-aligned-block", "invalid-pointer-freed",
    # rules of the C API
    "api-without-interpreter", "api-during-finalisation", "api-without-thread-state", "api-not-attached",
    "api-without-gil", "blocked-with-gil", "not-an-object", "no-interpreter", "no-thread-state", "object-in-variable",
    "type-read-there", "header-of-freed",
    # why an object cannot be alive
    "object-filled", "object-in-free-list", "object-in-malloc-list", "bad-reference-count", "type-filled",
    "type-unreadable", "not-a-type",
    # why another thread is a suspect, and which synchronisation the two had
    "in-register", "on-its-stack", "has-the-object", "has-object-nearby", "leads-to-object", "same-python-object",
    "same-function", "same-class", "same-library", "both-hold", "one-in-critical-section", "no-common-lock",
    "no-common-lock-or-section", "holds-locks", "both-attached", "released-gil", "runs-without-gil",
    "not-a-python-thread",
    # what is missing
    "libraries-not-listed", "core-cut-off", "file-missing", "files-missing",
]
