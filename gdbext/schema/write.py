"""Reports as JSON, schema ``gdbext/1``; `gdbext.schema.read` makes reports of it again.

This module owns the schema; its meaning never changes without a new version.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Iterable
from typing import Any

from gdbext.model import (
    Awaited,
    Crash,
    Deadlock,
    Fault,
    Frame,
    Interpreter,
    Local,
    Lock,
    Part,
    PyFrame,
    Report,
    Runtime,
    Task,
    Thread,
)
from gdbext.model.reasons import Argument, Reason
from gdbext.narrate.crash import came_from, covered
from gdbext.narrate.reasons import explain

SCHEMA = "gdbext/1"
#: How many frames of a crash are listed; recursion may make a hundred thousand.
_MAX_FRAMES = 500
#: The parts of the whole document, in order.
PARTS = ("runtimes", "threads", "locks", "deadlocks", "problems")


def as_json(report: Report, parts: Collection[str] = PARTS) -> str:
    """One JSON document on one line, ASCII only, with the parts asked for.

    Addresses are strings, absent and unknown values are null with a reason in ``problems``.
    """
    return json.dumps(document(report, parts))


def document(report: Report, parts: Collection[str] = PARTS) -> dict[str, Any]:
    """The document as Python values."""
    info = report.target
    made: dict[str, Any] = {
        "schema": SCHEMA,
        "target": {"kind": info.kind, "pid": info.pid, "executable": info.executable,
                   "architecture": info.architecture, "libc": info.libc},
    }
    if "runtimes" in parts:
        made["runtimes"] = [_runtime(runtime) for runtime in report.runtimes]
    if "threads" in parts:
        made["threads"] = [_thread(thread) for thread in report.threads]
    if "locks" in parts:
        made["locks"] = [_lock(lock) for lock in report.locks]
    if "deadlocks" in parts:
        made["deadlocks"] = [_deadlock(deadlock) for deadlock in report.deadlocks]
        made.update(_reason("no_verdict", report.no_verdict))
    if "tasks" in parts:
        made["event_loops"] = [{"id": hex(loop.address), "kind": loop.kind, "thread": loop.thread}
                               for loop in report.event_loops]
        made["tasks"] = [_task(task) for task in report.tasks]
        made["task_cycles"] = [_addresses(cycle) for cycle in report.task_cycles]
    if "crash" in parts and report.crash is not None:
        made["crash"] = _crash(report.crash)
    if "problems" in parts:
        made["problems"] = [{"where": problem.where, "what": problem.what, **_reason("why", problem.why)}
                            for problem in report.problems]
        if report.notes:
            made["notes"] = [explain(note) for note in report.notes]
            made["note_codes"] = [_code(note) for note in report.notes]
    return made


def _reason(member: str, reason: Reason | None) -> dict[str, Any]:
    """The member with the sentence of a reason, and beside it the one with its code."""
    return {member: None if reason is None else explain(reason),
            f"{member}_code": None if reason is None else _code(reason)}


def _code(reason: Reason) -> dict[str, Any]:
    return {"code": reason.code, "arguments": {name: _argument(value) for name, value in reason.arguments}}


def _argument(value: Argument) -> Any:
    if isinstance(value, tuple):
        return [_argument(each) for each in value]
    return _code(value) if isinstance(value, Reason) else value


def _runtime(runtime: Runtime) -> dict[str, Any]:
    return {"version": runtime.version, "build": runtime.build, "address": hex(runtime.address),
            "layout": runtime.layout, "module": runtime.module,
            "finalizing": runtime.finalizing,
            "interpreters": [_interpreter(interpreter) for interpreter in runtime.interpreters]}


def _interpreter(interpreter: Interpreter) -> dict[str, Any]:
    gil, stop = interpreter.gil, interpreter.stop_the_world
    return {
        "id": interpreter.id, "address": hex(interpreter.address),
        "gil": {"lock": gil.lock or None, "address": hex(gil.address), "state": gil.state, "holder": gil.holder,
                "evidence": gil.evidence, "waiters": list(gil.waiters), "drop_requested": gil.drop_requested,
                **_reason("orphan", gil.orphan)},
        "stop_the_world": {"requested": stop.requested, "requester": stop.requester,
                           "waiting_for": list(stop.waiting_for)},
    }


def _thread(thread: Thread) -> dict[str, Any]:
    wait = thread.waits
    made: dict[str, Any] = {
        "number": thread.number, "lwp": thread.lwp, "tid": thread.tid, "name": thread.name,
        "python_name": thread.python_name, "tstate": hex(thread.tstate) if thread.tstate else None,
        "python_state": thread.python_state, "status": thread.status, "syscall": thread.syscall,
        **_reason("blocked_on", thread.blocked_on),
        "holds": [{"lock": hold.lock, "mode": hold.mode, "evidence": hold.evidence,
                   **_reason("why", hold.why), "taken_at": _taken_at(hold.taken_at)} for hold in thread.holds],
        "waits": None if wait is None else {"lock": wait.lock, "mode": wait.mode, "timed": wait.timed,
                                            "evidence": wait.evidence, **_reason("why", wait.why)},
        "stack": [_frame(frame) for frame in thread.stack], **_reason("unmerged", thread.unmerged),
    }
    if thread.parts:
        made["parts"] = _parts(thread.parts, len(thread.stack))
    for frame, variables in zip(made["stack"], thread.variables or ()):
        frame["locals"] = _locals(variables)
    if thread.critical_sections is not None:
        made["critical_sections"] = [
            {"mutex": _address(section.mutex), "object": _address(section.object), "type": section.type,
             "active": section.active} for section in thread.critical_sections]
    return made


def _parts(parts: Iterable[Part], listed: int) -> list[dict[str, Any]]:
    """What the `listed` innermost frames are presented as; frames that are presented as they are need no entry."""
    made: list[dict[str, Any]] = []
    first = 0
    for part in parts:
        if first < listed and part != Part(part.frames[:1]):
            made.append({"first": first, "frames": min(len(part.frames), listed - first), "text": part.text,
                         "note": part.note, "name": part.name})
        first += len(part.frames)
    return made


def _locals(variables: Iterable[Local]) -> list[dict[str, Any]]:
    return [{"name": each.name, "type": each.type, "value": each.value} for each in variables]


def _crash(crash: Crash) -> dict[str, Any]:
    recursion = crash.recursion
    stack = []
    for index, frame in enumerate(itertools.islice(crash.stack.frames, _MAX_FRAMES)):
        stack.append(_frame(frame))
        if index in crash.stack.variables:
            stack[-1]["locals"] = _locals(crash.stack.variables[index])
    made = {
        "thread": crash.thread, "fault": _fault(crash.fault), "stack": stack,
        "frames_left_out": crash.stack.left_out + len(crash.stack.frames) - len(stack),
        **_reason("unmerged", crash.stack.unmerged), "guilty_frame": crash.guilty,
        "recursion": None if recursion is None else {
            "round": list(recursion.round), "rounds": recursion.rounds, "frames": recursion.frames,
            "whole": recursion.whole, "stack_used": recursion.used},
        "findings": [{"rule": finding.rule, "thread": finding.thread, **_reason("text", finding.text),
                      "evidence": finding.evidence, **_reason("why", finding.why)} for finding in crash.findings],
        "suspects": [{"thread": suspect.thread, **_reasons("reasons", suspect.reasons),
                      "covered": covered(suspect), "covered_codes": _codes(suspect.covered),
                      "common_locks": list(suspect.common_locks)} for suspect in crash.suspects],
        **_reasons("missing", crash.missing),
    }
    if crash.stack.parts:
        made["parts"] = _parts(crash.stack.parts, len(stack))
    return made


def _reasons(member: str, reasons: Iterable[Reason]) -> dict[str, Any]:
    return {member: [explain(each) for each in reasons], f"{member}_codes": _codes(reasons)}


def _codes(reasons: Iterable[Reason]) -> list[dict[str, Any]]:
    return [_code(each) for each in reasons]


def _fault(fault: Fault) -> dict[str, Any]:
    return {
        "signal": fault.signal, "code": fault.code, "kind": fault.kind, **_reason("text", fault.text),
        "evidence": fault.evidence, **_reason("why", fault.why),
        "sender": None if fault.sender is None else {"pid": fault.sender[0], "uid": fault.sender[1]},
        "address": _address(fault.address), "access": fault.access, "size": fault.size, "pc": hex(fault.pc),
        "instruction": fault.instruction,
        "operands": [{"text": operand.text, "value": hex(operand.value), **_reason("what", operand.what),
                      "came_from": came_from(operand), "came_from_codes": _codes(operand.came_from)}
                     for operand in fault.operands],
        "registers": {name: hex(value) for name, value in fault.registers.items()},
        "message": fault.message, "in_handler": fault.in_handler,
    }


def _address(value: int | None) -> str | None:
    return None if value is None else hex(value)


def _frame(frame: Frame) -> dict[str, Any]:
    if isinstance(frame, PyFrame):
        return {"language": "python", "function": frame.function, "qualified_name": frame.qualified_name,
                "file": frame.file, "line": frame.line,
                "columns": list(frame.columns) if frame.columns is not None else None, "kind": frame.kind}
    return {"language": "native", "function": frame.function, "module": frame.module, "pc": hex(frame.pc),
            "file": frame.file, "line": frame.line}


def _taken_at(frame: PyFrame | None) -> dict[str, Any] | None:
    if frame is None:
        return None
    return {name: value for name, value in _frame(frame).items() if name != "language"}


def _lock(lock: Lock) -> dict[str, Any]:
    return {
        "id": lock.id, "kind": lock.kind, "address": hex(lock.address), "name": lock.name, "state": lock.state,
        "holders": [{"thread": holder.thread, "mode": holder.mode, "evidence": holder.evidence,
                     **_reason("why", holder.why), "taken_at": _taken_at(holder.taken_at)} for holder in lock.holders],
        "waiters": [{"thread": waiter.thread, "mode": waiter.mode} for waiter in lock.waiters],
        "candidates": list(lock.candidates), **_reason("orphan", lock.orphan),
        "orphan_evidence": lock.orphan_evidence, "wait_for": lock.wait_for, "shared": lock.shared,
        "foreign_owner": lock.foreign_owner,
        **_reason("why", lock.why),
    }


def _deadlock(deadlock: Deadlock) -> dict[str, Any]:
    return {
        "threads": list(deadlock.threads), "evidence": deadlock.evidence,
        "edges": [{"waiter": edge.waiter, "lock": edge.lock, "holder": edge.holder, "evidence": edge.evidence,
                   **_reason("why", edge.why)} for edge in deadlock.edges],
        **_reason("why", deadlock.why), "stuck_behind": list(deadlock.stuck_behind), "standstill": deadlock.standstill,
    }


def _task(task: Task) -> dict[str, Any]:
    return {"id": hex(task.address), "name": task.name, "loop": hex(task.loop), "thread": task.thread,
            "state": task.state, "stack": [_frame(frame) for frame in task.stack], "awaits": _awaited(task.awaits),
            "awaited_by": _addresses(task.awaited_by)}


def _awaited(awaits: Awaited) -> dict[str, Any]:
    tasks = _addresses(awaits.tasks)
    return {"task": tasks[0] if len(tasks) == 1 and not awaits.others else None, "tasks": tasks,
            "other_futures": awaits.others, "what": awaits.what, "kind": awaits.kind,
            "address": _address(awaits.address), "name": awaits.name, "holders": _addresses(awaits.holders),
            "timed": awaits.timed}


def _addresses(addresses: Collection[int]) -> list[str]:
    return [hex(address) for address in addresses]
