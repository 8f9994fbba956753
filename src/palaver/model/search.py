"""Answers of searches, and of opening a result: the same shape for every source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Literal

from palaver.model.answers import OmitsDefaults

Order = Literal["relevance", "recent"]
Loc = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FoundPassage:
    """A passage with its document."""

    source: str
    document_id: int
    document: str
    title: str | None
    agent_id: str | None
    document_created: datetime
    document_modified: datetime
    version: int
    facts: Mapping[str, Any]
    passage_id: int
    native_id: str
    position: int
    field: str
    role: str | None
    author: str | None
    author_id: str | None
    text: str
    created_at: datetime | None
    marks: Mapping[str, Any]


Highlights = list[tuple[int, int]]
"""Where matched words begin and end in a snippet."""


@dataclass(frozen=True)
class Beside(OmitsDefaults):
    """Another message of the same conversation that belongs to a result: its answer, or a later correction."""

    omit_if_default = ("highlights",)

    id: str | int
    uri: str
    loc: Loc
    sender: str | None
    created_at: datetime | None
    snippet: str
    highlights: Highlights | None = None


@dataclass(frozen=True)
class SpecifiedItem(OmitsDefaults):
    """A search result with the fields of the specification. `source` and `id` open it; `loc` is the place of the match.
    `seen` is present if this session was shown the result before, `highlights` if they were asked for."""

    omit_if_default: ClassVar[tuple[str, ...]] = ("seen", "highlights")

    id: str | int
    source: str
    title: str | None
    snippet: str | None
    uri: str
    score: float
    score_type: str
    created_at: datetime | None
    last_modified: datetime | None
    version: int | None
    tags: list[str] | None
    url: str | None = None
    media_type: str | None = None
    conversation_id: str | None = None
    message_id: str | None = None
    sender: str | None = None
    loc: Loc | None = None
    seen: bool = False
    highlights: Highlights | None = None


@dataclass(frozen=True)
class ResultItem(SpecifiedItem):
    """A search result with a link to the console. `agent` (whose session it is) and `project` are present if they are
    known."""

    omit_if_default = ("seen", "highlights", "agent", "project")

    link: str | None = None
    agent: str | None = None
    project: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeanItem:
    """A search result in few tokens. `uri` opens it at the match. `project` is present if it is not the caller's."""

    uri: str
    title: str | None = None
    author: str | None = None
    created_at: datetime | None = None
    snippet: str | None = None
    source: str
    project: str | None = None


@dataclass(frozen=True)
class SaidItem(ResultItem):
    """A message with its follow-ups: `answer` replies to it if it asks something, `later` corrects it."""

    answer: Beside | None = None
    later: Beside | None = None


@dataclass(frozen=True, slots=True)
class CompactItem:
    """A short result: an id to fetch, a title, the snippet, a link."""

    id: str
    title: str
    text: str
    url: str
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Capped:
    """The search was truncated. `looked_at` passages were considered. For the very common `words`, only the newest
    passages were, or those that have other words too. `total_estimated` is a lower bound."""

    looked_at: int
    words: list[str]


NamedTime = dict[str, str | None]
"""A period that a query names: `text`, `from` and `to`. A side without a bound is null."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How many results there are in each source and in each month (`2026-05`), in the time zone of the asker.
    `is_capped`: there are more, because not everything was considered."""

    sources: dict[str, int]
    months: dict[str, int]
    is_capped: bool


@dataclass(frozen=True, slots=True)
class SearchResponse:
    """A page of results, best first. Pass `next_offset` as `offset` to get the next page.

    `suppressed` counts results that were left out because this session was shown them before; `hint` says how to see
    them. If all were shown before, they are shown again with `seen`. Pass `session_id` with the next search to stay in
    the session. `errors` names sources that failed. `matched` says how the best results match: by id, title, all
    words, some words, or only by similar words. `left_out` are words so common that they were searched only together
    with others. `capped` is present if not everything was considered. `explanations` are the ranking features, by uri;
    `time` are the periods that the query names. Both are there if `explain` was set. `operators` are the operators of
    the query (`from:ada`) as they were read. `read_as` are words that no passage has, each with the similar word that
    was searched instead; a word in double quotes is searched as it is. `counts` is there if it was asked for.
    `confidence` says how likely an answer is among the first ten results, from 0 to 1; null for operators alone.
    """

    results: list[ResultItem | SaidItem | CompactItem | LeanItem]
    has_more: bool
    next_offset: int | None
    total_estimated: int | None
    suppressed: int = 0
    session_id: str | None = None
    errors: dict[str, str] | None = None
    hint: str | None = None
    matched: Literal["id", "title", "all words", "some words", "similar", "nothing"] | None = None
    left_out: list[str] | None = None
    capped: Capped | None = None
    explanations: dict[str, dict[str, float]] | None = None
    time: list[NamedTime] | None = None
    operators: dict[str, list[str]] | None = None
    read_as: dict[str, str] | None = None
    confidence: float | None = None
    counts: Counts | None = None


@dataclass(frozen=True, slots=True)
class GetResponse:
    """An opened document, as much as was requested. Pass `next_cursor` as `cursor` to get the rest."""

    meta: ResultItem
    content: str | dict[str, Any]
    attachments: list[dict[str, Any]] | None = None
    truncated: bool = False
    next_cursor: str | None = None
    paging: dict[str, Any] | None = None


@dataclass(slots=True)
class SearchSession:
    """The results of one search session, so that the next search shows new results."""

    seen: dict[str, None] = field(default_factory=dict)
    paging: dict[str, frozenset[str]] = field(default_factory=dict)
    """The latest searches, each with the results that were shown before it began. Clients may page through several."""
    query: str = ""
    """The latest query. A document that is opened next without a location is opened where it matches."""


@dataclass(frozen=True, slots=True)
class SearchSessionKey:
    """Identifies a search session. Only its owner can use it."""

    owner: str
    id: str
    is_told: bool = True
    """Answers contain the id, because the client has no other way to name the session."""
