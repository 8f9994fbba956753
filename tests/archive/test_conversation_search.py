"""conversation_search, sentence by sentence: over what was imported on both engines, and over a canonical database."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import apsw
import httpx
import mcp_types as types
import pytest
from mcp.client.client import Client
from tests.conftest import ONE_ENGINE, Engine
from tests.helpers import (
    PATIENCE,
    Mcp,
    Server,
    environment,
    eventually,
    palaver_command,
    start_server,
    started_with,
    word,
)
from tests.importers import test_canonical_db as canonical
from tests.importers import test_chatgpt as chatgpt
from tests.importers.shapes import as_json
from tests.mcp_clients import DOORS, Sdk, stdio_server, through
from tests.store.bus import opened

from palaver.doors.authentication import Requester
from palaver.doors.mcp import tools as mcp_tools
from palaver.model.people import Caller
from palaver.operations.archive import conversations, external_database, import_batches
from palaver.settings import Settings

NOTHING = "No matching messages."
SEPARATOR = "\n\n---\n\n"
NOON = datetime(2025, 2, 10, 12, 0, tzinfo=UTC).timestamp()
DAY = 86_400.0

Spoken = tuple[str | None, str, float | None]
"""Who, what, when."""


# Where it searches


@dataclass
class Place:
    """A server, and a way to put conversations where its tool finds them."""

    kind: str
    server: Server
    api: httpx.Client
    mcp: Mcp
    database: apsw.Connection | None = None

    def hold(self, title: str | None, *spoken: Spoken, id: str | None = None) -> str:
        id = id or word("c")
        if self.database is not None:
            canonical.conversation(self.database, id, title)
            for n, (role, text, at) in enumerate(spoken):
                canonical.message(self.database, f"{id}-{n}", id, role, text, at, n)
        else:
            upload(self.api, chat(title, *spoken, id=id))
        return id

    def result(self, **arguments: Any) -> dict[str, Any]:
        return self.mcp.ask("tools/call", name="conversation_search", arguments=arguments)

    def search(self, **arguments: Any) -> str:
        text, is_error = text_of(self.result(**arguments))
        assert not is_error, text
        return text

    def blocks(self, **arguments: Any) -> list[str]:
        """What was found, without the first lines."""
        text = self.search(**arguments)
        return [] if text == NOTHING else [block.partition("\n")[2] for block in text.split(SEPARATOR)]

    def error(self, **arguments: Any) -> str:
        text, is_error = text_of(self.result(**arguments))
        assert is_error, text
        return text


def text_of(result: dict[str, Any]) -> tuple[str, bool]:
    """The one text of a result, which has nothing else, and whether it is an error."""
    (item,) = result["content"]
    assert item["type"] == "text"
    assert "structuredContent" not in result
    return item["text"], result.get("isError", False)


def chat(title: str | None, *spoken: Spoken, id: str, **more: Any) -> dict[str, Any]:
    """A conversation in a ChatGPT export."""
    times = [at for _, _, at in spoken if at is not None]
    return chatgpt.conversation(
        *(chatgpt.message(role, text, at) for role, text, at in spoken),
        title=title,
        id=id,
        conversation_id=id,
        create_time=min(times, default=None),
        update_time=max(times, default=None),
        **more,
    )


def upload(api: httpx.Client, *conversations: dict[str, Any]) -> dict[str, Any]:
    """Import an export through the server; what its job says in the end."""
    response = api.post("/api/import", files={"file": ("conversations.json", as_json(list(conversations)))})
    assert response.status_code == 202, response.text
    with api.stream("GET", f"/api/import/{response.json()['id']}/events") as events:
        *_, last = (json.loads(line[6:]) for line in events.iter_lines() if line.startswith("data: "))
    assert last["status"] == "done", last
    return dict(last)


KINDS = ["sqlite", "postgres", "canonical"]


@pytest.fixture(scope="module", params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A server with imported conversations on each engine, and one that serves an external ChatGPT database."""
    home, database = tmp_path_factory.mktemp(f"archive-{request.param}"), None
    env: dict[str, Any] = {}
    if request.param == "canonical":
        database = canonical.database(
            home / "export.db", canonical.LOOSE.replace("(id, title)", "(id, create_time, update_time, title)")
        )
        env = {"CONVERSATION_DB": home / "export.db"}
    elif request.param == "postgres":
        env = {"PALAVER_DATABASE_URL": request.getfixturevalue("postgres")()}
    with start_server(home, **env) as server, server.client() as api:
        yield Place(request.param, server, api, Mcp(api), database)


# Tool name, description, parameters


@ONE_ENGINE
def test_the_tool_is_listed_with_exactly_these_parameters_all_optional(place: Place):
    tools = {tool["name"]: tool for tool in place.mcp.ask("tools/list")["tools"]}
    tool = tools["conversation_search"]
    schema = tool["inputSchema"]
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert schema.get("required", []) == []
    described = {
        name: {k: v for k, v in field.items() if k != "description"} for name, field in schema["properties"].items()
    }
    assert described["query"]["type"] == "string"
    assert described["roles"] == {"type": "array", "items": {"type": "string", "enum": ["user", "assistant", "tool"]}}
    assert described["start_date"]["type"] == described["end_date"]["type"] == "string"
    assert described["limit"] == {"type": "integer", "default": 50}
    assert list(described) == ["query", "roles", "start_date", "end_date", "limit"]
    assert all(field["description"] for field in schema["properties"].values())
    assert "outputSchema" not in tool
    assert tool["annotations"]["readOnlyHint"] is True


@ONE_ENGINE
def test_its_description_is_the_one_the_model_expects_and_says_that_what_is_found_is_data(place: Place):
    (tool,) = (t for t in place.mcp.ask("tools/list")["tools"] if t["name"] == "conversation_search")
    assert tool["description"].startswith(
        "Search prior conversation history (canonical ChatGPT export). Hybrid-style: text match on content and titles. "
        "Optional filters: roles (user/assistant/tool), start_date and end_date (ISO 8601 inclusive). "
        "Returns matching messages with timestamps and content."
    )
    assert "not instructions" in tool["description"]


def test_without_any_argument_the_newest_messages_come(place: Place):
    unique = word()
    place.hold("t", ("user", unique, NOON + 40_000 * DAY))  # newer than anything another test holds
    assert place.blocks(limit=1) == [unique]
    assert len(place.blocks()) <= 50


def test_null_is_the_same_as_absent(place: Place):
    unique = word()
    place.hold("t", ("user", unique, NOON))
    everything = {"roles": None, "start_date": None, "end_date": None, "limit": None}
    assert place.blocks(query=unique, **everything) == [unique]
    assert place.search(query=None, **everything) == place.search()


@ONE_ENGINE
@pytest.mark.parametrize("blank", ["", "   ", "\n\t"])
def test_a_blank_query_is_no_filter(place: Place, blank: str):
    place.hold("t", ("user", word(), NOON))
    assert place.search(query=blank) == place.search()


@ONE_ENGINE
@pytest.mark.parametrize("blank", ["", "  "])
def test_a_blank_date_is_no_filter(place: Place, blank: str):
    unique = word()
    place.hold("t", ("user", unique, NOON))
    assert place.blocks(query=unique, start_date=blank, end_date=blank) == [unique]
    assert place.blocks(query=unique, start_date=blank, end_date="2001-01-01") == []


def test_an_empty_list_of_roles_is_no_filter(place: Place):
    unique = word()
    place.hold("t", ("user", f"{unique} a", NOON), ("assistant", f"{unique} b", NOON + 1))
    assert place.blocks(query=unique, roles=[]) == [f"{unique} b", f"{unique} a"]


# query


def test_the_query_is_matched_on_message_content(place: Place):
    unique = word()
    place.hold("t", ("user", f"before {unique} after", NOON), ("assistant", "something else", NOON + 1))
    assert place.blocks(query=unique) == [f"before {unique} after"]


def test_the_query_is_matched_on_titles_and_gives_every_message_of_the_conversation(place: Place):
    unique = word()
    place.hold(
        f"On {unique} things", ("user", "first", NOON), ("assistant", "second", NOON + 1), ("tool", "third", NOON + 2)
    )
    assert place.blocks(query=f"n {unique} t") == ["third", "second", "first"]
    assert place.blocks(query=unique, roles=["assistant"]) == ["second"]


def test_a_title_that_was_made_of_the_first_words_gives_no_message_that_does_not_hold_them(place: Place):
    unique = word()
    place.hold(None, ("user", f"please mend the {unique}", NOON), ("assistant", "done", NOON + 1))
    assert place.blocks(query=unique) == [f"please mend the {unique}"]
    assert place.blocks(query=unique, roles=["assistant"]) == []


def test_content_and_title_are_each_searched_and_a_message_with_both_comes_once(place: Place):
    unique = word()
    place.hold(f"about {unique}", ("user", f"tell me of {unique}", NOON))
    assert place.blocks(query=unique) == [f"tell me of {unique}"]


def test_any_part_of_a_word_and_across_words_is_found(place: Place):
    unique = word()
    place.hold("t", ("user", f"alpha{unique}omega, and then: more", NOON))
    for query in (unique[3:9], f"a{unique[:5]}", f"{unique[-4:]}omega, and", f"{unique}omega, and then: m"):
        assert place.blocks(query=query, start_date="2025-02-10", end_date="2025-02-10") == [
            f"alpha{unique}omega, and then: more"
        ]
    assert place.blocks(query=f"{unique} omega") == []


@ONE_ENGINE
@pytest.mark.parametrize(
    "text, queries",
    [
        ("Ärger im Büro", ["ÄRGER IM BÜRO", "ärger im büro", "rger"]),
        ("İstanbul'da İZMİR", ["İSTANBUL", "i̇stanbul", "i̇zmi̇r"]),
        ("Große Straße, GROẞ", ["GROSSE STRASSE", "große straße", "große Strasse", "groß", "ross"]),
        ("Ο ΣΊΣΥΦΟΣ και η Αθήνα", ["σίσυφος", "ο σίσυφοσ", "ΑΘΉΝΑ"]),
        ("Привет, Мир", ["ПРИВЕТ", "привет, мир", "ИВЕТ"]),
        ("Ելնում է ԱՐԵՎԸ", ["արեվը", "ԵԼՆՈՒՄ"]),
        ("cafe\u0301 noir", ["café", "CAFÉ NOIR", "cafe\u0301"]),
        ("ﬁnal oﬃce \u212aelvin", ["FINAL OFFICE", "final office", "kelvin"]),
        ("ACCESS and SQLite", ["access", "sqlITE", "AND SQL"]),
    ],
)
def test_upper_and_lower_case_are_the_same_in_all_of_unicode(place: Place, text: str, queries: list[str]):
    unique = word()
    whole = f"{unique} {text}"
    place.hold("t", ("user", whole, NOON))
    for query in queries:
        assert whole in place.blocks(query=query, limit=200), query
        assert place.blocks(query=f"{unique} {text[:3]}") == [whole]


def test_titles_are_found_whatever_their_case_too(place: Place):
    unique = word()
    place.hold(f"{unique} STRASSE Ärger", ("user", "said", NOON))
    for query in (f"{unique} straße", f"{unique.upper()} Straße ÄRGER"):
        assert place.blocks(query=query) == ["said"]


@pytest.mark.examples(12)
@ONE_ENGINE
@pytest.mark.parametrize(
    "sign", ["%", "_", "*", '"', "'", "\\", "?", "[a-z]", "--", ";", "(", "{", "}", ",", ":", "^", "NOT ", " OR "]
)
def test_signs_are_literal(place: Place, sign: str):
    unique = word()
    place.hold("t", ("user", f"{unique}{sign}x", NOON), ("user", f"{unique}yyx", NOON + 1))
    assert place.blocks(query=f"{unique}{sign}") == [f"{unique}{sign}x"]
    assert place.blocks(query=f"{unique}{sign}x") == [f"{unique}{sign}x"]


def test_percent_and_underscore_alone_find_only_themselves(place: Place):
    year = "2011"
    at = datetime(2011, 3, 3, tzinfo=UTC).timestamp()
    place.hold("plain", ("user", "fifty percent", at), ("user", "50 % of it", at + 1), ("user", "snake_case", at + 2))
    dates = {"start_date": f"{year}-03-03", "end_date": f"{year}-03-03"}
    assert place.blocks(query="%", **dates) == ["50 % of it"]
    assert place.blocks(query="_", **dates) == ["snake_case"]
    assert place.blocks(query="%%", **dates) == []


def test_parts_of_one_and_two_characters_are_found(place: Place):
    at = datetime(2012, 3, 3, tzinfo=UTC).timestamp()
    place.hold(
        "qz",
        ("user", "ab", at),
        ("user", "x", at + 1),
        ("user", "東京タワー", at + 2),
        ("user", "ok 🦊", at + 3),
        id="short",
    )
    dates = {"start_date": "2012-03-03", "end_date": "2012-03-03"}
    for query, found in {
        "A": ["ab"], "AB": ["ab"], "b": ["ab"], "X": ["x"], "京": ["東京タワー"], "京タ": ["東京タワー"],
        "🦊": ["ok 🦊"], " 🦊": ["ok 🦊"], "é": [], "zz": [],
        "Q": ["ok 🦊", "東京タワー", "x", "ab"], "QZ": ["ok 🦊", "東京タワー", "x", "ab"],
    }.items():  # fmt: skip
        assert place.blocks(query=query, **dates) == found, query


@ONE_ENGINE
@pytest.mark.parametrize(
    "text", ["日本語のテキストを検索する", "안녕하세요 세계", "ภาษาไทยง่ายนิดเดียว", "👩‍👩‍👧 family 👍🏽 ok", "🇩🇪🇫🇷 flags"]
)
def test_cjk_thai_and_emoji_are_found_by_any_part(place: Place, text: str):
    unique = word()
    place.hold("t", ("user", f"{unique}{text}", NOON))
    for start in range(len(text) - 2):
        assert f"{unique}{text}" in place.blocks(query=text[start : start + 3], limit=200), text[start : start + 3]
    assert place.blocks(query=f"{unique}{text}") == [f"{unique}{text}"]


def test_what_no_engine_can_store_is_ignored_in_a_query(place: Place):
    unique = word()
    place.hold("t", ("user", unique, NOON))
    assert place.blocks(query=f"{unique[:8]}\x00{unique[8:]}") == [unique]
    assert place.blocks(query=f"{unique}\x00") == [unique]


def test_a_very_long_query_is_answered(place: Place):
    place.hold("t", ("user", "short", NOON))
    assert place.search(query="long words " * 1_000) == NOTHING
    assert place.search(query="x" * 10_000) == NOTHING


def test_a_long_query_finds_the_long_message_it_is_part_of(place: Place):
    text = " ".join(word() for _ in range(600))
    place.hold("t", ("user", text, NOON))
    assert place.blocks(query=text[50:9_950]) == [text[:2000] + "..."]


# roles


def test_roles_restrict_the_results(place: Place):
    unique = word()
    place.hold("t", *((role, f"{unique} {role}", NOON + n) for n, role in enumerate(("user", "assistant", "tool"))))
    for roles in (
        ["user"],
        ["assistant"],
        ["tool"],
        ["user", "assistant"],
        ["tool", "user"],
        ["user", "assistant", "tool"],
    ):
        found = [block.split()[1] for block in place.blocks(query=unique, roles=roles)]
        assert found == [role for role in ("tool", "assistant", "user") if role in roles]
    assert place.blocks(query=unique, roles=["user", "user"]) == [f"{unique} user"]


def test_roles_restrict_without_a_text_filter(place: Place):
    text = place.search(roles=["assistant"])
    assert text == NOTHING or all(re.match(r"\[[^]]+\] assistant \(conv: ", block) for block in text.split(SEPARATOR))


@ONE_ENGINE
@pytest.mark.parametrize("roles", [["system"], ["User"], "user", ["user", 1], {"user": True}, 5])
def test_other_roles_are_refused_by_name(place: Place, roles: Any):
    said = place.error(roles=roles)
    assert said.startswith("Error: roles")


# start_date, end_date


@pytest.fixture(scope="module")
def days(place: Place) -> Place:
    """Messages around two midnights: of 2013-01-15 and 2013-01-16."""
    midnight = datetime(2013, 1, 15, tzinfo=UTC).timestamp()
    place.hold(
        "days",
        ("user", "before", midnight - 0.001),
        ("user", "first", midnight),
        ("user", "14:30", midnight + 14.5 * 3600),
        ("user", "last", midnight + DAY - 0.001),
        ("user", "next", midnight + DAY),
    )
    return place


@pytest.mark.parametrize(
    "start, end, found",
    [
        ("2013-01-15", "2013-01-15", ["last", "14:30", "first"]),
        ("2013-01-14", "2013-01-16", ["next", "last", "14:30", "first", "before"]),
        ("2013-01-15T14:30:00", "2013-01-15", ["last", "14:30"]),
        ("2013-01-15T14:30:00.001", "2013-01-15", ["last"]),
        ("2013-01-14", "2013-01-15T14:30:00", ["14:30", "first", "before"]),
        ("2013-01-14", "2013-01-15T14:29:59", ["first", "before"]),
        ("2013-01-14", "2013-01-15T14:30:00Z", ["14:30", "first", "before"]),
        ("2013-01-15T15:30:00+01:00", "2013-01-15T09:30:00-05:00", ["14:30"]),
        ("2013-01-15T14:30", "2013-01-15T14:30", ["14:30"]),
        ("2013-01-15T14:30:00+05:30", "2013-01-15T14:00:00Z", []),
        ("2013-01-15", "2013-01-16T00:00:00", ["next", "last", "14:30", "first"]),
        ("2013-01-16T00:00:00", "2013-01-16", ["next"]),
        ("2013-01-16", "2013-01-15", []),
        ("20130115", "20130115", ["last", "14:30", "first"]),
        ("2013-W03-2", "2013-W03-2", ["last", "14:30", "first"]),
        ("2013-01-15t14:30:00z", "2013-01-15t15:30:00.000+01:00", ["14:30"]),
    ],
)  # fmt: skip
def test_the_range_is_inclusive_and_in_utc_where_no_offset_is_given(
    days: Place, start: str, end: str, found: list[str]
):
    assert days.blocks(start_date=start, end_date=end) == found


def test_either_end_may_stand_alone(days: Place):
    assert "before" in days.blocks(end_date="2013-01-14")
    assert "first" not in days.blocks(end_date="2013-01-14", limit=200)
    assert "before" not in days.blocks(query="before", start_date="2013-01-15", limit=200)
    assert days.blocks(query="14:30", start_date="2013-01-15") == ["14:30"]


@ONE_ENGINE
@pytest.mark.parametrize("name", ["start_date", "end_date"])
@pytest.mark.parametrize("date", ["yesterday", "2024-13-01", "2024-02-30", "15.01.2024", "2024-01-15T25:00", "x" * 500])
def test_an_unparsable_date_is_an_error_that_names_it(place: Place, name: str, date: str):
    said = place.error(**{name: date})
    assert said.startswith(f"Error: {name}")
    assert "Traceback" not in said


@ONE_ENGINE
@pytest.mark.parametrize("date", [5, ["2024-01-15"], True, 1.5])
def test_a_date_of_the_wrong_type_is_an_error_that_names_it(place: Place, date: Any):
    assert place.error(start_date=date).startswith("Error: start_date")


def test_the_first_and_last_dates_there_are_can_be_asked_for(days: Place):
    found = days.blocks(query="14:30", start_date="0001-01-01", end_date="9999-12-31")
    assert found == ["14:30"]


# limit


@pytest.fixture(scope="module")
def many(place: Place) -> tuple[Place, str]:
    unique = word()
    place.hold("many", *(("user", f"{unique} {n}", NOON + n) for n in range(260)))
    return place, unique


@pytest.mark.parametrize(
    "limit, count", [(None, 50), (1, 1), (20, 20), (200, 200), (0, 1), (-5, 1), (201, 200), (10**12, 200), (3.0, 3)]
)
def test_the_limit_is_50_if_absent_and_clamped_to_1_to_200(many: tuple[Place, str], limit: Any, count: int):
    place, unique = many
    assert place.blocks(query=unique, limit=limit) == [f"{unique} {n}" for n in range(259, 259 - count, -1)]


@ONE_ENGINE
@pytest.mark.parametrize("limit", ["ten", "20", 1.5, True, [1]])
def test_a_limit_of_the_wrong_type_is_an_error_that_names_it(place: Place, limit: Any):
    assert place.error(limit=limit).startswith("Error: limit")


# Order and output


def test_results_are_newest_first_across_conversations_and_those_without_a_time_last(place: Place):
    unique = word()
    place.hold(
        "one", ("user", f"{unique} c", NOON + 3), ("user", f"{unique} no time", None), ("user", f"{unique} e", NOON + 5)
    )
    place.hold("two", ("user", f"{unique} d", NOON + 4), ("user", f"{unique} a", NOON + 1))
    assert place.blocks(query=unique) == [f"{unique} {end}" for end in ("e", "d", "c", "a", "no time")]
    assert place.blocks(query=unique, limit=4) == [f"{unique} {end}" for end in ("e", "d", "c", "a")]
    assert f"{unique} no time" not in place.blocks(query=unique, start_date="1900-01-01")
    assert f"{unique} no time" not in place.blocks(query=unique, end_date="2100-01-01")


def test_the_output_is_this_text_exactly(place: Place):
    unique = word()
    at = datetime(2025, 2, 10, 14, 30, 59, tzinfo=UTC).timestamp()
    place.hold(
        f"Python {unique} help",
        ("user", "How do I run two coroutines\nin parallel?", at),
        ("assistant", "You can use asyncio.gather()\n\n---\n\nreally", at + 120),
    )
    assert place.result(query=unique) == {
        "content": [
            {
                "type": "text",
                "text": f"[2025-02-10 14:32] assistant (conv: Python {unique} help)\n"
                "You can use asyncio.gather()\n\n---\n\nreally"
                "\n\n---\n\n"
                f"[2025-02-10 14:30] user (conv: Python {unique} help)\n"
                "How do I run two coroutines\nin parallel?",
            }
        ],
        "isError": False,
    }


@ONE_ENGINE
@pytest.mark.parametrize("length, is_cut", [(1999, False), (2000, False), (2001, True), (50_000, True)])
def test_content_is_cut_at_2000_characters_with_three_dots(place: Place, length: int, is_cut: bool):
    unique = word()
    text = (unique + "äß東🦊" * length)[:length]
    place.hold("t", ("user", text, NOON))
    assert place.blocks(query=unique) == [text[:2000] + "..." if is_cut else text]


def test_what_stands_beyond_the_cut_is_found_too(place: Place):
    unique = word()
    place.hold("t", ("user", "x" * 30_000 + unique, NOON))
    assert place.blocks(query=unique) == ["x" * 2000 + "..."]


def test_a_conversation_without_a_title_is_shown_by_its_id(place: Place):
    unique = word()
    id = place.hold(None, ("assistant", unique, NOON))  # nothing the user asked could serve as a title
    text = place.search(query=unique)
    assert re.fullmatch(rf"\[2025-02-10 12:00\] assistant \(conv: (chatgpt:)?{id}\)\n{unique}", text)


def test_nothing_found_is_said_in_these_words(place: Place):
    place.hold("t", ("user", "something", NOON))
    assert place.search(query=word()) == NOTHING == "No matching messages."
    assert place.result(query=word()) == {"content": [{"type": "text", "text": NOTHING}], "isError": False}


# Errors


@ONE_ENGINE
@pytest.mark.parametrize(
    "given, near",
    [("queri", "query"), ("role", "roles"), ("startdate", "start_date"), ("end", "end_date"), ("limits", "limit")],
)
def test_an_unknown_argument_is_refused_with_the_nearest_name(place: Place, given: str, near: str):
    assert place.error(**{given: "x"}) == f"Error: Unknown argument '{given}'. Did you mean '{near}'?"


@ONE_ENGINE
@pytest.mark.parametrize("given", ["db_path", "workspace", "user_id", "xyzzy"])
def test_no_argument_reaches_another_database(place: Place, given: str):
    said = place.error(**{given: "/etc/passwd"})
    assert said.startswith(f"Error: Unknown argument '{given}'.")
    assert "passwd" not in said


@ONE_ENGINE
@pytest.mark.parametrize("query", [5, ["x"], {"a": 1}, True, "x" * 100_001])
def test_a_query_of_the_wrong_shape_is_an_error_that_names_it(place: Place, query: Any):
    assert place.error(query=query).startswith("Error: query")


def test_any_other_error_is_a_short_message_without_details_and_the_log_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def fail(settings: Settings) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(conversations, "find_database", fail)
    text, is_error = answer(Settings(home=tmp_path))
    assert (is_error, text.startswith("Error: ")) == (True, True)
    assert "secret" not in text
    assert "secret detail" in caplog.text


# The same through every door


# The protocols do not depend on where it searches. A canonical database over stdio has tests of its own below.
@pytest.mark.examples(3)
@pytest.mark.parametrize(
    "place, door",
    [*(("sqlite", door) for door in DOORS), ("postgres", "stdio"), ("canonical", "http-2025")],
    indirect=["place"],
)
def test_it_is_the_same_text_through_every_door(place: Place, door: str):
    unique = word()
    place.hold(f"about {unique}", ("user", "said", NOON))
    with through(door, place.server, place.api) as client:
        assert ask(client, query=unique) == (f"[2025-02-10 12:00] user (conv: about {unique})\nsaid", False)
        assert ask(client, queri=unique) == ("Error: Unknown argument 'queri'. Did you mean 'query'?", True)


def ask(client: Mcp, **arguments: Any) -> tuple[str, bool]:
    if not isinstance(client, Sdk):
        return text_of(client.ask("tools/call", name="conversation_search", arguments=arguments))
    result = client._portal.call(client._sdk.call_tool, "conversation_search", arguments)
    (item,) = result.content
    assert isinstance(item, types.TextContent)
    assert result.structured_content is None
    return item.text, bool(result.is_error)


# A canonical database, as it is


def make(path: Path, *rows: tuple[Any, ...], schema: str = canonical.LOOSE, title: Any = "Ivy") -> Path:
    """A database with one conversation; rows are (role, content, create_time)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    database = canonical.database(path, schema)
    database.execute("INSERT INTO conversations (id, title) VALUES (?, ?)", ("c1", title))
    with database:
        for n, (role, content, at) in enumerate(rows):
            canonical.message(database, f"m{n}", "c1", role, content, at, n)
    database.close()
    return path


def answer(settings: Settings, workspace: str = "default", **arguments: Any) -> tuple[str, bool]:
    """What the tool says, without a server around it."""

    async def call() -> types.CallToolResult:
        async with opened(settings, workspace) as bus:
            requester = Requester(bus.here, Caller(kind="agent", name="agent"))
            return await mcp_tools.call(requester, "conversation_search", arguments)

    result = asyncio.run(call())
    (item,) = result.content
    assert isinstance(item, types.TextContent)
    return item.text, bool(result.is_error)


def served(tmp_path: Path, path: Path, **arguments: Any) -> str:
    text, is_error = answer(Settings(home=tmp_path / "home", conversation_db=path), **arguments)
    assert not is_error, text
    return text


@pytest.mark.parametrize(
    "content",
    [
        '["first part", "second part"]',
        '[{"content_type": "text", "text": "first part"}, "second part"]',
        '{"content_type": "text", "parts": ["first part", "second part"]}',
        "first part\nsecond part",
    ],
)
def test_content_stored_as_a_list_of_parts_is_shown_and_searched_as_its_text(tmp_path: Path, content: str):
    path = make(tmp_path / "a.db", ("user", content, NOON))
    for query in ("first part\nsecond", "FIRST PART", "second part"):
        assert served(tmp_path, path, query=query) == "[2025-02-10 12:00] user (conv: Ivy)\nfirst part\nsecond part"
    for query in ('["', "content_type", '", "'):
        assert served(tmp_path, path, query=query) == NOTHING


def test_escapes_in_such_a_list_do_not_hide_what_was_said(tmp_path: Path):
    content = json.dumps(['Große Straße, "quoted"\t東京'], ensure_ascii=True)
    path = make(tmp_path / "a.db", ("user", content, NOON))
    for query in ("grosse strasse", "GROSSE STRASSE", "Große", '"quoted"', "東京", "\t"):
        assert served(tmp_path, path, query=query).endswith('Große Straße, "quoted"\t東京'), query


@pytest.mark.parametrize(
    "stored, shown",
    [
        (1739188800, "2025-02-10 12:00"),
        (1739188800.5, "2025-02-10 12:00"),
        ("1739188800", "2025-02-10 12:00"),
        ("1739188800.123456", "2025-02-10 12:00"),
        ("2025-02-10T12:00:00", "2025-02-10 12:00"),
        ("2025-02-10T12:00:00Z", "2025-02-10 12:00"),
        ("2025-02-10T14:00:00+02:00", "2025-02-10 12:00"),
        ("2025-02-10 12:00:00", "2025-02-10 12:00"),
    ],
)
def test_times_stored_as_numbers_as_numeric_text_or_as_iso_all_work(tmp_path: Path, stored: Any, shown: str):
    path = make(tmp_path / "a.db", ("user", "it", stored))
    dates = {"start_date": "2025-02-10T12:00:00", "end_date": "2025-02-10T12:00:01"}
    assert served(tmp_path, path, **dates) == f"[{shown}] user (conv: Ivy)\nit"
    assert served(tmp_path, path, end_date="2025-02-09") == NOTHING
    assert served(tmp_path, path, start_date="2025-02-11") == NOTHING


def test_times_of_different_kinds_are_ordered_together(tmp_path: Path):
    rows = [
        ("user", "b", "1739188801"),
        ("user", "d", 1739188803.0),
        ("user", "a", "2025-02-10T12:00:00Z"),
        ("user", "c", 1739188802),
    ]
    text = served(tmp_path, make(tmp_path / "a.db", *rows))
    assert [block[-1] for block in text.split(SEPARATOR)] == ["d", "c", "b", "a"]


def test_roles_and_times_that_are_missing_are_lived_with(tmp_path: Path):
    path = make(tmp_path / "a.db", (None, "no role", NOON), ("user", "no time", None), (None, "neither", "soon"))
    assert served(tmp_path, path).split(SEPARATOR) == [
        "[2025-02-10 12:00] unknown (conv: Ivy)\nno role",
        "[unknown time] unknown (conv: Ivy)\nneither",
        "[unknown time] user (conv: Ivy)\nno time",
    ]
    assert served(tmp_path, path, roles=["user", "assistant", "tool"]).endswith("no time")


def test_a_message_of_a_conversation_without_a_row_or_a_title_is_shown_by_its_id(tmp_path: Path):
    path = make(tmp_path / "a.db", ("user", "listed", NOON), title=None)
    database = apsw.Connection(str(path))
    canonical.message(database, "x", "gone", "user", "left over", NOON + 1)
    database.close()
    assert served(tmp_path, path) == (
        "[2025-02-10 12:00] user (conv: gone)\nleft over\n\n---\n\n[2025-02-10 12:00] user (conv: c1)\nlisted"
    )


def test_bytes_that_are_no_text_do_not_spoil_the_rest(tmp_path: Path):
    path = make(tmp_path / "a.db", ("user", "good", NOON))
    database = apsw.Connection(str(path))
    database.execute("INSERT INTO messages VALUES ('b', 'c1', 'user', CAST(x'62ff6164' AS TEXT), ?, 1)", (NOON + 1,))
    database.execute("INSERT INTO messages VALUES ('c', 'c1', CAST(x'ff' AS TEXT), x'626c6f62', 'x', 2)")
    database.close()
    assert [block.partition("\n")[2] for block in served(tmp_path, path).split(SEPARATOR)] == [
        "b\ufffdad",
        "good",
        "blob",
    ]
    assert served(tmp_path, path, query="good").endswith("good")


@pytest.mark.parametrize(
    "schema",
    [
        "CREATE TABLE messages (conversation_id, content, create_time)",
        "CREATE TABLE messages (id, content, create_time); CREATE TABLE conversations (id)",
        "CREATE TABLE messages (content, create_time); CREATE TABLE conversations (id, title)",
        "CREATE TABLE kept (content, create_time); CREATE VIEW messages AS SELECT * FROM kept",
        "PRAGMA encoding = 'UTF-16'; CREATE TABLE messages (id, conversation_id, role, content, create_time)",
    ],
)
def test_what_a_database_has_is_served_whatever_else_it_lacks(tmp_path: Path, schema: str):
    database = canonical.database(tmp_path / "a.db", schema)
    table = "kept" if "kept" in schema else "messages"
    database.execute(f"INSERT INTO {table} (content, create_time) VALUES ('Größe zählt', ?)", (NOON,))
    database.close()
    assert served(tmp_path, tmp_path / "a.db", query="GRÖSSE") == "[2025-02-10 12:00] unknown (conv: )\nGröße zählt"


def test_of_one_moment_the_last_message_comes_first_as_it_does_among_imports(place: Place):
    place.hold("ties", *(("user", f"tied {n}", NOON) for n in range(4)))
    assert place.blocks(query="tied ") == ["tied 3", "tied 2", "tied 1", "tied 0"]
    assert place.blocks(query="tied ", limit=2) == ["tied 3", "tied 2"]


def test_a_title_of_several_lines_is_shown_on_one_and_a_blank_one_is_none(tmp_path: Path):
    assert "(conv: two lines)\n" in served(tmp_path, make(tmp_path / "a.db", ("user", "x", NOON), title="two\n lines"))
    assert "(conv: c1)\n" in served(tmp_path, make(tmp_path / "b.db", ("user", "x", NOON), title=" \n"))


def test_content_stored_with_its_type_is_shown_as_its_text(tmp_path: Path):
    stored = json.dumps({"content_type": "code", "language": "python", "text": "print('ivy')"})
    path = make(tmp_path / "a.db", ("tool", stored, NOON))
    assert served(tmp_path, path, query="PRINT('i").endswith("\nprint('ivy')")


def test_a_database_that_another_program_has_for_itself_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("palaver.importers.files.sqlite_file.BUSY_MILLIS", 1)
    path = make(tmp_path / "a.db", ("user", "x", NOON))
    locking = (
        f"import sqlite3; d = sqlite3.connect({str(path)!r}); d.execute('BEGIN EXCLUSIVE'); print(flush=True); input()"
    )
    with subprocess.Popen([sys.executable, "-c", locking], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as locker:
        try:
            assert locker.stdout is not None
            locker.stdout.readline()
            said = answer(Settings(home=tmp_path / "home", conversation_db=path))
        finally:
            locker.kill()
    assert said == ("Error: a.db is locked by another program. Try again in a moment.", True)


@pytest.mark.timeout(300)
def test_a_database_that_is_written_again_and_again_is_read_as_it_is_then(tmp_path: Path):
    path = make(tmp_path / "a.db", ("user", "here all the time", NOON))
    apsw.Connection(str(path)).execute("PRAGMA journal_mode = WAL")
    writing = f"""
import sqlite3, sys
for n in range(10 ** 6):
    database = sqlite3.connect({str(path)!r})
    with database:
        database.execute("DELETE FROM messages WHERE content = ?", (str(n - 1),))
        database.execute("INSERT INTO messages (content) VALUES (?)", (str(n),))
    database.close()  # which puts all of it into the file, while somebody reads it
"""
    with subprocess.Popen([sys.executable, "-c", writing]) as writer:
        try:
            for _ in range(25):
                assert served(tmp_path, path, query="all the").endswith("\nhere all the time")
        finally:
            writer.kill()


def test_the_citation_marks_that_were_never_shown_are_neither_shown_nor_in_the_way(tmp_path: Path):
    path = make(
        tmp_path / "a.db", ("assistant", '["so it is\ue200cite\ue202turn0search1\ue201 indeed【3†source】 here"]', NOON)
    )
    assert served(tmp_path, path, query="so it is indeed here").endswith("\nso it is indeed here")


def test_a_search_in_a_database_without_end_is_ended(tmp_path: Path):
    path = make(tmp_path / "a.db", *(("user", f"message {n}", NOON) for n in range(3000)))
    settings = Settings(home=tmp_path, conversation_db=path, search_timeout=0.000001)
    assert answer(settings, query="nothing like it") == ("Error: Database operation timeout", True)


@pytest.mark.parametrize("junk", [b"", b"not a database at all", b"SQLite format 3\x00" + b"\xff" * 5000])
def test_a_file_that_is_no_such_database_is_an_error_that_names_the_file(tmp_path: Path, junk: bytes):
    (tmp_path / "junk.db").write_bytes(junk)
    text, is_error = answer(Settings(home=tmp_path, conversation_db=tmp_path / "junk.db"))
    assert (text, is_error) == ("Error: junk.db cannot be read as a canonical ChatGPT database.", True)


def test_a_configured_file_that_is_missing_is_named_without_its_path(tmp_path: Path):
    for name in ("gone.db", "folder.db"):
        (tmp_path / "folder.db").mkdir(exist_ok=True)
        text, is_error = answer(Settings(home=tmp_path, conversation_db=tmp_path / name))
        assert not is_error  # "no exception to the client"
        assert text.startswith(f"Database not found: {name}. ")
        assert "CONVERSATION_DB" in text
        assert str(tmp_path) not in text


def test_no_database_and_nothing_imported_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    text, is_error = answer(Settings(home=tmp_path / "home"))
    assert not is_error
    assert text.startswith("Database not found: ")
    assert "palaver import" in text
    assert str(tmp_path) not in text


def test_an_empty_db_folder_is_no_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "db").mkdir()
    (tmp_path / "db" / "notes.txt").write_text("x")
    (tmp_path / "db" / "folder.db").mkdir()
    assert answer(Settings(home=tmp_path / "home"))[0].startswith("Database not found: ")


def test_such_a_database_belongs_to_the_default_workspace_only(tmp_path: Path):
    path = make(tmp_path / "a.db", ("user", "secret", NOON))
    settings = Settings(home=tmp_path / "home", conversation_db=path)
    assert answer(settings)[0].endswith("secret")
    text, is_error = answer(settings, "other", query="secret")
    assert not is_error
    assert text.startswith("Database not found: nothing has been imported yet")
    assert "a.db" not in text


def test_the_newest_database_in_db_is_served_first_of_the_working_directory_then_of_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    home, work = tmp_path / "home", tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    settings = Settings(home=home)
    aged(make(home / "db" / "home.db", ("user", "of the home", NOON)), 100)
    assert answer(settings)[0].endswith("of the home")
    aged(make(work / "db" / "z-old.db", ("user", "old one", NOON)), 3000)
    assert answer(settings)[0].endswith("old one")
    aged(make(work / "db" / "a-new.db", ("user", "new one", NOON)), 2000)
    assert answer(settings)[0].endswith("new one")
    aged(work / "db" / "z-old.db", 1000)
    assert answer(settings)[0].endswith("old one")
    configured = make(tmp_path / "c.db", ("user", "the configured one", NOON))
    assert answer(Settings(home=home, conversation_db=configured))[0].endswith("the configured one")


def aged(path: Path, seconds: float) -> None:
    at = NOON - seconds
    os.utime(path, (at, at))


def enlarged(path: Path) -> Path:
    """So large that it is imported in the background for other searches."""
    database = apsw.Connection(str(path))
    database.execute("CREATE TABLE more AS SELECT randomblob(?) AS noise", (external_database.SMALL_BYTES,))
    database.close()
    return path


def asked(mcp: Mcp, **arguments: Any) -> str:
    """What the tool says as soon as the whole database is read."""

    def look() -> str | None:
        text, is_error = ask(mcp, **arguments)
        assert not is_error, text
        return None if "is still being read" in text else text

    return str(eventually(look))


@pytest.mark.examples(1)
@pytest.mark.parametrize("size", ["small", "large"])
@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_it_is_read_again_when_the_file_changes_while_the_server_runs(tmp_path: Path, mode: str, size: str):
    path = make(tmp_path / "a.db", ("user", "one", NOON))
    if size == "large":
        enlarged(path)
    with start_server(tmp_path / "home", CONVERSATION_DB=path) as server, server.client() as api:
        mcp = Mcp(api)
        assert asked(mcp) == "[2025-02-10 12:00] user (conv: Ivy)\none"
        database = apsw.Connection(str(path))
        database.execute(f"PRAGMA journal_mode = {mode}").fetchall()
        canonical.message(database, "new", "c1", "user", "two", NOON + 60)
        assert asked(mcp, query="two") == "[2025-02-10 12:01] user (conv: Ivy)\ntwo"
        database.execute("UPDATE conversations SET title = 'Oak'")
        database.close()
        assert asked(mcp, query="two") == "[2025-02-10 12:01] user (conv: Oak)\ntwo"
        other = make(tmp_path / "b.db", ("user", "another file", NOON))
        os.replace(enlarged(other) if size == "large" else other, path)
        assert asked(mcp) == "[2025-02-10 12:00] user (conv: Ivy)\nanother file"
        path.unlink()
        text, is_error = ask(mcp)
        assert (is_error, text.startswith("Database not found: a.db.")) == (False, True)
        make(path, ("user", "back again", NOON))
        assert ask(mcp)[0].endswith("back again")


def test_nothing_is_written_to_it_or_beside_it(tmp_path: Path):
    path = make(tmp_path / "only" / "a.db", ("user", "one", NOON))
    before = path.read_bytes()
    served(tmp_path, path, query="one")
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["a.db"]


ASKED: list[dict[str, Any]] = [
    {},
    {"query": "ivy"},
    {"query": "STRASSE"},
    {"query": "É"},
    {"query": "a", "roles": ["tool"]},
    {"query": "100%_"},
    {"query": "oak"},
    {"limit": 3},
    {"roles": ["user", "assistant"]},
    {"start_date": "2025-02-10"},
    {"end_date": "2025-02-11", "query": "i"},
    {"query": "nowhere"},
]


def of_every_kind(path: Path) -> Path:
    dice = random.Random(6)
    said = [
        "Ivy",
        "oak and ivy",
        "Straße",
        '["a list", "of parts é"]',
        '{"parts": ["Ä"]}',
        "100%_",
        None,
        b"\xff",
        12,
        "",
    ]
    times = [NOON, NOON, str(NOON + DAY), "2025-02-12T10:00:00", None, "never", NOON - DAY]
    rows = [
        (dice.choice(["user", "assistant", " tool ", None]), dice.choice(said), dice.choice(times)) for _ in range(60)
    ]
    make(path, *rows, title="Of ÉTÉ")
    database = apsw.Connection(str(path))
    canonical.message(database, "x", "gone", "user", "ivy left over", NOON + 1)
    database.close()
    return path


def test_a_large_one_is_read_by_another_process_and_answers_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = of_every_kind(tmp_path / "a.db")
    plainly = [served(tmp_path, path, **asked) for asked in ASKED]
    assert len(set(plainly)) == len(ASKED)
    monkeypatch.setattr(import_batches, "LARGE_BYTES", 0)
    for _ in range(2):
        assert [served(tmp_path / "other", path, **asked) for asked in ASKED] == plainly


def test_a_note_of_the_last_import_that_is_damaged_or_cannot_be_written_is_done_without(tmp_path: Path):
    path, note = of_every_kind(tmp_path / "a.db"), tmp_path / "home" / "cache" / "followed-database.json"
    plainly = served(tmp_path, path, query="ivy")
    assert note.exists()
    for damaged in (b"this is no JSON", b"[]", b"{}"):
        note.write_bytes(damaged)
        assert served(tmp_path, path, query="ivy") == plainly
    note.unlink()
    note.parent.rmdir()
    note.parent.write_text("in the way")
    assert served(tmp_path, path, query="ivy") == plainly


def test_a_table_without_row_numbers_is_read_too(tmp_path: Path):
    without = canonical.LOOSE.replace("(id, conversation_id, role, content, create_time, position)",
                                      "(id PRIMARY KEY, conversation_id, role, content, create_time, position) WITHOUT ROWID")  # fmt: skip
    other = make(tmp_path / "b.db", ("user", "no rows with numbers", NOON), schema=without)
    assert served(tmp_path, other).endswith("no rows with numbers")


def test_what_was_deleted_from_it_is_not_found_until_it_is_imported(tmp_path: Path):
    path = make(tmp_path / "a.db", ("user", "ivy first", NOON), ("user", "ivy last", NOON + 60))
    database = apsw.Connection(str(path))
    canonical.message(database, "x", "c2", "user", "ivy elsewhere", NOON + 30)
    old = tmp_path / "old.db"
    old.write_bytes(path.read_bytes())
    with start_server(tmp_path / "home", CONVERSATION_DB=path) as server, server.client() as api:
        place = Place("canonical", server, api, Mcp(api))
        assert place.blocks(query="ivy") == ["ivy last", "ivy elsewhere", "ivy first"]
        database.execute("DELETE FROM messages WHERE content = 'ivy last'")
        assert place.blocks(query="ivy") == ["ivy elsewhere", "ivy first"]
        database.execute("DELETE FROM messages WHERE conversation_id = 'c2'")
        database.close()
        assert place.blocks(query="ivy") == ["ivy first"]
        assert [one["id"] for one in api.get("/api/archive").json()["conversations"]] == [
            "canonical-db:c2",
            "canonical-db:c1",
        ]
        done = started_with(server.env, "import", str(old))
        assert done.returncode == 0, done.stderr
        assert place.blocks(query="ivy elsewhere") == ["ivy elsewhere"]


@pytest.mark.thorough
def test_a_search_answers_from_what_is_read_of_a_large_database(tmp_path: Path):
    """It says that reading goes on, until all is read."""
    path = make(tmp_path / "a.db", *(("user", f"ivy {n}", NOON + n) for n in range(3000)))
    enlarged(path)
    slow = "from palaver.operations.archive import external_database as e; e.bring_up_to_date.__defaults__ = (0.0,)"
    with start_server(tmp_path / "home", before=slow, CONVERSATION_DB=path) as server, server.client() as api:
        mcp = Mcp(api)
        text, is_error = ask(mcp, query="ivy 2999")
        assert (is_error, text.partition("\n")[0]) == (False, "No matching messages.")
        assert text.endswith(
            "a.db is still being read (0 conversations so far). Search again in a moment to find the rest."
        )
        assert asked(mcp, query="ivy 2999").endswith("(conv: Ivy)\nivy 2999")


# A client that starts its server for each call


class Stdio:
    """`palaver mcp` in a process of its own, spoken to in lines of JSON."""

    def __init__(self, home: Path, cwd: Path, command: Sequence[str] = (), **env: Any) -> None:
        self.process = subprocess.Popen(
            command or palaver_command("mcp"),
            env=environment(home, **env), cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def __enter__(self) -> Stdio:
        about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}
        assert "result" in self.exchange(1, "initialize", **about)
        self.send({"method": "notifications/initialized"})
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            assert self.process.stdout is not None
            self.process.stdout.close()

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def exchange(self, id: int, method: str, **params: Any) -> dict[str, Any]:
        self.send({"id": id, "method": method, "params": params})
        assert self.process.stdout is not None
        for line in self.process.stdout:
            heard = json.loads(line)
            if heard.get("id") == id:
                return dict(heard)
        raise AssertionError("it has ended")

    def search(self, **arguments: Any) -> tuple[str, bool]:
        answer = self.exchange(2, "tools/call", name="conversation_search", arguments=arguments)
        return text_of(answer["result"])


@pytest.mark.parametrize("where", ["CONVERSATION_DB", "ORIGIN_CONVERSATION_DB", "working directory", "PALAVER_HOME"])
def test_a_process_finds_the_database_wherever_it_is_configured(tmp_path: Path, where: str):
    home, work = tmp_path / "home", tmp_path / "work"
    work.mkdir()
    env: dict[str, Any] = {}
    if where == "PALAVER_HOME":
        make(home / "db" / "x.db", ("user", where, NOON))
    elif where == "working directory":
        make(work / "db" / "x.db", ("user", where, NOON))
        make(home / "db" / "y.db", ("user", "not this", NOON))
    else:
        env[where] = make(tmp_path / "x.db", ("user", where, NOON))
        make(work / "db" / "y.db", ("user", "not this", NOON))
    with Stdio(home, work, **env) as stdio:
        assert stdio.search() == (f"[2025-02-10 12:00] user (conv: Ivy)\n{where}", False)


def test_the_official_client_over_stdio_gets_the_same(tmp_path: Path):
    path = make(tmp_path / "a.db", ("user", "said", NOON))
    env = environment(tmp_path / "home", CONVERSATION_DB=path)

    async def talk() -> types.CallToolResult:
        async with Client(stdio_server(env, tmp_path), mode="legacy") as client:
            return await client.call_tool("conversation_search", {"query": "SAID", "roles": ["user"]})

    result = asyncio.run(talk())
    assert [item.model_dump(exclude_none=True) for item in result.content] == [
        {"type": "text", "text": "[2025-02-10 12:00] user (conv: Ivy)\nsaid"}
    ]
    assert (result.structured_content, bool(result.is_error)) == (None, False)


# Other people's archives


@pytest.mark.parametrize("place", ["sqlite", "postgres"], indirect=True)
def test_another_workspaces_archive_is_invisible(place: Place):
    for command in (["workspace", "create", "hers"], ["token", "create", "--workspace", "hers", "--agent", "bob"]):
        done = started_with(place.server.env, *command)
        assert done.returncode == 0, done.stderr
    token, unique = done.stdout.strip(), word()
    place.hold(f"{unique} title", ("user", f"{unique} secret", NOON))
    hers = Mcp(place.api, token=token)
    text, is_error = ask(hers, query=unique)
    assert not is_error
    assert text.startswith("Database not found: nothing has been imported yet")
    headers = {"authorization": f"Bearer {token}"}
    upload_hers = place.api.post(
        "/api/import",
        files={"file": ("conversations.json", as_json([chat("hers", ("user", f"{unique} of hers", NOON), id=word())]))},
        headers=headers,
    )
    job = f"/api/import/{upload_hers.json()['id']}"
    with place.api.stream("GET", f"{job}/events", headers=headers) as events:
        events.read()
    assert ask(hers, query=unique) == (f"[2025-02-10 12:00] user (conv: hers)\n{unique} of hers", False)
    assert place.blocks(query=unique) == [f"{unique} secret"]
    assert place.api.get(job).status_code == 404
    assert place.api.get("/api/archive", headers=headers).json()["conversations"][0]["title"] == "hers"


# A served database and what was imported


def test_a_served_database_and_imports_are_found_by_every_search_each_once(engine: Engine, tmp_path: Path):
    database = canonical.database(
        tmp_path / "export.db", canonical.LOOSE.replace("(id, title)", "(id, create_time, update_time, title)")
    )
    unique = word()
    env: dict[str, Any] = {"CONVERSATION_DB": tmp_path / "export.db", "PALAVER_DATABASE_URL": engine.fresh()}
    with start_server(tmp_path / "home", **env) as server, server.client() as api:
        place = Place("both", server, api, Mcp(api), database)
        place.hold("Served", ("user", f"{unique} served", NOON), id="c1")
        both, same = (f"{unique} in both", NOON + 1), str(uuid4())
        canonical.message(database, same, "c1", "user", *both, 1)
        node = chatgpt.node(same, None, chatgpt.message("user", *both))
        upload(api, chat("Served", ("user", *both), id="c1") | {"mapping": {same: node}, "current_node": same})
        upload(api, chat("Imported", ("assistant", f"{unique} imported", NOON + 2), id="c2"))

        def everywhere() -> list[list[str]]:
            knowledge = place.mcp.call("knowledge_search", query=unique, dedupe=False)["results"]
            archive = place.mcp.call("archive_search", query=unique)["results"]
            searched = [[hit["snippet"] for hit in hits] for hits in (knowledge, archive)]
            return [sorted(found) for found in (*searched, place.blocks(query=unique))]

        expected = [f"{unique} imported", f"{unique} in both", f"{unique} served"]
        assert everywhere() == [expected] * 3
        canonical.message(database, "c1-9", "c1", "user", f"{unique} later", NOON + 3, 9)
        assert everywhere() == [sorted([*expected, f"{unique} later"])] * 3
        assert place.blocks(query=unique)[:2] == [f"{unique} later", f"{unique} imported"]
        database.execute("UPDATE messages SET content = ? WHERE id = 'c1-9'", (f"{unique} changed",))
        assert f"{unique} later" not in place.blocks(query=unique)
        assert everywhere() == [sorted([*expected, f"{unique} changed"])] * 3
        text = api.get("/api/knowledge/context", params={"q": unique, "sources": "archive"}).json()["text"]
        assert text.count(f"{unique} served") == 1


def test_why_a_database_cannot_be_read_is_in_the_log(tmp_path: Path):
    (tmp_path / "export.db").write_bytes(b"SQLite format 3\0" + b"nonsense" * 1000)
    with start_server(tmp_path / "home", CONVERSATION_DB=tmp_path / "export.db") as server, server.client() as api:
        place = Place("broken", server, api, Mcp(api))
        assert place.error(query="x") == "Error: export.db cannot be read as a canonical ChatGPT database."
        assert place.mcp.call("knowledge_search", query="x")["results"] == []
        log = server.said()
    assert "export.db cannot be read as a canonical ChatGPT database" in log
    assert "Traceback (most recent call last)" in log
