"""Threads: where a conversation happens."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from palaver.errors import Refused
from palaver.model.events import thread_changed, thread_deleted, thread_new
from palaver.model.messages import Status, Thread
from palaver.model.people import Agent, Caller
from palaver.model.requests import (
    Ask,
    Id,
    Line,
    Metadata,
    Text,
    clamp,
)
from palaver.model.times import iso
from palaver.operations import identity, visibility
from palaver.operations.bus.content_filter import refuse_secrets
from palaver.operations.operation import Command, Route, Tool, operation
from palaver.store.bus import messages, templates, threads
from palaver.store.engines.database import Change, Reader

Topic = Annotated[Line, Field(max_length=500)]


def checked_topic(topic: str) -> str:
    if not topic.strip():
        raise Refused("topic must not be empty.")
    return topic.strip()


class CreateThread(Ask):
    topic: Topic
    """What the thread is about."""
    system_prompt: Text | None = None
    """Rules for everyone who works in this thread."""
    template: Id | None = None
    """Id of a template whose defaults apply (see template_list)."""
    metadata: Metadata | None = None
    """Anything you want to keep with the thread."""


def open_thread(change: Change, ask: CreateThread, caller: Caller | None = None) -> tuple[threads.StoredThread, bool]:
    """Open or create, telling listeners when it is new."""
    refuse_secrets(change, ask.system_prompt, "system_prompt")
    template = templates.must_exist(change, ask.template) if ask.template else None
    defaults = (template.default_metadata or {}) if template else {}
    stored, is_new = threads.open_or_create(
        change,
        checked_topic(ask.topic),
        system_prompt=ask.system_prompt or (template.system_prompt if template else None),
        template_id=template.id if template else None,
        metadata={**defaults, **(ask.metadata or {})} or None,
        created_by=identity.signed(caller) if caller else None,
    )
    if is_new:
        change.tell(thread_new(stored.thread))
    return stored, is_new


@operation(
    Tool("thread_create", hidden=("metadata", "template")),
    Route("POST", "/api/threads", status=201),
    Command("thread create", takes=("topic",)),
)
def create_thread(change: Change, caller: Caller, ask: CreateThread) -> Thread:
    """Create a thread, or get the existing one with this topic."""
    return open_thread(change, ask, caller)[0].thread


class ListThreads(Ask):
    status: Status | None = None
    """Only threads in this state."""
    include_archived: bool = False
    """Show archived threads too."""
    topic: Topic | None = None
    """Only the thread of exactly this topic, whatever its state."""
    limit: Annotated[int, clamp(1, 200)] = 50
    """How many at the most, up to 200."""
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
def list_threads(read: Reader, caller: Caller, ask: ListThreads) -> Threads:
    """List threads, the latest first."""
    if ask.topic is not None:
        found = threads.by_topic(read, ask.topic.strip())
        return Threads([found.thread] if found else [], 1 if found else 0, False, None)
    page = threads.page(
        read,
        status=ask.status,
        include_archived=ask.include_archived,
        limit=ask.limit,
        before=ask.before,
    )
    return Threads(page.threads, page.total, page.next_cursor is not None, page.next_cursor)


class OneThread(Ask):
    thread_id: Topic
    """Id or exact topic of the thread."""


@operation(
    Tool("thread_get", brings_words=True),
    Route("GET", "/api/threads/{thread_id}"),
    Command("thread show", takes=("thread_id",)),
)
def get_thread(read: Reader, caller: Caller, ask: OneThread) -> Thread:
    """Get one thread: topic, status, rules, current_seq."""
    return threads.must_exist(read, ask.thread_id).thread


class UpdateThread(OneThread):
    topic: Topic | None = None
    """A new topic."""
    status: Status | None = None
    """discuss, implement, review, done, closed or archived."""
    system_prompt: Text | None = None
    """New rules for the thread."""
    summary: Text | None = None
    """What came out of it."""
    metadata: Metadata | None = None
    """Merged into the existing metadata."""


def change_thread(change: Change, ask: UpdateThread) -> Thread:
    refuse_secrets(change, ask.system_prompt, "system_prompt")
    refuse_secrets(change, ask.summary, "summary")
    stored = threads.must_exist(change, ask.thread_id)
    old = stored.thread
    wanted: dict[str, Any] = {
        "topic": checked_topic(ask.topic) if ask.topic is not None else old.topic,
        "status": ask.status or old.status,
        "system_prompt": old.system_prompt if ask.system_prompt is None else ask.system_prompt,
        "summary": old.summary if ask.summary is None else ask.summary,
        "metadata": {**(old.metadata or {}), **ask.metadata} if ask.metadata else old.metadata,
    }
    if all(getattr(old, name) == value for name, value in wanted.items()):
        return old
    thread = threads.update(change, stored, **wanted)
    change.tell(thread_changed(thread))
    return thread


@operation(
    Tool("thread_update"),
    Route("PUT", "/api/threads/{thread_id}"),
    Route("POST", "/api/threads/{thread_id}/state", also={"state": "status"}),
    Command("thread update", takes=("thread_id",)),
)
def update_thread(change: Change, caller: Caller, ask: UpdateThread) -> Thread:
    """Change a thread's topic, status, rules, summary or metadata; what is left out stays as it is."""
    return change_thread(change, ask)


class CloseThread(OneThread):
    summary: Text | None = None
    """What came out of it."""


@operation(
    Tool("thread_close"),
    Route("POST", "/api/threads/{thread_id}/close"),
    Command("thread close", takes=("thread_id",)),
)
def close_thread(change: Change, caller: Caller, ask: CloseThread) -> Thread:
    """Close a thread: it stays readable and searchable, but takes no more messages."""
    return change_thread(change, UpdateThread(thread_id=ask.thread_id, status="closed", summary=ask.summary))


@operation(
    Tool("thread_archive"),
    Route("POST", "/api/threads/{thread_id}/archive"),
    Command("thread archive", takes=("thread_id",)),
)
def archive_thread(change: Change, caller: Caller, ask: OneThread) -> Thread:
    """Archive a thread: it leaves the list but stays searchable. thread_update brings it back."""
    return change_thread(change, UpdateThread(thread_id=ask.thread_id, status="archived"))


@operation(
    Route("POST", "/api/threads/{thread_id}/unarchive"),
    Command("thread unarchive", takes=("thread_id",)),
)
def unarchive_thread(change: Change, caller: Caller, ask: OneThread) -> Thread:
    """Bring an archived thread back into the list."""
    return change_thread(change, UpdateThread(thread_id=ask.thread_id, status="discuss"))


class DeleteThread(OneThread):
    confirm: bool = True
    """Set to false and nothing happens: a safeguard for callers that want to ask first."""


@dataclass(frozen=True, slots=True)
class Deleted:
    ok: bool
    deleted: str


@operation(
    Tool("thread_delete", is_destructive=True),
    Route("DELETE", "/api/threads/{thread_id}"),
    Command("thread delete", takes=("thread_id",)),
)
def delete_thread(change: Change, caller: Caller, ask: DeleteThread) -> Deleted:
    """Delete a thread you created and all its messages for good. Archive it instead if it may be wanted again."""
    if not ask.confirm:
        raise Refused("confirm must be true: deleting a thread cannot be undone.")
    stored = threads.must_exist(change, ask.thread_id)
    identity.must_have_created(caller, stored.created_by)
    threads.lock(change, stored.document_id)
    stored = threads.must_exist(change, stored.thread.id)
    threads.remove(change, stored)
    change.tell(thread_deleted(stored.thread))
    return Deleted(True, stored.thread.id)


@dataclass(frozen=True, slots=True)
class Participants:
    agents: list[Agent]


def _agents_only(answer: Participants) -> list[Agent]:
    return answer.agents


@operation(Route("GET", "/api/threads/{thread_id}/agents", show=_agents_only))
def list_participants(read: Reader, caller: Caller, ask: OneThread) -> Participants:
    """The agents that have written in a thread."""
    stored = threads.must_exist(read, ask.thread_id)
    return Participants(threads.participants(read, stored))


@dataclass(frozen=True, slots=True)
class Transcript:
    topic: str
    text: str


def _markdown(answer: Transcript) -> str:
    return answer.text


def _as_file(answer: Transcript) -> dict[str, str]:
    name = re.sub(r"[^a-z0-9]+", "-", answer.topic.lower()).strip("-")[:80] or "thread"
    return {"Content-Disposition": f'attachment; filename="{name}.md"'}


@operation(
    Route(
        "GET",
        "/api/threads/{thread_id}/export",
        show=_markdown,
        media_type="text/markdown; charset=utf-8",
        headers=_as_file,
    ),
    Command("thread export", takes=("thread_id",), text="text"),
)
def export_thread(read: Reader, caller: Caller, ask: OneThread) -> Transcript:
    """A thread as a Markdown transcript."""
    stored = threads.must_exist(read, ask.thread_id)
    thread = stored.thread
    lines = [f"# {thread.topic}", "", f"*{thread.status}, begun {iso(thread.created_at)}*", ""]
    if thread.system_prompt:
        lines += ["> " + line for line in thread.system_prompt.splitlines()] + [""]
    after = 0
    while batch := messages.after(read, stored, after, 500):
        for message in visibility.all_seen_by(caller, batch):
            edited = " (edited)" if message.edited_at else ""
            lines += [f"## {message.seq}. {message.author_name} — {iso(message.created_at)}{edited}", ""]
            lines += [message.content, ""]
            if message.reactions:
                lines += ["*" + ", ".join(r.reaction for r in message.reactions) + "*", ""]
        after = batch[-1].seq
    if thread.summary:
        lines += ["---", "", "**Summary.** " + thread.summary, ""]
    return Transcript(thread.topic, "\n".join(lines))
