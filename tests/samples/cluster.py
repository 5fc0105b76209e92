"""The RAPIDS deadlock on a Dask cluster: two worker processes, each in a deadlock between the GIL and a driver's lock.

In each worker a task holds the GIL and wants the driver's lock; a thread of the driver holds that lock and wants the
GIL for a callback. The client waits for the futures, its process has the scheduler and the nannies too, as
`LocalCluster` has it. On several hosts the same program is the nanny of each worker (`--nanny`), and the client of a
scheduler that is another process (`--scheduler`). Needs the compiled drv.c, and dask and distributed, so CPython 3.9 or
later. Writes cluster.json into its directory: the place of each process. Then prints one JSON line, see
tests/support/samples.py, and hangs.
"""

import argparse
import asyncio
import ctypes
import json
import os
import socket
import sys
import threading
from multiprocessing import util
from typing import Any

from distributed import Client, LocalCluster, Nanny, Worker

PR_SET_PDEATHSIG, SIGKILL = 1, 9


def on_event(event: int) -> int:
    """Handle an event of the driver: never reached, the GIL is not available."""
    return event


def dispatch(library: ctypes.CDLL, tids: "list[int]") -> None:
    # made here, since the task is sent by value and a type of ctypes cannot be
    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(on_event)
    tids.append(threading.get_native_id())
    library.drv_dispatch(callback, 0)


def tell(pipe: int, truth: "dict[str, Any]", nbytes: int) -> int:
    """Tell the client where this worker hangs; called for an argument of the call that hangs."""
    os.write(pipe, json.dumps(truth).encode() + b"\n")
    return nbytes


def allocate(library: ctypes.PyDLL, pipe: int, truth: "dict[str, Any]") -> int:
    return int(library.drv_alloc(tell(pipe, truth, 4096)))


def partition(driver: str, fifo: str, worker: str) -> int:
    """The task: it never ends."""
    # a worker whose GIL is never given up cannot notice that its nanny has gone
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL)
    sys.setswitchinterval(1000)  # a thread waiting for the GIL sleeps on
    free, holding = ctypes.CDLL(driver), ctypes.PyDLL(driver)
    holding.drv_alloc.argtypes, holding.drv_alloc.restype = [ctypes.c_long], ctypes.c_long
    free.drv_lock_address.restype = ctypes.c_void_p
    free.drv_open(0)
    pipe = os.open(fifo, os.O_WRONLY)
    tids = []  # type: list[int]
    threading.Thread(target=dispatch, args=(free, tids), name="gpu-callbacks", daemon=True).start()
    free.drv_await_holders(1)
    lock = hex(free.drv_lock_address())
    truth = {"address": worker, "host": socket.gethostname(), "pid": os.getpid(), "task": threading.get_native_id(),
             "callbacks": tids[0], "lock": lock}
    return allocate(holding, pipe, truth)


async def start_plain_worker(address: str) -> Worker:
    """A worker without a nanny, in this process; nothing is sent to it."""
    return await Worker(address, nthreads=1, name="plain", resources={})


def give_number(pid: int) -> None:
    """Have processes that multiprocessing starts get this PID, or the next that is free."""
    spawn = util.spawnv_passfds

    def numbered(path: bytes, args: Any, passfds: Any) -> int:
        with open("/proc/sys/kernel/ns_last_pid", "w") as last:
            last.write(str(pid - 1))
        return spawn(path, args, passfds)

    util.spawnv_passfds = numbered


async def be_nanny(scheduler: str, host: str) -> None:
    """A nanny and its worker, as `dask worker` has them."""
    async with Nanny(scheduler, nthreads=1, host=host, dashboard_address=None) as nanny:
        await nanny.finished()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--driver", required=True, help="path of the compiled drv.c")
    parser.add_argument("--plain", action="store_true", help="have a worker without a nanny besides, in this process")
    parser.add_argument("--healthy", action="store_true", help="have no task that hangs")
    parser.add_argument("--scheduler", metavar="ADDRESS",
                        help="of a cluster that others start, with two workers; not with --plain")
    parser.add_argument("--nanny", metavar="HOST", help="be one of its nannies, on this host, and nothing else")
    parser.add_argument("--number", metavar="PID", type=int, help="of the worker, or the least")
    options = parser.parse_args()
    driver = os.path.abspath(options.driver)
    if options.nanny:
        give_number(options.number)
        asyncio.run(be_nanny(options.scheduler, options.nanny))
        return

    # no dashboard: it would be a port more, and needs more packages
    cluster = None  # type: Any
    if not options.scheduler:
        cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None,
                               worker_dashboard_address=None)
    client = Client(cluster or options.scheduler)
    client.wait_for_workers(2)
    workers = list(client.scheduler_info()["workers"])
    if options.plain:
        cluster.sync(start_plain_worker, cluster.scheduler_address)
    truths = []
    futures = []
    if not options.healthy:
        os.mkfifo("told")
        # for writing too, so that it does not end while there is no worker yet
        with open(os.open("told", os.O_RDWR), "rb") as told:
            futures = [client.submit(partition, driver, os.path.abspath("told"), worker, workers=[worker],
                                     key="partition-%d" % number)
                       for number, worker in enumerate(workers)]
            truths = [json.loads(told.readline()) for _ in workers]
    with open("cluster.json", "w") as file:
        json.dump({"scheduler": client.scheduler.address, "pid": os.getpid(), "workers": truths,
                   "addresses": workers}, file)
    main_thread = {"tid": threading.get_native_id(), "python_name": "MainThread", "blocked": True,
                   "syscall": "futex" if futures else "read", "stack": []}
    sys.stdout.write(json.dumps({
        "sample": "cluster", "variant": "healthy" if options.healthy else "deadlock", "pid": os.getpid(),
        "threads": {"main": main_thread}, "locks": {}, "deadlock": [], "stuck_behind": []}) + "\n")
    sys.stdout.flush()
    if futures:
        client.gather(futures)
    else:
        sys.stdin.readline()


if __name__ == "__main__":
    main()
