"""Evidence for an answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from palaver.model.people import Caller
from palaver.model.requests import Ask, Query, clamp
from palaver.model.search import ALL_SOURCES, SourceName
from palaver.operations.archive.external_database import import_if_changed
from palaver.operations.operation import Command, Route, Tool, operation
from palaver.search import hints
from palaver.search import results as finding
from palaver.search.context import LOOKED_AT, PER_TOKEN, WITH_LATER, Context, packed, with_company
from palaver.search.followups import following
from palaver.search.question import taken_apart
from palaver.store.engines.database import Reader, Slice


class AnswerContext(Ask):
    query: Query
    """The question to be answered."""
    max_tokens: Annotated[int, clamp(16, 200_000)] = 2000
    """The whole answer is never longer."""
    sources: Annotated[list[SourceName], Field(min_length=1, max_length=50)] | None = None
    """Only from these. Default: all."""


@operation(
    Tool("knowledge.answer_context", brings_words=True, toolset="knowledge"),
    Route("GET", "/api/knowledge/context", also={"q": "query"}),
    Command("context", rest="query", text="text"),
    before=import_if_changed,
)
def answer_context(read: Reader, caller: Caller, ask: AnswerContext) -> Context:
    """The best evidence for a question, from everything that is kept here, as one text within a budget. Each piece says
    where it stands, who said it and when. All of it stands between two lines with the same random mark."""
    question = taken_apart(ask.query)
    wanted = tuple(dict.fromkeys(ask.sources)) if ask.sources is not None else ALL_SOURCES
    if not read.settings.sessions_index:
        wanted = tuple(name for name in wanted if name != "sessions")
    slices = finding.own_slices(caller, [Slice(wanted)]) if wanted else []
    results = finding.everything(read, question, slices, "relevance", LOOKED_AT)
    found = results.ranked[:LOOKED_AT]
    places = finding.standings_of(read, found, question.terms, results.gathered)
    shown = [at for one in found if (at := places.get(one.best.passage_id)) and not finding.is_hidden(caller, at)]
    beside = following(
        read, shown[:WITH_LATER], question.terms, results.gathered, lambda at: finding.is_hidden(caller, at)
    )
    shown = with_company(shown, beside)
    per_token = caller.config.get("chars_per_token") or PER_TOKEN
    query = finding.query_of(question.terms) if question.terms else None
    budget = int(ask.max_tokens * per_token)
    context = packed(shown, query, budget, replace(results, ranked=found).matched)
    if shown:
        return context
    filters = ["sources"] if ask.sources is not None else []
    why = hints.nothing_found("Nothing has any of these words", filters) if question.terms else hints.NO_WORD
    explained = replace(context, hint=why)
    return explained if explained.length <= budget else context
