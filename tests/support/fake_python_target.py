"""A stopped process made of fake memory, with a Python interpreter and Python threads in it."""

from __future__ import annotations

from gdbext.model import TargetKind
from tests.support.fake_python import Call, FakePython
from tests.support.fake_target import (
    APP_TEXT,
    DRIVER_TEXT,
    ERESTART_RESTARTBLOCK,
    FUTEX,
    LIBC_TEXT,
    FakeTarget,
    FakeThread,
)


class PythonTarget(FakeTarget):
    """A process with an interpreter, and Python threads in it."""

    def __init__(self, version: str, kind: TargetKind = "live", build: str = "default") -> None:
        super().__init__(kind)
        self.python = FakePython(self.ram, version, build=build)
        self.loaded.append(self.python.runtime())
        self.interpreter = self.python.interpreter()
        self.eval = self.python.module.sections[1].start + 0x100

    def python_thread(self) -> tuple[FakeThread, int]:
        fake = self.thread()
        return fake, self.python.thread(self.interpreter, fake.pthread)

    def waits_for_gil(self, fake: FakeThread, interpreter: int | None = None, number: int = FUTEX) -> None:
        gil = self.python.gil_of(self.interpreter if interpreter is None else interpreter)
        cond = gil + self.python.layouts["_gil_runtime_state"].offset("cond")
        self.blocked(fake, number, cond + 40, 0x89, 0, fake.stack + 0x600, rax=ERESTART_RESTARTBLOCK)

    def runs_python(self, fake: FakeThread, tstate: int, *functions: tuple[str, int]) -> None:
        """Let the native stack have one call of the eval loop between the driver and the program."""
        pcs = (LIBC_TEXT + 0x100, DRIVER_TEXT + 0x40, self.eval, APP_TEXT + 0x80)
        fake.frames = [(pc, fake.stack + 0x100 * i) for i, pc in enumerate(pcs)]
        self.python.stack(tstate, [Call(functions, fake.stack + 0x240)])
