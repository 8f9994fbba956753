"""catch_up: what is new for the caller. Also the read marks of threads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated

from pydantic import Field

from palaver.model import visibility
from palaver.model.answers import answer_of
from palaver.model.people import Caller
from palaver.model.requests import Line, NoArguments, Project, Request, Seq, Time, clamp
from palaver.model.times import now, parse
from palaver.operations import identity
from palaver.operations.bus.connect import client_agent
from palaver.operations.bus.threads import OneThread
from palaver.operations.catchup import briefing
from palaver.operations.catchup.news import CollectedNews, NewsItem, ProjectThread, SessionNews, ThreadNews, collect
from palaver.operations.operation import Command, Route, Tool, only, operation
from palaver.store.bus import read_marks, threads
from palaver.store.bus.read_marks import ThreadReader, reader_of
from palaver.store.engines.database import Change, Reader
from palaver.store.workspaces import Workspace
from palaver.text import notable

INBOX_LOOK_BACK = timedelta(days=90)
TEXT_LENGTH = 300
"""Maximum characters of a message in the mentions inbox."""


class CatchUp(Request):
    project: Project | None = None
    """Folder of the project you work on."""
    since: Time | None = None
    """Everything since this time instead of what is unread."""
    max_tokens: Annotated[int, clamp(100, 20_000)] = 1_200
    """About how many tokens the text may have."""
    keep_unread: bool = False
    """Do not mark the threads as read."""


@dataclass(frozen=True, slots=True)
class CaughtUp:
    agent_id: str | None
    name: str
    mentions: list[NewsItem]
    questions: list[NewsItem]
    decisions: list[NewsItem]
    threads: list[ThreadNews]
    sessions: list[SessionNews]
    project_threads: list[ProjectThread]
    has_more: bool
    """The text was cut. Threads that are not in it stay unread."""
    text: str


NOTHING_NEW = "Nothing new."


@operation(
    Tool(
        "catch_up",
        toolset="catch_up",
        brings_words=True,
        acts=True,
        is_text=True,
        show=only(CaughtUp, "text"),
        hidden=("keep_unread",),
        marks=True,
    ),
    Route("POST", "/api/catch-up"),
    Command("catchup", text="text"),
)
async def catch_up(workspace: Workspace, caller: Caller, request: CatchUp) -> CaughtUp:
    """See what is new: messages to you, questions, decisions, unread threads, work in the project. Call it when you
    start. Marks the threads as read."""
    await workspace.store_read_marks()
    agent, token = await workspace.read(lambda read: identity.agent_of(read, caller)), None
    if agent is None and not visibility.sees_everything(caller):  # the client becomes an agent, as with bus_connect
        agent, token = await workspace.change(lambda change: client_agent(change, caller))
    reader = reader_of(caller, agent)
    project = request.project or caller.client.project or (agent.project if agent else None)
    if project and not caller.client.project and not (agent and agent.project):
        caller = replace(caller, client=replace(caller.client, project=project))
    since = parse(request.since) if request.since else None
    found = await workspace.read(lambda read: collect(read, caller, reader, since=since, project=project))
    news = found.news
    is_agent = not visibility.sees_everything(caller)
    own = [briefing.who_you_are(agent, token)] if agent and is_agent else []
    brief = briefing.brief(news, request.max_tokens, before=own, is_fenced=is_agent)
    if not request.keep_unread and since is None:
        only = project if request.project and agent is None else None
        await workspace.change(lambda change: mark_read(change, reader, found, brief, only))
    return answer_of(
        CaughtUp,
        news,
        agent_id=agent.id if agent else None,
        name=agent.shown_name if agent else caller.name,
        has_more=brief.is_cut,
        text=brief.text if len(brief.text) > len("\n".join(own)) else "\n".join([*own, NOTHING_NEW]),
    )


def mark_read(
    change: Change, reader: ThreadReader, found: CollectedNews, brief: briefing.Brief, project: str | None = None
) -> None:
    """The news were shown: their threads are read to the end, and the messages to the reader were seen. What did not
    fit into the text stays unread, with its thread. `project`: a person asked for it, so other threads stay unread."""
    first_shown = len(found.mentions) - brief.shown.get(briefing.FOR_YOU, 0)  # the newest ones are shown
    left_out = {mention.message.thread_id for mention in found.mentions[:first_shown]}
    left_out |= {one.thread_id for one in found.news.threads[brief.shown.get(briefing.UNREAD, 0) :]}
    inside = read_marks.documents_of_project(change, project) if project else None
    for stored in (thread.stored for thread in found.unread.threads):
        if stored.thread.id not in left_out and (inside is None or stored.document_id in inside):
            read_marks.advance(change, reader.key, stored.document_id, stored.thread.current_seq)
    mentions = [one for one in found.mentions[first_shown:] if one.message.thread_id not in left_out]
    for mention in mentions:
        if reader.agent:
            read_marks.advance(change, reader.key, mention.document_id, mention.message.seq)
    read_marks.mark_seen(change, reader, mentions)
    if reader.agent is None:
        read_marks.remember_first_look(change, reader)


@dataclass(frozen=True, slots=True)
class AllRead:
    """`marked` is how many threads had unread messages."""

    marked: int


class MarkRead(OneThread):
    seq: Seq | None = None
    """The last message that was read. Default: the last message of the thread. A smaller one makes messages unread."""
    only_forward: bool = False
    """Keep the mark if it is further already, e.g. because the thread was read on another device."""


@dataclass(frozen=True, slots=True)
class ReadMark:
    thread_id: str
    seq: int
    current_seq: int
    updated_at: datetime


@operation(Route("PUT", "/api/threads/{thread_id}/read-mark"), Command("thread mark-read", takes=("thread_id",)))
def mark_thread_read(change: Change, caller: Caller, request: MarkRead) -> ReadMark:
    """Set how far you have read a thread. Marks are kept for each agent and each person."""
    stored = threads.must_exist(change, request.thread_id)
    last = stored.thread.current_seq
    seq = last if request.seq is None else min(request.seq, last)
    reader = reader_of(caller, identity.agent_of(change, caller))
    if request.only_forward:
        seq = max(seq, read_marks.read_seq(change, reader, stored))
    read_marks.move(change, reader, stored.document_id, seq)
    return ReadMark(stored.thread.id, seq, last, stored.thread.updated_at)


@operation(Route("GET", "/api/threads/{thread_id}/read-mark"))
def get_read_mark(read: Reader, caller: Caller, request: OneThread) -> ReadMark:
    """How far you have read a thread."""
    stored = threads.must_exist(read, request.thread_id)
    seq = read_marks.read_seq(read, reader_of(caller, identity.agent_of(read, caller)), stored)
    return ReadMark(stored.thread.id, seq, stored.thread.current_seq, stored.thread.updated_at)


@operation(Route("PUT", "/api/read-marks"), Command("thread mark-all-read"))
def mark_all_read(change: Change, caller: Caller, request: NoArguments) -> AllRead:
    """Mark every thread as read; for an agent, every thread that it takes part in."""
    return AllRead(read_marks.mark_all_read(change, reader_of(caller, identity.agent_of(change, caller))))


# The mentions inbox


class ListMentions(Request):
    name: Annotated[Line, Field(max_length=200)] | None = None
    """Where no token is required: the name whose mentions are listed. Default: you."""
    limit: Annotated[int, clamp(1, 200)] = 50
    """Maximum number of messages, up to 200."""


@dataclass(frozen=True, slots=True)
class MentionItem:
    """A message that names you, replies to you or is handed to you. `is_read`: you have read the thread up to it."""

    message_id: str
    thread_id: str
    topic: str
    seq: int
    author: str
    created_at: datetime
    text: str
    is_read: bool


@operation(Route("GET", "/api/mentions"))
def list_mentions(read: Reader, caller: Caller, request: ListMentions) -> list[MentionItem]:
    """List the messages of the last 90 days that are meant for you, newest first."""
    own = reader_of(caller, identity.agent_of(read, caller))
    is_named = request.name and own.agent is None and not caller.is_authenticated
    reader = ThreadReader(None, request.name) if is_named else own
    found = read_marks.mentions_of(read, reader, now() - INBOX_LOOK_BACK, request.limit, marks_of=own)
    return [
        answer_of(
            MentionItem,
            one.message,
            topic=one.topic,
            author=one.message.author_name,
            text=notable.one_line(one.message.content, TEXT_LENGTH),
            is_read=one.is_read,
        )
        for one in reversed(found)
        if not visibility.hides(caller, one.message.metadata)
    ]
