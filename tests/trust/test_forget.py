"""Forgotten: after `palaver forget` no file and no row has the text, and nothing brings it back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psycopg
from tests.doors.test_cli import Terminal
from tests.helpers import Server, Thread, environment, start_server, started_with, word
from tests.importers.samples import jsonl, typed
from tests.trust.people import Key
from tests.trust.test_purge import holding

QUIET = {"CLAUDE_CONFIG_DIR": "", "CODEX_HOME": ""}


def turns_of(api: httpx.Client, agent: str, session: str) -> list[str]:
    answer = api.get(f"/api/v1/agents/{agent}/sessions/{session}/messages")
    return [turn["content"] for turn in answer.json()["turns"]] if answer.status_code == 200 else []


def record(api: httpx.Client, agent: str, session: str, *turns: tuple[str, str, str], project: str = "") -> None:
    """Record turns, each with its id, its time and its text."""
    said = [
        {"id": id, "ts": ts, "content": content, "role": "user"} | ({"project": project} if project else {})
        for id, ts, content in turns
    ]
    path = f"/api/v1/agents/{agent}/sessions/{session}/messages"
    assert api.put(path, json={"turns": said}).status_code == 200


def forget(api: httpx.Client, **given: Any) -> dict[str, Any]:
    answer = api.post("/api/forget", json=given)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def write_everything(api: httpx.Client, secret: str) -> None:
    """The text in everything that palaver stores, and something beside it that stays."""
    stays = Thread(api, f"stays {word()}")
    stays.post("something that stays")
    message = stays.post(f"told {secret.upper()}", metadata={"why": secret})
    stays.post("about", metadata={"deep": [{"er": secret}]})
    edited = stays.post(f"before {secret}")
    api.put(f"/api/messages/{edited['id']}", json={"content": "harmless now"})
    api.post(f"/api/messages/{message['id']}/reactions", json={"reaction": secret})
    first = stays.post("liked")
    api.post(f"/api/messages/{first['id']}/reactions", json={"reaction": secret})
    Thread(api, f"about {secret}").post("in a thread with the text in its topic")
    record(
        api,
        "forgetful",
        "s1",
        ("a", "2026-01-01T00:00:00Z", f"first {secret}"),
        ("b", "2026-01-02T00:00:00Z", "second"),
    )
    api.post("/api/notes", json={"title": "a note", "content": f"has {secret} in it"})
    api.post("/api/notes", json={"title": "another note", "content": "something that stays"})
    api.post("/api/prompts", json={"name": "p", "system_prompt": secret})
    chat = api.post("/api/chats", json={"title": "a chat"}).json()
    for content in (f"chat {secret}", "something that stays"):
        api.post(f"/api/chats/{chat['id']}/messages", json={"sender": "me", "content": content})
    api.post("/api/templates", json={"id": word("t"), "name": "t", "system_prompt": secret})
    api.post("/api/searches", json={"name": "s", "query": secret})
    api.get("/api/knowledge/search", params={"query": secret})


def imported(home: Path, url: str, secret: str) -> Path:
    """A session of Claude Code with the text, imported."""
    session = str(uuid4())
    place = home.parent / f"{session}.jsonl"
    place.write_bytes(jsonl(typed(f"imported {secret}", session), typed("something that stays", session)))
    assert started(home, url, "import", str(place)).returncode == 0
    return place


def started(home: Path, url: str, *args: str) -> Any:
    return started_with(environment(home, PALAVER_DATABASE_URL=url), *args)


def test_after_forgetting_a_text_no_file_and_no_row_has_it(tmp_path: Path, database_url: str):
    home, secret = tmp_path / "home", word("secret")
    with start_server(home, PALAVER_DATABASE_URL=database_url) as server, server.client() as api:
        write_everything(api, secret)
        place = imported(home, database_url, secret)
        seen = forget(api, text=secret, dry_run=True)
        assert seen["dry_run"]
        assert {item["kind"] for item in seen["items"]} >= {
            "session",
            "conversation",
            "thread",
            "note",
            "prompt",
            "chat",
            "reaction",
            "template",
        }
        assert holding(home, secret) or "postgres" in database_url
        assert forget(api, text=secret)["counts"] == seen["counts"]
        assert forget(api, text=secret)["items"] == []
        assert turns_of(api, "forgetful", "s1") == ["second"]
        assert api.get("/api/search", params={"q": "stays"}).json()["results"]
        for _ in range(2):
            assert started(home, database_url, "import", str(place)).returncode == 0
            assert started(home, database_url, "reindex").returncode == 0
        assert forget(api, text=secret, dry_run=True)["items"] == []
        found = api.get("/api/archive").json()["conversations"]
        assert [one["messages"] for one in found] == [1]
        Thread(api).post("life goes on")
    assert holding(home, secret) == []
    if "postgres" in database_url:
        assert rows_with(database_url, secret) == []
    assert started(home, database_url, "verify").returncode == 0
    assert started(home, database_url, "doctor").returncode == 0


def rows_with(url: str, secret: str) -> list[str]:
    found = []
    with psycopg.connect(url) as raw:
        tables = raw.execute(
            "SELECT table_schema, table_name FROM information_schema.tables "
            "WHERE table_schema NOT IN ('pg_catalog', 'information_schema')"
        ).fetchall()
        assert len(tables) > 20
        for schema, table in tables:
            query = f'SELECT count(*) FROM "{schema}"."{table}" t WHERE lower(t::text) LIKE %s'
            row = raw.execute(query.encode(), (f"%{secret.lower()}%",)).fetchone()
            if row and row[0]:
                found.append(f"{schema}.{table}")
    return found


def test_a_session_is_forgotten_with_its_turns_and_does_not_come_back(server: Server, api: httpx.Client):
    agent, session, secret = word("agent"), word("s"), word()
    turns = (("a", "2026-01-01T00:00:00Z", f"one {secret}"), ("b", "2026-01-02T00:00:00Z", f"two {secret}"))
    record(api, agent, session, *turns)
    record(api, agent, f"{session}.agent-1", ("c", "2026-01-01T00:00:00Z", f"by a subagent {secret}"))
    record(api, agent, f"{session}0", ("a", "2026-01-01T00:00:00Z", "another session"))
    found = forget(api, session=session)
    assert found["counts"] == {"session": 2, "turns and messages": 3}
    assert {(item["id"], item["whole"]) for item in found["items"]} == {(session, True), (f"{session}.agent-1", True)}
    record(api, agent, session, *turns)
    assert turns_of(api, agent, session) == []
    path = f"/api/v1/agents/{agent}/sessions/{session}/messages"
    told = api.post(path, json={"id": "a", "role": "user", "content": "x"})
    assert told.status_code == 400
    assert "forgotten" in told.text
    assert turns_of(api, agent, f"{session}0") == ["another session"]
    record(api, agent, session, ("later", "2199-01-01T00:00:00Z", "a new turn"))
    assert turns_of(api, agent, session) == ["a new turn"]
    assert [line for line in holding(server.home, secret) if "database" not in line and ".db" not in line] == []


def test_a_period_is_forgotten_and_can_be_narrowed(api: httpx.Client):
    one, two, project = word("one"), word("two"), f"/src/{word()}"
    days = [(f"d{n}", f"2031-03-0{n}T12:00:00Z", f"day {n}") for n in range(1, 6)]
    record(api, one, "s", *days, project=project)
    record(api, two, "s", *days)
    forget(api, since="2031-03-02", until="2031-03-03", agent=one)
    assert turns_of(api, one, "s") == ["day 1", "day 4", "day 5"]
    assert len(turns_of(api, two, "s")) == 5
    forget(api, since="2031-03-05", project=project)
    assert turns_of(api, one, "s") == ["day 1", "day 4"]
    forget(api, since="2031-03-04", until="2031-03-04T23:00:00Z")
    assert (turns_of(api, one, "s"), len(turns_of(api, two, "s"))) == (["day 1"], 4)
    forget(api, project=project)
    assert turns_of(api, one, "s") == []
    assert len(turns_of(api, two, "s")) == 4
    for missing in ({}, {"dry_run": True}, {"text": "ab"}):
        assert api.post("/api/forget", json=missing).status_code == 400
    assert api.post("/api/forget", json={"agent": word()}).status_code == 404


def test_listeners_hear_of_forgotten_messages(api: httpx.Client):
    thread, secret = Thread(api), word()
    kept, gone = thread.post("kept"), thread.post(f"gone {secret}")
    before = api.get(f"{thread.path}/messages").json()
    assert len(before["messages"] if isinstance(before, dict) else before) == 2
    forget(api, text=secret)
    assert api.get(f"/api/messages/{gone['id']}").status_code == 404
    assert api.get(f"/api/messages/{kept['id']}").status_code == 200
    assert thread.post("after")["seq"] == 3


def test_the_watcher_does_not_bring_a_forgotten_turn_back(tmp_path: Path):
    """Also without its marks, and for another agent: the file of the program still has the turn."""
    home, secret, session = tmp_path / "home", word(), str(uuid4())
    place = home / ".claude" / "projects" / "p" / f"{session}.jsonl"
    place.parent.mkdir(parents=True)
    place.write_bytes(jsonl(typed(f"wrong {secret}", session), typed("right", session)))
    terminal = Terminal(home / "palaver")
    watch = lambda *more: terminal.ok("watch", "--once", *more, HOME=str(home), **QUIET)  # noqa: E731
    watch()
    assert json.loads(terminal.ok("--json", "forget", "--text", secret, "--dry-run"))["counts"]["session"] == 1
    assert terminal.run("forget", "--text", secret).exit_code == 2, "without a terminal it needs --yes"
    assert holding(home / "palaver", secret)
    assert "1 session" in terminal.ok("forget", "--text", secret, "--yes")
    for more in ([], ["--agent", "somebody-else"]):
        for path in (home / "palaver").rglob("*.db*"):
            path.unlink()
        watch(*more)
    assert holding(home / "palaver", secret) == []
    assert "right" in terminal.ok("conversation", "search", "somebody-else", "right")


def test_lines_that_cannot_be_read_and_discarded_turns_are_forgotten_too(tmp_path: Path):
    secret, home = word(), tmp_path / "home"
    terminal = Terminal(home)
    terminal.ok("session", "append", "--agent", "bot", "--session", "s", "--role", "user", "--id", "1", f"a {secret}")
    folder = home / "sessions" / "default" / "bot"
    with (folder / "s.jsonl").open("a") as file:
        file.write(f'{{"torn": "{secret}\n')
    (folder / "s.damaged").write_text(f"not a turn: {secret}\nanother line\n")
    saved = home / "discarded" / "default" / "20260101-000000" / "bot"
    saved.mkdir(parents=True)
    for name in ("agent.json", "s.jsonl"):
        (saved / name).write_bytes((folder / name).read_bytes())
    terminal.ok("forget", "--text", secret, "--yes")
    assert holding(home, secret) == []
    assert "another line" in (folder / "s.damaged").read_text()


def test_only_an_admin_may_forget_and_only_in_the_own_workspace(guarded: Server, human: Key, admin: Key, stranger: Key):
    secret = word()
    Thread(human.api).post(secret)
    assert human.api.post("/api/forget", json={"text": secret}).status_code == 403
    assert forget(stranger.api, text=secret)["items"] == []
    assert forget(admin.api, text=secret)["counts"]["thread"] == 1
    audit = admin.api.get("/api/audit").text
    assert '"forget"' in audit
    assert secret not in audit
