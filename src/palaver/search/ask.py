"""What is asked for: a question, where to look, in which order, and which page of the results.

A request becomes an `Ask` in one place. Operators, dates and filters end here, in its scopes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

from palaver.model.people import Caller
from palaver.model.requests import Date, Query, Request, TimeZone, clamp
from palaver.model.search import Order
from palaver.model.times import now, offset_of, zone_of
from palaver.model.times import parse as parse_time
from palaver.search import hints, question, spelling
from palaver.search.operators import NO_OPERATORS, Operators, parse_operators
from palaver.search.question import Question
from palaver.search.scope import readable_scopes
from palaver.store.engines.database import Reader, Scope

HIDDEN = ("as_of", "time_zone")
"""Arguments that tools accept but do not list: an agent asks now, where the server is."""


class Asking(Request):
    has_operators: ClassVar[bool] = False
    """The query can have operators."""

    as_of: Date | None = None
    """When the question is asked, for words such as "yesterday". Default: now."""
    time_zone: TimeZone | None = None
    """Time zone of the person who asks (Europe/Berlin, +02:00). Default: that of as_of, else of the server."""

    def ask(self, read: Reader, caller: Caller, query: str, scopes: Iterable[Scope]) -> Ask:
        """What this request asks for. A project can be named by an argument or by an operator; otherwise only sessions
        of the caller's project are found."""
        moment = parse_time(self.as_of) if self.as_of else now()
        zone = zone_of(self.time_zone) if self.time_zone else offset_of(self.as_of) if self.as_of else None
        operators = parse_operators(query, moment, zone) if self.has_operators else Operators(query)
        text, is_typed = operators.words, getattr(self, "as_you_type", False)
        asked = question.parse(text, moment, zone, is_typed=is_typed)
        wanted = operators.scopes(read, caller, scopes) if operators.values else list(scopes)
        names_project = self.names_project or bool(operators.values.get("project"))
        found = ask_in(read, caller, asked, wanted, is_project_first=not names_project)
        if is_typed and spelling.begins_nothing(read, asked, found.readable):
            text = f"{text} "  # the word is finished, but misspelt
            asked = question.parse(text, moment, zone, is_typed=is_typed)
            found = replace(found, question=asked)
        if read_as := spelling.corrections(read, caller, asked, found.readable):
            asked = question.parse(spelling.corrected(text, read_as), moment, zone, is_typed=is_typed)
            found = replace(found, question=replace(asked, read_as=read_as))
        return replace(found, operators=operators)

    @property
    def names_project(self) -> bool:
        return getattr(self, "project", None) is not None


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

    def ask(self, read: Reader, caller: Caller, query: str, scopes: Iterable[Scope]) -> Ask:
        order: Order = getattr(self, "order_by", None) or caller.config.get("order_by") or "relevance"
        return replace(super().ask(read, caller, query, scopes), page=self, order=order)


class SearchText(Paged):
    query: Query
    """Keywords or a question."""


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A question with everything that decides its results."""

    caller: Caller
    question: Question
    scopes: Sequence[Scope]
    """Where to look, by the filters and the operators."""
    readable: Sequence[Scope]
    """The parts of the scopes that the caller may read."""
    is_project_first: bool
    """Where a scope names no agent, session or project, only sessions of the caller's project are found."""
    operators: Operators = NO_OPERATORS
    page: Paged = field(default_factory=Paged)
    order: Order = "relevance"
    sources: tuple[str, ...] = ()
    """The sources that were asked for."""
    seen: frozenset[str] = frozenset()
    """The results that were shown before."""
    explain: bool = False
    highlight: bool = False
    counts: bool = False

    @property
    def is_list(self) -> bool:
        """The query has only operators."""
        return bool(self.operators.values) and not self.operators.words.strip()

    @property
    def filters(self) -> list[str]:
        """The names of the arguments and operators that leave results out."""
        return hints.filters_of(self.page, self.page.no_filters) + self.operators.names


def ask_in(
    read: Reader, caller: Caller, asked: Question, scopes: Sequence[Scope], *, is_project_first: bool = True
) -> Ask:
    """Ask a question in these scopes, as far as the caller may read them."""
    readable = readable_scopes(read, caller, scopes, is_project_first=is_project_first)
    return Ask(caller=caller, question=asked, scopes=scopes, readable=readable, is_project_first=is_project_first)
