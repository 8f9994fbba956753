"""The briefing after a compaction: what this session is about, so that it can go on."""

from __future__ import annotations

import asyncio
from time import monotonic

from palaver.model.people import Agent, Caller
from palaver.operations.catchup.briefing import FENCE_TOKENS, Section, within_budget
from palaver.operations.catchup.news import readable_sessions
from palaver.operations.catchup.session_facts import SessionFacts, points_of, read_facts
from palaver.operations.sessions.steps import call_text
from palaver.store.engines.database import Reader
from palaver.store.sessions import outlines, sessions
from palaver.store.workspaces import Workspace
from palaver.text import fence, notable
from palaver.text.token_estimate import estimate_tokens

COMPACTED = "palaver: this session was compacted. This is what was recorded of it; knowledge_search finds the rest."
COMPACTION_TOKENS = 500
"""With the line that says who the agent is, the briefing has at most 600 tokens."""
WAIT_SECONDS = 1.5
"""How long to wait for the first turns of the session. The hook before the compaction records it in a process of its
own, which takes a second or two."""
BETWEEN_LOOKS = 0.1


async def compaction_briefing(
    workspace: Workspace, caller: Caller, agent: Agent | None, session: str, project: str | None
) -> str:
    """What a compacted session should know of itself: task, decisions, files, the last failing command, open points.
    '' if nothing of it is recorded."""

    def look(read: Reader) -> str:
        if not read.settings.sessions_index:
            return ""
        for place in dict.fromkeys((project, None)):
            known = read_facts(read, readable_sessions(read, caller, place))
            own = [one for one in known if one.info.session_id == session]
            if own:
                # Two programs may use the same id. The caller's own session comes first.
                facts = max(own, key=lambda one: (agent is not None and one.info.agent_id == agent.id, one.info.turns))
                return _about(read, facts, known)
        return ""

    until = monotonic() + WAIT_SECONDS
    while True:
        text = await workspace.read(look)
        if text or monotonic() >= until:
            return text
        await asyncio.sleep(BETWEEN_LOOKS)


def _about(read: Reader, facts: SessionFacts, known: list[SessionFacts]) -> str:
    place = (facts.info.agent_id, facts.info.session_id)
    points = points_of(known, sessions.closed_points(read))
    still_open = [one.text for one in points if not one.is_closed and (one.agent_id, one.session_id) == place]
    first, *latest = [notable.one_line(one, 280) for one in facts.requests] or [""]
    sections = [
        Section("The task, in the person's words:", [f"- {first}"] if first else []),
        Section("The latest request:", [f"- {one}" for one in latest]),
        Section("The last command that failed:", _failed(read, facts)),
        Section("Decided:", _lines([one.text for one in facts.decided])),
        Section("Open:", _lines(still_open)),
        Section("Files being edited:", [f"- {notable.one_line(one, 120)}" for one in facts.files[:8]], at_once=2),
    ]
    room = COMPACTION_TOKENS - FENCE_TOKENS - estimate_tokens(COMPACTED)
    body = within_budget(sections, room).text
    return f"{COMPACTED}\n{fence.fenced(body)}" if body else ""


def _lines(sentences: list[str]) -> list[str]:
    return [f"- {notable.one_line(one, 200)}" for one in sentences[:8]]


def _failed(read: Reader, facts: SessionFacts) -> list[str]:
    """The command, and the last line that it printed."""
    if facts.failing is None:
        return []
    turn, result = facts.failing.turn, facts.failing.result
    texts = outlines.texts(read, facts.document_id, {one.position for one in (turn, result) if one})
    command = notable.one_line(call_text(texts.get(turn.position, turn.start)).brief, 160)
    printed = (texts.get(result.position, "") if result else "").strip().splitlines()
    return [f"- {command}: {notable.one_line(printed[-1], 160)}" if printed else f"- {command}"]
