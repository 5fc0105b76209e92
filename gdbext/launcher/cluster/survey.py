"""Asks the processes of a Dask cluster for snapshots: nannies for their workers, the scheduler for itself.

A scheduler that hangs cannot name the processes. Then those on this machine are found by their connections.

Source: distributed 2024.8.0 and 2026.8.0, `Client.run`, `Client.run_on_scheduler`, `Scheduler.identity`.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import os
import socket
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from gdbext.inferior.proc.status import state_of
from gdbext.launcher.cli import shows_values
from gdbext.launcher.cluster.answers import checked_place
from gdbext.launcher.cluster.page import Process, Survey
from gdbext.launcher.cluster.remote import (
    Sent,
    addresses_of,
    as_json,
    connections,
    has_python,
    is_loopback,
    owners_of,
    place_there,
    process_at,
    process_listening,
    snapshot_there,
)
from gdbext.launcher.snapshots.options import Options, Target
from gdbext.launcher.snapshots.programs import HOME

#: Seconds that a snapshot may take beyond its limit, for the start of Python and the end of GDB.
_MARGIN = 20.0


class Unanswered(Exception):
    """A process did not answer; the text says why."""


async def answer_of(question: Awaitable[Any], seconds: float, who: str) -> Any:
    """Wait for the answer to a question.

    :raises Unanswered: there was none in time, or an error.
    """
    try:
        return await asyncio.wait_for(question, seconds)
    except asyncio.TimeoutError:
        raise Unanswered(f"{who} does not answer within {seconds:g} s") from None
    except Exception as error:  # of any type: raised there, or by the connection
        raise Unanswered(f"{who} cannot be asked: {type(error).__name__}{': ' if str(error) else ''}{error}") from error


class Surveyor:
    """Asks the processes of one cluster for snapshots of themselves or of their children.

    :param client: an asynchronous `distributed.Client`.
    """

    def __init__(self, client: Any, address: str, options: argparse.Namespace) -> None:
        self._client = client
        self._address = address
        self._options = options
        self._here = place_there(options.package)
        self._lost: str | None = None  # why the scheduler does not answer
        self._slots: dict[str, asyncio.Semaphore] = collections.defaultdict(lambda: asyncio.Semaphore(options.jobs))

    async def survey(self) -> Survey:
        """Take snapshots of the scheduler, its clients and its workers.

        :raises Unanswered: the scheduler does not answer.
        """
        limit, who = self._options.connect_timeout, "the scheduler"
        identity = await answer_of(self._client.scheduler.identity(), limit, who)
        tasks = await answer_of(self._client.processing(), limit, who)
        place = _checked(await self._ask_scheduler(limit, "scheduler_there", self._options.package), who)
        now = time.time()
        scheduler = Process(("scheduler",), self._address, host=place["host"], pid=place["pid"])
        workers, beside = [], []
        for address, worker in identity["workers"].items():
            process = Process(("worker",), address, str(worker.get("name")), worker.get("host"),
                              since=max(0.0, now - worker["last_seen"]), tasks=tuple(map(str, tasks.get(address, ()))))
            connection = place["workers"].get(address)
            if not worker.get("nanny") and connection:
                if connection["pid"] == place["pid"]:
                    scheduler.roles = ("scheduler", "worker")
                    continue
                if connection["pid"] is not None:
                    process.host, process.pid = place["host"], connection["pid"]
                    beside.append((process, place["machine"]))
                    continue
                process.pid = self._process_here(connection, place)
            workers.append((process, worker.get("nanny")))
        await asyncio.gather(*(self.snapshot_worker(process, nanny) for process, nanny in workers))
        clients = [*self.clients(place, scheduler), *beside]
        # last, since all other questions go through the scheduler, which a snapshot pauses
        for process, machine in [*clients, (scheduler, place["machine"])]:
            if machine == place["machine"]:
                await self._snapshot_by_scheduler(process, place)
            elif machine == self._here["machine"]:
                await snapshot_from_here(process, self._options)
        return Survey(self._address, [scheduler, *(process for process, _ in clients),
                                      *(process for process, _ in workers)])

    def clients(self, place: Mapping[str, Any], scheduler: Process) -> Iterator[tuple[Process, str | None]]:
        """The processes of clients other than the scheduler's, and the machines on which they can be read."""
        found: dict[tuple[str | None, int], Process] = {}
        lost = []
        for client in place["clients"]:
            if client["name"] == self._client.id:
                continue
            if client["pid"] == place["pid"]:
                scheduler.roles = tuple(dict.fromkeys((*scheduler.roles, "client")))
                scheduler.futures += client["futures"]
                continue
            if client["pid"] is not None:
                where, pid = place, client["pid"]
            else:
                where, pid = self._here, self._process_here(client, place)
            process = Process(("client",), client["peer"], host=where["host"], pid=pid)
            if pid is not None:
                process = found.setdefault((where["machine"], pid), process)
            else:
                process.host = None
                lost.append(process)
            process.futures += client["futures"]
        named = self._options.client
        if named is not None and (place["machine"], place["pid"]) != (self._here["machine"], named):
            # if one client is lost, it is this one
            known = lost.pop() if len(lost) == 1 else Process(("client",))
            known.host, known.pid = self._here["host"], named
            found.setdefault((self._here["machine"], named), known)
        for process in lost:
            process.problem = "its process is neither on this machine nor on that of the scheduler"
            process.hint = "run `gdbext report PID`, or this command, on its machine"
            yield process, None
        for (machine, _), process in found.items():
            yield process, machine

    def _process_here(self, connection: Mapping[str, Any], place: Mapping[str, Any]) -> int | None:
        """The process on this machine that has a connection to the scheduler."""
        if is_loopback(connection["peer"]) and place["machine"] != self._here["machine"]:
            return None
        return process_at(connection["peer"], connection["local"])

    async def snapshot_worker(self, process: Process, nanny: str | None) -> None:
        """Take a snapshot of a worker through its nanny, or from here if it has none and is on this machine."""
        if not nanny:
            if process.pid is not None:
                process.host = self._here["host"]
                await snapshot_from_here(process, self._options)
                return
            process.problem = "has no nanny, and a worker that hangs cannot be asked itself"
            process.hint = f"run `gdbext report PID` on {process.host}; start workers without --no-nanny"
            return
        async with self._slots[process.host or ""]:
            try:
                place = _checked(await self._ask_nanny(process, self._options.connect_timeout, "worker_there",
                                                       self._options.package), "its nanny")
                process.host, process.pid = place["host"], place["pid"]
                if process.pid is None:
                    raise Unanswered("its nanny has no worker process: it is starting one, or has given up")
                home = self._home(process, place)
                if home is not None:
                    asked = self._ask_nanny(process, self._options.timeout + _MARGIN, "snapshot_there", home,
                                            wanted(process, self._options))
                    process.take(await self._watched(asked, lambda: self._ask_nanny(
                        process, self._options.connect_timeout, "place_there", None), "its nanny"))
                    return
            except Unanswered as why:
                process.problem = str(why)
                return
            if self._is_here(place):
                await snapshot_from_here(process, self._options)

    async def _ask_nanny(self, process: Process, limit: float, name: str, *arguments: Any) -> Any:
        """Ask the nanny of a worker.

        :raises Unanswered: it does not answer.
        """
        # one worker at a time: Dask confuses the answers if only some workers have nannies
        asked = self._client.run(Sent(name), *arguments, workers=[process.address], nanny=True, on_error="return")
        answers = await answer_of(asked, limit, "its nanny")
        answer = answers.get(process.address)
        if answer is None or isinstance(answer, Exception):
            raise Unanswered(f"its nanny cannot be asked: {type(answer).__name__}: {answer}" if answer is not None
                             else "its nanny does not answer")
        return answer

    async def _watched(self, asked: Awaitable[Any], ask: Callable[[], Awaitable[Any]], who: str) -> Any:
        """Wait for a snapshot as long as the process that takes it answers other questions.

        :raises Unanswered: it does not, as when its machine is cut off, which TCP notices only after half a minute.
        """
        async def watch() -> None:
            while True:
                await asyncio.sleep(self._options.connect_timeout)
                try:
                    await ask()
                except Unanswered:
                    raise Unanswered(f"{who} stopped answering during the snapshot") from None

        answer, watches = asyncio.ensure_future(asked), asyncio.ensure_future(watch())
        try:
            await asyncio.wait((answer, watches), return_when=asyncio.FIRST_COMPLETED)
            return (answer if answer.done() else watches).result()
        finally:
            answer.cancel()
            watches.cancel()
            await asyncio.gather(answer, watches, return_exceptions=True)

    async def _ask_scheduler(self, limit: float, name: str, *arguments: Any) -> Any:
        """Ask the scheduler.

        :raises Unanswered: it does not answer, or did not before.
        """
        try:
            if self._lost is None:
                return await answer_of(self._client.run_on_scheduler(Sent(name), *arguments), limit, "the scheduler")
        except Unanswered as why:
            self._lost = str(why)
            raise
        raise Unanswered(self._lost)

    async def _snapshot_by_scheduler(self, process: Process, place: Mapping[str, Any]) -> None:
        home = self._home(process, place)
        if home is None:
            if self._is_here(place):
                await snapshot_from_here(process, self._options)
            return
        limit = self._options.connect_timeout
        try:
            # it may have been lost since the last question
            await self._ask_scheduler(limit, "place_there", None)
            asked = self._ask_scheduler(self._options.timeout + _MARGIN, "snapshot_there", home,
                                        wanted(process, self._options))
            if process.pid != place["pid"]:
                asked = self._watched(asked, lambda: self._ask_scheduler(limit, "place_there", None),
                                      "the scheduler")
            process.take(await asked)
        except Unanswered as why:
            process.problem = str(why)

    def _is_here(self, place: Mapping[str, Any]) -> bool:
        """Whether this gdbext can read a process of a machine without one: the machine is this one."""
        return bool(place["machine"] == self._here["machine"] and not self._options.package)

    def _home(self, process: Process, place: Mapping[str, Any]) -> str | None:
        """The folder that contains gdbext on the machine of a process; if None, that is the process's problem."""
        home: str | None = place["gdbext"]
        if home is None:
            where = f"in {self._options.package}" if self._options.package else f"for {place['python']}"
            process.problem = f"gdbext is not installed {where} on {place['host']}"
            process.hint = "run `pip install gdbext` there, or name a folder there that contains it: --package DIR"
        return home


def _checked(place: object, who: str) -> Mapping[str, Any]:
    """:raises Unanswered: the answer is not a place."""
    found = checked_place(place)
    if found is None:
        raise Unanswered(f"{who} does not answer as gdbext does")
    return found


def wanted(process: Process, options: argparse.Namespace) -> dict[str, Any]:
    """The argument of `snapshot_here`."""
    return as_json(Target(pid=process.pid), Options(gdb=options.gdb, timeout=options.timeout,
                                                    object_names=options.object_names,
                                                    values_of_others=shows_values(options),
                                                    redact=options.redact, source=options.source))


async def snapshot_from_here(process: Process, options: argparse.Namespace) -> None:
    """Take a snapshot of a process of this machine, with this gdbext."""
    process.problem = process.hint = None
    process.take(await snapshot_there(HOME, wanted(process, options)))


async def survey_from_here(address: str, options: argparse.Namespace, problem: str) -> Survey:
    """Take snapshots of the processes on this machine that have a connection to a scheduler that does not answer.

    :param problem: why the scheduler does not answer.
    """
    ends = addresses_of(address)
    connected = {inode for _, other, inode in connections() if other in ends}
    scheduler, host = process_listening(address), socket.gethostname()
    others = set(filter(has_python, owners_of(connected).values())) - {scheduler, os.getpid()}
    processes = [Process(("scheduler",), address, host=host if scheduler else None, pid=scheduler)]
    if scheduler is None:
        processes[0].problem = problem
        processes[0].hint = "run this command, or `gdbext report PID`, on its machine and those of the workers"
    elif state_of(scheduler) == "T":  # by job control
        problem += f"; it is stopped, as by Ctrl-Z: kill -CONT {scheduler}"
    clients = {options.client} - {None}
    processes += [Process(("client",) if pid in clients else (), host=host, pid=pid)
                  for pid in sorted(others | clients)]
    slots = asyncio.Semaphore(options.jobs)

    async def take_snapshot(process: Process) -> None:
        async with slots:
            await snapshot_from_here(process, options)

    await asyncio.gather(*(take_snapshot(process) for process in processes if process.pid is not None))
    return Survey(address, processes, problem)
