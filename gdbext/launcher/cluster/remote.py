"""What runs on the machines of a Dask cluster: functions that Dask takes there; who is at an end of a connection.

Functions go to other machines as source text: Dask would send them by reference, and gdbext need not be installed
there, or as bytecode, which another version of Python must not be given.
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

from gdbext.launcher.snapshots.snapshot import Options, Target, take_snapshot

#: What the functions that are sent elsewhere use of the standard library.
_PREAMBLE = """\
from __future__ import annotations
import asyncio, importlib.machinery, importlib.util, ipaddress, json, os, socket, subprocess, sys, tempfile, time
"""
#: An address as Dask has it: host and port.
ADDRESS = re.compile(r"(?:[a-z]+://)?(\[[0-9a-fA-F:.%]+\]|[^\s/:\[\]]+):([0-9]{1,5})")


# -- what runs on other machines: nothing but the standard library, and one another ------------------------------------

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
    """Which process has the socket of each inode: the oldest of those that have it and can be seen."""
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    owners: dict[int, int] = {}
    for name in sorted(filter(str.isdigit, os.listdir("/proc")), key=int, reverse=True):
        try:
            for descriptor in os.listdir(f"/proc/{name}/fd"):
                inode = wanted.get(os.readlink(f"/proc/{name}/fd/{descriptor}"))
                if inode is not None:
                    owners[inode] = int(name)
        except OSError:  # not ours, or gone
            continue
    return owners


def has_python(pid: int) -> bool:
    """Whether a process has a Python in it, by the names of the files that it has mapped; true if they are secret.

    One that passes a connection on, as `ssh` and `kubectl` do, has its ends and is none of the cluster's.
    """
    try:
        with open(f"/proc/{pid}/maps", "rb") as maps:  # names are bytes, in no encoding that is known
            # as of python3.11, libpython3.11.so.1.0 and _socket.cpython-311-x86_64-linux-gnu.so
            return any(b"python" in line.rpartition(b"/")[2].lower() for line in maps)
    except OSError:
        return True


def place_there(package: str | None) -> dict[str, Any]:
    """Where this process is and which gdbext its machine has.

    :param package: a folder to look for gdbext in, instead of where Python looks.
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
        machine = os.urandom(16).hex()  # not known to be the same as any
    return {"host": socket.gethostname(), "pid": os.getpid(), "machine": machine, "python": sys.executable,
            "gdbext": os.path.dirname(os.path.dirname(spec.origin)) if spec and spec.origin else None}


def worker_there(package: str | None, dask_worker: Any = None) -> dict[str, Any]:
    """The same of the worker of this nanny; `pid` is None while it has none."""
    place: dict[str, Any] = place_there(package)
    place["pid"] = dask_worker.pid
    return place


def scheduler_there(package: str | None, dask_scheduler: Any = None) -> dict[str, Any]:
    """The same of the scheduler, and the connections to its clients, and to workers that have no nanny.

    Of a connection the other end and its own, and which process of this machine has the other, if any; of a client
    how many futures it wants besides.
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
    """Wait until a process ends, no longer than so many seconds; other things go on meanwhile."""
    loop = asyncio.get_running_loop()
    ended = loop.create_future()
    # not polled: a look at this very process is to show what it waits for
    descriptor = os.pidfd_open(process.pid)
    loop.add_reader(descriptor, lambda: None if ended.done() else ended.set_result(None))
    try:
        await asyncio.wait([ended], timeout=seconds)
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


async def snapshot_there(home: str, wanted: dict[str, Any]) -> dict[str, Any]:
    """Have a new Python make a look from this machine: what `snapshot_here` prints, or a problem.

    :param home: the folder that has the package gdbext.
    :param wanted: what `snapshot_here` takes.
    """
    # not -I: what gdbext needs may be found by PYTHONPATH; but nothing of the current directory
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
                process.terminate()  # its GDB then lets go of what it looks at
                await end_of(process, 5)
                process.kill()
                process.wait()
        output.seek(0)
        errors.seek(0)
        text, error = output.read().decode(errors="replace"), errors.read().decode(errors="replace")
    if process.returncode == 0 and text:
        answer: dict[str, Any] = json.loads(text)
        return answer
    last = (error.strip().splitlines() or ["nothing was said"])[-1]
    return {"problem": f"the look ended with status {process.returncode}: {last}"}


def snapshot_in_task(package: str | None, wanted: dict[str, Any]) -> dict[str, Any]:
    """The same as a task of a worker that does not hang, where gdbext is found as `place_there` does."""
    place = place_there(package)
    if place["gdbext"] is None:
        return {"problem": f"gdbext is not installed for {place['python']} on {place['host']}",
                "hint": "run `pip install gdbext` there"}
    return asyncio.run(snapshot_there(place["gdbext"], wanted))


# -- sending them ------------------------------------------------------------------------------------------------------

_SENT = (connections, owners_of, has_python, place_there, worker_there, scheduler_there, end_of, snapshot_there,
         snapshot_in_task)


class Sent:
    """One of the functions above, on its way to another process: it is compiled there, by the Python there."""

    def __init__(self, name: str) -> None:
        source = _PREAMBLE + "\n\n".join(inspect.getsource(function) for function in _SENT)
        #: An expression that evaluates to the function.
        self.expression = f"(lambda space: exec({source!r}, space) or space[{name!r}])({{'__name__': 'gdbext_sent'}})"

    def __reduce__(self) -> tuple[Any, ...]:
        return eval, (self.expression, {})


def snapshot_here(wanted: str) -> None:
    """Make a look and print it as JSON; the program that `snapshot_there` starts.

    :param wanted: JSON of what the target is and how to look: members of `Target` and `Options`, paths as strings.
    """
    told = json.loads(wanted)
    target, options = told["target"], told["options"]
    paths = {name: Path(target[name]) for name in ("core", "executable") if target.get(name)}
    options["search"] = tuple(map(Path, options["search"]))
    options["sysroot"] = Path(options["sysroot"]) if options["sysroot"] else None
    sys.stdout.write(json.dumps(asdict(take_snapshot(Target(**{**target, **paths}), Options(**options)))))


def as_json(target: Target, options: Options) -> dict[str, Any]:
    """What `snapshot_here` takes; paths are absolute, since it runs in another folder."""
    parts: dict[str, Any] = json.loads(json.dumps({"target": asdict(target), "options": asdict(options)},
                                                  default=os.path.abspath))
    return parts


# -- ends of connections, on this machine ------------------------------------------------------------------------------

def addresses_of(address: str) -> list[tuple[str, int]]:
    """The IP addresses and the port that an address of Dask stands for; none if it is not TCP, or not known here."""
    matched = ADDRESS.fullmatch(address)
    if not matched or address.startswith(("inproc:", "ucx:")):
        return []
    try:
        found = socket.getaddrinfo(matched[1].strip("[]"), int(matched[2]), type=socket.SOCK_STREAM)
    except (OSError, OverflowError):
        return []
    return sorted({(str(each[4][0]), int(each[4][1])) for each in found})


def process_at(peer: str, local: str) -> int | None:
    """The process on this machine that has an end of a connection, None if there is none or it cannot be seen.

    :param local: the other end: with both, a process that has the same address on another network is not meant.
    """
    ends, others = addresses_of(peer), addresses_of(local)
    inodes = {inode for own, other, inode in connections() if own in ends and other in others}
    return next(filter(has_python, owners_of(inodes).values()), None)


def is_loopback(address: str) -> bool:
    """Whether an address means another machine on each machine."""
    return any(ipaddress.ip_address(host.partition("%")[0]).is_loopback for host, _ in addresses_of(address))


def process_listening(address: str) -> int | None:
    """The process on this machine that listens at an address, None if there is none or it cannot be seen."""
    ends = addresses_of(address)
    # on all addresses, too, if that which was named is one of this machine
    everywhere = {(host, port) for _, port in ends for host in ("0.0.0.0", "::")} if any(
        _is_here(host) for host, _ in ends) else set()
    inodes = {inode for own, other, inode in connections() if not other[1] and (own in ends or own in everywhere)}
    return next(filter(has_python, owners_of(inodes).values()), None)


def _is_here(host: str) -> bool:
    """Whether an IP address is one of this machine."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as found:
            found.bind((host, 0))
    except OSError:
        return False
    return True
