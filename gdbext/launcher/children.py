"""`report PID --children`: a process with its descendants, and their waits for each other."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from gdbext.errors import UsageError
from gdbext.inferior.proc.ranks import roots_of_job
from gdbext.inferior.proc.status import parent_of, process_tree
from gdbext.launcher.cli import parse_options
from gdbext.launcher.output import say, write, write_file
from gdbext.launcher.pager import write_report
from gdbext.launcher.snapshots import classes
from gdbext.launcher.snapshots.classes import Failure, Triage
from gdbext.launcher.snapshots.options import Options, Target
from gdbext.launcher.snapshots.pool import processors, run_all
from gdbext.launcher.snapshots.progress import Progress
from gdbext.launcher.snapshots.snapshot import Snapshot, take_snapshot
from gdbext.launcher.status import FOUND, NO_GDB, NOTHING_FOUND, OUTSIDE, NoGdb, worst
from gdbext.launcher.targets import parse_target
from gdbext.model.reasons import Reason, joined
from gdbext.narrate import processes as words
from gdbext.narrate.classes import DEADLOCK, UNKNOWN
from gdbext.narrate.names import Facts
from gdbext.narrate.processes import ProcessName
from gdbext.narrate.reasons import explain
from gdbext.narrate.sentences import sentence, verdict_title
from gdbext.narrate.verdict import ALL_THREADS, next_step
from gdbext.narrate.words import plain
from gdbext.processes.chains import Chains, find_chains
from gdbext.processes.graph import Node, ProcessDeadlock, Wait, find_deadlocks
from gdbext.processes.waits import STILL, watch
from gdbext.record import record
from gdbext.render.escape import Safe, as_text, concatenated, json_line, printable
from gdbext.render.plain_text import one_line
from gdbext.render.shown import Shown
from gdbext.verdict.judge import (
    awaited_processes,
    ends_by_itself,
    is_cause,
    serves_others,
    takes_next,
    verdict_of,
    waits_for_end,
)


@record
class Tree:
    """A process with its descendants.

    `snapshots` are by PID, parents first; `apart` is the time from the begin of the first one to the end of the last,
    in seconds. `blind` says why waits for descriptors are not known.
    """

    root: int
    parents: Mapping[int, int | None]
    snapshots: Mapping[int, Snapshot]
    apart: float
    waits: Mapping[Node, Wait]
    deadlocks: tuple[ProcessDeadlock, ...]
    blind: Reason | None

    @cached_property
    def chains(self) -> Chains:
        """Which processes others wait for in the end."""
        return find_chains({pid: seen.report for pid, seen in self.snapshots.items()},
                           [deadlock.processes for deadlock in self.deadlocks])

    @cached_property
    def trouble(self) -> list[int]:
        """The processes that need attention."""
        across = {pid for deadlock in self.deadlocks for pid in deadlock.processes}
        return [pid for pid in self.snapshots if self.status_of(pid) in (FOUND, OUTSIDE) or pid in across]

    @cached_property
    def ends(self) -> list[tuple[int, ...]]:
        """Those that processes in trouble wait for in the end, each alone or several that wait for each other."""
        needed = {other for pid in self.trouble for other in self.chains.needs.get(pid, ()) if other in self.snapshots}
        return self.chains.ends([*self.trouble, *sorted(needed - {*self.trouble})])

    @property
    def triage(self) -> Triage:
        """The processes in classes, with their waits for each other."""
        read = [(seen.target, seen.document) for seen in self.snapshots.values() if seen.document is not None]
        failures = [Failure(seen.target, seen.problem or "no answer", seen.hint) for seen in self.snapshots.values()
                    if seen.document is None]
        incomplete = [Failure(seen.target, seen.problem, seen.hint) for seen in self.snapshots.values()
                      if seen.document is not None and seen.problem is not None]
        return Triage(classes.merge(read), tuple(failures), tuple(incomplete), as_document(self))

    def status_of(self, pid: int, above: frozenset[int] = frozenset()) -> int:
        """The exit status for a process: one that only waits for children has that of these children.

        If it waits for a message, one of them has to be on the way to send it. If it waits for their ends, none of them
        may serve others.

        :param above: processes that wait for it, directly or not.
        """
        seen = self.snapshots[pid]
        if seen.report is not None and not waits_for_end(seen.report) and seen.status == OUTSIDE and (
                pid in self.chains.at_rest or pid in self.chains.going_on):
            return NOTHING_FOUND
        if seen.report is None or verdict_of(seen.report).kind != "children":
            return seen.status
        # of multiprocessing, a process of its own may have forked the others
        children = _awaited(seen) or self._descendants(pid)
        known = self.snapshots.keys() - above - {pid}
        if not children or not known.issuperset(children):
            return seen.status
        if any(map(self._serves, children)) if waits_for_end(seen.report) else not any(map(self._goes_on, children)):
            return seen.status
        return worst([self.status_of(child, above | {pid}) for child in children])

    def _descendants(self, pid: int) -> list[int]:
        found = [pid]
        for each in found:  # the list grows during the loop
            found += [child for child, parent in self.parents.items() if parent == each]
        return found[1:]

    def _serves(self, pid: int) -> bool:
        report = self.snapshots[pid].report
        return report is not None and (serves_others(report) or self.reads_inherited(pid))

    def reads_inherited(self, pid: int) -> bool:
        """Whether a process waits for the end of a pipe that another one only has because it was forked."""
        return any(node.pid == pid and wait.inherited for node, wait in self.waits.items())

    def _goes_on(self, pid: int) -> bool:
        report = self.snapshots[pid].report
        return report is not None and ends_by_itself(report) is True

    @property
    def status(self) -> int:
        """The exit status for all: that of the process which needs attention most."""
        return worst([*map(self.status_of, self.snapshots), *([FOUND] if self.deadlocks else [])])


#: How many processes are read without being asked for, and for how long at most, in seconds.
_MOST_UNASKED, _UNASKED = 16, 10.0


def find_answer(pid: int, awaited: Iterable[int], status: int, options: argparse.Namespace) -> Tree | None:
    """Read a process with its descendants and the processes that it waits for, if the answer is in one of these.

    :param awaited: the processes that it waits for.
    :param status: the exit status of the report on the process alone.
    :return: the processes; None if there are none or many such processes, or no answer.
    """
    tree_of = dict(process_tree(pid))
    parents = without_own({**tree_of, **{other: parent_of(other) for other in awaited if other not in tree_of}})
    if not 1 < len(parents) <= _MOST_UNASKED:
        return None
    how = parse_options(options)
    how = replace(how, timeout=min(how.timeout, _UNASKED), text_only=False)
    tree = _snapshot(pid, parents, how, _MOST_UNASKED)
    is_over = status == OUTSIDE and tree.status == NOTHING_FOUND
    if not is_over and tree.status != FOUND and not any(
            _explains(seen, status) or tree.reads_inherited(member)
            for member, seen in tree.snapshots.items() if member != pid):
        return None
    return tree


def _explains(seen: Snapshot, status: int) -> bool:
    """Whether another process's report says why a process with this exit status hangs.

    A process that is at rest itself may have children that wait for work from it.
    """
    if status == OUTSIDE or seen.status != OUTSIDE or seen.report is None:
        return seen.status in (FOUND, OUTSIDE)
    return is_cause(seen.report)


def run(options: argparse.Namespace) -> int:
    """Report on a process and its descendants; return the exit status."""
    target = parse_target(options)
    if target.pid is None:
        raise UsageError("--children needs a PID: a core does not name child processes", "leave it out")
    if options.dot is not None:
        raise UsageError("--children draws no graph for Graphviz", "take --html FILE instead of --dot")
    from gdbext.launcher import job_page

    job = job_page.find(roots_of_job(target.pid), parse_options(options)) if not options.json else None
    if job is not None:
        write(concatenated([job_page.head(job), as_text([""])]))
    status = report_on_tree(target.pid, options)
    return worst([status, *([job_page.STATUS[job.job.kind]] if job is not None else [])])


def report_on_tree(pid: int, options: argparse.Namespace) -> int:
    """Write the report on a process and its descendants in the form that the options choose; return the status."""
    tree = snapshot_tree(pid, parse_options(options))
    write_tree(tree, tree.triage, options)
    return tree.status


def write_tree(tree: Tree, found: Triage, options: argparse.Namespace) -> None:
    """Write the report on processes in the form that the options choose."""
    if options.json:
        write(json_line(classes.as_document(found)))
    else:
        write_report(text(tree, found), options.pager)
    if options.html is not None:
        from gdbext.render.html import html_page

        title = f"gdbext: process {tree.root} and its descendants"
        write_file(options.html, html_page(shown_targets(tree), title, classes.class_rows(found), page_edges(tree)))
    sys.stdout.flush()
    longest = max((seen.stopped for seen in tree.snapshots.values() if seen.stopped is not None), default=None)
    if longest is not None:
        say("gdbext report: the processes were " +
            (f"paused one by one, each for {longest:.2f} s at most" if longest else "not paused") +
            f"; all snapshots were taken within {tree.apart:.1f} s")


def snapshot_tree(pid: int, options: Options) -> Tree:
    """Take snapshots of a process and its descendants, except those of `without_own`.

    :raises NoGdb: there is no GDB.
    """
    return _snapshot(pid, without_own(dict(process_tree(pid))), options)


def _snapshot(pid: int, parents: dict[int, int | None], options: Options, most: int = 0) -> Tree:
    """Take snapshots of processes, and of those that they wait for.

    :param parents: the processes, each with its parent; others that they wait for are added.
    :param most: how many processes there may be with those that are added.
    """
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
        left = list(parents)
        while left:
            run_all(left, processors(), work, done, progress.tick)
            awaited = dict.fromkeys(other for member in left for other in _awaited(snapshots[member]))
            left = [other for other in without_own(dict.fromkeys(awaited)) if other not in parents]
            left = left[:max(most - len(parents), 0)]
            parents.update({other: parent_of(other) for other in left})
    finally:
        progress.clear()
    apart = time.monotonic() - begin
    scene = watch({member: snapshots[member].report for member in parents})
    if options.redact:
        from gdbext.commands.answer import without_private

        scene = without_private(scene, pid)
    return Tree(pid, parents, {member: snapshots[member] for member in parents}, apart, scene.waits,
                tuple(find_deadlocks(scene.waits, scene.dead)), scene.blind)


def _awaited(seen: Snapshot) -> tuple[int, ...]:
    return awaited_processes(seen.report) if seen.report is not None else ()


def without_own(parents: Mapping[int, int | None]) -> dict[int, int | None]:
    """A tree of processes without this process and its descendants, unless the whole tree descends from it."""
    own = {member for member, _ in process_tree(os.getpid())}
    below = os.getpid() not in parents and own.issuperset(parents)
    return {pid: parent for pid, parent in parents.items() if below or pid not in own}


#: How many processes in trouble are listed first.
_MANY_IN_TROUBLE = 12
#: A waiting thread, its wait, and the processes that can end it.
Edge = tuple[Node, Wait, list[int]]


def _waits_between_processes(tree: Tree) -> Iterator[Edge]:
    for node, wait in sorted(tree.waits.items()):
        others = sorted({holder.pid for holder in wait.holders} - {node.pid})
        if others and not wait.idle:
            yield node, wait, others


def _edges(tree: Tree, deadlock: ProcessDeadlock) -> Iterator[Edge]:
    """The waits of a deadlock: between processes, and inside a process from one thread to the next."""
    for node in deadlock.members:
        wait = tree.waits[node]
        if not wait.idle:
            yield node, wait, sorted({holder.pid for holder in wait.holders})


def as_document(tree: Tree) -> dict[str, Any]:
    """The processes and their waits for each other, as schema ``gdbext-triage/1`` has them."""
    def edge(node: Node, wait: Wait, pids: Iterable[int]) -> dict[str, Any]:
        single = next(iter(wait.holders)).thread if len(wait.holders) == 1 else None
        return {"pid": node.pid, "thread": node.thread, "kind": wait.kind, "what": printable(explain(wait.awaited)),
                "holders": list(pids), "holder": single if single is None or single > 0 else None,
                "evidence": wait.evidence, "why": in_words(joined(wait.why))}

    def in_words(why: Reason | None) -> str | None:
        return None if why is None else explain(why)

    return {
        "root": tree.root, "apart": round(tree.apart, 3), "still": STILL,
        "tree": [{"pid": pid, "parent": parent, "name": _process(tree, pid).name, "target": tree.snapshots[pid].target,
                  **_verdict(tree.snapshots[pid])}
                 for pid, parent in tree.parents.items()],
        "waits": [edge(*each) for each in _waits_between_processes(tree)],
        "deadlocks": [{"processes": list(deadlock.processes), "evidence": deadlock.evidence,
                       "why": in_words(joined(deadlock.why)), "edges": [edge(*each) for each in _edges(tree, deadlock)],
                       "stuck_behind": list(deadlock.stuck_behind), "lost_message": deadlock.lost}
                      for deadlock in tree.deadlocks],
        "ends": [list(end) for end in tree.ends],
        "problem": in_words(tree.blind),
    }


def _verdict(seen: Snapshot) -> dict[str, Any]:
    """The verdict of a process as members of its entry; null if it could not be read."""
    if seen.report is None:
        return {"verdict": None, "title": None, "sentence": None}
    facts = Facts(seen.report)
    return {"verdict": facts.verdict.kind, "title": verdict_title(facts.verdict),
            "sentence": printable(plain(sentence(facts)))}


def _process(tree: Tree, pid: int) -> ProcessName:
    report = tree.snapshots[pid].report if pid in tree.snapshots else None
    if report is None:
        return ProcessName(pid, None)
    role = report.rank.identity.role if report.rank is not None else None
    return ProcessName(pid, role or next((thread.name for thread in report.threads if thread.lwp == pid), None))


def _process_line(tree: Tree, pid: int, whole: bool = False) -> str:
    seen = tree.snapshots.get(pid)
    report, problem = (seen.report, seen.problem) if seen is not None else (None, None)
    return one_line(words.process_line(_process(tree, pid), report, problem, whole, _deadlocked_with(tree, pid),
                                       pid in tree.chains.at_rest, pid in tree.chains.going_on))


def _deadlocked_with(tree: Tree, pid: int) -> list[int]:
    """The other processes of the deadlocks that a process is in."""
    return sorted({other for deadlock in tree.deadlocks if pid in deadlock.processes
                   for other in deadlock.processes} - {pid})


def _wait_line(tree: Tree, node: Node, wait: Wait, pids: Iterable[int]) -> str:
    report = tree.snapshots[node.pid].report
    single = next(iter(wait.holders)) if len(wait.holders) == 1 else None
    inside = single.thread if single is not None and single.pid == node.pid else None
    return one_line(words.wait_line(
        _process(tree, node.pid), node.thread, report.thread(node.thread) if report is not None else None,
        "lock" if wait.may_release else wait.kind, wait.awaited, inside, [_process(tree, pid) for pid in pids],
        wait.inherited))


def summary(tree: Tree, found: Triage) -> list[str]:
    """The answer: how many processes are in trouble, those processes, and the deadlocks between processes."""
    across = {pid for deadlock in tree.deadlocks for pid in deadlock.processes}
    # the deadlock is the answer for its processes, whatever each of them shows alone
    answered = {tree.snapshots[pid].target for pid in across}
    inside = sum(len(each.members) for each in found.classes if each.kind == DEADLOCK)
    unknown = sum(len({*each.members} - answered) for each in found.classes if each.kind == UNKNOWN)
    lines = [words.tree_summary(len(tree.parents), len(across), inside, unknown)]
    trouble = list(tree.trouble)
    # those that do not end by themselves first, and a cause before those that wait for it
    ends = list(dict.fromkeys(pid for end in tree.ends for pid in end))
    waiting = {node.pid for node, _, others in _waits_between_processes(tree) if not set(trouble).isdisjoint(others)}
    trouble.sort(key=lambda pid: (pid not in across and tree.snapshots[pid].status != FOUND,
                                  ends.index(pid) if pid in ends else len(ends), _only_waits(tree, pid),
                                  tree.chains.steps(pid, ends) or int(pid in waiting)))
    if tree.ends:
        end = tree.ends[0]
        behind = tree.chains.behind(end, [*trouble, *end])
        own = [deadlock for deadlock in tree.deadlocks if deadlock.processes == end]
        lost = any(deadlock.lost for deadlock in own)
        # the line of the only process behind says it, too
        if len(behind) > 1 or lost or len(end) > 1 and not own:
            lines.append(one_line(words.end_of_chains([_process(tree, pid) for pid in end], len(behind), lost)))
    shown = [*(pid for pid in ends if pid not in trouble), *trouble][:_MANY_IN_TROUBLE]
    lines += [f"  {_process_line(tree, pid, whole=True)}" for pid in shown]
    for deadlock in tree.deadlocks:
        lines += ["", one_line(words.deadlock_heading(deadlock.processes, deadlock.evidence, joined(deadlock.why),
                                                      deadlock.lost))]
        lines += [f"  {_wait_line(tree, *each)}" for each in _edges(tree, deadlock)]
        if deadlock.stuck_behind:
            stuck = words.stuck_behind([_process(tree, pid) for pid in deadlock.stuck_behind])
            lines.append(f"  {one_line(stuck)}")
    return lines


def _only_waits(tree: Tree, pid: int) -> bool:
    """Whether a process waits for its next work or for the end of other processes, and so has not caused the hang."""
    report = tree.snapshots[pid].report
    return report is not None and (waits_for_end(report) or takes_next(report))


def tree_lines(tree: Tree, found: Triage) -> list[str]:
    """The answer, the waits of the processes for each other, and the processes."""
    lines = summary(tree, found)
    members = {node for deadlock in tree.deadlocks for node in deadlock.members}
    waits = [each for each in _waits_between_processes(tree) if each[0] not in members]
    if waits:
        lines += ["", words.waits_heading(bool(members)), *(f"  {_wait_line(tree, *each)}" for each in waits)]
    lines += ["", words.TREE]
    depths: dict[int, int] = {}
    for pid, parent in tree.parents.items():
        depths[pid] = depths[parent] + 1 if parent in depths else 0
        lines.append(f"{'  ' * depths[pid]}  {_process_line(tree, pid)}")
    if tree.blind is not None:
        lines += ["", one_line(words.unknown_waits(tree.blind))]
    return lines


def text(tree: Tree, found: Triage) -> Safe:
    """The whole report: the processes, their waits for each other, and the representative of each class."""
    across = {pid for deadlock in tree.deadlocks for pid in deadlock.processes}
    lines = tree_lines(tree, found)
    by_target = {seen.target: (pid, seen) for pid, seen in tree.snapshots.items()}
    for each in found.classes:
        alike = [member for member in each.members if member != each.representative]
        pid, seen = by_target[each.representative]
        lines += ["", words.class_heading(each.representative, alike), "", *_own_lines(tree, seen, pid in across)]
    return as_text([*lines, *classes.failure_lines(found, "  ")])


def _own_lines(tree: Tree, seen: Snapshot, is_answered: bool) -> list[str]:
    """The lines of a process's own report, without the next step if that leads to a process of the tree.

    :param is_answered: whether a deadlock with other processes is above; the process's own verdict is left out then.
    """
    lines = seen.text.strip("\n").split("\n")
    if is_answered and ALL_THREADS in lines:
        return [lines[0], "", *lines[lines.index(ALL_THREADS):]]
    step = next_step(Facts(seen.report)) if seen.report is not None else ""
    line = f"Next: {step}"
    if step and line in lines and int(step.rpartition(" ")[2]) in tree.parents:
        del lines[lines.index(line):lines.index(line) + 2]
    return lines


def shown_targets(tree: Tree) -> list[Shown]:
    """The processes as `render.html` takes them."""
    return [replace(seen.for_page(), hint=seen.hint, deadlocked_with=tuple(_deadlocked_with(tree, pid)),
                    parent=tree.snapshots[parent].target if parent is not None and parent in tree.snapshots else None)
            for (pid, parent), seen in zip(tree.parents.items(), tree.snapshots.values())]


def page_edges(tree: Tree) -> list[dict[str, Any]]:
    """The waits as `render.html` takes them."""
    within = {node for deadlock in tree.deadlocks for node in deadlock.members}
    return [{"waiter": tree.snapshots[node.pid].target, "holder": tree.snapshots[pid].target,
             "what": explain(wait.awaited), "deadlock": node in within}
            for node, wait, pids in _waits_between_processes(tree) for pid in pids]
