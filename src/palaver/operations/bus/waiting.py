"""Long-poll for new messages (msg_wait)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated

from palaver.model import visibility
from palaver.model.messages import Message
from palaver.model.people import Agent, Caller
from palaver.model.requests import Id, Line, Seq, clamp
from palaver.operations import identity
from palaver.operations.bus.messages import Budget, mark_active, show
from palaver.operations.bus.threads import OneThread
from palaver.operations.operation import Command, Route, Tool, operation
from palaver.store.bus import agents, messages, read_marks, threads
from palaver.store.bus.read_marks import ThreadReader
from palaver.store.engines.database import Change, Reader
from palaver.store.workspaces import Workspace

PAGE = 200


class WaitForMessages(OneThread):
    after_seq: Seq = 0
    """The last seq you have read."""
    timeout_ms: Annotated[int, clamp(0, 600_000)] = 45_000
    """How long to wait. Many clients end a call after 60 s."""
    for_agent: Line | None = None
    """Only messages that mention this agent (id or name)."""
    agent_id: Id | None = None
    """You, from bus_connect."""
    token: Id | None = None
    """Your token."""
    max_tokens: Budget | None = None
    """About how many tokens the messages may have."""


@dataclass(frozen=True, slots=True)
class Waited:
    """Messages that arrived. If there are more, `current_seq` is that of the last one shown."""

    messages: list[Message]
    current_seq: int
    has_more: bool
    timed_out: bool
    reply_token: str
    hint: str | None = None


@operation(
    Tool("msg_wait", brings_words=True, acts=True, defaults={"max_tokens": 6_000}, hidden=("max_tokens",)),
    Route("GET", "/api/threads/{thread_id}/wait"),
    Command("wait", takes=("thread_id",), columns=("seq", "created_at", "author_name", "content"), rows="messages"),
)
async def wait_for_messages(workspace: Workspace, caller: Caller, request: WaitForMessages) -> Waited:
    """Wait for messages after after_seq. Returns as soon as one arrives, or an empty list on timeout."""
    if request.agent_id and request.token and caller.acting_agent != request.agent_id:
        said = identity.Credentials(request.agent_id, request.token)
        caller = await workspace.read(lambda read: identity.resolve(read, caller, said))
    waited = await workspace.read(lambda read: _unread(read, caller, request))
    if waited.messages or request.timeout_ms == 0:
        return _noted(workspace, caller, waited)
    thread = await workspace.read(lambda read: threads.must_exist(read, request.thread_id))
    request = request.model_copy(update={"thread_id": thread.thread.id})
    waiting = await workspace.change(lambda change: _show_waiting(change, caller, request))
    try:
        waited = await workspace.wait_until(
            lambda waited: bool(waited.messages),
            lambda read: _unread(read, caller, request),
            request.timeout_ms / 1000,
            thread_id=request.thread_id,
        )
        return _noted(workspace, caller, waited)
    finally:
        if waiting:
            await asyncio.shield(workspace.change(lambda change: agents.touch(change, waiting, "msg_wait")))


def _noted(workspace: Workspace, caller: Caller, waited: Waited) -> Waited:
    if caller.acting_agent and waited.messages:
        last = waited.messages[-1]
        workspace.note_read(caller.acting_agent, last.thread_id, last.seq)
    return waited


def _unread(read: Reader, caller: Caller, request: WaitForMessages) -> Waited:
    thread = threads.must_exist(read, request.thread_id)
    agent = agents.named(read, request.for_agent) if request.for_agent else None
    names = {(request.for_agent or "").removeprefix("@")} | (
        {agent.id, agent.slug, agent.name, agent.shown_name} if agent else set()
    )
    reader = ThreadReader(agent, None if agent else request.for_agent)
    meant = read_marks.seqs_meant_for(read, reader, thread, request.after_seq) if request.for_agent else set()
    after = request.after_seq
    while True:
        batch = visibility.mask_messages(caller, messages.after(read, thread, after, PAGE + 1))
        found = [m for m in batch[:PAGE] if not request.for_agent or m.seq in meant or m.is_for(names)]
        if found or len(batch) <= PAGE:
            break
        after = batch[PAGE - 1].seq
    shown = show(found, request.max_tokens, newest=False, has_more=len(batch) > PAGE)
    return Waited(
        messages=shown.messages,
        current_seq=shown.seq_in(thread.thread),
        has_more=shown.has_more,
        timed_out=not found,
        reply_token=agents.sign_reply(read, caller.acting_agent),
        hint=shown.hint,
    )


def _show_waiting(change: Change, caller: Caller, request: WaitForMessages) -> Agent | None:
    """Store that the agent waits in this thread, so that others can see it."""
    if request.agent_id and (request.token or caller.acting_agent):
        agent: Agent | None = identity.prove_agent(change, caller, request.agent_id, request.token)
    else:
        agent = identity.agent_of(change, caller)
    if agent:
        mark_active(change, agent, "msg_wait")
        agents.touch(change, agent, "msg_wait", waiting_in=request.thread_id)
    return agent
