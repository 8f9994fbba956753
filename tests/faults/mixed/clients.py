"""Clients that do everything that palaver offers, and remember what the server acknowledged.

Each client changes only what it made itself. So it knows, for each of its things, the last acknowledged text. If the
connection breaks during a change, either text is right.
"""

from __future__ import annotations

import http.client
import random
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import httpx
from tests.archive.test_conversation_search import NOON, chat
from tests.faults.press import Client
from tests.faults.streams import Stream
from tests.helpers import PATIENCE, Mcp, Server, word
from tests.importers.shapes import as_json

WORDS = [f"{a}{b}" for a in ("har", "boat", "rope", "tide", "mast", "quay", "sail", "buoy") for b in ("bour", "er", "ing", "s", "y")]  # fmt: skip
BROKEN = (OSError, http.client.HTTPException, httpx.TransportError, ValueError)
"""How a broken connection shows itself. A half answer is no JSON."""


@dataclass
class Kept:
    """A thing that the server acknowledged. `maybe` is a text that was sent, but whose answer did not come."""

    where: str
    text: str
    maybe: str | None = None
    is_gone: bool = False
    may_be_gone: bool = False
    seq: int = 0


@dataclass
class Ledger:
    """Everything that was acknowledged to one client."""

    messages: dict[str, Kept] = field(default_factory=dict)
    threads: dict[str, Kept] = field(default_factory=dict)
    notes: dict[str, Kept] = field(default_factory=dict)
    prompts: dict[str, Kept] = field(default_factory=dict)
    turns: dict[str, Kept] = field(default_factory=dict)
    sessions: dict[str, Kept] = field(default_factory=dict)
    imports: dict[str, Kept] = field(default_factory=dict)
    uploads: dict[str, bytes] = field(default_factory=dict)
    reactions: dict[str, set[str]] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)
    """The ids of things that changed since the last check."""


class Refused(AssertionError):
    """The server answered something else than it should have."""


class MixedClient:
    """One client. `act` does one thing, chosen at random."""

    def __init__(self, server: Server, number: int, rooms: list[str], ledger: Ledger | None = None) -> None:
        self.server, self.rooms = server, rooms
        self.name = f"client {number}"
        self.agent = f"bot-{number}"
        self.ledger = ledger or Ledger()
        self.done: Counter[str] = Counter()
        self._random = random.Random()
        self._client = Client(server)
        self._web: httpx.Client | None = None
        self._mcp: Mcp | None = None

    def act(self, *names: str) -> None:
        """Do one of these things. The names are those of methods; see ACTIONS."""
        weights = [ACTIONS[name] for name in names]
        (name,) = self._random.choices(names, weights)
        getattr(self, name)()
        self.done[name] += 1

    def close(self) -> None:
        self._client.close()
        if self._web:
            self._web.close()

    # Asking

    def _ask(self, method: str, path: str, body: Any = None, expected: tuple[int, ...] = (200, 201)) -> Any:
        status, answer = self._client.ask(method, path, body)
        if status not in expected:
            raise Refused(f"{method} {path}: {status} {str(answer)[:300]}")
        return answer

    def _text(self) -> str:
        return " ".join([word(), "common", *self._random.choices(WORDS, k=self._random.randint(3, 40))])

    def _own(self, things: dict[str, Kept]) -> tuple[str, Kept] | None:
        """One of the newest own things that are still there."""
        there = [(id, kept) for id, kept in list(things.items())[-50:] if not kept.is_gone and not kept.may_be_gone]
        return self._random.choice(there) if there else None

    def _change(self, id: str, kept: Kept, text: str, method: str, path: str, body: Any) -> None:
        kept.maybe = text
        self.ledger.touched.add(id)
        self._ask(method, path, body)
        kept.text, kept.maybe = text, None

    def _delete(self, id: str, kept: Kept, path: str) -> None:
        kept.may_be_gone = True
        self.ledger.touched.add(id)
        self._ask("DELETE", path)
        kept.is_gone = True

    # Messages and threads

    def post(self) -> None:
        self._post(self._random.choice(self.rooms))

    def _post(self, room: str, **more: Any) -> str:
        text = self._text()
        body = {"author": self.name, "content": text, **more}
        self._remember_message(room, text, self._ask("POST", f"/api/threads/{room}/messages", body))
        return text

    def _remember_message(self, room: str, text: str, answer: dict[str, Any]) -> None:
        self.ledger.messages[answer["id"]] = Kept(room, text, seq=answer["seq"])
        self.ledger.touched.add(answer["id"])

    def edit(self) -> None:
        if own := self._own(self.ledger.messages):
            text = self._text()
            self._change(*own, text, "PUT", f"/api/messages/{own[0]}", {"new_content": text})

    def delete(self) -> None:
        if own := self._own(self.ledger.messages):
            self._delete(*own, f"/api/messages/{own[0]}")

    def react(self) -> None:
        if own := self._own(self.ledger.messages):
            reaction = self._random.choice(["agree", "done", "important"])
            self._ask("POST", f"/api/messages/{own[0]}/reactions", {"reaction": reaction})
            self.ledger.reactions.setdefault(own[0], set()).add(reaction)

    def read(self) -> None:
        room = self._random.choice(self.rooms)
        self._ask("GET", f"/api/threads/{room}/messages?limit=20&after_seq={self._random.randint(0, 100)}")

    def wait(self) -> None:
        room = self._random.choice(self.rooms)
        last = self._ask("GET", f"/api/threads/{room}")["current_seq"]
        self._ask("GET", f"/api/threads/{room}/wait?after_seq={last}&timeout_ms=300")

    def listen(self) -> None:
        """Open a stream, post, and hear it."""
        room = self._random.choice(self.rooms)
        with Stream(self.server, f"/api/threads/{room}/events") as stream:
            text = self._post(room)
            while True:
                frames = stream.next()
                if frames is None:
                    raise OSError("the stream has ended")
                if any(frame.type == "msg.new" and frame.data["content"] == text for frame in frames):
                    return

    def mark_read(self) -> None:
        self._ask("PUT", f"/api/threads/{self._random.choice(self.rooms)}/read-mark", {"only_forward": True})

    def catch_up(self) -> None:
        self._ask("POST", "/api/catch-up", {"max_tokens": 400})

    def open_thread(self) -> None:
        answer = self._ask("POST", "/api/threads", {"topic": f"thread {word()}"})
        self.ledger.threads[answer["id"]] = Kept("", "discuss")
        self.ledger.touched.add(answer["id"])
        self._post(answer["id"])

    def close_thread(self) -> None:
        if (own := self._own(self.ledger.threads)) and own[1].text != "closed":
            self._change(*own, "closed", "POST", f"/api/threads/{own[0]}/close", {"summary": self._text()})

    def delete_thread(self) -> None:
        if own := self._own(self.ledger.threads):
            inside = [kept for kept in self.ledger.messages.values() if kept.where == own[0]]
            for kept in inside:
                kept.may_be_gone = True
            self._delete(*own, f"/api/threads/{own[0]}")
            for kept in inside:
                kept.is_gone = True

    # Searching

    def search(self) -> None:
        self._ask("GET", f"/api/search?q={self._random.choice(WORDS)}&limit=20")

    def find_own(self) -> None:
        """What was posted is found at once."""
        own = self._own(self.ledger.messages)
        if own and own[1].maybe is None:
            found = self._client.found(own[1].text.split()[0])
            if found != [own[0]]:
                raise Refused(f"{own} is not found: {found}")

    def question(self) -> None:
        asked = f"who wrote about the {self._random.choice(WORDS)} and the {self._random.choice(WORDS)}?"
        path = self._random.choice(["/api/knowledge/search", "/api/knowledge/context"])
        self._ask("GET", f"{path}?{urlencode({'q': asked})}")

    # The library

    def note(self) -> None:
        text = self._text()
        answer = self._ask("POST", "/api/notes", {"title": f"note {word()}", "content": text, "keywords": ["boats"]})
        self.ledger.notes[str(answer["id"])] = Kept("", text)
        self.ledger.touched.add(str(answer["id"]))

    def edit_note(self) -> None:
        if own := self._own(self.ledger.notes):
            text = self._text()
            self._change(*own, text, "PUT", f"/api/notes/{own[0]}", {"content": text})

    def delete_note(self) -> None:
        if own := self._own(self.ledger.notes):
            self._delete(*own, f"/api/notes/{own[0]}")

    def prompt(self) -> None:
        text = self._text()
        answer = self._ask("POST", "/api/prompts", {"name": f"prompt {word()}", "user_prompt": text})
        self.ledger.prompts[str(answer["id"])] = Kept("", text)
        self.ledger.touched.add(str(answer["id"]))

    def edit_prompt(self) -> None:
        if own := self._own(self.ledger.prompts):
            text = self._text()
            self._change(*own, text, "PUT", f"/api/prompts/{own[0]}", {"user_prompt": text})

    # Files

    def upload(self) -> None:
        """Upload an image and post a message that shows it."""
        data = b"\x89PNG\r\n\x1a\n" + self._random.randbytes(self._random.choice([100, 5_000, 50_000]))
        status, answer = self._client.upload("/api/upload/image", "picture.png", data)
        if status != 200:
            raise Refused(f"upload: {status} {answer}")
        self.ledger.uploads[answer["url"]] = data
        self.ledger.touched.add(answer["url"])
        self._post(self._random.choice(self.rooms), images=[answer])

    def import_file(self) -> None:
        """Import two conversations and wait until that is done."""
        said = {word("conversation-"): self._text() for _ in range(2)}
        talks = [
            chat(f"talk {id}", ("user", text, NOON), ("assistant", "yes", NOON + 1), id=id) for id, text in said.items()
        ]
        status, answer = self._client.upload("/api/import", "conversations.json", as_json(talks))
        if status != 202:
            raise Refused(f"import: {status} {answer}")
        until = time.monotonic() + PATIENCE
        while answer["status"] == "running" and time.monotonic() < until:
            time.sleep(0.05)
            answer = self._ask("GET", f"/api/import/{answer['id']}")
        if (answer["status"], answer["new"]) != ("done", 2):
            raise Refused(f"import: {answer}")
        for id, text in said.items():
            self.ledger.imports[id] = Kept("", text)
            self.ledger.touched.add(id)

    # Sessions

    def turn(self) -> None:
        session = f"s-{self._random.randint(0, 4)}"
        key = f"{self.agent}/{session}"
        if (deleted := self.ledger.sessions.get(key)) and deleted.may_be_gone and not deleted.is_gone:
            return  # its deletion was not answered: new turns would make it unclear what must be there
        text = self._text()
        path = f"/api/v1/agents/{self.agent}/sessions/{session}/messages"
        answer = self._ask("POST", path, {"role": self._random.choice(["user", "assistant"]), "content": text})
        self.ledger.turns[answer["id"]] = Kept(key, text)
        self.ledger.touched.add(answer["id"])

    def read_session(self) -> None:
        if own := self._own(self.ledger.turns):
            agent, _, session = own[1].where.partition("/")
            self._ask("GET", f"/api/v1/agents/{agent}/sessions/{session}/messages?limit=20")

    def search_sessions(self) -> None:
        if self.ledger.turns:
            asked = {"agent_id": self.agent, "query": self._random.choice(WORDS), "limit": 10}
            self._ask("POST", "/api/v1/conversations/search", asked)

    def delete_session(self) -> None:
        if own := self._own(self.ledger.turns):
            key = own[1].where
            agent, _, session = key.partition("/")
            inside = [(id, kept) for id, kept in self.ledger.turns.items() if kept.where == key]
            for id, kept in inside:
                kept.may_be_gone = True
                self.ledger.touched.add(id)
            whole = self.ledger.sessions.setdefault(key, Kept("", ""))
            whole.is_gone, whole.may_be_gone = False, True
            self._ask("DELETE", f"/api/v1/agents/{agent}/sessions/{session}")
            whole.is_gone = True
            for _, kept in inside:
                kept.is_gone = True

    # Agents

    def mcp(self) -> None:
        """Post, read and search as an agent does."""
        if self._mcp is None:
            self._web = self.server.client()
            self._mcp = Mcp(self._web)
        room, text = self._random.choice(self.rooms), self._text()
        posted = self._mcp.call("msg_post", thread_id=room, content=text, author=self.name)
        self._remember_message(room, text, posted)
        self._mcp.call("msg_list", thread_id=room, limit=5)
        self._mcp.call("knowledge_search", query=self._random.choice(WORDS), limit=5)


ACTIONS = {
    "post": 30, "edit": 8, "delete": 3, "react": 6, "read": 4, "wait": 4, "listen": 4, "mark_read": 4, "catch_up": 1,
    "open_thread": 1, "close_thread": 1, "delete_thread": 0.3, "search": 4, "find_own": 4, "question": 2, "note": 4,
    "edit_note": 3, "delete_note": 1, "prompt": 0.5, "edit_prompt": 0.5, "upload": 2, "import_file": 0.7, "turn": 12,
    "read_session": 2, "search_sessions": 1, "delete_session": 0.3, "mcp": 4,
}  # fmt: skip
"""What clients do, and how often one is chosen in comparison with the others."""

CHANGES = (
    "post", "edit", "delete", "react", "open_thread", "close_thread", "note", "edit_note", "delete_note", "prompt",
    "edit_prompt", "upload", "import_file", "turn", "delete_session",
)  # fmt: skip
"""Those that store something."""


@dataclass
class Crowd:
    """Clients that act at the same time, each in its own thread, until `stop` or until the connection breaks."""

    clients: list[MixedClient]
    actions: tuple[str, ...]
    pause: float = 0.0
    errors: list[str] = field(default_factory=list)
    breaks: list[str] = field(default_factory=list)
    """Broken connections. Where nobody kills the server, they are errors too."""
    _enough: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        self._threads = [threading.Thread(target=self._go, args=(one,), daemon=True) for one in self.clients]
        for thread in self._threads:
            thread.start()

    def _go(self, client: MixedClient) -> None:
        dice = random.Random()
        self._enough.wait(dice.uniform(0, self.pause))
        while not self._enough.is_set():
            try:
                client.act(*self.actions)
            except BROKEN as problem:
                self.breaks.append(f"{client.name}: {problem!r}"[:500])
                break
            except Exception as problem:
                self.errors.append(f"{client.name}: {problem!r}"[:500])
            self._enough.wait(dice.uniform(0, 2 * self.pause))
        with suppress(*BROKEN):
            client.close()

    @property
    def done(self) -> int:
        return sum(sum(client.done.values()) for client in self.clients)

    def stop(self) -> None:
        self._enough.set()
        for thread in self._threads:
            thread.join(PATIENCE)
