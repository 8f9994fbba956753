"""How well a passage answers a question: what is seen of it and around it, and a weight for each.

Everything here is a number between 0 and 1 made from the passages that are looked at closely, a few hundred of them.
What each counts was learned from labelled questions (docs/guides/ranking.md); it differs between people who talk with
each other, somebody who talks with an assistant, and text that was written. Of one word alone only
the word counts: the same text is as good a match wherever it stands.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from math import log, log1p
from operator import mul, or_
from statistics import median
from typing import Literal, NamedTuple

from palaver.search.question import Question
from palaver.search.word_positions import Sought
from palaver.text.query import Phrase
from palaver.text.tokenize import stems, words

Kind = Literal["people", "assistant", "text", "word"]
"""Who talks there; but where one word is looked for and nothing is asked, it does not matter who does."""

NEAR = 20
"""Words that stand within so many of each other belong together."""
RELATED = 0.5
"""What a related word is worth beside the word itself."""
_K1, _B = 1.2, 0.75
_LONG = log(1000)
_FEW_BEHIND = 5
"""A document that is so many places behind is half as far behind as one can be."""

_ROLES = frozenset(["user", "assistant", "human", "ai", "model", "system", "tool", "bot"])
_TIMES = frozenset(
    words(
        "yesterday today tomorrow tonight ago last next week weekend month year monday tuesday wednesday thursday "
        "friday saturday sunday january february march april may june july august september october november december "
        "recently spring summer autumn fall winter morning night day since already just"
    )
)
_NUMBERED = re.compile(r"\b(?:\d{4}|\d{1,2}(?:st|nd|rd|th)|\d{1,2}:\d\d)\b")


class Seen(NamedTuple):
    """What is seen of one passage. The names are those of the weights."""

    words: float
    """bm25 of the words, whatever their endings, as a share of the best."""
    exact: float
    """The same of the words as they were typed."""
    cover: float
    """How much of the question it covers, rare words counting more."""
    pairs: float
    """Words that stand beside each other in the question and here."""
    near: float
    """The most it covers within twenty words."""
    before: float
    after: float
    before_that: float
    """How much the neighbours cover."""
    document: float
    """How often the words stand in the whole document, as a share of the best."""
    document_best: float
    """The best passage of the document, as a share of the best of all."""
    document_cover: float
    """How much the passages of the document cover together."""
    title: float
    """How much the document's title covers."""
    is_title: float
    speaker: float
    """The question names who said it."""
    asks: float
    """It is itself a question."""
    answers: float
    """What was said before it is one."""
    length: float
    time: float
    """A time is asked for, and there is one."""
    like: float
    """Likeness in meaning, as a whole."""
    like_best: float
    """The same of the sentence or two that are most alike."""
    document_like: float
    """The best of those in the document."""
    words_like: float
    """For each word of the question the word here that is nearest in meaning, rare ones counting more."""
    words_like_before: float
    """The same, together with what was said before it."""
    mine: float
    """The question is about the one who asks, and it was they who said this."""
    yours: float
    """The question is about what the assistant said, and the assistant said this."""
    newest: float
    """The latest is asked for: how new it is among the passages that were looked at."""
    stronger: float = 0.0
    """Likeness of the stretch that is most alike, as a stronger model tells it; nothing where none is set."""
    stronger_before: float = 0.0
    """The same of what was said before it."""
    stronger_behind: float = 0.0
    """Of a question, how far its document is behind the one of its kind that the stronger model holds for the most
    alike: nothing for that one, a half for the sixth."""


class Passage(NamedTuple):
    """A passage that is looked at closely."""

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
        """Where somebody talks with an assistant: which of the two this is."""
        if self.kind != "assistant":
            return None
        return "asking" if self.speaker.lower() in ("user", "human") else "answering"


class Likening(NamedTuple):
    """For each passage how alike it is to the question as a whole, in its best stretch, and to each term of it; and,
    where a stronger model is set, what that one says."""

    whole: Sequence[float]
    best: Sequence[float]
    terms: Sequence[Sequence[float]]
    stronger: Sequence[float] = ()

    @classmethod
    def nothing(cls, passages: int, terms: int) -> Likening:
        none = [0.0] * passages
        return cls(none, none, [[0.0] * terms] * passages)


@dataclass(frozen=True, slots=True)
class Around:
    """What is known of all passages that have some of the words, also of those that are not looked at closely."""

    cover: Mapping[tuple[int, int], float]
    """By document and position: how much of the question it covers."""
    spread: Mapping[int, float]
    """By document: how often the words stand in it."""
    together: Mapping[int, float]
    """By document: how much its passages cover together."""


def kind_of(source: str, speakers: Iterable[str]) -> Kind:
    """Who talks here: people with names, somebody with an assistant, or nobody."""
    if source in ("bus", "chats", "sessions", "archive"):
        return "assistant" if all(speaker.lower() in _ROLES for speaker in speakers) else "people"
    return "text"


@dataclass(frozen=True, slots=True)
class Worth:
    """What the words of a question are worth where they are found: rare ones more. A related word is worth half, and so
    is one that belongs to the theme of them all.

    In a mask bit n is the n-th word, bit n + (number of words) a word related to it, and the last bit one of the theme.
    """

    rarity: tuple[float, ...]
    related: tuple[float, ...]
    theme: float = 0.0
    _known: dict[int, float] = field(default_factory=dict, repr=False, compare=False)

    def of(self, mask: int) -> float:
        """How much of the question is covered by these words, between 0 and 1."""
        known = self._known.get(mask)
        if known is None:
            known = self._known[mask] = self._summed(mask)
        return known

    def _summed(self, mask: int) -> float:
        count = len(self.rarity)
        worth = sum(
            rare if mask >> n & 1 else RELATED * like if mask >> n + count & 1 else 0.0
            for n, (rare, like) in enumerate(zip(self.rarity, self.related, strict=True))
        )
        if mask >> 2 * count & 1:
            worth += RELATED * self.theme
        return worth / (sum(self.rarity) or 1.0)

    @property
    def everything(self) -> int:
        """The mask of all words."""
        return (1 << len(self.rarity)) - 1

    def has_all(self, mask: int) -> bool:
        return mask & self.everything == self.everything


def around(found: Iterable[tuple[int, int, int]], worth: Worth) -> Around:
    """From (document, position, mask) of everything that was found."""
    cover: dict[tuple[int, int], float] = {}
    masks_of: dict[int, list[int]] = defaultdict(list)
    for document_id, position, mask in found:
        cover[document_id, position] = worth.of(mask)
        masks_of[document_id].append(mask)
    known: dict[tuple[int, ...], tuple[float, float]] = {}
    spread, together = {}, {}
    for document_id, masks in masks_of.items():
        key = tuple(sorted(masks))
        if key not in known:
            known[key] = _often(Counter(masks), worth), worth.of(reduce(or_, masks))
        spread[document_id], together[document_id] = known[key]
    best = max(spread.values(), default=0.0) or 1.0
    return Around(cover, {id: value / best for id, value in spread.items()}, together)


def _often(masks: Mapping[int, int], worth: Worth) -> float:
    """How often the words stand in passages with these masks; the tenth time tells less than the first."""
    count, found = len(worth.rarity), 0.0
    for n, (rare, like) in enumerate(zip(worth.rarity, worth.related, strict=True)):
        itself = sum(times for mask, times in masks.items() if mask >> n & 1)
        instead = sum(times for mask, times in masks.items() if mask >> n + count & 1 and not mask >> n & 1)
        times = itself + (RELATED * instead * like / rare if rare else 0.0)
        found += rare * times * (_K1 + 1) / (times + _K1)
    return found


class Reading:
    """The passages, read with the question in mind. `names` are the words of the question that name a speaker."""

    def __init__(self, question: Question, rarity: Sequence[float], passages: Sequence[Passage]) -> None:
        self.question, self.passages = question, passages
        names = {speaker: frozenset(words(speaker)) - _ROLES for speaker in {one.speaker for one in passages}}
        self.speakers = [names[one.speaker] for one in passages]
        asked = set(question.words)
        self.names = frozenset[str]().union(*names.values()) & asked
        chosen = [n for n, term in enumerate(question.terms) if not self.names.issuperset(term.words)]
        chosen = chosen or list(range(len(question.terms)))
        self.terms: list[Phrase] = [question.terms[n] for n in chosen]
        self._typed = [term.words for term in self.terms]
        self.rarity = [rarity[n] for n in chosen]
        self._whole = sum(self.rarity) or 1.0
        self.words = [words(one.text) for one in passages]
        self._sought = Sought(term.words for term in self.terms)
        self._joined = [(n, Sought(part.words for part in one.parts)) for n, one in enumerate(self.terms) if one.parts]
        together = [self._sought.places(text) for text in self.words]
        self.places = [self._also_apart(text, places) for text, places in zip(self.words, together, strict=True)]
        self.is_apart = [len(one) < len(other) for one, other in zip(together, self.places, strict=True)]
        """In which passages words that signs join in a term (TCP/IP) stand apart, and nowhere together."""

    def _also_apart(self, text: Sequence[str], places: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """The places of the terms. A term whose words signs join may have all of them apart: then it stands where the
        one of them does that comes least often."""
        if not self._joined:
            return places
        known, found = {number for _, number in places}, list(places)
        for number, parts in self._joined:
            if number not in known:
                of_each: list[list[int]] = [[] for _ in self.terms[number].parts]
                for place, part in parts.places(text):
                    of_each[part].append(place)
                found += [(place, number) for place in min(of_each, key=len)]
        return sorted(found)

    def seen(self, near: Around, like: Likening) -> list[Seen]:
        """What is seen of each passage."""
        question, passages, whole = self.question, self.passages, self._whole
        lengths = [len(text) for text in self.words]
        usual = _averages(passages, lengths)
        at = {(one.document_id, one.position): n for n, one in enumerate(passages)}
        counts = [_counted(places) for places in self.places]
        relative = [length / usual[one.kind] for one, length in zip(passages, lengths, strict=True)]
        bm25 = list(map(self._bm25, counts, relative))
        exact = list(map(self._bm25, map(self._as_typed, self.words, self.places), relative))
        best_of, likest = self._best_of_each(bm25), self._best_of_each(like.best)
        most, most_exact = max(bm25, default=0.0) or 1.0, max(exact, default=0.0) or 1.0
        titles = {title: self._cover_of(title) for title in {one.title for one in passages}}
        asks = [1.0 if "?" in one.text else 0.0 for one in passages]
        ages = _ranks([one.at for one in passages]) if question.wants_latest else [0.0] * len(passages)
        is_about_sides = question.is_mine or question.is_yours
        cover = near.cover.get
        stronger = self._told(like.stronger, at) if like.stronger else [(0.0, 0.0, 0.0)] * len(passages)
        found = []
        for n, one in enumerate(passages):
            document, position, places, likes = one.document_id, one.position, self.places[n], like.terms[n]
            previous = at.get((document, position - 1)) if position > 1 else None
            words_like = words_like_before = self._weighed(likes)
            if previous is not None:
                words_like_before = self._weighed(list(map(max, likes, like.terms[previous])))
            side = one.side if is_about_sides else None
            found.append(
                # In the order of the fields: named, they would take a third of all the time that is spent here.
                Seen(
                    bm25[n] / most,
                    exact[n] / most_exact,
                    sum([self.rarity[number] for number in counts[n]]) / whole,
                    self._pairs(places) if len(counts[n]) > 1 else 0.0,
                    self._near(places) / whole,
                    cover((document, position - 1), 0.0) if position > 1 else 0.0,  # before
                    cover((document, position + 1), 0.0) if position else 0.0,  # after
                    cover((document, position - 2), 0.0) if position > 2 else 0.0,  # before_that
                    near.spread.get(document, 0.0),
                    best_of[document] / most,
                    near.together.get(document, 0.0),
                    titles[one.title],
                    0.0 if position else 1.0,  # is_title
                    1.0 if self.names and self.speakers[n] & self.names else 0.0,
                    asks[n],
                    asks[previous] if previous is not None else 0.0,  # answers
                    min(1.0, log1p(lengths[n]) / _LONG),
                    1.0 if question.wants_time and self._has_time(n) else 0.0,
                    like.whole[n],
                    like.best[n],
                    likest[document],
                    words_like,
                    words_like_before,
                    1.0 if question.is_mine and side == "asking" else 0.0,  # mine
                    1.0 if question.is_yours and side == "answering" else 0.0,  # yours
                    ages[n],
                    *stronger[n],
                )
            )
        return found

    def has_all(self, number: int) -> bool:
        """Does a passage have all of the terms?"""
        return len({term for _, term in self.places[number]}) == len(self.terms)

    def tiers(self) -> list[int]:
        """Of keywords, how completely each passage has them. From the best: side by side and in order; in order with
        other endings; all of them; all, but words apart that signs join; not all, but those that name one thing (ids,
        versions, paths); not even those."""
        typed = f" {' '.join(self.question.words)} "
        stemmed = f" {' '.join(stems(self.question.words))} "
        naming = {number for number, term in enumerate(self.terms) if _names_one_thing(term)}
        found = []
        for text, places, is_apart in zip(self.words, self.places, self.is_apart, strict=True):
            there = {number for _, number in places}
            if len(there) < len(self.terms):
                found.append(1 if naming <= there else 0)
            elif is_apart:
                found.append(2)
            elif typed in f" {' '.join(text)} ":
                found.append(5)
            else:
                found.append(4 if stemmed in f" {' '.join(stems(text))} " else 3)
        return found

    def _best_of_each(self, values: Sequence[float]) -> dict[int, float]:
        """By document."""
        found: dict[int, float] = {}
        for one, value in zip(self.passages, values, strict=True):
            found[one.document_id] = max(found.get(one.document_id, value), value)
        return found

    def _told(self, stronger: Sequence[float], at: Mapping[tuple[int, int], int]) -> list[tuple[float, float, float]]:
        """What a stronger model says of each passage, of what was said before it, and of its document."""
        unknown, best, places = median(stronger), self._best_of_each(stronger), dict[int, int]()
        kinds = {one.document_id: one.kind for one in self.passages} if self.question.is_asked else {}
        counts = Counter[Kind]()
        for document in sorted(kinds, key=lambda id: (-best[id], id)):
            places[document] = counts[kinds[document]]
            counts[kinds[document]] += 1
        found = []
        for one, own in zip(self.passages, stronger, strict=True):
            previous = at.get((one.document_id, one.position - 1)) if one.position > 1 else None
            place = places.get(one.document_id, 0)
            found.append((own, stronger[previous] if previous is not None else unknown, place / (place + _FEW_BEHIND)))
        return found

    def _bm25(self, counts: Mapping[int, int], length: float) -> float:
        rarity, slow = self.rarity, _K1 * (1 - _B + _B * length)
        return sum([rarity[number] * count * (_K1 + 1) / (count + slow) for number, count in counts.items()])

    def _as_typed(self, text: Sequence[str], places: Sequence[tuple[int, int]]) -> dict[int, int]:
        typed = self._typed
        return _counted(
            [
                (place, number)
                for place, number in places
                if text[place] == typed[number][0]
                and (len(typed[number]) == 1 or tuple(text[place : place + len(typed[number])]) == typed[number])
            ]
        )

    def _pairs(self, places: Sequence[tuple[int, int]]) -> float:
        close = {
            (one, other) if one < other else (other, one)
            for (place, one), (next_place, other) in pairwise(places)
            if next_place - place <= 3 and one != other
        }
        return sum((n, n + 1) in close for n in range(len(self.terms) - 1)) / (len(self.terms) - 1) if close else 0.0

    def _near(self, places: Sequence[tuple[int, int]]) -> float:
        """The rarity of the words in the best stretch."""
        if len(places) == 1:
            return self.rarity[places[0][1]]
        inside = [0] * len(self.rarity)
        begin, value, best = 0, 0.0, 0.0
        for place, number in places:
            if not inside[number]:
                value += self.rarity[number]
            inside[number] += 1
            while places[begin][0] < place - NEAR:
                gone = places[begin][1]
                inside[gone] -= 1
                if not inside[gone]:
                    value -= self.rarity[gone]
                begin += 1
            best = max(best, value)
        return best

    def _has_time(self, n: int) -> bool:
        return not _TIMES.isdisjoint(self.words[n]) or bool(_NUMBERED.search(self.passages[n].text))

    def _cover_of(self, title: str) -> float:
        said = words(title)
        there = {number for _, number in self._also_apart(said, self._sought.places(said))} if title else set()
        return sum(self.rarity[number] for number in there) / self._whole

    def _weighed(self, likes: Sequence[float]) -> float:
        points: float = sum(map(mul, likes, self.rarity))
        return points / self._whole


def _names_one_thing(term: Phrase) -> bool:
    return len(term.words) > 1 or not term.words[0].isalpha()


def _counted(places: Iterable[tuple[int, int]]) -> dict[int, int]:
    """How often each term stands there."""
    counts: dict[int, int] = {}
    for _, number in places:
        counts[number] = counts.get(number, 0) + 1
    return counts


def in_order(weights: Mapping[str, float]) -> tuple[float, ...]:
    """The weight of each thing that is seen."""
    return tuple(weights.get(name, 0.0) for name in Seen._fields)


def score(seen: Seen, weights: Sequence[float]) -> float:
    points: float = sum(map(mul, weights, seen))
    return points


def _averages(passages: Sequence[Passage], lengths: Sequence[int]) -> dict[str, float]:
    sums: dict[str, list[int]] = defaultdict(list)
    for one, length in zip(passages, lengths, strict=True):
        sums[one.kind].append(length)
    return {kind: max(1.0, sum(some) / len(some)) for kind, some in sums.items()}


def _ranks(times: Sequence[int]) -> list[float]:
    """Of each time its place among all, from 0 for the oldest to 1 for the newest."""
    order = sorted(set(times))
    last = max(1, len(order) - 1)
    place = {time: n / last for n, time in enumerate(order)}
    return [place[time] for time in times]
