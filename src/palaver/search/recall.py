"""Recall: find the passages that have terms of the question, choose the most promising, and read their texts."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import combinations, islice, pairwise, zip_longest
from math import log
from operator import neg, or_
from typing import TYPE_CHECKING, NamedTuple

from palaver.search.by_meaning import add_nearest
from palaver.search.expand import Expansion
from palaver.search.in_time import prefer_periods
from palaver.search.question import Question
from palaver.search.sources import SOURCES
from palaver.search.terms import TermSet, TermWeights, only
from palaver.store.engines.database import SCOPE, STEM, RankedPassage, Reader, Scope
from palaver.store.engines.id_ranges import SHARED_SOURCES, WIDTH
from palaver.store.library.documents import PROJECT, document_scope
from palaver.store.search import found_passages
from palaver.store.search.found_passages import Candidate, CandidateText
from palaver.text import tokenize
from palaver.text.query import Phrase, with_parts

if TYPE_CHECKING:
    from palaver.search.vectors.encoders import Array
    from palaver.search.vectors.nearest import Nearest

MOST_CANDIDATES = 10_000
MOST_HITS = 12_000
"""Hits that are collected from the index."""
MOST_TOGETHER = 2_000
"""Hits that are collected for two common terms together."""
MOST_IN_TIME = 200
"""Hits from a period of the question that are placed before others."""
MOST_RELATED = 3_000
"""Hits that are collected for the words related to one term. More common words are skipped."""
MOST_COUNTED = 50_000
MOST_SIZED = 100_000
FEW_WITH_ALL = 80
"""If at most this many passages have all keywords, all of them are read, and the index need not rank them."""
MOST_BEST = 100
"""Passages that the index ranks when more than that have all keywords."""
ENOUGH_PHRASES = 20
"""If this many passages have the keywords as a phrase, the index need not rank the others."""
FEW_HITS = 1_000
"""Below this number of hits, words of the theme are looked up too."""
PLACED = 300
"""The best hits whose documents and positions are looked up."""
COUNTED = 300
"""Hits after the placed ones that are counted one by one to estimate the total."""
ALL_COUNTED = 2_000
"""If no more hits than this follow the placed ones, all of them are counted."""
EQUAL_SIGNS = 5.0
"""How much the share of equal signs of two vectors counts beside the cover, when it is decided which hits to place."""
MEANING = 3.0
"""How much the similarity in meaning counts beside the cover, when it is decided which passages to read."""
IN_TIME = 0.5
"""How much more is expected of a passage from a period of the question when it is decided which ones to read."""
WITH_NEIGHBOURS = 60
"""The best passages that are read together with their neighbours in the conversation."""
LABELS = frozenset({"keywords", "tags"})
"""Fields with labels. They are searched, but where the text matches too, the text is shown."""


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
    vector: Array | None = field(default=None, repr=False)
    """The vector of the question; None for keywords, and without a model."""
    near: Nearest | None = field(default=None, repr=False)
    """How far all passages are from the question."""
    nearest: tuple[int, ...] = ()
    """The passages that are nearest in meaning. They come before others."""

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
        if self.in_time:
            timed = ((id, terms) for terms in in_order for id in sorted(self.by_terms[terms] & self.in_time)[::-1])
            best = dict(islice(timed, MOST_IN_TIME)) | best
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
        ids = near.best_first([ids for _, ids in groups], covers, EQUAL_SIGNS, self.in_time, IN_TIME)
        best = dict.fromkeys((*self.nearest, *ids[:most]))
        wanted = set(best)
        terms_of = {id: terms for terms, some in groups for id in some & wanted}
        return {id: terms_of[id] for id in islice(best, most)}

    @property
    def placed(self) -> int:
        """How many of the best hits are placed."""
        return PLACED + len(self.nearest)


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


def find_hits(read: Reader, expansion: Expansion, scopes: Sequence[Scope]) -> Hits:
    """Find the passages to choose from: by their words, by the time that the question names, and by meaning."""
    question = expansion.question
    hits = prefer_periods(read, question, scopes, _find_hits(read, expansion, scopes))
    return add_nearest(read, question, scopes, hits)


def _find_hits(read: Reader, expansion: Expansion, scopes: Sequence[Scope]) -> Hits:
    """Find the passages with terms of the question.

    If more passages have all keywords than can be read, ask the index for the best: the newest may not be the best.
    Passages with the keywords as a phrase come first.
    """
    hits, question = look_up_terms(read, expansion, scopes), expansion.question
    if question.is_asked:
        return hits
    with_all = hits.with_all_terms()
    if not hits.is_capped and with_all is not None and len(with_all) <= FEW_WITH_ALL:
        return hits
    if any(term.prefix for term in question.terms):
        return _whole_words_first(read, question, scopes, hits)
    phrase = question.phrase
    together = [id for one in scopes for id in read.having([[phrase]], one, MOST_BEST)] if phrase else []
    best: list[RankedPassage] = []
    if len(together) < ENOUGH_PHRASES:
        best = [hit for one in scopes for hit in read.promising([[term] for term in question.terms], one, MOST_BEST)]
        best.sort(key=lambda hit: -hit.score)
    first = tuple(dict.fromkeys((*together[:MOST_BEST], *(hit.passage_id for hit in best[:MOST_BEST]))))
    _add(hits.by_terms, first, hits.weights.everything)
    return replace(hits, best=first)


def _whole_words_first(read: Reader, question: Question, scopes: Sequence[Scope], hits: Hits) -> Hits:
    """If very many passages have words that begin like a term: those with just this word come before others."""
    groups = [[Phrase(tuple(map(str, term.words)))] for term in question.terms]
    whole = [id for one in scopes for id in read.having(groups, one, MOST_BEST)][:MOST_BEST]
    _add(hits.by_terms, whole, hits.weights.everything)
    return replace(hits, best=tuple(whole))


def look_up_terms(read: Reader, expansion: Expansion, scopes: Sequence[Scope]) -> Hits:
    """Look up the terms, the rarest first, until there are enough passages to choose from.

    The index cannot rank without reading every passage that has any of the terms, and a common word can be in a
    million passages. So a common term adds passages only while there is room, or together with another term.
    """
    terms = expansion.question.terms
    size, counts, expected = _count_terms(read, terms, scopes)
    by_terms: dict[TermSet, set[int]] = {}
    lookups: dict[TermSet, list[int]] = {}

    def look_up(groups: Sequence[Sequence[Phrase]], cap: int) -> list[int]:
        return [id for one in scopes for id in read.having(groups, one, cap)]

    room, common, newest = MOST_HITS, list[int](), list[int]()
    # How many passages have a word that begins so is not known before.
    for number in sorted(range(len(terms)), key=lambda number: (terms[number].prefix, expected[number], number)):
        if not expected[number]:
            continue
        found = None
        if terms[number].prefix or expected[number] <= room or not (by_terms or common):
            found = look_up([[terms[number]]], room + 1)
        if found is not None and len(found) <= room:
            room -= len(found)
            counts[number] = len(found)
            lookups[only(number)] = found
            _add(by_terms, found, only(number))
        else:
            newest = newest or found or []
            common.append(number)
            counts[number] = max(counts[number], len(found or ()))
    truncated = common[:1] if not by_terms else []
    if truncated:
        lookups[only(common[0])] = newest[:MOST_HITS]
        _add(by_terms, newest[:MOST_HITS], only(common[0]))
    begun = [number for number in common if terms[number].prefix]
    rarest = sorted((number for number in range(len(terms)) if only(number) in lookups), key=counts.__getitem__)
    pairs = [(one, other) for one in begun for other in rarest[:2] if one != other]
    for one, other in [*pairs, *combinations(common[:3], 2)]:
        _add(by_terms, look_up([[terms[one]], [terms[other]]], MOST_TOGETHER), only(one) | only(other))

    size = max(size, sum(map(len, by_terms.values())), *counts, 1)
    rarity = [_rarity(size, count) for count in counts]
    others = [0.0] * (len(terms) + 1)
    are_few = sum(map(len, by_terms.values())) <= FEW_HITS
    groups = dict(enumerate(expansion.related)) | ({len(terms): expansion.theme} if are_few else {})
    for number, group in groups.items():
        if uncommon := _uncommon(read, group, scopes):
            found = look_up([uncommon], MOST_RELATED)
            related = TermWeights.related_to(number, len(terms))
            others[number] = _rarity(size, len(found))
            lookups[related] = found
            _add(by_terms, found, related)
    for number, term in enumerate(terms):
        if term.parts:  # joined by punctuation, as in TCP/IP: a passage with all parts apart counts as related
            found = look_up([[part] for part in term.parts], MOST_RELATED)
            others[number] = _rarity(size, len(found))
            _add(by_terms, found, TermWeights.related_to(number, len(terms)))
    weights = TermWeights(tuple(rarity), tuple(map(min, rarity, others)), min(others[-1], max(rarity, default=0.0)))
    return Hits(by_terms, weights, tuple(common[len(truncated) :]), tuple(truncated), are_few, lookups)


def _count_terms(read: Reader, terms: Sequence[Phrase], scopes: Sequence[Scope]) -> tuple[int, list[int], list[int]]:
    """The number of passages, in how many of them each term is, and how many passages a lookup of it may find."""
    if any(one.is_blind for one in scopes):  # passages that the caller may not read must not change any count
        own = [one for one in scopes if "sessions" in one.sources]
        size = sum(read.size_of(one, MOST_SIZED) for one in (Scope(SHARED_SOURCES), *own))
        counts = [_count_in(read, term, scopes, MOST_COUNTED) for term in terms]
        return size, counts, counts[:]
    counts = _frequencies(read, terms)
    largest = []  # a scope has at most as many passages as its rarest scope token
    for one in scopes:
        tokens = [SCOPE + token for token in one.scopes]
        frequencies = read.frequencies(tokens) if tokens else {}
        largest.append(min((frequencies.get(token, 0) for token in tokens), default=2**62))
    return read.size(), counts, [sum(min(count, most) for most in largest) for count in counts]


def _add(by_terms: dict[TermSet, set[int]], found: Iterable[int], added: TermSet) -> None:
    """Add terms to the passages that were found."""
    new = set(found)
    for terms, ids in list(by_terms.items()):
        both = ids & new
        if not both:
            continue
        new -= both
        ids -= both
        if not ids:
            del by_terms[terms]
        by_terms.setdefault(terms | added, set()).update(both)
    if new:
        by_terms.setdefault(added, set()).update(new)


def _rarity(size: int, count: int) -> float:
    """The inverse document frequency of a word that `count` of `size` passages have."""
    return log(1 + (size - count + 0.5) / (count + 0.5))


def _uncommon(read: Reader, words: Sequence[Phrase], scopes: Sequence[Scope]) -> list[Phrase]:
    """The words that some passages have, but not too many. A blind scope counts only its own passages."""
    is_blind, most = any(one.is_blind for one in scopes), MOST_RELATED + 1
    counts = zip(words, _frequencies(read, words), strict=True)
    # If few passages have a word at all, few visible ones have it.
    return [
        word
        for word, count in counts
        if count and (count < most or (is_blind and _count_in(read, word, scopes, most) < most))
    ]


def _count_in(read: Reader, term: Phrase, scopes: Iterable[Scope], most: int) -> int:
    return sum(read.count([term], one, most) for one in scopes)


def _frequencies(read: Reader, terms: Sequence[Phrase]) -> list[int]:
    """At most how many passages have each term; 1 for the beginning of a word."""
    tokens = [tuple(STEM + stem for stem in tokenize.stems(term.words)) if not term.prefix else () for term in terms]
    known = read.frequencies([token for term in tokens for token in term]) if tokens else {}
    return [min((known.get(token, 0) for token in term), default=1) for term in tokens]


# Choosing what to read


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
    terms_of = hits.best_first(hits.placed + (left if left <= ALL_COUNTED else COUNTED))
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
    rank_in_index = {id: -1 - 1 / (2 + n) for n, id in enumerate(hits.best)}

    def promise(one: Candidate) -> tuple[float, float, int]:
        at, position = one.document_id, one.position
        beside = 0.0
        if position:
            beside = cover.passages.get((at, position - 1), 0.0) + cover.passages.get((at, position + 1), 0.0)
        promised = weights.cover(terms_of[one.passage_id]) + 0.3 * beside + 0.5 * cover.frequency[at]
        promised += MEANING * similar.get(one.passage_id, 0.0)
        promised += IN_TIME if one.passage_id in hits.in_time else 0.0
        return rank_in_index.get(one.passage_id, 0.0), -promised, -one.passage_id

    best = sorted(candidates.placed, key=promise)[: effort.best]
    wanted = {(one.document_id, one.position): None for one in best}
    if question.is_asked and not any(weights.has_all(terms_of[one.passage_id]) for one in candidates.placed):
        whole = {  # the conversation sources in which a neighbour of a hit is in scope too
            source
            for one in scopes
            if one.bodies and not one.any_of and not one.roles and not one.is_timed and not one.needs_facts
            for source in one.sources
            if SOURCES[source].is_conversation
            and all(token.startswith(("d", PROJECT)) or source == "sessions" for token in one.scopes)
        }
        near_to = [one for one in best[:WITH_NEIGHBOURS] if one.position and one.source in whole]
        for step in (1, -1, 2, -2, 3):
            for one in near_to[: WITH_NEIGHBOURS // abs(step) ** 2]:
                if one.position + step > 0 and len(wanted) < effort.all:
                    wanted[one.document_id, one.position + step] = None
    spans = [(document_id, position, position) for document_id, position in wanted]
    return found_passages.candidate_texts(read, spans, {token for one in scopes for token in one.without})


def best_passage(
    read: Reader, source: str, document_id: int, terms: Sequence[Phrase], without: tuple[str, ...] | None = None
) -> int | None:
    """The passage of a document that matches best. Labels count only where no text matches. `without` are the scope
    tokens of passages that the caller may not read."""
    tokens = (document_scope(document_id),)
    scope = Scope((source,), titles=False, scopes=tokens, without=without or (), is_blind=without is not None)
    found = [hit.passage_id for hit in read.recall([with_parts(terms)], scope, 2)]  # one may be the labels
    places = found_passages.by_ids(read, found) if len(found) > 1 else {}
    texts = [id for id in found if id in places and places[id].field not in LABELS]
    return next(iter(texts or found), None)
