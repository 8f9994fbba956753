"""Search in PostgreSQL: turns queries into tsquery expressions and writes the index."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, islice
from math import ceil, log
from typing import Any, NamedTuple, TypeVar

import orjson

from palaver.store.engines import bm25, named_sql
from palaver.store.engines.bm25 import K1, B, MatchCounts
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
from palaver.store.engines.id_ranges import SOURCES
from palaver.store.engines.postgres import common_terms
from palaver.store.engines.postgres.common_terms import CommonTerms, lexemes_of
from palaver.store.engines.postgres.substrings import lookup_of, numbers_and_words, word_row
from palaver.text.match import has_near, is_match
from palaver.text.query import AllOf, AnyOf, Near, Nothing, Phrase, Preferring, Query, Without
from palaver.text.tokenize import AT_ONCE, PLAIN_LETTER, stem, words
from palaver.text.tokenize import stems as stems_of

RANKED_AT_MOST = 20_000
"""How many of the newest matches are ranked."""
TEXTS_AT_ONCE = 500
"""How many texts are read at once."""
# A tsvector stores 255 positions of a word, positions up to 16,383, and one megabyte in all.
MOST_PLACES = 255
MOST_WORDS = 16_000
MOST_BYTES = 900_000
MOST_LOOKED_UP = 8
"""Words of a phrase that are looked up in the parts of long passages. Their tokens tell whether the phrase is there."""
COUNTED_AT_MOST = 20_000
TRUSTED_FROM = 2_000
"""From this number of passages on, the server's statistics of a word are good enough for bm25."""
MANY_ROWS = 200
"""With this many rows, a change gets more memory for sorting."""
MOST_WORDS_OF_FRAGMENT = 2_000
"""A fragment in more words than these is in most texts, and looking them up would take longer than reading."""
BY_COPY = "_by_copy"
"""Suffix of the names of COPY statements."""
BLOCK, LARGE_BLOCK = 8_192, 131_072
"""The number of ids in a block of passages, and in a large one. Each block has a lexeme of its own."""
MANY_MATCHES = 1.25
"""If there may be this many times more matches than wanted, they are looked up in the newest blocks."""
MORE_THAN_EXPECTED = 1.1
"""How many more passages are looked at than should be necessary."""
MOST_BLOCKS = 16
"""GIN compares each match with all blocks that it is given: 60 blocks took longer than reading all matches."""
MOST_OF_ALL = 0.85
"""If more of all blocks than this are necessary, all matches are looked up."""
_PARAMETER = re.compile(r"(?<!:):([a-z_]+)")
_ABOUT_THE_LOG = re.compile(r"\b(?:FROM|INTO|UPDATE|JOIN) events\b")


@cache
def translated(sql: str) -> str:
    """Rewrite the parameters from `:name` to the form that psycopg needs."""
    return _PARAMETER.sub(r"%(\1)s", sql.replace("%", "%%"))


T = TypeVar("T")


class Statements(NamedTuple):
    by_name: dict[str, str]
    about_event_log: frozenset[str]
    copies: dict[str, str]
    """The COPY that writes the same rows as an INSERT, by the INSERT."""


@cache
def _statements() -> Statements:
    by_name = {name: translated(sql) for name, sql in named_sql.load("postgres").items()}
    log = frozenset(sql for name, sql in by_name.items() if _ABOUT_THE_LOG.search(sql) and name != "insert_event")
    copies = {by_name[name.removesuffix(BY_COPY)]: sql for name, sql in by_name.items() if name.endswith(BY_COPY)}
    return Statements(by_name, log, copies)


class Statistics(NamedTuple):
    """What the server knows about the search index."""

    terms: CommonTerms
    passages: int
    """About how many."""


class PostgresDialect:
    name = "postgres"

    def __init__(self) -> None:
        self._statements, self.event_log_statements, self.copies = _statements()
        self._common_terms = CommonTerms()

    def sql(self, name: str) -> str:
        return self._statements[name]

    def find(self, connection: Connection, query: Query, scope: Scope, limit: int) -> RankedPage:
        if isinstance(query, Nothing):
            return RankedPage([], has_more=False, capped=False)
        if has_near(query):
            return self._find_near(connection, query, scope, limit)
        hits, capped = self._ranked(connection, query, scope, limit + 1)
        return RankedPage(hits[:limit], has_more=len(hits) > limit, capped=capped)

    def _ranked(
        self, connection: Connection, query: Query, scope: Scope, limit: int
    ) -> tuple[list[RankedPassage], bool]:
        """The best matches by bm25, and whether there were more than RANKED_AT_MOST."""
        phrases, statistics = list(_scored(query)), self._statistics(connection)
        cap = bm25.RANKED_AT_MOST if scope.is_blind else RANKED_AT_MOST
        given = _needles(phrases) | {"cap": cap + 1, "limit": limit, "since": scope.since, "until": scope.until}
        if scope.is_blind:  # passages that the caller may not read must have no influence
            times = [f"times{number}" for number in range(len(phrases))]
            counted = ", ".join(["length", *(f"{_TIMES.format(number=n)} AS {name}" for n, name in enumerate(times))])
            end = _EACH
        else:
            counted = f"{self._bm25(connection, phrases, given, statistics)} AS score"
            end = _BEST

        def matches(blocks: Sequence[str]) -> list[Row]:
            scopes = [*_scopes(scope), *blocks]
            params = {**given, "match": " & ".join([f"({_print(query)})", *scopes])}
            long = _in_long(query, scopes, params)
            timed = _SAID_BETWEEN if scope.is_timed else ""
            return connection.fetch(_COUNTED.format(long=long, counted=counted, timed=timed) + end, params)

        def count(rows: list[Row]) -> int:
            return rows[0]["matches"] if rows else 0

        share = statistics.terms.of_query(query) * self._share_of_scope(scope, statistics)
        rows = self._newest(connection, matches, count, cap + 1, 0.0 if scope.is_timed else share, statistics)
        capped = count(rows) > cap
        if scope.is_blind:
            newest = sorted(rows, key=lambda row: -row["id"])[:cap]
            found = [MatchCounts(row["id"], row["length"], [row[name] for name in times]) for row in newest]
            return bm25.rank_among_matches(found)[:limit], capped
        return [RankedPassage(row["id"], row["score"]) for row in rows], capped

    def _newest(
        self,
        connection: Connection,
        look_up: Callable[[Sequence[str]], T],
        count: Callable[[T], int],
        wanted: int,
        share: float,
        statistics: Statistics,
    ) -> T:
        """Look up matches. If very many passages match, look in the newest blocks of passages only.

        GIN cannot read the newest matches first: without blocks, all matches of a common word would be read.
        `share` is about how many of the passages match. `look_up` gets the condition on the blocks.
        """
        if share * statistics.passages < MANY_MATCHES * wanted:
            return look_up(())
        newest = connection.fetch(self.sql("newest_indexed"), {})[0]["id"]
        for _ in range(2):
            ids = MORE_THAN_EXPECTED * wanted / share
            size = BLOCK if ids <= MOST_BLOCKS * BLOCK else LARGE_BLOCK
            blocks = 1 + ceil(ids / size)  # the newest block is not full
            if blocks > 1 + MOST_BLOCKS or blocks * size > MOST_OF_ALL * newest:
                break
            tokens = [f"'{_block_token(newest - number * size, size)}'" for number in range(blocks)]
            found = look_up([f"({' | '.join(tokens)})"])
            if count(found) >= wanted:
                return found
            share = max(count(found), 1) / (blocks * size)
        return look_up(())

    def _statistics(self, connection: Connection) -> Statistics:
        row = connection.fetch(self.sql("index_statistics"), {})[0]
        self._common_terms = common_terms.read(connection, self._common_terms, row["analyses"])
        return Statistics(self._common_terms, row["passages"])

    def _share_of_scope(self, scope: Scope, statistics: Statistics) -> float:
        groups = _wanted_scopes(scope)
        return min((statistics.terms.of([SCOPE + token for token in group]) for group in groups), default=1.0)

    def _bm25(
        self, connection: Connection, phrases: list[Phrase], params: dict[str, Any], statistics: Statistics
    ) -> str:
        """The SQL expression of the bm25 score. It adds its parameters to `params`."""
        totals = connection.fetch(self.sql("index_totals"), {})[0]
        size = max(1, totals["passages"])
        params["usual"] = max(1.0, totals["tokens"] / size)
        for number, passages in enumerate(self._counts(connection, phrases, statistics)):
            params[f"rarity{number}"] = max(log(max(size - passages, 0) + 0.5) - log(passages + 0.5), 1e-6)
        return " + ".join(_POINTS.format(number=number) for number in range(len(phrases)))

    def _counts(self, connection: Connection, phrases: Sequence[Phrase], statistics: Statistics) -> list[int]:
        """The number of passages with each phrase. Very common words are looked up in the server's statistics."""
        common: dict[Phrase, int] = {}
        for phrase in phrases:
            word = phrase.words[0] if len(phrase.words) == 1 else ""
            share = statistics.terms.least_of_prefix(word) if phrase.prefix else statistics.terms.of([word])
            passages = round(share * statistics.passages) if word else 0
            if phrase.prefix and passages > COUNTED_AT_MOST:
                common[phrase] = COUNTED_AT_MOST  # it would be counted up to this
            elif not phrase.prefix and passages > TRUSTED_FROM:
                common[phrase] = passages
        counted = [phrase for phrase in phrases if phrase not in common]
        params: dict[str, Any] = {"cap": COUNTED_AT_MOST}
        counts = []
        for number, phrase in enumerate(counted):
            params[f"phrase{number}"] = _print(phrase)
            counts.append(_PHRASE_COUNT.format(number=number, long=_in_long(phrase, (), params)))
        rows = iter(connection.fetch(" UNION ALL ".join(counts) + " ORDER BY number", params) if counts else ())
        return [common[phrase] if phrase in common else next(rows)["passages"] for phrase in phrases]

    def _find_near(self, connection: Connection, query: Query, scope: Scope, limit: int) -> RankedPage:
        """Find passages with the words, then read their texts, because tsquery has no NEAR operator."""
        ranked, capped = self._ranked(connection, query, scope, RANKED_AT_MOST)
        near: list[RankedPassage] = []
        for begin in range(0, len(ranked), TEXTS_AT_ONCE):
            some = ranked[begin : begin + TEXTS_AT_ONCE]
            ids = orjson.dumps([hit.passage_id for hit in some]).decode()
            texts = {row["id"]: row["text"] for row in connection.fetch(self.sql("texts"), {"ids": ids})}
            near += [hit for hit in some if is_match(query, words(texts.get(hit.passage_id, "")))]
            if len(near) > limit:
                break
        return RankedPage(near[:limit], has_more=len(near) > limit, capped=capped)

    def recall(
        self, connection: Connection, groups: Sequence[Sequence[Phrase]], scope: Scope, cap: int
    ) -> list[RankedPassage]:
        wanted = [f"({_any_stem(group)})" for group in groups]
        most = bm25.RANKED_AT_MOST // len(groups)
        given = {"wanted": " & ".join(wanted), "cap": cap, "most": most, "since": scope.since, "until": scope.until}

        def best(blocks: Sequence[str]) -> list[Row]:
            scopes = [*_scopes(scope), *blocks]
            params = {**given, "match": " & ".join([*wanted, *scopes])}
            long = _stems_in_long(groups, scopes, params)
            return connection.fetch(_RECALL.format(long=long, timed=_SAID_BETWEEN if scope.is_timed else ""), params)

        def count(rows: list[Row]) -> int:
            return rows[0]["matches"] if rows else 0

        statistics = self._statistics(connection)
        share = self._share(groups, scope, statistics)
        rows = self._newest(connection, best, count, most, share, statistics)
        return [RankedPassage(row["id"], row["score"]) for row in rows]

    def _share(self, groups: Sequence[Sequence[Phrase]], scope: Scope, statistics: Statistics) -> float:
        """About which share of passages has a term of each group and is in a scope; 0 if it is not worth knowing."""
        if scope.is_timed:  # most matches may be outside the period
            return 0.0
        return statistics.terms.of_stems(groups) * self._share_of_scope(scope, statistics)

    def promising(
        self, connection: Connection, groups: Sequence[Sequence[Phrase]], scope: Scope, cap: int
    ) -> list[RankedPassage]:
        return self.recall(connection, groups, scope, cap)  # ts_rank depends on the passage alone

    def size(self, connection: Connection) -> int:
        return max(0, int(connection.fetch(self.sql("index_size"), {})[0]["size"]))

    def frequencies(self, connection: Connection, tokens: Sequence[str]) -> dict[str, int]:
        """Read the frequencies of the most common words from the server's statistics. All other words are rare and
        get 1. Rounding must not turn a frequency below one into none."""
        known = self._statistics(connection)
        return {token: max(1, round(known.terms.of(lexemes_of(token)) * known.passages)) for token in tokens}

    def having(self, connection: Connection, groups: Sequence[Sequence[Phrase]], scope: Scope, cap: int) -> list[int]:
        wanted = [f"({_any_stem(group)})" for group in groups]

        def newest(blocks: Sequence[str]) -> list[int]:
            scopes = [*_scopes(scope), *blocks]
            params: dict[str, Any] = {"match": " & ".join([*wanted, *scopes]), "cap": cap}
            params |= {"since": scope.since, "until": scope.until}
            # The row of a long passage has its scopes, but not its words.
            long = _stems_in_long(groups, scopes, params) if groups else _NONE
            rows = connection.fetch(_HAVING.format(long=long, timed=_SAID_BETWEEN if scope.is_timed else ""), params)
            ids: list[int] = rows[0]["ids"] or []
            return ids

        statistics = self._statistics(connection)
        share = self._share(groups, scope, statistics)
        return self._newest(connection, newest, len, cap, share, statistics)

    def count(self, connection: Connection, terms: Sequence[Phrase], scope: Scope, cap: int) -> int:
        return self._count(connection, [terms], scope, cap)

    def size_of(self, connection: Connection, scope: Scope, cap: int) -> int:
        if scope.token_groups:
            return self._count(connection, [], replace(scope, since=-FOREVER, until=FOREVER), cap)
        rows = connection.fetch(self.sql("count_indexed"), {"sources": list(scope.sources), "cap": cap})
        return int(rows[0]["passages"])

    def _count(self, connection: Connection, groups: Sequence[Sequence[Phrase]], scope: Scope, cap: int) -> int:
        scopes = _scopes(scope)
        wanted = [f"({_any_stem(group)})" for group in groups]
        params: dict[str, Any] = {"match": " & ".join([*wanted, *scopes]), "cap": cap}
        params |= {"since": scope.since, "until": scope.until}
        # The row of a long passage has its scopes, but not its words.
        long = _stems_in_long(groups, scopes, params) if groups else _NONE
        sql = _COUNT_ALL.format(long=long, timed=_SAID_BETWEEN if scope.is_timed else "")
        return int(connection.fetch(sql, params)[0]["passages"])

    def in_period(self, connection: Connection, scope: Scope, most: int, looked_at: int) -> list[int]:
        params = {"match": " & ".join(_scopes(scope)), "since": scope.since, "until": scope.until}
        params |= {"most": most, "cap": looked_at}
        return [id for (id,) in connection.fetch_tuples(self.sql("matches_between"), params)]

    def write_index(self, connection: Connection, rows: Mapping[int, IndexRow | None], fresh: set[int]) -> None:
        stale = [{"id": passage_id} for passage_id in rows if passage_id not in fresh]
        if stale:
            connection.run_many(self.sql("unindex_passage"), stale)
            connection.run_many(self.sql("drop_vector"), [row for row in stale if rows[row["id"]] is None])
            connection.run_many(self.sql("mark_vector_stale"), [row for row in stale if rows[row["id"]] is not None])
            connection.run_many(self.sql("unindex_trigrams"), stale)
        new = {id: row for id, row in rows.items() if row}
        if len(new) >= MANY_ROWS:
            connection.run(self.sql("sort_in_memory"), {})
        parts: list[tuple[int, int, str]] = []

        def index_rows() -> Iterator[tuple[int, int, str, str, str | None]]:
            for id, row in new.items():
                own, others = tsvectors(row, id)
                parts.extend((id, number, part) for number, part in enumerate(others))
                length = len(row.scopes) + 2 * (row.words.count(" ") + 1 if row.words else 0)
                tokens = f" {row.words.replace(' ', '  ')} " if row.words else ""
                stems = f"{row.stems.replace(STEM, ' ')} " if others else None
                yield id, length, own, tokens, None if stems == tokens else stems

        connection.run_rows(self.sql("index_passages"), index_rows())
        connection.run_rows(self.sql("index_parts"), parts)
        texts = {id: row.substring for id, row in new.items() if row.substring}
        self._write_substrings(connection, "index_trigrams", texts)

    def tidy(self, connection: Connection) -> None:
        connection.run(self.sql("add_up_totals"), {})
        if connection.fetch(self.sql("has_bulk_settings"), {})[0]["is_so"]:
            connection.run(self.sql("end_bulk_writes"), {})

    def write_parts(self, connection: Connection, texts: Mapping[int, str]) -> None:
        self._write_substrings(connection, "index_trigrams_again", texts)

    def _write_substrings(self, connection: Connection, statement: str, texts: Mapping[int, str]) -> None:
        words: set[str] = set()

        def rows() -> Iterator[tuple[int, str]]:
            for id, text in texts.items():
                numbers, its_words = numbers_and_words(text)
                words.update(its_words)
                yield id, numbers

        # The rows come first: they keep `forget_runs` from removing words that this change uses.
        connection.run_rows(self.sql(statement), rows())
        if words:
            unknown = connection.fetch_tuples(self.sql("unknown_runs"), {"runs": " ".join(words)})
            connection.run_rows(self.sql("insert_runs"), (word_row(word) for (word,) in unknown))

    def holds(self, connection: Connection, rows: Iterable[tuple[int, IndexRow]]) -> bool:
        left = iter(rows)
        while some := dict(islice(left, TEXTS_AT_ONCE)):
            if not self._hold(connection, some):
                return False
        return True

    def _hold(self, connection: Connection, rows: dict[int, IndexRow]) -> bool:
        have: defaultdict[int, list[list[str]]] = defaultdict(list)
        for one in connection.fetch(self.sql("lexemes"), {"ids": orjson.dumps(list(rows)).decode()}):
            have[one["id"]].append(one["lexemes"])
        for id, row in rows.items():
            found = {lexeme for lexemes in have[id] for lexeme in lexemes}
            # A word that is its own stem is there once.
            found |= {STEM + word for word in found if not word.startswith((STEM, SCOPE)) and stem(word) == word}
            scopes = {*_block_tokens(id), *(SCOPE + scope for scope in row.scopes)}
            if found != {*row.words.split(), *row.stems.split(), *scopes}:
                return False
        return True

    def substring_candidates(self, connection: Connection, part: str, cap: int) -> list[int]:
        wanted = lookup_of(part)
        params: dict[str, Any] = {"numbers": wanted.numbers, "cap": cap}
        conditions = ["trigrams @> CAST(%(numbers)s AS integer[])"] if wanted.numbers != "{}" else []
        for place, fragment in enumerate(wanted.fragments):
            given = {"grams": fragment.grams, "pattern": fragment.pattern, "most": MOST_WORDS_OF_FRAGMENT + 1}
            words = [number for (number,) in connection.fetch_tuples(self.sql("runs_with"), given)]
            if len(words) <= MOST_WORDS_OF_FRAGMENT:
                params |= {f"words{place}": words, f"grams{place}": fragment.grams_in_long_words}
                conditions.append(_HAS_FRAGMENT.format(place=place))
        sql = _HAVING_SUBSTRING.format(conditions=" AND ".join(conditions) or "true")
        return [id for (id,) in connection.fetch_tuples(sql, params)]


def tsvectors(row: IndexRow, passage_id: int) -> tuple[str, list[str]]:
    """The index row as a literal: exact words weigh A, stems B, each with its places; scopes have none. A word that is
    its own stem is there once. The block of the passage is a scope.

    Of a passage that is too long the literal has only the scopes, and there are more of them for its parts. The first
    part has the words the passage begins with, and their places. The next ones have the words that are not in the
    first, each once and without places.
    """
    scopes = [f"'{token}'" for token in (*(SCOPE + scope for scope in row.scopes), *_block_tokens(passage_id))]
    words, stems = row.words.split(" ", MOST_WORDS), row.stems.split(" ", MOST_WORDS)
    if not row.words:
        return " ".join(scopes), []
    rest, stems_of_rest = (words.pop(), stems.pop()) if len(words) > MOST_WORDS else ("", "")
    size = len(words)
    while size > MOST_PLACES and 2 * len(" ".join(stems[:size]).encode()) + 24 * size > MOST_BYTES:
        size //= 2
    if size == len(words) and not rest and (size <= MOST_PLACES or max(Counter(stems).values()) <= MOST_PLACES):
        return _literal(words, stems, scopes), []
    known = set(words[:size])
    others: dict[str, str | None] = dict(zip(words[size:], stems[size:], strict=True))
    is_english = PLAIN_LETTER.search(rest) is not None  # otherwise every word is its own stem
    while rest:  # in portions: one call over a million characters would keep all other threads waiting
        some = rest.split(" ", AT_ONCE)
        rest = some.pop() if len(some) > AT_ONCE else ""
        if is_english:
            marked = stems_of_rest.split(" ", AT_ONCE)
            stems_of_rest = marked.pop() if rest else ""
            others.update(zip(some, marked, strict=True))
        else:
            others.update(dict.fromkeys(some))
    parts, part, free = [_literal(words[:size], stems[:size], scopes)], list(scopes), MOST_BYTES
    for word, its_stem in others.items():
        if word not in known:
            lexemes = f"'{word}'" if its_stem in (None, STEM + word) else f"'{word}' '{its_stem}'"
            free -= len(lexemes.encode())
            if free < 0:
                parts.append(" ".join(part))
                part, free = list(scopes), MOST_BYTES
            part.append(lexemes)
    if len(part) > len(scopes):
        parts.append(" ".join(part))
    return " ".join(scopes), parts


def _literal(words: Sequence[str], stems: Sequence[str], scopes: Sequence[str]) -> str:
    """Each word with its place, and its stem if that is different. The server puts the places of equal words together,
    and keeps MOST_PLACES of each."""
    exact = chain.from_iterable(zip(words, _EXACT_PLACES, strict=False))
    placed = zip(words, stems, _STEM_PLACES, strict=False)
    stemmed = [marked + place for word, marked, place in placed if marked != STEM + word]
    return "'" + "".join(chain(exact, stemmed))[:-1] + " ".join(scopes)


_EXACT_PLACES, _STEM_PLACES = ([f"':{n}{weight} '" for n in range(1, MOST_WORDS + 1)] for weight in "AB")
"""The end of a word with its place, and the beginning of the next word."""


def _any_stem(terms: Sequence[Phrase]) -> str:
    stems = ["(" + " <-> ".join(map(_stem_or_word, stems_of(term.words))) + ")" for term in terms]
    return " | ".join([*stems, *(_print(term) for term in terms if term.prefix)])


def _stem_or_word(one: str) -> str:
    """The lexemes of a stem. A word that is its own stem is in the index as the word only."""
    return f"('{one}' | '{STEM}{one}')" if stem(one) == one else f"'{STEM}{one}'"


def _block_token(passage_id: int, size: int) -> str:
    """The lexeme of all passages in the block of a passage: passages whose ids are next to each other."""
    return f"{SCOPE}{'block' if size == BLOCK else 'largeblock'}{passage_id // size}"


def _block_tokens(passage_id: int) -> tuple[str, str]:
    return _block_token(passage_id, BLOCK), _block_token(passage_id, LARGE_BLOCK)


def _wanted_scopes(scope: Scope) -> list[tuple[str, ...]]:
    """The groups of scope tokens; a passage in the scope has one of each group."""
    kinds = [kind for kind, is_wanted in (("body", scope.bodies), ("title", scope.titles)) if is_wanted]
    if len(kinds) == 2 and len(scope.sources) == len(SOURCES):
        own = []  # everything
    else:
        own = [tuple(f"{source}{kind}" for source in scope.sources for kind in kinds)]
    return [*own, *map(tuple, scope.token_groups)]


def _scopes(scope: Scope) -> list[str]:
    inside = ["(" + " | ".join(f"'{SCOPE}{token}'" for token in group) + ")" for group in _wanted_scopes(scope)]
    return inside + [f"!'{SCOPE}{token}'" for token in scope.without]


# Long passages: the words that are asked for may be in several of their parts. Where they are to be side by side, the
# tokens of the passage tell whether they are.


def _in_long(query: Query, scopes: Sequence[str], params: dict[str, Any]) -> str:
    """The long passages that match a query; scope words are to be near each other, those that may."""
    match query:
        case Phrase(words, prefix):
            lexemes = [f"'{word}'" for word in words]
            if prefix:
                lexemes[-1] += ":*"
            return _phrase_in_long(lexemes, "tokens", _needle(words, prefix), scopes, params)
        case Near(parts, _) | AllOf(parts):
            return "(" + " INTERSECT ".join(_in_long(part, scopes, params) for part in parts) + ")"
        case AnyOf(parts):
            return "(" + " UNION ".join(_in_long(part, scopes, params) for part in parts) + ")"
        case Without(wanted, unwanted):
            if has_near(unwanted):
                return _in_long(wanted, scopes, params)
            return f"({_in_long(wanted, scopes, params)} EXCEPT {_in_long(unwanted, scopes, params)})"
        case Preferring(wanted, _):
            return _in_long(wanted, scopes, params)
        case Nothing():
            return ""


def _stems_in_long(groups: Sequence[Sequence[Phrase]], scopes: Sequence[str], params: dict[str, Any]) -> str:
    """The long passages that have a word of each group, whatever its ending."""
    found = []
    for group in groups:
        terms = [stems_of(term.words) for term in group]
        alone = [_stem_or_word(stems[0]) for stems in terms if len(stems) == 1]
        either = [_part([f"({' | '.join(alone)})", *scopes], params)] if alone else []
        for stems in terms:
            if len(stems) > 1:
                lexemes, needle = [_stem_or_word(one) for one in stems], _needle(stems)
                either.append(_phrase_in_long(lexemes, "coalesce(stems, tokens)", needle, scopes, params))
        either += [_in_long(term, scopes, params) for term in group if term.prefix]
        found.append("(" + " UNION ".join(either) + ")")
    return "(" + " INTERSECT ".join(found) + ")"


def _phrase_in_long(
    lexemes: Sequence[str], column: str, needle: str, scopes: Sequence[str], params: dict[str, Any]
) -> str:
    """The long passages that have the lexemes side by side: a column of theirs has the needle."""
    telling = sorted(set(lexemes), key=lambda lexeme: (-len(lexeme), lexeme))[:MOST_LOOKED_UP]
    found = "(" + " INTERSECT ".join(_part([lexeme, *scopes], params) for lexeme in telling) + ")"
    if len(lexemes) == 1:
        return found
    name = f"beside{len(params)}"
    params[name] = needle
    inside = f"SELECT passage_id FROM {found} AS held JOIN passage_index USING (passage_id)"
    return f"({inside} WHERE strpos({column}, %({name})s) > 0)"


def _part(lexemes: Sequence[str], params: dict[str, Any]) -> str:
    """The long passages of which one part has all of these."""
    name = f"part{len(params)}"
    params[name] = " & ".join(lexemes)
    return f"(SELECT DISTINCT passage_id FROM passage_parts WHERE words @@ CAST(%({name})s AS tsquery))"


def _needles(phrases: Sequence[Phrase]) -> dict[str, Any]:
    """The parameters by which each phrase is counted in the tokens of a passage."""
    params: dict[str, Any] = {}
    for number, phrase in enumerate(phrases):
        needle = _needle(phrase.words, phrase.prefix)
        params |= {f"needle{number}": needle, f"bytes{number}": float(len(needle.encode()))}
    return params


def _needle(words: Sequence[str], prefix: bool = False) -> str:
    """Some words side by side, as tokens have them."""
    return f" {'  '.join(words)}" + ("" if prefix else " ")


def _scored(query: Query) -> Iterator[Phrase]:
    """The phrases that bm25 counts, repeated as in SQLite."""
    match query:
        case Phrase():
            yield query
        case Near(parts, _) | AllOf(parts) | AnyOf(parts):
            for part in parts:
                yield from _scored(part)
        case Without(wanted, _):
            yield from _scored(wanted)
        case Preferring(wanted, phrases):
            yield from _scored(wanted)
            yield from _scored(wanted.parts[0])
            yield from phrases
        case Nothing():
            pass


_SAID_BETWEEN = "JOIN passages p ON p.id = passage_id AND p.created_at BETWEEN %(since)s AND %(until)s"
# The query is bound in a CTE, because the generic plan of a prepared statement would be slower.
_MATCHED = """
WITH asked AS MATERIALIZED (SELECT CAST(%(match)s AS tsquery) AS q),
matched AS MATERIALIZED (
    SELECT passage_id FROM passage_index, asked WHERE words @@ q
    UNION ALL
    {long}
)"""
# Words are counted while the matches are read: reading them again would take longer.
_COUNTED = """
WITH asked AS MATERIALIZED (SELECT CAST(%(match)s AS tsquery) AS q),
newest AS MATERIALIZED (
    SELECT matched.* FROM (
        SELECT passage_id, {counted} FROM passage_index, asked WHERE words @@ q
        UNION ALL
        SELECT passage_id, {counted} FROM {long} AS long JOIN passage_index USING (passage_id)
    ) AS matched {timed} ORDER BY passage_id DESC LIMIT %(cap)s
)"""
_BEST = """
SELECT passage_id AS id, score, (SELECT count(*) FROM newest) AS matches FROM newest
ORDER BY score DESC, passage_id DESC LIMIT %(limit)s"""
_EACH = """
SELECT newest.*, passage_id AS id, (SELECT count(*) FROM newest) AS matches FROM newest"""
# A byte order is enough to compare, and faster than the order of a language.
_TIMES = """((octet_length(tokens) - octet_length(replace(tokens COLLATE "C", %(needle{number})s, '')))
           / %(bytes{number})s)"""
_POINTS = f"%(rarity{{number}})s * ({_TIMES} * {K1 + 1}) / ({_TIMES} + {K1} * ({1 - B} + {B} * length / %(usual)s))"
_PHRASE_COUNT = """
SELECT {number} AS number, (
    SELECT count(*) FROM (
        SELECT 1 FROM passage_index, (SELECT CAST(%(phrase{number})s AS tsquery) AS q OFFSET 0) AS asked
        WHERE words @@ q LIMIT %(cap)s
    ) AS short
) + (SELECT count(*) FROM {long} AS long) AS passages"""
_HAVING_SUBSTRING = "SELECT passage_id FROM passage_trigrams WHERE {conditions} LIMIT %(cap)s"
_HAS_FRAGMENT = """(trigrams && CAST(%(words{place})s AS integer[])
                    OR trigrams @> CAST(%(grams{place})s AS integer[]))"""
_NONE = "SELECT passage_id FROM passage_parts WHERE false"
_COUNT_ALL = (
    _MATCHED
    + """
SELECT count(*) AS passages FROM (SELECT 1 FROM matched {timed} LIMIT %(cap)s) AS found"""
)
_HAVING = (
    _MATCHED
    + """
SELECT array_agg(passage_id) AS ids FROM (
    SELECT passage_id FROM matched {timed} ORDER BY passage_id DESC LIMIT %(cap)s
) AS newest"""
)
_RECALL = (
    _MATCHED
    + """, newest AS MATERIALIZED (
    SELECT passage_id FROM matched {timed} ORDER BY passage_id DESC LIMIT %(most)s
), inside AS (
    SELECT passage_id, words FROM newest JOIN passage_index USING (passage_id)
    UNION ALL
    SELECT passage_id, words FROM newest JOIN passage_parts USING (passage_id)
)
SELECT passage_id AS id, (SELECT count(*) FROM newest) AS matches,
       max(ts_rank(CAST('{{0, 0, 0.5, 0.5}}' AS real[]), words, CAST(%(wanted)s AS tsquery), 1)) AS score
FROM inside GROUP BY passage_id ORDER BY score DESC, passage_id DESC LIMIT %(cap)s"""
)


def _print(query: Query) -> str:
    """The query as a tsquery. For NEAR, it may match more than the query does."""
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
            return _print(wanted)
        case Nothing():
            return ""
