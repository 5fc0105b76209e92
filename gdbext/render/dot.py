"""The wait-for graph for Graphviz: threads are boxes, locks ellipses, deadlocks red."""

from __future__ import annotations

from gdbext.model import NativeFrame, PyFrame, Report, Thread
from gdbext.render.escape import printable


def as_dot(report: Report) -> str:
    """The graph of all threads that hold or wait for something, in the DOT language."""
    dead = {edge.waiter for deadlock in report.deadlocks for edge in deadlock.edges}
    dead_locks = {edge.lock for deadlock in report.deadlocks for edge in deadlock.edges}
    lines = ["digraph gdbext {", "  rankdir=LR;", '  node [fontname="monospace", fontsize=10];']
    for thread in report.threads:
        if thread.waits or thread.holds:
            colour = ', color="red"' if thread.number in dead else ""
            lines.append(f"  t{thread.number} [shape=box, label={_quoted(_label(thread))}{colour}];")
    for lock in report.locks:
        colour = ', color="red"' if lock.id in dead_locks else ""
        name = f"\n{lock.name}" if lock.name else ""
        text = f"{lock.kind} {lock.address:#x}{name}\n{lock.state}"
        lines.append(f"  {_quoted(lock.id)} [shape=ellipse, label={_quoted(text)}{colour}];")
        lines.extend(f"  {_quoted(lock.id)} -> t{holder.thread} [label={_quoted(f'held, {holder.evidence}')}"
                     f"{', style=dashed' if holder.evidence == 'inferred' else ''}];" for holder in lock.holders)
        lines.extend(f"  {_quoted(lock.id)} -> t{number} [label=\"candidate\", style=dotted];"
                     for number in lock.candidates)
    for thread in report.threads:
        if thread.waits:
            timed = ", timed" if thread.waits.timed else ""
            lines.append(f"  t{thread.number} -> {_quoted(thread.waits.lock)} [label={_quoted('waits' + timed)}];")
    lines.append("}")
    return "\n".join(lines) + "\n"


def _label(thread: Thread) -> str:
    name = thread.python_name or thread.name
    text = f"thread {thread.number}" + (f" {name}" if name else "")
    for frame in thread.stack:
        if isinstance(frame, PyFrame):
            return f"{text}\n{frame.function} {frame.file.rpartition('/')[2]}:{frame.line}"
    for frame in thread.stack:
        if isinstance(frame, NativeFrame) and frame.function:
            return f"{text}\n{frame.function}"
    return text


def _quoted(text: str) -> str:
    safe = "\\n".join(printable(line) .replace("\\", "\\\\").replace('"', '\\"') for line in text.split("\n"))
    return f'"{safe}"'
