"""The table of schema ``gdbext/1``: for each class of the model, the members of its JSON object, in their order.

The meaning of a member never changes without a new version of the schema. Members that came later are `optional`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

from gdbext import model
from gdbext.errors import BadDocument
from gdbext.model import Frame, InlinedCall, Local, MixedStack, NativeFrame, Part, PyFrame, Thread
from gdbext.model.crash import Crash, Fault, Finding, Handler, Operand, Recursion, Suspect
from gdbext.model.verdict import Verdict
from gdbext.narrate.crash import came_from, covered
from gdbext.narrate.names import Facts
from gdbext.narrate.sentences import sentence, verdict_title
from gdbext.narrate.verdict import next_step
from gdbext.narrate.words import plain
from gdbext.schema.codec import (
    ADDRESS,
    ADDRESS_OR_NONE,
    ADDRESSES,
    FLAG,
    NUMBER,
    NUMBER_OR_NONE,
    NUMBERS,
    SECONDS,
    TEXT,
    TEXT_OR_NONE,
    TEXTS,
    Codec,
    derived,
    each,
    each_member,
    field,
    one_of,
    optional,
    or_absent,
    or_none,
    shape,
)
from gdbext.schema.reasons import NOTES, REASON, REASON_OR_NONE, REASONS, joined_reasons
from gdbext.verdict.judge import ends_by_itself

SCHEMA = "gdbext/1"
#: How many frames of a crash are listed; recursion may make a hundred thousand.
_MAX_FRAMES = 500

EVIDENCE = one_of(model.Evidence)
_MODE = one_of(model.Mode)

# -- frames ----------------------------------------------------------------------------------------------------------


def _read_columns(value: object) -> model.Columns:
    numbers = NUMBERS.read(value)
    if len(numbers) != 3:
        raise BadDocument("expected a list of 3 integers")
    return model.Columns(*numbers)


def _taken_at(function: str, qualified_name: str | None, **fields: Any) -> PyFrame:
    return PyFrame(function, function if qualified_name is None else qualified_name, **fields)


_LANGUAGE = shape(dict, language=one_of(Literal["python", "native"]))
_COLUMNS = or_none(Codec(_read_columns, list))
_PY_FRAME = shape(
    PyFrame, language=derived(lambda _: "python"), function=TEXT, qualified_name=TEXT, file=TEXT, line=NUMBER_OR_NONE,
    columns=_COLUMNS, kind=TEXT_OR_NONE)
_INLINED = each(shape(InlinedCall, function=TEXT, file=TEXT_OR_NONE, line=NUMBER_OR_NONE))
_NATIVE_FRAME = shape(
    NativeFrame, language=derived(lambda _: "native"), function=TEXT_OR_NONE, module=TEXT_OR_NONE, pc=ADDRESS,
    file=TEXT_OR_NONE, line=NUMBER_OR_NONE, inlined=or_absent(
        Codec(_INLINED.read, lambda calls: _INLINED.write(calls) or None), ()))
_TAKEN_AT = or_none(shape(
    _taken_at, function=TEXT, qualified_name=optional(TEXT), file=TEXT, line=NUMBER_OR_NONE,
    columns=optional(_COLUMNS), kind=optional(TEXT_OR_NONE)))
_LOCALS = each(shape(Local, name=TEXT, type=TEXT, value=TEXT))
_LOCALS_OF_FRAME = shape(dict, locals=optional(_LOCALS))
_LISTED_PARTS = each(shape(
    dict, first=NUMBER, frames=NUMBER, text=TEXT_OR_NONE, note=TEXT_OR_NONE, name=TEXT_OR_NONE))


def _read_frame(value: object) -> tuple[Frame, tuple[Local, ...] | None]:
    """A frame and its variables, None where the document does not list them."""
    python = _LANGUAGE.read(value)["language"] == "python"
    return (_PY_FRAME if python else _NATIVE_FRAME).read(value), _LOCALS_OF_FRAME.read(value)["locals"]


def _write_frames(stack: MixedStack) -> list[dict[str, Any]]:
    made = []
    for index, frame in enumerate(stack.frames):
        made.append((_PY_FRAME if isinstance(frame, PyFrame) else _NATIVE_FRAME).write(frame))
        if index in stack.variables:
            made[-1]["locals"] = _LOCALS.write(stack.variables[index])
    return made


def _read_parts(listed: tuple[dict[str, Any], ...], stack: tuple[Frame, ...]) -> Iterator[Part]:
    """The parts that a stack is presented as; a frame that is in none of those listed is a part by itself."""
    end = 0
    for index, words in enumerate(listed):
        first, count = words.pop("first"), words.pop("frames")
        if not end <= first < first + count <= len(stack):
            raise BadDocument("it has frames of another part, none, or more than the stack", f".parts[{index}]")
        if count > 1 and words["text"] is None:
            raise BadDocument("several frames need a text", f".parts[{index}]")
        yield from (Part((frame,)) for frame in stack[end:first])
        end = first + count
        yield Part(stack[first:end], **words)
    yield from (Part((frame,)) for frame in stack[end:])


def _write_parts(stack: MixedStack) -> list[dict[str, Any]] | None:
    """The parts of the listed frames; frames that are presented as they are need no entry."""
    made: list[dict[str, Any]] = []
    first = 0
    for part in stack.parts:
        left = len(stack.frames) - first
        if left > 0 and part != Part(part.frames[:1]):
            made.append({"first": first, "frames": min(len(part.frames), left), "text": part.text, "note": part.note,
                         "name": part.name})
        first += len(part.frames)
    return made if stack.parts else None


def _make_stack(stack: tuple[tuple[Frame, tuple[Local, ...] | None], ...], parts: tuple[dict[str, Any], ...] | None,
                **fields: Any) -> MixedStack:
    frames = tuple([frame for frame, _ in stack])
    variables = {index: variables for index, (_, variables) in enumerate(stack) if variables is not None}
    return MixedStack(frames, () if parts is None else tuple(_read_parts(parts, frames)), variables=variables, **fields)


#: The members of a thread or a crash that are a `MixedStack`.
_STACK = {"stack": Codec(each(Codec(_read_frame)).read, _write_frames, writes_record=True),
          "parts": Codec(_LISTED_PARTS.read, _write_parts, writes_record=True, default=None, omitted=True)}

# -- the process -----------------------------------------------------------------------------------------------------

_SECONDS_OR_NONE = optional(or_none(SECONDS))
_STOPPED = shape(model.Stopped, by=one_of(model.StopCause), name=TEXT_OR_NONE, pid=NUMBER_OR_NONE)
_TARGET = shape(
    model.TargetInfo, kind=one_of(model.TargetKind), pid=NUMBER, executable=TEXT_OR_NONE, architecture=TEXT,
    libc=TEXT_OR_NONE, command_line=optional(TEXT_OR_NONE), host=optional(TEXT_OR_NONE), time=_SECONDS_OR_NONE,
    paused=_SECONDS_OR_NONE, kept=optional(NUMBER_OR_NONE), whole=optional(NUMBER_OR_NONE),
    stopped=or_absent(_STOPPED))
_GIL = shape(
    model.Gil, lock=Codec(lambda value: TEXT_OR_NONE.read(value) or "", lambda lock: lock or None), address=ADDRESS,
    state=one_of(model.GilStatus), holder=NUMBER_OR_NONE, evidence=EVIDENCE, waiters=NUMBERS,
    drop_requested=or_none(FLAG), orphan=optional(REASON_OR_NONE))
_STOP_THE_WORLD = shape(model.StopTheWorld, requested=FLAG, requester=NUMBER_OR_NONE, waiting_for=NUMBERS)
_INTERPRETER = shape(model.Interpreter, id=NUMBER, address=ADDRESS, gil=_GIL, stop_the_world=_STOP_THE_WORLD)
_RUNTIME = shape(
    model.Runtime, version=TEXT, build=TEXT, address=ADDRESS, layout=TEXT, module=TEXT, finalizing=NUMBER_OR_NONE,
    interpreters=each(_INTERPRETER))
_PROBLEM = shape(model.Problem, where=TEXT, what=one_of(model.ProblemKind), why=REASON)

# -- threads ---------------------------------------------------------------------------------------------------------

_HOLD = shape(model.Hold, lock=TEXT, mode=_MODE, evidence=EVIDENCE, why=REASON_OR_NONE, taken_at=_TAKEN_AT)
_WAIT = shape(model.Wait, lock=TEXT, mode=_MODE, timed=FLAG, evidence=EVIDENCE, why=REASON_OR_NONE)
_ENDER = shape(
    model.Ender, what=one_of(model.EnderKind), seconds=or_absent(SECONDS), thread=or_absent(NUMBER),
    process=or_absent(NUMBER), evidence=EVIDENCE, why=optional(REASON_OR_NONE))
_POLLING = shape(model.Polling, frame=_PY_FRAME, seconds=_SECONDS_OR_NONE, values=optional(_LOCALS, ()))
_CRITICAL_SECTION = shape(
    model.CriticalSection, mutex=ADDRESS_OR_NONE, object=ADDRESS_OR_NONE, type=TEXT_OR_NONE, active=FLAG)
_THREAD_ITSELF = shape(
    dict, number=NUMBER, lwp=NUMBER, tid=NUMBER_OR_NONE, name=TEXT_OR_NONE, python_name=TEXT_OR_NONE,
    tstate=Codec(ADDRESS_OR_NONE.read, lambda tstate: hex(tstate) if tstate else None),
    python_state=or_none(one_of(model.PythonState)), status=one_of(model.ThreadStatus), syscall=TEXT_OR_NONE,
    blocked_on=REASON_OR_NONE, holds=each(_HOLD), waits=or_none(_WAIT),
    critical_sections=or_absent(each(_CRITICAL_SECTION)), ended_by=optional(each(_ENDER), ()), since=_SECONDS_OR_NONE,
    polling=or_absent(_POLLING), at_work=or_absent(_PY_FRAME),
    in_loop=or_absent(_PY_FRAME), takes_next=optional(FLAG, False), ident=or_absent(NUMBER))
_THREAD_STACK = shape(_make_stack, **_STACK, unmerged=optional(REASON_OR_NONE))


def _read_thread(value: object) -> Thread:
    fields = _THREAD_ITSELF.read(value)
    stack: MixedStack = _THREAD_STACK.read(value)
    variables = tuple(stack.variables.get(index, ()) for index in range(len(stack.frames)))
    return Thread(**fields, stack=stack.frames, parts=stack.parts, unmerged=stack.unmerged,
                  variables=variables if stack.variables else None)


def _write_thread(thread: Thread) -> dict[str, Any]:
    stack = MixedStack(thread.stack, thread.parts, thread.unmerged, dict(enumerate(thread.variables or ())))
    return {**_THREAD_ITSELF.write(thread), **_THREAD_STACK.write(stack)}


THREAD = Codec(_read_thread, _write_thread)


# -- locks and verdicts ----------------------------------------------------------------------------------------------

_HOLDER = shape(model.Holder, thread=NUMBER, mode=_MODE, evidence=EVIDENCE, why=REASON_OR_NONE, taken_at=_TAKEN_AT)
_WAITER = shape(model.Waiter, thread=NUMBER, mode=_MODE)
_NAMED_OBJECT = shape(model.NamedObject, type=TEXT, attribute=TEXT, value=TEXT)
# a newer report may have kinds that the table of kinds does not contain yet
_LOCK = shape(
    model.Lock, id=TEXT, kind=TEXT, address=ADDRESS, name=TEXT_OR_NONE, state=TEXT, holders=each(_HOLDER),
    waiters=each(_WAITER), candidates=NUMBERS, orphan=REASON_OR_NONE,
    orphan_evidence=optional(EVIDENCE, model.RECORDED), wait_for=one_of(model.WaitFor), shared=FLAG,
    foreign_owner=optional(NUMBER_OR_NONE), why=REASON_OR_NONE, of_object=optional(or_none(_NAMED_OBJECT)))
_EDGE = shape(
    model.Edge, waiter=NUMBER, lock=TEXT, holder=NUMBER_OR_NONE, evidence=optional(EVIDENCE, model.RECORDED),
    why=optional(REASON_OR_NONE))
_DEADLOCK = shape(
    model.Deadlock, threads=NUMBERS, evidence=EVIDENCE, edges=each(_EDGE), why=REASON_OR_NONE, stuck_behind=NUMBERS,
    standstill=FLAG)

# -- asyncio ---------------------------------------------------------------------------------------------------------


def _only_task(awaits: model.Awaited) -> str | None:
    return hex(awaits.tasks[0]) if len(awaits.tasks) == 1 and not awaits.others else None


_EVENT_LOOP = shape(model.EventLoop, id=field("address", ADDRESS), kind=TEXT, thread=NUMBER_OR_NONE,
                    watched=or_absent(NUMBER))
_AWAITED = shape(
    model.Awaited, task=derived(_only_task), tasks=ADDRESSES, other_futures=field("others", NUMBER),
    what=derived(lambda awaits: awaits.what), kind=optional(TEXT_OR_NONE), address=optional(ADDRESS_OR_NONE),
    name=optional(TEXT_OR_NONE), holders=ADDRESSES, timed=FLAG)
_TASK = shape(
    model.Task, id=field("address", ADDRESS), name=TEXT_OR_NONE, loop=ADDRESS, thread=NUMBER_OR_NONE,
    state=one_of(model.TaskStatus), stack=each(_PY_FRAME), awaits=_AWAITED, awaited_by=ADDRESSES)

# -- greenlets -------------------------------------------------------------------------------------------------------

_GREENLET_WAIT = shape(
    model.GreenletWait, what=derived(lambda waits: waits.what), kind=TEXT_OR_NONE, address=ADDRESS_OR_NONE,
    name=TEXT_OR_NONE, greenlets=ADDRESSES, others=NUMBER, locked=FLAG, holders=ADDRESSES,
    evidence=or_none(EVIDENCE), why=REASON_OR_NONE, taken_at=_TAKEN_AT, timed=FLAG)
_GREENLET = each(shape(
    model.Greenlet, id=field("address", ADDRESS), kind=TEXT, thread=NUMBER_OR_NONE, state=one_of(model.GreenletStatus),
    is_main=FLAG, waits=optional(or_none(_GREENLET_WAIT)), stack=each(_PY_FRAME)))
_GREENLETS = Codec(_GREENLET.read, lambda found: _GREENLET.write(found) or None)
_CYCLES = each(ADDRESSES)
_GREENLET_CYCLES = Codec(_CYCLES.read, lambda found: _CYCLES.write(found) or None)

# -- crashes ---------------------------------------------------------------------------------------------------------

_SENDER = Codec(shape(lambda pid, uid: (pid, uid), pid=NUMBER, uid=NUMBER).read,
                lambda sender: {"pid": sender[0], "uid": sender[1]})
_OPERAND = shape(
    Operand, text=TEXT, value=ADDRESS, what=REASON_OR_NONE, came_from=joined_reasons(TEXT_OR_NONE, came_from))
_FAULT = shape(
    Fault, signal=TEXT, code=TEXT_OR_NONE, kind=TEXT, text=REASON, evidence=EVIDENCE, why=REASON_OR_NONE,
    sender=or_none(_SENDER), address=ADDRESS_OR_NONE, access=TEXT_OR_NONE, size=NUMBER_OR_NONE, pc=ADDRESS,
    instruction=TEXT_OR_NONE, operands=each(_OPERAND), registers=each_member(ADDRESS), message=TEXT_OR_NONE,
    in_handler=FLAG)
_BEGUN = Codec(lambda value: tuple([frame for frame, _ in each(Codec(_read_frame)).read(value)]),
               lambda frames: _write_frames(MixedStack(frames)) or None)
_RECURSION = shape(
    Recursion, round=NUMBERS, rounds=NUMBER, frames=NUMBER, whole=FLAG, stack_used=field("used", NUMBER_OR_NONE),
    begun_in=or_absent(_BEGUN, ()))
_HANDLER = shape(Handler, frame=NUMBER, interrupted=NUMBER, signal=TEXT_OR_NONE)
_HANDLERS = each(_HANDLER)
_FINDING = shape(
    Finding, rule=TEXT, thread=NUMBER_OR_NONE, text=REASON, evidence=EVIDENCE, why=REASON_OR_NONE)
_SUSPECT = shape(
    Suspect, thread=NUMBER, reasons=REASONS, covered=joined_reasons(TEXT, covered), common_locks=TEXTS)
_CRASH_ITSELF = shape(
    dict, thread=NUMBER, fault=_FAULT, guilty_frame=field("guilty", NUMBER_OR_NONE), recursion=or_none(_RECURSION),
    handlers=or_absent(Codec(_HANDLERS.read, lambda found: _HANDLERS.write(found) or None), ()),
    findings=each(_FINDING), suspects=each(_SUSPECT), missing=REASONS,
    aftermath=or_absent(REASON), notes=NOTES)
_CRASH_STACK = shape(
    _make_stack, **_STACK, frames_left_out=field("left_out", NUMBER), unmerged=REASON_OR_NONE)


def _read_crash(value: object) -> Crash:
    return Crash(**_CRASH_ITSELF.read(value), stack=_CRASH_STACK.read(value))


def _write_crash(crash: Crash) -> dict[str, Any]:
    stack = crash.stack
    listed = replace(stack, frames=stack.frames[:_MAX_FRAMES],
                     left_out=stack.left_out + max(0, len(stack.frames) - _MAX_FRAMES))
    return {**_CRASH_ITSELF.write(crash), **_CRASH_STACK.write(listed)}


# -- the verdict -----------------------------------------------------------------------------------------------------

_SOME_ADDRESSES = Codec(ADDRESSES.read, lambda found: ADDRESSES.write(found) or None)
# a newer report may have a kind that is not known yet
_VERDICT_ITSELF = shape(
    Verdict, kind=TEXT, threads=NUMBERS, behind=NUMBERS, tasks=ADDRESSES, greenlets=or_absent(_SOME_ADDRESSES, ()),
    evidence=or_none(EVIDENCE))


def _write_verdict(report: model.Report) -> dict[str, Any]:
    facts = Facts(report)
    return {"title": verdict_title(facts.verdict), "sentence": plain(sentence(facts)),
            "ends_by_itself": ends_by_itself(facts.report), "next": next_step(facts) or None,
            **_VERDICT_ITSELF.write(facts.verdict)}


# -- ranks of a job --------------------------------------------------------------------------------------------------

IDENTITY = shape(
    model.Identity, rank=NUMBER_OR_NONE, size=NUMBER_OR_NONE, local_rank=NUMBER_OR_NONE, launcher=TEXT_OR_NONE,
    run=TEXT_OR_NONE, role=TEXT_OR_NONE, local_size=NUMBER_OR_NONE)
OPERATION = shape(
    model.Operation, name=TEXT, number=NUMBER_OR_NONE, is_pair=FLAG, shape=NUMBERS, of=TEXT_OR_NONE,
    begun=or_none(SECONDS), finished=FLAG, peer=NUMBER_OR_NONE, backend=TEXT_OR_NONE)
GROUP = shape(
    model.Group, name=TEXT, description=TEXT_OR_NONE, members=or_none(NUMBERS), pending=each(OPERATION),
    last=or_none(OPERATION), evidence=EVIDENCE)
_RANK = shape(model.Rank, identity=IDENTITY, groups=each(GROUP), awaited=or_none(OPERATION))

# -- known bugs ------------------------------------------------------------------------------------------------------

_KNOWN = each(shape(
    model.KnownBug, id=TEXT, title=TEXT, url=TEXT, package=TEXT, version=TEXT_OR_NONE, fixed_in=field("fixed", TEXT),
    agree=NUMBER, facts=NUMBER, workaround=TEXT_OR_NONE))

# -- the report ------------------------------------------------------------------------------------------------------

HEAD = shape(dict, schema=Codec(one_of(Literal["gdbext/1"]).read, lambda _: SCHEMA, writes_record=True), target=_TARGET)
#: Members of the document by the part that they belong to; each stands for a field of the report.
PARTS_OF_REPORT = {
    "runtimes": shape(dict, runtimes=optional(each(_RUNTIME), ()), rank=or_absent(_RANK)),
    "threads": shape(dict, threads=optional(each(THREAD), ())),
    "locks": shape(dict, locks=optional(each(_LOCK), ())),
    "deadlocks": shape(dict, deadlocks=optional(each(_DEADLOCK), ()), no_verdict=optional(REASON_OR_NONE),
                       verdict=Codec(_VERDICT_ITSELF.read, _write_verdict, writes_record=True, default=None)),
    "tasks": shape(dict, event_loops=optional(each(_EVENT_LOOP), ()), tasks=optional(each(_TASK), ()),
                   task_cycles=optional(each(ADDRESSES), ())),
    "greenlets": shape(dict, greenlets=or_absent(_GREENLETS, ()), greenlet_cycles=or_absent(_GREENLET_CYCLES, ())),
    "crash": shape(dict, crash=or_absent(Codec(_read_crash, _write_crash))),
    "known": shape(dict, known=or_absent(Codec(_KNOWN.read, lambda found: _KNOWN.write(found) or None), ())),
    "problems": shape(dict, problems=each(_PROBLEM), notes=NOTES),
}
