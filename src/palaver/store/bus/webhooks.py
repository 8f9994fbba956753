"""Webhooks: where events are sent to, addresses that take messages, and what was sent lately."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from palaver.errors import must_be_found
from palaver.model.events import ChangeType, Event, reset
from palaver.model.ids import new_id
from palaver.model.times import micros, now
from palaver.store.admin import tokens
from palaver.store.bus import events, threads
from palaver.store.bus.feed import MOST_BYTES, READ_AT_ONCE
from palaver.store.engines.database import Change, Reader
from palaver.store.rows import from_row, params_of

KEY_PREFIX = "plh_"
"""Begins the secret part of the address of an incoming webhook."""
KEPT = timedelta(days=7)
"""How long a webhook remembers what it sent."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook as listed, without its secrets."""

    id: str
    kind: Literal["out", "github", "form"]
    """out sends events; github and form take messages."""
    owner: str
    """human:NAME, or empty for one that was added without a token."""
    created_at: datetime
    thread_id: str | None = None
    topic: str | None = None
    """The topic of its thread."""
    name: str = ""
    """Name of an incoming webhook. Its messages appear under it."""
    url: str = ""
    """Where an outgoing webhook sends to."""
    events: list[ChangeType] = field(default_factory=list)
    from_webhooks: bool = False
    attempts: int = 0
    """Failed attempts to send the next event."""
    failing_since: datetime | None = None
    next_at: datetime | None = None
    """When the next event is tried again."""
    disabled: str | None = None
    """Why it is disabled."""


@dataclass(frozen=True, slots=True)
class StoredWebhook(Webhook):
    secret: str = ""
    key_hash: str | None = None
    position: int = 0
    """The id of the last event that was sent, or that needed no sending."""


@dataclass(frozen=True, slots=True)
class WebhookCall:
    """An event that was sent, at its last attempt."""

    id: str
    event: str
    at: datetime
    attempts: int
    status: int | None
    problem: str | None


def add(change: Change, thread: str | None, **given: Any) -> StoredWebhook:
    """Add a webhook of all threads, or of the one with this id or topic. It begins with the next event."""
    thread_id = threads.must_exist(change, thread).thread.id if thread else None
    position = events.last_id(change)
    webhook = StoredWebhook(id=new_id(), created_at=now(), thread_id=thread_id, position=position, **given)
    change.run("insert_webhook", **params_of(webhook))
    return must_exist(change, webhook.id)


def everyone(read: Reader) -> list[StoredWebhook]:
    return [from_row(StoredWebhook, row) for row in read.all("webhooks")]


def find(read: Reader, id: str) -> StoredWebhook | None:
    return next((one for one in everyone(read) if one.id == id), None)


def must_exist(read: Reader, id: str) -> StoredWebhook:
    return must_be_found(find(read, id), "webhook", id, "List webhooks to see their ids.")


def with_key(read: Reader, key: str) -> StoredWebhook | None:
    """The incoming webhook with this secret in its address."""
    hash = tokens.hash_of(key) if tokens.looks_right(key, KEY_PREFIX) else ""
    return next((one for one in everyone(read) if one.key_hash == hash), None)


def remove(change: Change, id: str) -> None:
    change.run("delete_webhook", id=id)


def next_event(read: Reader, id: str) -> tuple[StoredWebhook, Event | None, int, bool] | None:
    """A webhook, its next event, up to which event the log was read, and whether there may be more. If the log no
    longer has what follows, the event says so. None: the webhook sends nothing any more."""
    webhook = find(read, id)
    if webhook is None or webhook.disabled:
        return None
    first, last = events.bounds(read)
    if not first - 1 <= webhook.position <= last:  # events were deleted, or the database is an older one
        gap = reset(first - 1 if webhook.position < first else last)
        return webhook, gap, gap.id, True
    batch, has_more = events.batch_after(read, webhook.position, webhook.thread_id, READ_AT_ONCE, MOST_BYTES)
    for event in batch:
        if event.type in webhook.events and (webhook.from_webhooks or not event.is_from_webhook):
            return webhook, event, event.id, True
    return webhook, None, batch[-1].id if has_more else last, has_more


def change_state(change: Change, before: StoredWebhook, after: StoredWebhook, call: WebhookCall | None = None) -> bool:
    """Store how far a webhook is, unless another server has done so meanwhile, and what it sent."""
    known = {"was_at": before.position, "was_next": micros(before.next_at) if before.next_at else 0}
    is_ours = change.run("change_webhook", **params_of(after), **known) > 0
    if is_ours and call:
        note(change, after.id, call)
    return is_ours


def note(change: Change, webhook_id: str, call: WebhookCall) -> None:
    change.run("put_webhook_call", webhook_id=webhook_id, **params_of(call))


def calls(read: Reader, webhook_id: str) -> list[WebhookCall]:
    """The latest first."""
    return [from_row(WebhookCall, row) for row in read.all("webhook_calls", webhook_id=webhook_id)]


def forget_old_calls(change: Change) -> None:
    change.run("forget_webhook_calls", before=micros(now() - KEPT))
