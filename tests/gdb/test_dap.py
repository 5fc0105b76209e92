"""The Debug Adapter Protocol, by which editors use GDB: stacks, sources and variables of Python frames."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support import another_stack, cores, interpreters, roots, samples
from tests.support.dap import DapSession
from tests.support.editors import PROGRAM, configurations
from tests.support.interpreters import CHECKOUT

pytestmark = pytest.mark.parametrize("name", interpreters.GDBS)


def stack_of(session: DapSession, thread: int, **arguments: Any) -> list[dict[str, Any]]:
    frames: list[dict[str, Any]] = session.request("stackTrace", threadId=thread, **arguments)["stackFrames"]
    return frames


def in_python(frame: dict[str, Any]) -> bool:
    return str(frame.get("source", {}).get("path", "")).endswith(".py")


def locals_of(session: DapSession, frame: dict[str, Any]) -> list[dict[str, Any]]:
    """The local variables of a frame."""
    scopes = {scope["name"]: scope for scope in session.request("scopes", frameId=frame["id"])["scopes"]}
    shown: list[dict[str, Any]] = session.request(
        "variables", variablesReference=scopes["Locals"]["variablesReference"])["variables"]
    return shown


def variables(session: DapSession, frame: dict[str, Any]) -> dict[str, str]:
    """Names and values of the local variables of a frame, as shown in an editor."""
    return {each["name"]: each["value"] for each in locals_of(session, frame)}


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
        assert {each["name"]: each["type"] for each in locals_of(session, hang)} == {
            "text": "str", "number": "int", "quoted": "str", "thread": "dict"}
        # a value is text: an editor offers neither its parts nor a change
        assert {each["variablesReference"] for each in locals_of(session, hang)} == {0}
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


# -- where the source of a frame is ---------------------------------------------------------------------------


def test_source_is_searched_in_the_source_path(name: str, tmp_path: Path) -> None:
    """If no file is found, the function says where its code is from."""
    gdb = roots.use_gdb(name)
    python, _ = interpreters.use("3.12")
    program, copy = tmp_path / "old" / "app" / "job.py", tmp_path / "new" / "app" / "job.py"
    program.parent.mkdir(parents=True)
    copy.parent.mkdir(parents=True)
    program.write_text(PROGRAM)
    with samples.running([python, program], tmp_path) as sample:
        program.rename(copy)
        for options, path in ((), None), (["-ex", f"set gdbext source-path {tmp_path}/new"], str(copy)):
            with DapSession(gdb, tmp_path, options=options) as session:
                session.attach(sample.pid)
                (thread,) = session.request("threads")["threads"]
                (frame,) = [frame for frame in stack_of(session, thread["id"]) if frame["name"].startswith("hang")]
                line = PROGRAM.splitlines().index("    os.read(0, 1)") + 1
                assert frame["line"] == line
                assert frame.get("source", {}).get("path") == path
                assert frame["name"] == ("hang" if path else f"hang at {program}:{line}")
                if path:
                    assert session.request("source", sourceReference=0, source=frame["source"])["content"] == PROGRAM
                session.disconnect()


# -- the verdict in the debug console -------------------------------------------------------------------------

DEADLOCK = "gdbext: deadlock of 2 threads: the GIL, pthread rwlock in libdrv.so; `py-deadlocks` explains it\n"


def test_verdict_is_shown_once_after_an_attach(name: str, tmp_path: Path) -> None:
    gdb = roots.use_gdb(name)
    python, _ = interpreters.use("3.12")
    with samples.rapids(python, "rwlock", tmp_path) as sample, DapSession(gdb, tmp_path) as session:
        session.attach(sample.pid)
        (thread, *_) = session.request("threads")["threads"]
        assert session.console(1) == [DEADLOCK]
        # the editor shows the stop without waiting for it
        events = [each.get("event") for each in session.events]
        assert events.index("stopped") < events.index("output")
        answer = session.request("evaluate", expression="py-deadlocks", context="repl")["result"]
        assert " -> the GIL -> thread " in answer
        for stops in (2, 3):
            session.request("continue", threadId=thread["id"])
            # GDB loses a request to pause that arrives before the threads run
            samples.wait_until(lambda: all(sample.status(tid, "State")[0] not in "tT" for tid in sample.tids()),
                               "the program to run")
            session.request("pause", threadId=thread["id"])
            session.wait_for("stopped", stops)
        assert session.request("threads")["threads"]
        assert session.console(1) == [DEADLOCK]
        session.disconnect()
        assert not sample.is_stopped()
        assert sample.process.poll() is None


def test_verdict_is_shown_for_each_attach(name: str, tmp_path: Path) -> None:
    gdb = roots.use_gdb(name)
    python, _ = interpreters.use("3.12")
    with samples.rapids(python, "rwlock", tmp_path / "one") as one, \
            samples.healthy(python, tmp_path / "two") as two, DapSession(gdb, tmp_path) as session:
        session.attach(one.pid)
        for command in ("detach", f"attach {one.pid}", "detach", f"attach {two.pid}"):
            session.request("evaluate", expression=command, context="repl")
        first, second, healthy = session.console(3)
        assert (first, second) == (DEADLOCK, DEADLOCK)
        assert healthy.startswith("gdbext: ")
        assert "deadlock of" not in healthy
        session.disconnect()


def test_verdict_is_not_shown_if_it_is_switched_off(name: str, tmp_path: Path) -> None:
    gdb = roots.use_gdb(name)
    python, _ = interpreters.use("3.12")
    with samples.rapids(python, "rwlock", tmp_path) as sample, \
            DapSession(gdb, tmp_path, options=["-ex", "set gdbext verdict-in-editors off"]) as session:
        session.attach(sample.pid)
        session.wait_for("stopped")
        assert session.console(0) == []
        session.disconnect()


def test_verdict_is_not_shown_for_a_program_that_the_editor_starts(name: str, tmp_path: Path) -> None:
    gdb = roots.use_gdb(name)
    with DapSession(gdb, tmp_path) as session:
        session.request("initialize", adapterID="gdbext-tests")
        session.start("launch", program="/bin/true", stopOnEntry=True)
        session.wait_for("stopped")
        assert session.console(0) == []
        session.request("disconnect", terminateDebuggee=True)


def test_failing_snapshot_is_one_line(name: str, tmp_path: Path) -> None:
    gdb = roots.use_gdb(name)
    python, _ = interpreters.use("3.12")
    broken = tmp_path / "broken.py"
    broken.write_text("import gdbext.debugger.in_editor as editor\n"
                      "def fail(target, **options):\n    raise RecursionError('too \\x1b deep')\n"
                      "editor.take_snapshot = fail\n")
    with samples.healthy(python, tmp_path) as sample, \
            DapSession(gdb, tmp_path, options=["-ex", f"source {broken}"]) as session:
        session.attach(sample.pid)
        threads = session.request("threads")["threads"]
        assert session.console(1) == ["gdbext: could not be inspected: RecursionError: too \\x1b deep\n"]
        assert [frame for frame in stack_of(session, threads[0]["id"]) if in_python(frame)]
        session.disconnect()


def opens_cores(gdb: Path) -> bool:
    """Whether an editor can open a core with a GDB: version 18 and later."""
    return gdb == roots.use_gdb("gdb-18.1")


def test_core(name: str, tmp_path: Path) -> None:
    gdb = roots.use_gdb(name)
    python, _ = interpreters.use("3.12")
    with samples.rapids(python, "rwlock", tmp_path) as sample:
        core = cores.gdb_core(sample)
        expected = sorted([tuple(frame) for frame in thread.stack] for thread in sample.truth.threads.values())
    with DapSession(gdb, tmp_path) as session:
        if not opens_cores(gdb):
            with pytest.raises(AssertionError, match="attach requires either 'pid' or 'target'"):
                session.attach(program=str(python), coreFile=str(core))
            return
        session.attach(program=str(python), coreFile=str(core))
        stacks = [stack_of(session, thread["id"]) for thread in session.request("threads")["threads"]]
        assert session.console(1) == [DEADLOCK]
        found = [[(frame["name"], frame["source"]["path"], frame["line"]) for frame in stack if in_python(frame)]
                 for stack in stacks]
        assert sorted(found) == expected
        allocate = next(frame for stack in stacks for frame in stack if frame["name"] == "allocate")
        assert variables(session, allocate)["nbytes"] == "4096"


def test_core_of_a_crash(name: str, tmp_path: Path) -> None:
    gdb = roots.use_gdb(name)
    if not opens_cores(gdb):
        return
    python, _ = interpreters.use("3.12")
    program = tmp_path / "crash.py"
    program.write_text(PROGRAM.replace("os.read(0, 1)", "os.read(0, 1); __import__('ctypes').string_at(8)"))
    with samples.running([python, program], tmp_path) as sample:
        sample.send("x")
        core = cores.core_of_crash(sample)
    with DapSession(gdb, tmp_path) as session:
        session.attach(program=str(python), coreFile=str(core))
        (line,) = session.console(1)
        assert re.match(r"gdbext: SIGSEGV: .* 0x8\b.*; `py-crash` explains it\n$", line), line


# -- docs/editors.md ------------------------------------------------------------------------------------------

#: What VS Code says of itself (version 1.90).
VS_CODE = {
    "clientID": "vscode", "clientName": "Visual Studio Code", "adapterID": "gdb-dap", "pathFormat": "path",
    "linesStartAt1": True, "columnsStartAt1": True, "supportsVariableType": True, "supportsVariablePaging": True,
    "supportsRunInTerminalRequest": True, "locale": "en", "supportsProgressReporting": True,
    "supportsInvalidatedEvent": True, "supportsMemoryReferences": True, "supportsMemoryEvent": True,
    "supportsArgsCanBeInterpretedByShell": True, "supportsStartDebuggingRequest": True,
}


def test_documented_files_of_vs_code(name: str, tmp_path: Path) -> None:
    """The requests are those of VS Code, in its order."""
    gdb = roots.use_gdb(name)
    python, _ = interpreters.use("3.12")
    extension, launch, _ = configurations()
    (adapter,) = extension["contributes"]["debuggers"]
    process, core = launch["configurations"]
    assert (adapter["runtime"], process["type"], core["type"]) == ("gdb", adapter["type"], adapter["type"])
    assert process["request"] in adapter["configurationAttributes"]
    options = [option.replace("/path/to/checkout", str(CHECKOUT)) for option in adapter["runtimeArgs"]]
    assert options.pop(0) == "-i=dap"
    with samples.rapids(python, "rwlock", tmp_path) as sample:
        cases = [{**process, "pid": sample.pid}]
        if opens_cores(gdb):
            cases.append({**core, "program": str(python), "coreFile": str(cores.gdb_core(sample))})
        for case in cases:
            with DapSession(gdb, tmp_path, load=False, options=options) as session:
                session.request("initialize", **VS_CODE)
                attached = session.send("attach", {**case, "__sessionId": "0-1", "__configurationTarget": 6})
                session.wait_for("initialized")
                session.request("setFunctionBreakpoints", breakpoints=[])
                session.request("setExceptionBreakpoints", filters=[])
                session.request("configurationDone")
                session.answer(attached, "attach")
                stopped = session.wait_for("stopped")
                session.request("threads")
                top = stack_of(session, stopped["threadId"], startFrame=0, levels=1)
                rest = stack_of(session, stopped["threadId"], startFrame=1, levels=19)
                frame = next(frame for frame in (*top, *rest) if in_python(frame))
                assert "witness" in variables(session, frame)
                assert session.console(1) == [DEADLOCK]
                answer = session.request("evaluate", expression="py-deadlocks", context="repl", frameId=frame["id"])
                assert " -> the GIL -> thread " in answer["result"]
                session.request("disconnect", restart=False)
        assert not sample.is_stopped()
        assert sample.process.poll() is None


def test_gdbext_from_the_init_file(name: str, tmp_path: Path) -> None:
    """As `gdbext install --write` arranges it."""
    gdb = roots.use_gdb(name)
    python, _ = interpreters.use("3.12")
    (tmp_path / ".gdbinit").write_text(f"source {CHECKOUT}/gdbext/gdbext\n")
    with samples.rapids(python, "rwlock", tmp_path) as sample, \
            DapSession(gdb, tmp_path, load=False, init=True) as session:
        session.attach(sample.pid)
        session.wait_for("stopped")
        assert session.console(1) == [DEADLOCK]
        session.disconnect()
