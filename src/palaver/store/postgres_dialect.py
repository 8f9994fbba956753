"""What is asked of PostgreSQL, in the language of tsquery."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any
from zlib import crc32

import orjson

from palaver.store import queries
from palaver.store.database import (
    SCOPE,
    STEM,
    Connection,
    Finding,
    Found,
    IndexRow,
    Narrow,
    Slice,
)
from palaver.store.lanes import SOURCES
from palaver.text.fold import stems as stems_of
from palaver.text.fold import words
from palaver.text.matching import has_near, is_match
from palaver.text.query import AllOf, AnyOf, Near, Nothing, Phrase, Preferring, Query, Without

RANKED_AT_MOST = 2_000
TEXTS_AT_ONCE = 500
# PostgreSQL refuses a tsvector of a megabyte; the words of a longer text are indexed as far as they fit.
TSVECTOR_BYTES = 900_000
MOST_NUMBERS = 100_000
_PARAMETER = re.compile(r"(?<!:):([a-z_]+)")
_ABOUT_THE_LOG = re.compile(r"\b(?:FROM|INTO|UPDATE|JOIN) events\b")


@cache
def translated(sql: str) -> str:
    """`:name` as psycopg writes it."""
    return _PARAMETER.sub(r"%(\1)s", sql.replace("%", "%%"))


class PostgresDialect:
    name = "postgres"

    def __init__(self) -> None:
        self._statements = {name: translated(sql) for name, sql in queries.load("postgres").items()}
        self.about_the_log = frozenset(
            sql for name, sql in self._statements.items() if _ABOUT_THE_LOG.search(sql) and name != "insert_event"
        )

    def sql(self, name: str) -> str:
        return self._statements[name]

    def find(self, connection: Connection, query: Query, narrow: Narrow, limit: int, offset: int) -> Finding:
        if isinstance(query, Nothing):
            return Finding([], has_more=False, capped=False)
        kind = "title" if narrow.titles else "body"
        scopes = (f"{narrow.source}{kind}", *narrow.scopes)
        params = {"match": match_expression(query, scopes), "wanted": _print(query)}
        if narrow.is_timed:
            params |= {"since": str(narrow.since), "until": str(narrow.until)}
        name = "find_ranked_between" if narrow.is_timed else "find_ranked"
        if has_near(query):
            return self._find_near(connection, name, query, params, limit, offset)
        page = {"cap": RANKED_AT_MOST, "limit": limit + 1, "offset": offset}
        rows = connection.fetch(self.sql(name), params | page)
        capped = False
        if len(rows) > limit and not narrow.is_timed:
            count = connection.fetch(self.sql("count_matches"), params | {"cap": RANKED_AT_MOST + 1})
            capped = count[0]["matches"] > RANKED_AT_MOST
        hits = [Found(row["id"], row["score"]) for row in rows[:limit]]
        return Finding(hits, has_more=len(rows) > limit, capped=capped)

    def _find_near(
        self, connection: Connection, name: str, query: Query, params: dict[str, str], limit: int, offset: int
    ) -> Finding:
        """tsquery knows exact distances only: it finds where the words are, the texts tell whether they are near."""
        page = {"cap": RANKED_AT_MOST, "limit": RANKED_AT_MOST, "offset": 0}
        ranked = [Found(row["id"], row["score"]) for row in connection.fetch(self.sql(name), params | page)]
        near: list[Found] = []
        for begin in range(0, len(ranked), TEXTS_AT_ONCE):
            some = ranked[begin : begin + TEXTS_AT_ONCE]
            ids = orjson.dumps([hit.passage_id for hit in some]).decode()
            texts = {row["id"]: row["text"] for row in connection.fetch(self.sql("texts"), {"ids": ids})}
            near += [hit for hit in some if is_match(query, words(texts.get(hit.passage_id, "")))]
            if len(near) > offset + limit:
                break
        hits = near[offset : offset + limit]
        return Finding(hits, has_more=len(near) > offset + limit, capped=len(ranked) == RANKED_AT_MOST)

    def recall(self, connection: Connection, terms: Sequence[Phrase], where: Slice, cap: int) -> list[Found]:
        wanted = any_of_words(terms)
        params: dict[str, Any] = {"match": _within(wanted, where), "wanted": wanted, "cap": cap}
        if where.is_timed:
            params |= {"since": str(where.since), "until": str(where.until)}
        rows = connection.fetch(self.sql("recall_between" if where.is_timed else "recall"), params)
        return [Found(row["id"], row["score"]) for row in rows]

    def size(self, connection: Connection) -> int:
        return max(0, int(connection.fetch(self.sql("index_size"), {})[0]["size"]))

    def frequencies(self, connection: Connection, tokens: Sequence[str]) -> dict[str, int]:
        """The server knows how common the most common words are; any other one is rare. It keeps them as shares of all
        it counted: a word of one passage comes out a little below one, which does not mean that there is none."""
        rows = connection.fetch(self.sql("frequencies"), {"tokens": list(tokens)})
        known = {row["term"]: max(1, round(row["doc"])) for row in rows}
        return {token: known.get(token, 1) for token in tokens}

    def having(self, connection: Connection, groups: Sequence[Sequence[Phrase]], where: Slice, cap: int) -> list[int]:
        wanted = " & ".join(f"({_any_stem(group)})" for group in groups)
        params: dict[str, Any] = {"match": _within(wanted, where), "cap": cap}
        if where.is_timed:
            params |= {"since": str(where.since), "until": str(where.until)}
        rows = connection.fetch(self.sql("having_between" if where.is_timed else "having"), params)
        ids: list[int] = rows[0]["ids"] or []
        return ids

    def write_index(self, connection: Connection, rows: Mapping[int, IndexRow | None], fresh: set[int]) -> None:
        stale = [{"id": passage_id} for passage_id in rows if passage_id not in fresh]
        if stale:
            connection.run_many(self.sql("unindex_passage"), stale)
            connection.run_many(self.sql("drop_vector"), stale)
        connection.run_rows(self.sql("index_passages"), ((id, tsvector(row)) for id, row in rows.items() if row))
        if stale:
            connection.run_many(self.sql("unindex_trigrams"), stale)
        self.write_parts(connection, {id: row.substring for id, row in rows.items() if row and row.substring})

    def write_parts(self, connection: Connection, texts: Mapping[int, str]) -> None:
        connection.run_rows(self.sql("index_trigrams"), ((id, numbers_of(text)) for id, text in texts.items()))

    def holds(self, connection: Connection, rows: Iterable[tuple[int, IndexRow]]) -> bool:
        left = iter(rows)
        while some := dict(islice(left, TEXTS_AT_ONCE)):
            if not self._hold(connection, some):
                return False
        return True

    def _hold(self, connection: Connection, rows: dict[int, IndexRow]) -> bool:
        have: dict[int, set[str]] = {}
        for found in connection.fetch(self.sql("lexemes"), {"ids": orjson.dumps(list(rows)).decode()}):
            have.setdefault(found["id"], set()).update(found["lexemes"])
        for id, row in rows.items():
            wanted = {*row.words.split(), *row.stems.split(), *(SCOPE + scope for scope in row.scopes)}
            is_long = len(row.words) + len(row.stems) > TSVECTOR_BYTES // 8  # then some may have been left out
            if id not in have or not (have[id] <= wanted if is_long else have[id] == wanted):
                return False
        return True

    def may_hold(self, connection: Connection, part: str, cap: int) -> list[int]:
        match = _array(grams(part, min(len(part), 3)))
        return [row["id"] for row in connection.fetch(self.sql("trigram_hits"), {"match": match, "cap": cap})]


def tsvector(row: IndexRow) -> str:
    """The index row as a literal: exact words weigh A, stems B, scopes D, each with its positions."""
    places: dict[str, list[str]] = {}
    room = TSVECTOR_BYTES
    for position, word in enumerate(row.words.split(), 1):
        room -= _room(word, places)
        if room < 0:
            break
        places.setdefault(word, []).append(f"{min(position, 16383)}A")
    for position, word in enumerate(row.stems.split(), 1):
        room -= _room(word, places)
        if room < 0:
            break
        places.setdefault(word, []).append(f"{min(position, 16383)}B")
    lexemes = [f"'{word}':{','.join(at[:255])}" for word, at in places.items()]
    return " ".join(lexemes + [f"'{SCOPE}{scope}'" for scope in row.scopes])


def _room(word: str, places: dict[str, list[str]]) -> int:
    """What one more place of a word takes; of a word that stands in very many only some are kept."""
    if word not in places:
        return len(word.encode()) + 12
    return 4 if len(places[word]) < 255 else 0


def numbers_of(text: str) -> str:
    """What stands in the index for a text: for every character, and every two and three that follow each other."""
    return _array(set(text) | grams(text, 2) | grams(text, 3))


def grams(text: str, length: int) -> set[str]:
    return {text[n : n + length] for n in range(len(text) - length + 1)}


def _array(grams: set[str]) -> str:
    return "{" + ",".join(map(_NUMBERS.__getitem__, grams)) + "}"


class _Numbers(dict[str, str]):
    """A number for a few characters, as it is written. Some may share one: a hit is looked at again."""

    def __missing__(self, gram: str) -> str:
        if len(self) >= MOST_NUMBERS:
            self.clear()
        number = self[gram] = str(crc32(gram.encode()) - 2**31)
        return number


_NUMBERS = _Numbers()


def match_expression(query: Query, scopes: tuple[str, ...]) -> str:
    """What was asked, in the language of tsquery: the words in their exact form, and every scope."""
    return " & ".join([f"({_print(query)})", *(f"'{SCOPE}{scope}'" for scope in scopes)])


def any_of_words(terms: Sequence[Phrase]) -> str:
    """Any of the words, as they are or with another ending."""
    exact = [" <-> ".join(f"'{word}'" for word in term.words) for term in terms]
    stems = [" <-> ".join(f"'{STEM}{stem}'" for stem in stems_of(term.words)) for term in terms]
    return " | ".join(f"({term})" for term in exact + stems)


def _any_stem(terms: Sequence[Phrase]) -> str:
    return " | ".join("(" + " <-> ".join(f"'{STEM}{stem}'" for stem in stems_of(term.words)) + ")" for term in terms)


def _within(wanted: str, where: Slice) -> str:
    kinds = [kind for kind, is_wanted in (("body", where.bodies), ("title", where.titles)) if is_wanted]
    if len(kinds) == 2 and len(where.sources) == len(SOURCES):
        own = []  # everything
    else:
        own = [tuple(f"{source}{kind}" for source in where.sources for kind in kinds)]
    groups = [*own, *((scope,) for scope in where.scopes), *where.any_of]
    scopes = ["(" + " | ".join(f"'{SCOPE}{scope}'" for scope in group) + ")" for group in groups]
    return " & ".join([f"({wanted})", *scopes])


def _print(query: Query) -> str:
    """A tsquery that lets in all that matches, and no more unless words are to be near each other."""
    match query:
        case Phrase(words, prefix):
            lexemes = [f"'{word}'" for word in words]
            if prefix:
                lexemes[-1] += ":*"
            return "(" + " <-> ".join(lexemes) + ")"
        case Near(phrases, _):
            return "(" + " & ".join(map(_print, phrases)) + ")"
        case AllOf(parts):
            return "(" + " & ".join(map(_print, parts)) + ")"
        case AnyOf(parts):
            return "(" + " | ".join(map(_print, parts)) + ")"
        case Without(wanted, unwanted):
            if has_near(unwanted):
                return _print(wanted)
            return f"({_print(wanted)} & !{_print(unwanted)})"
        case Preferring(wanted, _):
            return _print(wanted)  # ts_rank_cd looks at how close the words are anyway
        case Nothing():
            return ""
