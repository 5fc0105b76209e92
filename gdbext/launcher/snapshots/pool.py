"""Many snapshots: a few at a time, one GDB each. Results are stored, so that a stopped run can be resumed.

The state folder holds one line of JSON for each finished snapshot, in ``snapshots.jsonl``, and one compressed file for
each document. A line is written after its document, so an interrupted run leaves both or neither.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO, TypeVar

import gdbext
from gdbext.launcher.snapshots.snapshot import end_running
from gdbext.record import record

T = TypeVar("T")
R = TypeVar("R")

#: How often `tick` is called, in seconds.
_TICK = 0.1
#: The level of compression, the fastest.
_LEVEL = 1
_FORMAT = 1


def processors() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0))


def run_all(things: Sequence[T], jobs: int, work: Callable[[T], R], done: Callable[[T, R], None],
            tick: Callable[[], None] = lambda: None, end: Callable[[], None] = end_running) -> None:
    """Do the same work on many things, several at a time, in threads that each wait for a process.

    :param work: called for each thing; it does not raise for a bad one.
    :param done: called in this thread after each; `tick` is called regularly.
    :param end: ends running work early when the run is stopped.
    :raises KeyboardInterrupt: after all work has ended; so do all other exceptions.
    """
    finished: queue.SimpleQueue[Future[R]] = queue.SimpleQueue()
    stop = threading.Event()

    def work_unless_stopped(thing: T) -> R:
        if stop.is_set():
            raise CancelledError
        try:
            return work(thing)
        except BaseException:
            stop.set()  # no other work begins meanwhile
            raise

    with ThreadPoolExecutor(max(jobs, 1), "snapshot") as executor:
        futures: dict[Future[R], T] = {}
        try:
            for thing in things:
                future = executor.submit(work_unless_stopped, thing)
                futures[future] = thing
                future.add_done_callback(finished.put)
            left = len(futures)
            while left:
                try:
                    future = finished.get(timeout=_TICK)
                except queue.Empty:
                    tick()
                    continue
                left -= 1
                done(futures[future], future.result())
                tick()
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            while not all(future.done() for future in futures):
                end()  # repeatedly: work that has just begun may miss the first call
                time.sleep(_TICK)
            raise


# -- stored results -----------------------------------------------------------------------------------------


@record
class Record:
    """A finished snapshot: its file, and its class.

    `document` is the name of the document's file in the state folder, None without a document. `size` is in bytes,
    `modified` in ns since 1970, both 0 for a process; `seconds` is how long the snapshot took.
    """

    path: str
    size: int
    modified: int
    kind: str | None = None
    key: str | None = None
    title: str | None = None
    threads: int = 0
    document: str | None = None
    problem: str | None = None
    hint: str | None = None
    status: int = 0
    seconds: float = 0.0

    @property
    def file(self) -> tuple[str, int, int]:
        """The version of the file: a rewritten file has another one."""
        return self.path, self.size, self.modified


class State:
    """The stored snapshots of a run.

    :param folder: created if it does not exist, readable for its owner only.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._snapshots = folder / "snapshots.jsonl"
        self._documents = folder / "documents"
        # `mode` applies only to the last folder of a path
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._documents.mkdir(exist_ok=True, mode=0o700)
        self._file: TextIO | None = None

    def load(self) -> list[Record]:
        """Read the stored snapshots; lines that are damaged or of another version are left out."""
        try:
            with open(self._snapshots, encoding="utf-8", errors="replace") as file:
                lines = file.readlines()
        except FileNotFoundError:
            return []
        found: dict[tuple[str, int, int], Record] = {}
        for line in lines:
            try:
                values = json.loads(line)
                if (values.pop("format"), values.pop("version")) == (_FORMAT, gdbext.__version__):
                    record = Record(**values)
                    found[record.file] = record
            except (ValueError, TypeError, KeyError, AttributeError):
                continue
        return list(found.values())

    def forget(self) -> None:
        """Delete the stored snapshots."""
        self.close()
        for path in [self._snapshots, *self._documents.glob("*.json.gz")]:
            path.unlink(missing_ok=True)

    def store(self, name: str, document: dict[str, Any]) -> str:
        """Store a document and return the name of its file; several threads may call this.

        :raises OSError: it cannot be written.
        """
        short = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:20] + ".json.gz"
        path = self._documents / short
        unfinished = path.with_suffix(f".{threading.get_ident()}")
        unfinished.write_bytes(gzip.compress(json.dumps(document).encode(), _LEVEL))
        unfinished.replace(path)
        return short

    def read(self, short: str) -> dict[str, Any] | None:
        """Read a stored document; None if it is missing or damaged."""
        try:
            made: dict[str, Any] = json.loads(gzip.decompress((self._documents / short).read_bytes()))
        except (OSError, EOFError, ValueError):
            return None
        return made

    def add(self, record: Record) -> None:
        """Store a finished snapshot.

        :raises OSError: it cannot be written.
        """
        if self._file is None:
            cut_off = self._snapshots.exists() and self._snapshots.read_bytes()[-1:] not in (b"", b"\n")
            self._file = open(self._snapshots, "a", encoding="utf-8")  # noqa: SIM115  closed by `close`
            if cut_off:
                self._file.write("\n")
        line = {"format": _FORMAT, "version": gdbext.__version__, **asdict(record)}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file of finished snapshots."""
        if self._file is not None:
            self._file.close()
            self._file = None
