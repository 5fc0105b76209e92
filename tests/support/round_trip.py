"""Reports written as documents and read back."""

from __future__ import annotations

import json

from gdbext.model import Report
from gdbext.schema.read import read_document
from gdbext.schema.write import ALL_PARTS
from tests.support.documents import as_json


def read_again(report: Report) -> Report:
    """The report that its whole JSON text makes."""
    return read_document(json.loads(as_json(report, ALL_PARTS)))


def checked(report: Report) -> Report:
    """The same report, after a check that its document makes it again."""
    assert read_again(report) == report
    return report
