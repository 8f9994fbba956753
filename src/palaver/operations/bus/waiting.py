"""Long-poll for new messages (msg_wait)."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Annotated

from palaver.model import visibility
from palaver.model.messages import Message
from palaver.model.people import Agent, Caller
from palaver.model.requests import Id, Line, Seq, clamp
from palaver.operations import identity
from palaver.operations.bus.messages import Budget, fit, mark_active
from palaver.operations.bus.threads import OneThread
from palaver.operations.operation import Command, Route, Tool, operation
from palaver.store.bus import agents, messages, threads
from palaver.store.bus.feed import FeedClosed
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
    messages: list[Message]
    current_seq: int
    timed_out: bool
    reply_token: str
    hint: str | None = None


@operation(
    Tool("msg_wait", brings_words=True, acts=True, defaults={"max_tokens": 6_000}, hidden=("max_tokens",)),
    Route("GET", "/api/threads/{thread_id}/wait"),
    Command("wait", takes=("thread_id",), columns=("seq", "created_at", "author_name", "content"), rows="messages"),
)
async def wait_for_messages(workspace: Workspace, caller: Caller, ask: WaitForMessages) -> Waited:
    """Wait for messages after after_seq. Returns as soon as one arrives, or an empty list on timeout."""
    until = time.monotonic() + ask.timeout_ms / 1000
    if ask.agent_id and ask.token and caller.acting_agent != ask.agent_id:
        said = identity.Credentials(ask.agent_id, ask.token)
        caller = await workspace.read(lambda read: identity.resolve(read, caller, said))
    waited = await workspace.read(lambda read: _unread(read, caller, ask))
    if waited.messages or ask.timeout_ms == 0:
        return waited
    thread = await workspace.read(lambda read: threads.must_exist(read, ask.thread_id))
    ask = ask.model_copy(update={"thread_id": thread.thread.id})
    waiting = await workspace.change(lambda change: _show_waiting(change, caller, ask))
    try:
        async with workspace.feed(thread_id=ask.thread_id) as listener:
            while True:
                waited = await workspace.read(lambda read: _unread(read, caller, ask))
                left = until - time.monotonic()
                if waited.messages or left <= 0:
                    return waited
                await listener.next(timeout=left)
    except FeedClosed:
        return waited
    finally:
        if waiting:
            await asyncio.shield(workspace.change(lambda change: agents.touch(change, waiting, "msg_wait")))


def _unread(read: Reader, caller: Caller, ask: WaitForMessages) -> Waited:
    thread = threads.must_exist(read, ask.thread_id)
    found = visibility.mask_messages(caller, messages.after(read, thread, ask.after_seq, PAGE))
    if ask.for_agent and found:
        agent = agents.named(read, ask.for_agent)
        names = {ask.for_agent.removeprefix("@")} | (
            {agent.id, agent.slug, agent.name, agent.shown_name} if agent else set()
        )
        batch = found
        while not (found := [m for m in batch if m.is_for(names)]) and len(batch) == PAGE:
            batch = visibility.mask_messages(caller, messages.after(read, thread, batch[-1].seq, PAGE))
    shown = fit(found, ask.max_tokens, newest=False)
    more = f"More messages: call msg_list with after_seq={shown[-1].seq}." if len(shown) < len(found) else None
    return Waited(
        messages=shown,
        current_seq=thread.thread.current_seq,
        timed_out=not found,
        reply_token=agents.sign_reply(read, caller.acting_agent),
        hint=more,
    )


def _show_waiting(change: Change, caller: Caller, ask: WaitForMessages) -> Agent | None:
    """Store that the agent waits in this thread, so that others can see it."""
    if ask.agent_id and (ask.token or caller.acting_agent):
        agent: Agent | None = identity.prove_agent(change, caller, ask.agent_id, ask.token)
    else:
        agent = identity.agent_of(change, caller)
    if agent:
        mark_active(change, agent, "msg_wait")
        agents.touch(change, agent, "msg_wait", waiting_in=ask.thread_id)
    return agent
