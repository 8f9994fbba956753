"""How similar passages are to a question by the vectors of the model of PALAVER_MODEL, and which are nearest to it.

Vectors are made in the background. A passage that has none yet is judged by its words alone.

The signs of all vectors are kept in memory: 56 bytes a passage. The number of equal signs says well enough which
passages are near. A million passages take about 16 ms.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Collection, Sequence
from functools import lru_cache, partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from palaver.search.vectors import encoders
from palaver.search.vectors.encoders import WORDS, CannotEncode
from palaver.store.engines.database import Dialect, Reader, Scope
from palaver.store.search import found_passages, vectors
from palaver.store.search.vectors import StoredVector
from palaver.store.workspaces import Workspace

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

ANSWER_SECONDS = 3.0
PAUSE_SECONDS = 30.0
"""How long a model that failed is not asked again."""

MOST_FOUND = 1_000
"""Passages without a vector that searches found and that are remembered in each workspace."""
AT_ONCE = 20_000
"""Vectors that are loaded in one read."""
OVERLAP = 10_000_000
"""Microseconds: vectors that were made so shortly before the last one are read again. Another server may have
committed them late."""
LOAD_SECONDS = 1.0
"""How long a question may load the index. What is left is loaded in the background, or by the next questions."""
ROWS_AT_ONCE = 65_536
"""Rows whose signs are compared at once: they fit into the cache of a processor."""
FEW_IN_SCOPE = 0.05
MOST_LISTED = 20_000
"""If fewer of the nearest passages are in scope, the passages of the scope are listed, unless there are more."""
MOST_GROWTH = 8
"""How many times as many rows are looked at in the next step, at most."""
COMPARED = 500
"""The passages in scope with the most equal signs, which are compared with the question itself."""


log = logging.getLogger("palaver")
_found: WeakKeyDictionary[Dialect, deque[int]] = WeakKeyDictionary()
"""Passages of each open workspace that were found and have no vector; the last found ones come last."""
_failed_at: dict[str, float] = {}


@lru_cache(maxsize=512)
def _encoded(settings: tuple[str, str, str], text: str) -> Array:
    encoder = encoders.encoder(*settings)
    assert encoder is not None
    found: Array = encoder.encode([text], ANSWER_SECONDS)[0]
    return found


def question_vector(read: Reader, text: str) -> Array | None:
    """The vector of a question; None if no model is configured or it does not answer."""
    settings = read.settings
    if settings.model == WORDS or time.monotonic() - _failed_at.get(settings.model, -PAUSE_SECONDS) < PAUSE_SECONDS:
        return None
    try:
        return _encoded((settings.model, settings.model_url, settings.model_key), text)
    except CannotEncode as problem:
        _failed_at[settings.model] = time.monotonic()
        log.warning("the model %s does not answer, words alone are used: %s", settings.model, problem)
        return None


def similarity(read: Reader, question: Array, passage_ids: Sequence[int]) -> dict[int, float]:
    """The similarity of those passages that have a vector, from -1 to 1."""
    known = vectors.of(read, encoders.stored_name(read.settings.model), passage_ids)
    size = len(question)
    fitting = {id: vector for id, vector in known.items() if len(vector) == size}
    return dict(zip(fitting, encoders.similarity(question, list(fitting.values())), strict=True))


def make_soon(read: Reader, passage_ids: Sequence[int]) -> None:
    """Remember passages that were found and have no vector. Theirs are made before others, for the next question."""
    _found.setdefault(read.connection.dialect, deque(maxlen=MOST_FOUND)).extend(passage_ids)


def to_make_soon(read: Reader, limit: int) -> list[int]:
    """Take some of these passages, those that were found last."""
    waiting = _found.get(read.connection.dialect, deque[int]())
    return [waiting.pop() for _ in range(min(limit, len(waiting)))]


# The index of signs


class SignIndex:
    """The signs of the vectors of one workspace and model."""

    def __init__(self, model: str) -> None:
        import numpy as np

        self.model = model
        self.made_at = 0
        self.is_loaded = False
        self.is_wanted = False
        """A question has asked for it, but it is large. The rest is loaded in the background."""
        self._recent: dict[int, int] = {}
        """When the vectors were made that may be read again, by passage."""
        self._loaded_to = -1
        self._newest_at_start = 0
        self._loading = threading.Lock()
        self._lock = threading.Lock()
        self._np = np
        self._count = 0
        self._ids = np.empty(0, np.int64)
        self._in_order: tuple[Array, Array] | None = None
        self._bits = np.empty((0, 0), np.uint64)

    def __len__(self) -> int:
        return self._count

    def add(self, rows: Sequence[StoredVector]) -> None:
        """Add vectors. A passage whose vector was made again is in the index twice; the old row does no harm."""
        np = self._np
        size = max(len(row.vector) for row in rows)
        signs = np.frombuffer(b"".join(row.vector for row in rows if len(row.vector) == size), np.int8)
        packed = np.packbits(signs.reshape(-1, size) > 0, axis=1)
        bits = np.pad(packed, ((0, 0), (0, -packed.shape[1] % 8))).view(np.uint64).T
        ids = np.array([row.passage_id for row in rows if len(row.vector) == size], np.int64)
        with self._lock:
            if len(self._bits) != len(bits):
                self._bits, self._ids, self._count = np.empty((len(bits), 0), np.uint64), self._ids[:0], 0
            end = self._count + len(ids)
            if end > len(self._ids):
                room = max(end, len(self._ids) * 5 // 4, 1024)
                grown = np.empty((len(bits), room), np.uint64)
                grown[:, : self._count] = self._bits[:, : self._count]
                more = np.empty(room, np.int64)
                more[: self._count] = self._ids[: self._count]
                self._bits, self._ids = grown, more
            self._bits[:, self._count : end] = bits
            self._ids[self._count : end] = ids
            self._count, self._in_order = end, None
            self.made_at = max(self.made_at, *(row.made_at for row in rows))

    def load(self, read: Reader, seconds: float) -> None:
        """Load the vectors of the workspace, or as many as can be read in some seconds. The next call goes on."""
        until = time.monotonic() + seconds
        with self._loading:
            if self._loaded_to < 0:
                self._newest_at_start = vectors.newest(read, self.model)
            while not self.is_loaded:
                if rows := vectors.after(read, self.model, self._loaded_to, AT_ONCE):
                    self.add(rows)
                    self._loaded_to = rows[-1].passage_id
                else:
                    self.made_at = self._newest_at_start  # what was made meanwhile is read again
                    self.is_loaded = True
                if time.monotonic() > until:
                    break

    def add_new(self, read: Reader) -> None:
        """Add the vectors that were made since the last one."""
        since, passage_id = self.made_at - OVERLAP, -1
        self._recent = {id: made_at for id, made_at in list(self._recent.items()) if made_at >= since}
        while rows := vectors.made_since(read, self.model, since, passage_id, AT_ONCE):
            since, passage_id = rows[-1].made_at, rows[-1].passage_id
            if new := [row for row in rows if self._recent.get(row.passage_id) != row.made_at]:
                self.add(new)
                self._recent.update((row.passage_id, row.made_at) for row in new)

    def rows(self) -> IndexRows:
        """The rows as they are now."""
        np = self._np
        with self._lock:
            ids = self._ids[: self._count]
            if self._in_order is None:
                by_id = np.argsort(ids, kind="stable").astype(np.int32)
                self._in_order = ids[by_id], by_id
            return IndexRows(ids, self._bits[:, : self._count], *self._in_order)


class IndexRows(NamedTuple):
    """The rows of an index at one moment."""

    ids: Array
    """The passage of each row."""
    bits: Array
    """The signs of each row: 64 in each number."""
    sorted_ids: Array
    by_id: Array
    """The rows in the order of `sorted_ids`. If a passage has two rows, the newer one comes last."""


_indexes: WeakKeyDictionary[Dialect, SignIndex] = WeakKeyDictionary()
"""The index of each open workspace; a workspace has a dialect of its own."""
_opening = threading.Lock()


def index_of(read: Reader) -> SignIndex | None:
    """The index of the workspace, with the vectors that were made since the last question. None if it is not loaded."""
    if read.settings.model == WORDS:
        return None
    model, dialect = encoders.stored_name(read.settings.model), read.connection.dialect
    with _opening:
        found = _indexes.get(dialect)
        if found is None or found.model != model:
            found = _indexes[dialect] = SignIndex(model)
    if not found.is_loaded:
        found.load(read, LOAD_SECONDS)
        if not found.is_loaded:
            found.is_wanted = True
            return None
    if vectors.newest(read, model) > found.made_at:
        found.add_new(read)
    return found


async def load_wanted(here: Workspace) -> None:
    """Load the rest of a large index, if a question has asked for it."""
    index = await here.read(lambda read: _indexes.get(read.connection.dialect))
    while index is not None and index.is_wanted and not index.is_loaded:
        await here.read(partial(index.load, seconds=LOAD_SECONDS))


async def load_whole(here: Workspace) -> None:
    """Load the whole index before the first question, for measuring."""
    while here.settings.model != WORDS and await here.read(index_of) is None:
        pass  # each read goes on where the last one ended


class Nearest:
    """How far all passages are from a question."""

    def __init__(self, index: SignIndex, question: Array) -> None:
        import numpy as np

        self._np, self._question = np, question
        self._index = index.rows()
        self._distances = distances(self._index.bits, question)

    def __len__(self) -> int:
        return len(self._distances)

    def similarity(self, passage_ids: Sequence[int]) -> dict[int, float]:
        """The cosine of the question and the signs of each passage that has a vector: a little below that of the
        vectors themselves."""
        np = self._np
        wanted = np.array(passage_ids, np.int64)
        rows, is_known = self._rows(wanted)
        values = self._cosines(rows[is_known])
        return dict(zip(wanted[is_known].tolist(), values.tolist(), strict=True))

    def best_first(
        self,
        groups: Sequence[Collection[int]],
        values: Sequence[float],
        weight: float,
        preferred: Collection[int],
        bonus: float,
    ) -> list[int]:
        """The passages of all groups, by the value of the group and the share of equal signs. Preferred ones get a
        bonus; where all is equal, the newest comes first."""
        np = self._np
        ids = np.fromiter(chain.from_iterable(groups), np.int64)
        rows, is_known = self._rows(ids)
        equal = 1 - self._distances[rows] / len(self._question)
        equal[~is_known] = np.median(equal[is_known]) if is_known.any() else 0.5
        points = np.repeat(np.array(values), [len(group) for group in groups]) + weight * equal
        if preferred:
            points += bonus * np.isin(ids, np.fromiter(preferred, np.int64))
        found: list[int] = ids[np.lexsort((-ids, -points))].tolist()
        return found

    def in_scope(self, read: Reader, scopes: Sequence[Scope], wanted: int, least: float = -1.0) -> list[int]:
        """The nearest passages that are in one of the scopes, the nearest first, with at least this similarity.

        Passages outside change nothing: an agent must not see from its results that others exist.
        """
        similar = self.similarity(self._with_most_equal_signs(read, scopes))
        near = [id for id, value in similar.items() if value >= least]
        return sorted(near, key=lambda id: (-similar[id], id))[:wanted]

    def _with_most_equal_signs(self, read: Reader, scopes: Sequence[Scope]) -> list[int]:
        """The COMPARED passages in scope with the most equal signs."""
        np = self._np
        sizes = np.cumsum(np.bincount(self._distances, minlength=1))
        found: list[int] = []
        most, limit = COMPARED, -1
        while len(found) < COMPARED and limit < len(sizes) - 1:
            before, limit = limit, int(np.searchsorted(sizes, most))
            limit = min(max(limit, before + 1), len(sizes) - 1)
            rows = np.flatnonzero((self._distances <= limit) & (self._distances >= before + 1))
            found += found_passages.in_scopes(read, self._in_order(rows), scopes)
            checked = int(sizes[limit])
            if before < 0 and len(found) < FEW_IN_SCOPE * checked:
                listed = found_passages.listed(read, scopes, MOST_LISTED)
                if listed is not None:
                    return self._first_in_scope(read, listed, scopes)
            missing = COMPARED - len(found)
            expected = missing * checked // max(len(found), 1)  # rows that have as many in scope
            most = checked + min(expected * 6 // 5, MOST_GROWTH * checked)
        return list(dict.fromkeys(found))[:COMPARED]

    def _first_in_scope(self, read: Reader, passage_ids: Collection[int], scopes: Sequence[Scope]) -> list[int]:
        """The COMPARED of these passages that are in scope and have the most equal signs."""
        rows, is_known = self._rows(self._np.fromiter(passage_ids, self._np.int64))
        ids = self._in_order(rows[is_known])
        found: list[int] = []
        for at in range(0, len(ids), COMPARED):
            found += found_passages.in_scopes(read, ids[at : at + COMPARED], scopes)
            if len(found) >= COMPARED:
                break
        return found[:COMPARED]

    def _in_order(self, rows: Array) -> list[int]:
        """The passages of these rows, those with the most equal signs first."""
        ids = self._index.ids[rows]
        found: list[int] = ids[self._np.lexsort((ids, self._distances[rows]))].tolist()
        return found

    def _rows(self, passage_ids: Array) -> tuple[Array, Array]:
        """The rows of passages, and whether each has one."""
        np = self._np
        order = np.argsort(passage_ids)  # numpy looks up sorted values three times as fast
        places = np.empty(len(order), np.int64)
        places[order] = np.searchsorted(self._index.sorted_ids, passage_ids[order], side="right") - 1
        places = np.maximum(places, 0)
        return self._index.by_id[places], self._index.sorted_ids[places] == passage_ids

    def _cosines(self, rows: Array) -> Array:
        np, size = self._np, len(self._question)
        packed = np.ascontiguousarray(self._index.bits[:, rows].T).view(np.uint8)
        signs = np.unpackbits(packed, axis=1, count=size).astype(np.float32) * 2 - 1
        found: Array = signs @ self._question / max(float(np.linalg.norm(self._question)) * size**0.5, 1e-9)
        return found


def distances(bits: Array, question: Array) -> Array:
    """How many signs of each row differ from those of the question. Empty if the vectors have another length."""
    import numpy as np

    own = np.packbits(question > 0)
    own = np.pad(own, (0, -len(own) % 8)).view(np.uint64)
    if len(own) != len(bits):
        return np.empty(0, np.uint16)
    found = np.zeros(bits.shape[1], np.uint16)
    different, counts = np.empty(ROWS_AT_ONCE, np.uint64), np.empty(ROWS_AT_ONCE, np.uint8)
    for at in range(0, len(found), ROWS_AT_ONCE):
        some = found[at : at + ROWS_AT_ONCE]
        for word, row in zip(own, bits, strict=True):
            np.bitwise_xor(row[at : at + len(some)], word, out=different[: len(some)])
            some += np.bitwise_count(different[: len(some)], out=counts[: len(some)])
    return found


def nearest(read: Reader, question: Array) -> Nearest | None:
    """The distances of all passages; None while the index is not loaded, and if it is empty."""
    index = index_of(read)
    found = Nearest(index, question) if index is not None and len(index) else None
    return found if found is not None and len(found) else None
