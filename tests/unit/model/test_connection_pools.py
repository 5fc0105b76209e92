from __future__ import annotations

import pytest

from gdbext.model import NativeFrame, PyFrame
from gdbext.model.connection_pools import pool_of

PACKAGES = "/usr/lib/python3/site-packages"
WAIT = PyFrame("wait", "Event.wait", "/usr/lib/python3.11/threading.py", 1)
ACQUIRE = PyFrame("wait_for_connection", "PoolRequest.wait_for_connection", f"{PACKAGES}/httpcore/pool.py", 1)
PROGRAM = PyFrame("work", "work", "/app/job.py", 1)


@pytest.mark.parametrize(("stack", "package"), [
    ((NativeFrame("poll", "libc.so.6", 1), WAIT, ACQUIRE, PROGRAM), "httpcore"),
    # the program has called something else, or another package has a function of that name
    ((WAIT, PROGRAM, ACQUIRE), None),
    ((PyFrame("wait_for_connection", "wait_for_connection", f"{PACKAGES}/other/pool.py", 1),), None), ((), None)])
def test_pool_of_a_stack(stack: tuple[PyFrame, ...], package: str | None) -> None:
    assert pool_of(stack) == package
