"""Best first: what the index gathered, looked at more closely.

The passages that cover most of the question, with what stands around them, are read and ranked by all that is seen of
them (search/features.py). The others follow in the order of what they cover. Which are looked at does not depend on the
page that is asked for, so a result has the same score on every page.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from math import exp
from typing import Literal, NamedTuple

from palaver.search import features, recall
from palaver.search.features import Likening, Passage, Reading, Seen, Worth
from palaver.search.question import Question
from palaver.search.recall import Gathered
from palaver.search.sentences import words_of_stretches
from palaver.search.sources import SOURCES
from palaver.search.vectors import background
from palaver.search.vectors.words import Likeness, related, theme
from palaver.search.weights import weights
from palaver.store.engines.database import Reader, Scope
from palaver.store.library.documents import PROJECT
from palaver.store.search import found_passages
from palaver.store.search.found_passages import Candidate, CandidateText
from palaver.text.query import Phrase
from palaver.text.tokenize import stem

PLACED = 300
"""So many of the best are placed in their documents."""
COUNTED = 300
"""So many that come after them are counted one by one, to tell how many results there are;"""
ALL_COUNTED = 2_000
"""where no more than these come after them, all are."""
WITH_NEIGHBOURS = 60
"""So many of those that are read are read with what was said before and after, the very best with a little more."""


class Patience(NamedTuple):
    """How much is read: the most promising, and with what stands around them. And of whose messages every stretch is
    held against the question for itself: it may be answered in passing, in a message about something else."""

    best: int
    all: int
    sides: Collection[str]


HURRIED, PATIENT = Patience(90, 170, ("asking",)), Patience(150, 220, ("asking", "answering"))
"""A question that found little is looked at patiently: looking it up took little time."""
MOST_WIDENED = 8
"""So many words of a question are also looked for in other words."""
JOINED = 0.1
"""Points that the worst passage with the words together is ahead of the best one that has them apart."""
SOFTNESS = 3.0
"""How fast the score falls: a passage that is so many points behind the best one has a score of 1/e."""


class Scored(NamedTuple):
    """A passage and how good it is, between 0 and 1; what was seen of it, if it was looked at closely."""

    at: Candidate
    score: float
    has_all: bool
    has_any: bool
    seen: Seen | None = None
    named_by: Literal["id", "title"] | None = None
    """It was asked for by its name."""


@dataclass(frozen=True, slots=True)
class Judgement:
    scored: list[Scored]
    left: int
    """Passages that were not placed: they come after all others, with the scores `tail` gives."""
    next_ones: list[int]
    """The first of those."""
    gathered: Gathered
    lowest: float

    def tail(self, read: Reader) -> list[Scored]:
        masks, worth = self.gathered.best_first(), self.gathered.worth
        others = found_passages.candidates(read, list(masks)[PLACED:])
        # Lower than any that was placed: pages that were cut without these stay as they are.
        return [_behind(one, masks[one.passage_id], worth, self.lowest * 0.99) for one in others]


def judged(read: Reader, question: Question, slices: Sequence[Scope]) -> Judgement:
    """Everything that has some of the words, the best of it looked at closely."""
    gathered = recall.gather(read, question.terms, slices, _related(question), partial(_theme, question))
    if not question.is_asked:
        gathered = recall.with_best(read, gathered, question.terms, question.phrase, slices)
    behind, worth = max(0, gathered.size - PLACED), gathered.worth
    masks = gathered.best_first(PLACED + (behind if behind <= ALL_COUNTED else COUNTED))
    ids = list(masks)
    placed = found_passages.candidates(read, ids[:PLACED])
    near = features.around([(one.document_id, one.position, masks[one.passage_id]) for one in placed], worth)
    patience = PATIENT if question.is_asked and gathered.are_few else HURRIED
    spans = _spans(placed, masks, worth, near, question, slices, patience, gathered.first)
    looks = found_passages.candidate_texts(read, spans, {scope for where in slices for scope in where.without})
    scored = _scored(read, question, worth, near, looks, patience) if looks else []
    lowest = min((one.score for one in scored), default=1.0)
    read_closely = {one.at.passage_id for one in scored}
    others = [one for one in placed if one.passage_id not in read_closely]
    scored += [_behind(one, masks[one.passage_id], worth, lowest) for one in others]
    return Judgement(scored, behind, ids[PLACED:], gathered, lowest)


def _behind(one: Candidate, mask: int, worth: Worth, lowest: float) -> Scored:
    return Scored(one, lowest * 0.99 * max(worth.of(mask), 1e-6), has_all=worth.has_all(mask), has_any=True)


def _related(question: Question) -> list[list[Phrase]]:
    """Of a question, the words that may stand where its own do not. Keywords are meant as they are."""
    if not question.is_asked:
        return []
    known = {stem(word) for term in question.terms for word in term.words}
    found = []
    for term in question.terms[:MOST_WIDENED]:
        others = related(term.words[0]) if len(term.words) == 1 else ()
        found.append([Phrase((word,)) for word in others if stem(word) not in known])
    return found


def _theme(question: Question) -> list[Phrase]:
    """Words that are near to the question as a whole."""
    if not question.is_asked:
        return []
    known = {stem(word) for term in question.terms for word in term.words}
    return [Phrase((word,)) for word in theme(question.words, known)]


def _spans(
    placed: Sequence[Candidate],
    masks: Mapping[int, int],
    worth: Worth,
    near: features.Around,
    question: Question,
    slices: Iterable[Scope],
    patience: Patience,
    first: Sequence[int],
) -> list[tuple[int, int, int]]:
    """What to read: the most promising passages; of a question also what was said just before and after the best."""

    cover, known = near.cover.get, {id: -1 - 1 / (2 + n) for n, id in enumerate(first)}

    def promise(one: Candidate) -> tuple[float, float, int]:
        at, position = one.document_id, one.position
        beside = cover((at, position - 1), 0.0) + cover((at, position + 1), 0.0) if position else 0.0
        promised = worth.of(masks[one.passage_id]) + 0.3 * beside + 0.5 * near.spread[at]
        return known.get(one.passage_id, 0.0), -promised, -one.passage_id

    best = sorted(placed, key=promise)[: patience.best]
    is_said = any(worth.has_all(masks[one.passage_id]) for one in placed)
    whole = _wholly_searched(slices) if question.is_asked and not is_said else frozenset[str]()
    wanted = {(one.document_id, one.position): None for one in best}
    near_to = [one for one in best[:WITH_NEIGHBOURS] if one.position and one.source in whole]
    for step in (1, -1, 2, -2, 3):
        for one in near_to[: WITH_NEIGHBOURS // abs(step) ** 2]:
            if one.position + step > 0 and len(wanted) < patience.all:
                wanted[one.document_id, one.position + step] = None
    return [(document_id, position, position) for document_id, position in wanted]


def _wholly_searched(slices: Iterable[Scope]) -> frozenset[str]:
    """The conversations in which a neighbour may be found too: nothing says that some of them are not wanted."""
    return frozenset(
        source
        for where in slices
        if where.bodies and not where.any_of and not where.is_timed
        for source in where.sources
        if SOURCES[source].is_said
        and all(scope.startswith(("d", PROJECT)) or source == "sessions" for scope in where.scopes)
    )


def _scored(
    read: Reader,
    question: Question,
    worth: Worth,
    near: features.Around,
    looks: Sequence[CandidateText],
    patience: Patience,
) -> list[Scored]:
    speakers: dict[int, set[str]] = {}
    for one in looks:
        if one.at.position:
            speakers.setdefault(one.at.document_id, set()).add(one.author or one.role or "")
    sources = {one.at.document_id: one.at.source for one in looks}
    kinds: dict[int, features.Kind] = dict.fromkeys(sources, "word")
    if not question.is_word:
        kinds = {id: features.kind_of(source, speakers.get(id, ())) for id, source in sources.items()}
    passages = [_passage(one, kinds[one.at.document_id]) for one in looks]
    reading = Reading(question, worth.rarity, passages)
    like = _likening(question, reading, patience)
    if told := background.likeness(read, question.text, [one.at.passage_id for one in looks]):
        like = like._replace(stronger=background.on_the_scale_of(like.whole, told))
    seen = reading.seen(near, like)
    points = [features.score(what, _weights(one.kind)) for one, what in zip(passages, seen, strict=True)]
    if not question.is_asked and len(question.words) > 1:
        step = max(points) - min(points) + 1.0
        points = [value + step * tier for value, tier in zip(points, reading.tiers(), strict=True)]
    else:
        points = _together_first(points, reading)
    best = max(points)
    return [
        Scored(
            look.at,
            exp((value - best) / SOFTNESS),
            has_all=reading.has_all(number),
            has_any=bool(reading.places[number]),
            seen=what,
        )
        for number, (look, value, what) in enumerate(zip(looks, points, seen, strict=True))
    ]


def _together_first(points: list[float], reading: Reading) -> list[float]:
    """Of passages that have all terms, those come first in which the words that signs join (TCP/IP) are together."""
    if not any(reading.is_apart):
        return points
    have_all = [number for number in range(len(points)) if reading.has_all(number)]
    together = [number for number in have_all if not reading.is_apart[number]]
    apart = [points[number] for number in have_all if reading.is_apart[number]]
    behind = max(apart) - min(points[number] for number in together) if together and apart else -1.0
    if behind < 0:
        return points
    ahead = dict.fromkeys(together, behind + JOINED)
    return [value + ahead.get(number, 0.0) for number, value in enumerate(points)]


def _likening(question: Question, reading: Reading, patience: Patience) -> Likening:
    if question.is_word:
        return Likening.nothing(len(reading.passages), len(reading.terms))
    likeness = Likeness(question.words, [term.words for term in reading.terms])
    inside = [
        words_of_stretches(one.text) if question.is_asked and one.side in patience.sides else []
        for one in reading.passages
    ]
    return Likening(*likeness.to(reading.words, inside))


def _passage(one: CandidateText, kind: features.Kind) -> Passage:
    at, title, role, author, text = one
    said_at = at.created_at or at.modified_at
    return Passage(at.passage_id, at.document_id, at.position, kind, author or role or "", title or "", text, said_at)


@cache
def _weights(kind: str) -> tuple[float, ...]:
    return features.in_order(weights()[kind])
