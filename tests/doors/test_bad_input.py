"""Whatever is sent: a clear refusal with `detail`, never an error of the server."""

from __future__ import annotations

import gzip
import http.client
import json
import re
import socket
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.conftest import ONE_ENGINE
from tests.helpers import PATIENCE, Mcp, Server, Thread, word

from palaver.operations import OPERATIONS
from palaver.operations.operation import Operation, Route

ROUTES = [
    (operation, route) for operation in OPERATIONS for route in operation.routes if route.path.startswith("/api/")
]
WITH_BODY = [pair for pair in ROUTES if pair[1].method in ("POST", "PUT")]
WITHOUT_BODY = [pair for pair in ROUTES if pair[1].method in ("GET", "DELETE")]
TOOLS = [(operation, tool) for operation in OPERATIONS for tool in operation.tools if tool.toolset == "bus"]


def named(value: Any) -> str | None:
    if isinstance(value, Route):
        return f"{value.method} {value.path}"
    return value.name if isinstance(value, Operation) or hasattr(value, "toolset") else None


def nested(depth: int) -> Any:
    value: Any = {}
    for _ in range(depth):
        value = {"a": value}
    return value


JUNK: list[Any] = [
    True, -1, 1.5, 10**30, 1e308, "", "text", "nul\x00", "lone \ud800", "x" * 100_001, [], [None], ["nul\x00"], {},
    {"nul\x00": "\x00"}, {"lone \udfff": 1}, [[]], nested(200), "' OR 1=1 --",
]  # fmt: skip
# The protocol's own parser refuses lone surrogates and deep nesting before anybody sees them.
JUNK_FOR_TOOLS: list[Any] = [
    True,
    1.5,
    10**30,
    "",
    "nul\x00",
    "x" * 100_001,
    [None],
    ["nul\x00"],
    {"nul\x00": "\x00"},
    nested(50),
]
WAITS = ("wait_s", "seconds")
TEXTS = [
    "",
    " ",
    "text",
    "-1",
    "1e5",
    "nul\x00",
    "99999999999999999999999",
    "true",
    "[]",
    "null",
    "x" * 2000,
    "é",
    "🚀",
    "' OR 1=1 --",
    "%",
]
WEIRD_IDS = ["%00", "a%00b", "%ED%A0%80", "%FF", "%F0%9F%9A%80", "x" * 257, "x" * 8000, "'%20OR%201=1--", "%2E%2E%2Fhouse.db", "null", "0", "-1", "%20x", "{}", "%25", "é"]  # fmt: skip


T = TypeVar("T")


def some_of(values: list[T], turn: int) -> list[T]:
    """A third of the values. Fields and routes take turns, so that together they get all of them."""
    return values[turn % 3 :: 3]


def must_be_fine(response: httpx.Response, what: Any = "") -> None:
    """It was done, or refused by the rules."""
    assert response.status_code < 500, (what, response.status_code, response.text)
    if response.status_code >= 400:
        said = response.json()
        detail = said.get("detail") or said.get("error")
        assert detail, what
        for leak in ("Traceback", "apsw", "psycopg", "SELECT ", "INSERT ", "site-packages", "pydantic"):
            assert leak not in str(detail), (what, detail)


def path_of(route: Route, api: httpx.Client) -> str:
    """The route's path, to things that exist."""
    path = route.path
    if "{thread_id}" in path or "{message_id}" in path:
        thread = Thread(api)
        path = path.replace("{thread_id}", thread.id).replace("{message_id}", thread.post("hello")["id"])
    path = path.replace("{reaction:any}", "agree").replace("{template_id}", "brainstorm").replace("{event}", "stop")
    return re.sub(r"\{[^}]+\}", "nobody", path)


def good_body(operation: Operation) -> dict[str, Any]:
    """A body that would be accepted."""
    values = {
        "topic": f"topic {word()}", "thread_name": f"topic {word()}", "content": "hello", "reaction": "agree", "id": word("t"), "name": "Name",
        "role": "user", "query": "x", "title": "Title", "media_type": "video", "sender": "ann", "source": "notes",
        "client": "codex", "session": "s", "tool": "Bash", "input": {}, "seconds": 1, "answer": "yes", "text": "x",
        "target_url": "https://example.org/", "path": "a.py", "line": "x = 1", "error": "Error: no such file",
        "edit": "1", "files": [{"path": "a.py"}],
        "patterns": ["src/a.py"],
    }  # fmt: skip
    if operation.name == "get_knowledge":
        return {"source": "notes", "id": "x"}  # required of tools, which leave no other way open
    required = [name for name, field in operation.request.model_fields.items() if field.is_required()]
    is_incoming = operation.name == "add_incoming_webhook"  # only it names a thread in its body
    return {name: values[name] for name in required if name in values} | (
        {"thread_id": "nobody"} if is_incoming else {}
    )


def sent(api: httpx.Client, method: str, path: str, body: Any) -> httpx.Response:
    """As JSON with escapes, so that lone surrogates can be sent at all."""
    return api.request(method, path, content=json.dumps(body), headers={"content-type": "application/json"})


@pytest.mark.examples(15)
@ONE_ENGINE
@pytest.mark.parametrize("operation, route", WITH_BODY, ids=named)
def test_a_field_of_the_wrong_kind_is_refused_by_name(api: httpx.Client, operation: Operation, route: Route):
    path = path_of(route, api)
    good = good_body(operation) | ({"wait_s": 0} if "wait_s" in operation.request.model_fields else {})
    for turn, name in enumerate([*operation.request.model_fields, *route.also], WITH_BODY.index((operation, route))):
        if name in WAITS:  # a large number is allowed, and waits long
            continue
        for value in some_of(JUNK, turn):
            response = sent(api, route.method, path, {**good, name: value})
            must_be_fine(response, (name, value))
            if response.status_code == 422 and "{" + name not in route.path:
                assert route.also.get(name, name) in response.text, (name, value, response.text)


@pytest.mark.examples(20)
@ONE_ENGINE
@pytest.mark.parametrize("operation, route", WITHOUT_BODY, ids=named)
def test_a_parameter_of_the_wrong_kind_is_refused(api: httpx.Client, operation: Operation, route: Route):
    path = path_of(route, api)
    for turn, name in enumerate([*operation.request.model_fields, *route.also], WITHOUT_BODY.index((operation, route))):
        for value in some_of(TEXTS, turn):
            params = {"q": "x", "timeout_ms": "0", name: value}
            must_be_fine(api.request(route.method, path, params=params), (name, value))


@pytest.mark.parametrize("operation, route", [pair for pair in ROUTES if "{" in pair[1].path], ids=named)
def test_an_id_nobody_knows_is_refused_whatever_it_looks_like(api: httpx.Client, operation: Operation, route: Route):
    body = good_body(operation) if route.method in ("POST", "PUT") else None
    for weird in some_of(WEIRD_IDS, ROUTES.index((operation, route))):
        path = re.sub(r"\{[^}]+\}", weird, route.path)
        response = api.request(route.method, path, json=body, params={"timeout_ms": 0} if body is None else None)
        must_be_fine(response, weird)
        # Taking off a label that is not there is no error.
        if "{reaction:any}" not in route.path and "/v1/" not in route.path:
            assert 400 <= response.status_code < 500, (weird, response.text)


BODIES = {
    "torn": b'{"content": "x',
    "nonsense": b"nonsense",
    "list": b"[]",
    "text": b'"text"',
    "number": b"5",
    "null": b"null",
    "true": b"true",
    "invalid utf-8": b'{"content": "\xff\xfe", "topic": "\xff"}',
    "utf-16": '{"content": "x", "topic": "x"}'.encode("utf-16"),
    "byte order mark": b'\xef\xbb\xbf{"content": "x", "topic": ""}',
    "nan": b'{"content": NaN, "topic": NaN}',
    "infinity": b'{"metadata": {"a": 1e999}, "topic": -Infinity}',
    "huge number": b'{"limit": ' + b"9" * 5_000 + b', "expected_last_seq": ' + b"9" * 5_000 + b"}",
    "deep list": b"[" * 100_000,
    "deep object": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "deep metadata": b'{"content": "x", "topic": "x", "metadata": {"a":' + b"[" * 5_000 + b"]" * 5_000 + b"}}",
    "form": b"content=x&topic=y",
    "nul": b"\x00" * 100,
    "spaces": b" " * 100_000,
    "key with nul": b'{"a\\u0000b": 1}',
    "key with surrogate": b'{"\\ud800": 1, "content": "\\ud800"}',
}


@ONE_ENGINE
@pytest.mark.parametrize("operation, route", WITH_BODY, ids=named)
def test_a_body_that_is_no_json_object_is_refused(api: httpx.Client, operation: Operation, route: Route):
    path = path_of(route, api)
    needs_something = bool(good_body(operation))
    for name, body in some_of(list(BODIES.items()), WITH_BODY.index((operation, route))):
        kind = "text/plain" if name == "form" else "application/json"
        response = api.request(route.method, path, content=body, headers={"content-type": kind})
        must_be_fine(response, name)
        if needs_something and name not in ("utf-16", "byte order mark", "deep metadata"):
            assert 400 <= response.status_code < 500, (name, response.text)


@ONE_ENGINE
@pytest.mark.parametrize("size", [17_000_000, 20_000_000])
def test_a_body_that_is_too_large_is_413(api: httpx.Client, thread: Thread, size: int):
    body = b'{"author": "ann", "content": "' + b"x" * size + b'"}'
    response = api.post(f"{thread.path}/messages", content=body)
    assert response.status_code == 413
    assert "16,777,216" in response.json()["detail"]
    in_pieces = api.post(
        f"{thread.path}/messages", content=(body[n : n + 1_000_000] for n in range(0, len(body), 1_000_000))
    )
    assert in_pieces.status_code == 413
    assert thread.messages() == []


def test_a_text_that_is_too_long_is_refused_by_name(api: httpx.Client, thread: Thread):
    response = api.post(f"{thread.path}/messages", json={"author": "ann", "content": "x" * 1_000_001})
    assert response.status_code == 422
    assert response.json()["detail"].startswith("content:")


@ONE_ENGINE
@pytest.mark.parametrize(
    "path",
    [
        "/api",
        "/api/",
        "/api/nothing",
        "/nothing",
        "/api/threads/",
        "/uploads/",
        "/api/messages",
        "/..%2f",
        "/%00",
        "/console/../../settings.py",
        "/console/%2e%2e/%2e%2e/settings.py",
    ],
)
def test_an_address_nobody_knows_is_404_with_a_detail(api: httpx.Client, path: str):
    response = api.get(path)
    assert response.status_code in (404, 405, 307)
    if response.status_code == 404:
        assert response.json()["detail"]


@ONE_ENGINE
@pytest.mark.parametrize("path, names", [("/api/nothing", {"detail"}), ("/api/v1/nothing", {"detail", "error"})])
def test_every_error_says_what_to_do_next_where_nothing_is_too(api: httpx.Client, path: str, names: set[str]):
    answer = api.get(path).json()
    assert set(answer) == names
    assert all("/docs" in text for text in answer.values())


@ONE_ENGINE
@pytest.mark.parametrize(
    "body, complaint",
    [
        ({"content": 5}, "content: must be text."),
        ({"content": "x", "mentions": "bob"}, "mentions: must be a list."),
        ({"content": "x", "metadata": "none"}, "metadata: must be an object."),
        ({"content": "x", "role": "boss"}, "role: must be 'user', 'assistant', 'system' or 'tool'."),
    ],
)
def test_a_field_of_the_wrong_type_is_told_what_it_must_be(thread: Thread, body: dict[str, Any], complaint: str):
    response = thread.api.post(f"{thread.path}/messages", json=body)
    assert (response.status_code, response.json()["detail"]) == (422, complaint)


@ONE_ENGINE
def test_a_packed_body_is_refused_with_what_to_do(thread: Thread):
    body = gzip.compress(json.dumps({"author": "ann", "content": "hello"}).encode())
    response = thread.api.post(f"{thread.path}/messages", content=body, headers={"Content-Encoding": "gzip"})
    assert response.status_code == 400
    assert "uncompressed" in response.json()["detail"]


@ONE_ENGINE
def test_a_slash_too_many_leads_to_where_the_same_can_be_done(api: httpx.Client):
    for method, path in (("GET", "/api/threads/"), ("POST", "/api/threads/"), ("GET", "/healthz/"), ("POST", "/mcp/")):
        response = api.request(method, path)
        assert (response.status_code, response.headers["location"]) == (307, str(api.base_url) + path.rstrip("/"))
    assert api.get("/api/v1/agents/robo/sessions").status_code == 404
    assert api.get("/console/nothing.js").status_code == 404


def test_what_is_looked_for_may_stand_in_the_address_as_it_is(server: Server, thread: Thread):
    """curl and others send the bytes of café, not caf%C3%A9. Works for CJK, accents, emoji."""
    unique = word()
    message = thread.post(f"{unique} café 東京 🚀")
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as line:
        for text in ("café", "東京", "🚀"):  # on one connection, one after the other
            request = f"GET /api/search?q={unique}+{text} HTTP/1.1\r\nHost: localhost\r\n\r\n"
            line.sendall(request.encode())
            answer = http.client.HTTPResponse(line)
            answer.begin()
            assert [hit["message_id"] for hit in json.loads(answer.read())["results"]] == [message["id"]]


@ONE_ENGINE
@pytest.mark.parametrize("method", ["PATCH", "TRACE", "PUT", "OPTIONS"])
def test_a_method_nobody_knows_is_405(api: httpx.Client, method: str):
    response = api.request(method, "/api/threads")
    assert response.status_code == 405
    assert response.headers["allow"] == "GET, HEAD, POST"
    assert "GET, HEAD, POST" in response.json()["detail"]


@ONE_ENGINE
def test_the_legacy_stream_says_how_it_is_opened(api: httpx.Client):
    response = api.post("/sse")
    assert (response.status_code, response.headers["allow"]) == (405, "GET, HEAD")


# Tools


@pytest.mark.examples(8)
@ONE_ENGINE
@pytest.mark.parametrize("operation, tool", TOOLS, ids=named)
def test_a_tool_refuses_arguments_of_the_wrong_kind(mcp: Mcp, thread: Thread, operation: Operation, tool: Any):
    message = thread.post("hello")
    good = {**good_body(operation), "thread_id": thread.id, "message_id": message["id"], "timeout_ms": 0}
    good = {name: value for name, value in good.items() if name in operation.request.model_fields}
    for turn, name in enumerate(operation.request.model_fields, TOOLS.index((operation, tool))):
        for value in some_of(JUNK_FOR_TOOLS, turn):
            response = mcp.exchange("tools/call", name=tool.name, arguments={**good, name: value})
            assert "result" in response, (name, value, response)
            if response["result"].get("isError"):
                assert json.loads(response["result"]["content"][0]["text"])["error"], (name, value)


@ONE_ENGINE
@pytest.mark.parametrize("name", ["", "no_such_tool", "msg search", "x" * 10_000, "nul\x00", "🚀", "../msg_list"])
def test_a_tool_nobody_knows_is_refused(mcp: Mcp, name: str):
    response = mcp.exchange("tools/call", name=name, arguments={})
    assert response.get("error") or response["result"]["isError"]


# Anything at all


ANY_TEXT = st.text(max_size=60)
ONE_LINE = ANY_TEXT.filter(lambda text: len(text.splitlines()) < 2)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=8,
)
FUZZ = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck), database=None)


@FUZZ
@given(query=st.text(max_size=200) | st.text(alphabet="ab\"()*+^: ANDORTE,-\\'{}", max_size=40))
def test_any_query_is_answered_or_refused(api: httpx.Client, server: Server, query: str):
    response = api.get(f"/api/search?q={quote(query.encode('utf-8', 'replace'))}")
    must_be_fine(response, query)
    if response.status_code == 200:
        assert response.json()["total"] == len(response.json()["results"])


@FUZZ
@given(
    body=st.dictionaries(
        st.sampled_from(
            [
                "author",
                "content",
                "role",
                "metadata",
                "mentions",
                "reply_to_msg_id",
                "priority",
                "expected_last_seq",
                "idempotency_key",
                "images",
            ]
        ),
        ANY_JSON,
    )
    | ANY_JSON
)
def test_any_message_is_stored_as_it_is_or_refused(api: httpx.Client, server: Server, body: Any):
    thread = _shared_thread(api, server)
    response = sent(api, "POST", f"/api/threads/{thread}/messages", body)
    must_be_fine(response, body)
    if response.status_code == 201 and isinstance(body, dict):
        stored = api.get(f"/api/messages/{response.json()['id']}").json()
        if not body.get("idempotency_key"):
            assert stored == response.json()
            assert stored["content"] == body["content"]


_THREADS: dict[str, str] = {}


def _shared_thread(api: httpx.Client, server: Server) -> str:
    if server.url not in _THREADS:
        _THREADS[server.url] = Thread(api).id
    return _THREADS[server.url]


@FUZZ
@given(label=ONE_LINE)
def test_any_label_is_put_on_and_taken_off_or_refused(api: httpx.Client, server: Server, label: str):
    message_id = Thread(api).post("hello")["id"]
    response = sent(api, "POST", f"/api/messages/{message_id}/reactions", {"reaction": label})
    must_be_fine(response, label)
    if response.status_code == 201:
        kept = response.json()["reaction"]
        assert kept == label.strip()
        if kept not in (".", ".."):
            removed = api.delete(f"/api/messages/{message_id}/reactions/{quote(kept, safe='')}")
            assert removed.json()["removed"] is True, label


RPC = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0") | ANY_JSON},
    optional={
        "id": st.integers() | ANY_JSON,
        "method": st.sampled_from(["initialize", "tools/list", "tools/call", "ping", "resources/read"]) | ANY_TEXT,
        "params": ANY_JSON
        | st.fixed_dictionaries({"name": st.sampled_from(["msg_post", "knowledge_search"]), "arguments": ANY_JSON}),
    },
)
MCP_HEADERS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


@ONE_ENGINE
@FUZZ
@given(
    body=(RPC | st.lists(RPC, max_size=3) | ANY_JSON).map(lambda one: json.dumps(one).encode()) | st.binary(max_size=99)
)
def test_any_body_of_mcp_is_answered_or_refused(api: httpx.Client, body: bytes):
    response = api.post("/mcp", content=body, headers=MCP_HEADERS)
    assert response.status_code < 500, (body, response.text)


@ONE_ENGINE
@FUZZ
@given(path=st.text(max_size=40), method=st.sampled_from(["GET", "POST", "PUT", "DELETE"]))
def test_any_address_is_answered(api: httpx.Client, path: str, method: str):
    address = "/api/" + quote(path.encode("utf-8", "replace"), safe="/")
    must_be_fine(api.request(method, address), path)


def test_nothing_of_this_has_troubled_the_server(server: Server, api: httpx.Client):
    """Runs last: whatever went wrong inside would stand in the log."""
    assert api.get("/readyz").status_code == 200
    assert "Traceback" not in server.said()


@ONE_ENGINE
def test_a_request_without_long_texts_has_a_small_body(api: httpx.Client, thread: Thread):
    long = {"reaction": "x", "ignored": "x" * 3_000_000}
    message = thread.post("hello")
    assert api.post(f"/api/messages/{message['id']}/reactions", json=long).status_code == 413
    assert (
        api.post(f"{thread.path}/messages", json={"author": "a", "content": "\U0001f44d" * 1_000_000}).status_code
        == 201
    )
