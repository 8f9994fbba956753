"""Which edit wrote a line: the edits of recorded sessions are compared with the line and its neighbours.

Lines are compared without blanks and with one kind of quotes, so that a formatter or another indentation changes
nothing. A line that the formatter broke or joined is found by its words in a row. A wrong answer is worse than none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from palaver.operations.sessions.steps import EditedFile
from palaver.text.lines import joined, squeezed

NEIGHBOURS = 6
"""So many lines before and after the line are compared."""
SURE_WORDS = 5
"""A line with so many words is seldom in two places."""
FEW_WORDS, MANY_NEIGHBOURS = 1, 5
"""A line with so few words needs the same line before it and after it, or so many neighbours."""
FAR = timedelta(days=30)
ALMOST_ALL = 0.75
"""An edit that was made so long before the commit needs this share of the neighbours."""
LEAST_ELSEWHERE = 4
"""So many neighbours must a line have that was written in another file."""

_WORD = re.compile(r"\w+")


def is_same_file(path: str | None, wanted: str, project_name: str) -> bool:
    """Whether two paths end alike. One of them may be absolute, or from another machine."""
    if path is None:
        return False
    one, other = sorted((_parts(path), _parts(wanted)), key=len)
    if other[-len(one) :] != one:
        return False
    return len(one) > 1 or len(other) == 1 or other[-2] == project_name.casefold()


def _parts(path: str) -> list[str]:
    return [part for part in path.replace("\\", "/").casefold().split("/") if part not in ("", ".")]


@dataclass(frozen=True, slots=True)
class RecordedEdit:
    """An edit in a session. `is_same_file`: of the file that was asked for."""

    passage_id: int
    at: datetime
    edit: EditedFile
    is_same_file: bool

    @property
    def file(self) -> tuple[str, ...]:
        """The end of its path, which is the same on every machine."""
        return tuple(_parts(self.edit.path or "")[-2:])


class Sought:
    """A line whose edit is sought, with the lines around it, and the time of its commit if it was committed."""

    def __init__(self, line: str, before: Sequence[str], after: Sequence[str], until: datetime | None = None) -> None:
        self._line = squeezed(line)
        self._words = len(_WORD.findall(line))
        before = [one for one in before if one.strip()][-NEIGHBOURS:]
        after = [one for one in after if one.strip()][:NEIGHBOURS]
        self._neighbours = {squeezed(one) for one in [*before, *after] if _WORD.search(one)} - {self._line}
        self._in_a_row = joined([*before[-1:], line, *after[:1]])
        self._until = until

    def origin(self, edits: Iterable[RecordedEdit]) -> RecordedEdit | None:
        """The edit that wrote the line; None if that is not sure."""
        in_order = sorted(edits, key=lambda one: one.at)
        here = self._writer([one for one in in_order if one.is_same_file])
        # A block that was moved here was written where it was taken away.
        left = {one.file for one in in_order if not one.is_same_file and self._takes_block_away(one.edit)}
        moved = [one for one in in_order if one.file in left and not (here and one.at > here.at)]
        return self._writer(moved, is_moved=True) or here

    def _writer(self, edits: Sequence[RecordedEdit], *, is_moved: bool = False) -> RecordedEdit | None:
        """The first edit that added the line, after the last one that removed it. Of a line that is in many places, the
        one with the same neighbours."""
        near = {n: self._neighbours_in(one.edit) for n, one in enumerate(edits) if self._is_in(one.edit.added)}
        if not near and self._words:  # a formatter may have broken the line, or joined it with others
            near_enough = (one for one in edits if not self._is_far(one))
            return next((one for one in near_enough if self._in_a_row in joined(one.edit.added)), None)
        most = max(near.values(), default=0)
        writer = None
        for n, one in enumerate(edits):
            if n in near:
                if writer is None and self._is_sure(one, near[n], most, is_moved):
                    writer = one
            elif self._is_in(one.edit.removed) and not is_moved:
                writer = None
        return writer

    def _is_sure(self, one: RecordedEdit, near: int, most: int, is_moved: bool) -> bool:
        if is_moved:
            return near >= LEAST_ELSEWHERE
        if self._is_far(one) and near < ALMOST_ALL * len(self._neighbours):
            return False
        if self._words >= SURE_WORDS:
            return True
        if self._words <= FEW_WORDS and near < MANY_NEIGHBOURS and self._in_a_row not in joined(one.edit.new):
            return False
        least = 1 if self._words == SURE_WORDS - 1 or len(self._neighbours) == 1 else 2
        return near >= max(least, min(most, 2))

    def _is_far(self, one: RecordedEdit) -> bool:
        return self._until is not None and self._until - one.at > FAR

    def _takes_block_away(self, edit: EditedFile) -> bool:
        gone = {squeezed(one) for one in edit.removed}
        return self._line in gone and len(self._neighbours & gone) >= LEAST_ELSEWHERE

    def _neighbours_in(self, edit: EditedFile) -> int:
        return len(self._neighbours & {squeezed(one) for one in edit.new})

    def _is_in(self, lines: Sequence[str]) -> bool:
        return any(squeezed(one) == self._line for one in lines)
