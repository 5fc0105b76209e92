"""Programs that run others in place of the processor, as valgrind and qemu's user mode do.

The threads of such a process run the code of the emulator, so its native stacks are the emulator's.

Source: valgrind 3.19 coregrind/launcher-linux.c (the name of a tool); qemu 8.2 docs/user/main.rst.
"""

from __future__ import annotations

import os
import re
from typing import Final

from gdbext.model.reasons import Reason, because

_VALGRIND: Final = re.compile(r"[a-z]+-(?:amd64|x86|arm64)-linux")
_QEMU: Final = re.compile(r"qemu-(?!system)(?:aarch64|arm|x86_64|i386|ppc64le|riscv64|s390x)(?:-static)?")


def find_emulator(executable: str | None, command_line: str | None) -> Reason | None:
    """What runs the program, as a note; None if the processor does.

    :param executable: the file that the process executes.
    :param command_line: its arguments, separated by spaces.
    """
    name = os.path.basename(executable or "")
    if _VALGRIND.fullmatch(name):
        return because("emulated", by="valgrind", program=None)
    if _QEMU.fullmatch(name):
        # an option may have a value, so the program is only certain without options before it
        first = (command_line or "").split()[1:2]
        return because("emulated", by=name, program=first[0] if first and not first[0].startswith("-") else None)
    return None
