"""Source lines below a frame: the running part is marked, and context lines are shown on request."""

from __future__ import annotations

from collections.abc import Callable

from gdbext.model import Columns
from gdbext.render.escape import printable
from gdbext.render.style import Style, columns, excerpt

#: Returns a source line by file and line number, or None.
Source = Callable[[str, int], "str | None"]
#: How many characters of a source line are shown, and how many are decoded.
_SOURCE_WIDTH = 160
_MAX_COLUMN = 1 << 16
#: How many characters are shown on a narrow terminal, at least.
_LEAST_SOURCE = 20


class SourceExcerpts:
    """Renders source lines.

    :param source: gives source lines.
    :param context: how many lines before and after a source line are shown.
    """

    def __init__(self, source: Source, style: Style, context: int) -> None:
        self._source, self._style, self._context = source, style, context

    def below(self, file: str, line: int | None, columns: Columns | None, indent: str) -> list[str]:
        """A source line with its running part marked, and its context lines."""
        text = self._source(file, line) if line is not None else None
        if line is None or not text or not text.strip():
            return []
        part = _part(text, line, columns) if columns is not None else None
        if not self._context:
            return self._marked(text, part, indent)
        around = {number: self._source(file, number) or ""
                  for number in range(max(line - self._context, 1), line + self._context + 1)}
        shown = [number for number, other in around.items() if other.strip()]
        margins = {number: _margin(around[number]) for number in shown}
        least, width = min(margins.values()), len(str(shown[-1]))
        most = _SOURCE_WIDTH if self._style.width is None else self._style.width // 4
        margins = {number: min(margin - least, most) for number, margin in margins.items()}
        lines = []
        for number in range(shown[0], shown[-1] + 1):
            start = f"{indent}{'->' if number == line else '  '} {number:>{width}}"
            if number == line:
                lines += self._marked(text, part, f"{start}  {' ' * margins[number]}")
            elif number in margins:
                lines += self._marked(around[number], None, f"{start}  {' ' * margins[number]}")
            else:
                lines.append(start)
        return lines

    def _marked(self, text: str, part: tuple[int, int] | None, start: str) -> list[str]:
        """A stripped source line after `start`, and a line of carets below its running part."""
        body = text.strip()
        if self._style.width is not None:
            if part is not None:  # escapes are longer than the characters
                part = len(printable(body[:part[0]], _MAX_COLUMN)), len(printable(body[:part[1]], _MAX_COLUMN))
            room = min(max(self._style.width - len(start), _LEAST_SOURCE), _SOURCE_WIDTH)
            body, part = excerpt(printable(body, _MAX_COLUMN), room, part)
        elif part is not None and part[0] >= _SOURCE_WIDTH:
            part = None
        if part is None:
            return [start + self._style.source(printable(body, _SOURCE_WIDTH))]
        before = printable(body[:part[0]])
        inside = printable(body[part[0]:min(part[1], _SOURCE_WIDTH)])
        bold = len(before), len(before) + len(inside)
        return [start + self._style.source(printable(body, _SOURCE_WIDTH), bold),
                " " * (len(start) + columns(before)) + "^" * columns(inside)]


def pieces(text: str, line: int, columns: Columns | None) -> tuple[str, str, str]:
    """A stripped source line, escaped: what is before its running part, the part, and what is after it.

    Without a part, all of it is before.
    """
    part = _part(text, line, columns) if columns is not None else None
    body, part = excerpt(text.strip(), _SOURCE_WIDTH, part)
    start, end = part or (len(body), len(body))
    return printable(body[:start]), printable(body[start:end]), printable(body[end:])


def _part(text: str, line: int, columns: Columns) -> tuple[int, int] | None:
    """The start and end of the running part in the stripped line, in characters; None if it is the whole line.

    A part that spans several lines ends with the first. The result is None, too, if the line is too short to be the
    one that was compiled.
    """
    data = text[:_MAX_COLUMN].encode("utf-8", "replace")
    ending = text[:_MAX_COLUMN].rstrip()
    if columns.start >= len(data) or (columns.end_line == line and columns.end > len(data)):
        return None
    margin, length = len(text) - len(text.lstrip()), len(text.strip())
    start = len(data[:columns.start].decode("utf-8", "ignore"))
    end = len(data[:columns.end].decode("utf-8", "ignore")) if columns.end_line == line else len(ending)
    start, end = max(start - margin, 0), min(end - margin, length)
    return (start, end) if start < end and (start, end) != (0, length) else None


def _margin(text: str) -> int:
    """The indentation of a line in columns, with tab stops every eight columns as in Python."""
    return len(text[:len(text) - len(text.lstrip())].expandtabs())
