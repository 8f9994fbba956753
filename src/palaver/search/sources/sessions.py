"""Sessions of agents."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from palaver.errors import Refused
from palaver.model.library import is_unique
from palaver.model.people import Caller
from palaver.model.requests import Id, Line, Project
from palaver.model.search import FoundPassage, Loc, ResultItem
from palaver.search.sources.shapes import Conversation, Hit, SourceFilters
from palaver.store.bus import agents
from palaver.store.engines.database import Reader, Scope
from palaver.store.library.documents import agent_scope, document_scope, project_filter
from palaver.store.search import found_passages
from palaver.store.sessions import sessions


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
        return Scope(
            ("sessions",), scopes=(*own, *project_filter(self.project)), roles=(self.role,) if self.role else ()
        )


class Sessions(Conversation):
    name = "sessions"
    filters = SessionsFilters
    has_own_message_ids = False
    search_help = "Search turns of agents' sessions in your project with keywords or a question, best match first."
    get_help = "Open an agent's session: a page of its turns, or the part around one of them."
    id_field = "session_id"
    id_help = "Id from a search result (agent/session), or the plain session id if you are that agent."

    def key_of(self, hit: Hit) -> Hashable:
        return hit.native_id if hit.position and is_unique(hit.native_id) else super().key_of(hit)

    def conversation_of(self, hit: Hit) -> Hashable:
        session_id = hit.document.partition("/")[2]
        return session_id if is_unique(session_id) else super().conversation_of(hit)

    def short_id(self, item: ResultItem) -> str:
        """The session alone, if no other session has this id."""
        session_id = str(item.conversation_id).partition("/")[2]
        return session_id if is_unique(session_id) else super().short_id(item)

    def loc(self, at: FoundPassage, offset: int) -> Loc:
        return {**super().loc(at, offset), "agent_id": at.agent_id, "session_id": at.facts.get("session_id")}

    def sender_of(self, at: FoundPassage) -> str | None:
        return at.role

    def particulars(self, at: FoundPassage) -> dict[str, Any]:
        return {**super().particulars(at), "project": at.facts.get("project")}
