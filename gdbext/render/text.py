"""Reports as text. All text from the target passes `printable`, which also cuts it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gdbext.model import (
    Deadlock,
    Frame,
    Hold,
    InlinedCall,
    Interpreter,
    Local,
    Lock,
    MixedStack,
    NativeFrame,
    Part,
    PyFrame,
    Report,
    Thread,
)
from gdbext.narrate import deadlocks, gils, greenlets, locks, names, sentences, tasks, threads, verdict
from gdbext.narrate.frames import (
    MORE_FRAMES,
    explaining_frames,
    inlined_calls,
    left_out,
    libraries,
    native_caller,
    numbered,
    own_frame,
    parts_of,
)
from gdbext.narrate.names import MANY, number_list
from gdbext.narrate.words import Foreign, Marked, Words, capitalised
from gdbext.render.escape import NOTHING, Safe, as_text, joined, printable
from gdbext.render.source_excerpts import Source, SourceExcerpts
from gdbext.render.style import COLOURS, Style, columns, shorten_path

#: How many lines the list of threads of a crash has; --each lists all.
_MAX_LINES = 220
#: How many frames of each thread ``top`` shows.
_TOP = 3
#: How many characters the links of a deadlock may take on one line.
_EDGES_WIDTH = 160
#: The indentation of source lines and variables below a frame.
_BELOW = " " * 9
#: The width of the verbs in front of locks.
_VERB = len("needs")
#: How many groups of threads a verdict without a deadlock shows.
_CONCERNED = 4
#: The colour of the verdict's title by its tone.
_MARKS = {"bad": "bad", "good": "good", "doubt": "lock", "plain": "name"}


class TextRenderer:
    """Renders one report.

    :param source: gives source lines.
    :param context: how many lines before and after a source line are shown.
    :param native: the threads whose stacks have native frames besides Python frames: ``all``, ``none``, or ``verdict``,
        those that the verdict is about. Stacks without Python frames, and that of a crash, always have them.
    """

    def __init__(self, report: Report, style: Style, source: Source, context: int = 0, native: str = "all") -> None:
        self.style = style
        self._native_of = native
        self._source = SourceExcerpts(source, style, context)
        self.facts = names.Facts(report)

    # -- words -----------------------------------------------------------------------------------------------

    def say(self, words: Words) -> str:
        """Convert words to text for a terminal, escaped and marked."""
        return "".join([printable(word) if isinstance(word, str) else printable(word.text, word.limit)
                        if isinstance(word, Foreign) else self._marked_words(word) for word in words])

    def _marked_words(self, marked: Marked) -> str:
        text = self.say(marked.words)
        return self.style.mark(text, marked.role) if marked.role in COLOURS else text

    def _hold(self, hold: Hold, each: str = "", width: int = 0, indentation: str = "  ", why: bool = True) -> list[str]:
        """A lock that a thread holds, and where it acquired the lock.

        :param width: the minimum width of the verb.
        :param why: whether the evidence follows.
        """
        words = locks.holding(self.facts, hold, why)
        if not words:
            return []
        indent = f"{indentation}{each}{locks.holds(self.facts, hold):<{width}} "
        lines = [indent + self.say(words)]
        taken = hold.taken_at
        if taken is not None:
            start, end = " " * len(indent) + "taken at ", f" in {printable(taken.function, 120)}"
            lines.append(start + self._place(taken.file, taken.line, columns(start + end)) + end)
            # the frame's columns are those of the current instruction
            lines += self._source.below(taken.file, taken.line, None, " " * (len(indent) + 4))
        return lines

    # -- frames ----------------------------------------------------------------------------------------------

    def _frame(self, index: int, frame: Frame, indent: str, note: str = "") -> list[str]:
        number = f"#{index:<3}"
        if isinstance(frame, PyFrame):
            kind = f" [{frame.kind}]" if frame.kind else ""
            text = f" {printable(frame.function, 120)}{kind} at "
            text += self._place(frame.file, frame.line, columns(f"{indent}{number}{text}{note}"))
            source = self._source.below(frame.file, frame.line, frame.columns, indent + _BELOW)
        else:
            name = printable(frame.function, 200) if frame.function else f"{frame.pc:#x}"
            text = f" {name} ()" + (f" in {printable(frame.module, 100)}" if frame.module else "")
            text += self._at(frame, columns(f"{indent}{number}{text}{note}"))
            inner = [self._inlined(call, f"{indent}{' ' * len(number)}") for call in inlined_calls(frame)]
            return [*inner, f"{indent}{self.style.mark(number, 'dim')}{text}{note}"]
        return [f"{indent}{self.style.mark(number, 'dim')}{text}{note}", *source]

    def _inlined(self, call: InlinedCall, indent: str) -> str:
        text = f"{indent} {printable(call.function, 200)} () inlined"
        return text + self._at(call, columns(text))

    def _at(self, frame: NativeFrame | InlinedCall, used: int) -> str:
        """The place of a frame with debug information."""
        at = " at "
        return at + self._place(frame.file, frame.line, used + columns(at)) if frame.file and frame.line else ""

    def _place(self, file: str, line: int | None, used: int) -> str:
        """A file and a line; the path is shortened to fit next to text of `used` columns."""
        name: str = printable(file, 300)
        number = f":{line if line is not None else '?'}"
        if self.style.width is not None:
            name = shorten_path(name, self.style.width - used - len(number))
        return name + number

    def stack(self, frames: Sequence[Frame], limit: int | None) -> list[str]:
        """Frames with their source lines; at most `limit` frames."""
        return self._stack(list(numbered([Part((frame,)) for frame in frames])), limit, "")

    def _entries(self, thread: Thread) -> list[tuple[int, Part]]:
        """The parts of a thread's stack that are shown, each with the index of its first frame."""
        entries = list(numbered(parts_of(thread)))
        if self._native_of == "all" or self._native_of == "verdict" and thread.number in self.facts.verdict.threads:
            return entries
        return [entry for entry in entries if any(isinstance(frame, PyFrame) for frame in entry[1].frames)] or entries

    def _stack(self, entries: Sequence[tuple[int, Part]], limit: int | None, indent: str,
               variables: Sequence[Sequence[Local]] | None = None) -> list[str]:
        """Parts of a stack with their variables if there are any; at most `limit` frames, not counting folded parts."""
        lines: list[str] = []
        shown = 0
        for place, (index, part) in enumerate(entries):
            if limit is not None and shown >= limit:
                return lines + self._left_out([left for _, left in entries[place:]], indent)
            shown += part.text is None
            lines += self.entry(part, index, indent, dict(enumerate(variables or ())))
        return lines

    def mixed(self, thread: Thread, mixed: MixedStack, count: int | None) -> Safe:
        """One thread with its mixed stack.

        :param count: the maximum number of entries, counted from the outermost if negative; None: all.
        """
        lines = [self.say(threads.introduction(self.facts, [thread]))]
        for hold in thread.holds:
            lines += self._hold(hold)
        lines += self._lines("  ", [threads.unmerged(mixed.unmerged)])
        entries = list(numbered(mixed.parts))
        shown = entries if count is None else entries[:count] if count > 0 else entries[count:]
        for index, part in shown:
            lines += self.entry(part, index, "  ", mixed.variables)
        if len(shown) < len(entries) and (count or 0) > 0:
            lines.append(f"  {MORE_FRAMES}")
        return as_text(lines + self.problems())

    def _lines(self, indent: str, lines: Iterable[Words]) -> list[str]:
        return [indent + self.say(words) for words in lines if words]

    def entry(self, part: Part, index: int, indent: str,
              variables: Mapping[int, Sequence[Local]] | None = None) -> list[str]:
        """An entry of a stack, with its source line and variables if there are any."""
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
        lines: list[str] = []
        omitted: list[Part] = []
        chosen = explaining_frames(thread)
        for index, part in self._entries(thread):
            if index in chosen:
                lines += self._left_out(omitted, indent) + self.entry(part, index, indent)
                omitted = []
            else:
                omitted.append(part)
        return lines + self._left_out(omitted, indent)

    def _left_out(self, parts: Sequence[Part], indent: str) -> list[str]:
        """One line that summarises omitted parts."""
        words = left_out(parts)
        return [indent + self.style.mark(f"     ... {self.say(words)}", "dim")] if words else []

    # -- whole texts -----------------------------------------------------------------------------------------

    def verdict_line(self) -> str:
        """The title of the verdict, and its sentence."""
        title = self.style.mark(sentences.verdict_title(self.facts.verdict), _MARKS[verdict.tone(self.facts.verdict)])
        return f"{title}: {self.say(sentences.sentence(self.facts))}."

    def verdict(self, stacks: str = "none") -> Safe:
        """The header, the verdict with its threads, how it is known, and what to do next.

        :param stacks: as in `threads`; ``full`` means the frames that explain the verdict.
        """
        facts = self.facts
        lines = [self.say(verdict.header(facts.report)), "", self.verdict_line(), ""]
        lines += [line for remark in verdict.remarks(facts) for line in (self.say(remark), "")]
        for deadlock in facts.report.deadlocks:
            lines += self._deadlock(deadlock, stacks)
        if not facts.report.deadlocks:
            lines += self._concerned(stacks)
        for cycle in facts.report.task_cycles[:MANY]:
            lines += [self.say(tasks.cycle(facts.known_tasks(cycle))), ""]
        for circle in facts.report.greenlet_cycles[:MANY]:
            first, *rest = self._lines("", greenlets.cycle(facts, facts.known_greenlets(circle)))
            lines += [first, *("  " + line for line in rest), ""]
        lines += self._list(verdict.HOW_KNOWN, verdict.how_known(facts))
        step = verdict.next_step(facts)
        lines += [f"Next: {step}", ""] if step else []
        return as_text(lines)

    def deadlocks(self, stacks: str = "full", tasks: Safe = NOTHING, greenlets: Safe = NOTHING) -> Safe:
        """The verdict, with the frames that explain it, the texts of tasks and greenlets, then notes and problems."""
        return joined([self.verdict(stacks), tasks, greenlets, as_text(self.problems())])

    def _list(self, title: str, entries: Sequence[Words]) -> list[str]:
        """Entries below their title; a single entry is on the line of the title."""
        shown = self._lines("", entries[:MANY])
        shown += [f"and {len(entries) - MANY:,} more"] if len(entries) > MANY else []
        if not shown:
            return []
        return [f"{title} {shown[0]}", ""] if len(shown) == 1 else [title, *(f"  {line}" for line in shown), ""]

    def _deadlock(self, deadlock: Deadlock, stacks: str) -> list[str]:
        facts = self.facts
        several = len(facts.report.deadlocks) > 1
        lines = [f"{deadlocks.title(deadlock)}:"] if several or facts.verdict.kind == "crash" else []
        groups = [facts.known(members) for members in deadlocks.alike(facts, deadlock)]
        groups = [members for members in groups if members]
        for members in groups[:MANY]:
            lines += [*self._deadlocked(members, deadlock, stacks), ""]
        left = sorted(thread.number for members in groups[MANY:] for thread in members)
        lines += [f"  And {len(left):,} more: {number_list(left)}", ""] if left else []
        if not deadlock.standstill and not deadlock.of_pool:
            lines += self._links(deadlock)
        if several and deadlock.stuck_behind:
            lines += [f"Stuck behind it: {number_list(deadlock.stuck_behind)}", ""]
        elif deadlock.stuck_behind:
            lines += self._list("Stuck behind it:", list(verdict.behind_lines(facts)))
        return lines

    def _deadlocked(self, members: Sequence[Thread], deadlock: Deadlock, stacks: str) -> list[str]:
        first, each = members[0], "each " if len(members) > 1 else ""
        lines = [f"  {self.say(names.heading(members))}{names.asleep(members)}"]
        for hold in first.holds:
            if hold.lock in deadlocks.locks_of(deadlock):
                lines += self._hold(hold, each, _VERB, "    ", why=False)
        if not sentences.is_said(self.facts, first):
            wanted = locks.waiting(self.facts, first, why=False, several=len(members) > 1)
            lines.append(f"    {each}{'needs':<{_VERB}} {self.say(wanted)}")
        return lines + self._explaining(first, stacks, " " * (5 + len(each) + _VERB))

    def _concerned(self, stacks: str) -> list[str]:
        """The threads of a verdict without a deadlock, and those behind them."""
        facts = self.facts
        lines: list[str] = []
        if facts.verdict.kind == "crash":
            return lines  # its place follows, with the frames from the fault on
        if facts.verdict.kind == "idle":
            return [*self._counts(), ""]
        concerned = facts.known(facts.verdict.threads)
        for members in _alike(facts, concerned)[:_CONCERNED]:
            lines += [f"  {self._introduction(members)}", *self._explaining(members[0], stacks, "    "), ""]
        them = "it" if len(concerned) == 1 else "them"
        lines += self._list(f"Waiting behind {them}:", list(verdict.behind_lines(facts)))
        if facts.verdict.outcome != "stuck":
            lines += [*self._lines("", verdict.gil_holders(facts)), *self._counts(), ""]
        return lines

    def _introduction(self, members: Sequence[Thread], above: str = "") -> str:
        """The heading of a group and what its threads do, or `above` if the verdict's sentence says that."""
        if len(members) == 1 and sentences.is_said(self.facts, members[0]):
            return self.say(names.heading(members)) + (above or names.asleep(members))
        return self.say(threads.introduction(self.facts, members))

    def _counts(self) -> list[str]:
        """What the threads do, and what the greenlets wait for."""
        suspended = greenlets.counts(self.facts.report)
        return [verdict.counts(self.facts.report), *([self.say((*suspended, "."))] if suspended else [])]

    def _explaining(self, thread: Thread, stacks: str, indent: str) -> list[str]:
        """The frames that explain what a thread does; without stacks, its place in the program."""
        if stacks == "none":
            return self._own_place(thread, indent)
        if stacks == "top":
            return self._stack(self._entries(thread), _TOP, "    ")
        return self._verdict_stack(thread, "    ")

    def _own_place(self, thread: Thread, indent: str) -> list[str]:
        """The line of the program's own code that a thread is in."""
        frame, inner = own_frame(thread)
        native = native_caller(thread)
        if frame is None and native is None:
            native = next((each for each in thread.stack if isinstance(each, NativeFrame) and each.function), None)
        lines = [] if native is None else [self._native(native, indent)]
        if frame is None:
            return lines
        text = f"{indent}at "
        used = columns(text) + columns(f" in {frame.function}")
        lines.append(f"{text}{self._place(frame.file, frame.line, used)} in {printable(frame.function, 120)}")
        lines += self._source.below(frame.file, frame.line, frame.columns, indent + "  ")
        if inner:
            lines.append(indent + self.style.mark(f"... {self.say(libraries(inner))}", "dim"))
        return lines

    def _native(self, frame: NativeFrame, indent: str) -> str:
        text = f"{indent}in {printable(frame.function or '', 200)} ()"
        text += f" in {printable(frame.module, 100)}" if frame.module else ""
        return text + self._at(frame, columns(text))

    def _links(self, deadlock: Deadlock) -> list[str]:
        parts = [self.say(deadlocks.link_line(self.facts, deadlock, link)) for link in deadlocks.links(deadlock)]
        title = "Cycle:" if all(edge.holder is not None for edge in deadlock.edges) else "Wait:"
        text = f"{title} {'; '.join(parts)}"
        if len(text) <= _EDGES_WIDTH:
            return [text, ""]
        left = [f"and {len(parts) - MANY:,} more"] if len(parts) > MANY else []
        return [title, *(f"  {part}" for part in [*parts[:MANY], *left]), ""]

    def gils(self) -> Safe:
        """The holder of each GIL, what it does, and the waiters."""
        lines: list[str] = []
        for runtime in self.facts.report.runtimes:
            lines.append(self.say(gils.runtime_line(runtime)))
            shown: set[str] = set()
            for interpreter in runtime.interpreters:
                name = f"interpreter {interpreter.id}: " if len(runtime.interpreters) > 1 else ""
                lines += self._interpreter(interpreter, name, interpreter.gil.lock in shown)
                shown.add(interpreter.gil.lock)
        return as_text(lines + self.problems())

    def _interpreter(self, interpreter: Interpreter, name: str, shares: bool) -> list[str]:
        gil = interpreter.gil
        if shares:
            return [f"  {name}shares {gil.lock}"]
        lines = [f"  {name}{self.say(gils.state(self.facts, gil))}"]
        for holder in self.facts.known([gil.holder] if gil.holder is not None else []):
            does = self.say(threads.doing(self.facts, holder))
            lines += [f"    which {does}", *self._verdict_stack(holder, "      ")]
        facts = gils.python_states(self.facts.report) if gil.state == "disabled" else []
        lines += [f"    {line}" for line in [*facts, *gils.waiters(gil)]]
        return lines + self._lines("    ", [gils.stop_requested(self.facts, interpreter)])

    def locks(self, chosen: Sequence[Lock]) -> Safe:
        """Each lock with its state, holders and waiters."""
        lines: list[str] = []
        for lock in chosen:
            lines.append(self.say((*capitalised(names.lock_name(self.facts, lock)),
                                   *locks.held_by(self.facts, lock))))
            for thread in self.facts.known(holder.thread for holder in lock.holders):
                lines.append(f"  holder: {self.say(threads.introduction(self.facts, [thread]))}")
                lines += self._verdict_stack(thread, "    ")
            lines += [f"  {line}" for line in locks.waited_for(lock)]
        if not chosen:
            lines.append(locks.NONE_CHOSEN)
        return as_text(lines + self.problems())

    def order_of_threads(self) -> list[int]:
        """The numbers of all threads, starting with those that explain why a program hangs."""
        return list(threads.states(self.facts))

    def threads(self, shown: Sequence[int] | None, each: bool, stacks: str, *between: Safe) -> Safe:
        """The verdict; then the threads with their stacks, grouped by stack unless `each`; then notes and problems.

        :param shown: numbers of threads, in order; None: all, in `order_of_threads`.
        :param stacks: ``full``, ``top`` (the first frames only) or ``none``.
        :param between: texts that come between the verdict and the threads.
        """
        # of a crash the other threads are rarely the answer
        room = _MAX_LINES if self.facts.verdict.kind == "crash" and not each else None
        return joined([self.verdict(), *between, as_text([verdict.ALL_THREADS]),
                       as_text(self.thread_list(shown, each, stacks, room)), as_text(self.problems())])

    def thread_list(self, shown: Sequence[int] | None, each: bool, stacks: str, room: int | None = None) -> list[str]:
        """The threads with their stacks, as in `threads`.

        :param room: about how many lines there may be; None: any number.
        """
        lines: list[str] = []
        groups = threads.groups(self.facts, shown, each=each, stacks=stacks != "none")
        for index, group in enumerate(groups):
            if room is not None and len(lines) >= room:
                return [*lines[:room], "", threads.not_listed(groups[index:]), ""]
            introduction = self._introduction(group.members, f" {threads.SAID_ABOVE}")
            lines += self._whole_thread(group.members[0], introduction, stacks)
            lines.append("")
        return lines if room is None or len(lines) <= room else [*lines[:room], threads.not_listed(())]

    def thread(self, thread: Thread, stacks: str) -> Safe:
        """What a thread does, its locks and its stack, then notes and problems."""
        introduction = self.say(threads.introduction(self.facts, [thread]))
        return as_text(self._whole_thread(thread, introduction, stacks) + self.problems())

    def _whole_thread(self, thread: Thread, introduction: str, stacks: str) -> list[str]:
        lines = [introduction]
        for hold in thread.holds:
            lines += self._hold(hold)
        lines += self._lines("  ", [*threads.suspended_sections(thread), threads.unmerged(thread.unmerged)])
        if stacks != "none":
            lines += self._stack(self._entries(thread), _TOP if stacks == "top" else None, "  ", thread.variables)
        return lines

    def problems(self) -> list[str]:
        """The notes and problems of the report."""
        lines = self._lines("", verdict.notes(self.facts.report))
        return ["", *lines] if lines else []


def _alike(facts: names.Facts, members: Sequence[Thread]) -> list[list[Thread]]:
    """Threads that do the same at the same place, together."""
    groups: dict[object, list[Thread]] = {}
    for thread in members:
        groups.setdefault((facts.stack_number(thread), threads.doing(facts, thread)), []).append(thread)
    return list(groups.values())
