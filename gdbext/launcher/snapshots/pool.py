"""Many looks: a few at a time, one GDB each; what was done is kept, so that a run can be stopped and gone on with.

The state directory holds a line of JSON for each look that ended, in ``looks.jsonl``, and the documents, compressed,
one file each. A line is written when its document is, so that whatever ends a run leaves both or neither.
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
from typing import Any, Generic, TextIO, TypeVar

import gdbext
from gdbext.launcher.snapshots.snapshot import end_running
from gdbext.record import record

T = TypeVar("T")
R = TypeVar("R")

#: How often `tick` is called, in seconds.
_TICK = 0.1
#: How much a document is compressed: looks are short, and the time is theirs.
_LEVEL = 1
_FORMAT = 1


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0))


class Pool(Generic[T, R]):
    """Does the same work on many things, several at a time, in threads that each wait for a process.

    :param work: what to do with one; it raises nothing for one that is bad.
    :param jobs: how many at a time.
    :param end: makes work that is being done end early, when the run is stopped.
    """

    def __init__(self, work: Callable[[T], R], jobs: int, end: Callable[[], None] = end_running) -> None:
        self._work = work
        self._jobs = max(jobs, 1)
        self._end = end

    def run(self, things: Sequence[T], done: Callable[[T, R], None], tick: Callable[[], None] = lambda: None) -> None:
        """Work on all of them; `done` and `tick` are called in this thread, `tick` every now and then.

        :raises KeyboardInterrupt: as any other exception that comes here, when all work has ended.
        """
        finished: queue.SimpleQueue[Future[R]] = queue.SimpleQueue()
        stop = threading.Event()

        def work(thing: T) -> R:
            if stop.is_set():
                raise CancelledError
            try:
                return self._work(thing)
            except BaseException:
                stop.set()  # nothing begins while the run hears of it
                raise

        with ThreadPoolExecutor(self._jobs, "snapshot") as executor:
            futures: dict[Future[R], T] = {}
            try:
                for thing in things:
                    future = executor.submit(work, thing)
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
                    self._end()  # again and again: work that has just begun may miss the first time
                    time.sleep(_TICK)
                raise


# -- what was done -------------------------------------------------------------------------------------------


@record
class Record:
    """A look that ended: at which file (None of size and time: a process), and what class it is of.

    `document` is the name of its file in the state directory, None where there is no document. `size` is in bytes,
    `modified` in ns since 1970, `seconds` how long the look took.
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
        """Which file it is: one that was written anew is another."""
        return self.path, self.size, self.modified


class State:
    """The looks of a run that was stopped, or of one that goes on.

    :param folder: where they are kept; it is made if it is not there, for nobody else to read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._snapshots = folder / "looks.jsonl"
        self._documents = folder / "documents"
        # a mode counts for the last folder of a path only
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._documents.mkdir(exist_ok=True, mode=0o700)
        self._file: TextIO | None = None

    def load(self) -> list[Record]:
        """What was done; lines that are cut off or of another version are left out."""
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
        """Begin anew."""
        self.close()
        for path in [self._snapshots, *self._documents.glob("*.json.gz")]:
            path.unlink(missing_ok=True)

    def store(self, name: str, document: dict[str, Any]) -> str:
        """Keep a document under a name of ours for that; safe to be called in several threads.

        :raises OSError: it cannot be written.
        """
        short = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:20] + ".json.gz"
        path = self._documents / short
        unfinished = path.with_suffix(f".{threading.get_ident()}")
        unfinished.write_bytes(gzip.compress(json.dumps(document).encode(), _LEVEL))
        unfinished.replace(path)
        return short

    def read(self, short: str) -> dict[str, Any] | None:
        """A document that was kept; None if it is gone, or damaged."""
        try:
            made: dict[str, Any] = json.loads(gzip.decompress((self._documents / short).read_bytes()))
        except (OSError, EOFError, ValueError):
            return None
        return made

    def add(self, record: Record) -> None:
        """Note a look that ended.

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
        """Nothing more comes."""
        if self._file is not None:
            self._file.close()
            self._file = None
