"""What narrows a search in each source."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from palaver.errors import Refused, Unavailable
from palaver.model.people import Caller
from palaver.model.requests import AnyId, Ask, Date, Id, Line, Project
from palaver.model.search import SourceName
from palaver.model.times import parse
from palaver.search import results
from palaver.search.results import Order
from palaver.search.sources import scopes
from palaver.store.bus import agents
from palaver.store.engines.database import Reader, Scope
from palaver.store.library.documents import agent_scope, document_scope, project_scope
from palaver.store.search import found_passages
from palaver.store.sessions import sessions

PromptField = Literal["name", "details", "system_prompt", "user_prompt", "author", "keywords"]
HAVE_PROJECTS: tuple[SourceName, ...] = ("sessions", "archive")
Names = Annotated[list[Line], Field(max_length=200)]


class NotesFilters(Ask):
    keywords: Names | None = None
    """Only notes that have all of these keywords."""

    def slice(self, read: Reader, caller: Caller) -> Scope | None:
        return Scope(("notes",), scopes=tuple(scopes.keyword(keyword) for keyword in self.keywords or ()))


class MediaFilters(Ask):
    media_types: Names | None = None
    """Only media of one of these types: video, audio, podcast, pdf, epub, html, article …"""
    date_from: Date | None = None
    """Only what was made at this time or later (ISO 8601)."""
    date_to: Date | None = None
    """Only what was made at this time or earlier; a date alone means the end of that day."""
    order_by: Order | None = None
    """relevance, or recent: the newest first."""

    def slice(self, read: Reader, caller: Caller) -> Scope | None:
        types = tuple(scopes.media_type(name) for name in self.media_types or ())
        since, until = between_dates(self.date_from, self.date_to)
        return Scope(("media",), any_of=(types,) if types else (), since=since, until=until)


class ChatsFilters(Ask):
    by: Literal["both", "title", "message"] | None = None
    """Look in titles, in messages, or in both."""
    character_id: AnyId | None = None
    """Only chats with this character."""
    sender: Line | None = None
    """Only messages of this sender."""

    def slice(self, read: Reader, caller: Caller) -> Scope | None:
        by, own = self.by or "both", []
        if self.character_id is not None:
            own.append(scopes.character(self.character_id))
        if self.sender:
            own.append(scopes.sender(self.sender))
        titles = by != "message" and not self.sender
        if not titles and by == "title":
            return None
        return Scope(("chats",), bodies=by != "title", titles=titles, scopes=tuple(own))


class CharactersFilters(Ask):
    tags: Names | None = None
    """Only characters that have all of these tags."""

    def slice(self, read: Reader, caller: Caller) -> Scope | None:
        return Scope(("characters",), scopes=tuple(scopes.keyword(tag) for tag in self.tags or ()))


class PromptsFilters(Ask):
    fields: Annotated[list[PromptField], Field(max_length=20)] | None = None
    """Look only in these fields."""

    def slice(self, read: Reader, caller: Caller) -> Scope | None:
        fields = tuple(scopes.field(name) for name in self.fields or ())
        return Scope(("prompts",), any_of=(fields,) if fields else ())


class BusFilters(Ask):
    thread_id: Id | None = None
    """Only messages of this thread."""
    agent: Id | None = None
    """Only messages of this agent: id, slug or name."""

    def slice(self, read: Reader, caller: Caller) -> Scope | None:
        own = []
        if self.thread_id:
            found = found_passages.document_id_of(read, "bus", self.thread_id)
            if found is None:
                return None
            own.append(document_scope(found))
        if self.agent:
            agent = agents.named(read, self.agent)
            if agent is None:
                return None
            own.append(agent_scope(agent.id))
        return Scope(("bus",), titles=not self.agent, scopes=tuple(own))


class SessionsFilters(Ask):
    agent: Id | None = None
    """Only sessions of this agent: id or slug."""
    session_id: Id | None = None
    """Only this session; needs agent, unless you are the agent."""
    role: Line | None = None
    """Only turns of this role."""
    project: Project | None = None
    """Only sessions of this project: its path, or its last component."""

    def slice(self, read: Reader, caller: Caller) -> Scope | None:
        own, agent_id = [], caller.acting_agent if caller.is_agent else None
        if self.agent:
            agent = agents.named(read, self.agent)
            if agent is None:
                return None
            agent_id = agent.id
        if agent_id:
            own.append(agent_scope(agent_id))
        if self.session_id:
            if agent_id is None:
                raise Refused("session_id: say whose session it is with agent.")
            native_id = sessions.native_id(agent_id, self.session_id)
            found = found_passages.document_id_of(read, "sessions", native_id)
            if found is None:
                return None
            own.append(document_scope(found))
        if self.project:
            own.append(project_scope(self.project))
        return Scope(("sessions",), scopes=tuple(own), roles=(self.role,) if self.role else ())


class ArchiveFilters(Ask):
    roles: Annotated[list[Literal["user", "assistant", "tool"]], Field(max_length=10)] | None = None
    """Only messages with these roles."""
    date_from: Date | None = None
    """Only what was said at this time or later (ISO 8601)."""
    date_to: Date | None = None
    """Only what was said at this time or earlier; a date alone means the end of that day."""
    project: Project | None = None
    """Only conversations of this project: its path, or its last component."""

    def slice(self, read: Reader, caller: Caller) -> Scope | None:
        roles = tuple(self.roles or ())
        since, until = between_dates(self.date_from, self.date_to)
        own = (project_scope(self.project),) if self.project else ()
        return Scope(("archive",), titles=not roles, scopes=own, roles=roles, since=since, until=until)


def between_dates(date_from: str | None, date_to: str | None) -> tuple[int, int]:
    since = parse(date_from) if date_from else None
    until = parse(date_to, end_of_day=True) if date_to else None
    return results.between(since, until)


class Filters(Ask):
    """What narrows the search in each source."""

    notes: NotesFilters | None = None
    media: MediaFilters | None = None
    chats: ChatsFilters | None = None
    characters: CharactersFilters | None = None
    prompts: PromptsFilters | None = None
    bus: BusFilters | None = None
    sessions: SessionsFilters | None = None
    archive: ArchiveFilters | None = None


SESSIONS_OFF = "The index of sessions is switched off (PALAVER_SESSIONS_INDEX)."


def must_be_on(read: Reader) -> None:
    if not read.settings.sessions_index:
        raise Unavailable(SESSIONS_OFF)
