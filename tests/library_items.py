"""What the tests of the library and of knowledge search keep and look for: short ways to put something in each source."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import httpx
from tests.helpers import Mcp, Thread, word
from tests.importers import test_chatgpt as chatgpt
from tests.importers.shapes import as_json

SOURCES = ["notes", "media", "chats", "characters", "prompts", "bus", "sessions", "archive"]
LIBRARY = SOURCES[:5]
SAID = ["chats", "bus", "sessions", "archive"]

GET_ID = {
    "notes": "note_id",
    "media": "media_id",
    "chats": "conversation_id",
    "characters": "character_id",
    "prompts": "prompt_id_or_name",
    "bus": "thread_id",
    "sessions": "session_id",
    "archive": "conversation_id",
}
"""What the id is called in each source's get tool."""


@dataclass
class Library:
    """A person at the REST door."""

    api: httpx.Client

    def post(self, path: str, **body: Any) -> dict[str, Any]:
        response = self.api.post(path, json=body)
        assert response.status_code == 201, response.text
        return dict(response.json())

    def note(self, content: str = "", title: str = "A note", **more: Any) -> dict[str, Any]:
        return self.post("/api/notes", title=title, content=content, **more)

    def media(self, content: str = "", title: str = "A film", media_type: str = "video", **more: Any) -> dict[str, Any]:
        return self.post("/api/media", title=title, media_type=media_type, content=content, **more)

    def chat(self, *said: str, title: str = "A chat", sender: str = "user", **more: Any) -> dict[str, Any]:
        """The chat as it was made; `messages` has what was said in it."""
        chat = self.post("/api/chats", title=title, **more)
        chat["messages"] = [self.say(chat, text, sender) for text in said]
        return chat

    def say(self, chat: dict[str, Any], content: str, sender: str = "user", **more: Any) -> dict[str, Any]:
        return self.post(f"/api/chats/{chat['id']}/messages", sender=sender, content=content, **more)

    def character(self, name: str = "Somebody", **more: Any) -> dict[str, Any]:
        return self.post("/api/characters", name=name, **more)

    def prompt(self, name: str | None = None, **more: Any) -> dict[str, Any]:
        return self.post("/api/prompts", name=name or f"prompt {word()}", **more)

    def turn(self, agent: str, content: str, session: str = "s-1", role: str = "user", **more: Any) -> dict[str, Any]:
        path = f"/api/v1/agents/{agent}/sessions/{session}/messages"
        return self.post(path, role=role, content=content, **more)

    def archived(self, *said: str, title: str = "An old talk", at: float = chatgpt.START, id: str = "") -> None:
        id = id or word("c")
        spoken = [chatgpt.message("user", text, at + n) for n, text in enumerate(said)]
        export = chatgpt.conversation(*spoken, title=title, id=id, conversation_id=id, create_time=at)
        response = self.api.post("/api/import", files={"file": ("conversations.json", as_json([export]))})
        assert response.status_code == 202, response.text
        with self.api.stream("GET", f"/api/import/{response.json()['id']}/events") as events:
            *_, last = (json.loads(line[6:]) for line in events.iter_lines() if line.startswith("data: "))
        assert last["status"] == "done", last

    def put_in(self, source: str, text: str, agent: str = "") -> None:
        """One thing of a source that says this."""
        match source:
            case "notes":
                self.note(text)
            case "media":
                self.media(text)
            case "chats":
                self.chat(text)
            case "characters":
                self.character(description=text)
            case "prompts":
                self.prompt(user_prompt=text)
            case "bus":
                Thread(self.api).post(text)
            case "sessions":
                self.turn(agent or word("agent-"), text)
            case _:
                self.archived(text)

    def title(self, source: str, title: str) -> None:
        """One thing of a source that is called this."""
        match source:
            case "notes":
                self.note("It says nothing.", title=title)
            case "media":
                self.media("It says nothing.", title=title)
            case "chats":
                self.chat("It says nothing.", title=title)
            case "characters":
                self.character(title, description="It says nothing.")
            case "prompts":
                self.prompt(title, details="It says nothing.")
            case "bus":
                Thread(self.api, title).post("It says nothing.")
            case "archive":
                self.archived("It says nothing.", title=title)
            case _:
                raise AssertionError(f"{source} have no titles")

    def search(self, query: str, **more: Any) -> dict[str, Any]:
        """What a person finds."""
        response = self.api.post("/api/knowledge/search", json={"query": query, **more})
        assert response.status_code == 200, response.text
        return dict(response.json())

    def get(self, source: str, id: Any, **retrieval: Any) -> dict[str, Any]:
        response = self.api.post("/api/knowledge/get", json={"source": source, "id": id, "retrieval": retrieval})
        assert response.status_code == 200, response.text
        return dict(response.json())


def search(mcp: Mcp, source: str, query: str, **more: Any) -> list[dict[str, Any]]:
    """What an agent finds in one source."""
    return list(mcp.call(f"{source}_search", query=query, **more)["results"])


def titles(answer: Any) -> list[str]:
    return [item["title"] for item in (answer if isinstance(answer, list) else answer["results"])]


def tokens(text: str, per_token: float = 4) -> int:
    """How many tokens a text counts as."""
    return -int(-len(text) // per_token)
