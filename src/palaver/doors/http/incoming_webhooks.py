"""POST /hooks/{workspace}/{key}: the address of an incoming webhook. It posts in one thread what it is sent."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from palaver.doors.http.bodies import read_body
from palaver.doors.http.rest import json_response
from palaver.errors import Forbidden, NotFound
from palaver.operations.admin.rate_limits import refuse_above
from palaver.operations.webhooks import receiving

A_MINUTE = 60
"""Deliveries that a webhook takes a minute."""
LARGEST = 2 * 1024 * 1024


async def receive(request: Request) -> Response:
    try:
        here = await request.app.state.app.open(request.path_params["workspace"])
        webhook = await receiving.must_exist(here, request.path_params["key"])
    except NotFound:  # nothing tells which workspaces there are
        raise NotFound("webhook", "…", "It was removed, or its address is wrong.") from None
    refuse_above(here, (webhook.id, "incoming webhook"), A_MINUTE, "deliveries")
    body = await read_body(request, LARGEST)
    if not receiving.is_signed(webhook, request.headers, body):
        if here.keyring:
            await here.keyring.denied(f"webhook {webhook.id}", "POST /hooks")
        raise Forbidden("The signature is wrong or missing. Send X-Hub-Signature-256, made with this webhook's secret.")
    given = receiving.fields_of(request.headers, body)
    posted = await here.change(partial(receiving.receive, webhook=webhook, headers=request.headers, given=given))
    if posted is None:
        return json_response({"posted": False})
    return json_response({"posted": True, "message_id": posted.id, "thread_id": posted.thread_id}, 201)
