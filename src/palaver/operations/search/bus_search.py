"""Searching the bus."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated

from palaver.errors import Refused
from palaver.model import visibility
from palaver.model.answers import OmitsDefaults
from palaver.model.people import Caller
from palaver.model.requests import Id, Query, Request, clamp
from palaver.model.times import instant
from palaver.operations.operation import Route, Tool, operation
from palaver.search import hints
from palaver.search.match import match_messages
from palaver.search.snippet import as_html, as_text, excerpt
from palaver.store.bus import threads
from palaver.store.engines.database import Scope, SearchReader
from palaver.store.library.documents import HUMAN_ONLY, document_scope
from palaver.text import query as queries

SNIPPET_TOKENS = 20


class SearchMessages(Request):
    query: Query
    """Words (all are required), "a phrase", prefix*, AND, OR, NOT, NEAR(a b, 5), parentheses."""
    thread_id: Id | None = None
    """Only in this thread."""
    limit: Annotated[int, clamp(1, 200)] = 50
    """Maximum number of results, up to 200."""
    as_you_type: bool = False
    """The last word may be unfinished: words that begin with its letters (at least two) are found too."""


@dataclass(slots=True)  # not frozen: that would take four times as long to make, fifty times a search
class Hit:
    message_id: str
    thread_id: str
    thread_topic: str
    author: str
    seq: int
    created_at: datetime
    snippet: str


@dataclass(frozen=True)
class BusHits(OmitsDefaults):
    """`total` counts the returned results; `has_more` says whether there are others. `hint` is advice about the
    query."""

    omit_if_default = ("hint",)

    results: list[Hit]
    total: int
    query: str
    has_more: bool
    hint: str | None = None


def _plain(answer: BusHits) -> BusHits:
    return _marked(answer, as_text)


def _html(answer: BusHits) -> BusHits:
    return _marked(answer, as_html)


def _marked(answer: BusHits, mark: Callable[[str], str]) -> BusHits:
    for hit in answer.results:
        hit.snippet = mark(hit.snippet)
    return answer


def _nothing(request: SearchMessages, hint: str) -> BusHits:
    return BusHits([], 0, request.query, False, hint)


@operation(
    Tool(
        "msg_search",
        brings_words=True,
        show=_plain,
        hidden=("as_you_type",),
        if_late=lambda request: _nothing(request, "The search took too long. Add a word to narrow the search."),
    ),
    Route(
        "GET",
        "/api/search",
        show=_html,
        also={"q": "query"},
        must_have={"q": "Query parameter 'q' must not be empty"},
    ),
)
def search_messages(read: SearchReader, caller: Caller, request: SearchMessages) -> BusHits:
    """Search messages by keywords, best match first, with a snippet around each match."""
    if not request.query.strip():
        raise Refused("query must not be empty")
    try:
        wanted = queries.expression(request.query)
    except queries.Malformed as problem:
        return _nothing(request, problem.hint)
    if isinstance(wanted, queries.Nothing):
        return _nothing(request, hints.NO_WORD)
    thread = threads.find(read, request.thread_id) if request.thread_id else None
    if request.thread_id and thread is None:
        return _nothing(request, "There is no such thread.")
    is_blind = not visibility.finds_hidden(caller, needs_token=read.settings.needs_token)
    scope = Scope(
        ("bus",),
        titles=False,
        scopes=(document_scope(thread.document_id),) if thread else (),
        without=(HUMAN_ONLY,) if is_blind else (),
        is_blind=is_blind,
        is_typed=request.as_you_type,
    )
    found, page = match_messages(read, wanted, scope, request.limit)
    begun = queries.unfinished(wanted) if request.as_you_type and request.query[-1].isalnum() else wanted
    if begun != wanted and len(found) < request.limit:  # messages with the whole word come first
        others, page = match_messages(read, begun, scope, request.limit + len(found))
        known = {one.message_id for one in found}
        found += [one for one in others if one.message_id not in known]
        page = replace(page, has_more=page.has_more or len(found) > request.limit)
        found, wanted = found[: request.limit], begun
    if not found:
        advice = "Try fewer words, another spelling, or word* for other endings."
        return _nothing(request, hints.nothing_found("No message matches", ["thread_id"] if thread else [], advice))

    def cut(text: str) -> str:
        return excerpt(text, wanted, length=SNIPPET_TOKENS)

    hits = [
        Hit(
            one.message_id,
            one.thread_id,
            one.thread_topic,
            one.author,
            one.seq,
            instant(one.created_at),
            visibility.HIDDEN if visibility.hides(caller, one.metadata) else cut(one.text),
        )
        for one in found
    ]
    capped = hints.CAPPED.format("messages") if page.capped else None
    return BusHits(hits, len(hits), request.query, page.has_more, capped)
