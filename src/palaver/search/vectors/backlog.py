"""Which passages of a workspace need vectors, and in which order: typed text before answers, newest first.

All of it is in memory. Passages are read in windows, so no query reads many, however large the workspace is. New
passages have higher ids than those before.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from palaver.store.engines.database import Reader
from palaver.store.search import vectors
from palaver.store.search.vectors import ANSWER, TYPED, Candidate, Missing

WINDOW = 500
"""Passages that one query looks at."""
MOST_WINDOWS = 4
"""Windows that one call reads at most."""
MOST_STRETCHES = 32
SETTLE_SECONDS = 60.0
"""Ids are looked at again after this time: on PostgreSQL a transaction may commit after another with higher ids."""
AGAIN_SECONDS = 3_600.0
"""How often all passages are looked at, for those that are not noticed otherwise, such as one with a reused id."""


@dataclass(slots=True)
class Stretch:
    """Ids in (after, upto] that were not looked at, and passages above them that need vectors."""

    after: int
    upto: int
    waiting: deque[Candidate] = field(default_factory=deque)

    @property
    def is_read(self) -> bool:
        return self.upto <= self.after

    @property
    def top(self) -> int:
        return max((one.id for one in self.waiting), default=self.upto)


class Backlog:
    """Call `look` and then `next`, again and again."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._lowest = vectors.lowest_ids()
        self._highest = self._lowest
        self._stretches: dict[int, list[Stretch]] = {TYPED: [], ANSWER: []}
        self._given_back: list[int] = []
        # All ids up to `settled` are final; those up to `settling` will be, SETTLE_SECONDS after `settling_since`.
        self._settled = self._settling = self._lowest
        self._settling_since = self._all_since = 0.0
        self.not_wanted: list[int] = []
        """Passages that have changed and get no vector. Their rows can be removed."""

    @property
    def is_empty(self) -> bool:
        """Whether all passages that were noted have been given out."""
        return not self._given_back and not any(self._stretches.values())

    def look(self, read: Reader) -> None:
        """Note passages that were added since the last look."""
        now, highest = time.monotonic(), vectors.highest_ids(read)
        for before, last in zip(self._highest, highest, strict=True):
            self._add(TYPED, before, last)
        if self._highest is self._lowest:
            self._settled = self._settling = highest
            self._settling_since = self._all_since = now
        self._highest = highest
        if now - self._settling_since > SETTLE_SECONDS:
            for settled, last in zip(self._settled, self._settling, strict=True):
                self._add(TYPED, settled, last)
            self._settled, self._settling, self._settling_since = self._settling, highest, now
        if now - self._all_since > AGAIN_SECONDS and self.is_empty:
            for first, last in zip(self._lowest, highest, strict=True):
                self._add(TYPED, first, last)
            self._all_since = now

    def next(self, read: Reader, limit: int) -> list[Missing]:
        """The passages whose vectors are made next. If there are none but the backlog is not empty, call it again."""
        changed = vectors.stale(read, limit)
        self.not_wanted = [one.id for one in changed if not one.is_wanted]
        found = [Missing(one.id, one.text) for one in changed if one.is_wanted]
        ids, self._given_back = self._given_back, []
        windows = 0
        for rank, stretches in self._stretches.items():
            while len(found) + len(ids) < limit and stretches:
                for stretch in stretches:
                    while not stretch.waiting and not stretch.is_read and windows < MOST_WINDOWS:
                        self._read_window(read, stretch, rank)
                        windows += 1
                stretches[:] = [one for one in stretches if one.waiting or not one.is_read]
                if not stretches or not all(one.waiting for one in stretches):
                    break
                newest = max(stretches, key=lambda one: (one.waiting[0].created_at, one.waiting[0].id))
                ids.append(newest.waiting.popleft().id)
            if stretches:
                break
        known = {one.id for one in found}
        return found + vectors.missing(read, self._model, [id for id in dict.fromkeys(ids) if id not in known])

    def give_back(self, passages: Sequence[Missing]) -> None:
        """Keep passages whose vectors could not be made. They are the next ones again."""
        self._given_back = [one.id for one in passages]

    def _read_window(self, read: Reader, stretch: Stretch, rank: int) -> None:
        upto = stretch.upto
        rows = vectors.window(read, self._model, stretch.after, upto, WINDOW)
        wanted = [one for one in rows if one.rank == rank]
        stretch.waiting.extend(sorted(wanted, key=lambda one: (one.created_at, one.id), reverse=True))
        stretch.upto = rows[-1].id - 1 if len(rows) == WINDOW else stretch.after
        if rank == TYPED and any(one.rank == ANSWER for one in rows):
            self._add(ANSWER, stretch.upto, upto)

    def _add(self, rank: int, after: int, upto: int) -> None:
        stretches = self._stretches[rank]
        if upto <= after:
            return
        for one in stretches:
            if one.after == upto:
                one.after = after
                return
        stretches.append(Stretch(after, upto))
        if len(stretches) > MOST_STRETCHES:  # many small imports: join those of each range of ids
            joined: dict[int, Stretch] = {}
            for one in stretches:
                same = joined.setdefault(bisect_left(self._lowest, one.top), Stretch(one.after, one.top))
                same.after, same.upto = min(same.after, one.after), max(same.upto, one.top)
            stretches[:] = joined.values()
