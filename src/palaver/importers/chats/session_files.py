"""Sessions of Claude Code and Codex as conversations: one a file, read by the readers of lines beside this.

What is kept and what is left out they say themselves. A line that cannot be read is left out and counted; a last line
that was not written to its end is one of those.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from palaver.importers import Reader, Reading, Unreadable
from palaver.importers.files.lines import lines
from palaver.importers.item import Draft, Item, Skipped, gather, tell
from palaver.model.library import Conversation


@dataclass(frozen=True)
class SessionFiles:
    name: str
    reader: Reader

    def recognises(self, item: Item, head: bytes) -> bool:
        return self.reader.recognises(_path(item), head)

    def conversations(self, item: Item) -> Iterator[Conversation | Skipped]:
        reading = self.reader.begin(_path(item))
        reading.tool_output = item.tool_output
        skipped: Counter[str] = Counter()
        gone = self.reader.superseded(_raw(item))
        gathered = gather(self._said(item, reading, skipped, gone))
        for why, count in skipped.items():
            yield Skipped(item.name, why, count)
        # Codex may go on with a session in a second file, which then has a longer name of its own.
        id = reading.name if self.name == "codex" and reading.name else reading.session_id or reading.name
        named = self.reader.name_beside(item.path, reading) if item.path else None
        title = named or (reading.title if reading.title_rank else None)
        yield from tell(item.name, self.name, id, gathered, title=title, folder=reading.cwd)

    def _said(self, item: Item, reading: Reading, skipped: Counter[str], gone: set[int]) -> Iterator[Draft]:
        for line in lines(item):
            if isinstance(line, Skipped):
                reading.lines += 1
                skipped[line.why] += 1
                continue
            if not line.strip():
                reading.lines += 1  # ids are made of the number of a line, and are the same as those of `palaver watch`
                continue
            try:
                said_here = self.reader.read_line(line, reading)
                for said in said_here if reading.lines not in gone else ():
                    yield Draft(said.id, said.role, said.text, said.ts)
            except Unreadable as problem:
                is_torn = not line.endswith(b"\n")
                skipped["the last line is not complete" if is_torn else f"a line {problem}"] += 1


def _raw(item: Item) -> Iterator[bytes]:
    """Its lines, as many as there are; one that is too long is an empty one here."""
    for line in lines(item):
        yield b"" if isinstance(line, Skipped) else line


def _path(item: Item) -> Path:
    return item.path or Path(item.file_name)
