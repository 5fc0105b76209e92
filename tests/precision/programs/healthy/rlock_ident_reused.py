"""The documentation of `threading.get_ident`: identifiers of threads that have exited may be recycled.

A thread takes an RLock and ends. A new thread gets its ident, which the lock still records. It never used the lock, and
waits for a lock of the thread that waits for the RLock. No deadlock has the new thread as the RLock's holder.

Truth: {"expect": "hang"}
"""

import threading

from tests.precision.programs import scene

# the lock is nobody's global variable, so that the new thread's code does not know it
kept = {"ledger": threading.RLock()}
drawer = threading.Lock()
waiting, has_drawer = threading.Event(), threading.Event()


def take_and_end() -> None:
    kept["ledger"].acquire()


def wait_for_ledger() -> None:
    with drawer:
        has_drawer.set()
        kept["ledger"].acquire()


def stranger(ident: int) -> None:
    if threading.get_ident() == ident:
        waiting.set()
        drawer.acquire()


if __name__ == "__main__":
    first = threading.Thread(target=take_and_end)
    first.start()
    ident = first.ident or 0
    first.join()
    scene.thread("waiter", wait_for_ledger)
    has_drawer.wait()
    while not waiting.is_set():
        new = scene.thread("stranger", stranger, ident)
        while new.is_alive() and not waiting.is_set():
            pass
    scene.ready()
    threading.Event().wait(timeout=1000)
