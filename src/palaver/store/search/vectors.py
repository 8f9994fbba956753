"""Vectors of passages. They are made in the background, and a passage has at most one.

A passage that changes keeps a row with an empty model until its new vector is made.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import orjson

from palaver.model.times import micros, now
from palaver.store.engines.database import Change, Reader
from palaver.store.engines.id_ranges import SOURCES, id_range_of


class Missing(NamedTuple):
    id: int
    text: str


class PassageToEmbed(NamedTuple):
    """A passage that needs a vector. The larger it is, the sooner."""

    is_typed: int
    """1: written by a person, or for others to read. 0: an answer of an assistant."""
    created_at: int
    id: int


class Stale(NamedTuple):
    """A passage that has changed since its vector was made."""

    id: int
    text: str
    is_wanted: bool


class VectorCounts(NamedTuple):
    passages: int
    """Those that get a vector."""
    vectors: int


# What is missing


def highest_ids(read: Reader) -> list[int]:
    """The highest id of each range of bodies that a source has. PostgreSQL uses the first range only."""
    ranges = [id_range_of(source) for source in SOURCES]
    rows = read.rows("highest_passage_ids", rows=orjson.dumps(ranges).decode())
    return [first - 1 if id is None else id for (id,), (first, _) in zip(rows, ranges, strict=True)]


def lowest_ids() -> list[int]:
    """One less than the first id of each of these ranges."""
    return [id_range_of(source)[0] - 1 for source in SOURCES]


def candidates(read: Reader, model: str, after: int, upto: int, limit: int) -> list[PassageToEmbed]:
    """The first of those passages with ids in (after, upto] that need a vector."""
    rows = read.rows("passages_to_encode", model=model, after=after, upto=upto, limit=limit)
    return [PassageToEmbed._make(row) for row in rows]


def missing(read: Reader, model: str, passage_ids: Sequence[int]) -> list[Missing]:
    """The texts of those of these passages that still need a vector, in the given order."""
    rows = read.all("texts_to_encode", model=model, ids=orjson.dumps(list(passage_ids)).decode())
    found = {row["id"]: Missing(row["id"], row["text"]) for row in rows}
    return [found[id] for id in passage_ids if id in found]


def stale(read: Reader, limit: int) -> list[Stale]:
    rows = read.all("stale_vectors", limit=limit)
    return [Stale(row["id"], row["text"], bool(row["is_wanted"])) for row in rows]


def put(change: Change, model: str, made: Iterable[tuple[Missing, bytes]]) -> None:
    """Store vectors, except for passages whose text has changed meanwhile."""
    made_at = micros(now())
    for one, vector in made:
        change.run("put_vector", id=one.id, model=model, text=one.text, vector=vector, made_at=made_at)


def remove(change: Change, passage_ids: Iterable[int]) -> None:
    for id in passage_ids:
        change.run("drop_vector", id=id)


# The lease: one process at a time makes the vectors of a workspace


def take_lease(change: Change, seconds: float) -> int | None:
    """A lease, or None if another process has one. Its value is the time when it ends, and unlike any other."""
    at = micros(now())
    until = at + int(seconds * 1_000_000) + secrets.randbelow(100_000)
    return until if change.one("take_vector_lease", until=until, now=at) else None


def renew_lease(change: Change, lease: int, seconds: float) -> int | None:
    """A longer lease, or None if this one ended and another process took it."""
    until = micros(now()) + int(seconds * 1_000_000) + secrets.randbelow(100_000)
    return until if change.run("renew_vector_lease", until=until, mine=lease) else None


def end_lease(change: Change, lease: int) -> None:
    change.run("end_vector_lease", mine=lease)


# Vectors that are there


def of(read: Reader, model: str, passage_ids: Sequence[int]) -> dict[int, bytes]:
    rows = read.all("vectors_of", model=model, ids=orjson.dumps(list(passage_ids)).decode())
    return {row["passage_id"]: bytes(row["vector"]) for row in rows}


def counts(read: Reader, model: str) -> VectorCounts:
    """How many passages get vectors, and how many have one. It takes about 0.2 s at a million."""
    row = read.must("count_vectors", model=model)
    return VectorCounts(row["passages"], row["vectors"])


class StoredVector(NamedTuple):
    passage_id: int
    made_at: int
    vector: bytes


def made_since(read: Reader, model: str, made_at: int, passage_id: int, limit: int) -> list[StoredVector]:
    """Vectors that were made after the one of this time and passage, the oldest first."""
    rows = read.rows("vectors_since", model=model, made_at=made_at, passage_id=passage_id, limit=limit)
    return [StoredVector._make(row) for row in rows]


def after(read: Reader, model: str, passage_id: int, limit: int) -> list[StoredVector]:
    """The vectors of passages after this one, by passage id."""
    return [
        StoredVector._make(row) for row in read.rows("vectors_after", model=model, passage_id=passage_id, limit=limit)
    ]


def newest(read: Reader, model: str) -> int:
    """When the newest vector was made; 0 if there is none."""
    return int(read.must("newest_vector", model=model)["made_at"])
