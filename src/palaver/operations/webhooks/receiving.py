"""Messages that come in through webhooks: as plain JSON or a form, or from GitHub."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

import orjson

from palaver.errors import Forbidden, Refused
from palaver.model.people import Caller
from palaver.model.requests import read
from palaver.operations.bus.messages import PostedMessage, PostMessage, post_message
from palaver.operations.bus.threads import CreateThread, open_thread
from palaver.operations.webhooks import github
from palaver.store.admin import tokens
from palaver.store.bus import names, webhooks
from palaver.store.bus.webhooks import StoredWebhook
from palaver.store.engines.database import Change
from palaver.store.workspaces import Workspace

NOTICES = "Webhooks"
"""The topic of the thread with notices about webhooks that have no thread."""
SIGNATURE = "x-hub-signature-256"
DELIVERIES = ("x-github-delivery", "webhook-id", "idempotency-key")
"""Headers with the id of a delivery. One that comes again is not posted again."""
WRONG = "The signature is wrong or missing. Send X-Hub-Signature-256, made with the secret of this webhook."
LONGEST_AUTHOR = 80


async def find(here: Workspace, key: str) -> StoredWebhook | None:
    """The webhook with this secret in its address. None if its owner may not use it any more."""
    webhook = await here.read(partial(webhooks.with_key, key=key))
    return webhook if webhook and await has_owner(here, webhook) else None


async def has_owner(here: Workspace, webhook: StoredWebhook) -> bool:
    """Whether the person of a webhook still has a token of an admin."""
    if not webhook.owner or here.keyring is None:
        return True
    mine = [one for one in await here.keyring.tokens() if one.kind == "human" and f"human:{one.name}" == webhook.owner]
    return any("admin" in one.scopes and not tokens.has_expired(one) for one in mine)


def must_be_signed(webhook: StoredWebhook, headers: Mapping[str, str], body: bytes) -> None:
    """Check the signature. GitHub always signs; a form may, and is known by the secret in its address."""
    given = headers.get(SIGNATURE)
    if given is None and webhook.kind == "form":
        return
    expected = "sha256=" + hmac.new(webhook.secret.encode(), body, hashlib.sha256).hexdigest()
    if not hmac.compare_digest(expected.encode(), (given or "").encode()):
        raise Forbidden(WRONG)


def fields_of(headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """The fields of a JSON object or a form. GitHub and others put the object into the field `payload` of a form."""
    try:
        if "form-urlencoded" in headers.get("content-type", ""):
            form = dict(parse_qsl(body.decode(), max_num_fields=100))
            given = orjson.loads(form["payload"]) if "payload" in form else form
        else:
            given = orjson.loads(body)
    except ValueError:
        given = None
    if not isinstance(given, dict):
        raise Refused('The body is not readable. Send a JSON object or a form, for example {"text": "Hello"}.')
    return given


def receive(
    change: Change, webhook: StoredWebhook, headers: Mapping[str, str], given: dict[str, Any]
) -> PostedMessage | None:
    """Post what a webhook was sent. None: it needs no message, or was received before."""
    event = headers.get("x-github-event", "") if webhook.kind == "github" else "form"
    text = github.text_of(event, given) if webhook.kind == "github" else given.get("text")
    delivery = next((headers[name][:200] for name in DELIVERIES if headers.get(name)), None)
    if delivery and not webhooks.note_received(change, webhook.id, delivery, event[:100]):
        return None
    if webhook.kind == "github" and not text:
        return None
    if not isinstance(text, str):
        raise Refused("text: is required, and must be text.")
    author = given.get("author") if webhook.kind == "form" else None
    author = " ".join(author.split())[:LONGEST_AUTHOR] if isinstance(author, str) else ""
    return post(change, webhook, author or webhook.name, text)


def post(
    change: Change, webhook: StoredWebhook, author: str, content: str, *, notifies_owner: bool = False
) -> PostedMessage:
    """Post in the thread of a webhook. The author is called as no agent and no person can be."""
    name = f"{author} {names.WEBHOOK}"
    caller = Caller("human", name, scopes=frozenset({"write"}), is_authenticated=True, webhook=webhook.id)
    thread_id = webhook.thread_id or open_thread(change, CreateThread(topic=NOTICES))[0].thread.id
    owner = [webhook.owner.removeprefix(names.PEOPLE)] if notifies_owner and webhook.owner else None
    given = {"thread_id": thread_id, "content": content, "mentions": owner}
    posted: PostedMessage = post_message.work(change, caller, read(PostMessage, given, refuse_unknown=True))
    return posted
