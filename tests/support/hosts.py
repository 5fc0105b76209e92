"""Hosts made of namespaces, with their own name, network and process ids, and the files of this machine.

Needs root, iproute2 and util-linux. A host ends with the test, even if that is killed, with all processes and links.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.patience import patience
from tests.support.samples import wait_until

# the host's process 1, which ends when the test closes its pipe
_BEGIN = 'hostname "$1" && ip link set lo up && echo && exec cat'
# the next process gets the next number, unless another process is faster
_TAKE_NUMBER = """
for attempt in 1 2 3 4 5 6 7 8 9 10; do
    echo $(($1 - 1)) >/proc/sys/kernel/ns_last_pid
    sleep infinity >/dev/null 2>&1 &
    [ $! = "$1" ] && exit
    kill $!
done
exit 1
"""


@dataclass(frozen=True)
class Host:
    """A host; `init` is the process id of its process 1 on this machine, `started` are commands running there."""

    name: str
    init: int
    started: list[subprocess.Popen[str]] = field(compare=False)

    @property
    def proc(self) -> Path:
        """The host's /proc, by its path on this machine."""
        return Path(f"/proc/{self.init}/root/proc")

    def command(self, *argv: str | Path) -> list[str]:
        """The command line that runs a command on the host."""
        # entering a mount namespace resets the working directory
        enter = ["nsenter", f"--target={self.init}", "--mount", "--uts", "--net", "--pid", f"--wd={os.getcwd()}"]
        return [*enter, "--", *map(str, argv)]

    def run(self, *argv: str | Path, variables: Mapping[str, str] | None = None,
            timeout: float = patience(120)) -> subprocess.CompletedProcess[str]:
        """Run a command on the host and wait for it."""
        return subprocess.run(self.command(*argv), env={**os.environ, **(variables or {})}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=timeout, check=False)

    def start(self, *argv: str | Path, log: Path, variables: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Start a command on the host; it ends with the host at the latest."""
        with open(log, "a") as output:
            process = subprocess.Popen(self.command(*argv), env={**os.environ, **(variables or {})},
                                       stdin=subprocess.DEVNULL, stdout=output, stderr=output, text=True)
        self.started.append(process)
        return process

    def sleep_as(self, pid: int) -> None:
        """Start a process with this process id on the host, and wait until it sleeps."""
        _done(self.command("sh", "-c", _TAKE_NUMBER, "sh", str(pid)))
        wait_until(lambda: (self.status(pid)["Name"], self.status(pid)["State"][0]) == ("sleep", "S"), "it to sleep")

    def status(self, pid: int) -> dict[str, str]:
        """The status file of one of the host's processes."""
        return dict(line.split(":\t", 1) for line in (self.proc / str(pid) / "status").read_text().splitlines())

    def net(self, *options: str) -> None:
        """Run `ip` in the host's network."""
        # in this machine's PID namespace, whose process ids name the other hosts
        _done(["nsenter", f"--target={self.init}", "--net", "--", "ip", *options])


def missing() -> str:
    """The reason why hosts cannot be created here; empty if they can."""
    for program in ("ip", "unshare", "nsenter"):
        if shutil.which(program) is None:
            return f"no {program} here"
    tried = subprocess.run(["unshare", "--net", "--uts", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c",
                            "ip link add up type veth peer name down && ip link add switch type bridge && "
                            "test -w /proc/sys/kernel/ns_last_pid"],
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return f"hosts cannot be made of namespaces: {tried.stderr.strip()[-200:]}" if tried.returncode else ""


@contextlib.contextmanager
def begun(names: Sequence[str]) -> Iterator[list[Host]]:
    """Create hosts with these names, not connected by a network."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(_begun(name)) for name in names]


@contextlib.contextmanager
def _begun(name: str) -> Iterator[Host]:
    process = subprocess.Popen(
        ["unshare", "--net", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
         "sh", "-c", _BEGIN, "sh", name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    started: list[subprocess.Popen[str]] = []
    try:
        assert process.stdout.readline() == "\n", f"host {name} does not begin"
        yield Host(name, int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()), started)
    finally:
        process.stdin.close()
        # each command is an nsenter outside of the host, which ends when its child in the host ends
        for each in started:
            each.send_signal(signal.SIGCONT)
            each.wait()
        process.wait()
        process.stdout.close()


def connect(one: Host, address: str, other: Host, link: str) -> None:
    """Connect a host to another one, the switch; `address` is the host's address with its prefix length."""
    one.net("link", "add", "eth0", "type", "veth", "peer", "name", link, "netns", str(other.init))
    one.net("address", "add", address, "dev", "eth0")
    one.net("link", "set", "dev", "eth0", "up")
    # leads nowhere, but programs determine their own address by it
    one.net("route", "add", "default", "dev", "eth0")
    other.net("link", "set", "dev", link, "up")


def _done(command: Sequence[str]) -> None:
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"{command}: status {ran.returncode}\n{ran.stderr}"
