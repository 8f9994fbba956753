"""Hits: the passages that a search found in the index, which of them are read, and their texts.

A `TermSet` is an int with a bit for each term, each related word and the theme. Only `TermWeights` knows the bits.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import islice, pairwise, zip_longest
from operator import neg, or_
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from palaver.model.search import FoundPassage
from palaver.search.question import Question
from palaver.search.snippet import LONGEST_WHOLE, match_place, relevant_parts
from palaver.search.sources import SOURCES
from palaver.store.engines import bm25
from palaver.store.engines.database import Lookup, Reader, Scope
from palaver.store.engines.id_ranges import WIDTH
from palaver.store.library.documents import PROJECT, document_scope
from palaver.store.search import found_passages
from palaver.store.search.found_passages import Candidate, CandidateText
from palaver.text.query import Phrase, with_parts

if TYPE_CHECKING:
    from palaver.search.vectors.encoders import Array
    from palaver.search.vectors.nearest import Nearest

MOST_CANDIDATES = 10_000
MOST_IN_TIME = 200
"""Hits from a period of the question that are placed before others."""
PLACED = 300
"""The best hits whose documents and positions are looked up."""
EQUAL_SIGNS = 5.0
"""How much the share of equal signs of two vectors counts beside the cover, when it is decided which hits to place."""
IN_TIME = 0.5
"""How much more is expected of a passage from a period of the question when it is decided which ones to read."""
TermSet = int
"""The terms of a question that a passage has."""

RELATED = 0.5
"""The value of a related word, as a share of the value of the word itself."""
COUNTED = 300
"""Hits after the placed ones that are counted one by one to estimate the total."""
ALL_COUNTED = 1_300
"""If there are no more hits than this, all of them are counted."""
MEANING = 3.0
"""How much the similarity in meaning counts beside the cover, when it is decided which passages to read."""
WITH_NEIGHBOURS = 60
"""The best passages that are read together with their neighbours in the conversation."""
CHUNKS = 30
"""Passages of a media item among which a chunk of its own text is looked for."""
LABELS = frozenset({"keywords", "tags"})
"""Fields with labels. They are searched, but where the text matches too, the text is shown."""


def only(term: int) -> TermSet:
    """The set of one term, given by its number in the question."""
    return 1 << term


@dataclass(frozen=True, slots=True)
class TermWeights:
    """How much each term counts. Rare terms count more; related words and the theme count half.

    In a `TermSet`, bit n is term n, bit n + (number of terms) is a word related to term n, and the last bit is a word
    of the theme.
    """

    rarity: tuple[float, ...]
    related: tuple[float, ...]
    theme: float = 0.0
    _cover: dict[TermSet, float] = field(default_factory=dict, repr=False, compare=False)

    @staticmethod
    def related_to(term: int, count: int) -> TermSet:
        """The set of a word related to one of `count` terms; `term == count` means the theme."""
        return 1 << term + count

    @property
    def everything(self) -> TermSet:
        """All terms of the question."""
        return (1 << len(self.rarity)) - 1

    def has_all(self, terms: TermSet) -> bool:
        return terms & self.everything == self.everything

    def own_terms(self, terms: TermSet) -> TermSet:
        """The terms themselves, without related words and the theme."""
        return terms & self.everything

    def numbers(self, terms: TermSet) -> Iterator[int]:
        """The numbers of the terms in a set, without related words and the theme."""
        return (number for number in range(len(self.rarity)) if terms >> number & 1)

    def cover(self, terms: TermSet) -> float:
        """How much of the question these terms cover, from 0 to 1."""
        known = self._cover.get(terms)
        if known is None:
            count = len(self.rarity)
            value = sum(
                rare if terms >> n & 1 else RELATED * like if terms >> n + count & 1 else 0.0
                for n, (rare, like) in enumerate(zip(self.rarity, self.related, strict=True))
            )
            if terms >> 2 * count & 1:
                value += RELATED * self.theme
            known = self._cover[terms] = value / (sum(self.rarity) or 1.0)
        return known

    def frequency(self, passages: Mapping[TermSet, int]) -> float:
        """How often the terms occur in a document, given how many of its passages have each set of terms. The tenth
        occurrence counts less than the first."""
        count, found = len(self.rarity), []
        for n, (rare, like) in enumerate(zip(self.rarity, self.related, strict=True)):
            itself = sum(times for terms, times in passages.items() if terms >> n & 1)
            instead = sum(times for terms, times in passages.items() if terms >> n + count & 1 and not terms >> n & 1)
            times = itself + (RELATED * instead * like / rare if rare else 0.0)
            found.append((rare, times))
        return bm25.score(found)


@dataclass(frozen=True, slots=True)
class Hits:
    """Which passages have which terms."""

    by_terms: dict[TermSet, set[int]]
    weights: TermWeights
    too_common: tuple[int, ...] = ()
    """Terms that were looked up only together with other terms, because too many passages have them."""
    truncated: tuple[int, ...] = ()
    """Terms of which only the newest passages were collected."""
    are_few: bool = False
    """Few passages have any of the terms."""
    lookups: dict[TermSet, list[int]] = field(default_factory=dict, repr=False)
    """The passages that each lookup found."""
    best: tuple[int, ...] = ()
    """If very many passages have all keywords: the ones that the index ranks first."""
    in_time: frozenset[int] = frozenset()
    """The passages from a period that the question names. They come before others."""
    spoken: frozenset[int] = frozenset()
    """The passages of the speaker that the question names. They come before others."""
    vector: Array | None = field(default=None, repr=False)
    """The vector of the question; None for keywords, and without a model."""
    near: Nearest | None = field(default=None, repr=False)
    """How far all passages are from the question."""
    nearest: tuple[int, ...] = ()
    """The passages that are nearest in meaning. They come before others."""
    placed: int = PLACED
    """How many of the best hits are placed."""

    @property
    def preferred(self) -> frozenset[int]:
        """The passages of the period and of the speaker, or those of either."""
        return self.in_time & self.spoken or self.in_time | self.spoken

    def among(self, passage_ids: Iterable[int]) -> set[int]:
        """Those of some passages that have any of the terms."""
        some = set(passage_ids)
        return {id for ids in self.by_terms.values() for id in ids & some}

    def terms_of(self, passage_id: int) -> TermSet:
        return next((terms for terms, ids in self.by_terms.items() if passage_id in ids), 0)

    @property
    def count(self) -> int:
        return sum(map(len, self.by_terms.values()))

    @property
    def is_capped(self) -> bool:
        """Some passages with some of the terms were not considered."""
        return bool(self.too_common or self.truncated) or self.count > MOST_CANDIDATES

    def with_all_terms(self) -> list[int] | None:
        """The passages that have all terms, except terms that nearly all passages have. None if all terms are such."""
        known = set(range(len(self.weights.rarity))) - {*self.too_common, *self.truncated}
        wanted = sum(map(only, known))
        if not wanted:
            return None
        return [id for terms, ids in self.by_terms.items() if terms & wanted == wanted for id in ids]

    def best_first(self, most: int = MOST_CANDIDATES) -> dict[int, TermSet]:
        """The passages with their terms. Those that cover most of the question come first, then the newest of each
        source in turn. If the distances in meaning are known, they count too."""
        if self.near:
            return self._by_cover_and_meaning(self.near, most)
        best = dict.fromkeys(self.best, self.weights.everything)
        in_order = sorted(self.by_terms, key=lambda terms: (-self.weights.cover(terms), terms))
        if first := self.preferred:
            some_first = ((id, terms) for terms in in_order for id in sorted(self.by_terms[terms] & first)[::-1])
            best = dict(islice(some_first, MOST_IN_TIME)) | best
        for terms in in_order:
            if len(best) >= most:
                break
            some = self.by_terms[terms]
            if terms in self.lookups:  # a lookup is nearly in order, a set is not
                newest = [id for id in sorted(self.lookups[terms], reverse=True) if id in some]
            else:
                newest = sorted(some, reverse=True)
            others = [id for id in newest if id not in best]
            best |= dict.fromkeys(_newest_of_each_source(others, most - len(best)), terms)
        return best

    def _by_cover_and_meaning(self, near: Nearest, most: int) -> dict[int, TermSet]:
        groups = list(self.by_terms.items())
        covers = [self.weights.cover(terms) for terms, _ in groups]
        ids = near.best_first([ids for _, ids in groups], covers, EQUAL_SIGNS, self.preferred, IN_TIME)
        best = dict.fromkeys((*self.nearest, *ids[:most]))
        wanted = set(best)
        terms_of = {id: terms for terms, some in groups for id in some & wanted}
        return {id: terms_of[id] for id in islice(best, most)}


def _newest_of_each_source(ids: list[int], most: int) -> list[int]:
    """The newest passages of each source in turn, titles before bodies. `ids` are sorted, highest first."""
    ends = [0]
    while ends[-1] < len(ids):
        id_range = ids[ends[-1]] // WIDTH
        ends.append(bisect_left(ids, -id_range * WIDTH + 1, ends[-1], key=neg))
    ranges = [ids[first:last][:most] for first, last in pairwise(ends)]
    if len(ranges) < 2:
        return ids[:most]
    ranges.sort(key=lambda some: not some[0] // WIDTH % 2)
    return [id for some in zip_longest(*ranges) for id in some if id is not None][:most]


# The hits that are read


@dataclass(frozen=True, slots=True)
class DocumentCover:
    """How much of the question each passage and each document covers."""

    passages: Mapping[tuple[int, int], float]
    """By document and position."""
    frequency: Mapping[int, float]
    """By document: how often the terms occur, as a share of the highest."""
    together: Mapping[int, float]
    """By document: how much its passages cover together."""


class Candidates(NamedTuple):
    """The best hits with their places. No text has been read."""

    hits: Hits
    placed: list[Candidate]
    terms_of: Mapping[int, TermSet]
    cover: DocumentCover
    left: int
    """How many hits come after the placed ones."""
    next_ids: list[int]
    """The first of those."""
    similar: Mapping[int, float]
    """About how similar in meaning the placed passages are, as far as that is known without reading."""


def place_hits(read: Reader, hits: Hits) -> Candidates:
    """Look up the documents and positions of the best hits."""
    left = max(0, min(hits.count, MOST_CANDIDATES) - hits.placed)
    terms_of = hits.best_first(hits.placed + (left if hits.count <= ALL_COUNTED else COUNTED))
    ids = list(terms_of)
    placed = found_passages.candidates(read, ids[: hits.placed])
    cover = cover_of([(one.document_id, one.position, terms_of[one.passage_id]) for one in placed], hits.weights)
    similar = hits.near.similarity([one.passage_id for one in placed]) if hits.near else {}
    return Candidates(hits, placed, terms_of, cover, left, ids[hits.placed :], similar)


def cover_of(found: Iterable[tuple[int, int, TermSet]], weights: TermWeights) -> DocumentCover:
    """The cover of documents, from (document, position, terms) of each hit."""
    passages: dict[tuple[int, int], float] = {}
    terms_in: dict[int, list[TermSet]] = defaultdict(list)
    for document_id, position, terms in found:
        passages[document_id, position] = weights.cover(terms)
        terms_in[document_id].append(terms)
    known: dict[tuple[TermSet, ...], tuple[float, float]] = {}
    frequency, together = {}, {}
    for document_id, some in terms_in.items():
        key = tuple(sorted(some))
        if key not in known:
            known[key] = weights.frequency(Counter(some)), weights.cover(reduce(or_, some))
        frequency[document_id], together[document_id] = known[key]
    highest = max(frequency.values(), default=0.0) or 1.0
    return DocumentCover(passages, {id: value / highest for id, value in frequency.items()}, together)


@dataclass(frozen=True, slots=True)
class Effort:
    """How many passages are read, and on which sides of a conversation each sentence is compared by itself."""

    best: int
    all: int
    sides: tuple[str, ...]


USUAL, THOROUGH = Effort(100, 180, ("asking",)), Effort(150, 220, ("asking", "answering"))


def effort_for(question: Question, hits: Hits) -> Effort:
    """A question with few hits is read more thoroughly: looking it up was quick."""
    return THOROUGH if question.is_asked and hits.are_few else USUAL


def read_texts(
    read: Reader, question: Question, candidates: Candidates, scopes: Sequence[Scope]
) -> list[CandidateText]:
    """Read the most promising passages. For a question, also read the neighbours of the best ones."""
    hits, cover, effort = candidates.hits, candidates.cover, effort_for(question, candidates.hits)
    weights, terms_of, similar = hits.weights, candidates.terms_of, candidates.similar
    preferred = hits.preferred
    place_in_index = {id: place for place, id in enumerate(hits.best)}

    usual = median(similar.values()) if similar else 0.0
    """For passages that have no vector yet."""

    def promise(one: Candidate) -> tuple[int, float, int]:
        at, position = one.document_id, one.position
        beside = 0.0
        if position:
            beside = cover.passages.get((at, position - 1), 0.0) + cover.passages.get((at, position + 1), 0.0)
        promised = weights.cover(terms_of[one.passage_id]) + 0.3 * beside + 0.5 * cover.frequency[at]
        promised += MEANING * similar.get(one.passage_id, usual)
        promised += IN_TIME if one.passage_id in preferred else 0.0
        return place_in_index.get(one.passage_id, len(hits.best)), -promised, -one.passage_id

    best = sorted(candidates.placed, key=promise)[: effort.best]
    wanted = {(one.document_id, one.position): None for one in best}
    if question.is_asked and not any(weights.has_all(terms_of[one.passage_id]) for one in candidates.placed):
        whole = {source for one in scopes for source in _whole_conversations(one)}
        near_to = [one for one in best[:WITH_NEIGHBOURS] if one.position and one.source in whole]
        for step in (1, -1, 2, -2, 3):
            for one in near_to[: WITH_NEIGHBOURS // abs(step) ** 2]:
                if one.position + step > 0 and len(wanted) < effort.all:
                    wanted[one.document_id, one.position + step] = None
    spans = [(document_id, position, position) for document_id, position in wanted]
    texts = found_passages.candidate_texts(read, spans, {token for one in scopes for token in one.without})
    words = [word for term in question.terms for word in term.words]
    parts = []
    for text in texts:
        if len(text.text) > LONGEST_WHOLE:
            read.check()
        parts.append(text._replace(text=relevant_parts(text.text, words).text))
    return parts


def _whole_conversations(scope: Scope) -> list[str]:
    """The sources in which a neighbour of a hit is in scope too: nothing but agents, documents and projects narrows
    them."""
    tokens = {token for group in scope.any_of for token in group}
    if scope.roles or scope.is_timed or scope.needs_facts or not scope.bodies:
        return []
    if any(token.startswith("r") for token in scope.without) or not all(map(_is_of_documents, tokens)):
        return []
    talk = [source for source in scope.sources if SOURCES[source].is_conversation]
    are_documents = all(token.startswith(("d", PROJECT)) for token in scope.scopes)
    return talk if are_documents else [source for source in talk if source == "sessions"]


def _is_of_documents(token: str) -> bool:
    """Whether all passages of a document have this scope token, or none: an agent's, a document's or a project's."""
    return token.startswith(("a", "d", PROJECT))


def best_passage(
    read: Reader, source: str, document_id: int, terms: Sequence[Phrase], without: tuple[str, ...] | None = None
) -> int | None:
    """The passage of a document that matches best. Labels count only where no text matches. `without` are the scope
    tokens of passages that the caller may not read."""
    tokens = (document_scope(document_id),)
    scope = Scope((source,), titles=False, scopes=tokens, without=without or (), is_blind=without is not None)
    found = read.look_up(Lookup(scope, 2, [with_parts(terms)], order="best")).ids  # one may be the labels
    places = found_passages.by_ids(read, found) if len(found) > 1 else {}
    texts = [id for id in found if id in places and places[id].field not in LABELS]
    return next(iter(texts or found), None)


def chunk_instead(read: Reader, at: FoundPassage, terms: Sequence[Phrase]) -> FoundPassage:
    """The chunk of a media item's own text that has the terms of a passage of its transcript, if there is one."""
    if at.field != "transcript" or not terms:
        return at
    scope = Scope((at.source,), titles=False, scopes=(document_scope(at.document_id),))
    ids = read.look_up(Lookup(scope, CHUNKS, [with_parts(terms)], order="best")).ids
    chunks = [one for one in found_passages.by_ids_in_order(read, ids) if one.field == "content"]
    wanted = [term for term in terms if match_place(at.text, term)]
    return next((one for one in chunks if all(match_place(one.text, term) for term in wanted)), at)
