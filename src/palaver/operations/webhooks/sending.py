"""Send events to webhooks, signed as https://www.standardwebhooks.com says.

Each webhook gets its events in the order of the log, one at a time. The position in the log is stored after the
receiver has accepted an event. After a crash between the two the event is sent again, with the same id. A lease keeps
the servers of one database from sending the same event.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import logging
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
from palaver.model.times import now
from palaver.operations.library import web_fetch
from palaver.operations.webhooks.receiving import has_owner, post
from palaver.store.bus import threads, webhooks
from palaver.store.bus.feed import FeedClosed
from palaver.store.bus.webhooks import StoredWebhook, WebhookCall
from palaver.store.engines.database import Reader
from palaver.store.workspaces import Workspace

ANSWER_SECONDS = 10.0
"""How long a receiver may take to accept an event."""
LEASE_SECONDS = 20.0
"""After this time another server may send an event whose server has stopped."""
LOOK_SECONDS = 5.0
"""How often the server looks for webhooks that were added, and for those of a server that has stopped."""
QUIET_SECONDS = 60.0
"""How often a webhook is looked at while nothing happens."""
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 3600.0
"""Seconds until the second attempt; the pause doubles each time, up to an hour."""
DISABLE_AFTER, FEWEST_ATTEMPTS = timedelta(days=5), 20
"""A webhook that has accepted nothing for this long, at so many attempts, is disabled."""
LONGEST = 256 * 1024
"""The payload of a larger event is cut."""
CUT_TO = 20_000
"""Characters of the text in a payload that is cut."""
GONE = 410
"""With this status a receiver says that it wants no more."""
PREFIX = "whsec_"
NO_OWNER = "Its owner has no valid token any more."

log = logging.getLogger("palaver")


def new_secret() -> str:
    return PREFIX + base64.b64encode(secrets.token_bytes(24)).decode()


def signature(secret: str, id: str, at: int, body: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(PREFIX))
    signed = hmac.new(key, f"{id}.{at}.".encode() + body, hashlib.sha256)
    return "v1," + base64.b64encode(signed.digest()).decode()


def body_of(event: Event, here: Workspace, topic: str | None) -> bytes:
    """An event as receivers get it: as in the event stream, for people."""
    data = orjson.loads(event.payload)
    if len(event.payload) > LONGEST:
        data |= {"content": str(data.get("content", ""))[:CUT_TO], "metadata": None, "is_cut": True}
    at = data.get("edited_at") or data.get("created_at") or now()
    about = {"event_id": event.id, "workspace": here.name, "topic": topic}
    return encode({"type": event.type, "timestamp": at, **about, "data": data})


async def send(here: Workspace, webhook: StoredWebhook, id: str, body: bytes) -> tuple[int | None, str | None]:
    """Send one body. Returns the status of the answer, and what went wrong."""
    at = int(now().timestamp())
    headers = {"webhook-id": id, "webhook-timestamp": str(at), "content-type": "application/json"}
    headers["webhook-signature"] = signature(webhook.secret, id, at, body)
    hosts, sent = here.settings.fetch_hosts, web_fetch.Sent(body, headers)
    try:
        async with (
            asyncio.timeout(ANSWER_SECONDS),
            web_fetch.request(webhook.url, hosts, accept="*/*", seconds=ANSWER_SECONDS, sent=sent) as response,
        ):
            status = response.status
    except TimeoutError:
        return None, f"The receiver took longer than {ANSWER_SECONDS:.0f} seconds."
    except Refused as problem:
        return None, explained(problem)
    return status, None if 200 <= status < 300 else f"The receiver answered with status {status}."


def explained(problem: Refused) -> str:
    if problem.message != web_fetch.NOT_PUBLIC:
        return problem.message
    return "This address does not lead to a public host. PALAVER_FETCH_HOSTS can allow hosts of your own network."


async def must_be_reachable(here: Workspace, url: str) -> str:
    """The URL in its usual form. Refuses addresses to which nothing will be sent."""
    url = web_fetch.normalize(url)
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    own = {name.lower() for name in here.settings.fetch_hosts}
    try:
        await web_fetch.addresses(host, port, is_own=bool(own & {host, f"{host}:{port}"}))
    except Refused as problem:
        raise Refused(explained(problem)) from None
    return url


def pause(attempts: int) -> timedelta:
    """Until the next attempt, with jitter: receivers that were away are not overrun when they are back."""
    return timedelta(seconds=min(FIRST_PAUSE * 2.0 ** min(attempts - 1, 20), LONGEST_PAUSE) * random.uniform(0.5, 1.0))


def after_attempt(webhook: StoredWebhook, event: Event, status: int | None, problem: str | None) -> StoredWebhook:
    if problem is None:
        return replace(webhook, position=event.id, attempts=0, failing_since=None, next_at=None)
    at, attempts = now(), webhook.attempts + 1
    since = webhook.failing_since or at
    is_late = at - since >= DISABLE_AFTER and attempts >= FEWEST_ATTEMPTS
    is_over = is_late or status == GONE or problem == NO_OWNER
    disabled = f"{problem} It has accepted nothing since {since:%Y-%m-%d}." if is_over else None
    return replace(webhook, attempts=attempts, failing_since=since, next_at=at + pause(attempts), disabled=disabled)


async def send_next(here: Workspace, id: str) -> float | None:
    """Send the next event of a webhook. Returns how many seconds to wait for another; None: the webhook has ended."""

    def look(read: Reader) -> tuple[StoredWebhook, Event | None, int, bool, str | None] | None:
        webhook = webhooks.find(read, id)
        if webhook is None or webhook.disabled:
            return None
        event, upto, has_more = webhooks.next_event(read, webhook)
        thread = threads.find(read, event.thread_id) if event and event.thread_id else None
        return webhook, event, upto, has_more, thread.thread.topic if thread else None

    found = await here.read(look)
    if found is None:
        return None
    webhook, event, upto, has_more, topic = found
    if event is None:
        if has_more or upto - webhook.position >= here.settings.keep_events // 4:
            await here.change(partial(webhooks.move, webhook=webhook, position=upto))
        return 0.0 if has_more else QUIET_SECONDS
    left = (webhook.next_at - now()).total_seconds() if webhook.next_at else 0.0
    if 0 < left <= LONGEST_PAUSE:  # a longer one comes from a clock that was wrong
        return min(left, QUIET_SECONDS)
    lease = await here.change(partial(webhooks.take_lease, webhook=webhook, seconds=LEASE_SECONDS))
    if lease is None:
        return LOOK_SECONDS
    name = f"{'reset' if event.type == 'reset' else 'evt'}_{webhook.id}_{event.id}"
    may_send = await has_owner(here, webhook)
    body = body_of(event, here, topic)
    status, problem = await send(here, webhook, name, body) if may_send else (None, NO_OWNER)
    after = after_attempt(webhook, event, status, problem)
    call = WebhookCall(name, event.type, now(), webhook.attempts + 1, status, problem)
    is_ours = await here.change(partial(webhooks.end_lease, webhook=after, lease=lease, call=call))
    if is_ours and after.disabled:
        await _tell_that_it_ended(here, after)
    return 0.0


async def _tell_that_it_ended(here: Workspace, webhook: StoredWebhook) -> None:
    """Tell in the thread of the webhook, in the audit log and in the server log. The path of a URL may be secret."""
    host = urlsplit(webhook.url).hostname
    log.warning("webhook %s of workspace %s, to %s, is disabled: %s", webhook.id, here.name, host, webhook.disabled)
    if here.keyring:
        await here.keyring.note("upkeep", "palaver", "disable_webhook", {"webhook_id": webhook.id})
    said = f"The webhook to {host} is disabled. {webhook.disabled} To go on: palaver webhook enable {webhook.id}"
    with suppress(PalaverError):  # the thread was closed or deleted
        await here.change(partial(post, webhook=webhook, author="palaver", content=said, notifies_owner=True))


async def _follow(here: Workspace, webhook_id: str, thread_id: str | None) -> None:
    """Send the events of a webhook as they happen, until it is removed or disabled."""
    with suppress(FeedClosed):
        async with here.feed(thread_id=thread_id) as listener:
            while (seconds := await send_next(here, webhook_id)) is not None:
                if seconds:
                    await listener.next(seconds)


async def send_forever(workspaces: Callable[[], list[Workspace]]) -> None:
    """Send the events of all webhooks of the open workspaces, each in a task of its own."""
    tasks = dict[tuple[str, str], asyncio.Task[None]]()
    try:
        while True:
            for here in workspaces():
                try:
                    known = await here.read(webhooks.everyone)
                except PalaverError:  # the database is away
                    continue
                for one in known:
                    task = tasks.get((here.name, one.id))
                    if task and task.done() and not task.cancelled() and (problem := task.exception()):
                        log.warning("sending to webhook %s of workspace %s failed: %s", one.id, here.name, problem)
                    if one.kind == "out" and not one.disabled and (task is None or task.done()):
                        tasks[here.name, one.id] = asyncio.create_task(_follow(here, one.id, one.thread_id))
            await asyncio.sleep(LOOK_SECONDS)
    finally:
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
