"""Sentences about the threads, locks and tasks of a look, with links to where the page has more of them."""

from __future__ import annotations

from collections.abc import Sequence

from gdbext.model.kinds import kind_of
from gdbext.render.html_markup import NOTHING, Markup, join, listed, named, tag
from gdbext.render.html_text import MANY, PATH, Json, cut
from gdbext.render.html_told import Told
from gdbext.render.phrases import ON_DESCRIPTOR, held_words, holding_world, wait_mode


class Words:
    """Words of one look.

    :param index: of the look in the page, which makes its ids differ from those of others.
    """

    def __init__(self, told: Told, index: int) -> None:
        self._told = told
        self._index = index
        self._place_of_lock = {lock: place for place, lock in enumerate(told.locks)}

    # -- anchors ------------------------------------------------------------------------------------------------

    def thread_anchor(self, number: int) -> str | None:
        """The id of a thread's entry; None if the document does not have the thread."""
        return f"t{self._index}-{number}" if number in self._told.threads else None

    def lock_anchor(self, lock_id: str) -> str | None:
        """The id of a lock's row; None if the document does not have the lock."""
        return f"l{self._index}-{self._place_of_lock[lock_id]}" if lock_id in self._place_of_lock else None

    # -- names --------------------------------------------------------------------------------------------------

    def thread(self, number: int | None, link: bool = True) -> Markup:
        """A thread by its number and name."""
        if number is None:
            return Markup("nobody")
        thread = self._told.threads.get(number)
        if thread is None:
            return join([f"thread {number}"])
        name = thread["python_name"] or thread["name"]
        text = join([f"thread {number}", *([" ", named(f'"{cut(name, 60)}"')] if name else [])])
        return tag("a", text, href=f"#{self.thread_anchor(number)}") if link else text

    def threads(self, numbers: Sequence[int | None], link: bool = True) -> Markup:
        """Threads by their numbers and names, not too many."""
        more = f" and {len(numbers) - MANY:,} more" if len(numbers) > MANY else ""
        return join([listed([self.thread(number, link) for number in numbers[:MANY]]), more])

    def lock(self, lock_id: str, link: bool = True) -> Markup:
        """A lock by kind, address and name."""
        lock = self._told.locks.get(lock_id)
        text = tag("b", named(self._told.lock_words(lock) if lock is not None else lock_id, 160), class_="lock")
        return tag("a", text, href=f"#{self.lock_anchor(lock_id)}") if lock is not None and link else text

    def task(self, address: str) -> Markup:
        """A task of asyncio by name and address."""
        task = self._told.tasks.get(address)
        return named(f'"{cut(task["name"], 60)}" {address}' if task is not None and task["name"] else address, 120)

    # -- sentences ----------------------------------------------------------------------------------------------

    def doing(self, thread: Json, link: bool = True) -> Markup:
        """What a thread does, as the end of a sentence; without a `link` it is short, too."""
        wait, lock = thread["waits"], self._told.awaited(thread)
        if wait is not None:
            timed = ", with a timeout" if wait["timed"] else ""
            if lock is None:
                return join(["waits for ", self.lock(wait["lock"], link), timed])
            if kind_of(lock["kind"]).outside:
                doing = ON_DESCRIPTOR.get(lock["state"], f"is in {thread['syscall']} on")
                why = f"; {cut(lock['why'], 400)}" if lock["why"] else ""
                return join([f"{doing} ", named(lock["name"] or lock["id"]), timed, why])
            return join(["waits for ", self.lock(lock["id"], link), wait_mode(lock["kind"], wait["mode"]),
                         self._held_by(lock, link), timed, evidence(wait["evidence"], wait["why"] if link else None)])
        if thread["blocked_on"] is not None:
            return join([cut(thread["blocked_on"], 400)])
        status = str(thread["status"])
        if status == "blocked":
            return join([f"is in the system call {thread['syscall']}" if thread["syscall"] else "is in a system call"])
        return join([{"running": "runs", "unknown": "cannot be read"}.get(status, status)])

    def _held_by(self, lock: Json, link: bool) -> Markup:
        """Who holds a lock, as the end of a sentence."""
        state = lock["state"]
        why = tag("span", f" ({cut(lock['why'], 400)})", class_="why") if lock["why"] and link else NOTHING
        if kind_of(lock["kind"]).ends_thread:
            return NOTHING
        if lock["holders"]:
            first = lock["holders"][0]
            holders = self.threads([holder["thread"] for holder in lock["holders"]], link)
            return join([", ", f"{held_words(lock['kind'], state, lock['name'])} ", holders,
                         evidence(first["evidence"], first["why"] if link else None)])
        if lock["orphan"]:
            return join([f", held by nobody alive: {lock['orphan']}", why])
        if lock["candidates"]:
            return join([f", {state}; holders not recorded, candidates: ", self.threads(lock["candidates"], link), why])
        return join([f", {state}", why if state != "free" else NOTHING])

    def holdings(self, holds: Sequence[Json]) -> list[Markup]:
        """What a thread holds, each as the end of a sentence."""
        # those that wait for its end are told where they are
        return [self._holding(hold, self._told.locks.get(hold["lock"])) for hold in holds
                if not kind_of(self._told.lock_kind(hold["lock"])).ends_thread]

    def _holding(self, hold: Json, lock: Json | None) -> Markup:
        kind = kind_of(lock["kind"] if lock is not None else "")
        if lock is not None and kind.stops_world:
            return join(["holds ", self.lock(lock["id"]), holding_world(lock["name"])])
        if lock is not None and kind.gathers:
            return join(["is still to come to ", self.lock(lock["id"]), evidence(hold["evidence"], hold["why"])])
        taken = hold["taken_at"]
        place = f", taken by {cut(taken['function'], 120)} at {cut(taken['file'], PATH)}:{taken['line']}" if (
            taken is not None) else ""
        return join(["holds ", self.lock(hold["lock"]), " for reading" if hold["mode"] == "shared" else "",
                     evidence(hold["evidence"], hold["why"]), place])


def evidence(how: str, why: str | None) -> Markup:
    """How a statement is known, as the end of a sentence; nothing where it is recorded."""
    if how == "recorded":
        return NOTHING
    return tag("span", f" ({how}: {cut(why, 400)})" if why else f" ({how})", class_="why")
