"""Evidence from memory for a prompt. It is silent unless the best passage very likely answers the prompt."""

from __future__ import annotations

from palaver.model.people import Caller
from palaver.model.sources import ALL_SOURCES
from palaver.search.context import evidence_for
from palaver.search.open import PER_TOKEN
from palaver.search.question import parse
from palaver.search.scope import readable_scopes
from palaver.store.engines.database import Reader, Scope
from palaver.store.workspaces import Workspace

LONGEST_PROMPT = 2_000
"""Only this much of a prompt is searched for. Longer ones are pasted texts."""


async def evidence(workspace: Workspace, caller: Caller, prompt: str, max_tokens: int) -> str:
    def find(read: Reader) -> str:
        question = parse(prompt[:LONGEST_PROMPT])
        sources = tuple(name for name in ALL_SOURCES if name != "sessions" or read.settings.sessions_index)
        scopes = readable_scopes(caller, [Scope(sources)])
        if not question.terms:
            return ""
        context = evidence_for(read, caller, question, scopes, int(max_tokens * PER_TOKEN))
        return f"palaver: from memory, for this prompt.\n{context.text}" if context.hits else ""

    return await workspace.read(find)
