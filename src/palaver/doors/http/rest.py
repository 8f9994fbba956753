"""REST routes of all operations."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar, cast

from starlette.convertors import PathConvertor, register_url_convertor
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.routing import Route as WebRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from palaver.doors.authentication import Requester
from palaver.doors.http.bodies import body_of
from palaver.errors import Invalid, PalaverError, Refused, Timeout
from palaver.model import requests
from palaver.model.events import encode
from palaver.operations import OPERATIONS, client_preferences
from palaver.operations.admin import rate_limits
from palaver.operations.operation import Operation, Route


class AnyText(PathConvertor):
    """A path parameter that can be any text, also with slashes and line breaks."""

    regex = "(?s:.*)"


class NonEmptyText(PathConvertor):
    """A path parameter that can be any text except empty text, as the URL without it is another route."""

    regex = "(?s:.+)"


register_url_convertor("any", AnyText())
register_url_convertor("name", NonEmptyText())

HANDLER_SECONDS = 30.0
SHORT_BODY = 2 * 1024 * 1024
"""Maximum bytes of a request without long texts. An escaped query of 100,000 characters fits."""
COMPRESS_FROM = 1_000
"""Bytes. Shorter answers are sent as they are."""
COMPRESS_APART_FROM = 64 * 1024
"""Bytes. Longer answers are compressed in a thread, so that other requests need not wait."""
COMPRESSION = 5
"""Of 9. More costs twice the time and saves a few percent."""
VERSION = "version"
T = TypeVar("T")


def routes(max_body: int) -> list[BaseRoute]:
    """One route for each `Route` face. Fixed paths come before paths with a parameter at the end."""
    faces = [(operation, face) for operation in OPERATIONS for face in operation.routes]
    faces.sort(key=lambda pair: "{" in pair[1].path.rpartition("/")[2])
    return [
        PrefixRoute(face.path, _Endpoint(operation, face, max_body), methods=[face.method], name=operation.name)
        for operation, face in faces
    ]


def _compressed(response: Response) -> ASGIApp:
    """The response, compressed for clients that accept gzip."""
    return GZipMiddleware(
        response, minimum_size=COMPRESS_FROM, compresslevel=COMPRESSION, thread_minimum_size=COMPRESS_APART_FROM
    )


class PrefixRoute(WebRoute):
    """A route that compares the fixed beginning and end of the path first. This makes matching faster."""

    def __init__(self, path: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(path, *args, **kwargs)
        self._prefix, self._suffix = path.partition("{")[0], path.rpartition("}")[2]

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        path = scope["path"]
        if path.startswith(self._prefix) and path.endswith(self._suffix):
            return super().matches(scope)
        return Match.NONE, {}


class _Endpoint:
    """The ASGI application of one route."""

    def __init__(self, operation: Operation, face: Route, max_body: int) -> None:
        self._operation, self._face, self._max_body = operation, face, max_body
        self._seconds = None if operation.kind == "wait" else HANDLER_SECONDS
        is_reading = operation.is_read_only and operation.kind in ("search", "wait")
        self._ends_with_client = is_reading or face.ends_with_client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, requester = Request(scope, receive), cast(Requester, scope["palaver.requester"])
        operation, face = self._operation, self._face
        try:
            await operation.must_be_allowed(requester.workspace, requester.caller)
            rate_limits.refuse_too_many(requester.workspace, requester.caller, operation)
            caller = requester.caller
            if scope["query_string"] and (text := request.query_params.get("config")) is not None:
                caller = replace(caller, config={**caller.config, **client_preferences.from_text(text)})
            most = 0 if face.method == "GET" else min(self._max_body, max_body_of(operation.request))
            ask = await _read_request(request, operation, face, most)
            async with asyncio.timeout(self._seconds):
                work = operation.perform(requester.workspace, caller, ask)
                answer = await (_while_connected(request, work) if self._ends_with_client else work)
        except ClientDisconnect:
            return
        except TimeoutError:
            response = error(Timeout(), face)
        except PalaverError as problem:
            response = error(problem, face)
        else:
            headers = dict(face.headers(answer)) if face.headers else None
            shown = face.show(answer) if face.show else answer
            body = shown if face.media_type.startswith("text/") else encode(shown)
            response = Response(body, face.status, headers, media_type=face.media_type)
        is_long_json = face.media_type == "application/json" and len(response.body) >= COMPRESS_FROM
        await (_compressed(response) if is_long_json else response)(scope, receive, send)


async def _while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Do the work, and give it up when the client goes away."""
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(wait_for_disconnect(request.receive))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()


async def wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


@cache
def max_body_of(ask: type[requests.Request]) -> int:
    """The maximum body size in bytes: small, unless the request has a field for long text."""
    lengths = re.findall(r'"maxLength": ?(\d+)', json.dumps(ask.model_json_schema()))
    has_long_text = any(int(length) >= requests.MAX_TEXT for length in lengths)
    return sys.maxsize if has_long_text else SHORT_BODY


async def _read_request(request: Request, operation: Operation, face: Route, max_body: int) -> requests.Request:
    if face.method in ("GET", "DELETE"):
        known = operation.request.model_fields
        given: dict[str, Any] = {}
        for name in request.query_params:
            values = request.query_params.getlist(name)
            field = face.also.get(name, name)
            is_list = field in known and "list" in str(known[field].annotation)
            given[name] = values if is_list else values[-1]
        if face.method == "DELETE":  # some clients send fields in the body instead of the query
            body = await body_of(request, max_body)
            given = {name: value for name, value in body.items() if isinstance(value, str | int)} | given
    else:
        given = await body_of(request, max_body)
        if face.method == "PUT" and (version := request.query_params.get(VERSION)):
            given.setdefault(VERSION, int(version) if version.isdecimal() and len(version) < 20 else version)
    for name, message in face.must_have.items():
        if not str(given.get(name) or "").strip():
            raise Refused(message)
    for name in face.from_query:
        if name in request.query_params:
            given.setdefault(name, request.query_params[name])
    for header, name in face.from_headers.items():
        if header in request.headers:
            given.setdefault(name, request.headers[header])
    given = {face.also.get(name, name): value for name, value in given.items()} | request.path_params
    if face.method in ("GET", "DELETE"):
        return requests.read_strings(operation.request, given)
    return requests.read(operation.request, given, refuse_unknown=False)


def error(problem: PalaverError, face: Route | None = None) -> Response:
    """The response for an error, with the field names and the status that the route uses."""
    names: tuple[str, ...] = ("detail",)
    status = problem.status
    if face:
        names = face.complaint
        status = face.invalid if status == Invalid.status else status
    return json_response(dict.fromkeys(names, problem.as_detail()), status, problem.headers)


def json_response(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(encode(value), status, headers, media_type="application/json")
