"""Transcripts, types of media, resources, and the prompts of the library as MCP prompts."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.helpers import Mcp, word
from tests.library_items import SOURCES, Library, search

SEGMENTS = [
    {"start": 0.0, "end": 1.5, "text": "Hello there."},
    {"start": 1.5, "end": 62.25, "text": "Two\n\nlines <b>&"},
    {"start": 3661.001, "end": 3662, "text": "an --> arrow"},
]


@pytest.fixture(scope="module")
def film(library: Library) -> dict[str, Any]:
    return library.media("A film.", transcript={"segments": SEGMENTS})


# media.transcript


def test_a_transcript_is_text_by_default(mcp: Mcp, api: httpx.Client, film: dict[str, Any]):
    text = "Hello there.\nTwo\n\nlines <b>&\nan --> arrow"
    assert mcp.call("media_transcript", media_id=film["id"]) == {"content": text}
    assert mcp.call("media.transcript", media_id=str(film["id"]), format="text") == {"content": text}
    assert api.get(f"/api/media/{film['id']}/transcript").json() == {"content": text}


def test_text_has_times_when_asked(mcp: Mcp, film: dict[str, Any]):
    text = mcp.call("media_transcript", media_id=film["id"], include_timestamps=True)["content"]
    assert text.startswith("[00:00:00.000] Hello there.\n[00:00:01.500] Two")
    assert "[01:01:01.001] an --> arrow" in text


def test_text_is_in_the_order_of_its_times_as_cues_are(library: Library, mcp: Mcp):
    late, early = {"start": 5, "end": 6, "text": "late"}, {"start": 0, "end": 1, "text": "early"}
    media = library.media("x", transcript={"segments": [late, early]})
    assert mcp.call("media_transcript", media_id=media["id"]) == {"content": "early\nlate"}


def test_what_a_listening_program_writes_besides_is_passed_over(library, mcp):
    heard = {"id": 0, "seek": 0, "start": 0.0, "end": 2.0, "text": "Hello.", "tokens": [1, 2], "speaker": "A"}
    media = library.media(
        "x", transcript={"language": "en", "segments": [heard]}, chunks=[{"text": "x", "chunk_index": 0}]
    )
    said = mcp.call("media_transcript", media_id=media["id"], format="json")
    assert said == {"content": {"segments": [{"start": 0.0, "end": 2.0, "text": "Hello."}]}}


@pytest.mark.parametrize("start", ["0", True, None, -1])
def test_times_are_numbers(api: httpx.Client, start: Any):
    """Wrong type → validation error naming the field."""
    segment = {"start": start, "end": 1, "text": "x"}
    body = {"title": "t", "media_type": "audio", "transcript": {"segments": [segment]}}
    refused = api.post("/api/media", json=body)
    assert (refused.status_code, "transcript.segments.0.start" in refused.text) == (422, True)


def test_srt_is_numbered_cues(mcp: Mcp, film: dict[str, Any]):
    assert mcp.call("media_transcript", media_id=film["id"], format="srt")["content"] == (
        "1\n00:00:00,000 --> 00:00:01,500\nHello there.\n\n"
        "2\n00:00:01,500 --> 00:01:02,250\nTwo\nlines <b>&\n\n"
        "3\n01:01:01,001 --> 01:01:02,000\nan -> arrow\n"
    )


def test_vtt_begins_with_its_name_and_escapes(mcp: Mcp, film: dict[str, Any]):
    assert mcp.call("media_transcript", media_id=film["id"], format="vtt")["content"] == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nHello there.\n\n"
        "00:00:01.500 --> 00:01:02.250\nTwo\nlines &lt;b&gt;&amp;\n\n"
        "01:01:01.001 --> 01:01:02.000\nan --&gt; arrow\n"
    )


def test_json_is_the_segments_as_they_are(mcp: Mcp, film: dict[str, Any]):
    assert mcp.call("media_transcript", media_id=film["id"], format="json") == {"content": {"segments": SEGMENTS}}


def test_another_format_is_refused_and_what_has_no_times_says_so(library: Library, mcp: Mcp, film: dict[str, Any]):
    assert "format" in mcp.refused("media_transcript", media_id=film["id"], format="ass")["error"]
    without = library.media("no times")
    said = mcp.refused("media_transcript", media_id=without["id"])
    assert "media.get" in said.pop("message")
    assert said == {"error": "TRANSCRIPT_NOT_FOUND", "media_id": without["id"]}
    said = mcp.refused("media_transcript", media_id=987654)
    assert (said["error"], set(said)) == ("MEDIA_NOT_FOUND", {"error", "media_id", "message"})


CUE = re.compile(r"(\d{2,}):(\d\d):(\d\d)[,.](\d{3}) --> (\d{2,}):(\d\d):(\d\d)[,.](\d{3})")
moments = st.floats(0, 400_000, allow_nan=False) | st.integers(0, 100)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "start": moments,
                "end": moments,
                "text": st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=40),
            }
        ),
        min_size=1,
        max_size=6,
    )
)
def test_whatever_the_segments_players_read_the_cues(
    library: Library, api: httpx.Client, segments: list[dict[str, Any]]
):
    media = library.media("x", transcript={"segments": segments})
    for format in ("srt", "vtt"):
        params = {"format": format}
        text = api.get(f"/api/media/{media['id']}/transcript", params=params).json()["content"]
        blocks = text.removeprefix("WEBVTT\n\n").rstrip("\n").split("\n\n")
        assert len(blocks) == len(segments)
        last = -1
        for number, block in enumerate(blocks, 1):
            lines = block.split("\n")
            if format == "srt":
                assert lines.pop(0) == str(number)
            found = CUE.fullmatch(lines.pop(0))
            assert found
            h1, m1, s1, ms1, h2, m2, s2, ms2 = map(int, found.groups())
            start, end = ((h * 60 + m) * 60 + s for h, m, s in ((h1, m1, s1), (h2, m2, s2)))
            begin, finish = start * 1000 + ms1, end * 1000 + ms2
            assert last <= begin < finish
            last = begin
            assert lines
            assert "-->" not in "".join(lines)
            assert all(line.strip() for line in lines)


def test_what_is_said_in_a_recording_is_found(library: Library, mcp: Mcp):
    unique = word()
    media = library.media(
        "something else", transcript={"segments": [{"start": 1, "end": 2, "text": f"we said {unique}"}]}
    )
    (hit,) = search(mcp, "media", unique)
    assert hit["id"] == media["id"]
    whole = mcp.call("media_get", media_id=media["id"], retrieval={"mode": "full"})
    assert whole["attachments"] == [
        {"type": "transcript", "segments": [{"start": 1.0, "end": 2.0, "text": f"we said {unique}"}]}
    ]
    only = library.media("", transcript={"segments": [{"start": 1, "end": 2, "text": "only said"}]})
    assert mcp.call("media_get", media_id=only["id"], retrieval={"mode": "full"})["content"] == "only said"


# media://types


def test_the_types_of_media_there_are_and_the_usual_ones(library: Library, api: httpx.Client, mcp: Mcp):
    kind = word("type")
    first, second = library.media("x", media_type=kind), library.media("y", media_type=kind)
    types = json.loads(mcp.read("media://types"))
    assert types["media_types"].count(kind) == 1
    assert types["suggested"] == [
        "video", "audio", "podcast", "pdf", "epub", "docx", "pptx", "html", "markdown", "txt", "image", "article",
    ]  # fmt: skip
    api.delete(f"/api/media/{first['id']}")
    assert kind in json.loads(mcp.read("media://types"))["media_types"]
    api.delete(f"/api/media/{second['id']}")
    assert kind not in json.loads(mcp.read("media://types"))["media_types"]
    assert "media://types" in [r["uri"] for r in mcp.ask("resources/list")["resources"]]


# Resources


@pytest.mark.parametrize("source", SOURCES)
def test_the_uri_of_a_result_is_a_resource(library: Library, api: httpx.Client, source: str):
    agent, unique = word("agent-"), word()
    library.put_in(source, f"it says {unique}", agent)
    client = Mcp(api, f"/mcp?agent={agent}")
    (hit,) = search(client, source, unique)
    assert f"it says {unique}" in client.read(hit["uri"])
    templates = [t["uriTemplate"] for t in client.ask("resources/templates/list")["resourceTemplates"]]
    assert f"{source}://{{id}}" in templates


def test_a_resource_is_the_whole_text_however_long(library: Library, api: httpx.Client):
    text = "0123456789" * 105_000
    media = library.media(text, chunks=[{"text": "x"}])
    import base64

    config = base64.b64encode(b'{"max_tokens": 16}').decode()
    for path in ("/mcp", f"/mcp?config={config}"):
        assert Mcp(api, path).read(media["uri"]) == text


@pytest.mark.parametrize(
    "uri",
    [
        "notes://absent",
        "media://999999",
        "tapes://1",
        "notes://",
        "media://types/x",
        "x",
        "notes://%00",
        "prompts://a%00",
    ],
)
def test_a_resource_that_is_not_there_is_an_error(mcp: Mcp, uri: str):
    error = mcp.exchange("resources/read", uri=uri)["error"]
    assert error["code"] < 0


# Prompts


def listed(mcp: Mcp) -> dict[str, dict[str, Any]]:
    found, answer = {}, mcp.ask("prompts/list")
    while True:
        found.update({prompt["name"]: prompt for prompt in answer["prompts"]})
        if "nextCursor" not in answer:
            return found
        answer = mcp.ask("prompts/list", cursor=answer["nextCursor"])


def texts(answer: dict[str, Any]) -> list[str]:
    assert all(message["role"] == "user" for message in answer["messages"])
    return [message["content"]["text"] for message in answer["messages"]]


def test_a_prompt_of_the_library_is_an_mcp_prompt_with_the_arguments_it_names(library: Library, mcp: Mcp):
    name = f"translate {word()}"
    library.prompt(
        name,
        details="Translates.",
        system_prompt="You know {{ language }}.",
        user_prompt="Translate {{text}} to {{language}} in {tone}. Keep {} and { x } and {1} and {{}}.",
    )
    prompt = listed(mcp)[name]
    assert prompt["description"] == "Translates."
    assert [(a["name"], a["required"]) for a in prompt["arguments"]] == [
        ("language", True),
        ("text", True),
        ("tone", True),
    ]
    given = {"language": "Latin", "text": "{{language}} {tone} \\1 $", "tone": ""}
    assert texts(mcp.ask("prompts/get", name=name, arguments=given)) == [
        "You know Latin.",
        "Translate {{language}} {tone} \\1 $ to Latin in . Keep {} and { x } and {1} and {{}}.",
    ]


def test_what_a_prompt_needs_is_named_when_it_is_missing(library: Library, mcp: Mcp):
    name = library.prompt(user_prompt="{{one}} {{two}}")["name"]
    error = mcp.exchange("prompts/get", name=name, arguments={"one": "x"})["error"]
    assert "two" in error["message"]
    assert "one" not in error["message"].replace(name, "")
    assert "error" in mcp.exchange("prompts/get", name=f"absent {word()}")


def test_a_prompt_without_arguments_is_its_text(library: Library, mcp: Mcp):
    text = "  Just\r\nthis  "
    prompt = library.prompt(user_prompt=text)
    assert listed(mcp)[prompt["name"]].get("arguments", []) == []
    assert texts(mcp.ask("prompts/get", name=prompt["name"])) == [text]


def test_an_edited_prompt_is_the_new_one_and_a_deleted_one_is_gone(library: Library, api: httpx.Client, mcp: Mcp):
    prompt = library.prompt(user_prompt="old {{a}}")
    api.put(f"/api/prompts/{prompt['id']}", json={"user_prompt": "new {{b}}"})
    assert [a["name"] for a in listed(mcp)[prompt["name"]]["arguments"]] == ["b"]
    api.delete(f"/api/prompts/{prompt['id']}")
    assert prompt["name"] not in listed(mcp)
    assert "error" in mcp.exchange("prompts/get", name=prompt["name"], arguments={"b": "x"})
    api.post(f"/api/prompts/{prompt['id']}/restore")
    assert texts(mcp.ask("prompts/get", name=prompt["name"], arguments={"b": "x"})) == ["new x"]


def test_of_two_prompts_with_one_name_the_newest_is_shown_once(library: Library, mcp: Mcp):
    name = f"twice {word()}"
    library.prompt(name, user_prompt="first")
    library.prompt(name, user_prompt="second")
    names = [prompt["name"] for prompt in mcp.ask("prompts/list")["prompts"]]
    assert names.count(name) == 1
    assert texts(mcp.ask("prompts/get", name=name)) == ["second"]


def test_all_prompts_are_listed_page_by_page(library: Library, mcp: Mcp):
    made = {library.prompt(user_prompt="x")["name"] for _ in range(201)}
    assert made <= set(listed(mcp))
    assert {"summarize_thread", "handoff_to_agent"} <= set(listed(mcp))
    assert mcp.exchange("prompts/list", cursor="nonsense")["error"]["code"] == -32602
