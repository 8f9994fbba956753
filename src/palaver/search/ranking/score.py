"""Scoring: rank passages by their features and weights."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from math import exp
from operator import mul
from pathlib import Path
from typing import Literal, NamedTuple

from palaver.search.hits import Candidates, effort_for
from palaver.search.question import Question
from palaver.search.ranking.features import Features, Kind, Passage, TermMatches, features_of, passages_of
from palaver.search.vectors import nearest
from palaver.search.vectors.word_similarity import NO_SENTENCES, QuestionVectors, Similarity
from palaver.store.engines.database import Reader
from palaver.store.search import found_passages
from palaver.store.search.found_passages import Candidate, CandidateText
from palaver.text.languages import ENGLISH
from palaver.text.tokenize import words

FILE = Path(__file__).parent / "weights.toml"
AHEAD = 0.1
"""Points by which the worst passage with joined words together is ahead of the best one with them apart."""
SAID = 3.0
"""Points of a passage that the speaker of the question said."""
SOFTNESS = 4.0
"""How fast scores fall: a passage this many points behind the best gets 1/e of its score."""
EXPECTED, EXPECTED_OF_WORDS = 0.12, 0.43
"""The expected similarity of a passage that has no vector yet, by that of its words: a line through those with both."""
UNREAD = 0.99
"""The highest score of a passage that was not read, as a share of the lowest score of one that was."""


class ScoredPassage(NamedTuple):
    """A passage and its score, from 0 to 1."""

    at: Candidate
    score: float
    has_all: bool
    has_any: bool
    features: Features | None = None
    """None if the text was not read."""
    named_by: Literal["id", "title"] | None = None
    """The query is the id or the title of the document."""


class Ranking(NamedTuple):
    """Scored passages."""

    passages: list[ScoredPassage]
    lowest: float
    """The lowest score of a passage that was read."""
    points: Sequence[float]
    """The weighed sums of the features of the passages that were read."""
    share_known: float
    """The share of these that have a vector."""
    is_assistant: bool = False
    """The best of these is from talk with an assistant."""


def rank(read: Reader, question: Question, candidates: Candidates, texts: Sequence[CandidateText]) -> Ranking:
    """Score the candidates: those that were read by their features, the others by their cover, below them."""
    scored = _score_texts(read, question, candidates, texts) if texts else Ranking([], 1.0, (), 0.0)
    was_read = {one.at.passage_id for one in scored.passages}
    unread = [one for one in candidates.placed if one.passage_id not in was_read]
    others = [_score_unread(one, candidates, scored.lowest) for one in unread]
    return scored._replace(passages=scored.passages + others)


def rank_rest(read: Reader, candidates: Candidates, lowest: float) -> list[ScoredPassage]:
    """Score the hits that were not placed. They come after all others, so pages cut before stay as they are."""
    terms_of = candidates.hits.best_first()
    rest = found_passages.candidates(read, list(terms_of)[candidates.hits.placed :])
    return [_score_unread(one, candidates._replace(terms_of=terms_of), lowest * UNREAD) for one in rest]


def _score_unread(one: Candidate, candidates: Candidates, lowest: float) -> ScoredPassage:
    weights, terms = candidates.hits.weights, candidates.terms_of[one.passage_id]
    score = lowest * UNREAD * max(weights.cover(terms), 1e-6)
    return ScoredPassage(one, score, has_all=weights.has_all(terms), has_any=True)


def _score_texts(read: Reader, question: Question, candidates: Candidates, texts: Sequence[CandidateText]) -> Ranking:
    passages = passages_of(question, texts)
    matches = TermMatches(question, candidates.hits.weights.rarity, passages)
    similarity = _similarity(read, question, matches, candidates)
    features = features_of(matches, candidates.cover, similarity)
    weights = {kind: weights_of(kind, similarity.share_known) for kind in {one.kind for one in passages}}
    sums = [weighed_sum(one, weights[passage.kind]) for passage, one in zip(passages, features, strict=True)]
    points = [value + SAID * is_said for value, is_said in zip(sums, matches.is_said, strict=True)]
    if not question.is_asked and len(question.words) > 1:
        step = max(points) - min(points) + 1.0
        points = [value + step * tier for value, tier in zip(points, matches.keyword_tiers(), strict=True)]
    else:
        points = _joined_words_first(points, matches)
    best = max(points)
    scored = [
        ScoredPassage(
            text.at,
            exp((value - best) / SOFTNESS),
            has_all=matches.has_all(number),
            has_any=bool(matches.places[number]),
            features=one,
        )
        for number, (text, value, one) in enumerate(zip(texts, points, features, strict=True))
    ]
    kind = passages[points.index(best)].kind
    return Ranking(scored, min(one.score for one in scored), sums, similarity.share_known, kind == "assistant")


def _similarity(read: Reader, question: Question, matches: TermMatches, candidates: Candidates) -> Similarity:
    """Compare the meaning of the passages with the question."""
    passages: Sequence[Passage] = matches.passages
    if question.is_word:
        return Similarity.none(len(passages), len(matches.terms))
    if question.is_asked and question.language is not ENGLISH:
        similarity = Similarity.none(len(passages), len(matches.terms))._replace(terms=matches.presence())
        return _with_meaning(read, similarity, passages, candidates)
    sides = effort_for(question, candidates.hits).sides
    sentences = [
        text.sentences if question.is_asked and one.side in sides else NO_SENTENCES
        for one, text in zip(passages, matches.texts, strict=True)
    ]
    vectors = QuestionVectors(words(question.topic), [term.words for term in matches.terms])
    similarity = vectors.similarity([text.whole for text in matches.texts], sentences)
    return _with_meaning(read, similarity, passages, candidates)


def _with_meaning(
    read: Reader, similarity: Similarity, passages: Sequence[Passage], candidates: Candidates
) -> Similarity:
    """Add the similarity by the vectors of the model, estimated for passages without one, if any passage has one."""
    if candidates.hits.vector is None:
        return similarity
    known = nearest.similarity(read, candidates.hits.vector, [one.id for one in passages])
    nearest.make_soon(read, [one.id for one in reversed(passages) if one.position and one.id not in known])
    if not known:
        return similarity
    expected = [EXPECTED + EXPECTED_OF_WORDS * like for like in similarity.whole]
    values = [known.get(one.id, value) for one, value in zip(passages, expected, strict=True)]
    bodies = sum(one.position > 0 for one in passages)  # titles never have a vector
    return similarity._replace(meaning=values, share_known=min(1.0, len(known) / max(1, bodies)))


def _joined_words_first(points: list[float], matches: TermMatches) -> list[float]:
    """Put passages that have all terms and joined words (TCP/IP) together before those that have them apart."""
    if not any(matches.is_apart):
        return points
    have_all = [number for number in range(len(points)) if matches.has_all(number)]
    together = [number for number in have_all if not matches.is_apart[number]]
    apart = [points[number] for number in have_all if matches.is_apart[number]]
    behind = max(apart) - min(points[number] for number in together) if together and apart else -1.0
    if behind < 0:
        return points
    ahead = dict.fromkeys(together, behind + AHEAD)
    return [value + ahead.get(number, 0.0) for number, value in enumerate(points)]


def weighed_sum(features: Features, weights: Sequence[float]) -> float:
    """The sum of features, each times its weight. Weights are in the order of the features."""
    points: float = sum(map(mul, weights, features))
    return points


@cache
def weights() -> dict[str, dict[str, float]]:
    """How much each feature counts, by kind of talk, as learned by tools/learn_search.py."""
    return tomllib.loads(FILE.read_text("utf-8"))


def weights_of(kind: Kind, share_known: float) -> tuple[float, ...]:
    """The weights for a kind of talk, between those without vectors and those with them."""
    without = in_order(weights()[kind])
    with_meaning = in_order(weights().get(f"{kind} with meaning", weights()[kind]))
    return tuple(one + share_known * (other - one) for one, other in zip(without, with_meaning, strict=True))


def in_order(weights: Mapping[str, float]) -> tuple[float, ...]:
    """Named weights in the order of the features."""
    return tuple(weights.get(name, 0.0) for name in Features._fields)
