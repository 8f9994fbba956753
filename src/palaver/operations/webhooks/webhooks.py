"""Operations on webhooks: add, list, test, enable and remove them, and see what they sent."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field

from palaver.errors import Refused
from palaver.model.answers import answer_of
from palaver.model.events import ChangeType, Event
from palaver.model.ids import new_id
from palaver.model.people import Caller
from palaver.model.requests import Id, Line, NoArguments, NotBlank, Request, Trimmed
from palaver.operations.library import web_fetch
from palaver.operations.operation import Command, Route, operation
from palaver.operations.webhooks import sending
from palaver.store.admin import tokens
from palaver.store.bus import webhooks
from palaver.store.bus.webhooks import KEY_PREFIX, Webhook, WebhookCall
from palaver.store.engines.database import Change, Reader
from palaver.store.workspaces import Workspace

COLUMNS = ("id", "kind", "name", "url", "topic", "events", "failing_since", "disabled")


class AddWebhook(Request):
    target_url: Line
    """Where to send events to (http or https)."""
    thread_id: Id | None = None
    """Only events of this thread: its id or topic."""
    event: Annotated[list[ChangeType], Field(min_length=1, max_length=50)] = Field(default=["msg.new"])
    """Kinds of events to send."""
    from_webhooks: bool = False
    """Also send messages that incoming webhooks posted. Leave it off if the receiver posts back."""


@dataclass(frozen=True, slots=True)
class NewWebhook(Webhook):
    """A new webhook with what is shown only here: its secret, and in `url` the address that takes messages."""

    secret: str = ""


@operation(
    Route("POST", "/api/webhooks", status=201, also={"url": "target_url", "events": "event"}),
    Command("webhook add", takes=("target_url",), columns=("id", "url", "topic", "events", "secret")),
    audited="workspace",
)
async def add_webhook(workspace: Workspace, caller: Caller, request: AddWebhook) -> NewWebhook:
    """Send events to a URL as they happen, signed with a secret that is shown only in this answer."""
    url = web_fetch.normalize(request.target_url)
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    await web_fetch.addresses(parts.hostname or "", port, workspace.settings.fetch_hosts)
    given: dict[str, Any] = {"kind": "out", "owner": caller.owner, "url": url, "secret": sending.new_secret()}
    given |= {"events": list(dict.fromkeys(request.event)), "from_webhooks": request.from_webhooks}
    made = await workspace.change(lambda change: webhooks.add(change, request.thread_id, **given))
    if workspace.keyring:
        await workspace.keyring.note_webhooks()
    return answer_of(NewWebhook, made)


class AddIncomingWebhook(Request):
    thread_id: Id
    """Thread for the messages: its id or topic."""
    kind: Literal["form", "github"] = "form"
    """form takes {"text", "author"}; github takes what GitHub sends."""
    name: Annotated[Line, Field(max_length=80), NotBlank, Trimmed] | None = None
    """Name for the author of the messages. Default: GitHub, or Webhook."""


@operation(
    Route("POST", "/api/webhooks/incoming", status=201),
    Command("webhook in", takes=("thread_id",), columns=("id", "kind", "name", "topic", "url", "secret")),
    audited="workspace",
)
async def add_incoming_webhook(workspace: Workspace, caller: Caller, request: AddIncomingWebhook) -> NewWebhook:
    """Create an address that posts in a thread what is sent to it. Address and secret are shown only in this answer."""
    key, name = tokens.mint(KEY_PREFIX), request.name or ("GitHub" if request.kind == "github" else "Webhook")
    given: dict[str, Any] = {"kind": request.kind, "owner": caller.owner, "name": name}
    given |= {"secret": secrets.token_urlsafe(30), "key_hash": tokens.hash_of(key)}
    made = await workspace.change(lambda change: webhooks.add(change, request.thread_id, **given))
    return replace(answer_of(NewWebhook, made), url=f"{workspace.settings.base_url}/hooks/{workspace.name}/{key}")


@operation(Route("GET", "/api/webhooks"), Command("webhook list", columns=COLUMNS))
def list_webhooks(read: Reader, caller: Caller, request: NoArguments) -> list[Webhook]:
    """List the webhooks of your workspace, and which of them fail. Secrets are never shown."""
    return [answer_of(Webhook, one) for one in webhooks.everyone(read)]


class OneWebhook(Request):
    webhook_id: Id
    """Id of the webhook."""


@operation(
    Route("DELETE", "/api/webhooks/{webhook_id}"), Command("webhook remove", takes=("webhook_id",), columns=COLUMNS)
)
def delete_webhook(change: Change, caller: Caller, request: OneWebhook) -> Webhook:
    """Remove a webhook. Nothing more is sent, and its address takes no more messages."""
    webhook = webhooks.must_exist(change, request.webhook_id)
    webhooks.remove(change, webhook.id)
    return answer_of(Webhook, webhook)


@operation(
    Route("POST", "/api/webhooks/{webhook_id}/enable"),
    Command("webhook enable", takes=("webhook_id",), columns=COLUMNS),
    audited="workspace",
)
def enable_webhook(change: Change, caller: Caller, request: OneWebhook) -> Webhook:
    """Send again to a webhook that failed or was disabled, at once, with all that it missed."""
    webhook = webhooks.must_exist(change, request.webhook_id)
    enabled = replace(webhook, disabled=None, attempts=0, failing_since=None, next_at=None)
    webhooks.change_state(change, webhook, enabled)
    return answer_of(Webhook, enabled)


@operation(Route("POST", "/api/webhooks/{webhook_id}/test"), Command("webhook test", takes=("webhook_id",)))
async def test_webhook(workspace: Workspace, caller: Caller, request: OneWebhook) -> WebhookCall:
    """Send a test event now, once, and show how the receiver answers."""
    webhook = await workspace.read(partial(webhooks.must_exist, id=request.webhook_id))
    if webhook.kind != "out":
        raise Refused("This webhook takes messages and sends none. Send it one to test it.")
    event = Event("webhook.test", webhook.thread_id, b"{}")
    call = await sending.send(workspace, replace(webhook, attempts=0), f"test_{new_id()}", event)
    await workspace.change(partial(webhooks.note, webhook_id=webhook.id, call=call))
    return call


@operation(
    Route("GET", "/api/webhooks/{webhook_id}/calls"),
    Command("webhook log", takes=("webhook_id",), columns=("at", "event", "id", "attempts", "status", "problem")),
)
def list_webhook_calls(read: Reader, caller: Caller, request: OneWebhook) -> list[WebhookCall]:
    """List the latest 200 events that a webhook sent in the last seven days, newest first, with failures."""
    return webhooks.calls(read, webhooks.must_exist(read, request.webhook_id).id)
