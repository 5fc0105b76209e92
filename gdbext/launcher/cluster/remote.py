"""Functions that Dask runs on the machines of a cluster, and the processes at the ends of connections.

Functions are sent as source text. Dask itself would send a reference, and gdbext may be missing there, or bytecode,
which another version of Python cannot run.
"""

from __future__ import annotations

import asyncio
import importlib.machinery
import importlib.util
import inspect
import ipaddress
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gdbext.launcher.output import write
from gdbext.launcher.snapshots.options import DEFAULTS, Options, Target
from gdbext.launcher.snapshots.snapshot import take_snapshot
from gdbext.render.escape import json_line

#: The imports of the functions that are sent.
_PREAMBLE = """\
from __future__ import annotations
import asyncio, importlib.machinery, importlib.util, ipaddress, json, os, socket, subprocess, sys, tempfile, time
"""
#: An address in Dask's form: host and port.
ADDRESS = re.compile(r"(?:[a-z]+://)?(\[[0-9a-fA-F:.%]+\]|[^\s/:\[\]]+):([0-9]{1,5})")


# -- functions that run on other machines: they use only the standard library and each other ---------------------------

def connections() -> Iterator[tuple[tuple[str, int], tuple[str, int], int]]:
    """The TCP sockets of this network namespace: own end, other end, inode.

    Source: Linux Documentation/networking/proc_net_tcp.rst.
    """
    def decode(text: str) -> tuple[str, int]:
        number, _, port = text.partition(":")
        # words of 32 bits in the machine's order
        words = [bytes.fromhex(number[start:start + 8])[::-1] for start in range(0, len(number), 8)]
        address = ipaddress.ip_address(b"".join(words))
        mapped = getattr(address, "ipv4_mapped", None)
        return str(mapped or address), int(port, 16)

    for name in ("tcp", "tcp6"):
        try:
            with open("/proc/net/" + name) as table:
                lines = table.read().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            yield decode(fields[1]), decode(fields[2]), int(fields[9])


def owners_of(inodes: set[int]) -> dict[int, int]:
    """The process that has the socket of each inode: the one with the lowest PID that can be read."""
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    owners: dict[int, int] = {}
    for name in sorted(filter(str.isdigit, os.listdir("/proc")), key=int, reverse=True):
        try:
            for descriptor in os.listdir(f"/proc/{name}/fd"):
                inode = wanted.get(os.readlink(f"/proc/{name}/fd/{descriptor}"))
                if inode is not None:
                    owners[inode] = int(name)
        except OSError:  # of another user, or ended
            continue
    return owners


def has_python(pid: int) -> bool:
    """Whether a process contains a Python, by the names of its mapped files; True if they may not be read.

    A process that forwards a connection, as `ssh` and `kubectl` do, has its ends and does not belong to the cluster.
    """
    try:
        with open(f"/proc/{pid}/maps", "rb") as maps:  # names are bytes in an unknown encoding
            # as in python3.11, libpython3.11.so.1.0 and _socket.cpython-311-x86_64-linux-gnu.so
            return any(b"python" in line.rpartition(b"/")[2].lower() for line in maps)
    except OSError:
        return True


def place_there(package: str | None) -> dict[str, Any]:
    """The machine and PID of this process, and the place of gdbext there.

    :param package: the folder that contains gdbext; None: Python finds it.
    """
    if package:
        spec = importlib.machinery.PathFinder.find_spec("gdbext", [package])
    else:
        spec = importlib.util.find_spec("gdbext")
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            machine = file.read().strip()
        machine += f":{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        machine = os.urandom(16).hex()  # not equal to any other
    return {"host": socket.gethostname(), "pid": os.getpid(), "machine": machine, "python": sys.executable,
            "gdbext": os.path.dirname(os.path.dirname(spec.origin)) if spec and spec.origin else None}


def worker_there(package: str | None, dask_worker: Any = None) -> dict[str, Any]:
    """The same for the worker of this nanny; `pid` is None while it has none."""
    place: dict[str, Any] = place_there(package)
    place["pid"] = dask_worker.pid
    return place


def scheduler_there(package: str | None, dask_scheduler: Any = None) -> dict[str, Any]:
    """The same for the scheduler, with its connections to clients and to workers without a nanny.

    A connection has both ends, and the process of this machine that has the other end, if any. A client also has the
    number of futures that it waits for.
    """
    place: dict[str, Any] = place_there(package)
    sockets = {own: inode for own, _, inode in connections()}

    def connection(stream: Any) -> dict[str, Any]:
        peer = str(stream.comm.peer_address)
        host, _, port = peer.rpartition("://")[2].rpartition(":")
        inode = sockets.get((host.strip("[]"), int(port))) if port.isdigit() else None
        pid = owners_of({inode}).get(inode) if inode is not None else None
        return {"peer": peer, "local": str(stream.comm.local_address),
                "pid": pid if pid is not None and has_python(pid) else None}

    place["clients"] = []
    for name, stream in dask_scheduler.client_comms.items():
        state = dask_scheduler.clients.get(name)
        futures = len(state.wants_what) if state else 0
        place["clients"].append({**connection(stream), "name": str(name), "futures": futures})
    place["workers"] = {address: connection(stream) for address, stream in dask_scheduler.stream_comms.items()
                        if stream.comm is not None and not dask_scheduler.workers[address].nanny}
    return place


async def end_of(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Wait until a process ends, at most so many seconds, without blocking the event loop."""
    loop = asyncio.get_running_loop()
    ended = loop.create_future()
    # not by polling: a snapshot of this process must show its own wait
    descriptor = os.pidfd_open(process.pid)
    loop.add_reader(descriptor, lambda: None if ended.done() else ended.set_result(None))
    try:
        await asyncio.wait([ended], timeout=seconds)
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


async def snapshot_there(home: str, wanted: dict[str, Any]) -> dict[str, Any]:
    """Start a Python on this machine that takes a snapshot; return the output of `snapshot_here`, or a problem.

    :param home: the folder that contains the package gdbext.
    :param wanted: the argument of `snapshot_here`.
    """
    # not -I: gdbext may need PYTHONPATH; but nothing is imported from the current folder
    program = ("import sys; sys.path = [folder for folder in sys.path if folder] + [sys.argv[1]]; "
               "from gdbext.launcher.cluster.remote import snapshot_here; snapshot_here(sys.argv[2])")
    command = [sys.executable, "-c", program, home, json.dumps(wanted)]
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, cwd="/",
                                   start_new_session=True)
        try:
            await end_of(process, wanted["options"]["timeout"] + 10)
        finally:
            if process.poll() is None:
                process.terminate()  # its GDB then detaches
                await end_of(process, 5)
                process.kill()
                process.wait()
        output.seek(0)
        errors.seek(0)
        text, error = output.read().decode(errors="replace"), errors.read().decode(errors="replace")
    if process.returncode == 0 and text:
        answer: dict[str, Any] = json.loads(text)
        return answer
    last = (error.strip().splitlines() or ["it printed nothing"])[-1]
    return {"problem": f"the snapshot ended with status {process.returncode}: {last}"}


def snapshot_in_task(package: str | None, wanted: dict[str, Any]) -> dict[str, Any]:
    """The same as a task of a worker that does not hang; `place_there` finds gdbext."""
    place = place_there(package)
    if place["gdbext"] is None:
        return {"problem": f"gdbext is not installed for {place['python']} on {place['host']}",
                "hint": "run `pip install gdbext` there"}
    return asyncio.run(snapshot_there(place["gdbext"], wanted))


# -- sending -----------------------------------------------------------------------------------------------------------

_SENT = (connections, owners_of, has_python, place_there, worker_there, scheduler_there, end_of, snapshot_there,
         snapshot_in_task)


class Sent:
    """One of the functions above; the Python of the receiving process compiles it."""

    def __init__(self, name: str) -> None:
        source = _PREAMBLE + "\n\n".join(inspect.getsource(function) for function in _SENT)
        #: An expression that evaluates to the function.
        self.expression = f"(lambda space: exec({source!r}, space) or space[{name!r}])({{'__name__': 'gdbext_sent'}})"

    def __reduce__(self) -> tuple[Any, ...]:
        return eval, (self.expression, {})


def snapshot_here(wanted: str) -> None:
    """Take a snapshot and print it as JSON; `snapshot_there` starts this program.

    :param wanted: JSON of a `Target` and `Options`, with paths as strings.
    """
    values = json.loads(wanted)
    target, options = values["target"], values["options"]
    paths = {name: Path(target[name]) for name in ("core", "executable") if target.get(name)}
    options["search"] = tuple(map(Path, options["search"]))
    options["sysroot"] = Path(options["sysroot"]) if options["sysroot"] else None
    seen = take_snapshot(Target(**{**target, **paths}), Options(**options))
    members = {name: value for name, value in asdict(seen).items() if name != "document_json"}
    write(json_line({**members, "document": seen.document}))


def as_json(target: Target, options: Options) -> dict[str, Any]:
    """The argument of `snapshot_here`; paths are absolute, since it runs in another folder."""
    parts: dict[str, Any] = json.loads(json.dumps({"target": asdict(target), "options": asdict(options)},
                                                  default=os.path.abspath))
    for name in ("object_names", "values_of_others", "max_pause", "redact", "source"):
        if parts["options"][name] == getattr(DEFAULTS, name):
            del parts["options"][name]  # the default; an earlier version there does not know the option
    return parts


# -- ends of connections, on this machine ------------------------------------------------------------------------------

def addresses_of(address: str) -> list[tuple[str, int]]:
    """The IP addresses and the port of an address of Dask; empty if it is not TCP, or unknown here."""
    matched = ADDRESS.fullmatch(address)
    if not matched or address.startswith(("inproc:", "ucx:")):
        return []
    try:
        found = socket.getaddrinfo(matched[1].strip("[]"), int(matched[2]), type=socket.SOCK_STREAM)
    except (OSError, OverflowError):
        return []
    return sorted({(str(each[4][0]), int(each[4][1])) for each in found})


def process_at(peer: str, local: str) -> int | None:
    """The process on this machine that has an end of a connection; None if there is none or it cannot be read.

    :param local: the other end, which excludes a process with the same address on another network.
    """
    ends, others = addresses_of(peer), addresses_of(local)
    inodes = {inode for own, other, inode in connections() if own in ends and other in others}
    return next(filter(has_python, owners_of(inodes).values()), None)


def is_loopback(address: str) -> bool:
    """Whether an address is a loopback address, which means a different machine everywhere."""
    return any(ipaddress.ip_address(host.partition("%")[0]).is_loopback for host, _ in addresses_of(address))


def process_listening(address: str) -> int | None:
    """The process on this machine that listens at an address; None if there is none or it cannot be read."""
    ends = addresses_of(address)
    # a listener on all addresses counts if the address is one of this machine
    everywhere = {(host, port) for _, port in ends for host in ("0.0.0.0", "::")} if any(
        _is_here(host) for host, _ in ends) else set()
    inodes = {inode for own, other, inode in connections() if not other[1] and (own in ends or own in everywhere)}
    return next(filter(has_python, owners_of(inodes).values()), None)


def _is_here(host: str) -> bool:
    """Whether an IP address belongs to this machine."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as found:
            found.bind((host, 0))
    except OSError:
        return False
    return True
