"""Functions for other machines, and the processes at the ends of a connection."""

from __future__ import annotations

import json
import os
import pickle
import pickletools
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from gdbext.launcher.cluster import remote
from tests.support.interpreters import CHECKOUT


def test_functions_are_sent_as_source(tmp_path: Path) -> None:
    sent = pickle.dumps(remote.Sent("place_there"))
    # all that it refers to is eval; the rest is the source, which is long
    names = {argument for code, argument, _ in pickletools.genops(sent) if code.name == "SHORT_BINUNICODE"}
    assert names == {"builtins", "eval"}
    file = tmp_path / "sent"
    file.write_bytes(sent)
    program = "import json, pickle, sys; print(json.dumps(pickle.load(open(sys.argv[1], 'rb'))(None)))"
    # a Python that has no gdbext
    ran = subprocess.run([sys.executable, "-I", "-c", program, file], cwd=tmp_path, capture_output=True, text=True,
                         check=True)
    place = json.loads(ran.stdout)
    assert place["gdbext"] is None
    assert place["host"] == socket.gethostname()
    here = remote.place_there(None)
    assert place["machine"] == here["machine"] != ""
    assert here["gdbext"] == str(CHECKOUT)
    assert remote.place_there(str(tmp_path))["gdbext"] is None
    assert remote.place_there(str(CHECKOUT))["gdbext"] == str(CHECKOUT)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::1"])
def test_process_at_an_address_is_found(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as server:
        try:
            server.bind((host, 0))
        except OSError as error:
            pytest.skip(f"no {host} here: {error.strerror}")
        server.listen()
        port = server.getsockname()[1]
        named = "[::1]" if ":" in host else "127.0.0.1"
        assert remote.process_listening(f"tcp://{named}:{port}") == os.getpid()
        with socket.create_connection((named.strip("[]"), port)) as client:
            peer = f"tcp://{named}:{client.getsockname()[1]}"
            assert remote.process_at(peer, f"tcp://{named}:{port}") == os.getpid()
            # of another network, in which the scheduler has another address
            assert remote.process_at(peer, "tcp://192.0.2.1:8786") is None
            assert remote.process_at(peer, f"tcp://{named}:1") is None
            seen = scheduler_that_has(peer, f"tcp://{named}:{port}", None)
            assert remote.scheduler_there(None, seen)["clients"] == [
                {"peer": peer, "local": f"tcp://{named}:{port}", "pid": os.getpid(), "name": "Client-1", "futures": 2}]
    assert remote.process_listening(f"tcp://{named}:{port}") is None
    assert remote.process_listening("inproc://192.0.2.1/885/1") is None


def scheduler_that_has(peer: str, local: str, nanny: str | None) -> SimpleNamespace:
    """A scheduler with a client and a worker, both at that end of a connection."""
    stream = SimpleNamespace(comm=SimpleNamespace(peer_address=peer, local_address=local))
    return SimpleNamespace(
        client_comms={"Client-1": stream}, clients={"Client-1": SimpleNamespace(wants_what={"x", "y"})},
        stream_comms={"tcp://192.0.2.1:4000": stream},
        workers={"tcp://192.0.2.1:4000": SimpleNamespace(nanny=nanny)})


def test_scheduler_reports_connections_of_workers_without_a_nanny() -> None:
    peer, local = "tcp://192.0.2.1:4001", "tcp://192.0.2.2:8786"
    assert remote.scheduler_there(None, scheduler_that_has(peer, local, "tcp://192.0.2.1:4002"))["workers"] == {}
    assert remote.scheduler_there(None, scheduler_that_has(peer, local, None))["workers"] == {
        "tcp://192.0.2.1:4000": {"peer": peer, "local": local, "pid": None}}


def test_process_that_forwards_connections_is_not_in_the_cluster() -> None:
    with socket.socket() as server, socket.socket() as client:
        server.bind(("127.0.0.1", 0))
        server.listen()
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        client.connect(server.getsockname())
        peer = f"tcp://127.0.0.1:{client.getsockname()[1]}"
        forwarder = subprocess.Popen(["sleep", "infinity"], pass_fds=[server.fileno(), client.fileno()])
    try:
        # ours are closed
        inodes = {inode for own, _, inode in remote.connections() if address.endswith(f":{own[1]}") and inode}
        assert forwarder.pid in remote.owners_of(inodes).values()
        assert remote.process_listening(address) is None
        assert remote.process_at(peer, address) is None
        there = remote.scheduler_there(None, scheduler_that_has(peer, address, None))
        assert [each["pid"] for each in (*there["clients"], *there["workers"].values())] == [None, None]
        assert not remote.has_python(forwarder.pid)
    finally:
        forwarder.kill()
        forwarder.wait()
    assert remote.has_python(os.getpid())


def test_loopback_addresses_are_recognised() -> None:
    for address in ("tcp://127.0.0.1:1", "tls://[::1]:1", "tcp://127.1.2.3:1"):
        assert remote.is_loopback(address)
    for address in ("tcp://192.0.2.1:1", "tcp://[2001:db8::1]:1", "inproc://192.0.2.1/885/1"):
        assert not remote.is_loopback(address)


def test_unknown_machine_is_not_equal_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(path)

    monkeypatch.setattr(os, "stat", refuse)
    assert remote.place_there(str(CHECKOUT))["machine"] != remote.place_there(str(CHECKOUT))["machine"]


def test_program_with_a_name_that_is_not_utf8_has_no_python(tmp_path: Path) -> None:
    program = tmp_path / os.fsdecode(b"sleep-\xff")
    shutil.copy("/bin/sleep", program)
    with subprocess.Popen([program, "1000"]) as process:
        try:
            assert not remote.has_python(process.pid)
        finally:
            process.kill()
