"""What of one look's document is told, and in which order: states of threads, who stands together, how bad it is.

Nothing here is markup, so that what a page says can be told apart from how it looks. The documents are of schema
``gdbext/1``; a part that one does not have is empty.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gdbext.model import EVIDENCE, WORLD_TO_STOP
from gdbext.model.kinds import GIL, kind_of, kind_of_id
from gdbext.record import record
from gdbext.render.html_text import MANY, NAME, RANGE, SENTENCE, Json, cut, name_range, plural, ranges, short_place
from gdbext.render.phrases import is_event, wait_mode

#: What each state of a thread is called, those first that tell most.
STATES = {
    "crashed": "crashed", "deadlocked": "deadlocked", "holder": "holds up others", "stuck": "stuck behind",
    "suspect": "suspect", "waiting": "waits", "running": "runs", "blocked": "in a system call",
    "unsure": "blocked or running", "unread": "not readable", "event": "waits for an event",
}
#: How many frames of the innermost Python and native code a verdict shows.
_VERDICT_FRAMES = 6
#: How many entries of a look are open at first.
_OPEN = 4
#: How many characters the stacks of a page may take before further ones, which tell less, are shortened; how many
#: innermost frames these keep, and how many when as much again is taken; how many characters a frame takes at least.
_STACKS, _INNER, _INNERMOST, _FRAME = 700_000, 8, 3, 60


class Budget:
    """How many characters the stacks of the page may still take."""

    def __init__(self) -> None:
        self._left = _STACKS

    def frames(self, count: int) -> int:
        """How many of that many frames of a stack are shown, from the innermost on."""
        inner = _INNER if self._left > -_STACKS else _INNERMOST
        return count if count <= inner + 1 or count * _FRAME <= self._left else inner

    def spend(self, characters: int) -> None:
        """A stack of so many characters has been made."""
        self._left -= characters


@record
class Group:
    """Threads that are told together, by their numbers: the first stands for all."""

    members: Sequence[int]
    state: str
    #: Whether all of it is shown at once.
    open: bool


class Link(NamedTuple):
    """How a thread is connected with a lock: the words at the arrow, and its kind.

    `kind` is ``waits`` (from the thread to the lock), the evidence of a holder or ``candidate`` (from the lock to the
    thread).
    """

    lock: str
    words: str
    kind: str
    #: Whether it is part of a deadlock.
    bad: bool


@record
class Waits:
    """What a drawing of who waits for whom has in it, in its order: locks, and threads that are connected alike."""

    locks: Mapping[str, bool]
    threads: Sequence[tuple[Sequence[int], Sequence[Link]]]


class Told:
    """What a look tells.

    :param look: as `html_page` takes it.
    """

    def __init__(self, look: Json) -> None:
        self.target = str(look["target"])
        self.parent = None if look.get("parent") is None else str(look["parent"])
        #: For how long the target stood still, in seconds.
        self.stopped: float | None = look.get("stopped")
        #: Whether there is a document; if not, why, and what to do about it.
        self.seen = look.get("document") is not None
        self.problem = str(look.get("problem") or "no reason is known")
        self.hint = str(look.get("hint") or "")
        self.document: Json = look.get("document") or {}
        self.threads: dict[int, Json] = {int(each["number"]): each for each in self.document.get("threads", ())}
        self.locks: dict[str, Json] = {each["id"]: each for each in self.document.get("locks", ())}
        self.deadlocks: Sequence[Json] = self.document.get("deadlocks", ())
        self.tasks: dict[str, Json] = {each["id"]: each for each in self.document.get("tasks", ())}
        self.task_cycles: Sequence[Sequence[str]] = self.document.get("task_cycles", ())
        self.crash: Json | None = self.document.get("crash")
        self._single_gil = sum(lock["kind"] == GIL for lock in self.locks.values()) == 1
        #: State of each thread, those first that tell why the program does not go on.
        self.states = self._all_states()

    # -- threads ------------------------------------------------------------------------------------------------

    def _all_states(self) -> dict[int, str]:
        dead = dict.fromkeys(number for deadlock in self.deadlocks for number in deadlock["threads"])
        stuck = {number for deadlock in self.deadlocks for number in deadlock["stuck_behind"]}
        holders = {holder["thread"] for lock in self.locks.values() if lock["waiters"] for holder in lock["holders"]}
        crash = self.crash or {"thread": None, "suspects": ()}
        suspects = {suspect["thread"] for suspect in crash["suspects"]}

        def state(number: int, thread: Json) -> str:
            if number == crash["thread"]:
                return "crashed"
            for name, numbers in (("deadlocked", dead), ("suspect", suspects), ("holder", holders), ("stuck", stuck)):
                if number in numbers:
                    return name
            lock = self.awaited(thread)
            if lock is not None and is_event(lock["kind"], lock["state"], bool(lock["holders"])):
                return "event"
            if lock is not None and not kind_of(lock["kind"]).outside:
                return "waiting"
            if thread["status"] == "unknown" and thread["blocked_on"] is not None:
                return "unsure"
            return {"blocked": "blocked", "running": "running"}.get(thread["status"], "unread")

        found = {number: state(number, thread) for number, thread in self.threads.items()}
        order, place = list(STATES), {number: index for index, number in enumerate(dead)}
        return dict(sorted(found.items(), key=lambda item: (order.index(item[1]), place.get(item[0], 0), item[0])))

    def awaited(self, thread: Json) -> Json | None:
        """The lock that a thread waits for; None if it waits for none, or for one that the document does not have."""
        return self.locks.get(thread["waits"]["lock"]) if thread["waits"] is not None else None

    def groups(self) -> Iterator[Group]:
        """All threads, those first that tell most, those with the same state and stack together."""
        alike: dict[object, list[int]] = {}
        for number, state in self.states.items():
            thread = self.threads[number]
            # threads that hold something stand alone: what they hold is theirs
            alone = thread["holds"] or not thread["stack"] or state in ("crashed", "suspect")
            key = (number,) if alone else (json.dumps(thread["stack"], sort_keys=True), thread["status"], state)
            alike.setdefault(key, []).append(number)
        opened = 0
        for members in alike.values():
            state = self.states[min(members)]
            telling = state in ("crashed", "deadlocked")
            yield Group(sorted(members), state, telling and opened < _OPEN and len(self.threads) <= MANY)
            opened += telling

    def names(self, members: Sequence[int]) -> str:
        """The names of threads, of many the first and the last."""
        threads = [self.threads[number] for number in members if number in self.threads]
        return name_range(thread["python_name"] or thread["name"] for thread in threads)

    # -- locks --------------------------------------------------------------------------------------------------

    def lock_words(self, lock: Json) -> str:
        """What a lock is called in a sentence."""
        kind = kind_of(lock["kind"])
        if kind.ends_thread:
            owner = lock["holders"][0]["thread"] if lock["holders"] else None
            return f"the end of thread {owner if owner is not None else lock['address']}"
        if kind.title is not None:
            return kind.title if self._single_gil else f"{kind.title} {lock['id']}"
        return f"{lock['kind']} {lock['address']}" + (f" {cut(lock['name'], NAME)}" if lock["name"] else "")

    def lock_kind(self, lock_id: str) -> str:
        """The kind of a lock, or its id if the document does not have it."""
        return str(self.locks[lock_id]["kind"]) if lock_id in self.locks else lock_id

    # -- verdict ------------------------------------------------------------------------------------------------

    def verdict(self) -> tuple[str, str]:
        """How bad it is (``bad``, ``good``, ``doubt`` or ``plain``), and a few words."""
        if not self.seen:
            return "doubt", f"could not be looked at: {cut(self.problem, 300)}"
        texts = []
        if self.crash is not None:
            fault = self.crash["fault"]
            texts.append(f"{fault['signal']}: {cut(fault['text'], 200)}")
        for deadlock in self.deadlocks[:3]:
            kinds = dict.fromkeys(self.lock_kind(edge["lock"]) for edge in deadlock["edges"])
            what = "standstill" if deadlock.get("standstill") else "deadlock"
            texts.append(f"{what} of {plural(len(deadlock['threads']), 'thread')}: {', '.join(list(kinds)[:6])}")
        if len(self.deadlocks) > 3:
            texts.append(f"{len(self.deadlocks) - 3:,} more deadlocks")
        if self.task_cycles:
            texts.append(f"circle of {plural(len(self.task_cycles[0]), 'task')}")
        if texts:
            return "bad", "; ".join(texts)
        if "deadlocks" not in self.document:
            return "plain", "deadlocks were not looked for"
        if self.no_verdict:
            return "doubt", f"whether there is a deadlock cannot be told: {self.no_verdict}"
        return "good", "no deadlock"

    @property
    def no_verdict(self) -> str:
        """Why no deadlock can be ruled out; empty if one can be."""
        return cut(self.document.get("no_verdict") or "", SENTENCE)

    def no_deadlock(self) -> tuple[str, str]:
        """How sure it is that there is no deadlock, as `verdict` calls it, and a title."""
        if self.no_verdict:
            return "doubt", "Whether there is a deadlock cannot be told"
        # a good end in green would be wrong beside a crash or tasks that wait for one another
        if self.crash is not None or self.task_cycles:
            return "plain", "No deadlock of threads found"
        return "good", "No deadlock found"

    def counts(self) -> str:
        """What the threads do, in numbers."""
        threads = self.threads.values()
        waiting = sum(thread["waits"] is not None and not kind_of_id(thread["waits"]["lock"]).outside
                      for thread in threads)
        running = sum(thread["status"] == "running" and thread["waits"] is None for thread in threads)
        return (f"{plural(len(threads), 'thread')}: {waiting:,} waiting for a lock or event, "
                f"{len(threads) - waiting - running:,} in other system calls, {running:,} running.")

    def owner_gone(self, deadlock: Json) -> bool:
        """Whether it is one because the owner of a lock is no living thread."""
        # in a standstill the threads that would have to act are not known
        return not deadlock.get("standstill") and any(edge["holder"] is None for edge in deadlock["edges"])

    def deadlock_words(self, deadlock: Json) -> str:
        """What a deadlock is."""
        count = len(deadlock["threads"])
        if self.owner_gone(deadlock):
            return f"{count:,} thread{'s wait' if count != 1 else ' waits'} for an owner that is gone"
        if deadlock.get("standstill"):
            return f"standstill of {plural(count, 'thread')}"
        return "a thread waits for itself" if count == 1 else f"{count:,} threads wait for each other"

    def alike(self, deadlock: Json) -> list[list[int]]:
        """The threads of a deadlock, together those with the same wait, the same stack and the same held locks."""
        edges: dict[int, list[tuple[str, int | None]]] = {}
        for edge in deadlock["edges"]:
            edges.setdefault(edge["waiter"], []).append((edge["lock"], edge["holder"]))
        locks = {edge["lock"] for edge in deadlock["edges"]}
        groups: dict[str, list[int]] = {}
        for number, own in edges.items():
            thread = self.threads.get(number)
            facts = None if thread is None else (
                thread["waits"], [hold for hold in thread["holds"] if hold["lock"] in locks], thread["stack"])
            groups.setdefault(json.dumps((own, facts), sort_keys=True), []).append(number)
        return [sorted(members) for members in groups.values()]

    # -- who waits for whom -------------------------------------------------------------------------------------

    def waits(self) -> Waits:
        """The threads and locks of deadlocks, and locks that are waited for and held."""
        edges = [edge for deadlock in self.deadlocks for edge in deadlock["edges"]]
        red = {(edge["waiter"], edge["lock"]) for edge in edges}
        red_holds = {(edge["lock"], edge["holder"]) for edge in edges}
        locks = dict.fromkeys(edge["lock"] for edge in edges)
        locks.update(dict.fromkeys(lock["id"] for lock in self.locks.values() if lock["waiters"] and (
            lock["holders"] or lock["candidates"] or lock["orphan"])))
        links: dict[int, list[Link]] = {}
        for lock_id in locks:
            lock = self.locks.get(lock_id, {"waiters": [], "holders": [], "candidates": [], "kind": "", "name": None})
            for waiter in lock["waiters"]:
                bad = (waiter["thread"], lock_id) in red
                links.setdefault(waiter["thread"], []).append(
                    Link(lock_id, f"waits{wait_mode(lock['kind'], waiter['mode'])}", "waits", bad))
            for holder in lock["holders"]:
                bad = (lock_id, holder["thread"]) in red_holds
                kind = holder["evidence"] if holder["evidence"] in EVIDENCE else "inferred"
                links.setdefault(holder["thread"], []).append(Link(lock_id, _arrow_words(lock), kind, bad))
            for number in lock["candidates"]:
                links.setdefault(number, []).append(Link(lock_id, "maybe held by", "candidate", False))
        bad_locks = {link.lock for each in links.values() for link in each if link.bad}
        # threads of a deadlock in its order, then others
        place = {edge["waiter"]: index for index, edge in enumerate(edges)}
        groups = sorted(_connected_alike(links), key=lambda group: (place.get(group[0], len(place)), group[0]))
        return Waits({lock_id: lock_id in bad_locks for lock_id in locks},
                     [(members, links[members[0]]) for members in groups])

    def thread_lines(self, members: Sequence[int]) -> list[str]:
        """What a node of these threads says."""
        threads = [self.threads[number] for number in members if number in self.threads]
        places = {short_place(thread["stack"]) for thread in threads}
        place = places.pop() if len(places) == 1 else None
        title = f"thread {members[0]}" if len(members) == 1 else f"{len(members):,} threads {ranges(members)}"
        return [line for line in (title, self.names(members), place) if line]

    def lock_lines(self, lock_id: str) -> list[str]:
        """What a node of a lock says."""
        lock = self.locks.get(lock_id)
        if lock is None:
            return [cut(lock_id, NAME)]
        if kind_of(lock["kind"]).title is not None:
            return [self.lock_words(lock)]
        state = f"owner gone: {lock['orphan']}" if lock["orphan"] else lock["state"]
        return [line for line in (f"{lock['kind']} {lock['address']}", cut(lock["name"], NAME) if lock["name"] else "",
                                  state) if line]


def _connected_alike(links: Mapping[int, Sequence[Link]]) -> list[list[int]]:
    """Threads that are connected with the same locks in the same way, where they are many; others by themselves."""
    alike: dict[object, list[int]] = {}
    for number, found in links.items():
        alike.setdefault(tuple(sorted(found)), []).append(number)
    few = [[number] for members in alike.values() if len(members) < RANGE for number in members]
    return few + [members for members in alike.values() if len(members) >= RANGE]


def _arrow_words(lock: Json) -> str:
    """What the holders of a lock do with it, in two words."""
    kind = kind_of(lock["kind"])
    if kind.gathers:
        return "still to come"
    if kind.stops_world and lock["name"] == WORLD_TO_STOP:
        return "not stopped"
    return "held by" if kind.held is None else kind.held


def telling_frames(stack: Sequence[Json]) -> list[int]:
    """Which frames tell what a thread is doing: named native ones and the innermost Python ones."""
    last = max((index for index, frame in enumerate(stack) if frame["language"] == "python"), default=len(stack))
    chosen, counts = [], {"python": 0, "native": 0}
    for index, frame in enumerate(stack[:last + 1]):
        if frame["language"] == "native" and not frame["function"]:
            continue
        counts[frame["language"]] += 1
        if counts[frame["language"]] <= _VERDICT_FRAMES:
            chosen.append(index)
    return chosen
