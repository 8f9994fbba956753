"""Evidence from memory for a prompt. It is silent unless the search is confident that memory has an answer.

The limit was chosen on labelled questions: see docs/guides/ranking.md and tools/recall_limit.py.
"""

from __future__ import annotations

from palaver.model.people import Caller
from palaver.model.sources import ALL_SOURCES
from palaver.search import search
from palaver.search.ask import ask_in
from palaver.search.context import evidence_for
from palaver.search.open import PER_TOKEN
from palaver.search.question import Question, parse
from palaver.search.results import Results
from palaver.store.engines.database import Reader, Scope
from palaver.store.sessions import sessions
from palaver.store.workspaces import Workspace
from palaver.text.hook_text import FROM_MEMORY
from palaver.text.token_estimate import estimate_tokens

LONGEST_PROMPT = 2_000
"""Only the beginning of a prompt is searched for. Longer ones are pasted texts."""
FEWEST_TERMS = 3
"""Prompts with fewer terms, such as "go on", ask for nothing in memory."""
LIMIT = 0.8
"""The confidence from which evidence is shown."""


async def evidence(workspace: Workspace, caller: Caller, prompt: str, session: str, max_tokens: int) -> str:
    """The best passages for a prompt as text, or '' if none is good enough. The session that asks is left out: what was
    said in it is known."""

    def find(read: Reader) -> str:
        question = parse(prompt[:LONGEST_PROMPT])
        sources = tuple(name for name in ALL_SOURCES if name != "sessions" or read.settings.sessions_index)
        asking = sessions.scopes_of(read, session, [caller.acting_agent, caller.client.program])
        ask = ask_in(read, caller, question, [Scope(sources, without=asking)])
        if not is_answered(question, search(read, question, ask.readable, "relevance", 1)):
            return ""
        budget = int(max_tokens * PER_TOKEN)
        text = evidence_for(read, ask, budget).text
        if (tokens := estimate_tokens(text)) > max_tokens:
            text = evidence_for(read, ask, budget * max_tokens // tokens).text
        return f"{FROM_MEMORY}\n{text}" if text else ""

    return await workspace.search(caller, find)


def is_answered(question: Question, results: Results) -> bool:
    """Whether memory very likely has what the prompt asks for."""
    return len(question.terms) >= FEWEST_TERMS and (results.confidence or 0.0) >= LIMIT
