"""A keyword or tag that matches does not hide the text that matches: the text is shown, opened and given as evidence."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.helpers import Mcp, word

FILLER = "This part speaks of the weather and of nothing else that anybody would look for here. " * 40

TEXTS: dict[str, tuple[str, str]] = {
    "notes": ("content", "keywords"),
    "media": ("content", "keywords"),
    "characters": ("description", "tags"),
    "prompts": ("user_prompt", "keywords"),
}


def make(api: httpx.Client, source: str, text: str, label: str, title: str = "") -> str:
    field, labels = TEXTS[source]
    name = "name" if source in ("characters", "prompts") else "title"
    body: dict[str, Any] = {name: title or word("thing "), field: text, labels: ["ops", label, "other"]}
    if source == "media":
        body["media_type"] = "article"
    made = api.post(f"/api/{source}", json=body)
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


@pytest.mark.parametrize("source", list(TEXTS))
def test_the_text_that_matches_is_shown_and_opened(api: httpx.Client, mcp: Mcp, source: str):
    unique = word()
    answer = f"The {unique} turns once in nine hours."
    id = make(api, source, f"{FILLER}{answer} {FILLER}", unique)
    for tool, more in ((f"{source}_search", {}), ("knowledge_search", {"dedupe": False})):
        (hit,) = mcp.call(tool, query=unique, **more)["results"]
        assert answer in hit["snippet"]
        assert hit["loc"].get("field") not in ("keywords", "tags")
        for mode in ("snippet", "chunk", "chunk_with_siblings"):
            opened = mcp.call("knowledge_get", source=source, id=id, retrieval={"mode": mode, "loc": hit["loc"]})
            assert answer in opened["content"], mode
    for retrieval in ({"mode": "snippet"}, {"mode": "chunk", "query": unique}):
        assert answer in mcp.call("knowledge_get", source=source, id=id, retrieval=retrieval)["content"]
    assert answer in mcp.call("knowledge_answer_context", query=unique)["text"]


@pytest.mark.parametrize("source", list(TEXTS))
def test_so_it_is_where_the_title_matches_too(api: httpx.Client, mcp: Mcp, source: str):
    unique = word()
    make(api, source, f"{FILLER}The {unique} turns once in nine hours. {FILLER}", unique, title=f"About {unique}")
    for query in (unique, f"How fast does the {unique} turn?", f"about {unique}"):
        hit = mcp.call(f"{source}_search", query=query)["results"][0]
        assert "nine hours" in hit["snippet"], query
    assert "nine hours" in mcp.call("knowledge_answer_context", query=unique)["text"]


@pytest.mark.parametrize("source", list(TEXTS))
def test_where_only_the_label_matches_it_is_still_found(api: httpx.Client, mcp: Mcp, source: str):
    unique = word()
    id = make(api, source, FILLER, unique)
    (hit,) = mcp.call(f"{source}_search", query=unique)["results"]
    assert str(hit["id"]) == id
    assert unique in hit["snippet"]
    opened = mcp.call("knowledge_get", source=source, id=id, retrieval={"mode": "snippet", "loc": hit["loc"]})
    assert unique in opened["content"]


def test_labels_count_for_the_order(api: httpx.Client, mcp: Mcp):
    unique = word()
    text = f"{FILLER}The {unique} turns once in nine hours. {FILLER}"
    labelled = make(api, "notes", text, unique)
    plain = make(api, "notes", text, word())
    assert [hit["id"] for hit in mcp.call("notes_search", query=unique)["results"]] == [labelled, plain]


def test_a_search_in_keywords_shows_keywords(api: httpx.Client, mcp: Mcp):
    unique = word()
    make(api, "prompts", f"{FILLER}The {unique} turns once in nine hours. {FILLER}", unique)
    (hit,) = mcp.call("prompts_search", query=unique, fields=["keywords"])["results"]
    assert hit["snippet"] == f"ops, {unique}, other"
    assert hit["loc"]["field"] == "keywords"
