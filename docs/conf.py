"""The documentation site, made by Sphinx; `scripts/docs` builds it into build/docs and fails for a broken link."""

from __future__ import annotations

project = "gdbext"
author = "gdbext developers"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "gdbext"
html_show_sphinx = False
html_static_path: list[str] = []
# anchors of headings, as GitHub makes them
myst_heading_anchors = 3
# README.md is written for the root of the repository
suppress_warnings = ["myst.header"]
