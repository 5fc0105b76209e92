"""Libraries of Debian packages, unpacked into a folder and not installed, with what else they need."""

from __future__ import annotations

import fcntl
import functools
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support import interpreters, samples

#: The name of these libraries in GDBEXT_REQUIRE.
NAME = "lock-libraries"
#: By folder: packages that are unpacked with all that they depend on, and packages that are unpacked alone.
_PACKAGES = {
    "qt": (("libqt5core5a", "libqt6core6"), ("qtbase5-dev", "qt6-base-dev")),
    "absl": ((), ("libabsl-dev", "libabsl20220623")),
    "boost": (("libboost-thread-dev",), ()),
    "rust": ((), tuple(f"librust-{name}-dev" for name in (
        "parking-lot", "parking-lot-core", "lock-api", "scopeguard", "smallvec", "cfg-if", "libc", "instant",
        "autocfg", "rayon", "rayon-core", "crossbeam-channel", "crossbeam-deque", "crossbeam-epoch", "crossbeam-utils",
        "memoffset", "num-cpus", "either", "tokio", "tokio-macros", "pin-project-lite", "bytes", "memchr", "mio",
        "socket2", "signal-hook-registry", "tracing", "tracing-core", "winapi", "log", "lazy-static", "once-cell"))),
    "tbb": ((), ("libtbb-dev", "libtbb12")),
    "malloc": (("libjemalloc2", "libtcmalloc-minimal4", "libmimalloc2.0"), ()),
}
#: By name: the folder, the shared library or the static ones, and the folder of headers for this machine if there is
#: one.
_LIBRARIES = {
    "qt5": ("qt", "libQt5Core.so.5", "qt5"),
    "qt6": ("qt", "libQt6Core.so.6", "qt6"),
    "absl": ("absl", "libabsl_synchronization.so.*", ""),
    "absl-static": ("absl", "libabsl_*.a", ""),
    "boost": ("boost", "libboost_thread.so.*", ""),
    "tbb": ("tbb", "libtbb.so.*", ""),
    "jemalloc": ("malloc", "libjemalloc.so.*", ""),
    "tcmalloc": ("malloc", "libtcmalloc_minimal.so.*", ""),
}


@functools.cache
def use(folder: str) -> Path:
    """The root of a folder of `_PACKAGES`, unpacked once; skips or fails the test without it."""
    whole, alone = _PACKAGES[folder]
    store = samples.cache_directory().parent / NAME / folder
    done, wanted = store / ".done", " ".join((*whole, *alone))
    store.parent.mkdir(parents=True, exist_ok=True)
    with open(store.with_name(f"{folder}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists() or done.read_text() != wanted:
            shutil.rmtree(store, ignore_errors=True)
            failure = _unpack(store, whole, alone)
            if failure is not None:
                interpreters.do_without(NAME, f"{NAME}: {wanted} cannot be unpacked: {failure}")
            done.write_text(wanted)
    return store


@dataclass(frozen=True)
class Library:
    """A library of an unpacked folder: `path`, and compiler options to find its headers and to link with it."""

    path: Path
    flags: tuple[str, ...]
    options: tuple[str, ...]

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables with which a program finds the library."""
        return {"LD_LIBRARY_PATH": str(self.path.parent)}


def library(name: str) -> Library:
    """A library of `_LIBRARIES`; skips or fails the test without it."""
    folder, pattern, headers = _LIBRARIES[name]
    root = use(folder)
    machine = f"{os.uname().machine}-linux-gnu"
    paths = sorted((root / "usr/lib" / machine).glob(pattern))
    include = root / "usr/include"
    options = (("-Wl,--start-group", *map(str, paths), "-Wl,--end-group") if pattern.endswith(".a")
               else (str(paths[0]), "-Wl,--allow-shlib-undefined"))
    return Library(paths[0], (f"-isystem{include / machine / headers if headers else include}",),
                   ("-xnone", *options))


def _unpack(store: Path, whole: Sequence[str], alone: Sequence[str]) -> str | None:
    """Download and unpack packages; returns the reason of a failure, or None.

    apt uses the system's lists of packages and changes nothing of the system, so it needs no lock.
    """
    if shutil.which("apt-get") is None:
        return "there is no apt-get"
    archives = store / "archives"
    (archives / "partial").mkdir(parents=True)
    apt = ("apt-get", "-q", "-y", "-o", "APT::Sandbox::User=", "-o", "Debug::NoLocking=1",
           "-o", f"Dir::Cache::archives={archives}")
    commands = [(*apt, "--download-only", "--no-install-recommends", "--reinstall", "install", *whole)]
    if alone:
        commands.append((*apt, "download", *alone))
    for command in commands:
        made = subprocess.run(command, cwd=archives, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False)
        if made.returncode:
            return made.stderr.strip()[-300:]
    for package in archives.glob("*.deb"):
        made = subprocess.run(["dpkg-deb", "-x", package, store], capture_output=True, text=True, check=False)
        if made.returncode:
            return made.stderr.strip()[-300:]
    shutil.rmtree(archives)
    return None
