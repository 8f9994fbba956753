"""The description of the REST door, made from the operations' faces, and a plain page to read it."""

from __future__ import annotations

import html
import re
from functools import cache
from typing import Any

from palaver import __version__
from palaver.operations import OPERATIONS
from palaver.operations.faces import Operation, Route, schema_of, shown_type

_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")


@cache
def document() -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    components: dict[str, Any] = {}
    for operation in OPERATIONS:
        for number, face in enumerate(operation.routes):
            path = _PARAMETER.sub(r"{\1}", face.path)
            paths.setdefault(path, {})[face.method.lower()] = _described(operation, face, number, components)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "palaver",
            "version": __version__,
            "description": "Where AI agents and people talk, and where nothing they said is lost.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _described(operation: Operation, face: Route, number: int, components: dict[str, Any]) -> dict[str, Any]:
    schema = _shared(operation.ask.model_json_schema(ref_template="#/components/schemas/{model}"), components)
    in_path = _PARAMETER.findall(face.path)
    names = {field: name for name, field in face.also.items()}
    fields = {names.get(field, field): value for field, value in schema.get("properties", {}).items()}
    required = {names.get(field, field) for field in schema.get("required", [])}
    parameters = [{"name": name, "in": "path", "required": True, "schema": fields.pop(name)} for name in in_path]
    said: dict[str, Any] = {
        "operationId": operation.name + (f"_{number + 1}" if number else ""),
        "summary": operation.summary,
        "description": operation.description,
        "responses": {str(face.status): _answer(operation, face, components)} | _errors(operation),
    }
    if face.method in ("GET", "DELETE"):
        parameters += [
            {"name": name, "in": "query", "required": name in required, "schema": field}
            for name, field in fields.items()
        ]
    elif fields:
        fields = {name: field if name in required else _or_null(field) for name, field in fields.items()}
        body = {"type": "object", "properties": fields, "required": sorted(required - set(in_path))}
        said["requestBody"] = {
            "required": bool(body["required"]),
            "content": {"application/json": {"schema": body}},
        }
    if parameters:
        said["parameters"] = parameters
    return said


def _or_null(field: dict[str, Any]) -> dict[str, Any]:
    """In a body, null is the same as absent."""
    if {"type": "null"} in field.get("anyOf", []) or not field.keys() & {"type", "anyOf", "$ref", "enum"}:
        return field
    about: dict[str, Any] = {key: field[key] for key in ("description", "default", "title") if key in field}
    core = {key: value for key, value in field.items() if key not in about}
    return {"anyOf": [*core.get("anyOf", [core]), {"type": "null"}], **about}


def _answer(operation: Operation, face: Route, components: dict[str, Any]) -> dict[str, Any]:
    media_type = face.media_type.partition(";")[0]
    if media_type != "application/json":
        return {"description": "Done.", "content": {media_type: {"schema": {"type": "string"}}}}
    schema = _shared(schema_of(shown_type(operation.answer, face.show)), components)
    return {"description": "Done.", "content": {"application/json": {"schema": schema}}}


def _errors(operation: Operation) -> dict[str, Any]:
    problem = {
        "application/json": {
            "schema": {"type": "object", "properties": {"detail": {}}, "required": ["detail"]},
        }
    }
    said = {
        "400": "The value is not acceptable.",
        "401": "A token is needed.",
        "403": "Not allowed.",
        "404": "Not found.",
        "422": "A field has the wrong shape.",
        "503": "The database took too long.",
    }
    if operation.kind == "change":
        said |= {"409": "The world has moved on.", "413": "Too large.", "429": "Too many posts."}
    return {status: {"description": what, "content": problem} for status, what in said.items()}


def _shared(schema: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    """Move the schema's own definitions to where all schemas are."""
    text = repr(schema)
    definitions = schema.pop("$defs", {})
    for name, definition in definitions.items():
        components.setdefault(name, _relinked(definition))
    return _relinked(schema) if "#/$defs/" in text else schema


def _relinked(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: item.replace("#/$defs/", "#/components/schemas/") if key == "$ref" else _relinked(item)
            for key, item in value.items()
        }
    return [_relinked(item) for item in value] if isinstance(value, list) else value


@cache
def page() -> str:
    """All routes on one page, without a script."""
    rows = []
    for path, methods in document()["paths"].items():
        for method, said in methods.items():
            rows.append(_section(method, path, said))
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        "<title>palaver API</title><link rel=stylesheet href=/console/docs.css>"
        f"<main><h1>palaver API <small>{__version__}</small></h1>"
        "<p>The same as a document: <a href=/openapi.json>/openapi.json</a>. Where tokens are required, send "
        "<code>Authorization: Bearer plv_…</code>.</p>" + "".join(rows) + "</main></html>"
    )


def _section(method: str, path: str, said: dict[str, Any]) -> str:
    fields = [(p["name"], p["in"], p["required"], p["schema"]) for p in said.get("parameters", [])]
    body = said.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    fields += [
        (name, "body", name in body.get("required", []), field) for name, field in body.get("properties", {}).items()
    ]
    rows = "".join(
        f"<tr><td><code>{html.escape(name)}</code><td>{place}{' *' if required else ''}"
        f"<td>{html.escape(field.get('description', ''))}"
        for name, place, required, field in fields
    )
    table = f"<table><tr><th>Field<th>In<th>Meaning{rows}</table>" if rows else ""
    return (
        f"<details><summary><b class={method}>{method.upper()}</b> <code>{html.escape(path)}</code> "
        f"<span>{html.escape(said['summary'])}</span></summary>"
        f"<p>{html.escape(said['description'])}</p>{table}</details>"
    )
