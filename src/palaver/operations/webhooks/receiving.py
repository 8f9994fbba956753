"""Messages that come in through webhooks: as plain JSON or a form, or from GitHub."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Annotated, Any
from urllib.parse import parse_qsl

import orjson
from pydantic import AfterValidator

from palaver.errors import Refused, must_be_found
from palaver.model.people import Caller
from palaver.model.requests import Line, Request, Text, read
from palaver.operations.bus.messages import PostedMessage, PostMessage, post_message
from palaver.operations.bus.threads import CreateThread, open_thread
from palaver.store.admin import tokens
from palaver.store.bus import names, webhooks
from palaver.store.bus.webhooks import StoredWebhook
from palaver.store.engines.database import Change
from palaver.store.workspaces import Workspace

DELIVERIES = ("x-github-delivery", "webhook-id", "idempotency-key")
"""Headers with the id of a delivery. One that comes again is not posted again."""
LONGEST = 500
"""Characters of a comment that are shown."""
FAILED = ("failure", "timed_out", "startup_failure", "action_required")
ABOUT = {"issues": "issue", "issue_comment": "comment", "pull_request_review": "review"}
"""The field with what an event is about, if it has another name than the event."""
DONE = {name: name for name in ("opened", "closed", "reopened", "approved")} | {
    "ready_for_review": "asks to review", "created": "commented on", "commented": "commented on",
    "changes_requested": "wants changes in",
}  # fmt: skip


class PlainMessage(Request):
    """The fields of a plain message. Others are ignored."""

    text: Text
    author: Annotated[Line, AfterValidator(lambda name: " ".join(name.split())[:80])] = ""


async def must_exist(here: Workspace, key: str) -> StoredWebhook:
    """The webhook with this secret in its address, if its owner may still use it."""
    webhook = await here.read(partial(webhooks.with_key, key=key))
    return must_be_found(webhook if webhook and await has_owner(here, webhook) else None, "webhook", "…")


async def has_owner(here: Workspace, webhook: StoredWebhook) -> bool:
    """Whether the person of a webhook still has a token of an admin."""
    if not webhook.owner or here.keyring is None:
        return True
    mine = [one for one in await here.keyring.tokens() if one.kind == "human" and f"human:{one.name}" == webhook.owner]
    return any("admin" in one.scopes and not tokens.has_expired(one) for one in mine)


def is_signed(webhook: StoredWebhook, headers: Mapping[str, str], body: bytes) -> bool:
    """Check the signature. GitHub always signs; a form may, and is known by the secret in its address."""
    right = f"sha256={hmac.digest(webhook.secret.encode(), body, hashlib.sha256).hex()}"
    given = headers.get("x-hub-signature-256", right if webhook.kind == "form" else "")
    return hmac.compare_digest(right.encode(), given.encode())


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
    """Post what a webhook was sent. None: it needs no message."""
    key = next((headers[name][:200] for name in DELIVERIES if headers.get(name)), None)
    if webhook.kind == "form":
        form = read(PlainMessage, given, refuse_unknown=False)
        return post(change, webhook, form.author or webhook.name, form.text, idempotency_key=key)
    text = github_text(headers.get("x-github-event", ""), given)
    return post(change, webhook, webhook.name, text, idempotency_key=key) if text else None


def post(change: Change, webhook: StoredWebhook, author: str, content: str, **others: Any) -> PostedMessage:
    """Post in the thread of a webhook, or else in "Webhooks". The author is called as no agent and no person can be."""
    name = f"{author} {names.WEBHOOK}"
    caller = Caller("human", name, scopes=frozenset({"write"}), is_authenticated=True, webhook=webhook.id)
    thread_id = webhook.thread_id or open_thread(change, CreateThread(topic="Webhooks"))[0].thread.id
    given = {"thread_id": thread_id, "content": content, **others}
    posted: PostedMessage = post_message.work(change, caller, read(PostMessage, given, refuse_unknown=True))
    return posted


def github_text(event: str, given: dict[str, Any]) -> str | None:
    """What an event of GitHub tells, as one short message. None: it needs none."""
    with suppress(KeyError, TypeError, AttributeError, ValueError):  # GitHub did not write this
        if said := _said(event, given.get("action"), given.get(ABOUT.get(event, event)), given):
            return f"{given['repository']['full_name']}: {said}"
    return None


def _said(event: str, action: str | None, about: Any, given: dict[str, Any]) -> str | None:
    who = given["sender"]["login"]
    match event:
        case "push" if commits := given["commits"]:  # else a branch or tag was made or deleted
            count = "1 commit" if len(commits) == 1 else f"{len(commits)} commits"
            line = commits[-1]["message"].strip().partition("\n")[0]
            return f"{who} pushed {count} to {given['ref'].removeprefix('refs/heads/')}: {line} {given['compare']}"
        case "pull_request" | "issues" | "issue_comment" | "pull_request_review":
            issue = given.get("pull_request") or given["issue"]
            kind = "pull request" if "pull_request" in given | issue else "issue"
            done = DONE[about["state"] if action == "submitted" else str(action)]
            text = (about["body"] or "").strip() if action in ("created", "submitted") else ""
            text = f"\n{text[:LONGEST]}…" if len(text) > LONGEST else text and f"\n{text}"
            done = "merged" if done == "closed" and about.get("merged") else done
            return f"{who} {done} {kind} #{issue['number']}: {issue['title']} {about['html_url']}{text}"
        case "check_run" | "workflow_run" if action == "completed" and about["conclusion"] in FAILED:
            where = about["head_sha"][:7] if event == "check_run" else about["head_branch"]
            return f"{about['name']} failed on {where} ({about['conclusion']}) {about['html_url']}"
        case "release" if action == "published":
            return f"{who} released {about['tag_name']} {about['html_url']}"
    return None
