"""Threads: create, list, get, update, close, archive, delete, export."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated

from pydantic import Field

from palaver.errors import Refused
from palaver.model import visibility
from palaver.model.events import thread_changed, thread_deleted, thread_new
from palaver.model.messages import Status, Thread
from palaver.model.people import Agent, Caller
from palaver.model.requests import Id, Line, Metadata, Request, Text, clamp
from palaver.model.times import iso
from palaver.operations import identity
from palaver.operations.bus.content_filter import refuse_secrets
from palaver.operations.operation import Command, Route, Tool, only, operation
from palaver.store.bus import messages, read_marks, templates, threads
from palaver.store.engines.database import Change, Reader

Topic = Annotated[Line, Field(max_length=500)]


def checked_topic(topic: str) -> str:
    if not topic.strip():
        raise Refused("topic must not be empty.")
    return topic.strip()


class CreateThread(Request):
    topic: Topic
    """What the thread is about."""
    system_prompt: Text | None = None
    """Rules for all agents in this thread."""
    template: Id | None = None
    """Id of a template whose defaults apply (see template_list)."""
    metadata: Metadata | None = None
    """Any JSON object to store with the thread."""


def open_thread(
    change: Change, request: CreateThread, caller: Caller | None = None
) -> tuple[threads.StoredThread, bool]:
    """Get the thread with this topic or create it. Returns whether it is new."""
    refuse_secrets(change, request.system_prompt, "system_prompt")
    template = templates.must_exist(change, request.template) if request.template else None
    defaults = (template.default_metadata or {}) if template else {}
    stored, is_new = threads.open_or_create(
        change,
        checked_topic(request.topic),
        system_prompt=request.system_prompt or (template and template.system_prompt),
        template_id=template and template.id,
        metadata={**defaults, **(request.metadata or {})} or None,
        created_by=visibility.creator_of(caller) if caller else None,
    )
    if is_new:
        change.tell(thread_new(stored.thread))
    return stored, is_new


@operation(
    Tool("thread_create", hidden=("metadata", "template")),
    Route("POST", "/api/threads", status=201),
    Command("thread create", takes=("topic",)),
)
def create_thread(change: Change, caller: Caller, request: CreateThread) -> Thread:
    """Create a thread, or get the existing one with this topic."""
    return open_thread(change, request, caller)[0].thread


class ListThreads(Request):
    status: Status | None = None
    """Only threads in this state."""
    include_archived: bool = False
    """Also list archived threads."""
    topic: Topic | None = None
    """Only the thread with exactly this topic, in any state."""
    limit: Annotated[int, clamp(1, 200)] = 50
    """Maximum number of threads, up to 200."""
    before: Line | None = None
    """The next_cursor of the previous page."""


@dataclass(frozen=True, slots=True)
class Threads:
    threads: list[Thread]
    total: int
    has_more: bool
    next_cursor: str | None


@operation(
    Tool("thread_list", hidden=("topic",)),
    Route("GET", "/api/threads"),
    Command("thread list", columns=("id", "topic", "status", "message_count", "updated_at"), rows="threads"),
)
def list_threads(read: Reader, caller: Caller, request: ListThreads) -> Threads:
    """List threads, latest first."""
    if request.topic is not None:
        found = threads.by_topic(read, request.topic.strip())
        return Threads([found.thread] if found else [], 1 if found else 0, False, None)
    wanted = request.model_dump(exclude={"topic"})
    page, cursor = threads.page(read, **wanted)
    total = threads.count(read, request.status, include_archived=request.include_archived)
    return Threads(page, total, cursor is not None, cursor)


# The list of the console


class ListThreadPreviews(Request):
    include_archived: bool = False
    """Also list archived threads."""
    limit: Annotated[int, clamp(1, 500)] = 200
    """Maximum number of threads, up to 500."""
    offset: Annotated[int, clamp(0, 2**31)] = 0
    """Number of threads to skip."""


@dataclass(frozen=True, slots=True)
class LastMessage:
    """The start of the last message."""

    seq: int
    author_name: str
    text: str
    is_human_only: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ThreadPreview:
    """A thread, the start of its last message, and its recent participants, latest first. `read_seq` is the last
    message that you have read."""

    thread: Thread
    last_message: LastMessage | None
    participants: list[str]
    read_seq: int


@dataclass(frozen=True, slots=True)
class ThreadPreviews:
    """`is_first_visit`: you have no read marks yet, so everything counts as read."""

    threads: list[ThreadPreview]
    has_more: bool
    is_first_visit: bool


@operation(Route("GET", "/api/threads/glance"))
def list_thread_previews(read: Reader, caller: Caller, request: ListThreadPreviews) -> ThreadPreviews:
    """List threads, latest message first, each with the start of its last message and its recent participants."""
    reader = read_marks.reader_of(caller, identity.agent_of(read, caller))
    found = threads.latest_threads(
        read, reader.key, include_archived=request.include_archived, limit=request.limit + 1, offset=request.offset
    )
    previews = []
    for one in found[: request.limit]:
        last = one.last_few[-1] if one.last_few else None
        preview = None
        if last:
            text = visibility.mask_text(caller, last.metadata, last.text)
            is_human_only = visibility.is_human_only(last.metadata)
            preview = LastMessage(last.seq, last.author_name, text, is_human_only, last.created_at)
        participants = dict.fromkeys(message.author_name for message in reversed(one.last_few))
        seq = read_marks.seq_without_mark(read, reader, one.stored) if one.read_seq is None else one.read_seq
        previews.append(ThreadPreview(one.stored.thread, preview, list(participants), seq))
    return ThreadPreviews(previews, len(found) > request.limit, not read_marks.is_known(read, reader))


# One thread


class OneThread(Request):
    thread_id: Topic
    """Id or exact topic of the thread."""


@operation(
    Tool("thread_get", brings_words=True),
    Route("GET", "/api/threads/{thread_id}"),
    Command("thread show", takes=("thread_id",)),
)
def get_thread(read: Reader, caller: Caller, request: OneThread) -> Thread:
    """Get one thread: topic, status, rules, current_seq."""
    return threads.must_exist(read, request.thread_id).thread


class UpdateThread(OneThread):
    topic: Topic | None = None
    """A new topic."""
    status: Status | None = None
    """discuss, implement, review, done, closed or archived."""
    system_prompt: Text | None = None
    """New rules for the thread."""
    summary: Text | None = None
    """Summary of the outcome."""
    metadata: Metadata | None = None
    """Merged into the existing metadata."""


def change_thread(change: Change, caller: Caller, request: UpdateThread) -> Thread:
    refuse_secrets(change, request.system_prompt, "system_prompt")
    refuse_secrets(change, request.summary, "summary")
    stored = threads.must_exist(change, request.thread_id)
    has_posted = bool(caller.acting_agent) and threads.has_posted(change, stored, caller.acting_agent or "")
    visibility.must_take_part(caller, stored.created_by, has_posted=has_posted)
    old = stored.thread
    given = request.model_dump(include={"status", "system_prompt", "summary"}, exclude_none=True)
    new = replace(
        old,
        topic=checked_topic(request.topic) if request.topic is not None else old.topic,
        metadata={**(old.metadata or {}), **request.metadata} if request.metadata else old.metadata,
        **given,
    )
    if new == old:
        return old
    thread = threads.update(change, stored, new)
    change.tell(thread_changed(thread))
    return thread


@operation(
    Tool("thread_update"),
    Route("PUT", "/api/threads/{thread_id}"),
    Route("POST", "/api/threads/{thread_id}/state", also={"state": "status"}),
    Command("thread update", takes=("thread_id",)),
)
def update_thread(change: Change, caller: Caller, request: UpdateThread) -> Thread:
    """Update a thread's topic, status, rules, summary or metadata. Fields you leave out do not change."""
    return change_thread(change, caller, request)


class CloseThread(OneThread):
    summary: Text | None = None
    """Summary of the outcome."""


@operation(
    Tool("thread_close"), Route("POST", "/api/threads/{thread_id}/close"), Command("thread close", takes=("thread_id",))
)
def close_thread(change: Change, caller: Caller, request: CloseThread) -> Thread:
    """Close a thread: it stays readable and searchable, but takes no more messages."""
    closed = UpdateThread(thread_id=request.thread_id, status="closed", summary=request.summary)
    return change_thread(change, caller, closed)


@operation(
    Tool("thread_archive"),
    Route("POST", "/api/threads/{thread_id}/archive"),
    Command("thread archive", takes=("thread_id",)),
)
def archive_thread(change: Change, caller: Caller, request: OneThread) -> Thread:
    """Archive a thread: it is no longer listed but stays searchable. thread_update can restore it."""
    return change_thread(change, caller, UpdateThread(thread_id=request.thread_id, status="archived"))


@operation(Route("POST", "/api/threads/{thread_id}/unarchive"), Command("thread unarchive", takes=("thread_id",)))
def unarchive_thread(change: Change, caller: Caller, request: OneThread) -> Thread:
    """Restore an archived thread to the list."""
    return change_thread(change, caller, UpdateThread(thread_id=request.thread_id, status="discuss"))


class DeleteThread(OneThread):
    confirm: bool = True
    """false rejects the call: a safeguard for callers that want to ask first."""


@dataclass(frozen=True, slots=True)
class Deleted:
    ok: bool
    deleted: str


@operation(
    Tool("thread_delete", is_destructive=True),
    Route("DELETE", "/api/threads/{thread_id}"),
    Command("thread delete", takes=("thread_id",)),
)
def delete_thread(change: Change, caller: Caller, request: DeleteThread) -> Deleted:
    """Permanently delete a thread you created and all its messages. Archive it instead if you may need it again."""
    if not request.confirm:
        raise Refused("confirm must be true: deleting a thread cannot be undone.")
    stored = threads.must_exist(change, request.thread_id)
    visibility.must_be_creator(caller, stored.created_by)
    threads.lock(change, stored.document_id)
    stored = threads.must_exist(change, stored.thread.id)
    threads.remove(change, stored)
    change.tell(thread_deleted(stored.thread))
    return Deleted(True, stored.thread.id)


@operation(Route("GET", "/api/threads/{thread_id}/agents"))
def list_participants(read: Reader, caller: Caller, request: OneThread) -> list[Agent]:
    """List the agents that have posted in a thread."""
    return threads.participants(read, threads.must_exist(read, request.thread_id))


@dataclass(frozen=True, slots=True)
class ThreadExport:
    topic: str
    text: str


def _as_file(answer: ThreadExport) -> dict[str, str]:
    name = re.sub(r"[^a-z0-9]+", "-", answer.topic.lower()).strip("-")[:80] or "thread"
    return {"Content-Disposition": f'attachment; filename="{name}.md"'}


@operation(
    Route(
        "GET",
        "/api/threads/{thread_id}/export",
        show=only(ThreadExport, "text"),
        media_type="text/markdown; charset=utf-8",
        headers=_as_file,
    ),
    Command("thread export", takes=("thread_id",), text="text"),
)
def export_thread(read: Reader, caller: Caller, request: OneThread) -> ThreadExport:
    """Export a thread as a Markdown transcript."""
    stored = threads.must_exist(read, request.thread_id)
    thread = stored.thread
    lines = [f"# {thread.topic}", "", f"*{thread.status}, begun {iso(thread.created_at)}*", ""]
    if thread.system_prompt:
        lines += ["> " + line for line in thread.system_prompt.splitlines()] + [""]
    after = 0
    while batch := messages.after(read, stored, after, 500):
        for message in visibility.mask_messages(caller, batch):
            edited = " (edited)" if message.edited_at else ""
            lines += [f"## {message.seq}. {message.author_name} — {iso(message.created_at)}{edited}", ""]
            lines += [message.content, ""]
            if message.reactions:
                lines += ["*" + ", ".join(r.reaction for r in message.reactions) + "*", ""]
        after = batch[-1].seq
    if thread.summary:
        lines += ["---", "", "**Summary.** " + thread.summary, ""]
    return ThreadExport(thread.topic, "\n".join(lines))
