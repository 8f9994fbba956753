"""Results: passages grouped into results, exact id and title matches first, and an estimate of the total."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, NamedTuple

from palaver.model.library import is_unique
from palaver.model.search import Capped, Order
from palaver.search.hits import MOST_CANDIDATES, Candidates, Hits
from palaver.search.question import Question
from palaver.search.ranking.score import ScoredPassage
from palaver.search.sources import SOURCES, parse_uri
from palaver.store.engines.database import Reader, Scope
from palaver.store.search import found_passages
from palaver.store.search.found_passages import Candidate
from palaver.text.tokenize import words

Matched = Literal["id", "title", "all words", "some words", "similar", "nothing"]

SHORTEST_ID, LONGEST_ID = 6, 400
LONGEST_TITLE = 40
"""Words of a query that may be a title."""
MOST_TITLES = 500
"""Passages with all terms that are checked for a title equal to the query."""
WEAK = 0.05
"""A result is weak if its score is below this share of the best, and it covers less than LITTLE of the question."""
LITTLE = 0.6
AGAIN = 0.8
"""The score of each further result of a conversation is multiplied by this if several messages are asked for."""
SPREAD = 50
"""The first results, of which those of other conversations come forward."""
BEHIND_EXACT = 0.9
"""Scores of other results are multiplied by this when there is an exact match."""


class Result(NamedTuple):
    """One result: its best passage and its score. A message is a result; so is a note, a media item or a prompt."""

    best: Candidate
    score: float
    modified_at: int
    why: ScoredPassage

    @property
    def uri(self) -> str:
        return SOURCES[self.best.source].uri_of(self.best.document, self.best.native_id, self.best.position)

    @property
    def key(self) -> Hashable:
        """The same for every copy of a message."""
        return SOURCES[self.best.source].key_of(self.best)

    @property
    def name(self) -> str:
        """The name under which a search session remembers it: the id that all copies share, or the URI."""
        return key if isinstance(key := self.key, str) else self.uri


@dataclass(frozen=True, slots=True)
class Results:
    """The results for a question, best (or newest) first."""

    question: Question
    ranked: list[Result]
    more: int = 0
    """The estimated number of results after these."""
    hits: Hits | None = None
    confidence: float | None = None
    """How likely an answer is among the first results; None if nothing was asked."""
    listed: tuple[int, ...] = ()
    """The passages of a search without words."""
    listed_capped: Capped | None = None
    """There are more of them."""

    @property
    def matched(self) -> Matched:
        """How the best results match."""
        if not self.ranked:
            return "nothing"
        if named := self.ranked[0].why.named_by:
            return named
        if any(one.why.has_all for one in self.ranked):
            return "all words"
        return "some words" if any(one.why.has_any for one in self.ranked) else "similar"

    @property
    def left_out(self) -> list[str] | None:
        """Terms that were looked up only together with others."""
        common, terms = self.hits.too_common if self.hits else (), self.question.terms
        return [" ".join(terms[number].words) for number in common] or None

    @property
    def capped(self) -> Capped | None:
        """What was not considered, if anything."""
        if self.hits is None or not self.hits.is_capped:
            return self.listed_capped
        numbers, terms = sorted((*self.hits.too_common, *self.hits.truncated)), self.question.terms
        considered = min(self.hits.count, MOST_CANDIDATES)
        return Capped(considered, [" ".join(terms[number].words) for number in numbers])


def group(scored: Iterable[ScoredPassage], order: Order) -> list[Result]:
    """Make one result of all passages with the same key, and sort the results."""
    best: dict[Hashable, ScoredPassage] = {}
    best_body: dict[Hashable, ScoredPassage] = {}
    for one in scored:
        key = SOURCES[one.at.source].key_of(one.at)
        if (before := best.get(key)) is None or _is_better(one, before):
            best[key] = one
        if one.at.position and one.has_any and ((before := best_body.get(key)) is None or _is_better(one, before)):
            best_body[key] = one
    top = max([one.score for one in best.values()], default=1.0)
    found = []
    for key, one in best.items():
        # The body usually repeats the title, and can be shown and opened at the match.
        shown = one.at if one.at.position else best_body.get(key, one).at
        found.append(Result(shown, round(one.score / top, 9) or 1e-9, _modified_at(one.at), one))
    if order == "recent":
        return _sort(found, lambda one: (-one.modified_at, -one.score))
    return _sort(found, lambda one: (-one.score, -one.modified_at))


def one_of_each_conversation(results: Iterable[Result]) -> list[Result]:
    """The first result of each conversation."""
    found: dict[Hashable, Result] = {}
    for one in results:
        found.setdefault(SOURCES[one.best.source].conversation_of(one.best), one)
    return list(found.values())


def spread(results: Sequence[Result]) -> list[Result]:
    """Lower the score of each further result of a conversation, so that several conversations are among the first. Only
    the first results change places: those after them depend on the page."""
    seen, found = Counter[int](), list[Result]()
    for one in results[:SPREAD]:
        found.append(one._replace(score=round(one.score * AGAIN ** seen[one.best.document_id], 9) or 1e-9))
        seen[one.best.document_id] += 1
    lowest = min([one.score for one in found], default=1.0)
    others = [one._replace(score=min(one.score, lowest)) for one in results[SPREAD:]]
    return sorted(found, key=lambda one: -one.score) + others


def is_weak(one: Result) -> bool:
    """Whether a result is far below the best. One with all words is not, wherever they are."""
    return one.score < WEAK and not one.why.has_all and not (one.why.features and one.why.features.cover >= LITTLE)


def _is_better(one: ScoredPassage, other: ScoredPassage) -> bool:
    """Of equal matches, the first passage of a document wins, and the oldest copy of a message."""
    mine, theirs = one.at, other.at
    return (one.score, -mine.position, -mine.passage_id) > (other.score, -theirs.position, -theirs.passage_id)


def _sort(results: list[Result], key: Callable[[Result], tuple[float, float]]) -> list[Result]:
    """Sort by key, then by URI. URIs are built only for ties."""
    found: list[Result] = []
    for _, ties in groupby(sorted(results, key=key), key=key):
        some = list(ties)
        found += sorted(some, key=lambda one: one.uri) if len(some) > 1 else some
    return found


def _modified_at(one: Candidate) -> int:
    if SOURCES[one.source].is_conversation and one.position:
        return one.created_at or 0
    return one.modified_at


def count_more(read: Reader, candidates: Candidates, results: Iterable[Result]) -> int:
    """Estimate how many results the unplaced hits make. A message counts once, however many copies there are."""
    some = candidates.next_ids
    if not some:
        return 0
    texts, message_ids = found_passages.hits_to_count(read, some)
    shown = {one.best.document_id for one in results}
    unique = [id for id in message_ids if is_unique(id)]
    copies = len(unique) - len(set(unique) - {one.best.native_id for one in results})
    found = len(some) - sum(texts.values()) + len(texts.keys() - shown) - copies
    return round(found * candidates.left / len(some))


def put_exact_first(
    read: Reader, question: Question, scopes: Sequence[Scope], results: list[Result], hits: Hits
) -> list[Result]:
    """An exact id, URI or title match always ranks first."""
    by_id = _with_id(read, question.text, scopes)
    exact: dict[Hashable, Result] = {}
    for one in [by_id] if by_id else _with_title(read, question, scopes, hits):
        exact.setdefault(one.key, one)
    if not exact:
        return results
    others = []
    for one in results:
        if same := exact.get(one.key):
            exact[one.key] = same._replace(best=one.best)  # show it where its text matches too
        else:
            others.append(one._replace(score=round(one.score * BEHIND_EXACT, 9)))
    return [*exact.values(), *others]


def _with_title(read: Reader, question: Question, scopes: Sequence[Scope], hits: Hits) -> list[Result]:
    """Documents whose title is the query, ignoring case, accents and punctuation; the newest first."""
    if len(question.words) > LONGEST_TITLE:
        return []
    title, sources = question.text.strip(), _unfiltered_sources(scopes)
    # The engine ignores the case of ASCII letters only, so other titles are looked up in their usual spellings.
    spellings = {title} if title.isascii() else {title, title.lower(), title.title()}
    spellings = spellings if title.isprintable() else set()
    groups = None if "sessions" in sources else "[]"
    titled = [found_passages.documents_with_title(read, spelling, groups) for spelling in spellings]
    found = {one.id: one for some in titled for one in some}
    ids = [
        passage_id
        for one in found.values()
        if one.source in sources and tuple(words(one.title)) == question.words
        if (passage_id := _first_passage(read, one.id)) is not None
    ]
    likely = hits.with_all_terms()
    if likely and len(likely) <= MOST_TITLES:
        titles = found_passages.title_texts(read, likely)
        ids += [id for id, text in titles.items() if tuple(words(text)) == question.words]
    inside = found_passages.in_scopes(read, list(dict.fromkeys(ids)), scopes) if ids else []
    places = found_passages.candidates(read, inside) if inside else []
    return _sort([_exact(at, "title") for at in places], lambda one: (0.0, -one.modified_at))


def _with_id(read: Reader, text: str, scopes: Sequence[Scope]) -> Result | None:
    """The document or message whose id or URI is the query, if it is in scope."""
    name = text.strip()
    if not SHORTEST_ID <= len(name) <= LONGEST_ID or " " in name or not name.isprintable():
        return None
    sources = _unfiltered_sources(scopes)
    given = parse_uri(name)
    for source, id in [given[:2]] if given else [(source, name) for source in sorted(sources)]:
        opened = found_passages.resolve(read, source, id) if source in sources else None
        if opened is None:
            continue
        passage_id = opened.passage_id or _first_passage(read, opened.document_id)
        if passage_id is not None and found_passages.in_scopes(read, [passage_id], scopes):
            return _exact(found_passages.candidates(read, [passage_id])[0], "id")
    return None


def _exact(at: Candidate, how: Literal["id", "title"]) -> Result:
    return Result(at, 1.0, _modified_at(at), ScoredPassage(at, 1.0, has_all=True, has_any=True, named_by=how))


def _unfiltered_sources(scopes: Sequence[Scope]) -> frozenset[str]:
    """The sources that no filter narrows."""
    return frozenset(
        source
        for one in scopes
        if one == Scope(one.sources, without=one.without, is_blind=one.is_blind)
        for source in one.sources
    )


def _first_passage(read: Reader, document_id: int) -> int | None:
    first = found_passages.passages(read, document_id, 0, 1)
    return first[0].id if first else None
