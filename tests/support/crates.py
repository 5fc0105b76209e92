"""Programs of Rust with crates that Debian packages as source code."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import debian_packages, samples
from tests.support.samples import SOURCES

_MANIFEST = """
[package]
name = "{name}"
version = "0.1.0"
edition = "2021"
[{kind}]
name = "{target}"
path = "{source}"
{crate_type}
[dependencies]
{crates}
[profile.release]
debug = {debug}
strip = {strip}
"""
_CONFIG = """
[source.crates-io]
replace-with = "debian"
[source.debian]
directory = "{registry}"
[net]
offline = true
"""


def build(source: str, crates: tuple[str, ...], *, stripped: bool, is_library: bool = False,
          flags: tuple[str, ...] = ()) -> Path:
    """Compile a source with crates, once; skips or fails the test without cargo or the crates.

    :param source: its path, from tests/samples.
    :param crates: dependencies as cargo has them, such as ``parking_lot = "0.12"``.
    :param is_library: make a library for programs in other languages.
    :param flags: of rustc.
    """
    if shutil.which("cargo") is None:
        pytest.skip("cargo is not installed")
    registry = debian_packages.use("rust") / "usr/share/cargo/registry"
    name = f"{Path(source).stem}{'-stripped' if stripped else ''}"
    version = subprocess.run(["cargo", "--version"], capture_output=True, check=True).stdout
    parts = [version, *(file.read_bytes() for file in (SOURCES / source, SOURCES / "stage.rs")),
             repr((crates, *flags)).encode()]
    folder = samples.cache_directory() / hashlib.sha256(b"\0".join(parts)).hexdigest()[:16] / f"{name}-crate"
    folder.mkdir(parents=True, exist_ok=True)
    target = name.replace("-", "_") if is_library else name
    program = folder / "target" / "release" / (f"lib{target}.so" if is_library else target)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            (folder / ".cargo").mkdir(exist_ok=True)
            (folder / ".cargo" / "config.toml").write_text(_CONFIG.format(registry=registry))
            (folder / "Cargo.toml").write_text(_MANIFEST.format(
                name=name, kind="lib" if is_library else "[bin]", target=target, source=SOURCES / source,
                crate_type='crate-type = ["cdylib"]' if is_library else "", crates="\n".join(crates),
                debug=str(not stripped).lower(), strip=str(stripped).lower()))
            environment = {name: value for name, value in os.environ.items() if not name.startswith("CARGO_")}
            if flags:
                environment["RUSTFLAGS"] = " ".join(flags)
            made = subprocess.run(["cargo", "build", "--release", "--offline"], cwd=folder, env=environment,
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
            assert made.returncode == 0, made.stderr[-3000:]
    return program
