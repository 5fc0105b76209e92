"""The Dockerfile's commands make an image in which gdbext works, and its user is not root.

No container engine is needed: a tree of Debian with a Python in /usr/local stands for the image of Python, which
is built like that, and the files that each stage adds are kept in an overlay.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support import interpreters, roots, samples
from tests.support.interpreters import CHECKOUT
from tests.support.patience import patience
from tests.support.report import Report
from tests.support.samples import Descendant

TEXT = re.sub(r"\\\n\s*", "", (CHECKOUT / "Dockerfile").read_text(encoding="utf-8"))
INSTRUCTIONS = [tuple(line.split(None, 1)) for line in TEXT.splitlines() if line and not line.startswith("#")]
#: As $WORK: the layers of one stage; as $BASE and $PYTHON: the tree and the folder of the interpreter.
MOUNT = """
tree=$WORK/tree
mkdir -p "$tree" "$WORK/upper" "$WORK/work" "$WORK/local" "$WORK/local-work"
mount -t overlay overlay -o "lowerdir=$BASE,upperdir=$WORK/upper,workdir=$WORK/work" "$tree"
mount -t overlay overlay -o "lowerdir=$PYTHON,upperdir=$WORK/local,workdir=$WORK/local-work" "$tree/usr/local"
mount -t proc proc "$tree/proc"
mount --rbind /dev "$tree/dev"
"""
#: What an image of Python has, and what reaches the package index as it is reached from here.
PREPARE = """
rm -f "$tree/usr/bin/gdb"
printf '#!/bin/sh\\nexec /usr/local/bin/python3.12 -m pip "$@"\\n' > "$tree/usr/local/bin/pip"
chmod +x "$tree/usr/local/bin/pip"
cp -L /etc/resolv.conf "$tree/etc/resolv.conf"
for file in /etc/pip.conf /etc/xdg/pip /etc/ssl/certs ~/.config/pip; do
    [ ! -e "$file" ] || { mkdir -p "$tree$(dirname "$file")"; rm -rf "$tree$file"; cp -a "$file" "$tree$file"; }
done
chroot "$tree" ldconfig
chroot "$tree" pip --version > /dev/null 2>&1 || chroot "$tree" python3.12 -m ensurepip > /dev/null
"""
PATH = "/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin"


class Stage:
    """A stage of the image: its layers, and what its instructions have set."""

    def __init__(self, base: Path, python: Path, layers: Path) -> None:
        self.layers, self.settings = layers, {"USER": "0:0", "WORKDIR": "/"}
        self._variables = {**os.environ, "BASE": str(base), "PYTHON": str(python), "WORK": str(layers)}
        layers.mkdir(parents=True)
        made = self.script(PREPARE)
        assert made.returncode == 0, made.stderr

    def script(self, script: str, *arguments: str | Path,
               by: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
        """Run a script of the shell that has the stage mounted at $tree."""
        command = [*by, "unshare", "--mount", "--propagation", "private", "bash", "-euc", MOUNT + script, "bash"]
        return subprocess.run([*command, *map(str, arguments)], env=self._variables, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=patience(300), check=False)

    def inside(self, *argv: str, by: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
        """Run a program as a container of the image does."""
        return self.script('cd /; exec chroot --userspec="$1" "$tree" env -C "$2" PATH=' + PATH + ' "${@:3}"',
                           self.settings["USER"], self.settings["WORKDIR"], *argv, by=by)

    def follow(self, word: str, rest: str, wheel: Stage | None) -> None:
        """Follow one instruction of the Dockerfile."""
        if word == "RUN":
            ran = self.inside("sh", "-c", rest)
            assert ran.returncode == 0, ran.stdout + ran.stderr
        elif word == "COPY":
            # the whole context, or what another stage has made
            source, target = (CHECKOUT, self.settings["WORKDIR"]) if wheel is None else (
                wheel.layers / "upper" / rest.split()[1][1:], rest.split()[2])
            names = context() if wheel is None else [path.name for path in source.iterdir()]
            into = self.layers / "upper" / target[1:]
            for name in names:
                (into / name).parent.mkdir(parents=True, exist_ok=True)
                copy = shutil.copytree if (source / name).is_dir() else shutil.copy
                copy(source / name, into / name)
        else:
            self.settings[word] = rest


def context() -> list[str]:
    """The files and folders that .dockerignore lets into the image."""
    lines = (CHECKOUT / ".dockerignore").read_text(encoding="utf-8").split()
    assert lines[0] == "*"
    return [line[1:] for line in lines if line.startswith("!")]


def build(base: Path, python: Path, folder: Path) -> Stage:
    """Follow the Dockerfile; return its last stage."""
    stages: list[Stage] = []
    for word, rest in INSTRUCTIONS:
        if word == "FROM":
            assert rest.split()[0] == "python:3.12-slim"
            stages.append(Stage(base, python, folder / str(len(stages))))
        else:
            stages[-1].follow(word, rest, stages[0] if len(stages) > 1 else None)
    return stages[-1]


def test_image_of_the_dockerfile_reports_on_a_process_beside_it(tmp_path: Path) -> None:
    place, (python, _) = roots.use("trixie").place, interpreters.use("3.12")
    tried = subprocess.run(["unshare", "--mount", "bash", "-euc", "mount -t tmpfs none /mnt && mkdir /mnt/a /mnt/b && "
                            f"mount -t overlay overlay -o lowerdir={place.tree},upperdir=/mnt/a,workdir=/mnt/b /mnt"],
                           capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"no overlay can be mounted here: {tried.stderr.strip()}")
    image = build(place.tree, python.parent.parent, tmp_path / "image")
    user = image.settings["USER"].partition(":")[0]
    assert int(user) != 0
    start = json.loads(image.settings["ENTRYPOINT"])
    told = image.inside(*start, *json.loads(image.settings["CMD"]))
    assert told.stdout.startswith("usage: gdbext"), told.stderr
    # as `docker run --pid=container:NAME`, with no capability: the process belongs to the same user
    # a new user clears the signal that --kill-child has asked for
    owner = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--pdeathsig=KILL"]
    program = samples.build("abba", place)
    argv = ["unshare", "--pid", "--fork", "--kill-child", *place.enter, *owner, str(program), "mutex"]
    with samples.running(argv, tmp_path / "abba", kind=Descendant) as sample:
        beside = ["nsenter", "--target", str(sample.pid), "--pid"]
        for options in (), ("--gdb", "gdb"):
            ran = image.inside(*start, "report", "--json", *options, str(sample.truth.pid), by=beside)
            assert ran.returncode == 1, ran.stderr
            assert Report(json.loads(ran.stdout), sample.truth).edges() == set(sample.truth.deadlock)
        assert not sample.is_stopped()
    shutil.rmtree(tmp_path / "image")  # a hundred MiB
