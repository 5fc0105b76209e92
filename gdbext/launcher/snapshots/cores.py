"""Finds the executable and the libraries that a core was made with, and unpacks compressed cores.

The files are searched where the core says that they were, below ``--sysroot``, and in the folders of ``--search``. A
file counts only if it has the build id that the core has, where the core has one.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import importlib
import os
import re
import select
import shutil
import stat
import subprocess
import tempfile
import threading
import zlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

from gdbext.elf.core_contents import CoreContents, MappedFile
from gdbext.elf.core_file import parse_core
from gdbext.elf.headers import ET_CORE, file_type, opened_file
from gdbext.errors import CorruptStructure
from gdbext.launcher.snapshots.elf import build_id_of, check_machine, is_debug_file, is_program
from gdbext.launcher.snapshots.limit import Limit
from gdbext.launcher.snapshots.preparation import Preparation
from gdbext.launcher.status import Unreadable
from gdbext.record import record
from gdbext.render.escape import fits_in_command, printable

#: The first bytes of compressed files, the Python module that unpacks them if there is one, and the program that does.
_PACKED = (
    (b"\x1f\x8b", "gzip", "gzip"), (b"\xfd7zXZ\0", "lzma", "xz"), (b"BZh", "bz2", "bzip2"),
    (b"\x28\xb5\x2f\xfd", "compression.zstd", "zstd"),  # the module: since Python 3.14
    (b"\x04\x22\x4d\x18", "", "lz4"),
)
_BLOCK = 1 << 20
#: How much of the file system with temporary files stays free, at most a tenth of it; in bytes.
_KEPT_FREE = 1 << 30
#: How long it may take to unpack the first bytes of a file, in seconds.
_PEEKING = 10.0
#: How many files of a search folder are read, how many links are followed in one path, how many files are named.
_MAX_FILES, _MAX_LINKS, _MAX_NAMED = 500_000, 40, 5
_DELETED = " (deleted)"
#: The name of a core that comes on standard input, also called ``-``.
STANDARD_INPUT = "/dev/stdin"


@contextlib.contextmanager
def prepare_core(core: Path, executable: Path | None, sysroot: Path | None,
                 search: Sequence[Path], limit: Limit) -> Iterator[Preparation]:
    """Prepare a GDB to open a core with its executable and libraries.

    :param executable: the executable that the user names.
    :param sysroot: the folder that holds the files under their own paths; None: the root of this machine.
    :param search: folders that may hold the files anywhere.
    :raises Unreadable: it is not a core, or cannot be read within the limit.
    """
    with contextlib.ExitStack() as stack:
        file, notes = _open(core, stack, limit)
        contents = _read_contents(file, printable(str(core)))
        if contents.core.damaged_files:
            notes.append(f"{printable(str(core))}: the list of mapped files is damaged, so no build id is checked")
        places = _Places(contents, sysroot, search)
        made_by = places.executable(executable)
        libraries = [mapped for mapped in contents.files if mapped.path != contents.executable]
        found: dict[str, Path | None] = {}
        for mapped in libraries:
            limit.check(f"the files of {printable(str(core))} were not found")
            found[mapped.path] = places.find(mapped)
        settings: tuple[str, ...] = () if sysroot is None else (f"set sysroot {sysroot.absolute()}",)
        moved = any(place is not None and place != places.expected(path) for path, place in found.items())
        # GDB commands cannot contain such a path
        in_tree = moved or bool(places.mismatches) or (sysroot is not None and not fits_in_command(str(sysroot)))
        renamed = made_by is not None and not fits_in_command(str(made_by))
        temporary = in_tree or renamed
        if temporary:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gdbext-")))
        if made_by is not None and renamed:
            link = folder / "gdbext-executable"
            link.symlink_to(made_by)
            made_by = link
        if in_tree:
            settings = _make_tree(folder, contents, {path: place for path, place in found.items() if place})
        yield Preparation(settings, f"/proc/self/fd/{file.fileno()}", None if made_by is None else str(made_by),
                          (file.fileno(),), (*notes, *places.notes(found)), temporary,
                          {path: str(place) for path, place in found.items() if place is not None},
                          root=str(sysroot.absolute()) if sysroot is not None else None)


def is_core(path: Path) -> bool:
    """Whether a file is a core, packed or not, by its first bytes."""
    try:
        # opening a FIFO would block
        if not stat.S_ISREG(os.stat(path).st_mode):
            return False
        with open(path, "rb", buffering=0) as file:
            head = file.read(64)
            if not _packing(head):
                return file_type(head) == ET_CORE
            file.seek(0)
            with contextlib.closing(_unpacked(file, *_packing(head)[0], Limit(_PEEKING), "")) as blocks:
                return file_type(next(blocks, b"")) == ET_CORE
    except (OSError, EOFError, MemoryError, Unreadable):
        return False


# -- the core itself ----------------------------------------------------------------------------------------------

def _open(core: Path, stack: contextlib.ExitStack, limit: Limit) -> tuple[IO[bytes], list[str]]:
    """Open a core, unpacked, with notes for the reader of the report."""
    name = printable(str(core))
    notes: list[str] = []
    try:
        # opening a FIFO would block
        descriptor = os.open(core, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        by_name = (f"; `gdbext report --name {name}` reports on processes by their command line"
                   if re.fullmatch(r"[\w.-]+", name) else "")
        raise Unreadable(f"{name}: {why}", f"name a core, or the number of a process{by_name}") from None
    stack.callback(os.close, descriptor)
    if stat.S_ISFIFO(os.fstat(descriptor).st_mode) and name == STANDARD_INPUT:
        descriptor = _copy_standard_input(stack, limit)
    state = os.fstat(descriptor)
    if stat.S_ISDIR(state.st_mode):
        raise Unreadable(f"{name} is a folder", "name a core in it; `gdbext triage` reads all of them")
    if not stat.S_ISREG(state.st_mode):
        raise Unreadable(f"{name} is not a regular file", "name a core, or the number of a process")
    file: IO[bytes] = os.fdopen(descriptor, "rb", buffering=0, closefd=False)
    head = os.pread(descriptor, 64, 0)
    for module, program in _packing(head):
        file = _unpack(file, name, module, program, stack, notes, limit)
        os.utime(file.fileno(), ns=(state.st_atime_ns, state.st_mtime_ns))
        if os.geteuid() == 0:  # the core's owner decides which source files are read
            os.fchown(file.fileno(), state.st_uid, state.st_gid)
        head = os.pread(file.fileno(), 64, 0)
    kind = file_type(head)
    if kind is None:
        what = "is empty" if not head else "is not a core: it is not an ELF file"
        raise Unreadable(f"{name} {what}", "was the disk full? `ulimit -c` bounds the size of cores" if not head
                         else "name a core, or the number of a process")
    if kind != ET_CORE:
        raise Unreadable(f"{name} is not a core: it is an executable or a library",
                         "give the core first and the executable after it: gdbext report CORE EXECUTABLE")
    check_machine(head, name)
    return file, notes


def _read_contents(file: IO[bytes], name: str) -> CoreContents:
    size = os.fstat(file.fileno()).st_size
    try:
        contents = CoreContents(opened_file(file), parse_core(opened_file(file), size))
    except CorruptStructure as error:
        raise Unreadable(f"{name}: its headers cannot be read: {error}",
                         "it may be truncated (was the disk full?), or of a machine that is not decoded") from None
    if size < contents.core.notes_end:
        raise Unreadable(f"{name} is truncated: {size:,} of {contents.core.whole:,} bytes are there, "
                         "without the threads' registers", "was the disk full? `ulimit -c` bounds the size of cores")
    return contents


def _copy_standard_input(stack: contextlib.ExitStack, limit: Limit) -> int:
    """Copy standard input to a file without a name, since GDB reads a core in any order."""
    try:
        return _store(_read_pipe(0, limit, "standard input was not copied"), stack).fileno()
    except OSError as error:
        raise Unreadable(f"standard input cannot be copied to a file: {error.strerror}", _room()) from None


def _room() -> str:
    return f"make room in {tempfile.gettempdir()}, or set $TMPDIR to another folder"


def _store(blocks: Iterable[bytes], stack: contextlib.ExitStack) -> IO[bytes]:
    """Write blocks to a file without a name, which disappears with this process.

    :raises OSError: there is no room for them.
    """
    file: IO[bytes] = tempfile.TemporaryFile(prefix="gdbext-", buffering=0)  # noqa: SIM115  # the stack closes it
    stack.callback(file.close)
    size = 0
    for block in blocks:
        # zeros become holes of the file, which take no room
        if block.count(0) != len(block):
            found = os.fstatvfs(file.fileno())
            kept = min(found.f_blocks * found.f_frsize // 10, _KEPT_FREE)
            if found.f_bavail * found.f_frsize < kept:
                raise OSError(errno.ENOSPC, f"less than {kept >> 20:,} MiB would remain free")
            os.pwrite(file.fileno(), block, size)
        size += len(block)
    os.ftruncate(file.fileno(), size)
    return file


def _packing(head: bytes) -> list[tuple[str, str]]:
    return [(module, program) for magic, module, program in _PACKED if head.startswith(magic)]


def _unpack(packed: IO[bytes], name: str, module: str, program: str, stack: contextlib.ExitStack,
            notes: list[str], limit: Limit) -> IO[bytes]:
    def until_damage() -> Iterator[bytes]:
        try:
            yield from blocks
        except EOFError as error:
            notes.append(f"{name} is truncated ({error}): only the part before that is read")

    try:
        with contextlib.closing(_unpacked(packed, module, program, limit, f"{name} was not unpacked")) as blocks:
            return _store(until_damage(), stack)
    except OSError as error:
        raise Unreadable(f"{name} cannot be unpacked: {error.strerror or error}", _room()) from None


def _unpacked(packed: IO[bytes], module: str, program: str, limit: Limit, what: str) -> Generator[bytes, None, None]:
    """Iterate over the blocks of a packed file.

    :param what: what was not done if no time is left.
    :raises EOFError: the file is truncated or damaged.
    :raises Unreadable: neither the module nor the program is available, or no time is left.
    """
    try:
        if not module:
            raise ImportError
        opener = importlib.import_module(module)
    except ImportError:
        yield from _unpacked_by(packed, program, limit, what)
        return
    damaged = (zlib.error, *(getattr(opener, name) for name in ("BadGzipFile", "LZMAError", "ZstdError")
                             if hasattr(opener, name)))
    try:
        with opener.open(_Limited(packed, limit, what), "rb") as file:
            while True:
                block = file.read1(_BLOCK) if hasattr(file, "read1") else file.read(_BLOCK)
                limit.check(what)
                if not block:
                    return
                yield block
    except damaged as error:
        raise EOFError(str(error) or type(error).__name__) from None


@record
class _Limited:
    """A packed file that is read until no time is left: much of it may become few bytes, or none."""

    file: IO[bytes]
    limit: Limit
    what: str

    def read(self, size: int = -1) -> bytes:
        self.limit.check(self.what)
        return self.file.read(size)


def _unpacked_by(packed: IO[bytes], program: str, limit: Limit, what: str) -> Iterator[bytes]:
    path = shutil.which(program)
    if path is None:
        raise Unreadable(f"the core is packed by {program}, which is not installed", f"install {program}, or unpack it")
    with subprocess.Popen([path, "-dc"], stdin=packed, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            yield from _read_pipe(process.stdout.fileno(), limit, what)
            said = process.stderr.read(1000).decode("utf-8", "replace").strip()
        except BaseException:
            process.kill()
            raise
        if process.wait():
            raise EOFError(printable(said) or f"{program} failed")


def _read_pipe(descriptor: int, limit: Limit, what: str) -> Iterator[bytes]:
    """Iterate over the blocks of a pipe.

    :param what: what was not done if no time is left.
    :raises TooSlow: no time is left.
    """
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    while True:
        limit.check(what)
        if poll.poll(min(limit.left, 1.0) * 1000):
            block = os.read(descriptor, _BLOCK)
            if not block:
                return
            yield block


# -- its files ----------------------------------------------------------------------------------------------------

@record
class _Mismatch:
    """A file with the right name and another build id."""

    path: str
    wanted: str
    place: Path
    has: str | None


class _Places:
    """Finds the files of a core."""

    def __init__(self, core: CoreContents, sysroot: Path | None, search: Sequence[Path]) -> None:
        self._core = core
        self._sysroot = sysroot.absolute() if sysroot is not None else None
        self._search = tuple(folder.absolute() for folder in search)
        self._no_executable: str | None = None
        self._given: _Mismatch | None = None
        #: Files that are not used, because they have another build id.
        self.mismatches: dict[str, _Mismatch] = {}

    def expected(self, path: str) -> Path:
        """The place where GDB itself searches for a file."""
        path = path[:-len(_DELETED)] if path.endswith(_DELETED) else path
        return Path(path) if self._sysroot is None else self._sysroot / path.lstrip("/")

    def executable(self, given: Path | None) -> Path | None:
        """The executable that the user gave, or the one that the core names."""
        path = self._core.executable
        mapped = next((mapped for mapped in self._core.files if mapped.path == path), None)
        if given is not None:
            has = build_id_of(given)
            if mapped is not None and mapped.build_id is not None and has != mapped.build_id:
                self._given = _Mismatch(mapped.path, mapped.build_id, given, has)
            return given.absolute()
        if path is None:
            self._no_executable = "the core does not contain the name of its executable"
            return None
        if mapped is None:  # a core without NT_FILE: only the name is known
            found = self._by_name(MappedFile(0, path, None))
            found = _interpreter_of(found) if found is not None else None
        else:
            found = self.find(mapped)
        if found is None:
            build_id = f" (build id {mapped.build_id})" if mapped is not None and mapped.build_id else ""
            self._no_executable = f"the executable {printable(path, 300)}{build_id} was not found"
        return found

    def find(self, mapped: MappedFile) -> Path | None:
        """The place of a file on this machine, None if it is not found."""
        found = self._by_name(mapped)
        if found is None and mapped.build_id is not None:
            places = (_index(folder).by_id.get(mapped.build_id) for folder in self._search)
            found = next((place for place in places if place is not None and not is_debug_file(place)), None)
            if found is not None:
                self.mismatches.pop(mapped.path, None)
        return found

    def _by_name(self, mapped: MappedFile) -> Path | None:
        expected = self.expected(mapped.path)
        candidates = [expected if self._sysroot is None else _inside(self._sysroot, expected)]
        for folder in self._search:
            candidates += _index(folder).by_name.get(expected.name, [])
        for place in candidates:
            if not os.path.isfile(place):
                continue
            has = build_id_of(place)
            if mapped.build_id is None or has == mapped.build_id:
                if place is candidates[0]:
                    # the name that GDB uses, so that it needs no link in a tree
                    return expected if os.path.exists(expected) and expected.samefile(place) else place
                if not is_debug_file(place):
                    return place
                continue
            self.mismatches.setdefault(mapped.path, _Mismatch(mapped.path, mapped.build_id, place, has))
        return None

    def notes(self, found: dict[str, Path | None]) -> Iterator[str]:
        """Notes on the files that were used, and on those that were not."""
        if self._given is not None:
            yield f"{_describe(self._given)}; it is used because you named it"
        mismatches = list(self.mismatches.values())
        for mismatch in mismatches[:_MAX_NAMED]:
            yield f"{_describe(mismatch)}; it is not used"
        if len(mismatches) > _MAX_NAMED:
            yield f"{len(mismatches) - _MAX_NAMED} more files have other build ids, and are not used"
        if self._no_executable is not None:
            yield f"{self._no_executable}: name it after the core, or name a folder that has it: --search DIR"
        missing = [path for path, place in found.items() if place is None and path not in self.mismatches]
        if missing:
            names = ", ".join(printable(path.rpartition("/")[2], 100) for path in missing[:_MAX_NAMED])
            more = f" and {len(missing) - _MAX_NAMED} more" if len(missing) > _MAX_NAMED else ""
            yield f"not found: {names}{more}; name a folder that has them: --search DIR, or the root: --sysroot DIR"


def _describe(mismatch: _Mismatch) -> str:
    has = f"build id {mismatch.has}" if mismatch.has else "no build id"
    return (f"{printable(mismatch.path)} has build id {mismatch.wanted} in the core, and "
            f"{printable(str(mismatch.place))} has {has}")


def _interpreter_of(path: Path) -> Path | None:
    """The program that runs a file: the file itself, or the interpreter that its first line names.

    Source: Linux 6.1 fs/binfmt_script.c, which reads 256 bytes.
    """
    try:
        with open(path, "rb") as file:
            first = file.read(256).partition(b"\n")[0]
    except OSError:
        return None
    if not first.startswith(b"#!"):
        return path
    words = first[2:].split()
    if not words:
        return None
    program = os.fsdecode(words[0])
    if program.endswith("/env") and len(words) > 1:
        program = shutil.which(os.fsdecode(words[-1])) or program
    return Path(program)


def _inside(root: Path, path: Path) -> Path:
    """Follow a path with `root` as the root folder, as links in an image require."""
    parts, at, followed = list(path.relative_to(root).parts), root, 0
    while parts:
        part = parts.pop(0)
        if part == "..":
            at = at.parent if at != root else root
            continue
        at /= part
        if os.path.islink(at) and followed < _MAX_LINKS:
            followed += 1
            target = os.readlink(at)
            at = root if target.startswith("/") else at.parent
            parts = [name for name in target.split("/") if name not in ("", ".")] + parts
    return at


@record
class _Index:
    """The ELF files of a folder."""

    by_id: dict[str, Path]
    by_name: dict[str, list[Path]]


_index_lock = threading.Lock()


def _index(folder: Path) -> _Index:
    # several threads ask for the same folder at the same time
    with _index_lock:
        return _make_index(folder)


@functools.lru_cache(maxsize=64)
def _make_index(folder: Path) -> _Index:
    by_id: dict[str, Path] = {}
    by_name: dict[str, list[Path]] = {}
    count = 0
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(place, name)
            count += 1
            if count > _MAX_FILES:
                return _Index(by_id, by_name)
            if not is_program(path):
                continue
            build_id = build_id_of(path)
            by_name.setdefault(name, []).append(path)
            if build_id is not None and (build_id not in by_id or is_debug_file(by_id[build_id])):
                by_id[build_id] = path
    return _Index(by_id, by_name)


def _make_tree(folder: Path, core: CoreContents, found: dict[str, Path]) -> tuple[str, ...]:
    """Make a tree of links in which GDB finds the right files, and no others, under all their names in the core.

    :param found: the places of files on this machine, by their paths in the core.
    :return: the settings with which GDB uses the tree.
    """
    relative = folder / "gdbext-relative"
    relative.mkdir()
    names = [*((path, path) for path in found), *core.link_names()]
    for name, path in names:
        place = found.get(path)
        if place is None:
            continue
        name = name[:-len(_DELETED)] if name.endswith(_DELETED) else name
        # a name may contain anything, and must not lead out of the tree
        at = (Path(f"{folder}{os.path.normpath('/' + name.lstrip('/'))}") if name.startswith("/")
              else relative / os.path.basename(name))
        try:
            at.parent.mkdir(parents=True, exist_ok=True)
            at.symlink_to(place)
        except OSError:  # the same name twice, or not a valid name
            continue
    return f"set sysroot {folder}", f"set solib-search-path {relative}"
