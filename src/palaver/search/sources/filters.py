"""The filters of each source, which become a scope."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from palaver.errors import Refused
from palaver.model.people import Caller
from palaver.model.requests import Date, Id, Line, Names, NumberId, Project, Request
from palaver.model.search import Order
from palaver.model.times import between_dates
from palaver.search.sources import tokens
from palaver.store.bus import agents
from palaver.store.engines.database import Reader, Scope
from palaver.store.library.documents import agent_scope, document_scope, project_filter
from palaver.store.search import found_passages
from palaver.store.sessions import sessions

PromptField = Literal["name", "details", "system_prompt", "user_prompt", "author", "keywords"]


class SourceFilters(Request):
    """The filters of one source."""

    def scope(self, read: Reader, caller: Caller) -> Scope | None:
        """Where to look; None if nothing can match."""
        raise NotImplementedError


class NotesFilters(SourceFilters):
    keywords: Names | None = None
    """Only notes that have all of these keywords."""

    def scope(self, read: Reader, caller: Caller) -> Scope | None:
        return Scope(("notes",), scopes=tuple(map(tokens.keyword, self.keywords or ())))


class MediaFilters(SourceFilters):
    media_types: Names | None = None
    """Only these types: video, podcast, pdf, article …"""
    date_from: Date | None = None
    """Earliest time it was made (ISO 8601)."""
    date_to: Date | None = None
    """Latest time; a date means the end of that day."""
    order_by: Order | None = None
    """relevance or recent."""

    def scope(self, read: Reader, caller: Caller) -> Scope | None:
        types = tuple(map(tokens.media_type, self.media_types or ()))
        since, until = between_dates(self.date_from, self.date_to)
        return Scope(("media",), any_of=(types,) if types else (), since=since, until=until)


class ChatsFilters(SourceFilters):
    by: Literal["both", "title", "message"] | None = None
    """Look in titles, in messages, or in both."""
    character_id: NumberId | None = None
    """Only chats with this character."""
    sender: Line | None = None
    """Only messages of this sender."""

    def scope(self, read: Reader, caller: Caller) -> Scope | None:
        by, own = self.by or "both", []
        if self.character_id is not None:
            own.append(tokens.character(self.character_id))
        if self.sender:
            own.append(tokens.sender(self.sender))
        titles = by != "message" and not self.sender
        if not titles and by == "title":
            return None
        return Scope(("chats",), bodies=by != "title", titles=titles, scopes=tuple(own))


class CharactersFilters(SourceFilters):
    tags: Names | None = None
    """Only characters that have all of these tags."""

    def scope(self, read: Reader, caller: Caller) -> Scope | None:
        return Scope(("characters",), scopes=tuple(map(tokens.keyword, self.tags or ())))


class PromptsFilters(SourceFilters):
    fields: Annotated[list[PromptField], Field(max_length=20)] | None = None
    """Look only in these fields."""

    def scope(self, read: Reader, caller: Caller) -> Scope | None:
        fields = tuple(map(tokens.field, self.fields or ()))
        return Scope(("prompts",), any_of=(fields,) if fields else ())


class BusFilters(SourceFilters):
    thread_id: Id | None = None
    """Only messages of this thread."""
    agent: Id | None = None
    """Only messages of this agent: id, slug or name."""

    def scope(self, read: Reader, caller: Caller) -> Scope | None:
        own = []
        if self.thread_id:
            document_id = found_passages.document_id_of(read, "bus", self.thread_id)
            if document_id is None:
                return None
            own.append(document_scope(document_id))
        if self.agent:
            agent = agents.named(read, self.agent)
            if agent is None:
                return None
            own.append(agent_scope(agent.id))
        return Scope(("bus",), titles=not self.agent, scopes=tuple(own))


class SessionsFilters(SourceFilters):
    agent: Id | None = None
    """Only sessions of this agent: id or slug."""
    session_id: Id | None = None
    """Only this session; needs agent, unless you are the agent."""
    role: Line | None = None
    """Only turns of this role."""
    project: Project | None = None
    """Only sessions of this project: its path, or its last component; * for all that you may read."""

    def scope(self, read: Reader, caller: Caller) -> Scope | None:
        own, agent_id = [], caller.acting_agent if caller.is_agent else None
        if self.agent:
            agent = agents.named(read, self.agent)
            if agent is None:
                return None
            agent_id = agent.id
            own.append(agent_scope(agent_id))
        if self.session_id:
            if agent_id is None:
                raise Refused("session_id: say whose session it is with agent.")
            native_id = sessions.native_id(agent_id, self.session_id)
            document_id = found_passages.document_id_of(read, "sessions", native_id)
            if document_id is None:
                return None
            own.append(document_scope(document_id))
        roles = (self.role,) if self.role else ()
        return Scope(("sessions",), scopes=(*own, *project_filter(self.project)), roles=roles)


class ArchiveFilters(SourceFilters):
    roles: Annotated[list[Literal["user", "assistant", "tool"]], Field(max_length=10)] | None = None
    """Only messages with these roles."""
    date_from: Date | None = None
    """Only what was said at this time or later (ISO 8601)."""
    date_to: Date | None = None
    """Only what was said at this time or earlier; a date alone means the end of that day."""
    project: Project | None = None
    """Only conversations of this project: its path, or its last component."""

    def scope(self, read: Reader, caller: Caller) -> Scope | None:
        roles = tuple(self.roles or ())
        since, until = between_dates(self.date_from, self.date_to)
        own = project_filter(self.project)
        return Scope(("archive",), titles=not roles, scopes=own, roles=roles, since=since, until=until)
