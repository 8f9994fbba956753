"""Open a document: a snippet, the passage that matches, that passage with its neighbours, or all of it.

Every source works the same: locate the anchor passage, select its neighbours, cut to the budget.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from palaver.errors import NotFound, Refused
from palaver.model import visibility
from palaver.model.people import Caller
from palaver.model.requests import Metadata, Query, Request, clamp, storable
from palaver.model.search import GetResponse, Loc
from palaver.search.hits import best_passage, chunk_instead
from palaver.search.open import conversation, text
from palaver.search.open.conversation import FARTHEST
from palaver.search.open.excerpt import Opening, Plan, characters
from palaver.search.present import SNIPPET
from palaver.search.question import terms_of
from palaver.search.sources import SOURCES, ParsedUri
from palaver.store.engines.database import Reader
from palaver.store.library.documents import HUMAN_ONLY
from palaver.store.search import found_passages, search_sessions
from palaver.store.sessions import sharing
from palaver.text.passages import OVERLAP, SIZE

Mode = Literal["snippet", "chunk", "chunk_with_siblings", "full", "auto"]

MAX_TOKENS = 5_000
PER_TOKEN = 4.0
WINDOW = 2
"""Neighbours on each side, if neither a budget nor a window is given."""
DOCUMENT_KEYS = frozenset({"media_id", "note_id", "conversation_id", "thread_id", "character_id", "prompt_id"})


def number(low: float, high: float) -> BeforeValidator:
    def clamped(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
            raise ValueError("must be a number")
        return float(min(max(value, low), high))

    return BeforeValidator(clamped)


def _storable_loc(loc: dict[str, Any]) -> dict[str, Any]:
    for value in loc.values():
        if isinstance(value, str):
            storable(value)
    return loc


class RetrievalOptions(Request):
    mode: Mode | None = None
    """snippet, chunk, chunk_with_siblings, full, or auto: chunk_with_siblings where there is a budget, else snippet.
    full gives at most 1,000,000 characters; next_cursor gets the rest."""
    snippet_length: Annotated[int, clamp(50, 1000)] | None = None
    """Characters of a snippet, 50 to 1000."""
    max_tokens: Annotated[int, clamp(0, 200_000)] | None = None
    """The budget: the content is never longer."""
    chars_per_token: Annotated[float, number(1, 20)] | None = None
    """How many characters count as a token, 1 to 20."""
    chunk_size_tokens: Annotated[int, clamp(1, 200_000)] | None = None
    """Cut the text into chunks of this size, unless chunks are stored: see prefer_prechunked."""
    chunk_overlap_tokens: Annotated[int, clamp(0, 100_000)] | None = None
    """How much such chunks overlap."""
    sibling_window: Annotated[int, clamp(0, 10)] | None = None
    """How many chunks on each side to consider, 0 to 10; 0 is the anchor alone."""
    prefer_prechunked: bool | None = None
    """Use the chunks a media item came with, if it has some, whatever chunk_size_tokens says. Default: true."""
    loc: Annotated[Metadata, Field(max_length=20), AfterValidator(_storable_loc)] | None = None
    """Where to open it: the loc of a search result."""
    query: Query | None = None
    """Open it where this is said."""
    cursor: Annotated[str, Field(max_length=200)] | None = None
    """next_cursor of the page before."""


def _plan_of(read: Reader, caller: Caller, loc: Loc | None, options: RetrievalOptions | None, default: Mode) -> Plan:
    """Fill in what the request leaves out: from the client's preferences, else from the defaults. `loc` is the place of
    a short URI. It counts unless the options name a place."""
    options = options or RetrievalOptions()
    names_place = options.loc or options.query or options.cursor
    config = caller.config
    per_token = options.chars_per_token or config.get("chars_per_token") or PER_TOKEN
    tokens = options.max_tokens if options.max_tokens is not None else config.get("max_tokens")
    window = options.sibling_window if options.sibling_window is not None else config.get("sibling_window")
    mode = options.mode or default
    if mode == "auto":
        mode = "chunk_with_siblings" if tokens is not None else "snippet"
    size, overlap = options.chunk_size_tokens, options.chunk_overlap_tokens
    chunk = None
    prefers_given = options.prefer_prechunked is not False
    if size is not None or not prefers_given:
        length = characters(size, per_token) if size is not None else SIZE
        chunk = max(1, length), characters(overlap, per_token) if overlap is not None else min(OVERLAP, length // 8)
    session = search_sessions.find(read, caller.search_session) if caller.search_session else None
    return Plan(
        mode=mode,
        snippet_length=options.snippet_length or config.get("snippet_length") or SNIPPET,
        budget=characters(MAX_TOKENS if tokens is None else tokens, per_token),
        has_budget=tokens is not None,
        reach=window if window is not None else FARTHEST if tokens is not None else WINDOW,
        chunk=chunk,
        prefers_given=prefers_given,
        loc=options.loc if names_place or loc is None else loc,
        terms=terms_of(options.query) if options.query else (),
        recent=terms_of(session.query) if session and session.query else (),
        cursor=options.cursor,
    )


def open_document(
    read: Reader,
    caller: Caller,
    named: ParsedUri,
    options: RetrievalOptions | None = None,
    *,
    default: Mode = "snippet",
    page: tuple[int, int] | None = None,
) -> GetResponse:
    """Open a document or a passage by its id, or a page of the messages of a conversation, by its number and size."""
    source, id, loc = named
    plan = _plan_of(read, caller, loc, options, default)
    opening, passage_id = _resolve(read, caller, source, id, plan)
    if page:
        return conversation.open_page(opening, *page)
    at, loc = opening.at, plan.loc
    for key in DOCUMENT_KEYS & set(loc or ()):
        if str((loc or {})[key]) != at.document:
            raise Refused(f"retrieval.loc.{key}: this place is in another item. Use the loc that came with this one.")
    if passage_id is None and loc is None and plan.mode != "full":
        without = None if visibility.sees_everything(caller) else (HUMAN_ONLY,)
        for terms in (plan.terms, plan.recent):
            if terms and not passage_id:
                passage_id = best_passage(read, source, at.document_id, terms, without)
    found = found_passages.by_id(read, passage_id) if passage_id else None
    found = chunk_instead(read, found, plan.terms or plan.recent) if found else None
    if SOURCES[source].is_conversation:
        return conversation.open_full(opening) if plan.mode == "full" else conversation.open_around(opening, found)
    return text.open_full(opening) if plan.mode == "full" else text.open_around(opening, found)


def _resolve(read: Reader, caller: Caller, source: str, id: str, plan: Plan) -> tuple[Opening, int | None]:
    named = found_passages.resolve(read, source, id)
    for found in [named] if named else found_passages.sessions_with_id(read, id) if source == "sessions" else []:
        at = found_passages.document(read, found.document_id)
        if sharing.reach_of(read, caller).may_open(at):
            return Opening(read, caller, at, plan), found.passage_id
    raise NotFound("item", f"{source}/{id}", "Search to see what is there.")
