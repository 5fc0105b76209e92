"""One report on a process and its descendants, as text and as a page, and the end of such a tree."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterable

from gdbext.inferior.proc.status import process_tree, start_of
from gdbext.launcher import children
from gdbext.launcher.snapshots.classes import class_rows
from gdbext.launcher.snapshots.options import Options
from gdbext.launcher.status import worst
from gdbext.narrate.names import Facts
from gdbext.record import record
from gdbext.render.escape import Safe, printable
from gdbext.render.output_file import write_private
from gdbext.render.plain_text import one_line


@record
class TreeReport:
    """A report: its text, its page, and the exit status of the launcher for it."""

    text: Safe
    status: int
    tree: children.Tree

    def verdict(self) -> str | None:
        """The verdict on the process that needs attention most, on one line; None if none could be read."""
        from gdbext.narrate.brief import one_line as words

        read = [seen for seen in self.tree.snapshots.values() if seen.report is not None]
        if not read:
            return None
        statuses = {seen.target: worst([seen.status]) for seen in read}
        chosen = next(seen for seen in read if statuses[seen.target] == worst(statuses.values()))
        assert chosen.report is not None
        return one_line(words(Facts(chosen.report)))

    def page(self, title: str) -> Safe:
        """The page for browsers.

        :raises MissingLibrary: there is no Jinja2.
        """
        from gdbext.render.html import html_page

        return html_page(children.shown_targets(self.tree), title, class_rows(self.tree.triage),
                         children.page_edges(self.tree))


def report_tree(pid: int, options: Options) -> TreeReport:
    """Report on a process and its descendants, except those of `children.without_own`.

    :raises GdbextError: there is no usable GDB where one is needed.
    """
    tree = children.snapshot_tree(pid, options)
    found = tree.triage
    only = tree.snapshots.get(pid) if len(tree.snapshots) == 1 else None
    if only is not None and only.document is not None:
        text = only.text
    else:
        text = children.text(tree, found)
    return TreeReport(text, tree.status, tree)


def write_page(report: TreeReport, folder: str, name: str, title: str) -> str:
    """Write the page of a report into a folder, which is created; return the path.

    :param name: any text; it is changed to a valid name of a file.
    :raises OSError: it cannot be written.
    """
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(os.path.abspath(folder), re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[-150:] + ".html")
    write_private(path, report.page(printable(title, 300)))
    return path


def members(pid: int) -> dict[int, int | None]:
    """A process and its descendants with their start times, except those of `children.without_own`."""
    return {member: start_of(member) for member in children.without_own(dict(process_tree(pid)))}


def send(number: signal.Signals, processes: Iterable[tuple[int, int | None]]) -> None:
    """Send a signal to processes, except those that have ended and whose number may have another process now.

    :param processes: PIDs with the start times.
    """
    for pid, started in processes:
        if started is not None and start_of(pid) == started:
            try:
                os.kill(pid, number)
            except OSError:
                pass
