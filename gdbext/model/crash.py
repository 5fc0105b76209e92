"""What a report says about a crash: the fault, broken rules, and threads that may have raced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from gdbext.model.evidence import RECORDED, Evidence
from gdbext.model.frames import Frame, MixedStack
from gdbext.model.reasons import Reason
from gdbext.record import record


@record
class Operand:
    """A value that the faulting instruction used: a register's, or an address made of registers.

    `what` describes the memory at that value; `came_from` how the value got there, the latest step first.
    """

    text: str
    value: int
    what: Reason | None = None
    came_from: tuple[Reason, ...] = ()


@record
class Fault:
    """What stopped the program.

    `signal` is its name, `code` that of ``si_code``; `sender` is the process (and user) that sent it, if one did.
    `kind` is one of the words of docs/json.md, `text` describes the fault. `address` is what was accessed, `access`
    how (``read``, ``write``, ``execute``), `size` how many bytes. `message` is what the program left to be read about
    it. `in_handler` is true if a handler of the signal was running: registers are those from before it.
    """

    signal: str
    code: str | None
    kind: str
    text: Reason
    evidence: Evidence = RECORDED
    why: Reason | None = None
    sender: tuple[int, int] | None = None
    address: int | None = None
    access: str | None = None
    size: int | None = None
    pc: int = 0
    instruction: str | None = None
    operands: tuple[Operand, ...] = ()
    registers: Mapping[str, int] = field(default_factory=dict)
    message: str | None = None
    in_handler: bool = False


@record
class Handler:
    """A running signal handler: the kernel called it, not the code that it interrupted.

    `frame` is the handler's frame and `interrupted` that of the code that it interrupted, by their index in the stack.
    `signal` is the name of its signal, None if it was installed without SA_SIGINFO.
    """

    frame: int
    interrupted: int
    signal: str | None = None


@record
class Recursion:
    """Calls that repeat: `round` are the frames of one round, by their index in the stack, `rounds` how often they do.

    `frames` counts the native ones; of a stack that was not read to its end (not `whole`) `used` bytes say how deep it
    may be. `begun_in` are the innermost frames outside of the recursion, those that have begun it, if they are known.
    """

    round: tuple[int, ...]
    rounds: int
    frames: int
    whole: bool
    used: int | None = None
    begun_in: tuple[Frame, ...] = ()


@record
class Finding:
    """A rule that a thread has broken (None: no particular one). `rule` is one of the words of docs/json.md."""

    rule: str
    thread: int | None
    text: Reason
    evidence: Evidence = RECORDED
    why: Reason | None = None


@record
class Suspect:
    """A thread that may have raced with the one that died, with the reasons to think so, strongest first.

    `covered` says which synchronisation both threads had in common, or that there was none, and what else was held.
    """

    thread: int
    reasons: tuple[Reason, ...]
    covered: tuple[Reason, ...]
    common_locks: tuple[str, ...] = ()


@record
class Crash:
    """Why a thread died: the fault, its stack, rules that were broken, and suspects of a race.

    `guilty` is the frame of the stack, by index, to read first; `missing` lists the files and the parts of the core
    that are missing. `handlers` are the signal handlers that run on the stack, innermost first. `aftermath` says how a
    handler of the fault has ended the program, if it did. `notes`: what else is known, such as an earlier fault.
    """

    thread: int
    fault: Fault
    stack: MixedStack
    guilty: int | None = None
    recursion: Recursion | None = None
    findings: tuple[Finding, ...] = ()
    suspects: tuple[Suspect, ...] = ()
    missing: tuple[Reason, ...] = ()
    handlers: tuple[Handler, ...] = ()
    aftermath: Reason | None = None
    notes: tuple[Reason, ...] = ()
