"""Waiting for something to be said."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Annotated

from palaver.model.asking import Id, Line, Seq, clamp
from palaver.model.people import Agent, Caller
from palaver.model.talk import Message
from palaver.operations import identity, visibility
from palaver.operations.faces import Command, Route, Tool, operation
from palaver.operations.messages import new_reply_token, sign_of_life
from palaver.operations.threads import OneThread
from palaver.store import agents, messages, threads
from palaver.store.database import Change, Reader
from palaver.store.feed import FeedClosed
from palaver.store.workspaces import Workspace

SHOWN_AT_MOST = 200


class WaitForMessages(OneThread):
    after_seq: Seq = 0
    """The last seq you have read."""
    timeout_ms: Annotated[int, clamp(0, 600_000)] = 45_000
    """How long to wait, in milliseconds. Common clients give up on a call after 60 s."""
    for_agent: Line | None = None
    """Only messages that mention this agent (id or name) or hand over to it."""
    agent_id: Id | None = None
    """Who waits, so that others see you waiting. Left out, it is you."""
    token: Id | None = None
    """The secret that belongs to agent_id."""


@dataclass(frozen=True, slots=True)
class Waited:
    messages: list[Message]
    current_seq: int
    timed_out: bool
    reply_token: str


@operation(
    Tool("msg_wait", brings_words=True),
    Route("GET", "/api/threads/{thread_id}/wait"),
    Command("wait", takes=("thread_id",), columns=("seq", "created_at", "author_name", "content"), rows="messages"),
)
async def wait_for_messages(here: Workspace, caller: Caller, ask: WaitForMessages) -> Waited:
    """Wait until a message after after_seq is there, and return it at once. An empty list means the time is up."""
    until = time.monotonic() + ask.timeout_ms / 1000
    waited = await here.read(lambda read: _unread(read, caller, ask))
    if waited.messages or ask.timeout_ms == 0:
        return waited
    waiting = await here.change(lambda change: _begin(change, caller, ask))
    try:
        async with here.feed(thread_id=ask.thread_id) as listener:
            while True:
                waited = await here.read(lambda read: _unread(read, caller, ask))
                left = until - time.monotonic()
                if waited.messages or left <= 0:
                    return waited
                await listener.next(timeout=left)
    except FeedClosed:
        return waited
    finally:
        if waiting:
            await asyncio.shield(here.change(lambda change: _end(change, waiting)))


def _unread(read: Reader, caller: Caller, ask: WaitForMessages) -> Waited:
    thread = threads.must_exist(read, ask.thread_id)
    found = messages.after(read, thread, ask.after_seq, SHOWN_AT_MOST)
    if ask.for_agent and found:
        agent = agents.named(read, ask.for_agent)
        names = {ask.for_agent.removeprefix("@")} | (
            {agent.id, agent.slug, agent.name, agent.shown_name} if agent else set()
        )
        batch = found
        while not (found := [m for m in batch if m.is_for(names)]) and len(batch) == SHOWN_AT_MOST:
            batch = messages.after(read, thread, batch[-1].seq, SHOWN_AT_MOST)
    return Waited(
        messages=visibility.all_seen_by(caller, found),
        current_seq=thread.thread.current_seq,
        timed_out=not found,
        reply_token=new_reply_token(caller.acting_agent),
    )


def _begin(change: Change, caller: Caller, ask: WaitForMessages) -> Agent | None:
    """Others can see who is waiting, and where."""
    if ask.agent_id and (ask.token or caller.acting_agent):
        agent: Agent | None = identity.must_be(change, caller, ask.agent_id, ask.token)
    else:
        agent = identity.me(change, caller)
    if agent:
        sign_of_life(change, agent, "msg_wait")
        agents.touch(change, agent, "msg_wait", waiting_in=ask.thread_id)
    return agent


def _end(change: Change, agent: Agent) -> None:
    agents.touch(change, agent, "msg_wait")
