"""Reports as text. Everything that comes from the target passes `printable` first."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from gdbext.model import (
    RECORDED,
    SHARED,
    Columns,
    Deadlock,
    Frame,
    Hold,
    Interpreter,
    Local,
    Lock,
    MixedStack,
    NativeFrame,
    Part,
    PyFrame,
    Report,
    Runtime,
    Thread,
)
from gdbext.model.kinds import GIL, kind_of
from gdbext.model.reasons import Reason
from gdbext.narrate.reasons import explain
from gdbext.render.escape import printable
from gdbext.render.phrases import ON_DESCRIPTOR, held_words, holding_world, is_event, wait_mode
from gdbext.render.style import Style, columns, excerpt, shorten_path

#: Gives a source line by file and number, or None.
Source = Callable[[str, int], "str | None"]

#: How many Python frames, and how many other frames, of a thread a verdict shows.
_VERDICT_FRAMES = 6
#: Modules that only carry a call from Python to a library and back; a verdict leaves their frames out.
_GLUE = re.compile(r"^(?:libffi\.so|_ctypes[.]|_cffi_backend[.])")
#: How many thread numbers, or ranges of them, a list shows before it says how many more there are.
_MANY = 20
#: How many numbers in a row are shown as a range.
_RANGE = 3
#: How many kinds of names of threads a heading shows.
_MANY_NAMES = 4
#: How many frames of each thread ``top`` shows.
_TOP = 3
#: How many characters the edges of a deadlock may take on one line.
_EDGES_WIDTH = 160
_DIGITS = re.compile(r"[0-9]+")
#: How many characters of a source line are shown, and how many are looked at.
_SOURCE_WIDTH = 160
_MAX_COLUMN = 1 << 16
#: How many are shown at least, however narrow the terminal is.
_LEAST_SOURCE = 20
#: How far what stands below a frame is indented.
_BELOW = " " * 9


class TextRenderer:
    """Renders one report.

    :param source: where source lines come from.
    :param context: how many lines before and after a source line are shown, too.
    """

    def __init__(self, report: Report, style: Style, source: Source, context: int = 0) -> None:
        self._report = report
        #: How words are marked.
        self.style = style
        self._source = source
        self._context = context
        self._threads = {thread.number: thread for thread in report.threads}
        self._locks = {lock.id: lock for lock in report.locks}
        self._single_gil = sum(lock.kind == GIL for lock in report.locks) == 1

    # -- words -----------------------------------------------------------------------------------------------

    def thread_name(self, number: int) -> str:
        """A thread by its number and name."""
        thread = self._threads.get(number)
        if thread is None:
            return f"thread {number}"
        name = thread.python_name or thread.name
        return f"thread {number}" + (f' "{printable(name, 60)}"' if name else "")

    def _heading(self, thread: Thread) -> str:
        name = thread.python_name or thread.name
        tid = f", TID {thread.tid}" if thread.tid not in (None, thread.lwp) else ""
        text = f"Thread {thread.number} (LWP {thread.lwp}{tid})"
        return self.style.mark(text + (f' "{printable(name, 60)}"' if name else ""), "name")

    def _heading_of(self, members: Sequence[Thread]) -> str:
        """The heading of threads that are shown together, by ascending number, or of a single one."""
        if len(members) == 1:
            return self._heading(members[0])
        text = self._numbers([thread.number for thread in members])
        return self.style.mark(f"{len(members)} {text}{self._names(members)}", "name")

    def _lock_name(self, lock: Lock) -> str:
        kind = kind_of(lock.kind)
        if kind.ends_thread:
            owner = lock.holders[0].thread if lock.holders else None
            return "the end of " + (self.thread_name(owner) if owner is not None else f"thread {lock.address:#x}")
        if kind.title is not None:
            return kind.title if self._single_gil else f"{kind.title} {lock.id}"
        return f"{lock.kind} {lock.address:#x}" + (f" {printable(lock.name, 80)}" if lock.name else "")

    def _numbers(self, numbers: Sequence[int]) -> str:
        runs = list(_runs(numbers))
        shown = ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs[:_MANY])
        left = sum(map(len, runs[_MANY:]))
        return f"thread{'s' if len(numbers) != 1 else ''} {shown}" + (f" and {left} more" if left else "")

    def _known(self, numbers: Iterable[int]) -> list[Thread]:
        return [self._threads[number] for number in numbers if number in self._threads]

    def _names(self, threads: Sequence[Thread]) -> str:
        """The names of threads in parentheses, of those that differ in a number only the first and the last."""
        alike: dict[str, list[str]] = {}
        for name in dict.fromkeys(thread.python_name or thread.name or "" for thread in threads):
            if name:
                alike.setdefault(_DIGITS.sub("0", name), []).append(f'"{printable(name, 60)}"')
        texts = [f"{names[0]} ... {names[-1]}" if len(names) >= _RANGE else ", ".join(names)
                 for names in itertools.islice(alike.values(), _MANY_NAMES)]
        left = sum(map(len, itertools.islice(alike.values(), _MANY_NAMES, None)))
        more = f" and {left} more name{'s' if left != 1 else ''}" if left else ""
        return f" ({', '.join(texts)}{more})" if texts else ""

    @staticmethod
    def _evidence(evidence: str, why: Reason | None) -> str:
        if evidence == RECORDED:
            return ""
        return f" ({evidence}: {printable(explain(why))})" if why else f" ({evidence})"

    def _held_by(self, lock: Lock) -> str:
        """Who holds a lock, as the end of a sentence."""
        if kind_of(lock.kind).ends_thread:
            return ""
        if lock.holders:
            words = held_words(lock.kind, printable(lock.state), lock.name)
            numbers = sorted(holder.thread for holder in lock.holders)
            if len(numbers) > _RANGE:
                names = self._numbers(numbers) + self._names(self._known(numbers))
            else:
                names = ", ".join(self.thread_name(holder.thread) for holder in lock.holders)
            return f", {words} {names}{self._evidence(lock.holders[0].evidence, lock.holders[0].why)}"
        if lock.orphan:
            why = f" ({printable(explain(lock.why))})" if lock.why else ""
            return f", held by nobody alive: {printable(explain(lock.orphan))}{why}"
        if lock.candidates:
            return (f", {printable(lock.state)}; holders not recorded, candidates: {self._numbers(lock.candidates)}"
                    + (f" ({printable(explain(lock.why))})" if lock.why else ""))
        if lock.state == "free":
            return ", free"
        return f", {printable(lock.state)}" + (f" ({printable(explain(lock.why))})" if lock.why else "")

    def _hold(self, hold: Hold, indent: str) -> list[str]:
        """What a thread holds, and where it took it; that others wait for its end is told where they are."""
        lock = self._locks[hold.lock]
        kind = kind_of(lock.kind)
        if kind.ends_thread:
            return []
        mode = " for reading" if hold.mode == SHARED else ""
        if kind.stops_world:
            name = self.style.mark(f"{lock.kind} {lock.address:#x}", "lock")
            return [f"{indent}{name}{holding_world(lock.name)}"]
        lines = [f"{indent}{self.style.mark(self._lock_name(lock), 'lock')}{mode}"
                 f"{self._evidence(hold.evidence, hold.why)}"]
        taken = hold.taken_at
        if taken is not None:
            start = " " * len(indent) + f"taken by {printable(taken.function, 120)} at "
            lines.append(start + self._place(taken.file, taken.line, columns(start)))
            # its columns are those of what it runs now
            lines += self._source_lines(taken.file, taken.line, None, " " * (len(indent) + 4))
        return lines

    def _wait(self, thread: Thread, lock: Lock) -> str:
        wait = thread.waits
        assert wait is not None
        mode = wait_mode(lock.kind, wait.mode)
        timed = ", with a timeout" if wait.timed else ""
        return (f"{self.style.mark(self._lock_name(lock), 'lock')}{mode}{self._held_by(lock)}{timed}"
                + self._evidence(wait.evidence, wait.why))

    def doing(self, thread: Thread) -> str:
        """What a thread does, as the end of a sentence."""
        if thread.waits is not None and thread.waits.lock in self._locks:
            lock = self._locks[thread.waits.lock]
            if kind_of(lock.kind).outside:
                why = f"; {printable(explain(lock.why))}" if lock.why else ""
                timed = ", with a timeout" if thread.waits.timed else ""
                # threads may wait for it in several ways
                doing = ON_DESCRIPTOR.get(lock.state, f"is in {thread.syscall} on")
                return f"{doing} {printable(lock.name or lock.id)}{timed}{why}"
            return f"waits for {self._wait(thread, lock)}"
        if thread.blocked_on is not None:
            return printable(explain(thread.blocked_on))
        if thread.status == "blocked":
            return f"is in the system call {thread.syscall}" if thread.syscall else "is in a system call"
        return {"running": "runs", "unknown": "cannot be read"}[thread.status]

    # -- frames ----------------------------------------------------------------------------------------------

    def _frame(self, index: int, frame: Frame, indent: str, note: str = "") -> list[str]:
        number = f"#{index:<3}"
        if isinstance(frame, PyFrame):
            kind = f" [{frame.kind}]" if frame.kind else ""
            text = f" {printable(frame.function, 120)}{kind} at "
            text += self._place(frame.file, frame.line, columns(f"{indent}{number}{text}{note}"))
            source = self._source_lines(frame.file, frame.line, frame.columns, indent + _BELOW)
        else:
            name = printable(frame.function, 200) if frame.function else f"{frame.pc:#x}"
            text = f" {name} ()" + (f" in {printable(frame.module, 100)}" if frame.module else "")
            if frame.file and frame.line:
                text += " at "
                text += self._place(frame.file, frame.line, columns(f"{indent}{number}{text}{note}"))
            source = []
        return [f"{indent}{self.style.mark(number, 'dim')}{text}{note}", *source]

    def _place(self, file: str, line: int | None, beside: int) -> str:
        """A file and a line; the file's name is shortened where there are `beside` columns besides that are taken."""
        name, number = printable(file, 300), f":{line if line is not None else '?'}"
        if self.style.width is not None:
            name = shorten_path(name, self.style.width - beside - len(number))
        return name + number

    def _source_lines(self, file: str, line: int | None, columns: Columns | None, indent: str) -> list[str]:
        """A source line, the part that runs marked, with the lines around it that were asked for."""
        text = self._source(file, line) if line is not None else None
        if line is None or not text or not text.strip():
            return []
        part = _part(text, line, columns) if columns is not None else None
        if not self._context:
            return self._marked(text, part, indent)
        around = {number: self._source(file, number) or ""
                  for number in range(max(line - self._context, 1), line + self._context + 1)}
        shown = [number for number, other in around.items() if other.strip()]
        margins = {number: _margin(around[number]) for number in shown}
        least, width = min(margins.values()), len(str(shown[-1]))
        most = _SOURCE_WIDTH if self.style.width is None else self.style.width // 4
        margins = {number: min(margin - least, most) for number, margin in margins.items()}
        lines = []
        for number in range(shown[0], shown[-1] + 1):
            start = f"{indent}{'->' if number == line else '  '} {number:>{width}}"
            if number == line:
                lines += self._marked(text, part, f"{start}  {' ' * margins[number]}")
            elif number in margins:
                lines += self._marked(around[number], None, f"{start}  {' ' * margins[number]}")
            else:
                lines.append(start)
        return lines

    def _marked(self, text: str, part: tuple[int, int] | None, start: str) -> list[str]:
        """A source line, stripped, behind the start of a line; below it what marks a part of it."""
        body = text.strip()
        if self.style.width is not None:
            if part is not None:  # characters may become longer as escapes
                part = len(printable(body[:part[0]], _MAX_COLUMN)), len(printable(body[:part[1]], _MAX_COLUMN))
            room = min(max(self.style.width - len(start), _LEAST_SOURCE), _SOURCE_WIDTH)
            body, part = excerpt(printable(body, _MAX_COLUMN), room, part)
        elif part is not None and part[0] >= _SOURCE_WIDTH:
            part = None
        if part is None:
            return [start + self.style.source(printable(body, _SOURCE_WIDTH))]
        before = printable(body[:part[0]])
        inside = printable(body[part[0]:min(part[1], _SOURCE_WIDTH)])
        bold = len(before), len(before) + len(inside)
        return [start + self.style.source(printable(body, _SOURCE_WIDTH), bold),
                " " * (len(start) + columns(before)) + "^" * columns(inside)]

    def stack(self, frames: Sequence[Frame], limit: int | None) -> list[str]:
        """Frames, one a line with its source; at most `limit` of them."""
        return self._stack([Part((frame,)) for frame in frames], limit, "")

    def _stack(self, parts: Sequence[Part], limit: int | None, indent: str) -> list[str]:
        """Parts of a stack; at most `limit` frames, what is folded not counted."""
        lines: list[str] = []
        shown = 0
        entries = list(_numbered(parts))
        for place, (index, part) in enumerate(entries):
            if limit is not None and shown >= limit:
                return lines + self._left_out([left for _, left in entries[place:]], indent)
            shown += part.text is None
            lines += self.entry(part, index, indent)
        return lines

    def mixed(self, thread: Thread, mixed: MixedStack, count: int | None) -> str:
        """One thread with its stack, boundaries named.

        :param count: at most so many entries, of the outermost if it is negative; None: all.
        """
        lines = [f"{self._heading(thread)} {self.doing(thread)}"]
        for hold in thread.holds:
            lines += self._hold(hold, "  holds ")
        if mixed.unmerged:
            lines.append(f"  Python frames first, then native ones: {printable(explain(mixed.unmerged))}")
        entries = list(_numbered(mixed.parts))
        shown = entries if count is None else entries[:count] if count > 0 else entries[count:]
        for index, part in shown:
            lines += self.entry(part, index, "  ", mixed.variables)
        if len(shown) < len(entries) and (count or 0) > 0:
            lines.append("  (More stack frames follow...)")
        return "\n".join(lines + self.problems()) + "\n"

    def thread(self, number: int) -> Thread | None:
        """A thread of the report."""
        return self._threads.get(number)

    def entry(self, part: Part, index: int, indent: str,
              variables: Mapping[int, Sequence[Local]] | None = None) -> list[str]:
        """An entry of a stack, one line or with its source line and variables more."""
        if part.text is not None:
            return self._left_out([part], indent)
        (frame,) = part.frames
        if part.name is not None and isinstance(frame, NativeFrame):
            frame = replace(frame, function=part.name)
        note = f" [{printable(part.note, 200)}]" if part.note else ""
        values = [f"{indent}{_BELOW}{self.style.mark(printable(each.name, 60), 'name')}: {printable(each.type, 80)} = "
                  f"{printable(each.value, 400)}" for each in (variables or {}).get(index, ())]
        return [*self._frame(index, frame, indent, note), *values]

    def _verdict_stack(self, thread: Thread, indent: str) -> list[str]:
        """The frames that tell what a thread is doing: named native ones and the innermost Python ones."""
        lines: list[str] = []
        python = native = 0
        left_out: list[Part] = []
        entries = list(_numbered(_parts(thread)))
        last_python = max((index for index, part in entries if part.text is None
                           and isinstance(part.frames[0], PyFrame)), default=len(thread.stack))
        for index, part in entries:
            frame = part.frames[0]
            if part.text is not None:
                wanted = False
            elif isinstance(frame, PyFrame):
                python += 1
                wanted = python <= _VERDICT_FRAMES
            else:
                glue = frame.function is None or (frame.module is not None and _GLUE.match(frame.module) is not None)
                native += not glue
                # outside the outermost Python frame there is only how the thread was started
                wanted = not glue and native <= _VERDICT_FRAMES and python < _VERDICT_FRAMES and index < last_python
            if wanted:
                lines += self._left_out(left_out, indent) + self.entry(part, index, indent)
                left_out = []
            else:
                left_out.append(part)
        return lines + self._left_out(left_out, indent)

    def _left_out(self, parts: Sequence[Part], indent: str) -> list[str]:
        """One line in place of parts: what those that are folded stand for, and how many frames they are."""
        count = sum(len(part.frames) for part in parts)
        if not count:
            return []
        frames = f"{count} frame{'s' if count != 1 else ''}"
        texts = [printable(part.text, 200) for part in parts if part.text is not None]
        if len(texts) == len(parts):
            text = ", ".join(texts) + (f" ({frames})" if count > 1 else "")
        else:
            # how a thread was started tells nothing of what it does
            texts = [each for each in texts if not each.endswith(" start")][:_VERDICT_FRAMES]
            text = frames + (f", with {', '.join(texts)}" if texts else "")
        return [indent + self.style.mark(f"     ... {text}", "dim")]

    # -- whole texts -----------------------------------------------------------------------------------------

    def deadlocks(self, stacks: str = "full") -> str:
        """The verdict: each deadlock edge by edge, or what the threads do if there is none.

        :param stacks: as in `threads`, but for ``full``: the frames that explain the deadlock.
        """
        report = self._report
        lines: list[str] = []
        for index, deadlock in enumerate(report.deadlocks, 1):
            lines += self._deadlock(index, deadlock, stacks)
        if not report.deadlocks:
            lines.append(self._no_deadlock())
        lines += self.problems()
        return "\n".join(lines) + "\n"

    def _deadlock(self, index: int, deadlock: Deadlock, stacks: str) -> list[str]:
        count = len(deadlock.threads)
        orphan = any(edge.holder is None for edge in deadlock.edges) and not deadlock.standstill
        if deadlock.standstill:
            what = f"standstill of {'all ' if count > 1 else ''}{count} thread{'s' if count != 1 else ''}"
        elif orphan:
            what = f"{count} thread{'s wait' if count != 1 else ' waits'} for an owner that is gone"
        elif count == 1:
            what = "a thread waits for itself"
        else:
            what = f"{count} threads wait for each other"
        title = self.style.mark(f"Deadlock {index}: {what}", "bad")
        why = f": {printable(explain(deadlock.why))}" if deadlock.why and deadlock.evidence != RECORDED else ""
        lines = [f"{title} ({deadlock.evidence}{why})", ""]
        groups = self._alike(deadlock)
        for members in groups[:_MANY]:
            lines += [*self._deadlocked(members, deadlock), *self._explaining(members[0], stacks), ""]
        left = sorted(thread.number for members in groups[_MANY:] for thread in members)
        lines += [f"And {len(left)} more: {self._numbers(left)}", ""] if left else []
        lines += self._edge_lines(deadlock)
        if deadlock.stuck_behind:
            lines += [f"Stuck behind it: {self._numbers(deadlock.stuck_behind)}", ""]
        return lines

    def _alike(self, deadlock: Deadlock) -> list[list[Thread]]:
        """The threads of a deadlock, together those with the same wait, the same stack and the same held locks."""
        edges: dict[int, list[tuple[str, int | None]]] = {}
        for edge in deadlock.edges:
            edges.setdefault(edge.waiter, []).append((edge.lock, edge.holder))
        groups: dict[object, list[Thread]] = {}
        for thread in self._known(edges):
            held = tuple(self._held_in(deadlock, thread))
            key = (tuple(edges[thread.number]), thread.waits, held, _stack_key(thread))
            groups.setdefault(key, []).append(thread)
        return list(groups.values())

    @staticmethod
    def _held_in(deadlock: Deadlock, thread: Thread) -> list[Hold]:
        """The locks of a deadlock that a thread holds."""
        locks = {edge.lock for edge in deadlock.edges}
        return [hold for hold in thread.holds if hold.lock in locks]

    def _deadlocked(self, members: Sequence[Thread], deadlock: Deadlock) -> list[str]:
        """What threads of a deadlock hold and wait for."""
        first, each = members[0], "each " if len(members) > 1 else ""
        lines = [self._heading_of(sorted(members, key=lambda thread: thread.number))]
        for hold in self._held_in(deadlock, first):
            lines += self._hold(hold, f"  {each}holds     ")
        assert first.waits is not None
        return [*lines, f"  {each}waits for {self._wait(first, self._locks[first.waits.lock])}"]

    def _explaining(self, thread: Thread, stacks: str) -> list[str]:
        """As much of a stack as the user asked for."""
        if stacks == "none":
            return []
        return self._stack(_parts(thread), _TOP, "    ") if stacks == "top" else self._verdict_stack(thread, "    ")

    def _edge_lines(self, deadlock: Deadlock) -> list[str]:
        """Who waits for whom, on one line if it is short; edges that differ in one thread only are put together."""
        waiters: dict[tuple[str, int | None], list[int]] = {}
        for edge in deadlock.edges:
            waiters.setdefault((edge.lock, edge.holder), []).append(edge.waiter)
        holders: dict[tuple[str, tuple[int, ...]], list[int | None]] = {}
        for (lock, holder), numbers in waiters.items():
            every = [tuple(numbers)] if len(numbers) >= _RANGE else [(number,) for number in numbers]
            for group in every:
                holders.setdefault((lock, group), []).append(holder)
        unknown = "not known" if deadlock.standstill else "nobody"
        parts = []
        for (lock, group), having in holders.items():
            known = [holder for holder in having if holder is not None]
            several = [known] if len(known) >= _RANGE else [[holder] for holder in known]
            ends = [self._numbers(sorted(each)) for each in several] + [unknown] * (None in having)
            start = f"{self._numbers(sorted(group))} -> {self._lock_name(self._locks[lock])}"
            parts += [f"{start} -> {end}" for end in ends]
        title = "Cycle:" if all(edge.holder is not None for edge in deadlock.edges) else "Wait:"
        left = [f"and {len(parts) - _MANY} more"] if len(parts) > _MANY else []
        text = f"{title} {'; '.join(parts)}"
        if len(text) <= _EDGES_WIDTH:
            return [text, ""]
        return [title, *(f"  {part}" for part in [*parts[:_MANY], *left]), ""]

    def _no_deadlock(self) -> str:
        threads = self._report.threads
        on_locks = {lock.id for lock in self._report.locks if not kind_of(lock.kind).outside}
        waits = [thread.waits is not None and thread.waits.lock in on_locks for thread in threads]
        waiting = sum(waits)
        blocked = sum(thread.status == "blocked" and not lock for thread, lock in zip(threads, waits))
        running = sum(thread.status == "running" and not lock for thread, lock in zip(threads, waits))
        if self._report.no_verdict:
            found = self.style.mark("Whether there is a deadlock cannot be told", "bad")
            found += f" ({printable(explain(self._report.no_verdict))}); none is seen"
        else:
            found = self.style.mark("No deadlock found", "good")
        text = (f"{found} among {len(threads)} threads: {waiting} wait for a lock or event, {blocked} are in other "
                f"system calls, {running} run.")
        for lock in self._report.locks:
            if lock.kind == GIL and lock.holders:
                holder = self._threads.get(lock.holders[0].thread)
                if holder is not None:
                    name = self._lock_name(lock)
                    text += (f"\n{name[0].upper()}{name[1:]} is held by {self.thread_name(holder.number)}, "
                             f"which {self.doing(holder)}.")
        return text

    def gils(self) -> str:
        """Who holds each GIL, doing what, and who waits."""
        lines: list[str] = []
        for runtime in self._report.runtimes:
            lines += self._runtime(runtime)
        return "\n".join(lines + self.problems()) + "\n"

    def _runtime(self, runtime: Runtime) -> list[str]:
        build = "" if runtime.build == "default" else f", {runtime.build}"
        lines = [f"CPython {runtime.version}{build} in {printable(runtime.module)} (layout: {runtime.layout})"]
        told: set[str] = set()
        for interpreter in runtime.interpreters:
            shares = interpreter.gil.lock in told
            told.add(interpreter.gil.lock)
            lines += self._interpreter(interpreter, shares, len(runtime.interpreters) > 1)
        return lines

    def _interpreter(self, interpreter: Interpreter, shares: bool, several: bool) -> list[str]:
        gil = interpreter.gil
        name = f"interpreter {interpreter.id}: " if several else ""
        if shares:
            return [f"  {name}shares {gil.lock}"]
        lines = []
        if gil.state == "held" and gil.holder is not None:
            lines.append(f"  {name}{self.style.mark('GIL held', 'lock')} by {self.thread_name(gil.holder)}")
            holder = self._threads.get(gil.holder)
            if holder is not None:
                lines.append(f"    which {self.doing(holder)}")
                lines += self._verdict_stack(holder, "      ")
        elif gil.state == "held":
            orphan = f": {printable(explain(gil.orphan))}" if gil.orphan else ""
            lines.append(f"  {name}GIL held by no living thread{orphan}")
        else:
            words = {"free": "GIL free", "disabled": "no GIL (free-threaded)", "unknown": "GIL unknown"}
            lines.append(f"  {name}{words[gil.state]}")
            if gil.state == "disabled":
                lines += self._states()
        if gil.waiters:
            asked = "; its holder has been asked to give it up" if gil.drop_requested else ""
            lines.append(f"    waited for by {self._numbers(gil.waiters)}{asked}")
        elif gil.state in ("held", "free"):
            lines.append("    nobody waits for it")
        if gil.drop_requested and not gil.waiters:
            lines.append("    the holder has been asked to give it up")
        stop = interpreter.stop_the_world
        if stop.requested:
            who = self.thread_name(stop.requester) if stop.requester is not None else "an unknown thread"
            waits = f", waiting for {self._numbers(stop.waiting_for)}" if stop.waiting_for else ""
            lines.append(f"    stop-the-world requested by {who}{waits}")
        return lines

    def _states(self) -> list[str]:
        """Without a GIL: which threads may run Python now, and which may not."""
        lines = []
        for state, meaning in (("attached", "may run Python"), ("detached", "outside of Python"),
                               ("suspended", "stopped by another thread")):
            numbers = [thread.number for thread in self._report.threads if thread.python_state == state]
            if numbers:
                lines.append(f"    {state} ({meaning}): {self._numbers(numbers)}")
        return lines

    def locks(self, chosen: Sequence[Lock]) -> str:
        """Each lock with its state, holders and waiters."""
        lines: list[str] = []
        for lock in chosen:
            name = self._lock_name(lock)
            lines.append(f"{self.style.mark(name[0].upper() + name[1:], 'lock')}{self._held_by(lock)}")
            for holder in lock.holders:
                thread = self._threads.get(holder.thread)
                if thread is not None:
                    lines.append(f"  holder: {self._heading(thread)} {self.doing(thread)}")
                    lines += self._verdict_stack(thread, "    ")
            for mode in ("exclusive", "shared"):
                waiting = [waiter.thread for waiter in lock.waiters if waiter.mode == mode]
                if waiting:
                    lines.append(f"  waited for{wait_mode(lock.kind, mode)} by {self._numbers(waiting)}")
            if not lock.waiters:
                lines.append("  nobody waits for it")
        if not chosen:
            lines.append("No thread waits for such a lock.")
        return "\n".join(lines + self.problems()) + "\n"

    def telling_order(self) -> list[int]:
        """Numbers of all threads, those first that explain why a program does not go on.

        Deadlocked threads, in the order of the deadlocks; holders of locks that others wait for; threads stuck behind
        a deadlock; threads waiting for locks or results; running threads; threads blocked otherwise; threads waiting
        for an event.
        """
        report = self._report
        deadlocked = {number: place for place, number in enumerate(dict.fromkeys(
            number for deadlock in report.deadlocks for number in deadlock.threads))}
        stuck = {number for deadlock in report.deadlocks for number in deadlock.stuck_behind}
        holders = {holder.thread for lock in report.locks if lock.waiters for holder in lock.holders}

        def rank(thread: Thread) -> tuple[int, int, int]:
            lock = self._locks.get(thread.waits.lock) if thread.waits is not None else None
            if thread.number in deadlocked:
                place = 0
            elif thread.number in holders:
                place = 1
            elif thread.number in stuck:
                place = 2
            elif lock is not None and is_event(lock.kind, lock.state, bool(lock.holders)):
                place = 6
            elif lock is not None and not kind_of(lock.kind).outside:
                place = 3
            else:
                place = 5 if thread.status == "blocked" else 4
            return place, deadlocked.get(thread.number, 0), thread.number

        return [thread.number for thread in sorted(report.threads, key=rank)]

    def threads(self, shown: Sequence[int] | None, each: bool, stacks: str) -> str:
        """Every thread with its stack, those with the same stack once unless `each`; then the deadlocks.

        :param shown: numbers of threads, in order; None: all, in `telling_order`.
        :param stacks: ``full``, ``top`` (the first frames only) or ``none``.
        """
        groups: dict[object, list[Thread]] = {}
        for number in self.telling_order() if shown is None else shown:
            thread = self._threads[number]
            # threads that hold something stand alone: what they hold is theirs
            alone = each or thread.holds or (stacks != "none" and not thread.stack)
            alike = self.doing(thread) if stacks == "none" else _stack_key(thread)
            key = (number,) if alone else (alike, thread.status)
            groups.setdefault(key, []).append(thread)
        lines: list[str] = []
        for members in groups.values():
            lines += self._group(sorted(members, key=lambda thread: thread.number))
            if stacks != "none":
                lines += self._stack(_parts(members[0]), _TOP if stacks == "top" else None, "  ")
            lines.append("")
        return "\n".join(lines) + "\n" + self.deadlocks(stacks)

    def _group(self, members: Sequence[Thread]) -> list[str]:
        first = members[0]
        if len(members) == 1:
            lines = [f"{self._heading(first)} {self.doing(first)}"]
        else:
            heading = self._heading_of(members)
            waits = {thread.waits.lock for thread in members if thread.waits is not None}
            if len(waits) > 1:
                kinds = sorted({self._locks[lock].kind for lock in waits if lock in self._locks})
                lines = [f"{heading}: wait for {len(waits)} different locks ({', '.join(kinds)})"]
            else:
                lines = [f"{heading}: each {self.doing(first)}"]
        for hold in first.holds:
            lines += self._hold(hold, "  holds ")
        for section in first.critical_sections or ():
            if not section.active and section.mutex is not None:
                what = f"{section.type} object at {section.object:#x}" if section.object is not None else "a mutex"
                lines.append(f"  has suspended its critical section of {printable(what)}")
        if first.unmerged:
            lines.append(f"  Python frames first, then native ones: {printable(explain(first.unmerged))}")
        return lines

    def problems(self) -> list[str]:
        """What else a reader should be told, and what is not known."""
        lines = []
        if self._report.problems or self._report.notes:
            lines.append("")
        lines += [f"Note: {printable(explain(note))}" for note in self._report.notes]
        lines += [f"Not known: {printable(problem.where)}: {problem.what}: {printable(explain(problem.why))}"
                  for problem in self._report.problems]
        return lines


def _part(text: str, line: int, columns: Columns) -> tuple[int, int] | None:
    """Where the part that runs begins and ends in the stripped line, in characters; None if it is all of the line.

    Of a part that goes on in further lines it is what is in the first; None too if the line is not long enough to be
    what was compiled.
    """
    data = text[:_MAX_COLUMN].encode("utf-8", "replace")
    ending = text[:_MAX_COLUMN].rstrip()
    if columns.start >= len(data) or (columns.end_line == line and columns.end > len(data)):
        return None
    margin, length = len(text) - len(text.lstrip()), len(text.strip())
    start = len(data[:columns.start].decode("utf-8", "ignore"))
    end = len(data[:columns.end].decode("utf-8", "ignore")) if columns.end_line == line else len(ending)
    start, end = max(start - margin, 0), min(end - margin, length)
    return (start, end) if start < end and (start, end) != (0, length) else None


def _margin(text: str) -> int:
    """How far a line is indented, with tabs of eight columns as Python counts them."""
    return len(text[:len(text) - len(text.lstrip())].expandtabs())


def _parts(thread: Thread) -> Sequence[Part]:
    return thread.parts or [Part((frame,)) for frame in thread.stack]


def _stack_key(thread: Thread) -> object:
    """What threads with the same stack have in common."""
    # what is folded may have another text for the same frames, as the import of another module
    return thread.stack, tuple([part.text for part in thread.parts])


def _numbered(parts: Sequence[Part]) -> Iterator[tuple[int, Part]]:
    """Each part with the index in the stack of its first frame."""
    return zip(itertools.accumulate((len(part.frames) for part in parts), initial=0), parts)


def _runs(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    """The numbers, as long as they follow one another in one run if they are many, else one by one."""
    start = 0
    for end in range(1, len(numbers) + 1):
        if end < len(numbers) and numbers[end] == numbers[end - 1] + 1:
            continue
        run = numbers[start:end]
        if len(run) >= _RANGE:
            yield run
        else:
            yield from ([number] for number in run)
        start = end
