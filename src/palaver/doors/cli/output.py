"""Terminal output: tables, JSON, YAML, progress bars and event lines.

On a terminal, tables fit its width and use bold. In a pipe, each row is one plain line. Control characters are removed
from stored text, because they could move the cursor or change the terminal's title. In JSON and YAML they are escaped.
"""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from unicodedata import combining, east_asian_width

from palaver.errors import Invalid
from palaver.model.projects import project_name
from palaver.text.control_characters import SIGNS, without_control_characters

BEGIN, END = "\ue000", "\ue001"
"""Marks around bold text. `styled` replaces them when a line is written."""
NARROWEST = 24
"""Minimum width of a wrapped column."""
REDRAW_SECONDS = 0.1

_UNSEEN = re.compile(f"[{SIGNS}{BEGIN}{END}]")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?Z")
_MARK = re.compile(r"</?mark>")


def is_terminal() -> bool:
    return sys.stdout.isatty()


def bold(text: str) -> str:
    return f"{BEGIN}{text}{END}" if text else ""


def styled(text: str) -> str:
    """Replace the marks of bold text by terminal codes, or remove them."""
    is_styled = is_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    begin, end = ("\x1b[1m", "\x1b[0m") if is_styled else ("", "")
    return text.replace(BEGIN, begin).replace(END, end)


def say(line: str = "") -> None:
    """Print one line on stdout and flush it."""
    sys.stdout.write(styled(line) + "\n")
    sys.stdout.flush()


def note(line: str) -> None:
    """Print a message on stderr. It is not part of the answer."""
    print(f"palaver: {clean(line)}", file=sys.stderr)


@contextmanager
def progress(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr, only shown on a terminal. Call the yielded function with each increment."""
    if not sys.stderr.isatty():
        yield lambda more: None
        return
    import click

    with click.progressbar(length=max(total, 1), label=label, file=sys.stderr) as bar:
        yield bar.update


class StatusLine:
    """One line on stderr, redrawn in place and removed at the end. Only shown on a terminal."""

    def __init__(self, *, is_shown: bool = True) -> None:
        self._is_shown, self._drawn = is_shown and sys.stderr.isatty(), 0.0

    def draw(self, line: str) -> None:
        """Show a line, but not too often. An empty one removes it."""
        if self._is_shown and not (line and time.monotonic() < self._drawn + REDRAW_SECONDS):
            self._drawn = time.monotonic()
            sys.stderr.write("\r\x1b[K" + line)
            sys.stderr.flush()


def read_stdin() -> str:
    """The text on standard input, without its last line break."""
    if sys.stdin.isatty():
        note("Enter the text, then press Ctrl-D.")
    try:
        return sys.stdin.buffer.read().decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise Invalid("The text on standard input is not UTF-8.") from None


def show(
    answer: Any, format: str, *, columns: Sequence[str] = (), rows: str | None = None, text: str | None = None
) -> None:
    """Print an answer. `rows` names the field with the list of rows, `text` the field to print as plain text."""
    if text and isinstance(answer, Mapping):
        if format == "table" and (hint := answer.get("hint")):
            note(str(hint))
        answer = answer[text] if format == "table" else answer
    elif text and format != "table":
        answer = {text: answer}
    listed = answer if isinstance(answer, list) else answer.get(rows) if rows and isinstance(answer, Mapping) else None
    match format:
        case "json":
            say(as_json(answer, indent=2))
        case "yaml":
            say(_as_yaml(answer))
        case "ndjson":
            for one in listed if isinstance(listed, list) else [answer]:
                say(as_json(one))
            if not listed and isinstance(listed, list):
                _show_notes(answer, listed)
        case _ if isinstance(listed, list):
            _show_table(listed, columns)
            _show_notes(answer, listed)
        case _ if isinstance(answer, Mapping):
            _show_fields(answer, columns)
        case _:
            text = clean(str(answer)) if is_terminal() else str(answer)
            sys.stdout.write(text if text.endswith("\n") else text + "\n")
            sys.stdout.flush()


def _show_notes(answer: Any, listed: list[Any]) -> None:
    facts = answer if isinstance(answer, Mapping) else {}
    if hint := facts.get("hint"):
        note(str(hint))
    elif not listed:
        note("No results.")
    elif facts.get("has_more"):
        offset = facts.get("next_offset")
        note(f"There are more results: {f'--offset {offset}' if offset else 'raise --limit'}.")


# Values


def clean(text: str) -> str:
    return without_control_characters(text).replace(BEGIN, "").replace(END, "")


def as_json(value: Any, *, indent: int | None = None) -> str:
    """JSON in which control characters and marks of direction are escaped. The value is the same when it is read."""
    return _escaped(json.dumps(value, indent=indent, ensure_ascii=False))


def _as_yaml(value: Any) -> str:
    import yaml

    class Dumper(yaml.SafeDumper):
        """Puts text with control characters in double quotes, in which they can be escaped."""

    def represent(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if _UNSEEN.search(text) else None)

    Dumper.add_representer(str, represent)
    return _escaped(yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=100).rstrip("\n"))


def _escaped(text: str) -> str:
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _check(status: Mapping[str, Any]) -> str:
    """The state of the background check in one line, and a line for each finding."""
    last, findings = status["last_round_at"], status["findings"]
    if status["state"] == "off" and not last:
        return "no server has checked this data yet"
    said = f"last complete round {cell('', last)}" if last else "no complete round yet"
    if status["state"] == "checking":
        said = f"checking now, {said}"
    said += f", {len(findings) or 'no'} finding{'' if len(findings) == 1 else 's'}"
    return said + "".join(f"\n  ✗ {clean(one['part'])}: {clean(one['says'])}. {one['advice']}." for one in findings)


def cell(name: str, value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case str() if name == "snippet":
            # HTML with <mark> around matches becomes text with bold matches.
            pieces = [clean(html.unescape(piece)) for piece in _MARK.split(value)]
            return "".join(bold(piece) if n % 2 else piece for n, piece in enumerate(pieces))
        case str() if name == "project":
            return clean(project_name(value))
        case str():
            moment = _TIME.fullmatch(value)
            return f"{moment[1]} {moment[2]}" if moment else clean(value)
        case list() if all(isinstance(item, str | int | float) for item in value):
            return clean(", ".join(map(str, value)))
        case list() if all(isinstance(item, dict) and "reaction" in item for item in value):
            return clean(", ".join(item["reaction"] for item in value))
        case {"name": str(model), "passages": int(passages), "done": int(done)}:
            return clean(f"{model}: {done:,} of {passages:,} passages have vectors")
        case {"state": _, "last_round_at": _, "findings": _}:
            return _check(value)
        case dict() | list():
            return clean(json.dumps(value, ensure_ascii=False))
        case _:
            return str(value)


def one_line(text: str) -> str:
    return " ".join(text.split())


def width(text: str) -> int:
    """The number of terminal columns that the text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if c in (BEGIN, END) or combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def _padded(text: str, room: int) -> str:
    return text + " " * (room - width(text))


# Tables and fields


def _show_table(listed: list[Mapping[str, Any]], columns: Sequence[str]) -> None:
    names = list(columns) or list(dict.fromkeys(name for row in listed for name in row))
    table = [[cell(name, row.get(name)) for name in names] for row in listed]
    header = [name.replace("_", " ").upper() for name in names]
    if not is_terminal():
        table = [[one_line(text) for text in row] for row in table]  # one row, one line
    rooms = [max(width(line) for row in [header, *table] for line in row[n].split("\n")) for n in range(len(names))]
    wrapped = _fit(names, rooms, table) if is_terminal() else None
    _show_row([bold(title) for title in header], rooms)
    for row in table:
        if wrapped is None:
            _show_row([one_line(text) if "\n" in text else text for text in row], rooms)
            continue
        lines = list(wrap(row[wrapped], rooms[wrapped])) or [""]
        for number, line in enumerate(lines):
            others = row if number == 0 else [""] * len(row)
            cells = [line if n == wrapped else one_line(text) for n, text in enumerate(others)]
            _show_row(cells, rooms)


def _fit(names: list[str], rooms: list[int], table: list[list[str]]) -> int | None:
    """Shrink the widest column to the terminal's width, and return its index: it will be wrapped.

    Ids are never wrapped, so that they can be copied. Narrow columns are not wrapped either.
    """
    wide = [n for n, name in enumerate(names) if not name.endswith("id") and rooms[n] > NARROWEST]
    if not wide:
        return None
    widest = max(wide, key=lambda n: rooms[n])
    left = shutil.get_terminal_size().columns - sum(rooms) + rooms[widest] - 2 * (len(rooms) - 1)
    has_lines = any("\n" in row[widest] for row in table)
    if rooms[widest] <= left and not has_lines:
        return None
    rooms[widest] = max(NARROWEST, min(rooms[widest], left))
    return widest


def _show_row(cells: list[str], rooms: list[int]) -> None:
    say("  ".join(_padded(text, room) for text, room in zip(cells, rooms, strict=True)).rstrip())


def wrap(text: str, room: int) -> Iterator[str]:
    """Wrap text at spaces, or inside words that are too long. Bold continues on the next line."""
    is_bold = False
    for line in (part for given in text.split("\n") for part in _cut(given.rstrip(), room)):
        line = (BEGIN if is_bold else "") + line
        is_bold = line.rfind(BEGIN) > line.rfind(END)
        yield line + (END if is_bold else "")


def _cut(line: str, room: int) -> Iterator[str]:
    while width(line) > room:
        end, used = 0, 0
        while used + (step := width(line[end])) <= room:
            end, used = end + 1, used + step
        end = max(end, 1)
        blank = line.rfind(" ", 1, end + 1)
        yield line[: blank if blank > 0 else end].rstrip()
        line = line[blank + 1 if blank > 0 else end :]
    yield line


def _show_fields(answer: Mapping[str, Any], columns: Sequence[str]) -> None:
    names = columns or [name for name, value in answer.items() if value not in (None, [], {})]
    room = max((len(name) for name in names), default=0)
    for name in names:
        first, *more = cell(name, answer.get(name)).split("\n")
        say(f"{bold(_padded(name, room))}  {first}".rstrip())
        for line in more:
            say((" " * (room + 2) + line).rstrip())


# Events

SUMMARIES = {
    "msg.new": "{author_name}: {content}",
    "msg.edit": "{edited_by}: {content}",
    "msg.react": "{reaction} on {message_id}",
    "msg.unreact": "{reaction} on {message_id}",
    "msg.delete": "{message_id}",
    "thread.new": "{topic} [{status}]",
    "thread.state": "{topic} [{status}]",
    "thread.deleted": "{topic}",
    "agent.online": "{name}",
    "agent.offline": "{name}",
}
"""What the line of an event says of it, by its type."""


def event_line(id: int, type: str, data: Mapping[str, Any]) -> str:
    """An event on one line: id, type, thread and a summary."""
    thread = str(data.get("thread_id") or "-")
    facts = defaultdict(lambda: None, data)
    if type.startswith("agent."):
        facts["name"] = data.get("display_name") or data.get("name")
    summary = SUMMARIES[type].format_map(facts) if type in SUMMARIES else str(data.get("reason") or "")
    return f"{id}  {bold(_padded(type, 14))}{thread}  {one_line(clean(summary))}".rstrip()
