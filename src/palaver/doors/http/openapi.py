"""OpenAPI document of the REST routes, made from the operations, and an HTML page that shows it."""

from __future__ import annotations

import html
import re
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

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
_JOB = ("id", "status", "message", *COUNTS, "skipped", "skipped_count")
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
    extra = tomllib.loads(Path(__file__).with_name("extra_routes.toml").read_text("utf-8"))
    for route in extra["route"]:
        described = _describe_extra(route, extra["parameter"])
        paths.setdefault(route["path"], {})[route["method"].lower()] = described
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
            **_problems(statuses),
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


def _describe_extra(route: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    """A route of extra_routes.toml. `known` are the parameters there, by name."""
    media_type = route.get("answer", "application/json")
    schema: dict[str, Any] = {"type": "string"}
    if media_type == "application/json":
        fields = [field for name in route["fields"] for field in (_JOB if name == "job" else (name,))]
        schema = {"type": "object", "properties": {name: {} for name in fields}, "required": fields}
    route_object: dict[str, Any] = {
        "operationId": route["name"],
        "summary": route["description"].partition(". ")[0].rstrip(".") + ".",
        "description": route["description"],
        "responses": {
            str(route.get("status", 200)): {"description": "Done.", "content": {media_type: {"schema": schema}}},
            **_problems(route.get("errors", (401, 403))),
        },
    }
    if files := route.get("files"):
        file: dict[str, Any] = {"type": "string", "contentMediaType": "application/octet-stream"}
        form = {"file": file if files == "one" else {"type": "array", "items": file, "minItems": 1}}
        body = {"type": "object", "properties": form, "required": ["file"]}
        route_object["requestBody"] = {"required": True, "content": {"multipart/form-data": {"schema": body}}}
    if names := route.get("parameters"):
        route_object["parameters"] = [_parameter(name, **known[name]) for name in names]
    if route.get("is_public"):
        route_object["security"] = []
    return route_object


def _parameter(key: str, description: str, name: str = "", type: str = "string", **more: str) -> dict[str, Any]:
    schema = {"type": type, "description": description}
    return {"name": name or key, "in": more["in"], "required": more["in"] == "path", "schema": schema}


def _problems(statuses: Iterable[int]) -> dict[str, Any]:
    return {str(status): {"description": _PROBLEMS[status], "content": _PROBLEM} for status in statuses}


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
