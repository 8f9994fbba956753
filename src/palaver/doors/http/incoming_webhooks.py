"""POST /hooks/{workspace}/{key}: the address of an incoming webhook. It posts in one thread what it is sent."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from palaver.app import App
from palaver.doors.http.bodies import read_body
from palaver.doors.http.rest import json_response
from palaver.errors import Forbidden, NotFound, TooMany
from palaver.operations.admin.rate_limits import MOST_KNOWN, seconds_to_wait
from palaver.operations.webhooks import receiving

A_MINUTE = 60
"""Deliveries that a webhook takes a minute."""
LARGEST = 2 * 1024 * 1024


async def receive(request: Request) -> Response:
    app: App = request.app.state.app
    unknown = NotFound("webhook", "…", "It was removed, or its address is wrong.")
    try:
        here = await app.open(request.path_params["workspace"])
    except NotFound:  # nothing tells which workspaces there are
        raise unknown from None
    webhook = await receiving.find(here, request.path_params["key"])
    if webhook is None:
        raise unknown
    if wait := seconds_to_wait(here.calls, (webhook.id, "incoming webhook"), A_MINUTE, MOST_KNOWN):
        raise TooMany(f"Rate limit exceeded: {A_MINUTE} deliveries a minute. Wait {wait} s, then try again.", wait)
    body = await read_body(request, LARGEST)
    try:
        receiving.must_be_signed(webhook, request.headers, body)
    except Forbidden:
        if here.keyring:
            await here.keyring.denied(f"webhook {webhook.id}", "POST /hooks")
        raise
    given = receiving.fields_of(request.headers, body)
    work = partial(receiving.receive, webhook=webhook, headers=request.headers, given=given)
    posted = await here.change(work)
    if posted is None:
        return json_response({"posted": False})
    return json_response({"posted": True, "message_id": posted.id, "thread_id": posted.thread_id}, 201)
