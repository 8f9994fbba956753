"""Search in PostgreSQL: finds passages with tsquery expressions and ranks them.

`tsqueries.py` turns queries into expressions, `search_sql.py` has the statements, `long_passages.py` looks into
passages that have several rows, `blocks.py` looks in the newest passages only, and `index_rows.py` writes the index.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import filterfalse
from math import log, prod
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import orjson

from palaver.store.engines import bm25
from palaver.store.engines.bm25 import MatchCounts
from palaver.store.engines.database import (
    FOREVER,
    SCOPE,
    STEM,
    Connection,
    IndexRow,
    RankedPage,
    RankedPassage,
    Row,
    Scope,
)
from palaver.store.engines.postgres import blocks, common_terms, index_rows, long_passages, search_sql, tsqueries
from palaver.store.engines.postgres.blocks import Matches
from palaver.store.engines.postgres.common_terms import CommonTerms, lexemes_of
from palaver.store.engines.postgres.samples import Samples
from palaver.store.engines.postgres.statements import statements
from palaver.store.engines.postgres.substrings import lookup_of
from palaver.text.match import is_match, needs_text
from palaver.text.query import Nothing, Phrase, Query
from palaver.text.tokenize import stems, words

COUNTED = 70_000
"""How often the phrases of a query are counted in matches. A query with many phrases ranks fewer matches."""
ENOUGH_TYPED = 100
"""While words are typed, the newest matches are enough if there are so many, and others would take longer."""
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
RARE_ENOUGH = 2_000
"""If a term that the server's statistics do not have may be in more passages, its frequency is estimated."""
MOST_TIMES_BY_CHANCE = 4
"""How many times more passages may have two terms than if one said nothing about the other."""


class Statistics(NamedTuple):
    """What the server knows about the search index."""

    terms: CommonTerms
    passages: int
    """About how many."""
    usual_length: float
    """How many tokens a passage has on average."""
    counted: int
    """How many passages have a length."""


class PostgresDialect:
    name = "postgres"
    newest_with_parts = "archive_newest_indexed"

    def __init__(self) -> None:
        self._statements, self.event_log_statements, self.copies = statements()
        self._common_terms = CommonTerms()
        self._samples = Samples()
        self._sizes: dict[Scope, tuple[int, float]] = {}
        """How many passages scopes have, as far as they were counted, and when."""
        self._known: WeakKeyDictionary[Connection, Statistics] = WeakKeyDictionary()
        """Of each connection. A read has one state of the database, so it needs them once."""

    def sql(self, name: str) -> str:
        return self._statements[name]

    def find(self, connection: Connection, query: Query, scope: Scope, limit: int) -> RankedPage:
        if isinstance(query, Nothing):
            return RankedPage([], has_more=False, capped=False)
        if needs_text(query):
            return self._find_in_texts(connection, query, scope, limit)
        hits, capped = self._ranked(connection, query, scope, limit + 1)
        return RankedPage(hits[:limit], has_more=len(hits) > limit, capped=capped)

    def _ranked(
        self, connection: Connection, query: Query, scope: Scope, limit: int
    ) -> tuple[list[RankedPassage], bool]:
        """The best of the newest matches by bm25, and whether there may be older ones that were not ranked."""
        phrases, statistics = list(tsqueries.scored_phrases(query)), self._statistics(connection)
        wanted, likely = self._matches_of(query, scope, statistics)
        cap = bm25.ranked_at_most(query, scope, COUNTED, is_slow=needs_text(query))
        given = tsqueries.needles(phrases) | {"cap": cap + 1, "limit": limit}
        if scope.is_blind:  # passages that the caller may not read must have no influence
            times = [f"times{number}" for number in range(len(phrases))]
            counted = ", ".join(["length", *(f"{_times(n, phrases[n])} AS {name}" for n, name in enumerate(times))])
            end = search_sql.EACH
        else:
            counted = f"{self._bm25(connection, phrases, given, statistics)} AS score"
            end = search_sql.BEST

        is_partial = False

        def matches(in_blocks: Sequence[str]) -> list[Row]:
            nonlocal is_partial
            is_partial = bool(in_blocks)
            pieces, scopes, params = _conditions(wanted, scope, in_blocks, checks=likely.checks_beginnings)
            params |= given
            pieces["matching"] += _begins(query, params)
            long = long_passages.matching(query, scopes, params)
            return connection.fetch(search_sql.COUNTED.format(long=long, counted=counted, **pieces) + end, params)

        def count(rows: list[Row]) -> int:
            return rows[0]["matches"] if rows else 0

        # Passages that the caller may not read are in the blocks, too, so they must not decide how many are ranked.
        enough = ENOUGH_TYPED if scope.is_typed and not scope.is_blind else None
        rows = blocks.newest_first(connection, matches, count, cap + 1, likely, enough)
        capped = is_partial or count(rows) > cap
        if scope.is_blind:
            newest = sorted(rows, key=lambda row: -row["id"])[:cap]
            found = [MatchCounts(row["id"], row["length"], [row[name] for name in times]) for row in newest]
            return bm25.rank_among_matches(found)[:limit], capped
        return [RankedPassage(row["id"], row["score"]) for row in rows], capped

    def is_capped(self, connection: Connection, query: Query, scope: Scope) -> bool:
        wanted, likely = self._matches_of(query, scope, self._statistics(connection))
        most = bm25.ranked_at_most(query, scope, COUNTED, is_slow=needs_text(query))

        def count(in_blocks: Sequence[str]) -> int:
            pieces, scopes, params = _conditions(wanted, scope, in_blocks, checks=likely.checks_beginnings)
            params["cap"] = most + 1
            pieces["matching"] += _begins(query, params)
            long = long_passages.matching(query, scopes, params)
            return int(connection.fetch(search_sql.COUNT_ALL.format(long=long, **pieces), params)[0]["passages"])

        return blocks.newest_first(connection, count, int, most + 1, likely) > most

    def _matches_of(self, query: Query, scope: Scope, statistics: Statistics) -> tuple[list[str], Matches]:
        """The conditions of a query, and how many passages may meet them."""
        conditions = [(tsqueries.printed(one), statistics.terms.of_query(one)) for one in tsqueries.conditions(query)]
        of_scope = self._share_of_scope(scope, statistics)
        # If a period is asked for, most matches may be outside it.
        share = 0.0 if scope.is_timed else statistics.terms.of_query(query) * of_scope
        likely = Matches(statistics.passages, share, share, *_beginnings(conditions, of_scope))
        return [condition for condition, _ in conditions], likely

    def _statistics(self, connection: Connection) -> Statistics:
        known = self._known.get(connection)
        if known is None:
            row = connection.fetch(self.sql("index_statistics"), {})[0]
            terms = common_terms.read(connection, self._common_terms, row["analyses"])
            if terms.analyses != self._common_terms.analyses:
                self._samples.forget()
            if terms is not self._common_terms:
                self._common_terms = terms
            counted = max(1, row["counted"])
            usual = max(1.0, row["tokens"] / counted)
            known = self._known[connection] = Statistics(self._common_terms, row["passages"], usual, counted)
        return known

    def _share_of_scope(self, scope: Scope, statistics: Statistics) -> float:
        groups = tsqueries.wanted_scopes(scope)
        return min((statistics.terms.of([SCOPE + token for token in group]) for group in groups), default=1.0)

    def _bm25(
        self, connection: Connection, phrases: list[Phrase], params: dict[str, Any], statistics: Statistics
    ) -> str:
        """The SQL expression of the bm25 score. It adds its parameters to `params`."""
        params["usual"], size = statistics.usual_length, statistics.counted
        for number, passages in enumerate(self._counts(connection, phrases, statistics)):
            params[f"rarity{number}"] = max(log(max(size - passages, 0) + 0.5) - log(passages + 0.5), 1e-6)
        return " + ".join(search_sql.POINTS.format(number=n, times=_times(n, one)) for n, one in enumerate(phrases))

    def _counts(self, connection: Connection, phrases: Sequence[Phrase], statistics: Statistics) -> list[int]:
        """The number of passages with each phrase. Very common words are looked up in the server's statistics."""
        common: dict[Phrase, int] = {}
        for phrase in phrases:
            share = statistics.terms.of_query(phrase)
            passages = round(share * statistics.passages)
            if len(phrase.words) > 1:
                common |= self._sampled(connection, phrase, share, statistics)
            elif passages > TRUSTED_FROM:
                common[phrase] = min(passages, COUNTED_AT_MOST) if phrase.prefix else passages
        counted = [phrase for phrase in phrases if phrase not in common]
        params: dict[str, Any] = {"cap": COUNTED_AT_MOST}
        counts = []
        for number, phrase in enumerate(counted):
            indexed, checked = _phrase_conditions(phrase)
            params |= {f"phrase{number}": indexed, f"checked{number}": checked}
            long = long_passages.matching(phrase, (), params)
            and_checked = search_sql.AND_CHECKED if checked else ""
            and_checked += _begins(phrase, params, f"counted{number}")
            counts.append(search_sql.PHRASE_COUNT.format(number=number, long=long, and_checked=and_checked))
        rows = iter(connection.fetch(" UNION ALL ".join(counts) + " ORDER BY number", params) if counts else ())
        return [common[phrase] if phrase in common else next(rows)["passages"] for phrase in phrases]

    def _sampled(
        self, connection: Connection, phrase: Phrase, share: float, statistics: Statistics
    ) -> dict[Phrase, int]:
        """About how many passages have a phrase of common words, if the index is large enough to estimate it."""
        if share * statistics.passages < COUNTED_AT_MOST:
            return {}
        query, checked = _phrase_conditions(phrase)
        sampled = self._samples.counts(connection, [query], [share], checked)
        return {phrase: min(sampled[0], COUNTED_AT_MOST)} if sampled else {}

    def _find_in_texts(self, connection: Connection, query: Query, scope: Scope, limit: int) -> RankedPage:
        """Find passages with the words, then read their texts: tsquery has no NEAR, and no beginning of a text."""
        ranked, capped = self._ranked(connection, query, scope, bm25.FEW_RANKED)
        found: list[RankedPassage] = []
        for begin in range(0, len(ranked), TEXTS_AT_ONCE):
            some = ranked[begin : begin + TEXTS_AT_ONCE]
            ids = orjson.dumps([hit.passage_id for hit in some]).decode()
            texts = {row["id"]: row["text"] for row in connection.fetch(self.sql("texts"), {"ids": ids})}
            found += [hit for hit in some if is_match(query, words(texts.get(hit.passage_id, "")))]
            if len(found) > limit:
                break
        return RankedPage(found[:limit], has_more=len(found) > limit, capped=capped)

    def recall(
        self, connection: Connection, groups: Sequence[Sequence[Phrase]], scope: Scope, cap: int
    ) -> list[RankedPassage]:
        wanted = [f"({tsqueries.any_stem(group)})" for group in groups]
        most = bm25.FEW_RANKED // len(groups)
        likely = self._matches(connection, groups, scope)

        def best(in_blocks: Sequence[str]) -> list[Row]:
            pieces, scopes, params = _conditions(wanted, scope, in_blocks, checks=likely.checks_beginnings)
            params |= {"wanted": " & ".join(wanted), "cap": cap, "most": most}
            long = long_passages.with_stems(groups, scopes, params)
            return connection.fetch(search_sql.RECALL.format(long=long, **pieces), params)

        def count(rows: list[Row]) -> int:
            return rows[0]["matches"] if rows else 0

        rows = blocks.newest_first(connection, best, count, most, likely)
        return [RankedPassage(row["id"], row["score"]) for row in rows]

    def _matches(self, connection: Connection, groups: Sequence[Sequence[Phrase]], scope: Scope) -> Matches:
        """How many passages may have a term of each group and be in a scope."""
        statistics = self._statistics(connection)
        of_scope = self._share_of_scope(scope, statistics)
        shares = [self._share_of_group(group, statistics) for group in groups]
        begun, others = _beginnings(list(zip(map(tsqueries.any_stem, groups), shares, strict=True)), of_scope)
        if scope.is_timed:  # most matches may be outside the period
            return Matches(statistics.passages, 0.0, 0.0, begun, others)
        most = of_scope * min(shares, default=1.0)
        by_chance = of_scope * prod(shares) * MOST_TIMES_BY_CHANCE
        return Matches(statistics.passages, min(most, by_chance) if len(shares) > 1 else most, most, begun, others)

    def _share_of_group(self, group: Sequence[Phrase], statistics: Statistics) -> float:
        """The share of passages that have one of these terms, at most. 0 if it is not known, but low."""
        if share := statistics.terms.of_stems([group]):
            return share
        sampled = sum(min(map(self._samples.known, map(tsqueries.stem_or_word, stems(one.words)))) for one in group)
        return sampled / max(1, statistics.passages)

    def promising(
        self, connection: Connection, groups: Sequence[Sequence[Phrase]], scope: Scope, cap: int
    ) -> list[RankedPassage]:
        return self.recall(connection, groups, scope, cap)  # ts_rank depends on the passage alone

    def size(self, connection: Connection) -> int:
        return max(0, int(connection.fetch(self.sql("index_size"), {})[0]["size"]))

    def frequencies(self, connection: Connection, tokens: Sequence[str]) -> dict[str, int]:
        """Read the frequencies of the most common words from the server's statistics. All other words are rare and get
        1; in a very large index, they are estimated. Rounding must not turn a frequency below one into none."""
        known = self._statistics(connection)
        found = {token: max(1, round(known.terms.of(lexemes_of(token)) * known.passages)) for token in tokens}
        rare = [token for token in found if token.startswith(STEM) and not known.terms.of(lexemes_of(token))]
        if rare and known.terms.least * known.passages > RARE_ENOUGH:
            queries = [tsqueries.stem_or_word(token.removeprefix(STEM)) for token in rare]
            found |= zip(rare, self._samples.counts(connection, queries, [0.0] * len(rare)) or (), strict=False)
        return found

    def having(
        self,
        connection: Connection,
        groups: Sequence[Sequence[Phrase]],
        scope: Scope,
        cap: int,
        enough: int | None = None,
    ) -> list[int]:
        wanted = [f"({tsqueries.any_stem(group)})" for group in groups]
        likely = self._matches(connection, groups, scope)
        if scope.is_blind:  # which blocks have enough depends on passages that the caller may not read
            enough = None

        def newest(in_blocks: Sequence[str]) -> list[int]:
            pieces, scopes, params = _conditions(wanted, scope, in_blocks, checks=likely.checks_beginnings)
            params["cap"] = cap
            # The row of a long passage has its scopes, but not its words.
            long = long_passages.with_stems(groups, scopes, params) if groups else search_sql.NONE
            rows = connection.fetch(search_sql.HAVING.format(long=long, **pieces), params)
            ids: list[int] = rows[0]["ids"] or []
            return ids

        return blocks.newest_first(connection, newest, len, cap, likely, enough)

    def count(self, connection: Connection, terms: Sequence[Phrase], scope: Scope, cap: int) -> int:
        return self._count(connection, [terms], scope, cap)

    def size_of(self, connection: Connection, scope: Scope, cap: int) -> int:
        scope = replace(scope, since=-FOREVER, until=FOREVER)
        if scope.token_groups:
            return self._count(connection, [], scope, cap)
        size, counted_at = self._sizes.get(scope, (0, 0.0))
        if size < MANY_PASSAGES or time.monotonic() - counted_at > COUNTED_AGAIN_SECONDS:
            outside = replace(scope, any_of=(scope.without,), without=())
            others = self._count(connection, [], outside, FOREVER) if scope.without else 0
            rows = connection.fetch(self.sql("count_indexed"), {"sources": list(scope.sources), "cap": cap + others})
            size = min(cap, int(rows[0]["passages"]) - others)
            self._sizes[scope] = size, time.monotonic()
        return size

    def _count(self, connection: Connection, groups: Sequence[Sequence[Phrase]], scope: Scope, cap: int) -> int:
        pieces, scopes, params = _conditions([f"({tsqueries.any_stem(group)})" for group in groups], scope)
        params["cap"] = cap
        # The row of a long passage has its scopes, but not its words.
        long = long_passages.with_stems(groups, scopes, params) if groups else search_sql.NONE
        return int(connection.fetch(search_sql.COUNT_ALL.format(long=long, **pieces), params)[0]["passages"])

    def in_period(self, connection: Connection, scope: Scope, most: int, looked_at: int) -> list[int]:
        conditions = tsqueries.scope_terms(scope)
        params = {"match": " & ".join([*conditions.indexed, *conditions.checked]), "most": most, "cap": looked_at}
        params |= {"since": scope.since, "until": scope.until}
        return [id for (id,) in connection.fetch_tuples(self.sql("matches_between"), params)]

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


def _beginnings(conditions: Sequence[tuple[str, float]], of_scope: float) -> tuple[float, float]:
    """Which share of passages has the beginnings of words that are asked for, and which share meets the other
    conditions, at most. Each condition has its share."""
    begun = [share for condition, share in conditions if tsqueries.has_beginning(condition)]
    others = [share for condition, share in conditions if not tsqueries.has_beginning(condition)]
    return sum(begun), of_scope * min(others, default=1.0)


def _times(number: int, phrase: Phrase) -> str:
    """How often a passage has a phrase."""
    return (search_sql.ONCE_AT_FIRST if phrase.first else search_sql.TIMES).format(number=number)


def _begins(query: Query, params: dict[str, Any], name: str = "first") -> str:
    """The condition that a text begins with the phrases that must be there. It adds its parameters to `params`."""
    first = [one for one in tsqueries.conditions(query) if isinstance(one, Phrase) and one.first]
    needles = {f"{name}_{n}": tsqueries.needle_of(one.words, one.prefix) for n, one in enumerate(first)}
    params |= needles
    return "".join(f" AND {search_sql.BEGINS.format(name=one)}" for one in needles)


def _phrase_conditions(phrase: Phrase) -> tuple[str, str]:
    """What is looked up to find a phrase, and what is checked in each match: GIN would collect all words with a
    beginning."""
    *others, whole = map(tsqueries.printed, tsqueries.conditions(phrase))
    return (others[0], whole) if others else (whole, "")


def _conditions(
    wanted: Sequence[str], scope: Scope, in_blocks: Sequence[str] = (), *, checks: bool = False
) -> tuple[dict[str, str], list[str], dict[str, Any]]:
    """The parts of a statement that depend on the scope, the conditions for parts of long passages, and parameters.

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
    return pieces, scopes, params | {"since": scope.since, "until": scope.until}
