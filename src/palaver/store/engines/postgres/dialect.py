"""Search in PostgreSQL: finds passages with tsquery expressions and ranks them.

`tsqueries.py` turns queries into expressions, `search_sql.py` has the statements, `plan.py` decides whether the newest
passages are enough, and `index_rows.py` writes the index.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import filterfalse
from math import log
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import orjson

from palaver.store.engines import bm25, named_sql
from palaver.store.engines.bm25 import MatchCounts
from palaver.store.engines.database import (
    FOREVER,
    Connection,
    Found,
    Groups,
    IndexRow,
    Lookup,
    RankedPassage,
    Row,
    Scope,
)
from palaver.store.engines.postgres import index_rows, plan, search_sql, tsqueries
from palaver.store.engines.postgres.plan import Statistics
from palaver.store.engines.postgres.substrings import lookup_of
from palaver.text.match import is_match, needs_text
from palaver.text.query import Nothing, Phrase, Query
from palaver.text.tokenize import words

COUNTED = 70_000
"""How often the phrases of a query are counted in matches. A query with many phrases ranks fewer matches."""
TEXTS_AT_ONCE = 500
"""How many texts are read at once."""
COUNTED_AT_MOST = 20_000
TRUSTED_FROM = 2_000
"""From this number of passages on, the server's statistics of a word are good enough for bm25."""
MOST_WORDS_OF_FRAGMENT = 2_000
"""A fragment in more words than these is in most texts, and looking them up would take longer than reading."""
FEW_WORDS_OF_FRAGMENT = 20
"""A fragment in more words than these is left out of a rough look-up, unless it is the only condition."""
MANY_PASSAGES = 10_000
COUNTED_AGAIN_SECONDS = 60.0
"""If a source has many passages, they are counted again only after this time: it takes 30 ms for 100,000."""
BY_COPY = "_by_copy"
"""Suffix of the names of COPY statements."""
_ABOUT_THE_LOG = re.compile(r"\b(?:FROM|INTO|UPDATE|JOIN) events\b")


class Conditions(NamedTuple):
    """The parts of a statement that depend on the scope."""

    pieces: dict[str, str]
    """Pieces of SQL, by the names of the holes in the templates."""
    scopes: list[str]
    """The conditions for parts of long passages."""
    params: dict[str, Any]

    def sql(self, template: str, long: str, **pieces: str) -> str:
        return template.format(long=long, **self.pieces, **pieces)

    def long_of_groups(self, groups: Groups) -> str:
        """The long passages with a term of each group. Their own rows have their scopes, but not their words."""
        return tsqueries.long_with_stems(groups, self.scopes, self.params) if groups else search_sql.NONE


class PostgresDialect:
    name = "postgres"
    newest_with_parts = "archive_newest_indexed"

    def __init__(self) -> None:
        self._statements = statements = named_sql.load("postgres")
        self.event_log_statements = {
            sql for name, sql in statements.items() if _ABOUT_THE_LOG.search(sql) and name != "insert_event"
        }
        self.copies = {
            statements[name.removesuffix(BY_COPY)]: sql for name, sql in statements.items() if name.endswith(BY_COPY)
        }
        """The COPY that writes the same rows as an INSERT, by the INSERT."""
        self._last_statistics = Statistics()
        self._statistics_of: WeakKeyDictionary[Connection, Statistics] = WeakKeyDictionary()
        """A read has one state of the database, so it needs them once."""
        self._sizes: dict[Scope, tuple[int, float]] = {}
        """How many passages scopes have, as far as they were counted, and when."""

    def sql(self, name: str) -> str:
        return self._statements[name]

    def look_up(self, connection: Connection, what: Lookup) -> Found:
        if what.order == "newest":
            return Found(self._newest(connection, what))
        if what.query is None:
            return self._best_of_groups(connection, what)
        return self._best_matches(connection, what, what.query)

    def count(self, connection: Connection, what: Lookup) -> int:
        scope = what.scope if what.groups else what.scope.between(None, None)
        if what.groups or scope.token_groups:
            return self._count_groups(connection, what.groups, scope, what.most)
        size, counted_at = self._sizes.get(scope, (0, 0.0))
        if size < MANY_PASSAGES or time.monotonic() - counted_at > COUNTED_AGAIN_SECONDS:
            outside = replace(scope, any_of=(scope.without,), without=())
            others = self._count_groups(connection, (), outside, FOREVER) if scope.without else 0
            given = {"sources": list(scope.sources), "cap": what.most + others}
            size = min(what.most, int(connection.fetch(self.sql("count_indexed"), given)[0]["passages"]) - others)
            self._sizes[scope] = size, time.monotonic()
        return size

    def _count_groups(self, connection: Connection, groups: Groups, scope: Scope, most: int) -> int:
        given = _conditions([f"({tsqueries.any_stem(group)})" for group in groups], scope)
        sql = given.sql(search_sql.COUNT_ALL, given.long_of_groups(groups))
        return int(connection.fetch(sql, given.params | {"cap": most})[0]["matches"])

    def _best_matches(self, connection: Connection, what: Lookup, query: Query) -> Found:
        """The best matches of a query by bm25."""
        if isinstance(query, Nothing):
            return Found([])
        if not needs_text(query) or not what.most:
            hits, is_capped = self._ranked(connection, query, what.scope, what.most + 1 if what.most else 0)
            return Found.of(hits, what.most, is_capped=is_capped)
        # tsquery has no NEAR, and no beginning of a text: find passages with the words, then read their texts.
        ranked, is_capped = self._ranked(connection, query, what.scope, bm25.FEW_RANKED)
        found: list[RankedPassage] = []
        for begin in range(0, len(ranked), TEXTS_AT_ONCE):
            some = ranked[begin : begin + TEXTS_AT_ONCE]
            ids = orjson.dumps([hit.passage_id for hit in some]).decode()
            texts = {row["id"]: row["text"] for row in connection.fetch(self.sql("texts"), {"ids": ids})}
            found += [hit for hit in some if is_match(query, words(texts.get(hit.passage_id, "")))]
            if len(found) > what.most:
                break
        return Found.of(found, what.most, is_capped=is_capped)

    def _ranked(
        self, connection: Connection, query: Query, scope: Scope, limit: int
    ) -> tuple[list[RankedPassage], bool]:
        """The best of the newest matches, and whether there may be older ones that were not ranked. With a limit of 0,
        matches are only counted."""
        phrases, statistics = list(tsqueries.scored_phrases(query)), self._statistics(connection)
        wanted = [tsqueries.printed(one) for one in tsqueries.conditions(query)]
        expected = plan.expected_of_query(query, scope, statistics)
        cap = bm25.ranked_at_most(query, scope, COUNTED, is_slow=needs_text(query))
        own = tsqueries.needles(phrases) | {"cap": cap + 1, "limit": limit}
        times = [f"times{number}" for number in range(len(phrases))]
        if not limit:
            template, counted = search_sql.COUNT_ALL, ""
        elif scope.is_blind:  # passages that the caller may not read must have no influence
            template = search_sql.COUNTED + search_sql.EACH
            counted = ", ".join(["length", *(f"{_times(n, phrases[n])} AS {name}" for n, name in enumerate(times))])
        else:
            template = search_sql.COUNTED + search_sql.BEST
            counted = f"{self._bm25(connection, phrases, own, statistics)} AS score"

        def matches(in_blocks: Sequence[str]) -> list[Row]:
            given = _conditions(wanted, scope, in_blocks, checks=expected.checks_beginnings)
            given.params.update(own)
            given.pieces["matching"] += _begins(query, given.params)
            long = tsqueries.matching_long(query, given.scopes, given.params)
            return connection.fetch(given.sql(template, long, counted=counted), given.params)

        found = plan.newest_first(connection, matches, cap + 1, expected)
        is_capped = plan.count(found) > cap
        if not limit:
            return [], is_capped
        if scope.is_blind:
            newest = sorted(found, key=lambda row: -row["id"])[:cap]
            counts = [MatchCounts(row["id"], row["length"], [row[name] for name in times]) for row in newest]
            return bm25.rank_among_matches(counts)[:limit], is_capped
        return [RankedPassage(row["id"], row["score"]) for row in found], is_capped

    def _bm25(
        self, connection: Connection, phrases: list[Phrase], params: dict[str, Any], statistics: Statistics
    ) -> str:
        """The SQL expression of the bm25 score. It adds its parameters to `params`."""
        params["usual"], size = statistics.usual_length, statistics.counted
        for number, passages in enumerate(self._frequencies(connection, phrases, statistics)):
            params[f"rarity{number}"] = max(log(max(size - passages, 0) + 0.5) - log(passages + 0.5), 1e-6)
        return " + ".join(search_sql.POINTS.format(number=n, times=_times(n, one)) for n, one in enumerate(phrases))

    def _frequencies(self, connection: Connection, phrases: Sequence[Phrase], statistics: Statistics) -> list[int]:
        """The number of passages with each phrase. Very common ones are not counted: the server's statistics tell."""
        found: list[int] = []
        params: dict[str, Any] = {"cap": COUNTED_AT_MOST}
        counted: dict[int, str] = {}
        for number, phrase in enumerate(phrases):
            passages = round(statistics.of_query(phrase) * statistics.passages)
            is_whole_word = len(phrase.words) == 1 and not phrase.prefix
            found.append(passages if is_whole_word else min(passages, COUNTED_AT_MOST))
            if passages > (TRUSTED_FROM if len(phrase.words) == 1 else COUNTED_AT_MOST):
                continue
            # What is looked up to find the phrase, and what is checked: GIN would collect all words with a beginning.
            *others, whole = map(tsqueries.printed, tsqueries.conditions(phrase))
            params |= {f"phrase{number}": others[0] if others else whole, f"checked{number}": whole if others else ""}
            long = tsqueries.matching_long(phrase, (), params)
            and_checked = (search_sql.AND_CHECKED if others else "") + _begins(phrase, params, f"counted{number}")
            counted[number] = search_sql.PHRASE_COUNT.format(number=number, long=long, and_checked=and_checked)
        if counted:
            for row in connection.fetch(" UNION ALL ".join(counted.values()), params):
                found[row["number"]] = row["passages"]
        return found

    def _newest(self, connection: Connection, what: Lookup) -> list[int]:
        ids: list[int] | None = self._with_groups(connection, what, search_sql.HAVING, what.most)[0]["ids"]
        return ids or []

    def _best_of_groups(self, connection: Connection, what: Lookup) -> Found:
        """The best of the newest passages by ts_rank, which depends on the passage alone."""
        found = self._with_groups(connection, what, search_sql.RECALL, bm25.FEW_RANKED // len(what.groups))
        return Found([row["id"] for row in found], [row["score"] for row in found])

    def _with_groups(self, connection: Connection, what: Lookup, template: str, most: int) -> list[Row]:
        """The rows of a statement that reads the newest matches, at most `most`."""
        wanted = [f"({tsqueries.any_stem(group)})" for group in what.groups]
        expected = plan.expected_of_groups(what.groups, what.scope, self._statistics(connection))

        def matches(in_blocks: Sequence[str]) -> list[Row]:
            given = _conditions(wanted, what.scope, in_blocks, checks=expected.checks_beginnings)
            given.params.update(wanted=" & ".join(wanted), cap=what.most, most=most)
            return connection.fetch(given.sql(template, given.long_of_groups(what.groups)), given.params)

        return plan.newest_first(connection, matches, most, expected)

    def _statistics(self, connection: Connection) -> Statistics:
        known = self._statistics_of.get(connection)
        if known is None:
            known = self._last_statistics = plan.read_statistics(connection, self._last_statistics)
            self._statistics_of[connection] = known
        return known

    def size(self, connection: Connection) -> int:
        return max(0, int(connection.fetch(self.sql("index_size"), {})[0]["size"]))

    def frequencies(self, connection: Connection, tokens: Sequence[str]) -> dict[str, int]:
        """Read the frequencies of the most common words from the server's statistics. All other words are rare and get
        1. Rounding must not turn a frequency below one into none."""
        known = self._statistics(connection)
        return {token: max(1, round(known.of_token(token) * known.passages)) for token in tokens}

    def write_index(self, connection: Connection, rows: Mapping[int, IndexRow | None], fresh: set[int]) -> None:
        index_rows.write(connection, rows, fresh)

    def tidy(self, connection: Connection) -> None:
        connection.run(self.sql("add_up_totals"), {})
        if connection.fetch(self.sql("has_bulk_settings"), {})[0]["is_so"]:
            connection.run(self.sql("end_bulk_writes"), {})

    def write_parts(self, connection: Connection, texts: Mapping[int, str], times: Mapping[int, int | None]) -> None:
        index_rows.SubstringRows(texts, times).write(connection, "index_trigrams_again")

    def holds(self, connection: Connection, rows: Iterable[tuple[int, IndexRow]]) -> bool:
        return index_rows.holds(connection, rows)

    def substring_candidates(self, connection: Connection, part: str, cap: int, *, roughly: bool) -> list[int]:
        wanted = lookup_of(part)
        params: dict[str, Any] = {"numbers": wanted.numbers, "cap": cap}
        conditions = ["trigrams @> CAST(%(numbers)s AS integer[])"] if wanted.numbers != "{}" else []
        looked_up = []
        for fragment in wanted.fragments:
            given = {"grams": fragment.grams, "pattern": fragment.pattern, "most": MOST_WORDS_OF_FRAGMENT + 1}
            words = [number for (number,) in connection.fetch_tuples(self.sql("runs_with"), given)]
            looked_up.append((words, fragment))
        for place, (words, fragment) in enumerate(sorted(looked_up, key=lambda one: len(one[0]))):
            most = FEW_WORDS_OF_FRAGMENT if roughly and conditions else MOST_WORDS_OF_FRAGMENT
            if len(words) <= most:
                params |= {f"words{place}": words, f"grams{place}": fragment.grams_in_long_words}
                conditions.append(search_sql.HAS_FRAGMENT.format(place=place))
        sql = search_sql.HAVING_SUBSTRING.format(conditions=" AND ".join(conditions) or "true")
        return [id for (id,) in connection.fetch_tuples(sql, params)]


def _times(number: int, phrase: Phrase) -> str:
    """How often a passage has a phrase."""
    return (search_sql.ONCE_AT_FIRST if phrase.first else search_sql.TIMES).format(number=number)


def _begins(query: Query, params: dict[str, Any], name: str = "first") -> str:
    """The condition that a text begins with the phrases that must be there. It adds its parameters to `params`."""
    first = [one for one in tsqueries.conditions(query) if isinstance(one, Phrase) and one.first]
    needles = {f"{name}_{n}": tsqueries.needle_of(one.words, one.prefix) for n, one in enumerate(first)}
    params |= needles
    return "".join(f" AND {search_sql.BEGINS.format(name=one)}" for one in needles)


def _conditions(
    wanted: Sequence[str], scope: Scope, in_blocks: Sequence[str] = (), *, checks: bool = False
) -> Conditions:
    """The parts of a statement that look up passages of a scope.

    `checks`: beginnings of words are checked in the passages that meet the other conditions. In blocks they always are.
    """
    indexed, checked = tsqueries.scope_terms(scope)
    scopes = [*indexed, *in_blocks, *checked]
    if in_blocks or checks:
        checked += filter(tsqueries.has_beginning, wanted)
        wanted = list(filterfalse(tsqueries.has_beginning, wanted))
    queries = [*wanted, *indexed, *in_blocks]
    if not queries:  # there must be something to look up
        queries, checked = [" & ".join(checked)], []
    params = {f"match{number}": query for number, query in enumerate(queries)}
    matching = [search_sql.MATCHES.format(name=name) for name in params]
    if checked:
        params["checked"] = " & ".join(checked)
        matching.append(search_sql.CHECKED)
    pieces = {
        "asked": ", ".join(search_sql.QUERY.format(name=name) for name in params),
        "matching": " AND ".join(matching),
        "timed": search_sql.SAID_BETWEEN if scope.is_timed else "",
    }
    return Conditions(pieces, scopes, params | {"since": scope.since, "until": scope.until})
