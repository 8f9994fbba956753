"""A page of search results: limits and offsets, results shown before, and why there are none."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from itertools import accumulate, islice
from typing import NamedTuple, TypeVar

from palaver.errors import UNKNOWN_AGENT
from palaver.model.events import encode
from palaver.model.search import Capped, Counts, LeanItem, NamedTime, ResultItem, SearchResponse
from palaver.model.times import instant, iso, micros
from palaver.search import hints, results, search
from palaver.search.ask import Ask
from palaver.search.present import SNIPPET, lean_items, present
from palaver.search.ranking.confidence import UNLIKELY
from palaver.search.ranking.score import ScoredPassage
from palaver.search.results import Result, Results, is_weak, one_of_each_conversation
from palaver.search.scope import readable_scopes
from palaver.search.sources import SOURCES
from palaver.store.engines.database import Reader, Scope
from palaver.store.search import found_passages
from palaver.store.sessions import sharing
from palaver.text.dates import EARLIEST, LATEST, TimeRange
from palaver.text.dates.periods import add_months
from palaver.text.token_estimate import estimate_tokens

LEAN_PAGE: Mapping[str, int] = {"limit": 8, "max_tokens": 1_000}
"""The size of a page in compact answers. The tokens are no limit if the call has a limit of its own."""
LEAN_SNIPPETS = (160, 110, 70)
"""Characters of their snippets: the first number with which all results of the page fit."""
AROUND_PAGE, AROUND_ITEM, AROUND_FIELD = 60, 31, 3
"""Tokens of a compact answer without its results, of a result without its texts, and of a field that it may have."""
MOST_UNASKED = 100
"""Matches in other projects that are counted."""
MOST_COUNTED = 20_000
"""Passages that are counted by source and month at most."""
MOST_LISTED = 1_000
"""Passages that are listed at most."""
Item = TypeVar("Item", ResultItem, LeanItem, ResultItem | LeanItem)


class Page(NamedTuple):
    """A page of results, and the names under which a search session remembers them."""

    response: SearchResponse
    names: list[str]


def find_page(read: Reader, ask: Ask) -> Page:
    """Search, leave out results that were shown before, and present one page. A query that has only operators lists the
    newest passages."""
    request, is_lean = ask.page, ask.caller.answers == "compact"
    is_default = is_lean and "limit" not in request.model_fields_set
    limit = LEAN_PAGE["limit"] if is_default else request.limit
    if ask.is_list:
        found = list_newest(read, ask)
    else:
        found = search(read, ask.question, ask.readable, ask.order, request.offset + limit + len(ask.seen))
    ranked, more, weak = found.ranked, found.more, 0
    if is_lean and not ask.is_list:
        ranked = one_of_each_conversation(ranked)
        if is_default and ask.order == "relevance":
            strong = [one for one in ranked if not is_weak(one)]
            ranked, more, weak = strong, 0, len(ranked) - len(strong) + more
    fresh = [one for one in ranked if one.name not in ask.seen] if ask.seen else ranked
    is_again = bool(ranked) and not fresh and not more
    if is_again:
        fresh = ranked
    page = fresh[request.offset : request.offset + limit]

    def show(length: int) -> Sequence[ResultItem | LeanItem]:
        items = present(read, ask, found, page, length) if page else []
        items = [replace(item, seen=True) for item in items] if is_again else items
        return lean_items(read, ask.caller, items) if is_lean else items

    given = request.snippet_length or ask.caller.config.get("snippet_length")
    lengths = (given,) if given else LEAN_SNIPPETS if is_lean else (SNIPPET,)
    budget = request.max_tokens or (LEAN_PAGE["max_tokens"] if is_default else None)
    items = fit(show, lengths, budget)
    page = page[: len(items)] if budget else page
    total, after = len(fresh) + more, request.offset + len(items)
    has_more = bool(items) and after < total
    response = SearchResponse(
        results=list(items),
        has_more=has_more,
        next_offset=after if has_more else None,
        total_estimated=total,
        suppressed=len(ranked) - len(fresh),
        matched=found.matched,
        left_out=found.left_out,
        capped=found.capped,
        confidence=found.confidence,
        explanations=_explanations(page) if ask.explain else None,
        time=[named_time(one) for one in ask.question.times] if ask.explain else None,
        operators=dict(ask.operators.values) or None,
        read_as=dict(ask.question.read_as) or None,
        counts=count_results(read, found, ask.question.zone) if ask.counts else None,
    )
    advice = [hint_for(read, ask, response, is_again=is_again)]
    if weak:
        one_or_more = "result is" if weak == 1 else "results are"
        advice.append(f"{weak:,} far weaker {one_or_more} left out; set limit to see more.")
    hint = " ".join(filter(None, advice)) or None
    return Page(replace(response, hint=hint), [one.name for one in page])


def list_newest(read: Reader, ask: Ask) -> Results:
    """All passages of the scopes, newest first. A conversation is listed by its messages, not by its title."""
    parts = [part for one in ask.readable for part in _without_titles(one)]
    ids = list(dict.fromkeys(id for part in parts for id in found_passages.newest(read, part, MOST_LISTED)))
    listed = [ScoredPassage(at, 1.0, has_all=True, has_any=True) for at in found_passages.candidates(read, ids)]
    capped = Capped(len(listed), []) if len(listed) >= MOST_LISTED else None
    return Results(ask.question, results.group(listed, "recent"), listed=tuple(ids), listed_capped=capped)


def _without_titles(scope: Scope) -> Iterator[Scope]:
    talk = tuple(source for source in scope.sources if SOURCES[source].is_conversation)
    texts = tuple(source for source in scope.sources if source not in talk)
    if talk and scope.bodies:
        yield replace(scope, sources=talk, titles=False)
    if texts:
        yield replace(scope, sources=texts)


def _explanations(page: Iterable[Result]) -> dict[str, dict[str, float]]:
    """The features of each result that are not 0, by its URI."""
    return {
        one.uri: {name: round(value, 3) for name, value in one.why.features._asdict().items() if value}
        for one in page
        if one.why.features
    }


def hint_for(read: Reader, ask: Ask, page: SearchResponse, *, is_again: bool) -> str | None:
    """Why there are no results, or why some are missing."""
    question, caller = ask.question, ask.caller
    if not question.terms and (not page.operators or question.text.strip()):
        return hints.NO_WORD
    if ask.sources == ("sessions",) and caller.is_agent and caller.acting_agent is None:
        return hints.NOT_RECORDED if caller.session.slug else UNKNOWN_AGENT
    if not page.results and ask.page.offset and page.total_estimated:
        return hints.no_more(page.total_estimated)
    if not page.results and not page.suppressed:
        what = "Nothing has any of these words" if question.terms else "Nothing is there"
        unasked = count_unasked(read, ask) if page.matched == "nothing" else ""
        return " ".join(part for part in (hints.nothing_found(what, ask.filters), unasked) if part)
    if is_again:
        return "All results were shown earlier in this session. They are shown again."
    if page.suppressed:
        count = f"{page.suppressed} result{'' if page.suppressed == 1 else 's'}"
        return f"{count} shown earlier in this session left out. To see all results, search with dedupe: false."
    return hints.NOT_HERE if page.confidence is not None and page.confidence < UNLIKELY else None


def count_unasked(read: Reader, ask: Ask) -> str:
    """How many sessions match in other projects, and how many are out of reach, as sentences. What is out of reach is
    counted whatever its words: a number for each query would tell which words were said there."""
    of_sessions = [replace(one, sources=("sessions",)) for one in ask.scopes if "sessions" in one.sources]
    reach = sharing.reach_of(read, ask.caller)
    if not of_sessions or not ask.question.terms:
        return ""
    found = []
    if ask.is_project_first and reach.project:
        everywhere = readable_scopes(read, ask.caller, of_sessions)
        wider = search(read, ask.question, everywhere, "relevance", MOST_UNASKED).ranked
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


def count_results(read: Reader, results: Results, zone: tzinfo | None) -> Counts:
    """Count the results of a search, as far as they were collected. A month begins where the asker is."""
    ids: Iterable[int] = results.listed
    total = len(results.listed)
    if results.hits:
        # Passages without any word of the question are only similar to it.
        groups = [some for terms, some in results.hits.by_terms.items() if terms]
        ids, total = (id for some in groups for id in some), sum(map(len, groups))
    seen, sources, times = set(), Counter[str](), list[int]()
    for one in found_passages.candidates(read, list(islice(ids, MOST_COUNTED))):
        key = SOURCES[one.source].key_of(one)
        if key not in seen:
            seen.add(key)
            sources[one.source] += 1
            if one.created_at is not None:
                times.append(one.created_at)
    return Counts(
        sources={name: sources[name] for name in sorted(sources, key=lambda name: (-sources[name], name))},
        months=_by_month(times, zone),
        is_capped=results.capped is not None or total > MOST_COUNTED,
    )


def _by_month(times: list[int], zone: tzinfo | None) -> dict[str, int]:
    """The number of times in each month that has any, the newest month first."""
    if not times:
        return {}

    def local(at: int) -> datetime:
        return instant(at).astimezone(zone).replace(tzinfo=None)

    month = local(min(times)).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    names, begins = list[str](), list[int]()
    last = local(max(times))
    while month <= last:
        names.append(f"{month:%Y-%m}")
        begins.append(micros((month.replace(tzinfo=zone) if zone else month).astimezone(UTC)))
        month = add_months(month, 1)
    counts = Counter(bisect_right(begins, at) - 1 for at in times)
    return {names[number]: counts[number] for number in sorted(counts, reverse=True)}
