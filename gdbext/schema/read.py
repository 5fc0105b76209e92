"""Reports from JSON, schema ``gdbext/1``: the way back from `gdbext.schema.write`.

A document may be older than this version of gdbext, or newer, or come from somebody who means harm. Members that are
not known are ignored, and members that the schema began without may be missing. Everything else is checked, and a
document that is not as the schema describes it raises `BadDocument` and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar, cast, get_args

from gdbext.errors import BadDocument
from gdbext.model import (
    RECORDED,
    Awaited,
    Columns,
    Crash,
    CriticalSection,
    Deadlock,
    Edge,
    EventLoop,
    Evidence,
    Fault,
    Finding,
    Frame,
    Gil,
    GilStatus,
    Hold,
    Holder,
    Interpreter,
    Local,
    Lock,
    MixedStack,
    Mode,
    NativeFrame,
    Operand,
    Part,
    Problem,
    ProblemKind,
    PyFrame,
    PythonState,
    Recursion,
    Report,
    Runtime,
    StopTheWorld,
    Suspect,
    TargetInfo,
    TargetKind,
    Task,
    TaskStatus,
    Thread,
    ThreadStatus,
    Wait,
    Waiter,
    WaitFor,
)
from gdbext.model.kinds import LockKind
from gdbext.model.reasons import Argument, Reason, ReasonCode, because
from gdbext.narrate.reasons import explain
from gdbext.schema.write import SCHEMA

_T = TypeVar("_T")
#: How deep reasons may be within reasons.
_MAX_DEPTH = 8
_ADDRESS = re.compile(r"0x[0-9a-f]+")


def read_document(document: object) -> Report:
    """The report that a document describes; a part that the document leaves out is empty.

    :param document: what `json.loads` returns.
    :raises BadDocument: the document does not follow the schema; the message contains the path of the bad part.
    """
    made = _Object(document)
    made.get("schema", _one_of(SCHEMA))
    return Report(
        made.get("target", _target),
        made.optional("runtimes", _each(_runtime), ()),
        made.optional("threads", _each(_thread), ()),
        made.optional("locks", _each(_lock), ()),
        made.optional("deadlocks", _each(_deadlock), ()),
        made.get("problems", _each(_problem)),
        _with_codes(made.optional("notes", _texts, ()), made.optional("note_codes", _codes, ())),
        made.reason("no_verdict", optional=True),
        made.optional("event_loops", _each(_event_loop), ()),
        made.optional("tasks", _each(_task), ()),
        made.optional("task_cycles", _each(_addresses), ()),
        made.optional("crash", _crash, None),
    )


# -- values ------------------------------------------------------------------------------------------------------


def _unexpected(expected: str, value: object) -> BadDocument:
    # the value itself may be long, or contain control characters
    return BadDocument(f"expected {expected}, found a value of type {type(value).__name__}")


def _inside(step: str, read: Callable[[object], _T], value: object) -> _T:
    """Read a part of a value; `step` leads from the value to the part."""
    try:
        return read(value)
    except BadDocument as error:
        raise BadDocument(error.what, step + error.path) from None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise _unexpected("a string", value)
    return value


def _integer(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _unexpected("an integer", value)
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise _unexpected("true or false", value)
    return value


def _address(value: object) -> int:
    text = _text(value)
    if _ADDRESS.fullmatch(text) is None:
        raise BadDocument('expected an address such as "0x7f30"')
    return int(text, 16)


def _one_of(*values: _T) -> Callable[[object], _T]:
    def read(value: object) -> _T:
        if value not in values:
            raise BadDocument("expected " + " or ".join(f'"{each}"' for each in values))
        return values[values.index(value)]

    return read


def _or_none(read: Callable[[object], _T]) -> Callable[[object], _T | None]:
    return lambda value: None if value is None else read(value)


def _each(read: Callable[[object], _T]) -> Callable[[object], tuple[_T, ...]]:
    def read_all(value: object) -> tuple[_T, ...]:
        if not isinstance(value, list):
            raise _unexpected("a list", value)
        return tuple([_inside(f"[{index}]", read, item) for index, item in enumerate(value)])

    return read_all


class _Object:
    """The members of an object."""

    def __init__(self, value: object) -> None:
        if not isinstance(value, dict):
            raise _unexpected("an object", value)
        self._members = value

    def get(self, name: str, read: Callable[[object], _T]) -> _T:
        """A member that each document has."""
        if name not in self._members:
            raise BadDocument("it is missing", f".{name}")
        return _inside(f".{name}", read, self._members[name])

    def optional(self, name: str, read: Callable[[object], _T], default: _T) -> _T:
        """A member that may be absent."""
        return _inside(f".{name}", read, self._members[name]) if name in self._members else default

    def reason(self, name: str, *, optional: bool = False) -> Reason | None:
        """The reason whose sentence the member has and whose code the member beside it has.

        It is the sentence alone where the document is older than codes, or the code newer than this version.
        """
        sentence = self.optional(name, _text_or_none, None) if optional else self.get(name, _text_or_none)
        code = self.optional(f"{name}_code", _code, None)
        return None if sentence is None else code or because("text", text=sentence)

    def sure_reason(self, name: str) -> Reason:
        """The same of a member that is never null."""
        return self.reason(name) or because("text", text=self.get(name, _text))

    def reasons(self, name: str) -> tuple[Reason, ...]:
        """The reasons whose sentences are a list."""
        return _with_codes(self.get(name, _texts), self.optional(f"{name}_codes", _codes, ()))

    def joined_reasons(self, name: str) -> tuple[Reason, ...]:
        """The reasons whose sentences are joined to one text; that text alone where one of the codes is not known."""
        text = self.get(name, _text_or_none)
        codes: tuple[Reason | None, ...] = self.optional(f"{name}_codes", _codes, ())
        if text is None:
            return ()
        known = tuple(code for code in codes if code is not None)
        return known if known and len(known) == len(codes) else (because("text", text=text),)

    def values(self, read: Callable[[object], _T]) -> dict[str, _T]:
        """All members, where their names are data."""
        return {_text(name): _inside(f"[{ascii(name)}]", read, value) for name, value in self._members.items()}


def _code(value: object, depth: int = 0) -> Reason | None:
    """A reason from its code and arguments; None for one that this version cannot explain."""
    code = value.get("code") if isinstance(value, dict) else None
    arguments = value.get("arguments") if isinstance(value, dict) else None
    if not isinstance(code, str) or not isinstance(arguments, dict) or depth > _MAX_DEPTH:
        return None
    try:
        reason = Reason(cast("ReasonCode", code),
                        tuple((name, _argument(each, depth)) for name, each in arguments.items()))
        explain(reason)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return None
    return reason


def _codes(value: object) -> tuple[Reason | None, ...]:
    return tuple([_code(each) for each in value]) if isinstance(value, list) else ()


def _argument(value: object, depth: int) -> Argument:
    """:raises TypeError: no reason has such an argument."""
    if isinstance(value, dict):
        reason = _code(value, depth + 1)
        if reason is not None:
            return reason
    if isinstance(value, list):
        return cast("Argument", tuple(_argument(each, depth + 1) for each in value))
    if value is None or isinstance(value, (int, str)) and not isinstance(value, bool):
        return value
    raise TypeError


def _with_codes(sentences: tuple[str, ...], codes: tuple[Reason | None, ...]) -> tuple[Reason, ...]:
    if len(codes) != len(sentences):
        codes = (None,) * len(sentences)
    return tuple(code or because("text", text=sentence) for sentence, code in zip(sentences, codes))


_evidence: Callable[[object], Evidence] = _one_of(*get_args(Evidence))
_mode: Callable[[object], Mode] = _one_of(*get_args(Mode))
_wait_for: Callable[[object], WaitFor] = _one_of(*get_args(WaitFor))
_target_kind: Callable[[object], TargetKind] = _one_of(*get_args(TargetKind))
_gil_status: Callable[[object], GilStatus] = _one_of(*get_args(GilStatus))
_thread_status: Callable[[object], ThreadStatus] = _one_of(*get_args(ThreadStatus))
_python_state: Callable[[object], PythonState] = _one_of(*get_args(PythonState))
_task_status: Callable[[object], TaskStatus] = _one_of(*get_args(TaskStatus))
_problem_kind: Callable[[object], ProblemKind] = _one_of(*get_args(ProblemKind))
_text_or_none = _or_none(_text)
_integer_or_none = _or_none(_integer)
_address_or_none = _or_none(_address)
_texts = _each(_text)
_integers = _each(_integer)
_addresses = _each(_address)


# -- the process ---------------------------------------------------------------------------------------------------


def _target(value: object) -> TargetInfo:
    made = _Object(value)
    return TargetInfo(made.get("kind", _target_kind), made.get("pid", _integer), made.get("executable", _text_or_none),
                      made.get("architecture", _text), made.get("libc", _text_or_none))


def _runtime(value: object) -> Runtime:
    made = _Object(value)
    return Runtime(made.get("version", _text), made.get("build", _text), made.get("address", _address),
                   made.get("layout", _text), made.get("module", _text),
                   made.get("interpreters", _each(_interpreter)), made.get("finalizing", _integer_or_none))


def _interpreter(value: object) -> Interpreter:
    made = _Object(value)
    return Interpreter(made.get("id", _integer), made.get("address", _address), made.get("gil", _gil),
                       made.get("stop_the_world", _stop_the_world))


def _gil(value: object) -> Gil:
    made = _Object(value)
    return Gil(made.get("lock", _text_or_none) or "", made.get("address", _address), made.get("state", _gil_status),
               made.get("holder", _integer_or_none), made.get("evidence", _evidence), made.get("waiters", _integers),
               made.get("drop_requested", _or_none(_flag)), made.reason("orphan", optional=True))


def _stop_the_world(value: object) -> StopTheWorld:
    made = _Object(value)
    return StopTheWorld(made.get("requested", _flag), made.get("requester", _integer_or_none),
                        made.get("waiting_for", _integers))


def _problem(value: object) -> Problem:
    made = _Object(value)
    why = made.get("why", _text)
    return Problem(made.get("where", _text), made.get("what", _problem_kind),
                   made.reason("why") or because("text", text=why))


# -- threads -------------------------------------------------------------------------------------------------------


def _thread(value: object) -> Thread:
    made = _Object(value)
    stack = made.get("stack", _each(_frame))
    variables = made.get("stack", _each(_locals))
    return Thread(
        made.get("number", _integer), made.get("lwp", _integer), made.get("tid", _integer_or_none),
        made.get("name", _text_or_none), made.get("python_name", _text_or_none),
        made.get("tstate", _address_or_none), made.get("python_state", _or_none(_python_state)),
        made.get("status", _thread_status),
        made.get("syscall", _text_or_none), made.get("holds", _each(_hold)), made.get("waits", _or_none(_wait)), stack,
        made.reason("unmerged", optional=True), made.reason("blocked_on"),
        made.optional("critical_sections", _each(_critical_section), None),
        made.optional("parts", _parts_of(stack), ()),
        tuple([each or () for each in variables]) if any(each is not None for each in variables) else None)


def _frame(value: object) -> Frame:
    made = _Object(value)
    if made.get("language", _one_of("python", "native")) == "python":
        return _py_frame(value)
    return NativeFrame(made.get("function", _text_or_none), made.get("module", _text_or_none),
                       made.get("pc", _address), made.get("file", _text_or_none), made.get("line", _integer_or_none))


def _py_frame(value: object) -> PyFrame:
    made = _Object(value)
    return PyFrame(made.get("function", _text), made.get("qualified_name", _text), made.get("file", _text),
                   made.get("line", _integer_or_none), made.get("columns", _or_none(_columns)),
                   made.get("kind", _text_or_none))


def _columns(value: object) -> Columns:
    numbers = _integers(value)
    if len(numbers) != 3:
        raise BadDocument("expected a list of 3 integers")
    return Columns(*numbers)


def _taken_at(value: object) -> PyFrame:
    made = _Object(value)
    function = made.get("function", _text)
    return PyFrame(function, made.optional("qualified_name", _text, function), made.get("file", _text),
                   made.get("line", _integer_or_none), made.optional("columns", _or_none(_columns), None),
                   made.optional("kind", _text_or_none, None))


def _locals(frame: object) -> tuple[Local, ...] | None:
    """The variables of a frame, None where the document does not list them."""
    return _Object(frame).optional("locals", _each(_local), None)


def _local(value: object) -> Local:
    made = _Object(value)
    return Local(made.get("name", _text), made.get("type", _text), made.get("value", _text))


def _parts_of(stack: tuple[Frame, ...]) -> Callable[[object], tuple[Part, ...]]:
    """Read the parts that a stack is presented as; a frame that is in none of those listed is a part by itself."""
    def read(value: object) -> tuple[Part, ...]:
        parts: list[Part] = []
        at = 0
        for index, (first, count, part) in enumerate(_each(_listed_part)(value)):
            if not at <= first <= first + count <= len(stack):
                raise BadDocument("it has frames of another part, or more frames than the stack", f"[{index}]")
            parts += [Part((frame,)) for frame in stack[at:first]]
            at = first + count
            parts.append(replace(part, frames=stack[first:at]))
        return (*parts, *(Part((frame,)) for frame in stack[at:]))

    return read


def _listed_part(value: object) -> tuple[int, int, Part]:
    made = _Object(value)
    return (made.get("first", _integer), made.get("frames", _integer),
            Part((), made.get("text", _text_or_none), made.get("note", _text_or_none), made.get("name", _text_or_none)))


def _hold(value: object) -> Hold:
    made = _Object(value)
    return Hold(made.get("lock", _text), made.get("mode", _mode), made.get("evidence", _evidence),
                made.reason("why"), made.get("taken_at", _or_none(_taken_at)))


def _wait(value: object) -> Wait:
    made = _Object(value)
    return Wait(made.get("lock", _text), made.get("mode", _mode), made.get("timed", _flag),
                made.get("evidence", _evidence), made.reason("why"))


def _critical_section(value: object) -> CriticalSection:
    made = _Object(value)
    return CriticalSection(made.get("mutex", _address_or_none), made.get("object", _address_or_none),
                           made.get("type", _text_or_none), made.get("active", _flag))


# -- locks and verdicts --------------------------------------------------------------------------------------------


def _kind(value: object) -> LockKind:
    return cast("LockKind", _text(value))  # a newer report may have kinds that the table does not know yet


def _lock(value: object) -> Lock:
    made = _Object(value)
    return Lock(made.get("id", _text), made.get("kind", _kind), made.get("address", _address),
                made.get("name", _text_or_none), made.get("state", _text), made.get("holders", _each(_holder)),
                made.get("waiters", _each(_waiter)), made.get("candidates", _integers),
                made.reason("orphan"), made.get("wait_for", _wait_for),
                made.optional("orphan_evidence", _evidence, RECORDED), made.reason("why"),
                made.get("shared", _flag), made.optional("foreign_owner", _integer_or_none, None))


def _holder(value: object) -> Holder:
    made = _Object(value)
    return Holder(made.get("thread", _integer), made.get("mode", _mode), made.get("evidence", _evidence),
                  made.reason("why"), made.get("taken_at", _or_none(_taken_at)))


def _waiter(value: object) -> Waiter:
    made = _Object(value)
    return Waiter(made.get("thread", _integer), made.get("mode", _mode))


def _deadlock(value: object) -> Deadlock:
    made = _Object(value)
    return Deadlock(made.get("threads", _integers), made.get("evidence", _evidence), made.get("edges", _each(_edge)),
                    made.reason("why"), made.get("stuck_behind", _integers), made.get("standstill", _flag))


def _edge(value: object) -> Edge:
    made = _Object(value)
    return Edge(made.get("waiter", _integer), made.get("lock", _text), made.get("holder", _integer_or_none),
                made.optional("evidence", _evidence, RECORDED), made.reason("why", optional=True))


# -- asyncio -------------------------------------------------------------------------------------------------------


def _event_loop(value: object) -> EventLoop:
    made = _Object(value)
    return EventLoop(made.get("id", _address), made.get("kind", _text), made.get("thread", _integer_or_none))


def _task(value: object) -> Task:
    made = _Object(value)
    return Task(made.get("id", _address), made.get("name", _text_or_none), made.get("loop", _address),
                made.get("thread", _integer_or_none), made.get("state", _task_status),
                made.get("stack", _each(_py_frame)),
                made.get("awaits", _awaited), made.get("awaited_by", _addresses))


def _awaited(value: object) -> Awaited:
    made = _Object(value)
    return Awaited(made.get("tasks", _addresses), made.get("other_futures", _integer),
                   made.optional("kind", _text_or_none, None), made.optional("address", _address_or_none, None),
                   made.optional("name", _text_or_none, None), made.get("holders", _addresses),
                   made.get("timed", _flag))


# -- crashes -------------------------------------------------------------------------------------------------------


def _crash(value: object) -> Crash:
    made = _Object(value)
    frames = made.get("stack", _each(_frame))
    variables = made.get("stack", _each(_locals))
    stack = MixedStack(frames, made.optional("parts", _parts_of(frames), ()), made.reason("unmerged"),
                       {index: each for index, each in enumerate(variables) if each is not None},
                       made.get("frames_left_out", _integer))
    return Crash(made.get("thread", _integer), made.get("fault", _fault), stack,
                 made.get("guilty_frame", _integer_or_none), made.get("recursion", _or_none(_recursion)),
                 made.get("findings", _each(_finding)), made.get("suspects", _each(_suspect)),
                 made.reasons("missing"))


def _fault(value: object) -> Fault:
    made = _Object(value)
    return Fault(
        made.get("signal", _text), made.get("code", _text_or_none), made.get("kind", _text), made.sure_reason("text"),
        made.get("evidence", _evidence), made.reason("why"), made.get("sender", _or_none(_sender)),
        made.get("address", _address_or_none), made.get("access", _text_or_none), made.get("size", _integer_or_none),
        made.get("pc", _address), made.get("instruction", _text_or_none), made.get("operands", _each(_operand)),
        made.get("registers", lambda registers: _Object(registers).values(_address)),
        made.get("message", _text_or_none), made.get("in_handler", _flag))


def _sender(value: object) -> tuple[int, int]:
    made = _Object(value)
    return made.get("pid", _integer), made.get("uid", _integer)


def _operand(value: object) -> Operand:
    made = _Object(value)
    return Operand(made.get("text", _text), made.get("value", _address), made.reason("what"),
                   made.joined_reasons("came_from"))


def _recursion(value: object) -> Recursion:
    made = _Object(value)
    return Recursion(made.get("round", _integers), made.get("rounds", _integer), made.get("frames", _integer),
                     made.get("whole", _flag), made.get("stack_used", _integer_or_none))


def _finding(value: object) -> Finding:
    made = _Object(value)
    return Finding(made.get("rule", _text), made.get("thread", _integer_or_none), made.sure_reason("text"),
                   made.get("evidence", _evidence), made.reason("why"))


def _suspect(value: object) -> Suspect:
    made = _Object(value)
    made.get("covered", _text)  # never null
    return Suspect(made.get("thread", _integer), made.reasons("reasons"), made.joined_reasons("covered"),
                   made.get("common_locks", _texts))
