"""Bus search, sentence by sentence, through both doors, on both engines."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.conftest import ONE_ENGINE, Engine, Restarted
from tests.helpers import Mcp, Thread, eventually, start_server, word

HIDDEN = "[human-only content hidden]"

Search = Callable[..., dict[str, Any]]


@pytest.fixture(params=["rest", "mcp"])
def search(request: pytest.FixtureRequest, api: httpx.Client, mcp: Mcp) -> Search:
    """Search through one door; whatever uses it runs through both."""

    def over_rest(query: str, **more: Any) -> dict[str, Any]:
        response = api.get("/api/search", params={"q": query, **more})
        assert response.status_code == 200, response.text
        return dict(response.json())

    def over_mcp(query: str, **more: Any) -> dict[str, Any]:
        return dict(mcp.call("msg_search", query=query, **more))

    return over_rest if request.param == "rest" else over_mcp


pytestmark = pytest.mark.on_postgres(search=["rest"])
"""Both doors call one operation: on PostgreSQL one of them is enough."""

REST_ONLY = pytest.mark.parametrize("search", ["rest"], indirect=True)
"""Mark for rules about texts and expressions, which do not depend on the door."""


def found(answer: dict[str, Any]) -> list[str]:
    """The ids that were found, in order."""
    return [hit["message_id"] for hit in answer["results"]]


def seqs(answer: dict[str, Any]) -> list[int]:
    return sorted(hit["seq"] for hit in answer["results"])


# How it works


def test_a_message_can_be_found_as_soon_as_it_is_posted(search: Search, thread: Thread):
    for _ in range(5):
        unique = word()
        message = thread.post(f"the quick {unique} fox")
        assert found(search(unique)) == [message["id"]]


def test_the_response_has_exactly_this_shape(search: Search, thread: Thread):
    unique = word()
    message = thread.post(f"the quick {unique} fox jumps", author="cursor-agent-abc123")
    assert search(unique) == {
        "results": [
            {
                "message_id": message["id"],
                "thread_id": thread.id,
                "thread_topic": thread.topic,
                "author": "cursor-agent-abc123",
                "seq": 1,
                "created_at": message["created_at"],
                "snippet": f"the quick <mark>{unique}</mark> fox jumps",
            }
        ],
        "total": 1,
        "query": unique,
        "has_more": False,
    }


def test_created_at_is_utc_with_z(search: Search, thread: Thread):
    unique = word()
    thread.post(unique)
    (hit,) = search(unique)["results"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", hit["created_at"])


def test_results_are_ordered_best_match_first(search: Search, thread: Thread):
    unique = word()
    padding = " ".join(word() for _ in range(60))
    weak = thread.post(f"{padding} {unique} {padding}")
    strong = thread.post(f"{unique} {unique} {unique}")
    weaker = thread.post(f"{padding} {padding} {unique} {padding}")
    assert found(search(unique)) == [strong["id"], weak["id"], weaker["id"]]


def test_only_content_is_indexed(search: Search, api: httpx.Client):
    unique, author = word(), word("author")
    thread = Thread(api, topic=f"about {unique}")
    message = thread.post("nothing to see", author=author)
    for query in (unique, author, message["id"], thread.id):
        assert found(search(query)) == []


def test_messages_missing_in_the_index_are_backfilled_at_the_start(restarted: Restarted):
    answer = restarted.api.get("/api/search", params={"q": restarted.word}).json()
    assert found(answer) == [restarted.message["id"]]


# Parameters


def test_the_default_limit_is_50(search: Search, thread: Thread):
    unique = word()
    _post_many(thread, unique, 51)
    answer = search(unique)
    assert (len(answer["results"]), answer["total"], answer["has_more"]) == (50, 50, True)


@pytest.mark.thorough("postgres")
def test_the_limit_is_clamped_to_1_and_200(search: Search, thread: Thread):
    unique = word()
    _post_many(thread, unique, 202)
    for limit, expected in ((-5, 1), (0, 1), (1, 1), (7, 7), (200, 200), (201, 200), (10**15, 200)):
        answer = search(unique, limit=limit)
        assert (limit, len(answer["results"]), answer["total"]) == (limit, expected, expected)
        assert answer["has_more"] is True


def _post_many(thread: Thread, unique: str, count: int) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: thread.post(f"{unique} {n}"), range(count)))


def test_total_counts_the_results_and_has_more_tells_of_others(search: Search, thread: Thread):
    unique = word()
    for n in range(3):
        thread.post(f"{unique} {n}")
    for limit, total, has_more in ((2, 2, True), (3, 3, False), (4, 3, False)):
        answer = search(unique, limit=limit)
        assert (answer["total"], len(answer["results"]), answer["has_more"]) == (total, total, has_more)


@ONE_ENGINE
@pytest.mark.parametrize("limit", ["ten", "1.5", "", "[]"])
def test_a_limit_of_the_wrong_type_is_refused_by_name(api: httpx.Client, limit: str):
    response = api.get("/api/search", params={"q": "x", "limit": limit})
    assert response.status_code == 422
    assert "limit" in response.json()["detail"]


@ONE_ENGINE
@pytest.mark.parametrize("limit", ["10", 1.5, True, [], {}])
def test_a_limit_of_the_wrong_type_is_refused_by_name_as_a_tool_too(mcp: Mcp, limit: Any):
    assert "limit" in mcp.refused("msg_search", query="x", limit=limit)["error"]


def test_null_is_the_same_as_absent(mcp: Mcp, thread: Thread):
    unique = word()
    thread.post(unique)
    assert mcp.call("msg_search", query=unique, thread_id=None, limit=None)["total"] == 1


def test_the_parameter_is_q_over_rest_and_query_as_a_tool(api: httpx.Client, mcp: Mcp, thread: Thread):
    unique = word()
    thread.post(unique)
    assert api.get(f"/api/search?q={unique}").json()["total"] == 1
    assert "query" in mcp.refused("msg_search", q=unique)["error"]


# Scope


def test_without_thread_id_all_threads_are_searched(search: Search, api: httpx.Client):
    unique = word()
    one, other = Thread(api), Thread(api)
    posted = {one.post(unique)["id"], other.post(unique)["id"]}
    assert set(found(search(unique))) == posted


def test_thread_id_restricts_the_search_to_that_thread(search: Search, api: httpx.Client):
    unique = word()
    one, other = Thread(api), Thread(api)
    message, _ = one.post(unique), other.post(unique)
    answer = search(unique, thread_id=one.id)
    assert found(answer) == [message["id"]]
    assert answer["has_more"] is False


def test_the_thread_id_is_the_one_bus_connect_returns(mcp: Mcp, api: httpx.Client):
    unique = word()
    connected = mcp.call("bus_connect", thread_name=f"topic {word()}")
    mcp.call("msg_post", thread_id=connected["thread"]["thread_id"], content=unique)
    assert mcp.call("msg_search", query=unique, thread_id=connected["thread"]["thread_id"])["total"] == 1


@REST_ONLY
@pytest.mark.parametrize("thread_id", ["no-such-thread", "0", "'; DROP TABLE passages; --", "ünï", "x" * 256])
def test_an_unknown_thread_gives_an_empty_result(search: Search, thread: Thread, thread_id: str):
    unique = word()
    thread.post(unique)
    answer = search(unique, thread_id=thread_id)
    assert (answer["results"], answer["total"], answer["has_more"]) == ([], 0, False)


# Query syntax


def test_a_simple_term_matches_messages_with_the_word(search: Search, thread: Thread):
    thread.post("angular signals are here")
    thread.post("react hooks are there")
    assert seqs(search("angular", thread_id=thread.id)) == [1]


def test_several_terms_must_all_appear_in_any_order(search: Search, thread: Thread):
    thread.post("angular has signals")
    thread.post("signals in angular")
    thread.post("angular alone")
    thread.post("signals alone")
    assert seqs(search("angular signals", thread_id=thread.id)) == [1, 2]


def test_double_quotes_match_an_exact_phrase(search: Search, thread: Thread):
    thread.post("we chose angular signals today")
    thread.post("signals of angular")
    thread.post("angular new signals")
    assert seqs(search('"angular signals"', thread_id=thread.id)) == [1]


def test_a_star_matches_every_word_with_the_prefix(search: Search, thread: Thread):
    for text in ("perform", "performance matters", "performing now", "a perforation", "outperform"):
        thread.post(text)
    assert seqs(search("perform*", thread_id=thread.id)) == [1, 2, 3]
    assert seqs(search('"performing no"*', thread_id=thread.id)) == [3]


def test_boolean_operators_in_capitals(search: Search, thread: Thread):
    for text in ("alpha beta", "alpha gamma", "beta gamma", "delta"):
        thread.post(text)
    for query, expected in (
        ("alpha AND beta", [1]),
        ("alpha OR delta", [1, 2, 4]),
        ("alpha NOT beta", [2]),
        ("alpha AND beta OR delta", [1, 4]),
        ("beta OR alpha NOT gamma", [1, 3]),
    ):
        assert (query, seqs(search(query, thread_id=thread.id))) == (query, expected)


def test_operators_in_small_letters_are_words(search: Search, thread: Thread):
    thread.post("this or that")
    thread.post("this")
    assert seqs(search("this or that", thread_id=thread.id)) == [1]


def test_parentheses_group(search: Search, thread: Thread):
    for text in ("alpha beta", "alpha gamma", "beta gamma", "gamma"):
        thread.post(text)
    assert seqs(search("(alpha OR beta) AND gamma", thread_id=thread.id)) == [2, 3]
    assert seqs(search("alpha OR (beta AND gamma)", thread_id=thread.id)) == [1, 2, 3]
    assert seqs(search("gamma NOT (alpha OR beta)", thread_id=thread.id)) == [4]


def test_near_finds_words_close_to_each_other(search: Search, thread: Thread):
    thread.post("alpha one two beta")
    thread.post("alpha " + "x " * 30 + "beta")
    assert seqs(search("NEAR(alpha beta, 5)", thread_id=thread.id)) == [1]
    assert seqs(search("NEAR(alpha beta, 50)", thread_id=thread.id)) == [1, 2]


def test_the_content_column_can_be_named(search: Search, thread: Thread):
    thread.post("alpha beta")
    thread.post("content beta")
    assert seqs(search("content:alpha", thread_id=thread.id)) == [1]
    assert seqs(search("content : alpha", thread_id=thread.id)) == [1]
    assert seqs(search("{content} : alpha", thread_id=thread.id)) == [1]


@ONE_ENGINE
@REST_ONLY
@pytest.mark.parametrize("query", ["Angular", "angular", "ANGULAR", "aNGULAR", "ANGU*"])
def test_searching_does_not_care_about_case(search: Search, thread: Thread, query: str):
    for text in ("Angular", "angular", "ANGULAR"):
        thread.post(text)
    assert seqs(search(query, thread_id=thread.id)) == [1, 2, 3]


def test_words_are_not_stemmed(search: Search, thread: Thread):
    thread.post("running")
    assert seqs(search("run", thread_id=thread.id)) == []
    assert seqs(search("runs", thread_id=thread.id)) == []


@ONE_ENGINE
@REST_ONLY
@pytest.mark.parametrize(
    "text, query",
    [
        ("the quick-brown fox", "quick-brown"),
        ("we use node.js here", "node.js"),
        ("thanks @nasa for it", "@nasa"),
        ("see POL-358 please", "POL-358"),
        ("it was the fox.", "fox."),
        ("open src/app/main.py now", "src/app/main.py"),
        ("mail ann@example.org now", "ann@example.org"),
        ("version 1.2.3 is out", "1.2.3"),
        ("it's fine", "it's"),
        ("call main() first", "main()"),
        ("a C++ program", "C++"),
        ("#hashtag it", "#hashtag"),
    ],
)
def test_a_bareword_with_punctuation_is_the_phrase_of_its_parts(search: Search, thread: Thread, text: str, query: str):
    thread.post(text)
    thread.post("something else")
    answer = search(query, thread_id=thread.id)
    assert seqs(answer) == [1]
    assert "hint" not in answer


def test_a_bareword_with_punctuation_is_not_its_parts_apart(search: Search, thread: Thread):
    thread.post("quick and brown")
    assert seqs(search("quick-brown", thread_id=thread.id)) == []


@ONE_ENGINE
@REST_ONLY
@pytest.mark.parametrize(
    "query",
    [
        "*",
        "**",
        '"unbalanced',
        'alpha "beta',
        "(alpha",
        "alpha)",
        "((alpha)",
        "alpha AND",
        "OR alpha",
        "AND",
        "NOT alpha",
        "alpha AND OR beta",
        "()",
        "NEAR(alpha",
    ],
)
def test_a_malformed_expression_gives_an_empty_result_and_a_hint(search: Search, thread: Thread, query: str):
    thread.post("alpha beta")
    answer = search(query)
    hint = answer.pop("hint")
    assert answer == {"results": [], "total": 0, "query": query, "has_more": False}
    assert isinstance(hint, str)
    assert hint


@ONE_ENGINE
@REST_ONLY
@pytest.mark.parametrize("query", ["...", "?!", "-", "--", "'", "“”", "§$%&/", ":", ";", ","])
def test_pure_punctuation_finds_nothing_and_never_everything(search: Search, thread: Thread, query: str):
    thread.post("alpha beta ... ?! - § % & / ; ,")
    answer = search(query, thread_id=thread.id)
    assert (answer["results"], answer["total"], answer["query"]) == ([], 0, query)


@REST_ONLY
@pytest.mark.parametrize(
    "text, query",
    [
        ("我们明天讨论部署策略", "部署"),
        ("我们明天讨论部署策略", "部署策略"),
        ("東京タワーに行きます", "タワー"),
        ("회의는 내일 합니다", "내일"),
        ("das Café in Zürich", "cafe"),
        ("das Cafe in Zurich", "café"),
        ("das Cafe\u0301", "café"),
        ("Ångström", "angstrom"),
        ("ПРИВЕТ мир", "привет"),
        ("ΣΊΣΥΦΟΣ", "σίσυφος"),
        ("let us ship it 🚀 today", "🚀"),
        ("well done 👍🏽", "👍"),
        ("straße", "STRASSE"),
        ("हिन्दी में", "हिन्दी"),
        ("שלום עולם", "שלום"),
    ],
)
def test_every_script_and_emoji_can_be_found(search: Search, thread: Thread, text: str, query: str):
    thread.post(text)
    thread.post("plain words only")
    assert seqs(search(query, thread_id=thread.id)) == [1]


def test_characters_of_a_chinese_word_must_stand_together(search: Search, thread: Thread):
    thread.post("部队在签署文件")
    assert seqs(search("部署", thread_id=thread.id)) == []


def test_nul_and_lone_surrogates_in_a_query_are_ignored(mcp: Mcp, api: httpx.Client, thread: Thread):
    thread.post("alpha beta")
    assert seqs(mcp.call("msg_search", query="\x00al\x00pha", thread_id=thread.id)) == [1]
    for query, expected in (("al%00pha", [1]), ("%00", []), ("%00alpha%00%20beta", [1])):
        response = api.get(f"/api/search?q={query}&thread_id={thread.id}")
        assert (response.status_code, seqs(response.json())) == (200, expected)
    for query in ("alpha%ED%A0%80", "%FF%FE", "alpha%EF%BF%BD"):
        assert api.get(f"/api/search?q={query}&thread_id={thread.id}").status_code == 200


def test_a_lone_surrogate_in_a_tool_call_is_ignored(mcp: Mcp, thread: Thread):
    thread.post("alpha beta")
    assert seqs(mcp.call("msg_search", query="alpha\ud800", thread_id=thread.id)) == [1]


@pytest.mark.parametrize(
    "query",
    [
        "alpha " * 1_667,
        "a" * 10_000,
        "(" * 10_000,
        '"' * 10_001,
        "alpha OR " * 1_100 + "alpha",
        "NOT " * 2_500,
        "部" * 10_000,
        "a* " * 3_333,
        "NEAR(" * 2_000,
        "\u0301" * 10_000,
    ],
    ids=["words", "word", "parentheses", "quotes", "ors", "nots", "han", "stars", "nears", "accents"],
)
def test_a_query_of_ten_thousand_characters_is_answered_or_refused_quickly(
    api: httpx.Client, mcp: Mcp, thread: Thread, query: str
):
    thread.post("alpha beta")
    in_url = query if query.isascii() else query[: len(query) // 2]  # each character becomes nine
    response = api.get("/api/search", params={"q": in_url, "thread_id": thread.id})
    assert response.status_code == 200 or 400 <= response.status_code < 500, response.text
    assert not mcp.answer("msg_search", query=query, thread_id=thread.id).is_error


def test_the_query_is_given_back_as_it_was(search: Search):
    query = f'  "{word()}  {word()}" OR Ünï*  '
    assert search(query)["query"] == query


def test_text_that_looks_like_sql_is_only_text(search: Search, thread: Thread):
    thread.post("Robert'); DROP TABLE passages;--")
    assert seqs(search("Robert'); DROP TABLE passages;--", thread_id=thread.id)) in ([], [1])
    assert seqs(search('"Robert DROP TABLE"', thread_id=thread.id)) == [1]


# Snippets


@ONE_ENGINE
@REST_ONLY
@pytest.mark.parametrize(
    "text, query, snippet",
    [
        ("alpha and beta and Alpha", "alpha beta", "<mark>alpha</mark> and <mark>beta</mark> and <mark>Alpha</mark>"),
        ("we like angular signals", '"angular signals"', "we like <mark>angular signals</mark>"),
        ("good performance here", "perf*", "good <mark>performance</mark> here"),
        ("das Café Zürich 👍🏽 eröffnet", "cafe", "das <mark>Café</mark> Zürich 👍🏽 eröffnet"),
        ("alpha gamma", "alpha NOT beta", "<mark>alpha</mark> gamma"),
    ],
    ids=["each term", "a phrase as one", "the word of a prefix", "as it was written", "not what is excluded"],
)
def test_a_snippet_marks_the_matches(search: Search, thread: Thread, text: str, query: str, snippet: str):
    thread.post(text)
    (hit,) = search(query, thread_id=thread.id)["results"]
    assert hit["snippet"] == snippet


@ONE_ENGINE
@REST_ONLY
def test_a_snippet_has_at_most_20_tokens_with_ellipses_where_it_is_cut(search: Search, thread: Thread):
    numbers = [f"n{n}" for n in range(100)]
    thread.post(" ".join(numbers))
    for at in (0, 1, 10, 50, 90, 99):
        (hit,) = search(f"n{at}", thread_id=thread.id)["results"]
        snippet = hit["snippet"]
        shown = re.findall(r"n\d+", snippet.replace("<mark>", "").replace("</mark>", ""))
        assert len(shown) == 20
        assert f"<mark>n{at}</mark>" in snippet
        first, last = numbers.index(shown[0]), numbers.index(shown[-1])
        assert shown == numbers[first : last + 1]
        assert snippet.startswith("…") == (first > 0)
        assert snippet.endswith("…") == (last < 99)


@ONE_ENGINE
@REST_ONLY
def test_a_short_message_is_shown_whole_without_ellipses(search: Search, thread: Thread):
    words = " ".join(f"n{n}" for n in range(20))
    thread.post(words)
    (hit,) = search("n7", thread_id=thread.id)["results"]
    assert hit["snippet"] == words.replace("n7", "<mark>n7</mark>")


def test_a_match_far_down_a_long_message_is_shown(search: Search, thread: Thread):
    unique = word()
    thread.post("lorem ipsum " * 20_000 + unique + " dolor sit" * 1_000)
    (hit,) = search(unique)["results"]
    assert f"<mark>{unique}</mark>" in hit["snippet"]
    assert len(hit["snippet"]) < 400


def test_rest_snippets_are_escaped_before_they_are_marked(api: httpx.Client, thread: Thread):
    unique = word()
    thread.post(f'<script>alert("x")</script> & <mark>fake</mark> {unique}')
    (hit,) = api.get("/api/search", params={"q": unique}).json()["results"]
    assert hit["snippet"] == (
        f"&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt; &amp; &lt;mark&gt;fake&lt;/mark&gt; <mark>{unique}</mark>"
    )


def test_mcp_snippets_are_plain_text_with_marks(mcp: Mcp, thread: Thread):
    unique = word()
    thread.post(f'<script>alert("x")</script> & {unique}')
    (hit,) = mcp.call("msg_search", query=unique)["results"]
    assert hit["snippet"] == f'<script>alert("x")</script> & <mark>{unique}</mark>'


# Human-only messages

HUMAN_ONLY = [
    {"visibility": "human_only"},
    {"audience": "human"},
    {"visibility": " HUMAN_ONLY "},
    {"audience": "Human"},
]


@pytest.mark.parametrize("metadata", HUMAN_ONLY)
def test_agents_find_human_only_messages_but_see_a_placeholder(
    mcp: Mcp, api: httpx.Client, thread: Thread, metadata: dict[str, str]
):
    unique = word()
    message = thread.post(f"the secret {unique}", metadata=metadata)
    answer = mcp.call("msg_search", query=unique)
    assert (found(answer), answer["total"]) == ([message["id"]], 1)
    assert answer["results"][0]["snippet"] == HIDDEN
    assert unique not in str(answer["results"])


@pytest.mark.parametrize("metadata", HUMAN_ONLY)
def test_people_see_human_only_messages_in_full(api: httpx.Client, thread: Thread, metadata: dict[str, str]):
    unique = word()
    thread.post(f"the secret {unique}", metadata=metadata)
    (hit,) = api.get("/api/search", params={"q": unique}).json()["results"]
    assert hit["snippet"] == f"the secret <mark>{unique}</mark>"


def test_other_metadata_hides_nothing(mcp: Mcp, thread: Thread):
    unique = word()
    thread.post(unique, metadata={"visibility": "all", "audience": "agents", "tags": ["human_only"]})
    (hit,) = mcp.call("msg_search", query=unique)["results"]
    assert hit["snippet"] == f"<mark>{unique}</mark>"


# Errors


@ONE_ENGINE
@pytest.mark.parametrize("query", ["", " ", "\t\n "])
def test_an_empty_query_is_an_error_with_these_words(api: httpx.Client, mcp: Mcp, query: str):
    answer = mcp.answer("msg_search", query=query)
    assert (answer.value, answer.is_error) == ({"error": "query must not be empty"}, True)
    response = api.get("/api/search", params={"q": query})
    assert (response.status_code, response.json()) == (400, {"detail": "Query parameter 'q' must not be empty"})


@ONE_ENGINE
def test_a_missing_query_is_an_error(api: httpx.Client, mcp: Mcp):
    response = api.get("/api/search")
    assert (response.status_code, response.json()) == (400, {"detail": "Query parameter 'q' must not be empty"})
    assert "query" in mcp.refused("msg_search")["error"]


SLOW_SEARCH = """
from palaver.operations.search import bus_search
quick = bus_search.match_messages
ENDLESS = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT 1 FROM c) SELECT count(*) AS n FROM c"
def slow(read, *rest, **more):
    read.connection.fetch(ENDLESS, {})
    return quick(read, *rest, **more)
bus_search.match_messages = slow
"""


def test_a_database_that_takes_too_long_is_503_over_rest_and_empty_as_a_tool(engine: Engine, tmp_path: Path):
    with (
        start_server(
            tmp_path, before=SLOW_SEARCH, PALAVER_DATABASE_URL=engine.fresh(), PALAVER_SEARCH_TIMEOUT="0.5"
        ) as server,
        server.client() as api,
    ):
        response = api.get("/api/search", params={"q": "anything"})
        assert (response.status_code, response.json()) == (503, {"detail": "Database operation timeout"})
        answer = Mcp(api).call("msg_search", query="anything")
        assert (answer["results"], answer["total"], answer["query"]) == ([], 0, "anything")
        assert api.get("/api/threads").status_code == 200  # and goes on answering


WATCHED_SEARCH = """
import os
from palaver.doors.http import rest
from palaver.operations.search import bus_search
ENDLESS = {
    "sqlite": "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT 1 FROM c) SELECT count(*) AS n FROM c",
    "postgres": "SELECT pg_sleep(600)",
}
rest.HANDLER_SECONDS = 600
def note(name):
    open(os.path.join(os.environ["PALAVER_HOME"], name), "w").close()
def watched(read, *rest, **more):
    note("began")
    try:
        read.connection.fetch(ENDLESS[read.connection.dialect.name], {})
    finally:
        note("ended")
bus_search.match_messages = watched
"""


def test_a_search_ends_when_its_client_goes_away(engine: Engine, tmp_path: Path):
    with start_server(
        tmp_path, before=WATCHED_SEARCH, PALAVER_DATABASE_URL=engine.fresh(), PALAVER_SEARCH_TIMEOUT=600
    ) as server:
        url = httpx.URL(server.url)
        with socket.create_connection((url.host, url.port or 0)) as client:
            client.sendall(f"GET /api/search?q=anything HTTP/1.1\r\nHost: {url.host}:{url.port}\r\n\r\n".encode())
            eventually(lambda: (tmp_path / "began").exists())
            assert not (tmp_path / "ended").exists()
        eventually(lambda: (tmp_path / "ended").exists())
        with server.client() as api:  # and the server goes on answering
            assert api.get("/api/threads").status_code == 200
        assert "Traceback" not in server.said()


# Edits and deletes


def test_an_edit_is_indexed_at_once(search: Search, api: httpx.Client, thread: Thread):
    old, new = word(), word()
    message = thread.post(f"it was {old}")
    assert api.put(f"/api/messages/{message['id']}", json={"content": f"it is {new}"}).status_code == 200
    assert found(search(old)) == []
    assert found(search(new)) == [message["id"]]


def test_a_deleted_message_leaves_nothing_in_the_index(search: Search, api: httpx.Client, thread: Thread):
    unique = word()
    message = thread.post(unique)
    assert api.delete(f"/api/messages/{message['id']}").status_code == 200
    assert search(unique)["results"] == []
    assert search(f"{unique[:8]}*", thread_id=thread.id)["results"] == []


def test_a_deleted_thread_leaves_nothing_in_the_index(search: Search, api: httpx.Client, thread: Thread):
    unique = word()
    thread.post(unique)
    assert api.delete(thread.path).status_code == 200
    assert search(unique)["results"] == []


def test_closed_and_archived_threads_stay_searchable(search: Search, api: httpx.Client, thread: Thread):
    unique = word()
    message = thread.post(unique)
    for state in ("close", "archive"):
        assert api.post(f"{thread.path}/{state}").status_code == 200
        assert found(search(unique)) == [message["id"]]


def test_a_renamed_thread_is_shown_under_its_new_topic(search: Search, api: httpx.Client, thread: Thread):
    unique, topic = word(), f"new name {word()}"
    thread.post(unique)
    assert api.put(thread.path, json={"topic": topic}).status_code == 200
    assert [hit["thread_topic"] for hit in search(unique)["results"]] == [topic]


def test_a_search_changes_nothing(api: httpx.Client, mcp: Mcp, thread: Thread):
    thread.post("alpha")
    before = api.get("/api/status").json()["last_event_id"]
    mcp.call("msg_search", query="alpha", thread_id=thread.id)
    api.get("/api/search", params={"q": "alpha", "thread_id": thread.id})
    assert api.get("/api/status").json()["last_event_id"] == before
