"""Reports as one self-contained page of HTML: the templates, their helpers, and escaping.

A page may show several targets: representatives of classes of cores, processes of a tree, workers of a cluster.
Every value that a template writes passes `_safe`, and Jinja escapes it unless it is `Markup`. The content security
policy allows only the page's own script and style, by their hashes. So even an unescaped name could not run or load
anything.
"""

from __future__ import annotations

import base64
import collections
import functools
import hashlib
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from gdbext.errors import MissingLibrary
from gdbext.model import Columns, Frame, Local, MixedStack, NativeFrame, Part, PyFrame, Report, TargetInfo, Thread
from gdbext.model.frames import library_of
from gdbext.narrate import (
    crash,
    deadlocks,
    gils,
    graph,
    greenlets,
    locks,
    processes,
    sentences,
    tasks,
    threads,
    verdict,
)
from gdbext.narrate.frames import (
    explaining_frames,
    frame_name,
    frame_place,
    inlined_calls,
    left_out,
    numbered,
    parts_of,
)
from gdbext.narrate.names import MANY, Facts, heading, lock_name
from gdbext.narrate.threads import STATES, Group
from gdbext.narrate.words import Foreign, Marked, Word, Words, plain, plural, reason
from gdbext.record import record
from gdbext.render.escape import Safe, printable
from gdbext.render.html_graph import Graph, Node
from gdbext.render.shown import Shown, ShownJob
from gdbext.render.source_excerpts import pieces

try:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from jinja2.ext import Extension
    from markupsafe import Markup, escape
except ImportError as error:
    raise MissingLibrary(f"a page of HTML needs Jinja2, which cannot be imported: {error}",
                         "pip install jinja2") from None

#: Tones in the order in which targets are shown.
_RANKS = ("bad", "doubt", "good", "plain")
_TEMPLATES = Path(__file__).resolve().parent / "templates"
_NOTHING = Report(TargetInfo("live", 0, None, "", None))
#: How many threads of a report are expanded at first.
_OPEN = 4
#: How many characters all stacks of a page may take before later, less important ones are shortened; how many
#: innermost frames these keep; how many they keep after twice as many characters; how many characters a frame takes.
_STACKS, _INNER, _INNERMOST, _FRAME = 700_000, 8, 3, 60


def html_page(targets: Sequence[Shown], title: str, classes: Sequence[Mapping[str, Any]] = (),
              between: Sequence[Mapping[str, Any]] = (), job: ShownJob | None = None) -> Safe:
    """Render one self-contained page, in ASCII. All text is treated as hostile.

    :param classes: classes of targets: `verdict` in words, `count`, `members` (targets), and the `representative`
        target.
    :param between: waits between targets: `waiter` and `holder` (targets; `holder` may be None), `what` after
        the word "waits" ("for the end of process 9"), and whether the wait is part of a `deadlock`.
    :param job: the job that the targets are ranks of.
    """
    views = [View(each, index) for index, each in enumerate(targets)]
    anchors = {view.target: view.anchor for view in views}
    found = collections.Counter(state for view in views for state in view.states.values())
    style, script = ((_TEMPLATES / name).read_text(encoding="ascii") for name in ("page.css", "page.js"))
    page = _environment().get_template("page.html.j2").render(
        views=views, title=title, classes=classes, between=between, between_graph=_between(between, anchors),
        anchors=anchors, depths=_depths(views), states=[(state, STATES[state], found[state]) for state in STATES
                                                        if found[state]],
        job=job, budget=Budget(), style=Markup(style), script=Markup(script), policy=(
            "default-src 'none'; base-uri 'none'; form-action 'none'; "
            f"style-src {_hash(style)}; script-src {_hash(script)}"))
    return Safe(page.encode("ascii", "xmlcharrefreplace").decode("ascii"))


@record
class Entry:
    """An entry of a stack: a frame, or several frames that `words` stand for.

    `index` is that of the (first) frame in the stack. `inside` are the frames of folded parts, as entries. `source` is
    the source line, in the pieces before, inside and after its running part.
    """

    index: int
    frame: Frame | None = None
    name: str = ""
    note: str = ""
    source: tuple[str, str, str] | None = None
    variables: Sequence[Local] = ()
    words: Words = ()
    inside: Sequence[Entry] = ()


class Stack(NamedTuple):
    """The entries of a stack, and how many outermost frames are omitted."""

    entries: Sequence[Entry]
    omitted: int = 0


class Budget:
    """The number of characters that stacks of the page may still take."""

    def __init__(self) -> None:
        self._left = _STACKS

    def frames(self, count: int) -> int:
        """How many innermost frames of a stack with `count` frames are shown."""
        inner = _INNER if self._left > -_STACKS else _INNERMOST
        return count if count <= inner + 1 or count * _FRAME <= self._left else inner

    @property
    def is_spent(self) -> bool:
        """Whether only frames are shown, without what explains them."""
        return self._left <= 0

    def spend(self, made: str) -> str:
        """Count the size of a rendered stack, and return the stack."""
        self._left -= len(made)
        return made


class View:
    """A target for templates; its words link to the entries of the threads and locks that they name.

    :param index: the target's number on the page, which makes ids unique.
    """

    def __init__(self, shown: Shown, index: int) -> None:
        self.target, self.parent, self.stopped = shown.target, shown.parent, shown.stopped
        self.problem, self.hint = shown.problem or verdict.NO_REASON, shown.hint
        self.index, self.anchor = index, f"target{index}"
        self.seen = shown.report is not None
        self.report = shown.report or _NOTHING
        self.facts = Facts(self.report)
        self.threads = self.facts.threads
        self.states = threads.states(self.facts)
        self.tone, self.headline = verdict.headline(self.facts) if self.seen else verdict.not_seen(self.problem)
        if shown.deadlocked_with:
            self.tone, self.headline = "bad", processes.deadlock_with(shown.deadlocked_with)
        #: what is wrong comes first, whatever process started it
        self.rank = _RANKS.index(self.tone)
        #: whether the report has what a verdict rests on
        self.judged = self.seen and not shown.deadlocked_with and (
            bool(self.threads) or self.report.verdict is not None)
        self._source = shown.source
        self.source_notes = shown.source_notes
        self._place_of_lock = {lock: place for place, lock in enumerate(self.facts.locks)}

    def thread_anchor(self, number: object) -> str | None:
        """The id of a thread's entry; None if the report lacks the thread."""
        return f"t{self.index}-{number}" if number in self.threads else None

    def lock_anchor(self, lock_id: object) -> str | None:
        """The id of a lock's row; None if the report lacks the lock."""
        return f"l{self.index}-{self._place_of_lock[str(lock_id)]}" if lock_id in self._place_of_lock else None

    def say(self, words: Words, link: bool = True) -> Markup:
        """Convert words to markup."""
        return Markup("").join([self._word(word, link) for word in words])

    def _word(self, word: Word, link: bool) -> Markup:
        if isinstance(word, str):
            return escape(_safe(word))
        if isinstance(word, Foreign):
            # a right-to-left name must not reorder the words around it
            return Markup("<bdi>{}</bdi>").format(printable(word.text, word.limit))
        return self._marked(word, link)

    def _marked(self, marked: Marked, link: bool) -> Markup:
        anchor = None
        if link and marked.role in ("thread", "lock"):
            anchor = self.thread_anchor(marked.key) if marked.role == "thread" else self.lock_anchor(marked.key)
        text = self.say(marked.words, link and anchor is None)
        if marked.role == "why":
            return Markup('<span class="why">{}</span>').format(text)
        if marked.role != "thread":
            text = Markup('<b class="{}">{}</b>').format(marked.role, text)
        return text if anchor is None else Markup('<a href="#{}">{}</a>').format(anchor, text)

    def groups(self) -> Iterator[tuple[Group, bool]]:
        """Each group of threads, and whether it is expanded at first."""
        opened = 0
        for group in threads.groups(self.facts, by_state=True):
            important = group.state in ("crashed", "deadlocked")
            yield group, important and opened < _OPEN and len(self.threads) <= MANY
            opened += important

    def source(self, file: str, line: int | None, columns: Columns | None = None) -> tuple[str, str, str] | None:
        """A source line, in the pieces before, inside and after its running part; None without one."""
        text = self._source.get((file, line)) if line is not None else None
        return pieces(text, line, columns) if line is not None and text and text.strip() else None

    def holdings(self, thread: Thread,
                 chosen: set[str] | None = None) -> Iterator[tuple[Words, tuple[str, ...] | None]]:
        """The locks that a thread holds, with the source lines that acquired them; if `chosen` is given, only those."""
        for hold in thread.holds:
            taken = hold.taken_at
            for words in threads.holdings(self.facts, replace(thread, holds=(hold,)), chosen):
                yield words, self.source(taken.file, taken.line) if taken is not None else None

    def _entry(self, index: int, part: Part, with_source: bool, variables: Mapping[int, Sequence[Local]]) -> Entry:
        (frame,) = part.frames
        named = replace(frame, function=part.name) if part.name and isinstance(frame, NativeFrame) else frame
        source = self.source(frame.file, frame.line, frame.columns) if with_source and isinstance(
            frame, PyFrame) else None
        return Entry(index, frame, frame_name(named), part.note or "", source, variables.get(index, ()))

    def explaining(self, thread: Thread) -> Stack:
        """The frames of a thread that explain a verdict, with the source lines of the program's own code."""
        chosen, entries = explaining_frames(thread), list[Entry]()
        for is_chosen, group in itertools.groupby(numbered(parts_of(thread)), lambda each: each[0] in chosen):
            found = list(group)
            if is_chosen:
                entries += [self._entry(index, part, library_of(part.frames[0]) is None, {}) for index, part in found]
            else:
                entries.append(Entry(found[0][0], words=left_out([part for _, part in found])))
        return Stack(entries)

    def whole(self, parts: Sequence[Part], variables: Mapping[int, Sequence[Local]], budget: Budget) -> Stack:
        """A whole stack, or its innermost frames if the page would become too large."""
        count = sum(part.text is None for part in parts)
        shown, brief = budget.frames(count), budget.is_spent
        entries, taken = list[Entry](), 0
        for index, part in numbered(parts):
            if taken >= shown < count:
                return Stack(entries, sum(len(each.frames) for each in parts) - index)
            if part.text is None:
                entries.append(self._entry(index, part, not brief, variables))
                taken += 1
            else:
                inside = [self._entry(index + at, Part((frame,)), False, variables)
                          for at, frame in enumerate(part.frames) if not brief]
                entries.append(Entry(index, words=left_out([part]), inside=inside))
        return Stack(entries)

    def thread_stack(self, thread: Thread, budget: Budget) -> Stack:
        """The whole stack of a thread."""
        return self.whole(parts_of(thread), dict(enumerate(thread.variables or ())), budget)

    def crash_stack(self, stack: MixedStack, budget: Budget) -> Stack:
        """The whole stack of a crash, with its variables."""
        parts = stack.parts or [Part((frame,)) for frame in stack.frames]
        return self.whole(parts, stack.variables, budget)

    def frames_stack(self, frames: Sequence[Frame], budget: Budget) -> Stack:
        """A stack of frames that nothing is known about."""
        return self.whole([Part((frame,)) for frame in frames], {}, budget)

    def graph(self) -> Graph | None:
        """The drawing of the wait-for graph; None if it is empty."""
        waits, made = graph.wait_for_graph(self.facts), Graph()
        if not waits.threads:
            return None
        for members, arrows in waits.threads:
            made.add(Node(f"thread {members[0]}", "thread", _lines(graph.thread_lines(self.facts, members)),
                          self.thread_anchor(members[0]), any(arrow.bad for arrow in arrows)))
        for lock, bad in waits.locks.items():
            made.add(Node(f"lock {lock}", "lock", _lines(graph.lock_lines(self.facts, lock)), self.lock_anchor(lock),
                          bad))
        for members, arrows in waits.threads:
            for arrow in arrows:
                ends = (f"thread {members[0]}", f"lock {arrow.lock}")
                start, end = ends if arrow.kind == "waits" else ends[::-1]
                made.connect(start, end, arrow.words, arrow.bad, arrow.kind)
        return made


def _lines(lines: Sequence[Words]) -> list[str]:
    return [printable(plain(words)) for words in lines]


def _depths(views: Sequence[View]) -> dict[str, int]:
    """The depth of each target in the index."""
    depths: dict[str, int] = {}
    for view in views:
        # parents are listed before their children, so there are no cycles
        depths.setdefault(view.target, min(depths.get(view.parent, -1) + 1, 9) if view.parent is not None else 0)
    return depths


def _between(between: Sequence[Mapping[str, Any]], anchors: Mapping[str, str]) -> Graph:
    made = Graph()
    for edge in between:
        bad, what = bool(edge["deadlock"]), f"what {edge['what']}"
        targets = [end for end in (edge["waiter"], edge["holder"]) if end is not None]
        for target in targets:
            made.add(Node(f"target {target}", "thread", [printable(target, 120)], anchors.get(target), bad))
        made.add(Node(what, "lock", [printable(edge["what"].removeprefix("for "), 120)], None, bad))
        made.connect(f"target {targets[0]}", what, "waits", bad)
        for holder in targets[1:]:
            made.connect(what, f"target {holder}", "for", bad)
    return made


def _hash(text: str) -> str:
    """The hash of an inline style or script for the policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('ascii')).digest()).decode('ascii')}'"


# -- templates ---------------------------------------------------------------------------------------------------


def _safe(value: object) -> object:
    """Escape control characters in a value that a template writes, unless it is markup."""
    return value if isinstance(value, Markup) else printable(str(value))


class _OneLine(Extension):
    """Removes the line breaks and the indentation of templates, which browsers would show as spaces."""

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        """The template in one line."""
        return re.sub(r"\s*\n\s*", "", source)


@functools.cache
def _environment() -> Environment:
    made = Environment(loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined,
                       finalize=_safe, extensions=[_OneLine])
    made.filters.update(cut=lambda text, limit: printable(str(text), limit), number=lambda count: f"{count:,}",
                        px=lambda pixels: f"{pixels:.1f}")
    made.globals.update(crash_words=crash, gils=gils, graph=graph, greenlets=greenlets, locks=locks, tasks=tasks,
                        threads=threads, verdict=verdict, sentences=sentences, deadlocks=deadlocks,
                        frame_place=frame_place, heading=heading, inlined_calls=inlined_calls, lock_name=lock_name,
                        plural=plural, reason=reason, STATES=STATES, NEWLINE=Markup("\n"))
    return made
