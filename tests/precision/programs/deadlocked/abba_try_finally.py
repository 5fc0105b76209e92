"""Two locks in either order with `acquire` and `try: ... finally: release()`, in attributes and after a timed attempt.

The documentation of `threading.Lock` calls this the same as `with`. One thread holds its lock in a generator of
`contextlib.contextmanager`, and retries until it has got it. Both have taken and released both locks before.

Truth: {"expect": "deadlock", "pythons": ["3.9", "3.11", "3.12", "3.13", "debian"],
        "edges": [["payer", "py-lock", "auditor"], ["auditor", "py-lock", "payer"]],
        "behind": ["main"]}
"""

import contextlib
import threading
from collections.abc import Iterator

from tests.precision.programs import scene

both = threading.Barrier(2)


class Account:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.amount = 0

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        while not self.lock.acquire(timeout=0.05):
            pass
        try:
            yield
        finally:
            self.lock.release()


class Bank:
    def __init__(self) -> None:
        self.first, self.second = Account(), Account()

    def pay(self) -> None:
        for attempt in range(2):
            self.first.lock.acquire()
            try:
                if attempt:
                    both.wait()
                self.move(self.second)
            finally:
                self.first.lock.release()
            if not attempt:
                both.wait()

    def move(self, account: Account) -> None:
        account.lock.acquire()
        try:
            account.amount += 1
        finally:
            account.lock.release()

    def audit(self) -> None:
        both.wait()
        with self.second.opened():
            both.wait()
            self.first.lock.acquire()
            self.first.amount += 1
            self.first.lock.release()


if __name__ == "__main__":
    bank = Bank()
    threads = [scene.thread("payer", bank.pay), scene.thread("auditor", bank.audit)]
    scene.ready()
    for thread in threads:
        thread.join()
