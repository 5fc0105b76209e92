"""An engine: a front, to which clients connect, a scheduler, and two workers; or processes in another order: SCENE.

The front has a request of a client, which it gives to the scheduler, and that to each worker, all by sockets. Prints
one line of JSON once all processes are in their final state: {"pid": the launcher's, "processes": {name: PID}}.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

WORKERS = ("worker-0", "worker-1")
#: How long a name is in a message, in bytes.
NAME = 16


def ready() -> None:
    print("ready", flush=True)


def ask(server: socket.socket, question: bytes) -> bytes:
    """Send a question and wait for the answer."""
    server.sendall(question)
    return server.recv(64)


# -- the processes -------------------------------------------------------------------------------------------


def front(scene: str, _: str, scheduler: socket.socket) -> None:
    """Accepts requests, and waits for the scheduler's answer to each."""
    server = socket.create_server(("127.0.0.1", 0))
    if scene not in IDLE:
        with socket.create_connection(server.getsockname()) as client:
            client.sendall(b"GET")
            connection, _ = server.accept()
            connection.recv(64)
            ready()
            connection.sendall(ask(scheduler, b"generate"))
    ready()
    if scene == "in_step":
        while True:
            ask(scheduler, b"generate")
            time.sleep(0.001)
    server.accept()


def scheduler(scene: str, front: socket.socket, *workers: socket.socket) -> None:
    """Takes requests from the front, and waits for the answers of all workers."""
    ready()
    while True:
        request = front.recv(64)
        if not request:
            return
        for worker in workers:
            worker.sendall(request)
        answers = [worker.recv(64) for worker in workers]
        front.sendall(answers[0])


def worker(scene: str, name: str, scheduler: socket.socket) -> None:
    """Answers each request, unless the scene has another end."""
    if name == WORKERS[0] or scene in IDLE:
        ready()
    while True:
        request = scheduler.recv(64)
        if not request:
            return
        if name == WORKERS[1]:
            ENDS[scene]()
            if scene == "lost":
                ready()
                continue  # nobody gets an answer
        scheduler.sendall(b"token")


# -- what worker 1 does with a request -----------------------------------------------------------------------


def deadlock() -> None:
    first, second = threading.Lock(), threading.Lock()
    both = threading.Barrier(2)

    def offload_cache() -> None:
        with second:
            both.wait()
            with first:
                pass

    threading.Thread(target=offload_cache, name="cache").start()
    with first:
        both.wait()
        ready()
        with second:
            pass


def sleep() -> None:
    ready()
    time.sleep(10_000)


def compute() -> None:
    ready()
    while True:
        pass


def nothing() -> None:
    pass


#: Without a request at first.
IDLE = ("idle", "in_step")
ENDS: dict[str, Callable[[], None]] = {
    "lost": nothing, "lock": deadlock, "asleep": sleep, "at_work": compute, "idle": nothing, "in_step": nothing}


def connected(name: str, other: str) -> socket.socket:
    """A connection with another process, which listens at a path in the working directory."""
    client = socket.socket(socket.AF_UNIX)
    client.connect(other)
    client.sendall(name.encode().ljust(NAME))
    return client


def accepted(names: tuple[str, ...]) -> list[socket.socket]:
    """The connections of some processes, in their order."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("scheduler")
        server.listen()
        ready()
        connections = {}
        for _ in names:
            connection, _ = server.accept()
            connections[connection.recv(NAME).decode().strip()] = connection
    return [connections[name] for name in names]


def launch(scene: str) -> None:
    processes = {}
    for name in ("scheduler", *WORKERS, "front"):
        process = processes[name] = subprocess.Popen(
            [sys.executable, __file__, scene, name], stdout=subprocess.PIPE, text=True)
        # the scheduler listens now
        if name == "scheduler":
            await_line(process)
    for process in processes.values():
        await_line(process)
    print(json.dumps({"pid": os.getpid(), "processes": {name: each.pid for name, each in processes.items()}}),
          flush=True)
    for process in processes.values():
        process.wait()


def await_line(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"


def main() -> None:
    scene, *names = sys.argv[1:]
    # what is shown as the name of the process
    Path("/proc/self/comm").write_text((names or ["launcher"])[0])
    if not names:
        launch(scene)
    elif names == ["scheduler"]:
        scheduler(scene, *accepted(("front", *WORKERS)))
    else:
        run = front if names == ["front"] else worker
        run(scene, names[0], connected(names[0], "scheduler"))


if __name__ == "__main__":
    main()
