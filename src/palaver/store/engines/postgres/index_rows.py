"""Rows of the search index: made from the words of passages, written and compared."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress, islice, repeat
from operator import ne
from typing import NamedTuple

import orjson

from palaver.store.engines.database import SCOPE, STEM, Connection, IndexRow
from palaver.store.engines.postgres.plan import block_tokens
from palaver.store.engines.postgres.substrings import numbers_and_words, numbers_by_tokens, word_row
from palaver.text.tokenize import AT_ONCE, PLAIN_LETTER, stem

# A tsvector stores 255 positions of a word, positions up to 16,383, and one megabyte in all.
MOST_PLACES = 255
MOST_WORDS = 16_000
MOST_BYTES = 900_000
MANY_ROWS = 200
"""With this many rows, a change gets more memory for sorting."""
TEXTS_AT_ONCE = 500
"""How many texts are read at once."""


def write(connection: Connection, rows: Mapping[int, IndexRow | None], fresh: set[int]) -> None:
    """Write the rows of passages; None removes one. Passages in `fresh` have no rows yet."""
    stale = [id for id in rows if id not in fresh]
    _run_for(connection, "unindex_passages", stale)
    _run_for(connection, "drop_vectors", [id for id in stale if rows[id] is None])
    _run_for(connection, "mark_vectors_stale", [id for id in stale if rows[id] is not None])
    _run_for(connection, "unindex_trigrams", stale)
    new = {id: row for id, row in rows.items() if row}
    if len(new) >= MANY_ROWS:
        connection.run(connection.dialect.sql("sort_in_memory"), {})
    parts: list[tuple[int, int, str]] = []
    substrings = SubstringRows()

    def index_rows() -> Iterator[tuple[int, int, str, str, str | None]]:
        for id, row in new.items():
            own, others = tsvectors(row, id)
            parts.extend((id, number, part) for number, part in enumerate(others))
            length = len(row.scopes) + 2 * (row.words.count(" ") + 1 if row.words else 0)
            tokens = f" {row.words.replace(' ', '  ')} " if row.words else ""
            stems = f"{row.stems.replace(STEM, ' ')} " if others else None
            yield id, length, own, tokens, None if stems == tokens else stems
            # Made here, while the server is busy with the index rows.
            if isinstance(row.prepared, PreparedRow):
                runs = row.words if row.prepared.runs is None else row.prepared.runs
                substrings.add(id, row.prepared.numbers, runs, row.created_at)
            elif row.substring:
                substrings.add(id, *numbers_and_words(row.substring), row.created_at)

    connection.run_rows(connection.dialect.sql("index_passages"), index_rows())
    connection.run_rows(connection.dialect.sql("index_parts"), parts)
    substrings.write(connection, "index_trigrams")


def _run_for(connection: Connection, statement: str, ids: list[int]) -> None:
    """Run a statement once for many passages."""
    if ids:
        connection.run(connection.dialect.sql(statement), {"ids": orjson.dumps(ids).decode()})


class SubstringRows:
    """Rows of the substring index, and the words in them."""

    def __init__(self, texts: Mapping[int, str] | None = None, times: Mapping[int, int | None] | None = None) -> None:
        self._rows: list[tuple[int, str, int | None]] = []
        self._words: set[str] = set()
        for id, text in (texts or {}).items():
            self.add(id, *numbers_and_words(text), (times or {}).get(id))

    def add(self, id: int, numbers: str, words: str, created_at: int | None) -> None:
        self._rows.append((id, numbers, created_at))
        self._words.update(words.split())

    def write(self, connection: Connection, statement: str) -> None:
        """Write the rows, and the words that the table of words does not have."""
        # The rows come first: they keep `forget_runs` from removing words that this change uses.
        connection.run_rows(connection.dialect.sql(statement), self._rows)
        if self._words:
            unknown = connection.fetch_tuples(connection.dialect.sql("unknown_runs"), {"runs": " ".join(self._words)})
            connection.run_rows(connection.dialect.sql("insert_runs"), (word_row(word) for (word,) in unknown))


def holds(connection: Connection, rows: Iterable[tuple[int, IndexRow]]) -> bool:
    """Does the index have exactly these rows?"""
    left = iter(rows)
    while some := dict(islice(left, TEXTS_AT_ONCE)):
        if not _hold(connection, some):
            return False
    return True


def _hold(connection: Connection, rows: dict[int, IndexRow]) -> bool:
    have: defaultdict[int, list[list[str]]] = defaultdict(list)
    for one in connection.fetch(connection.dialect.sql("lexemes"), {"ids": orjson.dumps(list(rows)).decode()}):
        have[one["id"]].append(one["lexemes"])
    for id, row in rows.items():
        found = {lexeme for lexemes in have[id] for lexeme in lexemes}
        # A word that is its own stem is there once.
        found |= {STEM + word for word in found if not word.startswith((STEM, SCOPE)) and stem(word) == word}
        scopes = {*block_tokens(id), *(SCOPE + scope for scope in row.scopes)}
        if found != {*row.words.split(), *row.stems.split(), *scopes}:
            return False
    return True


class PreparedRow(NamedTuple):
    """What can be made of a text before its passage has an id."""

    words: str
    """The beginning of the literal of its tsvector, without the scopes."""
    numbers: str
    """Its numbers in the substring index."""
    runs: str | None
    """Its words for the table of words, if they are not its words in the index."""


def prepare_text(words: list[str], stems: list[str], substring: str) -> PreparedRow | None:
    """None for a text without words, or one that is too long for one row."""
    if not words or not _fit_one_row(words, stems):
        return None
    if numbers := numbers_by_tokens(substring, words):
        return PreparedRow(_literal(words, stems), numbers, None)
    return PreparedRow(_literal(words, stems), *numbers_and_words(substring))


def _fit_one_row(words: Sequence[str], stems: Sequence[str]) -> bool:
    if len(words) <= MOST_PLACES:
        return True
    is_short = len(words) <= MOST_WORDS and _most_bytes_of(stems) <= MOST_BYTES
    return is_short and max(Counter(stems).values()) <= MOST_PLACES


def _most_bytes_of(stems: Sequence[str]) -> int:
    """How large a tsvector of these words and stems may be: each with its places."""
    return 2 * len(" ".join(stems).encode()) + 28 * len(stems)


def tsvectors(row: IndexRow, passage_id: int) -> tuple[str, list[str]]:
    """The index row as a literal: exact words weigh A, stems B, each with its places; scopes have none. A word that is
    its own stem is there once. The block of the passage is a scope.

    Of a passage that is too long the literal has only the scopes, and there are more of them for its parts. The first
    part has the words the passage begins with, and their places. The next ones have the words that are not in the
    first, each once and without places.
    """
    scopes = [f"'{token}'" for token in (*(SCOPE + scope for scope in row.scopes), *block_tokens(passage_id))]
    words, stems = row.words.split(" ", MOST_WORDS), row.stems.replace(STEM, "").split(" ", MOST_WORDS)
    if not row.words:
        return " ".join(scopes), []
    if isinstance(row.prepared, PreparedRow):
        return row.prepared.words + " ".join(scopes), []
    rest, stems_of_rest = (words.pop(), stems.pop()) if len(words) > MOST_WORDS else ("", "")
    if not rest and _fit_one_row(words, stems):
        return _literal(words, stems) + " ".join(scopes), []
    size = len(words)
    while size > MOST_PLACES and _most_bytes_of(stems[:size]) > MOST_BYTES:
        size //= 2
    known = set(words[:size])
    others: dict[str, str | None] = dict(zip(words[size:], stems[size:], strict=True))
    is_english = PLAIN_LETTER.search(rest) is not None  # otherwise every word is its own stem
    while rest:  # in portions: one call over a million characters would keep all other threads waiting
        some = rest.split(" ", AT_ONCE)
        rest = some.pop() if len(some) > AT_ONCE else ""
        if is_english:
            its_stems = stems_of_rest.split(" ", AT_ONCE)
            stems_of_rest = its_stems.pop() if rest else ""
            others.update(zip(some, its_stems, strict=True))
        else:
            others.update(dict.fromkeys(some))
    parts, part, free = [_literal(words[:size], stems[:size]) + " ".join(scopes)], list(scopes), MOST_BYTES
    for word, its_stem in others.items():
        if word not in known:
            lexemes = f"'{word}'" if its_stem in (None, word) else f"'{word}' '{STEM}{its_stem}'"
            free -= len(lexemes.encode())
            if free < 0:
                parts.append(" ".join(part))
                part, free = list(scopes), MOST_BYTES
            part.append(lexemes)
    if len(part) > len(scopes):
        parts.append(" ".join(part))
    return " ".join(scopes), parts


def _literal(words: Sequence[str], stems: Sequence[str]) -> str:
    """Each word with its place, and its stem if that is different. The server puts the places of equal words together,
    and keeps MOST_PLACES of each."""
    pieces = [""] * (2 * len(words))
    pieces[::2], pieces[1::2] = words, _EXACT_PLACES[: len(words)]
    placed = zip(repeat(STEM), stems, _STEM_PLACES, strict=False)
    pieces += chain.from_iterable(compress(placed, map(ne, words, stems)))
    return "'" + "".join(pieces)[:-1]


_EXACT_PLACES, _STEM_PLACES = ([f"':{n}{weight} '" for n in range(1, MOST_WORDS + 1)] for weight in "AB")
"""The end of a word with its place, and the beginning of the next word."""
