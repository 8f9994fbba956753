"""A page of search results: limits and offsets, results shown before, hints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Annotated, Any, ClassVar, TypeVar

from palaver.model.events import encode
from palaver.model.people import Caller
from palaver.model.requests import Query, clamp
from palaver.model.search import Capped, Counts, LeanItem, NamedTime, Order, ResultItem, SearchResponse
from palaver.model.times import iso
from palaver.operations.identity import unknown_agent
from palaver.operations.search.asking import Asking
from palaver.search import hints, search
from palaver.search.counts import count_results
from palaver.search.operators.narrow import Narrowing
from palaver.search.operators.newest import list_newest
from palaver.search.present import SNIPPET, lean_items, present
from palaver.search.question import Question
from palaver.search.results import Matched, is_weak, one_of_each_conversation
from palaver.search.scope import readable_scopes
from palaver.store.engines.database import Reader, Scope
from palaver.store.sessions import sharing
from palaver.text.dates import EARLIEST, LATEST, TimeRange
from palaver.text.token_estimate import estimate_tokens

LEAN_PAGE: Mapping[str, int] = {"limit": 8, "max_tokens": 1_000}
"""The size of a page in compact answers. The tokens are no limit if the call has a limit of its own."""
LEAN_SNIPPETS = (160, 110, 70)
"""Characters of their snippets: the first number with which all results of the page fit."""
Item = TypeVar("Item", ResultItem, LeanItem, ResultItem | LeanItem)
AROUND_PAGE, AROUND_ITEM, AROUND_FIELD = 60, 31, 3
"""Tokens of a compact answer without its results, of a result without its texts, and of a field that it may have."""

MOST_UNASKED = 100
"""Matches in other projects that are counted."""


class Paged(Asking):
    no_filters: ClassVar[frozenset[str]] = frozenset(
        {"query", "limit", "offset", "snippet_length", "max_tokens", "order_by", "as_of", "time_zone"}
    )
    """Arguments that leave no results out."""

    limit: Annotated[int, clamp(1, 100)] = 10
    """1 to 100."""
    offset: Annotated[int, clamp(0, 2**31)] = 0
    """The previous next_offset."""
    snippet_length: Annotated[int, clamp(50, 1000)] | None = None
    """Characters, 50 to 1000."""
    max_tokens: Annotated[int, clamp(200, 200_000)] | None = None
    """Size of a page."""

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

    items: Sequence[ResultItem | LeanItem]
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
    weak: int = 0
    """How many results were left out because they are far below the best."""


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
    is_lean = caller.answers == "compact"
    is_default = is_lean and "limit" not in request.model_fields_set
    limit = LEAN_PAGE["limit"] if is_default else request.limit
    wanted = request.offset + limit + len(seen)
    if narrowing and narrowing.understood:
        scopes = narrowing.scopes(read, caller, scopes)
    is_project_first = not (request.names_project or (narrowing and narrowing.projects))
    allowed = readable_scopes(read, caller, scopes, is_project_first=is_project_first)
    is_list = narrowing and narrowing.understood and not narrowing.words.strip()
    results = list_newest(read, question, allowed) if is_list else search(read, question, allowed, order, wanted)
    ranked, more, weak = results.ranked, results.more, 0
    if is_lean and not is_list:
        ranked = one_of_each_conversation(ranked)
        if is_default and order == "relevance":
            strong = [one for one in ranked if not is_weak(one)]
            ranked, more, weak = strong, 0, len(ranked) - len(strong) + more
    fresh = [one for one in ranked if one.name not in seen] if seen else ranked
    is_again = bool(ranked) and not fresh and not more
    if is_again:
        fresh = ranked
    page = fresh[request.offset : request.offset + limit]

    def show(length: int) -> Sequence[ResultItem | LeanItem]:
        found = present(read, caller, results, page, length, highlight=highlight) if page else []
        found = [replace(item, seen=True) for item in found] if is_again else found
        return lean_items(read, caller, found) if is_lean else found

    given = request.snippet_length or caller.config.get("snippet_length")
    lengths = (given,) if given else LEAN_SNIPPETS if is_lean else (SNIPPET,)
    budget = request.max_tokens or (LEAN_PAGE["max_tokens"] if is_default else None)
    items = fit(show, lengths, budget)
    page = page[: len(items)] if budget else page
    explanations = None
    if explain:
        explanations = {
            one.uri: {name: round(value, 3) for name, value in one.why.features._asdict().items() if value}
            for one in page
            if one.why.features
        }
    return Page(
        items,
        [one.name for one in page],
        is_again,
        total=len(fresh) + more,
        suppressed=len(ranked) - len(fresh),
        matched=results.matched,
        left_out=results.left_out,
        capped=results.capped,
        explanations=explanations,
        time=[named_time(one) for one in question.times] if explain else None,
        operators=(narrowing.understood or None) if narrowing else None,
        counts=count_results(read, results, question.zone) if counts else None,
        unasked="" if results.ranked else count_unasked(read, caller, question, scopes, is_project_first),
        weak=weak,
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


def fit(show: Callable[[int], Sequence[Item]], lengths: Iterable[int], max_tokens: int | None) -> Sequence[Item]:
    """The results, shown with snippets of the first length with which all fit the budget. If they never do, the first
    ones that fit, at least one."""
    fitting: Sequence[Item] = []
    for length in lengths:
        items = fitting = show(length)
        if max_tokens is not None:
            used = accumulate(map(_tokens_of, items), initial=AROUND_PAGE)
            fitting = items[: max(1, sum(tokens <= max_tokens for tokens in used) - 1)]
        if len(fitting) == len(items):
            break
    return fitting


def _tokens_of(item: ResultItem | LeanItem) -> int:
    if not isinstance(item, LeanItem):
        return estimate_tokens(encode(item).decode())
    more = [text for text in (item.author, item.project) if text]
    texts = sum(map(estimate_tokens, (item.title or "", item.snippet or "", *more)))
    # An estimate of ids is a fifth too high.
    return AROUND_ITEM + AROUND_FIELD * len(more) + texts + estimate_tokens(item.uri) * 4 // 5


def named_time(one: TimeRange) -> NamedTime:
    """A period of the question, as it is sent. A side without a bound is null."""
    begin, end = None if one.begin == EARLIEST else iso(one.begin), None if one.end == LATEST else iso(one.end)
    return {"text": one.text, "from": begin, "to": end}


def response_of(page: Page, request: Paged, *, hint: str | None, **more: Any) -> SearchResponse:
    if page.weak:
        results = "result is" if page.weak == 1 else "results are"
        hint = f"{hint + ' ' if hint else ''}{page.weak:,} far weaker {results} left out; set limit to see more."
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
        hint=hint,
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
        return "All results were shown earlier in this session. They are shown again."
    if page.suppressed:
        count = f"{page.suppressed} result{'' if page.suppressed == 1 else 's'}"
        return f"{count} shown earlier in this session left out. To see all results, search with dedupe: false."
    return None
