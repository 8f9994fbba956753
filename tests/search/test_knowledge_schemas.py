"""The input schemas of the knowledge tools, field by field as the specification writes them."""

from __future__ import annotations

from typing import Any

import httpx
import jsonschema  # type: ignore[import-untyped]
import pytest
from tests.conftest import ONE_ENGINE
from tests.helpers import Mcp, word
from tests.library_items import Library

Schema = dict[str, Any]

TEXT, NUMBER, WHOLE, YES_NO, TEXTS = "string", "number", "integer", "boolean", "string[]"
SOURCE = "notes|media|chats|characters|prompts"
ORDER = "relevance|recent"
BY = "both|title|message"
FIELDS = "name|details|system_prompt|user_prompt|author|keywords"
RETRIEVAL = {
    "mode?": "snippet|chunk|chunk_with_siblings|full|auto",
    "snippet_length?": WHOLE,
    "max_tokens?": WHOLE,
    "chars_per_token?": NUMBER,
    "chunk_size_tokens?": WHOLE,
    "chunk_overlap_tokens?": WHOLE,
    "sibling_window?": WHOLE,
    "prefer_prechunked?": YES_NO,
    # The contract adds these three.
    "loc?": "object",
    "query?": TEXT,
    "cursor?": TEXT,
}
PAGED = {"limit?": WHOLE, "offset?": WHOLE, "snippet_length?": WHOLE}

SPECIFIED: dict[str, dict[str, Any]] = {
    "notes.search": {"query": TEXT, **PAGED, "keywords?": TEXTS},
    "notes.get": {"note_id": TEXT, "retrieval?": RETRIEVAL},
    "media.search": {
        "query": TEXT,
        **PAGED,
        "media_types?": TEXTS,
        "date_from?": TEXT,
        "date_to?": TEXT,
        "order_by?": ORDER,
    },
    "media.get": {"media_id": (WHOLE, TEXT), "retrieval?": RETRIEVAL},
    "media.transcript": {"media_id": (WHOLE, TEXT), "format?": "text|srt|vtt|json", "include_timestamps?": YES_NO},
    "chats.search": {"query": TEXT, **PAGED, "by?": BY, "character_id?": WHOLE, "sender?": TEXT},
    "chats.get": {"conversation_id": TEXT, "page?": WHOLE, "page_size?": WHOLE, "retrieval?": RETRIEVAL},
    "characters.search": {"query": (TEXT, TEXTS), **PAGED},
    "characters.get": {"character_id": WHOLE},
    "prompts.search": {"query": TEXT, **PAGED, "fields?": f"({FIELDS})[]"},
    "prompts.get": {"prompt_id_or_name": TEXT},
    "knowledge.search": {
        "query": TEXT,
        **PAGED,
        "sources?": f"({SOURCE}|bus|sessions|archive)[]",
        "order_by?": ORDER,
        "filters?": {
            "media?": {"media_types?": TEXTS, "date_from?": TEXT, "date_to?": TEXT, "order_by?": ORDER},
            "notes?": {"keywords?": TEXTS},
            "chats?": {"by?": BY, "character_id?": WHOLE, "sender?": TEXT},
            "prompts?": {"fields?": TEXTS},
            "characters?": {"tags?": TEXTS},  # "reserved" in the specification
        },
    },
    "knowledge.get": {"source": f"{SOURCE}|bus|sessions|archive", "id": (WHOLE, TEXT), "retrieval?": RETRIEVAL},
}
"""The inputs, as the specification writes them: `?` marks an optional field, `|` choices, `[]` a list."""

OURS = {"knowledge.search": {"date_from", "date_to", "project", "session_id", "dedupe", "agent_id", "token"}}
OURS["knowledge.get"] = {"agent_id", "token"}
"""Arguments beside those of the specification."""


def kind_of(schema: Schema) -> Any:
    """The type of an argument in the words of the table above."""
    if "anyOf" in schema:
        return tuple(kind_of(choice) for choice in schema["anyOf"])
    if "enum" in schema:
        return "|".join(schema["enum"])
    if schema["type"] == "array":
        inner = kind_of(schema["items"])
        return f"({inner})[]" if "|" in inner else f"{inner}[]"
    if "properties" in schema:
        return {f"{name}?": kind_of(field) for name, field in schema["properties"].items()}
    return schema["type"]


@pytest.fixture(scope="module", params=["", "?tools=all&answers=full"])
def listed(api: httpx.Client, request: pytest.FixtureRequest) -> dict[str, Schema]:
    separator = "&" if request.param else "?"
    client = Mcp(api, f"/mcp{request.param}{separator}names=dotted")
    return {tool["name"]: tool["inputSchema"] for tool in client.ask("tools/list")["tools"]}


@ONE_ENGINE
@pytest.mark.parametrize("tool", SPECIFIED)
def test_a_schema_has_the_fields_of_the_specification_with_their_types(listed: dict[str, Schema], tool: str):
    schema = listed[tool]
    required = set(schema["required"])
    found = {
        name if name in required else f"{name}?": kind_of(field)
        for name, field in schema["properties"].items()
        if name not in OURS.get(tool, ())
    }
    assert found == SPECIFIED[tool]


@ONE_ENGINE
@pytest.mark.parametrize("tool", SPECIFIED)
def test_defaults_of_limits_are_listed(listed: dict[str, Schema], tool: str):
    limit = listed[tool]["properties"].get("limit")
    assert limit is None or limit["default"] == (20 if tool == "knowledge.search" else 10)


def test_what_the_schema_lists_is_accepted_and_obeyed(library: Library, mcp: Mcp, listed: dict[str, Schema]):
    """Every field of `retrieval`, and every filter, in one call each."""
    unique = word()
    character = library.character("Ada")
    chat = library.chat(f"{unique} in a chat", character_id=character["id"])
    library.chat(f"{unique} in another chat")
    prompt = library.prompt(name=f"prompt {word()}", details=unique, author="bob")
    library.prompt(name=f"prompt {word()}", details="x", author=unique)
    filters = {
        "notes": {"keywords": ["none"]},
        "media": {"media_types": ["none"], "date_from": "2020-01-01", "date_to": "2020-01-02", "order_by": "recent"},
        "chats": {"by": "message", "character_id": character["id"], "sender": "user"},
        "prompts": {"fields": ["details"]},
        "characters": {"tags": ["none"]},
    }
    asked = {"query": unique, "filters": filters, "sources": list(filters)}
    jsonschema.validate(asked, listed["knowledge.search"])
    results = mcp.call("knowledge.search", asked)["results"]
    assert {(hit["source"], hit["title"]) for hit in results} == {
        ("chats", chat["title"]),
        ("prompts", prompt["name"]),
    }
    note = library.note("one two three four five six seven eight nine ten " * 50 + unique)
    retrieval = {
        "mode": "chunk_with_siblings",
        "snippet_length": 100,
        "max_tokens": 60,
        "chars_per_token": 3,
        "chunk_size_tokens": 12,
        "chunk_overlap_tokens": 0,
        "sibling_window": 1,
        "prefer_prechunked": False,
        "query": unique,
    }
    asked = {"source": "notes", "id": note["id"], "retrieval": retrieval}
    jsonschema.validate(asked, listed["knowledge.get"])
    content = mcp.call("knowledge.get", asked)["content"]
    assert unique in content
    assert len(content) <= 2 * 36 < 180
