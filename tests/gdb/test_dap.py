"""The Debug Adapter Protocol, by which editors use GDB: stacks, sources and variables of Python frames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support import another_stack, interpreters, roots, samples
from tests.support.dap import DapSession

#: Code without a file, a variable with a non-ASCII value, and values that look like others.
PROGRAM = '''\
import json, os


def hang():
    text, number, quoted = "na\\u00efve", 42, 'a "word"'
    thread = {"tid": os.getpid(), "python_name": "MainThread", "blocked": True, "syscall": "read", "stack": []}
    print(json.dumps({"sample": "dap", "variant": "", "pid": os.getpid(), "threads": {"main": thread},
                      "locks": {}, "deadlock": [], "stuck_behind": []}), flush=True)
    os.read(0, 1)


exec(compile("\\nhang()", "made.py", "exec"))
'''

pytestmark = pytest.mark.parametrize("name", interpreters.GDBS)


def stack_of(session: DapSession, thread: int, **arguments: Any) -> list[dict[str, Any]]:
    frames: list[dict[str, Any]] = session.request("stackTrace", threadId=thread, **arguments)["stackFrames"]
    return frames


def in_python(frame: dict[str, Any]) -> bool:
    return str(frame.get("source", {}).get("path", "")).endswith(".py")


def variables(session: DapSession, frame: dict[str, Any]) -> dict[str, str]:
    """The local variables of a frame, as shown in an editor."""
    scopes = {scope["name"]: scope for scope in session.request("scopes", frameId=frame["id"])["scopes"]}
    shown = session.request("variables", variablesReference=scopes["Locals"]["variablesReference"])["variables"]
    return {each["name"]: each["value"] for each in shown}


def test_all_threads(name: str, tmp_path: Path) -> None:
    gdb = roots.use_gdb(name)
    python, _ = interpreters.use("3.12")
    with samples.rapids(python, "rwlock", tmp_path) as sample, DapSession(gdb, tmp_path) as session:
        session.attach(sample.pid)
        threads = session.request("threads")["threads"]
        stacks = [stack_of(session, thread["id"]) for thread in threads]
        expected = [[tuple(frame) for frame in thread.stack] for thread in sample.truth.threads.values()]
        found = [[(frame["name"], frame["source"]["path"], frame["line"]) for frame in stack if in_python(frame)]
                 for stack in stacks]
        assert sorted(found) == sorted(expected)
        for stack in stacks:
            assert all(int(frame["instructionPointerReference"], 16) for frame in stack)
            assert not [frame["name"] for frame in stack if "PyEval" in frame["name"]]
            # an editor must not open a library as source
            assert not [frame for frame in stack if ".so" in frame.get("source", {}).get("path", "")]
        assert {"drv_alloc"} <= {frame["name"] for stack in stacks for frame in stack}
        # at least one of these threads is not the selected one
        for stack in stacks:
            frame = next(frame for frame in stack if in_python(frame))
            assert "witness" in variables(session, frame)
        allocate = next(frame for stack in stacks for frame in stack if frame["name"] == "allocate")
        assert variables(session, allocate)["nbytes"] == "4096"
        session.disconnect()
        assert not sample.is_stopped()
        assert sample.process.poll() is None


def test_stack_is_requested_in_parts(name: str, tmp_path: Path) -> None:
    """Editors request a few frames at a time, and long names."""
    gdb = roots.use_gdb(name)
    python, _ = interpreters.use("3.12")
    with samples.rapids(python, "rwlock", tmp_path) as sample, DapSession(gdb, tmp_path) as session:
        session.attach(sample.pid)
        (thread,) = (each["id"] for each in session.request("threads")["threads"]
                     if "allocate" in [frame["name"] for frame in stack_of(session, each["id"])])
        whole = stack_of(session, thread)
        parts = [frame for first in range(0, len(whole), 3)
                 for frame in stack_of(session, thread, startFrame=first, levels=3)]
        assert parts == whole
        named = stack_of(session, thread, format={"parameters": True, "parameterNames": True, "line": True,
                                                   "parameterValues": True, "module": True, "includeAll": True})
        (allocate,) = [frame for frame in named if frame["name"].startswith("allocate()")]
        assert f", line {allocate['line']}, module " in allocate["name"]
        session.disconnect()


def test_code_without_a_file_has_no_source(name: str, tmp_path: Path) -> None:
    """The frame has no source, because an editor could open a different file; an ASCII locale hides no value."""
    gdb = roots.use_gdb(name)
    python, _ = interpreters.use("3.12")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    (tmp_path / "made.py").write_text("another file\n")
    ascii_locale = [("LANG", "C"), ("LC_ALL", "C")]
    with samples.running([python, program], tmp_path) as sample, \
            DapSession(gdb, tmp_path, variables=ascii_locale) as session:
        session.attach(sample.pid)
        (thread,) = session.request("threads")["threads"]
        stack = stack_of(session, thread["id"])
        first = next(index for index, frame in enumerate(stack) if in_python(frame))
        hang, made, module = stack[first:first + 3]
        assert (hang["name"], made["name"], module["name"]) == ("hang", "<module> at made.py:2", "<module>")
        assert "source" not in made
        shown = variables(session, hang)
        assert (shown["text"], shown["number"], shown["quoted"]) == ("'na\u00efve'", "42", "'a \"word\"'")
        session.disconnect()


def test_unplaced_python_frames_are_shown_with_the_others(name: str, tmp_path: Path) -> None:
    gdb = roots.use_gdb(name)
    with another_stack.running("3.9", tmp_path) as (sample, _, _), DapSession(gdb, tmp_path) as session:
        session.attach(sample.pid)
        (thread,) = session.request("threads")["threads"]
        stack = stack_of(session, thread["id"])
        assert "Python frames cannot be placed" in stack[1]["name"]
        assert [frame["name"] for frame in stack[2:6]] == another_stack.CALLS
        assert variables(session, stack[2])["count"] == "5"
        session.disconnect()
