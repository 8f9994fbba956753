"""Short answers for agents: every field once, no empty ones, times to the second.

A model pays for each token it reads. `short_answer` turns an answer with messages, threads or agents into its compact
form. Results of searches have the fields of the specification, or fewer in compact answers. Other answers do not
change. REST, and `?answers=full` over MCP, give the full objects.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from palaver.model.answers import OmitsDefaults
from palaver.model.messages import Message, Reaction
from palaver.model.people import Answers
from palaver.model.search import CompactItem, Counts, GetResponse, LeanItem, NamedTime, SearchResponse, SpecifiedItem
from palaver.model.times import iso
from palaver.operations.bus.agents import Agents
from palaver.operations.bus.connect import Connected
from palaver.operations.bus.messages import EditedMessage, Messages, PostedMessage, show
from palaver.operations.bus.threads import Threads
from palaver.operations.bus.waiting import Waited
from palaver.operations.sessions.searching import OwnHits

ERROR_TOKENS = 4_000
"""Budget for the messages in an error, in tokens."""


@dataclass(frozen=True, slots=True)
class CompactMessage:
    id: str
    seq: int
    author: str
    created_at: datetime
    content: str
    role: str | None = None
    priority: str | None = None
    mentions: list[str] | None = None
    reply_to_msg_id: str | None = None
    metadata: dict[str, Any] | None = None
    edited_at: datetime | None = None
    edit_version: int | None = None
    reactions: list[Reaction] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class CompactOneMessage(CompactMessage):
    thread_id: str = ""


@dataclass(frozen=True, slots=True)
class CompactPosted(CompactOneMessage):
    reached: list[str] | None = None
    unknown_names: list[str] | None = None


@dataclass(frozen=True, slots=True)
class CompactEdited(CompactOneMessage):
    version: int = 0
    edited_by: str | None = None
    no_change: bool = False


@dataclass(frozen=True, slots=True)
class CompactMessages:
    thread_id: str
    messages: list[CompactMessage]
    current_seq: int
    has_more: bool
    reply_token: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class CompactWaited:
    messages: list[CompactMessage]
    current_seq: int
    has_more: bool
    timed_out: bool
    reply_token: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class CompactAgent:
    agent_id: str
    name: str
    slug: str
    is_online: bool | None = None
    last_heartbeat: datetime | None = None
    token: str | None = None
    display_name: str | None = None
    description: str | None = None
    capabilities: list[str] | None = None
    skills: list[dict[str, Any]] | None = None
    waiting_in: str | None = None
    project: str | None = None


@dataclass(frozen=True, slots=True)
class CompactAgents:
    agents: list[CompactAgent]
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class CompactThread:
    thread_id: str
    topic: str
    status: str
    created: bool | None = None
    current_seq: int | None = None
    message_count: int | None = None
    updated_at: datetime | None = None
    system_prompt: str | None = None
    template_id: str | None = None
    summary: str | None = None
    metadata: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class CompactThreads:
    threads: list[CompactThread]
    total: int
    has_more: bool
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class CompactConnected:
    agent: CompactAgent
    thread: CompactThread
    messages: list[CompactMessage]
    current_seq: int
    truncated: bool
    has_more: bool
    reply_token: str
    next: str | None = None
    hint: str | None = None


@dataclass(frozen=True)
class SpecifiedResponse(OmitsDefaults):
    """A page of results with the fields of the specification, and what there is to say about it."""

    omit_if_default = ("suppressed", "session_id", "errors", "hint", "explanations", "time", "counts")

    results: list[SpecifiedItem | CompactItem]
    has_more: bool
    next_offset: int | None
    total_estimated: int | None
    suppressed: int = 0
    session_id: str | None = None
    errors: dict[str, str] | None = None
    hint: str | None = None
    explanations: dict[str, dict[str, float]] | None = None
    time: list[NamedTime] | None = None
    counts: Counts | None = None


@dataclass(frozen=True)
class SpecifiedOpened(OmitsDefaults):
    meta: SpecifiedItem
    content: str | dict[str, Any]
    attachments: list[dict[str, Any]] | None
    truncated: bool
    next_cursor: str | None
    paging: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class LeanResponse:
    results: list[LeanItem | CompactItem]
    has_more: bool
    next_offset: int | None = None
    suppressed: int | None = None
    session_id: str | None = None
    errors: dict[str, str] | None = None
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class LeanOpened:
    meta: LeanItem
    content: str | dict[str, Any]
    attachments: list[dict[str, Any]] | None = None
    truncated: bool = False
    next_cursor: str | None = None
    paging: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class LeanOwnHits:
    count: int
    hits: list[LeanItem]
    available: bool | None = None
    message: str | None = None
    hint: str | None = None


# One function for each answer

C = TypeVar("C")


def _copy(kind: type[C], source: Any, **changed: Any) -> C:
    """A `kind` with the fields of the same names in `source`, apart from the changed ones."""
    names = [one.name for one in dataclasses.fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: changed[name] if name in changed else getattr(source, name) for name in names})


def _message(message: Message, kind: type[C], **more: Any) -> C:
    return _copy(
        kind,
        message,
        author=message.author_name if message.author == message.author_id else message.author,
        role=message.role if message.role != "user" else None,
        priority=message.priority if message.priority != "normal" else None,
        mentions=message.mentions or None,
        edited_at=message.edited_at if message.edit_version else None,
        edit_version=message.edit_version or None,
        **more,
    )


def _list(messages: list[Message]) -> list[CompactMessage]:
    return [_message(message, CompactMessage) for message in messages]


def _one_message(message: Message) -> CompactOneMessage:
    return _message(message, CompactOneMessage)


def _posted_message(posted: PostedMessage) -> CompactPosted:
    return _message(posted, CompactPosted, reached=posted.reached or None, unknown_names=posted.unknown_names or None)


def _edited_message(edited: EditedMessage) -> CompactEdited:
    return _message(edited, CompactEdited)


def _messages(answer: Messages) -> CompactMessages:
    return _copy(CompactMessages, answer, messages=_list(answer.messages))


def _waited(answer: Waited) -> CompactWaited:
    return _copy(CompactWaited, answer, messages=_list(answer.messages))


def _agents(answer: Agents) -> CompactAgents:
    shown = [
        _copy(
            CompactAgent,
            agent,
            token=None,
            display_name=agent.display_name if agent.display_name != agent.name else None,
            description=agent.description or None,
            capabilities=agent.capabilities or None,
            skills=agent.skills or None,
        )
        for agent in answer.agents
    ]
    return CompactAgents(shown, answer.hint)


def _threads(answer: Threads) -> CompactThreads:
    return _copy(CompactThreads, answer, threads=[_copy(CompactThread, one, created=None) for one in answer.threads])


def _connected(answer: Connected) -> CompactConnected:
    agent, thread = answer.agent, answer.thread
    return _copy(
        CompactConnected,
        answer,
        agent=CompactAgent(agent.agent_id, agent.name, agent.slug, token=agent.token, display_name=agent.display_name),
        thread=CompactThread(
            thread.thread_id,
            thread.topic,
            thread.status,
            created=thread.created,
            system_prompt=thread.system_prompt,
            metadata=thread.metadata,
        ),
        messages=_list(answer.messages),
    )


def _specified(answer: SearchResponse) -> SpecifiedResponse:
    items = [one if isinstance(one, CompactItem) else _copy(SpecifiedItem, one) for one in answer.results]
    return _copy(SpecifiedResponse, answer, results=items)


def _specified_opened(answer: GetResponse) -> SpecifiedOpened:
    return _copy(SpecifiedOpened, answer, meta=_copy(SpecifiedItem, answer.meta))


def _lean(answer: SearchResponse) -> LeanResponse:
    return _copy(LeanResponse, answer, suppressed=answer.suppressed or None)


def _lean_opened(answer: GetResponse) -> LeanOpened:
    return _copy(LeanOpened, answer, meta=_copy(LeanItem, answer.meta, author=answer.meta.sender, snippet=None))


def _own_hits(answer: OwnHits) -> LeanOwnHits:
    return _copy(LeanOwnHits, answer, available=None if answer.available else False)


_FORMS: dict[type, Callable[[Any], Any]] = {
    Message: _one_message,
    PostedMessage: _posted_message,
    EditedMessage: _edited_message,
    Messages: _messages,
    Waited: _waited,
    Agents: _agents,
    Threads: _threads,
    Connected: _connected,
}


_SEARCH_FORMS: dict[Answers, dict[type, Callable[[Any], Any]]] = {
    "plain": {SearchResponse: _specified, GetResponse: _specified_opened},
    "compact": {SearchResponse: _lean, GetResponse: _lean_opened, OwnHits: _own_hits},
}


def _form(answer_type: Any, answers: Answers) -> Callable[[Any], Any] | None:
    return None if answers == "full" else _SEARCH_FORMS[answers].get(answer_type) or _FORMS.get(answer_type)


def short_answer(answer: Any, answers: Answers) -> Any:
    """The answer in one of the short forms, as plain JSON, or the answer itself if it has none."""
    form = _form(type(answer), answers)
    return _plain(form(answer)) if form else answer


def compact_facts(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts of an error with its messages in compact form, the newest ones within a budget."""
    short = dict(facts)
    for name, value in facts.items():
        if isinstance(value, list) and value and all(isinstance(one, Message) for one in value):
            shown = show(value, ERROR_TOKENS, newest=True, has_more=bool(facts.get("has_more")))
            short[name] = _plain(_list(shown.messages))
            short |= {"has_more": True} if shown.has_more else {}
            short |= {"hint": shown.hint} if shown.hint else {}
    return short


def short_type(answer_type: Any, answers: Answers) -> Any:
    """The type of the short form, for output schemas."""
    form = _form(answer_type, answers)
    return typing.get_type_hints(form)["return"] if form else answer_type


def _plain(value: Any) -> Any:
    """Data classes as dicts without the fields that are None."""
    if isinstance(value, datetime):
        return iso(value.replace(microsecond=0))
    if isinstance(value, list):
        return [_plain(one) for one in value]
    # A reaction always has all its fields, and so has an answer of the specification.
    if not dataclasses.is_dataclass(value) or isinstance(value, Reaction | OmitsDefaults):
        return value
    named = ((one.name, getattr(value, one.name)) for one in dataclasses.fields(value))
    return {name: _plain(found) for name, found in named if found is not None}
