"""Waits for the GPU inside of the CUDA driver, as they were seen with driver 580."""

from __future__ import annotations

import pytest

from gdbext.inferior.protocol import Module, Section, Symbol
from gdbext.model import Report
from gdbext.model.reasons import because
from gdbext.narrate.reasons import explain
from gdbext.verdict.judge import judge
from tests.support.fake_target import APP_DATA, APP_TEXT, DRIVER_TEXT, LIBC_TEXT, POLL, FakeTarget, FakeThread
from tests.support.snapshots import report_of, thread_of

CUDA = 0x7C00_0001_0000
SYNCHRONIZES, INNER, RUNS_FUNCTION = CUDA + 0x400, CUDA + 0x40, CUDA + 0x800


class Process(FakeTarget):
    """A process with the CUDA driver. Its first thread is inside of a function of the driver."""

    def __init__(self, function: str = "cuStreamSynchronize") -> None:
        super().__init__()
        self.loaded.append(Module("/usr/lib/libcuda.so.580.159.04", (Section(".text", CUDA, CUDA + 0x1000),)))
        self.symbols.update(dict.fromkeys((SYNCHRONIZES, SYNCHRONIZES - 1), Symbol(function)))
        self.main = self.thread()
        self.main.registers["rip"] = INNER
        self.main.frames = self.frames(self.main, INNER, INNER + 0x20, SYNCHRONIZES, DRIVER_TEXT, APP_TEXT)

    @staticmethod
    def frames(thread: FakeThread, *pcs: int) -> list[tuple[int, int]]:
        return [(pc, thread.stack + 0x80 * i) for i, pc in enumerate(pcs)]

    def asleep(self, address: int, expected: int = 0) -> Process:
        """The first thread sleeps in the C library, called by the driver."""
        frames = self.main.frames
        self.waits(self.main, address, expected, 0x189)
        self.main.frames = [(LIBC_TEXT + 0x100, self.main.stack), *[(pc, sp + 0x80) for pc, sp in frames]]
        return self

    def what_main_does(self, report: Report) -> str | None:
        reason = thread_of(report, self.main).blocked_on
        return explain(reason) if reason is not None else None


@pytest.mark.parametrize(("function", "name"), [
    ("cuStreamSynchronize", "cuStreamSynchronize"), ("cuCtxSynchronize_v2", "cuCtxSynchronize"),
    ("cuEventSynchronize", "cuEventSynchronize"), ("cuStreamSynchronize_ptsz", "cuStreamSynchronize"),
    ("cuMemcpyDtoH_v2", "cuMemcpyDtoH"), ("cuMemcpy", "cuMemcpy"), ("cuMemFree_v2", "cuMemFree"),
    ("cuMemcpyDtoHAsync_v2", None), ("cuMemFreeAsync", None), ("cuMemAlloc_v2", None),
    ("hipDeviceSynchronize", "hipDeviceSynchronize"), ("hipMemcpy", "hipMemcpy"), ("hipMemcpyAsync", None),
    ("cuLaunchKernel", None), ("cublasCreate", None), ("cuStreamSynchronizeLater", None)])
def test_thread_in_a_loop_of_the_driver_waits_for_the_gpu(function: str, name: str | None) -> None:
    process = Process(function)
    report = report_of(process)
    assert process.what_main_does(report) == (f"waits for the GPU in {name}()" if name else None)
    assert thread_of(report, process.main).status == "running"
    assert judge(report).kind == "computing"


def test_thread_that_sleeps_on_a_semaphore_of_the_driver_waits_for_the_gpu() -> None:
    process = Process()
    report = report_of(process.asleep(APP_DATA + 0x100))
    assert process.what_main_does(report) == "waits for the GPU in cuStreamSynchronize()"
    assert (thread_of(report, process.main).status, thread_of(report, process.main).waits) == ("blocked", None)
    assert (judge(report).kind, judge(report).threads) == ("computing", (1,))


def test_thread_that_sleeps_in_another_function_of_the_driver() -> None:
    process = Process("cuLaunchKernel_ptsz")
    report = report_of(process.asleep(APP_DATA + 0x100))
    assert process.what_main_does(report) == "waits in cuLaunchKernel() of the CUDA driver"
    assert judge(report).kind == "computing"
    process = Process("hipLaunchKernel")
    assert process.what_main_does(report_of(process.asleep(APP_DATA + 0x100))) == (
        "waits in hipLaunchKernel() of the HIP runtime")


@pytest.mark.parametrize("is_asleep", [False, True])
def test_thread_with_others_behind_it(is_asleep: bool) -> None:
    process = Process()
    process.waits_for_mutex(process.thread(), process.mutex(process.main.ref.lwp))
    verdict = judge(report_of(process.asleep(APP_DATA + 0x100) if is_asleep else process))
    assert (verdict.kind, verdict.threads, verdict.behind) == ("blocked-behind", (1,), (2,))


def test_thread_that_runs_may_release_what_others_wait_for() -> None:
    process = Process()
    process.thread()
    process.waits_for_mutex(process.thread(), process.mutex(process.main.ref.lwp))
    assert judge(report_of(process)).kind == "computing"


def test_thread_that_waits_for_a_mutex_of_the_driver_waits_for_that() -> None:
    process = Process()
    owner = process.thread()
    mutex = process.mutex(owner.ref.lwp)
    report = report_of(process.asleep(mutex, 2))
    waits = thread_of(report, process.main).waits
    assert waits is not None
    assert waits.lock == f"mutex:{mutex:#x}"


def test_functions_of_the_program_that_the_driver_calls_are_named() -> None:
    process = Process()
    callback, handler = process.thread(), process.thread()
    process.blocked(callback, POLL)
    callback.frames = process.frames(callback, LIBC_TEXT + 0x100, APP_TEXT, RUNS_FUNCTION, LIBC_TEXT + 0x200)
    process.blocked(handler, POLL)
    handler.frames = process.frames(handler, LIBC_TEXT + 0x100, RUNS_FUNCTION, LIBC_TEXT + 0x200)
    report = report_of(process)
    assert thread_of(report, process.main).blocked_on == because(
        "waits-for-gpu", function="cuStreamSynchronize", inside=(callback.ref.number,))
    assert process.what_main_does(report) == (
        "waits for the GPU in cuStreamSynchronize(); thread 2 is in a function that the GPU may have to wait for")


def test_without_the_driver_nothing_waits_for_the_gpu() -> None:
    process = Process()
    process.loaded.pop()
    assert thread_of(report_of(process), process.main).blocked_on is None
