"""Lookup: find the passages that have terms of the question, and others by their time and meaning. No text is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import combinations
from math import ceil, log
from typing import NamedTuple

from palaver.model.times import micros
from palaver.search.hits import PLACED, Hits, TermSet, TermWeights, only
from palaver.search.question import Question
from palaver.search.scope import SHARED, newest_with
from palaver.search.speaker import spoken
from palaver.search.vectors import nearest
from palaver.search.vectors import words as word_vectors
from palaver.store.engines.database import SCOPE, STEM, Groups, Lookup, RankedPassage, Reader, Scope
from palaver.store.search import found_passages
from palaver.text import tokenize
from palaver.text.languages import ENGLISH
from palaver.text.query import Phrase

FEW_PASSAGES = 3_000
"""A term that so few passages have is always looked up alone."""
MOST_COUNTED = 20_000
MOST_SIZED = 100_000
MOST_BEGUN = 8
"""Beginnings of words that are looked up. Further ones count as too common."""
FEW_WITH_ALL = 80
"""If at most this many passages have all keywords, all of them are read, and the index need not rank them."""
MOST_BEST = 100
"""Passages that the index ranks when more than that have all keywords."""
ENOUGH_PHRASES = 20
"""If this many passages have the keywords as a phrase, the index need not rank the others."""
MOST_EXPANDED = 8
"""The first terms of a question for which related words are looked up."""
MANY_HITS = 2_000
PLACED_OF_MANY = 1_000
"""So many hits of a question are placed if there are more than MANY_HITS, and no vectors tell them apart."""
FEW_HITS = 1_000
"""Below this number of hits, words of the theme are looked up too."""
WIDEST = timedelta(days=370)
"""Longer periods do not change which passages are looked at."""
WIDEST_WITHOUT_TERMS = timedelta(days=32)
"""Passages without any term are looked at only for periods up to this length."""
MOST_SPOKEN = 300
"""The newest passages of a speaker that become candidates, whatever their words."""
MOST_TIMED = 2_000
"""The best hits whose time or author is looked up."""
FEW_IN_TIME = 20
"""If fewer hits are from the period, its other passages are looked at too."""
MOST_WITHOUT_TERMS = 100
"""Passages of a period that are added without any term."""
MOST_IN_PERIOD = 300
"""Passages of a period that are collected; some of them may have terms."""
LOOKED_AT = 3_000
"""The newest passages of a period that are looked at for those that the caller may read."""
NEAREST = 200
"""The nearest passages, which become candidates."""
LEAST_SIMILAR = 0.2
"""Passages that are less similar are no candidates: the nearest of unrelated texts answer nothing. Of messages that
answer a question 14 % are below, and most of these have words of it; of others in its conversations 72 %."""
GUESSED = 0.9
"""The value of a word as which another one is read, as a share of the value of the word itself."""


class Limits(NamedTuple):
    """How many hits are collected from the index."""

    alone: int
    """For terms that are looked up alone, all together, the rarest first."""
    newest: int
    """For the rarest term, if all of them are common."""
    together: int
    """For two common terms together."""
    enough: int
    """If so many passages have rare terms, common terms are not looked up together."""
    related: int
    """For the words related to one term. More common words are skipped."""
    share: float
    """If this share of the newest passages was found, the term counts as too common."""


KEYWORDS = Limits(12_000, 12_000, 2_000, 12_000, 3_000, 1.0)
"""People page through all results of keywords."""
ASKED = Limits(3_000, 1_000, 500, 1_500, 1_500, 0.25)
"""Of a question, people want the best results. Few hits are enough to find them, if all terms of each hit are known."""


def find_hits(read: Reader, question: Question, scopes: Sequence[Scope]) -> Hits:
    """Find the passages to choose from: by their words, by the time that the question names, and by meaning."""
    hits = _prefer_speakers(read, question, scopes, _find_hits(read, question, scopes))
    hits = _prefer_periods(read, question, scopes, hits)
    hits = _add_nearest(read, question, scopes, hits)
    is_unclear = question.is_asked and hits.near is None and hits.count > MANY_HITS
    return replace(hits, placed=PLACED_OF_MANY if is_unclear else PLACED + len(hits.nearest))


def _find_hits(read: Reader, question: Question, scopes: Sequence[Scope]) -> Hits:
    """Find the passages with terms of the question.

    If more passages have all keywords than can be read, ask the index for the best: the newest may not be the best.
    Passages with the keywords as a phrase come first.
    """
    hits = look_up_terms(read, question, scopes)
    if question.is_asked:
        return hits
    with_all = hits.with_all_terms()
    if not hits.is_capped and with_all is not None and len(with_all) <= FEW_WITH_ALL:
        return hits
    if any(term.prefix for term in question.terms):
        return _whole_words_first(read, question, scopes, hits)
    phrase = question.phrase
    together = newest_with(read, [[phrase]], scopes, MOST_BEST) if phrase else []
    best: list[RankedPassage] = []
    if len(together) < ENOUGH_PHRASES:
        for one in scopes:
            lookup = Lookup(one, MOST_BEST, [[term] for term in question.terms], order="best")
            best += read.look_up(lookup).hits
        best.sort(key=lambda hit: -hit.score)
    first = tuple(dict.fromkeys((*together[:MOST_BEST], *(hit.passage_id for hit in best[:MOST_BEST]))))
    _add(hits.by_terms, first, hits.weights.everything)
    return replace(hits, best=first)


def _whole_words_first(read: Reader, question: Question, scopes: Sequence[Scope], hits: Hits) -> Hits:
    """If very many passages have words that begin like a term: those with just this word come before others."""
    groups = [[Phrase(tuple(map(str, term.words)))] for term in question.terms]
    whole = newest_with(read, groups, scopes, MOST_BEST)[:MOST_BEST]
    _add(hits.by_terms, whole, hits.weights.everything)
    return replace(hits, best=tuple(whole))


def look_up_terms(read: Reader, question: Question, scopes: Sequence[Scope]) -> Hits:
    """Look up the terms, the rarest first, until there are enough passages to choose from.

    The index cannot rank without reading every passage that has any of the terms, and a common word can be in a
    million passages. So a common term adds passages only while there is room, or together with another common term.
    Which of the passages with rare terms have it, too, is looked up in any case.
    """
    terms = question.terms
    size, counts, expected = _count_terms(read, terms, scopes)
    limits = ASKED if question.is_asked else KEYWORDS
    found = Collection(read, terms, scopes, limits, counts)
    common, newest = _look_up_rare(found, expected)
    truncated = _look_up_newest(found, common, newest)
    _look_up_common(found, common, truncated)
    are_few = found.size <= FEW_HITS
    size = max(size, found.size, *counts, 1)
    guessed = set(question.read_as.values())
    rarity = [
        _rarity(size, count) * (GUESSED if guessed.issuperset(term.words) else 1.0)
        for term, count in zip(terms, counts, strict=True)
    ]
    others = _look_up_related(found, question, size, are_few)
    weights = TermWeights(tuple(rarity), tuple(map(min, rarity, others)), min(others[-1], max(rarity, default=0.0)))
    return Hits(found.by_terms, weights, tuple(common), truncated, are_few, found.lookups)


@dataclass
class Collection:
    """The hits that were found so far."""

    read: Reader
    terms: Sequence[Phrase]
    scopes: Sequence[Scope]
    limits: Limits
    counts: list[int]
    """In how many passages each term is."""
    by_terms: dict[TermSet, set[int]] = field(default_factory=dict)
    lookups: dict[TermSet, list[int]] = field(default_factory=dict)
    """The passages that each lookup found."""

    @property
    def size(self) -> int:
        return sum(map(len, self.by_terms.values()))

    def look_up(self, groups: Groups, most: int) -> list[int]:
        """The newest passages with a term of each group."""
        return newest_with(self.read, groups, self.scopes, most)

    def add(self, passage_ids: Iterable[int], terms: TermSet) -> None:
        _add(self.by_terms, passage_ids, terms)

    def add_lookup(self, passage_ids: list[int], terms: TermSet) -> None:
        self.lookups[terms] = passage_ids
        self.add(passage_ids, terms)


def _look_up_rare(found: Collection, expected: Sequence[int]) -> tuple[list[int], list[int]]:
    """Add the passages with rare terms. Returns the numbers of the common terms, and the newest passages with the first
    of them, if it was looked up."""
    terms, room = found.terms, found.limits.alone
    common, newest = list[int](), list[int]()
    # How many passages have a word that begins so is not known before.
    begun = 0
    for number in sorted(range(len(terms)), key=lambda number: (terms[number].prefix, expected[number], number)):
        if not expected[number]:
            continue
        begun += terms[number].prefix
        most = max(room, FEW_PASSAGES)
        is_maybe_rare = begun <= MOST_BEGUN if terms[number].prefix else expected[number] <= most
        some = found.look_up([[terms[number]]], most + 1) if is_maybe_rare else []
        if is_maybe_rare and len(some) <= most:
            room -= len(some)
            found.counts[number] = len(some)
            found.add_lookup(some, only(number))
        else:
            newest = newest if common else some
            common.append(number)
            found.counts[number] = max(found.counts[number], len(some))
    return common, newest


def _look_up_newest(found: Collection, common: list[int], newest: list[int]) -> tuple[int, ...]:
    """If no term is rare, add the newest passages with the first common one, and take it out of `common`. Returns its
    number if there are more passages."""
    if not common or found.by_terms:
        return ()
    first, most = common.pop(0), found.limits.newest
    enough = ceil(found.limits.share * (most + 1))
    newest = newest or found.look_up([[found.terms[first]]], most + 1)
    found.add_lookup(newest[:most], only(first))
    if len(newest) >= enough:
        return (first,)
    found.counts[first] = len(newest)
    return ()


def _look_up_common(found: Collection, common: Sequence[int], truncated: Sequence[int]) -> None:
    """Look up which of the passages with rare terms have common ones, and the passages with several common terms."""
    terms, limits = found.terms, found.limits
    rare = [number for number in range(len(terms)) if only(number) in found.lookups and number not in truncated]
    begun = [number for number in common if terms[number].prefix][:MOST_BEGUN]
    for number in common if rare else ():
        if not terms[number].prefix:
            both = found.look_up([[terms[number]], [terms[one] for one in rare]], limits.alone)
            found.add(both, only(number))
    rarest = sorted(rare, key=found.counts.__getitem__)
    pairs = [(one, other) for one in begun for other in rarest[:2]]
    if sum(found.counts[number] for number in rare) < limits.enough:
        three = (*truncated, *common)[:3]
        if len(three) < 3 or not _look_up_together(found, three):
            pairs += combinations(three, 2)
    for pair in pairs:
        _look_up_together(found, pair)


def _look_up_together(found: Collection, numbers: Sequence[int]) -> bool:
    """Add the passages with all of these terms. Are there enough of them?"""
    most = found.limits.together
    enough = ceil(found.limits.share * most)
    some = found.look_up([[found.terms[number]] for number in numbers], most)
    found.add(some, sum(map(only, numbers)))
    return len(some) >= enough


def _look_up_related(found: Collection, question: Question, size: int, are_few: bool) -> list[float]:
    """Add the passages with related words, and with words of the theme if there are few others. Returns how rare the
    words related to each term are, and those of the theme."""
    count, most = len(found.terms), found.limits.related
    rarity = [0.0] * (count + 1)
    groups = dict(enumerate(related_words(question))) | ({count: theme_of(question)} if are_few else {})
    for number, group in groups.items():
        if some := _look_up_uncommon(found, group, most):
            rarity[number] = _rarity(size, len(some))
            found.add_lookup(some, TermWeights.related_to(number, count))
    for number, term in enumerate(found.terms):
        if term.parts:  # joined by punctuation, as in TCP/IP: a passage with all parts apart counts as related
            some = found.look_up([[part] for part in term.parts], most)
            rarity[number] = _rarity(size, len(some))
            found.add(some, TermWeights.related_to(number, count))
    return rarity


def related_words(question: Question) -> list[tuple[Phrase, ...]]:
    """For each of the first terms of a question, words with nearly the same meaning. Keywords have none."""
    found, known = [], stems_of(question)
    for term in question.terms[:MOST_EXPANDED] if question.is_asked and question.language is ENGLISH else ():
        others = word_vectors.related(term.words[0]) if len(term.words) == 1 and not term.prefix else ()
        found.append(tuple(Phrase((word,)) for word in others if tokenize.stem(word) not in known))
    return found


def theme_of(question: Question) -> tuple[Phrase, ...]:
    """Words close in meaning to a question as a whole."""
    if not question.is_asked or question.language is not ENGLISH:
        return ()
    return tuple(Phrase((word,)) for word in word_vectors.theme(question.words, stems_of(question)))


def stems_of(question: Question) -> frozenset[str]:
    return frozenset(tokenize.stem(word) for term in question.terms for word in term.words)


def _count_terms(read: Reader, terms: Sequence[Phrase], scopes: Sequence[Scope]) -> tuple[int, list[int], list[int]]:
    """The number of passages, in how many of them each term is, and how many passages a lookup of it may find."""
    if any(one.is_blind for one in scopes):  # passages that the caller may not read must not change any count
        own = [one for one in scopes if "sessions" in one.sources]
        size = sum(read.count(Lookup(one, MOST_SIZED)) for one in (SHARED, *own))
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


def _look_up_uncommon(found: Collection, words: Sequence[Phrase], most: int) -> list[int]:
    """The newest passages with one of the words, but for words that more than `most` passages have."""
    if not words:
        return []
    if any(one.is_blind for one in found.scopes):  # only what the caller may read counts
        some = found.look_up([words], most + 1)
        if len(some) <= most:
            return some
        counts = [_count_in(found.read, word, found.scopes, most + 1) for word in words]
    else:
        counts = _frequencies(found.read, words)
    uncommon = [word for word, count in zip(words, counts, strict=True) if 0 < count <= most]
    return found.look_up([uncommon], most) if uncommon else []


def _count_in(read: Reader, term: Phrase, scopes: Iterable[Scope], most: int) -> int:
    return sum(read.count(Lookup(one, most, [[term]])) for one in scopes)


def _frequencies(read: Reader, terms: Sequence[Phrase]) -> list[int]:
    """At most how many passages have each term; 1 for the beginning of a word."""
    tokens = [tuple(STEM + stem for stem in tokenize.stems(term.words)) if not term.prefix else () for term in terms]
    known = read.frequencies([token for term in tokens for token in term]) if tokens else {}
    return [min((known.get(token, 0) for token in term), default=1) for term in tokens]


# By speaker


def _prefer_speakers(read: Reader, question: Question, scopes: Sequence[Scope], hits: Hits) -> Hits:
    """Mark the hits that the speaker of the question said, and add the newest of the other passages of this speaker."""
    if not question.speakers:
        return hits
    authors = Scope((), authors=question.speakers)
    said = read.with_facts(list(hits.best_first(MOST_TIMED)), authors)
    newest = spoken(read, question.speakers, scopes, MOST_SPOKEN)
    added = set(newest) - hits.among(newest)
    by_terms = {**hits.by_terms, 0: hits.by_terms.get(0, set()) | added}
    return replace(hits, by_terms=by_terms, spoken=frozenset({*said, *newest}))


# By time


def _prefer_periods(read: Reader, question: Question, scopes: Sequence[Scope], hits: Hits) -> Hits:
    """Mark the hits that are from a period of the question. If there are few, add other passages of the period."""
    periods = [one for one in question.times if one.end - one.begin <= WIDEST]
    if not periods:
        return hits
    checked = hits.best_first(MOST_TIMED)
    in_time = set[int]()
    for one in periods:
        in_time |= found_passages.timed_among(read, checked, micros(one.begin), micros(one.end) - 1)
    names_only_time = question.time_terms.issuperset(question.terms)
    if not names_only_time and not (question.is_asked and len(in_time) < FEW_IN_TIME):
        return replace(hits, in_time=frozenset(in_time))
    others: dict[int, None] = {}
    for one in periods:
        if one.end - one.begin <= WIDEST_WITHOUT_TERMS:
            for scope in scopes:
                others |= dict.fromkeys(_passages_of(read, scope, micros(one.begin), micros(one.end) - 1))
    added = [id for id in others if id not in checked][:MOST_WITHOUT_TERMS]
    if not added:
        return replace(hits, in_time=frozenset(in_time))
    known = hits.among(added)
    by_terms = {**hits.by_terms, 0: hits.by_terms.get(0, set()) | (set(added) - known)}
    return replace(hits, by_terms=by_terms, in_time=frozenset({*in_time, *added}))


def _passages_of(read: Reader, scope: Scope, since: int, until: int) -> list[int]:
    """The newest passages of a scope in a period. A title says nothing about the time."""
    narrowed = replace(scope, titles=False, since=max(since, scope.since), until=min(until, scope.until))
    if not scope.bodies or narrowed.since > narrowed.until:
        return []
    return found_passages.newest_of_period(read, narrowed, MOST_IN_PERIOD, LOOKED_AT)


# By meaning


def _add_nearest(read: Reader, question: Question, scopes: Sequence[Scope], hits: Hits) -> Hits:
    """Add the passages that are nearest in meaning, where words may not be enough."""
    if not _is_by_meaning(question, hits, is_english=read.settings.model == "minilm"):
        return hits
    vector = nearest.question_vector(read, question.topic)
    if vector is None:
        return hits
    near = nearest.nearest(read, vector)
    if near is None:
        return replace(hits, vector=vector)
    best = tuple(near.in_scope(read, scopes, NEAREST, LEAST_SIMILAR))
    without_terms = set(best) - hits.among(best)
    by_terms = {**hits.by_terms, 0: hits.by_terms.get(0, set()) | without_terms} if without_terms else hits.by_terms
    return replace(hits, by_terms=by_terms, vector=vector, near=near, nearest=best)


def _is_by_meaning(question: Question, hits: Hits, *, is_english: bool) -> bool:
    """Whether passages are also found by their meaning: those for a question, and those for keywords that no passage
    has all of. Ids and paths have no meaning, nor has a word of its own that the model does not know."""
    if not question.is_latin and is_english:
        return False
    if question.is_asked:
        return True
    plain = [term for term in question.terms if len(term.words) == 1 and term.words[0].isalpha()]
    if not plain or question.has_prefix or (question.is_word and not word_vectors.share_known(plain)):
        return False
    wanted = sum(only(number) for number, term in enumerate(question.terms) if term not in question.time_terms)
    return not any(terms & wanted == wanted for terms in hits.by_terms)
