"""Evidence for an answer, within a budget."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from palaver.model.people import Caller
from palaver.model.requests import Query, clamp
from palaver.model.sources import ALL_SOURCES, SourceName
from palaver.operations.archive.external_database import import_if_changed
from palaver.operations.operation import Command, Route, Tool, operation
from palaver.search import hints
from palaver.search.ask import HIDDEN, Asking
from palaver.search.context import Context, evidence_for
from palaver.search.open import PER_TOKEN
from palaver.search.page import count_unasked
from palaver.store.engines.database import Scope, SearchReader


class AnswerContext(Asking):
    has_operators = True

    query: Query
    """The question to answer."""
    max_tokens: Annotated[int, clamp(16, 200_000)] = 2000
    """Maximum tokens of the whole answer."""
    sources: Annotated[list[SourceName], Field(min_length=1, max_length=50)] | None = None
    """Only these sources. Default: all."""


@operation(
    Tool("knowledge.answer_context", brings_words=True, toolset="knowledge", hidden=HIDDEN),
    Route("GET", "/api/knowledge/context", also={"q": "query"}),
    Command("context", rest="query", text="text"),
    before=import_if_changed,
)
def answer_context(read: SearchReader, caller: Caller, request: AnswerContext) -> Context:
    """Get the best evidence for a question from all sources, as one text within a token budget. Each piece names its
    source, author and time. The text is between two lines with the same random mark."""
    sources = tuple(dict.fromkeys(request.sources)) if request.sources is not None else ALL_SOURCES
    if not read.settings.sessions_index:
        sources = tuple(name for name in sources if name != "sessions")
    ask = request.ask(read, caller, request.query, [Scope(sources)] if sources else [])
    budget = int(request.max_tokens * (caller.config.get("chars_per_token") or PER_TOKEN))
    context = evidence_for(read, ask, budget)
    if context.hits:
        return context
    filters = [*(["sources"] if request.sources is not None else []), *ask.operators.names]
    why = hints.nothing_found("Nothing has any of these words", filters) if ask.question.terms else hints.NO_WORD
    unasked = count_unasked(read, ask)
    explained = replace(context, hint=" ".join(part for part in (why, unasked) if part))
    return explained if explained.length <= budget else context
