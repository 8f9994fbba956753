"""Send events to webhooks, signed as https://www.standardwebhooks.com says.

Each webhook gets its events in the order of the log, one at a time. The position in the log is stored after the
receiver has accepted an event. After a crash between the two the event is sent again, with the same id. Before it
sends, a server stores when the next attempt is due, so no other server of the database sends the same event.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import random
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from urllib.parse import urlsplit

import orjson

from palaver.errors import PalaverError, Refused
from palaver.model.events import Event, encode
from palaver.model.messages import TRACEPARENT
from palaver.model.times import now
from palaver.operations.library import web_fetch
from palaver.operations.webhooks.receiving import has_owner, post
from palaver.store.bus import threads, webhooks
from palaver.store.bus.feed import FeedClosed
from palaver.store.bus.webhooks import StoredWebhook, WebhookCall
from palaver.store.workspaces import Workspace

ANSWER_SECONDS, LEASE_SECONDS = 10.0, 20.0
"""How long a receiver may take to accept an event, and after which time an event of a stopped server is sent again."""
LOOK_SECONDS, QUIET_SECONDS = 5.0, 60.0
"""How often to look for webhooks that were added, and at a webhook while nothing happens."""
FIRST_PAUSE, LONGEST_PAUSE, MOST_ATTEMPTS = 5.0, 3600.0, 170
"""Seconds until the second attempt; the pause doubles each time, up to an hour. The last is after about five days."""
LONGEST, CUT_TO = 256 * 1024, 20_000
"""The text of an event with a longer payload is cut to this many characters."""
PREFIX = "whsec_"
NO_OWNER = "Its owner has no valid token any more."


def new_secret() -> str:
    return PREFIX + base64.b64encode(secrets.token_bytes(24)).decode()


def signature(secret: str, id: str, at: int, body: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(PREFIX))
    signed = hmac.digest(key, f"{id}.{at}.".encode() + body, hashlib.sha256)
    return "v1," + base64.b64encode(signed).decode()


async def send(here: Workspace, webhook: StoredWebhook, id: str, event: Event) -> WebhookCall:
    """Send an event once, with the data that people get in the event stream."""
    at, data = now(), orjson.loads(event.payload)
    if len(event.payload) > LONGEST:
        data |= {"content": str(data.get("content", ""))[:CUT_TO], "metadata": None, "is_cut": True}
    happened = data.get("edited_at") or data.get("created_at") or at
    thread = await here.read(partial(threads.find, thread_id=event.thread_id)) if event.thread_id else None
    about = {"event_id": event.id, "workspace": here.name, "topic": thread.thread.topic if thread else None}
    body = encode({"type": event.type, "timestamp": happened, **about, "data": data})
    seconds = int(at.timestamp())
    headers = {"webhook-id": id, "webhook-timestamp": str(seconds), "content-type": "application/json"}
    headers["webhook-signature"] = signature(webhook.secret, id, seconds, body)
    trace = str((data.get("metadata") or {}).get("traceparent"))
    headers |= {"traceparent": trace} if TRACEPARENT.fullmatch(trace) else {}
    status, problem = None, None
    try:
        if not await has_owner(here, webhook):
            raise Refused(NO_OWNER)
        async with asyncio.timeout(ANSWER_SECONDS):
            hosts = here.settings.fetch_hosts
            async with web_fetch.request(webhook.url, hosts, seconds=ANSWER_SECONDS, sent=body, **headers) as response:
                status = response.status
        if not 200 <= status < 300:
            raise Refused(f"The receiver answered with status {status}.")
    except TimeoutError:
        problem = f"The receiver took longer than {ANSWER_SECONDS:.0f} seconds."
    except Refused as refused:
        problem = refused.message
    return WebhookCall(id, event.type, now(), webhook.attempts + 1, status, problem)


def after_attempt(webhook: StoredWebhook, event: Event, call: WebhookCall) -> StoredWebhook:
    """A webhook after an attempt. Pauses vary, so that a receiver that is back does not get everything at once."""
    if call.problem is None:
        return replace(webhook, position=event.id, attempts=0, failing_since=None, next_at=None)
    pause = min(FIRST_PAUSE * 2.0 ** min(webhook.attempts, 20), LONGEST_PAUSE) * random.uniform(0.5, 1.0)
    next_at, since = call.at + timedelta(seconds=pause), webhook.failing_since or call.at
    is_over = call.attempts >= MOST_ATTEMPTS or call.status == 410 or call.problem == NO_OWNER  # 410: wants no more
    disabled = call.problem if is_over else None
    return replace(webhook, attempts=call.attempts, failing_since=since, next_at=next_at, disabled=disabled)


async def send_next(here: Workspace, id: str) -> float | None:
    """Send the next event of a webhook. Returns how many seconds to wait for another; None: the webhook has ended."""
    if (found := await here.read(partial(webhooks.next_event, id=id))) is None:
        return None
    webhook, event, upto, has_more = found
    if event is None:
        if has_more or upto - webhook.position >= here.settings.keep_events // 4:
            await here.change(partial(webhooks.change_state, before=webhook, after=replace(webhook, position=upto)))
        return 0.0 if has_more else QUIET_SECONDS
    left = (webhook.next_at - now()).total_seconds() if webhook.next_at else 0.0
    if 0 < left <= LONGEST_PAUSE:  # a longer one comes from a clock that was wrong
        return min(left, QUIET_SECONDS)
    mine = replace(webhook, next_at=now() + timedelta(seconds=LEASE_SECONDS))
    if not await here.change(partial(webhooks.change_state, before=webhook, after=mine)):
        return 0.0
    call = await send(here, webhook, f"{'reset' if event.type == 'reset' else 'evt'}_{id}_{event.id}", event)
    after = after_attempt(webhook, event, call)
    is_ours = await here.change(partial(webhooks.change_state, before=mine, after=after, call=call))
    if is_ours and after.disabled:
        await _tell_that_it_ended(here, after)
    return 0.0


async def _tell_that_it_ended(here: Workspace, webhook: StoredWebhook) -> None:
    """Tell in the thread of the webhook and in the audit log. The path of a URL may be secret."""
    if here.keyring:
        await here.keyring.note("upkeep", "palaver", "disable_webhook", {"webhook_id": webhook.id})
    host = urlsplit(webhook.url).hostname
    said = f"The webhook to {host} is disabled. {webhook.disabled} To go on: palaver webhook enable {webhook.id}"
    with suppress(PalaverError):  # the thread was closed or deleted
        owner = [webhook.owner.removeprefix("human:")] if webhook.owner else None
        await here.change(partial(post, webhook=webhook, author="palaver", content=said, mentions=owner))


async def _follow(here: Workspace, webhook_id: str, thread_id: str | None) -> None:
    """Send the events of a webhook as they happen, until it is removed or disabled."""
    with suppress(FeedClosed, PalaverError):  # PalaverError: the database is away
        async with here.feed(thread_id=thread_id) as listener:
            while (seconds := await send_next(here, webhook_id)) is not None:
                if seconds:
                    await listener.next(seconds)


async def send_forever(workspaces: Callable[[], list[Workspace]]) -> None:
    """Send the events of all webhooks of the open workspaces, each in a task of its own."""
    tasks = dict[str, asyncio.Task[None]]()
    try:
        while True:
            for here in workspaces():
                with suppress(PalaverError):
                    for one in await here.read(webhooks.everyone):
                        if one.kind == "out" and not one.disabled and (one.id not in tasks or tasks[one.id].done()):
                            tasks[one.id] = asyncio.create_task(_follow(here, one.id, one.thread_id))
            await asyncio.sleep(LOOK_SECONDS)
    finally:
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
