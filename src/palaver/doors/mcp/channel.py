"""`palaver mcp --channel`: what is said to the agent of the connection reaches Claude Code as a channel notification.

Claude Code answers no notification, so a message counts as read when it is written, but stays news in catch_up until
the agent has read the thread, answered or reacted.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

from mcp.server.session import ServerSession
from mcp_types import JSONRPCNotification

from palaver.doors.authentication import Requester
from palaver.errors import PalaverError, Unavailable
from palaver.model.ids import new_id
from palaver.operations import identity
from palaver.operations.bus import resources
from palaver.operations.catchup.hooks import HookEvent, report_hook
from palaver.operations.catchup.wake import WaitForWake, wait_for_wake

CAPABILITY = "claude/channel"
METHOD = "notifications/claude/channel"
AGENTS = "chat://agents/active"
INSTRUCTIONS = (
    ' Messages to you arrive as <channel source="palaver">: answer with msg_post in the thread they begin with.'
)
START_SECONDS = 2.0
"""Claude Code drops notifications until it has read the lists of a new server."""
PAUSE = 10.0
"""How long to wait for a database that is away."""


async def push(requester: Requester, pid: int, client: ServerSession) -> None:
    """Notify the client of messages to its agent, whichever that is at the time, until this is cancelled."""
    workspace, caller, about = requester.workspace, requester.caller, requester.caller.client
    told = {"client": about.program or "mcp", "session": new_id(), "pid": pid, "project": about.project or None}
    agent_id, waiting = None, None
    await asyncio.sleep(START_SECONDS)
    try:
        await wait_for_wake.must_be_allowed(workspace, caller)
        if caller.session.slug:
            await workspace.change(lambda change: identity.must_be_agent(change, caller))
        async for _ in resources.changes(workspace, caller, {AGENTS}):
            found = await workspace.read(lambda read: identity.resolve(read, caller, identity.Credentials()))
            if found.acting_agent and found.acting_agent != agent_id:
                if waiting:
                    waiting.cancel()
                agent_id = found.acting_agent
                own = Requester(workspace, replace(caller, agent_id=agent_id))
                waiting = asyncio.create_task(_push_to(own, told, client))
    except PalaverError:
        if waiting:
            await waiting
    finally:
        if waiting:
            waiting.cancel()
            with suppress(PalaverError):
                await report_hook.perform(workspace, caller, HookEvent.model_validate({**told, "event": "session-end"}))


async def _push_to(requester: Requester, told: dict[str, Any], client: ServerSession) -> None:
    confirmed: list[str | None] = []
    with suppress(PalaverError):
        while True:
            try:
                request = WaitForWake.model_validate({**told, "confirmed": confirmed})
                said = await wait_for_wake.perform(requester.workspace, requester.caller, request)
            except Unavailable:
                await asyncio.sleep(PAUSE)
                continue
            if not said.text:
                return
            params = {"content": said.text, "meta": {"agent": said.agent}}
            await client.send_notification(cast(Any, JSONRPCNotification(jsonrpc="2.0", method=METHOD, params=params)))
            confirmed = [said.delivery]
