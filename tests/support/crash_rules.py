"""A process with Python whose threads call the C API, and what the rules of `gil_rules` find in it."""

from __future__ import annotations

from collections.abc import Sequence

from gdbext.crash.gil_rules import ApiCall, GilRules
from gdbext.layout.select import glibc_layouts
from gdbext.model import Finding
from gdbext.threads.code import read_code
from gdbext.threads.findings import Findings
from gdbext.threads.gone import GoneOwners
from gdbext.threads.python_side import read_python_side
from gdbext.threads.site import Sites
from gdbext.threads.threads import Threads, read_threads
from tests.support.fake_python_target import PythonTarget
from tests.support.fake_target import APP_TEXT, DRIVER_TEXT, FakeThread

API, API_INNER = 0x200, 0x300


class Rules:
    """A process with Python, and the rules of it as it is when they are asked."""

    def __init__(self, version: str = "3.12.1", build: str = "default") -> None:
        self.target = PythonTarget(version, "core", build)
        self.python = self.target.python
        text = self.python.module.section(".text")
        assert text is not None
        self.text = text.start
        self.target.name(self.target.eval, "_PyEval_EvalFrameDefault")

    def look(self) -> tuple[GilRules, Threads]:
        target, findings = self.target, Findings()
        code = read_code(target, findings)
        layouts = glibc_layouts("2.36", "x86_64")
        threads = read_threads(target, layouts, findings)
        side = read_python_side(target, code, threads, GoneOwners(target, None, threads), findings)
        return GilRules(target.memory, code, side, Sites(target.memory, code, target.loaded[2:3])), threads

    def calls(self, thread: FakeThread, function: str, *inner: int, caller: int = DRIVER_TEXT + 0x40) -> None:
        """Let a thread be in a function of the API that the driver has called, and in what that has called."""
        self.target.name(self.text + API, function)
        pcs = [*inner, self.text + API, caller, APP_TEXT + 0x80]
        thread.frames = [(pc, thread.stack + 0x100 * i) for i, pc in enumerate(pcs)]
        thread.registers.update(rip=pcs[0], rsp=thread.stack)

    def findings(self, thread: FakeThread, died: bool = True) -> list[Finding]:
        rules, threads = self.look()
        seen = threads[thread.ref.number]
        return list(rules.of_thread(seen, thread.frames, died))

    def call(self, thread: FakeThread) -> ApiCall | None:
        return self.look()[0].api_call(thread.frames)


def alive(rules: Rules, *addresses: int) -> None:
    """Give objects a reference."""
    for address in addresses:
        at = rules.python.layouts["PyObject"].offset("ob_type")
        rules.python.memory.u64(address + at - 8, 1)


def with_variables(rules: Rules, variables: Sequence[tuple[str, int]]) -> FakeThread:
    thread, tstate = rules.target.python_thread()
    rules.python.innermost(tstate, rules.python.in_with([], variables=variables))
    return thread
