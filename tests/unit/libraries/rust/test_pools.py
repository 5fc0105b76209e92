from __future__ import annotations

from collections.abc import Sequence

import pytest

from gdbext.libraries.rust.pools import describe_wait

WAIT, PARK = "std::sys::sync::condvar::futex::Condvar::wait", "std::thread::thread::Thread::park"
SLEEP, COLD = "rayon_core::sleep::Sleep::sleep", "rayon_core::registry::WorkerThread::wait_until_cold"
JOB = "rayon_core::job::StackJobL,F,R as rayon_core::job::Job::execute"
BOTTOM = ("std::sys::backtrace::__rust_begin_short_backtrace", "core::ops::function::FnOnce::call_once")
POOL = "tokio::runtime::blocking::pool::Inner::run"
WORKER = ("tokio::runtime::scheduler::multi_thread::worker::Context::run",
          "tokio::runtime::scheduler::multi_thread::worker::run", "tokio::runtime::task::harness::HarnessT,S::poll",
          POOL, *BOTTOM)


@pytest.mark.parametrize(("names", "code"), [
    ((WAIT, SLEEP, COLD, "rayon_core::registry::ThreadBuilder::run", *BOTTOM), "rayon-worker-idle"),
    # the function that sleeps may be part of its caller
    (("parking_lot::condvar::Condvar::wait_until_internal", COLD, *BOTTOM), "rayon-worker-idle"),
    ((WAIT, SLEEP, COLD, "rayon_core::registry::in_worker", JOB, COLD, *BOTTOM), "rayon-waits-for-job"),
    ((WAIT, "rayon_core::latch::LockLatch::wait_and_reset", *BOTTOM), "rayon-waits-for-job"),
    ((PARK, "std::sync::mpmc::list::ChannelT::recv", "app::load", JOB, COLD, *BOTTOM), "rayon-in-job"),
    ((WAIT, POOL, *BOTTOM), "tokio-blocking-idle"),
    ((PARK, "app::load", POOL, *BOTTOM), "tokio-in-blocking-call"),
    ((WAIT, "tokio::runtime::park::Inner::park", *WORKER), "tokio-worker-idle"),
    ((WAIT, "tokio::runtime::scheduler::multi_thread::park::Parker::park", *WORKER), "tokio-worker-idle"),
    ((WAIT, "tokio::park::thread::Inner::park", "tokio::runtime::thread_pool::worker::Context::run", POOL, *BOTTOM),
     "tokio-worker-idle"),
    ((PARK, "app::load", "tokio::runtime::task::harness::HarnessT,S::poll", *WORKER), "tokio-in-task"),
    ((WAIT, "tokio::runtime::park::Inner::park", "tokio::runtime::runtime::Runtime::block_on", *BOTTOM),
     "tokio-block-on"),
    # a call of block_on in a task
    ((WAIT, "tokio::runtime::park::Inner::park", "tokio::runtime::handle::Handle::block_on", "app::load", *WORKER),
     "tokio-block-on"),
    ((WAIT, "tokio::runtime::park::Inner::park", *BOTTOM), None),
    ((PARK, "app::load", *BOTTOM), None), ((WAIT,), None), ((), None)])
def test_what_a_thread_waits_for(names: Sequence[str], code: str | None) -> None:
    assert describe_wait(names) == code
