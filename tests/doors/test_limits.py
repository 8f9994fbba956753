"""Every list and every map of every request has a limit. The cases come from the request models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from tests.conftest import ONE_ENGINE
from tests.helpers import Mcp

from palaver.errors import Invalid
from palaver.model import requests
from palaver.operations import OPERATIONS
from palaver.operations.operation import Operation

pytestmark = ONE_ENGINE


class Place(NamedTuple):
    """A list or a map in a request: the names that lead to it, and its schema."""

    operation: Operation
    path: tuple[str | int, ...]
    schema: dict[str, Any]
    kind: str

    @property
    def said(self) -> str:
        return ".".join(map(str, self.path))

    def holding(self, value: Any) -> dict[str, Any]:
        """A request with this value at this place, and nothing else."""
        for part in reversed(self.path):
            value = [value] if part == 0 else {part: value}
        return dict(value)


def places(operation: Operation) -> Iterator[Place]:
    """All lists and maps of a request. A model with fields is no map: unknown fields are refused or ignored."""
    whole = operation.request.model_json_schema()

    def walk(node: dict[str, Any], path: tuple[str | int, ...]) -> Iterator[Place]:
        if "$ref" in node:
            node = whole["$defs"][node["$ref"].rpartition("/")[2]]
        for choice in node.get("anyOf", ()):
            yield from walk(choice, path)
        if node.get("type") == "array":
            yield Place(operation, path, node, "list")
            yield from walk(node["items"], (*path, 0))
        if node.get("type") == "object":
            if "properties" not in node:
                yield Place(operation, path, node, "map")
            for name, inner in node.get("properties", {}).items():
                yield from walk(inner, (*path, name))

    yield from walk(whole, ())


PLACES = [place for operation in OPERATIONS for place in places(operation)]
LISTS = [place for place in PLACES if place.kind == "list"]
MAPS = [place for place in PLACES if place.kind == "map"]


def name_of(place: Place) -> str:
    return f"{place.operation.name} {place.said}"


def an_item(place: Place) -> Any:
    """A valid item of a list, as small as possible."""
    items = place.schema["items"]
    if "$ref" in items:
        model = next(
            part
            for name, part in place.operation.request.model_json_schema()["$defs"].items()
            if items["$ref"].endswith(f"/{name}")
        )
        small = {"string": "x", "number": 1, "integer": 1, "boolean": True}
        return {
            name: part.get("enum", [None])[0] or ("2026-01-01" if name in ("ts", "at") else small[part["type"]])
            for name, part in model["properties"].items()
            if name in model.get("required", ())
        }
    return {} if items.get("type") == "object" else items.get("enum", ["x"])[0]


def refusal(place: Place, value: Any) -> str:
    """What every door says to this request: all of them read it with this function."""
    with pytest.raises(Invalid) as refused:
        requests.read(place.operation.request, place.holding(value), refuse_unknown=True)
    return str(refused.value)


@pytest.mark.examples(10)
@pytest.mark.parametrize("place", LISTS, ids=name_of)
def test_a_list_that_is_too_long_is_refused_with_its_name_and_its_limit(place: Place):
    most = place.schema.get("maxItems")
    assert most, f"{name_of(place)} has no limit: use a type of model/requests.py, or Field(max_length=…)"
    said = refusal(place, [an_item(place)] * (most + 1))
    assert f"{place.said}: must have at most {most:,} items" in said, said
    assert len(said) < 2_000


@pytest.mark.examples(10)
@pytest.mark.parametrize("place", MAPS, ids=name_of)
@pytest.mark.parametrize("is_deep", [True, False], ids=["deep", "large"])
def test_a_map_that_is_too_deep_or_too_large_is_refused_with_its_name_and_its_limit(place: Place, is_deep: bool):
    value: dict[str, Any] = {"x": "y" * 300_000}
    if is_deep:
        value = {}
        for _ in range(300):
            value = {"a": value}
    said = refusal(place, value)
    field = place.said.removesuffix(".0")  # the objects of a list have their limit together
    assert f"{field}: must be" in said, said
    assert ("250 levels" if is_deep else "256 KiB") in said, said


def test_the_walk_finds_the_lists_and_maps_that_users_know():
    found = {place.said for place in PLACES}
    assert {"mentions", "metadata", "chunks", "transcript.segments", "filters.notes.keywords", "skills.0"} <= found


def test_a_post_with_too_many_mentions_is_refused_by_rest_and_by_the_tool(api: Any, mcp: Mcp):
    thread = api.post("/api/threads", json={"topic": "too many mentions"}).json()["id"]
    many = [f"agent{n}" for n in range(201)]
    answer = api.post(f"/api/threads/{thread}/messages", json={"author": "a", "content": "hello", "mentions": many})
    assert (answer.status_code, answer.json()["detail"]) == (422, "mentions: must have at most 200 items.")
    refused = mcp.refused("msg_post", thread_id=thread, content="hello", mentions=many)
    assert "mentions: must have at most 200 items." in str(refused)


def test_an_error_names_ten_fields_and_says_how_many_more_are_wrong(api: Any):
    answer = api.post("/api/media", json={"title": "t", "media_type": "book", "chunks": [{}] * 5_000})
    said = answer.json()["detail"]
    assert answer.status_code == 422
    assert said.startswith("chunks.0.text: is required; ")
    assert said.endswith("; and 4,990 more.")
    assert len(said) < 1_000
