"""The bus: threads and their messages."""

from __future__ import annotations

from palaver.model.people import Caller
from palaver.model.requests import Id
from palaver.model.search import FoundPassage
from palaver.search.sources.shapes import Conversation, SourceFilters
from palaver.store.bus import agents
from palaver.store.engines.database import Reader, Scope
from palaver.store.library.documents import agent_scope, document_scope
from palaver.store.search import found_passages


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


class Bus(Conversation):
    name = "bus"
    filters = BusFilters
    conversation_key, index_key, first_index = "thread_id", "seq", 1
    search_help = "Search messages and threads of the bus with keywords or a question, best match first."
    get_help = "Open a thread of the bus: a page of its messages, or the part around one of them."
    id_field, id_help = "thread_id", "Id of the thread, or of a message in it."

    def sender_of(self, at: FoundPassage) -> str | None:
        # The author of an agent's message is the agent's id.
        return at.marks.get("author_name") or super().sender_of(at)
