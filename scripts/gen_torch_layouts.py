#!/usr/bin/env python3
"""Make `gdbext/libraries/torch/layouts.json`: the offsets of members of PyTorch's flight recorder and of `c10d::Work`.

Each argument is a release, such as 2.13.0. Its wheel for aarch64, which is small, is downloaded from the package index
of pip, and a list of offsets is compiled with the headers in it; they are the same on x86-64. Releases with equal
offsets share an entry. Nothing of the wheels is run. Needs g++ with C++20, and the headers of Python.
"""

from __future__ import annotations

import argparse
import json
import struct
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

from elftools.elf.elffile import ELFFile

OUTPUT = Path(__file__).resolve().parent.parent / "gdbext" / "libraries" / "torch" / "layouts.json"

#: The wanted members, by the prefix of their names in the table and the C++ type.
MEMBERS = {
    "": ("c10d::FlightRecorder<c10::Event>", (
        "enabled_", "entries_", "max_entries_", "next_", "id_", "pg_name_to_ranks_")),
    "Entry.": ("c10d::FlightRecorder<c10::Event>::Entry", (
        "id_", "pg_name_", "collective_seq_id_", "p2p_seq_id_", "profiling_name_", "time_created_", "isP2P_",
        "input_dims_", "input_dtypes_", "sizes_", "retired_")),
    "Work.": ("c10d::Work", ("cv_", "opType_")),
}


def source() -> tuple[list[str], str]:
    """The names of the numbers, and the program that lists them."""
    names, values = [], []
    for prefix, (kind, members) in MEMBERS.items():
        names += [f"{prefix}sizeof", *(f"{prefix}{member}" for member in members)]
        # __builtin_offsetof is a macro for the preprocessor where a type has a comma
        values += [f"sizeof({kind})", *(f"__builtin_offsetof({kind}, {member})" for member in members)]
    return names, (
        "#include <torch/csrc/distributed/c10d/FlightRecorder.hpp>\n"
        "#include <torch/csrc/distributed/c10d/Work.hpp>\n"
        "#include <c10/core/Event.h>\n"
        "#include <cstddef>\n"
        'extern "C" { extern const unsigned long table[]; const unsigned long table[] = {'
        + ", ".join(values) + "}; }\n")


def offsets_of(release: str) -> dict[str, int]:
    """The offsets of a release, by name."""
    names, program = source()
    with tempfile.TemporaryDirectory(prefix="gdbext-torch-") as name:
        folder = Path(name)
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:",
                        "--platform", "manylinux_2_28_aarch64", "--python-version", "3.11", "--dest", folder,
                        f"torch=={release}"], check=True)
        (wheel,) = folder.glob("torch-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder, [each for each in archive.namelist() if each.startswith("torch/include/")])
        include = folder / "torch" / "include"
        (folder / "offsets.cpp").write_text(program, encoding="utf-8")
        subprocess.run(["g++", "-std=c++20", "-w", "-fno-access-control", f"-I{include}",
                        f"-I{include / 'torch' / 'csrc' / 'api' / 'include'}", f"-I{sysconfig.get_path('include')}",
                        "-c", "offsets.cpp", "-o", "offsets.o"], cwd=folder, check=True)
        with (folder / "offsets.o").open("rb") as file:
            elf = ELFFile(file)
            (symbol,) = elf.get_section_by_name(".symtab").get_symbol_by_name("table")
            data = elf.get_section(symbol["st_shndx"]).data()[symbol["st_value"]:][:symbol["st_size"]]
    return dict(zip(names, struct.unpack(f"<{len(data) // 8}Q", data)))


def main() -> None:
    """Make the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("releases", metavar="RELEASE", nargs="+", help="such as 2.13.0")
    found: list[dict[str, object]] = []
    for release in reversed(parser.parse_args().releases):
        offsets = offsets_of(release)
        same = next((each for each in found if each["offsets"] == offsets), None)
        if same is None:
            found.append({"releases": [release], "offsets": offsets})
        else:
            same["releases"] = [release, *same["releases"]]  # type: ignore[misc]  # a list of texts
        print(f"{release}: {len(offsets)} numbers", file=sys.stderr)
    OUTPUT.write_text(json.dumps({"layouts": found}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
