"""Messages: saying something, reading what was said, taking it back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from itertools import islice
from typing import Annotated

from pydantic import Field

from palaver.errors import Forbidden, Refused, SeqMismatch
from palaver.model.events import agent_online, message_deleted, message_edited, message_new
from palaver.model.messages import Edit, Message, Priority, Role
from palaver.model.people import Agent, Caller
from palaver.model.requests import (
    Ask,
    Id,
    Line,
    Metadata,
    NotBlank,
    Seq,
    Text,
    Trimmed,
    clamp,
)
from palaver.model.times import now
from palaver.operations import identity, visibility
from palaver.operations.bus.content_filter import refuse_haste, refuse_secrets
from palaver.operations.bus.threads import OneThread
from palaver.operations.operation import Command, Route, Tool, operation
from palaver.store.bus import agents, messages, threads
from palaver.store.engines.database import Change, Reader

UNREAD_SHOWN = 100
QUIET_SECONDS = 10

BYTES_PER_TOKEN = 3
AROUND_A_MESSAGE = 60
"""Tokens that a short message costs beside its text."""

Budget = Annotated[int, clamp(200, 200_000)]


def fit(found: list[Message], max_tokens: int | None, *, newest: bool) -> list[Message]:
    """As many messages as fit the budget, from the newest or the oldest on; at least one, whose text is cut."""
    if max_tokens is None:
        return found
    kept: list[Message] = []
    left = max_tokens
    for message in reversed(found) if newest else found:
        size = len(message.content.encode()) // BYTES_PER_TOKEN + AROUND_A_MESSAGE
        if size > left:
            if not kept:
                kept.append(_cut(message, left))
            break
        left -= size
        kept.append(message)
    return kept[::-1] if newest else kept


def _cut(message: Message, max_tokens: int) -> Message:
    room = max(max_tokens - AROUND_A_MESSAGE, 50) * BYTES_PER_TOKEN
    shown = message.content.encode()[:room].decode(errors="ignore")
    note = f"… [{len(shown):,} of {len(message.content):,} characters; msg_get gives the whole message]"
    return replace(message, content=shown + note)


def must_not_be_empty(content: str) -> None:
    if not content.strip():
        raise Refused("content must not be empty.")


class PostMessage(OneThread):
    content: Text
    """The text; Markdown is fine."""
    author: Annotated[Line, Field(max_length=200), NotBlank, Trimmed] | None = None
    """Name to post under. Default: you."""
    role: Role = "user"
    """user, assistant, system or tool."""
    priority: Priority = "normal"
    """low, normal, high, urgent or system."""
    mentions: list[Id] | None = None
    """Ids or names of agents this is for."""
    reply_to_msg_id: Id | None = None
    """Message of this thread that you answer."""
    metadata: Metadata | None = None
    """Any JSON object. {"visibility": "human_only"} hides the content from agents."""
    images: list[Metadata] | None = None
    """Attached images, each {"url", "name"} as the upload returned them."""
    expected_last_seq: Annotated[int, clamp(-1, 2**53)] | None = None
    """Last seq you read. If there are newer messages, nothing is posted and you get them."""
    idempotency_key: Id | None = None
    """A retry with the same key returns the first message."""
    reply_token: Id | None = None
    """From the last answer; works as idempotency_key."""


@operation(
    Tool("msg_post", acts=True, hidden=("role", "images")),
    Route(
        "POST",
        "/api/threads/{thread_id}/messages",
        status=201,
        from_headers={"idempotency-key": "idempotency_key"},
    ),
    Command("post", takes=("thread_id",), rest="content", columns=("seq", "id", "author", "content")),
)
def post_message(change: Change, caller: Caller, ask: PostMessage) -> Message:
    """Post a message to a thread. Returns the stored message with its seq."""
    must_not_be_empty(ask.content)
    refuse_secrets(change, ask.content)
    if caller.is_agent and "system" in (ask.role, ask.priority):
        raise Forbidden("Agents do not post with role or priority 'system'. Leave it out, or use urgent.")
    thread = threads.must_exist(change, ask.thread_id)
    author = identity.author_of(change, _with_reply(change, caller, ask.reply_token), ask.author)
    key = ask.idempotency_key or ask.reply_token
    if key or ask.expected_last_seq is not None:
        last_seq = threads.lock(change, thread.document_id)
        if key and (first := messages.by_key(change, thread, author.label, key)):
            return visibility.all_seen_by(caller, messages.with_reactions(change, [first]))[0]
        if ask.expected_last_seq not in (None, last_seq):
            raise _moved_on(change, caller, thread, ask.expected_last_seq or 0, last_seq)
    threads.must_take_messages(thread.thread.status)
    _must_be_in_thread(change, thread, ask.reply_to_msg_id)
    refuse_haste(change, author.agent_id or author.label)
    metadata = {**(ask.metadata or {}), **({"images": ask.images} if ask.images else {})} or None
    draft = messages.Draft(
        author=author.label,
        author_id=author.agent_id,
        author_name=author.name,
        content=ask.content,
        role=ask.role,
        priority=ask.priority,
        mentions=tuple(ask.mentions or ()),
        reply_to_msg_id=ask.reply_to_msg_id,
        metadata=metadata,
    )
    message = messages.add(change, thread, draft, threads.next_seq(change, thread), key)
    change.tell(message_new(message))
    if author.agent:
        sign_of_life(change, author.agent, "msg_post")
    return visibility.seen_by(caller, message)


def _with_reply(change: Change, caller: Caller, reply_token: str | None) -> Caller:
    """Over REST too a reply_token says which agent posts, where nothing else does."""
    if caller.acting_agent or not reply_token:
        return caller
    return identity.resolve(change, caller, identity.Credentials(reply_token=reply_token))


def sign_of_life(change: Change, agent: Agent, activity: str) -> None:
    """Who acts is there. Written down only now and then, or when something about it is new."""
    age = (now() - agent.last_heartbeat).total_seconds()
    is_worth_it = not agent.is_online or agent.waiting_in or not 0 <= age <= QUIET_SECONDS
    if is_worth_it and agents.touch(change, agent, activity):
        change.tell(agent_online(agents.must_exist(change, agent.id)))


def _must_be_in_thread(read: Reader, thread: threads.StoredThread, message_id: str | None) -> None:
    if message_id is None:
        return
    stored = messages.find(read, message_id)
    if stored is None or stored.document_id != thread.document_id:
        raise Refused(f"reply_to_msg_id: there is no message '{message_id}' in this thread.")


def _moved_on(read: Reader, caller: Caller, thread: threads.StoredThread, expected: int, current: int) -> SeqMismatch:
    unread = messages.newest(read, thread, UNREAD_SHOWN, after_seq=max(expected, 0))
    return SeqMismatch(
        f"The thread is at seq {current}, not {expected}. Read new_messages, then post with that as expected_last_seq.",
        expected_last_seq=expected,
        current_seq=current,
        new_messages=visibility.all_seen_by(caller, unread),
    )


class ListMessages(OneThread):
    after_seq: Seq = 0
    """Only messages after this seq."""
    before_seq: Seq | None = None
    """Only messages before this seq, the newest of them."""
    limit: Annotated[int, clamp(1, 1000)] = 200
    """At most this many, up to 1000."""
    priority: Priority | None = None
    """Only messages of this priority."""
    newest: bool = False
    """Take the newest messages instead of the first ones."""
    max_tokens: Budget | None = None
    """About how many tokens the messages may have."""


@dataclass(frozen=True, slots=True)
class Messages:
    thread_id: str
    messages: list[Message]
    current_seq: int
    has_more: bool
    reply_token: str
    hint: str | None = None


def _list_only(answer: Messages) -> list[Message]:
    return answer.messages


@operation(
    Tool("msg_list", brings_words=True, acts=True, defaults={"max_tokens": 6_000}, hidden=("priority",)),
    Route("GET", "/api/threads/{thread_id}/messages", show=_list_only),
    Command(
        "thread read", takes=("thread_id",), columns=("seq", "created_at", "author_name", "content"), rows="messages"
    ),
)
def list_messages(read: Reader, caller: Caller, ask: ListMessages) -> Messages:
    """Read the messages of a thread in order, with their reactions."""
    thread = threads.must_exist(read, ask.thread_id)
    is_backwards = ask.newest or ask.before_seq is not None
    read_messages = _backwards if is_backwards else _forwards
    found = list(islice(read_messages(read, thread, ask), ask.limit + 1))
    seen = visibility.all_seen_by(caller, found[: ask.limit][:: -1 if is_backwards else 1])
    shown = fit(seen, ask.max_tokens, newest=is_backwards)
    has_more = len(found) > len(shown)
    return Messages(
        thread.thread.id,
        shown,
        thread.thread.current_seq,
        has_more,
        agents.sign_reply(read, caller.acting_agent),
        _how_to_get_more(shown, is_backwards) if has_more else None,
    )


def _how_to_get_more(shown: list[Message], is_backwards: bool) -> str:
    if is_backwards:
        return f"Earlier messages: call msg_list with before_seq={shown[0].seq}."
    return f"More messages: call msg_list with after_seq={shown[-1].seq}."


def _forwards(read: Reader, thread: threads.StoredThread, ask: ListMessages) -> Iterator[Message]:
    """The messages asked for, oldest first. Where only some count, as many pages are read as it takes."""
    after, size = ask.after_seq, ask.limit + 1
    while batch := messages.after(read, thread, after, size, ask.before_seq):
        yield from (message for message in batch if ask.priority in (None, message.priority))
        if len(batch) < size:
            return
        after = batch[-1].seq


def _backwards(read: Reader, thread: threads.StoredThread, ask: ListMessages) -> Iterator[Message]:
    """The same, newest first."""
    before, size = ask.before_seq, ask.limit + 1
    while batch := messages.newest(read, thread, size, ask.after_seq, before):
        yield from (message for message in reversed(batch) if ask.priority in (None, message.priority))
        if len(batch) < size:
            return
        before = batch[0].seq


class OneMessage(Ask):
    message_id: Id
    """Id of the message."""


@operation(
    Tool("msg_get", brings_words=True),
    Route("GET", "/api/messages/{message_id}"),
    Command("message show", takes=("message_id",)),
)
def get_message(read: Reader, caller: Caller, ask: OneMessage) -> Message:
    """Get one message by its id, with its reactions."""
    stored = messages.must_exist(read, ask.message_id)
    return visibility.all_seen_by(caller, messages.with_reactions(read, [stored]))[0]


class EditMessage(OneMessage):
    content: Text
    """The new text."""


@dataclass(frozen=True, slots=True)
class Edited(Message):
    """The whole message as it is now, and who made it so."""

    version: int = 0
    edited_by: str | None = None
    no_change: bool = False


@operation(
    Tool("msg_edit", acts=True, also={"new_content": "content"}),
    Route("PUT", "/api/messages/{message_id}", also={"new_content": "content"}),
    Command("message edit", takes=("message_id",), rest="content"),
)
def edit_message(change: Change, caller: Caller, ask: EditMessage) -> Edited:
    """Change the text of a message you wrote. Earlier versions are kept."""
    must_not_be_empty(ask.content)
    refuse_secrets(change, ask.content)
    stored = messages.must_hold(change, ask.message_id)
    identity.must_own(change, caller, stored.message)
    own = identity.me(change, caller)
    editor = own.shown_name if own else caller.name
    (before,) = messages.with_reactions(change, [stored])
    if before.content == ask.content:
        return _edited(visibility.seen_by(caller, before), None)
    message = replace(messages.edit(change, stored, ask.content, editor), reactions=before.reactions)
    change.tell(message_edited(message, editor))
    return _edited(visibility.seen_by(caller, message), editor)


def _edited(message: Message, editor: str | None) -> Edited:
    whole = {field.name: getattr(message, field.name) for field in fields(message)}
    return Edited(**whole, version=message.edit_version, edited_by=editor, no_change=editor is None)


@dataclass(frozen=True, slots=True)
class History:
    message_id: str
    current_content: str
    edit_version: int
    edits: list[Edit]


@operation(
    Tool("msg_edit_history", brings_words=True),
    Route("GET", "/api/messages/{message_id}/history"),
    Command(
        "message history",
        takes=("message_id",),
        columns=("version", "created_at", "edited_by", "old_content"),
        rows="edits",
    ),
)
def message_history(read: Reader, caller: Caller, ask: OneMessage) -> History:
    """The earlier versions of a message, oldest first."""
    stored = messages.must_exist(read, ask.message_id)
    message = visibility.seen_by(caller, stored.message)
    edits = visibility.history_seen_by(caller, stored.message, messages.history(read, stored))
    return History(message.id, message.content, message.edit_version, edits)


@dataclass(frozen=True, slots=True)
class MessageDeleted:
    deleted: bool
    message_id: str
    thread_id: str
    seq: int


@operation(
    Tool("msg_delete", acts=True, is_destructive=True),
    Route("DELETE", "/api/messages/{message_id}"),
    Command("message delete", takes=("message_id",)),
)
def delete_message(change: Change, caller: Caller, ask: OneMessage) -> MessageDeleted:
    """Delete a message you wrote, with its history and reactions. Its seq is never used again."""
    stored = messages.must_hold(change, ask.message_id)
    identity.must_own(change, caller, stored.message)
    messages.remove(change, stored)
    change.tell(message_deleted(stored.message))
    return MessageDeleted(True, stored.message.id, stored.message.thread_id, stored.message.seq)
