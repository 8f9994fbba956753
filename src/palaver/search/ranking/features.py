"""Features: what is known about each passage that was read, as numbers from 0 to 1, by name.

The weight of each feature was learned from labelled questions (docs/guides/ranking.md). Weights differ between talk
with an assistant and everything else: talk between people and written text. For a single keyword only the word
counts: the same text matches equally well wherever it is.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import exp, log, log1p
from operator import mul
from statistics import median
from typing import Literal, NamedTuple, TypeAlias

from palaver.model.times import instant, micros
from palaver.search.hits import DocumentCover
from palaver.search.question import Question
from palaver.search.ranking.texts import PreparedText, prepare
from palaver.search.vectors.word_similarity import Similarity
from palaver.store.engines import bm25
from palaver.store.search.found_passages import CandidateText
from palaver.text.dates import find as find_dates
from palaver.text.dates import may_name_time
from palaver.text.dates.words import ALL_TIME_WORDS
from palaver.text.languages import ENGLISH
from palaver.text.match import PhraseFinder, finder_of
from palaver.text.query import Phrase
from palaver.text.tokenize import stems, words

Kind = Literal["people", "assistant", "word"]
"""The table of weights to use: by who talks in the document, or "word" for a single keyword."""

Columns: TypeAlias = dict[str, Sequence[float]]
"""Some features by name, each with its value for every passage."""

NEAR = 20
"""Terms within this many words of each other are close."""
_LONG = log(1000)
_SHORTEST_NEAR, _LONGEST_NEAR = 24 * 3600 * 10**6, 30 * 24 * 3600 * 10**6
"""In microseconds: how far from a period `in_time` is 1/e, at least and at most."""
_AFTER = 4.0
"""How much slower `in_time` falls after a period than before it."""
MOST_DATED = 800
"""Characters of a text in which dates are looked for."""
_HALF_BEHIND = 5
"""A document at this place behind the best gets half of the highest `meaning_behind`."""

_ROLES = frozenset(["user", "assistant", "human", "ai", "model", "system", "tool", "bot"])
_TIME_WORDS = frozenset(
    words(
        "yesterday today tomorrow tonight ago last next week weekend month year monday tuesday wednesday thursday "
        "friday saturday sunday january february march april may june july august september october november december "
        "recently spring summer autumn fall winter morning night day since already just "
        "gestern vorgestern heute morgen übermorgen letzte letzten letztes nächste woche wochenende monat jahr "
        "tag abend nacht montag dienstag mittwoch donnerstag freitag samstag sonntag januar februar märz mai juni juli "
        "oktober dezember frühling sommer herbst seit neulich kürzlich bereits"
    )
)
_TIME_NUMBER = re.compile(r"\b(?:\d{4}|\d{1,2}(?:st|nd|rd|th)|\d{1,2}:\d\d|\d{1,2}\.\d{1,2}(?=\.))\b")


class Features(NamedTuple):
    """The features of one passage. The weights in weights.toml have the same names."""

    words: float
    """bm25 of the stemmed terms, as a share of the highest."""
    exact: float
    """bm25 of the terms as they were typed, as a share of the highest."""
    cover: float
    """How much of the question the passage covers; rare terms count more."""
    pairs: float
    """Terms that are next to each other both in the question and here."""
    near: float
    """The most that the passage covers within twenty words."""
    before: float
    """How much the passage before covers."""
    after: float
    """How much the passage after covers."""
    before_that: float
    """How much the passage two before covers."""
    document: float
    """How often the terms occur in the whole document, as a share of the highest."""
    document_best: float
    """bm25 of the best passage of the document, as a share of the highest."""
    document_cover: float
    """How much the passages of the document cover together."""
    title: float
    """How much the title of the document covers."""
    is_title: float
    """1 if the passage is a title."""
    speaker: float
    """1 if the question names the speaker."""
    asks: float
    """1 if the passage has a question mark."""
    answers: float
    """1 if the passage before has a question mark."""
    length: float
    """The logarithm of the number of words."""
    time: float
    """1 if the question asks for a time and the passage has one."""
    like: float
    """Similarity in meaning of the whole passage."""
    like_best: float
    """Similarity in meaning of the most similar sentence or two."""
    document_like: float
    """The highest `like_best` in the document."""
    words_like: float
    """For each term, the similarity of the most similar word here; rare terms count more."""
    words_like_before: float
    """The same, in this passage or the one before."""
    mine: float
    """1 if the question is about the person who asks, and that person said this."""
    yours: float
    """1 if the question is about what the assistant said, and the assistant said this."""
    newest: float
    """If the latest is asked for: how new the passage is among those that were read."""
    in_time: float
    """1 if the passage was written in a period that the question names, less if it was written near it."""
    names_time: float
    """How much of a period that the text names is in a period that the question names."""
    meaning: float = 0.0
    """Similarity in meaning by the vectors of the model; 0 without a model."""
    meaning_before: float = 0.0
    """The same for the passage before."""
    meaning_document: float = 0.0
    """The highest `meaning` in the document."""
    meaning_behind: float = 0.0
    """How far the document is behind the most similar document of its kind. 0 for the first one."""


class Passage(NamedTuple):
    """A passage with its text, ready to be scored."""

    id: int
    document_id: int
    position: int
    kind: Kind
    speaker: str
    title: str
    text: str
    at: int

    @property
    def side(self) -> Literal["asking", "answering"] | None:
        """The side of a conversation with an assistant; None elsewhere."""
        if self.kind != "assistant":
            return None
        return "asking" if self.speaker.lower() in ("user", "human") else "answering"


def passages_of(question: Question, texts: Sequence[CandidateText]) -> list[Passage]:
    """The texts that were read, each with the kind of its document."""
    speakers: dict[int, set[str]] = defaultdict(set)
    for one in texts:
        if one.at.position:
            speakers[one.at.document_id].add(one.author or one.role or "")
    kinds: dict[int, Kind] = {}
    for one in texts:
        id = one.at.document_id
        kinds[id] = "word" if question.is_word else kind_of(one.at.source, speakers[id])
    return [
        Passage(
            at.passage_id,
            at.document_id,
            at.position,
            kinds[at.document_id],
            author or role or "",
            title or "",
            text,
            at.created_at or at.modified_at,
        )
        for at, title, role, author, text in texts
    ]


def kind_of(source: str, speakers: Iterable[str]) -> Kind:
    """Talk with an assistant, or everything else: talk between people and written text."""
    is_talk = source in ("bus", "chats", "sessions", "archive")
    return "assistant" if is_talk and all(speaker.lower() in _ROLES for speaker in speakers) else "people"


class TermMatches:
    """Where the terms of a question are in each passage."""

    def __init__(self, question: Question, rarity: Sequence[float], passages: Sequence[Passage]) -> None:
        self.question, self.passages = question, passages
        names = {speaker: frozenset(words(speaker)) - _ROLES for speaker in {one.speaker for one in passages}}
        self.speakers = [names[one.speaker] for one in passages]
        asked_for = set(map(" ".join, map(words, question.speakers)))
        named = " ".join(asked_for).split() if asked_for else question.words
        self.names = frozenset[str]().union(*names.values()).intersection(named)
        """Words of the question that name a speaker. They are matched against speakers, not texts."""
        said = {speaker: " ".join(words(speaker)) in asked_for for speaker in names} if asked_for else {}
        self.is_said = [said.get(one.speaker, False) for one in passages]
        """Whether the speaker that the question asks for said each passage."""
        chosen = [n for n, term in enumerate(question.terms) if not self.names.issuperset(term.words)]
        chosen = chosen or list(range(len(question.terms)))
        self.terms: list[Phrase] = [question.terms[n] for n in chosen]
        self.rarity = [rarity[n] for n in chosen]
        self.total_rarity = sum(self.rarity) or 1.0
        self.texts = [prepare(one.text) for one in passages]
        self._finder = finder_of(tuple(self.terms))
        self._parts = [(n, PhraseFinder(one.parts)) for n, one in enumerate(self.terms) if one.parts]
        together = [self._finder.in_text(one.text, text.line) for one, text in zip(passages, self.texts, strict=True)]
        self.places = [self._with_parts(text.line, one.places) for text, one in zip(self.texts, together, strict=True)]
        """For each passage, (place, term) of each match, in order."""
        self.typed = [one.typed for one in together]
        """The same for the terms as they were typed."""
        self.is_apart = [len(one.places) < len(other) for one, other in zip(together, self.places, strict=True)]
        """For each passage, whether the parts of a joined term (TCP/IP) are only apart in it."""

    def _with_parts(self, line: str, places: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
        """Add joined terms (TCP/IP) whose parts are all there, but apart. The rarest part gives the places."""
        if not self._parts:
            return places
        known, found = {number for _, number in places}, list(places)
        for number, parts in self._parts:
            if number not in known:
                of_each: list[list[int]] = [[] for _ in self.terms[number].parts]
                for place, part in parts.matches(line).places:
                    of_each[part].append(place)
                found += [(place, number) for place in min(of_each, key=len)]
        return sorted(found)

    def has_all(self, number: int) -> bool:
        """Whether a passage has all terms."""
        return len({term for _, term in self.places[number]}) == len(self.terms)

    def presence(self) -> list[list[float]]:
        """For each passage, 1 for each term that it has, and 0 for the others."""
        found = [{term for _, term in places} for places in self.places]
        return [[float(number in there) for number in range(len(self.terms))] for there in found]

    def title_cover(self, title: str) -> float:
        """How much of the question a title covers."""
        line = prepare(title).line
        there = {number for _, number in self._with_parts(line, self._finder.matches(line).places)}
        return sum(self.rarity[number] for number in there) / self.total_rarity

    def keyword_tiers(self) -> list[int]:
        """How completely each passage has the keywords. From the best: as a phrase; as a phrase of other word forms;
        all; all, with joined words apart; not all, but the ids, versions and paths; not even those."""
        typed = f" {' '.join(self.question.words)} "
        stemmed = f" {' '.join(stems(self.question.words))} "
        identifiers = {n for n, term in enumerate(self.terms) if len(term.words) > 1 or not term.words[0].isalpha()}
        # A passage from May need not say "May".
        timed = {n for n, term in enumerate(self.terms) if term in self.question.time_terms}
        found = []
        for one, text, places, is_apart in zip(self.passages, self.texts, self.places, self.is_apart, strict=True):
            there = {number for _, number in places}
            if timed and is_in_time(self.question, one.at):
                there |= timed
            if len(there) < len(self.terms):
                found.append(1 if identifiers <= there else 0)
            elif is_apart:
                found.append(2)
            elif typed in text.line:
                found.append(5)
            else:
                found.append(4 if stemmed in f" {' '.join(stems(text.words))} " else 3)
        return found


def features_of(matches: TermMatches, cover: DocumentCover, similarity: Similarity) -> list[Features]:
    """The features of each passage."""
    passages = matches.passages
    number_at = {(one.document_id, one.position): n for n, one in enumerate(passages)}
    previous = [number_at.get((one.document_id, one.position - 1)) if one.position > 1 else None for one in passages]
    columns = {
        **_word_columns(matches),
        **_place_columns(matches, cover, previous),
        **_meaning_columns(matches, similarity, previous),
    }
    return list(map(Features._make, zip(*(columns[name] for name in Features._fields), strict=True)))


def _word_columns(matches: TermMatches) -> Columns:
    """The features of the words that match, and of the number of words."""
    passages, rarity, total = matches.passages, matches.rarity, matches.total_rarity
    lengths = [text.count for text in matches.texts]
    of_kind: dict[Kind, list[int]] = defaultdict(list)
    for one, length in zip(passages, lengths, strict=True):
        of_kind[one.kind].append(length)
    usual = {kind: max(1.0, sum(some) / len(some)) for kind, some in of_kind.items()}
    relative = [length / usual[one.kind] for one, length in zip(passages, lengths, strict=True)]
    counts = [_count(places) for places in matches.places]

    def bm25_of(counts: Mapping[int, int], length: float) -> float:
        return bm25.score([(rarity[number], count) for number, count in counts.items()], length)

    scores = list(map(bm25_of, counts, relative))
    exact = [bm25_of(_count(typed), length) for typed, length in zip(matches.typed, relative, strict=True)]
    highest, highest_exact = max(scores, default=0.0) or 1.0, max(exact, default=0.0) or 1.0
    best_of = _best_by_document(passages, scores)
    titles = {title: matches.title_cover(title) for title in {one.title for one in passages}}
    return {
        "words": [value / highest for value in scores],
        "exact": [value / highest_exact for value in exact],
        "cover": [sum([rarity[number] for number in some]) / total for some in counts],
        "pairs": [
            _adjacent_pairs(places, len(rarity)) if len(some) > 1 else 0.0
            for places, some in zip(matches.places, counts, strict=True)
        ],
        "near": [_densest(places, rarity) / total for places in matches.places],
        "document_best": [best_of[one.document_id] / highest for one in passages],
        "title": [titles[one.title] for one in passages],
        "length": [min(1.0, log1p(length) / _LONG) for length in lengths],
    }


def _place_columns(matches: TermMatches, cover: DocumentCover, previous: Sequence[int | None]) -> Columns:
    """The features of the place in the document, of the speaker and of the time."""
    question, passages = matches.question, matches.passages
    asks = [1.0 if "?" in one.text else 0.0 for one in passages]
    sides = [one.side if question.is_mine or question.is_yours else None for one in passages]
    times = sorted({one.at for one in passages}) if question.wants_latest else []
    newness = {time: n / max(1, len(times) - 1) for n, time in enumerate(times)}

    def cover_at(one: Passage, step: int) -> float:
        is_message = one.position > -step if step < 0 else one.position
        return cover.passages.get((one.document_id, one.position + step), 0.0) if is_message else 0.0

    time_words = _TIME_WORDS if question.language is ENGLISH else _TIME_WORDS | ALL_TIME_WORDS

    def has_time(one: Passage, folded: Sequence[str]) -> bool:
        return not time_words.isdisjoint(folded) or bool(_TIME_NUMBER.search(one.text))

    return {
        "before": [cover_at(one, -1) for one in passages],
        "after": [cover_at(one, 1) for one in passages],
        "before_that": [cover_at(one, -2) for one in passages],
        "document": [cover.frequency.get(one.document_id, 0.0) for one in passages],
        "document_cover": [cover.together.get(one.document_id, 0.0) for one in passages],
        "is_title": [0.0 if one.position else 1.0 for one in passages],
        "speaker": [1.0 if matches.names and names & matches.names else 0.0 for names in matches.speakers],
        "asks": asks,
        "answers": [asks[n] if n is not None else 0.0 for n in previous],
        "time": [
            1.0 if question.wants_time and has_time(one, text.words) else 0.0
            for one, text in zip(passages, matches.texts, strict=True)
        ],
        "mine": [1.0 if question.is_mine and side == "asking" else 0.0 for side in sides],
        "yours": [1.0 if question.is_yours and side == "answering" else 0.0 for side in sides],
        "newest": [newness.get(one.at, 0.0) for one in passages],
        **_time_columns(matches),
    }


def is_in_time(question: Question, at: int) -> bool:
    """Whether a time, in microseconds, is in a period that the question names."""
    return any(micros(one.begin) <= at < micros(one.end) for one in question.times)


def _time_columns(matches: TermMatches) -> Columns:
    """How well each passage fits the periods that the question names."""
    question, passages = matches.question, matches.passages
    if not question.times:
        return dict.fromkeys(("in_time", "names_time"), [0.0] * len(passages))
    wanted = [(micros(one.begin), micros(one.end)) for one in question.times]

    def names(one: Passage, prepared: PreparedText) -> float:
        if one.side == "answering" or not may_name_time(prepared.words):  # an assistant repeats the user's dates
            return 0.0
        named = find_dates(one.text[:MOST_DATED], instant(one.at), question.zone)
        shares = [
            (min(end, micros(period.end)) - max(begin, micros(period.begin)))
            / (micros(period.end) - micros(period.begin))
            for period in named
            for begin, end in wanted
        ]
        return max(0.0, *shares) if shares else 0.0

    return {
        "in_time": [max(_nearness(one.at, begin, end) for begin, end in wanted) for one in passages],
        "names_time": list(map(names, passages, matches.texts)),
    }


def _nearness(at: int, begin: int, end: int) -> float:
    """1 inside a period. Outside it falls, and less after a period: people tell later what happened."""
    if begin <= at < end:
        return 1.0
    half = min(max((end - begin) / 2, _SHORTEST_NEAR), _LONGEST_NEAR)
    return exp(-(begin - at) / half) if at < begin else exp(-(at - end) / (_AFTER * half))


def _meaning_columns(matches: TermMatches, similarity: Similarity, previous: Sequence[int | None]) -> Columns:
    """The features of the similarity in meaning. Those of the model's vectors are 0 without them."""
    passages, rarity, total = matches.passages, matches.rarity, matches.total_rarity
    most_like, likes = _best_by_document(passages, similarity.best), similarity.terms

    def weighed(likes: Sequence[float]) -> float:
        points: float = sum(map(mul, likes, rarity))
        return points / total

    words_like = [weighed(some) for some in likes]
    meaning = similarity.meaning or [0.0] * len(passages)
    usual = median(meaning) if similarity.meaning else 0.0
    best, places, counts = _best_by_document(passages, meaning), dict[int, int](), Counter[Kind]()
    if similarity.meaning:
        kinds = {one.document_id: one.kind for one in passages}
        for document in sorted(kinds, key=lambda id: (-best[id], id)):
            places[document] = counts[kinds[document]]
            counts[kinds[document]] += 1
    behind = [places.get(one.document_id, 0) for one in passages]
    return {
        "like": similarity.whole,
        "like_best": similarity.best,
        "document_like": [most_like[one.document_id] for one in passages],
        "words_like": words_like,
        "words_like_before": [
            own if n is None else weighed(list(map(max, some, likes[n])))
            for own, some, n in zip(words_like, likes, previous, strict=True)
        ],
        "meaning": meaning,
        "meaning_before": [meaning[n] if n is not None else usual for n in previous],
        "meaning_document": [best[one.document_id] for one in passages],
        "meaning_behind": [place / (place + _HALF_BEHIND) for place in behind],
    }


def _count(places: Iterable[tuple[int, int]]) -> Counter[int]:
    """How often each term occurs."""
    return Counter([number for _, number in places])


def _adjacent_pairs(places: Sequence[tuple[int, int]], terms: int) -> float:
    """The share of neighbouring terms of the question that are within three words of each other here."""
    close = {
        (one, other) if one < other else (other, one)
        for (place, one), (next_place, other) in pairwise(places)
        if next_place - place <= 3 and one != other
    }
    return sum((n, n + 1) in close for n in range(terms - 1)) / (terms - 1) if close else 0.0


def _densest(places: Sequence[tuple[int, int]], rarity: Sequence[float]) -> float:
    """The highest total rarity of the terms within `NEAR` words."""
    if len(places) == 1:
        return rarity[places[0][1]]
    inside = [0] * len(rarity)
    begin, value, best = 0, 0.0, 0.0
    for place, number in places:
        if not inside[number]:
            value += rarity[number]
        inside[number] += 1
        while places[begin][0] < place - NEAR:
            gone = places[begin][1]
            inside[gone] -= 1
            if not inside[gone]:
                value -= rarity[gone]
            begin += 1
        best = max(best, value)
    return best


def _best_by_document(passages: Sequence[Passage], values: Sequence[float]) -> dict[int, float]:
    found: dict[int, float] = {}
    for one, value in zip(passages, values, strict=True):
        found[one.document_id] = max(found.get(one.document_id, value), value)
    return found
