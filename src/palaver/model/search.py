"""What a search over everything gives back, and what opening a thing gives back: the same shape for every source."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from palaver.model.answers import OmitsDefaults

Order = Literal["relevance", "recent"]
Loc = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Standing:
    """A passage and the document it stands in, as the store gives it back."""

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
class ResultItem(OmitsDefaults):
    """A search result. `source` and `id` open it; `loc` is the place of the match. `project` is present if it is known,
    `seen` if this session was shown the result before, `highlights` if they were asked for."""

    omit_if_default = ("project", "seen", "highlights")

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
    link: str | None = None
    project: str | None = None
    seen: bool = False
    highlights: Highlights | None = None


@dataclass(frozen=True)
class SaidItem(ResultItem):
    """A message with what belongs to it: `answer` is what was answered, if it asks; `later` is what took it back."""

    answer: Beside | None = None
    later: Beside | None = None


@dataclass(frozen=True, slots=True)
class CompactItem:
    """The same for clients that want little: an id to fetch, a title, the snippet, a link."""

    id: str
    title: str
    text: str
    url: str
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Capped:
    """There was more than a search looks at. `looked_at` passages were chosen from; of the `words` only the newest
    passages were among them, or those that have others of the words too. `total_estimated` is then the least there is.
    """

    looked_at: int
    words: list[str]


@dataclass(frozen=True, slots=True)
class SearchResponse:
    """A page of what was found, best first. `next_offset` gets the next one.

    `suppressed` counts results left out because this session was shown them before; `hint` then says how to see them.
    When all of them were shown before, they are shown again with `seen`. `session_id`, sent along with the next search,
    says which session that is; `errors` names the sources that did not answer. `matched` says how the best results
    match: by an id, by their title, by all words, by some of them, or only by what stands beside them; `left_out` are
    words so common that they were looked for only together with others; `capped` is there when not everything was
    looked at.
    `explanations`, by uri, say what was seen of each result.
    """

    results: list[ResultItem | SaidItem | CompactItem]
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


@dataclass(frozen=True, slots=True)
class GetResponse:
    """A thing, as much of it as was asked for. `next_cursor` gets what comes after."""

    meta: ResultItem
    content: str | dict[str, Any]
    attachments: list[dict[str, Any]] | None = None
    truncated: bool = False
    next_cursor: str | None = None
    paging: dict[str, Any] | None = None


@dataclass(slots=True)
class SearchSession:
    """What one session of searching has seen and asked, so that the next search brings something new."""

    seen: dict[str, None] = field(default_factory=dict)
    queries: deque[str] = field(default_factory=lambda: deque(maxlen=20))
    paging: dict[str, frozenset[str]] = field(default_factory=dict)
    """The latest searches, and what had been seen before each began: they may be paged through by turns."""
    turn: AbstractAsyncContextManager[Any] | None = field(default=None, repr=False, compare=False)
    """Held by the search that is under way: the next one of the session must know what it shows."""
    used_at: float = 0.0
    is_named: bool = False
    """The answers say its id, because the connection has none of its own."""
    session_id: str | None = None
