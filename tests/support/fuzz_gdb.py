"""Damages cores that one GDB loads again and again, and checks the reports that gdbext makes inside of it.

A GDB that ends or hangs by itself is started again, and how it ended is written to standard error. It is a failure of
gdbext only if GDB has printed a traceback of Python.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gdbext.launcher.snapshots.by_gdb import SETTINGS
from tests.support import gdb_session
from tests.support.fuzzing import FileSeed, Image, Seed, how_ended, last_written
from tests.support.interpreters import CHECKOUT

#: How long GDB may take for a core, in seconds.
_PATIENCE = 40.0
#: How long GDB may take to end after its pipes are closed, in seconds.
_ENDS = 5.0
_START = ("python import sys; sys.path.insert(0, {checkout!r}); from tests.support.fuzz_in_gdb import main; "
          "main({0}, {1})")


class Gdb:
    """A GDB that makes reports, one after the other."""

    def __init__(self) -> None:
        wanted, self._wanted = os.pipe()
        self._made, made = os.pipe()
        settings = [part for command in (*SETTINGS, "set debuginfod enabled off") for part in ("-iex", command)]
        self._home = tempfile.TemporaryDirectory(prefix="gdbext-home-")
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # `end` closes it
        self.process = subprocess.Popen(
            [gdb_session.executable(), "-nx", "-batch", *settings, "-ex",
             _START.format(wanted, made, checkout=str(CHECKOUT))],
            env=gdb_session.environment(Path(self._home.name)), pass_fds=(wanted, made), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=self._errors)
        os.close(wanted)
        os.close(made)

    def report(self, executable: str, core: Path) -> dict[str, Any] | None:
        """The answer for a core; None if GDB has ended, or does not answer in time."""
        try:
            os.write(self._wanted, f"{executable}\t{core}\n".encode())
        except BrokenPipeError:
            return None
        answer, end = b"", time.monotonic() + _PATIENCE
        while not answer.endswith(b"\n"):
            if not select.select([self._made], [], [], max(0.0, end - time.monotonic()))[0]:
                return None
            piece = os.read(self._made, 1 << 20)
            if not piece:
                return None
            answer += piece
        made: dict[str, Any] = json.loads(answer)
        return made

    def end(self) -> str:
        """End GDB; return how it ended, and the end of its standard error."""
        for descriptor in (self._wanted, self._made):
            os.close(descriptor)
        try:
            how = f"GDB ended with {how_ended(self.process.wait(_ENDS))}"
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            how = "GDB did not end"
        said = last_written(self._errors)
        self._errors.close()
        with contextlib.suppress(OSError):
            self._home.cleanup()
        return f"{how}\n{said}"


class GdbSeed(FileSeed):
    """A core that is damaged in its file: headers and notes, or words of memory that a report without GDB reads.

    :param seed: the core's memory.
    """

    layer = "gdb"

    def __init__(self, seed: Seed, core: Path, executable: str, places: Mapping[str, str], folder: Path) -> None:
        super().__init__(f"{seed.name}:gdb", core, executable, places, None, folder)
        self._seed, self.executable = seed, executable

    def image(self, number: str) -> Image:
        """Make the image with a number; all of its places are offsets in the core."""
        if random.Random(f"{self.name} {number}").random() < 0.3:
            return super().image(number)
        found = replace(self._seed.image(number), seed=self.name, gone=(), registers={}, budget=None)
        places = [(self._seed.offset(address), data) for address, data in found.patches]
        return replace(found, patches=[(place, data) for place, data in places if place is not None])

    def check(self, image: Image) -> str | None:
        """As `Seed.check`."""
        if _gdb.get(os.getpid()) is None:
            _gdb[os.getpid()] = Gdb()
        with self.damaged(image) as core:
            made = _gdb[os.getpid()].report(self.executable, core)
        if made is None:
            said = _gdb.pop(os.getpid()).end()
            print(f"{self.name} {image.number}: {said}", file=sys.stderr, flush=True)
            return said if "Traceback (most recent call last)" in said else None
        if "answer" in made:
            return self._check.wrong_in(made["answer"])
        return made.get("failure")


#: The GDB of this process.
_gdb: dict[int, Gdb] = {}


def end_gdb() -> None:
    """End the GDB of this process, if there is one."""
    gdb = _gdb.pop(os.getpid(), None)
    if gdb is not None:
        gdb.end()
