"""The sections of one look: its verdict, the drawing of who waits for whom, threads, locks, tasks, what is not known.

What they tell, and in which order, is for `html_told` to say.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdbext.model.kinds import GIL
from gdbext.render.html_crash import crash_section
from gdbext.render.html_graph import Graph, Node
from gdbext.render.html_markup import NOTHING, Content, Markup, join, listed, named, table, tag
from gdbext.render.html_stacks import Stacks, telling
from gdbext.render.html_text import MANY, PATH, SENTENCE, Json, cut, plural, ranges, threads_of
from gdbext.render.html_told import STATES, Group, Told
from gdbext.render.html_words import Words

#: How many edges of a cycle a verdict has, and how many threads' own paragraphs.
_VERDICT_EDGES, _VERDICT_THREADS = 12, 6
#: How many tasks that one waits for are named.
_TASKS = 8
_GILS = {"free": "free", "disabled": "none (free-threaded)", "unknown": "not known"}
#: The class of a block by how bad it is.
_BLOCKS = {"bad": "block bad", "good": "block good", "doubt": "block doubt", "plain": "block"}


class LookSections:
    """Renders one look.

    :param index: of the look in the page.
    :param level: of its headings.
    """

    def __init__(self, told: Told, index: int, stacks: Stacks, level: int) -> None:
        self._told = told
        self._index = index
        self._words = Words(told, index)
        self._stacks = stacks
        self._heading = f"h{level}"

    def about(self) -> Markup:
        """What was looked at."""
        told = self._told
        target = told.document.get("target")
        words: list[Content] = [named(told.target, PATH)]
        if target is not None:
            words.append(f"{'process' if target['kind'] == 'live' else 'core of process'} {target['pid']}")
            words += [named(target[key], PATH) for key in ("executable", "architecture", "libc") if target[key]]
        words += [f"CPython {runtime['version']}{', free-threaded' if runtime['build'] == 'free-threaded' else ''}"
                  for runtime in told.document.get("runtimes", ())]
        if told.stopped is not None:
            words.append(f"stopped for {told.stopped:.2f} s")
        return tag("ul", *(tag("li", word) for word in words), class_="about")

    def whole(self, controls: Markup | None) -> Markup:
        """All of it; with the `controls` if it is the only one of the page, else in an entry that opens."""
        told, anchor = self._told, f"look{self._index}"
        parts = [crash_section(told, self._words, self._stacks, self._heading), self._verdict(), self._graph(),
                 self._runtimes(), controls or NOTHING, self._threads(), self._locks(), self._tasks(), self._unknown()]
        if controls is not None:
            return tag("section", *parts, id=anchor, class_="look", data_look=self._index)
        kind, text = told.verdict()
        summary = tag("summary", tag("h2", named(told.target, PATH)), Markup(" "),
                      tag("span", text, class_=f"verdict {kind}"))
        return tag("details", summary, self.about(), *parts, id=anchor, class_="look", data_look=self._index,
                   open=self._index == 0)

    def _title(self, *content: Content) -> Markup:
        return tag(self._heading, *content)

    # -- verdict ------------------------------------------------------------------------------------------------

    def _verdict(self) -> Markup:
        told = self._told
        if not told.seen:
            return tag("section", self._title("It could not be looked at"), tag("p", told.problem),
                       tag("p", told.hint) if told.hint else "", class_="block doubt")
        parts = [self._deadlock(index, deadlock) for index, deadlock in enumerate(told.deadlocks, 1)]
        parts += [self._task_cycle(cycle) for cycle in told.task_cycles]
        if not told.deadlocks and "deadlocks" in told.document:
            parts.append(self._no_deadlock())
        return join(parts)

    def _deadlock(self, index: int, deadlock: Json) -> Markup:
        edges, why, behind = deadlock["edges"], deadlock["why"], deadlock["stuck_behind"]
        unknown = "nobody" if self._told.owner_gone(deadlock) else "not known"
        groups = self._told.alike(deadlock)
        of = {members[0]: members for members in groups}
        told = [edge for edge in edges if edge["waiter"] in of]  # the first of each group stands for all
        ring = [tag("li", self._together_or_alone(of[edge["waiter"]]), self._words.lock(edge["lock"]),
                    Markup(" &rarr; "), self._words.thread(edge["holder"]) if edge["holder"] is not None else unknown)
                for edge in told[:_VERDICT_EDGES]]
        left = len(told) - len(ring)
        return tag("section",
                   self._title(f"Deadlock {index}: {self._told.deadlock_words(deadlock)} ",
                               tag("span", deadlock["evidence"], class_="evidence")),
                   tag("p", cut(why, SENTENCE), class_="why") if why else "",
                   tag("ol", *ring, class_="ring"), tag("p", f"and {left:,} more like these") if left else "",
                   tag("p", f"Stuck behind it: {threads_of(behind)}") if behind else "",
                   tag("div", *(self._deadlocked(members, deadlock) for members in groups[:_VERDICT_THREADS]),
                       class_="cards"),
                   class_="block bad")

    def _together_or_alone(self, members: Sequence[int]) -> Markup:
        """Threads of a deadlock that are told together, and that they wait."""
        if len(members) == 1:
            return join([self._words.thread(members[0]), " waits for "])
        return join([threads_of(members), " wait for "])

    def _deadlocked(self, members: Sequence[int], deadlock: Json) -> Markup:
        number = members[0]
        thread = self._told.threads.get(number)
        if thread is None:
            return NOTHING
        ring = {edge["lock"] for edge in deadlock["edges"]}
        facts = self._words.holdings([hold for hold in thread["holds"] if hold["lock"] in ring])
        facts.append(self._words.doing(thread))
        if len(members) == 1:
            who = tag("p", tag("b", self._words.thread(number)), f" LWP {thread['lwp']}")
        else:
            who = tag("p", tag("b", f"{len(members):,} threads {ranges(members)}"), " ",
                      named(self._told.names(members), 200), ", each:")
        return tag("div", who, _facts(facts), telling(thread["stack"]), class_="card")

    def _task_cycle(self, cycle: Sequence[str]) -> Markup:
        names = [self._words.task(task) for task in [*cycle[:MANY], *cycle[:1]]]
        more = f" ({len(cycle) - MANY:,} more between)" if len(cycle) > MANY else ""
        return tag("section", self._title(f"Circle of {plural(len(cycle), 'task')} of asyncio"),
                   tag("p", listed(names, " -> "), more), class_="block bad")

    def _no_deadlock(self) -> Markup:
        told, gils = self._told, []
        for lock in told.locks.values():
            if lock["kind"] == GIL and lock["holders"]:
                holder, name = lock["holders"][0]["thread"], told.lock_words(lock)
                doing = [", which ", self._words.doing(told.threads[holder])] if holder in told.threads else []
                gils.append(tag("p", f"{name[0].upper()}{name[1:]} is held by ", self._words.thread(holder), *doing,
                                "."))
        kind, title = told.no_deadlock()
        return tag("section", self._title(title), tag("p", told.no_verdict, class_="why") if told.no_verdict else "",
                   tag("p", told.counts()), *gils, class_=_BLOCKS[kind])

    # -- graph --------------------------------------------------------------------------------------------------

    def _graph(self) -> Markup:
        waits, graph = self._told.waits(), Graph()
        if not waits.threads:
            return NOTHING
        for members, links in waits.threads:
            graph.add(Node(f"thread {members[0]}", "thread", self._told.thread_lines(members),
                           self._words.thread_anchor(members[0]), any(link.bad for link in links)))
        for lock, bad in waits.locks.items():
            graph.add(Node(f"lock {lock}", "lock", self._told.lock_lines(lock), self._words.lock_anchor(lock), bad))
        for members, links in waits.threads:
            for link in links:
                ends = (f"thread {members[0]}", f"lock {link.lock}")
                start, end = ends if link.kind == "waits" else ends[::-1]
                graph.connect(start, end, link.words, link.bad, link.kind)
        return tag("section", self._title("Who waits for whom"),
                   graph.draw("Threads as boxes, locks as rounded boxes; an arrow leads from a thread to the lock "
                              "that it waits for and from a lock to who holds it; what is in a deadlock is red"),
                   class_="graph")

    # -- threads ------------------------------------------------------------------------------------------------

    def _threads(self) -> Markup:
        if not self._told.threads:
            return NOTHING
        return tag("section", self._title(plural(len(self._told.threads), "thread")),
                   *(self._entry(group) for group in self._told.groups()), class_="threads")

    def _entry(self, group: Group) -> Markup:
        first = self._told.threads[group.members[0]]
        facts = self._words.holdings(first["holds"])
        if len(group.members) == 1:
            anchor = self._words.thread_anchor(group.members[0])
            who, doing = self._alone(group.members[0], facts)
        else:
            anchor = None
            who, doing = self._together(group.members, facts)
        for section in first.get("critical_sections") or ():
            if not section["active"] and section["mutex"] is not None:
                what = f"{cut(section['type'], 80)} object at {section['object']}" if section["object"] else "a mutex"
                facts.append(join([f"has suspended its critical section of {what}"]))
        summary = tag("summary", tag("span", who, class_="who"), Markup(" "),
                      tag("span", STATES[group.state], class_=f"tag {group.state}"), Markup(" "),
                      tag("span", doing, class_="doing"))
        return tag("details", summary, _facts(facts), self._stack(group, first["stack"]), id=anchor, class_="thread",
                   data_state=group.state, data_count=len(group.members), open=group.open)

    def _alone(self, number: int, facts: list[Markup]) -> tuple[Markup, Markup]:
        """Who a thread is and what it does; adds to the facts about it."""
        thread = self._told.threads[number]
        tid = f", TID {thread['tid']}" if thread["tid"] not in (None, thread["lwp"]) else ""
        name = self._words.thread(number, False)
        facts.append(self._words.doing(thread))
        if thread["tstate"]:
            facts.append(join([f"thread state {thread['tstate']}, {thread['python_state']}"]))
        return (join([tag("b", Markup(name[0].upper() + name[1:])), f" LWP {thread['lwp']}{tid}"]),
                self._words.doing(thread, False))

    def _together(self, members: Sequence[int], facts: list[Markup]) -> tuple[Markup, Markup]:
        """Who these threads are and what they do; adds to the facts about them."""
        threads = [self._told.threads[number] for number in members]
        waits = {thread["waits"]["lock"] for thread in threads if thread["waits"]}
        if len(waits) > 1:
            kinds = sorted({str(self._told.locks[lock]["kind"]) for lock in waits if lock in self._told.locks})
            doing = join([f"wait for {len(waits):,} different locks ({', '.join(kinds)})"])
            facts.append(doing)
        else:
            doing = join(["each ", self._words.doing(threads[0], False)])
            facts.append(join(["each ", self._words.doing(threads[0])]))
        chips = []
        for number, thread in zip(members, threads):
            name = thread["python_name"] or thread["name"]
            chips.append(tag("li", f"{number} ", named(name, 60) if name else "", f" LWP {thread['lwp']}",
                             id=self._words.thread_anchor(number), tabindex="-1"))
        facts.append(join([tag("span", "their numbers, names and LWPs:"), tag("ul", *chips, class_="chips")]))
        return (join([tag("b", f"{len(members):,} threads {ranges(members)}"), " ",
                      named(self._told.names(members), 200)]), doing)

    def _stack(self, group: Group, stack: Sequence[Json]) -> Markup:
        if stack:
            return self._stacks.whole(stack)
        above = group.state == "crashed"
        return tag("p", "Its stack stands above." if above else "No stack was read.", class_="why")

    # -- tables -------------------------------------------------------------------------------------------------

    def _runtimes(self) -> Markup:
        rows = []
        for runtime in self._told.document.get("runtimes", ()):
            for interpreter in runtime["interpreters"]:
                gil, stop = interpreter["gil"], interpreter["stop_the_world"]
                held: list[Content] = [_GILS.get(gil["state"], str(gil["state"]))]
                if gil["state"] == "held":
                    held = ["held by ", self._words.thread(gil["holder"]) if gil["holder"] is not None
                            else "no living thread"]
                stopping: list[Content] = ["no"]
                if stop["requested"]:
                    stopping = ["requested by ", self._words.thread(stop["requester"])
                                if stop["requester"] is not None else "an unknown thread"]
                    if stop["waiting_for"]:
                        stopping.append(f", waits for threads {ranges(stop['waiting_for'])}")
                waiters = threads_of(gil["waiters"]) if gil["waiters"] else "nobody"
                rows.append(tag("tr", tag("th", f"CPython {runtime['version']} ", named(runtime["module"]),
                                          f", interpreter {interpreter['id']}", scope="row"),
                                tag("td", *held), tag("td", waiters), tag("td", *stopping)))
        titles = ("Interpreter", "GIL", "Waited for by", "World stopped")
        return self._part("Interpreters", table(titles, rows), opened=True) if rows else NOTHING

    def _locks(self) -> Markup:
        rows = []
        for lock_id, lock in self._told.locks.items():
            holders: list[Content] = [self._words.threads([holder["thread"] for holder in lock["holders"]])]
            if lock["orphan"]:
                holders = [f"nobody alive: {lock['orphan']}"]
            elif not lock["holders"] and lock["candidates"]:
                holders = ["candidates: ", self._words.threads(lock["candidates"])]
            waiters = [waiter["thread"] for waiter in lock["waiters"]]
            why = lock["why"] or next((holder["why"] for holder in lock["holders"] if holder["why"]), None)
            rows.append(tag("tr", tag("th", named(self._told.lock_words(lock), 160), scope="row"),
                            tag("td", str(lock["state"])), tag("td", *holders),
                            tag("td", self._words.threads(waiters)), tag("td", cut(why or "", 400)),
                            id=self._words.lock_anchor(lock_id), tabindex="-1"))
        titles = ("Lock", "State", "Held by", "Waited for by", "How it is known")
        return self._part(plural(len(rows), "lock"), table(titles, rows)) if rows else NOTHING

    def _tasks(self) -> Markup:
        if "tasks" not in self._told.document:
            return NOTHING
        loops = [tag("li", f"Event loop {loop['id']} (", named(loop["kind"]), ") ", *(
            ["runs in ", self._words.thread(loop["thread"])] if loop["thread"] is not None else ["does not run"]))
            for loop in self._told.document.get("event_loops", ())]
        entries = []
        for address, task in self._told.tasks.items():
            stack = self._stacks.whole(task["stack"]) if task["stack"] else tag("p", "No frames.", class_="why")
            entries.append(tag("details", tag("summary", tag("b", self._words.task(address)), " ",
                                              *self._awaiting(task)), stack, class_="task"))
        return self._part(f"{plural(len(entries), 'task')} of asyncio", tag("ul", *loops), *entries)

    def _awaiting(self, task: Json) -> list[Content]:
        awaits, doing = task["awaits"], [str(task["state"])]
        tasks, holders = ([self._words.task(address) for address in awaits[key][:_TASKS]]
                          for key in ("tasks", "holders"))
        if tasks:
            left = len(awaits["tasks"]) - len(tasks)
            doing = ["waits for ", listed(tasks), f" and {left:,} more" if left else ""]
        if awaits["what"]:
            doing += [" (" if tasks else ": waits for ", named(awaits["what"], 200), ")" if tasks else ""]
        if holders:
            doing += [", held by ", listed(holders)]
        return [*doing, ", with a timeout" if awaits["timed"] else ""]

    def _part(self, title: str, *content: Content, opened: bool = False) -> Markup:
        return tag("details", tag("summary", self._title(title)), *content, class_="part", open=opened)

    def _unknown(self) -> Markup:
        problems = self._told.document.get("problems", ())
        items = [tag("li", f"Note: {cut(note, SENTENCE - 20)}") for note in self._told.document.get("notes", ())]
        items += [tag("li", tag("b", cut(problem["where"], 200)), f": {problem['what']}: ", cut(problem["why"], 700))
                  for problem in problems]
        if not items:
            return NOTHING
        return tag("section", self._title("What is not known" if problems else "Notes"), tag("ul", *items),
                   class_="block doubt" if problems else "block")


def _facts(facts: Sequence[Markup]) -> Markup:
    return tag("ul", *(tag("li", fact) for fact in facts), class_="facts")
