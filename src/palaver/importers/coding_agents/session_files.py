"""Import the session files of Claude Code, Codex and Copilot CLI with their line readers: one conversation a file.

The modules of the readers say what is kept and left out. A line that cannot be read, or an incomplete last line, is
left out and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from palaver.importers import LineReader, ReadProgress, Said, Unreadable, object_in
from palaver.importers.files.streams import head_after_damage, lines
from palaver.importers.item import Item, RawBranch, RawConversation, Skipped, collect_messages
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
        branches: list[RawBranch] = []
        gathered = collect_messages(self._said(item, reading, skipped, gone, branches))
        for why, count in skipped.items():
            yield Skipped(item.name, why, count)
        # Codex may continue a session in a second file, which has a longer name of its own.
        id = reading.name if self.name == "codex" and reading.name else reading.session_id or reading.name
        named = self.reader.name_beside(item.path, reading) if item.path else None
        title = named or (reading.title if reading.title_rank else None)
        main, is_subagent, _ = id.partition(".agent-")  # a subagent of Claude Code: `SESSION.agent-1`
        parent = main if main and is_subagent else reading.parent
        conversation = RawConversation(id, gathered, title, folder=reading.cwd, parent=parent, branches=branches)
        yield from conversation.build(item.name, self.name)

    def _said(
        self, item: Item, reading: ReadProgress, skipped: Counter[str], gone: set[int], branches: list[RawBranch]
    ) -> Iterator[Said]:
        """The messages of the session. Each run of rewound turns becomes a branch, which follows the turn before it."""
        after: str | None = None
        for line in lines(item):
            if isinstance(line, Skipped):
                reading.lines += 1
                skipped[line.why] += 1
                continue
            if not line.strip():
                reading.lines += 1  # ids hold the number of the line, as in `palaver watch`
                continue
            try:
                said = self.reader.read_line(line, reading)
                if said and reading.lines not in gone:
                    after = said[-1].id
                    yield from said
                elif said:
                    if not branches or branches[-1].after != after:
                        branches.append(RawBranch(after, []))
                    branches[-1].messages.extend(said)
            except Unreadable as problem:
                is_torn = not line.endswith(b"\n")
                skipped["the last line is not complete" if is_torn else f"a line {problem}"] += 1


def _path(item: Item) -> Path:
    return item.path or Path(item.file_name)
