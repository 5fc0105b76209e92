"""scoder/fastrlock#2 and scoder/lupa#250: FastRLocks that are taken and released all the time, also by Lua runtimes.

Three threads run Lua in one runtime and are called back. Others take FastRLocks recursively, in one order; threads that
end make room for others with the same ident.

Truth: {"expect": "healthy", "packages": ["fastrlock", "lupa"], "pythons": ["3.11"]}
"""

import threading
import time

import lupa  # type: ignore[import-not-found,import-untyped,unused-ignore]
from fastrlock.rlock import FastRLock  # type: ignore[import-not-found,import-untyped,unused-ignore]

from tests.precision.programs import scene

OUTER, INNER, LEDGER = FastRLock(), FastRLock(), threading.Lock()


def nested() -> None:
    while not scene.stopping.is_set():
        with OUTER, OUTER, INNER:
            time.sleep(0.0005)
        INNER.acquire()
        time.sleep(0.0002)
        INNER.release()


def run_lua(runtime: object) -> None:
    def called_back() -> None:
        with LEDGER:
            time.sleep(0.0003)

    runtime.globals()[threading.current_thread().name] = called_back  # type: ignore[attr-defined]
    while not scene.stopping.is_set():
        runtime.execute(f"_G['{threading.current_thread().name}']()")  # type: ignore[attr-defined]


def keep_ledger() -> None:
    while not scene.stopping.is_set():
        with LEDGER:
            time.sleep(0.0002)


def come_and_go() -> None:
    def short() -> None:
        with OUTER:
            time.sleep(0.0002)

    while not scene.stopping.is_set():
        thread = threading.Thread(target=short)
        thread.start()
        thread.join()


if __name__ == "__main__":
    runtime = lupa.LuaRuntime()
    threads = [scene.thread(f"nested-{i}", nested) for i in range(2)]
    threads += [scene.thread(f"lua-{i}", run_lua, runtime) for i in range(3)]
    threads += [scene.thread("ledger", keep_ledger), scene.thread("starter", come_and_go)]
    scene.ready()
    for each in threads:
        each.join()
