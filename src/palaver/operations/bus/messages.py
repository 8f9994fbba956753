"""Messages: post, list, get, edit, edit history, delete."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import accumulate, islice
from typing import Annotated, Literal, cast

import orjson
from pydantic import Field

from palaver.errors import Refused, SeqMismatch
from palaver.model import visibility
from palaver.model.answers import answer_of
from palaver.model.events import agent_online, message_deleted, message_edited, message_new, message_receipts
from palaver.model.ids import new_id
from palaver.model.messages import Edit, Message, Priority, Reaction, Receipt, Role, Thread
from palaver.model.people import Agent, Caller
from palaver.model.requests import Id, Ids, Line, Metadata, NotBlank, Records, Request, Seq, Text, Trimmed, clamp
from palaver.model.times import now
from palaver.operations import identity
from palaver.operations.bus.content_filter import refuse_secrets, refuse_too_many_posts
from palaver.operations.bus.threads import OneThread
from palaver.operations.operation import Command, Route, Tool, only, operation
from palaver.search.sources import parse_uri
from palaver.store.bus import agents, messages, questions, read_marks, receipts, threads
from palaver.store.bus.mentions import Receivers
from palaver.store.engines.database import Change, Reader
from palaver.store.workspaces import Workspace

UNREAD_SHOWN = 100
"""At most this many unread messages are in the error of a post with a stale expected_last_seq."""
QUIET_SECONDS = 10
"""The activity of an agent is stored at most this often."""

BYTES_PER_TOKEN = 3
"""Estimate of the bytes of text in one token."""
TOKENS_AROUND_TEXT = 60
"""Tokens of a message beside its text."""
TOKENS_OF_REACTION = 95
"""Tokens of a reaction beside its label and the name of its agent."""

Budget = Annotated[int, clamp(200, 200_000)]


@dataclass(frozen=True, slots=True)
class Shown:
    """The messages of an answer, whether there are more, and how to get the rest."""

    messages: list[Message]
    has_more: bool
    hint: str | None

    def seq_in(self, thread: Thread) -> int:
        """The seq to read on from: that of the last message shown, if the answer was cut."""
        return self.messages[-1].seq if self.has_more else thread.current_seq


def show(found: list[Message], max_tokens: int | None, *, newest: bool, has_more: bool) -> Shown:
    """The newest (or oldest) messages that fit the budget. If not even one fits, its text and reactions are cut."""
    messages = found if max_tokens is None else _fit(found, max_tokens, newest=newest)
    has_more = has_more or len(messages) < len(found)
    hints = []
    if has_more:
        place = f"before_seq={messages[0].seq}" if newest else f"after_seq={messages[-1].seq}"
        hints.append(f"{'Earlier' if newest else 'More'} messages: call msg_list with {place}.")
    if len(messages) == 1 and (count := len(found[-1 if newest else 0].reactions)) > len(messages[0].reactions):
        shown = f"the first {len(messages[0].reactions)} are shown"
        hints.append(f"Message {messages[0].seq} has {count:,} reactions; {shown}. msg_get gives all.")
    return Shown(messages, has_more, " ".join(hints) or None)


def _fit(found: list[Message], max_tokens: int, *, newest: bool) -> list[Message]:
    kept: list[Message] = []
    left = max_tokens
    for message in reversed(found) if newest else found:
        around = TOKENS_AROUND_TEXT + _tokens(orjson.dumps([message.mentions, message.metadata]))
        text = _tokens(message.content.encode())
        size = around + text + sum(map(_reaction_tokens, message.reactions))
        if size > left and not kept:
            return [_cut(message, left - around, text)]
        if size > left:
            break
        left -= size
        kept.append(message)
    return kept[::-1] if newest else kept


def _cut(message: Message, room: int, text: int) -> Message:
    """The message within a number of tokens. Its text gets at least half of them, if it needs so many."""
    costs = list(accumulate(map(_reaction_tokens, message.reactions), initial=0))
    count = max(bisect_right(costs, room - min(text, room // 2)) - 1, 0)
    room = max(room - costs[count], 50) * BYTES_PER_TOKEN
    content = shown = message.content.encode()[:room].decode(errors="ignore")
    if len(shown) < len(message.content):
        content += f"… [{len(shown):,} of {len(message.content):,} characters; msg_get gives the whole message]"
    return replace(message, content=content, reactions=message.reactions[:count])


def _tokens(text: bytes) -> int:
    return len(text) // BYTES_PER_TOKEN


def _reaction_tokens(reaction: Reaction) -> int:
    return TOKENS_OF_REACTION + _tokens(f"{reaction.reaction}{reaction.agent_name or ''}".encode())


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
    mentions: Ids | None = None
    """Ids or names of agents this is for."""
    reply_to_msg_id: Id | None = None
    """Message that you reply to."""
    metadata: Metadata | None = None
    """Any JSON object. {"visibility": "human_only"} hides the content from agents."""
    images: Records | None = None
    """Attached images, each {"url", "name"} as the upload returned them."""
    files: Records | None = None
    """Attached files, each {"url", "name", "type", "size"} as the upload returned them."""
    expected_last_seq: Annotated[int, clamp(-1, 2**53)] | None = None
    """Last seq you read. If there are newer messages, you get them and nothing is posted."""
    idempotency_key: Id | None = None
    """A retry with the same key returns the first message."""
    reply_token: Id | None = None
    """From the last answer; works as idempotency_key."""
    expects: Literal["answer", "none"] = "answer"
    """none wakes no agent."""
    return_after_s: Annotated[int, clamp(5, 30 * 86_400)] | None = None
    """Seconds after which you get a message if an agent that it names has not read it."""


@dataclass(frozen=True, slots=True)
class PostedMessage(Message):
    """The stored message. If it names somebody, `reached` are the agents and people it is meant for."""

    reached: list[str] = field(default_factory=list)
    unknown_names: list[str] = field(default_factory=list)
    """Mentioned names that nobody has."""
    receipts: list[Receipt] = field(default_factory=list)
    """How far it got to each agent that it names: stored, or not_reached with the reason."""


@operation(
    Tool("msg_post", acts=True, hidden=("author", "role", "images", "files", "return_after_s")),
    Route("POST", "/api/threads/{thread_id}/messages", status=201, from_headers={"idempotency-key": "idempotency_key"}),
    Command(
        "post",
        takes=("thread_id",),
        rest="content",
        columns=("seq", "id", "author", "content", "reached", "unknown_names"),
    ),
)
def post_message(change: Change, caller: Caller, request: PostMessage) -> PostedMessage:
    """Post a message to a thread. Returns the stored message with its seq."""
    must_not_be_empty(request.content)
    refuse_secrets(change, request.content)
    visibility.must_not_be_system(caller, request.role, request.priority)
    thread = threads.must_exist(change, request.thread_id)
    poster = caller
    if request.reply_token and not caller.acting_agent:  # over REST, the token says which agent posts
        poster = identity.resolve(change, caller, identity.Credentials(reply_token=request.reply_token))
    author = identity.author_of(change, poster, request.author)
    key = request.idempotency_key or request.reply_token
    if key or request.expected_last_seq is not None:
        last_seq = threads.lock(change, thread.document_id)
        if key and (first := messages.by_key(change, thread, author.label, key)):
            (known,) = messages.with_reactions(change, [first])
            receivers = messages.receivers_of(change, thread, known)
            return _posted_message(caller, known, receivers, receipts.of_message(change, first, receivers))
        if request.expected_last_seq not in (None, last_seq):
            expected = request.expected_last_seq or 0
            unread = messages.newest(change, thread, UNREAD_SHOWN + 1, after_seq=max(expected, 0))
            unread = visibility.mask_messages(caller, unread)
            has_more = len(unread) > UNREAD_SHOWN
            shown = show(unread[-UNREAD_SHOWN:], None, newest=True, has_more=has_more)
            raise SeqMismatch(
                f"The thread is at seq {last_seq}, not {expected}. "
                "Read new_messages, then post with that as expected_last_seq.",
                expected_last_seq=expected,
                current_seq=last_seq,
                new_messages=shown.messages,
                **({"has_more": True, "hint": shown.hint} if has_more else {}),
            )
    threads.must_take_messages(thread.thread.status)
    if request.reply_to_msg_id is not None:
        answered = messages.find(change, request.reply_to_msg_id)
        if answered is None or answered.document_id != thread.document_id:
            raise Refused(f"reply_to_msg_id: there is no message '{request.reply_to_msg_id}' in this thread.")
    refuse_too_many_posts(change, author.agent_id or author.label)
    attached = {"images": request.images, "files": request.files}
    given = {name: value for name, value in (request.metadata or {}).items() if name != "webhook"}
    attached = {name: found for name, found in attached.items() if found}
    expects = request.expects if request.expects == "none" else None
    told = {"webhook": caller.webhook, "traceparent": caller.trace, "expects": expects}
    metadata = given | attached | {name: value for name, value in told.items() if value} or None
    seq, id = threads.next_seq(change, thread), new_id()
    message = Message(
        id=id,
        message_id=id,
        thread_id=thread.thread.id,
        seq=seq,
        author=author.label,
        author_id=author.agent_id,
        author_name=author.name,
        role=request.role,
        content=request.content,
        created_at=now(),
        priority=request.priority,
        mentions=request.mentions or [],
        reply_to_msg_id=request.reply_to_msg_id,
        metadata=metadata,
    )
    receivers = messages.add(change, thread, message, key)
    change.tell(message_new(message))
    found = receipts.of_message(change, messages.must_exist(change, id), receivers) if receivers.keys else []
    if found:
        change.tell(message_receipts(id, message.thread_id, found))
    if found and request.return_after_s:
        receipts.return_at(change, id, now() + timedelta(seconds=request.return_after_s))
    if author.agent:
        read_marks.join(change, author.agent.id, thread.document_id, message.seq)
        mark_active(change, author.agent, "msg_post")
    return _posted_message(caller, message, receivers, found)


def _posted_message(caller: Caller, message: Message, receivers: Receivers, found: list[Receipt]) -> PostedMessage:
    """The answer to a post. A message that names nobody is shown as everywhere else."""
    shown, unknown = visibility.mask_message(caller, message), list(receivers.unknown.values())
    if not receivers.reached and not unknown:
        return cast(PostedMessage, shown)
    return answer_of(PostedMessage, shown, reached=receivers.reached, unknown_names=unknown, receipts=found)


def mark_active(change: Change, agent: Agent, activity: str) -> None:
    """Store the agent's activity, unless it is online and was active a moment ago."""
    age = (now() - agent.last_heartbeat).total_seconds()
    is_due = not agent.is_online or agent.waiting_in or not 0 <= age <= QUIET_SECONDS
    if is_due and agents.touch(change, agent, activity):
        change.tell(agent_online(agents.must_exist(change, agent.id)))


class ListMessages(OneThread):
    after_seq: Seq = 0
    """Only messages after this seq."""
    before_seq: Seq | None = None
    """Only messages before this seq, the newest of them."""
    limit: Annotated[int, clamp(1, 1000)] = 200
    """At most this many, up to 1000, within max_tokens."""
    priority: Priority | None = None
    """Only messages of this priority."""
    newest: bool = False
    """Take the newest messages instead of the first ones."""
    max_tokens: Budget | None = None
    """About how many tokens the messages may have."""


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages of a thread. If there are more, `current_seq` is that of the last one shown."""

    thread_id: str
    messages: list[Message]
    current_seq: int
    has_more: bool
    reply_token: str
    hint: str | None = None


def note_read(workspace: Workspace, caller: Caller, answer: Messages) -> None:
    """Remember how far an agent has read. What a person sees in the console is marked by the console."""
    if caller.acting_agent and answer.messages:
        workspace.note_read(caller.acting_agent, answer.thread_id, answer.messages[-1].seq)


@operation(
    Tool("msg_list", brings_words=True, acts=True, defaults={"max_tokens": 6_000}, hidden=("priority",)),
    Route("GET", "/api/threads/{thread_id}/messages", show=only(Messages, "messages")),
    Command(
        "thread read", takes=("thread_id",), columns=("seq", "created_at", "author_name", "content"), rows="messages"
    ),
    after=note_read,
)
def list_messages(read: Reader, caller: Caller, request: ListMessages) -> Messages:
    """Read the messages of a thread in order, with their reactions."""
    thread = threads.must_exist(read, request.thread_id)
    is_newest = request.newest and request.before_seq is None
    is_backwards = is_newest or request.before_seq is not None
    found = list(islice(_in_reading_order(read, thread, request, is_backwards), request.limit + 1))
    seen = visibility.mask_messages(caller, found[: request.limit][:: -1 if is_backwards else 1])
    shown = show(seen, request.max_tokens, newest=is_backwards, has_more=len(found) > request.limit)
    return Messages(
        thread_id=thread.thread.id,
        messages=shown.messages,
        current_seq=thread.thread.current_seq if is_newest else shown.seq_in(thread.thread),
        has_more=shown.has_more,
        reply_token=agents.sign_reply(read, caller.acting_agent),
        hint=shown.hint,
    )


def _in_reading_order(
    read: Reader, thread: threads.StoredThread, request: ListMessages, is_backwards: bool
) -> Iterator[Message]:
    """The requested messages, oldest first or newest first. It reads page after page, as the priority may skip many."""
    after, before, size = request.after_seq, request.before_seq, request.limit + 1
    while True:
        if is_backwards:
            batch = messages.newest(read, thread, size, after, before)[::-1]
        else:
            batch = messages.after(read, thread, after, size, before)
        yield from (message for message in batch if request.priority in (None, message.priority))
        if len(batch) < size:
            return
        after, before = (after, batch[-1].seq) if is_backwards else (batch[-1].seq, before)


class OneMessage(Request):
    message_id: Id
    """Id of the message."""


@operation(
    Tool("msg_get", brings_words=True),
    Route("GET", "/api/messages/{message_id}"),
    Command("message show", takes=("message_id",)),
)
def get_message(read: Reader, caller: Caller, request: OneMessage) -> Message:
    """Get one message by its id, with its reactions."""
    id, named = request.message_id, parse_uri(request.message_id)
    if named and named.source == "bus":  # a search result
        thread, seq = threads.find(read, named.id), (named.loc or {}).get("seq", 0)
        found = messages.after(read, thread, seq - 1, 1, seq + 1) if thread and seq else []
        id = found[0].id if found else named.id.rpartition("/")[2]
    stored = messages.must_exist(read, id)
    return visibility.mask_messages(caller, messages.with_reactions(read, [stored]))[0]


class EditMessage(OneMessage):
    content: Text
    """The new text."""


@dataclass(frozen=True, slots=True)
class EditedMessage(Message):
    """The message after an edit, and its editor."""

    version: int = 0
    edited_by: str | None = None
    no_change: bool = False


@operation(
    Tool("msg_edit", acts=True, also={"new_content": "content"}),
    Route("PUT", "/api/messages/{message_id}", also={"new_content": "content"}),
    Command("message edit", takes=("message_id",), rest="content"),
)
def edit_message(change: Change, caller: Caller, request: EditMessage) -> EditedMessage:
    """Change the text of a message you wrote. Earlier versions are kept."""
    must_not_be_empty(request.content)
    refuse_secrets(change, request.content)
    stored = messages.must_hold(change, request.message_id)
    if questions.is_part_of_one(change, stored.passage_id):
        raise Refused("The words of a question and its answer stay as they are. Post a new message.")
    own = identity.must_be_author(change, caller, stored.message)
    editor = own.shown_name if own else caller.name
    (before,) = messages.with_reactions(change, [stored])
    if before.content == request.content:
        return _edited_message(visibility.mask_message(caller, before), None)
    message = replace(messages.edit(change, stored, request.content, editor), reactions=before.reactions)
    change.tell(message_edited(message, editor))
    return _edited_message(visibility.mask_message(caller, message), editor)


def _edited_message(message: Message, editor: str | None) -> EditedMessage:
    about = {"version": message.edit_version, "edited_by": editor, "no_change": editor is None}
    return answer_of(EditedMessage, message, **about)


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
def message_history(read: Reader, caller: Caller, request: OneMessage) -> History:
    """List the earlier versions of a message, oldest first."""
    stored = messages.must_exist(read, request.message_id)
    message = visibility.mask_message(caller, stored.message)
    edits = visibility.mask_edits(caller, stored.message, messages.history(read, stored))
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
def delete_message(change: Change, caller: Caller, request: OneMessage) -> MessageDeleted:
    """Delete a message you wrote, with its history and reactions. Its seq is never used again."""
    stored = messages.must_hold(change, request.message_id)
    identity.must_be_author(change, caller, stored.message)
    messages.remove(change, stored)
    change.tell(message_deleted(stored.message))
    return answer_of(MessageDeleted, stored.message, deleted=True)
