"""Finding anything: one search over all sources, or over one of them, best first.

The words of the question are looked for in every source at once; hits of the same thing become one result; scores are
shares of the best hit's. Text is read, and snippets are cut, for the page that is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from itertools import groupby
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from palaver.model.library import is_unique
from palaver.model.messages import HIDDEN, is_human_only
from palaver.model.people import Caller
from palaver.model.search import Beside, Capped, ResultItem, SaidItem, Standing
from palaver.model.times import micros
from palaver.search import recall
from palaver.search.followups import Following, following
from palaver.search.question import Question
from palaver.search.recall import Gathered
from palaver.search.score import Judgement, Scored, judged
from palaver.search.snippet import beginning, match_place, passage_snippet, snippet_and_place
from palaver.search.sources import SOURCES
from palaver.search.sources.shapes import parse_uri
from palaver.store.engines.database import Reader, Scope
from palaver.store.library.documents import HUMAN_ONLY, agent_scope, further_scopes
from palaver.store.search import found_passages
from palaver.store.search.found_passages import Candidate
from palaver.text.query import AnyOf, Phrase, Query
from palaver.text.tokenize import words

Order = Literal["relevance", "recent"]
Matched = Literal["id", "title", "all words", "some words", "similar", "nothing"]

SNIPPET = 300
SHORTEST_ID, LONGEST_ID = 6, 400
LONGEST_TITLE = 40
"""Words of a query that may be a title."""
MOST_TITLES = 500
"""Passages with all words of the query among which a title is looked for."""


class Ranked(NamedTuple):
    """One result before it is dressed: its best passage, and how good it is."""

    best: Candidate
    score: float
    modified_at: int
    why: Scored

    @property
    def uri(self) -> str:
        return SOURCES[self.best.source].uri_of(self.best.document, self.best.native_id, self.best.position)

    @property
    def key(self) -> Hashable:
        """The same for every copy of a message, wherever it is kept."""
        return key_of(self.best)

    @property
    def name(self) -> str:
        """What a session of searching remembers of it: its uri, or the id that all copies of it have."""
        return key if isinstance(key := self.key, str) else self.uri


def key_of(at: Candidate) -> Hashable:
    """Hits with the same key are one result."""
    return SOURCES[at.source].key_of(at)


@dataclass(frozen=True, slots=True)
class Results:
    """Results, best (or newest) first. `more` is how many others there may be behind them."""

    ranked: list[Ranked]
    more: int = 0
    gathered: Gathered | None = None

    @property
    def matched(self) -> Matched:
        """How the best of them match."""
        if not self.ranked:
            return "nothing"
        if named := self.ranked[0].why.named_by:
            return named
        if any(one.why.has_all for one in self.ranked):
            return "all words"
        return "some words" if any(one.why.has_any for one in self.ranked) else "similar"

    def left_out(self, terms: Sequence[Phrase]) -> list[str] | None:
        """Words that were looked for only together with others."""
        common = self.gathered.too_common if self.gathered else ()
        return [" ".join(terms[number].words) for number in common] or None

    def capped(self, terms: Sequence[Phrase]) -> Capped | None:
        """What was not looked at, if anything."""
        if self.gathered is None or not self.gathered.is_capped:
            return None
        numbers = sorted((*self.gathered.too_common, *self.gathered.cut_short))
        return Capped(self.gathered.size, [" ".join(terms[number].words) for number in numbers])


def everything(read: Reader, question: Question, slices: Sequence[Scope], order: Order, wanted: int) -> Results:
    """The first `wanted` results at least, best (or newest) first; pages are cut from them. Who names a thing by its
    id, its uri or its title gets it before all others."""
    if not question.terms or not slices:
        return Results([])
    found = _everything(read, question, slices, order, wanted)
    if order != "relevance":
        return found
    by_id = _named(read, question.text, slices)
    first = [by_id] if by_id else _titled(read, question, slices, found.gathered)
    if not first:
        return found
    known: dict[Hashable, Ranked] = {}
    for one in first:
        known.setdefault(one.key, one)
    others = []
    for one in found.ranked:
        if named := known.get(one.key):
            known[one.key] = named._replace(best=one.best)  # where its text says it too
        else:
            others.append(one._replace(score=round(one.score * 0.9, 9)))
    return replace(found, ranked=[*known.values(), *others])


def _titled(read: Reader, question: Question, slices: Sequence[Scope], gathered: Gathered | None) -> list[Ranked]:
    """What has just this title, whatever its case and accents: the newest first."""
    if len(question.words) > LONGEST_TITLE:
        return []
    name, searched = question.text.strip(), _wholly(slices)
    # The engine knows the case of plain letters only; of other ones it is shown the usual spellings.
    spellings = {name} if name.isascii() else {name, name.lower(), name.title()}
    spellings = spellings if name.isprintable() else set()
    found = {row.id: row for title in spellings for row in found_passages.documents_with_title(read, title)}
    ids = [
        passage_id
        for row in found.values()
        if row.source in searched and tuple(words(row.title)) == question.words
        if (passage_id := _beginning_of(read, row.id)) is not None
    ]
    # Accents and punctuation do not matter either, where the index says that there may be such a title.
    likely = gathered.having_all() if gathered else None
    if likely and len(likely) <= MOST_TITLES:
        titles = found_passages.title_texts(read, likely)
        ids += [id for id, title in titles.items() if tuple(words(title)) == question.words]
    places = found_passages.candidates(read, list(dict.fromkeys(ids))) if ids else []
    return _sorted([_called(at, "title") for at in places], lambda one: (0.0, -one.modified_at))


def _called(at: Candidate, how: Literal["id", "title"]) -> Ranked:
    return Ranked(at, 1.0, _modified_at(at), Scored(at, 1.0, has_all=True, has_any=True, named_by=how))


def _wholly(slices: Sequence[Scope]) -> frozenset[str]:
    """The sources in which nothing is left out."""
    return frozenset(
        source
        for where in slices
        if where == Scope(where.sources, without=where.without, is_blind=where.is_blind)
        for source in where.sources
    )


def _beginning_of(read: Reader, document_id: int) -> int | None:
    first = found_passages.passages(read, document_id, 0, 1)
    return first[0].id if first else None


def _named(read: Reader, text: str, slices: Sequence[Scope]) -> Ranked | None:
    """What has this id or this uri, if it may be found here at all."""
    name = text.strip()
    if not SHORTEST_ID <= len(name) <= LONGEST_ID or " " in name or not name.isprintable():
        return None
    searched = _wholly(slices)
    given = parse_uri(name)
    for source, id in [given] if given else [(source, name) for source in sorted(searched)]:
        opened = found_passages.resolve(read, source, id) if source in searched else None
        if opened is None:
            continue
        passage_id = opened.passage_id or _beginning_of(read, opened.document_id)
        if passage_id is not None and not (opened.passage_id and _is_left_out(read, passage_id, slices)):
            return _called(found_passages.candidates(read, [passage_id])[0], "id")
    return None


def _is_left_out(read: Reader, passage_id: int, slices: Sequence[Scope]) -> bool:
    """Is this a message that the slices leave out?"""
    at, without = found_passages.by_id(read, passage_id), {scope for where in slices for scope in where.without}
    return at is not None and not without.isdisjoint(further_scopes(at.source, at.marks))


def _everything(read: Reader, question: Question, slices: Sequence[Scope], order: Order, wanted: int) -> Results:
    judgement = judged(read, question, slices)
    ranked = _ranked(judgement.scored, order)
    if judgement.left and (len(ranked) <= wanted or order == "recent"):
        return Results(_ranked(judgement.scored + judgement.tail(read), order), 0, judgement.gathered)
    return Results(ranked, _others(read, judgement, ranked), judgement.gathered)


def _others(read: Reader, judgement: Judgement, ranked: Iterable[Ranked]) -> int:
    """How many results there are behind these: each message is one, however often it is kept, and each document with
    some of these passages.
    Of very many passages the first tell what share of all that is."""
    some = judgement.next_ones
    if not some:
        return 0
    texts = found_passages.count_by_text_document(read, some)
    shown = {one.best.document_id for one in ranked}
    unique = [id for id in found_passages.recorded_message_ids(read, some) if is_unique(id)]
    copies = len(unique) - len(set(unique) - {one.best.native_id for one in ranked})
    found = len(some) - sum(texts.values()) + len(texts.keys() - shown) - copies
    return round(found * judgement.left / len(some))


def _ranked(found: list[Scored], order: Order) -> list[Ranked]:
    best: dict[Hashable, Scored] = {}
    inside: dict[Hashable, Scored] = {}
    for scored in found:
        one = scored.at
        key = key_of(one)
        if (before := best.get(key)) is None or _is_better(scored, before):
            best[key] = scored
        if one.position and scored.has_any and ((before := inside.get(key)) is None or _is_better(scored, before)):
            inside[key] = scored
    top = max([one.score for one in best.values()], default=1.0)
    ranked = []
    for key, scored in best.items():
        one = scored.at
        # What the title says stands in the text too, as a rule: there one can show it, and open it.
        shown = one if one.position else inside.get(key, scored).at
        ranked.append(Ranked(shown, round(scored.score / top, 9) or 1e-9, _modified_at(one), scored))
    if order == "recent":
        return _sorted(ranked, lambda one: (-one.modified_at, -one.score))
    return _sorted(ranked, lambda one: (-one.score, -one.modified_at))


def _is_better(one: Scored, other: Scored) -> bool:
    """Of passages that match equally well the first is shown, and of copies of one message the oldest."""
    mine, theirs = one.at, other.at
    return (one.score, -mine.position, -mine.passage_id) > (other.score, -theirs.position, -theirs.passage_id)


def _sorted(ranked: list[Ranked], key: Callable[[Ranked], tuple[float, float]]) -> list[Ranked]:
    """In order; where nothing else tells two apart their uris do, which are made only then."""
    found: list[Ranked] = []
    for _, alike in groupby(sorted(ranked, key=key), key=key):
        some = list(alike)
        found += sorted(some, key=lambda one: one.uri) if len(some) > 1 else some
    return found


def _modified_at(one: Candidate) -> int:
    if SOURCES[one.source].is_said and one.position:
        return one.created_at or 0
    return one.modified_at


# Who may look where


def own_slices(caller: Caller, slices: Iterable[Scope]) -> list[Scope]:
    """The slices as this caller may see them: an agent sees no human-only messages, and of agents' sessions its own.
    An agent without a name sees no sessions."""
    if not caller.is_agent:
        return list(slices)
    found = []
    for given in slices:
        where = replace(given, without=(HUMAN_ONLY,), is_blind=True)
        if "sessions" not in where.sources:
            found.append(where)
            continue
        others = tuple(source for source in where.sources if source != "sessions")
        if others:
            found.append(replace(where, sources=others))
        if caller.acting_agent:
            scopes = (*where.scopes, agent_scope(caller.acting_agent))
            found.append(replace(where, sources=("sessions",), scopes=scopes))
    return found


def may_open(caller: Caller, at: Standing) -> bool:
    """An agent does not open another one's sessions."""
    return not (caller.is_agent and at.source == "sessions" and at.agent_id != caller.acting_agent)


def is_hidden(caller: Caller, at: Standing) -> bool:
    """Is this message for humans only, and the caller none?"""
    return at.source == "bus" and hides(caller, at.marks)


# Dressing a page


def query_of(terms: Sequence[Phrase]) -> Query:
    return terms[0] if len(terms) == 1 else AnyOf(tuple(terms))


def standings_of(
    read: Reader, page: Sequence[Ranked], terms: Sequence[Phrase], gathered: Gathered | None
) -> dict[int, Standing]:
    """By the passage of each result: where it is shown and opened. Where keywords or tags match best, that is the text
    that matches too, if it was searched."""
    found = found_passages.by_ids(read, [one.best.passage_id for one in page])
    for id, at in found.items():
        if at.field in recall.LABELS:
            text = recall.best_in(read, at.source, at.document_id, terms)
            if text is not None and (gathered is None or gathered.mask_of(text)):
                found[id] = found_passages.by_id(read, text) or at
    return found


def dressed(
    read: Reader,
    caller: Caller,
    page: Sequence[Ranked],
    terms: Sequence[Phrase],
    length: int,
    gathered: Gathered | None = None,
) -> list[ResultItem]:
    """Results as they are shown: with a snippet, the place of the match, a link, and what belongs to them."""
    standings = standings_of(read, page, terms, gathered)
    beside = following(read, standings.values(), terms, gathered, lambda at: is_hidden(caller, at))
    titles = [one.best.document_id for one in page if one.best.position == 0]
    beginnings = found_passages.first_passages(read, titles) if titles else {}
    query = query_of(terms)
    items = []
    for one in page:
        at = standings.get(one.best.passage_id)
        if at is None:
            continue
        source = SOURCES[at.source]
        if is_hidden(caller, at):
            snippet, place = HIDDEN, None
        else:
            first = beginnings.get(at.document_id) if at.position == 0 else None
            hidden = first is not None and at.source == "bus" and hides(caller, first.data)
            snippet, place = snippet_of(at, query, length, None if first is None or hidden else first.text)
        loc = source.loc(at, place[0] if place else 0)
        link = link_to(read.settings.base_url, at.source, source.id_of(at.document, at.native_id, at.position))
        item = source.result(at, score=one.score, snippet=snippet, loc=loc, link=link)
        if company := beside.get(at.passage_id):
            item = _in_company(item, company, query, length)
        items.append(item)
    return items


def _in_company(item: ResultItem, company: Following, query: Query, length: int) -> SaidItem:
    """An answer is shown from its beginning, what took it back around what it speaks of."""
    answer, later = company
    return SaidItem(
        **{field.name: getattr(item, field.name) for field in fields(item)},
        answer=_beside(answer, beginning(answer.text, length=length)) if answer else None,
        later=_beside(later, passage_snippet(later.text, query, length=length, stemmed=True)) if later else None,
    )


def _beside(at: Standing, snippet: str) -> Beside:
    source = SOURCES[at.source]
    return Beside(
        id=source.id_of(at.document, at.native_id, at.position),
        uri=source.uri_of(at.document, at.native_id, at.position),
        loc=source.loc(at, 0),
        sender=source.sender_of(at),
        created_at=at.created_at,
        snippet=snippet,
    )


def hides(caller: Caller, data: Mapping[str, Any]) -> bool:
    """Does a message of the bus with this data hide its text from the caller?"""
    return caller.is_agent and is_human_only(data.get("metadata"))


def snippet_of(at: Standing, query: Query, length: int, first: str | None = None) -> tuple[str, tuple[int, int] | None]:
    """The part around the match, and where in the text that is. Where only the title matches: how it begins, after the
    title if it was said."""
    if at.position:
        return snippet_and_place(at.text, query, length=length)
    if SOURCES[at.source].is_said:
        text = f"{at.title or ''}: {first}" if first else at.title or ""
    else:
        text = first or at.title or ""
    return passage_snippet(text, query, length=length, stemmed=True), match_place(at.text, query)


def link_to(base_url: str, source: str, id: str | int) -> str:
    """An absolute link that opens the thing in the console."""
    return f"{base_url}/#/open/{source}/{quote(str(id), safe='')}"


# Slices


def between(since: datetime | None, until: datetime | None) -> tuple[int, int]:
    return micros(since) if since else -(2**62), micros(until) if until else 2**62
