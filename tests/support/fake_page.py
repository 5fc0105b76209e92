"""A parser for pages of `render.html`, and reports to build pages from."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

from gdbext.model import (
    EXCLUSIVE,
    RECORDED,
    Awaited,
    Crash,
    Deadlock,
    Edge,
    EventLoop,
    Fault,
    Finding,
    Hold,
    Holder,
    Local,
    MixedStack,
    NativeFrame,
    Operand,
    PyFrame,
    Recursion,
    Report,
    Suspect,
    Task,
    Thread,
    Wait,
    Waiter,
)
from gdbext.model.reasons import because
from gdbext.render.html import html_page
from gdbext.render.shown import Shown
from gdbext.schema.read import read_document
from gdbext.schema.write import PARTS, document
from tests.support.fake_report import RWLOCK, gil_deadlock, healthy, orphaned
from tests.support.gdb_session import violations
from tests.support.reasons import text

Json = dict[str, Any]

VOID = {"meta", "input"}
ELEMENTS = {
    "html", "head", "meta", "title", "style", "body", "script", "a", "header", "main", "footer", "nav", "section",
    "div",
    "h1", "h2", "h3", "p", "ul", "ol", "li", "b", "i", "strong", "span", "bdi", "kbd", "code", "pre", "table", "thead",
    "tbody", "tr", "th", "td", "details", "summary", "label", "input", "button", "output", "svg", "defs", "marker",
    "path", "g", "rect", "text", "mark",
}
ATTRIBUTES = {
    "lang", "charset", "http-equiv", "content", "name", "class", "href", "id", "tabindex", "scope", "for", "type",
    "autocomplete", "spellcheck", "placeholder", "role", "hidden", "open", "start", "value", "data-filter",
    "data-target", "data-unit", "data-state", "data-count", "aria-label", "aria-controls", "aria-pressed",
    "aria-hidden", "width", "height",
    "viewbox", "xmlns", "refx", "refy", "markerwidth", "markerheight", "markerunits", "orient", "d", "x", "y", "rx",
    "marker-end",
}


class Page(HTMLParser):
    """A parsed page; elements must be closed in reverse order of opening."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        #: Texts, with the path of elements to each.
        self.texts: list[tuple[tuple[str, ...], str]] = []
        self.open: list[str] = []
        self.classes: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs)
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID and not (tag == "li" and self._in_stack()):
            self.open.append(tag)
            self.classes.append(dict(attrs).get("class") or "")

    def _in_stack(self) -> bool:
        # frames have no end tags
        return self.open[-1] == "ol" and self.classes[-1] == "stack"

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        self.classes.pop()

    def handle_data(self, data: str) -> None:
        self.texts.append((tuple(self.open), data))

    def handle_comment(self, data: str) -> None:
        raise AssertionError("a comment")

    def text(self, inside: str = "body") -> str:
        """All visible text inside elements of that name."""
        return "".join(text for way, text in self.texts if inside in way and not {"script", "style"} & {*way})

    def having(self, **attributes: str) -> list[str]:
        """The names of the elements with these attributes."""
        wanted = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
        return [tag for tag, found in self.elements if wanted.items() <= found.items()]

    def check(self) -> None:
        """Check that the page loads nothing, that its links have a target in it, and that headings are in order."""
        assert {tag for tag, _ in self.elements} <= ELEMENTS
        assert {name for _, attributes in self.elements for name in attributes} <= ATTRIBUTES
        ids = [attributes["id"] for _, attributes in self.elements if "id" in attributes]
        assert [each for each, count in Counter(ids).items() if count > 1] == []
        links = [attributes["href"] or "" for _, attributes in self.elements if "href" in attributes]
        assert [link for link in links if not link.startswith("#") or link[1:] not in ids] == []
        levels = [int(tag[1]) for tag, _ in self.elements if re.fullmatch("h[1-6]", tag)]
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(below <= above + 1 for above, below in zip(levels, levels[1:]))


def rows(made: Page, class_: str) -> list[Json]:
    """The attributes of the elements of a class."""
    return [attributes for _, attributes in made.elements if attributes.get("class") == class_]


def look(report: Report, target: str = "process 885", *, small: bool = True, **more: Any) -> Shown:
    """An argument of `html_page`, read from a document; a `small` one is checked by its schema."""
    made = document_of(report)
    assert not small or violations(made) == []
    return Shown(target, read_document(made), **more)


def document_of(report: Report) -> Json:
    """The document with every part of a report."""
    return document(report, [*PARTS, *(["crash"] if report.crash is not None else []),
                             *(["tasks"] if report.event_loops else [])])


def page(*looks: Shown, title: str = "gdbext", **more: Any) -> Page:
    """The page of these snapshots, checked."""
    made = Page(html_page(looks, title, **more))
    made.check()
    return made


def crash() -> Report:
    """A crash with every part that a report can have."""
    report = gil_deadlock()
    frames = (NativeFrame("Data::get", "libdrv.so", 0x10, "/src/drv.cc", 32), NativeFrame(None, "libffi.so.8", 0x20),
              PyFrame("fetch", "Store.fetch", "/app/job.py", 7))
    fault = Fault("SIGSEGV", "SEGV_MAPERR", "null-member", text("read 8 bytes at 0x18: a member of a null pointer"),
                  address=0x18, access="read", size=8, pc=0x10, instruction="mov 0x18(%rdi),%rax",
                  operands=(Operand("%rdi", 0, because("null"), (because(
                      "argument", register="rdi", number=1, is_this=1, function="Data::get()"),)),),
                  registers={"rip": 0x10}, message="what():  no data\nand more")
    found = Crash(1, fault, MixedStack(frames, variables={0: (Local("this", "Data *", "0x0"),),
                                                          2: tuple(Local(f"v{at}", "int", "1") for at in range(20))}),
                  0, Recursion((0,), 12, 40, False, 4096),
                  (Finding("without-gil", 2, text("uses the interpreter"), "inferred",
                           text("it has released the GIL")),),
                  (Suspect(2, (because("same-function", function="Data::fill()"),), (because("no-common-lock"),)),),
                  (text("libdrv.so is not there"),))
    return replace(report, crash=found, deadlocks=())


def asyncio() -> Report:
    """Two tasks that wait for each other, and one that waits for a lock of the first."""
    stack = (PyFrame("work", "Job.work", "/app/job.py", 5, None, "coroutine"),)
    lock = Awaited(kind="asyncio.Lock", address=0x90, name="table", holders=(0x10,), timed=True)
    tasks = (Task(0x10, "one", 0x1, 1, "pending", stack, Awaited((0x20,)), (0x20,)),
             Task(0x20, None, 0x1, 1, "pending", stack, Awaited((0x10,), kind="asyncio.gather"), (0x10,)),
             Task(0x30, "three", 0x2, None, "pending", (), lock))
    return replace(healthy(), event_loops=(EventLoop(0x1, "_UnixSelectorEventLoop", 1), EventLoop(0x2, "Loop", None)),
                   tasks=tasks, task_cycles=((0x10, 0x20),))


def boxes(made: Page) -> dict[str, tuple[str, float, float, float, float]]:
    """The kind and position of each node, by its link target or a number."""
    found: dict[str, tuple[str, float, float, float, float]] = {}
    kind, anchor = "", ""
    for (before, link), (tag, attributes) in zip(made.elements, made.elements[1:]):
        if tag == "g" and (attributes.get("class") or "").startswith("node"):
            kind = attributes["class"] or ""
            anchor = link["href"] or "" if before == "a" else str(len(found))
        if tag == "rect":
            x, y, width, height = (float(attributes[name] or "") for name in ("x", "y", "width", "height"))
            found[anchor] = (kind, x, y, x + width, y + height)
    return found


def overlapping(found: dict[str, tuple[str, float, float, float, float]]) -> list[tuple[str, str]]:
    """The pairs of overlapping nodes."""
    return [(one, other) for one, a in found.items() for other, b in found.items()
            if one < other and a[1] < b[3] and b[1] < a[3] and a[2] < b[4] and b[2] < a[4]]


def pool(count: int, depth: int = 12, alike: bool = True) -> Report:
    """A deadlock with many threads stuck behind it, all with the same stack or each with its own."""
    report = gil_deadlock()
    waiting = report.threads[2]
    more = tuple(Thread(number, 1000 + number, None, "python", f"worker-{number}", status="blocked", syscall="futex",
                        waits=waiting.waits, stack=tuple(
                            PyFrame(f"function_{at}", f"Some.Class.function_{at}",
                                    f"/usr/lib/python3.11/site-packages/package/module_{at}/file.py",
                                    at if alike else number * depth + at) for at in range(depth)))
                 for number in range(6, 6 + count))
    (deadlock,) = report.deadlocks
    behind = (*deadlock.stuck_behind, *(thread.number for thread in more))
    locks = tuple(replace(lock, waiters=(*lock.waiters, *(replace(lock.waiters[1], thread=thread.number)
                                                          for thread in more))) if lock.id == RWLOCK else lock
                  for lock in report.locks)
    return replace(report, threads=(*report.threads, *more), locks=locks,
                   deadlocks=(replace(deadlock, stuck_behind=behind),))


def ring(count: int) -> Report:
    """Threads that each wait for a lock of the next one."""
    def name(number: int) -> str:
        return f"mutex:{0x1000 + number:#x}"

    report = orphaned()
    (thread,), (lock,) = report.threads, report.locks
    threads, locks, edges = [], [], []
    for number in range(1, count + 1):
        following, before = number % count + 1, (number - 2) % count + 1
        threads.append(replace(thread, number=number, waits=Wait(name(following), EXCLUSIVE, False),
                               holds=(Hold(name(number), EXCLUSIVE, RECORDED),)))
        locks.append(replace(lock, id=name(number), address=0x1000 + number, orphan=None, why=None,
                             holders=(Holder(number, EXCLUSIVE, RECORDED),), waiters=(Waiter(before, EXCLUSIVE),)))
        edges.append(Edge(number, name(following), number % count + 1))
    deadlock = Deadlock(tuple(range(1, count + 1)), RECORDED, tuple(edges))
    return replace(report, threads=tuple(threads), locks=tuple(locks), deadlocks=(deadlock,))


def two_and_two(length: int, is_ring: bool) -> Report:
    """Two threads and two locks with names of a length, in a deadlock or one behind the other."""
    report = ring(2)
    threads = tuple([replace(thread, python_name="x" * length) for thread in report.threads])
    first, second = [replace(lock, name="y" * length) for lock in report.locks]
    if is_ring:
        return replace(report, threads=threads, locks=(first, second))
    first = replace(first, holders=(), orphan=orphaned().locks[0].orphan)
    return replace(report, threads=threads, locks=(first, second), deadlocks=())
