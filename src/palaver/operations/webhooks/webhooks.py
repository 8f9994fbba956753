"""Operations on webhooks: add, list, test, enable and remove them, and see what they sent and received."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import Field

from palaver.errors import Refused
from palaver.model import visibility
from palaver.model.answers import answer_of
from palaver.model.events import EventType, webhook_test
from palaver.model.ids import new_id
from palaver.model.people import Caller
from palaver.model.requests import Id, Line, NoArguments, NotBlank, Request, Trimmed, clamp
from palaver.model.times import now
from palaver.operations.operation import Command, Route, operation
from palaver.operations.webhooks import sending
from palaver.store.admin import tokens
from palaver.store.bus import threads, webhooks
from palaver.store.bus.webhooks import KEY_PREFIX, StoredWebhook, Webhook, WebhookCall, WebhookKind
from palaver.store.engines.database import Change, Reader
from palaver.store.workspaces import Workspace

COLUMNS = ("id", "kind", "name", "url", "topic", "events", "failing_since", "disabled")


class AddWebhook(Request):
    target_url: Line
    """Where to send events to (http or https)."""
    thread_id: Id | None = None
    """Only events of this thread: its id or topic."""
    event: Annotated[list[EventType], Field(min_length=1, max_length=50)] = Field(default=["msg.new"])
    """Kinds of events to send."""
    from_webhooks: bool = False
    """Also send messages that incoming webhooks posted. Leave it off if the receiver posts back."""


@dataclass(frozen=True, slots=True)
class NewWebhook:
    """A new webhook with its secret, which is shown only here."""

    webhook: Webhook
    secret: str
    """Signs what is sent."""
    url: str
    """Where it sends to, or where messages are sent to."""


@operation(
    Route("POST", "/api/webhooks", status=201, also={"url": "target_url", "events": "event"}),
    Command("webhook add", takes=("target_url",)),
    audited="workspace",
)
async def add_webhook(workspace: Workspace, caller: Caller, request: AddWebhook) -> NewWebhook:
    """Send events to a URL as they happen, signed with a secret that is shown only in this answer."""
    visibility.must_be_person(caller)
    url = await sending.must_be_reachable(workspace, request.target_url)
    secret = sending.new_secret()
    given = {"events": list(dict.fromkeys(request.event)), "from_webhooks": request.from_webhooks}
    made = await _add(workspace, caller, "out", request.thread_id, url=url, secret=secret, **given)
    if workspace.keyring:
        await workspace.keyring.note_webhooks()
    return NewWebhook(made, secret, url)


class AddIncomingWebhook(Request):
    thread_id: Id
    """Thread for the messages: its id or topic."""
    kind: Literal["form", "github"] = "form"
    """form takes {"text", "author"}; github takes what GitHub sends."""
    name: Annotated[Line, Field(max_length=80), NotBlank, Trimmed] | None = None
    """Name for the author of the messages. Default: GitHub, or Webhook."""


@operation(
    Route("POST", "/api/webhooks/incoming", status=201),
    Command("webhook in", takes=("thread_id",)),
    audited="workspace",
)
async def add_incoming_webhook(workspace: Workspace, caller: Caller, request: AddIncomingWebhook) -> NewWebhook:
    """Create an address that posts in a thread what is sent to it. Address and secret are shown only in this answer."""
    visibility.must_be_person(caller)
    key, secret = tokens.mint(KEY_PREFIX), secrets.token_urlsafe(30)
    name = request.name or ("GitHub" if request.kind == "github" else "Webhook")
    given = {"name": name, "secret": secret, "key_hash": tokens.hash_of(key)}
    made = await _add(workspace, caller, request.kind, request.thread_id, **given)
    return NewWebhook(made, secret, f"{workspace.settings.base_url}/hooks/{workspace.name}/{key}")


async def _add(here: Workspace, caller: Caller, kind: WebhookKind, thread_id: str | None, **given: Any) -> Webhook:
    def work(change: Change) -> Webhook:
        thread = threads.must_exist(change, thread_id).thread if thread_id else None
        made = StoredWebhook(new_id(), kind, caller.owner, now(), thread.id if thread else None, **given)
        webhooks.add(change, made)
        return _shown(change, made)

    return await here.change(work)


def _shown(read: Reader, webhook: StoredWebhook) -> Webhook:
    thread = threads.find(read, webhook.thread_id) if webhook.thread_id else None
    return answer_of(Webhook, webhook, topic=thread.thread.topic if thread else None)


@operation(Route("GET", "/api/webhooks"), Command("webhook list", columns=COLUMNS))
def list_webhooks(read: Reader, caller: Caller, request: NoArguments) -> list[Webhook]:
    """List the webhooks of your workspace, and which of them fail. Secrets are never shown."""
    visibility.must_be_person(caller)
    return [_shown(read, one) for one in webhooks.everyone(read)]


class OneWebhook(Request):
    webhook_id: Id
    """Id of the webhook."""


@operation(
    Route("DELETE", "/api/webhooks/{webhook_id}"), Command("webhook remove", takes=("webhook_id",), columns=COLUMNS)
)
def delete_webhook(change: Change, caller: Caller, request: OneWebhook) -> Webhook:
    """Remove a webhook. Nothing more is sent, and its address takes no more messages."""
    visibility.must_be_person(caller)
    webhook = webhooks.must_exist(change, request.webhook_id)
    webhooks.remove(change, webhook.id)
    return _shown(change, webhook)


class EnableWebhook(OneWebhook):
    skip_missed: bool = False
    """Begin with the next new event. Default: first send all that it missed."""


@operation(
    Route("POST", "/api/webhooks/{webhook_id}/enable"),
    Command("webhook enable", takes=("webhook_id",), columns=COLUMNS),
    audited="workspace",
)
def enable_webhook(change: Change, caller: Caller, request: EnableWebhook) -> Webhook:
    """Send again to a webhook that failed or was disabled, at once."""
    visibility.must_be_person(caller)
    webhook = webhooks.must_exist(change, request.webhook_id)
    webhooks.enable(change, webhook, skip_missed=request.skip_missed)
    return _shown(change, webhooks.must_exist(change, webhook.id))


@operation(Route("POST", "/api/webhooks/{webhook_id}/test"), Command("webhook test", takes=("webhook_id",)))
async def test_webhook(workspace: Workspace, caller: Caller, request: OneWebhook) -> WebhookCall:
    """Send a test event now, once, and show how the receiver answers."""
    visibility.must_be_person(caller)
    webhook = await workspace.read(partial(webhooks.must_exist, id=request.webhook_id))
    if webhook.kind != "out":
        raise Refused("This webhook takes messages and sends none. Send it one to test it.")
    event, id = webhook_test(webhook.thread_id), f"test_{new_id()}"
    status, problem = await sending.send(workspace, webhook, id, sending.body_of(event, workspace, None))
    call = WebhookCall(id, event.type, now(), 1, status, problem)
    await workspace.change(partial(webhooks.note_sent, webhook_id=webhook.id, call=call))
    return call


class ListWebhookCalls(OneWebhook):
    failed: bool = False
    """Only events whose last attempt failed."""
    limit: Annotated[int, clamp(1, 1000)] = 50
    """Maximum number of entries."""


@operation(
    Route("GET", "/api/webhooks/{webhook_id}/calls"),
    Command("webhook log", takes=("webhook_id",), columns=("at", "event", "id", "attempts", "status", "problem")),
)
def list_webhook_calls(read: Reader, caller: Caller, request: ListWebhookCalls) -> list[WebhookCall]:
    """List what a webhook sent or received in the last seven days, newest first, with failures."""
    visibility.must_be_person(caller)
    webhook = webhooks.must_exist(read, request.webhook_id)
    return webhooks.calls(read, webhook.id, request.limit, failed=request.failed)
