"""What a report of a crash says, and in which order."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gdbext.model import INFERRED, Crash, Fault, Finding, Frame, Operand, PyFrame, Suspect
from gdbext.model.frames import library_of
from gdbext.narrate.frames import frame_name, inlined_of_program, numbered
from gdbext.narrate.names import Facts, thread_name
from gdbext.narrate.reasons import explain
from gdbext.narrate.threads import doing
from gdbext.narrate.words import Foreign, Marked, Words, capitalised, known_by, listed, reason

#: The title of each rule.
_RULES = {
    "no-thread-state": "Without a thread state", "without-gil": "Without the GIL",
    "after-finalisation": "After finalisation", "impossible-object": "Dead object",
    "blocks-with-gil": "Blocks with the GIL",
}
#: The same of the thread that died, in a headline: for proven and for inferred statements.
_HEADLINES = {
    "no-thread-state": "which called Python without a thread state",
    "without-gil": "which called Python without the GIL",
    "after-finalisation": "which called Python after its finalisation",
    "impossible-object": "which used a Python object that was freed",
}
#: Reasons for a suspicion that are about the fault itself.
_STRONG = frozenset(("has-the-object", "same-function", "same-python-object"))
SUSPECTS = "Suspects of a data race, the likeliest first, with what each was doing:"
#: How many frames that have begun a recursion are named.
_MAX_BEGUN = 3
#: How many suspects are named above the stack.
_MAX_SUSPECTS = 4
#: How many functions of a recursion are named.
_MAX_NAMES = 6
#: Names longer than this are shown without the arguments of templates, which contain no others.
_LONG, _ARGUMENTS = 80, re.compile(r"<[^<>]*>")


def title(facts: Facts, crash: Crash) -> Words:
    """The signal and the thread that it stopped."""
    fault = crash.fault
    # the si_code of a signal that was sent says nothing about the fault
    code = f" ({fault.code})" if fault.code and fault.sender is None and fault.code != "SI_TKILL" else ""
    handler = ", while a signal handler was running" if fault.in_handler else ""
    return (Marked("bad", (fault.signal,)), f"{code} in ", *thread_name(facts, crash.thread), handler)


def fault_text(fault: Fault, limit: int = 1000, before: str = "") -> Foreign:
    """The fault in a sentence on one line, though the program's message may have several.

    :param before: what follows the sentence; the message does not end with it.
    """
    return Foreign(" ".join(explain(fault.text).split()).removesuffix(before), limit)


def what_happened(crash: Crash) -> Words:
    """The fault in a sentence, and how it is known."""
    fault = crash.fault
    return (Marked("bad", (fault_text(fault),)), *known_by(fault.evidence, fault.why))


def own_findings(crash: Crash) -> list[Finding]:
    """The rules that the thread broke at the moment when it died."""
    return [finding for finding in crash.findings if finding.thread == crash.thread and finding.rule in _HEADLINES]


def rule_in_headline(crash: Crash) -> str:
    """The rule that the thread that died broke, to follow its name; empty if it broke none."""
    found = [each for each in own_findings(crash) if dict(each.text.arguments).get("used", 1)]
    proven = [each for each in found if each.evidence != INFERRED]
    rule = next((_HEADLINES[each.rule] for each in proven or found), "")
    return f", {rule if proven else rule.replace('which ', 'which probably ')}" if rule else ""


def circumstances(crash: Crash) -> Iterator[str]:
    """The sender of the signal, the place in the program, and any recursion; text from the target is not escaped."""
    fault, recursion, stack = crash.fault, crash.recursion, crash.stack.frames
    if fault.sender is not None and fault.text.code != "sent-by-itself":
        yield f"sent by process {fault.sender[0]} of user {fault.sender[1]}"
    yield from _places(crash)
    if crash.aftermath is not None:
        yield explain(crash.aftermath)
    yield from map(explain, crash.notes)
    if recursion is not None:
        least = "" if recursion.whole else "at least "
        names = list(dict.fromkeys(_name(crash, index) for index in recursion.round if index < len(stack)))
        more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
        yield (f"recursion: {least}{recursion.frames:,} native frames; {least}{recursion.rounds:,} times "
               + " <- ".join(_cut(name, 80) for name in names[:_MAX_NAMES]) + more)
        begun = [_place(frame, frame.function if isinstance(frame, PyFrame) else frame_name(frame))
                 for frame in recursion.begun_in[:_MAX_BEGUN]]
        if begun:
            yield "begun by " + ", called by ".join(begun)
        if recursion.used is not None:
            yield f"{recursion.used >> 10:,} KiB of the stack are in use"


def _places(crash: Crash) -> Iterator[str]:
    """The place of the fault in the program, and the handlers that ran there with the code that they interrupted."""
    stack = crash.stack.frames
    if crash.guilty is not None and crash.guilty < len(stack):  # a document contains only the first frames
        end = next((each.interrupted for each in crash.handlers if each.interrupted > crash.guilty), len(stack))
        called = _called(crash, crash.guilty, end)
        if called is not None:
            yield f"in {called}"
    ends = [*(each.interrupted for each in crash.handlers[1:]), len(stack)]
    for handler, end in zip(crash.handlers, ends):
        of = f" of {handler.signal}" if handler.signal is not None else ""
        name = f"the handler{of}, {_place(stack[handler.frame], _name(crash, handler.frame))}" \
            if 0 <= handler.frame < len(stack) else f"a handler{of}"
        interrupted = _called(crash, handler.interrupted, end)
        yield f"in {name}" + (f", which interrupted {interrupted}" if interrupted is not None else "")


def _called(crash: Crash, index: int, end: int) -> str | None:
    """A frame, and the innermost Python frame that called it; None if the frame is not known."""
    stack = crash.stack.frames
    frames = stack[index:end]
    if not frames:
        return None
    python = next((frame for frame in frames if isinstance(frame, PyFrame)), None)
    callers = [_place(frames[0], _name(crash, index))] if frames[0] is not python else []
    inlined = inlined_of_program(frames[0])
    if inlined is not None:
        at = f" at {inlined.file}:{inlined.line}" if inlined.file and inlined.line else ""
        callers[0] = f"{_cut(inlined.function, 200)}(){at}, inlined into {callers[0]}"
    callers += [_place(python, python.function)] if python is not None else []
    if python is not None and library_of(python) is not None:
        own = next((frame for frame in frames if isinstance(frame, PyFrame) and library_of(frame) is None), None)
        callers += [_place(own, own.function)] if own is not None else []
    return ", called by ".join(callers)


def _place(frame: Frame, name: str) -> str:
    name = _cut(name, 200)
    if isinstance(frame, PyFrame) or frame.file and frame.line:
        return f"{name} at {frame.file}:{frame.line}"
    return f"{name} in {frame.module}" if frame.module else name


def _cut(name: str, limit: int) -> str:
    if len(name) > _LONG and "operator" not in name:
        inner = _ARGUMENTS.sub("\0", name)
        while inner != name:
            name, inner = inner, _ARGUMENTS.sub("\0", inner)
        name = name.replace("\0", "<...>")
    return name if len(name) <= limit else name[:limit] + "..."


def _name(crash: Crash, index: int) -> str:
    """The name of a frame's function in its source language."""
    frame = crash.stack.frames[index]
    if isinstance(frame, PyFrame):
        return f"{frame.function} (Python)"
    name = next((part.name for at, part in numbered(crash.stack.parts) if at == index), None)
    return f"{name}()" if name is not None else frame_name(frame)


def came_from(operand: Operand) -> str | None:
    """How a value got into its register, on one line."""
    return "; ".join(map(explain, operand.came_from)) if operand.came_from else None


def broken_rule(facts: Facts, finding: Finding) -> Words:
    """The rule, the thread that broke it and how, and how that is known."""
    thread: Words = (*thread_name(facts, finding.thread), " ") if finding.thread is not None else ()
    rule = Marked("bad", (_RULES.get(finding.rule) or Foreign(finding.rule),))
    return (rule, ": ", *thread, reason(finding.text), *known_by(finding.evidence, finding.why))


def suspect_title(facts: Facts, suspect: Suspect) -> Words:
    """The name of a suspect, and what it was doing."""
    thread = facts.threads.get(suspect.thread)
    name = Marked("name", capitalised(thread_name(facts, suspect.thread)))
    return (name, *((" ", *doing(facts, thread)) if thread is not None else ()))


def likely_suspects(facts: Facts, crash: Crash) -> Words:
    """The threads that may have raced, if the likeliest is one that stands beside the fault; empty without any.

    Of several, each may be innocent, so only one that is alone has its reason here.
    """
    first = next(iter(crash.suspects), None)
    if first is None or first.reasons[0].code not in _STRONG:
        return ()
    if len(crash.suspects) == 1:
        return ("may have raced with ", *thread_name(facts, first.thread), ", which ", reason(first.reasons[0]))
    names = [thread_name(facts, suspect.thread) for suspect in crash.suspects[:_MAX_SUSPECTS]]
    more = "" if len(names) == len(crash.suspects) else f" and {len(crash.suspects) - len(names)} more"
    return ("may have raced with one of these: ", *listed(names), more)


def suspicions(suspect: Suspect) -> list[str]:
    """Why a thread is a suspect, and the synchronisation that it shared with the thread that died; a line each."""
    return [*map(explain, suspect.reasons), covered(suspect)]


def covered(suspect: Suspect) -> str:
    """The synchronisation that a suspect and the thread that died had in common; without any, what each held."""
    parts = (suspect.covered[:1], suspect.covered[1:])
    return ": ".join(", ".join(map(explain, part)) for part in parts if part)
