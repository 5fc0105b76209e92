"""What is sent to other machines, and who is at which end of a connection."""

from __future__ import annotations

import json
import os
import pickle
import pickletools
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from gdbext.launcher import remote
from tests.support.interpreters import CHECKOUT


def test_functions_go_as_source(tmp_path: Path) -> None:
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
def test_who_is_at_an_address(host: str) -> None:
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
            assert remote.process_at(f"tcp://{named}:{client.getsockname()[1]}") == os.getpid()
    assert remote.process_listening(f"tcp://{named}:{port}") is None
    assert remote.process_listening("inproc://192.0.2.1/885/1") is None
