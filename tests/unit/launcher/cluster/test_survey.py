"""Questions to the processes of a Dask cluster, and the problems of those that do not answer; without Dask."""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import time
from collections.abc import Callable
from typing import Any

from gdbext.launcher.cluster.page import Process, Survey, merged, page, status
from gdbext.launcher.cluster.remote import place_there
from gdbext.launcher.cluster.survey import Surveyor
from gdbext.schema.write import document
from tests.support.fake_report import healthy

#: The scheduler's end of connections.
SEEN = "tcp://192.0.2.2:8786"


def options(**others: Any) -> argparse.Namespace:
    made = {"client": None, "gdb": None, "package": None, "jobs": 2, "timeout": 1.0, "connect_timeout": 0.05,
            "object_names": True, "values_of_others": False, "redact": False, "source": False}
    return argparse.Namespace(**{**made, **others})


class Silent:
    """A client of a scheduler that answers, and passes nothing on to nannies."""

    id = "Client-gdbext"

    def run(self, *arguments: Any, **how: Any) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().create_future()


def test_nanny_that_does_not_answer_costs_one_line() -> None:
    process = Process(("worker",), "tcp://192.0.2.1:4000", host="192.0.2.1")

    async def take_snapshot() -> None:
        await Surveyor(Silent(), "tcp://192.0.2.2:8786", options()).snapshot_worker(process, "tcp://192.0.2.1:1")

    asyncio.run(take_snapshot())
    assert process.problem == "its nanny does not answer within 0.05 s"
    found = Survey("tcp://192.0.2.2:8786", [process])
    text = page(found, merged(found))
    assert text.splitlines()[2:] == [
        "Not read:", "  worker tcp://192.0.2.1:4000 (on 192.0.2.1): its nanny does not answer within 0.05 s"]
    assert status(found) == 3


def test_worker_without_a_nanny_is_a_failure() -> None:
    process = Process(("worker",), "tcp://192.0.2.1:4000", host="192.0.2.1")
    asyncio.run(Surveyor(Silent(), "tcp://192.0.2.2:8786", options()).snapshot_worker(process, None))
    assert process.problem == "has no nanny, and a worker that hangs cannot be asked itself"
    assert process.hint == "run `gdbext report PID` on 192.0.2.1; start workers without --no-nanny"


def test_clients_elsewhere_are_failures() -> None:
    surveyor = Surveyor(Silent(), "tcp://192.0.2.2:8786", options())
    place = {"host": "there", "machine": "other", "pid": 7, "clients": [
        {"name": "Client-gdbext", "peer": "tcp://192.0.2.9:1", "local": SEEN, "futures": 0, "pid": None},
        {"name": "Client-1", "peer": "tcp://192.0.2.3:4001", "local": SEEN, "futures": 3, "pid": None},
        {"name": "Client-2", "peer": "tcp://192.0.2.2:4002", "local": SEEN, "futures": 1, "pid": 7},
        {"name": "Client-3", "peer": "tcp://192.0.2.2:4003", "local": SEEN, "futures": 2, "pid": 8}]}
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


# -- machines that are cut off ---------------------------------------------------------------------------------

def name_of(sent: Any) -> str:
    """The name of the function that is sent."""
    name: str = sent.expression.rpartition("space[")[2].split("'")[1]
    return name


class Answering:
    """A client of a cluster on other machines; processes without an answer never reply."""

    id = "Client-gdbext"

    def __init__(self, nanny: Callable[[str], Any], scheduler: Callable[[str], Any]) -> None:
        self._nanny, self._scheduler = nanny, scheduler
        self.asked: list[str] = []

    async def run(self, sent: Any, *arguments: Any, workers: list[str], nanny: bool, on_error: str) -> dict[str, Any]:
        self.asked.append(f"nanny {name_of(sent)}")
        answer = self._nanny(name_of(sent))
        if answer is None:
            await asyncio.get_running_loop().create_future()
        return {workers[0]: answer}

    async def run_on_scheduler(self, sent: Any, *arguments: Any) -> Any:
        self.asked.append(f"scheduler {name_of(sent)}")
        answer = self._scheduler(name_of(sent))
        if answer is None:
            await asyncio.get_running_loop().create_future()
        return answer


def place(host: str, pid: int, **others: Any) -> dict[str, Any]:
    return {"host": host, "machine": f"{host}'s", "pid": pid, "gdbext": "/there", "python": "python", **others}


def test_machine_cut_off_during_a_snapshot_is_given_up() -> None:
    process = Process(("worker",), "tcp://192.0.2.1:4000", host="192.0.2.1")
    surveyor = Surveyor(Answering({"worker_there": place("beta", 4711)}.get, lambda name: None), SEEN,
                        options(timeout=600.0))
    started = time.monotonic()
    asyncio.run(surveyor.snapshot_worker(process, "tcp://192.0.2.1:1"))
    assert time.monotonic() - started < 60
    assert process.title == "worker tcp://192.0.2.1:4000 (PID 4711 on beta)"
    assert process.problem == "its nanny stopped answering during the snapshot"
    # asked for as long as it answers, and seen
    asked = []

    def answer(name: str) -> Any:
        asked.append(name)
        return place("beta", 4711) if name != "snapshot_there" else None

    async def take_snapshot() -> None:
        surveyor = Surveyor(Answering(answer, lambda name: None), SEEN, options(timeout=600.0))
        snapshots = asyncio.ensure_future(surveyor.snapshot_worker(process, "tcp://192.0.2.1:1"))
        while len(asked) < 5:
            await asyncio.sleep(0.01)
        assert not snapshots.done()
        snapshots.cancel()
        await asyncio.gather(snapshots, return_exceptions=True)

    asyncio.run(take_snapshot())
    assert asked[:5] == ["worker_there", "snapshot_there", "place_there", "place_there", "place_there"]


class Cluster(Answering):
    """The same with a scheduler that names its workers."""

    def __init__(self, workers: dict[str, Any], scheduler: Callable[[str], Any]) -> None:
        super().__init__(lambda name: None, scheduler)
        self._workers = workers

    @property
    def scheduler(self) -> Cluster:
        return self

    async def identity(self) -> dict[str, Any]:
        return {"workers": {address: {"host": "127.0.0.1", "last_seen": time.time()} for address in self._workers}}

    async def processing(self) -> dict[str, Any]:
        return {}


def test_scheduler_that_is_cut_off_is_asked_once() -> None:
    clients = [{"name": f"Client-{pid}", "peer": f"tcp://192.0.2.2:{pid}", "local": SEEN, "futures": 1, "pid": pid}
               for pid in (8, 9)]
    there = place("alpha", 7, clients=clients, workers={})
    client = Cluster({}, {"scheduler_there": there}.get)
    found = asyncio.run(Surveyor(client, SEEN, options()).survey())
    assert client.asked == ["scheduler scheduler_there", "scheduler place_there"]
    assert [process.problem for process in found.processes] == ["the scheduler does not answer within 0.05 s"] * 3
    assert page(found, merged(found)).splitlines()[0] == f"Dask cluster {SEEN}: 1 scheduler, 2 clients"


def test_scheduler_that_stops_during_a_snapshot_is_given_up() -> None:
    clients = [{"name": "Client-1", "peer": "tcp://192.0.2.2:8", "local": SEEN, "futures": 1, "pid": 8}]
    asked = []

    def answer(name: str) -> Any:
        asked.append(name)
        there = place("alpha", 7, clients=clients, workers={})
        return there if asked.count("place_there") < 2 and name != "snapshot_there" else None

    found = asyncio.run(Surveyor(Cluster({}, answer), SEEN, options(timeout=600.0)).survey())
    assert [process.problem for process in found.processes] == [
        "the scheduler does not answer within 0.05 s", "the scheduler stopped answering during the snapshot"]
    assert asked == ["scheduler_there", "place_there", "snapshot_there", "place_there"]


def test_process_here_with_the_address_of_another_machine_is_ignored() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as near:
        local, peer = (f"tcp://127.0.0.1:{end.getsockname()[1]}" for end in (server, near))
        # in the scheduler's words, on its machine
        connection = {"peer": peer, "local": local, "pid": None}
        client = {**connection, "name": "Client-1", "futures": 1}
        there = place("alpha", 7, clients=[client], workers={"tcp://127.0.0.1:4000": connection})
        surveyor = Surveyor(Cluster(there["workers"], lambda name: there if name != "snapshot_there" else {}), SEEN,
                            options())
        found = asyncio.run(surveyor.survey())
        assert [(process.roles, process.pid) for process in found.processes] == [
            (("scheduler",), 7), (("client",), None), (("worker",), None)]
        assert found.processes[1].problem == "its process is neither on this machine nor on that of the scheduler"
        # the scheduler's machine is this one
        there["machine"] = place_there(None)["machine"]
        (known, _), = surveyor.clients(there, found.processes[0])
        assert known.pid == os.getpid()


def test_worker_next_to_the_scheduler_gets_a_snapshot_from_there() -> None:
    workers = {"tcp://127.0.0.1:4000": {"peer": "tcp://127.0.0.1:4001", "local": SEEN, "pid": 9},
               "tcp://127.0.0.1:4002": {"peer": "tcp://127.0.0.1:4003", "local": SEEN, "pid": 7}}
    there = place("alpha", 7, clients=[], workers=workers)
    answer = {"document": document(healthy()), "status": 0, "stopped": 0.1}
    client = Cluster(workers, {"scheduler_there": there, "place_there": there, "snapshot_there": answer}.get)
    found = asyncio.run(Surveyor(client, SEEN, options()).survey())
    assert [(process.title, process.roles, process.problem) for process in found.processes] == [
        (f"scheduler and worker {SEEN} (PID 7 on alpha)", ("scheduler", "worker"), None),
        ("worker tcp://127.0.0.1:4000 (PID 9 on alpha)", ("worker",), None)]
    assert client.asked.count("scheduler snapshot_there") == 2
