"""The wait-for graph for Graphviz: boxes are threads, ellipses are locks, deadlocks are red."""

from __future__ import annotations

from collections.abc import Iterable

from gdbext.model import Report
from gdbext.narrate.graph import lock_lines, thread_lines, wait_for_graph
from gdbext.narrate.names import Facts
from gdbext.narrate.words import Words, plain
from gdbext.render.escape import Safe, as_text, printable

_STYLES = {"inferred": ", style=dashed", "candidate": ", style=dotted"}


def as_dot(report: Report) -> Safe:
    """The graph of all threads that hold or wait for a lock, in the DOT language."""
    facts = Facts(report)
    graph = wait_for_graph(facts, everything=True, together=False)
    dead = {edge.waiter for deadlock in report.deadlocks for edge in deadlock.edges}
    dead_locks = {edge.lock for deadlock in report.deadlocks for edge in deadlock.edges}
    lines = ["digraph gdbext {", "  rankdir=LR;", '  node [fontname="monospace", fontsize=10];']
    for (number,), _ in graph.threads:
        lines.append(f"  t{number} [shape=box, label={_label(thread_lines(facts, [number]))}{_red(number in dead)}];")
    for lock_id in graph.locks:
        label = _label(lock_lines(facts, lock_id))
        lines.append(f"  {_quoted(lock_id)} [shape=ellipse, label={label}{_red(lock_id in dead_locks)}];")
    timed = {thread.number for thread in report.threads if thread.waits is not None and thread.waits.timed}
    for (number,), arrows in graph.threads:
        for arrow in arrows:
            lock_id = _quoted(arrow.lock)
            if arrow.kind == "waits":
                words = f"{arrow.words}, with a timeout" if number in timed else arrow.words
                lines.append(f"  t{number} -> {lock_id} [label={_quoted(words)}];")
            else:
                words = arrow.words if arrow.kind == "candidate" else f"{arrow.words} ({arrow.kind})"
                lines.append(f"  {lock_id} -> t{number} [label={_quoted(words)}{_STYLES.get(arrow.kind, '')}];")
    lines.append("}")
    return as_text(lines)


def _red(wanted: bool) -> str:
    return ', color="red"' if wanted else ""


def _label(lines: Iterable[Words]) -> str:
    return _quoted("\n".join(plain(words).replace("\n", "\\x0a") for words in lines))


def _quoted(text: str) -> str:
    safe = "\\n".join(printable(line).replace("\\", "\\\\").replace('"', '\\"') for line in text.split("\n"))
    return f'"{safe}"'
