"""Webhooks: where events are sent to, addresses that take messages, and what was sent and received lately."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Literal

from palaver.errors import must_be_found
from palaver.model.events import Event, EventType, reset
from palaver.model.times import micros, now
from palaver.store.admin import tokens
from palaver.store.bus import events
from palaver.store.bus.feed import MOST_BYTES, READ_AT_ONCE
from palaver.store.engines.database import Change, Reader
from palaver.store.rows import from_row, params_of, stored

WebhookKind = Literal["out", "github", "form"]
KEY_PREFIX = "plh_"
"""Begins the secret part of the address of an incoming webhook."""
KEPT = timedelta(days=7)
"""How long a webhook remembers what it sent and received."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook as listed, without its secrets."""

    id: str
    kind: WebhookKind
    """out sends events; github and form take messages."""
    owner: str
    """human:NAME, or empty for one that was added without a token."""
    created_at: datetime
    thread_id: str | None = None
    name: str = ""
    """Name of an incoming webhook. Its messages appear under it."""
    url: str = ""
    """Where an outgoing webhook sends to."""
    events: list[EventType] = field(default_factory=list)
    from_webhooks: bool = False
    attempts: int = 0
    """Failed attempts to send the next event."""
    failing_since: datetime | None = None
    next_at: datetime | None = None
    """When the next event is tried again."""
    disabled: str | None = None
    """Why it is disabled."""
    topic: str | None = None
    """The topic of its thread."""


@dataclass(frozen=True, slots=True)
class StoredWebhook(Webhook):
    secret: str = ""
    key_hash: str | None = None
    position: int = 0
    """The id of the last event that was sent, or that needed no sending."""


@dataclass(frozen=True, slots=True)
class WebhookCall:
    """An event that was sent, or a delivery that was received, at its last attempt."""

    id: str
    event: str
    at: datetime
    attempts: int
    status: int | None
    problem: str | None


def add(change: Change, webhook: StoredWebhook) -> None:
    params = params_of(replace(webhook, position=events.last_id(change)))
    for name in ("attempts", "failing_since", "next_at", "disabled", "topic"):
        del params[name]
    change.run("insert_webhook", **params)


def everyone(read: Reader) -> list[StoredWebhook]:
    return [from_row(StoredWebhook, row) for row in read.all("webhooks")]


def find(read: Reader, id: str) -> StoredWebhook | None:
    row = read.one("webhook", id=id)
    return from_row(StoredWebhook, row) if row else None


def must_exist(read: Reader, id: str) -> StoredWebhook:
    return must_be_found(find(read, id), "webhook", id, "List webhooks to see their ids.")


def with_key(read: Reader, key: str) -> StoredWebhook | None:
    """The incoming webhook with this secret in its address."""
    row = read.one("webhook_by_key", key_hash=tokens.hash_of(key)) if tokens.looks_right(key, KEY_PREFIX) else None
    return from_row(StoredWebhook, row) if row else None


def remove(change: Change, id: str) -> None:
    change.run("delete_webhook", id=id)


def enable(change: Change, webhook: StoredWebhook, *, skip_missed: bool) -> None:
    change.run("enable_webhook", id=webhook.id, position=events.last_id(change) if skip_missed else webhook.position)


# Sending


def next_event(read: Reader, webhook: StoredWebhook) -> tuple[Event | None, int, bool]:
    """The next event to send, up to which event the log was read, and whether there may be more. If the log no longer
    has what follows, the event says so."""
    first, last = events.bounds(read)
    if not first - 1 <= webhook.position <= last:  # events were deleted, or the database is an older one
        gap = reset(first - 1 if webhook.position < first else last)
        return gap, gap.id, True
    batch, has_more = events.batch_after(read, webhook.position, webhook.thread_id, READ_AT_ONCE, MOST_BYTES)
    for event in batch:
        if event.type in webhook.events and (webhook.from_webhooks or not event.is_from_webhook):
            return event, event.id, True
    return None, batch[-1].id if has_more else last, has_more


def move(change: Change, webhook: StoredWebhook, position: int) -> None:
    """Store that there is nothing to send up to this event."""
    change.run("move_webhook", id=webhook.id, before=webhook.position, position=position)


def take_lease(change: Change, webhook: StoredWebhook, seconds: float) -> int | None:
    """The right to send the next event for some seconds, or None if another server has it, or has sent the event."""
    at = micros(now())
    until = at + int(seconds * 1_000_000)
    far = until + 3_600_000_000
    is_ours = change.one("take_webhook_lease", id=webhook.id, position=webhook.position, now=at, until=until, far=far)
    return until if is_ours else None


def end_lease(change: Change, webhook: StoredWebhook, lease: int, call: WebhookCall) -> bool:
    """Store how sending ended, unless another server has taken over meanwhile."""
    names = ("position", "attempts", "failing_since", "next_at", "disabled")
    ended = {name: stored(getattr(webhook, name)) for name in names}
    if is_ours := change.run("end_webhook_lease", id=webhook.id, lease=lease, **ended):
        note_sent(change, webhook.id, call)
    return bool(is_ours)


# What was sent and received


def note_sent(change: Change, webhook_id: str, call: WebhookCall) -> None:
    change.run("put_webhook_call", webhook_id=webhook_id, **params_of(call))


def note_received(change: Change, webhook_id: str, delivery: str, event: str) -> bool:
    """Whether this delivery is received for the first time."""
    given = {"webhook_id": webhook_id, "id": delivery, "event": event}
    return bool(change.run("insert_webhook_call", at=micros(now()), **given))


def calls(read: Reader, webhook_id: str, limit: int, *, failed: bool) -> list[WebhookCall]:
    """The latest first."""
    rows = read.all("webhook_calls", webhook_id=webhook_id, limit=limit, failed=int(failed))
    return [from_row(WebhookCall, row) for row in rows]


def forget_old_calls(change: Change) -> None:
    change.run("forget_webhook_calls", before=micros(now() - KEPT))
