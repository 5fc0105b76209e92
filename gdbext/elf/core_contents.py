"""The memory that a core contains, and the files that the process had mapped."""

from __future__ import annotations

import bisect
import functools
from collections.abc import Iterator, Mapping

from gdbext.elf.core_file import CoreFile
from gdbext.elf.headers import MAGIC, Read
from gdbext.elf.link_map import linked_files
from gdbext.elf.notes import find_build_id
from gdbext.errors import CorruptStructure
from gdbext.inferior.environment import environment_before
from gdbext.record import record

#: Source: Linux 6.1 include/uapi/linux/auxvec.h.
_AT_PHDR, _AT_EXECFN = 3, 31
#: The longest path that is read, in bytes.
_MAX_PATH = 4096


@record
class MappedFile:
    """A file whose first page a process had mapped: the address, the path, and the build id if the core has it."""

    start: int
    path: str
    build_id: str | None


class CoreContents:
    """The memory of a process in its core.

    :param read: reads the uncompressed core.
    :param core: its headers and notes.
    :raises CorruptStructure: program headers are cut off.
    """

    def __init__(self, read: Read, core: CoreFile) -> None:
        if core.lacks_headers:
            raise CorruptStructure(0, "the program headers are cut off")
        self._read = read
        self.core = core
        self._starts = [start for start, _, _ in core.loads]

    def read(self, address: int, size: int) -> bytes:
        """Read so many bytes of memory, or as many as the core has."""
        index = bisect.bisect_right(self._starts, address) - 1
        if index < 0:
            return b""
        start, kept, offset = self.core.loads[index]
        length = min(size, start + kept - address)
        return self._read(offset + address - start, length) if length > 0 else b""

    def path_at(self, address: int) -> str | None:
        """The file that is mapped at an address."""
        return next((path for start, end, _, path in self.core.mapped if start <= address < end), None)

    @functools.cached_property
    def files(self) -> list[MappedFile]:
        """The executable and the libraries: mapped files that are ELF files by their first page, or by name."""
        found: dict[str, MappedFile] = {}
        for start, _, offset, path in self.core.mapped:
            if offset or path in found:
                continue
            head = self.read(start, 4)
            # a core may lack read-only pages (core(5), coredump_filter)
            if head == MAGIC or (not head and (".so" in path or path == self.executable)):
                found[path] = MappedFile(start, path, find_build_id(
                    lambda at, size, start=start: self.read(start + at, size), mapped=True))  # type: ignore[misc]
        return list(found.values())

    @functools.cached_property
    def executable(self) -> str | None:
        """The path of the executable, for a script its interpreter; None if the core does not contain it."""
        headers = self.core.auxiliary.get(_AT_PHDR)
        mapped = self.path_at(headers) if headers is not None else None
        return mapped or self.command

    @functools.cached_property
    def command(self) -> str | None:
        """The path that execve(2) got: for a script the script, and maybe relative."""
        address = self.core.auxiliary.get(_AT_EXECFN)
        text = self.read(address, _MAX_PATH) if address is not None else b""
        return text.partition(b"\0")[0].decode("utf-8", "surrogateescape") or None

    def environment(self) -> Mapping[str, str]:
        """The variables that say which rank of a job the process was."""
        address = self.core.auxiliary.get(_AT_EXECFN)
        return environment_before(self.read, address) if address is not None else {}

    def link_names(self, read: Read | None = None) -> Iterator[tuple[str, str]]:
        """The dynamic linker's names of files, each with the path under which the file was mapped.

        :param read: reads memory by address; by default only that in the core.
        """
        for file in linked_files(read or self.read, self.core.auxiliary):
            path = self.path_at(file.dynamic)
            if file.name and path is not None:
                yield file.name, path
