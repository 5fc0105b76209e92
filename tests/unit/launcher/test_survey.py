"""Who of a Dask cluster is asked, and what is told of those that do not answer; without Dask."""

from __future__ import annotations

import argparse
import asyncio
import os
from typing import Any

from gdbext.launcher.cluster_page import Process, Survey, merged, page, status
from gdbext.launcher.remote import place_there
from gdbext.launcher.survey import Surveyor


def options(**others: Any) -> argparse.Namespace:
    made = {"client": None, "gdb": None, "package": None, "jobs": 2, "timeout": 1.0, "connect_timeout": 0.05}
    return argparse.Namespace(**{**made, **others})


class Silent:
    """A client of a scheduler that answers, and passes nothing on to nannies."""

    id = "Client-gdbext"

    def run(self, *arguments: Any, **how: Any) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().create_future()


def test_a_nanny_that_does_not_answer_costs_one_line() -> None:
    process = Process(("worker",), "tcp://192.0.2.1:4000", host="192.0.2.1")

    async def look() -> None:
        await Surveyor(Silent(), "tcp://192.0.2.2:8786", options()).look_at_worker(process, "tcp://192.0.2.1:1")

    asyncio.run(look())
    assert process.problem == "its nanny does not answer within 0.05 s"
    found = Survey("tcp://192.0.2.2:8786", [process])
    text = page(found, merged(found))
    assert text.splitlines()[2:] == [
        "Not looked at:", "  worker tcp://192.0.2.1:4000 (on 192.0.2.1): its nanny does not answer within 0.05 s"]
    assert status(found) == 3


def test_a_worker_without_a_nanny_is_told() -> None:
    process = Process(("worker",), "tcp://192.0.2.1:4000", host="192.0.2.1")
    asyncio.run(Surveyor(Silent(), "tcp://192.0.2.2:8786", options()).look_at_worker(process, None))
    assert process.problem == "has no nanny, and a worker that hangs cannot be asked itself"
    assert process.hint == "run `gdbext report PID` on 192.0.2.1; start workers without --no-nanny"


def test_clients_that_are_elsewhere_are_told() -> None:
    surveyor = Surveyor(Silent(), "tcp://192.0.2.2:8786", options())
    place = {"host": "there", "machine": "other", "pid": 7, "clients": [
        {"name": "Client-gdbext", "peer": "tcp://192.0.2.9:1", "futures": 0, "pid": None},
        {"name": "Client-1", "peer": "tcp://192.0.2.3:4001", "futures": 3, "pid": None},
        {"name": "Client-2", "peer": "tcp://192.0.2.2:4002", "futures": 1, "pid": 7},
        {"name": "Client-3", "peer": "tcp://192.0.2.2:4003", "futures": 2, "pid": 8}]}
    scheduler = Process(("scheduler",), "tcp://192.0.2.2:8786", host="there", pid=7)
    (lost, nowhere), (beside, machine) = surveyor.clients(place, scheduler)
    assert (lost.address, lost.futures, nowhere) == ("tcp://192.0.2.3:4001", 3, None)
    assert lost.problem == "its process is neither on this machine nor on that of the scheduler"
    assert (beside.pid, beside.futures, machine) == (8, 2, "other")
    assert (scheduler.roles, scheduler.futures) == (("scheduler", "client"), 1)
    # the one that is lost is the one that the command line names
    named = Surveyor(Silent(), "tcp://192.0.2.2:8786", options(client=os.getpid()))
    (_, _), (mine, machine) = named.clients(place, scheduler)
    assert (mine.pid, mine.futures, machine) == (os.getpid(), 3, place_there(None)["machine"])
