"""What a report of a crash says, and in which order. Text from the target is not escaped here."""

from __future__ import annotations

from collections.abc import Iterator

from gdbext.model import RECORDED, Crash, Fault, Finding, Frame, Operand, PyFrame, Suspect
from gdbext.model.reasons import Reason
from gdbext.narrate.reasons import explain

#: What each rule is called.
RULES = {
    "no-thread-state": "Without a thread state", "without-gil": "Without the GIL",
    "after-finalisation": "After finalisation", "impossible-object": "Dead object",
    "blocks-with-gil": "Blocks with the GIL",
}
SUSPECTS = "Suspects of a race, the likeliest first (what they were doing at that moment):"
IN_HANDLER = ", whose handler of the signal was running"
#: How many functions of a recursion are named.
_MAX_NAMES = 6


def signal_code(fault: Fault) -> str:
    """The ``si_code`` behind the name of the signal; empty where it says nothing about the fault."""
    return f" ({fault.code})" if fault.code and fault.sender is None and fault.code != "SI_TKILL" else ""


def known_by(evidence: str, why: Reason | None) -> str:
    """How a statement is known, behind it; empty where it is recorded."""
    if evidence == RECORDED:
        return ""
    return f" ({evidence}: {explain(why)})" if why is not None else f" ({evidence})"


def circumstances(crash: Crash) -> Iterator[str]:
    """The sender of the signal, the place in the program, and recursion."""
    fault, recursion = crash.fault, crash.recursion
    if fault.sender is not None:
        yield f"sent by process {fault.sender[0]} of user {fault.sender[1]}"
    if crash.guilty is not None:
        python = next((frame for frame in crash.stack.frames[crash.guilty:] if isinstance(frame, PyFrame)), None)
        frame = crash.stack.frames[crash.guilty]
        callers = [_place(frame, _name(crash, crash.guilty))] if frame is not python else []
        callers += [_place(python, python.function)] if python is not None else []
        yield "in " + ", called by ".join(callers)
    if recursion is not None:
        least = "" if recursion.whole else "at least "
        names = list(dict.fromkeys(_name(crash, index) for index in recursion.round))
        more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
        yield (f"recursion: {least}{recursion.frames:,} native frames; {least}{recursion.rounds:,} times "
               + " <- ".join(_cut(name, 80) for name in names[:_MAX_NAMES]) + more)
        if recursion.used is not None:
            yield f"{recursion.used >> 10:,} KiB of the stack are in use"


def _place(frame: Frame, name: str) -> str:
    name = _cut(name, 200)
    if isinstance(frame, PyFrame) or frame.file and frame.line:
        return f"{name} at {frame.file}:{frame.line}"
    return f"{name} in {frame.module}" if frame.module else name


def _cut(name: str, limit: int) -> str:
    return name if len(name) <= limit else name[:limit] + "..."


def _name(crash: Crash, index: int) -> str:
    """A frame's function as its own language has it."""
    frame = crash.stack.frames[index]
    if isinstance(frame, PyFrame):
        return f"{frame.function} (Python)"
    at = 0
    for part in crash.stack.parts:
        if at == index and part.name is not None:
            return f"{part.name}()"
        at += len(part.frames)
    return f"{frame.function}()" if frame.function else f"{frame.pc:#x}"


def operand_value(operand: Operand) -> str:
    """An operand with its value, and what is there."""
    return f"{operand.text} = {operand.value:#x}" + (f": {explain(operand.what)}" if operand.what is not None else "")


def came_from(operand: Operand) -> str | None:
    """How a value got into its register, on one line."""
    return "; ".join(map(explain, operand.came_from)) if operand.came_from else None


def finding_text(finding: Finding) -> str:
    """What a thread did, behind its name, and how that is known."""
    return explain(finding.text) + known_by(finding.evidence, finding.why)


def covered(suspect: Suspect) -> str:
    """The synchronisation that a suspect and the thread that died had in common; without any, what each held."""
    parts = (suspect.covered[:1], suspect.covered[1:])
    return ": ".join(", ".join(map(explain, part)) for part in parts if part)
