"""The description of the REST door says what the door does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from palaver.doors.openapi import document


def bodies() -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document()["paths"].items():
        for method, said in methods.items():
            if "requestBody" in said:
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
