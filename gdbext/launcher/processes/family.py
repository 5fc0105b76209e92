"""`report PID --children`: a process and all that descend from it, and which of them wait for each other."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gdbext.errors import UsageError
from gdbext.launcher.cli import parse_options, parse_target, say, write_file
from gdbext.launcher.processes.edges import STILL, watch
from gdbext.launcher.processes.graph import Between, Node, Wait, find_deadlocks
from gdbext.launcher.processes.tree import process_tree
from gdbext.launcher.snapshots import classes
from gdbext.launcher.snapshots.classes import Failure, Triage
from gdbext.launcher.snapshots.pool import Pool, processors
from gdbext.launcher.snapshots.progress import Progress
from gdbext.launcher.snapshots.snapshot import Options, Snapshot, Target, take_snapshot
from gdbext.launcher.status import NO_GDB, NoGdb
from gdbext.model import RECORDED, Report
from gdbext.narrate.classes import DEADLOCK, UNKNOWN
from gdbext.record import record
from gdbext.render.escape import printable
from gdbext.render.shown import Shown


@record
class Tree:
    """A process with its descendants.

    `looks` are by number, ascending by parents; `apart` is how much time lay between the begin of the first look and
    the end of the last, in seconds.
    """

    root: int
    parents: Mapping[int, int | None]
    snapshots: Mapping[int, Snapshot]
    apart: float
    waits: Mapping[Node, Wait]
    deadlocks: tuple[Between, ...]
    blind: str | None

    @property
    def triage(self) -> Triage:
        """The processes in classes, with what they wait for of each other."""
        read = [(seen.target, seen.document) for seen in self.snapshots.values() if seen.document is not None]
        failures = [Failure(seen.target, seen.problem or "no answer", seen.hint) for seen in self.snapshots.values()
                    if seen.document is None]
        incomplete = [Failure(seen.target, seen.problem, seen.hint) for seen in self.snapshots.values()
                      if seen.document is not None and seen.problem is not None]
        return Triage(classes.merge(read), tuple(failures), tuple(incomplete), _as_document(self))


def run(options: argparse.Namespace) -> int:
    """`report PID --children`: look at a process and its descendants, and report; the exit status."""
    target = parse_target(options)
    if target.pid is None:
        raise UsageError("--children goes with a PID: of a core the children are not known", "leave it out")
    if options.dot is not None:
        raise UsageError("--children draws no graph for Graphviz", "take --html FILE instead of --dot")
    tree = snapshot_tree(target.pid, parse_options(options))
    found = tree.triage
    sys.stdout.write((json.dumps(classes.as_document(found)) if options.json else text(tree, found)) + "\n")
    if options.html is not None:
        from gdbext.render.html import html_page

        title = f"gdbext: process {tree.root} and its descendants"
        write_file(options.html, html_page(_shown_targets(tree), title, classes.class_rows(found), _between(tree)))
    sys.stdout.flush()
    longest = max((seen.stopped for seen in tree.snapshots.values() if seen.stopped is not None), default=None)
    if longest is not None:
        say(f"gdbext report: each process by itself stood still, for {longest:.2f} s at most; "
            f"all looks were made within {tree.apart:.1f} s")
    return found.status


def snapshot_tree(pid: int, options: Options, jobs: int | None = None) -> Tree:
    """Look at a process and all of its descendants, but for this very process and its own.

    :raises NoGdb: there is no GDB to look with.
    """
    parents = dict(process_tree(pid))
    for own in [member for member, _ in process_tree(os.getpid())]:
        if own != pid:
            parents.pop(own, None)
    snapshots: dict[int, Snapshot] = {}
    progress = Progress(len(parents), name="gdbext report")

    def done(member: int, seen: Snapshot) -> None:
        if seen.status == NO_GDB:
            raise NoGdb(seen.problem or "no GDB", seen.hint or "")
        snapshots[member] = seen
        progress.advance(seen.document is None)

    def work(member: int) -> Snapshot:
        return take_snapshot(Target(pid=member), options)

    begin = time.monotonic()
    try:
        Pool(work, jobs or processors()).run(list(parents), done, progress.tick)
    finally:
        progress.clear()
    apart = time.monotonic() - begin
    scene = watch({member: snapshots[member].report for member in parents})
    return Tree(pid, parents, {member: snapshots[member] for member in parents}, apart, scene.waits,
                tuple(find_deadlocks(scene.waits, scene.dead)), scene.blind)


def _across(tree: Tree) -> Iterator[tuple[Node, Wait, list[int]]]:
    """The waits for other processes, with these."""
    for node, wait in sorted(tree.waits.items()):
        others = sorted({holder.pid for holder in wait.holders} - {node.pid})
        if others and not wait.idle:
            yield node, wait, others


def _told(tree: Tree, deadlock: Between) -> Iterator[tuple[Node, Wait, list[int]]]:
    """The waits that make a deadlock: those between processes, and those inside that lead from one to the next."""
    for node in deadlock.members:
        wait = tree.waits[node]
        if not wait.idle:
            yield node, wait, sorted({holder.pid for holder in wait.holders})


def _as_document(tree: Tree) -> dict[str, Any]:
    def edge(node: Node, wait: Wait, pids: Iterable[int]) -> dict[str, Any]:
        single = next(iter(wait.holders)).thread if len(wait.holders) == 1 else None
        return {"pid": node.pid, "thread": node.thread, "kind": wait.kind, "what": printable(wait.what),
                "holders": list(pids), "holder": single if single is None or single > 0 else None,
                "evidence": wait.evidence, "why": "; ".join(wait.why) or None}

    return {
        "root": tree.root, "apart": round(tree.apart, 3), "still": STILL,
        "tree": [{"pid": pid, "parent": parent, "name": _process_name(pid, tree.snapshots[pid].report),
                  "target": tree.snapshots[pid].target} for pid, parent in tree.parents.items()],
        "waits": [edge(*each) for each in _across(tree)],
        "deadlocks": [{"processes": list(deadlock.processes), "evidence": deadlock.evidence,
                       "why": "; ".join(deadlock.why) or None,
                       "edges": [edge(*each) for each in _told(tree, deadlock)],
                       "stuck_behind": sorted({node.pid for node in deadlock.behind} - set(deadlock.processes))}
                      for deadlock in tree.deadlocks],
        "problem": tree.blind,
    }


def _process_name(pid: int, report: Report | None) -> str | None:
    """The name of a process: that of its first thread."""
    return next((thread.name for thread in report.threads if thread.lwp == pid), None) if report is not None else None


def _called(tree: Tree, pid: int) -> str:
    name = _process_name(pid, tree.snapshots[pid].report) if pid in tree.snapshots else None
    return f"process {pid}" + (f' "{printable(name, 80)}"' if name else "")


def _wait_line(tree: Tree, node: Node, wait: Wait, pids: Sequence[int]) -> str:
    report = tree.snapshots[node.pid].report
    thread = report.thread(node.thread) if report is not None else None
    name = (thread.python_name or thread.name) if thread is not None else None
    line = f"{_called(tree, node.pid)} thread {node.thread}" + (f' "{printable(name, 80)}"' if name else "")
    line += f" waits {printable(wait.what, 400)}"
    if wait.kind == "child":
        return line
    single = next(iter(wait.holders)) if len(wait.holders) == 1 else None
    if single is not None and single.pid == node.pid:
        return line if line.endswith(f"the end of thread {single.thread}") else f"{line} of thread {single.thread}"
    others = [_called(tree, pid) if pid != node.pid else "itself" for pid in pids]
    more = f" and {len(others) - 4} more" if len(others) > 4 else ""
    verb = "lead to" if wait.kind == "descriptors" else "may be let go by" if wait.kind == "lock" else "is held by"
    verb = "has its other end in" if wait.kind in ("pipe", "socket") else verb
    return f"{line}, which {verb} {', '.join(others[:4])}{more}"


def text(tree: Tree, found: Triage) -> str:
    """The whole report for people: the processes, who waits for whom, and each class by its representative."""
    own = sum(len(each.members) for each in found.classes if each.kind == DEADLOCK)
    unknown = sum(len(each.members) for each in found.classes if each.kind == UNKNOWN)
    across = len({pid for deadlock in tree.deadlocks for pid in deadlock.processes})
    lines = [f"{len(tree.parents):,} process{'es' if len(tree.parents) != 1 else ''}: {across:,} deadlocked with each "
             f"other, {own:,} with a deadlock of their own" + (f", {unknown:,} without a verdict" if unknown else "")]
    depths: dict[int, int] = {}
    for pid, parent in tree.parents.items():
        depths[pid] = depths[parent] + 1 if parent in depths else 0
        lines.append(f"{'  ' * depths[pid]}  {_called(tree, pid)}")
    for deadlock in tree.deadlocks:
        why = f": {'; '.join(deadlock.why)}" if deadlock.why else ""
        known = f" ({deadlock.evidence}{why})" if deadlock.evidence != RECORDED or why else ""
        lines += ["", f"Deadlock between processes {', '.join(map(str, deadlock.processes))}{known}"]
        lines += [f"  {_wait_line(tree, *each)}" for each in _told(tree, deadlock)]
        behind = sorted({node.pid for node in deadlock.behind} - set(deadlock.processes))
        if behind:
            lines.append(f"  stuck behind it: {', '.join(_called(tree, pid) for pid in behind)}")
    inside = {node for deadlock in tree.deadlocks for node in deadlock.members}
    waits = [each for each in _across(tree) if each[0] not in inside]
    if waits:
        lines += ["", f"{'Other waits' if inside else 'Waits'} between processes:"]
        lines += [f"  {_wait_line(tree, *each)}" for each in waits]
    if tree.blind is not None:
        lines += ["", f"Not known: who waits for whom by descriptors: {printable(tree.blind)}"]
    by_target = {seen.target: seen for seen in tree.snapshots.values()}
    for each in found.classes:
        others = [member for member in each.members if member != each.representative]
        more = f" and {len(others) - 8:,} more" if len(others) > 8 else ""
        alike = f", and alike: {', '.join(others[:8])}{more}" if others else ""
        lines += ["", f"---- {each.representative}{alike}", "", by_target[each.representative].text.strip("\n")]
    for heading, failures in (("Not read:", found.failures), ("Not read to the end:", found.incomplete)):
        lines += ["", heading, *(f"  {classes.failure_line(failure)}" for failure in failures)] if failures else []
    return "\n".join(lines)


def _shown_targets(tree: Tree) -> list[Shown]:
    return [replace(seen.for_page(), hint=seen.hint,
                    parent=tree.snapshots[parent].target if parent is not None and parent in tree.snapshots else None)
            for (pid, parent), seen in zip(tree.parents.items(), tree.snapshots.values())]


def _between(tree: Tree) -> list[dict[str, Any]]:
    """The waits as `render.html` takes them."""
    within = {node for deadlock in tree.deadlocks for node in deadlock.members}
    return [{"waiter": tree.snapshots[node.pid].target, "holder": tree.snapshots[pid].target, "what": wait.what,
             "deadlock": node in within} for node, wait, pids in _across(tree) for pid in pids]
