"""Search in SQLite: turns queries into FTS5 expressions and writes the index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import apsw
import orjson

from palaver.store.engines import bm25, named_sql
from palaver.store.engines.bm25 import MatchCounts
from palaver.store.engines.database import (
    FOREVER,
    SCOPE,
    STEM,
    Connection,
    Found,
    Groups,
    IndexRow,
    Lookup,
    RankedPassage,
    Scope,
)
from palaver.store.engines.id_ranges import (
    SUBSTRING_SOURCES,
    WIDTH,
    has_substring_index,
    id_ranges_of,
    range_numbers,
)
from palaver.text import tokenize
from palaver.text.query import AllOf, AnyOf, Near, Nothing, Phrase, Preferring, Query, Without

COUNTED, COUNTED_IN_PYTHON = 1_000_000, 100_000
"""How often the phrases of a query are counted in matches. A query with many phrases ranks fewer matches."""
MOST_TRIGRAMS = 12
"""How many trigrams of a long substring are looked up."""
MOST_WORDS = 8
"""How many whole words of a long substring are looked up."""
SELECTIVE_PREFIX = 4
"""A prefix of this length matches few words."""
FEW_ENOUGH = 20_000
"""With fewer candidates, the texts are read instead of more lookups."""
PADDING = "\x01\x01"
"""Appended to texts, so that their last characters begin a trigram too."""


class SqliteDialect:
    name = "sqlite"
    newest_with_parts = "archive_newest"

    def __init__(self) -> None:
        self._statements = named_sql.load("sqlite")

    def sql(self, name: str) -> str:
        return self._statements[name]

    def look_up(self, connection: Connection, what: Lookup) -> Found:
        return Found(self._newest(connection, what)) if what.order == "newest" else self._best(connection, what)

    def _best(self, connection: Connection, what: Lookup) -> Found:
        """The best matches by bm25."""
        scope = what.scope
        if what.query is not None:
            match = match_expression(what.query, scope)
            most = bm25.ranked_at_most(what.query, scope, COUNTED_IN_PYTHON if scope.is_blind else COUNTED)
        else:
            match = stems_of_each(what.groups, scope)
            most = (bm25.FEW_RANKED if scope.is_blind else bm25.RANKED_AT_MOST) // len(what.groups)
        if not what.most:
            return Found([], is_capped=self._count(connection, "count_matches", match, scope, most + 1) > most)
        params = self._params(scope) | {"match": match, "newest": most + 1, "limit": what.most + 1}
        if scope.is_blind:
            # FTS5's bm25 depends on the whole table, including passages that the caller may not read.
            rows = connection.fetch_tuples(self.sql("count_words"), params)
            ranked = bm25.rank_among_matches(_match_counts(rows[:most]))
            return Found.of(ranked, what.most, is_capped=len(rows) > most)
        rows = connection.fetch_tuples(self.sql("rank_matches"), params)
        hits = [RankedPassage(id, -score) for id, score, _ in rows]
        return Found.of(hits, what.most, is_capped=bool(rows) and rows[0][2] > most)

    def _params(self, scope: Scope) -> dict[str, Any]:
        """The parameters by which statements limit matches to sources and times."""
        ranges = self._ranges(scope) or [(0, -1)]
        numbers = range_numbers(scope.sources, bodies=scope.bodies, titles=scope.titles)
        return {
            "first": ranges[0][0],
            "last": ranges[-1][1],
            "ranges": str(numbers) if len(ranges) > 1 else None,
            "width": WIDTH,
            "is_timed": scope.is_timed,
            "since": scope.since,
            "until": scope.until,
        }

    def _ranges(self, scope: Scope) -> list[tuple[int, int]]:
        return id_ranges_of(scope.sources, bodies=scope.bodies, titles=scope.titles)

    def size(self, connection: Connection) -> int:
        # In this block FTS5 stores the totals for bm25. The number of rows is the first value.
        # It is one of SQLite's variable-length integers: seven bits a byte, until a byte below 128.
        rows = connection.fetch(self.sql("index_averages"), {})
        number = 0
        for byte in rows[0]["block"] if rows else b"":
            number = number << 7 | byte & 127
            if byte < 128:
                break
        return number

    def frequencies(self, connection: Connection, tokens: Sequence[str]) -> dict[str, int]:
        rows = connection.fetch(self.sql("frequencies"), {"tokens": orjson.dumps(list(tokens)).decode()})
        return {row["term"]: row["doc"] for row in rows}

    def _newest(self, connection: Connection, what: Lookup) -> list[int]:
        params = self._params(what.scope) | {"match": stems_of_each(what.groups, what.scope), "cap": what.most}
        found: list[int] = []
        for first, last in self._ranges(what.scope):
            rows = connection.fetch(self.sql("newest_matches"), params | {"first": first, "last": last})
            found += orjson.loads(rows[0]["ids"])
        return found

    def count(self, connection: Connection, what: Lookup) -> int:
        scope, most = what.scope, what.most
        if what.groups:
            return self._count(connection, "count_matches", stems_of_each(what.groups, scope), scope, most)
        scope = scope.between(None, None)
        if scope.token_groups:
            return min(most, self._count(connection, "count_matches", _within(scope, []), scope, most))
        outside = " OR ".join(f"scope : {_quoted(SCOPE + token)}" for token in scope.without)
        others = self._count(connection, "count_matches", outside, scope, FOREVER) if outside else 0
        return min(most, self._count(connection, "count_indexed", "", scope, most + others) - others)

    def _count(self, connection: Connection, name: str, match: str, scope: Scope, cap: int) -> int:
        params = self._params(scope) | {"match": match, "cap": cap}
        ranges = ({**params, "first": first, "last": last} for first, last in self._ranges(scope))
        counts = (connection.fetch(self.sql(name), given) for given in ranges)
        return sum(int(rows[0]["passages"]) for rows in counts)

    def write_index(self, connection: Connection, rows: Mapping[int, IndexRow | None], fresh: set[int]) -> None:
        stale = [{"id": passage_id} for passage_id in rows if passage_id not in fresh]
        if stale:
            connection.run_many(self.sql("unindex_passage"), stale)
            connection.run_many(self.sql("drop_vector"), [row for row in stale if rows[row["id"]] is None])
            connection.run_many(self.sql("mark_vector_stale"), [row for row in stale if rows[row["id"]] is not None])
            connection.run_many(self.sql("unindex_trigrams"), [row for row in stale if has_substring_index(row["id"])])
        self.write_parts(connection, {id: row.substring for id, row in rows.items() if row and row.substring}, {})
        new = (
            (
                passage_id,
                SCOPE + f" {SCOPE}".join(row.scopes),
                row.words,
                row.stems,
            )
            for passage_id, row in rows.items()
            if row
        )
        connection.run_rows(self.sql("index_passages"), new)

    def tidy(self, connection: Connection) -> None:
        if connection.fetch(self.sql("has_bulk_settings"), {}):
            connection.run(self.sql("end_bulk_writes"), {})

    def write_parts(self, connection: Connection, texts: Mapping[int, str], times: Mapping[int, int | None]) -> None:
        connection.run_rows(self.sql("index_trigrams"), ((id, text + PADDING) for id, text in texts.items()))

    def holds(self, connection: Connection, rows: Iterable[tuple[int, IndexRow]]) -> bool:
        """Compare the sums of word hashes, because the index does not tell which passage has which word."""
        wanted = 0
        for _, row in rows:
            for word in (*(SCOPE + scope for scope in row.scopes), *row.words.split(), *row.stems.split()):
                wanted += hash(word)
        have = sum(hash(term) * int(count) for term, count in connection.fetch_tuples(self.sql("all_terms"), {}))
        return wanted == have

    def substring_candidates(self, connection: Connection, part: str, cap: int, *, roughly: bool) -> list[int]:
        """Intersect lookups, the most selective first, until few enough candidates are left."""
        found: dict[int, None] | None = None
        for name, given in self._lookups(part):
            rows = [row["id"] for row in connection.fetch(self.sql(name), {**given, "cap": cap})]
            if len(rows) == cap:
                # Too many hits. The same passage may be among them several times.
                return rows if found is None else list(found)
            also = set(rows)
            found = {id: None for id in found if id in also} if found is not None else dict.fromkeys(rows)
            if len(found) < FEW_ENOUGH:
                break
        return list(found or ())

    def _lookups(self, part: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """The lookups for a substring: its whole words, its trigrams, and the beginning of its last word."""
        words, begun = tokenize.inside(part)
        ((first, last),) = id_ranges_of(SUBSTRING_SOURCES, bodies=True, titles=True)
        archive = {"first": first, "last": last}
        if words:
            if len(words) > MOST_WORDS or len(begun) < SELECTIVE_PREFIX:
                phrase = Phrase(tuple(words[:MOST_WORDS]))
            else:
                phrase = Phrase((*words, begun), prefix=True)
            yield "word_hits", {"match": f"exact : ({_print(phrase)})", **archive}
        if len(part) >= 3:
            yield "trigram_hits", {"match": trigram_expression(part)}
        else:
            yield "short_hits", {"part": part, "beyond": part + "\U0010ffff"}
        if len(begun) >= SELECTIVE_PREFIX and not words:
            yield "word_hits", {"match": f"exact : ({_print(Phrase((begun,), prefix=True))})", **archive}


def trigram_expression(part: str) -> str:
    """Match texts with the trigrams of a substring. Of a long substring, MOST_TRIGRAMS are enough."""
    places = range(len(part) - 2)
    step = 1 + len(places) // MOST_TRIGRAMS
    trigrams = {part[n : n + 3] for n in (*places[::step], places[-1])}
    return " AND ".join(_quoted(trigram.replace('"', '""')) for trigram in sorted(trigrams))


def match_expression(query: Query, scope: Scope) -> str:
    """The query in FTS5's language: the words in their exact form, limited to the scope."""
    return _within(scope, [f"exact : ({_print(query)})"])


def stems_of_each(groups: Groups, scope: Scope) -> str:
    """A word of each group, with any ending, limited to the scope. Naming the column of stems would take longer, and
    only stems begin with STEM."""
    return _within(scope, [f"({' OR '.join(map(_any_ending, group))})" for group in groups])


def _any_ending(term: Phrase) -> str:
    """A phrase of stems. If its last word may be the beginning of a word, also the phrase of its words."""
    stems = _quoted(" ".join(STEM + stem for stem in tokenize.stems(term.words)))
    return f"{stems} OR {_print(term)}" if term.prefix else stems


def _within(scope: Scope, wanted: list[str]) -> str:
    match = " AND ".join([*wanted, *_token_groups(scope)])
    for token in scope.without:
        match = f"({match}) NOT scope : {_quoted(SCOPE + token)}"
    return match


def _token_groups(scope: Scope) -> list[str]:
    return [f"scope : ({' OR '.join(_quoted(SCOPE + token) for token in group)})" for group in scope.token_groups]


def occurrences(api: apsw.FTS5ExtensionApi, /, *_: Any) -> str:
    """An FTS5 function: the number of tokens of a match, then the number of occurrences of each phrase."""
    wanted: list[int] | None = api.aux_data
    if wanted is None:  # scope tokens are not words
        wanted = [number for number, phrase in enumerate(api.phrases) if not str(phrase[0]).startswith(SCOPE)]
        api.aux_data = wanted
    counts, locations = f"[{api.column_size(-1)}", api.phrase_locations
    for number in wanted:
        _scopes, exact, stems = locations(number)
        counts += f",{len(exact) + len(stems)}"
    return counts + "]"


def _match_counts(rows: Sequence[tuple[int, str]]) -> list[MatchCounts]:
    return [MatchCounts(id, length, times) for id, (length, *times) in ((id, orjson.loads(one)) for id, one in rows)]


def _print(query: Query) -> str:
    match query:
        case Phrase(words, prefix):
            return ("^ " if query.first else "") + _quoted(" ".join(words)) + (" *" if prefix else "")
        case Near(phrases, distance):
            return f"NEAR({' '.join(_print(p) for p in phrases)}, {distance})"
        case AllOf(parts):
            return "(" + " AND ".join(_print(p) for p in parts) + ")"
        case AnyOf(parts):
            return "(" + " OR ".join(_print(p) for p in parts) + ")"
        case Without(wanted, unwanted):
            return f"({_print(wanted)} NOT {_print(unwanted)})"
        case Preferring(wanted, phrases):
            # The second part adds phrases to the score, and excludes nothing that the first part matches.
            either = " OR ".join(_print(p) for p in (wanted.parts[0], *phrases))
            return f"({_print(wanted)} AND ({either}))"
        case Nothing():
            return '""'


def _quoted(words: str) -> str:
    return f'"{words}"'  # folded words contain no quotes
