"""Every parser that sees text from outside, with good inputs to begin from and what must be true of each answer.

A parser is a function of bytes. It ends without an exception: errors that are part of its contract are caught here, and
a wrong answer is an AssertionError.
"""

from __future__ import annotations

import io
import json
import tomllib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import orjson
from tests.importers.shapes import assert_storable, item_of
from tests.importers.test_library_readers import GOOD, read_any
from tests.store.oracle import matches

from palaver.errors import PalaverError
from palaver.importers import Unreadable, parse_time
from palaver.importers.files import html_text, json_stream
from palaver.importers.library import front_matter, recordings
from palaver.importers.registry import CHATS
from palaver.model import requests, times
from palaver.operations import OPERATIONS
from palaver.search import followups, question, snippet
from palaver.search.open import excerpt
from palaver.setup import jsonc, toml_text
from palaver.text import dates, fence, match, notable, query, secrets, subtitles, tokenize
from palaver.text.control_characters import without_control_characters
from palaver.text.passages import pieces

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)
SAID = ["one two three", "two one", "alpha beta gamma alpha", "node.js v1.2", "東京 タワー", "", "a b a c"]


@dataclass(frozen=True)
class Parser:
    read: Callable[[bytes], None]
    seeds: tuple[bytes, ...]
    is_slow: bool = False
    """Its time depends on more than the length of the input, so the length is limited when time is measured."""


def text_of(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def read_query(raw: bytes) -> None:
    """An expression means the same to the code and to the judge of the engines."""
    typed = text_of(raw)
    query.plain(typed)
    try:
        wanted = query.expression(typed)
    except query.Malformed:
        return
    query.wanted_phrases(wanted)
    if len(typed) < 200 and typed.count("NEAR") < 3:  # the judge tries all combinations
        for said in SAID:
            assert match.is_match(wanted, tokenize.words(said)) == matches(wanted, said)


def read_secrets(raw: bytes) -> None:
    text = text_of(raw)
    masked = secrets.masked(text)
    assert secrets.masked(masked) == masked
    assert secrets.secret_in(masked) is None
    assert masked != text or secrets.secret_in(text) is None


def read_html(raw: bytes) -> None:
    page = html_text.read_page(text_of(raw))
    assert page.text == page.text.strip("\n")
    html_text.charset_of(raw[:2000])


def read_front_matter(raw: bytes) -> None:
    text = text_of(raw)
    properties, body = front_matter.split(text)
    assert text.endswith(body)
    assert all(isinstance(name, str) for name in properties)


def read_snippet(raw: bytes) -> None:
    """A snippet is made of the text's own characters."""
    text = text_of(raw)
    for wanted in (query.plain("one alpha"), query.expression('a* OR "two three"')):
        shown = snippet.as_text(snippet.passage_snippet(text, wanted, length=80))
        plain = " ".join(text.split())
        assert all(piece.strip() in plain for piece in shown.split("…") if piece.strip())
        snippet.excerpt(text, wanted)
        snippet.as_html(snippet.passage_snippet(text, wanted))
    snippet.beginning(text)


def read_dates(raw: bytes) -> None:
    text = text_of(raw)
    for found in dates.find(text, NOW):
        assert found.begin < found.end
        assert found.text in text


def read_question(raw: bytes) -> None:
    question.parse(text_of(raw), NOW)


def read_words(raw: bytes) -> None:
    """The words are the same with and without their places, and stems go with them."""
    text = text_of(raw)
    words = tokenize.words(text)
    assert [token.word for token in tokenize.tokens(text)][: len(words)] == words
    joined, stems = tokenize.words_and_stems(text, "ˢ")
    assert joined.split() == words
    assert len(stems.split()) == len(words)


def read_passages(raw: bytes) -> None:
    """The pieces of a text cover all of it."""
    text = text_of(raw)
    end = 0
    for piece in pieces(text):
        assert piece.start <= end < piece.end
        end = piece.end
    assert end == len(text)


def read_sentences(raw: bytes) -> None:
    text = text_of(raw)
    notable.sentences(text)
    notable.decisions(text)
    notable.open_points(text)
    followups.asks(text)
    followups.asks_back(text)
    assert len(notable.one_line(text, 50)) <= 50
    marked = fence.fenced(text)
    assert without_control_characters(text) in marked


def read_subtitles(raw: bytes) -> None:
    """A recording that was read can be written and read again."""
    for name in ("x.srt", "x.vtt", "x.json"):
        with suppress(Unreadable):
            for piece in recordings.pieces(item_of(raw, name)):
                cues = getattr(getattr(piece, "piece", None), "cues", ())
                subtitles.as_srt(cues)
                subtitles.as_vtt(cues)


def read_jsonc(raw: bytes) -> None:
    """JSON means the same as with comments allowed. A member that is added can be found and taken out."""
    text = text_of(raw)
    expected: Any = jsonc
    with suppress(ValueError, RecursionError):
        expected = json.loads(text)
    try:
        value = jsonc.parse(text)
    except jsonc.MalformedFile:
        assert expected is jsonc or not _is_plain(text)
        return
    if expected is not jsonc:
        assert value == expected or value != value or "NaN" in text
    if isinstance(value, dict) and "added" not in value:
        with suppress(jsonc.MalformedFile):
            added = jsonc.put(text, ("added",), {"a": [1]})
            assert jsonc.parse(added) == value | {"added": {"a": [1]}}
            assert jsonc.parse(jsonc.delete(added, ("added",))) == value


def _is_plain(text: str) -> bool:
    """Whether nothing in a JSON text is left to the reader: no NaN, no control characters, no deep nesting."""
    return "NaN" not in text and "Infinity" not in text and text.count("[") + text.count("{") < 100


def read_toml(raw: bytes) -> None:
    text = text_of(raw)
    expected = None
    with suppress(tomllib.TOMLDecodeError, RecursionError):
        expected = tomllib.loads(text.removeprefix("\ufeff"))
    try:
        value = toml_text.parse(text)
    except jsonc.MalformedFile:
        assert expected is None
        return
    assert value == expected or "nan" in text
    if "nan" not in text and "added" not in value:
        with suppress(jsonc.MalformedFile):
            added = toml_text.put(text, ("added",), {"a": 1})
            assert toml_text.parse(added) == value | {"added": {"a": 1}}
            assert toml_text.parse(toml_text.delete(added, ("added",))) == value


def read_json_stream(raw: bytes) -> None:
    """A list that is read element by element has the elements that it has."""
    whole: Any = None
    with suppress(ValueError):
        whole = orjson.loads(raw)
    try:
        found = list(json_stream.elements(io.BytesIO(raw)))
    except Unreadable:
        assert not isinstance(whole, list)
        return
    if isinstance(whole, list) and None not in found:
        assert [orjson.loads(one) for one in found if one is not None] == whole
    with suppress(Unreadable):
        list(json_stream.objects(item_of(raw)))


def read_chats(raw: bytes) -> None:
    for name in (
        "conversations.json",
        "x.jsonl",
        "rollout-2025-10-03T09-15-20-0199a8ee-0000-7000-8000-000000000000.jsonl",
    ):
        item = item_of(raw, name)
        for importer in CHATS:
            importer.recognises(item, raw[:65536])
            with suppress(Unreadable):
                assert_storable(importer.conversations(item))


def read_library(raw: bytes, name: str) -> None:
    read_any(raw, name)


def read_times(raw: bytes) -> None:
    text = text_of(raw)
    with suppress(ValueError):
        times.parse(text)
    with suppress(ValueError):
        times.zone_of(text)
    times.offset_of(text)
    parse_time(text)
    for kind in ("text", "conversation"):
        with suppress(PalaverError):
            excerpt.parse_cursor(text, kind, 10)


def read_bodies(raw: bytes) -> None:
    """Arguments of a tool and a body of REST are understood or refused."""
    try:
        given = orjson.loads(raw)
    except ValueError:
        return
    if not isinstance(given, dict):
        given = {"content": given}
    for operation in OPERATIONS:
        for names in ({}, dict(zip(operation.request.model_fields, given.values(), strict=False))):
            for refuse_unknown in (True, False):
                with suppress(PalaverError):
                    requests.read(operation.request, given | names, refuse_unknown=refuse_unknown)
            with suppress(PalaverError):
                strings = {
                    name: value if isinstance(value, str) else json.dumps(value) for name, value in names.items()
                }
                requests.read_strings(operation.request, strings)


def _library(ending: str) -> Parser:
    seeds = tuple(raw for raw, name in GOOD if name.endswith(ending))
    return Parser(partial(read_library, name=f"x{ending}"), seeds, is_slow=True)


TEXTS = (
    b"What did we decide about the harbour last week? See https://a.b/c, @ann and POL-358.",
    "Straße, 東京タワー, naïve café 👩‍👩‍👧; \u202eabc \u0301x".encode(),
    b"# Title\n\n- [ ] one `code`\n```py\nx = 1\n```\n> quote\n| a | b |\n|---|---|\n| 1 | 2 |\n",
    b"between the 3rd of March 2023 and early June, two weeks before Easter at 14:30, since 2021-05",
    b"AWS AKIAIOSFODNN7EXAMPLE ghp_0123456789abcdefghijABCDEFGHIJ012345 DB_PASSWORD='b1' -----BEGIN RSA PRIVATE KEY-----",
)
QUERIES = (b'alpha AND (beta OR "two three") NOT g* NEAR(a b, 2)', b"node.js v1.2 -x", b'NEAR("a b" c d, 9) OR one')
JSON = (
    b'{"mcpServers": {"a": {"url": "u", "n": [1, 2.5e3, null, true]}}, "t": "\\u00e9\\n"} // end\n',
    b'[{"id": "a", "messages": [{"role": "user", "content": "x"}]}, {}, [], "\\ud83d\\ude00"]',
)
CHAT_SEEDS = (
    b'[{"id":"c","title":"t","create_time":1700000000.5,"current_node":"b","mapping":{"a":{"id":"a","parent":null,'
    b'"children":["b"]},"b":{"id":"b","parent":"a","children":[],"message":{"id":"m","author":{"role":"user"},'
    b'"content":{"content_type":"text","parts":["hi"]},"create_time":1}}}}]',
    b'[{"uuid":"u","name":"n","created_at":"2026-01-01T00:00:00Z","chat_messages":[{"uuid":"m","sender":"human","text":"hi"}]}]',
    b'{"type":"user","sessionId":"s","uuid":"u","timestamp":"2026-01-01T00:00:00Z","message":{"role":"user","content":"hi"}}\n'
    b'{"type":"assistant","sessionId":"s","uuid":"v","message":{"role":"assistant","content":[{"type":"text","text":"yo"}]}}\n',
    b'{"timestamp":"2026-01-01T00:00:00Z","type":"session_meta","payload":{"id":"x","cwd":"/a"}}\n'
    b'{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}}\n',
)
PAGE = b"<!doctype html><html><head><title>T</title><script>x<y</script></head><body><main><p class='a'>one &amp; two<li>x</main><!-- c --><pre> a </pre>"
SRT = b"1\n00:00:01,000 --> 00:00:02,500\nHello\n\n2\n00:00:03,000 --> 00:00:04,000\n<i>two</i>\n"
VTT = b"WEBVTT\n\nNOTE x\n\n00:01.000 --> 00:02.000 align:start\n<v Ann>Hello\n\nSTYLE\n::cue{}\n"
TOML = b'model = "x" # c\n[mcp_servers.a]\ncommand = "b"\nargs = ["c", 1, 2026-01-01T00:00:00Z]\n[[t]]\na.b = {c = 1}\n"""\n'
MARKDOWN = b"---\ntitle: x\ntags: [a, b]\ndate: 2026-01-01\n---\n#tag text [[link|x]]\n"

PARSERS: dict[str, Parser] = {
    "query": Parser(read_query, QUERIES),
    "secrets": Parser(read_secrets, TEXTS),
    "html": Parser(read_html, (PAGE,)),
    "front-matter": Parser(read_front_matter, (MARKDOWN,)),
    "snippet": Parser(read_snippet, TEXTS),
    "dates": Parser(read_dates, (*TEXTS, b"last week, in 3 days; Q2 2024 - 5.6.2023 um 14 Uhr")),
    "question": Parser(read_question, (*TEXTS, *QUERIES)),
    "words": Parser(read_words, TEXTS),
    "passages": Parser(read_passages, TEXTS),
    "sentences": Parser(read_sentences, TEXTS),
    "subtitles": Parser(read_subtitles, (SRT, VTT, b'{"segments": [{"start": 1, "end": 2, "text": "a"}]}')),
    "jsonc": Parser(read_jsonc, JSON),
    "toml": Parser(read_toml, (TOML,), is_slow=True),
    "json-stream": Parser(read_json_stream, JSON),
    "chats": Parser(read_chats, CHAT_SEEDS, is_slow=True),
    "times": Parser(read_times, (b"2026-11-17T12:00:00+01:00", b"Europe/Berlin", b"-03:30", b"yesterday", b"12,3")),
    "bodies": Parser(read_bodies, (*JSON, b'{"content": "x", "limit": 5, "agent_id": "a", "metadata": {"a": 1}}'), is_slow=True),
    "notes": _library(".md"),
    "web-pages": _library(".html"),
    "yaml-prompts": _library(".yaml"),
    "cards": _library(".json"),
    "office": _library(".docx"),
    "epub": _library(".epub"),
    "pdf": _library(".pdf"),
}  # fmt: skip
