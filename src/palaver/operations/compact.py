"""Short answers for agents: every field once, no empty ones, times to the second.

A model pays for each token it reads. `short_answer` turns an answer with messages, threads or agents into its compact
form: the fields that `FIELDS` names, without those that say nothing (`DEFAULTS`) or repeat another one. Results of
searches have the fields of the specification, or fewer in compact answers. Other answers do not change. REST, and
`?answers=full` over MCP, give the full objects.
"""

from __future__ import annotations

import functools
import operator
import types
import typing
from dataclasses import fields, make_dataclass, replace
from datetime import datetime
from typing import Any

from palaver.model.messages import Message, Receipt, Thread
from palaver.model.people import Agent, Answers
from palaver.model.search import CompactItem, GetResponse, LeanItem, ResultItem, SaidItem, SearchResponse, SpecifiedItem
from palaver.model.times import iso
from palaver.operations.bus.agents import Agents
from palaver.operations.bus.connect import Connected, ConnectedAgent, ConnectedThread
from palaver.operations.bus.messages import EditedMessage, Messages, PostedMessage, show
from palaver.operations.bus.threads import Threads
from palaver.operations.bus.waiting import Waited
from palaver.operations.edits.claims import Claims, ListedClaim
from palaver.operations.sessions.searching import ConversationHit, OwnHits

ERROR_TOKENS = 4_000
"""Budget for the messages in an error, in tokens."""

MESSAGE = (
    "id seq author created_at content role priority mentions reply_to_msg_id metadata edited_at edit_version reactions"
)
FIELDS: dict[type, str] = {
    Message: MESSAGE,
    PostedMessage: f"{MESSAGE} thread_id reached unknown_names receipts",
    Receipt: "name state way turn at reaction answer_id reason",
    EditedMessage: f"{MESSAGE} thread_id version edited_by no_change",
    Messages: "thread_id messages current_seq has_more reply_token hint",
    Waited: "messages current_seq has_more timed_out reply_token hint",
    Agents: "agents hint",
    Agent: (
        "agent_id name slug is_online last_heartbeat display_name description capabilities skills waiting_in project"
    ),
    Threads: "threads total has_more next_cursor",
    Thread: "thread_id topic status current_seq message_count updated_at system_prompt template_id summary metadata",
    Claims: "claims",
    ListedClaim: "claim_id holder is_yours project pattern kind because expires_at",
    Connected: "agent thread messages current_seq truncated has_more reply_token next hint",
    ConnectedAgent: "agent_id name slug token display_name",
    ConnectedThread: "thread_id topic status created system_prompt metadata",
}
"""The fields of short answers and of their parts, in order."""
COMPACT = FIELDS | {
    SearchResponse: "results has_more next_offset suppressed session_id errors hint read_as confidence",
    GetResponse: "meta content attachments truncated next_cursor paging",
    OwnHits: "count hits available message hint",
    LeanItem: "uri title author created_at snippet source project",
    CompactItem: "id title text url metadata",
}
PLAIN = FIELDS | {
    SearchResponse: (
        "results has_more next_offset total_estimated suppressed session_id errors hint explanations time counts "
        "read_as"
    ),
    GetResponse: "meta content attachments truncated next_cursor paging",
}
FORMS: dict[Answers, dict[type, str]] = {"full": {}, "plain": PLAIN, "compact": COMPACT}
DEFAULTS: dict[str, Any] = {
    "role": "user", "priority": "normal", "mentions": [], "edit_version": 0, "reached": [], "unknown_names": [],
    "receipts": [], "description": "", "capabilities": [], "skills": [], "suppressed": 0, "available": True,
    "because": "", "is_yours": False,
}  # fmt: skip
"""Values that say nothing, by the names of their fields. They are left out, and so is null."""


def short_answer(answer: Any, answers: Answers) -> Any:
    """The answer in one of the short forms, or the answer itself if it has none."""
    form = _form_of(type(answer), answers)
    if answers == "plain" and isinstance(answer, SearchResponse | GetResponse):
        return _specified(answer)
    return _short(answer, form)


def _form_of(answer_type: Any, answers: Answers) -> dict[type, str]:
    """The fields of an answer and of its parts. A message in a page does not repeat the thread."""
    form = FORMS[answers]
    return form | {Message: f"{MESSAGE} thread_id"} if answer_type is Message and form else form


def compact_facts(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts of an error with its messages in compact form, the newest ones within a budget."""
    short = dict(facts)
    for name, value in facts.items():
        if isinstance(value, list) and value and all(isinstance(one, Message) for one in value):
            shown = show(value, ERROR_TOKENS, newest=True, has_more=bool(facts.get("has_more")))
            short[name] = _short(shown.messages, COMPACT)
            short |= {"has_more": True} if shown.has_more else {}
            short |= {"hint": shown.hint} if shown.hint else {}
    return short


def _short(value: Any, form: dict[type, str]) -> Any:
    """A value with the fields of the form, apart from those that say nothing. It is plain JSON."""
    if isinstance(value, datetime):
        return iso(value.replace(microsecond=0))
    if isinstance(value, list):
        return [_short(one, form) for one in value]
    if type(value) not in form:
        return value
    value = _without_repeats(value)
    found = {name: getattr(value, name) for name in form[type(value)].split()}
    return {name: _short(one, form) for name, one in found.items() if one not in (None, DEFAULTS.get(name))}


def _without_repeats(value: Any) -> Any:
    """The value without what another field also says."""
    if isinstance(value, Message) and value.author == value.author_id:
        return replace(value, author=value.author_name)
    if isinstance(value, Agent) and value.display_name == value.name:
        return replace(value, display_name=None)
    if isinstance(value, GetResponse):
        meta = value.meta
        lean: Any = LeanItem(
            uri=meta.uri, title=meta.title, author=meta.sender, created_at=meta.created_at, source=meta.source,
            project=meta.project,
        )  # fmt: skip
        return replace(value, meta=lean)
    return value


def _specified(answer: SearchResponse | GetResponse) -> Any:
    """All fields of the specification, and those of ours that have a value."""

    def item(one: Any) -> Any:
        names = [field.name for field in fields(SpecifiedItem)]
        return one if isinstance(one, CompactItem) else SpecifiedItem(**{name: getattr(one, name) for name in names})

    if isinstance(answer, GetResponse):
        return replace(answer, meta=item(answer.meta))
    names = PLAIN[SearchResponse].split()
    found = {one.name: getattr(answer, one.name) for one in fields(answer) if one.name in names}
    defaults = {one.name: one.default for one in fields(answer)}
    kept = {name: found[name] for name in names if found[name] != defaults[name]}
    return kept | {"results": [item(one) for one in answer.results]}


def short_type(answer_type: Any, answers: Answers) -> Any:
    """The type of the short form, for output schemas."""
    form = _form_of(answer_type, answers)
    return _short_type(answer_type, form) if answer_type in form else answer_type


def _short_type(kind: Any, form: dict[type, str]) -> Any:
    if arguments := typing.get_args(kind):
        short = tuple(_short_type(one, form) for one in arguments)
        origin = typing.get_origin(kind)
        return functools.reduce(operator.or_, short) if origin in (types.UnionType, typing.Union) else origin[short]
    if kind in (ResultItem, SaidItem, ConversationHit, LeanItem):
        return LeanItem if LeanItem in form else SpecifiedItem
    if kind not in form or kind is CompactItem:
        return kind
    hints, found = typing.get_type_hints(kind), list[Any]()
    for name in form[kind].split():
        value = _short_type(hints[name], form)
        may_be_absent = name in DEFAULTS or type(None) in typing.get_args(value)
        found.append((name, value | None, None) if may_be_absent else (name, value))
    return make_dataclass(f"Compact{kind.__name__}", found, kw_only=True)
