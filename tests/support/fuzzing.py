"""Damages the memory of recorded processes, and checks what a snapshot makes of it, without GDB and in this process.

A seed is a core of a sample. Its memory is read once, which records the words that a snapshot reads; an image is a
seed in which some of these words, pages or registers have other values. All images of a seed are made from numbers of
one random generator, so an image is known by the seed, the number of the run and its own number.
"""

from __future__ import annotations

import bisect
import contextlib
import copy
import functools
import gc
import heapq
import json
import math
import os
import random
import re
import resource
import shutil
import signal
import struct
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import IO, Any, Optional, Protocol

from jsonschema import Draft202012Validator

from gdbext.commands.answer import answer, source_of_core
from gdbext.commands.report_options import DEFAULTS
from gdbext.dwarf.sections import Budget as DebugBudget
from gdbext.elf.core_file import read_core_file
from gdbext.elf.headers import Read
from gdbext.errors import GdbextError, MemoryUnreadable
from gdbext.inferior.budget import Budget
from gdbext.inferior.cache import PAGE, CachedMemory, read_available
from gdbext.inferior.protocol import Memory, ThreadRef
from gdbext.model import Report
from gdbext.render.html import html_page
from gdbext.render.shown import Shown
from gdbext.schema.read import read_document
from gdbext.snapshot import take_snapshot
from gdbext.targets.core import CoreTarget
from gdbext.targets.source_lines import SourceLines
from gdbext.threads import findings
from tests.support import gdb_session

#: How long one image may take, in seconds of processor time, and how much more memory this process may need, in bytes.
LONGEST, MOST_MEMORY = 10.0, 2 << 30
#: How much of the standard error of a process that ended is shown, in bytes.
KEPT_ERRORS = 16_384
#: Control characters that neither texts nor pages have.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
#: Text that no terminal, file or page may get as it is.
_TEXTS = (b"\xff\xfe\x1b[2J\x9b\xc2\x85", b"</script><b>", b"\xe2\x80\xae\xed\xa0\x80\n\r\0")
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+")
_TOP = 1 << 64
_WORD = struct.Struct("<Q")


# a mistake in a stage of the snapshot is a failure here
findings.GUARDED = (GdbextError,)


class Overtime(BaseException):
    """An image takes too long. No code of gdbext catches it."""


@dataclass(frozen=True)
class Image:
    """What is damaged: new bytes by address, addresses of pages that are gone, and registers by thread and name."""

    seed: str
    number: str
    patches: Sequence[tuple[int, bytes]] = ()
    gone: Sequence[int] = ()
    registers: Mapping[tuple[int, str], int] = field(default_factory=dict)
    #: How much memory may be read, in bytes, if that is limited.
    budget: int | None = None

    def as_json(self) -> dict[str, Any]:
        """The image as it is written to a file."""
        return {"seed": self.seed, "number": self.number, "budget": self.budget, "gone": list(self.gone),
                "patches": [[address, data.hex()] for address, data in self.patches],
                "registers": [[*place, value] for place, value in self.registers.items()]}

    @staticmethod
    def of_json(made: Mapping[str, Any]) -> Image:
        """Read what `as_json` made."""
        return Image(made["seed"], made["number"], [(at, bytes.fromhex(data)) for at, data in made["patches"]],
                     list(made["gone"]), {(thread, name): value for thread, name, value in made["registers"]},
                     made["budget"])

    def parts(self) -> list[object]:
        """All changes, one by one."""
        return [*self.patches, *self.gone, *self.registers.items()]

    def with_parts(self, parts: Sequence[Any]) -> Image:
        """The image with some of its changes only."""
        return replace(self, patches=[part for part in self.patches if part in parts],
                       gone=[part for part in self.gone if part in parts],
                       registers={place: value for place, value in self.registers.items() if (place, value) in parts})


class _Recording(CachedMemory):
    """Notes what is read."""

    def __init__(self, memory: Memory) -> None:
        super().__init__(memory)
        self.read_words: dict[tuple[int, int], None] = {}

    def read(self, address: int, size: int) -> bytes:
        self.read_words[address, size] = None
        return super().read(address, size)

    def unpack(self, form: struct.Struct, address: int) -> tuple[int, ...]:
        self.read_words[address, form.size] = None
        return super().unpack(form, address)


class _Damaged:
    """The memory of a core without some pages."""

    def __init__(self, memory: Memory, gone: Sequence[int]) -> None:
        self._memory, self._gone = memory, frozenset(gone)

    def read(self, address: int, size: int) -> bytes:
        if any(page < address + size and address < page + PAGE for page in self._gone):
            raise MemoryUnreadable(address, size)
        return self._memory.read(address, size)


class _Target(CoreTarget):
    """A core with registers that can be damaged."""

    damaged: Mapping[tuple[int, str], int] = {}

    def _registers(self, thread: ThreadRef) -> Mapping[str, int]:
        found = super()._registers(thread)
        return {name: self.damaged.get((thread.number, name), value) for name, value in found.items()}


class _Lines(SourceLines):
    """Source lines that all images of a seed share, without a bound on their time."""

    def __init__(self) -> None:
        super().__init__()
        self._budget = DebugBudget(math.inf)


class Seed:
    """A core that is read again and again, each time with other damage.

    :param core: its path, not compressed.
    :param executable: as in `CoreTarget`; so are `places`.
    """

    layer = "memory"

    def __init__(self, name: str, core: Path, executable: str | None, places: Mapping[str, str]) -> None:
        self.name = name
        self._target = _Target(str(core), executable, places)
        self._target._lines = _Lines()
        self._target.modules()
        contents = self._target._contents
        self._loads, self._starts = contents.core.loads, contents._starts
        under: CachedMemory = self._target.memory  # type: ignore[assignment]
        self.raw = under._memory
        recording = _Recording(self.raw)
        self._check = Check(self)
        self.healthy = self.healthy_report(recording)
        self.pages = dict(recording._pages)
        writable = [region for region in self._target.regions() if region.allows("w")]
        self._hot = [(address, size) for address, size in recording.read_words if size > 0
                     and any(region.start <= address < region.end for region in writable)]
        self._cold = [each for each in recording.read_words if each[1] > 0]
        self._readable = [page for page, data in self.pages.items() if data is not None]
        self._registers = {(thread.number, name): value for thread in self._target.threads()
                           for name, value in self._target._registers(thread).items()}
        #: Numbers and addresses by which memory may name a living thread.
        self.identities = {value for thread in self.healthy.threads for value in (
            thread.lwp, thread.tid, thread.tstate) if value} | {
            value for (_, name), value in self._registers.items() if name == "fs_base"}

    def healthy_report(self, memory: Memory) -> Report:
        """The report of the core without damage, made from a memory."""
        return self._check.report(self._with(memory, {}))

    def names_a_thread(self, image: Image, address: int, size: int) -> bool:
        """Whether damage makes words that name a living thread: a byte of an owner may name another owner."""
        first = address & ~7
        data = read_available(self.target(image).memory, first, (address + size + 7 & ~7) - first)
        return size == PAGE or _names_a_thread(data, self.identities)

    def _with(self, memory: Memory, registers: Mapping[tuple[int, str], int]) -> _Target:
        target = copy.copy(self._target)
        target.memory, target.damaged = memory, registers
        target._left_out = set()
        return target

    def target(self, image: Image) -> CoreTarget:
        """The core with the damage of an image."""
        memory = CachedMemory(_Damaged(self.raw, image.gone) if image.gone else self.raw)
        pages = memory._pages = {} if image.budget is not None else dict(self.pages)
        for address, data in image.patches:
            while data:
                first = address & ~(PAGE - 1)
                at, page = address - first, pages.get(first)
                piece, data = data[:PAGE - at], data[PAGE - at:]
                if page is not None:
                    pages[first] = page[:at] + piece + page[at + len(piece):]
                address = first + PAGE
        for page_address in image.gone:
            pages[page_address] = None
        return self._with(memory, image.registers)

    def check(self, image: Image) -> str | None:
        """Take a snapshot of an image; return what is wrong with it, None if nothing is."""
        return self._check(image, lambda: self.target(image))

    def offset(self, address: int) -> int | None:
        """The offset in the core of a byte of memory; None if the core lacks it."""
        index = bisect.bisect_right(self._starts, address) - 1
        if index < 0:
            return None
        start, kept, offset = self._loads[index]
        return offset + address - start if address < start + kept else None

    # -- damage ----------------------------------------------------------------------------------------------------

    def image(self, number: str) -> Image:
        """Make the image with a number."""
        chance = random.Random(f"{self.name} {number}")
        patches: list[tuple[int, bytes]] = []
        gone: list[int] = []
        registers: dict[tuple[int, str], int] = {}
        for _ in range(chance.choice((1, 1, 1, 1, 2, 3, 5, 12, 40))):
            kind = chance.random()
            if kind < 0.03:
                gone.append(chance.choice(self._readable))
            elif kind < 0.10:
                place = chance.choice(list(self._registers))
                registers[place] = self._value(chance, self._registers[place]) % _TOP
            elif kind < 0.14:
                patches.append(self._page(chance))
            else:
                words = self._hot if chance.random() < 0.9 and self._hot else self._cold
                patches.append(self.word(chance, words, lambda page: self.pages.get(page) or bytes(PAGE)))
        if chance.random() < 0.1:  # nothing is damaged, but not all is read
            return Image(self.name, number, budget=chance.randrange(len(self.pages)) * PAGE)
        return Image(self.name, number, patches, gone, registers)

    def _page(self, chance: random.Random) -> tuple[int, bytes]:
        page = chance.choice(self._hot)[0] & ~(PAGE - 1)
        other = self.pages.get(chance.choice(self._readable)) or b""
        return page, chance.choice((bytes(PAGE), b"\xff" * PAGE, chance.randbytes(PAGE), other,
                                    page.to_bytes(8, "little") * (PAGE // 8)))

    def word(self, chance: random.Random, words: Sequence[tuple[int, int]],
             page: Callable[[int], bytes]) -> tuple[int, bytes]:
        """Damage one of some words.

        :param words: addresses and sizes.
        :param page: reads the page at an address.
        """
        address, size = chance.choice(words)
        if size > 8:
            address += chance.randrange(size // 8) * 8
        width = min(size, 8) if size in (1, 2, 4) else chance.choice((8, 8, 8, 4, 1))
        old = int.from_bytes(page(address & ~(PAGE - 1))[address % PAGE:address % PAGE + width], "little")
        if chance.random() < 0.05:
            return address, chance.choice((*_TEXTS, chance.randbytes(16)))
        value = self._value(chance, old, address)
        return address, (value % (1 << 8 * width)).to_bytes(width, "little")

    def _value(self, chance: random.Random, old: int, address: int = 0) -> int:
        kind = chance.randrange(9)
        if kind == 0:
            return old ^ 1 << chance.randrange(64)
        if kind == 1:
            return chance.choice((0, _TOP - 1, 1, 1 << 31, (1 << 31) - 1, (1 << 63) - 1, 1 << 63, 1 << 47, 1 << 40))
        if kind == 2:
            return chance.getrandbits(64)
        if kind in (3, 4):  # a pointer to other memory that is read
            return chance.choice(self._hot or self._cold)[0] + chance.choice((0, 0, 0, 8, 16, 1))
        if kind == 5:  # to itself
            return address - chance.choice((0, 0, 8, 16, 24, 32, 64))
        if kind == 6:
            return old + chance.choice((1, -1, 8, -8, 16, PAGE, -PAGE, 1 << 20, 1 << 30))
        if kind == 7:
            return chance.choice((1 << 10, 1 << 16, 1 << 20, 1 << 24, 1 << 30, 100, 2, 3))
        page = self.pages.get(chance.choice(self._readable)) or bytes(PAGE)
        return _WORD.unpack_from(page, chance.randrange(PAGE // 8) * 8)[0]  # type: ignore[no-any-return]


class _DamagedFiles(CoreTarget):
    """A core whose executable or library is damaged, before anything of it was read."""

    def __init__(self, path: str, executable: str | None, places: Mapping[str, str],
                 damage: Callable[[str, Read], Read]) -> None:
        self._damage = damage
        super().__init__(path, executable, places)

    def _open_here(self, place: str) -> Read | None:
        read = super()._open_here(place)
        return self._damage(place, read) if read is not None else None


class FileSeed:
    """A core file, or a file that its process had mapped, which is damaged before it is opened.

    :param core: the core, not compressed; it is copied.
    :param damaged: the path on this machine of the file that is damaged; None for the core itself.
    :param folder: where the copy is made.
    """

    layer = "files"

    def __init__(self, name: str, core: Path, executable: str | None, places: Mapping[str, str],
                 damaged: str | None, folder: Path) -> None:
        self.name, self._executable, self._places, self._damaged = name, executable, places, damaged
        self._core = self._own = core
        self._read_words: dict[tuple[int, int], None] = {}
        self._patches: Sequence[tuple[int, bytes]] = ()
        self._most: int | None = None
        self._check = Check(None)
        self._file: int | None = None
        self._lines = _Lines()
        if damaged is None:
            self._core = folder / f"{name.replace(':', '-')}.{os.getpid()}"
            shutil.copyfile(core, self._core)
            self._file = os.open(self._core, os.O_RDWR | os.O_CLOEXEC)
            parsed = read_core_file(str(self._core))
            assert parsed is not None
            notes = parsed.notes_end
            self._read_words = {**{(at, 8): None for at in range(0, min(4096, notes), 8)},
                                **{(at, 4): None for at in range(0, min(notes, 1 << 16), 4)}}
            self._size = core.stat().st_size
        else:
            self._size = os.stat(damaged).st_size
            self._check.report(self._target())

    def _target(self) -> CoreTarget:
        target = _DamagedFiles(str(self._core), self._executable, self._places, self._overlaid)
        if self._damaged is None:  # the files are those of all images
            target._lines = self._lines
        return target

    def _overlaid(self, place: str, read: Read) -> Read:
        if place != self._damaged:
            return read

        def damaged(offset: int, size: int) -> bytes:
            if len(self._read_words) < 20_000 and not self._patches:
                self._read_words[offset, size] = None
            if self._most is not None:
                size = min(size, max(0, self._most - offset))
            return patched(read(offset, size), offset, self._patches)

        return damaged

    def image(self, number: str) -> Image:
        """Make the image with a number: new bytes by offset in the file, and a size to which it is cut."""
        chance = random.Random(f"{self.name} {number}")
        places, patches = list(self._read_words), []
        for _ in range(chance.choice((1, 1, 1, 2, 3, 8, 40))):
            offset, size = chance.choice(places)
            if offset and chance.random() < 0.3:
                offset, size = chance.choice([(at, 8) for at in range(0, 1024, 8)])
            width = chance.choice((8, 8, 4, 4, 2, 1))
            value = chance.choice((0, _TOP - 1, 1, 1 << 31, 1 << 63, (1 << 63) - 1, chance.getrandbits(64), 1 << 40,
                                   chance.randrange(1 << 16), chance.randrange(self._size), offset))
            patches.append((offset + (chance.randrange(size) if size > 8 else 0),
                            (value % (1 << 8 * width)).to_bytes(width, "little")))
        cut = [chance.choice((chance.randrange(self._size), chance.randrange(4096)))] if chance.random() < 0.1 else []
        return Image(self.name, number, patches, cut)

    def check(self, image: Image) -> str | None:
        """As `Seed.check`."""
        if self._file is None:
            self._patches, self._most = image.patches, min(image.gone, default=None)
            return self._check(image, self._target)
        with self.damaged(image):
            return self._check(image, self._target)

    @contextlib.contextmanager
    def damaged(self, image: Image) -> Iterator[Path]:
        """The core with the damage of an image."""
        assert self._file is not None
        before = [(at, os.pread(self._file, len(data), at)) for at, data in image.patches]
        try:
            for at, data in image.patches:
                os.pwrite(self._file, data, at)
            if image.gone:
                os.truncate(self._file, min(image.gone))
            yield self._core
        finally:
            if image.gone:
                shutil.copyfile(self._own, self._core)
            for at, data in reversed(before):
                os.pwrite(self._file, data, at)


class _Schema:
    """Finds what violates the schema in documents that mostly have the same members."""

    def __init__(self) -> None:
        members: dict[str, Any] = gdb_session.validator().schema["properties"]
        self._items = {name: Draft202012Validator(part["items"]) for name, part in members.items() if "items" in part}
        whole = {**gdb_session.validator().schema, "properties": {
            name: {rule: value for rule, value in part.items() if rule != "items"} for name, part in members.items()}}
        self._whole = Draft202012Validator(whole)
        self._valid: set[int] = set()

    def violations(self, document: dict[str, Any]) -> list[str]:
        """The violations in a document, one line each. An item of a list that was valid once is valid."""
        wrong = [error.message for error in self._whole.iter_errors(document)]
        for name, validator in self._items.items():
            for item in document.get(name, ()):
                key = hash((name, json.dumps(item)))
                if key in self._valid:
                    continue
                found = [f"{name}{error.json_path[1:]}: {error.message}" for error in validator.iter_errors(item)]
                wrong += found
                if not found:
                    self._valid.add(key)
        return [each[:200] for each in wrong]


@functools.cache
def _schema() -> _Schema:
    return _Schema()


class Check:
    """What must hold for each image of a seed; without a seed, no deadlock is compared."""

    def __init__(self, seed: Seed | None) -> None:
        self._seed = seed
        self._seen: set[int] = set()
        #: How many images made another report than those before.
        self.different = 0

    def __call__(self, image: Image, target: Callable[[], CoreTarget]) -> str | None:
        with limited(LONGEST):
            made = None
            try:
                made = target()
                report = self.report(made, image.budget)
            except GdbextError:  # one line, no report
                return None
            except (Overtime, Exception) as error:
                return trace(error)
            finally:
                if made is not None and self._seed is None:
                    made.close()
            return self._invented(image, report) or self._shown(report)

    def report(self, target: CoreTarget, size: int | None = None) -> Report:
        """The report of a core, whose mistakes are not caught.

        :param size: how much may be read, in bytes.
        """
        snapshot = take_snapshot(target, budget=None if size is None else Budget(None, size))
        report = snapshot.judged_report(lambda thread: True)
        with contextlib.suppress(GdbextError):
            report = replace(report, crash=snapshot.crash(report))
        return report

    def _invented(self, image: Image, report: Report) -> str | None:
        """A recorded deadlock that rests on words which name no living thread."""
        if self._seed is None:
            return None
        if image.budget is not None:
            added = _edges(report) - _edges(self._seed.healthy)
            return f"a deadlock that is there only if not all is read: {sorted(added, key=str)}" if added else None
        edges = _recorded_edges(report) - _recorded_edges(self._seed.healthy)
        if not edges or image.registers or image.gone:
            return None
        if any(self._seed.names_a_thread(image, address, len(data)) for address, data in image.patches):
            return None
        return f"a recorded deadlock that memory does not have: {sorted(edges, key=str)}"

    def _shown(self, report: Report) -> str | None:
        try:
            return self.wrong_in(answer(report, None, source_of_core(None, lambda: None, anywhere=False), DEFAULTS))
        except (Overtime, Exception) as error:
            return trace(error)

    def wrong_in(self, made: Mapping[str, Any]) -> str | None:
        """What is wrong with an answer, of which equal ones are checked once; None if nothing is."""
        written = "".join(made["document"])
        known = hash(made["text"])
        if known in self._seen:
            return None
        self._seen.add(known)
        self.different += 1
        document = json.loads(written)
        wrong = _schema().violations(document)
        if wrong:
            return f"the document violates its schema: {wrong[:3]}"
        # a page with other numbers is made in the same way
        shape, page = hash(_NUMBER.sub("0", made["text"])), ""
        if shape not in self._seen:
            self._seen.add(shape)
            page = html_page([Shown("core", read_document(document))], "fuzz")
        for name, text in (("text", made["text"]), ("graph", made["dot"] or ""), ("page", page)):
            found = _CONTROLS.search(text)
            if found is not None:
                return f"the {name} contains {found.group()!r}: {text[max(0, found.start() - 80):found.end()]!r}"
        return None


_Edges = set[tuple[int, str, Optional[int]]]


def patched(data: bytes, offset: int, patches: Sequence[tuple[int, bytes]]) -> bytes:
    """What a file has at an offset after it was damaged."""
    for at, patch in patches:
        low, high = max(at, offset), min(at + len(patch), offset + len(data))
        if low < high:
            data = data[:low - offset] + patch[low - at:high - at] + data[high - offset:]
    return data


def _recorded_edges(report: Report) -> _Edges:
    return _edges(replace(report, deadlocks=tuple(
        deadlock for deadlock in report.deadlocks if deadlock.evidence == "recorded")))


def _edges(report: Report) -> _Edges:
    # the kind of a lock may be less well known
    return {(edge.waiter, edge.lock.rpartition(":")[2], edge.holder) for deadlock in report.deadlocks
            for edge in deadlock.edges}


def _names_a_thread(data: bytes, identities: set[int]) -> bool:
    words = {int.from_bytes(data[at:at + size], "little") for size in (4, 8) for at in range(0, len(data), 4)}
    return bool(words & identities) or any(word & (1 << 30) - 1 in identities for word in words)


def trace(error: BaseException) -> str:
    """What went wrong: the error and the last calls."""
    last = "".join(traceback.format_exception(type(error), error, error.__traceback__)[-6:])
    return f"{type(error).__name__}: {error}\n{last}"


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise `Overtime` after so many seconds of processor time."""

    def too_long(number: int, frame: FrameType | None) -> None:
        raise Overtime(f"more than {seconds:g} s")

    before = signal.signal(signal.SIGVTALRM, too_long)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def limit_memory() -> None:
    """Have this process fail, not the machine, if a count is believed."""
    with open("/proc/self/statm", encoding="ascii") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MOST_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))


def how_ended(status: int) -> str:
    """The exit status of a process, or the signal that ended it."""
    return f"exit status {status}" if status >= 0 else f"signal {-status} ({signal.strsignal(-status)})"


def last_written(file: IO[bytes]) -> str:
    """The last `KEPT_ERRORS` bytes of a file, which is the standard error of a process that has ended."""
    size = os.fstat(file.fileno()).st_size
    return os.pread(file.fileno(), KEPT_ERRORS, max(0, size - KEPT_ERRORS)).decode(errors="replace")


def kind_of_failure(what: str) -> str:
    """What two failures with the same cause have in common."""
    places = re.findall(r'File "[^"]*/(gdbext/[^"]+)", line (\d+)', what)
    return f"{what.partition(':')[0]} {places[-1] if places else what[:60]}"


def minimised(image: Image, fails: Callable[[Image], bool]) -> Image:
    """Leave out changes of an image as long as it still fails."""
    size = max(1, len(image.parts()) // 2)
    while size:
        at = 0
        while at < len(image.parts()) and len(image.parts()) > 1:
            parts = image.parts()
            smaller = image.with_parts(parts[:at] + parts[at + size:])
            if smaller.parts() and fails(smaller):
                image = smaller
            else:
                at += size
        size //= 2
    return image


#: The layers and their shares of the time.
SHARES = {"memory": 4, "decoders": 2, "files": 1, "gdb": 1}


class Fuzzed(Protocol):
    """What images are made of: a core, a file, or the calls of decoders."""

    name: str
    #: What is damaged, one of `SHARES`.
    layer: str

    def image(self, number: str) -> Image:
        """Make the image with a number."""

    def check(self, image: Image) -> str | None:
        """Return what is wrong with an image, None if nothing is."""


class Turns:
    """Chooses the seed whose share of the time was used least, so that cheap images are many.

    The images of each seed have numbers of their own. So a run makes the same ones however long they take.

    :param number: the number of the run.
    :param first: the number of the first image of each seed.
    :param step: the difference between the numbers of two images of a seed.
    """

    def __init__(self, seeds: Sequence[Fuzzed], number: int, first: int = 0, step: int = 1) -> None:
        self._seeds, self._number, self._first, self._step = seeds, number, first, step
        layers = [seed.layer for seed in seeds]
        self._share = [layers.count(layer) / SHARES[layer] for layer in layers]
        self._done = [0] * len(seeds)
        self._order = [(0.0, index) for index in range(len(seeds))]
        self._began = time.monotonic()

    def next(self) -> tuple[int, str]:
        """The index of the next seed and the number of its image."""
        index = self._order[0][1]
        self._began = time.monotonic()
        return index, f"{self._number}.{self._first + self._done[index] * self._step}"

    def checked(self) -> None:
        """Count the image of `next`."""
        used, index = self._order[0]
        self._done[index] += 1
        heapq.heapreplace(self._order, (used + (time.monotonic() - self._began) * self._share[index], index))

    def images(self) -> dict[str, int]:
        """The number of images of each layer."""
        found: dict[str, int] = {}
        for seed, done in zip(self._seeds, self._done):
            found[seed.layer] = found.get(seed.layer, 0) + done
        return found


def settle() -> None:
    """Have the garbage collector leave alone what all images share."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@dataclass
class Run:
    """What a run has found: the number of images, and the failures by their cause."""

    images: int = 0
    seconds: float = 0.0
    failures: dict[str, tuple[Image, str]] = field(default_factory=dict)


def run(seeds: Sequence[Fuzzed], number: int, images: int, seconds: float) -> Run:
    """Check images of the seeds until there were so many, or so much time has passed.

    :param number: the number of the run, from which all damage is made.
    """
    began, found, turns = time.monotonic(), Run(), Turns(seeds, number)
    while found.images < images and time.monotonic() - began < seconds:
        index, at = turns.next()
        image = seeds[index].image(at)
        what = seeds[index].check(image)
        turns.checked()
        found.images += 1
        if what is not None:
            found.failures.setdefault(kind_of_failure(what), (image, what))
    found.seconds = time.monotonic() - began
    return found
