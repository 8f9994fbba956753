"""Three workspaces, full of things that can be told apart, and everybody who may come: what the isolation tests use."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx
from tests.fixes.sessions import ended_by
from tests.helpers import Server, Thread, eventually, word
from tests.oauth.flow import Person, Program, bearer
from tests.trust.people import Key, make_workspace

from palaver.operations.operation import Operation

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32}")


@dataclass
class World:
    """One workspace. `said` stands in everything that was written here and may be asked for; `secret` stands beside it
    every time, and nobody ever asks for it: where it appears, something was shown."""

    name: str
    said: str
    secret: str
    things: dict[str, str] = field(default_factory=dict)
    marks: set[str] = field(default_factory=set)
    """Whatever belongs to this world alone."""

    @property
    def text(self) -> str:
        return f"{self.said} {self.secret}"


def fill(world: World, key: Key) -> None:
    """One of everything, and of what is numbered a little more than in the worlds before."""
    api, text, things = key.api, world.text, world.things

    def make(path: str, body: dict[str, Any], status: int = 201) -> Any:
        answer = api.post(path, json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    thread = Thread(api, f"topic {text}")
    agent = make("/api/agents", {"display_name": f"robo {text}", "slug": f"robo-{world.said}"})
    message = thread.post(f"hello {text}", author=None, metadata={"note": text})
    thread.post(f"answer {text}", author=None, reply_to_msg_id=message["id"], mentions=[f"robo {text}"])
    api.put(f"/api/messages/{message['id']}", json={"content": f"edited {text}"})
    make(f"/api/messages/{message['id']}/reactions", {"reaction": f"label {text}"})
    template = make("/api/templates", {"id": f"t-{world.said}", "name": text, "system_prompt": text})
    turns = f"/api/v1/agents/robo-{world.said}/sessions/s-{world.said}/messages"
    make(turns, {"role": "user", "content": f"turn {text}"})
    make(turns, {"role": "assistant", "content": f"TODO: rotate {world.said}"})
    for role, content in ended_by(f"uv sync --extra x{world.said}", ERROR):
        make(turns, {"role": role, "content": content})
    question = make("/api/questions", {"text": f"May I {text}?", "wait_s": 0})
    files = {"patterns": [f"src/{world.said}/**"], "project": f"p-{world.said}", "because": text}
    (claim,) = make("/api/claims", files)["claims"]
    note = make("/api/notes", {"title": f"note {text}", "content": f"written {text}", "keywords": [text]})
    for _ in range(int(things.pop("numbers"))):
        lines = [{"start": 0, "end": 2, "text": f"spoken {text}"}]
        media = make("/api/media", {"title": text, "media_type": "video", "transcript": {"segments": lines}})
        character = make("/api/characters", {"name": f"c{word()} {text}", "description": text})
    chat = make("/api/chats", {"title": f"chat {text}", "character_id": character["id"]})
    make(f"/api/chats/{chat['id']}/messages", {"sender": text[:40], "content": f"said {text}"})
    prompt = make("/api/prompts", {"name": f"prompt {text}", "system_prompt": text})
    image = api.post("/api/upload/image", files={"file": ("a.png", PNG)}).json()
    begun = api.post("/api/import", files={"file": ("conversations.json", _export(world))})
    assert begun.status_code == 202, begun.text
    eventually(lambda: api.get(f"/api/import/{begun.json()['id']}").json()["status"] == "done")
    imported = api.get("/api/archive").json()
    imported = imported["conversations"] if isinstance(imported, dict) else imported
    made = make("/api/tokens", {"name": f"temp {text}"})
    Program(key.server, name=f"application {text}").connect(Person(key.server, key))
    (application,) = api.get("/api/applications").json()
    things |= {
        "thread_id": thread.id,
        "message_id": message["id"],
        "agent_id": agent["agent_id"],
        "agent": agent["slug"],
        "template_id": template["id"],
        "session": f"s-{world.said}",
        "session_id": f"s-{world.said}",
        "point": api.get("/api/open-points").json()["points"][0]["point"],
        "fix_id": api.get("/api/fixes").json()["fixes"][0]["fix_id"],
        "question_id": question["question_id"],
        "claim_id": claim["claim_id"],
        "note_id": note["id"],
        "media_id": str(media["id"]),
        "character_id": str(character["id"]),
        "chat_id": chat["id"],
        "prompt_id": prompt["id"],
        "conversation_id": str(imported[0].get("id") or imported[0]["conversation_id"]),
        "name": image["url"].rpartition("/")[2],
        "job": begun.json()["id"],
        "token_id": made["token"]["id"],
        "application_id": application["id"],
        "search_id": make("/api/searches", {"name": f"search {text}", "query": text})["id"],
        "uri": note["uri"],
        "topic": thread.topic,
        "webhook_id": make("/api/webhooks/incoming", {"thread_id": thread.id, "name": text[:80]})["id"],
    }
    assert "secret" in made
    everything = " ".join(json.dumps(api.get(path).json()) for path in LISTS) + json.dumps(things)
    world.marks |= {world.said, world.secret, world.name, things["name"], things["token_id"], things["job"]}
    world.marks |= {things["application_id"], application["agent"]}
    world.marks |= set(_ID.findall(everything))


LISTS = (
    "/api/threads", "/api/agents", "/api/templates", "/api/v1/sessions", "/api/archive", "/api/notes", "/api/media",
    "/api/chats", "/api/characters", "/api/prompts", "/api/tokens", "/api/applications", "/api/searches", "/api/questions",
    "/api/webhooks", "/api/claims",
)  # fmt: skip


def _export(world: World) -> bytes:
    said = {"content_type": "text", "parts": [f"imported {world.text}"]}
    node = {"author": {"role": "user"}, "create_time": 1739188800.0, "content": said, "id": "n"}
    mapping: dict[str, Any] = {"n": {"id": "n", "message": node, "parent": None, "children": []}}
    conversation = {
        "id": str(uuid4()),
        "title": f"old {world.text}",
        "create_time": 1739188800.0,
        "update_time": 1739188800.0,
        "mapping": mapping,
        "current_node": "n",
    }
    return json.dumps([conversation]).encode()


# Who comes


@dataclass
class Comer:
    """Somebody at the door: with what they carry, where they belong, and how far they may go."""

    kind: str
    api: httpx.Client
    home: str | None = None
    scopes: frozenset[str] = frozenset()
    is_agent: bool = False

    @property
    def is_known(self) -> bool:
        return self.home is not None


@dataclass
class Scene:
    server: Server
    worlds: dict[str, World]
    comers: dict[str, Comer]
    _marks: dict[str | None, set[str]] = field(default_factory=dict)

    def others(self, comer: Comer) -> list[World]:
        return [world for name, world in self.worlds.items() if name != comer.home]

    def marks_of_others(self, comer: Comer) -> set[str]:
        if comer.home not in self._marks:
            own = self.worlds[comer.home].marks if comer.home else set()
            self._marks[comer.home] = {mark for world in self.others(comer) for mark in world.marks} - own
        return self._marks[comer.home]


def set_up(server: Server) -> Scene:
    names = ["default", f"north{uuid4().hex[:6]}", f"south{uuid4().hex[:6]}"]
    worlds, comers = {}, {}

    def come(kind: str, key: Key, **more: Any) -> None:
        comers[kind] = Comer(
            kind, key.api, key.token.workspace, frozenset(key.token.scopes), key.token.kind == "agent", **more
        )

    everything = ("read", "write", "admin")
    for number, name in enumerate(names):
        if number:
            make_workspace(server, name)
        admin = Key(server, name, name=word("boss"), scopes=everything)
        worlds[name] = World(name, word("said"), word("hidden"), {"numbers": str(number + 1)})
        fill(worlds[name], admin)
        come(f"admin of {number}", admin)
        come(f"agent of {number}", Key(server, name, "agent", word("agent")))
        worlds[name].marks |= {admin.token.id, admin.token.name}
    first = names[0]
    come("writer", Key(server, first, name=word("writer")))
    come("reader", Key(server, first, name=word("reader"), scopes=("read",)))
    come("reading agent", Key(server, first, "agent", word("listener"), scopes=("read",)))
    friend = Person(server, Key(server, first, name=word("friend")))
    tokens = Program(server).connect(friend, resource=server.url)
    comers["application"] = Comer(
        "application", bearer(server, tokens["access_token"]), first, frozenset({"read", "write"}), is_agent=True
    )
    in_browser = Key(server, first, name=word("browser"), scopes=everything)
    browser = server.client()
    browser.headers["x-palaver-csrf"] = browser.post("/api/session", json={"token": in_browser.secret}).json()["csrf"]
    comers["browser"] = Comer("browser", browser, first, frozenset(everything))
    gone, late = Key(server, first, scopes=everything), Key(server, first, expires_in=timedelta(milliseconds=1))
    gone.revoke()
    wrong = {"authorization": "Bearer plv_" + "0" * 38}
    comers |= {
        "nobody": Comer("nobody", server.client()),
        "forger": Comer("forger", server.client(headers=wrong)),
        "revoked": Comer("revoked", gone.api),
        "run out": Comer("run out", late.api),
        "stale cookie": Comer("stale cookie", server.client(cookies={f"palaver_{server.port}": "pls_" + "x" * 43})),
    }
    worlds["default"].marks.discard("default")  # a word that stands everywhere
    return Scene(server, worlds, comers)


# What they ask for

ERROR = "Error: no such thing in the index"
"""In each world, an agent ended it."""

CONSTANT: dict[str, Any] = {
    "edit": "a checksum",
    "role": "user",
    "reaction": "agree",
    "media_type": "video",
    "target_url": "",
    "sender": "me",
    "timeout_ms": 0,
    "wait_s": 0,
    "source": "notes",
    "kind": "deletion",
    "confirm": True,
    "dedupe": False,
    "url": "http://127.0.0.1:9/x",
    "keep_unread": True,
    "event": "pre-compact",
    "client": "codex",
    "input": {"command": "ls"},
    "seconds": 0,
    "turns": [],
    "operator": "from",
    "path": "src/a.py",
    "patterns": ["src/a.py"],
    "line": "x = 1",
    "error": ERROR,
}
NAMED = {"content", "answer", "title", "name", "topic", "thread_name", "summary", "display_name", "tool"}
"""Texts a caller gives: always their own, or the test itself would carry them over."""

REFERS = {
    "thread_id", "message_id", "agent_id", "agent", "template_id", "session", "session_id", "note_id", "media_id",
    "character_id", "prompt_id", "conversation_id", "token_id", "application_id", "uri", "reply_to_msg_id", "query", "id",
    "prompt_id_or_name", "for_agent", "search_id", "point", "question_id", "webhook_id",
    "fix_id", "claim_id",
}  # fmt: skip

CREATES = {
    "connect", "create_thread", "register_agent", "create_template", "record_turn", "record_own_turn", "merge_turns",
    "create_note", "create_media", "create_chat", "create_character", "create_prompt", "create_token", "save_search",
    "ask_human", "add_webhook", "claim",
}  # fmt: skip


def value(world: World, operation: Operation | None, name: str) -> str:
    """What a reference of this name is called in a world."""
    where = operation.name if operation else ""
    if name == "query":
        return world.said
    if name == "conversation_id" and "chat" in where:
        return world.things["chat_id"]
    if name in ("prompt_id_or_name",):
        return world.things["prompt_id"]
    if name == "reply_to_msg_id":
        return world.things["message_id"]
    if name == "for_agent":
        return world.things["agent"]
    if name == "id":
        return world.things["uri"] if where == "fetch" else world.things["note_id"]
    return world.things[name]


def given(operation: Operation, world: World) -> dict[str, Any]:
    """Everything an operation must be told, and every reference it may be told, as it is called in this world."""
    asked: dict[str, Any] = {}
    for name, about in operation.request.model_fields.items():
        is_new = operation.name in CREATES
        if name in REFERS and (about.is_required() or not is_new):
            asked[name] = word("own") if is_new else value(world, operation, name)
        elif name in CONSTANT:
            asked[name] = CONSTANT[name]
        elif name == "files" and about.is_required():
            asked[name] = [{"path": f"src/{word('own')}.py"}]  # who edits a file again is told of the first one
        elif about.is_required():
            assert name in NAMED, f"{operation.name} asks for '{name}': say in worlds.py what to give"
            asked[name] = word("own")
    if operation.name == "get_knowledge":
        del asked["uri"]
    if operation.name == "add_webhook":
        asked |= {"target_url": "http://127.0.0.1:9/x", "event": ["msg.new"]}
    if operation.name == "add_incoming_webhook":
        asked["kind"] = "form"
    return asked


def absent(world: World) -> World:
    """A world nobody has made: its things are called like others, and are nowhere."""

    def like(thing: str) -> str:
        if thing.isdecimal() and len(thing) < 8:
            return "987654"
        for mark in (world.said, world.secret):
            thing = thing.replace(mark, mark[:3] + "0" * len(mark[3:]))
        return re.sub(r"[0-9a-f]{6,}", lambda found: "0" * len(found[0]), thing)

    nowhere = World(like(world.name), like(world.said), like(world.secret))
    nowhere.things = {name: like(thing) for name, thing in world.things.items()}
    return nowhere


def in_path(path: str, asked: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The address with its parts filled in, and what is left over."""
    used: set[str] = set()

    def put(found: re.Match[str]) -> str:
        used.add(found[1])
        return quote(str(asked[found[1]]), safe="")

    filled = re.sub(r"{(\w+)(?::\w+)?}", put, path)
    return filled, {name: given for name, given in asked.items() if name not in used}
