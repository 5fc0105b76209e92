"""Asks the processes of a Dask cluster for looks: workers by their nannies, the scheduler by itself.

A scheduler that hangs cannot tell who is there; then what of the cluster is on this machine is found by its connections
and looked at from here.

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
from gdbext.launcher.proc_files import state_of
from gdbext.launcher.snapshots.finding import HOME
from gdbext.launcher.snapshots.snapshot import Options, Target

#: Seconds that a look may take besides its own limit: Python has to start, and GDB has to end.
_MARGIN = 20.0


class Unanswered(Exception):
    """Somebody who was asked did not answer; the text says why."""


async def answer_of(question: Awaitable[Any], seconds: float, who: str) -> Any:
    """The answer to a question.

    :raises Unanswered: there was none in time, or an error.
    """
    try:
        return await asyncio.wait_for(question, seconds)
    except asyncio.TimeoutError:
        raise Unanswered(f"{who} does not answer within {seconds:g} s") from None
    except Exception as error:  # raised elsewhere, of whatever type, or by the connection
        raise Unanswered(f"{who} cannot be asked: {type(error).__name__}{': ' if str(error) else ''}{error}") from error


class Surveyor:
    """Asks the processes of one cluster for looks at themselves or at their children.

    :param client: a `distributed.Client` that is asynchronous.
    """

    def __init__(self, client: Any, address: str, options: argparse.Namespace) -> None:
        self._client = client
        self._address = address
        self._options = options
        self._here = place_there(options.package)
        self._lost: str | None = None  # why the scheduler is asked no more
        self._slots: dict[str, asyncio.Semaphore] = collections.defaultdict(lambda: asyncio.Semaphore(options.jobs))

    async def survey(self) -> Survey:
        """Look at the scheduler, its clients and its workers.

        :raises Unanswered: the scheduler does not answer.
        """
        limit, who = self._options.connect_timeout, "the scheduler"
        told = await answer_of(self._client.scheduler.identity(), limit, who)
        tasks = await answer_of(self._client.processing(), limit, who)
        place = await self._ask_scheduler(limit, "scheduler_there", self._options.package)
        now = time.time()
        scheduler = Process(("scheduler",), self._address, host=place["host"], pid=place["pid"])
        workers, beside = [], []
        for address, worker in told["workers"].items():
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
        # only now, since all that was asked before goes by way of the scheduler, which stands still while it is seen
        for process, machine in [*clients, (scheduler, place["machine"])]:
            if machine == place["machine"]:
                await self._snapshot_by_scheduler(process, place)
            elif machine == self._here["machine"]:
                await snapshot_from_here(process, self._options)
        return Survey(self._address, [scheduler, *(process for process, _ in clients),
                                      *(process for process, _ in workers)])

    def clients(self, place: Mapping[str, Any], scheduler: Process) -> Iterator[tuple[Process, str | None]]:
        """The processes of clients besides that of the scheduler, and the machines on which they can be looked at."""
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
            # it is the one that is lost, if only one is
            known = lost.pop() if len(lost) == 1 else Process(("client",))
            known.host, known.pid = self._here["host"], named
            found.setdefault((self._here["machine"], named), known)
        for process in lost:
            process.problem = "its process is neither on this machine nor on that of the scheduler"
            process.hint = "run `gdbext report PID` where it is, or this command there"
            yield process, None
        for (machine, _), process in found.items():
            yield process, machine

    def _process_here(self, connection: Mapping[str, Any], place: Mapping[str, Any]) -> int | None:
        """The process on this machine that has a connection to the scheduler."""
        if is_loopback(connection["peer"]) and place["machine"] != self._here["machine"]:
            return None
        return process_at(connection["peer"], connection["local"])

    async def snapshot_worker(self, process: Process, nanny: str | None) -> None:
        """Have a worker looked at by its nanny; without one it takes that the worker is on this machine."""
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
                place = await self._ask_nanny(process, self._options.connect_timeout, "worker_there",
                                              self._options.package)
                process.host, process.pid = place["host"], place["pid"]
                if process.pid is None:
                    raise Unanswered("its nanny has no worker process at the moment: it starts one, or has given up")
                home = self._home(process, place)
                if home is not None:
                    asked = self._ask_nanny(process, self._options.timeout + _MARGIN, "snapshot_there", home,
                                            self._wanted(process))
                    process.take(await self._watched(asked, lambda: self._ask_nanny(
                        process, self._options.connect_timeout, "place_there", None), "its nanny"))
                    return
            except Unanswered as why:
                process.problem = str(why)
                return
            if self._is_here(place):
                await snapshot_from_here(process, self._options)

    async def _ask_nanny(self, process: Process, limit: float, name: str, *arguments: Any) -> Any:
        """What the nanny of a worker answers.

        :raises Unanswered: nothing.
        """
        # one worker at a time: Dask mixes up the answers where some workers have nannies and some have not
        asked = self._client.run(Sent(name), *arguments, workers=[process.address], nanny=True, on_error="return")
        answers = await answer_of(asked, limit, "its nanny")
        answer = answers.get(process.address)
        if answer is None or isinstance(answer, Exception):
            raise Unanswered(f"its nanny cannot be asked: {type(answer).__name__}: {answer}" if answer is not None
                             else "its nanny does not answer")
        return answer

    async def _watched(self, asked: Awaitable[Any], ask: Callable[[], Awaitable[Any]], who: str) -> Any:
        """The answer of a look, for as long as those who make it answer when they are asked for something else.

        :raises Unanswered: they do not, as when their machine is cut off: TCP takes half a minute to notice that.
        """
        async def watch() -> None:
            while True:
                await asyncio.sleep(self._options.connect_timeout)
                try:
                    await ask()
                except Unanswered:
                    raise Unanswered(f"{who} answered no more while it was looked at") from None

        answer, watches = asyncio.ensure_future(asked), asyncio.ensure_future(watch())
        try:
            await asyncio.wait((answer, watches), return_when=asyncio.FIRST_COMPLETED)
            return (answer if answer.done() else watches).result()
        finally:
            answer.cancel()
            watches.cancel()
            await asyncio.gather(answer, watches, return_exceptions=True)

    async def _ask_scheduler(self, limit: float, name: str, *arguments: Any) -> Any:
        """What the scheduler answers.

        :raises Unanswered: nothing, now or before.
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
            # it may have been lost since it was asked
            await self._ask_scheduler(limit, "place_there", None)
            asked = self._ask_scheduler(self._options.timeout + _MARGIN, "snapshot_there", home, self._wanted(process))
            if process.pid != place["pid"]:
                asked = self._watched(asked, lambda: self._ask_scheduler(limit, "place_there", None),
                                      "the scheduler")
            process.take(await asked)
        except Unanswered as why:
            process.problem = str(why)

    def _is_here(self, place: Mapping[str, Any]) -> bool:
        """Whether what has no gdbext there can be looked at with the one that runs here."""
        return bool(place["machine"] == self._here["machine"] and not self._options.package)

    def _home(self, process: Process, place: Mapping[str, Any]) -> str | None:
        """The folder that has gdbext on the machine of a process; None, and the process says so, if there is none."""
        home: str | None = place["gdbext"]
        if home is None:
            where = f"in {self._options.package}" if self._options.package else f"for {place['python']}"
            process.problem = f"gdbext is not installed {where} on {place['host']}"
            process.hint = "run `pip install gdbext` there, or name a folder that has it there: --package DIR"
        return home

    def _wanted(self, process: Process) -> dict[str, Any]:
        return wanted(process, self._options)


def wanted(process: Process, options: argparse.Namespace) -> dict[str, Any]:
    """What `snapshot_here` is told."""
    how = Options(gdb=options.gdb, timeout=options.timeout)
    return as_json(Target(pid=process.pid), how)


async def snapshot_from_here(process: Process, options: argparse.Namespace) -> None:
    """Look at a process of this machine, with the gdbext that runs."""
    process.problem = process.hint = None
    process.take(await snapshot_there(str(HOME), wanted(process, options)))


async def survey_from_here(address: str, options: argparse.Namespace, problem: str) -> Survey:
    """Look at what of a cluster is on this machine, by its connections: for a scheduler that does not answer.

    :param problem: why it could not be asked.
    """
    ends = addresses_of(address)
    connected = {inode for _, other, inode in connections() if other in ends}
    scheduler, host = process_listening(address), socket.gethostname()
    others = set(filter(has_python, owners_of(connected).values())) - {scheduler, os.getpid()}
    processes = [Process(("scheduler",), address, host=host if scheduler else None, pid=scheduler)]
    if scheduler is None:
        processes[0].problem = problem
        processes[0].hint = "run this on its machine and those of workers, or `gdbext report PID` there"
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
