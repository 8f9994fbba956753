"""Embedding vectors of passages. They are computed in the background. A passage that changes loses its vector."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import orjson

from palaver.model.times import micros, now
from palaver.store.engines.database import Change, Reader


class Missing(NamedTuple):
    id: int
    text: str


class Counts(NamedTuple):
    passages: int
    vectors: int


def missing(read: Reader, model: str, after: int, limit: int) -> list[Missing]:
    """Passages without a vector of this model, in the order of their ids."""
    rows = read.all("vectors_missing", model=model, after=after, limit=limit)
    return [Missing(row["id"], row["text"]) for row in rows]


def put(change: Change, model: str, made: Iterable[tuple[Missing, bytes]]) -> None:
    """Store vectors, except for passages whose text has changed meanwhile."""
    made_at = micros(now())
    for one, vector in made:
        change.run("put_vector", id=one.id, model=model, text=one.text, vector=vector, made_at=made_at)


def of(read: Reader, model: str, passage_ids: Sequence[int]) -> dict[int, bytes]:
    rows = read.all("vectors_of", model=model, ids=orjson.dumps(list(passage_ids)).decode())
    return {row["passage_id"]: bytes(row["vector"]) for row in rows}


def counts(read: Reader, model: str) -> Counts:
    row = read.must("count_vectors", model=model)
    return Counts(row["passages"], row["vectors"])


class StoredVector(NamedTuple):
    passage_id: int
    made_at: int
    vector: bytes


def made_since(read: Reader, model: str, made_at: int, limit: int) -> list[StoredVector]:
    """Vectors that were made at this time or later, the oldest first."""
    return [StoredVector._make(row) for row in read.rows("vectors_since", model=model, made_at=made_at, limit=limit)]


def after(read: Reader, model: str, passage_id: int, limit: int) -> list[StoredVector]:
    """The vectors of passages after this one, by passage id."""
    return [
        StoredVector._make(row) for row in read.rows("vectors_after", model=model, passage_id=passage_id, limit=limit)
    ]


def newest(read: Reader, model: str) -> int:
    """When the newest vector was made; 0 if there is none."""
    return int(read.must("newest_vector", model=model)["made_at"])


def counts_up_to(read: Reader, model: str, most: int) -> int:
    """The number of vectors, at most `most`."""
    return int(read.must("count_vectors_up_to", model=model, most=most)["vectors"])
