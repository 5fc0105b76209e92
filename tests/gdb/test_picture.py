"""The picture of a session in README.md, and the script that draws it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

from tests.support import samples
from tests.support.interpreters import CHECKOUT
from tests.support.patience import patience

PICTURE = CHECKOUT / "docs" / "images" / "py-deadlocks.svg"
SVG = "http://www.w3.org/2000/svg"


def check(picture: Path) -> None:
    """Check that the picture contains the verdict and is self-contained."""
    raw = picture.read_bytes()
    assert len(raw) < 30_000
    text = raw.decode("ascii")
    assert [char for char in text if not char.isprintable() and char != "\n"] == []
    assert re.findall(r"\w+://[^\"' <]*|@import|@font-face|url\(|href", text) == [SVG]
    source = (samples.SOURCES / "rapids.py").read_text(encoding="utf-8").splitlines()
    (number,) = (number for number, code in enumerate(source, 1) if "holding.drv_alloc(" in code)
    shown = "\n".join("".join(line.itertext()) for line in ElementTree.fromstring(text).iter(f"{{{SVG}}}text"))
    assert re.match(r"\(gdb\) py-deadlocks\ngdbext: .*\n(?:.+\n)*\n?DEADLOCK: 2 threads wait for each other\.\n", shown)
    for words in (r'"MainThread"\n *holds the GIL\n *needs pthread rwlock 0x[0-9a-f]+ in libdrv\.so to write, ',
                  r'"gpu-callbacks"\n *holds pthread rwlock 0x[0-9a-f]+ in libdrv\.so\n *needs the GIL, held by ',
                  r"#\d+ +pthread_rwlock_wrlock \(\) in libc\.so\.6\n#\d+ +drv_alloc \(\) in libdrv\.so\n",
                  rf"#\d+ +allocate at \S+/rapids\.py:{number}\n",
                  r"\nCycle: thread 1 -> pthread rwlock 0x[0-9a-f]+ in libdrv\.so -> thread 2; "):
        assert re.search(words, shown), f"{words}\n{shown}"
    # the only path of the machine that it was drawn on is the temporary folder
    assert {path for path in re.findall(r"(?<!\.)/[\w./-]+", shown) if not path.startswith("/tmp/gdbext-")} == set()


def test_picture_in_the_repository() -> None:
    check(PICTURE)
    assert f"]({PICTURE.relative_to(CHECKOUT)})" in (CHECKOUT / "README.md").read_text()


def test_script_draws_the_picture(tmp_path: Path) -> None:
    picture = tmp_path / "new" / "picture.svg"
    drawn = subprocess.run([sys.executable, CHECKOUT / "scripts" / "picture", "--output", picture],
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=patience(120))
    assert (drawn.returncode, drawn.stdout, drawn.stderr) == (0, "", "")
    check(picture)
