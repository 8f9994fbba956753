"""A page of search results: limits and offsets, results shown before, hints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from palaver.model.people import Caller
from palaver.model.requests import Query, clamp
from palaver.model.search import Capped, Counts, NamedTime, Order, ResultItem, SearchResponse
from palaver.model.times import iso
from palaver.operations.identity import unknown_agent
from palaver.operations.search.asking import Asking
from palaver.search import hints, search
from palaver.search.counts import count_results
from palaver.search.operators.narrow import Narrowing
from palaver.search.operators.newest import list_newest
from palaver.search.present import SNIPPET, present
from palaver.search.question import Question
from palaver.search.results import Matched
from palaver.search.scope import readable_scopes
from palaver.store.engines.database import Reader, Scope
from palaver.store.sessions import sharing
from palaver.text.dates import EARLIEST, LATEST, TimeRange

MOST_UNASKED = 100
"""Matches in other projects that are counted."""


class Paged(Asking):
    no_filters: ClassVar[frozenset[str]] = frozenset(
        {"query", "limit", "offset", "snippet_length", "order_by", "as_of", "time_zone"}
    )
    """Arguments that leave no results out."""

    limit: Annotated[int, clamp(1, 100)] = 10
    """1 to 100."""
    offset: Annotated[int, clamp(0, 2**31)] = 0
    """The previous next_offset."""
    snippet_length: Annotated[int, clamp(50, 1000)] | None = None
    """Characters, 50 to 1000."""

    @property
    def names_project(self) -> bool:
        """Whether the request says in which project to look. Otherwise sessions of the caller's project are found."""
        return getattr(self, "project", None) is not None


class SearchText(Paged):
    query: Query
    """Keywords or a question."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page of results, before it becomes a response."""

    items: list[ResultItem]
    names: list[str]
    """The names under which a search session remembers the items."""
    is_again: bool
    """All results were shown before, so they are shown again."""
    total: int
    suppressed: int
    matched: Matched
    left_out: list[str] | None
    capped: Capped | None
    explanations: dict[str, dict[str, float]] | None
    time: list[NamedTime] | None
    operators: dict[str, list[str]] | None = None
    counts: Counts | None = None
    unasked: str = ""
    """If there are no results: how many sessions match in other projects, and how many are out of reach."""


def find_page(
    read: Reader,
    caller: Caller,
    question: Question,
    scopes: Sequence[Scope],
    order: Order,
    request: Paged,
    seen: frozenset[str] = frozenset(),
    *,
    narrowing: Narrowing | None = None,
    explain: bool = False,
    highlight: bool = False,
    counts: bool = False,
) -> Page:
    """Search, leave out results that were shown before, and present one page. A query that has only operators lists the
    newest passages."""
    wanted = request.offset + request.limit + len(seen)
    if narrowing and narrowing.understood:
        scopes = narrowing.scopes(read, caller, scopes)
    is_project_first = not (request.names_project or (narrowing and narrowing.projects))
    allowed = readable_scopes(read, caller, scopes, is_project_first=is_project_first)
    if narrowing and narrowing.understood and not narrowing.words.strip():
        results = list_newest(read, question, allowed)
    else:
        results = search(read, question, allowed, order, wanted)
    fresh = [one for one in results.ranked if one.name not in seen] if seen else results.ranked
    is_again = bool(results.ranked) and not fresh and not results.more
    if is_again:
        fresh = results.ranked
    page = fresh[request.offset : request.offset + request.limit]
    length = request.snippet_length or caller.config.get("snippet_length") or SNIPPET
    items = present(read, caller, results, page, length, highlight=highlight) if page else []
    explanations = None
    if explain:
        explanations = {
            one.uri: {name: round(value, 3) for name, value in one.why.features._asdict().items() if value}
            for one in page
            if one.why.features
        }
    return Page(
        [replace(item, seen=True) for item in items] if is_again else items,
        [one.name for one in page],
        is_again,
        total=len(fresh) + results.more,
        suppressed=len(results.ranked) - len(fresh),
        matched=results.matched,
        left_out=results.left_out,
        capped=results.capped,
        explanations=explanations,
        time=[named_time(one) for one in question.times] if explain else None,
        operators=(narrowing.understood or None) if narrowing else None,
        counts=count_results(read, results, question.zone) if counts else None,
        unasked="" if results.ranked else count_unasked(read, caller, question, scopes, is_project_first),
    )


def count_unasked(
    read: Reader, caller: Caller, question: Question, scopes: Sequence[Scope], is_project_first: bool
) -> str:
    """How many sessions match in other projects, and how many are out of reach, as sentences. What is out of reach is
    counted whatever its words: a number for each query would tell which words were said there."""
    of_sessions = [replace(one, sources=("sessions",)) for one in scopes if "sessions" in one.sources]
    reach = sharing.reach_of(read, caller)
    if not of_sessions or not question.terms:
        return ""
    found = []
    if is_project_first and reach.project:
        wider = search(read, question, readable_scopes(read, caller, of_sessions), "relevance", MOST_UNASKED).ranked
        if count := len({one.best.document_id for one in wider if one.why.has_any}):
            found.append(hints.in_other_projects(count))
    if not reach.is_everything:
        groups = sharing.groups_of(read)
        if count := sum(one.sessions for one in groups if not reach.includes(one.agent_id, one.project)):
            found.append(hints.out_of_reach(count, sharing.level_of(read)))
    return " ".join(found)


def named_time(one: TimeRange) -> NamedTime:
    """A period of the question, as it is sent. A side without a bound is null."""
    begin, end = None if one.begin == EARLIEST else iso(one.begin), None if one.end == LATEST else iso(one.end)
    return {"text": one.text, "from": begin, "to": end}


def response_of(page: Page, request: Paged, **more: Any) -> SearchResponse:
    after = request.offset + len(page.items)
    has_more = bool(page.items) and after < page.total
    return SearchResponse(
        results=list(page.items),
        has_more=has_more,
        next_offset=after if has_more else None,
        total_estimated=page.total,
        suppressed=page.suppressed,
        matched=page.matched,
        left_out=page.left_out,
        capped=page.capped,
        explanations=page.explanations,
        time=page.time,
        operators=page.operators,
        counts=page.counts,
        **more,
    )


def hint_for(caller: Caller, question: Question, page: Page, request: Paged, sources: tuple[str, ...]) -> str | None:
    """Why there are no results, or why some are missing."""
    if not question.terms and (not page.operators or question.text.strip()):
        return hints.NO_WORD
    if sources == ("sessions",) and caller.is_agent and caller.acting_agent is None:
        return hints.NOT_RECORDED if caller.session.slug else unknown_agent().message
    if not page.items and request.offset and page.total:
        return hints.no_more(page.total)
    if not page.items and not page.suppressed:
        filters = hints.filters_of(request, request.no_filters) + [f"{name}:" for name in page.operators or ()]
        what = "Nothing has any of these words" if question.terms else "Nothing is there"
        return " ".join(part for part in (hints.nothing_found(what, filters), page.unasked) if part)
    if page.is_again:
        return "All results were shown earlier in this session. They are shown again, marked seen."
    if page.suppressed:
        count = f"{page.suppressed} result{'' if page.suppressed == 1 else 's'}"
        return f"{count} shown earlier in this session left out. To see all results, search with dedupe: false."
    return None
