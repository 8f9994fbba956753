"""Import the session files of Claude Code, Codex and Copilot CLI with their line readers: one conversation a file.

The modules of the readers say what is kept and left out. A line that cannot be read, or an incomplete last line, is
left out and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from palaver.importers import LineReader, ReadProgress, Unreadable, object_in
from palaver.importers.files.lines import head_after_damage, lines
from palaver.importers.item import Item, RawBranch, RawConversation, RawMessage, Skipped, collect_messages
from palaver.model.library import Conversation


@dataclass(frozen=True)
class SessionFiles:
    name: str
    reader: LineReader

    def recognises(self, item: Item, head: bytes) -> bool:
        path = _path(item)
        if self.reader.recognises(path, head):
            return True
        is_damaged = path.suffix == ".jsonl" and not object_in(head.lstrip().partition(b"\n")[0])
        return is_damaged and self.reader.recognises(path, head_after_damage(item))

    def conversations(self, item: Item) -> Iterator[Conversation | Skipped]:
        reading = self.reader.begin(_path(item))
        reading.tool_output = item.tool_output
        skipped: Counter[str] = Counter()
        gone = self.reader.superseded(b"" if isinstance(line, Skipped) else line for line in lines(item))
        rewound = _RewoundTurns()
        gathered = collect_messages(self._said(item, reading, skipped, gone, rewound))
        for why, count in skipped.items():
            yield Skipped(item.name, why, count)
        # Codex may continue a session in a second file, which has a longer name of its own.
        id = reading.name if self.name == "codex" and reading.name else reading.session_id or reading.name
        named = self.reader.name_beside(item.path, reading) if item.path else None
        title = named or (reading.title if reading.title_rank else None)
        parent = _parent(id) or reading.parent
        conversation = RawConversation(
            id, gathered, title, folder=reading.cwd, parent=parent, branches=rewound.branches
        )
        yield from conversation.build(item.name, self.name)

    def _said(
        self, item: Item, reading: ReadProgress, skipped: Counter[str], gone: set[int], rewound: _RewoundTurns
    ) -> Iterator[RawMessage]:
        for line in lines(item):
            if isinstance(line, Skipped):
                reading.lines += 1
                skipped[line.why] += 1
                continue
            if not line.strip():
                reading.lines += 1  # ids hold the number of the line, as in `palaver watch`
                continue
            try:
                said_here = self.reader.read_line(line, reading)
                drafts = [RawMessage(said.id, said.role, said.text, said.ts, said.tool) for said in said_here]
                rewound.add(drafts, is_rewound=reading.lines in gone)
                yield from drafts if reading.lines not in gone else ()
            except Unreadable as problem:
                is_torn = not line.endswith(b"\n")
                skipped["the last line is not complete" if is_torn else f"a line {problem}"] += 1


class _RewoundTurns:
    """Turns that were rewound, as branches: each run of them follows the turn before it."""

    def __init__(self) -> None:
        self.branches: list[RawBranch] = []
        self._after: str | None = None
        self._is_open = False

    def add(self, drafts: list[RawMessage], *, is_rewound: bool) -> None:
        if not drafts:
            return
        if not is_rewound:
            self._after, self._is_open = drafts[-1].id, False
            return
        if not self._is_open:
            self.branches.append(RawBranch(self._after, []))
            self._is_open = True
        self.branches[-1].messages.extend(drafts)


def _parent(id: str) -> str | None:
    """The session that started this one, if it is a subagent of Claude Code: `SESSION.agent-1`."""
    parent, found, _ = id.partition(".agent-")
    return parent if found and parent else None


def _path(item: Item) -> Path:
    return item.path or Path(item.file_name)
