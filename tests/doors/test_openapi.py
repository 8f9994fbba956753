"""The description of the REST door says what the door does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tests.trust.policy import ROUTES

from palaver.doors.http.openapi import document


def bodies() -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document()["paths"].items():
        for method, said in methods.items():
            if "application/json" in said.get("requestBody", {}).get("content", {}):
                yield f"{method.upper()} {path}", said["requestBody"]["content"]["application/json"]["schema"]


def test_whatever_may_be_left_out_of_a_body_may_be_null():
    for name, body in bodies():
        for field, schema in body["properties"].items():
            may_be_null = {"type": "null"} in schema.get("anyOf", []) or not schema.keys() & {"type", "anyOf", "$ref"}
            assert may_be_null != (field in body["required"]), (name, field, schema)


def test_a_pattern_is_told():
    slug = dict(bodies())["POST /api/agents"]["properties"]["slug"]
    assert slug["anyOf"][0]["pattern"] == "^[a-z0-9][a-z0-9_-]{0,59}$"
    assert dict(bodies())["POST /api/templates"]["properties"]["id"]["pattern"] == "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"


OAUTH = ("/.well-known/", "/api/oauth/", " /authorize", " /token", " /register", " /revoke")  # its metadata tells them
NOT_TOLD = ("/console/", "/docs", "/openapi.json", "/api/session", "* ", *OAUTH)


def test_every_route_is_told_but_the_console_and_the_doors_of_mcp():
    told = {f"{method.upper()} {path}" for path, methods in document()["paths"].items() for method in methods}
    routes = {re.sub(r"\{(\w+):\w+}", r"{\1}", route) for route in ROUTES}
    left_out = {route for route in routes - told if route != "GET /" and not any(part in route for part in NOT_TOLD)}
    assert (left_out, told - routes) == (set(), set())


def test_an_upload_is_a_form_and_a_stream_is_a_stream():
    paths = document()["paths"]
    for path in ("/api/upload/image", "/api/upload/file", "/api/import"):
        form = paths[path]["post"]["requestBody"]["content"]["multipart/form-data"]["schema"]
        assert form["required"] == ["file"]
    for path in ("/events", "/api/threads/{thread_id}/events", "/api/import/{id}/events"):
        assert list(paths[path]["get"]["responses"]["200"]["content"]) == ["text/event-stream"]
    assert paths["/healthz"]["get"]["security"] == []


def test_operation_ids_are_used_once():
    ids = [said["operationId"] for methods in document()["paths"].values() for said in methods.values()]
    assert len(ids) == len(set(ids))
