"""OpenAPI document of the REST routes, made from the operations, and an HTML page that shows it."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from palaver import __version__
from palaver.doors.http.imports import COUNTS
from palaver.doors.http.rest import json_response
from palaver.operations import OPERATIONS
from palaver.operations.operation import Operation, Route, schema_of, shown_type

COMPONENT = "#/components/schemas/{model}"
_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
_PROBLEM = {
    "application/json": {
        "schema": {"type": "object", "properties": {"detail": {}}, "required": ["detail"]},
    }
}
_PROBLEMS = {
    400: "A value is not acceptable.",
    401: "A token is required.",
    403: "Not allowed.",
    404: "Not found.",
    409: "The data has changed meanwhile.",
    413: "Too large.",
    422: "A field has the wrong type or format.",
    429: "Too many requests.",
    431: "The address or the headers are too long.",
    503: "Not available now.",
}


@cache
def document() -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    components: dict[str, Any] = {}
    for operation in OPERATIONS:
        for number, face in enumerate(operation.routes):
            path = _PARAMETER.sub(r"{\1}", face.path)
            paths.setdefault(path, {})[face.method.lower()] = _describe(operation, face, number, components)
    for extra in EXTRA_ROUTES:
        paths.setdefault(extra.path, {})[extra.method.lower()] = _describe_extra(extra)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "palaver",
            "version": __version__,
            "description": "A message bus and a memory shared by AI agents and people.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _describe(operation: Operation, face: Route, number: int, components: dict[str, Any]) -> dict[str, Any]:
    schema = _move_definitions(operation.request.model_json_schema(ref_template=COMPONENT), components)
    media_type, answer = face.media_type.partition(";")[0], {"type": "string"}
    if media_type == "application/json":
        answer = _move_definitions(schema_of(shown_type(operation.answer, face.show), COMPONENT), components)
    has_changes = operation.kind == "change" or face.method != "GET"
    statuses = (400, 401, 403, 404, 422, 431, 503, *((409, 413, 429) if has_changes else ()))
    in_path = _PARAMETER.findall(face.path)
    names = {field: name for name, field in face.also.items()}
    fields = {names.get(field, field): value for field, value in schema.get("properties", {}).items()}
    required = {names.get(field, field) for field in schema.get("required", [])}
    parameters = [{"name": name, "in": "path", "required": True, "schema": fields.pop(name)} for name in in_path]
    route_object: dict[str, Any] = {
        "operationId": operation.name + (f"_{number + 1}" if number else ""),
        "summary": operation.summary,
        "description": operation.description,
        "responses": {
            str(face.status): {"description": "Done.", "content": {media_type: {"schema": answer}}},
            **{str(status): {"description": _PROBLEMS[status], "content": _PROBLEM} for status in statuses},
        },
    }
    if face.method in ("GET", "DELETE"):
        parameters += [
            {"name": name, "in": "query", "required": name in required, "schema": field}
            for name, field in fields.items()
        ]
    elif fields:
        fields = {name: field if name in required else _nullable(field) for name, field in fields.items()}
        body = {"type": "object", "properties": fields, "required": sorted(required - set(in_path))}
        route_object["requestBody"] = {
            "required": bool(body["required"]),
            "content": {"application/json": {"schema": body}},
        }
    if parameters:
        route_object["parameters"] = parameters
    return route_object


# Routes that are not operations


@dataclass(frozen=True)
class ExtraRoute:
    """A route that is not an operation: a stream, an upload, or the state of the server."""

    method: str
    path: str
    name: str
    description: str
    answer: str = "application/json"
    status: int = 200
    fields: tuple[str, ...] = ()
    """Fields of a JSON answer."""
    parameters: tuple[dict[str, Any], ...] = ()
    files: Literal["none", "one", "many"] = "none"
    """Whether the body is a form with one or many parts named `file`."""
    errors: tuple[int, ...] = (401, 403)
    is_public: bool = False


def _parameter(name: str, place: str, description: str, kind: str = "string") -> dict[str, Any]:
    schema = {"type": kind, "description": description}
    return {"name": name, "in": place, "required": place == "path", "schema": schema}


_RESUME = (
    _parameter("Last-Event-ID", "header", "Id of the last received event. The stream continues after it.", "integer"),
    _parameter("last_event_id", "query", "The same, for clients that cannot set headers.", "integer"),
)
_IMPORT_ID = (_parameter("id", "path", "Id of the import."),)
_JOB = ("id", "status", "message", *COUNTS, "skipped", "skipped_count")
_STREAM, _ANY_FILE = "text/event-stream", "application/octet-stream"

EXTRA_ROUTES = (
    ExtraRoute(
        "GET", "/events", "events",
        "Server-sent events of the whole workspace, with id, event and data. Without a last event id the stream starts "
        "now.",
        _STREAM, errors=(401, 403, 404),
        parameters=(*_RESUME, _parameter("thread_id", "query", "Only events of this thread.")),
    ),
    ExtraRoute(
        "GET", "/api/threads/{thread_id}/events", "thread_events", "Server-sent events of one thread.",
        _STREAM, errors=(401, 403, 404), parameters=(_parameter("thread_id", "path", "Id of the thread."), *_RESUME),
    ),
    ExtraRoute(
        "POST", "/api/upload/image", "upload_image",
        "Store an image (PNG, JPEG, GIF or WebP) to attach to a message.",
        fields=("url", "name"), files="one", errors=(400, 401, 403, 413),
    ),
    ExtraRoute(
        "POST", "/api/upload/file", "upload_file",
        "Store a file of any type to attach to a message. Files that are no images can only be downloaded.",
        fields=("url", "name", "type", "size"), files="one", errors=(400, 401, 403, 413),
    ),
    ExtraRoute(
        "GET", "/uploads/{name}", "show_image", "An uploaded image or file.",
        _ANY_FILE, errors=(401, 403, 404), parameters=(_parameter("name", "path", "Name of the file, from its url."),),
    ),
    ExtraRoute(
        "POST", "/api/import", "begin_import",
        "Upload chat histories, notes and documents, and import them. The answer is a job. Poll it until its status is "
        "done or failed.",
        status=202, fields=_JOB, files="many", errors=(400, 401, 403, 413),
    ),
    ExtraRoute(
        "GET", "/api/import/{id}", "show_import", "Progress of an import.",
        fields=_JOB, parameters=_IMPORT_ID, errors=(401, 403, 404),
    ),
    ExtraRoute(
        "GET", "/api/import/{id}/events", "follow_import",
        "Progress of an import as server-sent events, until it ends.",
        _STREAM, parameters=_IMPORT_ID, errors=(401, 403, 404),
    ),
    ExtraRoute(
        "POST", "/hooks/{workspace}/{key}", "receive_webhook",
        "Post what a webhook is sent: what GitHub sends, or text and author as JSON or a form.",
        status=201, fields=("posted",), errors=(400, 403, 404, 409, 413, 422, 429), is_public=True,
        parameters=(_parameter("workspace", "path", "Name of the workspace."), _parameter("key", "path", "A secret.")),
    ),
    ExtraRoute(
        "GET", "/healthz", "healthz", "Liveness: the process answers.",
        fields=("status", "version"), errors=(), is_public=True,
    ),
    ExtraRoute(
        "GET", "/readyz", "readyz", "Readiness: MCP, OAuth and the database answer too.",
        fields=("status",), errors=(503,), is_public=True,
    ),
    ExtraRoute("GET", "/metrics", "metrics", "Prometheus metrics.", "text/plain"),
)  # fmt: skip


def _describe_extra(route: ExtraRoute) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    if route.answer == "application/json":
        schema = {"type": "object", "properties": {name: {} for name in route.fields}, "required": list(route.fields)}
    route_object: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.description.partition(". ")[0].rstrip(".") + ".",
        "description": route.description,
        "responses": {
            str(route.status): {"description": "Done.", "content": {route.answer: {"schema": schema}}},
            **{str(status): {"description": _PROBLEMS[status], "content": _PROBLEM} for status in route.errors},
        },
    }
    if route.files != "none":
        file: dict[str, Any] = {"type": "string", "contentMediaType": _ANY_FILE}
        form = {"file": file if route.files == "one" else {"type": "array", "items": file, "minItems": 1}}
        body = {"type": "object", "properties": form, "required": ["file"]}
        route_object["requestBody"] = {"required": True, "content": {"multipart/form-data": {"schema": body}}}
    if route.parameters:
        route_object["parameters"] = list(route.parameters)
    if route.is_public:
        route_object["security"] = []
    return route_object


def _nullable(field: dict[str, Any]) -> dict[str, Any]:
    """The field, also allowing null: in a body, null means absent."""
    if {"type": "null"} in field.get("anyOf", []) or not field.keys() & {"type", "anyOf", "$ref", "enum"}:
        return field
    about: dict[str, Any] = {key: field[key] for key in ("description", "default", "title") if key in field}
    core = {key: value for key, value in field.items() if key not in about}
    return {"anyOf": [*core.get("anyOf", [core]), {"type": "null"}], **about}


def _move_definitions(schema: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    """The schema, with its definitions moved into the shared components."""
    for name, definition in schema.pop("$defs", {}).items():
        components.setdefault(name, definition)
    return schema


@cache
def page() -> str:
    """An HTML page with all routes, without scripts."""
    sections = []
    for path, methods in document()["paths"].items():
        for method, said in methods.items():
            fields = [(p["name"], p["in"], p["required"], p["schema"]) for p in said.get("parameters", [])]
            body = body_of(said)
            fields += [
                (name, "body", name in body.get("required", []), field)
                for name, field in body.get("properties", {}).items()
            ]
            lines = "".join(
                f"<tr><td><code>{html.escape(name)}</code><td>{place}{' *' if required else ''}"
                f"<td>{html.escape(field.get('description', ''))}"
                for name, place, required, field in fields
            )
            table = f"<table><tr><th>Field<th>In<th>Meaning{lines}</table>" if lines else ""
            sections.append(
                f"<details><summary><b class={method}>{method.upper()}</b> <code>{html.escape(path)}</code> "
                f"<span>{html.escape(said['summary'])}</span></summary>"
                f"<p>{html.escape(said['description'])}</p>{table}</details>"
            )
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        "<title>palaver API</title><link rel=stylesheet href=/console/docs.css>"
        f"<main><h1>palaver API <small>{__version__}</small></h1>"
        "<p>OpenAPI document: <a href=/openapi.json>/openapi.json</a>. If the server requires tokens, send "
        "<code>Authorization: Bearer plv_…</code>.</p>" + "".join(sections) + "</main></html>"
    )


async def show_page(request: Request) -> Response:
    return HTMLResponse(page())


async def show_document(request: Request) -> Response:
    return json_response(document())


def body_of(said: dict[str, Any]) -> dict[str, Any]:
    """The schema of a route's body, JSON or form."""
    content: dict[str, Any] = said.get("requestBody", {}).get("content", {})
    return next((form["schema"] for form in content.values()), {})
