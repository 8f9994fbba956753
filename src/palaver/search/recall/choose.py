"""Choose: look up where the best hits are, decide which of them to read, and read their texts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from statistics import median
from typing import NamedTuple

from palaver.model.search import FoundPassage
from palaver.search.question import Question
from palaver.search.recall.hits import IN_TIME, MOST_CANDIDATES, Hits, TermSet, TermWeights
from palaver.search.relevant_parts import LONGEST_WHOLE, relevant_parts
from palaver.search.snippet import match_place
from palaver.search.sources import SOURCES
from palaver.store.engines.database import Lookup, Reader, Scope
from palaver.store.library.documents import PROJECT, document_scope
from palaver.store.search import found_passages
from palaver.store.search.found_passages import Candidate, CandidateText
from palaver.text.query import Phrase, with_parts

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
